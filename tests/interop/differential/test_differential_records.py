"""Records: Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, InitProducerId,
DescribeProducers.
"""

from __future__ import annotations

import struct
import time

import pytest
from harness import Pair, Side
from steps import TIME, create_topic, fill, produce, produce_by_id, records

from kmirror.common.errors import Errors
from kmirror.common.ports import Buffer
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch, rewrite_crc
from kmirror.record.compression import CompressionType, compress
from kmirror.record.record import MAX_LONG, MIN_LONG, Record
from kmirror.record.record_batch import LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from kmirror.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kmirror.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kmirror.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kmirror.wire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = pytest.mark.interop

UNKNOWN_ID = Uuid(bytes(range(16)))
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)


def send(pair: Pair, topic: str, data: bytes | bytearray | None, version: int, *, note: str = "", partition: int = 0, acks: int = -1):
    if version >= 13:
        return pair.same(lambda side: produce_by_id(side, topic, data, partition=partition, acks=acks), version, note=note)
    return pair.same(produce(topic, data, partition=partition, acks=acks), version, note=note)


def patched(data: bytearray, position: int, layout: str, value: int, *, crc: bool = True) -> bytearray:
    changed = bytearray(data)
    struct.pack_into(layout, changed, position, value)
    if crc:
        rewrite_crc(changed)
    return changed


def legacy(magic: int) -> bytes:
    import zlib

    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", TIME) if magic else b"") + struct.pack(">i1si1s", 1, b"k", 1, b"v")
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


PLAIN = build_batch(records(b"v0", b"v1", b"v2"))
OTHER = build_batch(records(b"w"))
BROKEN = {
    "null": None,
    "empty": b"",
    "short": b"\0" * 10,
    "shorter than a header": bytes(PLAIN[:40]),
    "zeros": b"\0" * 100,
    "ones": b"\xff" * 100,
    "bad crc": patched(PLAIN, 17, ">I", 1, crc=False),
    "truncated": PLAIN[:-3],
    "trailing bytes": PLAIN + b"\0\0\0",
    "trailing garbage": PLAIN + b"\xff" * 20,
    "two batches": PLAIN + OTHER,
    "magic 0": legacy(0),
    "magic 1": legacy(1),
    "magic 3": patched(PLAIN, 16, ">b", 3),
    "magic -1": patched(PLAIN, 16, ">b", -1),
    "length 0": patched(PLAIN, 8, ">i", 0, crc=False),
    "length -1": patched(PLAIN, 8, ">i", -1, crc=False),
    "length huge": patched(PLAIN, 8, ">i", 2**31 - 1, crc=False),
    "length one less": patched(PLAIN, 8, ">i", len(PLAIN) - 13, crc=False),
    "length 20": patched(PLAIN, 8, ">i", 20, crc=False),
    "count 2": patched(PLAIN, 57, ">i", 2),
    "count 4": patched(PLAIN, 57, ">i", 4),
    "count 0": patched(PLAIN, 57, ">i", 0),
    "count -1": patched(PLAIN, 57, ">i", -1),
    "last offset delta 5": patched(PLAIN, 23, ">i", 5),
    "last offset delta -1": patched(PLAIN, 23, ">i", -1),
    "base offset 7": patched(PLAIN, 0, ">q", 7, crc=False),
    "base offset -7": patched(PLAIN, 0, ">q", -7, crc=False),
    "leader epoch 9": patched(PLAIN, 12, ">i", 9, crc=False),
    "codec 5": patched(PLAIN, 21, ">h", 5),
    "codec 7": patched(PLAIN, 21, ">h", 7),
    "says gzip": patched(PLAIN, 21, ">h", 1),
    "says snappy": patched(PLAIN, 21, ">h", 2),
    "says lz4": patched(PLAIN, 21, ">h", 3),
    "says zstd": patched(PLAIN, 21, ">h", 4),
    "log append time": patched(PLAIN, 21, ">h", 8),
    "transactional": patched(PLAIN, 21, ">h", 16),
    "control": patched(PLAIN, 21, ">h", 32),
    "delete horizon": patched(PLAIN, 21, ">h", 64),
    "unknown attribute": patched(PLAIN, 21, ">h", 128),
    "record length": patched(PLAIN, 61, ">b", 100),
    "record length negative": patched(PLAIN, 61, ">b", 3),
    "record attributes": patched(PLAIN, 62, ">b", 1),
    "record offset delta": patched(PLAIN, 64, ">b", 8),
    "key length": patched(PLAIN, 65, ">b", 120),
    "max timestamp": patched(PLAIN, 35, ">q", TIME + 99),
    "base timestamp negative": patched(PLAIN, 27, ">q", -5),
    "base timestamp -1": patched(PLAIN, 27, ">q", -1),
    "producer without sequence": build_batch(records(b"v"), producer_id=5, producer_epoch=0),
    "sequence without producer": build_batch(records(b"v"), base_sequence=5),
    "epoch without producer": build_batch(records(b"v"), producer_epoch=5),
    "negative epoch": build_batch(records(b"v"), producer_id=5, producer_epoch=-1, base_sequence=0),
    "far future": build_batch(records(b"v", timestamp=9_999_999_999_999)),
    "timestamp -1": build_batch(records(b"v", timestamp=-1)),
    "no records": build_batch([]),
    "too large": build_batch(records(b"x" * 100_001)),
    "no key": build_batch(records(b"v", b"w", key=None)),
    "null value": build_batch(records(None)),
    "headers": build_batch([Record(0, TIME, b"k", b"v", [("h", b"1"), ("h", None), ("", b"")])]),
}


@pytest.mark.parametrize("codec", list(CompressionType))
def test_produce_in_every_codec_and_version(pair: Pair, codec: CompressionType) -> None:
    topic = f"pr-{codec.name.lower()}"
    create_topic(pair, topic)
    for version in PRODUCE_VERSIONS:
        send(pair, topic, build_batch(records(b"a" * 100, b"b" * 100, None), compression=codec), version)
        for acks in (1, 2, -2):
            send(pair, topic, PLAIN, version, acks=acks, note=f"acks {acks}")


def test_produce_of_broken_batches(pair: Pair) -> None:
    create_topic(pair, "pb")
    for name, data in BROKEN.items():
        for version in (3, 7, 8, 9, 12, 13):
            send(pair, "pb", data, version, note=name)


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.ZSTD])
def test_produce_of_broken_compressed_batches(pair: Pair, codec: CompressionType) -> None:
    topic = f"pbc-{codec.name.lower()}"
    create_topic(pair, topic)
    data = build_batch(records(b"v0" * 50, b"v1", b"v2"), compression=codec)
    cut = patched(data[:-6], 8, ">i", len(data) - 6 - 12)
    for name, broken in {
        "count 2": patched(data, 57, ">i", 2),
        "count 4": patched(data, 57, ">i", 4),
        "last offset delta": patched(data, 23, ">i", 7),
        "garbage": patched(data, 66, ">q", -1),
        "cut": cut,
        "max timestamp": patched(data, 35, ">q", TIME + 99),
        "no key": build_batch(records(b"v", key=None), compression=codec),
        "offsets": build_batch([Record(0, TIME, b"k", b"v"), Record(5, TIME, b"k", b"v")], compression=codec),
    }.items():
        for version in (7, 9, 13):
            send(pair, topic, broken, version, note=f"{codec.name} {name}")


def payload_of(data: bytearray, payload: Buffer) -> bytearray:
    """The batch with other bytes in the place of its records; length and CRC fit them."""
    changed = data[:RECORD_BATCH_OVERHEAD] + bytearray(payload)
    return patched(changed, 8, ">i", len(changed) - LOG_OVERHEAD)


def flipped(data: Buffer, position: int) -> bytearray:
    changed = bytearray(data)
    changed[position] ^= 0x55
    return changed


def damaged_streams(codec: CompressionType, stream: bytes) -> dict[str, Buffer]:
    """What a producer with a broken compressor could send in the place of `stream`.

    Bytes in the midst are left alone: then a record may be wrong before the stream is. Kafka finds
    the record first; it also takes records whose fields do not add up to their lengths, which
    kmirror refuses, since a consumer could not read them.
    """
    size = len(stream)
    return {
        "whole": stream,
        "empty": b"",
        "garbage": b"garbagegarbage",
        "zeros": bytes(40),
        "of non-records": compress(codec, b"not records at all"),
        "of nothing": compress(codec, b""),
        "and bytes behind": stream + b"\xff" * 20,
        "and zeros behind": stream + bytes(20),
        "twice": stream + stream,
        **{f"cut to {cut}": stream[:cut] for cut in (1, 3, 6, 9, 12, 16, 20, 30, size // 2)},
        **{f"cut by {cut}": stream[:-cut] for cut in (40, 20, 9, 8, 5, 4, 3, 1)},
        **{f"byte {at} flipped": flipped(stream, at) for at in (0, 2, -1, -2)},
    }


@pytest.mark.parametrize("codec", [codec for codec in CompressionType if codec is not CompressionType.NONE])
def test_produce_of_streams_that_do_not_decompress(pair: Pair, codec: CompressionType) -> None:
    """Clients retry CORRUPT_MESSAGE; what Kafka says here, none does."""
    topic = f"pd-{codec.name.lower()}"
    create_topic(pair, topic)
    for size in (4, 400, 40_000):
        data = build_batch(records(bytes(range(97, 123)) * (size // 26 + 1), b"v1", b"v2" * 20), compression=codec)
        for name, stream in damaged_streams(codec, bytes(data[RECORD_BATCH_OVERHEAD:])).items():
            send(pair, topic, payload_of(data, stream), 9, note=f"{codec.name} {size} {name}")


def test_produce_to_topics_with_rules(pair: Pair) -> None:
    create_topic(pair, "rule-compact", cleanup_policy="compact")
    create_topic(pair, "rule-time", message_timestamp_type="LogAppendTime")
    create_topic(pair, "rule-range", message_timestamp_before_max_ms="1000", message_timestamp_after_max_ms="1000")
    create_topic(pair, "rule-small", max_message_bytes="100")
    create_topic(pair, "rule-segment", segment_bytes="1048576", max_message_bytes="2000000")
    create_topic(pair, "rule-gzip", compression_type="gzip")
    create_topic(pair, "rule-any-time", message_timestamp_after_max_ms=str(MAX_LONG))
    create_topic(pair, "rule-any-time-gzip", message_timestamp_after_max_ms=str(MAX_LONG), compression_type="gzip")
    create_topic(pair, "rule-isr", min_insync_replicas="2")
    mixed = build_batch([Record(0, TIME, b"k", b"v"), Record(1, TIME, None, b"v"), Record(2, TIME, None, b"v")])
    for version in PRODUCE_VERSIONS:
        send(pair, "rule-compact", mixed, version, note="no key")
        send(pair, "rule-compact", build_batch(records(b"v", key=None), compression=CompressionType.LZ4), version, note="no key, lz4")
        send(pair, "rule-time", PLAIN, version, note="append time")
        send(pair, "rule-range", PLAIN, version, note="old")
        send(pair, "rule-range", build_batch(records(b"v", timestamp=9_999_999_999_999)), version, note="new")
        send(pair, "rule-small", build_batch(records(b"x" * 200)), version, note="small")
        send(pair, "rule-gzip", PLAIN, version, note="gzip")
        for acks in (-1, 1):
            send(pair, "rule-isr", PLAIN, version, note="isr", acks=acks)
    send(pair, "rule-segment", build_batch(records(b"x" * 1_100_000)), 9, note="larger than a segment")
    for base, delta in ((MAX_LONG, 10), (MAX_LONG, 0), (MIN_LONG + 3, -10), (MIN_LONG, 0), (-1, MIN_LONG), (MAX_LONG, -MAX_LONG)):
        wrapping = patched(build_batch([Record(0, 0, b"k", b"v"), Record(1, delta, b"k", b"w")]), 27, ">q", base)
        for topic in ("rule-any-time", "rule-any-time-gzip", "rule-range"):
            send(pair, topic, wrapping, 9, note=f"times that wrap, {base} and {delta} more")
    pair.same(lambda side: fetch(side, "rule-any-time", 0, 11), 11, note="times that wrap")


def test_produce_to_what_is_not_there(pair: Pair) -> None:
    create_topic(pair, "here")
    for version in range(3, 13):
        pair.same(produce("nowhere", PLAIN), version)
        pair.same(produce("here", PLAIN, partition=7), version)
        pair.same(produce("here", PLAIN, partition=-1), version)
        pair.same(produce("", PLAIN), version)
        pair.same(produce("here", PLAIN, transactional_id="txn"), version, note="transactional id")
        pair.same(ProduceRequest(None, -1, 1000, []), version, note="nothing")
        both = [TopicProduceData(name=name, partition_data=[PartitionProduceData(0, PLAIN)]) for name in ("here", "nowhere")]
        pair.same(ProduceRequest(None, -1, 1000, both), version, note="both")
        pair.same(ProduceRequest(None, -1, 1000, [TopicProduceData(name="here")]), version, note="no partitions")
        pair.same(produce("__consumer_offsets", PLAIN), version, note="internal")
    pair.same(ProduceRequest(None, -1, 1000, [TopicProduceData(topic_id=UNKNOWN_ID, partition_data=[PartitionProduceData(0, PLAIN)])]), 13)
    pair.same(ProduceRequest(None, -1, 1000, [TopicProduceData(partition_data=[PartitionProduceData(0, PLAIN)])]), 13)
    send(pair, "here", PLAIN, 13, partition=3)


def test_produce_with_acks_0(pair: Pair) -> None:
    create_topic(pair, "acks0")
    pair.each(lambda side: side.tell(produce("acks0", PLAIN, acks=0), 9))
    pair.same(produce("acks0", PLAIN), 9, note="after acks 0")


def init(side: Side, name: str) -> int:
    answer = side.ask(InitProducerIdRequest(None, 1000), 4)
    while answer.error_code == Errors.COORDINATOR_LOAD_IN_PROGRESS:
        time.sleep(0.05)
        answer = side.ask(InitProducerIdRequest(None, 1000), 4)
    side.producer_ids[name] = answer.producer_id
    return answer.producer_id


def test_idempotent_producers(pair: Pair) -> None:
    create_topic(pair, "idem")
    for side in pair.sides:
        init(side, "p")
        init(side, "q")

    def batch(side: Side, producer: str, epoch: int, sequence: int, count: int = 1) -> ProduceRequest:
        values = records(*[b"v"] * count)
        return produce("idem", build_batch(values, producer_id=side.producer_ids[producer], producer_epoch=epoch, base_sequence=sequence))

    steps = [("p", 0, 0), ("p", 0, 1), ("p", 0, 1), ("p", 0, 0), ("p", 0, 5), ("p", 0, 2, 3), ("p", 0, 3), ("p", 0, 5), ("p", 1, 7), ("p", 1, 0),
             ("p", 0, 6), ("p", 1, 1), ("q", 0, 5), ("q", 0, 0), ("q", 5, 0), ("q", 4, 1), ("q", 0, 6), ("q", 5, 2), ("q", 5, -1)]  # fmt: skip
    steps += [("p", 1, sequence) for sequence in range(2, 10)] + [("p", 1, 3), ("p", 1, 5), ("p", 1, 9), ("p", 1, 4)]
    for step in steps:
        pair.same(lambda side, step=step: batch(side, *step), 9, note=repr(step))
    pair.same(
        DescribeProducersRequest([TopicRequest("idem", [0, 1]), TopicRequest("nope", [0]), TopicRequest("", [0])]), 0, edit=blank_times
    )


def blank_times(answer: dict) -> None:
    for topic in answer["topics"]:
        for partition in topic["partitions"]:
            partition["active_producers"].sort(key=lambda producer: str(producer["producer_id"]))


def test_init_producer_id(pair: Pair) -> None:
    pair.each(lambda side: init(side, "first"))

    def set_id(answer: dict) -> None:
        answer["producer_id"] = "refused" if answer["producer_id"] == -1 else "given"

    for options in ({}, {"producer_id": 5, "producer_epoch": 3}, {"producer_id": 5}, {"producer_epoch": 5}):
        pair.every_version(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, **options),
            3 if options else 0,
            edit=set_id,
            note=repr(options),
        )
    pair.every_version(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), edit=set_id, note="empty")


def offsets(topic: str, *timestamps: int, isolation: int = 0, epoch: int = -1, replica: int = -1, partition: int = 0) -> ListOffsetsRequest:
    entries = [ListOffsetsPartition(partition, epoch, timestamp) for timestamp in timestamps]
    return ListOffsetsRequest(replica, isolation, [ListOffsetsTopic(topic, entries)], 1000)


def test_list_offsets(pair: Pair) -> None:
    create_topic(pair, "lo", partitions=2)
    fill(pair, "lo")
    for timestamp in (-1, -2, -3, -4, -5, -6, -7, 0, TIME, TIME + 1, TIME + 5, TIME + 11, TIME + 10**6, -100):
        pair.every_version(offsets("lo", timestamp), note=str(timestamp))
        pair.every_version(offsets("lo", timestamp, isolation=1), 2, note=f"committed {timestamp}")
        pair.every_version(offsets("lo", timestamp, partition=1), note=f"empty partition {timestamp}")
    pair.every_version(offsets("lo", -1, partition=9), note="no partition")
    pair.every_version(offsets("nowhere", -1, -2), note="unknown twice")
    pair.every_version(offsets("lo", -1, -2), note="twice")
    pair.every_version(offsets("lo", -1, replica=1), note="replica")
    pair.every_version(offsets("lo", -1, replica=-2), note="debug")
    for epoch in (-2, 0, 1, 9):
        pair.every_version(offsets("lo", -1, epoch=epoch), 4, note=f"epoch {epoch}")
    pair.every_version(ListOffsetsRequest(-1, 0, [], 1000), note="nothing")


def test_offset_for_leader_epoch(pair: Pair) -> None:
    create_topic(pair, "ol")
    fill(pair, "ol")
    part = OffsetForLeaderPartition
    for current, epoch in ((-1, 0), (-1, 1), (-1, -1), (-1, -5), (0, 0), (1, 0), (9, 0), (-2, 0)):
        for replica in (-1, -2, 1):
            request = OffsetForLeaderEpochRequest(replica, [OffsetForLeaderTopic("ol", [part(0, current, epoch)])])
            pair.every_version(request, 3, note=repr((current, epoch, replica)))
    several = [OffsetForLeaderTopic("ol", [part(0, -1, 0), part(5, -1, 0)]), OffsetForLeaderTopic("nowhere", [part(0, -1, 0)])]
    pair.every_version(OffsetForLeaderEpochRequest(-2, several), note="unknown")


def test_delete_records(pair: Pair) -> None:
    for version in range(3):
        topic = f"dr-{version}"
        create_topic(pair, topic)
        fill(pair, topic)
        for offset in (0, 1, 3, 3, 2, -2, 7, 6, -1):
            request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])], 5000)
            pair.same(request, version, note=str(offset))
            pair.same(offsets(topic, -2), 7, note=f"after {offset}")
        several = [DeleteRecordsTopic(topic, [DeleteRecordsPartition(4, 0)]), DeleteRecordsTopic("nowhere", [DeleteRecordsPartition(0, 0)])]
        pair.same(DeleteRecordsRequest(several, 5000), version, note="unknown")
        pair.same(DeleteRecordsRequest([], 5000), version, note="nothing")
    create_topic(pair, "dr-compact", cleanup_policy="compact")
    pair.same(DeleteRecordsRequest([DeleteRecordsTopic("dr-compact", [DeleteRecordsPartition(0, 0)])], 5000), 2, note="compacted")
    pair.same(DeleteRecordsRequest([DeleteRecordsTopic("__consumer_offsets", [DeleteRecordsPartition(0, 0)])], 5000), 2, note="internal")


def test_describe_log_dirs(pair: Pair) -> None:
    create_topic(pair, "dl", partitions=2)
    fill(pair, "dl")
    topics = [DescribableLogDirTopic("dl", [1, 0, 5]), DescribableLogDirTopic("nowhere", [0])]
    pair.every_version(DescribeLogDirsRequest(topics))
    pair.every_version(DescribeLogDirsRequest([]))


def fetch(
    side: Side,
    topic: str,
    offset: int,
    version: int,
    *,
    partition: int = 0,
    epoch: int = -1,
    fetched_epoch: int = -1,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    log_start: int = -1,
) -> FetchRequest:
    entry = FetchPartition(
        partition=partition, current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=fetched_epoch, log_start_offset=log_start,
        partition_max_bytes=partition_bytes,
    )  # fmt: skip
    topics = [FetchTopic(topic_id=side.topic_id(topic), partitions=[entry]) if version >= 13 else FetchTopic(topic, partitions=[entry])]
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, isolation_level=isolation, session_id=session[0],
        session_epoch=session[1], topics=topics,
    )  # fmt: skip


def test_fetch(pair: Pair) -> None:
    create_topic(pair, "fe", partitions=2)
    fill(pair, "fe", 5)
    for version in FETCH_VERSIONS:

        def same(note: str, offset: int, version: int = version, **options: object) -> None:
            pair.same(lambda side: fetch(side, "fe", offset, version, **options), version, note=note)  # type: ignore[arg-type]

        for offset in (0, 1, 4, 9, 10, 11, -1, 10**9):
            same(f"offset {offset}", offset)
        same("committed", 0, isolation=1)
        for size in (0, 1, 80, 100, 170, -1):
            same(f"max bytes {size}", 0, max_bytes=size)
            same(f"partition bytes {size}", 1, partition_bytes=size)
        same("min bytes", 9, min_bytes=10_000, max_wait_ms=30)
        same("min bytes at the end", 10, min_bytes=1, max_wait_ms=30)
        same("no partition", 0, partition=9)
        same("empty partition", 0, partition=1)
        same("log start", 0, log_start=3)
        if version >= 9:
            for epoch in (0, 1, 7, -2):
                same(f"epoch {epoch}", 0, epoch=epoch)
        if version >= 12:
            for fetched_epoch in (0, -1):  # above ours, kmirror gives a diverging epoch where Kafka says OFFSET_OUT_OF_RANGE (C36b)
                same(f"last fetched epoch {fetched_epoch}", 2, fetched_epoch=fetched_epoch)
                same(f"last fetched epoch {fetched_epoch} at 50", 50, fetched_epoch=fetched_epoch)


def test_fetch_of_what_is_not_there(pair: Pair) -> None:
    part = FetchPartition(0, partition_max_bytes=1000)
    for version in range(4, 13):
        pair.same(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[FetchTopic("nowhere", partitions=[part])]), version)
        pair.same(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[FetchTopic("", partitions=[part])]), version, note="empty name")
        pair.same(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=[]), version, note="nothing")
    for version in range(13, 19):
        for topic_id in (UNKNOWN_ID, Uuid.ZERO):
            topics = [FetchTopic(topic_id=topic_id, partitions=[part])]
            pair.same(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics), version, note=repr(topic_id == UNKNOWN_ID))


@pytest.mark.parametrize("version", [7, 11, 12, 13, 16, 18])
def test_fetch_sessions(pair: Pair, version: int) -> None:
    topic = f"fs-{version}"
    create_topic(pair, topic, partitions=3)
    fill(pair, topic)

    def entry(side: Side, *partitions: FetchPartition) -> list[FetchTopic]:
        named = {"topic_id": side.topic_id(topic)} if version >= 13 else {"topic": topic}
        return [FetchTopic(**named, partitions=list(partitions))]

    def part(index: int, offset: int = 0) -> FetchPartition:
        return FetchPartition(index, fetch_offset=offset, partition_max_bytes=1 << 20)

    def step(note: str, epoch: int, *partitions: FetchPartition, forgotten: tuple[int, ...] = (), session: int | None = None) -> None:
        def make(side: Side) -> FetchRequest:
            forget = [
                ForgottenTopic(**{"topic_id": side.topic_id(topic)} if version >= 13 else {"topic": topic}, partitions=list(forgotten))
            ]
            return FetchRequest(
                max_wait_ms=0, session_id=side.kept.get("session", 0) if session is None else session, session_epoch=epoch,
                topics=entry(side, *partitions) if partitions else [], forgotten_topics_data=forget if forgotten else [],
            )  # fmt: skip

        answers = pair.same(make, version, note=note)
        for side, answer in zip(pair.sides, answers, strict=True):
            if answer.session_id:
                side.kept["session"] = answer.session_id

    step("new", 0, part(0), part(1), part(2), session=0)
    step("nothing new", 1)
    step("other offset", 2, part(0, 4))
    step("again", 3)
    fill(pair, topic, 1, partition=1)
    step("data in 1", 4)
    step("forget 1", 5, forgotten=(1,))
    step("after forget", 6)
    step("old epoch", 3)
    step("unknown id", 7, session=123456)
    step("out of range", 7, part(2, 50))
    step("still out of range", 8)
    step("add partition", 9, part(1, 2), part(9))
    step("forget all", 10, forgotten=(0, 1, 2, 9))
    step("empty", 11)
    step("close", -1)
    step("closed", 12)
    step("epoch below -1", -5, part(0))
    step("new with old id", 0, part(0))
    pair.each(lambda side: side.kept.pop("session", None))
