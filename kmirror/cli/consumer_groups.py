"""`kafka-consumer-groups`: list, describe and delete consumer groups, reset and delete offsets.

It works like Kafka's tool, and has `--json`. As with Kafka's tool, the exit code is 0 even when the
cluster refused; then "Error:" on stdout says so. Wrong options give exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, refuse, require, run_tool

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
SCENARIOS = ("to-offset", "shift-by", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "to-current")
DESCRIPTION = (
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or reset consumer group offsets."
)


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-consumer-groups", DESCRIPTION)
    parser.connection(bootstrap_text="The brokers to connect to, as host:port,host:port. Needed by all actions but --validate-regex.")
    parser.flag("list", "List the groups.")
    parser.flag("describe", "Show the offsets and the lag of groups, or their members (--members) or state (--state).")
    parser.flag("delete", "Delete groups without members.")
    parser.flag(
        "reset-offsets", "Set the offsets of groups without members. It needs a scope (--topic, --all-topics) and a target (--to-...)."
    )
    parser.flag("delete-offsets", "Delete the offsets of a group for topics that it does not read.")
    parser.value("validate-regex", "regex", "Check whether a regular expression can be used in a subscription (RE2 syntax).")
    parser.value("group", "consumer group", "The group; may be given several times.", many=True)
    parser.flag("all-groups", "All groups.")
    parser.value("topic", "topic", "A topic, or partitions of it as topic:0,1,2; may be given several times.", many=True)
    parser.flag("all-topics", "With --reset-offsets: every topic that the group has offsets of.")
    parser.flag("members", "With --describe: show the members of the group.")
    parser.flag("offsets", "With --describe: show the offsets and the lag. This is the default.")
    parser.optional_value(
        "state", "", "With --describe: show the state of the group. With --list: show states, or list only groups in these states."
    )
    parser.optional_value("type", "", "With --list: show types, or list only groups of these types (classic, consumer).")
    parser.flag("verbose", "With --describe: show more columns.")
    parser.value("timeout", "timeout (ms)", "The time in ms to wait for responses.", kind="Long", default=30_000)
    parser.flag("dry-run", "With --reset-offsets: show the new offsets and change nothing.")
    parser.flag("execute", "With --reset-offsets: set the new offsets.")
    parser.flag("export", "With --reset-offsets: print as CSV.")
    parser.value("from-file", "path to CSV file", "Reset to the offsets in a CSV file.")
    parser.value("to-offset", "offset", "Reset to this offset.", kind="Long")
    parser.value("shift-by", "number-of-offsets", "Shift the offsets by this number; a negative number shifts them back.", kind="Long")
    parser.value("to-datetime", "datetime", "Reset to the first record from this time on: YYYY-MM-DDThh:mm:ss.sss.")
    parser.value("by-duration", "duration", "Reset to the first record of the last period: PnDTnHnMnS.")
    parser.flag("to-earliest", "Reset to the earliest offset.")
    parser.flag("to-latest", "Reset to the latest offset.")
    parser.flag("to-current", "Reset to the committed offsets.")
    parser.json_flag("With --list, --describe, --reset-offsets: print JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    if "validate-regex" not in given:
        require(options, "bootstrap-server")
    if "describe" in given:
        _needs_groups(options, "describe")
        details = [f"[{name}]" for name in ("members", "offsets", "state") if name in given]
        if len(details) > 1:
            raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options.state:
            raise UsageError("Option [describe] does not take a value for [state]")
    if "delete" in given:
        _needs_groups(options, "delete")
        if "topic" in given:
            raise UsageError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if "delete-offsets" in given and not {"group", "topic"} <= given:
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if "reset-offsets" in given:
        _check_reset(options)
    refuse(options, "group", ("all-groups",))
    refuse(options, "group", ("list", "validate-regex"))
    refuse(options, "topic", ("list", "describe"))
    if len(set(ACTIONS) & given) != 1:
        raise UsageError(
            "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex"
        )
    refuse(options, "json", ("delete", "delete-offsets", "export"))


def _needs_groups(options: argparse.Namespace, action: str) -> None:
    if not {"group", "all-groups"} & options.given:
        raise UsageError(f"Option [{action}] takes one of these options: [all-groups], [group]")


def _check_reset(options: argparse.Namespace) -> None:
    given = options.given
    if {"dry-run", "execute"} <= given:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not {"dry-run", "execute"} & given:
        print(
            "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require either "
            "--dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are scripting this command "
            "and want to keep the current default behavior without prompting.",
            file=sys.stderr,
        )
    _needs_groups(options, "reset-offsets")
    for name in SCENARIOS:
        refuse(options, name, [other for other in SCENARIOS if other != name])


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.consumer_groups_actions import ConsumerGroupCommand

    return ConsumerGroupCommand(options).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    failed = "\nError: Executing consumer group command failed due to "
    return run_tool(build_parser(), arguments, check, run, failed=failed, failed_on_stdout=True, failure_code=0)


if __name__ == "__main__":
    sys.exit(main())
