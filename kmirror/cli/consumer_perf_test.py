"""`kafka-consumer-perf-test`: read records and measure; options and output of Kafka's tool.

Needs the extra `kmirror[clients]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kmirror.cli.tool_options import ToolParser, UsageError, key_values, require, run_tool
from kmirror.common.errors import KmirrorError

DESCRIPTION = "This tool is used to verify the consumer performance."
BYTES_PER_MB = 1024 * 1024
DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
DATE_FIELDS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
POLL_S = 0.1
BATCH = 500
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
DETAILED_HEADER = (
    "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-consumer-perf-test", DESCRIPTION)
    parser.connection()
    parser.value("topic", "topic", "The topic to read.")
    parser.value("include", "Java regex (String)", "A regular expression for the topics to read.")
    parser.value("num-records", "count", "REQUIRED: how many records to read.", kind="Long")
    parser.value("messages", "count", "Deprecated: --num-records.", kind="Long")
    parser.value("group", "gid", "The consumer group. Without it, a random group is used.")
    parser.value("command-property", "prop1=val1", "A consumer property, key=value; may be given several times.", many=True)
    parser.value("consumer.config", "config file", "Deprecated: --command-config.")
    parser.flag("from-latest", "If the group has no offset, begin at the end instead of at the beginning.")
    parser.value("fetch-size", "size", "The number of bytes to fetch from a partition at a time.", kind="Integer", default=1_048_576)
    parser.value("socket-buffer-size", "size", "The size of the socket's receive buffer in bytes.", kind="Integer", default=2_097_152)
    parser.value("timeout", "milliseconds", "The time in ms to wait for the next record.", kind="Long", default=10_000)
    parser.value(
        "reporting-interval",
        "interval_ms",
        "With --show-detailed-stats: the time in ms between two lines of progress.",
        kind="Long",
        default=5000,
    )
    parser.flag("show-detailed-stats", "Print progress instead of the total.")
    parser.flag("hide-header", "Leave out the header.")
    parser.value("date-format", "date format", "How times are printed: yyyy, MM, dd, HH, mm, ss and SSS.", default=DATE_FORMAT)
    parser.flag("print-metrics", "Print the client's statistics at the end, as JSON.")
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server")
    if len({"topic", "include"} & options.given) != 1:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if len({"num-records", "messages"} & options.given) != 1:
        raise UsageError("Exactly one of the following arguments is required: [num-records], [messages]")


def consumer_properties(options: argparse.Namespace) -> dict[str, str]:
    import random

    from kmirror.cli.tool_client import command_properties

    properties = command_properties(options.command_config or options.consumer_config) | key_values(options.command_property)
    properties["bootstrap.servers"] = options.bootstrap_server
    properties["group.id"] = options.group or f"perf-consumer-{random.randrange(100_000)}"
    properties["auto.offset.reset"] = "latest" if options.from_latest else "earliest"
    properties["receive.buffer.bytes"] = str(options.socket_buffer_size)
    properties["max.partition.fetch.bytes"] = str(options.fetch_size)
    properties.setdefault("client.id", "perf-consumer-client")
    properties.setdefault("check.crcs", "false")
    return properties


@dataclass
class Consumption:
    """What has been read so far; times are seconds since the epoch."""

    start_s: float
    bytes: int = 0
    records: int = 0
    rebalance_s: float = 0.0

    def columns(self, before: Consumption, now_s: float) -> str:
        """Returns the columns from the total bytes on.

        They are totals, rates since `before`, rebalance and fetch times.
        """
        elapsed_s = max(now_s - before.start_s, 1e-3)
        rebalance_s = self.rebalance_s - before.rebalance_s
        fetch_s = max(elapsed_s - rebalance_s, 1e-3)
        megabytes, records = (self.bytes - before.bytes) / BYTES_PER_MB, self.records - before.records
        return (
            f"{self.bytes / BYTES_PER_MB:.4f}, {megabytes / elapsed_s:.4f}, {self.records}, {records / elapsed_s:.4f}, "
            f"{round(rebalance_s * 1000)}, {round(fetch_s * 1000)}, {megabytes / fetch_s:.4f}, {records / fetch_s:.4f}"
        )


def format_time(seconds: float, layout: str) -> str:
    """Format a time with the usual fields of Java's SimpleDateFormat."""
    moment = datetime.fromtimestamp(seconds)
    for field, directive in DATE_FIELDS.items():
        layout = layout.replace(field, moment.strftime(directive))
    return layout.replace("SSS", f"{moment.microsecond // 1000:03d}")


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.librdkafka import require_confluent_kafka, silent_logger, translate

    kafka = require_confluent_kafka("kafka-consumer-perf-test")
    settings = translate(consumer_properties(options)) | {"logger": silent_logger()}
    statistics: list[str] = []
    if options.print_metrics:
        settings |= {"statistics.interval.ms": 1000, "stats_cb": statistics.append}
    if not options.hide_header:
        print(DETAILED_HEADER if options.show_detailed_stats else HEADER)
    try:
        _measure(kafka, kafka.Consumer(settings), options)
    except kafka.KafkaException as error:
        raise KmirrorError(error.args[0].str()) from error
    if statistics:
        print(f"\n{statistics[-1]}")
    return 0


def _measure(kafka: Any, consumer: Any, options: argparse.Namespace) -> None:
    wanted = options.num_records if options.num_records is not None else options.messages
    progress = Consumption(time.time())
    waiting_since_s: list[float] = [progress.start_s]

    def assigned(_: Any, __: Any) -> None:
        if waiting_since_s:
            progress.rebalance_s += time.time() - waiting_since_s.pop()

    def revoked(_: Any, __: Any) -> None:
        waiting_since_s.append(time.time())

    topics = [options.topic if options.topic is not None else f"^{options.include}"]
    consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked)
    last_record_s = time.time()
    before = Consumption(progress.start_s)
    try:
        while progress.records < wanted and time.time() - last_record_s <= options.timeout / 1000:
            for record in consumer.consume(min(BATCH, wanted - progress.records), POLL_S):
                if record.error() is not None:
                    raise kafka.KafkaException(record.error())
                progress.records += 1
                progress.bytes += len(record.key() or b"") + len(record.value() or b"")
                last_record_s = time.time()
            now_s = time.time()
            if options.show_detailed_stats and now_s - before.start_s >= options.reporting_interval / 1000:
                print(f"{format_time(now_s, options.date_format)}, 0, {progress.columns(before, now_s)}")
                before = Consumption(now_s, progress.bytes, progress.records, progress.rebalance_s)
        end_s = time.time()
    finally:
        consumer.close()
    if progress.records < wanted:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({options.timeout} ms) exceeded. "
            "You can use the --timeout option to increase the timeout."
        )
    if not options.show_detailed_stats:
        start, end = format_time(progress.start_s, options.date_format), format_time(end_s, options.date_format)
        print(f"{start}, {end}, {progress.columns(Consumption(progress.start_s), end_s)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
