"""`kafka-log-dirs`: prints as JSON what the log directories of brokers contain, like Kafka's tool.

`--json` leaves out the two lines of text before the JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from kmirror.cli.tool_options import ToolParser, require, run_tool
from kmirror.common.errors import KmirrorError
from kmirror.common.numbers import is_integer

DESCRIPTION = "This tool helps to query log directory usage on the specified brokers."


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-log-dirs", DESCRIPTION)
    parser.connection()
    parser.flag("describe", "REQUIRED: show the log directories.")
    parser.value("topic-list", "Topic list", "Only these topics: topic1,topic2.", default="")
    parser.value("broker-list", "Broker list", "Only these brokers: 0,1,2.", default="")
    parser.json_flag("Print only the JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server", "describe")


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.tool_client import with_admin

    topics = {name for name in options.topic_list.split(",") if name}
    wanted = _broker_ids(options.broker_list)

    async def ask(admin: AdminClient) -> None:
        existing = [node.id for node in (await admin.describe_cluster()).nodes]
        missing = [broker for broker in wanted if broker not in existing]
        if missing:
            raise KmirrorError(
                f"ERROR: The given brokers do not exist from --broker-list: {_listed(missing)}. Current existent brokers: {_listed(existing)}"
            )
        brokers = sorted(set(wanted or existing))
        if not options.json:
            print("Querying brokers for log directories information")
        described = await admin.describe_log_dirs(brokers)
        if not options.json:
            print(f"Received log directory information from brokers {_listed(brokers)}")
        print(_as_json(described, topics))

    with_admin(options.bootstrap_server, options.command_config, ask, client_id="log-dirs-tool")
    return 0


def _broker_ids(text: str) -> list[int]:
    ids = []
    for word in filter(None, text.split(",")):
        if not is_integer(word):
            raise KmirrorError(f'For input string: "{word}"')
        ids.append(int(word))
    return list(dict.fromkeys(ids))


def _listed(brokers: list[int]) -> str:
    return ",".join(map(str, brokers))


def _as_json(described: dict[int, list[Any]], topics: set[str]) -> str:
    """Returns JSON with the keys in the order of Kafka's tool."""
    from kmirror.cli.java_names import java_exception_name
    from kmirror.common.java_hash_map import topic_partition_order

    brokers = []
    for broker, log_dirs in described.items():
        shown = []
        for log_dir in log_dirs:
            partitions = [
                {
                    "partition": str(name),
                    "size": log_dir.replica_infos[name].size,
                    "offsetLag": log_dir.replica_infos[name].offset_lag,
                    "isFuture": log_dir.replica_infos[name].is_future,
                }
                for name in topic_partition_order(name for name in log_dir.replica_infos if not topics or name.topic in topics)
            ]
            error = None if log_dir.error is None else java_exception_name(log_dir.error.error)
            shown.append({"partitions": partitions, "error": error, "logDir": log_dir.path})
        brokers.append({"broker": broker, "logDirs": shown})
    return json.dumps({"brokers": brokers, "version": 1}, separators=(",", ":"))


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
