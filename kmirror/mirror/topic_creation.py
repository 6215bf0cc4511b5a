"""Creating the topics of an AddTopicsToMirror that this cluster does not have yet, from the
source's metadata (B17).

A topic is created with the same name, the same topic id (if the source has ids), the same partition
count, the source's dynamic configs except the excluded ones, and this cluster's default replication
factor. A topic that the source does not have either is an error of the request. Internal topics are
not created, because they cannot be mirrored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import INTERNAL_TOPICS
from kmirror.metadata.mirror_names import MIRROR_SOURCE_CLEANING_CONFIG, MIRROR_SOURCE_DEFAULTS_CONFIG
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_cluster import SourceCluster, SourceError, SourceTopic
from kmirror.mirror.sync.topic_sync import in_requests
from kmirror.network.client import UnsupportedVersionError
from kmirror.network.node_channels import ControllerChannel
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import create_topics

DEFAULT_REPLICATION_FACTOR = -1
POLL_INTERVAL_MS = 20

_log = logging.getLogger(__name__)


async def create_missing_topics(
    manager: MirrorManager, runtime: Runtime, controller: ControllerChannel, mirror_name: str, names: list[str], *, timeout_ms: int
) -> dict[str, Errors]:
    """Creates the topics of `names` that are missing here; returns an error for each that could not
    be created.

    Waits until this broker and the coordinators of their states see them: a coordinator that has
    not heard of a topic yet says that it does not exist.
    """
    missing = [name for name in names if manager.image().topics.topic(name) is None]
    errors = {name: Errors.INVALID_TOPIC_EXCEPTION for name in missing if name in INTERNAL_TOPICS}
    missing = [name for name in missing if name not in errors]
    if not missing:
        return errors
    mirror = manager.mirror(mirror_name)
    try:
        source = mirror.source
        metadata = await source.refresh(missing)
        await mirror.learn_cluster_id(metadata.cluster_id)
        present = {name: topic for name, topic in metadata.topics.items() if topic.error is Errors.NONE and topic.partitions}
        configs = await _source_configs(manager, mirror, source, present)
    except SourceError:
        return errors | dict.fromkeys(missing, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    if mirror.is_suspended or not present:
        return errors | dict.fromkeys(missing, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    errors |= {name: Errors.UNKNOWN_TOPIC_OR_PARTITION for name in missing if name not in present}
    topics = [_creatable(name, present[name], configs.get(name, {})) for name in sorted(present)]
    for part in in_requests(topics, lambda topic: topic.num_partitions):
        response = await controller.send(create_topics.CreateTopicsRequest(topics=part, timeout_ms=timeout_ms))
        for row in response.topics:
            if row.error_code not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS):
                errors[row.name] = Errors.for_code(row.error_code)
    await _wait_until_seen(manager, runtime, mirror_name, [name for name in present if name not in errors], timeout_ms)
    return errors


async def _source_configs(
    manager: MirrorManager, mirror: Mirror, source: SourceCluster, topics: Iterable[str]
) -> dict[str, dict[str, str | None]]:
    """The configs with which the topics are treated here as at the source. A topic whose configs
    are missing is created anyway, and the config sync keeps asking.
    """
    try:
        configs, failures = await manager.topic_configs.wanted(mirror, source, topics)
    except UnsupportedVersionError:
        return {}
    for text in failures:
        _log.warning("mirror %s: %s; the topic is created without the source's configs", mirror.name, text)
    return configs


def _creatable(name: str, topic: SourceTopic, configs: Mapping[str, str | None]) -> create_topics.CreatableTopic:
    """What tells of the source's own configs follows when the first partition is prepared: a client of
    the controller may not set it, and topics may be made over any channel.
    """
    synced = {key: value for key, value in configs.items() if key not in (MIRROR_SOURCE_CLEANING_CONFIG, MIRROR_SOURCE_DEFAULTS_CONFIG)}
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=len(topic.partitions),
        replication_factor=DEFAULT_REPLICATION_FACTOR,
        configs=[create_topics.CreatableTopicConfig(name=key, value=value) for key, value in sorted(synced.items())],
        mirror_info=create_topics.MirrorInfo(topic_id=topic.topic_id) if topic.topic_id else None,
    )


async def _wait_until_seen(manager: MirrorManager, runtime: Runtime, mirror_name: str, names: list[str], timeout_ms: int) -> None:
    deadline_ms = runtime.clock.monotonic_ms() + timeout_ms
    while names and not await _are_seen(manager, mirror_name, names):
        if runtime.clock.monotonic_ms() >= deadline_ms:
            raise ApiException(Errors.REQUEST_TIMED_OUT, f"topics {', '.join(sorted(names))} were created but are not visible here yet")
        await runtime.sleep_ms(POLL_INTERVAL_MS)


async def _are_seen(manager: MirrorManager, mirror_name: str, names: list[str]) -> bool:
    if any(manager.image().topics.topic(name) is None for name in names):
        return False
    states = await manager.states.read(manager.mirror_partitions(mirror_name, names))
    return Errors.UNKNOWN_TOPIC_OR_PARTITION not in states.values()
