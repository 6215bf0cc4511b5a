"""`UnifiedLog` on the simulated disk: what was flushed survives a power loss, and nothing comes
back changed.

Unsynced bytes go or tear as the seed says. The recovery point given at the next start is the one
that the log had reached (what its checkpoint may say at most), so everything below it must be
there. Above it batches may be missing: at the end, or (as in Kafka) at the end of an unsynced
segment whose successor's pages happened to be written. The test then ends.
"""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.logs.storage_doubles import ManualClock, SeededRandom, StorageWorld

from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.sim.disk import SimDisk
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.unified_log import UnifiedLog

NOW_MS = 1_750_000_000_000
CONFIG = LogConfig(segment_size=1500, index_interval=100, max_index_size=240)


def batch(size: int, sequence: int) -> bytearray:
    record = Record(0, NOW_MS, None, bytes([sequence % 251]) * size, [], -1)
    return build_batch([record], base_offset=0, producer_id=5, producer_epoch=0, base_sequence=sequence)


class Machine:
    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(ManualClock(NOW_MS), SeededRandom(seed), note=lambda text: None)
        self.disk.make_dirs("/data")
        self.disk.fsync_path("/data")
        self.disk.fsync_path("/")
        self.written: list[bytes] = []
        self.start(recovery_point=0)

    def start(self, *, recovery_point: int) -> None:
        self.world = StorageWorld(NOW_MS, files=self.disk)
        self.log = UnifiedLog.open(
            "/data/t-0", CONFIG, self.world.ports, LogOpenOptions(recovery_point=recovery_point, last_shutdown_clean=False)
        )

    def append(self, size: int) -> None:
        entry = self.log.producer_state_manager.last_entry(5)
        info = self.log.append_as_leader(data := batch(size, entry.last_sequence + 1 if entry else 0), leader_epoch=len(self.written) // 7)
        assert info.first_offset == len(self.written)
        self.written.append(bytes(data))

    def crash(self, *, power_loss: bool) -> None:
        recovery_point = self.log.recovery_point
        self.disk.detach(power_loss=power_loss)
        self.disk.attach()
        self.start(recovery_point=recovery_point)
        end = self.log.log_end_offset
        assert recovery_point <= end <= len(self.written)
        assert power_loss or end == len(self.written)
        del self.written[end:]
        self.check_bytes(durable=recovery_point)

    def check_bytes(self, *, durable: int) -> None:
        found = {header.base_offset: self.read(header.base_offset) for header in self.log.batch_headers()}
        assert all(data == self.written[offset] for offset, data in found.items())
        assert [offset for offset in found if offset < durable] == list(range(durable))
        self.has_hole = len(found) < len(self.written)

    def read(self, offset: int) -> bytes:
        return self.log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()

    def check_producers(self) -> None:
        entry = self.log.producer_state_manager.last_entry(5)
        assert (entry.last_data_offset if entry else -1) == len(self.written) - 1


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 300)),
    st.tuples(st.sampled_from(("flush", "roll", "background", "crash", "power_loss")), st.just(0)),
)


@pytest.mark.parametrize("seed", range(2))
@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, min_size=3, max_size=30))
@example(steps=[("append", 0), ("append", 0), ("roll", 0), ("power_loss", 0)])  # the second loss brought a discarded segment back
def test_what_was_flushed_survives_and_the_rest_is_cut_off_cleanly(seed: int, steps: list[tuple[str, int]]) -> None:
    machine = Machine(seed)
    for step, size in steps:
        match step:
            case "append":
                machine.append(size)
            case "flush":
                machine.log.flush()
            case "roll":
                machine.log.roll()
            case "background":
                machine.world.scheduler.run_due()
            case _:
                machine.crash(power_loss=step == "power_loss")
                if machine.has_hole:
                    return
                machine.check_producers()
    machine.crash(power_loss=True)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("target", [0, 3, 6])
@pytest.mark.parametrize("is_full", [False, True])
def test_what_was_cut_below_the_high_watermark_stays_cut(seed: int, target: int, is_full: bool) -> None:
    """A mirror cuts what its consumers have read; a follower that got it back with the power served
    it again (`mirrors`, seed 5906).
    """
    machine = Machine(seed)
    for _ in range(8):
        machine.append(300)
    machine.log.flush()
    machine.log.update_high_watermark(8)
    if is_full:
        machine.log.truncate_fully_and_start_at(target)
    else:
        machine.log.truncate_to(target)
    machine.disk.detach(power_loss=True)
    machine.disk.attach()
    machine.start(recovery_point=0)
    assert machine.log.log_end_offset == target
    assert sum(1 for _ in machine.log.batch_headers()) == (0 if is_full else target)
