"""What keys say of a gap in a log: bounded memory gives the answers that dictionaries of all keys
gave, and no answer is said, never guessed.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from support.logs.log_folders import TIME, open_log, write_log

from kmirror.record.builder import build_batch
from kmirror.record.columns import PADDING
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.verify import spilled_rows, superseded_offsets
from kmirror.verify.chunk_diff import ComparedChunks, PartToCompare
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.key_evidence import KeyEvidence
from kmirror.verify.key_hash import hash_slices
from kmirror.verify.log_diff import DiffSettings, diff_logs, diff_parts
from kmirror.verify.spilled_rows import NoRoomError, SpilledRows

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT


def records_of(log: DirectoryLog) -> list[tuple[RecordBatch, Record]]:
    data = b"".join(Path(segment.path()).read_bytes() for segment in log.partition.segments)
    return [(batch, record) for batch in iter_batches(data) for record in batch.records()]


class Reference:
    """The rule in dictionaries, of one log."""

    def __init__(self, log: DirectoryLog) -> None:
        found = records_of(log)
        self.markers = [(b.producer_id, r.offset, ControlRecordType.parse(r.key)) for b, r in found if b.is_control]
        self.last: dict[bytes, int] = {}
        self.first_repeat = 1 << 62
        seen: set[bytes] = set()
        for batch, record in found:
            if batch.is_control or record.key is None:
                continue
            key = bytes(record.key)
            if key in seen:
                self.first_repeat = min(self.first_repeat, record.offset)
            seen.add(key)
            if not batch.is_transactional or self.fate(batch.producer_id, record.offset) is COMMIT:
                self.last[key] = record.offset

    def fate(self, producer_id: int, offset: int) -> ControlRecordType | None:
        return next((kind for producer, at, kind in self.markers if producer == producer_id and at > offset), None)


def may_lack(ours: Reference, theirs: Reference, batch: RecordBatch, record: Record) -> bool:
    if record.key is None or record.offset >= ours.first_repeat:
        return False
    if record.value is None or (batch.is_transactional and theirs.fate(batch.producer_id, record.offset) is ABORT):
        return True
    return any(one.last.get(bytes(record.key), -1) > record.offset for one in (ours, theirs))


def random_log(chance: random.Random, count: int) -> list[bytes]:
    parts: list[bytes] = []
    offset = 0
    for _ in range(count):
        if chance.random() < 0.2:
            kind = chance.choice((COMMIT, ABORT))
            parts.append(
                bytes(
                    build_end_transaction_marker(
                        kind, coordinator_epoch=0, producer_id=chance.randrange(3), producer_epoch=0, timestamp=TIME, base_offset=offset
                    )
                )
            )
            offset += 1
            continue
        size = chance.randrange(1, 4)
        keys = [
            chance.choice((None, b"", b"k%d" % chance.randrange(200), b"a long key, in %d" % chance.randrange(200))) for _ in range(size)
        ]
        rows = [Record(offset + row, TIME, key, chance.choice((None, b"v", b"v")), []) for row, key in enumerate(keys)]
        producer = chance.choice((-1, -1, 0, 1, 2))
        extra = {"producer_id": producer, "producer_epoch": 0, "base_sequence": offset, "is_transactional": True} if producer >= 0 else {}
        parts.append(bytes(build_batch(rows, base_offset=offset, **extra)))
        offset += size
    return parts


@pytest.mark.parametrize("seed", range(8))
def test_the_answers_are_those_of_dictionaries(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where rows go to disk after every few, and a range is a handful of records."""
    chance = random.Random(seed)
    if seed % 2:
        monkeypatch.setattr(superseded_offsets, "RANGE_RECORDS", 7)
        monkeypatch.setattr(spilled_rows.SpilledRows.__init__, "__kwdefaults__", {"max_rows": 5})
    parts = random_log(chance, 120)
    logs = [
        open_log(write_log(tmp_path / side / "t-0", *(part for part in parts if chance.random() < kept)))
        for side, kept in (("a", 0.9), ("b", 0.6))
    ]
    evidence = KeyEvidence(*logs, tempfile.TemporaryFile)
    left, right = map(Reference, logs)
    asked = 0
    for holder, lacking, ours, theirs in ((0, 1, right, left), (1, 0, left, right)):
        there = {record.offset for _, record in records_of(logs[lacking])}
        for batch, record in records_of(logs[holder]):
            if batch.is_control or record.offset in there:
                continue
            asked += 1
            transaction = batch.producer_id if batch.is_transactional else None
            answer = evidence.may_lack(
                logs[lacking],
                record.offset,
                None if record.key is None else bytes(record.key),
                is_tombstone=record.value is None,
                transaction=transaction,
            )
            assert answer == may_lack(ours, theirs, batch, record), (holder, record)
    assert asked > 20 and evidence.undecided is None
    evidence.close()


def keyed(first: int, count: int) -> bytes:
    return bytes(
        build_batch([Record(offset, TIME, b"k%d" % offset, b"v", []) for offset in range(first, first + count)], base_offset=first)
    )


def test_more_keys_than_memory_takes_are_not_called_missing_without_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above five million keys a record that a cleaner had removed was silently MISSING."""
    monkeypatch.setattr(spilled_rows.SpilledRows.__init__, "__kwdefaults__", {"max_rows": 5})
    last = bytes(build_batch([Record(20, TIME, b"k5", b"new", []), Record(21, TIME, b"k9", b"new", [])], base_offset=20))
    parts = [keyed(0, 5), keyed(5, 1), keyed(6, 2), keyed(8, 2), keyed(10, 10), last]
    logs = [
        open_log(write_log(tmp_path / side / "t-0", *rows), is_compacted=True)
        for side, rows in (("a", parts), ("b", [parts[0], parts[2], *parts[4:]]))
    ]
    verdict = diff_logs(*logs)
    assert verdict.difference_counts == {"not-decided": 2}
    text = "it is not known whether a cleaner removed them: there is no scratch file for more than 5 keys; 1 batch only in A"
    assert verdict.differences[0].detail == text
    verdict = diff_logs(*logs, DiffSettings(scratch=tempfile.TemporaryFile))
    assert verdict.difference_counts == {"compacted": 1, "missing": 1}, "nothing replaced key 8"


def full_disk() -> IO[bytes]:
    return open("/dev/full", "wb+", buffering=0)


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_rows.SpilledRows.__init__, "__kwdefaults__", {"max_rows": 5})
    parts = [keyed(0, 5), keyed(5, 5), keyed(10, 10)]
    logs = [open_log(write_log(tmp_path / side / "t-0", *rows)) for side, rows in (("a", parts), ("b", [parts[0], parts[2]]))]
    verdict = diff_logs(*logs, DiffSettings(scratch=full_disk))
    assert verdict.difference_counts == {"not-decided": 1}
    assert "the keys do not fit into the scratch file: No space left on device" in verdict.differences[0].detail


def test_rows_come_back_by_bucket(tmp_path: Path) -> None:
    chance = random.Random(1)
    rows = SpilledRows(2, 16, tempfile.TemporaryFile, max_rows=50)
    told: dict[int, list[list[int]]] = {}
    for step in range(40):
        buckets = [chance.randrange(16) for _ in range(chance.randrange(1, 12))]
        made = [[step, index] for index in range(len(buckets))]
        for bucket, row in zip(buckets, made):
            told.setdefault(bucket, []).append(row)
        rows.add(np.array(buckets), np.array(made))
    rows.settle()
    assert {bucket: rows.bucket(bucket).tolist() for bucket in range(16)} == {bucket: told.get(bucket, []) for bucket in range(16)}
    rows.close()
    with pytest.raises(NoRoomError):
        SpilledRows(1, 2, None, max_rows=3).add(np.zeros(3, dtype=np.int64), np.zeros((3, 1), dtype=np.int64))


def test_hashes_tell_keys_apart_by_every_byte_and_length() -> None:
    keys = {b"", b"\0", b"\0\0", bytes(8), bytes(9), bytes(16), bytes(17), *(b"customer-%012d" % number for number in range(20_000))}
    keys |= {bytes([*b"abcdefgh01234567", byte]) for byte in range(256)} | {bytes([byte, *b"abcdefgh01234567"]) for byte in range(256)}
    ordered = sorted(keys)
    found = []
    for gap in (0, 3):
        lengths = np.array([len(key) for key in ordered])
        positions = np.cumsum([gap, *(len(key) + gap for key in ordered[:-1])])
        first, second = hash_slices(b"x" * gap + (b"x" * gap).join(ordered) + PADDING, positions, lengths)
        assert len(set(first.tolist())) == len(set(second.tolist())) == len(ordered)
        found.append((first.tolist(), second.tolist()))
    assert found[0] == found[1], "what lies around a key does not matter"
    assert np.bincount((first >> np.uint64(56)).astype(np.int64), minlength=256).min() > 40, "buckets are filled alike"


def one(offset: int, key: bytes, value: bytes | None = b"v", **fields: int) -> bytes:
    return bytes(build_batch([Record(offset, TIME, key, value, [])], base_offset=offset, **fields))


def lost_keys(tmp_path: Path, left: list[bytes], right: list[bytes], *, cleaned: int, end: int | None = None) -> dict[str, int]:
    """The counts of kinds; `end`: where what the right log mirrors ends."""
    logs = [open_log(write_log(tmp_path / side / "t-0", *parts), cleaned_offset=cleaned) for side, parts in (("a", left), ("b", right))]
    if end is None:
        return diff_logs(*logs).difference_counts
    return diff_parts(*logs, ComparedChunks([PartToCompare(None, None, None, None)], 0, end)).difference_counts


def test_a_key_that_only_the_left_log_still_has_is_lost_where_the_cleaner_was(tmp_path: Path) -> None:
    """Below a cleaner's checkpoint every missing record passed for compacted."""
    a, b, again, end = one(0, b"a"), one(1, b"b"), one(2, b"b"), one(3, b"c")
    assert lost_keys(tmp_path / "1", [a, b, again, end], [a, again, end], cleaned=3) == {"compacted": 1}
    assert lost_keys(tmp_path / "2", [a, b, again, end], [b, again, end], cleaned=3) == {"key-lost": 1}
    assert lost_keys(tmp_path / "3", [b, again, end], [a, b, again, end], cleaned=3) == {"compacted": 1}, "only B has it: C31"
    tombstone = one(0, b"a", None)
    assert lost_keys(tmp_path / "4", [tombstone, b, again, end], [b, again, end], cleaned=3) == {"compacted": 1}
    assert lost_keys(tmp_path / "5", [a, b, again, end], [b, again], cleaned=3, end=3) == {"key-lost": 1}
    beyond = one(4, b"a")
    assert lost_keys(tmp_path / "6", [a, b, again, end, beyond], [b, again, end], cleaned=3, end=4) == {"compacted": 1}, "it comes again"


def test_a_key_in_a_transaction_is_lost_if_that_was_committed(tmp_path: Path) -> None:
    inside = one(0, b"a", producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    for kind, counts in ((COMMIT, {"key-lost": 1}), (ABORT, {"compacted": 1})):
        marker = bytes(
            build_end_transaction_marker(kind, coordinator_epoch=0, producer_id=3, producer_epoch=0, timestamp=TIME, base_offset=1)
        )
        rest = [marker, one(2, b"b"), one(3, b"c")]
        assert lost_keys(tmp_path / kind.name, [inside, *rest], rest, cleaned=3) == counts
    reset = bytes(build_mirror_pid_reset("other", timestamp=TIME, base_offset=1))
    aborted = bytes(
        build_end_transaction_marker(ABORT, coordinator_epoch=0, producer_id=3, producer_epoch=0, timestamp=TIME, base_offset=2)
    )
    rest = [reset, aborted, one(3, b"c")]
    assert lost_keys(tmp_path / "reset", [inside, *rest], rest, cleaned=3) == {"key-lost": 1}, "nothing aborted it any more"


def test_what_a_stopped_mirror_may_have_deleted_itself_is_not_called_lost(tmp_path: Path) -> None:
    """Its own tombstone may be gone. As long as its cleaner has not been in its own part, there was
    none.
    """
    common = [one(0, b"a"), one(1, b"b"), one(2, b"c")]
    own = [one(3, b"x"), one(4, b"y")]
    for cleaned, counts in ((3, {"key-lost": 1}), (4, {"compacted": 1})):
        assert lost_keys(tmp_path / str(cleaned), common, [*common[1:], *own], cleaned=cleaned, end=3) == counts
    assert lost_keys(tmp_path / "whole", common, [*common[1:], *own], cleaned=4) == {"compacted": 1, "extra": 1}


def test_whether_a_key_is_lost_is_not_decided_without_room_for_the_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_rows.SpilledRows.__init__, "__kwdefaults__", {"max_rows": 2})
    parts = [one(offset, b"k%d" % offset) for offset in range(6)]
    assert lost_keys(tmp_path, parts, parts[1:], cleaned=5) == {"not-decided": 1}


def test_a_later_record_whose_transaction_has_not_ended_yet_speaks_against_a_loss(tmp_path: Path) -> None:
    """Its marker may be beyond what was copied."""
    later = one(1, b"a", producer_id=3, producer_epoch=0, base_sequence=0, is_transactional=True)
    rest = [later, one(2, b"b"), one(3, b"c")]
    assert lost_keys(tmp_path, [one(0, b"a"), *rest], rest, cleaned=3) == {"compacted": 1}
