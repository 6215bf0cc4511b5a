"""`kafka-share-groups`: list, describe and delete share groups, reset and delete their offsets.

It works like Kafka's tool, and has `--json`. As with Kafka's tool, the exit code is 0 even when the
cluster refused; then "Error:" on stdout says so. Wrong options give exit code 1.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, refuse, require, run_tool

ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
SCENARIOS = ("to-datetime", "to-earliest", "to-latest")
ONLY_TO_DESCRIBE = ("members", "offsets", "verbose")
DESCRIPTION = "This tool helps to list, describe, reset and delete share groups."


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-share-groups", DESCRIPTION)
    parser.connection()
    parser.flag("list", "List the share groups.")
    parser.flag("describe", "Show the start offsets and the lag of groups, or their members (--members) or state (--state).")
    parser.flag("delete", "Delete groups without members.")
    parser.flag("reset-offsets", "Reset the start offsets of a group without members. It needs --topic or --all-topics, a target (--to-...), and "
                "--dry-run or --execute.")  # fmt: skip
    parser.flag("delete-offsets", "Delete the start offsets of a group for topics.")
    parser.value("group", "share group", "The group; may be given several times.", many=True)
    parser.flag("all-groups", "All share groups.")
    parser.value("topic", "topic", "A topic, or (to reset) partitions of it as topic:0,1,2; may be given several times.", many=True)
    parser.flag("all-topics", "With --reset-offsets: every topic that the group has offsets of.")
    parser.flag("members", "With --describe: show the members of the group.")
    parser.flag("offsets", "With --describe: show the start offsets and the lag of the group. This is the default.")
    parser.optional_value(
        "state", "", "With --describe: show the state of the group. With --list: show states, or list only groups in these states."
    )
    parser.flag("verbose", "With --describe: show more columns.")
    parser.value("timeout", "timeout (ms)", "The time in ms to wait for responses.", kind="Long", default=30_000)
    parser.flag("dry-run", "With --reset-offsets: show the new offsets and change nothing.")
    parser.flag("execute", "With --reset-offsets: set the new offsets.")
    parser.value("to-datetime", "datetime", "Reset to the first record from this time on: YYYY-MM-DDThh:mm:ss.sss.")
    parser.flag("to-earliest", "Reset to the earliest offset.")
    parser.flag("to-latest", "Reset to the latest offset.")
    parser.json_flag("With --list, --describe, --reset-offsets: print JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    alone = [name for name in ONLY_TO_DESCRIBE if name in given and "describe" not in given]
    alone += ["state"] if "state" in given and not {"describe", "list"} & given else []
    if alone:
        raise UsageError(f"Option(s) [{', '.join(alone)}] are unavailable given other options on the command line")
    require(options, "bootstrap-server")
    if "describe" in given:
        _check_describe(options)
    if "delete" in given:
        _check_delete(options)
    if "delete-offsets" in given and not {"group", "topic"} <= given:
        raise UsageError("Option [delete-offsets] takes the following options: [group], [topic]")
    if "reset-offsets" in given:
        _check_reset(options)
    refuse(options, "group", ("all-groups",))
    refuse(options, "group", ("list",))
    refuse(options, "topic", ("describe", "list"))
    if len(set(ACTIONS) & given) != 1:
        raise UsageError("Command must include exactly one action: --list, --describe, --delete, --reset-offsets, --delete-offsets.")
    refuse(options, "json", ("delete", "delete-offsets"))


def _check_describe(options: argparse.Namespace) -> None:
    given = options.given
    if not {"group", "all-groups"} & given:
        raise UsageError("Option [describe] takes one of these options: [all-groups], [group]")
    if len({"members", "offsets", "state"} & given) > 1:
        raise UsageError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
    if options.state:
        raise UsageError("Option [describe] does not take a value for [state]")


def _check_delete(options: argparse.Namespace) -> None:
    given = options.given
    if not {"group", "all-groups"} & given:
        raise UsageError("Option [delete] takes the options [group] or [all-groups]")
    if {"group", "all-groups"} <= given:
        raise UsageError("Option [delete] takes either [group] or [all-groups], not both.")
    if "topic" in given:
        raise UsageError("Option [delete] does not take the option: [topic]")


def _check_reset(options: argparse.Namespace) -> None:
    given = options.given
    if {"dry-run", "execute"} <= given:
        raise UsageError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not {"dry-run", "execute"} & given:
        raise UsageError("Option [reset-offsets] takes the option: [execute] or [dry-run]")
    if "group" not in given:
        raise UsageError("Option [reset-offsets] takes the option: [group]")
    if not {"topic", "all-topics"} & given:
        raise UsageError("Option [reset-offsets] takes one of these options: [all-topics], [topic]")
    if not set(SCENARIOS) & given:
        raise UsageError("Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]")
    for name in SCENARIOS:
        refuse(options, name, [other for other in SCENARIOS if other != name])


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.share_groups_actions import ShareGroupCommand

    return ShareGroupCommand(options).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    failed = "\nError: Executing share group command failed due to "
    return run_tool(build_parser(), arguments, check, run, failed=failed, failed_on_stdout=True, failure_code=0)


if __name__ == "__main__":
    sys.exit(main())
