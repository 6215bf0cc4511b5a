"""From batches to producer state: the one path for appends, recovery and rebuilds.

Batches are first gathered (and, for clients and coordinators, validated) without touching the
state, then applied once they are written. A MIRROR_PID_RESET splits the gathered batches into
phases: everything before it is applied, then all state is forgotten, then everything after it is
applied to an empty state.
"""

from __future__ import annotations

from collections.abc import Callable

from kmirror.common.ports import Buffer
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.control_record import ControlRecordType, EndTransactionMarker
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_append_info import ProducerAppendInfo
from kmirror.storage.producer_state_entry import CompletedTxn
from kmirror.storage.producer_state_manager import ProducerStateManager


class _Phase:
    """The batches that were gathered between two resets."""

    __slots__ = ("append_infos", "completed")

    def __init__(self) -> None:
        self.append_infos: dict[int, ProducerAppendInfo] = {}
        self.completed: list[CompletedTxn] = []


class ProducerStateUpdate:
    """Gathers batches with `add`; `apply` changes the `ProducerStateManager`. Owns the phases."""

    def __init__(self, manager: ProducerStateManager, origin: AppendOrigin, *, transaction_version: int = 0) -> None:
        self._manager = manager
        self._origin = origin
        self._transaction_version = transaction_version
        self._phases = [_Phase()]

    def add(self, header: BatchHeader, buffer: Buffer, position: int, first_offset: LogOffsetMetadata | None = None) -> None:
        """Gathers the batch at `buffer[position:]`. `first_offset` says where it lies (or will
        lie), if that is known.
        """
        if not header.has_producer_id:
            if header.is_control and _is_pid_reset(RecordBatch(buffer, position)):
                self._phases.append(_Phase())
            return
        info = self._append_info(header.producer_id)
        if header.is_control:
            self._add_marker(info, header, RecordBatch(buffer, position))
        else:
            info.append_data_batch(header, first_offset or LogOffsetMetadata(header.base_offset))
        if header.is_transactional:
            self._manager.clear_verification_state_entry(header.producer_id)

    def _append_info(self, producer_id: int) -> ProducerAppendInfo:
        infos = self._phases[-1].append_infos
        info = infos.get(producer_id)
        if info is None:
            after_reset = len(self._phases) > 1
            prepare = self._manager.prepare_update_after_reset if after_reset else self._manager.prepare_update
            info = infos[producer_id] = prepare(producer_id, self._origin)
        return info

    def _add_marker(self, info: ProducerAppendInfo, header: BatchHeader, batch: RecordBatch) -> None:
        record = next(batch.records(), None)
        if record is None:
            return  # the cleaner emptied it, because the whole transaction is gone
        marker = EndTransactionMarker.deserialize(record)
        completed = info.append_end_txn_marker(
            header,
            is_abort=marker.control_type is ControlRecordType.ABORT,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=record.timestamp,
            transaction_version=self._transaction_version,
        )
        if completed is not None:
            self._phases[-1].completed.append(completed)

    def apply(self, on_completed: Callable[[CompletedTxn, int], None] | None = None) -> None:
        """Changes the state. `on_completed(transaction, last stable offset)` is called for each
        marker, in log order.
        """
        for number, phase in enumerate(self._phases):
            if number:
                self._manager.apply_pid_reset()
            self._manager.update_all(phase.append_infos.values())
            for completed in phase.completed:
                if on_completed is not None:
                    on_completed(completed, self._manager.last_stable_offset(completed))
                self._manager.complete_txn(completed)


def _is_pid_reset(batch: RecordBatch) -> bool:
    record = next(batch.records(), None)
    return record is not None and ControlRecordType.parse(record.key) is ControlRecordType.MIRROR_PID_RESET
