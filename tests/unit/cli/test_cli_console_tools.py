"""What the console and the performance tools compute without a cluster: records from lines and lines
from records, librdkafka's properties, sums.
"""

from __future__ import annotations

import importlib
import sys

import confluent_kafka
import pytest

from kmirror.cli.consumer_perf_test import Consumption, format_time
from kmirror.cli.librdkafka import error_text, translate
from kmirror.cli.line_reader import LineReader, LineRecord
from kmirror.cli.message_formatter import DefaultMessageFormatter, message_formatter
from kmirror.cli.producer_perf_test import Stats
from kmirror.common.errors import Errors, KmirrorError


def test_lines_become_records() -> None:
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "null.marker": "NULL"})
    assert reader.parse("a:1,b:NULL\tk\tv\tw") == LineRecord(b"k", b"v\tw", [("a", b"1"), ("b", None)])
    assert reader.parse("NULL\tNULL\tNULL") == LineRecord(None, None, [])
    assert LineReader({}).parse("a\tb") == LineRecord(None, b"a\tb", [])
    assert LineReader({"parse.key": "true", "ignore.error": "true"}).parse("v") == LineRecord(None, b"v", [])


def test_lines_that_lack_a_part_are_named_by_their_number() -> None:
    reader = LineReader({"parse.key": "true"})
    reader.parse("k\tv")
    with pytest.raises(KmirrorError, match="No key separator found on line number 2: 'v'"):
        reader.parse("v")
    with pytest.raises(KmirrorError, match="No header key separator found in pair 'x' on line number 1"):
        LineReader({"parse.headers": "true"}).parse("x\tv")
    with pytest.raises(KmirrorError, match="headers.delimiter and headers.separator may not be equal"):
        LineReader({"headers.delimiter": ","})
    with pytest.raises(KmirrorError, match="null.marker and key.separator may not be equal"):
        LineReader({"null.marker": "\t"})


class Message:
    """A record as confluent-kafka gives it."""

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 1234

    def leader_epoch(self) -> int | None:
        return None

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return [("h", b"1"), ("i", None)]

    def key(self) -> bytes | None:
        return (42).to_bytes(8, "big")

    def value(self) -> bytes | None:
        return None


def test_records_become_text() -> None:
    everything = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "epoch", "headers", "key")}
    more = {"key.deserializer": "org.apache.kafka.common.serialization.LongDeserializer", "key.separator": "|", "null.literal": "-"}
    formatter = DefaultMessageFormatter(everything | more)
    assert formatter.format(Message()) == b"CreateTime:1234|Partition:2|Offset:7|Epoch:NOT_PRESENT|h:1,i:-|42|-\n"
    assert DefaultMessageFormatter({}).format(Message()) == b"null\n"
    assert message_formatter("org.apache.kafka.tools.consumer.NoOpMessageFormatter", {}).format(Message()) == b""
    with pytest.raises(KmirrorError, match="there is no deserializer x.Y"):
        DefaultMessageFormatter({"value.deserializer": "x.Y"})
    with pytest.raises(KmirrorError, match="Size of data received by the deserializer is not 4"):
        DefaultMessageFormatter({"print.key": "true", "key.deserializer": "IntegerDeserializer"}).format(Message())


def test_java_properties_become_librdkafkas() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
    assert translate(
        {
            "bootstrap.servers": "b:1",
            "buffer.memory": "2048",
            "key.serializer": "x",
            "sasl.jaas.config": jaas,
            "ssl.truststore.location": "/ca.pem",
            "ssl.keystore.location": "/me.pem",
            "linger.ms": "5",
        }
    ) == {
        "bootstrap.servers": "b:1",
        "queue.buffering.max.kbytes": 2,
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "linger.ms": "5",
    }


def test_performance_is_summed_up_in_windows_and_in_total() -> None:
    now, lines = [0.0], []
    stats = Stats(1000, lambda: now[0], lines.append)
    for number in range(4):
        now[0] += 0.5
        stats.record(10.0 * (number + 1), 1024 * 1024)
    assert lines == [
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 15.0 ms avg latency, 20.0 ms max latency.",
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 35.0 ms avg latency, 40.0 ms max latency.",
    ]
    assert stats.total_line() == (
        "4 records sent, 2.000000 records/sec (2.00 MB/sec), 25.00 ms avg latency, 40.00 ms max latency, "
        "30 ms 50th, 40 ms 95th, 40 ms 99th, 40 ms 99.9th."
    )


def test_consumption_is_measured_without_the_time_of_rebalances() -> None:
    progress = Consumption(100.0, bytes=2 * 1024 * 1024, records=20, rebalance_s=1.0)
    assert progress.columns(Consumption(100.0), 102.0) == "2.0000, 1.0000, 20, 10.0000, 1000, 1000, 2.0000, 20.0000"
    assert format_time(0.25, "SSS") == "250"


def test_a_refused_record_was_an_error_134() -> None:
    refused = confluent_kafka.KafkaError(Errors.READ_ONLY_TOPIC)
    assert error_text(refused) == "The topic is read-only because it is a mirror topic on the target cluster"
    assert error_text(confluent_kafka.KafkaError(confluent_kafka.KafkaError._TIMED_OUT)) == "Local: Timed out"


@pytest.mark.parametrize("tool", ["console_producer", "console_consumer", "producer_perf_test", "consumer_perf_test"])
def test_without_the_extra_the_tools_name_it(tool: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    more = {
        "producer_perf_test": ["--num-records", "1", "--record-size", "1", "--throughput", "-1"],
        "consumer_perf_test": ["--num-records", "1"],
    }
    module = importlib.import_module(f"kmirror.cli.{tool}")
    assert module.main(["--bootstrap-server", "b:1", "--topic", "t", *more.get(tool, [])]) == 1
    name = f"kafka-{tool.replace('_', '-')}"
    assert capsys.readouterr().err == f"{name} needs the package confluent-kafka; install the extra: pip install 'kmirror[clients]'\n"
