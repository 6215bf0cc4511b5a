"""Heartbeats' and checkpoints' way to the target: what is stored beside them, and what one
transaction holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from support.mirrormaker.logs_compared import make_topics, read
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.connect_offsets import OffsetStorage
from kmirror.mirrormaker.error_handling import ErrorCounts, ErrorSettings, RecordErrors
from kmirror.mirrormaker.source_records import RecordsConfig, SourceRecord, SourceRecordWriter
from kmirror.mirrormaker.transforming import Transforming
from kmirror.mirrormaker.transforms import make_chain
from kmirror.runtime.asyncio_runtime import AsyncioRuntime

BROKER = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
BEATS, OFFSETS = "heartbeats", "mm2-offsets.A.internal"
KEY = b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
NEVER_MS = 3_600_000
CANCELLED = 40


def record(number: int) -> SourceRecord:
    return SourceRecord((("sourceClusterAlias", "A"), ("targetClusterAlias", "B")), BEATS, b"key", b"%d" % number, 1_700_000_000_000)


async def still_ours() -> None:
    pass


class Target:
    """A cluster, and writers of one task to it."""

    def __init__(self, servers: str, offsets: OffsetStorage, runtime: AsyncioRuntime) -> None:
        self.servers, self.offsets, self.runtime = servers, offsets, runtime

    def writer(
        self,
        transactional_id: str | None = None,
        *,
        transaction_ms: int = 0,
        flush_interval_ms: int = NEVER_MS,
        transforming: Transforming | None = None,
        writes_to: Callable[[str], object] = lambda _: None,
    ) -> SourceRecordWriter:
        producer = {"bootstrap.servers": self.servers, "max.request.size": "5000"}
        config = RecordsConfig(
            "MirrorHeartbeatConnector", producer, flush_interval_ms, 20_000, transactional_id, transaction_ms, transforming
        )
        return SourceRecordWriter(self.runtime, "A->B", config, self.offsets, writes_to)

    def transforming(self, props: dict[str, str], counts: ErrorCounts, *, tolerates_all: bool = False) -> Transforming:
        return Transforming(make_chain(props), RecordErrors("hb-0", ErrorSettings(tolerates_all), counts, self.runtime.clock))

    def read(self, topic: str, isolation: str = "read_committed") -> list[tuple[int, bytes | None, bytes | None]]:
        return [(offset, row.key, row.value) for offset, row in read(self.servers, topic, isolation=isolation)[0]]

    def beats(self, isolation: str = "read_committed") -> list[tuple[int, bytes | None]]:
        return [(offset, value) for offset, _, value in self.read(BEATS, isolation)]

    def stored(self) -> list[bytes | None]:
        return [key for _, key, value in self.read(OFFSETS) if value == b'{"offset":0}']


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    runtime = AsyncioRuntime()
    with EmbeddedCluster(config=BROKER) as cluster:
        servers = cluster.bootstrap_servers
        make_topics(servers, {BEATS: 1, OFFSETS: 1})
        client = {"bootstrap.servers": servers}
        offsets = OffsetStorage(runtime, OFFSETS, consumer=client, producer=client)
        try:
            yield Target(servers, offsets, runtime)
        finally:
            await offsets.close()


async def test_at_least_once_stores_offsets_of_what_is_written_regularly_and_at_the_end() -> None:
    async with target() as there:
        writer = there.writer(flush_interval_ms=50)
        await writer.start(still_ours)
        written: list[int] = []
        for number in range(2):
            await writer.send(record(number), lambda number=number: written.append(number))
            await writer.poll_ended()
        assert written == [0, 1]
        assert there.beats() == [(0, b"0"), (1, b"1")]
        async with asyncio.timeout(REACHED_S):
            while not there.stored():
                await asyncio.sleep(0.05)
        regular = len(there.stored())
        await writer.send(record(2))
        await writer.end()
        assert len(there.stored()) > regular and set(there.stored()) == {KEY}
        assert there.beats()[-1] == (2, b"2"), "what was on its way is written"


async def test_each_poll_is_a_transaction_with_its_offsets() -> None:
    async with target() as there:
        writer = there.writer("task-0")
        await writer.start(still_ours)
        counted: list[str] = []
        for number in range(2):
            await writer.send(record(number), lambda: counted.append("written"))
            assert len(counted) == number, "nothing counts before its commit"
            await writer.poll_ended()
        await writer.end()
        assert counted == ["written"] * 2
        assert there.beats() == [(0, b"0"), (2, b"1")], "a marker follows each"
        assert there.stored() == [KEY, KEY]


async def test_an_interval_holds_several_polls_and_ends_with_the_task() -> None:
    async with target() as there:
        writer = there.writer("task-0", transaction_ms=NEVER_MS)
        await writer.start(still_ours)
        for number in range(2):
            await writer.send(record(number))
            await writer.poll_ended()
        assert there.beats() == []
        await writer.end()
        assert there.beats() == [(0, b"0"), (1, b"1")]
        assert there.stored() == [KEY], "one offset for the transaction"


async def test_a_former_life_is_shut_out_and_knows_it() -> None:
    async with target() as there:
        former, writer = there.writer("task-0", transaction_ms=NEVER_MS), there.writer("task-0")
        await former.start(still_ours)
        await former.send(record(0))
        await writer.start(still_ours)
        await writer.send(record(1))
        await writer.poll_ended()
        with pytest.raises(KmirrorError):
            async with asyncio.timeout(REACHED_S):
                while True:
                    await former.send(record(2))
                    await former.poll_ended()
                    await asyncio.sleep(0.02)
        with pytest.raises(KmirrorError):
            former.raise_failure()
        await former.end()
        await writer.end()
        assert [value for _, value in there.beats()] == [b"1"]


async def test_a_commit_that_was_cancelled_ends_before_the_next_transaction() -> None:
    """As admin.timeout.ms may cancel the job that emits checkpoints."""
    async with target() as there:
        writer = there.writer("task-0")
        await writer.start(still_ours)
        for number in range(CANCELLED):
            await writer.send(record(number))
            committing = asyncio.ensure_future(writer.poll_ended())
            await asyncio.sleep(number / 4000)
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
        await writer.send(record(CANCELLED))
        await writer.poll_ended()
        await writer.end()
        assert [value for _, value in there.beats()] == [b"%d" % number for number in range(CANCELLED + 1)]
        assert [value for _, value in there.beats("read_uncommitted")] == [b"%d" % number for number in range(CANCELLED + 1)]


@pytest.mark.parametrize("transactional_id", [None, "task-0"])
async def test_records_of_a_task_go_through_its_transformations(transactional_id: str | None) -> None:
    route = {"transforms": "r,t", "transforms.r.type": "RegexRouter", "transforms.r.regex": ".*", "transforms.r.replacement": "other"}
    drop = {"transforms.t.type": "Filter", "transforms.t.predicate": "p", "predicates": "p", "predicates.p.type": "RecordIsTombstone"}
    async with target() as there:
        make_topics(there.servers, {"other": 1})
        topics: list[str] = []
        writer = there.writer(transactional_id, transforming=there.transforming({**route, **drop}, ErrorCounts()), writes_to=topics.append)
        await writer.start(still_ours)
        counted: list[int] = []
        for number in range(2):
            await writer.send(record(number), lambda number=number: counted.append(number))
        await writer.send(record(2)._replace(value=None), lambda: counted.append(2))
        await writer.poll_ended()
        await writer.end()
        assert sorted(counted) == [0, 1, 2], "a record that is dropped counts, too"
        assert (topics, there.beats()) == (["other"], [])
        assert [value for _, _, value in there.read("other")] == [b"0", b"1"]
        assert set(there.stored()) == {KEY}


@pytest.mark.parametrize("tolerates_all", [False, True])
async def test_a_record_that_fails_ends_the_task_unless_that_is_tolerated(tolerates_all: bool) -> None:
    cast = {"transforms": "c", "transforms.c.type": "org.apache.kafka.connect.transforms.Cast$Value", "transforms.c.spec": "int8"}
    async with target() as there:
        counts = ErrorCounts()
        writer = there.writer(transforming=there.transforming(cast, counts, tolerates_all=tolerates_all))
        await writer.start(still_ours)
        if tolerates_all:
            await writer.send(record(0))
            await writer.poll_ended()
        else:
            with pytest.raises(KmirrorError, match="Tolerance exceeded"):
                await writer.send(record(0))
            with pytest.raises(KmirrorError, match="Tolerance exceeded"):
                writer.raise_failure()
        await writer.end()
        assert (counts.failures, counts.skipped, there.beats()) == (1, int(tolerates_all), [])


@pytest.mark.parametrize("tolerates_all", [False, True])
async def test_a_record_that_is_too_large_ends_the_task_unless_that_is_tolerated(tolerates_all: bool) -> None:
    same = {"transforms": "d", "transforms.d.type": "DropHeaders", "transforms.d.headers": "h"}
    async with target() as there:
        counts = ErrorCounts()
        writer = there.writer(transforming=there.transforming(same, counts, tolerates_all=tolerates_all))
        await writer.start(still_ours)
        large = record(0)._replace(value=b"x" * 6_000)
        if tolerates_all:
            await writer.send(large)
            await writer.send(record(1))
            await writer.poll_ended()
        else:
            with pytest.raises(KmirrorError, match="larger than 5000"):
                await writer.send(large)
        await writer.end()
        assert (counts.failures, counts.errors, there.beats()) == ((1, 0, [(0, b"1")]) if tolerates_all else (0, 0, []))
