"""Topic configs: this cluster's overrides are made equal to the source's (SYN6).

* Only dynamic overrides of the source's topic are copied, never its brokers' defaults (C17); one that goes there goes here.
* `mirror.topic.properties.exclude` names what is left alone, as regexes for the whole name. `mirror.*` always is (C16).
* A config that this cluster does not have is left out: old sources have some that Kafka 4 removed. It is logged once.
* A local change is overridden in the next cycle (FM20); the exclude list of each cycle is the one that then holds (SYN19).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from kmirror.common.errors import Errors
from kmirror.metadata.image import RESOURCE_TOPIC, MetadataImage
from kmirror.metadata.resource_configs import DEFAULT_EXCLUDED_TOPIC_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIGS
from kmirror.mirror.ports import ControllerChannel
from kmirror.mirror.source_metadata import TOPICS_PER_REQUEST, describe_topic_configs
from kmirror.mirror.sync_cycle import SyncCycle, SyncGauge, is_active
from kmirror.wire.messages import incremental_alter_configs as messages

TOPIC_PROPERTIES_EXCLUDE_CONFIG = "mirror.topic.properties.exclude"
ALWAYS_EXCLUDED_PREFIX = "mirror."
OPERATION_SET = 0
OPERATION_DELETE = 1

_log = logging.getLogger(__name__)


class ConfigSync:
    """The step."""

    gauge = SyncGauge.TOPIC_CONFIG

    def __init__(self, controller: ControllerChannel, image: Callable[[], MetadataImage]) -> None:
        self._controller = controller
        self._image = image
        self._told: set[tuple[str, str]] = set()

    async def sync(self, cycle: SyncCycle) -> Sequence[str]:
        excluded = excluded_properties(cycle.mirror.configs)
        source_configs, failures = await describe_topic_configs(cycle.mirror.source, cycle.topics)
        resources = []
        for topic, configs in source_configs.items():
            if not is_active(self._image(), cycle.mirror.name, topic):
                continue
            self._tell_unknown(cycle.mirror.name, configs)
            changes = config_changes(configs, self._image().configs.topic(topic), excluded)
            if changes:
                resources.append(_resource(topic, changes))
        for start in range(0, len(resources), TOPICS_PER_REQUEST):
            part = resources[start : start + TOPICS_PER_REQUEST]
            response = await self._controller.send(messages.IncrementalAlterConfigsRequest(resources=part))
            failures += [
                f"configs of topic {row.resource_name}: {row.error_message or Errors.for_code(row.error_code).message}"
                for row in response.responses
                if row.error_code
            ]
        return failures

    def forget(self, mirror_name: str) -> None:
        self._told = {(name, config) for name, config in self._told if name != mirror_name}

    def _tell_unknown(self, mirror_name: str, names: Iterable[str]) -> None:
        for name in names:
            if name not in TOPIC_CONFIGS and (mirror_name, name) not in self._told:
                self._told.add((mirror_name, name))
                _log.warning("mirror %s: topic config %s of the source does not exist here and is not copied", mirror_name, name)


def excluded_properties(mirror_configs: Mapping[str, str]) -> re.Pattern[str]:
    """mirror.topic.properties.exclude as one pattern: regexes separated by commas, each for the whole name."""
    text = mirror_configs.get(TOPIC_PROPERTIES_EXCLUDE_CONFIG)
    parts = list(DEFAULT_EXCLUDED_TOPIC_CONFIGS) if text is None else [part.strip() for part in text.split(",") if part.strip()]
    return re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)")


def config_changes(source: Mapping[str, str], local: Mapping[str, str], excluded: re.Pattern[str]) -> dict[str, str | None]:
    """What to set, and to delete (None), so that our overrides equal the source's. Pure."""

    def synced(name: str) -> bool:
        return not name.startswith(ALWAYS_EXCLUDED_PREFIX) and name in TOPIC_CONFIGS and excluded.fullmatch(name) is None

    changes: dict[str, str | None] = {name: value for name, value in source.items() if synced(name) and local.get(name) != value}
    changes.update({name: None for name in local if name not in source and synced(name)})
    return changes


def _resource(topic: str, changes: Mapping[str, str | None]) -> messages.AlterConfigsResource:
    configs = [
        messages.AlterableConfig(name=name, config_operation=OPERATION_DELETE if value is None else OPERATION_SET, value=value)
        for name, value in sorted(changes.items())
    ]
    return messages.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=topic, configs=configs)
