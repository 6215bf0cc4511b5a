"""CoordinatorRuntime: load, decide, append, replay, park until committed, unload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.coordinators.coordinator_doubles import MemoryLog

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common import coordinator_runtime, coordinator_timers, log_replay
from kmirror.coordinator.common.coordinator_batches import split_records
from kmirror.coordinator.common.coordinator_runtime import CoordinatorRuntime, CoordinatorState
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, ShardContext
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

TP = TopicPartition("__internal", 0)


class SetShard:
    """Remembers keys; a value `bad` cannot be replayed."""

    def __init__(self, context: ShardContext) -> None:
        self.timer = context.timer
        self.keys: list[bytes] = []
        self.unloaded = False

    def add(self, *keys: str) -> CoordinatorResult[int]:
        return CoordinatorResult([CoordinatorRecord(key.encode(), b"v") for key in keys], len(self.keys))

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        if record.value == b"bad":
            raise KmirrorError("bad record")
        self.keys.append(record.key)

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None: ...

    def on_loaded(self, now_ms: int) -> None: ...

    def on_unloaded(self) -> None:
        self.unloaded = True


def scenario(body: Callable[[CoordinatorRuntime[SetShard], MemoryLog, Runtime], Awaitable[None]], *, flush: bool = False) -> None:
    async def main(runtime: Runtime) -> None:
        log = MemoryLog(max_batch_size=1000)
        shards: CoordinatorRuntime[SetShard] = CoordinatorRuntime(
            runtime, name="test", log=log, shard_factory=SetShard, flush_single_replica=flush
        )
        await body(shards, log, runtime)
        await shards.shutdown()

    run(main)


async def loaded(shards: CoordinatorRuntime[SetShard], epoch: int = 1) -> None:
    shards.schedule_load(TP, epoch)
    while shards.state(TP) is CoordinatorState.LOADING:
        await asyncio.sleep(0)


async def error_of(awaitable: Awaitable[object]) -> Errors:
    with pytest.raises(ApiException) as caught:
        await awaitable
    return caught.value.error


def test_requests_before_and_while_loading_are_told_so() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        assert await error_of(shards.read(TP, lambda shard, now: 0)) is Errors.NOT_COORDINATOR
        shards.schedule_load(TP, 1)
        assert await error_of(shards.read(TP, lambda shard, now: 0)) is Errors.COORDINATOR_LOAD_IN_PROGRESS

    scenario(body)


def test_what_was_written_is_there_after_a_reload() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        assert await shards.write(TP, lambda shard, now: shard.add("a", "b")) == 0
        assert len(log.batches) == 1
        await loaded(shards, 2)
        assert await shards.read(TP, lambda shard, now: shard.keys) == [b"a", b"b"]

    scenario(body, flush=True)


def test_a_long_load_leaves_turns_to_others_and_ends_when_the_shard_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_replay, "RECORDS_A_TURN", 4)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        for number in range(10):
            await shards.write(TP, lambda shard, now, number=number: shard.add(f"{number}a", f"{number}b"))
        turns = 0
        shards.schedule_load(TP, 2)
        (shard,) = shards.shards()
        while shards.state(TP) is CoordinatorState.LOADING:
            turns += 1
            assert len(shard.keys) <= 4 * turns
            await asyncio.sleep(0)
        assert len(shard.keys) == 20 and turns >= 5
        shards.schedule_load(TP, 3)
        (dropped,) = shards.shards()
        await asyncio.sleep(0)
        shards.schedule_unload(TP)
        for _ in range(10):
            await asyncio.sleep(0)
        assert 0 < len(dropped.keys) < 20 and shards.state(TP) is CoordinatorState.CLOSED

    scenario(body)


def test_what_is_for_every_shard_reaches_those_that_are_loading_once_they_are_loaded() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        await shards.write(TP, lambda shard, now: shard.add("before"))
        shards.schedule_load(TP, 2)
        shards.run_everywhere("all", lambda shard: CoordinatorResult(shard.add("after", str(len(shard.keys))).records, None))
        while shards.state(TP) is CoordinatorState.LOADING:
            await asyncio.sleep(0)
        keys = await shards.read(TP, lambda shard, now: list(shard.keys))
        for _ in range(20):
            await asyncio.sleep(0)
            keys = await shards.read(TP, lambda shard, now: list(shard.keys))
        assert keys == [b"before", b"after", b"1"], "after the records of the log, and once"

    scenario(body)


def test_records_that_need_not_share_a_batch_are_split_before_it_gets_too_large() -> None:
    records = [CoordinatorRecord(b"k" * 10, b"v" * 60) for _ in range(5)]
    assert [len(run) for run in split_records(records, 250)] == [2, 2, 1]
    assert [len(run) for run in split_records(records, 10)] == [1] * 5
    assert split_records(records, None) == [records] and split_records([], None) == []


def test_atomic_records_share_a_batch() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        records = [CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", None)]
        await shards.write(TP, lambda shard, now: CoordinatorResult(records, None, atomic=True))
        (batch,) = iter_batches(log.batches[0])
        assert batch.record_count == 2

    scenario(body)


def test_response_waits_for_the_high_watermark_and_reads_do_too() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        log.hold = True
        write = asyncio.ensure_future(shards.write(TP, lambda shard, now: shard.add("a")))
        read = asyncio.ensure_future(shards.read(TP, lambda shard, now: list(shard.keys)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not write.done()
        assert not read.done()
        log.commit()
        assert await write == 0
        assert await read == [b"a"]

    scenario(body)


def test_refused_append_changes_nothing() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        log.refuse = Errors.NOT_ENOUGH_REPLICAS
        assert await error_of(shards.write(TP, lambda shard, now: shard.add("a"))) is Errors.NOT_ENOUGH_REPLICAS
        log.refuse = None
        assert await shards.read(TP, lambda shard, now: shard.keys) == []

    scenario(body)


def test_batch_above_the_topics_limit_is_refused() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        assert await error_of(shards.write(TP, lambda shard, now: shard.add("k" * 2000))) is Errors.RECORD_LIST_TOO_LARGE

    scenario(body)


def test_resignation_fails_what_is_parked() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        log.hold = True
        write = asyncio.ensure_future(shards.write(TP, lambda shard, now: shard.add("a")))
        await asyncio.sleep(0)
        shards.schedule_unload(TP, 2)
        assert await error_of(write) is Errors.NOT_COORDINATOR
        assert log.listeners == []

    scenario(body)


def test_old_leader_epochs_neither_load_nor_unload() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards, 5)
        shards.schedule_unload(TP, 4)
        shards.schedule_load(TP, 3)
        assert shards.state(TP) is CoordinatorState.ACTIVE

    scenario(body)


def test_log_that_cannot_be_replayed_makes_the_coordinator_unavailable() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        bad = [CoordinatorRecord(b"a", b"bad")]
        with pytest.raises(KmirrorError, match="bad record"):
            await shards.write(TP, lambda shard, now: CoordinatorResult(bad, None))
        await loaded(shards, 2)
        assert await error_of(shards.read(TP, lambda shard, now: 0)) is Errors.COORDINATOR_NOT_AVAILABLE

    scenario(body)


def test_a_mistake_while_it_is_loaded_left_a_coordinator_loading_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        await shards.write(TP, lambda shard, now: shard.add("a"))
        with monkeypatch.context() as patch:
            patch.setattr(SetShard, "replay", lambda *arguments, **more: 1 // 0)
            await loaded(shards, 2)
        assert shards.state(TP) is CoordinatorState.FAILED
        assert await error_of(shards.read(TP, lambda shard, now: 0)) is Errors.COORDINATOR_NOT_AVAILABLE
        await loaded(shards, 3)
        assert shards.state(TP) is CoordinatorState.ACTIVE, "the next election is another chance"

    scenario(body)


def test_a_log_that_cannot_be_read_for_a_moment_is_loaded_when_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a free descriptor the read was refused, and the coordinator stayed failed until the
    next election.
    """
    monkeypatch.setattr(coordinator_runtime, "LOAD_AGAIN_AFTER_MS", 1)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        await shards.write(TP, lambda shard, now: shard.add("a"))
        read, refused = log.read, []

        def read_later(topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
            if len(refused) < 3:
                refused.append(offset)
                raise ApiException(Errors.KAFKA_STORAGE_ERROR)
            return read(topic_partition, offset, max_bytes)

        monkeypatch.setattr(log, "read", read_later)
        shards.schedule_load(TP, 2)
        while shards.state(TP) is not CoordinatorState.ACTIVE:
            await runtime.sleep_ms(1)
        assert len(refused) == 3
        assert await shards.read(TP, lambda shard, now: sorted(shard.keys)) == [b"a"]

    scenario(body)


def test_a_disk_that_stays_away_is_asked_less_and_less_and_is_no_mistake_of_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica in an offline log directory that is told to lead: an error each second for as long
    as the disk was away.
    """
    monkeypatch.setattr(coordinator_runtime, "LOAD_AGAIN_AFTER_MS", 1)
    monkeypatch.setattr(coordinator_runtime, "LONGEST_LOAD_PAUSE_MS", 5)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        await shards.write(TP, lambda shard, now: shard.add("a"))
        reported: list[str] = []
        monkeypatch.setattr(runtime, "report_failure", lambda message, error: reported.append(message))
        with monkeypatch.context() as patch:
            patch.setattr(log, "read", lambda *arguments: _raise(ApiException(Errors.KAFKA_STORAGE_ERROR, "offline")))
            shards.schedule_load(TP, 2)
            while len(caplog.messages) < 5:
                await runtime.sleep_ms(1)
        pauses = [int(message.split(" in ")[1].split()[0]) for message in caplog.messages]
        assert pauses[:5] == [1, 2, 4, 5, 5] and caplog.messages[0].endswith("offline")
        while shards.state(TP) is not CoordinatorState.ACTIVE:
            await runtime.sleep_ms(1)
        assert reported == []

    scenario(body)


@pytest.mark.parametrize(
    ("error", "is_reported"), [(Errors.KAFKA_STORAGE_ERROR, False), (Errors.NOT_COORDINATOR, False), (Errors.INVALID_RECORD, True)]
)
def test_a_write_of_its_own_that_another_leader_makes_good_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, error: Errors, is_reported: bool
) -> None:
    """Seed 211591: a full disk was told as a mistake of the program.

    Its log directory goes offline, and the next leader does the same.
    """

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        reported: list[str] = []
        asked = 0

        def refuse(*arguments: object, **named: object) -> int:
            nonlocal asked
            asked += 1
            raise ApiException(error)

        monkeypatch.setattr(runtime, "report_failure", lambda message, error: reported.append(message))
        monkeypatch.setattr(log, "append", refuse)
        shards.run(TP, "clean up", lambda shard: CoordinatorResult([CoordinatorRecord(b"gone", b"v")], None))
        while not asked:
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        assert bool(reported) is is_reported

    scenario(body)


def _raise(error: Exception) -> Buffer:
    raise error


def test_a_log_with_broken_bytes_is_not_read_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """CORRUPT_MESSAGE is retriable for clients; the whole log was read every second, and an error
    logged, until the next election.
    """
    monkeypatch.setattr(coordinator_runtime, "LOAD_AGAIN_AFTER_MS", 1)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        await shards.write(TP, lambda shard, now: shard.add("a"))
        reads: list[int] = []

        def read_broken(topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
            reads.append(offset)
            raise ApiException(Errors.CORRUPT_MESSAGE)

        monkeypatch.setattr(log, "read", read_broken)
        await loaded(shards, 2)
        for _ in range(10):
            await runtime.sleep_ms(1)
        assert (len(reads), shards.state(TP)) == (1, CoordinatorState.FAILED)

    scenario(body)


@pytest.mark.parametrize("readable", [0, 1])
def test_a_read_that_brings_nothing_below_the_end_is_not_the_end_of_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, readable: int
) -> None:
    """The coordinator served with the part of its state that had been read."""
    monkeypatch.setattr(coordinator_runtime, "LOAD_AGAIN_AFTER_MS", 1)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        for key in "abc":
            await shards.write(TP, lambda shard, now, key=key: shard.add(key))
        read = log.read

        def hollow(topic_partition: TopicPartition, offset: int, max_bytes: int) -> Buffer:
            return log.batches[offset] if offset < readable else b""

        monkeypatch.setattr(log, "read", hollow)
        await loaded(shards, 2)
        assert shards.state(TP) is CoordinatorState.FAILED
        assert await error_of(shards.read(TP, lambda shard, now: 0)) is Errors.COORDINATOR_NOT_AVAILABLE
        assert f"nothing could be read at offset {readable} of __internal-0, which ends at 3" in caplog.text
        monkeypatch.setattr(log, "read", read)
        while shards.state(TP) is not CoordinatorState.ACTIVE:
            await runtime.sleep_ms(1)
        assert await shards.read(TP, lambda shard, now: sorted(shard.keys)) == [b"a", b"b", b"c"]

    scenario(body)


def test_timers_run_as_writes_and_end_with_the_shard() -> None:
    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)

        def start(shard: SetShard, now: int) -> CoordinatorResult[SetShard]:
            shard.timer.schedule("soon", 0, lambda: CoordinatorResult([CoordinatorRecord(b"timer", b"v")], None))
            shard.timer.schedule("late", 60_000, lambda: CoordinatorResult([CoordinatorRecord(b"never", b"v")], None))
            return CoordinatorResult([], shard)

        shard = await shards.write(TP, start)
        while b"timer" not in shard.keys:
            await asyncio.sleep(0)
        assert shard.timer.is_scheduled("late")
        shards.schedule_unload(TP)
        assert not shard.timer.is_scheduled("late")
        assert shard.unloaded

    scenario(body)


@pytest.mark.parametrize("replaced", [True, False])
def test_a_member_was_fenced_though_its_heartbeat_came_before_the_timers_write(replaced: bool) -> None:
    """The timer is due, but its write has not run: a write before it replaces or cancels it still
    (seed 4976 of `brokers`).
    """

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        fence = lambda: CoordinatorResult([CoordinatorRecord(b"fenced", b"v")], None)  # noqa: E731

        def start(shard: SetShard, now: int) -> CoordinatorResult[SetShard]:
            shard.timer.schedule("session", 0, fence)
            return CoordinatorResult([], shard)

        def heartbeat(shard: SetShard, now: int) -> CoordinatorResult[None]:
            if replaced:
                shard.timer.schedule("session", 60_000, fence)
            else:
                shard.timer.cancel("session")
            return CoordinatorResult([], None)

        shard = await shards.write(TP, start)
        due = runtime.create_future()
        runtime.call_later_ms(0, lambda: due.set_result(None))
        asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(shards.write(TP, heartbeat)))
        await due
        for _ in range(20):
            await asyncio.sleep(0)
        assert b"fenced" not in shard.keys
        assert shard.timer.is_scheduled("session") == replaced

    scenario(body)


def test_a_timer_that_the_isr_is_too_small_for_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_timers, "RETRY_BACKOFF_MS", 1)

    async def body(shards: CoordinatorRuntime[SetShard], log: MemoryLog, runtime: Runtime) -> None:
        await loaded(shards)
        append, refusals = log.append, 2

        def refuse(*arguments: object, **named: object) -> int:
            nonlocal refusals
            if refusals:
                refusals -= 1
                raise ApiException(Errors.NOT_ENOUGH_REPLICAS)
            return append(*arguments, **named)

        monkeypatch.setattr(log, "append", refuse)

        def start(shard: SetShard, now: int) -> CoordinatorResult[SetShard]:
            shard.timer.schedule("expire", 0, lambda: CoordinatorResult([CoordinatorRecord(b"expired", b"v")], None))
            return CoordinatorResult([], shard)

        shard = await shards.write(TP, start)
        while b"expired" not in shard.keys:
            await asyncio.sleep(0)
        assert refusals == 0

    scenario(body)
