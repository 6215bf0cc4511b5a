"""MirrorMetadataManager: keeps what is known of the sources fresh, and aligns the mirrors' topics with it (the KIP's MMM).

Every mirror.metadata.refresh.interval.ms each broker that leads partitions of a mirror looks at the source: cluster id (C13),
topics that vanished (D3-22: two refreshes in a row), leaders. The one broker that owns the mirror's sync (the leader of the
`__mirror_state` partition that the mirror's name hashes to) also aligns topics at this cluster:

* partitions: grown to the source's count, never shrunk (D3-36)
* configs: dynamic overrides of the source's topics, set and deleted, less those that mirror.topic.properties.exclude names;
  `mirror.*` is always excluded (C16), static defaults are never copied (C17); a local change is overridden in the next cycle

Topics that are paused or removed are left alone. Each failed step counts once per cycle in its gauge (C37).
Not here yet: group offsets and ACLs (SYN8 to SYN17 of the KIP decisions), for which the mirror's filters are kept in its configs.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.metadata.image import RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.mirror_names import association_of
from kmirror.metadata.resource_configs import DEFAULT_EXCLUDED_TOPIC_CONFIGS
from kmirror.mirror.mirror import Mirror
from kmirror.mirror.mirror_coordinator import MirrorCoordinator
from kmirror.mirror.mirror_partition import MirrorPartition
from kmirror.mirror.ports import ControllerChannel, MirrorConfig
from kmirror.mirror.source_cluster import SourceMetadata
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import create_partitions, incremental_alter_configs

TOPIC_PROPERTIES_EXCLUDE_CONFIG = "mirror.topic.properties.exclude"
ALWAYS_EXCLUDED_PREFIX = "mirror."
REFRESHES_UNTIL_DELETED = 2
OPERATION_SET = 0
OPERATION_DELETE = 1

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class SyncErrors:
    """How often each step failed so far: the gauges MetadataRefreshError, TopicConfigMetadataSyncError,
    ConsumerGroupOffsetSyncError and AclSyncError (MET12 to MET15)."""

    metadata_refresh: int = 0
    topic_config: int = 0
    group_offset: int = 0
    acl: int = 0


class MirrorMetadataManager:
    """One per broker."""

    def __init__(
        self,
        runtime: Runtime,
        config: MirrorConfig,
        *,
        coordinator: MirrorCoordinator,
        controller: ControllerChannel,
        image: Callable[[], MetadataImage],
        mirror: Callable[[str], Mirror],
        led_partitions: Callable[[str], list[MirrorPartition]],
    ) -> None:
        self.errors = SyncErrors()
        self._runtime = runtime
        self._config = config
        self._coordinator = coordinator
        self._controller = controller
        self._image = image
        self._mirror = mirror
        self._led_partitions = led_partitions
        self._missing: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Refresh all mirrors, for ever; with interval 0 only `refresh` on demand does anything."""
        interval_ms = self._config.mirror_metadata_refresh_interval_ms
        while interval_ms > 0:
            await self._runtime.sleep_ms(interval_ms)
            for name in self._image().configs.mirror_names():
                await self.refresh(name)

    async def refresh(self, mirror_name: str) -> None:
        """One cycle of one mirror. Never raises: errors are counted and logged."""
        led = self._led_partitions(mirror_name)
        is_owner = self._coordinator.sync_owner(mirror_name) == self._config.broker_id
        topics = topics_of(self._image(), mirror_name)
        if not topics or not (led or is_owner):
            return
        mirror = self._mirror(mirror_name)
        try:
            metadata = await mirror.source.refresh(topics)
            await mirror.learn_cluster_id(metadata.cluster_id)
        except (KmirrorError, ApiException) as error:
            self.errors.metadata_refresh += 1
            _log.warning("mirror %s: the source's metadata could not be refreshed: %s", mirror_name, error)
            self._wake(led)
            return
        if mirror.is_suspended:
            self.errors.metadata_refresh += 1
        else:
            self._note_topics(mirror_name, led, metadata)
            if is_owner:
                await self._sync(mirror, [topic for topic in topics if self._is_active(mirror_name, topic)], metadata)
        self._wake(led)

    async def _sync(self, mirror: Mirror, topics: list[str], metadata: SourceMetadata) -> None:
        present = [topic for topic in topics if topic in metadata.topics and metadata.topics[topic].error is Errors.NONE]
        for step in (self._grow_partitions, self._align_configs):
            try:
                await step(mirror, present, metadata)
            except (KmirrorError, ApiException) as error:
                if step == self._align_configs:
                    self.errors.topic_config += 1
                else:
                    self.errors.metadata_refresh += 1
                _log.warning("mirror %s: %s", mirror.name, error)

    async def _grow_partitions(self, mirror: Mirror, topics: list[str], metadata: SourceMetadata) -> None:
        wanted = []
        for name in topics:
            topic = self._image().topics.topic(name)
            source_count = len(metadata.topics[name].partitions)
            if topic is not None and source_count > len(topic.partitions):
                wanted.append(create_partitions.CreatePartitionsTopic(name=name, count=source_count, assignments=None))
        if not wanted:
            return
        request = create_partitions.CreatePartitionsRequest(topics=wanted, timeout_ms=self._config.request_timeout_ms)
        response = await self._controller.send(request)
        for row in response.results:
            if row.error_code:
                error = Errors.for_code(row.error_code)
                raise ApiException(error, f"CreatePartitions of {row.name}: {row.error_message or error.message}")

    async def _align_configs(self, mirror: Mirror, topics: list[str], metadata: SourceMetadata) -> None:
        excluded = excluded_properties(mirror.configs)
        source_configs = await mirror.source.topic_configs(topics)
        resources = []
        for name in topics:
            changes = config_changes(source_configs.get(name, {}), self._image().configs.topic(name), excluded)
            if changes:
                configs = [
                    incremental_alter_configs.AlterableConfig(
                        name=key, config_operation=OPERATION_DELETE if value is None else OPERATION_SET, value=value
                    )
                    for key, value in sorted(changes.items())
                ]
                resources.append(
                    incremental_alter_configs.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=name, configs=configs)
                )
        if not resources:
            return
        response = await self._controller.send(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=resources))
        for row in response.responses:
            if row.error_code:
                error = Errors.for_code(row.error_code)
                raise ApiException(error, f"configs of topic {row.resource_name}: {row.error_message or error.message}")

    def _note_topics(self, mirror_name: str, led: list[MirrorPartition], metadata: SourceMetadata) -> None:
        """D3-22: a topic counts as deleted when two refreshes in a row do not find it."""
        for topic in sorted({driver.id.topic for driver in led}):
            found = metadata.topics.get(topic)
            key = (mirror_name, topic)
            drivers = [driver for driver in led if driver.id.topic == topic]
            if found is not None and found.error is Errors.UNKNOWN_TOPIC_OR_PARTITION:
                self._missing[key] = self._missing.get(key, 0) + 1
                if self._missing[key] >= REFRESHES_UNTIL_DELETED:
                    for driver in drivers:
                        driver.on_source_deleted()
            elif found is not None and found.error is Errors.NONE:
                self._missing.pop(key, None)
                for driver in drivers:
                    driver.on_source_present()

    def _is_active(self, mirror_name: str, topic: str) -> bool:
        association = association_of(self._image().configs.topic(topic))
        return association is not None and association.mirror_name == mirror_name and association.active

    @staticmethod
    def _wake(drivers: Iterable[MirrorPartition]) -> None:
        for driver in drivers:
            driver.wake()


def topics_of(image: MetadataImage, mirror_name: str) -> list[str]:
    """Topics whose `mirror.name` names this mirror, with whatever suffix, sorted."""
    return [topic for topic, owner in mirrored_topics(image) if owner == mirror_name]


def mirrored_topics(image: MetadataImage) -> list[tuple[str, str]]:
    """(topic, mirror) of every topic with a `mirror.name`, sorted."""
    found = []
    for resource, props in image.configs.resources.items():
        if resource.type == RESOURCE_TOPIC:
            association = association_of(props)
            if association is not None:
                found.append((resource.name, association.mirror_name))
    return sorted(found)


def excluded_properties(mirror_configs: Mapping[str, str]) -> re.Pattern[str]:
    """mirror.topic.properties.exclude as one pattern: regexes separated by commas, each for the whole name."""
    text = mirror_configs.get(TOPIC_PROPERTIES_EXCLUDE_CONFIG)
    parts = list(DEFAULT_EXCLUDED_TOPIC_CONFIGS) if text is None else [part.strip() for part in text.split(",") if part.strip()]
    return re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)")


def config_changes(source: Mapping[str, str], local: Mapping[str, str], excluded: re.Pattern[str]) -> dict[str, str | None]:
    """What to set, and to delete (None), so that our overrides equal the source's. Pure."""

    def synced(name: str) -> bool:
        return not name.startswith(ALWAYS_EXCLUDED_PREFIX) and excluded.fullmatch(name) is None

    changes: dict[str, str | None] = {name: value for name, value in source.items() if synced(name) and local.get(name) != value}
    changes.update({name: None for name in local if name not in source and synced(name)})
    return changes
