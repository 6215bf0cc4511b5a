"""Fingerprints: cuts and trees do not show, and two logs compared by chunks get the verdict that
reading both side by side gives.
"""

from __future__ import annotations

import random
import struct
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs.log_folders import batch, open_log, write_segments

from kmirror.record.columns import HEADER_DTYPE
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.verify import chunks
from kmirror.verify.chunk_diff import ComparedChunks, LogPrint, PartToCompare, compare_chunks
from kmirror.verify.chunks import Chunks, chunks_of, coalesced
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.fingerprint import PRIME, batch_hashes, concatenated
from kmirror.verify.log_diff import DiffSettings, diff_logs, diff_parts
from kmirror.verify.paired_slices import are_equal, outcome_of, paired_slices
from kmirror.verify.print_diff import diff_prints, print_log

SETTINGS = DiffSettings(max_differences=10_000)


def random_headers(chance: random.Random, count: int) -> Any:
    headers = np.zeros(count, dtype=HEADER_DTYPE.newbyteorder("="))
    sizes = [chance.choice((1, 1, 3, 500)) for _ in range(count)]
    gaps = [chance.choice((0, 0, 0, 1, 2_000)) for _ in range(count)]
    offsets = np.cumsum([chance.choice((0, 5_000)), *(size + gap for size, gap in zip(sizes, gaps))])[:-1]
    headers["base_offset"] = offsets
    headers["last_offset_delta"] = np.array(sizes) - 1
    headers["length"] = [chance.randrange(49, 3_000) for _ in range(count)]
    headers["crc"] = [chance.randrange(1 << 32) for _ in range(count)]
    headers["partition_leader_epoch"] = [chance.choice((-1, 0, 7, (1 << 31) - 1)) for _ in range(count)]
    headers["attributes"] = [chance.randrange(-(1 << 15), 1 << 15) for _ in range(count)]
    headers["magic"] = 2
    return headers


def of(headers: Any, first: int, behind: int) -> Chunks:
    return chunks_of(headers[first:behind], np.arange(first, behind), None, 0)


@given(st.randoms(use_true_random=False), st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_however_a_log_is_cut_its_chunks_are_the_same(chance: random.Random, count: int) -> None:
    headers = random_headers(chance, count)
    with patch.object(chunks, "CHUNK_BYTES", limit := chance.choice((3_000, 20_000))):
        whole = of(headers, 0, count)
        cuts = sorted({0, count, *(chance.randrange(count + 1) for _ in range(6))})
        parts = [of(headers, first, behind) for first, behind in zip(cuts, cuts[1:])]
        while len(parts) > 1:
            at = chance.randrange(len(parts) - 1)
            parts[at : at + 2] = [coalesced(np.concatenate(parts[at : at + 2]))]
    assert len(parts[0]) == len(whole) and (parts[0] == whole).all()
    assert whole["batch_count"].sum() == count
    assert ((whole["batch_count"] == 1) | (whole["size_bytes"] <= limit)).all()
    assert (whole["start"] >> whole["level"] << whole["level"] == whole["start"]).all()


@given(st.randoms(use_true_random=False), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_a_run_is_the_polynomial_of_its_batches(chance: random.Random, count: int) -> None:
    headers = random_headers(chance, count)
    hashes = batch_hashes(headers).tolist()
    (value, length) = (0, 0)
    for one in hashes:
        value, length = concatenated(value, length, one), length + 1
    middle = chance.randrange(count + 1)
    sides = []
    for part in (hashes[:middle], hashes[middle:]):
        total = 0
        for one in reversed(part):
            total = concatenated(one, 1, total)
        sides.append(total)
    assert concatenated(sides[0], middle, sides[1]) == value < PRIME
    rows = of(headers, 0, count)
    total, seen = 0, 0
    for row in rows:
        total, seen = concatenated(total, seen, int(row["value"])), seen + int(row["batch_count"])
    assert (total, seen) == (value, count)


@pytest.mark.parametrize("field", ["base_offset", "length", "partition_leader_epoch", "magic", "crc", "attributes"])
def test_every_field_of_a_header_that_counts_is_hashed(field: str) -> None:
    headers = random_headers(random.Random(3), 1)
    seen = set()
    for bit in range(headers.dtype[field].itemsize * 8 - 1):
        changed = headers.copy()
        changed[field] = changed[field] ^ changed.dtype[field].type(1 << bit)
        seen.add(int(batch_hashes(changed)[0]))
    assert len(seen | {int(batch_hashes(headers)[0])}) == headers.dtype[field].itemsize * 8


def marker(offset: int, kind: ControlRecordType) -> bytes:
    return bytes(build_end_transaction_marker(kind, coordinator_epoch=0, producer_id=3, producer_epoch=0, timestamp=5, base_offset=offset))


def random_parts(chance: random.Random) -> list[tuple[int, bytes]]:
    parts, offset = [], chance.choice((0, 0, 37))
    for _ in range(chance.randrange(1, 60)):
        count = chance.choice((1, 2, 7))
        if chance.random() < 0.1:
            parts.append((offset, marker(offset, chance.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT)))))
            count = 1
        else:
            parts.append((offset, batch(offset, count, epoch=offset // 60)))
        offset += count + chance.choice((0, 0, 0, 4))
    return parts


def damaged(chance: random.Random, parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """The parts with up to three things done to them."""
    parts = list(parts)
    for _ in range(chance.choice((0, 0, 1, 2, 3))):
        at = chance.randrange(len(parts)) if parts else 0
        offset, data = parts[at] if parts else (0, b"")
        match chance.randrange(9):
            case 0 if parts:  # a byte flipped, anywhere
                place = chance.randrange(len(data))
                parts[at] = (offset, data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
            case 1:  # the tail, or the head, is missing
                parts = parts[:at]
            case 2:
                parts = parts[at:]
            case 3 if parts:  # a hole
                del parts[at : at + chance.randrange(1, 6)]
            case 4 if parts:  # another epoch
                parts[at] = (offset, data[:12] + (77).to_bytes(4, "big") + data[16:])
            case 5 if len(parts) > 1:  # two batches swapped
                at = chance.randrange(len(parts) - 1)
                parts[at : at + 2] = [parts[at + 1], parts[at]]
            case 6 if parts:  # other records
                parts[at] = (offset, batch(offset, chance.choice((1, 2, 7)), text="other"))
            case 7 if parts:  # a batch more
                end = parts[-1][0] + 10
                parts.append((end, batch(end)))
            case 8 if parts:  # torn
                parts[at] = (offset, data[: chance.randrange(1, len(data) + 1)])
    return parts


def written(chance: random.Random, folder: Path, parts: list[tuple[int, bytes]]) -> DirectoryLog:
    """In segments of any size, each batch in the index, perhaps with a log start within a batch."""
    cuts = sorted({0, *(chance.randrange(len(parts) + 1) for _ in range(chance.randrange(4)))})
    segments: dict[int, list[bytes]] = {}
    for first, behind in zip(cuts, [*cuts[1:], len(parts)]):
        base = parts[first][0] if first < len(parts) else (parts[-1][0] + 20 if parts else 0)
        segments.setdefault(base, []).extend(data for _, data in parts[first:behind])
    write_segments(folder, *segments.items())
    for base, inside in segments.items():
        entries, position = b"", 0
        for data in inside:
            offset = int.from_bytes(data[:8], "big") if len(data) > 8 else -1
            if position and 0 <= offset - base < 1 << 31:
                entries += struct.pack(">ii", offset - base, position)
            position += len(data)
        (folder / f"{base:020d}.index").write_bytes(entries)
    start = chance.choice((None, None, parts[len(parts) // 3][0] + 1 if parts else None))
    return open_log(folder, log_start_offset=start, high_watermark=chance.choice((None, None, parts[-1][0] if parts else None)))


@pytest.mark.parametrize("is_deep", [False, True])
@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_chunks_give_the_verdict_that_bytes_give(is_deep: bool, chance: random.Random) -> None:
    limit = chance.choice((150, 600, 3_000, 8 << 20))
    with tempfile.TemporaryDirectory() as name, patch.object(chunks, "CHUNK_BYTES", limit):
        parts = random_parts(chance)
        left, right = (written(chance, Path(name) / side / "t-0", damaged(chance, parts)) for side in "ab")
        exact = diff_logs(left, right, SETTINGS)
        found = diff_prints(left, right, print_log(left, "a", is_deep=is_deep), print_log(right, "b", is_deep=is_deep), SETTINGS)
    names = ["status", "start_offset", "difference_counts", "differences", "error"]
    trailing = [facts.trailing_bytes for facts in (found.left, found.right) if facts is not None]
    if exact.error is None and not any(
        trailing
    ):  # bytes behind which nothing can be read are counted otherwise, or an index leads past them
        names += ["left", "right", "bytes_compared"]
    assert [getattr(found, one) for one in names] == [getattr(exact, one) for one in names]


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=120, deadline=None)
def test_pieces_of_two_logs_give_the_verdict_of_the_whole(chance: random.Random) -> None:
    """As Spark compares them, each in a task of its own."""
    with tempfile.TemporaryDirectory() as name:
        parts = random_parts(chance)
        left, right = (written(chance, Path(name) / side / "t-0", damaged_in_order(chance, parts)) for side in "ab")
        exact = diff_logs(left, right, SETTINGS)
        slices = paired_slices(left, right, chance.choice((200, 900)))
        if not slices:
            return
        equal = [are_equal(left, right, piece) for piece in slices]
        found = diff_parts(left, right, outcome_of(slices, equal), SETTINGS)
    assert found == (exact if exact.error is None else msgspec.structs.replace(exact, bytes_compared=found.bytes_compared))


@given(chance=st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_what_is_compared_up_to_an_offset_does_not_depend_on_the_way(chance: random.Random) -> None:
    """As a mirror is compared: whole, by chunks, and in pieces. What lies behind the end does not
    count, even where the logs are alike there or broken.
    """
    with tempfile.TemporaryDirectory() as name, patch.object(chunks, "CHUNK_BYTES", chance.choice((150, 600, 3_000, 8 << 20))):
        parts = random_parts(chance)
        left, right = (written(chance, Path(name) / side / "t-0", damaged_in_order(chance, parts)) for side in "ab")
        start = max(left.log_start_offset, right.log_start_offset)
        end = chance.choice([*(offset for offset, _ in parts), start, right.log_end_offset()])
        parts_to_read = [PartToCompare(None, None, None, None)] if end > start else []
        exact = diff_parts(left, right, ComparedChunks(parts_to_read, 0, end), SETTINGS)
        prints = [LogPrint(log.partition, print_log(log, side)) for log, side in ((left, "a"), (right, "b"))]
        found = diff_parts(left, right, compare_chunks(*prints, start, end), SETTINGS)
        slices = paired_slices(left, right, chance.choice((200, 900)), end) if end > start else []
        outcome = outcome_of(slices, [are_equal(left, right, piece) for piece in slices])._replace(end_offset=end)
        cut = diff_parts(left, right, outcome, SETTINGS) if slices else exact
    for one in (found, cut):  # where a log cannot be read, how much of the rest is known to be equal depends on the way
        assert one == (exact if exact.error is None else msgspec.structs.replace(exact, bytes_compared=one.bytes_compared))


def damaged_in_order(chance: random.Random, parts: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Damaged, but every batch lies behind the one before it: of others a log has no pieces, and
    one difference may reach over several.
    """
    while True:
        found = damaged(chance, parts)
        if any(len(data) < 61 for _, data in found):
            continue
        ranges = [(int.from_bytes(data[:8], "big"), int.from_bytes(data[23:27], "big")) for _, data in found]
        if all(first + delta < following for (first, delta), (following, _) in zip(ranges, ranges[1:])):
            return found
