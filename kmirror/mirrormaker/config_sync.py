"""How the configs of a remote topic follow its source's (SY1).

Each round alters incrementally what the source describes: entries of the topic itself and of the
source's dynamic broker defaults are set, entries that are Kafka's own defaults are deleted at the
target, so that the target's default holds there. With `use.defaults.from=source` they are set, too.
Configs that only the target has stay as they are. Read-only and sensitive entries, and entries from
a broker's properties file, are never copied.

A new topic gets the same selection, without entries that are defaults (unless `use.defaults.from`
is `source`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kmirror.admin.results import ConfigEntry, ConfigOperation, ConfigSource

ConfigChange = tuple[str, ConfigOperation, str | None]
"""As `AdminClient.incremental_alter_configs` takes it."""


class ConfigPropertyFilter(Protocol):
    """Kafka's `ConfigPropertyFilter` (FI3)."""

    def should_replicate_config_property(self, name: str) -> bool: ...
    def should_replicate_source_default(self, name: str) -> bool: ...


def config_changes(entries: Iterable[ConfigEntry], config_filter: ConfigPropertyFilter) -> list[ConfigChange]:
    """Returns the changes to the remote topic, in the order of the source's entries (SY1)."""
    changes: list[ConfigChange] = []
    for entry in _copied(entries, config_filter):
        if _is_default(entry) and not config_filter.should_replicate_source_default(entry.name):
            changes.append((entry.name, ConfigOperation.DELETE, None))
        else:
            changes.append((entry.name, ConfigOperation.SET, entry.value))
    return changes


def new_topic_configs(entries: Iterable[ConfigEntry], config_filter: ConfigPropertyFilter) -> dict[str, str | None]:
    """Returns the configs that a remote topic is created with (RT4)."""
    return {
        entry.name: entry.value
        for entry in _copied(entries, config_filter)
        if not _is_default(entry) or config_filter.should_replicate_source_default(entry.name)
    }


def topics_to_configure(remote_names: Mapping[str, str], target_topics: Iterable[str]) -> list[str]:
    """Returns the source's topics whose configs are synced: those that exist at the target.

    `remote_names` maps the replicated topics of the source to their names at the target.
    """
    existing = frozenset(target_topics)
    return [topic for topic, remote in remote_names.items() if remote in existing]


def _copied(entries: Iterable[ConfigEntry], config_filter: ConfigPropertyFilter) -> list[ConfigEntry]:
    return [
        entry
        for entry in entries
        if not entry.is_read_only
        and not entry.is_sensitive
        and entry.source != ConfigSource.STATIC_BROKER_CONFIG
        and config_filter.should_replicate_config_property(entry.name)
    ]


def _is_default(entry: ConfigEntry) -> bool:
    """Kafka's `ConfigEntry.isDefault`: its own default, not one of a broker."""
    return entry.source == ConfigSource.DEFAULT_CONFIG
