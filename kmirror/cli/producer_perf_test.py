"""`kafka-producer-perf-test`: send records and measure; options and output of Kafka's tool.

Needs the extra `kmirror[clients]`.

The latency of a record is the time from its hand-over to the client until its acknowledgement. The
figures are those of this machine's Python client.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from kmirror.cli.tool_commands import CommandParser, run_command_tool
from kmirror.cli.tool_options import CommandError, key_values

BYTES_PER_MB = 1024 * 1024
PERCENTILES = (0.5, 0.95, 0.99, 0.999)
DEFAULT_TRANSACTION_DURATION_MS = 3000
SEED = 0


def build_parser() -> CommandParser:
    parser = CommandParser(
        prog="kafka-producer-perf-test", description="This tool is used to verify the producer performance.", allow_abbrev=False
    )
    parser.add_argument("--bootstrap-server", help="the brokers to connect to, as host:port,host:port")
    parser.add_argument("--topic", required=True, help="the topic to write to")
    parser.add_argument("--num-records", type=int, required=True, help="how many records to send")
    parser.add_argument("--throughput", type=float, required=True, help="the largest number of records per second; -1 is no limit")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, help="the size of each record in bytes")
    payload.add_argument("--payload-file", help="a file with payloads, of which one is drawn for each record")
    payload.add_argument("--payload-monotonic", action="store_true", help="use increasing numbers as payloads")
    parser.add_argument("--payload-delimiter", default="\\n", help="what separates the payloads of the file (default: a line break)")
    parser.add_argument("--command-property", nargs="+", default=[], metavar="NAME=VALUE", help="producer properties")
    parser.add_argument("--producer-props", nargs="+", default=[], metavar="NAME=VALUE", help="deprecated: --command-property")
    parser.add_argument("--command-config", metavar="FILE", help="a file with producer properties")
    parser.add_argument("--producer.config", dest="producer_config", metavar="FILE", help="deprecated: --command-config")
    parser.add_argument("--transactional-id", help="write in transactions with this id")
    parser.add_argument(
        "--transaction-duration-ms", type=int, help="the time in ms that each transaction lasts (default: 3000 with a transactional id)"
    )
    parser.add_argument(
        "--warmup-records",
        type=int,
        default=0,
        help="the number of records to send first; they are left out of the summary of the steady state",
    )
    parser.add_argument(
        "--reporting-interval", type=int, default=5000, metavar="MS", help="the time in ms between two lines of progress (default: 5000)"
    )
    parser.add_argument("--print-metrics", action="store_true", help="print the client's statistics at the end, as JSON")
    return parser


class Stats:
    """Latencies of acknowledged records; shows a line when an interval is over."""

    def __init__(self, interval_ms: int, now_s: Callable[[], float], show: Callable[[str], None], *, steady: bool = False) -> None:
        self._interval_s = interval_ms / 1000
        self._now_s, self._show = now_s, show
        self._kind = "steady state " if steady else ""
        self._start_s = self._window_start_s = now_s()
        self._latencies_ms: list[float] = []
        self._window_from = 0
        self._bytes = self._window_bytes = 0

    def record(self, latency_ms: float, size: int) -> None:
        self._latencies_ms.append(latency_ms)
        self._bytes += size
        self._window_bytes += size
        now_s = self._now_s()
        if now_s - self._window_start_s >= self._interval_s:
            self._show(self._window_line(now_s - self._window_start_s))
            self._window_start_s, self._window_from, self._window_bytes = now_s, len(self._latencies_ms), 0

    def _window_line(self, elapsed_s: float) -> str:
        window = self._latencies_ms[self._window_from :]
        rate, megabytes = len(window) / elapsed_s, self._window_bytes / elapsed_s / BYTES_PER_MB
        average = sum(window) / len(window)
        return (
            f"{len(window)} records sent, {rate:.1f} records/sec ({megabytes:.2f} MB/sec), "
            f"{average:.1f} ms avg latency, {max(window):.1f} ms max latency."
        )

    def total_line(self) -> str:
        elapsed_s = max(self._now_s() - self._start_s, 1e-3)
        ordered = sorted(self._latencies_ms) or [0.0]
        count = len(self._latencies_ms)
        at = [int(ordered[min(int(share * len(ordered)), len(ordered) - 1)]) for share in PERCENTILES]
        return (
            f"{count} {self._kind}records sent, {count / elapsed_s:f} records/sec ({self._bytes / elapsed_s / BYTES_PER_MB:.2f} MB/sec), "
            f"{sum(ordered) / len(ordered):.2f} ms avg latency, {ordered[-1]:.2f} ms max latency, "
            f"{at[0]} ms 50th, {at[1]} ms 95th, {at[2]} ms 99th, {at[3]} ms 99.9th."
        )


def payloads(options: argparse.Namespace) -> Callable[[int], bytes]:
    """Returns a function that returns the payload of the n-th record."""
    if options.payload_monotonic:
        return lambda number: str(number).encode()
    chance = random.Random(SEED)
    if options.payload_file is not None:
        delimiter = options.payload_delimiter.encode().decode("unicode_escape").encode()
        with open(options.payload_file, "rb") as file:
            lines = [line for line in file.read().split(delimiter) if line]
        if not lines:
            raise CommandError(f"Payload {options.payload_file} is empty or contains no payloads")
        return lambda number: chance.choice(lines)
    if options.record_size <= 0:
        raise CommandError("--record-size should be greater than zero.")
    data = bytes(65 + chance.randrange(26) for _ in range(options.record_size))
    return lambda number: data


def producer_properties(options: argparse.Namespace) -> dict[str, str]:
    from kmirror.cli.tool_client import command_properties

    properties = command_properties(options.command_config or options.producer_config)
    properties |= key_values([*options.producer_props, *options.command_property])
    if options.bootstrap_server is not None:
        properties["bootstrap.servers"] = options.bootstrap_server
    if "bootstrap.servers" not in properties:
        raise CommandError("At least one of --bootstrap-server, --command-property or --command-config must name the brokers.")
    if options.transactional_id is not None:
        properties["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None:
        properties.setdefault("transactional.id", f"performance-producer-{random.randrange(1 << 32):08x}")
    properties.setdefault("client.id", "perf-producer-client")
    return properties


def check(options: argparse.Namespace) -> None:
    if options.num_records <= 0:
        raise CommandError("--num-records should be greater than zero.")
    if not 0 <= options.warmup_records < options.num_records:
        raise CommandError("The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records.")
    if options.reporting_interval <= 0:
        raise CommandError("--reporting-interval should be greater than zero.")
    if options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0:
        raise CommandError("--transaction-duration-ms should be greater than zero.")


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.librdkafka import require_confluent_kafka, silent_logger, translate
    from kmirror.common.errors import KmirrorError

    check(options)
    kafka = require_confluent_kafka("kafka-producer-perf-test")
    payload = payloads(options)
    properties = producer_properties(options)
    settings = translate(properties) | {"logger": silent_logger()}
    statistics: list[str] = []
    if options.print_metrics:
        settings |= {"statistics.interval.ms": 1000, "stats_cb": statistics.append}
    try:
        code = _Run(kafka.Producer(settings), options, payload, transactional="transactional.id" in properties).run()
    except kafka.KafkaException as error:
        raise KmirrorError(error.args[0].str()) from error
    if statistics:
        print(f"\n{statistics[-1]}")
    return code


class _Run:
    """One test."""

    def __init__(self, producer: Any, options: argparse.Namespace, payload: Callable[[int], bytes], *, transactional: bool) -> None:
        self._producer, self._options, self._payload = producer, options, payload
        self._transaction_s = (options.transaction_duration_ms or DEFAULT_TRANSACTION_DURATION_MS) / 1000 if transactional else None
        self._failures: list[Any] = []
        self._all = Stats(options.reporting_interval, time.monotonic, print)
        self._steady: Stats | None = None

    def run(self) -> int:
        began_s = time.monotonic()
        transaction_s = 0.0
        if self._options.warmup_records > 0:
            print(f"Warmup first {self._options.warmup_records} records. Steady state results will print after the complete test summary.")
        if self._transaction_s is not None:
            self._producer.init_transactions()
        for number in range(self._options.num_records):
            if number == self._options.warmup_records and number > 0:
                self._steady = Stats(self._options.reporting_interval, time.monotonic, lambda line: None, steady=True)
                print("In steady state.")
            if self._transaction_s is not None:
                transaction_s = self._turn_transaction(transaction_s, is_first=number == 0)
            self._send(self._payload(number))
            self._throttle(number + 1, began_s)
        if self._transaction_s is not None:
            self._producer.commit_transaction()
        self._producer.flush()
        print(self._all.total_line())
        if self._steady is not None:
            print(self._steady.total_line())
        return 1 if self._failures else 0

    def _turn_transaction(self, began_s: float, *, is_first: bool) -> float:
        assert self._transaction_s is not None, "a transaction without transactions"
        now_s = time.monotonic()
        if not is_first:
            if now_s - began_s < self._transaction_s:
                return began_s
            self._producer.commit_transaction()
        self._producer.begin_transaction()
        return now_s

    def _send(self, value: bytes) -> None:
        sent_s = time.monotonic()
        size, steady = len(value), self._steady

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._failures.append(error)
                from kmirror.cli.librdkafka import error_text

                print(f"ERROR {error_text(error)}", file=sys.stderr)
                return
            latency_ms = (time.monotonic() - sent_s) * 1000
            self._all.record(latency_ms, size)
            if steady is not None:
                steady.record(latency_ms, size)

        while True:
            try:
                self._producer.produce(self._options.topic, value, on_delivery=delivered)
                break
            except BufferError:
                self._producer.poll(0.01)
        self._producer.poll(0)

    def _throttle(self, count: int, began_s: float) -> None:
        if self._options.throughput > 0:
            ahead_s = count / self._options.throughput - (time.monotonic() - began_s)
            if ahead_s > 0:
                self._producer.poll(ahead_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_command_tool(build_parser(), arguments, run)


if __name__ == "__main__":
    sys.exit(main())
