"""What read_committed leaves out, from a broker's files and from segments alone, and offsets by
time: against the log read record by record.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.logs.log_folders import batch, write_log
from support.logs.replay_stories import Story

from kmirror.common.errors import CorruptFileError
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.spark.files import LocalFiles
from kmirror.verify.offset_lookup import log_end_offset, offset_for_time
from kmirror.verify.planner import MAX_OFFSET, Listing, list_input
from kmirror.verify.visibility import Undecided, read_undecided

SEEDS = range(25)
OTHERS = ("roll", "roll", "restart", "epoch", "reset", "truncate")


@pytest.fixture(scope="module", params=SEEDS)
def story(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Story:
    told = Story(tmp_path_factory.mktemp("story"), request.param, others=OTHERS)
    told.tell(80)
    told.end()
    return told


def listed(folder: Path) -> Listing:
    return list_input(LocalFiles(), str(folder))


def log_batches(folder: Path) -> Iterator[RecordBatch]:
    for path in sorted(folder.glob("*.log")):
        yield from iter_batches(path.read_bytes())


def followed(folder: Path) -> tuple[set[int], int]:
    """(base offsets of the batches that were aborted, the last stable offset), batch by batch."""
    open_batches: dict[int, list[int]] = {}
    aborted: set[int] = set()
    for one in log_batches(folder):
        if not one.is_control:
            if one.is_transactional:
                open_batches.setdefault(one.producer_id, []).append(one.base_offset)
            continue
        kind = ControlRecordType.parse(next(iter(one.records())).key)
        if kind is ControlRecordType.MIRROR_PID_RESET:
            open_batches.clear()
        ended = open_batches.pop(one.producer_id, [])
        if kind is ControlRecordType.ABORT:
            aborted.update(ended)
    return aborted, min((offsets[0] for offsets in open_batches.values()), default=MAX_OFFSET)


def left_out(undecided: Undecided, folder: Path) -> set[int]:
    return {
        one.base_offset
        for one in log_batches(folder)
        if one.is_transactional and not one.is_control
        for each in undecided.aborted
        if each.producer_id == one.producer_id and each.first_offset <= one.base_offset <= each.last_offset
    }


def test_aborted_and_undecided_transactions(story: Story, tmp_path: Path) -> None:
    folder = story.folder / "t-0"
    listing = listed(folder)
    undecided = read_undecided(LocalFiles(), listing, listing.partitions[0])
    assert (left_out(undecided, folder), undecided.last_stable_offset) == followed(folder)
    copy = tmp_path / "t-0"
    copy.mkdir()
    for path in folder.glob("*.log"):
        shutil.copy(path, copy)
    bare = listed(copy)
    assert read_undecided(LocalFiles(), bare, bare.partitions[0]) == undecided


def test_a_broker_says_the_same(story: Story) -> None:
    told = Story(story.folder, 1)
    stable = told.log.last_stable_offset
    end = told.log.log_end_offset
    listing = listed(story.folder)
    undecided = read_undecided(LocalFiles(), listing, listing.partitions[0])
    told.end()
    assert min(undecided.last_stable_offset, end) == stable


def test_a_write_without_a_transaction_ends_one_that_the_broker_had_lost(tmp_path: Path) -> None:
    """As storage does: DeleteRecords and a crash had made the broker forget the transaction at 0."""
    producer = {"producer_id": 7, "producer_epoch": 0}
    begun = build_batch([Record(0, 1, None, b"begun")], base_offset=0, is_transactional=True, base_sequence=0, **producer)
    alone = build_batch([Record(1, 1, None, b"alone")], base_offset=1, base_sequence=1, **producer)
    other = build_batch(
        [Record(2, 1, None, b"other")], base_offset=2, is_transactional=True, base_sequence=0, producer_id=9, producer_epoch=0
    )
    anew = build_batch([Record(3, 1, None, b"anew")], base_offset=3, is_transactional=True, base_sequence=2, **producer)
    for number, (parts, last_stable) in enumerate(
        (([begun, alone], MAX_OFFSET), ([begun, alone, other, anew], 2), ([begun, alone, anew], 3))
    ):
        write_log(tmp_path / f"t-{number}", *map(bytes, parts))
        listing = listed(tmp_path / f"t-{number}")
        assert read_undecided(LocalFiles(), listing, listing.partitions[0]) == Undecided([], last_stable)


def test_a_damaged_snapshot_is_passed_over(tmp_path: Path) -> None:
    told = Story(tmp_path, 3, others=("roll",))
    told.tell(60)
    told.end()
    listing = listed(tmp_path)
    expected = read_undecided(LocalFiles(), listing, listing.partitions[0])
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.write_bytes(b"\0\x63garbage")
    assert read_undecided(LocalFiles(), listing, listing.partitions[0]) == expected


def records(folder: Path) -> list[Record]:
    return [record for one in log_batches(folder) for record in one.records()]


@pytest.mark.parametrize("has_indexes", [True, False])
def test_offsets_by_time(story: Story, tmp_path: Path, has_indexes: bool) -> None:
    folder = tmp_path / "t-0"
    shutil.copytree(story.folder / "t-0", folder)
    if not has_indexes:
        for path in [*folder.glob("*.timeindex"), *folder.glob("*.index")]:
            path.unlink()
    listing = listed(folder)
    everything = records(folder)
    times = sorted({record.timestamp for record in everything})
    for time in [0, *times[:: max(1, len(times) // 25)], times[-1], times[-1] + 1]:
        expected = next((record.offset for record in everything if record.timestamp >= time), None)
        assert offset_for_time(LocalFiles(), listing, listing.partitions[0], time, log_start=0) == expected, time
    assert log_end_offset(LocalFiles(), listing.partitions[0]) == everything[-1].offset + 1


def test_a_damaged_batch_answers_no_question_of_time(tmp_path: Path) -> None:
    data = bytearray(batch(0))
    data[-3] ^= 1
    listing = listed(write_log(tmp_path / "t-0", bytes(data)))
    with pytest.raises(CorruptFileError, match="at byte 0: the CRC of the batch at offset 0 is wrong"):
        offset_for_time(LocalFiles(), listing, listing.partitions[0], 5, log_start=0)
