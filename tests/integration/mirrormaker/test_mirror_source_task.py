"""One source task between two clusters: everything that a topic can hold arrives, record for record,
and what was stored is enough to go on from.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.mirrormaker.logs_compared import (
    CODECS,
    EPOCH_MS,
    Row,
    is_dense,
    make_topics,
    produce,
    produce_transactions,
    read,
    rows,
    until_copied,
)
from support.mirrormaker.source_tasks import CONNECTOR, OFFSETS, Pair, pair
from support.waiting import REACHED_S

from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.connect_offsets import OffsetStorage, offset_key, record_source


async def test_every_codec_and_kind_of_record_arrives_without_unpacking() -> None:
    topics = dict.fromkeys(CODECS, 2)
    async with pair(topics) as clusters:
        for codec in CODECS:
            produce(clusters.a, codec, 100, partitions=2, codec=codec)
        async with clusters.running(clusters.config(topics)) as (task, _):
            for codec in CODECS:
                assert is_dense(await until_copied(clusters.a, codec, clusters.b, f"A.{codec}", 2))
                produce(clusters.a, codec, 30, first=100, partitions=2, codec=codec)
                await until_copied(clusters.a, codec, clusters.b, f"A.{codec}", 2)
        assert task.progress.batches_passed_on > 50
        assert (task.progress.batches_rewritten, task.progress.batches_left_out) == (0, 0)
        assert task.progress.records == 5 * 130
        expected = {offset_key(CONNECTOR, record_source("A", TopicPartition(codec, number))): 64 for codec in CODECS for number in range(2)}
        assert clusters.stored() == expected
        assert b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"lz4"}]' in expected
        mbeans = clusters.registry.mbeans()
        measured = mbeans["kafka.connect.mirror:type=MirrorSourceConnector,source=A,target=B,topic=A.lz4,partition=1"]
        assert measured["record-count"] == 65
        assert measured["byte-count"] > 1_000
        assert measured["replication-latency-ms-max"] >= measured["replication-latency-ms-min"] > 0


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_transactions_arrive_as_the_isolation_level_says(isolation: str) -> None:
    async with pair({"tx": 1}) as clusters:
        produce_transactions(clusters.a, "tx", 9)
        config = clusters.config({"tx": 1}, consumer={"isolation.level": isolation})
        async with clusters.running(config) as (task, _):
            copied = await until_copied(clusters.a, "tx", clusters.b, "A.tx", isolation=isolation)
        assert is_dense(copied)
        aborted = sum((row.value or b"").startswith(b"aborted") for _, row in copied[0])
        assert aborted == (15 if isolation == "read_uncommitted" else 0)
        assert task.progress.batches_left_out >= 9, "control batches have no place at the target"
        assert task.progress.batches_rewritten == 0


async def test_a_compacted_source_arrives_without_gaps() -> None:
    topic = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"}
    async with pair({"c": 1}, topic) as clusters:
        produce(clusters.a, "c", 300, codec="zstd", keyed=True)
        await until_compacted(clusters, 300)
        config = clusters.config({"c": 1})
        async with clusters.running(config) as (task, _):
            copied = await until_copied(clusters.a, "c", clusters.b, "A.c")
        assert is_dense(copied)
        assert task.progress.batches_rewritten > 0
        sources = await asyncio.to_thread(read, clusters.a, "c")
        upstream = [offset for offset, _ in sources[0]]
        downstream = {upstream_offset: index for index, upstream_offset in enumerate(upstream)}
        for sync in clusters.syncs():
            assert downstream[sync.upstream_offset] == sync.downstream_offset


async def until_compacted(clusters: Pair, written: int) -> None:
    for turn in range(int(REACHED_S)):
        produce(clusters.a, "c", 1, first=written + turn, keyed=True)
        found = await asyncio.to_thread(read, clusters.a, "c")
        if len(found[0]) < written // 2:
            return
        await asyncio.sleep(0.3)
    raise AssertionError("the source was not compacted")


async def test_the_producers_codec_and_request_size_are_kept() -> None:
    async with pair({"big": 1}) as clusters:
        produce(clusters.a, "big", 400, codec="none", **{"batch.num.messages": 400, "linger.ms": 200})
        config = clusters.config({"big": 1}, producer={"compression.type": "gzip", "max.request.size": "2000"})
        async with clusters.running(config) as (task, _):
            assert is_dense(await until_copied(clusters.a, "big", clusters.b, "A.big"))
        assert task.progress.batches_rewritten > 0
        assert task.progress.batches_passed_on == 0


async def test_a_task_goes_on_behind_what_was_stored() -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 50, codec="lz4")
        async with clusters.running(clusters.config({"t": 1})):
            await until_copied(clusters.a, "t", clusters.b, "A.t")
        produce(clusters.a, "t", 50, first=50, codec="lz4")
        async with clusters.running(clusters.config({"t": 1})) as (task, _):
            assert is_dense(await until_copied(clusters.a, "t", clusters.b, "A.t"))
        assert task.progress.records == 50, "the second task copied what the first had copied"


async def test_a_task_that_is_stopped_while_it_stores_offsets_stores_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a task cut off its last regular commit, whose records were then copied again."""
    storing, write = asyncio.Event(), OffsetStorage.write

    async def write_slowly(storage: OffsetStorage, connector: str, offsets: list[Any], transaction_of: KafkaProducer | None = None) -> None:
        storing.set()
        await asyncio.sleep(0.3)
        await write(storage, connector, offsets, transaction_of)

    monkeypatch.setattr(OffsetStorage, "write", write_slowly)
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 50)
        async with clusters.running(clusters.config({"t": 1}, offset_flush_timeout_ms=int(REACHED_S * 1000))):
            await asyncio.wait_for(storing.wait(), REACHED_S)
        [stored] = clusters.stored().values()
        assert stored + 1 == len((await asyncio.to_thread(read, clusters.b, "A.t"))[0])


async def test_a_task_begins_within_a_batch() -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 20, **{"batch.num.messages": 20, "linger.ms": 200})
        storage = OffsetStorage(
            clusters.runtime, OFFSETS, consumer={"bootstrap.servers": clusters.b}, producer={"bootstrap.servers": clusters.b}
        )
        await storage.write(CONNECTOR, [(record_source("A", TopicPartition("t", 0)), 12)])
        await storage.close()
        async with clusters.running(clusters.config({"t": 1})) as (task, _):
            for _ in range(int(REACHED_S * 5)):
                if task.progress.records >= 7:
                    break
                await asyncio.sleep(0.2)
        source = rows(await asyncio.to_thread(read, clusters.a, "t"))[0]
        assert rows(await asyncio.to_thread(read, clusters.b, "A.t"))[0] == source[13:]


async def test_offsets_are_not_stored_for_what_the_target_refused() -> None:
    """The target's topic takes no record of more than 500 bytes: the task ends with that error, and
    nothing says that the record arrived.
    """
    async with pair({"t": 1}) as clusters:
        make_topics(clusters.a, {"small": 1})
        make_topics(clusters.b, {"A.small": 1}, {"max.message.bytes": "500"})
        produce(clusters.a, "small", 1)
        async with clusters.running(clusters.config({"small": 1})) as (_, running):
            await until_copied(clusters.a, "small", clusters.b, "A.small")
            stored_key = offset_key(CONNECTOR, record_source("A", TopicPartition("small", 0)))
            write_large(clusters.a, "small", 900)
            with pytest.raises(ApiException, match="larger than the max message size|too large|larger than"):
                await asyncio.wait_for(running, REACHED_S)
        assert clusters.stored() == {stored_key: 0}


def write_large(servers: str, topic: str, size: int) -> None:
    import confluent_kafka as ck

    producer = ck.Producer({"bootstrap.servers": servers, "log_level": 0})
    producer.produce(topic, b"x" * size, timestamp=EPOCH_MS)
    assert producer.flush(REACHED_S) == 0


async def test_syncs_come_at_once_by_distance_and_at_commits() -> None:
    async with pair({"t": 1}) as clusters:
        produce(clusters.a, "t", 250)
        async with clusters.running(clusters.config({"t": 1}, offset_lag_max=100)):
            await until_copied(clusters.a, "t", clusters.b, "A.t")
        pairs = [(sync.upstream_offset, sync.downstream_offset) for sync in clusters.syncs()]
        assert pairs[0] == (0, 0)
        assert pairs[-1] == (249, 249), "the delayed newest pair goes out with the last commit"
        assert all(upstream == downstream for upstream, downstream in pairs)
        assert pairs == sorted(pairs)


def test_rows_compare_headers_in_their_order() -> None:
    assert Row(0, None, None, (("a", b""), ("b", None)), 0) != Row(0, None, None, (("b", None), ("a", b"")), 0)
