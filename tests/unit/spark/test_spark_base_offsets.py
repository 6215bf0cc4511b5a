"""Bytes that no CRC covers: a wrong base offset, length, magic or leader epoch never makes a read
return fewer rows, or rows elsewhere, without a word.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments
from support.tools.replay_destination import recorded

pytest.importorskip("pyspark", reason="pyspark is not installed (kmirror[spark])")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (kmirror[spark])")

from support.tools.spark_rows import read_rows
from support.tools.stream_runs import StreamRun

from kmirror.cli.replay_source import blocks_from
from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.runtime.os_files import OsFileSystem
from kmirror.verify import batch_walk

COUNT = 12
READS: list[dict[str, Any]] = [
    {},
    {"columns": "offset"},
    {"columns": "offset,value", "splitBytes": "300"},
    {"rows": "batch", "columns": "base_offset"},
    {"kafkaCompatible": "true", "startingOffsets": '{"t":{"0":12}}'},
]


def damaged(folder: Path, number: int, byte: int, bit: int) -> None:
    """One bit of the header of a batch in a segment of several."""
    parts = [bytearray(part) for part in batches(COUNT)]
    parts[number][byte] ^= bit
    write_segments(folder, (0, [bytes(part) for part in parts]), (5 * COUNT, batches(3, first=5 * COUNT)))


@pytest.mark.parametrize("byte", [0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16])
def test_a_wrong_bit_before_the_crc_is_told(tmp_path: Path, byte: int) -> None:
    """The batch claimed offsets far behind, the following ones were looked for from there on, and 62
    of 204 rows came back."""
    for bit in (1, 0x40):
        damaged(tmp_path / "t-0", 6, byte, bit)
        for options in READS:
            with pytest.raises(KmirrorError, match="t-0/0.*.log"):
                read_rows(tmp_path, **options)
        with pytest.raises(KmirrorError, match="t-0/0.*.log"):
            StreamRun(tmp_path).batch()


def test_the_last_batch_of_a_segment_is_held_against_the_next_segment(tmp_path: Path) -> None:
    damaged(tmp_path / "t-0", COUNT - 1, 6, 1)
    for options in READS:
        with pytest.raises(KmirrorError, match=r"t-0/0.*.log"):
            read_rows(tmp_path, **options)


@pytest.mark.parametrize("block_bytes", [1, 400, 1 << 20])
def test_the_wrong_batch_is_the_one_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_bytes: int) -> None:
    """The rows of the wrong batch were given out with its wrong offsets, and the sound one behind it
    was blamed; also where one of the two ends a block."""
    monkeypatch.setattr(batch_walk.walk, "__kwdefaults__", {**batch_walk.walk.__kwdefaults__, "block_bytes": block_bytes})
    parts = [bytearray(part) for part in batches(COUNT)]
    position = sum(map(len, parts[:6]))
    parts[6][6] ^= 1
    write_log(tmp_path / "t-0", *(bytes(part) for part in parts))
    rows = read_rows(tmp_path, mode="PERMISSIVE")
    assert [row["position"] for row in rows if row["_corrupt"] is not None] == [position]
    sound = [row["offset"] for row in rows if row["_corrupt"] is None]
    assert sound == [*range(30), *range(35, 5 * COUNT)]
    with pytest.raises(CorruptFileError, match=rf"at byte {position}: a batch with offsets 286 to 290"):
        read_rows(tmp_path)


def test_leader_epochs_that_go_back_are_told(tmp_path: Path) -> None:
    """Headers alone blame the second of the two; who reads the batches can tell that the first one
    began the epoch."""
    either = "a batch of leader epoch (3 at offset 10, behind one of epoch 4|4 at offset 5, and the next one is of epoch 3)"
    write_log(tmp_path / "t-0", *(batch(5 * number, epoch=epoch) for number, epoch in enumerate((-1, 3, -1, 3, 5))))
    for options in READS[:3]:
        assert len(read_rows(tmp_path, **options)) == 25
    write_log(tmp_path / "t-0", *(batch(5 * number, epoch=epoch) for number, epoch in enumerate((3, 4, 3, 5))))
    for options in READS[:3]:
        with pytest.raises(KmirrorError, match=either):
            read_rows(tmp_path, **options)


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_leader_epochs_that_are_too_high_and_fall_nowhere_are_told(tmp_path: Path, size: int) -> None:
    """By whoever has `leader-epoch-checkpoint` beside the segment: reads, streams and replays."""
    folder = tmp_path / "t-0"
    write_log(folder, *(batch(5 * number, epoch=epoch) for number, epoch in enumerate((3, 3, 7, 9))))
    for options in READS[:4]:
        assert read_rows(tmp_path, **options)
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n9 15\n")
    wrong = "a batch of leader epoch 7 at offset 10, behind one of epoch 3; by leader-epoch-checkpoint the next epoch is 9"
    for options in READS[:4]:
        with pytest.raises(KmirrorError, match=wrong):
            read_rows(tmp_path, **options)
    with pytest.raises(KmirrorError, match=wrong):
        StreamRun(tmp_path).batch()
    with pytest.raises(CorruptFileError, match=wrong):
        list(blocks_from(OsFileSystem(), recorded(tmp_path), 0, size=size))


@pytest.mark.parametrize("size", [1, 300, 1 << 20])
def test_a_replay_does_not_go_back_between_two_blocks(tmp_path: Path, size: int) -> None:
    """Each block was held against the segment's base offset alone."""
    write_log(tmp_path / "t-0", *batches(COUNT))
    partition = recorded(tmp_path)
    folder = Path(partition.files.path)
    log = next(folder.glob("*.log"))
    data = bytearray(log.read_bytes())
    starts = [0]
    while (following := starts[-1] + 12 + struct.unpack_from(">i", data, starts[-1] + 8)[0]) < len(data):
        starts.append(following)
    sound = [one for block in blocks_from(OsFileSystem(), partition, 0, size=size) for one in block]
    assert len(sound) == len(starts) > 3
    for start, bit in ((starts[1], 0x40), (starts[-1], 1)):
        changed = bytearray(data)
        changed[start + 6] ^= bit
        log.write_bytes(changed)
        found: list[Any] = []
        if start == starts[1]:
            with pytest.raises(CorruptFileError):
                found += [one for block in blocks_from(OsFileSystem(), partition, 0, size=size) for one in block]
        else:
            found += [one for block in blocks_from(OsFileSystem(), partition, 0, size=size) for one in block]
            assert len(found) == len(sound), "nothing behind the log's last batch contradicts it"


@pytest.mark.parametrize("seed", range(30))
def test_any_bit_of_a_header_changes_no_row_in_silence(tmp_path: Path, seed: int) -> None:
    """A property: whatever bit before the attributes is wrong, a read of whole records gives all of
    them as they are, or fails."""
    chance = random.Random(seed)
    folder = tmp_path / "t-0"
    parts = [bytearray(batch(5 * number, text="x" * chance.randrange(60))) for number in range(COUNT)]
    write_log(folder, *(bytes(part) for part in parts))
    options = chance.choice(READS[:3])
    expected = read_rows(tmp_path, **options)
    for _ in range(10):
        changed = [bytearray(part) for part in parts]
        changed[chance.randrange(COUNT - 1)][chance.choice([*range(12), 16])] ^= 1 << chance.randrange(8)
        write_log(folder, *(bytes(part) for part in changed))
        try:
            assert read_rows(tmp_path, **options) == expected
        except KmirrorError:
            continue
