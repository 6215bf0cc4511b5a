"""What the recovery of a segment needs besides the segment: its errors, and what batches mean for epochs and producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.errors import CorruptFileError
from kmirror.record.append_origin import AppendOrigin
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.producer_state_entry import CompletedTxn
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_update import ProducerStateUpdate

if TYPE_CHECKING:
    from kmirror.storage.log_segment import LogSegment


class LogSegmentOffsetOverflowError(CorruptFileError):
    """An offset is too far from the segment's base for the indexes; the segment must be split."""

    def __init__(self, segment: LogSegment, offset: int, position: int) -> None:
        super().__init__(segment.path, position, f"offset {offset} is out of range for base offset {segment.base_offset}")
        self.segment = segment
        self.offset = offset


class InvalidOffsetError(CorruptFileError):
    """Offsets do not ascend: no index can be built over this segment."""


class StateRecovery:
    """Feeds recovered batches to the epochs and the producers. Plain data batches are applied together, which is what makes the
    recovery of many small ones bearable; transactional and control batches one by one, for they move the last stable offset."""

    def __init__(
        self,
        producers: ProducerStateManager,
        epochs: LeaderEpochFileCache | None,
        on_completed: Callable[[CompletedTxn, int], None],
    ) -> None:
        self._producers = producers
        self._epochs = epochs
        self._on_completed = on_completed
        self._update: ProducerStateUpdate | None = None
        self._latest_epoch = None if epochs is None else epochs.latest_epoch
        self._next_offset: int | None = None

    def add(self, header: BatchHeader, batch: memoryview) -> None:
        epoch = header.partition_leader_epoch
        if self._epochs is not None and epoch >= 0 and (self._latest_epoch is None or epoch > self._latest_epoch):
            self._epochs.assign(epoch, header.base_offset)
            self._latest_epoch = epoch
        if header.has_producer_id or header.is_control:
            is_plain = not (header.is_control or header.is_transactional)
            if not is_plain:
                self.apply()
            if self._update is None:
                self._update = ProducerStateUpdate(self._producers, AppendOrigin.REPLICATION)
            self._update.add(header, batch, 0)
            self._next_offset = header.next_offset
            if not is_plain:
                self.apply()
        self._next_offset = header.next_offset

    def apply(self) -> None:
        """Everything that was added is in the states now."""
        if self._update is not None:
            self._update.apply(self._on_completed)
            self._update = None
        if self._next_offset is not None:
            self._producers.update_map_end_offset(self._next_offset)
