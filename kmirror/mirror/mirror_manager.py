"""The mirror of one broker: the entry point that `server.broker_server` wires.

    manager = MirrorManager(runtime, config, cluster_id=..., replica_manager=..., log=..., controller=..., brokers=...)
    manager.on_metadata_update(delta, image)     after ReplicaManager.apply_delta, in the same turn of the loop
    KafkaApis(..., mirror=manager)               its handlers are in server.apis.mirror
    await manager.shutdown()                     before the replica manager's

It has one `MirrorPartition` per mirrored partition that this broker leads, one `Mirror` per mirror
that it is involved in, the mirror coordinator, the fetchers, and the metadata manager. It uses only
`Runtime` and `NetworkClient` for time and I/O, so it runs unchanged in the simulator. While
mirror.version is 0 it does nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kmirror.common.errors import ApiException, Errors, KmirrorError, unknown_mirror
from kmirror.common.health import Health
from kmirror.common.lasting_conditions import LastingConditions, SharedConditions
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_MIRROR, MetadataImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.mirror.coordination.mirror_coordinator import MirrorCoordinator
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.coordination.mirror_state_client import MirrorStateClient
from kmirror.mirror.fetch.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.mirror_health import mirror_health
from kmirror.mirror.mirror_metrics import LedPartition, register_mirror_metrics
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.mirrored_topics import ALL_PARTITIONS, MirroredTopics
from kmirror.mirror.partition.leader_epoch_bumper import LeaderEpochBumper
from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.mirror.partition.mirror_services import MirrorServices
from kmirror.mirror.partition.partition_description import MirroredPartitionLag, PartitionDescription, described, lag_of
from kmirror.mirror.ports import MirrorConfig, SourceClientFactory
from kmirror.mirror.source.channels import source_clients
from kmirror.mirror.source.mirror import SOURCE_CLUSTER_ID_CONFIG, Mirror
from kmirror.mirror.sync.acl_sync import AclSync
from kmirror.mirror.sync.config_sync import ConfigSync
from kmirror.mirror.sync.destination_defaults import DestinationDefaults
from kmirror.mirror.sync.destination_groups import DestinationGroups, LocalGroupCoordinator
from kmirror.mirror.sync.destination_share_groups import DestinationShareGroups, LocalShareGroups
from kmirror.mirror.sync.first_configs import FirstConfigs
from kmirror.mirror.sync.group_offset_sync import GroupOffsetSync
from kmirror.mirror.sync.mirror_metadata_manager import MirrorMetadataManager
from kmirror.mirror.sync.share_group_sync import ShareGroupSync
from kmirror.mirror.sync.topic_sync import TopicSync
from kmirror.network.node_channels import BrokerChannel, ControllerChannel
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

MIRROR_VERSION_FEATURE = "mirror.version"

REASON_AFTER_MS = 5_000
"""How long a partition is kept from going on before the log has the reason; --describe has it at once."""
_log = logging.getLogger(__name__)


class MirrorManager:
    """Owns everything that mirroring needs on one broker."""

    def __init__(
        self,
        runtime: Runtime,
        config: MirrorConfig,
        *,
        cluster_id: str,
        replica_manager: ReplicaManager,
        log: PartitionLog,
        controller: ControllerChannel,
        brokers: BrokerChannel,
        group_coordinator: LocalGroupCoordinator,
        share_groups: LocalShareGroups,
        create_group_metadata_topic: Callable[[], None],
        create_state_topic: Callable[[], None],
        client_factory: SourceClientFactory | None = None,
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._replica_manager = replica_manager
        self._controller = controller
        self._client_factory = client_factory or source_clients(runtime, config)
        self._image = self._image_before = MetadataImage.EMPTY
        self._mirrors: dict[str, Mirror] = {}
        self._partitions: dict[str, dict[int, MirrorPartition]] = {}
        self._topics = MirroredTopics()
        self._state_topic_id: Uuid | None = None
        self._known_to_be_stopped: set[TopicPartition] = set()
        """During an update after which no states are stored: what was STOPPED, and is led here."""
        self._is_following = False
        self._scope = TaskScope(runtime, "mirror")
        self.coordinator = MirrorCoordinator(
            runtime, log=log, image=self.image, broker_id=config.broker_id, request_timeout_ms=config.request_timeout_ms
        )
        self.states = MirrorStateClient(runtime, self.coordinator, brokers, broker_id=config.broker_id)
        self.bumper = LeaderEpochBumper(runtime, controller)
        self.fetchers = MirrorFetcherManager(
            runtime,
            config,
            self._client_factory,
            safeguards=safeguards,
            quota=replica_manager.quotas.mirror,
            complete_delayed=replica_manager.complete_delayed_together,
        )
        groups = DestinationGroups(
            runtime,
            group_coordinator,
            brokers,
            image=self.image,
            broker_id=config.broker_id,
            create_group_metadata_topic=create_group_metadata_topic,
            timeout_ms=config.request_timeout_ms,
        )
        shared = DestinationShareGroups(groups, share_groups, brokers, broker_id=config.broker_id)
        self.topic_configs = ConfigSync(controller, self.states, self.image, DestinationDefaults(brokers, self.image, config))
        self._first_configs = FirstConfigs(runtime, self.topic_configs, self.mirror, self.image)
        self.metadata_manager = MirrorMetadataManager(
            runtime,
            config,
            coordinator=self.coordinator,
            image=self.image,
            mirror=self.mirror,
            topics_of=self.topics_of,
            led_partitions=self.led_partitions,
            steps=[
                TopicSync(controller, self.image, config),
                self.topic_configs,
                AclSync(runtime, controller, self.image, enabled=config.has_authorizer),
                GroupOffsetSync(runtime, groups, self.states, self.image, retention_ms=config.offsets_retention_ms),
                ShareGroupSync(runtime, shared, self.states, self.image),
            ],
            create_state_topic=create_state_topic,
        )
        self._services = MirrorServices(
            runtime,
            config,
            safeguards,
            cluster_id,
            self.states,
            self.fetchers,
            replica_manager,
            self.image,
            self.mirror,
            self.bumper,
            self._first_configs.align,
            self._scope,
            SharedConditions(_log, runtime.clock.monotonic_ms, grace_ms=REASON_AFTER_MS),
        )

    # --- life
    # ---------------------------------------------------------------------------------------------------------

    async def shutdown(self) -> None:
        """Stops the fetchers and drivers; states stay as they are, and the next leader goes on from
        them.
        """
        drivers = [driver for topic in sorted(self._partitions) for _, driver in sorted(self._partitions[topic].items())]
        self._partitions.clear()
        for driver in drivers:
            await driver.close()
        await self._scope.cancel()
        await self.metadata_manager.shutdown()
        await self.fetchers.shutdown()
        await self.states.close()
        await self.bumper.close()
        await self._first_configs.close()
        await self.coordinator.shutdown()
        for mirror in self._mirrors.values():
            await mirror.shutdown()

    def image(self) -> MetadataImage:
        """The newest metadata image."""
        return self._image

    @property
    def is_enabled(self) -> bool:
        """Whether mirror.version is at least 1."""
        return self._image.features.level(MIRROR_VERSION_FEATURE) >= 1

    # --- metadata
    # -----------------------------------------------------------------------------------------------------

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the new image and bring drivers, mirrors and shards in line with it."""
        self._image_before, self._image = self._image, image
        if not self.is_enabled or self._scope.closed:
            self._is_following = False
            return
        before = {topic: self._topics.associations.get(topic) for topic in delta.topics.deleted_ids.values()}
        known_mirrors = set(self._topics.mirror_names)
        recreated = self._topics.recreated(delta, image)
        touched = self._topics.apply(delta, image) if self._is_following else self._topics.load(image)
        self._is_following = True
        ended = (known_mirrors - self._topics.mirror_names) | recreated
        self.coordinator.on_metadata_update(image, ended_mirrors=ended)
        for name in sorted(ended):
            mirror = self._mirrors.pop(name, None)
            if mirror is not None:
                self._scope.spawn(mirror.shutdown(), name=f"end-{name}")
        self._reconfigure(delta)
        stateless = self._partitions if self._are_states_lost(image) else self._of_mirrors(recreated)
        for topic in sorted(stateless):
            touched[topic] = ALL_PARTITIONS
            for number, driver in sorted(self._partitions.get(topic, {}).items()):
                if driver.is_known_to_be_stopped and topic not in self._of_mirrors(recreated):
                    self._known_to_be_stopped.add(driver.id.topic_partition)
                self._end_driver(topic, number)
        for topic in sorted(touched):
            self._update_topic(topic, touched[topic])
        self._known_to_be_stopped.clear()
        self.metadata_manager.on_metadata_update(delta, self._topics.mirror_names, recreated)
        for topic, association in before.items():
            if association is not None and association.mirror_name in self._topics.mirror_names:
                self._forget_deleted_topic(association.mirror_name, topic)

    def _of_mirrors(self, names: Iterable[str]) -> set[str]:
        return {topic for name in names for topic in self._topics.topics_of(name)}

    def _are_states_lost(self, image: MetadataImage) -> bool:
        """Whether `__mirror_state` is another topic than before: then the states that leaders know
        are no longer stored.
        """
        topic = image.topics.topic(MIRROR_STATE_TOPIC_NAME)
        if topic is None:
            return False
        before, self._state_topic_id = self._state_topic_id, topic.id
        return before not in (None, topic.id)

    def _reconfigure(self, delta: MetadataDelta) -> None:
        for resource, changes in delta.configs.changed.items():
            mirror = self._mirrors.get(resource.name) if resource.type == RESOURCE_MIRROR else None
            if mirror is not None and mirror.reconfigure(self._image.configs.mirror(resource.name), altered=changes):
                self._reconnect(resource.name)

    def _update_topic(self, name: str, numbers: set[int] | None) -> None:
        """Bring the drivers of a topic's partitions (None: all) in line with the metadata."""
        association, topic = self._topics.associations.get(name), self._image.topics.topic(name)
        partitions: Mapping[int, PartitionRegistration] = {} if topic is None else topic.partitions
        for number in sorted({*self._partitions.get(name, {}), *partitions} if numbers is None else numbers):
            registration = partitions.get(number)
            wanted = None
            if association is not None and topic is not None and registration is not None:
                is_led = registration.leader == self._config.broker_id
                if is_led and association.mirror_name in self._topics.mirror_names:
                    wanted = MirrorPartitionId(association.mirror_name, name, topic.id, number)
            self._update_partition(TopicPartition(name, number), wanted, registration)

    def _update_partition(
        self, topic_partition: TopicPartition, wanted: MirrorPartitionId | None, registration: PartitionRegistration | None
    ) -> None:
        topic, number = topic_partition
        existing = self._partitions.get(topic, {}).get(number)
        partition = self._replica_manager.get_partition(topic_partition)
        if existing is not None and existing.id == wanted and existing.partition is partition and registration is not None:
            existing.on_metadata_update(registration)
            return
        if existing is not None:
            self._end_driver(topic, number)
        if wanted is not None and partition is not None and registration is not None:
            before = self._image_before.topics.partition(topic, number)
            led_before_by = -1 if before is None or before.leader == self._config.broker_id else before.leader
            driver = MirrorPartition(
                self._services,
                wanted,
                partition,
                registration,
                led_before_by=led_before_by,
                was_stopped=topic_partition in self._known_to_be_stopped,
            )
            self._partitions.setdefault(topic, {})[number] = driver
            driver.start()

    def _end_driver(self, topic: str, number: int) -> None:
        driver = self._partitions[topic].pop(number)
        if not self._partitions[topic]:
            del self._partitions[topic]
        driver.resign()
        self._scope.spawn(driver.close(), name=f"close-{topic}-{number}")

    def _forget_deleted_topic(self, mirror_name: str, topic: str) -> None:
        """If this broker is the mirror's sync owner, has the coordinators forget a deleted topic
        (D3-34).
        """
        if self.coordinator.sync_owner(mirror_name) == self._config.broker_id:
            name = f"forget-{topic}"
            forgetting = Supervised(self._runtime, partial(self._forget_topic, mirror_name, topic), name=f"mirror/{name}", may_return=True)
            self._scope.spawn(forgetting.run(), name=name)

    async def _forget_topic(self, mirror_name: str, topic: str) -> None:
        """Tells every broker, again and again until it has answered or is gone."""
        conditions = LastingConditions(_log, self._runtime.clock.monotonic_ms)
        waiting = [broker.id for broker in self._image.cluster.unfenced_brokers()]
        while waiting and mirror_name in self._topics.mirror_names and self._image.topics.topic(topic) is None:
            for broker_id in list(waiting):
                try:
                    await self.states.remove_topics(mirror_name, [topic], [broker_id])
                    waiting.remove(broker_id)
                    conditions.end(broker_id)
                except KmirrorError as error:
                    text = f"broker {broker_id} has not yet removed the states of topic {topic}: {error}"
                    conditions.tell(broker_id, text, subject=f"mirror {mirror_name}")
            if waiting:
                await self._runtime.sleep_ms(self._config.mirror_truncation_backoff_ms)
                alive = {broker.id for broker in self._image.cluster.unfenced_brokers()}
                waiting = [broker_id for broker_id in waiting if broker_id in alive]

    def _reconnect(self, mirror_name: str) -> None:
        """Has the mirror's partitions fetched over new connections, since its configs changed
        (D3-32).
        """
        for driver in self.led_partitions(mirror_name):
            self.fetchers.remove_partition(driver.id.topic_partition)
            driver.wake()

    def register_metrics(self, metrics: MetricsRegistry) -> None:
        """Registers the mirror's MBeans (E7)."""
        register_mirror_metrics(
            metrics,
            self._config.broker_id,
            is_enabled=lambda: self.is_enabled,
            fetchers=self.fetchers.running,
            lags=self._mirrored_lags,
            partitions=lambda: [driver.status for drivers in self._partitions.values() for driver in drivers.values()],
            led_partitions=self._led_for_metrics,
            sync_errors=self.metadata_manager.errors,
        )

    def _led_for_metrics(self) -> list[LedPartition]:
        """Every partition that is led here, with its lag now."""
        now_ms = self._runtime.clock.monotonic_ms()
        return [
            LedPartition(
                driver.id.mirror_name,
                driver.id.topic_partition,
                driver.status.state,
                driver.status.reason is not None or driver.status.state is MirrorPartitionState.FAILED,
                lag_of(driver, self.fetchers, now_ms),
            )
            for drivers in self._partitions.values()
            for driver in drivers.values()
        ]

    def _mirrored_lags(self) -> list[MirroredPartitionLag]:
        """The lag of every partition in MIRRORING, even while no fetcher has it."""
        now_ms = self._runtime.clock.monotonic_ms()
        return [
            MirroredPartitionLag(driver.id.topic_partition, driver.progress.fetcher_name, lag_of(driver, self.fetchers, now_ms))
            for drivers in self._partitions.values()
            for driver in drivers.values()
            if driver.status.state is MirrorPartitionState.MIRRORING
        ]

    # --- for handlers
    # -------------------------------------------------------------------------------------------------

    def mirror(self, name: str) -> Mirror:
        """The mirror; ApiException UNKNOWN_MIRROR when metadata does not know it."""
        mirror = self._mirrors.get(name)
        if mirror is None:
            if name not in self._image.configs.mirror_names():
                raise unknown_mirror(name)
            mirror = Mirror(
                self._runtime,
                self._config,
                name,
                self._image.configs.mirror(name),
                client_factory=self._client_factory,
                controller=self._controller,
            )
            self._mirrors[name] = mirror
        return mirror

    def topics_of(self, mirror_name: str) -> list[str]:
        """Topics whose `mirror.name` names this mirror, with or without a suffix, sorted."""
        return self._topics.topics_of(mirror_name)

    def led_partitions(self, mirror_name: str) -> list[MirrorPartition]:
        """Drivers of the mirror's partitions that this broker leads, sorted."""
        return [driver for topic in self._topics.topics_of(mirror_name) for _, driver in sorted(self._partitions.get(topic, {}).items())]

    def driver(self, topic_partition: TopicPartition) -> MirrorPartition | None:
        return self._partitions.get(topic_partition.topic, {}).get(topic_partition.partition)

    def topic_count(self, mirror_name: str) -> int:
        """The number of topics with `X` or `X.paused` (RS4)."""
        return self._topics.active_count(mirror_name)

    def source_cluster_id(self, mirror_name: str) -> str:
        """The stored cluster id of the source, "" until it is known."""
        known = self._image.configs.mirror(mirror_name).get(SOURCE_CLUSTER_ID_CONFIG)
        mirror = self._mirrors.get(mirror_name)
        return known or (mirror.source_cluster_id if mirror is not None else "")

    def healths(self) -> dict[str, Health]:
        """Returns how well each mirror is, as far as the partitions tell that this broker leads."""
        now_ms = self._runtime.clock.monotonic_ms()
        names = self._image.configs.mirror_names()
        return {name: mirror_health(self.led_partitions(name), self.fetchers, now_ms) for name in names}

    def describe(self, mirror_name: str) -> list[PartitionDescription]:
        """Describes the mirror's partitions that this broker leads.

        ApiException COORDINATOR_NOT_AVAILABLE while a state is not loaded (D5).
        """
        rows = []
        now_ms = self._runtime.clock.monotonic_ms()
        for driver in self.led_partitions(mirror_name):
            if not driver.status.loaded:
                raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, f"the state of {driver.id.topic_partition} is not loaded")
            rows.append(described(driver, self.fetchers, now_ms))
        return rows

    def mirror_partitions(self, mirror_name: str, topics: Iterable[str]) -> list[MirrorPartitionId]:
        """All partitions of topics, for reading their states."""
        found: list[MirrorPartitionId] = []
        for name in topics:
            topic = self._image.topics.topic(name)
            if topic is not None:
                found.extend(MirrorPartitionId(mirror_name, name, topic.id, number) for number in sorted(topic.partitions))
        return found
