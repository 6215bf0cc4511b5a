"""The mirror of one broker: the entry point that `server.broker_server` wires.

    manager = MirrorManager(runtime, config, cluster_id=..., replica_manager=..., log=..., controller=..., brokers=...)
    manager.on_metadata_update(delta, image)     after ReplicaManager.apply_delta, in the same turn of the loop
    apis.mirror = manager; apis.register(server.apis.mirror.HANDLERS)
    await manager.shutdown()                     before the replica manager's

It has one `MirrorPartition` per mirrored partition that this broker leads, one `Mirror` per mirror it has to do with, the
coordinator's shards, the fetchers, and the metadata manager. It works over `Runtime` and `NetworkClient` alone, so it runs
under the simulator unchanged. While mirror.version is 0 it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.partition_log import PartitionLog
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.mirror_names import association_of
from kmirror.mirror.channels import source_clients
from kmirror.mirror.config_sync import ConfigSync
from kmirror.mirror.mirror import SOURCE_CLUSTER_ID_CONFIG, Mirror
from kmirror.mirror.mirror_coordinator import MirrorCoordinator, MirrorPartitionId, MirrorStateClient
from kmirror.mirror.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.mirror_metadata_manager import MirrorMetadataManager, mirrored_topics, topics_of
from kmirror.mirror.mirror_metrics import register_mirror_metrics
from kmirror.mirror.mirror_partition import MirrorPartition, MirrorServices
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.ports import BrokerChannel, ControllerChannel, MirrorConfig, SourceClientFactory
from kmirror.mirror.topic_sync import TopicSync
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.api import Runtime, TaskScope

MIRROR_VERSION_FEATURE = "mirror.version"


class PartitionDescription(NamedTuple):
    """A row of DescribeMirrors; -1 is unknown."""

    topic: str
    partition: int
    source_offset: int
    destination_offset: int
    lag: int
    state: MirrorPartitionState
    last_mirror_epoch: int
    reason: str | None


class MirrorManager:
    """Everything of mirroring on one broker."""

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
        client_factory: SourceClientFactory | None = None,
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._replica_manager = replica_manager
        self._controller = controller
        self._client_factory = client_factory or source_clients(runtime)
        self._image = MetadataImage.EMPTY
        self._mirrors: dict[str, Mirror] = {}
        self._partitions: dict[TopicPartition, MirrorPartition] = {}
        self._scope = TaskScope(runtime, "mirror")
        self.coordinator = MirrorCoordinator(
            runtime, log=log, image=self.image, broker_id=config.broker_id, request_timeout_ms=config.request_timeout_ms
        )
        self.states = MirrorStateClient(self.coordinator, brokers, broker_id=config.broker_id)
        self.fetchers = MirrorFetcherManager(runtime, config, self._client_factory)
        self.metadata_manager = MirrorMetadataManager(
            runtime,
            config,
            coordinator=self.coordinator,
            image=self.image,
            mirror=self.mirror,
            led_partitions=self.led_partitions,
            steps=[TopicSync(controller, self.image, config), ConfigSync(controller, self.image)],
        )
        self._services = MirrorServices(
            runtime,
            config,
            safeguards,
            cluster_id,
            self.states,
            controller,
            self.fetchers,
            replica_manager,
            self.image,
            self.mirror,
        )

    # --- life ---------------------------------------------------------------------------------------------------------

    async def shutdown(self) -> None:
        """Stop fetching and driving; states stay as they are and are taken up again by the next leader."""
        for topic_partition in sorted(self._partitions):
            await self._partitions.pop(topic_partition).close()
        await self._scope.cancel()
        await self.metadata_manager.shutdown()
        await self.fetchers.shutdown()
        await self.coordinator.shutdown()
        for mirror in self._mirrors.values():
            mirror.close()

    def image(self) -> MetadataImage:
        """The newest metadata image."""
        return self._image

    @property
    def is_enabled(self) -> bool:
        """Whether mirror.version is at least 1."""
        return self._image.features.level(MIRROR_VERSION_FEATURE) >= 1

    # --- metadata -----------------------------------------------------------------------------------------------------

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Take the new image and bring drivers, mirrors and shards in line with it."""
        previous = self._image
        self._image = image
        if not self.is_enabled or self._scope.closed:
            return
        names = set(image.configs.mirror_names())
        deleted = [name for name in previous.configs.mirror_names() if name not in names]
        self.coordinator.on_metadata_update(image, mirrors_deleted=bool(deleted))
        for name in deleted:
            mirror = self._mirrors.pop(name, None)
            if mirror is not None:
                mirror.close()
        for name, mirror in self._mirrors.items():
            if mirror.reconfigure(image.configs.mirror(name)):
                self._reconnect(name)
        self._update_partitions()
        self.metadata_manager.on_metadata_update(delta, names)
        self._forget_deleted_topics(previous)

    def _update_partitions(self) -> None:
        wanted = self._wanted_partitions()
        for topic_partition in sorted(self._partitions):
            if wanted.get(topic_partition) != self._partitions[topic_partition].id:
                driver = self._partitions.pop(topic_partition)
                self._scope.spawn(driver.close(), name=f"close-{topic_partition}")
        for topic_partition, partition_id in wanted.items():
            registration = self._image.topics.partition(topic_partition.topic, topic_partition.partition)
            existing = self._partitions.get(topic_partition)
            partition = self._replica_manager.get_partition(topic_partition)
            if registration is None or partition is None:
                continue
            if existing is not None and existing.partition is partition:
                existing.on_metadata_update(registration)
                continue
            if existing is not None:
                self._scope.spawn(existing.close(), name=f"close-{topic_partition}")
            driver = MirrorPartition(self._services, partition_id, partition, registration.leader_epoch)
            self._partitions[topic_partition] = driver
            driver.start()

    def _wanted_partitions(self) -> dict[TopicPartition, MirrorPartitionId]:
        """Mirrored partitions that this broker leads, sorted."""
        wanted = {}
        mirrors = set(self._image.configs.mirror_names())
        for name, mirror_name in mirrored_topics(self._image):
            topic = self._image.topics.topic(name)
            if topic is None or mirror_name not in mirrors:
                continue
            for number, registration in sorted(topic.partitions.items()):
                if registration.leader == self._config.broker_id:
                    wanted[TopicPartition(name, number)] = MirrorPartitionId(mirror_name, name, topic.id, number)
        return wanted

    def _forget_deleted_topics(self, previous: MetadataImage) -> None:
        """D3-34, by the sync owner of each mirror: coordinators forget topics that are gone."""
        for mirror_name in self._image.configs.mirror_names():
            if self.coordinator.sync_owner(mirror_name) != self._config.broker_id:
                continue
            for topic in topics_of(previous, mirror_name):
                if self._image.topics.topic(topic) is None:
                    self._scope.spawn(self._forget_topic(mirror_name, topic), name=f"forget-{topic}")

    async def _forget_topic(self, mirror_name: str, topic: str) -> None:
        brokers = [broker.id for broker in self._image.cluster.unfenced_brokers()]
        await self.states.remove_topic(mirror_name, topic, brokers)

    def _reconnect(self, mirror_name: str) -> None:
        """D3-32: the mirror's configs changed; its fetchers are made anew."""
        for driver in self.led_partitions(mirror_name):
            self.fetchers.remove_partition(driver.id.topic_partition)
            driver.wake()

    def register_metrics(self, metrics: MetricsRegistry) -> None:
        """Show the MBeans of E7."""
        register_mirror_metrics(
            metrics,
            self._config.broker_id,
            fetchers=self.fetchers.running,
            partitions=lambda: [driver.status for driver in self._partitions.values()],
            sync_errors=self.metadata_manager.errors,
        )

    # --- for handlers -------------------------------------------------------------------------------------------------

    def mirror(self, name: str) -> Mirror:
        """The mirror; ApiException UNKNOWN_MIRROR when metadata does not know it."""
        mirror = self._mirrors.get(name)
        if mirror is None:
            if name not in self._image.configs.mirror_names():
                raise ApiException(Errors.UNKNOWN_MIRROR, f"The mirror '{name}' does not exist.")
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

    def led_partitions(self, mirror_name: str) -> list[MirrorPartition]:
        """Drivers of the mirror's partitions that this broker leads, sorted."""
        return [self._partitions[tp] for tp in sorted(self._partitions) if self._partitions[tp].id.mirror_name == mirror_name]

    def driver(self, topic_partition: TopicPartition) -> MirrorPartition | None:
        return self._partitions.get(topic_partition)

    def topic_count(self, mirror_name: str) -> int:
        """Topics with `X` and `X.paused` (RS4)."""
        associations = (association_of(self._image.configs.topic(topic)) for topic in topics_of(self._image, mirror_name))
        return sum(1 for association in associations if association is not None and not association.removed)

    def source_cluster_id(self, mirror_name: str) -> str:
        """The remembered cluster id of the source, "" until it is known."""
        known = self._image.configs.mirror(mirror_name).get(SOURCE_CLUSTER_ID_CONFIG)
        mirror = self._mirrors.get(mirror_name)
        return known or (mirror.source_cluster_id if mirror is not None else "")

    def describe(self, mirror_name: str) -> list[PartitionDescription]:
        """The mirror's partitions that this broker leads. ApiException COORDINATOR_NOT_AVAILABLE while a state is not loaded (D5)."""
        rows = []
        for driver in self.led_partitions(mirror_name):
            status = driver.status
            if not status.loaded:
                raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE, f"the state of {driver.id.topic_partition} is not loaded")
            log = driver.partition.log
            destination_offset = -1 if log is None else log.log_end_offset
            known = status.source_offset >= 0 and destination_offset >= 0
            lag = max(0, status.source_offset - destination_offset) if known else -1
            rows.append(
                PartitionDescription(
                    driver.id.topic,
                    driver.id.partition,
                    status.source_offset,
                    destination_offset,
                    lag,
                    status.state,
                    status.last_mirror_epoch,
                    status.reason,
                )
            )
        return rows

    def mirror_partitions(self, mirror_name: str, topics: Iterable[str]) -> list[MirrorPartitionId]:
        """All partitions of topics, for reading their states."""
        found: list[MirrorPartitionId] = []
        for name in topics:
            topic = self._image.topics.topic(name)
            if topic is not None:
                found.extend(MirrorPartitionId(mirror_name, name, topic.id, number) for number in sorted(topic.partitions))
        return found
