"""The actions of `kafka-configs`, over `AdminClient`; `configs_quotas` has quotas and SCRAM."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigEntry, ConfigOperation, ConfigResourceType, ConfigSource
from kmirror.cli import configs_quotas
from kmirror.cli.properties import read_properties
from kmirror.cli.tool_client import with_admin
from kmirror.cli.tool_options import CommandError, print_json
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.metadata.mirror_names import topic_name_problem

NOT_IN_BRACKETS = r"(?=[^\]]*(?:\[|$))"
RESOURCES = {
    "topics": (ConfigResourceType.TOPIC, ConfigSource.DYNAMIC_TOPIC_CONFIG),
    "brokers": (ConfigResourceType.BROKER, ConfigSource.DYNAMIC_BROKER_CONFIG),
    "broker-loggers": (ConfigResourceType.BROKER_LOGGER, None),
    "client-metrics": (ConfigResourceType.CLIENT_METRICS, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG),
    "groups": (ConfigResourceType.GROUP, ConfigSource.DYNAMIC_GROUP_CONFIG),
    "mirrors": (ConfigResourceType.MIRROR, None),
}


class ConfigCommand:
    """One invocation on the entities of these types and names."""

    def __init__(self, options: argparse.Namespace, types: list[str], names: list[str]) -> None:
        self._options = options
        self._types = types
        self._names = names

    def run(self) -> int:
        options = self._options
        if options.alter and len(self._types) != len(self._names):
            raise KmirrorError("An entity name must be specified for every entity type")
        servers = options.bootstrap_server or options.bootstrap_controller
        try:
            with_admin(
                servers,
                options.command_config,
                self._alter if options.alter else self._describe,
                controllers=options.bootstrap_controller is not None,
            )
        except ApiException as error:
            raise CommandError(f"Error while executing config command with args '{self._arguments()}'\n{error.message}") from error
        return 0

    def _arguments(self) -> str:
        """Returns the command line as Kafka's tool repeats it."""
        return " ".join(self._options.words)

    async def _alter(self, admin: AdminClient) -> None:
        added = configs_to_add(self._options)
        deleted = [name.strip() for name in self._options.delete_config.split(",")] if self._options.delete_config is not None else []
        kind, name = self._types[0], self._names[0]
        if kind in ("users", "clients"):
            await configs_quotas.alter_user_or_client(admin, self._types, self._names, added, deleted)
        elif kind == "ips":
            await configs_quotas.alter_ip(admin, self._types, self._names, added, deleted)
        else:
            await self._alter_resource(admin, kind, name, added, deleted)
        if name:
            print(f"Completed updating config for {kind[:-1]} {name}.")
        else:
            print(f"Completed updating default config for {kind} in the cluster.")

    async def _alter_resource(self, admin: AdminClient, kind: str, name: str, added: dict[str, str], deleted: list[str]) -> None:
        if kind == "broker-loggers":
            existing = {entry.name for entry in await resource_configs(admin, kind, name, describe_all=False)}
            unknown = [key for key in [*deleted, *added] if key not in existing]
            if unknown:
                raise KmirrorError(f"Invalid broker logger(s): {','.join(unknown)}")
        changes: list[tuple[str, ConfigOperation, str | None]] = [(key, ConfigOperation.SET, value) for key, value in added.items()]
        changes += [(key, ConfigOperation.DELETE, "") for key in deleted]
        await admin.incremental_alter_configs(RESOURCES[kind][0], name, changes)

    def _check_topic(self, name: str) -> None:
        """CommandError for what can be no topic's name."""
        problem = topic_name_problem(name)
        if problem is not None:
            if self._options.all:
                print(f"All configs for topic {name} are:")
            raise CommandError(f"Topic name is invalid: {problem}")

    async def _describe(self, admin: AdminClient) -> None:
        kind = self._types[0]
        if kind in ("users", "clients", "ips"):
            await configs_quotas.describe(admin, self._types, self._names, as_json=self._options.json)
            return
        if kind == "topics" and self._names and self._names[0]:
            self._check_topic(self._names[0])
        described = []
        names = await _mirror_names(admin, self._names) if kind == "mirrors" else await _all_names(admin, kind)
        if self._names and self._names[0] and self._names[0] not in names:
            print(f"The {kind[:-1]} '{self._names[0]}' doesn't exist and doesn't have dynamic config.")
            return
        for name in self._names[:1] or names:
            entries = await resource_configs(admin, kind, name, describe_all=self._options.all)
            if self._options.json:
                described.append({"entityType": kind, "entityName": name, "configs": [_as_json(entry) for entry in entries]})
            else:
                _print_resource(kind, name, entries, describe_all=self._options.all)
        if self._options.json:
            print_json(described)


def _print_resource(kind: str, name: str, entries: list[ConfigEntry], *, describe_all: bool) -> None:
    if name:
        print(f"{'All' if describe_all else 'Dynamic'} configs for {kind[:-1]} {name} are:")
    else:
        print(f"Default configs for {kind} in the cluster are:")
    for entry in entries:
        synonyms = ", ".join(f"{ConfigSource(row.source).name}:{row.name}={_shown(row.value)}" for row in entry.synonyms)
        print(f"  {entry.name}={_shown(entry.value)} sensitive={str(entry.is_sensitive).lower()} synonyms={{{synonyms}}}")


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _as_json(entry: ConfigEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": ConfigSource(entry.source).name,
        "sensitive": entry.is_sensitive,
        "readOnly": entry.is_read_only,
        "synonyms": [{"name": row.name, "value": row.value, "source": ConfigSource(row.source).name} for row in entry.synonyms],
    }


async def _all_names(admin: AdminClient, kind: str) -> list[str]:
    """Returns every entity of a type; the default of all brokers comes last."""
    if kind == "topics":
        return await admin.list_topics(include_internal=True)
    if kind in ("brokers", "broker-loggers"):
        return [str(node.id) for node in (await admin.describe_cluster()).nodes] + [""]
    if kind == "client-metrics":
        return [name for _, name in await admin.list_config_resources(ConfigResourceType.CLIENT_METRICS)]
    groups = {row.group_id for row in await admin.list_groups()}
    return sorted(groups | {name for _, name in await admin.list_config_resources(ConfigResourceType.GROUP)})


async def _mirror_names(admin: AdminClient, wanted: list[str]) -> list[str]:
    """Returns the names of the mirrors to describe.

    ListConfigResources needs DescribeConfigs on the cluster. Who has it only on mirrors must not
    need it there (ACL35). For them, a wanted mirror is asked for by its name; otherwise all mirrors
    that they may describe are listed.
    """
    try:
        return [name for _, name in await admin.list_config_resources(ConfigResourceType.MIRROR)]
    except ApiException as error:
        if error.error is not Errors.CLUSTER_AUTHORIZATION_FAILED:
            raise
    return wanted[:1] or sorted(mirror.mirror_name for mirror in await admin.list_mirrors())


async def resource_configs(admin: AdminClient, kind: str, name: str, *, describe_all: bool) -> list[ConfigEntry]:
    """Returns the entries of one entity by name: those set for it, or all."""
    resource_type, source = RESOURCES[kind]
    if kind == "brokers" and not name:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = await admin.describe_configs(resource_type, name, include_synonyms=True)
    shown = [entry for entry in entries if describe_all or source is None or entry.source == source]
    return sorted(shown, key=lambda entry: entry.name)


def configs_to_add(options: argparse.Namespace) -> dict[str, str]:
    """Returns the configs of `--add-config` and `--add-config-file`.

    A value in square brackets may contain commas and equals signs.
    """
    values: dict[str, str] = {}
    if options.add_config_file is not None:
        values |= read_properties(Path(options.add_config_file))
    if options.add_config is not None:
        for word in re.split("," + NOT_IN_BRACKETS, options.add_config):
            pair = re.split(r"\s*=\s*" + NOT_IN_BRACKETS, word)
            if len(pair) != 2:
                raise KmirrorError(
                    'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" or  '
                    '"key=[val1,val2]" to group values which contain commas.'
                )
            values[pair[0].strip()] = re.sub(r"[\[\]]", "", pair[1]).strip()
    for key in values:
        if not re.fullmatch(r"[a-zA-Z0-9._-]*", key):
            raise KmirrorError(f"Invalid character found for config key: {key}")
    return values
