"""Topic configs: this cluster's overrides are made equal to the source's (SYN6).

* Only dynamic overrides of the source's topic are copied, never its brokers' defaults (C17); an
  override that is deleted there is deleted here.
* `mirror.topic.properties.exclude` names what is left alone, as regexes for the whole name. `mirror.*` always is (C16).
* A config that this cluster does not have is left out: old sources have some that Kafka 4 removed. So is a value that is not valid here (Kafka 4
  takes no segment.bytes below 1 MiB; no topic of ours is tiered), or it would keep the topic's other configs away, and the topic from being
  made. The same goes for one that contradicts what stays or holds by default here (min.compaction.lag.ms above max.compaction.lag.ms). Each is
  logged once, and what the topic has here of that config stays.
* A topic of which a partition is FAILED keeps its configs (D1): its source may have another topic of the name, and retention would take what
  the mirror has kept (`truncation_guard`).
* A local change is overridden in the next cycle (FM20); the exclude list of each cycle is the one that then holds (SYN19).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.mirror_filters import NamePatterns, name_patterns
from kmirror.metadata.resource_configs import DEFAULT_EXCLUDED_TOPIC_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, inherited_topic_configs, validate_topic_configs
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.source_metadata import TOPICS_PER_REQUEST, describe_topic_configs
from kmirror.mirror.sync.partition_states import PartitionStates, topics_that_failed
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge, is_active
from kmirror.network.node_channels import ControllerChannel
from kmirror.wire.messages import incremental_alter_configs as messages

TOPIC_PROPERTIES_EXCLUDE_CONFIG = "mirror.topic.properties.exclude"
ALWAYS_EXCLUDED_PREFIX = "mirror."
OPERATION_SET = 0
OPERATION_DELETE = 1

_log = logging.getLogger(__name__)


class LeftOut(NamedTuple):
    """A config of the source that is not copied."""

    name: str
    value: str
    problem: str


class ConfigDifference(NamedTuple):
    """`changes`: the overrides to set, or to delete (None), so that ours equal the source's, except
    for those left out.
    """

    changes: dict[str, str | None]
    left_out: list[LeftOut]


class ConfigSync:
    """The step that syncs topic configs; owns which left-out configs it has logged."""

    gauge = SyncGauge.TOPIC_CONFIG

    def __init__(
        self, controller: ControllerChannel, states: PartitionStates, image: Callable[[], MetadataImage], config: MirrorConfig
    ) -> None:
        self._controller = controller
        self._states = states
        self._config = config
        self._image = image
        self._told: set[tuple[str, str, str]] = set()

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        excluded = excluded_properties(cycle.mirror.configs)
        source_configs, failures = await describe_topic_configs(cycle.source, cycle.topics)
        defaults = topic_defaults(self._image(), self._config)
        different: dict[str, dict[str, str | None]] = {}
        for topic, configs in source_configs.items():
            if not self._is_active(cycle, topic):
                continue
            found = compare_configs(configs, self._image().configs.topic(topic), excluded, defaults)
            for left_out in found.left_out:
                self._tell(cycle.mirror.name, topic, left_out)
            if found.changes:
                different[topic] = found.changes
        failed = await topics_that_failed(self._states, self._image(), cycle.mirror.name, different, failures)
        resources = [
            _resource(topic, changes) for topic, changes in different.items() if topic not in failed and self._is_active(cycle, topic)
        ]
        for start in range(0, len(resources), TOPICS_PER_REQUEST):
            part = resources[start : start + TOPICS_PER_REQUEST]
            response = await self._controller.send(messages.IncrementalAlterConfigsRequest(resources=part))
            failures += [
                f"configs of topic {row.resource_name}: {row.error_message or Errors.for_code(row.error_code).message}"
                for row in response.responses
                if row.error_code
            ]
        return failures

    def _is_active(self, cycle: SyncCycle, topic: str) -> bool:
        return is_active(self._image(), cycle.mirror.name, topic)

    def forget(self, mirror_name: str) -> None:
        self._told = {told for told in self._told if told[0] != mirror_name}

    def _tell(self, mirror_name: str, topic: str, left_out: LeftOut) -> None:
        what = (mirror_name, left_out.name, left_out.value)
        if what in self._told:
            return
        self._told.add(what)
        _log.warning("mirror %s: topic config %s=%s of the source (topic %s) is not copied: %s", *what, topic, left_out.problem)


def excluded_properties(mirror_configs: Mapping[str, str]) -> NamePatterns:
    """mirror.topic.properties.exclude: regexes separated by commas, each for the whole name."""
    text = mirror_configs.get(TOPIC_PROPERTIES_EXCLUDE_CONFIG)
    parts = list(DEFAULT_EXCLUDED_TOPIC_CONFIGS) if text is None else [part.strip() for part in text.split(",") if part.strip()]
    return name_patterns(parts)


def topic_defaults(image: MetadataImage, config: MirrorConfig) -> dict[str, str]:
    """The defaults for topics without overrides here, as the controller has them if its properties
    are the brokers'.
    """
    return {**config.static_topic_configs, **inherited_topic_configs(image.configs.cluster_default())}


def compare_configs(
    source: Mapping[str, str], local: Mapping[str, str], excluded: NamePatterns, defaults: Mapping[str, str] | None = None
) -> ConfigDifference:
    """Compares a topic's overrides at the source with ours. No I/O."""
    changes: dict[str, str | None] = {name: None for name in local if name not in source and _is_synced(name, excluded)}
    left_out = []
    for name, value in source.items():
        if local.get(name) == value or not _is_synced(name, excluded):
            continue
        problem = _problem(name, value)
        if problem is None:
            changes[name] = value
        else:
            left_out.append(LeftOut(name, value, problem))
    for name, value, problem in _contradictions(changes, local, defaults or {}):
        del changes[name]
        left_out.append(LeftOut(name, value, problem))
    return ConfigDifference(changes, left_out)


def _contradictions(changes: Mapping[str, str | None], local: Mapping[str, str], defaults: Mapping[str, str]) -> list[LeftOut]:
    """Values that are valid alone, but not together with the topic's other configs here or the
    defaults.
    """
    wanted = {name: value for name, value in changes.items() if value is not None}
    kept = {name: value for name, value in local.items() if name in TOPIC_CONFIGS and name not in changes}
    if not wanted or _problem_of({**kept, **wanted}, defaults) is None:
        return []
    found = []
    for name, value in sorted(wanted.items()):
        problem = _problem_of({**kept, name: value}, defaults)
        if problem is None:
            kept[name] = value
        else:
            found.append(LeftOut(name, value, problem))
    return found


def _is_synced(name: str, excluded: NamePatterns) -> bool:
    return not name.startswith(ALWAYS_EXCLUDED_PREFIX) and not excluded.takes(name)


def _problem(name: str, value: str) -> str | None:
    """Why no topic here may have this config; None if it may."""
    if name not in TOPIC_CONFIGS:
        return "it does not exist here"
    return _problem_of({name: value}, {})


def _problem_of(configs: Mapping[str, str], defaults: Mapping[str, str]) -> str | None:
    try:
        validate_topic_configs(configs, defaults)
    except ApiException as error:
        return error.message
    return None


def _resource(topic: str, changes: Mapping[str, str | None]) -> messages.AlterConfigsResource:
    configs = [
        messages.AlterableConfig(name=name, config_operation=OPERATION_DELETE if value is None else OPERATION_SET, value=value)
        for name, value in sorted(changes.items())
    ]
    return messages.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=topic, configs=configs)
