"""The differential suite turned round: our producer and consumer against Apache's broker 4.3, beside
Java's clients. Each call is made on both sides, and the results must be equal: offsets, timestamps,
headers, epochs, errors and their texts.

`@` stands for a side's own topics, groups and transactional ids (`support.clients.client_calls`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient as LibrdkafkaAdmin
from confluent_kafka.admin import NewTopic
from support.clients.client_calls import ClientPair, client_pair, dotted
from support.peers.peers import KafkaPeer, apache_kafka
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.features import UpgradeType
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run

pytestmark = pytest.mark.interop

SIDES = ("java", "ours")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
FIRST_MS = NOW_MS - 100 * HOUR_MS
PACKAGE = "org.apache.kafka.clients.consumer"
ASSIGNORS = "RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"
PROPERTIES = {
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "50",
    "message.max.bytes": "2000000",
}
"""Short times, so that groups settle at once."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaPeer]:
    with apache_kafka(tmp_path_factory.mktemp("apache"), properties=PROPERTIES) as peer:
        yield peer


@pytest.fixture(scope="module")
def pair(broker: KafkaPeer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClientPair]:
    with client_pair(tmp_path_factory.mktemp("clients"), {"bootstrap.servers": broker.bootstrap_servers}) as running:
        yield running


def create(broker: KafkaPeer, *topics: str, partitions: int = 1, **configs: str) -> None:
    """`topics` on each side."""
    admin = LibrdkafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    wanted = [NewTopic(f"{side}-{topic}", partitions, 1, config=dotted(configs)) for side in SIDES for topic in topics]
    for future in admin.create_topics(wanted).values():
        future.result(REACHED_S)
    reader = ck.Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "none"})
    for topic in wanted:
        for partition in range(partitions):
            reached(lambda: has_leader(reader, ck.TopicPartition(topic.topic, partition)), "the topic's leaders")
    reader.close()


def has_leader(reader: ck.Consumer, partition: ck.TopicPartition) -> bool:
    """Whether it takes records: Java's producer may get stuck when the first batches of a new topic are refused."""
    try:
        return reader.get_watermark_offsets(partition, timeout=REACHED_S) == (0, 0)
    except ck.KafkaException:
        return False


def reached(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + REACHED_S
    while not condition():
        assert time.monotonic() < deadline, f"not reached: {what}"
        time.sleep(0.02)


def at(topic: str, *partitions: int) -> list[list[Any]]:
    return [[f"@-{topic}", partition] for partition in partitions]


def row(
    topic: str, value: str | None, *, partition: int | None = 0, key: str | None = None, at_ms: int | None = NOW_MS, headers: Any = ()
) -> list[Any]:
    return [f"@-{topic}", partition, at_ms, key, value, list(headers)]


def batches_of(broker: KafkaPeer, topic: str, partition: int = 0) -> list[tuple[Any, ...]]:
    """What each side's batches say of themselves: attributes, producer's epoch and sequence, times.
    Markers are written after the producer was told that its transaction has ended.
    """
    found: list[list[tuple[Any, ...]]] = [[], [()]]

    def are_alike() -> bool:
        found[:] = (batches_in(broker, f"{side}-{topic}-{partition}") for side in SIDES)
        return found[0] == found[1]

    deadline = time.monotonic() + REACHED_S
    while not are_alike() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found[0] == found[1]
    return found[1]


def batches_in(broker: KafkaPeer, folder: str) -> list[tuple[Any, ...]]:
    log = b"".join(path.read_bytes() for path in sorted((broker.data / folder).glob("*.log")))
    return [
        (batch.base_offset, batch.last_offset, batch.attributes, batch.producer_epoch, batch.base_sequence)
        + (() if batch.is_control else (batch.max_timestamp,))
        for batch in iter_batches(log)
    ]


# The producer


@pytest.mark.parametrize("codec", CODECS)
def test_produce_with_nulls_headers_and_times(broker: KafkaPeer, pair: ClientPair, codec: str) -> None:
    """And what each side's consumer makes of what its producer wrote; the batches are alike, too."""
    topic = f"codec-{codec}"
    create(broker, topic)
    rows = [
        row(topic, "value", key="key"),
        row(topic, None, at_ms=NOW_MS - 5, headers=[["h", "1"], ["h", None], ["empty", ""]]),
        row(topic, "", key="", at_ms=NOW_MS + 7),
        row(topic, "\x00\xff" * 20_000, key="binary", at_ms=0),
        *(row(topic, f"{codec} {number}" * 10, at_ms=NOW_MS + number) for number in range(40)),
    ]
    pair.producer("p", compression_type=codec, linger_ms=10_000, batch_size=100_000)
    sent = pair.same("send", "p", rows)
    assert [one[2] for one in sent] == list(range(len(rows)))
    pair.same("close", "p")
    pair.consumer("c", auto_offset_reset="earliest")
    pair.same("assign", "c", at(topic, 0))
    found = pair.same("poll", "c", len(rows))
    assert [(one[3], one[5], one[7], one[8]) for one in found] == [(one[2], one[5], one[3], one[4]) for one in rows]
    pair.same("close", "c")
    (batch,) = batches_of(broker, topic)
    assert batch[4] == 0, "the first sequence"


def test_keys_go_where_javas_go(broker: KafkaPeer, pair: ClientPair) -> None:
    create(broker, "keys", partitions=7)
    keys = ["", "a", "ab", "abc", "abcd", "\xff\x00\x80", *(f"key-{number}" * (number % 4 + 1) for number in range(100))]
    pair.producer("p")
    sent = pair.same("send", "p", [row("keys", "v", partition=None, key=key) for key in keys])
    assert len({one[1] for one in sent}) == 7
    pair.same("send", "p", [row("keys", "v", partition=3, key=key) for key in keys])
    pair.same("close", "p")


def test_records_without_a_key_stay_for_a_batch(broker: KafkaPeer, pair: ClientPair) -> None:
    """Which partition comes next is chance; how long it is kept and that all get something is not."""
    create(broker, "sticky", partitions=4)
    pair.producer("p", batch_size=1_000, linger_ms=10_000)
    for side in pair.both("send", "p", [row("sticky", "v" * 80, partition=None) for _ in range(600)]):
        runs: list[list[int]] = []
        for _, partition, _, _ in side:
            if not runs or runs[-1][0] != partition:
                runs.append([partition, 0])
            runs[-1][1] += 1
        assert {partition for partition, _ in runs} == {0, 1, 2, 3}
        # Ten records fill a batch up to 941 bytes, so it takes two to get to 1,000; a batch that was sent meanwhile ends a run, too.
        assert sum(length % 20 == 0 for _, length in runs) > 0.8 * len(runs), runs
    pair.same("close", "p")
    create(broker, "ignored", partitions=4)
    pair.producer("i", partitioner_ignore_keys="true", batch_size=1_000)
    for side in pair.both("send", "i", [row("ignored", "v" * 80, partition=None, key="k") for _ in range(300)]):
        assert {partition for _, partition, _, _ in side} == {0, 1, 2, 3}
    pair.same("close", "i")


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks_and_idempotence(broker: KafkaPeer, pair: ClientPair, acks: str) -> None:
    topic = f"acks-{acks}"
    create(broker, topic)
    pair.producer("p", acks=acks, linger_ms=0)
    for number in range(3):
        sent = pair.same("send", "p", [row(topic, f"{number}")])
        assert sent[0][2] == (-1 if acks == "0" else number)
    pair.same("close", "p")
    assert [batch[4] for batch in batches_of(broker, topic)] == ([0, 1, 2] if acks == "all" else [-1, -1, -1])


def test_the_brokers_times(broker: KafkaPeer, pair: ClientPair) -> None:
    create(broker, "append-time", message_timestamp_type="LogAppendTime")
    pair.producer("p")
    for side in pair.both("send", "p", [row("append-time", "v", at_ms=5)]):
        assert abs(side[0][3] - time.time() * 1000) < 60_000
    pair.consumer("c", auto_offset_reset="earliest")
    pair.same("assign", "c", at("append-time", 0))
    found = pair.same("poll", "c", 1, edit=lambda rows: [[*one[:3], *one[4:]] for one in rows])
    assert found[0][3] == "LogAppendTime"
    pair.same("close", "c")
    pair.same("close", "p")


def test_records_that_cannot_be_written(broker: KafkaPeer, pair: ClientPair) -> None:
    create(broker, "refusing", max_message_bytes="1000")
    create(broker, "compacted", cleanup_policy="compact")
    pair.producer("p", max_request_size=100_000, max_block_ms=400)
    refused = [
        (row("refusing", "v" * 2_000), "MESSAGE_TOO_LARGE"),
        (row("refusing", "v" * 200_000), "MESSAGE_TOO_LARGE"),
        (row("compacted", "v"), "INVALID_RECORD"),
        (row("refusing", "v", partition=1), "REQUEST_TIMED_OUT"),
        (row("in valid", "v"), "INVALID_TOPIC_EXCEPTION"),
    ]
    for wrong, name in refused:
        (outcome,) = pair.same("send", "p", [wrong])
        assert outcome["error"] == name, outcome
    assert pair.same("send", "p", [row("refusing", "after")])[0][2] == 0, "the producer goes on"
    assert pair.same("partitions_for", "p", "@-refusing") == [["@-refusing", 0, 1, 1, 1]]
    pair.same("close", "p")
    (outcome,) = pair.same("offer", "p", [row("refusing", "late")])
    assert outcome["error"] == "IllegalStateException"


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": "2"},
        {"acks": "1", "enable_idempotence": "true"},
        {"compression_type": "brotli"},
        {"delivery_timeout_ms": "1"},
        {"transactional_id": "x", "enable_idempotence": "false"},
        {"linger_ms": "soon"},
        {"bootstrap_servers": "nowhere"},
    ],
    ids=str,
)
def test_wrong_settings_of_a_producer(pair: ClientPair, settings: dict[str, str]) -> None:
    assert pair.same("producer", "wrong", dotted(settings))["error"] == "ConfigException"


# Transactions


@pytest.fixture(params=[2, 1], ids=["transactions-2", "transactions-1"])
def version(request: pytest.FixtureRequest, broker: KafkaPeer) -> Iterator[int]:
    """transaction.version of the cluster."""

    def set_level(level: int) -> None:
        async def work(runtime: AsyncioRuntime) -> None:
            async with AdminClient(runtime, parse_bootstrap_servers(broker.bootstrap_servers)) as admin:
                if (await admin.describe_features()).finalized_features["transaction.version"] != level:
                    kind = UpgradeType.UPGRADE if level == 2 else UpgradeType.SAFE_DOWNGRADE
                    assert await admin.update_features({"transaction.version": (level, kind)}) == {"transaction.version": None}
                while (await admin.describe_features()).finalized_features["transaction.version"] != level:
                    await runtime.sleep_ms(50)

        run(work)

    set_level(request.param)
    yield request.param
    set_level(2)


def test_transactions(broker: KafkaPeer, pair: ClientPair, version: int) -> None:
    """Commits, aborts, empty ones, and what a reader of each isolation sees."""
    topic = f"tx-{version}"
    create(broker, topic, partitions=2)
    pair.producer("t", transactional_id=f"@-tx-{version}", max_block_ms=30_000)
    pair.same("init_transactions", "t")
    for number, end in enumerate(("commit", "abort", "commit", "abort", "commit")):
        pair.same("begin_transaction", "t")
        for partition in (0, 1) if number != 2 else ():
            pair.same("send", "t", [row(topic, f"{number} {end}", partition=partition) for _ in range(3)])
        pair.same(f"{end}_transaction", "t")
    pair.same("begin_transaction", "t")
    pair.same("send", "t", [row(topic, "open")])
    for isolation in ("read_committed", "read_uncommitted"):
        name = f"r-{isolation}"
        pair.consumer(name, auto_offset_reset="earliest", isolation_level=isolation)
        pair.same("assign", name, at(topic, 0, 1))
        ends = pair.same("end_offsets", name, at(topic, 0, 1))
        assert ends == {f"@-{topic}-0": 16 if isolation == "read_committed" else 17, f"@-{topic}-1": 16}
        count = 12 if isolation == "read_committed" else 25
        found = pair.same("poll", name, count, edit=sorted)
        assert {one[8] for one in found} >= {"0 commit", "4 commit"}
        assert ("1 abort" in {one[8] for one in found}) is (isolation == "read_uncommitted")
        assert [pair.same("position", name, one) for one in at(topic, 0, 1)] == list(ends.values())
        pair.same("close", name)
    pair.same("close", "t")
    assert len(batches_of(broker, topic, 1)) == 8
    assert batches_of(broker, topic)[-1][2] & 0x20, "closing aborted what was open"


def test_offsets_in_transactions(broker: KafkaPeer, pair: ClientPair, version: int) -> None:
    topic, group = f"offsets-{version}", f"@-offsets-{version}"
    create(broker, topic)
    pair.producer("t", transactional_id=f"@-offsets-{version}")
    pair.same("init_transactions", "t")
    pair.consumer("g", group_id=group, auto_offset_reset="earliest", enable_auto_commit="false")
    pair.same("subscribe", "g", [f"@-{topic}"])
    pair.same("settle", ["g"], 1)
    pair.same("begin_transaction", "t")
    pair.same("send_offsets_to_transaction", "t", [[f"@-{topic}", 0, 3, "three"]], "g")
    pair.same("send", "t", [row(topic, "v")])
    pair.same("commit_transaction", "t")
    assert pair.same("committed", "g", at(topic, 0)) == {f"@-{topic}-0": [3, -1, "three"]}
    pair.same("begin_transaction", "t")
    pair.same("send_offsets_to_transaction", "t", [[f"@-{topic}", 0, 9, ""]], "g")
    pair.same("abort_transaction", "t")
    assert pair.same("committed", "g", at(topic, 0)) == {f"@-{topic}-0": [3, -1, "three"]}
    pair.same("begin_transaction", "t")
    offset = [[f"@-{topic}", 0, 9, ""]]
    assert pair.same("send_offsets_to_transaction", "t", offset, [group, 1, ""])["error"] == "IllegalArgumentException"
    assert pair.same("send_offsets_to_transaction", "t", offset, [group, 99, "nobody"])["error"] == "CommitFailedException"
    assert pair.same("commit_transaction", "t")["error"] == "CommitFailedException"
    pair.same("abort_transaction", "t")
    pair.same("close", "g")
    pair.same("close", "t")


def test_fencing(broker: KafkaPeer, pair: ClientPair, version: int) -> None:
    topic = f"fenced-{version}"
    create(broker, topic)
    for name in ("old", "new"):
        pair.producer(name, transactional_id=f"@-fenced-{version}", max_block_ms=10_000)
    pair.same("init_transactions", "old")
    pair.same("begin_transaction", "old")
    pair.same("send", "old", [row(topic, "of the old one")])
    pair.same("init_transactions", "new")
    (refused,) = pair.same("send", "old", [row(topic, "zombie")])
    assert refused["error"] in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"), refused
    assert pair.same("commit_transaction", "old")["error"] in ("INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED")
    pair.both("abort_transaction", "old")
    pair.same("begin_transaction", "new")
    pair.same("send", "new", [row(topic, "of the new one")])
    pair.same("commit_transaction", "new")
    pair.same("close", "new")
    pair.same("close", "old")
    pair.consumer("c", auto_offset_reset="earliest", isolation_level="read_committed")
    pair.same("assign", "c", at(topic, 0))
    assert [one[8] for one in pair.same("poll", "c", 1)] == ["of the new one"]
    pair.same("close", "c")


def test_transactional_calls_in_the_wrong_order(broker: KafkaPeer, pair: ClientPair) -> None:
    create(broker, "order")
    pair.producer("plain")
    for call in ("init_transactions", "begin_transaction", "commit_transaction", "abort_transaction"):
        assert pair.same(call, "plain")["error"] == "IllegalStateException"
    pair.same("close", "plain")
    pair.producer("early", transactional_id="@-early")
    for initialized in (False, True):
        if initialized:
            pair.same("init_transactions", "early")
        assert pair.same("offer", "early", [row("order", "v")])[0]["error"] == "IllegalStateException"
    pair.same("close", "early", 0)
    pair.producer("t", transactional_id="@-order")
    for call in ("begin_transaction", "commit_transaction", "abort_transaction"):
        assert pair.same(call, "t")["error"] == "IllegalStateException"
    pair.same("init_transactions", "t")
    for call in ("init_transactions", "commit_transaction", "abort_transaction"):
        assert pair.same(call, "t")["error"] == "IllegalStateException"
    assert pair.same("send_offsets_to_transaction", "t", [["@-order", 0, 1, ""]], "@-order")["error"] == "IllegalStateException"
    pair.same("begin_transaction", "t")
    assert pair.same("begin_transaction", "t")["error"] == "IllegalStateException"
    pair.same("send", "t", [row("order", "v")])
    pair.same("commit_transaction", "t")
    pair.same("close", "t")
    assert pair.same("begin_transaction", "t")["error"] == "IllegalStateException"


# The consumer


@pytest.fixture(scope="module")
def filled(broker: KafkaPeer, pair: ClientPair) -> str:
    """A topic of two partitions: 30 records an hour apart, and one that is empty."""
    create(broker, "filled", partitions=2)
    pair.producer("filler")
    pair.same("send", "filler", [row("filled", f"{number}", at_ms=FIRST_MS + number * HOUR_MS) for number in range(30)])
    pair.same("close", "filler")
    return "filled"


def test_positions(pair: ClientPair, filled: str) -> None:
    both = at(filled, 0, 1)
    pair.consumer("c", group_id="@-positions", auto_offset_reset="earliest", enable_auto_commit="false", max_poll_records=5)
    assert pair.same("position", "c", both[0])["error"] == "IllegalStateException"
    assert pair.same("poll_once", "c", 0)["error"] == "IllegalStateException"
    pair.same("assign", "c", both)
    assert pair.same("assignment", "c") == [f"@-{filled}-0", f"@-{filled}-1"]
    assert pair.same("subscription", "c") == []
    assert pair.same("committed", "c", both) == {f"@-{filled}-0": None, f"@-{filled}-1": None}
    assert pair.same("beginning_offsets", "c", both) == {f"@-{filled}-0": 0, f"@-{filled}-1": 0}
    assert pair.same("end_offsets", "c", both) == {f"@-{filled}-0": 30, f"@-{filled}-1": 0}
    assert len(pair.same("poll", "c", 5)) == 5
    assert [pair.same("position", "c", one) for one in both] == [5, 0]
    assert pair.same("current_lag", "c", both[0]) == 25
    pair.same("commit", "c", None)
    assert pair.same("committed", "c", both)[f"@-{filled}-0"][0] == 5
    pair.same("commit", "c", [[f"@-{filled}", 0, 11, "mine"]])
    assert pair.same("committed", "c", both)[f"@-{filled}-0"] == [11, -1, "mine"]
    pair.same("seek", "c", both[0], 28)
    assert [one[2] for one in pair.same("poll", "c", 2)] == [28, 29]
    pair.same("seek_to_beginning", "c", both[:1])
    assert pair.same("position", "c", both[0]) == 0
    pair.same("seek_to_end", "c", [])
    assert [pair.same("position", "c", one) for one in both] == [30, 0]
    pair.same("seek", "c", both[0], 20)
    pair.same("pause", "c", both[:1])
    assert pair.same("paused", "c") == [f"@-{filled}-0"]
    assert pair.same("poll_once", "c", 300) == []
    pair.same("resume", "c", both[:1])
    assert [one[2] for one in pair.same("poll", "c", 5)] == [20, 21, 22, 23, 24]
    assert pair.same("seek", "c", both[0], -1)["error"] == "IllegalArgumentException"
    assert pair.same("seek", "c", at("other", 0)[0], 1)["error"] == "IllegalStateException"
    assert pair.same("pause", "c", at("other", 0))["error"] == "IllegalStateException"
    assert pair.same("subscribe", "c", [f"@-{filled}"])["error"] == "IllegalStateException"
    pair.same("close", "c")
    assert pair.same("poll_once", "c", 0)["error"] == "IllegalStateException"
    pair.consumer("again", group_id="@-positions", enable_auto_commit="false")
    pair.same("assign", "again", both)
    assert pair.same("position", "again", both[0]) == 11, "where the group has committed"
    pair.same("close", "again")


def test_offsets_for_times(pair: ClientPair, filled: str) -> None:
    pair.consumer("c")
    middle_ms = FIRST_MS + 14 * HOUR_MS + 1
    for asked in (0, FIRST_MS, FIRST_MS + 1, middle_ms, FIRST_MS + 29 * HOUR_MS, FIRST_MS + 29 * HOUR_MS + 1, NOW_MS * 2):
        pair.same("offsets_for_times", "c", [[f"@-{filled}", 0, asked], [f"@-{filled}", 1, asked]])
    assert pair.same("offsets_for_times", "c", [[f"@-{filled}", 0, middle_ms]]) == {f"@-{filled}-0": [15, FIRST_MS + 15 * HOUR_MS, 0]}
    assert pair.same("offsets_for_times", "c", [[f"@-{filled}", 0, -1]])["error"] == "IllegalArgumentException"
    assert pair.same("partitions_for", "c", f"@-{filled}") == [[f"@-{filled}", 0, 1, 1, 1], [f"@-{filled}", 1, 1, 1, 1]]
    pair.same("close", "c")


@pytest.mark.parametrize("reset", ["none", "latest", "earliest", "by_duration:PT75H30M"])
def test_where_a_consumer_begins(pair: ClientPair, filled: str, reset: str) -> None:
    pair.consumer("c", group_id=f"@-reset-{reset[:4]}", auto_offset_reset=reset)
    pair.same("assign", "c", at(filled, 0))
    for offset in (None, 5, 500):
        if offset is not None:
            pair.same("seek", "c", at(filled, 0)[0], offset)
        for side in pair.both("poll_once", "c", 3_000 if reset != "latest" or offset == 5 else 300):
            if reset == "none" and offset != 5:
                assert side["error"] == ("NoOffsetForPartitionException" if offset is None else "OffsetOutOfRangeException"), side
            elif reset == "latest" and offset != 5:
                assert side == []
            elif reset == "earliest" or offset == 5:
                assert side[0][2] == (offset if offset == 5 else 0)
            else:
                assert side[0][2] == 25
    pair.same("close", "c")


def test_calls_without_a_group(pair: ClientPair, filled: str) -> None:
    pair.consumer("c")
    pair.consumer("unassigned", group_id="@-unassigned", partition_assignment_strategy="")
    assert pair.same("subscribe", "unassigned", [f"@-{filled}"])["error"] == "IllegalStateException"
    pair.same("close", "unassigned")
    pair.consumer("twice", group_id="@-twice", partition_assignment_strategy=",".join([f"{PACKAGE}.RangeAssignor"] * 2))
    pair.same("close", "twice")
    for call in (("commit", None), ("committed", at(filled, 0)), ("subscribe", [f"@-{filled}"]), ("group_metadata",)):
        assert pair.same(call[0], "c", *call[1:])["error"] == "INVALID_GROUP_ID"
    pair.same("close", "c")


@pytest.mark.parametrize(
    "settings",
    [
        {"group_protocol": "modern"},
        {"group_protocol": "consumer", "group_id": "g", "session_timeout_ms": "9000"},
        {"isolation_level": "read_some"},
        {"auto_offset_reset": "by_duration:-PT1S"},
        {"enable_auto_commit": "true"},
        {"heartbeat_interval_ms": "9000", "session_timeout_ms": "9000", "group_id": "g"},
        {"max_poll_records": "0"},
    ],
    ids=str,
)
def test_wrong_settings_of_a_consumer(pair: ClientPair, settings: dict[str, str]) -> None:
    assert pair.same("consumer", "wrong", dotted(settings), edit=lambda result: result and result["message"])


def group_settings(protocol: str) -> dict[str, str]:
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": "false", "metadata_max_age_ms": "1000"}
    if protocol == "consumer":
        return settings | {"group_protocol": "consumer"}
    return settings | {
        "partition_assignment_strategy": f"{PACKAGE}.{protocol}",
        "heartbeat_interval_ms": "100",
        "session_timeout_ms": "6000",
    }


@pytest.mark.parametrize("protocol", [*ASSIGNORS, "consumer"])
def test_a_group_of_static_members_is_assigned_alike(broker: KafkaPeer, pair: ClientPair, protocol: str) -> None:
    """Three members of two topics, then two. Instances' names give the order, so it is no chance."""
    group = f"alike-{protocol}"
    create(broker, f"{group}-a", partitions=5)
    create(broker, f"{group}-b", partitions=3)
    topics = [f"@-{group}-a", f"@-{group}-b"]
    members = ["m1", "m2", "m3"]
    for member in members:
        pair.consumer(member, group_id=f"@-{group}", group_instance_id=member, client_id=member, **group_settings(protocol))
        pair.same("subscribe", member, topics)
    owned = pair.same(
        "settle", members, 8, edit=sizes if protocol in ("consumer", "StickyAssignor", "CooperativeStickyAssignor") else lambda same: same
    )
    if protocol in ("RangeAssignor", "RoundRobinAssignor"):
        assert owned["m1"][0].endswith("a-0")
    pair.producer("p")
    rows = [row(f"{group}-{name}", str(number), partition=number) for name, count in (("a", 5), ("b", 3)) for number in range(count)]
    pair.same("send", "p", rows)
    pair.same("close", "p")
    for read in zip(*(pair.both("poll", member, 2) for member in members), strict=True):
        assert sum(map(len, read)) == 8
    for member in members:
        pair.same("commit", member, None)
    committed = pair.same("committed", "m1", [*at(f"{group}-a", *range(5)), *at(f"{group}-b", *range(3))])
    assert [one and one[0] for one in committed.values()] == [1] * 8
    for member in members:
        pair.same("close", member)


def sizes(owned: dict[str, list[str]]) -> list[int]:
    return sorted(map(len, owned.values()))


@pytest.mark.parametrize("protocol", ["RangeAssignor", "RoundRobinAssignor", "CooperativeStickyAssignor", "consumer"])
def test_java_librdkafka_and_ours_in_one_group(broker: KafkaPeer, pair: ClientPair, protocol: str) -> None:
    """Each reads its part, nothing is lost or comes twice, and what leaves is taken over."""
    group = f"mixed-{protocol}"
    create(broker, group, partitions=6)
    java, ours = pair.sides
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group}
    settings |= dotted(group_settings(protocol))
    names = {"RangeAssignor": "range", "RoundRobinAssignor": "roundrobin", "CooperativeStickyAssignor": "cooperative-sticky"}
    changed = {"partition.assignment.strategy": names[protocol]} if protocol != "consumer" else {}
    third = ck.Consumer({name: value for name, value in settings.items() if name != "metadata.max.age.ms"} | changed)
    for side in pair.sides:
        side.call(["consumer", "m", settings | {"client.id": side.name}])
        side.call(["subscribe", "m", [f"java-{group}"]])
    third.subscribe([f"java-{group}"])
    read: list[tuple[int, int]] = []
    owned: list[set[str]] = []

    def turn(*sides: Any) -> None:
        for side in sides:
            read.extend((one[1], one[2]) for one in side.call(["poll_once", "m", 50]))
        while (message := third.poll(0.02)) is not None:
            assert message.error() is None, message.error()
            read.append((message.partition(), message.offset()))
        owned[:] = [set(side.call(["assignment", "m"])) for side in sides] + [
            {f"{one.topic}-{one.partition}" for one in third.assignment()}
        ]

    def turn_until(reached: Any, *sides: Any) -> None:
        deadline = time.monotonic() + REACHED_S
        while not reached():
            assert time.monotonic() < deadline, owned
            turn(*sides)

    everything = {f"java-{group}-{number}" for number in range(6)}
    turn_until(lambda: owned and set.union(*owned) == everything and [len(one) for one in owned] == [2, 2, 2], java, ours)
    producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(120):
        producer.produce(f"java-{group}", b"v", partition=number % 6)
    assert producer.flush(REACHED_S) == 0
    turn_until(lambda: len(read) >= 120, java, ours)
    java.call(["commit", "m", None])
    java.call(["close", "m"])
    turn_until(lambda: set.union(*owned) == everything and sorted(map(len, owned)) == [3, 3], ours)
    ours.call(["commit", "m", None])
    third.commit(asynchronous=False)
    ours.call(["close", "m"])
    third.close()
    assert sorted(set(read)) == [(partition, offset) for partition in range(6) for offset in range(20)]
