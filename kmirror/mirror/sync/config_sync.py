"""Topic configs: this cluster's overrides are made equal to the source's (SYN6).

* An override of the source's topic is an override here; one that is deleted there is deleted here.
* What deletes or refuses records (`metadata.lossy_configs`) is compared in effect (C17): where the
  source's brokers have another default than any broker of this cluster, the source's becomes an
  override here. `mirror.source.defaults` of the topic names those. If the source's brokers differ
  among themselves, it is the value that keeps most. Other defaults of the source are not copied.
* A policy that compacts is an override here in any case: without one no cleaner works on a mirror
  (`storage.log_config`). The source's own part in cleaning goes into `mirror.source.cleaning`, so
  that nothing set here makes the cleaner take more than the source's does.
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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.lossy_configs import CLEANUP_POLICY_CONFIG, has_same_effect, keeps_most, value_in_force
from kmirror.metadata.mirror_filters import NamePatterns, name_patterns
from kmirror.metadata.mirror_names import MIRROR_SOURCE_CLEANING_CONFIG, MIRROR_SOURCE_DEFAULTS_CONFIG
from kmirror.metadata.resource_configs import DEFAULT_EXCLUDED_TOPIC_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, validate_topic_configs
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_cluster import SourceCluster
from kmirror.mirror.source.source_configs import TOPICS_PER_REQUEST, SourceTopicConfigs, describe_topic_configs
from kmirror.mirror.sync.destination_defaults import DestinationDefaults
from kmirror.mirror.sync.partition_states import PartitionStates, topics_that_failed
from kmirror.mirror.sync.sync_cycle import SyncCycle, SyncGauge, is_active
from kmirror.network.node_channels import ControllerChannel
from kmirror.storage.log_config import cleaning_text
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
    wanted: Mapping[str, str]
    """What was to be equal to."""


class ConfigSync:
    """The step that syncs topic configs; owns which left-out configs it has logged."""

    gauge = SyncGauge.TOPIC_CONFIG

    def __init__(
        self, controller: ControllerChannel, states: PartitionStates, image: Callable[[], MetadataImage], defaults: DestinationDefaults
    ) -> None:
        self._controller = controller
        self._states = states
        self._defaults = defaults
        self._image = image
        self._told: set[tuple[str, str, str]] = set()

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        return await self.align(cycle.mirror, cycle.source, cycle.topics)

    async def align(self, mirror: Mirror, source: SourceCluster, topics: Sequence[str]) -> list[str]:
        """Makes the configs of active topics equal to the source's; returns what failed, as texts."""
        found, failures = await self.wanted(mirror, source, topics)
        different = {topic: changes for topic, changes in found.items() if changes}
        failed = await topics_that_failed(self._states, self._image(), mirror.name, different, failures)
        resources = [
            _resource(topic, changes)
            for topic, changes in different.items()
            if topic not in failed and is_active(self._image(), mirror.name, topic)
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

    async def wanted(
        self, mirror: Mirror, source: SourceCluster, topics: Iterable[str]
    ) -> tuple[dict[str, dict[str, str | None]], list[str]]:
        """By topic that the source has described: the overrides to set or (None) to delete here, so
        that it is treated as at the source. Also what failed, as texts.
        """
        excluded = excluded_properties(mirror.configs)
        source_configs, failures = await describe_topic_configs(source, topics)
        defaults = await self._defaults.of_all()
        changes: dict[str, dict[str, str | None]] = {}
        for topic, configs in source_configs.items():
            local = self._image().configs.topic(topic)
            found = compare_configs(in_effect(configs, defaults), local, excluded, self._defaults.own)
            changes[topic] = {**_with_names_of_defaults(found, configs, local), **_cleaning(found.wanted, local)}
            for left_out in found.left_out:
                self._tell(mirror.name, topic, left_out)
            for name, values in configs.defaults.items():
                if len(values) > 1 and found.changes.get(name) is not None:
                    self._tell_difference(mirror.name, topic, name, values)
        return changes, failures

    def forget(self, mirror_name: str) -> None:
        self._told = {told for told in self._told if told[0] != mirror_name}

    def _tell_difference(self, mirror_name: str, topic: str, name: str, values: Sequence[str]) -> None:
        """Logs that the source's brokers differ, each time that this changes a topic here."""
        _log.warning(
            "mirror %s: the source's brokers have different defaults of %s (%s); topic %s gets %s, which keeps most",
            mirror_name,
            name,
            "; ".join(values),
            topic,
            keeps_most(name, values) or "none",
        )

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


def in_effect(source: SourceTopicConfigs, destination: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The overrides with which a topic is treated here as at the source. `destination`: the
    defaults of this cluster's brokers. No I/O.
    """
    wanted = dict(source.overrides)
    for name, values in source.defaults.items():
        value = keeps_most(name, values)
        compacts = name == CLEANUP_POLICY_CONFIG and "compact" in value
        if compacts or not all(has_same_effect(name, value, value_in_force(name, defaults)) for defaults in destination):
            wanted[name] = value
    return wanted


def _with_names_of_defaults(found: ConfigDifference, source: SourceTopicConfigs, local: Mapping[str, str]) -> dict[str, str | None]:
    """The changes, and with them the names of the overrides that stand for defaults of the source."""
    after = {name for name, value in {**local, **found.changes}.items() if value is not None}
    names = ",".join(sorted(after & source.defaults.keys() & found.wanted.keys())) or None
    changes = dict(found.changes)
    if names != local.get(MIRROR_SOURCE_DEFAULTS_CONFIG):
        changes[MIRROR_SOURCE_DEFAULTS_CONFIG] = names
    return changes


def _cleaning(wanted: Mapping[str, str], local: Mapping[str, str]) -> dict[str, str | None]:
    """The change of what the topic says of the source's cleaning, if it says something else. It is
    the source's also of configs that the mirror excludes.
    """
    text = cleaning_text({name: value for name, value in wanted.items() if _problem(name, value) is None})
    return {} if text == local.get(MIRROR_SOURCE_CLEANING_CONFIG) else {MIRROR_SOURCE_CLEANING_CONFIG: text}


def compare_configs(
    source: Mapping[str, str], local: Mapping[str, str], excluded: NamePatterns, defaults: Mapping[str, str] | None = None
) -> ConfigDifference:
    """Compares the overrides that a topic should have (`in_effect`) with ours. No I/O."""
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
    return ConfigDifference(changes, left_out, source)


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
