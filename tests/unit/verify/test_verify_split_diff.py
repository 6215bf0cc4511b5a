"""What differs, told apart in pieces on many machines: the verdict is that of the whole, and a
partition that differs everywhere has many pieces.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from support.logs.log_folders import batch, batches, open_log, write_segments

from kmirror.verify.chunk_diff import ComparedChunks
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.log_diff import DiffSettings, diff_logs, diff_parts, diff_piece, joined
from kmirror.verify.paired_slices import WHOLE, cut_part, part_bytes
from kmirror.verify.verdict import PartitionVerdict

PIECE_BYTES = 3_000


def indexed(folder: Path, *segments: tuple[int, list[bytes]]) -> DirectoryLog:
    """A log with an offset index that knows every batch but the first."""
    write_segments(folder, *segments)
    for base_offset, parts in segments:
        position, entries = 0, b""
        for data in parts:
            if position:
                entries += struct.pack(">ii", int.from_bytes(data[:8], "big") - base_offset, position)
            position += len(data)
        (folder / f"{base_offset:020d}.index").write_bytes(entries)
    return open_log(folder)


def in_pieces(left: DirectoryLog, right: DirectoryLog, settings: DiffSettings) -> tuple[int, PartitionVerdict]:
    parts = cut_part(left, right, WHOLE, PIECE_BYTES)
    assert sum(part_bytes(left, right, part) for part in parts) == left.size_bytes + right.size_bytes
    pieces = [ComparedChunks([part], 0) for part in parts]
    found = [diff_piece(left, right, piece, settings, is_last=piece is pieces[-1]) for piece in pieces]
    if None in found:
        return len(parts), diff_parts(left, right, ComparedChunks([WHOLE], 0), settings)
    return len(parts), joined([one for one in found if one is not None], settings.max_differences)


def test_a_log_that_differs_everywhere_has_many_pieces(tmp_path: Path) -> None:
    parts = batches(200)
    left = indexed(tmp_path / "a" / "t-0", (0, parts[:90]), (450, parts[90:]))
    right = indexed(tmp_path / "b" / "t-0", (0, [batch(5 * number, text="other") for number in range(200)]))
    count, verdict = in_pieces(left, right, DiffSettings())
    assert count >= 8 and verdict.difference_counts == {"bytes-differ": 200}
    assert verdict == diff_logs(left, right)


def damaged(parts: list[bytes], rng: random.Random) -> list[bytes]:
    found = list(parts)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(found) - 1)
        match rng.choice(("lost", "other", "epoch", "lost-run", "tail", "bits", "cut")):
            case "lost":
                del found[at]
            case "lost-run":
                del found[at : at + rng.randrange(2, 60)]
            case "other":
                found[at] = batch(int.from_bytes(found[at][:8], "big"), text="other")
            case "epoch":
                found[at] = found[at][:12] + b"\0\0\0\7" + found[at][16:]
            case "tail":
                del found[len(found) - rng.randrange(1, 40) :]
            case "bits":
                found[at] = found[at][:-1] + bytes([found[at][-1] ^ 1])
            case "cut":
                found[-1] = found[-1][: rng.randrange(1, len(found[-1]))]
        if len(found) < 3:
            return found
    return found


@pytest.mark.parametrize("seed", range(40))
def test_the_verdict_of_the_pieces_is_that_of_the_whole(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    parts = batches(120)
    cut = rng.randrange(1, 119)
    left = indexed(tmp_path / "a" / "t-0", (0, parts[:cut]), (5 * cut, parts[cut:]))
    right = indexed(tmp_path / "b" / "t-0", (0, damaged(parts, rng)))
    settings = DiffSettings(max_differences=rng.choice((2, 1000)), allow_lag=rng.random() < 0.5)
    for one, other in ((left, right), (right, left)):
        assert in_pieces(one, other, settings)[1] == diff_logs(one, other, settings)


def test_what_cannot_be_read_ends_the_verdict_where_it_ends_reading(tmp_path: Path) -> None:
    parts = batches(120)
    other = [batch(5 * number, text="other") for number in range(120)]
    other[60] = other[60][:8] + b"\0\0\0\3" + other[60][12:]
    left, right = indexed(tmp_path / "a" / "t-0", (0, parts)), indexed(tmp_path / "b" / "t-0", (0, other))
    count, verdict = in_pieces(left, right, DiffSettings())
    assert count > 4 and verdict.error is not None and verdict.difference_counts == {"bytes-differ": 59}
    assert verdict == diff_logs(left, right)


def test_where_keys_must_tell_all_of_the_logs_is_asked(tmp_path: Path) -> None:
    parts = batches(120)
    left = indexed(tmp_path / "a" / "t-0", (0, parts))
    right = indexed(tmp_path / "b" / "t-0", (0, [*parts[:50], *parts[53:]]))
    pieces = cut_part(left, right, WHOLE, PIECE_BYTES)
    found = [diff_piece(left, right, ComparedChunks([part], 0)) for part in pieces]
    assert found.count(None) == 1, "the piece that lacks batches"
    tail = indexed(tmp_path / "c" / "t-0", (0, parts[:60]))
    assert None not in [diff_piece(left, tail, ComparedChunks([part], 0)) for part in cut_part(left, tail, WHOLE, PIECE_BYTES)]


def test_small_and_unindexed_parts_are_not_cut(tmp_path: Path) -> None:
    left, right = (open_log(write_segments(tmp_path / side / "t-0", (0, batches(120)))) for side in "ab")
    assert cut_part(left, right, WHOLE, PIECE_BYTES) == [WHOLE]
    assert cut_part(left, right, WHOLE, 1 << 20) == [WHOLE]
