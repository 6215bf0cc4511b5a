"""`kafka-mirror-maker` between two clusters: what comes over, how it ends, what a crash costs."""

from __future__ import annotations

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.mirrors.legacy_mirror_maker import (
    MirrorMakerChild,
    committed,
    mirror_maker,
    mirrored,
    two_clusters,
    values,
    wait_committed,
)
from support.mirrors.mirror_harness import Load, call, create_topic, numbered, produce, quiet, wait_for
from support.peers.peers import free_port
from support.waiting import REACHED_S

from kmirror.admin.results import ConfigResourceType
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.ending_signals import COPIES_S

ORDERS = TopicPartition("orders", 0)


def produce_of_all_kinds(servers: str, topic: str, count: int = 200) -> None:
    producer = Producer(quiet({"bootstrap.servers": servers, "compression.type": "zstd"}))
    for number in range(count):
        producer.produce(
            topic,
            key=None if number % 5 == 0 else b"key %d" % (number % 11),
            value=None if number % 7 == 0 else b"value %d" % number,
            headers=[("h", b"%d" % number), ("null", None)] if number % 3 == 0 else None,
            timestamp=1_600_000_000_000 + number,
            partition=0,
        )
    assert producer.flush(REACHED_S) == 0


def test_every_record_comes_over_once_and_a_signal_ends_it_cleanly(tmp_path: Path) -> None:
    with two_clusters() as (source, target), hangups(signal.SIG_DFL):
        produce_of_all_kinds(source.bootstrap_servers, "orders")
        produce_of_all_kinds(source.bootstrap_servers, "left-alone", 5)
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
            with mirror_maker(tmp_path / str(code), source, target, "--num.streams", "2", interval_ms=60_000) as child:
                wait_for("the records", lambda: len(mirrored(target, "orders")) == len(mirrored(source, "orders")))
                child.wait_for_line("Starting")
                assert child.stop(number) == code
                assert "Kafka mirror maker shutdown successfully" in child.log and "Traceback" not in child.log
            assert mirrored(target, "orders") == mirrored(source, "orders"), "the same records in the same order"
            assert committed(source.bootstrap_servers) == {ORDERS: len(mirrored(source, "orders"))}, "the end flushed and committed"
            produce(source.bootstrap_servers, "orders", ["later"])
        assert call(target.bootstrap_servers, lambda admin: admin.list_topics()) == ["orders"]


def test_a_hangup_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As after nohup: the terminal closes, the tool goes on."""
    with two_clusters() as (source, target), hangups(signal.SIG_IGN), mirror_maker(tmp_path, source, target, interval_ms=-1) as child:
        child.wait_for_line("Starting")
        child.process.send_signal(signal.SIGHUP)
        produce(source.bootstrap_servers, "orders", ["one"])
        wait_committed(source, {ORDERS: 1})
        assert child.stop() == 143


@contextmanager
def hangups(handling: signal.Handlers) -> Iterator[None]:
    """What children inherit, whatever the terminal of the tests is like."""
    before = signal.signal(signal.SIGHUP, handling)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_kill_under_load_loses_nothing(tmp_path: Path) -> None:
    with two_clusters(**{"num.partitions": "3", "group.min.session.timeout.ms": "100"}) as (source, target):
        create_topic(source.bootstrap_servers, "orders", 3)
        load = Load(source.bootstrap_servers, "orders", 3)

        def came() -> set[bytes | None]:
            return {value for partition in range(3) for value in values(target, "orders", partition)}

        before = 0
        try:
            for round_number in range(4):
                session = ["session.timeout.ms=1000", "heartbeat.interval.ms=200"]
                with mirror_maker(
                    tmp_path / str(round_number), source, target, "--num.streams", "2", consumer=session, producer=["compression.type=lz4"]
                ) as child:
                    wait_for("records to come over", lambda before=before: len(came()) > before + 200)
                    child.kill()
                before = len(came())
        finally:
            acknowledged = load.end()
        assert not load.errors
        with mirror_maker(tmp_path / "last", source, target) as child:
            wait_for("every acknowledged record", lambda: came() >= acknowledged)
            assert child.stop() == 143
        assert came() == {value for partition in range(3) for value in values(source, "orders", partition)}
        ends = {TopicPartition("orders", number): len(values(source, "orders", number)) for number in range(3)}
        assert committed(source.bootstrap_servers) == ends


@pytest.mark.parametrize("name", ["--abort.on.send.failure", "--abort.on.send.fail", "--abortOnSendFail"])
def test_without_abort_an_oversized_record_is_missing_counted_and_the_run_continues(tmp_path: Path, name: str) -> None:
    with two_clusters() as (source, target):
        produce(source.bootstrap_servers, "orders", ["small", "x" * 5_000, "last"], batch=1)
        port = free_port()
        arguments = (name, "false", "--http.listener", f"127.0.0.1:{port}")
        with mirror_maker(tmp_path, source, target, *arguments, producer=["max.request.size=2000"]) as child:
            wait_committed(source, {ORDERS: 3})
            assert values(target, "orders") == [b"small", b"last"]
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                lines = answer.read().decode().splitlines()
            assert 'kafka_tools_MirrorMaker_Value{name="MirrorMaker-numDroppedMessages"} 1' in lines
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready") as answer:
                page = json.load(answer)
            assert page["ready"] and page["reasons"] == [] and "mirrormaker-thread-0: 1 partitions" in page["looked_at"]
            assert child.stop() == 143
            assert "consumed 3 messages, 2 were acknowledged, 1 dropped" in child.log


@pytest.mark.parametrize("arguments", [(), ("--abort.on.send.fail",)], ids=["by default", "asked for"])
def test_a_record_that_the_target_refuses_stops_the_tool_and_is_not_committed(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with two_clusters() as (source, target):
        create_topic(target.bootstrap_servers, "orders", max_message_bytes="2000")
        produce(source.bootstrap_servers, "orders", ["small", "x" * 5_000, "last"], batch=1)
        with mirror_maker(tmp_path, source, target, *arguments) as child:
            assert child.wait_ended() == 255
            assert "Error when sending message to topic orders with key: 2 bytes, value: 5000 bytes with error" in child.log
            assert child.log.count("MESSAGE_TOO_LARGE") == 1 and "Traceback" not in child.log
        assert committed(source.bootstrap_servers).get(ORDERS, 0) <= 1


HANDLER = '''
import time

from kmirror.mirrormaker.legacy import ProducerRecord


class Renamed:
    """Drops what has no key, doubles the rest, and prefixes topics with its argument."""

    def __init__(self, prefix):
        self.prefix = prefix

    def handle(self, record):
        if self.prefix == "slow.":
            time.sleep(0.01)
        if record.value == b"poison":
            raise ValueError("cannot read it")
        if record.value.endswith(b"5"):
            return []
        renamed = ProducerRecord(self.prefix + record.topic, record.value, key=record.key, headers=record.headers)
        return [renamed, renamed]


class Listening:
    def __init__(self, file="calls.txt"):
        self.file = file

    def on_partitions_assigned(self, partitions):
        self.write("assigned", partitions)

    def on_partitions_revoked(self, partitions):
        self.write("revoked", partitions)

    def write(self, what, partitions):
        with open(self.file, "a") as file:
            file.write(f"{what} {' '.join(map(str, partitions))}\\n")
'''


def test_a_handler_filters_and_doubles_and_offsets_move_past_what_it_drops(tmp_path: Path) -> None:
    (tmp_path / "shop_plugins.py").write_text(HANDLER)
    with two_clusters() as (source, target):
        produce(source.bootstrap_servers, "orders", numbered("v", 16))
        plugins = ("--message.handler", "shop_plugins:Renamed", "--message.handler.args", "east.")
        listener = ("--consumer.rebalance.listener", "shop_plugins:Listening", "--rebalance.listener.args", "told.txt")
        with mirror_maker(tmp_path, source, target, *plugins, *listener) as child:
            wait_committed(source, {ORDERS: 16})
            kept = [value.encode() for value in numbered("v", 16) if not value.endswith("5")]
            assert values(target, "east.orders") == [value for value in kept for _ in range(2)]
            produce(source.bootstrap_servers, "orders", ["good", "poison", "never"], batch=1)
            assert child.wait_ended() == 255
            reason = "the message handler failed at orders-0, offset 17: ValueError: cannot read it"
            assert child.log.count(reason) == 1 and "Traceback" not in child.log
        assert values(target, "east.orders")[-2:] == [b"good", b"good"]
        assert committed(source.bootstrap_servers) == {ORDERS: 17}, "the poison record is the next one"
        assert (tmp_path / "told.txt").read_text() == "assigned orders-0\nrevoked orders-0\n"


def test_a_handler_that_takes_longer_for_a_poll_than_the_session_keeps_its_partitions(tmp_path: Path) -> None:
    """400 records of one poll take 4 s without a wait, and a member that is silent for 1.5 s is out."""
    (tmp_path / "shop_plugins.py").write_text(HANDLER)
    session = ["session.timeout.ms=1500", "heartbeat.interval.ms=300"]
    with two_clusters(**{"group.min.session.timeout.ms": "100"}) as (source, target):
        kept = [f"{number}." for number in range(400)]
        produce(source.bootstrap_servers, "orders", kept)
        plugins = ("--message.handler", "shop_plugins:Renamed", "--message.handler.args", "slow.")
        with mirror_maker(tmp_path, source, target, *plugins, interval_ms=60_000, consumer=session) as child:
            wait_for("the last record", lambda: values(target, "slow.orders")[-1:] == [kept[-1].encode()])
            assert child.stop() == 143
        assert values(target, "slow.orders") == [value.encode() for value in kept for _ in range(2)]
        assert committed(source.bootstrap_servers) == {ORDERS: 400}


def test_a_target_topic_is_made_with_the_brokers_defaults(tmp_path: Path) -> None:
    """Four partitions become one, and the topic's settings stay behind; a key keeps its order."""
    with two_clusters() as (source, target):
        create_topic(source.bootstrap_servers, "orders", 4, retention_ms="86400000")
        for partition in range(4):
            produce(source.bootstrap_servers, "orders", numbered(f"p{partition}", 50), partition=partition)
        with mirror_maker(tmp_path, source, target) as child:
            wait_for("all records", lambda: len(values(target, "orders")) == 200)
            assert child.stop() == 143
        described = call(target.bootstrap_servers, lambda admin: admin.describe_topics(["orders"]))
        assert len(described["orders"].partitions) == 1
        entries = call(target.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, "orders"))
        assert {entry.name: entry.value for entry in entries}["retention.ms"] != "86400000"
        for partition in range(4):
            prefix = b"p%d-" % partition
            came = [value for value in values(target, "orders") if value is not None and value.startswith(prefix)]
            assert came == values(source, "orders", partition)


def test_keys_choose_the_targets_partition_whatever_the_sources_was(tmp_path: Path) -> None:
    with two_clusters(**{"num.partitions": "3"}) as (source, target):
        create_topic(source.bootstrap_servers, "orders", 1)
        produce(source.bootstrap_servers, "orders", numbered("v", 70))
        with mirror_maker(tmp_path, source, target) as child:
            wait_committed(source, {ORDERS: 70})
            assert child.stop() == 143
        by_partition = [{record.key for record in mirrored(target, "orders", number)} for number in range(3)]
        assert sum(map(len, by_partition)) == len(set().union(*by_partition)) == 7


def test_two_in_opposite_directions_echo_without_end(tmp_path: Path) -> None:
    with two_clusters() as (west, east):
        produce(west.bootstrap_servers, "orders", ["one"])
        with mirror_maker(tmp_path / "1", west, east), mirror_maker(tmp_path / "2", east, west):
            wait_for("the echo", lambda: len(values(west, "orders")) > 20)
        assert set(values(west, "orders")) == {b"one"}


def test_clusters_that_are_away_are_told_in_one_line_and_mirrored_once_they_are_there(tmp_path: Path) -> None:
    with two_clusters() as (source, target):
        produce(source.bootstrap_servers, "orders", ["one"])
        target.stop_node()
        with mirror_maker(tmp_path, source, target) as child:
            child.wait_for_line(f"the target cluster ({target.bootstrap_servers}) cannot be reached")
            assert "the source cluster" not in child.log
            target.start_node()
            wait_for("the record", lambda: values(target, "orders") == [b"one"])
            assert child.stop() == 143


def test_a_second_signal_ends_it_although_the_target_is_away(tmp_path: Path) -> None:
    with two_clusters() as (source, target):
        produce(source.bootstrap_servers, "orders", ["one"])
        target.stop_node()
        # It ends without leaving its group, and the next one waits as long for its session to end.
        with mirror_maker(tmp_path, source, target, consumer=["session.timeout.ms=6000"]) as child:
            child.wait_for_line("the target cluster")
            wait_for("the group", lambda: "mm" in str(call(source.bootstrap_servers, lambda admin: admin.list_consumer_groups())))
            child.process.send_signal(signal.SIGTERM)
            child.wait_for_line("Start clean shutdown")
            time.sleep(COPIES_S)  # what comes sooner is a copy of the first
            assert child.stop() in (1, 143, -15), "143 if it had not read the record yet; -15 if it had ended all but itself"
            assert "Traceback" not in child.log
        assert committed(source.bootstrap_servers) == {}
        target.start_node()
        with mirror_maker(tmp_path / "again", source, target) as child:
            wait_for("the record", lambda: values(target, "orders") == [b"one"])


def test_a_group_that_may_not_be_read_ends_it_with_one_line(tmp_path: Path) -> None:
    with two_clusters() as (source, target):
        child = MirrorMakerChild(tmp_path, source.bootstrap_servers, target.bootstrap_servers, consumer=["group.id="])
        try:
            assert child.wait_ended() == 255
            assert child.log.count("Mirror maker thread failure due to INVALID_GROUP_ID") == 1 and "Traceback" not in child.log
        finally:
            child.kill()
