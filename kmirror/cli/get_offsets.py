"""`kafka-get-offsets`: prints offsets of partitions like Kafka's tool; it also has `--json`.

A line is `topic:partition:offset`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence

from kmirror.cli.tool_options import ToolParser, UsageError, print_json, require, run_tool
from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import UNKNOWN_OFFSET

DESCRIPTION = "An interactive shell for getting topic-partition offsets."
TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5, "earliest-pending-upload": -6}
TIMES_TEXT = (
    "-1 or latest / -2 or earliest / -3 or max-timestamp / -4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload"
)
RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

Rule = Callable[[str, int], bool]


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-get-offsets", DESCRIPTION)
    parser.connection()
    parser.value("topic", "topic", "A regular expression for the topics (default: all topics).")
    parser.value("partitions", "partition ids", "The ids of the partitions, separated by commas (default: all partitions).")
    parser.value(
        "topic-partitions",
        "topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3",
        "Patterns of topics and their partitions, separated by commas.",
    )
    parser.value(
        "time",
        f"<timestamp> / {TIMES_TEXT}",
        "The timestamp whose first record's offset is printed, or the name of a special offset.",
        default="latest",
    )
    parser.flag("exclude-internal-topics", "Leave out internal topics.")
    parser.json_flag()
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server")
    if not re.fullmatch(r"\s*[^\s,]*:\d+(\s*,\s*[^\s,]*:\d+)*\s*", options.bootstrap_server):
        raise UsageError("Please provide valid host:port like host1:9091,host2:9092\n")
    if options.topic_partitions is not None and {"topic", "partitions"} & options.given:
        raise KmirrorError("--topic-partitions cannot be used with --topic or --partitions")


def run(options: argparse.Namespace) -> int:
    from kmirror.admin.admin_client import AdminClient
    from kmirror.cli.java_names import java_exception
    from kmirror.cli.tool_client import with_admin
    from kmirror.cli.topics_actions import matching
    from kmirror.common.errors import ApiException
    from kmirror.common.topic_partition import TopicPartition

    timestamp = parse_time(options.time)
    rules = _rules(options, lambda pattern, topic: bool(matching(pattern, [topic])))

    async def ask(admin: AdminClient) -> dict[TopicPartition, int]:
        topics = await admin.list_topics(include_internal=not options.exclude_internal_topics)
        described = await admin.describe_topics(topics) if topics else {}
        names = [
            TopicPartition(topic, row.partition)
            for topic, facts in described.items()
            for row in facts.partitions
            if any(rule(topic, row.partition) for rule in rules)
        ]
        if not names:
            raise KmirrorError("Could not match any topic-partitions with the specified filters")
        offsets = {}
        found = await admin.list_offsets_by_spec(dict.fromkeys(names, timestamp))
        for name, info in sorted(found.items()):
            if isinstance(info, ApiException):
                reason = java_exception(info)
                text = f"Skip getting offsets for topic-partition {name} due to error: {reason}"
                print(text, file=sys.stderr)
            elif info.offset != UNKNOWN_OFFSET:
                offsets[name] = info.offset
        return offsets

    offsets = with_admin(options.bootstrap_server, options.command_config, ask, client_id="GetOffsetShell")
    if options.json:
        print_json([{"topic": name.topic, "partition": name.partition, "offset": offsets[name]} for name in sorted(offsets)])
        return 0
    for name in sorted(offsets, key=str):
        print(f"{name.topic}:{name.partition}:{offsets[name]}")
    return 0


def parse_time(text: str) -> int:
    """Returns the timestamp of a word or a number."""
    if text in TIMES:
        return TIMES[text]
    if not re.fullmatch(r"[-+]?\d+", text):
        raise KmirrorError(f"Malformed time argument {text}. Please use {TIMES_TEXT}, or a specified long format timestamp")
    return int(text)


def _rules(options: argparse.Namespace, matches: Callable[[str, str], bool]) -> list[Rule]:
    if options.topic_partitions is not None:
        return [parse_rule(text, matches) for text in options.topic_partitions.split(",")]
    wanted: set[int] = set()
    if options.partitions:
        if not re.fullmatch(r"[-+]?\d+(,[-+]?\d+)*", options.partitions):
            text = f"--partitions expects a comma separated list of numeric partition ids, but received: {options.partitions}"
            raise KmirrorError(text)
        wanted = {int(word) for word in options.partitions.split(",")}
    pattern = ".*" if options.topic is None else options.topic
    return [lambda topic, partition: matches(pattern, topic) and (not wanted or partition in wanted)]


def parse_rule(text: str, matches: Callable[[str, str], bool]) -> Rule:
    """Parse `topic`, `topic:1`, `topic:0-3` (without 3), `topic:5-` or `topic:-3`.

    Without a topic, each of these is for all topics.
    """
    match = RULE.fullmatch(text)
    if match is None:
        exception = "org.apache.kafka.tools.TerseException"
        raise KmirrorError(f"{exception}: Invalid rule specification: {text}")
    pattern = match[1] or ".*"
    low, high = (int(match[2]), int(match[2]) + 1) if match[2] else (int(match[3] or 0), int(match[4]) if match[4] else 1 << 31)
    return lambda topic, partition: matches(pattern, topic) and low <= partition < high


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run, failed="Error occurred: ")


if __name__ == "__main__":
    sys.exit(main())
