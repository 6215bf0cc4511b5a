"""What has arrived at the target is noted in parts that are neither too small nor kept back
(`kmirror.mirrormaker.batches_on_way`).
"""

from __future__ import annotations

import asyncio
import random

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_copying import RUN_BYTES
from kmirror.mirrormaker.batch_offset_syncs import MOST_SYNCS_TOGETHER
from kmirror.mirrormaker.batches_on_way import MOST_RUNS, NOTED_SHARE, BatchesOnWay
from kmirror.mirrormaker.sent_runs import SentBatch, SentRun, Written

LAG = 100
MOST_BYTES = RUN_BYTES * (MOST_RUNS + 2)


class Task:
    """A task with one partition, whose target answers when the test says so."""

    def __init__(self, *, lag: int = LAG, buffer_memory: int = 2 * MOST_BYTES) -> None:
        self.notes: list[list[tuple[int, int]]] = []
        """Of each note: first offsets at the source and at the target."""
        self.failures: list[tuple[TopicPartition, Exception]] = []
        self.on_way = BatchesOnWay(
            asyncio.get_running_loop().create_future,
            self._written,
            self._failed,
            offset_lag_max=lag,
            partitions=1,
            buffer_memory=buffer_memory,
        )
        self.open: list[tuple[SentRun, int]] = []
        self.offset = 0

    def _written(self, run: SentRun, written: list[Written]) -> None:
        self.notes.append([(batch.upstream[0], offset) for batch, offset in written])

    def _failed(self, remote: TopicPartition, error: Exception) -> None:
        self.failures.append((remote, error))

    def send(self, batches: int, *, size: int, records: int = 10) -> SentRun:
        made = []
        for _ in range(batches):
            made.append(SentBatch(range(self.offset, self.offset + records), 0, size, None))
            self.offset += records
        run = SentRun(TopicPartition("t", 0), TopicPartition("a.t", 0), made)
        self.on_way.sent(run)
        self.open += [(run, number) for number in range(batches)]
        return run

    def answer(self, count: int, *, error: Exception | None = None) -> None:
        for _ in range(count):
            run, number = self.open.pop(0)
            self.on_way.done(run, number, -1 if error else 1_000_000 + run.batches[number].upstream[0], error)

    @property
    def noted(self) -> list[int]:
        return [first for note in self.notes for first, _ in note]


async def test_a_batch_alone_is_noted_at_once() -> None:
    task = Task()
    for number in range(3):
        task.send(1, size=20_000)
        task.answer(1)
        assert len(task.notes) == number + 1
    assert task.notes == [[(0, 1_000_000)], [(10, 1_000_010)], [(20, 1_000_020)]]


async def test_a_fourth_of_what_may_be_on_its_way_is_noted_together() -> None:
    task = Task()
    size = 20_000
    together = -(-MOST_BYTES // NOTED_SHARE // size)
    task.send(3 * together, size=size)
    task.answer(together - 1)
    assert task.notes == []
    task.answer(1)
    assert [len(note) for note in task.notes] == [together]


async def test_the_last_ones_do_not_wait_for_more() -> None:
    task = Task()
    task.send(60, size=20_000)
    task.answer(60)
    assert task.noted == [10 * number for number in range(60)]
    assert len(task.notes) < 60


async def test_no_more_records_are_noted_together_than_syncs_may_leave_together() -> None:
    task = Task()
    task.send(200, size=20_000, records=1_000)
    task.answer(7)
    assert len(task.notes) == 1
    assert sum(1_000 for _ in task.notes[0]) >= LAG * MOST_SYNCS_TOGETHER > 6 * 1_000


async def test_without_a_lag_every_batch_is_noted() -> None:
    task = Task(lag=0)
    task.send(200, size=20_000)
    task.answer(5)
    assert [len(note) for note in task.notes] == [1] * 5


async def test_a_task_that_waits_for_the_target_notes_first_what_has_arrived() -> None:
    task = Task()
    task.send(201, size=21_000)
    assert task.on_way.is_full
    task.answer(1)
    assert task.notes == []
    waiting = asyncio.ensure_future(task.on_way.until_drained())
    await asyncio.sleep(0)
    assert task.noted == [0]
    task.answer(99)
    await asyncio.sleep(0)
    assert not waiting.done()
    task.answer(2)
    await waiting


async def test_a_refused_batch_is_told_and_not_noted() -> None:
    task = Task()
    error = ApiException(Errors.MESSAGE_TOO_LARGE)
    task.send(2, size=20_000)
    task.answer(1, error=error)
    task.answer(1)
    assert task.failures == [(TopicPartition("a.t", 0), error)]
    assert task.noted == [10]


async def test_a_run_that_the_producer_did_not_take_is_not_on_its_way() -> None:
    task = Task()
    run = task.send(200, size=22_000)
    assert task.on_way.is_full
    task.on_way.not_sent(run)
    assert not task.on_way.is_full


@pytest.mark.parametrize("seed", range(40))
async def test_all_that_has_arrived_is_noted_once_and_in_order(seed: int) -> None:
    """Whatever the sizes and however the answers come: nothing is kept back once little is on its
    way, and no note is due more syncs than may leave together, one batch's aside.
    """
    choices = random.Random(seed)
    task = Task(lag=choices.choice((0, 1, 10, 100)), buffer_memory=choices.choice((1 << 16, 1 << 20, 1 << 25)))
    arrived: list[int] = []
    for _ in range(60):
        if choices.random() < 0.4:
            task.send(choices.randint(1, 60), size=choices.choice((70, 3_000, 20_000, 500_000)), records=choices.choice((1, 10, 900)))
        elif task.open:
            count = min(len(task.open), choices.randint(1, 30))
            arrived += [run.batches[number].upstream[0] for run, number in task.open[:count]]
            task.answer(count)
        assert task.noted == arrived[: len(task.noted)]
    arrived += [run.batches[number].upstream[0] for run, number in task.open]
    task.answer(len(task.open))
    assert task.noted == arrived
