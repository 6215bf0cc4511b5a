"""`kafka-topics`: create, delete, describe, change and list topics; options and output of Kafka's
tool, and `--json`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, refuse, require, run_tool

ACTIONS = ("list", "describe", "create", "alter", "delete")
ALL_ACTIONS = ("alter", "create", "describe", "list", "delete")
REPORTS = ("under-replicated-partitions", "under-min-isr-partitions", "at-min-isr-partitions", "unavailable-partitions")
DESCRIPTION = "This tool helps to create, delete, describe, or change a topic."


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-topics", DESCRIPTION)
    parser.connection()
    parser.flag("list", "List the topics.")
    parser.flag("create", "Create a topic.")
    parser.flag("delete", "Delete topics.")
    parser.flag("alter", "Add partitions to topics. (kafka-configs changes their configurations.)")
    parser.flag("describe", "Show the partitions of topics: leader, replicas, in-sync replicas.")
    parser.value("topic", "topic", "The topic; with any action but --create a regular expression.")
    parser.value("topic-id", "topic-id", "With --describe: the topic with this id.")
    parser.value("config", "name=value", "With --create: a configuration of the topic; may be given several times.", many=True)
    parser.value("delete-config", "name", "No longer supported.", many=True)
    parser.value(
        "partitions",
        "# of partitions",
        "With --create: the number of partitions. With --alter: the new number of partitions.",
        kind="Integer",
    )
    parser.value("replication-factor", "replication factor", "With --create: the number of replicas of each partition.", kind="Integer")
    parser.value(
        "replica-assignment",
        "b1_1:b1_2,b2_1:b2_2,...",
        "The brokers of each partition: colons between the replicas of one partition, commas between partitions.",
    )
    parser.flag("under-replicated-partitions", "With --describe: only partitions with replicas that are not in sync.")
    parser.flag("unavailable-partitions", "With --describe: only partitions whose leader is not available.")
    parser.flag("under-min-isr-partitions", "With --describe: only partitions with fewer in-sync replicas than the minimum.")
    parser.flag("at-min-isr-partitions", "With --describe: only partitions with just the minimum of in-sync replicas.")
    parser.flag("topics-with-overrides", "With --describe: only topics that have configurations of their own.")
    parser.flag("if-exists", "With --alter, --delete and --describe: a topic that does not exist is not an error.")
    parser.flag("if-not-exists", "With --create: a topic that already exists is not an error.")
    parser.flag("exclude-internal", "With --list, --describe: leave out internal topics.")
    parser.value(
        "partition-size-limit-per-response", "maximum number of partitions per response", "Partitions per request.", kind="Integer"
    )
    parser.json_flag("With --list, --describe: print JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    if sum(action in given for action in ACTIONS) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --create, --alter or --delete")
    if "delete-config" in given:
        text = "delete-config option is no longer supported and deprecated since version 4.0. The config will be fully removed in future releases."
        print(text, file=sys.stderr)
    if "bootstrap-server" not in given:
        raise UsageError("--bootstrap-server must be specified", show_help=False)
    if {"describe", "if-exists"} <= given:
        if not {"topic", "topic-id"} & given:
            raise UsageError("--topic or --topic-id is required to describe a topic")
        if {"topic", "topic-id"} <= given:
            print("Only topic id will be used when both --topic and --topic-id are specified and topicId is not Uuid.ZERO_UUID")
    if not {"list", "describe"} & given:
        require(options, "topic")
    if "alter" in given:
        if {"bootstrap-server", "config"} <= given:
            raise UsageError(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]" '
                "(To alter topic configurations, the kafka-configs tool can be used.)"
            )
        require(options, "partitions")
    for name, actions in (
        ("config", ("alter", "create")),
        ("partitions", ("alter", "create")),
        ("replication-factor", ("create",)),
        ("replica-assignment", ("alter", "create")),
    ):
        refuse(options, name, [action for action in ALL_ACTIONS if action not in actions])
    if "create" in given:
        refuse(options, "replica-assignment", ("partitions", "replication-factor"))
    for name in REPORTS:
        refuse(options, name, [*(action for action in ALL_ACTIONS if action != "describe"), "topics-with-overrides"])
    refuse(options, "topics-with-overrides", [*(action for action in ALL_ACTIONS if action != "describe"), *REPORTS])
    refuse(options, "if-exists", ("create", "list"))
    refuse(options, "if-not-exists", ("alter", "describe", "list", "delete"))
    refuse(options, "exclude-internal", ("alter", "create", "delete"))
    refuse(options, "json", ("alter", "create", "delete"))


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.topics_actions import TopicCommand

    return TopicCommand(options).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run, failed="Error while executing topic command : ", failed_on_stdout=True)


if __name__ == "__main__":
    sys.exit(main())
