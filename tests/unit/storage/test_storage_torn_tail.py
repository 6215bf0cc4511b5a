"""What recovery makes of the tail that a power loss has torn.

Found by the simulator (storm seeds 126, 133, 675 and others).
"""

from __future__ import annotations

import zlib

import pytest
from support.logs.storage_doubles import ManualClock, SeededRandom, StorageWorld

from kmirror.common.errors import CorruptFileError
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.sim.disk import SimDisk
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.unified_log import UnifiedLog

FOLDER = "/t-0"
PATH = f"{FOLDER}/{0:020d}.log"
MAGIC_POSITION = 16


def batch(offset: int, *, epoch: int = 0) -> bytearray:
    return build_batch([Record(offset, 1_750_000_000_000, None, b"value" * 20, [])], base_offset=offset, partition_leader_epoch=epoch)


def new_disk(seed: int) -> SimDisk:
    disk = SimDisk(ManualClock(), SeededRandom(seed), note=lambda text: None)
    disk.make_dirs(FOLDER)
    disk.fsync_path("/")
    return disk


@pytest.fixture
def disk() -> SimDisk:
    return new_disk(1)


def write(disk: SimDisk, data: bytes) -> None:
    """Durably."""
    disk.write_bytes(PATH, data)
    disk.fsync_path(PATH)
    disk.fsync_path(FOLDER)


def open_after_crash(disk: SimDisk) -> UnifiedLog:
    return UnifiedLog.open(
        FOLDER,
        LogConfig(max_index_size=800),
        StorageWorld(files=disk).ports,
        LogOpenOptions(log_start_offset=0, recovery_point=0, last_shutdown_clean=False, topic_id=Uuid(b"topic-id-16bytes")),
    )


@pytest.mark.parametrize("magic", [0, 1])
def test_a_torn_batch_whose_magic_byte_is_zero_was_taken_for_message_format_v0(disk, magic):
    """The node refused to start; as in Kafka, it is a bad CRC and the log is cut there."""
    torn = batch(1)
    torn[MAGIC_POSITION] = magic
    torn[MAGIC_POSITION + 1 :] = bytes(len(torn) - MAGIC_POSITION - 1)
    write(disk, batch(0) + torn)
    log = open_after_crash(disk)
    assert log.log_end_offset == 1
    assert len(disk.read_bytes(PATH)) == len(batch(0))


def test_a_message_of_format_v0_whose_crc_holds_is_reported_and_not_cut(disk):
    content = b"\x00\x00" + (-1).to_bytes(4, "big", signed=True) + (5).to_bytes(4, "big") + b"value"
    message = (1).to_bytes(8, "big") + (4 + len(content)).to_bytes(4, "big") + zlib.crc32(content).to_bytes(4, "big") + content
    write(disk, batch(0) + message + bytes(40))
    before = disk.read_bytes(PATH)
    with pytest.raises(CorruptFileError, match="message format v0"):
        open_after_crash(disk)
    assert disk.read_bytes(PATH) == before


def test_a_second_power_loss_brought_cut_batches_back_behind_new_ones():
    """Batch 1 was torn, batch 2 behind it is whole: the cut of both must not be undone once a new
    batch 1 is written.
    """
    torn = batch(1)
    torn[-1] ^= 1
    for seed in range(40):
        disk = new_disk(seed)
        write(disk, batch(0) + torn + batch(2))
        open_after_crash(disk).append_as_follower(batch(1, epoch=1), leader_epoch=1)
        disk.detach(power_loss=True)
        disk.attach()
        assert open_after_crash(disk).log_end_offset <= 2, seed
