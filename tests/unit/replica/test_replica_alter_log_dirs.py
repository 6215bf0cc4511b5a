"""Moves between log directories: what may come in their way, one at a time (the orders of it are in
tests/property).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from support.brokers.move_machine import EPOCH, TOPIC_ID, MoveMachine
from support.logs.storage_doubles import ManualClock, SeededRandom

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.replica import log_dir_move
from kmirror.sim.disk import SimDisk
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.meta_properties import read_meta_properties
from kmirror.storage.partition_metadata_file import encode_partition_metadata

Scenario = Callable[[MoveMachine], Awaitable[None]]


def play(root: Path, scenario: Scenario, *, leader: int = 1) -> None:
    async def main() -> None:
        machine = MoveMachine(root, leader=leader)
        await scenario(machine)
        machine.stop()

    asyncio.run(main())


async def copied(machine: MoveMachine, batches: int = 6) -> None:
    """All is copied, and the controller is asked."""
    for _ in range(batches):
        machine.append()
    machine.begin_move()
    await machine.advance(2000)
    assert machine.assigned and machine.future is not None
    assert machine.future.log_end_offset == machine.log.log_end_offset


@pytest.mark.parametrize("leader", [1, 2])
@pytest.mark.parametrize("cut", [0, 2, 5])
def test_a_cut_after_the_copy_reaches_the_future_log_at_once(tmp_path: Path, leader: int, cut: int) -> None:
    async def scenario(machine: MoveMachine) -> None:
        await copied(machine)
        machine.cut(cut)
        assert machine.future is not None and machine.future.log_end_offset == cut
        while machine.log.log_end_offset < 6:
            machine.append()
        machine.accept()
        future = machine.future
        await machine.finish()
        assert machine.log is future
        machine.check()

    play(tmp_path, scenario, leader=leader)


def test_a_future_log_that_cannot_be_cut_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current log is cut all the same, stays, and the controller hears its directory again."""

    async def scenario(machine: MoveMachine) -> None:
        await copied(machine)
        machine.accept()
        current, future = machine.log, machine.future
        assert future is not None

        def broken(offset: int, **options: bool) -> bool:
            raise ApiException(Errors.CORRUPT_MESSAGE, "an index that makes no sense")

        monkeypatch.setattr(future, "truncate_to", broken)
        machine.cut(3)
        machine.append()
        machine.append()
        machine.append()
        assert machine.future is None
        await machine.advance(500)
        assert machine.log is current
        machine.check()
        ids = [read_meta_properties(machine.world.runtime.files, path) for path in machine.dirs]
        assert [directory for directory, _ in machine.assigned] == [
            properties.directory_id for path, properties in zip(machine.dirs, ids, strict=True) if properties and path == current.parent_dir
        ]

    play(tmp_path, scenario)


def test_what_a_power_loss_brought_back_of_a_future_log_is_compared_batch_for_batch(tmp_path: Path) -> None:
    """The ends are equal, and so is the last batch; a batch in the middle is not."""

    async def scenario(machine: MoveMachine) -> None:
        await copied(machine, 40)
        machine.remember_future()
        machine.cut(20)
        while machine.log.log_end_offset < 40:
            machine.append()
        machine.restart(old_future=True)
        assert machine.future is not None and machine.future.log_end_offset == 40
        machine.accept()
        await machine.finish()
        machine.check()

    play(tmp_path, scenario)


def test_what_retention_took_while_it_was_compared_was_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its first segment is gone from the current log; that was taken for a difference, and the
    whole copy thrown away.
    """

    async def scenario(machine: MoveMachine) -> None:
        for _ in range(20):
            machine.append()
        machine.log.roll()
        await copied(machine, 20)
        monkeypatch.setattr(log_dir_move, "HEADERS_COMPARED_A_TURN", 5)
        machine.restart()
        machine.log.update_high_watermark(40)
        machine.move_log_start(20)
        assert machine.log.delete_old_segments() == 1
        assert machine.future is not None and machine.future.log_end_offset == 40
        machine.accept()
        await machine.finish()
        assert "only up to offset" not in caplog.text
        machine.check()

    play(tmp_path, scenario)


def test_the_future_log_of_a_topic_that_was_made_anew_is_dropped(tmp_path: Path) -> None:
    async def scenario(machine: MoveMachine) -> None:
        await copied(machine)
        assert machine.future is not None
        directory = Path(machine.future.directory)
        machine.restart()
        machine.stop()
        (directory / "partition.metadata").write_bytes(encode_partition_metadata(Uuid(b"another-id-bytes")))
        machine._start()
        assert machine.future is None and not directory.exists()
        machine.check()

    play(tmp_path, scenario)


def test_a_replica_that_was_moved_while_empty_keeps_its_topic_id(tmp_path: Path) -> None:
    """Found at a restart without the id, moved, filled: the next start refused it, for nobody knew
    which topic it was.
    """

    async def scenario(machine: MoveMachine) -> None:
        machine.append()
        machine.begin_move()
        machine.restart()
        machine.accept()
        await machine.finish()
        machine.append()
        assert machine.log.topic_id == TOPIC_ID
        machine.restart()
        machine.check()

    play(tmp_path, scenario)


@pytest.mark.parametrize("start", [1, 4, 6])
def test_a_log_that_begins_in_the_middle_of_a_batch_can_be_moved(tmp_path: Path, start: int) -> None:
    async def scenario(machine: MoveMachine) -> None:
        for _ in range(3):
            machine.append(3)
        machine.move_log_start(start)
        machine.begin_move()
        await machine.finish()
        assert machine.log.log_start_offset == start
        machine.check()

    play(tmp_path, scenario)


@pytest.mark.parametrize("late", [0, 2])
@pytest.mark.parametrize("seed", range(6))
async def test_what_was_synced_before_a_move_is_there_after_a_power_loss_behind_it(seed: int, late: int) -> None:
    """The copy was renamed as it was in the page cache: of the only replica of a partition, records
    went that had been on the disk.
    """
    disk = SimDisk(ManualClock(), SeededRandom(seed), note=lambda text: None)
    machine = MoveMachine(Path("/data"), files=disk)
    await copied(machine, 30)
    for _ in range(late):
        machine.append()
    machine.log.flush()
    await machine.finish()
    machine.manager.kill()
    disk.detach(power_loss=True)
    disk.attach()
    machine._start()
    machine.check()
    machine.stop()


def test_a_leaders_epoch_without_a_batch_is_there_behind_the_move(tmp_path: Path) -> None:
    async def scenario(machine: MoveMachine) -> None:
        await copied(machine)
        machine.log.maybe_assign_epoch_start_offset(7, machine.log.log_end_offset)
        before = [machine.log.end_offset_for_epoch(epoch) for epoch in (1, 7)]
        await machine.finish()
        assert [machine.log.end_offset_for_epoch(epoch) for epoch in (1, 7)] == before

    play(tmp_path, scenario)


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_follower_takes_the_batch_in_the_middle_of_which_its_leaders_log_begins(tmp_path: Path, start: int) -> None:
    """The batch begins below the follower's empty log, so it was refused for ever."""

    async def scenario(machine: MoveMachine) -> None:
        machine.append(3)
        machine.append(2)
        whole = machine.log.read(0, 1 << 20, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
        machine.log.truncate_fully_and_start_at(start)
        machine.partition.append_records_to_follower(whole, leader_epoch=EPOCH)
        assert (machine.log.log_start_offset, machine.log.log_end_offset) == (start, 5)
        machine.check()

    play(tmp_path, scenario, leader=2)
