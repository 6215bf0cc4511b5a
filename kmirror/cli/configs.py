"""`kafka-configs`: describe and change configurations, client quotas and SCRAM credentials.

It has the options and output of Kafka's tool, and `--json`. An entity is named by `--entity-type`
with `--entity-name` or `--entity-default`, or by a short form of both (`--topic t`,
`--user-defaults`). `entities` turns either into pairs of type and name. The name "" is the default;
a type without a name means all entities of the type.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, dest, refuse, run_tool
from kmirror.common.errors import KmirrorError
from kmirror.common.numbers import is_integer

TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "mirrors", "broker-loggers")
SHORT_FORMS = {
    "topic": "topics",
    "client": "clients",
    "user": "users",
    "broker": "brokers",
    "broker-logger": "broker-loggers",
    "ip": "ips",
    "client-metrics": "client-metrics",
    "group": "groups",
}
SHORT_DEFAULTS = {"client-defaults": "clients", "user-defaults": "users", "broker-defaults": "brokers", "ip-defaults": "ips"}
WITH_DEFAULT = ("users", "clients", "brokers", "ips")
DESCRIPTION = "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or group"


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-configs", DESCRIPTION)
    parser.connection(bootstrap_text="The brokers to connect to, as host:port,host:port.")
    parser.value("bootstrap-controller", "controller to connect to", "The controllers to connect to, instead of brokers.")
    parser.flag("alter", "Change the configuration of an entity.")
    parser.flag("describe", "Show the configuration of an entity, or of all entities of a type.")
    parser.flag("all", "With --describe: also show the configs that are not set dynamically.")
    parser.value(
        "entity-type",
        "",
        "The type of the entity: topics, clients, users, brokers, broker-loggers, ips, client-metrics, groups, mirrors.",
        many=True,
    )
    parser.value(
        "entity-name",
        "",
        "The entity: the name of a topic, user, client, group, mirror or metrics subscription, the id of a broker, or an IP address.",
        many=True,
    )
    parser.flag("entity-default", "The default entity for clients, users, brokers or ips.")
    parser.value("add-config", "", "The configs to set: 'k1=v1,k2=[v1,v2],k3=v3'. Square brackets enclose a value with commas.")
    parser.value("add-config-file", "", "A properties file with the configs to set.")
    parser.value("delete-config", "", "The configs to remove: 'k1,k2'.")
    for name, entity_type in SHORT_FORMS.items():
        parser.value(name, "", f"Short for --entity-type {entity_type} --entity-name.")
    for name, entity_type in SHORT_DEFAULTS.items():
        parser.flag(name, f"Short for --entity-type {entity_type} --entity-default.")
    parser.json_flag("With --describe: print JSON.")
    return parser


def entities(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Returns types and names, in the order in which Kafka's tool takes them."""
    given = options.given
    types = list(options.entity_type)
    types += [entity_type for name, entity_type in (SHORT_FORMS | SHORT_DEFAULTS).items() if name in given]
    values = iter(options.entity_name)
    names = [next(values) if name == "entity-name" else "" for name in options.order if name in ("entity-name", "entity-default")]
    names += [str(getattr(options, dest(name))) for name in SHORT_FORMS if name in given]
    names += ["" for name in SHORT_DEFAULTS if name in given]
    return types, names


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    if len({"alter", "describe"} & given) != 1:
        raise UsageError("Command must include exactly one action: --describe, --alter")
    refuse(options, "describe", ("add-config", "delete-config"))
    types, names = entities(options)
    _check_types(types)
    if {"entity-name", "entity-type", "entity-default"} & given and (SHORT_FORMS.keys() | SHORT_DEFAULTS.keys()) & given:
        raise KmirrorError("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    connections = len({"bootstrap-server", "bootstrap-controller"} & given)
    if connections == 0:
        raise KmirrorError("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if connections == 2:
        raise KmirrorError("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    has_name = any(names)
    if has_name and {"brokers", "broker-loggers"} & set(types):
        for name in names:
            if name and not is_integer(name):
                raise KmirrorError(f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}")
    if types == ["ips"]:
        for name in filter(None, names):
            _check_address(name)
    if "describe" in given:
        if not set(WITH_DEFAULT) & set(types) and "entity-default" in given:
            raise KmirrorError(f"--entity-default must not be specified with --describe of {','.join(types)}")
        if "broker-loggers" in types and not has_name:
            raise KmirrorError(f"An entity name must be specified with --describe of {','.join(types)}")
    else:
        _check_alter(options, types, names)
    refuse(options, "json", ("alter",))


def _check_address(name: str) -> None:
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError) as error:
        raise KmirrorError(f"The entity name for ips must be a valid IP or resolvable host, but it is: {name}") from error


def _check_types(types: list[str]) -> None:
    doubled = [name for index, name in enumerate(types) if name in types[:index]]
    if doubled:
        raise KmirrorError(f"Duplicate entity type(s) specified: {','.join(doubled)}")
    for name in types:
        if name not in TYPES:
            allowed = ", ".join(TYPES)
            raise KmirrorError(
                f"Invalid entity type {name}, the entity type must be one of {allowed} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise KmirrorError("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise KmirrorError("Only 'users' and 'clients' entity types may be specified together")


def _check_alter(options: argparse.Namespace, types: list[str], names: list[str]) -> None:
    given = options.given
    if set(WITH_DEFAULT) & set(types):
        if not names:
            raise KmirrorError("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
    elif not any(names):
        raise KmirrorError(f"An entity name must be specified with --alter of {','.join(types)}")
    if {"add-config", "add-config-file"} <= given:
        raise KmirrorError("Only one of --add-config or --add-config-file must be specified")
    if not {"add-config", "add-config-file", "delete-config"} & given:
        raise KmirrorError("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.configs_actions import ConfigCommand

    return ConfigCommand(options, *entities(options)).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
