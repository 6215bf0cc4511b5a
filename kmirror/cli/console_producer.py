"""`kafka-console-producer`: lines of standard input become records; options of Kafka's tool.

It needs the extra `kmirror[clients]`. The exit code is 1 if a record could not be delivered
(Kafka's tool reports this only in its log).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from kmirror.cli.tool_options import ToolParser, UsageError, key_values, require, run_tool
from kmirror.common.errors import KmirrorError

DESCRIPTION = "This tool helps to read data from standard input and publish it to Kafka."
LINE_READER = "org.apache.kafka.tools.LineMessageReader"
DEFAULTS = {
    "linger.ms": ("timeout", 1000),
    "acks": ("request-required-acks", "-1"),
    "request.timeout.ms": ("request-timeout-ms", 1500),
    "retries": ("message-send-max-retries", 3),
    "retry.backoff.ms": ("retry-backoff-ms", 100),
    "send.buffer.bytes": ("socket-buffer-size", 102_400),
    "buffer.memory": ("max-memory-bytes", 33_554_432),
    "batch.size": ("batch-size", 16_384),
    "metadata.max.age.ms": ("metadata-expiry-ms", 300_000),
}
PAIRS = (
    ("command-config", "producer.config"),
    ("command-property", "producer-property"),
    ("reader-property", "property"),
)


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-console-producer", DESCRIPTION)
    parser.connection()
    parser.value("topic", "topic", "REQUIRED: the topic to write to.")
    parser.value("command-property", "producer_prop", "A producer property, key=value; may be given several times.", many=True)
    parser.value("producer-property", "producer_prop", "Deprecated: --command-property.", many=True)
    parser.value("producer.config", "config file", "Deprecated: --command-config.")
    parser.value(
        "line-reader", "reader_class", "The reader that turns lines into records. Only this one is available.", default=LINE_READER
    )
    parser.value(
        "reader-property",
        "prop",
        "A property of the line reader, key=value: parse.key, parse.headers, ignore.error, key.separator, headers.delimiter, "
        "headers.separator, headers.key.separator, null.marker.",
        many=True,
    )
    parser.value("property", "prop", "Deprecated: --reader-property.", many=True)
    parser.value("reader-config", "config file", "A file with properties of the line reader.")
    parser.flag("sync", "Wait until each record is acknowledged before the next one is sent.")
    parser.optional_value(
        "compression-codec", "compression-codec", "The codec: none, gzip, snappy, lz4 or zstd. Without a value it is gzip."
    )
    parser.value("batch-size", "size", "The size of a batch in bytes (batch.size).", kind="Integer", default=16_384)
    parser.value("max-partition-memory-bytes", "memory", "Deprecated: --batch-size.", kind="Integer")
    parser.value(
        "max-memory-bytes",
        "total memory in bytes",
        "The number of bytes of records that may wait (buffer.memory).",
        kind="Long",
        default=33_554_432,
    )
    parser.value("max-block-ms", "max block", "The longest time in ms that sending waits for free memory.", kind="Long", default=60_000)
    parser.value("message-send-max-retries", "", "The number of times that a batch is sent again (retries).", kind="Integer", default=3)
    parser.value("retry-backoff-ms", "", "The time in ms before a batch is sent again (retry.backoff.ms).", kind="Long", default=100)
    parser.value("timeout", "timeout_ms", "The time in ms that a batch waits for more records (linger.ms).", kind="Long", default=1000)
    parser.value("request-required-acks", "acks", "The replicas that must acknowledge a record: -1 or all, 1, 0 (acks).", default="-1")
    parser.value("request-timeout-ms", "timeout", "The longest time in ms to wait for a response.", kind="Integer", default=1500)
    parser.value(
        "metadata-expiry-ms",
        "interval",
        "The age in ms at which metadata is refreshed (metadata.max.age.ms).",
        kind="Long",
        default=300_000,
    )
    parser.value(
        "socket-buffer-size", "size", "The size of the socket's send buffer in bytes (send.buffer.bytes).", kind="Integer", default=102_400
    )
    return parser


def check(options: argparse.Namespace) -> None:
    require(options, "bootstrap-server", "topic")
    for new, old in PAIRS:
        if {new, old} <= options.given:
            first, second = sorted((new, old)) if new != "reader-property" else (new, old)
            raise UsageError(f"Options --{first} and --{second} cannot be specified together.")
        if old in options.given:
            print(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if options.line_reader != LINE_READER:
        raise UsageError(f"{options.line_reader} is not available: the only line reader is {LINE_READER}", show_help=False)


def producer_properties(options: argparse.Namespace) -> dict[str, str]:
    """Returns settings by Java's property names.

    An option that is given overrides the file; an option's default does not.
    """
    from kmirror.cli.tool_client import command_properties

    properties = command_properties(options.command_config or options.producer_config)
    properties |= key_values([*options.command_property, *options.producer_property])
    for name, (option, default) in DEFAULTS.items():
        if option in options.given:
            properties[name] = str(getattr(options, option.replace("-", "_")))
        else:
            properties.setdefault(name, str(default))
    if options.max_partition_memory_bytes is not None:
        properties["batch.size"] = str(options.max_partition_memory_bytes)
    if options.compression_codec is not None:
        properties["compression.type"] = options.compression_codec or "gzip"
    properties["bootstrap.servers"] = options.bootstrap_server
    properties.setdefault("client.id", "console-producer")
    return properties


def reader_properties(options: argparse.Namespace) -> dict[str, str]:
    from kmirror.cli.tool_client import command_properties

    return command_properties(options.reader_config) | key_values([*options.reader_property, *options.property])


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.librdkafka import require_confluent_kafka, silent_logger, translate
    from kmirror.cli.line_reader import LineReader

    kafka = require_confluent_kafka("kafka-console-producer")
    reader = LineReader(reader_properties(options))
    settings = translate(producer_properties(options))
    if settings.get("enable.idempotence") is None and int(settings.get("retries", 1)) == 0:
        settings["enable.idempotence"] = "false"
    try:
        producer = kafka.Producer(settings | {"logger": silent_logger()})
        return _produce(producer, reader, options)
    except kafka.KafkaException as error:
        raise KmirrorError(error.args[0].str()) from error


def _produce(producer: Any, reader: Any, options: argparse.Namespace) -> int:
    from kmirror.cli.librdkafka import error_text

    failures = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)
            print(f"ERROR Error when sending message to topic {options.topic}: {error_text(error)}", file=sys.stderr)

    prompt = sys.stdin.isatty()
    while True:
        if prompt:
            print(">", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            break
        record = reader.parse(line.rstrip("\n").removesuffix("\r"))
        while True:
            try:
                producer.produce(options.topic, record.value, record.key, headers=record.headers or None, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if options.sync:
            producer.flush()
        producer.poll(0)
    producer.flush()
    return 1 if failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
