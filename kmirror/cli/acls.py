"""`kafka-acls`: add, remove and list access rules; options and output of Kafka's tool, and
`--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, refuse, run_tool
from kmirror.common.errors import KmirrorError

DESCRIPTION = "This tool helps to manage acls on kafka."
ACTIONS = ("add", "remove", "list")
PATTERN_TYPES = ("ANY", "MATCH", "LITERAL", "PREFIXED")
OPERATIONS = (
    "Read, Write, Create, Delete, Alter, Describe, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, CreateTokens, "
    "DescribeTokens, TwoPhaseCommit, All"
)


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-acls", DESCRIPTION)
    parser.connection(bootstrap_text="The brokers to connect to, as host:port,host:port.")
    parser.value("bootstrap-controller", "controller to connect to", "The controllers to connect to, instead of brokers.")
    parser.flag("add", "Add rules.")
    parser.flag("remove", "Remove rules.")
    parser.flag("list", "List the rules of the named resources, or all.")
    parser.value("topic", "topic", "Rules for this topic; '*' is the resource of all topics.", many=True)
    parser.flag("cluster", "Rules for the cluster.")
    parser.value("group", "group", "Rules for this group; '*' is the resource of all groups.", many=True)
    parser.value("transactional-id", "transactional-id", "Rules for this transactional id; '*' is the resource of all ids.", many=True)
    parser.value("cluster-mirror", "cluster-mirror", "Rules for this cluster mirror; '*' is the resource of all mirrors.", many=True)
    parser.value("delegation-token", "delegation-token", "Rules for this delegation token; '*' is the resource of all tokens.", many=True)
    parser.value("user-principal", "user-principal", "Rules for this user as a resource (CreateTokens, DescribeTokens).", many=True)
    parser.flag("idempotent", "With --producer: also allow idempotent writes.")
    parser.value(
        "resource-pattern-type",
        "ANY|MATCH|LITERAL|PREFIXED",
        "How resource names match. With --list and --remove it can also be ANY (rules of any pattern type with exactly this name) or "
        "MATCH (all rules that apply to this name).",
        default="LITERAL",
    )
    parser.value("operation", "", f"The operation that is allowed or denied: {OPERATIONS} (default: All).", many=True)
    parser.value("allow-principal", "allow-principal", "The principal that is allowed, as type:name; User:* is everyone.", many=True)
    parser.value(
        "deny-principal", "deny-principal", "The principal that is denied, as type:name. A deny rule overrides allow rules.", many=True
    )
    parser.optional_value("principal", "principal", "With --list: show only the rules of this principal.", many=True)
    parser.value("allow-host", "allow-host", "The host from which --allow-principal has access (default: *).", many=True)
    parser.value("deny-host", "deny-host", "The host from which --deny-principal has no access (default: *).", many=True)
    parser.flag("producer", "The rules that a producer needs: Write, Describe and Create on topics.")
    parser.flag("consumer", "The rules that a consumer needs: Read and Describe on topics, Read on groups.")
    parser.flag("force", "Do not ask for confirmation.")
    parser.json_flag("With --list: print JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    if {"bootstrap-server", "bootstrap-controller"} <= given:
        raise UsageError("Only one of --bootstrap-server or --bootstrap-controller must be specified")
    if not {"bootstrap-server", "bootstrap-controller"} & given:
        raise UsageError("One of --bootstrap-server or --bootstrap-controller must be specified")
    if len(set(ACTIONS) & given) != 1:
        raise UsageError("Command must include exactly one action: --list, --add, --remove. ")
    refuse(options, "list", ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"))
    refuse(options, "producer", ("operation", "deny-principal", "deny-host"))
    refuse(options, "consumer", ("operation", "deny-principal", "deny-host"))
    if "principal" in given and "list" not in given:
        raise UsageError("The --principal option is only available if --list is set")
    if "producer" in given and "topic" not in given:
        raise UsageError("With --producer you must specify a --topic")
    if "idempotent" in given and "producer" not in given:
        raise UsageError("The --idempotent option is only available if --producer is set")
    others = "producer" not in given and {"cluster", "transactional-id"} & given
    if "consumer" in given and (not {"topic", "group"} <= given or others):
        raise UsageError(
            "With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified."
        )
    if options.resource_pattern_type.upper() not in PATTERN_TYPES:
        raise KmirrorError(f"Cannot parse argument '{options.resource_pattern_type}' of option resource-pattern-type")
    refuse(options, "json", ("add", "remove"))


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.acls_actions import AclCommand

    return AclCommand(options).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run, failed="Error while executing ACL command: ", failed_on_stdout=True)


if __name__ == "__main__":
    sys.exit(main())
