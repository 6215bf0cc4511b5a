"""`UnifiedLog` against a list of batches, under appends, rolls, retention, DeleteRecords,
truncation, reopening and crashes.

A crash copies the folder as it is, nothing closed or flushed, and opens the copy without the
clean-shutdown marker, with a recovery point that is the log's own or older: what a killed process
leaves to the next one. Segments and indexes are tiny, so that a few steps roll, fill indexes and
cross segments.
"""

from __future__ import annotations

import pathlib
import shutil
import tempfile
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.brokers.descriptor_doubles import open_files_below
from support.logs.storage_doubles import StorageWorld

from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

NOW_MS = 1_750_000_000_000
CONFIG = LogConfig(segment_size=2000, index_interval=150, max_index_size=200, retention_ms=-1, retention_size=4000, segment_ms=50_000)
PRODUCERS = (7, 1007, 23)
ALL = 1 << 30


@dataclass
class ModelBatch:
    base_offset: int
    last_offset: int
    leader_epoch: int
    data: bytes
    producer_id: int = -1
    is_transactional: bool = False
    is_marker: bool = False
    is_reset: bool = False


def producer_view(batches: list[ModelBatch]) -> tuple[dict[int, int], dict[int, int]]:
    """(last data offset by producer, first offset of the open transaction by producer) after all
    these batches.
    """
    last: dict[int, int] = {}
    open_transactions: dict[int, int] = {}
    for batch in batches:
        if batch.is_reset:
            last, open_transactions = {}, {}
        elif batch.is_marker:
            open_transactions.pop(batch.producer_id, None)
        elif batch.producer_id >= 0:
            last[batch.producer_id] = batch.last_offset
            if batch.is_transactional:
                open_transactions.setdefault(batch.producer_id, batch.base_offset)
    return last, open_transactions


class UnifiedLogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="log-machine-"))
        self.world = StorageWorld(NOW_MS)
        self.generation = 0
        self.model: list[ModelBatch] = []
        self.log_start = self.log_end = 0
        self.leader_epoch = 0
        self.producers_were_loaded = False

    def teardown(self) -> None:
        self.log.close_handlers()
        assert open_files_below(self.root) == []
        shutil.rmtree(self.root)

    @property
    def folder(self) -> pathlib.Path:
        return self.root / str(self.generation) / "t-0"

    @initialize()
    def create(self) -> None:
        self.open(clean=True, recovery_point=0)

    def open(self, *, clean: bool, recovery_point: int) -> None:
        self.folder.parent.mkdir(exist_ok=True)
        self.log = UnifiedLog.open(
            str(self.folder),
            CONFIG,
            self.world.ports,
            LogOpenOptions(
                log_start_offset=self.log_start,
                recovery_point=recovery_point,
                last_shutdown_clean=clean,
                producer_state_config=ProducerStateManagerConfig(transaction_verification_enabled=False),
            ),
        )
        self.log.update_high_watermark(self.log.log_end_offset)
        self.producers_were_loaded = self.producers_were_loaded or self.log_start > 0

    # appends
    def leader_append(self, data: bytearray, origin: AppendOrigin, batch: ModelBatch) -> None:
        info = self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=origin)
        assert (info.first_offset, info.is_duplicate) == (self.log_end, False)
        self.model.append(
            replace(batch, base_offset=info.first_offset, last_offset=info.last_offset, leader_epoch=self.leader_epoch, data=bytes(data))
        )
        self.log_end = info.last_offset + 1

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=4),
        producer=st.sampled_from((-1, *PRODUCERS)),
        transactional=st.booleans(),
        age_ms=st.integers(-70_000, 70_000),
    )
    def append(self, sizes: list[int], producer: int, transactional: bool, age_ms: int) -> None:
        entry = self.log.producer_state_manager.last_entry(producer)
        if entry is not None and entry.current_txn_first_offset is not None:
            transactional = True
        records = [Record(index, NOW_MS + age_ms + index, None, bytes(size), [], -1) for index, size in enumerate(sizes)]
        identity = {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0}
        if producer >= 0:
            identity["base_sequence"] = 0 if entry is None else entry.last_sequence + 1
        is_transactional = transactional and producer >= 0
        data = bytearray(build_batch(records, base_offset=0, is_transactional=is_transactional, **identity))
        batch = ModelBatch(0, 0, 0, b"", producer_id=producer, is_transactional=is_transactional)
        duplicate = bytes(data)
        self.leader_append(data, AppendOrigin.CLIENT, batch)
        if producer >= 0:
            again = self.log.append_as_leader(bytearray(duplicate), leader_epoch=self.leader_epoch)
            assert (again.is_duplicate, again.first_offset) == (True, self.model[-1].base_offset)

    @rule(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=3), gap=st.integers(0, 5), epoch_step=st.integers(0, 2))
    def append_as_follower(self, sizes: list[int], gap: int, epoch_step: int) -> None:
        self.leader_epoch += epoch_step
        chunk = b""
        offset = self.log_end + gap
        batches = []
        for size in sizes:
            record = Record(offset, NOW_MS, b"k", bytes(size), [], -1)
            data = bytes(build_batch([record], base_offset=offset, partition_leader_epoch=self.leader_epoch))
            batches.append(ModelBatch(offset, offset, self.leader_epoch, data))
            chunk += data
            offset += 1
        beyond = bytes(
            build_batch([Record(offset, NOW_MS, None, None, [], -1)], base_offset=offset, partition_leader_epoch=self.leader_epoch + 1)
        )
        info = self.log.append_as_follower(chunk + beyond, leader_epoch=self.leader_epoch)
        assert info.skipped_higher_epoch and info.last_offset == offset - 1
        self.model += batches
        self.log_end = offset

    @rule(producer=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        control_type = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        data = build_end_transaction_marker(control_type, producer_id=producer, producer_epoch=0, coordinator_epoch=1, timestamp=NOW_MS)
        self.leader_append(bytearray(data), AppendOrigin.COORDINATOR, ModelBatch(0, 0, 0, b"", producer_id=producer, is_marker=True))

    @rule()
    def pid_reset(self) -> None:
        data = build_mirror_pid_reset("source", timestamp=NOW_MS)
        self.leader_append(data, AppendOrigin.COORDINATOR, ModelBatch(0, 0, 0, b"", is_reset=True))

    @rule()
    def become_leader(self) -> None:
        self.leader_epoch += 1
        self.log.maybe_assign_epoch_start_offset(self.leader_epoch, self.log_end)

    # shape
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()

    @rule(offset=st.integers(0, 60))
    def delete_records(self, offset: int) -> None:
        self.log.update_high_watermark(self.log_end)
        offset = min(self.log_start + offset, self.log_end)
        self.log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        self.log_start = max(self.log_start, offset)

    @rule()
    def retention(self) -> None:
        self.log.update_high_watermark(self.log_end)
        self.log.delete_old_segments()
        assert self.log.log_start_offset >= self.log_start
        self.log_start = self.log.log_start_offset
        self.forget_below_first_segment()

    def forget_below_first_segment(self) -> None:
        first = self.log.segments.first_segment_base_offset
        assert first is not None and first <= self.log_start
        self.model = [batch for batch in self.model if batch.base_offset >= first]

    @rule(back=st.integers(0, 25), at_batch_boundary=st.booleans())
    def truncate(self, back: int, at_batch_boundary: bool) -> None:
        target = max(self.log_end - back, 0)
        cut = self.log.truncate_to(target, at_batch_boundary=at_batch_boundary)
        if at_batch_boundary:
            containing = [batch for batch in self.model if batch.last_offset >= target]
            target = min([target, *(batch.base_offset for batch in containing)])
        assert cut is (target < self.log_end)
        if cut:
            self.model = [batch for batch in self.model if batch.last_offset < target]
            self.log_end = target
            self.log_start = min(self.log_start, target)
            self.leader_epoch = max(self.leader_epoch, self.log.latest_epoch or 0)

    @rule(offset=st.integers(0, 200))
    def truncate_fully(self, offset: int) -> None:
        self.log.truncate_fully_and_start_at(offset)
        self.model = []
        self.log_start = self.log_end = offset

    @rule(ms=st.sampled_from((0, 1000, 61_000)))
    def time_goes_by(self, ms: int) -> None:
        self.world.scheduler.advance(ms)

    # the end
    @rule()
    def reopen(self) -> None:
        self.world.scheduler.run_due()
        self.log.flush(force_flush_active_segment=True)
        self.log.close()
        had_gap = self.has_gap_at_end
        self.open(clean=True, recovery_point=self.log.recovery_point)
        if had_gap:
            self.accept_shorter_log()
        self.forget_below_first_segment()

    @rule(forget_recovery_point=st.booleans())
    def crash(self, forget_recovery_point: bool) -> None:
        before = self.folder
        self.generation += 1
        self.folder.parent.mkdir()
        shutil.copytree(before, self.folder)
        recovery_point = 0 if forget_recovery_point else self.log.recovery_point
        self.log.close_handlers()
        had_gap = self.has_gap_at_end
        self.world = StorageWorld(self.world.clock.now_ms)
        self.open(clean=False, recovery_point=recovery_point)
        if had_gap:
            self.accept_shorter_log()
        self.forget_below_first_segment()

    @property
    def segment_zero_is_there(self) -> bool:
        return self.log.segments.first_segment_base_offset == 0

    @property
    def has_gap_at_end(self) -> bool:
        return not self.model or self.model[-1].last_offset + 1 < self.log_end

    def accept_shorter_log(self) -> None:
        """No batch holds the log end (a truncation inside a batch, an empty log): loading takes it
        back to the last batch.
        """
        assert self.log.log_end_offset <= self.log_end
        floor = self.model[-1].last_offset + 1 if self.model else self.log_start
        assert self.log.log_end_offset >= min(floor, self.log_start)
        self.log_end = self.log.log_end_offset
        self.log_start = self.log.log_start_offset

    # what must hold
    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert (self.log.log_start_offset, self.log.log_end_offset) == (self.log_start, self.log_end)
            assert self.log.log_start_offset <= self.log.last_stable_offset <= self.log.high_watermark <= self.log.log_end_offset

    @invariant()
    def bytes_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.read_all(self.log_start) == [batch.data for batch in self.model if batch.last_offset >= self.log_start]

    @invariant()
    def batch_headers_agree(self) -> None:
        if hasattr(self, "log"):
            expected = [(batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in self.model]
            headers = list(self.log.batch_headers())
            assert [(header.base_offset, header.last_offset, header.partition_leader_epoch) for header in headers] == expected
            last = self.log.last_batch()
            assert (last and last.base_offset) == (self.model[-1].base_offset if self.model else None)

    @invariant()
    def producers_agree(self) -> None:
        if not hasattr(self, "log"):
            return
        last, _ = producer_view([batch for batch in self.model if batch.last_offset >= self.log_start])
        active = self.log.producer_state_manager.active_producers
        for producer_id, offset in last.items():
            assert active[producer_id].last_data_offset == offset
        _, open_transactions = producer_view(self.model)
        everything_known = self.log_start == 0 and (not self.model or self.segment_zero_is_there)
        if everything_known:
            assert {producer for producer, entry in active.items() if entry.last_data_offset >= 0} == set(last)
        if self.segment_zero_is_there and not self.producers_were_loaded:
            self.log.update_high_watermark(self.log_end)
            assert self.log.last_stable_offset == max(self.log_start, min([*open_transactions.values(), self.log_end]))

    @precondition(lambda self: bool(self.model))
    @rule(data=st.data())
    def find_by_offset(self, data: st.DataObject) -> None:
        """Index look-up against a linear scan."""
        offset = data.draw(st.integers(0, self.log_end))
        found = self.log.batch_containing(offset)
        expected = next((batch.base_offset for batch in self.model if batch.last_offset >= offset), None)
        assert (found and found.base_offset) == expected
        before = self.log.batch_before(offset)
        lower = [batch.base_offset for batch in self.model if batch.base_offset < offset]
        assert (before and before.base_offset) == (lower[-1] if lower else None)

    def read_all(self, offset: int) -> list[bytes]:
        """Batch by batch, with a limit so small that only min_one_message makes it go on."""
        found: list[bytes] = []
        while offset < self.log_end:
            info = self.log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True)
            if not info.records.size:
                break
            data = info.records.to_bytes()
            found.append(data)
            header = self.log.batch_containing(offset)
            assert header is not None and header.size_in_bytes == len(data)
            offset = header.next_offset
        return found


TestUnifiedLog = UnifiedLogMachine.TestCase
TestUnifiedLog.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
