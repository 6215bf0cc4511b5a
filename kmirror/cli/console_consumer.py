"""`kafka-console-consumer`: prints records as lines of standard output.

It has the options of Kafka's tool, and `--json`. It needs the extra `kmirror[clients]`. It ends
after `--max-messages`, when nothing came for `--timeout-ms`, or with SIGINT; the number of records
is printed on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from kmirror.cli.tool_options import ToolParser, UsageError, key_values, require, run_tool
from kmirror.common.errors import KmirrorError

DESCRIPTION = "This tool helps to read data from Kafka topics and outputs it to standard output."
DEFAULT_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
PAIRS = (
    ("command-property", "consumer-property", ("consumer-property", "command-property")),
    ("command-config", "consumer.config", ("consumer.config", "command-config")),
    ("formatter-property", "property", ("property", "formatter-property")),
)
POLL_S = 0.1


def build_parser() -> ToolParser:
    parser = ToolParser("kafka-console-consumer", DESCRIPTION)
    parser.connection()
    parser.value("topic", "topic", "The topic to read.")
    parser.value("include", "Java regex (String)", "A regular expression for the topics to read.")
    parser.value("partition", "partition", "The partition to read. It is read from its end unless --offset is given.", kind="Integer")
    parser.value("offset", "consume offset", "With --partition: the offset to begin at (a number, earliest or latest).", default="latest")
    parser.flag("from-beginning", "Begin with the earliest record if the group has no offset.")
    parser.value("group", "consumer group id", "The consumer group. Without it, a random group is used, and no offsets are committed.")
    parser.value(
        "max-messages", "num_messages", "The number of records to read. Without it, the tool reads until it is stopped.", kind="Integer"
    )
    parser.value("timeout-ms", "timeout_ms", "The time in ms without a record after which the tool ends.", kind="Long")
    parser.value(
        "isolation-level", "", "With read_committed, records of open and aborted transactions are left out.", default="read_uncommitted"
    )
    parser.value("command-property", "consumer_prop", "A consumer property, key=value; may be given several times.", many=True)
    parser.value("consumer-property", "consumer_prop", "Deprecated: --command-property.", many=True)
    parser.value("consumer.config", "config file", "Deprecated: --command-config.")
    parser.value("formatter", "class", "The formatter that turns records into text.", default=DEFAULT_FORMATTER)
    parser.value(
        "formatter-property",
        "prop",
        "A property of the formatter, key=value: print.timestamp, print.key, print.offset, print.epoch, print.partition, print.headers, "
        "print.value, key.separator, line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, "
        "headers.deserializer.",
        many=True,
    )
    parser.value("property", "prop", "Deprecated: --formatter-property.", many=True)
    parser.value("formatter-config", "config file", "A file with properties of the formatter.")
    parser.value(
        "key-deserializer", "deserializer for keys", "The class for keys, such as org.apache.kafka.common.serialization.LongDeserializer."
    )
    parser.value("value-deserializer", "deserializer for values", "The class for values.")
    parser.flag("skip-message-on-error", "Skip a record that cannot be printed, and continue.")
    parser.flag("enable-systest-events", "This option is accepted for compatibility only; there are no such events.")
    parser.json_flag("Print each record as one line of JSON, without a formatter.")
    return parser


def check(options: argparse.Namespace) -> None:
    given = options.given
    require(options, "bootstrap-server")
    for new, old, words in PAIRS:
        if {new, old} <= given:
            raise UsageError(f"Options --{words[0]} and --{words[1]} cannot be specified together.")
        if old in given:
            print(f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.")
    if len({"topic", "include"} & given) != 1:
        raise UsageError("Exactly one of the following arguments is required: [topic], [include]")
    if "partition" in given:
        if "topic" not in given:
            raise UsageError("The topic is required when partition is specified.")
        if {"from-beginning", "offset"} <= given:
            raise UsageError("Options from-beginning and offset cannot be specified together.")
    elif "offset" in given:
        raise UsageError("The partition is required when offset is specified.")
    parse_offset(options.offset)
    if {"partition", "group"} <= given:
        raise UsageError("Options group and partition cannot be specified together.")


def parse_offset(text: str) -> int:
    """Returns -2 for earliest, -1 for latest, or the number."""
    word = text.lower()
    if word in ("earliest", "latest"):
        return -2 if word == "earliest" else -1
    if not text.isdigit():
        raise UsageError(f"The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.")
    return int(text)


def consumer_properties(options: argparse.Namespace) -> dict[str, str]:
    """Returns settings by Java's property names, from files, properties and options."""
    import random

    from kmirror.cli.tool_client import command_properties

    properties = command_properties(options.command_config or options.consumer_config)
    properties |= key_values([*options.command_property, *options.consumer_property])
    groups = {name for name in (options.group, properties.get("group.id")) if name}
    if len(groups) > 1:
        detected = ", ".join(f"'{name}'" for name in sorted(groups))
        raise UsageError(
            "The group ids provided in different places (directly using '--group', via '--command-property', or via '--command-config') "
            f"do not match. Detected group ids: {detected}"
        )
    if groups and options.partition is not None:
        raise UsageError("Options group and partition cannot be specified together.")
    reset = properties.get("auto.offset.reset")
    if options.from_beginning and reset not in (None, "earliest"):
        raise KmirrorError(f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option")
    properties.setdefault("auto.offset.reset", "earliest" if options.from_beginning else "latest")
    if "isolation-level" in options.given or "isolation.level" not in properties:
        properties["isolation.level"] = options.isolation_level
    properties["bootstrap.servers"] = options.bootstrap_server
    properties.setdefault("client.id", "console-consumer")
    if not groups:
        properties.setdefault("enable.auto.commit", "false")
    properties["group.id"] = next(iter(groups), f"console-consumer-{random.randrange(100_000)}")
    return properties


def formatter_properties(options: argparse.Namespace) -> dict[str, str]:
    from kmirror.cli.tool_client import command_properties

    properties = command_properties(options.formatter_config) | key_values([*options.formatter_property, *options.property])
    if options.key_deserializer:
        properties["key.deserializer"] = options.key_deserializer
    if options.value_deserializer:
        properties["value.deserializer"] = options.value_deserializer
    return properties


def run(options: argparse.Namespace) -> int:
    from kmirror.cli.librdkafka import require_confluent_kafka, silent_logger, translate
    from kmirror.cli.message_formatter import message_formatter

    kafka = require_confluent_kafka("kafka-console-consumer")
    formatter = message_formatter(options.formatter, formatter_properties(options))
    consumer = kafka.Consumer(translate(consumer_properties(options)) | {"logger": silent_logger()})
    count = 0
    try:
        _attach(kafka, consumer, options)
        count = _consume(kafka, consumer, options, _as_json if options.json else formatter.format)
    except kafka.KafkaException as error:
        raise KmirrorError(error.args[0].str()) from error
    finally:
        consumer.close()
        sys.stdout.flush()
        print(f"Processed a total of {count} messages", file=sys.stderr)
    return 0


def _attach(kafka: Any, consumer: Any, options: argparse.Namespace) -> None:
    if options.partition is None:
        consumer.subscribe([options.topic if options.topic is not None else f"^{options.include}"])
        return
    offset = -2 if options.from_beginning else parse_offset(options.offset)
    consumer.assign([kafka.TopicPartition(options.topic, options.partition, offset)])


def _consume(kafka: Any, consumer: Any, options: argparse.Namespace, format_record: Any) -> int:
    import time

    count, last = 0, time.monotonic()
    wait_s = float("inf") if options.timeout_ms is None or options.timeout_ms < 0 else options.timeout_ms / 1000
    try:
        while options.max_messages is None or options.max_messages < 0 or count < options.max_messages:
            record = consumer.poll(min(POLL_S, wait_s))
            if record is None:
                if time.monotonic() - last >= wait_s:
                    print("ERROR Error processing message, terminating consumer process: timed out", file=sys.stderr)
                    break
                continue
            last = time.monotonic()
            if record.error() is not None:
                if record.error().code() == kafka.KafkaError.UNKNOWN_TOPIC_OR_PART and not record.error().fatal():
                    print(f"WARN {record.error().str()}", file=sys.stderr)
                    continue
                raise kafka.KafkaException(record.error())
            try:
                sys.stdout.buffer.write(format_record(record))
            except KmirrorError as error:
                if not options.skip_message_on_error:
                    raise
                print(f"ERROR Error processing message, skipping this message: {error}", file=sys.stderr)
            count += 1
            if options.max_messages is None:
                sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    return count


def _as_json(record: Any) -> bytes:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode("utf-8", "backslashreplace")

    _, timestamp = record.timestamp()
    value = {
        "topic": record.topic(),
        "partition": record.partition(),
        "offset": record.offset(),
        "timestamp": timestamp,
        "leaderEpoch": record.leader_epoch(),
        "headers": [[name, text(data)] for name, data in record.headers() or ()],
        "key": text(record.key()),
        "value": text(record.value()),
    }
    return json.dumps(value).encode() + b"\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The entry point; returns the exit code."""
    return run_tool(build_parser(), arguments, check, run)


if __name__ == "__main__":
    sys.exit(main())
