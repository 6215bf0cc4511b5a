"""Prints of segments: what is not read again, what is, and what chunks alone do not see."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest
from support.logs.log_folders import batch, batches, open_log, write_log, write_segments

from kmirror.common.crc32c import crc32c
from kmirror.verify import chunks
from kmirror.verify.chunk_diff import ComparedChunks, LogPrint, PartToCompare, compare_chunks
from kmirror.verify.compared_log import DirectoryLog, Place
from kmirror.verify.log_diff import DiffSettings, diff_parts
from kmirror.verify.print_diff import diff_prints, print_log
from kmirror.verify.segment_print import SegmentPrint, plan_partition
from kmirror.verify.verdict import PartitionVerdict, Status

NOTHING_IGNORED = DiffSettings()


def verdict_of(left: DirectoryLog, right: DirectoryLog, *, is_deep: bool = False) -> PartitionVerdict:
    prints = [print_log(log, log.name, is_deep=is_deep) for log in (left, right)]
    return diff_prints(left, right, *prints, NOTHING_IGNORED)


def read_again(log: DirectoryLog, known: list[SegmentPrint]) -> tuple[list[SegmentPrint], int]:
    """(the prints, bytes of the log that were read for them)."""
    again = print_log(log, log.name, {one.base_offset: one for one in known})
    plan = plan_partition(log.files, log.partition, log.name, {one.base_offset: one for one in known}, is_deep=False)
    return again, sum(piece.size for piece in plan.slices)


def same(one: list[SegmentPrint], other: list[SegmentPrint]) -> bool:
    return [(a.base_offset, a.end_position, a.chunks.tolist()) for a in one] == [
        (b.base_offset, b.end_position, b.chunks.tolist()) for b in other
    ]


def test_a_segment_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    parts = batches(20)
    folder = write_segments(tmp_path / "t-0", (0, parts[:10]), (50, parts[10:]))
    known = print_log(open_log(folder), "here")
    again, size = read_again(open_log(folder), known)
    assert size == 0 and same(again, known)


def test_of_a_segment_that_has_grown_only_the_end_is_read(tmp_path: Path) -> None:
    parts = batches(20)
    folder = write_log(tmp_path / "t-0", *parts[:15], parts[15][:70])
    known = print_log(open_log(folder), "here")
    assert known[0].end_position == sum(map(len, parts[:15])) < known[0].size_bytes
    write_log(folder, *parts)
    again, size = read_again(open_log(folder), known)
    assert size == sum(map(len, parts[15:])) and same(again, print_log(open_log(folder), "here"))


def test_a_segment_that_was_cut_and_written_on_is_read_anew(tmp_path: Path) -> None:
    parts = batches(20)
    folder = write_log(tmp_path / "t-0", *parts[:15])
    known = print_log(open_log(folder), "here")
    write_log(folder, *parts[:14], batch(70, epoch=1), *parts[15:])
    again, size = read_again(open_log(folder), known)
    assert size == sum(map(len, parts)) and same(again, print_log(open_log(folder), "here"))


def test_a_segment_of_the_same_size_with_another_time_is_read_anew(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "t-0", *batches(5))
    known = print_log(open_log(folder), "here")
    changed = write_log(folder, *batches(4), batch(20, text="VALUE"))
    os.utime(changed / f"{0:020d}.log", ns=(1, 1))
    again, size = read_again(open_log(folder), known)
    assert size > 0 and not same(again, known)
    assert print_log(open_log(folder), "here", {one.base_offset: one for one in again}, is_deep=True)[0].bytes_read == size, (
        "deep is another hash"
    )


def test_chunks_are_cut_alike_whatever_the_segments_are(tmp_path: Path) -> None:
    parts = batches(200)
    with patch.object(chunks, "CHUNK_BYTES", 1_000):
        left = open_log(write_segments(tmp_path / "a" / "t-0", (0, parts[:30]), (150, parts[30:31]), (155, parts[31:])))
        right = open_log(write_segments(tmp_path / "b" / "t-0", (0, parts[:111]), (555, parts[111:])))
        verdict = verdict_of(left, right)
    assert (verdict.status, verdict.bytes_compared) == (Status.EQUAL, sum(map(len, parts)))
    assert verdict.left is not None and (verdict.left.log_end_offset, verdict.left.segment_count) == (1000, 3)


def test_only_what_differs_is_read_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = batches(400)
    left = open_log(write_log(tmp_path / "a" / "t-0", *parts))
    right = open_log(write_log(tmp_path / "b" / "t-0", *parts[:250], batch(1250, text="other"), *parts[251:]))
    with patch.object(chunks, "CHUNK_BYTES", 2_000):
        prints = [print_log(log, log.name) for log in (left, right)]
        read = 0
        for log in (left, right):
            original = log.cursor_at

            def counted(place: Place, end: Place | None, original=original):  # type: ignore[no-untyped-def]
                nonlocal read
                assert end is not None and place[0] == end[0]
                read += end[1] - place[1]
                return original(place, end)

            monkeypatch.setattr(log, "cursor_at", counted)
            monkeypatch.setattr(log, "cursor", None)
        verdict = diff_prints(left, right, *prints, NOTHING_IGNORED)
    assert [(one.kind.value, one.first_offset) for one in verdict.differences] == [("bytes-differ", 1250)]
    assert 0 < read <= 2 * 2_000 and verdict.bytes_compared == sum(map(len, parts)) - len(parts[250])


def test_two_bodies_with_one_crc_are_seen_when_bodies_are_hashed(tmp_path: Path) -> None:
    """A multiple of the CRC's polynomial does not change it."""
    one = batch(0)
    at = one.index(b"value-2")
    pattern = (1 | 0x82F63B78 << 1).to_bytes(5, "little")
    other = one[:at] + bytes(byte ^ flip for byte, flip in zip(one[at:], pattern)) + one[at + 5 :]
    assert one != other and crc32c(one[21:]) == crc32c(other[21:])
    logs = [open_log(write_log(tmp_path / side / "t-0", data, *batches(3, first=5))) for side, data in (("a", one), ("b", other))]
    assert verdict_of(*logs).status is Status.EQUAL, "what the docstring says is not seen"
    assert verdict_of(*logs, is_deep=True).difference_counts == {"bytes-differ": 1}


def test_a_damaged_body_is_not_equal_to_itself_without_being_looked_at(tmp_path: Path) -> None:
    """Its CRC does not hold, so its header says nothing of it."""
    parts = batches(10)
    broken = [bytes([*parts[4][:-3], parts[4][-3] ^ bit, *parts[4][-2:]]) for bit in (1, 2)]
    logs = [open_log(write_log(tmp_path / str(bit) / "t-0", *parts[:4], data, *parts[5:])) for bit, data in enumerate(broken)]
    assert verdict_of(*logs).difference_counts == {"bytes-differ": 1}
    assert verdict_of(logs[0], logs[0]).status is Status.EQUAL


@pytest.mark.parametrize("count", [6, 2], ids=["the source goes on", "the source ends there"])
def test_what_is_broken_below_the_end_of_a_mirror_is_not_overlooked(tmp_path: Path, count: int) -> None:
    """What is broken behind it does not count."""
    parts = batches(6)
    left = open_log(write_segments(tmp_path / "a" / "t-0", (0, parts[:count])))
    right = open_log(write_segments(tmp_path / "b" / "t-0", (0, [*parts[:2], parts[2][:66]]), (15, parts[3:])))
    prints = [LogPrint(log.partition, print_log(log, "")) for log in (left, right)]
    assert not prints[1].is_sound
    for end, error in ((5, False), (20, True), (30, True)):
        found = compare_chunks(prints[0], prints[1], 0, end)
        verdict = diff_parts(left, right, found)
        exact = diff_parts(left, right, ComparedChunks([PartToCompare(None, None, None, None)], 0, end))
        assert (verdict.error, verdict.differences) == (exact.error, exact.differences) and (exact.error is not None) is error, end
