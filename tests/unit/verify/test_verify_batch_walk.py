"""A slice's batches, and what the walk says where there is none: the damages of a disk, one by one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support.logs.log_folders import batch, batches, write_log, write_segments

from kmirror.common.errors import CorruptFileError
from kmirror.spark.files import LocalFiles
from kmirror.verify.batch_walk import BadBytes, SoundBatches, walk
from kmirror.verify.epoch_claims import EpochClaims, Rise
from kmirror.verify.planner import list_input
from kmirror.verify.slices import LogSlice
from kmirror.verify.tail import check_tail

PARTS = batches(6)
STARTS = [sum(map(len, PARTS[:row])) for row in range(7)]


def slices(folder: Path) -> list[LogSlice]:
    listing = list_input(LocalFiles(), str(folder))
    return list(listing.slices(LocalFiles(), listing.partitions[0]))


def offsets(piece: LogSlice, *, skip_bad: bool = False, check_crc: bool = True) -> tuple[list[int], list[BadBytes]]:
    found: list[int] = []
    bad: list[BadBytes] = []
    for run in walk(LocalFiles(), piece, skip_bad=skip_bad, check_crc=check_crc, block_bytes=700):
        if isinstance(run, SoundBatches):
            found += [one.base_offset for one in run.batches]
        else:
            bad.append(run)
    return found, bad


def with_length(data: bytes, length: int) -> bytes:
    return data[:8] + length.to_bytes(4, "big") + data[12:]


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


DAMAGES = {
    "a flipped byte in a value": (flipped(PARTS[2], len(PARTS[2]) - 9), "the CRC of the batch at offset 10 is", [0, 5, 15, 20, 25]),
    "a length that is too large": (with_length(PARTS[2], 0x7000000), "a batch claims 117440524 bytes", [0, 5, 15, 20, 25]),
    "a length that is too large but in the file": (with_length(PARTS[2], 2 * len(PARTS[2])), "the CRC", [0, 5, 15, 20, 25]),
    "a length that is too small": (with_length(PARTS[2], 100), "the CRC", [0, 5, 15, 20, 25]),
    "an impossible length": (with_length(PARTS[2], 5), "Found record size 5 smaller", [0, 5, 15, 20, 25]),
    "another magic": (PARTS[2][:16] + b"\x03" + PARTS[2][17:], "a batch of magic 3", [0, 5, 15, 20, 25]),
    "an old magic": (PARTS[2][:16] + b"\x01" + PARTS[2][17:], "message format v1 are not supported", [0, 5, 15, 20, 25]),
    "an offset that went back": (bytes(8) + PARTS[2][8:], "a batch with offsets 0 to 4, and offset 10 is the next", [0, 5, 15, 20, 25]),
    "an offset far away": (b"\x01" + PARTS[2][1:], "and offset 10 is the next", [0, 5, 15, 20, 25]),
    "text": (b"hello world, this is no log at all. " * 50, ".", [0, 5, 15, 20, 25]),
    "zeros": (bytes(500), "Found record size 0 smaller", [0, 5, 15, 20, 25]),
    "half of it": (PARTS[2][:100], ".", [0, 5, 15, 20, 25]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named_at_its_byte_and_the_rest_can_be_had(tmp_path: Path, name: str) -> None:
    data, words, left = DAMAGES[name]
    write_log(tmp_path / "t-0", *PARTS[:2], data, *PARTS[3:])
    (piece,) = slices(tmp_path / "t-0")
    with pytest.raises(CorruptFileError, match=words) as raised:
        offsets(piece)
    assert raised.value.position == STARTS[2] and "\n" not in str(raised.value)
    found, bad = offsets(piece, skip_bad=True)
    assert found == left
    assert bad[0].position == STARTS[2] and bad[-1].end == STARTS[2] + len(data)


def test_a_text_file_is_no_log(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", b"hello world, this is no log at all. " * 50)
    (piece,) = slices(tmp_path / "t-0")
    with pytest.raises(CorruptFileError, match="at byte 0: no batch: it would have offset"):
        offsets(piece)
    found, bad = offsets(piece, skip_bad=True)
    assert (found, [(one.position, one.end) for one in bad]) == ([], [(0, 1800)])


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, 60, 61, 100, len(PARTS[5]) - 1])
def test_an_append_under_way_is_sound_only_at_the_end_of_the_log(tmp_path: Path, size: int) -> None:
    write_segments(tmp_path / "t-0", (0, [*PARTS[:5], PARTS[5][:size]]))
    (piece,) = slices(tmp_path / "t-0")
    assert offsets(piece) == ([0, 5, 10, 15, 20], [])
    check_tail(LocalFiles(), piece, STARTS[5], 25)
    write_segments(tmp_path / "t-0", (25, [PARTS[5]]))
    torn = slices(tmp_path / "t-0")[0]
    with pytest.raises(CorruptFileError, match=rf"at byte {STARTS[5]}: .*{size} bytes are left up to byte.*not the end of the log"):
        offsets(torn)
    with pytest.raises(CorruptFileError, match="not the end of the log"):
        check_tail(LocalFiles(), torn, STARTS[5], 25)
    assert offsets(torn, skip_bad=True)[0] == [0, 5, 10, 15, 20]


def test_a_whole_last_batch_with_a_wrong_length_is_no_append_under_way(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *PARTS[:5], with_length(PARTS[5], 1000))
    with pytest.raises(CorruptFileError, match=rf"at byte {STARTS[5]}: a batch claims 1012 bytes, but its CRC is that of the"):
        offsets(slices(tmp_path / "t-0")[0])


def test_a_slice_ends_where_a_batch_ends(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *PARTS)
    (piece,) = slices(tmp_path / "t-0")
    assert offsets(piece._replace(start=STARTS[1], end=STARTS[3])) == ([5, 10], [])
    with pytest.raises(CorruptFileError, match="not the end of the log"):
        offsets(piece._replace(end=STARTS[3] + 70))


def test_no_flipped_byte_of_a_batch_passes(tmp_path: Path) -> None:
    """Of 200 flips, those in the leader epoch alone: nothing in a log covers it, the epochs'
    checkpoint does.
    """
    chance = random.Random(1)
    whole = b"".join(PARTS)
    for _ in range(200):
        position = chance.randrange(len(whole))
        in_batch = position - max(start for start in STARTS if start <= position)
        write_log(tmp_path / "t-0", whole[:position] + bytes([whole[position] ^ 1 << chance.randrange(8)]) + whole[position + 1 :])
        (piece,) = slices(tmp_path / "t-0")
        if 12 <= in_batch < 16 or in_batch < 8:
            continue
        with pytest.raises(CorruptFileError):
            offsets(piece)
        assert len(offsets(piece, skip_bad=True)[0]) == 5


def test_crcs_are_not_looked_at_unless_asked(tmp_path: Path) -> None:
    write_log(tmp_path / "t-0", *PARTS[:2], flipped(PARTS[2], 150), batch(15))
    assert offsets(slices(tmp_path / "t-0")[0], check_crc=False) == ([0, 5, 10, 15], [])


def test_a_base_offset_that_leaps_into_the_next_segment_is_no_sound_batch(tmp_path: Path) -> None:
    """No CRC covers a base offset: one bit of it made the last batch of a segment overlap the next
    segment, and each slice looked sound by itself."""
    folder = tmp_path / "t-0"
    leaping = (5 | 1 << 6).to_bytes(8, "big") + batch(5)[8:]
    write_segments(folder, (0, [batch(0), leaping]), (10, [batch(10)]))
    listing = list_input(LocalFiles(), str(folder))
    first, second = listing.slices(LocalFiles(), listing.partitions[0])
    with pytest.raises(CorruptFileError, match="a batch with offsets 69 to 73, and offset 10 lies behind it"):
        list(walk(LocalFiles(), first))
    found = list(walk(LocalFiles(), first, skip_bad=True))
    assert [type(one).__name__ for one in found] == ["SoundBatches", "BadBytes"] and list(walk(LocalFiles(), second))


def of_epochs(*epochs: int) -> list[bytes]:
    return [batch(5 * number, epoch=epoch) for number, epoch in enumerate(epochs)]


@pytest.mark.parametrize("block_bytes", [200, 700, 1 << 20])
@pytest.mark.parametrize(
    ("epochs", "wrong"),
    [
        ((3, 3, 1, 3, 3), 2),
        ((3, 3, 3 | 1 << 20, 3, 3), 2),
        ((3, 3, 7, 5, 5), 2),
        ((3, 5, 5, 4, 5), 3),
        ((3, 3, 3 - (1 << 31), 4, 4), 2),
        ((1 << 30, 0, 0, 1, 1), 0),
    ],
)
def test_a_leader_epoch_that_falls_is_damage(tmp_path: Path, epochs: tuple[int, ...], wrong: int, block_bytes: int) -> None:
    """No CRC covers a leader epoch, and nobody but `verify-logs` looked at it."""
    parts = of_epochs(*epochs)
    write_log(tmp_path / "t-0", *parts)
    (piece,) = slices(tmp_path / "t-0")
    with pytest.raises(CorruptFileError, match="leader epoch") as raised:
        for _ in walk(LocalFiles(), piece, block_bytes=block_bytes):
            pass
    assert raised.value.position == sum(map(len, parts[:wrong]))
    runs = list(walk(LocalFiles(), piece, skip_bad=True, block_bytes=block_bytes))
    found = [one.base_offset for run in runs if isinstance(run, SoundBatches) for one in run.batches]
    assert found == [5 * number for number in range(5) if number != wrong]


@pytest.mark.parametrize("epochs", [(-1, -1, 0, 2, 2), (0, -1, 0, 1, 9), (4, 4, 4, 4, 4)])
def test_leader_epochs_that_rise_or_are_none_are_sound(tmp_path: Path, epochs: tuple[int, ...]) -> None:
    write_log(tmp_path / "t-0", *of_epochs(*epochs))
    assert offsets(slices(tmp_path / "t-0")[0]) == ([0, 5, 10, 15, 20], [])


def test_no_flipped_bit_of_a_leader_epoch_passes_that_makes_epochs_fall(tmp_path: Path) -> None:
    """Every bit of the epoch of every batch but the last, which has nobody behind it."""
    parts = of_epochs(5, 5, 6, 6, 6)
    for number in range(4):
        for bit in range(32):
            epoch = int.from_bytes(parts[number][12:16], "big") ^ 1 << bit
            wrong = parts[number][:12] + epoch.to_bytes(4, "big") + parts[number][16:]
            write_log(tmp_path / "t-0", *parts[:number], wrong, *parts[number + 1 :])
            told = [int.from_bytes(one[12:16], "big", signed=True) for one in (*parts[:number], wrong, *parts[number + 1 :])]
            if told == sorted(told) and told[0] >= 0:
                continue
            with pytest.raises(CorruptFileError, match="leader epoch"):
                offsets(slices(tmp_path / "t-0")[0])


def claim(folder: Path, *entries: tuple[int, int], at_rest: bool = False) -> None:
    lines = "".join(f"{epoch} {start}\n" for epoch, start in entries)
    (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(entries)}\n{lines}")
    if at_rest:
        (folder.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')


@pytest.mark.parametrize("block_bytes", [200, 700, 1 << 20])
def test_a_leader_epoch_that_is_too_high_and_falls_nowhere_is_damage(tmp_path: Path, block_bytes: int) -> None:
    """Only `verify-logs` held epochs against `leader-epoch-checkpoint`: every reader of records gave
    out batches of an epoch that no leader had there."""
    folder = tmp_path / "t-0"
    for epochs, wrong in (((3, 3, 7, 9, 9), 2), ((3, 3, 9, 9, 9), 2), ((3, 3, 9, 9, 11), 4)):
        parts = of_epochs(*epochs)
        write_log(folder, *parts)
        claim(folder, (3, 0), (9, 15 if wrong == 2 else 10), at_rest=True)
        (piece,) = slices(folder)
        with pytest.raises(CorruptFileError, match=f"a batch of leader epoch {epochs[wrong]} at offset {5 * wrong}, behind") as raised:
            for _ in walk(LocalFiles(), piece, block_bytes=block_bytes):
                pass
        assert raised.value.position == sum(map(len, parts[:wrong]))
        runs = list(walk(LocalFiles(), piece, skip_bad=True, block_bytes=block_bytes))
        found = [one.base_offset for run in runs if isinstance(run, SoundBatches) for one in run.batches]
        assert found == [5 * number for number in range(5) if number != wrong]


CLAIMS = {
    "none": [],
    "late": [(3, 0)],
    "of another start": [(3, 0), (9, 12)],
    "of a start too far back": [(3, 0), (9, 5)],
    "of other epochs": [(2, 0), (8, 15)],
    "forgotten at the front": [(9, 15)],
    "no ascending": [(9, 15), (3, 0)],
}


@pytest.mark.parametrize("claims", CLAIMS)
def test_a_checkpoint_that_may_itself_be_wrong_makes_no_batch_damage(tmp_path: Path, claims: str) -> None:
    """Not while a broker runs, which writes the file late, nor where the file is wrong of the batches
    around, too."""
    folder = tmp_path / "t-0"
    write_log(folder, *of_epochs(3, 3, 9, 9, 9))
    claim(folder, *CLAIMS[claims])
    assert offsets(slices(folder)[0]) == ([0, 5, 10, 15, 20], [])
    (folder / "leader-epoch-checkpoint").write_bytes(b"\xffno checkpoint")
    assert offsets(slices(folder)[0]) == ([0, 5, 10, 15, 20], [])


def test_a_broker_that_cut_the_log_meanwhile_is_not_blamed(tmp_path: Path) -> None:
    """The checkpoint was read, and the log was cut and written anew in another epoch."""
    folder = tmp_path / "t-0"
    write_log(folder, *of_epochs(3, 4, 7, 9))
    claim(folder, (3, 0), (4, 5), (9, 15))
    claims = EpochClaims(LocalFiles(), f"{folder}/00000000000000000000.log")
    assert claims.problem(Rise(4, 5, 10, 3, 4, ends_log=False)) is None
    wrong = Rise(7, 10, 15, 4, 9, ends_log=False)
    assert "behind one of epoch 4; by leader-epoch-checkpoint the next epoch is 9" in (claims.problem(wrong) or "")
    claim(folder, (3, 0), (4, 5), (7, 10))
    assert claims.problem(wrong) is None
