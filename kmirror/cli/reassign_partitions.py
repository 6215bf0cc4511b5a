"""`kafka-reassign-partitions`: move partitions between brokers and log directories; options and
output of Kafka's tool, and `--json` on `--list`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, require, run_tool

DESCRIPTION = "This tool helps to move topic partitions between replicas."
REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
PERMITTED = {
    "generate": ("bootstrap-server", "command-config", "disable-rack-aware"),
    "execute": (
        "additional",
        "bootstrap-server",
        "command-config",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("bootstrap-server", "command-config", "preserve-throttles"),
    "cancel": ("bootstrap-server", "bootstrap-controller", "command-config", "preserve-throttles", "timeout"),
    "list": ("bootstrap-server", "bootstrap-controller", "command-config", "json"),
}


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-reassign-partitions", DESCRIPTION)
    parser.connection(bootstrap_text="The brokers to connect to, as host:port,host:port.")
    parser.value(
        "bootstrap-controller", "controller to connect to", "With --cancel, --list: controllers to connect to, instead of brokers."
    )
    parser.flag("generate", "Propose a reassignment of topics to brokers; nothing is changed.")
    parser.flag("execute", "Start the reassignment in the file.")
    parser.flag("verify", "Print the progress of the reassignment in the file, and remove the throttles when it is complete.")
    parser.flag("cancel", "Cancel the reassignment in the file.")
    parser.flag("list", "List the reassignments that are in progress.")
    parser.value(
        "reassignment-json-file",
        "path",
        'The reassignment: {"partitions": [{"topic": "t", "partition": 1, "replicas": [1,2], "log_dirs": ["any", "/data"]}], '
        '"version": 1}; log_dirs may be left out.',
    )
    parser.value("topics-to-move-json-file", "path", 'With --generate: the topics: {"topics": [{"topic": "t"}], "version": 1}')
    parser.value("broker-list", "brokerlist", "With --generate: the brokers to move to: 0,1,2.")
    parser.flag("disable-rack-aware", "With --generate: ignore racks.")
    parser.value(
        "throttle", "throttle", "With --execute: the limit in bytes per second for moves between brokers.", kind="Long", default=-1
    )
    parser.value(
        "replica-alter-log-dirs-throttle",
        "throttle",
        "With --execute: the limit in bytes per second for moves between log directories of a broker.",
        kind="Long",
        default=-1,
    )
    parser.value("timeout", "timeout", "The time in ms to wait for a move between log directories to begin.", kind="Long", default=10_000)
    parser.flag(
        "additional", "With --execute: start it even if other reassignments are in progress. Their throttle can be changed with it."
    )
    parser.flag("preserve-throttles", "With --verify and --cancel: do not remove throttles.")
    parser.flag("disallow-replication-factor-change", "With --execute: refuse a reassignment that changes a replication factor.")
    parser.json_flag("With --list: print JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    """Check which options go together, in Kafka's order and with Kafka's messages."""
    given = options.given
    actions = [name for name in REQUIRED if name in given]
    if len(actions) != 1:
        raise UsageError("Command must include exactly one action: --generate, --execute, --verify, --cancel, --list")
    action = actions[0]
    if {"bootstrap-server", "bootstrap-controller"} <= given:
        raise UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not {"bootstrap-server", "bootstrap-controller"} & given:
        raise UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    require(options, *REQUIRED[action])
    for name in options.order:
        if name not in (action, *REQUIRED[action], *PERMITTED[action]):
            raise UsageError(f'Option "[{name}]" can\'t be used with action "[{action}]"')


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.reassign_partitions_actions import ReassignPartitionsCommand

    return ReassignPartitionsCommand(options).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run, failed="Error: ", failed_on_stdout=True)


if __name__ == "__main__":
    sys.exit(main())
