"""Sources with answers that no broker should give. The partition concerned waits or fails, says
why, and keeps its log; other partitions go on.

Every scenario mirrors two topics through one fetcher: `t`, which has the trouble, and `u`, which
has none.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_world import Driver, MirrorWorld
from support.mirrors.scripted_source import batch

from kmirror.record.record_batch import RecordBatch
from kmirror.wire.messages import fetch

FIRST, SECOND = batch(0, b"a", b"b"), batch(2, b"c")
LAST_OFFSET_DELTA, MAX_TIMESTAMP, CRC, MAGIC = 23, 35, 17, 16
MOST_FETCHES = 100
"""In 15 s with a long poll of 0.5 s and a backoff of 1 s; a loop without backoff makes thousands.
"""


def patched(data: bytes, position: int, value: bytes, *, crc: bool = False) -> bytes:
    """Returns `data` with other bytes at `position`, and with a matching CRC if `crc`."""
    changed = bytearray(data)
    changed[position : position + len(value)] = value
    if crc:
        changed[CRC : CRC + 4] = struct.pack(">I", RecordBatch(changed).compute_crc())
    return bytes(changed)


def at(offset: int, data: bytes = FIRST) -> bytes:
    """Returns the batch with another base offset, which the CRC does not cover."""
    return patched(data, 0, struct.pack(">q", offset))


def answer_for_t(world: MirrorWorld, change: Callable[[Any], None]) -> None:
    """Changes the source's rows about `t` in every answer to Fetch."""
    read = world.source._read

    def changed(address: Any, request: Any, version: int, partitions: Any, told: Any) -> Any:
        rows, has_data = read(address, request, version, partitions, told)
        for (topic, _), row in rows:
            if topic == world.source.topic_ids["t"]:
                change(row)
        return rows, has_data

    world.source._read = changed  # type: ignore[method-assign]


def rewritten(**fields: Any) -> Callable[[Any], None]:
    def change(row: Any) -> None:
        for name, value in fields.items():
            setattr(row, name, value)

    return change


def source_with(tmp_path: Path, *batches: bytes) -> MirrorWorld:
    """Returns a source whose topic `t` has these batches and whose `u` has one record."""
    world = MirrorWorld(str(tmp_path))
    for topic in ("t", "u"):
        world.source.create(topic)
    world.source.log("t").batches = list(batches)
    world.source.append("u", b"x")
    return world


async def mirrored(world: MirrorWorld) -> Driver:
    """Mirrors `t` and `u` for a while, and returns the driver of `t`."""
    (driver,) = await world.mirror_topic("t")
    await world.mirror_topic("u")
    await world.advance(15_000, step_ms=250)
    return driver


def assert_neighbour_is_well(world: MirrorWorld) -> None:
    assert world.log_bytes("u") == world.source_bytes("u") != b""
    assert [running.is_dead for running in world.fetchers.running()] == [False]
    assert len(world.source.fetches()) < MOST_FETCHES


def fetch_again(world: MirrorWorld) -> None:
    """Lets the fetcher start again, as after a lost connection."""
    for driver in world.drivers.values():
        world.fetchers.remove_partition(driver.id.topic_partition)
        driver.start()


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(at(2**63 - 2), id="ends-behind-the-last-offset-that-there-is"),
        pytest.param(at(-7, patched(FIRST, LAST_OFFSET_DELTA, struct.pack(">i", 20), crc=True)), id="begins-before-0"),
        pytest.param(at(10, patched(FIRST, LAST_OFFSET_DELTA, struct.pack(">i", -5), crc=True)), id="ends-before-it-begins"),
        pytest.param(batch(5, b"a", b"b") + SECOND, id="goes-back"),
    ],
)
async def test_offsets_that_do_not_ascend_ended_the_fetcher_or_were_asked_for_for_ever(tmp_path: Path, records: bytes) -> None:
    world = source_with(tmp_path, FIRST)
    answer_for_t(world, rewritten(records=records))
    driver = await mirrored(world)
    assert driver.rejected is not None and "malformed batch from the source: Out of order offsets" in driver.rejected
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (0, 0)
    assert_neighbour_is_well(world)


async def test_offsets_that_do_not_fit_one_segment_ended_the_fetcher(tmp_path: Path) -> None:
    """Offsets in one answer are more than 2^31 apart. Kafka's brokers do not send that."""
    world = source_with(tmp_path, FIRST, at(2**33), at(2**34))
    driver = await mirrored(world)
    log = driver.log
    assert [log.batch_before(end).base_offset for end in (2**62, 2**34, 2**33)] == [2**34, 2**33, 0]
    assert (driver.rejected, log.log_end_offset) == (None, 2**34 + 2)
    assert_neighbour_is_well(world)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        pytest.param({"records": FIRST[:40]}, "source broker 1 sent only 40 bytes of a batch", id="half-a-batch"),
        *(
            pytest.param(
                {"records": b"", "diverging_epoch": fetch.EpochEndOffset(epoch=epoch, end_offset=end)},
                f"the source's answers contradict each other: epoch {epoch} ends at {end} at the source",
                id=f"diverges-at-{end}",
            )
            for epoch, end in ((7, 100), (0, -1), (0, 0))
        ),
    ],
)
async def test_answers_that_lead_nowhere_were_asked_for_in_a_busy_loop(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    world = source_with(tmp_path, FIRST)
    answer_for_t(world, rewritten(**fields))
    driver = await mirrored(world)
    assert (driver.rejected, driver.status.reason) == (None, reason)
    assert_neighbour_is_well(world)


async def test_epochs_that_go_down_at_the_source_had_the_log_cut_and_its_epoch_bumped_again_and_again(tmp_path: Path) -> None:
    """Once, the copied batches were cut because of the epochs, and copied again.

    The batches are equal, so they stay whatever the epochs say.
    """
    world = source_with(tmp_path, batch(0, b"a", epoch=3), batch(1, b"b", epoch=5), batch(2, b"c", epoch=4))
    world.source.log("t").epoch = 5
    driver = await mirrored(world)
    assert driver.cuts == 0 and world.log_bytes("t") == world.source_bytes("t")
    assert driver.status.reason == "the source's answers contradict each other: epoch 4 ends at 1 at the source"
    assert_neighbour_is_well(world)


async def test_a_log_start_that_is_none_emptied_the_log(tmp_path: Path) -> None:
    """ListOffsets answers -1 without an error, for a log that has nothing in common with ours.

    Once, our log was then emptied and began at -1.
    """
    world = source_with(tmp_path, FIRST, SECOND)
    driver = await mirrored(world)
    driver.max_truncation_records = -1
    before = world.log_bytes("t")
    world.source.log("t").batches = [batch(0, b"y", b"z"), batch(2, b"z")]
    world.source.log("t").start = -1
    fetch_again(world)
    await world.advance(5_000, step_ms=250)
    assert world.log_bytes("t") == before
    assert driver.status.reason == "the source says that its log begins at -1"
    assert_neighbour_is_well(world)
    world.source.log("t").start = 0
    await world.advance(5_000, step_ms=250)
    assert (world.log_bytes("t"), driver.status.reason) == (world.source_bytes("t"), None)


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        pytest.param(patched(SECOND, MAX_TIMESTAMP, b"\x7f"), "malformed batch from the source: Record is corrupt", id="a-field"),
        pytest.param(patched(SECOND, CRC, b"\x00\x01"), "malformed batch from the source: Record is corrupt", id="the-crc"),
        pytest.param(patched(SECOND, MAGIC, b"\x09"), "malformed batch from the source: Invalid magic found in record: 9", id="the-magic"),
    ],
)
async def test_what_the_source_had_damaged_was_cut_off_here(tmp_path: Path, damaged: bytes, reason: str) -> None:
    """Once, the comparison took a damaged batch for a different one, and the mirror cut its own
    copy, which was the only good one.
    """
    world = source_with(tmp_path, FIRST, SECOND)
    driver = await mirrored(world)
    world.source.log("t").batches = [FIRST, damaged]
    fetch_again(world)
    await world.advance(5_000, step_ms=250)
    assert world.log_bytes("t") == FIRST + SECOND
    assert driver.rejected is not None and driver.rejected.startswith(reason)
    assert_neighbour_is_well(world)


async def test_a_batch_that_was_damaged_once_is_compared_again(tmp_path: Path) -> None:
    world = source_with(tmp_path, FIRST, SECOND)
    driver = await mirrored(world)
    world.source.log("t").batches = [FIRST, patched(SECOND, CRC, b"\x00\x01")]
    fetch_again(world)
    await world.settle()
    assert driver.status.reason is not None and driver.status.reason.startswith("malformed batch from the source")
    world.source.log("t").batches = [FIRST, batch(2, b"other")]
    world.source.append("t", b"d")
    await world.advance(5_000, step_ms=250)
    assert (world.log_bytes("t"), driver.cuts, driver.rejected) == (world.source_bytes("t"), 1, None)
