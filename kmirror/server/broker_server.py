"""The broker role of a node, assembled and run in Kafka's order (Kafka's `BrokerServer`).

    log dirs locked ─> listener bound ─> metadata caught up ─> logs loaded ─> registered ─> publishers installed ─> unfenced

The listener is bound first, because its port is part of the registration. Requests that arrive
before the broker has installed its publishers wait. The registration begins at once but may have to
wait for the session of a dead incarnation to end. The logs are recovered meanwhile (Kafka recovers
them after the registration), and are checked for strays once more after the registration. On the
way down the broker leaves in good order (the controller moves leaderships away), stops taking
requests, ends what waits, closes the logs and writes the clean-shutdown marker.

Every wait of the start has an end: the registration that of initial.broker.registration.timeout.ms,
the whole that of server.max.startup.time.ms (none by default, as in Kafka). The error names what the
start waited for, and what is known of the reason.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.health import Health
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, MIRROR_STATE_TOPIC_NAME, SHARE_GROUP_STATE_TOPIC_NAME
from kmirror.coordinator.common.replica_log import ReplicaManagerLog
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.metadata.authorizer.acl_publisher import AclPublisher
from kmirror.metadata.registrations import BrokerRegistration
from kmirror.metadata.topic_configs import MAX_LONG
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.network.client import NetworkClient
from kmirror.network.request_context import Answer, CloseType, RequestContext
from kmirror.replica.alter_partition import AlterPartitionManager
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.log_scheduler import RuntimeLogScheduler
from kmirror.server.assignments_manager import AssignmentsManager
from kmirror.server.authorizer import create_authorizer
from kmirror.server.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleManager, BrokerState
from kmirror.server.broker_listeners import BrokerListeners
from kmirror.server.broker_metadata import BrokerMetadata
from kmirror.server.broker_metadata_publisher import BrokerMetadataPublisher
from kmirror.server.broker_metrics import (
    flush_listener,
    register_cleaner,
    register_metadata,
    register_network,
    register_replication,
    register_request_queues,
)
from kmirror.server.client_metrics_manager import client_metrics_manager
from kmirror.server.dynamic_broker_config import (
    DynamicBrokerConfig,
    Reconfigurable,
    reconfigure_fetchers,
    reconfigure_logs,
)
from kmirror.server.inter_broker_channel import InterBrokerChannel
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.leader_connections import LeaderConnections
from kmirror.server.listener_security import controller_security, inter_broker_security
from kmirror.server.log_cleaner_task import LogCleanerTasks
from kmirror.server.metadata_cache import MetadataCache
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.server.offline_log_dirs import OfflineLogDirs
from kmirror.server.quota.quota_managers import DynamicClientQuotaPublisher, QuotaManagers
from kmirror.server.request_metrics import RequestChannelMetrics
from kmirror.server.room_settings import group_config, mirror_config
from kmirror.server.share_groups import ShareGroups
from kmirror.server.transactions import Transactions
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_loading import run_some

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 10_000
SHUTDOWN_GRACE_MS = 100
_NOT_LOOKED_AT = ("leaders and replicas of partitions", "mirrors: /health/mirrors", "nodes other than this one")
_log = logging.getLogger(__name__)


class BrokerServer:
    """Owns every part of the broker role: logs, replicas, coordinators, mirrors, channels,
    listeners.

    `start` returns when the broker is unfenced and serves; `stop` is a controlled shutdown, `kill`
    is not.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: KafkaConfig,
        cluster_id: str,
        *,
        controller_host: str,
        controller_port: int,
        metrics: MetricsRegistry,
        quotas: QuotaManagers,
        request_metrics: RequestChannelMetrics,
        on_fatal: Callable[[str], None],
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
    ) -> None:
        self._runtime = runtime
        self._quotas = quotas
        self._config = config
        self._cluster_id = cluster_id
        self._scope = TaskScope(runtime, f"broker-{config.node_id}")
        self._metadata = BrokerMetadata(runtime, config, cluster_id, on_fatal=on_fatal)
        self._scheduler = RuntimeLogScheduler(runtime)
        self._client = NetworkClient(runtime, f"broker-{config.node_id}-to-controller", security=controller_security(config))
        self._security = inter_broker_security(config)
        self._channel = NodeToControllerChannel(
            runtime, self._client, controller_host, controller_port, request_timeout_ms=config.request_timeout_ms
        )
        self.metadata_cache = MetadataCache(lambda: self._metadata.loader.kraft_version)
        self._log_dirs = OfflineLogDirs(runtime, config, on_fatal=on_fatal, is_closed=lambda: self._scope.closed)
        self.log_manager = self._create_log_manager(metrics)
        self._alter_partition_manager = AlterPartitionManager(runtime, config.node_id, self._channel.send, self._metadata.broker_epoch_of)
        self.replica_manager = ReplicaManager(
            config.replica_config(), runtime, self.log_manager, metrics, alter_partition_manager=self._alter_partition_manager
        )
        leaders = LeaderConnections(runtime, config, self._metadata, self._security)
        self._replica_fetchers = ReplicaFetcherManager(runtime, self.replica_manager, leaders.connect, self._metadata.address_of)
        self.replica_manager.set_fetcher_manager(self._replica_fetchers)
        self._assignments = AssignmentsManager(
            runtime, config.node_id, self._channel.send, lambda: self._metadata.broker_epoch_of(config.node_id)
        )
        self.replica_manager.set_assignment_listener(self._assignments.on_assignment)
        self.group_coordinator = GroupCoordinator(
            runtime, group_config(config), ReplicaManagerLog(runtime, self.replica_manager), config.node_id, metrics
        )
        self.transactions = self._create_transactions(metrics)
        self._broker_client = NetworkClient(runtime, f"broker-{config.node_id}-to-brokers", security=self._security)
        self.share_groups = self._create_share_groups(metrics)
        self.mirror = self._create_mirror(safeguards)
        self._authorizer = create_authorizer(config, metrics, "broker")
        self.apis = self._create_apis(metrics, request_metrics)
        self._log_dirs.watch(self.replica_manager)
        self._ready: asyncio.Future[None] = runtime.create_future()
        self._listeners = self._create_listeners(metrics)
        self._lifecycle: BrokerLifecycleManager | None = None
        self._waits_for = "its listeners"
        self._register_metrics(metrics)

    def _create_log_manager(self, metrics: MetricsRegistry) -> LogManager:
        return LogManager(
            self._config.log_manager_config(),
            files=self._runtime.files,
            clock=self._runtime.clock,
            random=self._runtime.random,
            scheduler=self._scheduler,
            default_log_config=self._config.default_log_config(),
            topic_config=self._metadata.topic_config,
            on_log_dir_failure=self._log_dirs.on_failure,
            on_flush=flush_listener(metrics),
        )

    def _create_transactions(self, metrics: MetricsRegistry) -> Transactions:
        return Transactions(
            self._runtime,
            self._config,
            log=ReplicaManagerLog(self._runtime, self.replica_manager),
            image=lambda: self.metadata_cache.image,
            generate_producer_id=lambda: self.apis.producer_ids.generate(),
            marker_client=NetworkClient(self._runtime, f"broker-{self._config.node_id}-transaction-markers", security=self._security),
            verification_client=NetworkClient(
                self._runtime, f"broker-{self._config.node_id}-add-partitions-to-txn", security=self._security
            ),
            metrics=metrics,
        )

    def _create_share_groups(self, metrics: MetricsRegistry) -> ShareGroups:
        return ShareGroups(
            self._runtime,
            self._config,
            log=ReplicaManagerLog(self._runtime, self.replica_manager),
            image=lambda: self.metadata_cache.image,
            replica_manager=self.replica_manager,
            group_coordinator=self.group_coordinator,
            client=NetworkClient(self._runtime, f"broker-{self._config.node_id}-share-groups", security=self._security),
            create_topic=lambda: self.apis.auto_topic_creation.create_topics([SHARE_GROUP_STATE_TOPIC_NAME]),
            metrics=metrics,
        )

    def _create_mirror(self, safeguards: MirrorSafeguards) -> MirrorManager:
        return MirrorManager(
            self._runtime,
            mirror_config(self._config),
            cluster_id=self._cluster_id,
            replica_manager=self.replica_manager,
            log=ReplicaManagerLog(self._runtime, self.replica_manager),
            controller=self._channel,
            brokers=InterBrokerChannel(
                self._broker_client,
                lambda: self.metadata_cache.image,
                listener_name=self._config.inter_broker_listener_name,
                request_timeout_ms=self._config.request_timeout_ms,
            ),
            group_coordinator=self.group_coordinator,
            share_groups=self.share_groups.offsets,
            create_group_metadata_topic=lambda: self.apis.auto_topic_creation.create_topics([GROUP_METADATA_TOPIC_NAME]),
            create_state_topic=lambda: self.apis.auto_topic_creation.create_topics([MIRROR_STATE_TOPIC_NAME]),
            safeguards=safeguards,
        )

    def _create_apis(self, metrics: MetricsRegistry, request_metrics: RequestChannelMetrics) -> KafkaApis:
        return KafkaApis(
            runtime=self._runtime,
            authorizer=self._authorizer,
            config=self._config,
            cluster_id=self._cluster_id,
            replica_manager=self.replica_manager,
            metadata_cache=self.metadata_cache,
            controller=self._channel,
            metrics=metrics,
            group_coordinator=self.group_coordinator,
            transaction_coordinator=self.transactions.coordinator,
            add_partitions_to_txn=self.transactions.add_partitions_to_txn,
            share_coordinator=self.share_groups.coordinator,
            mirror=self.mirror,
            client_metrics=client_metrics_manager(self._runtime, self._config, metrics),
            quotas=self._quotas,
            request_metrics=request_metrics,
        )

    def _create_listeners(self, metrics: MetricsRegistry) -> BrokerListeners:
        client_metrics = self.apis.client_metrics
        return BrokerListeners(
            self._runtime,
            self._config,
            metrics,
            self._handle,
            connection_quotas=self._quotas.connections,
            on_disconnect=None if client_metrics is None else client_metrics.on_disconnect,
            images=lambda: self._metadata.image,
            ready=self._ready,
        )

    def _register_metrics(self, metrics: MetricsRegistry) -> None:
        register_network(metrics, self._listeners.sockets)
        register_replication(metrics, self._runtime.clock, self.replica_manager, self.log_manager, self._replica_fetchers)
        register_metadata(
            metrics,
            self._runtime.clock,
            self._metadata.loader,
            self._metadata.errors,
            unstable=self._config.unstable_feature_versions_enable,
        )
        self.mirror.register_metrics(metrics)
        register_cleaner(metrics, self._runtime.clock, self.log_manager)
        lifecycle_state = MetricName("kafka.server", "KafkaServer", "BrokerState")
        metrics.gauge(lifecycle_state, lambda: 0 if self._lifecycle is None else self._lifecycle.state.code)
        register_request_queues(metrics, self._listeners.sockets)
        assignments = MetricName("kafka.server", "AssignmentsManager", "QueuedReplicaToDirAssignments")
        metrics.gauge(assignments, lambda: self._assignments.pending_count)
        snapshots = MetricName("kafka.server", "MetadataLoader", "HandleLoadSnapshotCount")
        metrics.gauge(snapshots, lambda: self._metadata.loader.snapshots_loaded)

    def port(self, listener_name: str) -> int:
        """Returns the bound port of a listener."""
        return self._listeners.port(listener_name)

    # -- life
    # -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the broker serves. KmirrorError when a wait of the start is over in vain."""
        limit_ms = self._config.get_int("server.max.startup.time.ms")
        timer = self._runtime.call_later_ms(limit_ms, lambda: self._give_up_starting(limit_ms)) if limit_ms < MAX_LONG else None
        try:
            await self._start()
        finally:
            if timer is not None:
                timer.cancel()

    def _give_up_starting(self, limit_ms: int) -> None:
        """Ends the start, whatever it waits for."""
        lifecycle = self._lifecycle
        reasons = [self._waiting_text(), self._channel.problem, self._metadata.problem, None if lifecycle is None else lifecycle.problem]
        told = "; ".join(dict.fromkeys(reason for reason in reasons if reason is not None))
        error = KmirrorError(f"broker {self._config.node_id} did not start within {limit_ms} ms (server.max.startup.time.ms): {told}")
        self._metadata.progress.fail(error)
        for future in () if lifecycle is None else (lifecycle.registered, lifecycle.unfenced):
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen: the start awaits only one of the two

    def _waiting_text(self) -> str:
        return f"it waits for {self._waits_for}"

    async def _start(self) -> None:
        previous_epoch = self.log_manager.read_broker_epoch_from_clean_shutdown_files()
        await self._listeners.start()
        lifecycle = BrokerLifecycleManager(
            self._runtime,
            self._channel,
            BrokerIdentity.of(
                self._config,
                self._cluster_id,
                bound_port=self.port,
                log_dirs=self.log_manager.directory_ids(),
                previous_broker_epoch=-1 if previous_epoch is None else previous_epoch,
            ),
            heartbeat_interval_ms=self._config.get_int("broker.heartbeat.interval.ms"),
            metadata_offset=lambda: self._metadata.loader.next_offset - 1,
            offline_log_dirs=self._log_dirs.directory_ids,
            registration_timeout_ms=self._config.get_int("initial.broker.registration.timeout.ms"),
        )
        self._lifecycle = self._log_dirs.lifecycle = lifecycle
        lifecycle.registered.add_done_callback(self._on_registration)
        self._scope.spawn(lifecycle.run(), name="lifecycle")
        self._metadata.start_fetching(self._channel, self.apis.metrics)
        self._waits_for = "the metadata of the controller"
        await self._metadata.progress.wait(lambda next_offset, high_watermark: 0 <= high_watermark <= next_offset)
        self._waits_for = "its logs, which are being loaded"
        steps = self.log_manager.load_steps(self._metadata.is_stray)
        self._log_dirs.is_loading = True
        while await self._runtime.run_blocking(lambda: run_some(steps)):
            pass
        self._log_dirs.is_loading = False
        self._waits_for = "its registration at the controller"
        await lifecycle.registered
        self._waits_for = "its own registration in the metadata of the controller"
        self.apis.producer_ids.broker_epoch = lifecycle.broker_epoch
        await self._metadata.progress.wait(lambda next_offset, high_watermark: next_offset > lifecycle.broker_epoch)
        self.log_manager.set_strays_aside(self._metadata.is_stray)
        self.log_manager.start_tasks()
        reconfigurables: list[Reconfigurable] = [reconfigure_logs(self.log_manager)]
        if self.log_manager.cleaner is not None:
            cleaners = LogCleanerTasks(self._runtime, self._scope, self.log_manager.cleaner)
            cleaners.resize()
            reconfigurables.append(lambda before, after: cleaners.resize())
        self.replica_manager.start()
        if self._authorizer is not None:
            self._metadata.loader.install_publisher(AclPublisher(self._authorizer))
        self.dynamic_config = DynamicBrokerConfig(
            self._config,
            *reconfigurables,
            *self._listeners.reconfigurables(),
            reconfigure_fetchers(self.replica_manager, self._replica_fetchers),
            lambda before, after: self.group_coordinator.reconfigure(group_config(after)),
            lambda before, after: self.transactions.reconfigure(after),
        )
        self._metadata.loader.install_publisher(self.dynamic_config)
        self._metadata.loader.install_publisher(DynamicClientQuotaPublisher(self._config, self._quotas))
        if self.apis.client_metrics is not None:
            self._metadata.loader.install_publisher(self.apis.client_metrics)
        self._metadata.loader.install_publisher(
            BrokerMetadataPublisher(
                self.metadata_cache,
                self.replica_manager,
                self.group_coordinator,
                self.transactions.coordinator,
                self.share_groups.coordinator,
                self.mirror,
            )
        )
        self.transactions.coordinator.start()
        self.share_groups.coordinator.start()
        lifecycle.set_ready_to_unfence()
        self._waits_for = "the controller to unfence it"
        await lifecycle.unfenced
        self._ready.set_result(None)
        _log.info("[BrokerServer id=%d] started", self._config.node_id)

    def _on_registration(self, registered: asyncio.Future[None]) -> None:
        """Ends the start, whatever it waits for, if the registration was refused for good."""
        error = None if registered.cancelled() else registered.exception()
        if error is not None:
            self._metadata.progress.fail(error)

    def health(self) -> Health:
        """Returns whether this broker should get clients."""
        lifecycle, image = self._lifecycle, self._metadata.image
        if lifecycle is None or not self._ready.done():
            return Health([f"the broker is starting: {self._waiting_text()}"], ["the start of the broker"], _NOT_LOOKED_AT)
        reasons: list[str] = []
        if lifecycle.may_shut_down.done() or lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            reasons.append("the broker is shutting down")
        registration = image.cluster.broker(self._config.node_id)
        if registration is None or registration.fenced:
            reasons.append("the broker is fenced" if registration is not None else "the broker is not registered")
        if self._metadata.records_behind:
            reasons.append(f"the metadata is {self._metadata.records_behind} records behind the controller")
        unheard_ms = lifecycle.unheard_ms
        if unheard_ms > self._config.get_int("broker.session.timeout.ms"):
            reasons.append(f"the controller has not been heard of for {unheard_ms // 1000} s: the metadata may be old")
        offline = self._log_dirs.directory_ids()
        reasons += [f"log directory {directory} is offline" for directory in offline]
        looked_at = [
            f"the broker is {lifecycle.state.value}, by its metadata {_said_of(registration)}",
            f"the controller took its last heartbeat {unheard_ms} ms ago",
            f"the metadata is applied up to offset {self._metadata.loader.next_offset}",
            f"{len(self._config.log_dirs)} log directories, {len(offline)} of them offline",
        ]
        return Health(reasons, looked_at, _NOT_LOOKED_AT)

    async def stop(self) -> None:
        """Shuts down in a controlled way and closes the data cleanly."""
        if self._lifecycle is not None and self._config.get_bool("controlled.shutdown.enable"):
            self._lifecycle.begin_controlled_shutdown()
            timer = self._runtime.call_later_ms(CONTROLLED_SHUTDOWN_TIMEOUT_MS, self._give_up_waiting)
            await self._lifecycle.may_shut_down
            timer.cancel()
        await self._listeners.stop(grace_ms=SHUTDOWN_GRACE_MS)
        await self._metadata.stop_fetching()
        await self._scope.cancel()
        await self.mirror.shutdown()
        self._broker_client.close()
        await self.transactions.shutdown()
        await self.share_groups.shutdown()
        await self.group_coordinator.shutdown()
        await self._replica_fetchers.shutdown()
        self._alter_partition_manager.shutdown()
        self._assignments.shutdown()
        await self.replica_manager.shutdown()
        self._scheduler.close()
        self.log_manager.shutdown(-1 if self._lifecycle is None else self._lifecycle.broker_epoch)
        self._client.close()

    def _give_up_waiting(self) -> None:
        assert self._lifecycle is not None, "a shutdown timer without a lifecycle"
        if not self._lifecycle.may_shut_down.done():
            _log.warning(
                "The controller did not agree to the shutdown of broker %d in time; shutting down without its agreement",
                self._config.node_id,
            )
            self._lifecycle.may_shut_down.set_result(None)

    async def kill(self) -> None:
        """Drops everything at once: nothing is flushed, and no checkpoint or marker is written."""
        self._scheduler.close()
        await self._listeners.stop()
        await self._metadata.stop_fetching()
        await self._scope.cancel()
        self._alter_partition_manager.shutdown()
        self._assignments.shutdown()
        self.replica_manager.kill()
        await self._replica_fetchers.shutdown()
        await self.mirror.shutdown()
        self._broker_client.close()
        await self.transactions.shutdown()
        await self.share_groups.shutdown()
        await self.group_coordinator.shutdown()
        self.log_manager.kill()
        self._client.close()

    # -- requests
    # ---------------------------------------------------------------------------------------------------

    async def _handle(self, context: RequestContext) -> Answer | CloseType:
        if not self._ready.done():
            await asyncio.shield(self._ready)
        if self._lifecycle is None:
            raise ApiException(Errors.BROKER_NOT_AVAILABLE)
        return await self.apis.handle(context)


def _said_of(registration: BrokerRegistration | None) -> str:
    if registration is None:
        return "not registered"
    return "fenced" if registration.fenced else "not fenced"
