"""The broker role of a node, put together and run in Kafka's order (Kafka's `BrokerServer`).

    log dirs locked ─> listener bound ─> metadata caught up ─> logs loaded ─> registered ─> publishers installed ─> unfenced

The listener is bound first, because its port is part of the registration; requests that come before the broker has
installed its publishers wait. The registration begins at once but may have to wait for the session of an incarnation that
died; the logs are recovered meanwhile (Kafka begins with them when it is registered), and checked for strays once more after it. On the way down: leave in good order (the controller moves leaderships away), stop taking
requests, end what waits, then close the logs and write the clean-shutdown marker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, MIRROR_STATE_TOPIC_NAME, SHARE_GROUP_STATE_TOPIC_NAME
from kmirror.coordinator.common.replica_log import ReplicaManagerLog
from kmirror.coordinator.group.group_coordinator import GroupCoordinator
from kmirror.metadata.authorizer.acl_publisher import AclPublisher
from kmirror.metadata.features import supported_features
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.registrations import Endpoint
from kmirror.metadata.replay_error import MetadataReplayError
from kmirror.mirror.channels import InterBrokerChannel
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.network.client import NetworkClient
from kmirror.network.request_context import Answer, CloseType, RequestContext
from kmirror.network.socket_server import SocketServer
from kmirror.replica.alter_partition import AlterPartitionManager
from kmirror.replica.broker_leader_end_point import BrokerLeaderEndPoint
from kmirror.replica.leader_end_point import LeaderEndPoint
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.log_scheduler import RuntimeLogScheduler
from kmirror.server.apis import groups, mirror, telemetry
from kmirror.server.assignments_manager import AssignmentsManager
from kmirror.server.authorizer import create_authorizer
from kmirror.server.broker_lifecycle_manager import BrokerIdentity, BrokerLifecycleManager, BrokerState
from kmirror.server.broker_metadata_publisher import BrokerMetadataPublisher, is_stray_replica
from kmirror.server.broker_metrics import (
    cleaner_readings,
    expired_connections,
    fetcher_readings,
    flush_listener,
    log_readings,
    metadata_batch_listener,
    metadata_readings,
    move_readings,
    partition_readings,
    producer_readings,
    register_network,
)
from kmirror.server.client_metrics_manager import RECEIVER_CONFIG, ClientMetricsManager, ClientTelemetryReceiver
from kmirror.server.dynamic_broker_config import (
    DynamicBrokerConfig,
    Reconfigurable,
    reconfigure_fetchers,
    reconfigure_logs,
    reconfigure_sockets,
)
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.listener_security import channel_builder, controller_security, inter_broker_security, reconfigure_security
from kmirror.server.listeners import Listener
from kmirror.server.log_cleaner_task import LogCleanerTasks
from kmirror.server.metadata_cache import MetadataCache
from kmirror.server.metadata_fetcher import MetadataFetcher, MetadataProgress
from kmirror.server.node_to_controller_channel import NodeToControllerChannel
from kmirror.server.offline_log_dirs import OfflineLogDirs
from kmirror.server.quota.quota_managers import DynamicClientQuotaPublisher, QuotaManagers
from kmirror.server.request_metrics import RequestChannelMetrics
from kmirror.server.room_settings import group_config, mirror_config
from kmirror.server.share_groups import ShareGroups
from kmirror.server.transactions import Transactions
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_loading import run_some
from kmirror.storage.unified_log import UnifiedLog

CONTROLLED_SHUTDOWN_TIMEOUT_MS = 10_000
SHUTDOWN_GRACE_MS = 100
_log = logging.getLogger(__name__)


class BrokerServer:
    """`start` returns when the broker is unfenced and serves; `stop` is a controlled shutdown, `kill` is none."""

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
        self._on_fatal = on_fatal
        self._quotas = quotas
        self._config = config
        self._cluster_id = cluster_id
        self._scope = TaskScope(runtime, f"broker-{config.node_id}")
        self._metadata_errors = {"metadata-load-error-count": 0, "metadata-apply-error-count": 0}
        self._metadata_scope = TaskScope(runtime, f"broker-{config.node_id}-metadata", on_failure=self._metadata_failed)
        self._loader = MetadataLoader()
        self._metadata = MetadataProgress(runtime)
        self._scheduler = RuntimeLogScheduler(runtime)
        self._client = NetworkClient(runtime, f"broker-{config.node_id}-to-controller", security=controller_security(config))
        self._security = inter_broker_security(config)
        self._channel = NodeToControllerChannel(
            runtime, self._client, controller_host, controller_port, request_timeout_ms=config.request_timeout_ms
        )
        self.metadata_cache = MetadataCache(lambda: self._loader.kraft_version)
        self._log_dirs = OfflineLogDirs(runtime, config, on_fatal=on_fatal, is_closed=lambda: self._scope.closed)
        self.log_manager = self._create_log_manager(metrics)
        self._alter_partition_manager = AlterPartitionManager(runtime, config.node_id, self._channel.send, self._broker_epoch_of)
        self.replica_manager = ReplicaManager(
            config.replica_config(), runtime, self.log_manager, metrics, alter_partition_manager=self._alter_partition_manager
        )
        self._replica_fetchers = ReplicaFetcherManager(runtime, self.replica_manager, self._connect_leader, self._address_of)
        self.replica_manager.set_fetcher_manager(self._replica_fetchers)
        self._assignments = AssignmentsManager(runtime, config.node_id, self._channel.send, lambda: self._broker_epoch_of(config.node_id))
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
        self._sockets = [self._create_socket_server(listener, metrics) for listener in config.broker_listeners]
        self._lifecycle: BrokerLifecycleManager | None = None
        self._register_metrics(metrics)

    def _create_log_manager(self, metrics: MetricsRegistry) -> LogManager:
        return LogManager(
            self._config.log_manager_config(),
            files=self._runtime.files,
            clock=self._runtime.clock,
            random=self._runtime.random,
            scheduler=self._scheduler,
            default_log_config=self._config.default_log_config(),
            topic_config=self._topic_config,
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
        apis = KafkaApis(
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
            quotas=self._quotas,
            request_metrics=request_metrics,
        )
        apis.register(groups.HANDLERS)
        if self._config.get_bool(RECEIVER_CONFIG):
            apis.client_metrics = ClientMetricsManager(
                ClientTelemetryReceiver(metrics),
                max_bytes=self._config.get_int("telemetry.max.bytes"),
                clock=self._runtime.clock,
                random=self._runtime.random,
                metrics=metrics,
            )
            apis.register(telemetry.HANDLERS)
        apis.register(mirror.HANDLERS)
        return apis

    def _create_socket_server(self, listener: Listener, metrics: MetricsRegistry) -> SocketServer:
        client_metrics = self.apis.client_metrics
        return SocketServer(
            self._runtime,
            listener.name,
            listener.host,
            listener.port,
            self._handle,
            limits=self._config.socket_server_limits(),
            connection_quotas=self._quotas.connections,
            on_disconnect=None if client_metrics is None else client_metrics.on_disconnect,
            security=channel_builder(
                self._config, listener, runtime=self._runtime, metrics=metrics, images=lambda: self._loader.image, ready=self._ready
            ),
        )

    def _register_metrics(self, metrics: MetricsRegistry) -> None:
        register_network(metrics, self._sockets)
        metrics.add_collector(lambda: partition_readings(self.replica_manager))
        metrics.add_collector(lambda: log_readings(self.log_manager))
        metrics.add_collector(lambda: producer_readings(self.log_manager, self._runtime.clock))
        metrics.add_collector(lambda: fetcher_readings(self._replica_fetchers))
        metrics.add_collector(lambda: move_readings(self.replica_manager.alter_log_dirs))
        unstable = self._config.unstable_feature_versions_enable
        metrics.add_collector(lambda: metadata_readings(self._loader, self._runtime.clock, self._metadata_errors, unstable=unstable))
        self.mirror.register_metrics(metrics)
        cleaner = self.log_manager.cleaner
        if cleaner is not None:
            cleaner.throttler.on_observed = metrics.meter(MetricName("kafka.utils", "Throttler", "cleaner-io")).mark
            metrics.add_collector(lambda: cleaner_readings(cleaner, self.log_manager, self._runtime.clock))
        lifecycle_state = MetricName("kafka.server", "KafkaServer", "BrokerState")
        metrics.gauge(lifecycle_state, lambda: 0 if self._lifecycle is None else self._lifecycle.state.code)
        queue_size = MetricName("kafka.network", "RequestChannel", "RequestQueueSize")
        metrics.gauge(queue_size, lambda: sum(socket.waiting_requests for socket in self._sockets))
        expired = MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount")
        metrics.gauge(expired, lambda: expired_connections(metrics, self._sockets))
        assignments = MetricName("kafka.server", "AssignmentsManager", "QueuedReplicaToDirAssignments")
        metrics.gauge(assignments, lambda: self._assignments.pending_count)
        snapshots = MetricName("kafka.server", "MetadataLoader", "HandleLoadSnapshotCount")
        metrics.gauge(snapshots, lambda: self._loader.snapshots_loaded)

    def _topic_config(self, topic: str) -> Mapping[str, str]:
        return self._loader.image.configs.topic(topic)

    def _broker_epoch_of(self, broker_id: int) -> int:
        broker = self._loader.image.cluster.broker(broker_id)
        return -1 if broker is None else broker.epoch

    def _address_of(self, broker_id: int) -> tuple[str, int] | None:
        """Host and port of a broker's inter-broker endpoint."""
        broker = self._loader.image.cluster.broker(broker_id)
        endpoint = None if broker is None else broker.listeners.get(self._config.inter_broker_listener_name)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _connect_leader(self, leader_id: int, fetcher_id: int) -> LeaderEndPoint | None:
        """A leader of this cluster by its inter-broker endpoint, over a connection of the fetcher's own."""
        address = self._address_of(leader_id)
        if address is None:
            return None
        host, port = address
        client = NetworkClient(self._runtime, f"broker-{self._config.node_id}-fetcher-{fetcher_id}", security=self._security)
        return BrokerLeaderEndPoint(
            client,
            host,
            port,
            self._config.replica_config(),
            broker_epoch=self._broker_epoch_of(self._config.node_id),
            request_timeout_ms=self._config.request_timeout_ms,
        )

    def _reconfigure_security(self) -> Callable[[KafkaConfig, KafkaConfig], None]:
        secured = [(listener, socket.security) for listener, socket in zip(self._config.broker_listeners, self._sockets, strict=True)]
        return reconfigure_security(secured, runtime=self._runtime, images=lambda: self._loader.image)

    def port(self, listener_name: str) -> int:
        """The bound port of a listener."""
        return next(socket.port for socket in self._sockets if socket.listener_name == listener_name)

    # -- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        previous_epoch = self.log_manager.read_broker_epoch_from_clean_shutdown_files()
        for socket in self._sockets:
            await socket.start()
        lifecycle = BrokerLifecycleManager(
            self._runtime,
            self._channel,
            self._identity(-1 if previous_epoch is None else previous_epoch),
            heartbeat_interval_ms=self._config.get_int("broker.heartbeat.interval.ms"),
            metadata_offset=lambda: self._loader.next_offset - 1,
            offline_log_dirs=self._log_dirs.directory_ids,
        )
        self._lifecycle = self._log_dirs.lifecycle = lifecycle
        lifecycle.registered.add_done_callback(self._on_registration)
        self._scope.spawn(lifecycle.run(), name="lifecycle")
        self._start_fetching_metadata()
        await self._metadata.wait(lambda next_offset, high_watermark: 0 <= high_watermark <= next_offset)
        steps = self.log_manager.load_steps(self._is_stray)
        self._log_dirs.is_loading = True
        while await self._runtime.run_blocking(lambda: run_some(steps)):
            pass
        self._log_dirs.is_loading = False
        await lifecycle.registered
        self.apis.producer_ids.broker_epoch = lifecycle.broker_epoch
        await self._metadata.wait(lambda next_offset, high_watermark: next_offset > lifecycle.broker_epoch)
        self.log_manager.set_strays_aside(self._is_stray)
        self.log_manager.start_tasks()
        reconfigurables: list[Reconfigurable] = [reconfigure_logs(self.log_manager)]
        if self.log_manager.cleaner is not None:
            cleaners = LogCleanerTasks(self._runtime, self._scope, self.log_manager.cleaner)
            cleaners.resize()
            reconfigurables.append(lambda before, after: cleaners.resize())
        self.replica_manager.start()
        if self._authorizer is not None:
            self._loader.install_publisher(AclPublisher(self._authorizer))
        self.dynamic_config = DynamicBrokerConfig(
            self._config,
            *reconfigurables,
            reconfigure_sockets(self._sockets),
            self._reconfigure_security(),
            reconfigure_fetchers(self.replica_manager, self._replica_fetchers),
            lambda before, after: self.group_coordinator.reconfigure(group_config(after)),
            lambda before, after: self.transactions.reconfigure(after),
        )
        self._loader.install_publisher(self.dynamic_config)
        self._loader.install_publisher(DynamicClientQuotaPublisher(self._config, self._quotas))
        if self.apis.client_metrics is not None:
            self._loader.install_publisher(self.apis.client_metrics)
        self._loader.install_publisher(
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
        await lifecycle.unfenced
        self._ready.set_result(None)
        _log.info("[BrokerServer id=%d] started", self._config.node_id)

    def _identity(self, previous_epoch: int) -> BrokerIdentity:
        config = self._config
        supported = supported_features(unstable=config.unstable_feature_versions_enable)
        return BrokerIdentity(
            broker_id=config.node_id,
            cluster_id=self._cluster_id,
            rack=config.get_string("broker.rack"),
            listeners=tuple(
                Endpoint(listener.name, listener.host, listener.port or self.port(listener.name), listener.security_protocol_id)
                for listener in config.advertised_listeners
                if listener.name not in config.controller_listener_names
            ),
            features={name: (levels.min, levels.max) for name, levels in supported.items()},
            log_dirs=tuple(self.log_manager.directory_ids()),
            previous_broker_epoch=previous_epoch,
        )

    def _on_registration(self, registered: asyncio.Future[None]) -> None:
        """A registration that was refused for good ends the start, whatever it waits for."""
        error = None if registered.cancelled() else registered.exception()
        if error is not None:
            self._metadata.fail(error)

    def _start_fetching_metadata(self) -> None:
        fetcher = MetadataFetcher(
            self._runtime,
            self._channel,
            self._loader,
            node_id=self._config.node_id,
            cluster_id=self._cluster_id,
            on_progress=self._metadata.update,
            on_batch=metadata_batch_listener(self.apis.metrics),
        )
        self._metadata_scope.spawn(fetcher.run(), name="metadata-fetcher")

    def _metadata_failed(self, name: str, error: BaseException) -> None:
        """A broker that cannot apply the metadata must not go on with what it knew before (Kafka's fatal fault handler)."""
        is_loading = isinstance(error, KmirrorError) and not isinstance(error, MetadataReplayError)
        self._metadata_errors["metadata-load-error-count" if is_loading else "metadata-apply-error-count"] += 1
        self._runtime.report_failure(f"task {name} failed", error)
        self._on_fatal(f"Error applying metadata: {error!r}")

    def not_ready_reasons(self) -> list[str]:
        """Why this broker should not be sent clients; nothing when it serves."""
        lifecycle, image = self._lifecycle, self._loader.image
        if lifecycle is None or not self._ready.done():
            return ["the broker is starting"]
        reasons: list[str] = []
        if lifecycle.may_shut_down.done() or lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            reasons.append("the broker is shutting down")
        registration = image.cluster.broker(self._config.node_id)
        if registration is None or registration.fenced:
            reasons.append("the broker is fenced" if registration is not None else "the broker is not registered")
        behind = self._metadata.high_watermark - self._loader.next_offset
        if behind > 0:
            reasons.append(f"the metadata is {behind} records behind the controller")
        reasons += [f"log directory {directory} is offline" for directory in self._log_dirs.directory_ids()]
        return reasons

    def _is_stray(self, log: UnifiedLog) -> bool:
        return is_stray_replica(self._loader.image.topics, log, broker_id=self._config.node_id)

    async def stop(self) -> None:
        """Controlled shutdown; the data is closed cleanly."""
        if self._lifecycle is not None:
            self._lifecycle.begin_controlled_shutdown()
            timer = self._runtime.call_later_ms(CONTROLLED_SHUTDOWN_TIMEOUT_MS, self._give_up_waiting)
            await self._lifecycle.may_shut_down
            timer.cancel()
        for socket in self._sockets:
            await socket.stop(grace_ms=SHUTDOWN_GRACE_MS)
        await self._metadata_scope.cancel()
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
            _log.warning("The controller did not agree to the shutdown of broker %d in time; going on", self._config.node_id)
            self._lifecycle.may_shut_down.set_result(None)

    async def kill(self) -> None:
        """Drop everything at once: nothing is flushed, no checkpoint and no marker is written."""
        self._scheduler.close()
        for socket in self._sockets:
            await socket.stop()
        await self._metadata_scope.cancel()
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

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _handle(self, context: RequestContext) -> Answer | CloseType:
        if not self._ready.done():
            await asyncio.shield(self._ready)
        if self._lifecycle is None:
            raise ApiException(Errors.BROKER_NOT_AVAILABLE)
        return await self.apis.handle(context)
