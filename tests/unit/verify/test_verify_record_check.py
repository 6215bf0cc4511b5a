"""`kmirror verify-logs --deep`: what is inside batches whose CRC is right; and sequences."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from support.logs.cluster_damage import sealed
from support.logs.golden_vectors import golden_dir
from support.logs.log_folders import batch, write_log

from kmirror.cli.kmirror import main
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.compression import CompressionType
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.planner import Listing
from kmirror.verify.replay.record_check import record_problems

FILES = OsFileSystem()


def verify(folder: Path, *parts: bytes) -> int:
    write_log(folder / "t-0", *parts)
    (folder / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return main(["verify-logs", str(folder), "--deep"])


def patched(data: bytes, position: int, form: str, value: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(form, changed, position, value)
    return sealed(changed)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_records_that_are_not_as_their_header_says_are_found_and_the_next_ones_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], codec: CompressionType
) -> None:
    first, second, third, fourth = (batch(base, codec=codec) for base in (0, 5, 10, 15))
    garbage = sealed(bytearray(second[:61] + bytes(len(second) - 61)))
    fewer = patched(third, 57, ">i", 4)
    newer = patched(fourth, 35, ">q", 1 << 50)
    assert verify(tmp_path, first, garbage, fewer, newer, batch(20)) == 1
    out = capsys.readouterr().out
    at = [len(first), len(first) + len(second), len(first) + len(second) + len(third)]
    path = tmp_path / "t-0" / f"{0:020d}.log"
    for position, words in zip(at, ("the records cannot be read", "the records cannot be read", "its newest record is of")):
        assert f"structure records: {path}, byte {position}, " in out and words in out
    assert "3 found" in out
    assert main(["verify-logs", str(tmp_path)]) == 0
    assert "not looked at: records inside batches" in capsys.readouterr().out


def test_a_record_s_offset_beyond_its_batch_or_twice_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = bytearray(batch(0, 2))
    where = data.index(b"k1") - 2  # the second record's offset delta, a varint of 1, then its key's length
    assert data[where] == 2
    for value, words in (
        (0, "a record has offset 0, and 1 is the least"),
        (8, "a record has offset 4, and the batch ends at 1"),
    ):
        data[where] = value
        assert verify(tmp_path, sealed(data)) == 1
        assert words in capsys.readouterr().out


def test_what_apache_kafka_wrote_has_nothing_wrong_inside() -> None:
    for path in sorted({found.parent for found in golden_dir().rglob("0*.log")}):
        partition = read_partition(FILES, str(path), TopicPartition("any", 0))
        for piece in Listing(str(path), str(path), [partition], True, {}).slices(FILES, partition):
            assert list(record_problems(FILES, piece, check_crc=True)) == []


@pytest.mark.parametrize(("sequence", "words"), [(7, "a batch is missing"), (0, "a batch was appended twice")])
def test_a_producer_s_sequence_that_does_not_go_on_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sequence: int, words: str
) -> None:
    good = [batch(base, producer_id=9) for base in (0, 5)]
    assert verify(tmp_path, *good) == 0
    capsys.readouterr()
    assert verify(tmp_path, good[0], patched(good[1], 53, ">i", sequence)) == 1
    out = capsys.readouterr().out
    assert f"goes on with sequence {sequence} in epoch 0, and 5 follows its batch at offset 4: {words}" in out
