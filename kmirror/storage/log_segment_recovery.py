"""Recovery of a segment after an unclean shutdown: every batch is checked, and everything that is
derived from batches is rebuilt (the scan of Kafka's `LogSegment.recover`).

A broker starts only after this, and a segment from a producer of small batches holds a hundred
thousand of them. So the scan is one loop over a block of the file, on the raw header fields. These
are left out of the loop, for these reasons:

- *Odd batches.* The loop stops before a batch that is not wholly in its block, too short, or of
  another format. The next block begins there, and `segment_scan.read_block_with_batch` says what it
  is: the end, an error, or a batch that only needed more bytes.
- *Producers.* A producer's entry keeps its last five batches. A batch that has the same producer,
  epoch and kind (plain, or part of an open transaction) as an earlier one cannot be refused, and
  cannot open or end anything. Of a run of such batches only the last five matter: they are kept in
  a tail until something else happens. Markers, resets, the first batch of a transaction and every new
  epoch are applied one by one, after the tails that could matter to them.
- *Epochs and index entries* are few, and are added by the same calls as in an append.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.record_batch import (
    ATTRIBUTES_POSITION,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from kmirror.storage.batch_header import BatchHeader, RawHeader, unpack_raw_header
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_offset_metadata import MAX_RELATIVE_OFFSET
from kmirror.storage.log_segment_files import LogSegmentFiles
from kmirror.storage.producer_state_entry import NUM_BATCHES_TO_RETAIN, CompletedTxn
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_update import ProducerStateUpdate
from kmirror.storage.segment_scan import read_block_with_batch, refuse_crc
from kmirror.storage.time_index import TimestampOffset

_KIND: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG
_SMALLEST_LENGTH: Final = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD
_Tails = dict[tuple[int, int, int], deque[RawHeader]]
"""The last batches by (producer id, producer epoch, transactional and control flags)."""


class LogSegmentOffsetOverflowError(CorruptFileError):
    """An offset is too far from the segment's base for its indexes; the segment must be split."""

    def __init__(self, path: str, position: int, *, offset: int, base_offset: int) -> None:
        super().__init__(path, position, f"offset {offset} is out of range for base offset {base_offset}")
        self.offset = offset


class InvalidOffsetError(CorruptFileError):
    """Offsets do not ascend, so no index can be built for this segment."""


class SegmentRecovery:
    """One scan of the first `size` bytes; owns how far it has come.

    The indexes are empty before. `scan` fills them and the epochs, `finish` the producers.
    """

    def __init__(
        self,
        segment: LogSegmentFiles,
        producers: ProducerStateManager,
        epochs: LeaderEpochFileCache | None,
        *,
        size: int,
        index_interval_bytes: int,
    ) -> None:
        self.largest = segment.time_index.last_entry
        """The largest timestamp of the scanned batches, and the last offset of the first batch that
        has it.
        """
        self.valid_bytes = 0
        """The end of the batches scanned so far."""
        self._segment = segment
        self._size = size
        self._index_interval_bytes = index_interval_bytes
        self._last_index_entry = 0
        self._epochs = epochs
        self._last_offset: int | None = None
        self._producers = producers
        self._states = _ProducerRecovery(producers, segment.update_txn_index)

    @property
    def next_offset(self) -> int:
        """The offset after the last scanned batch."""
        return self._segment.base_offset if self._last_offset is None else self._last_offset + 1

    def scan(self) -> None:
        """Scans the batches up to the end. CorruptBatchError at one that is not valid; `finish`
        must be called even then.

        InvalidOffsetError and LogSegmentOffsetOverflowError mean that this segment cannot be
        recovered.
        """
        file, end = self._segment.file, self._size
        while block := read_block_with_batch(file, self.valid_bytes, end):
            self._take(block)

    def finish(self) -> None:
        """Puts every batch before `valid_bytes` into the producer states."""
        self._states.apply()
        if self._last_offset is not None:
            self._producers.update_map_end_offset(self._last_offset + 1)

    def _take(self, block: bytes) -> None:
        """Scans the batches at the head of `block`, which lies at `valid_bytes` in the file."""
        view, size = memoryview(block), len(block)
        position, last_start = self.valid_bytes, size - RECORD_BATCH_OVERHEAD
        lowest, highest = self._segment.base_offset, self._segment.base_offset + MAX_RELATIVE_OFFSET
        next_entry = self._last_index_entry + self._index_interval_bytes - position
        max_timestamp, latest_epoch = self.largest.timestamp, self._latest_epoch()
        tails = self._states.tails
        start, offset = 0, self._last_offset
        try:
            while start <= last_start:
                header = unpack_raw_header(block, start)
                base_offset, length, epoch, magic, crc, attributes, delta, _, timestamp, producer_id, producer_epoch, _, _ = header
                end = start + length + LOG_OVERHEAD
                if end > size or length < _SMALLEST_LENGTH or 0 <= magic < CURRENT_MAGIC:
                    break
                computed = crc32c(view[start + ATTRIBUTES_POSITION : end])
                if computed != crc:
                    refuse_crc(self._segment.path, position + start, crc, computed)
                offset = base_offset + delta
                if not lowest <= offset <= highest:
                    raise LogSegmentOffsetOverflowError(self._segment.path, position + start, offset=offset, base_offset=lowest)
                if timestamp > max_timestamp:
                    max_timestamp = timestamp
                    self.largest = TimestampOffset(timestamp, offset)
                if start > next_entry:
                    self._add_index_entries(offset, position + start)
                    next_entry = start + self._index_interval_bytes
                if epoch > latest_epoch:
                    latest_epoch = self._assign_epoch(epoch, base_offset)
                if producer_id >= 0:
                    tail = tails.get((producer_id, producer_epoch, attributes & _KIND))
                    if tail is not None:
                        tail.append(header)
                    else:
                        self._states.add(header, view[start:end])
                elif attributes & CONTROL_FLAG:
                    self._states.add(header, view[start:end])
                start = end
        finally:
            self.valid_bytes = position + start
            self._last_offset = offset

    def _latest_epoch(self) -> int:
        if self._epochs is None:
            return 1 << 31  # above every epoch: none is kept
        latest = self._epochs.latest_epoch
        return -1 if latest is None else latest

    def _assign_epoch(self, epoch: int, base_offset: int) -> int:
        assert self._epochs is not None, ("an epoch without a cache", epoch, self._segment.path)
        self._epochs.assign(epoch, base_offset)
        return epoch

    def _add_index_entries(self, offset: int, position: int) -> None:
        """Adds entries for the batch at `position`, which ends with `offset`, because enough bytes
        lie between it and the last batch that got entries.
        """
        offset_index = self._segment.offset_index
        if offset_index.entries and offset <= offset_index.last_offset:
            raise InvalidOffsetError(self._segment.path, position, f"offset {offset} after {offset_index.last_offset}")
        offset_index.append(offset, position)
        self._segment.time_index.maybe_append(self.largest.timestamp, self.largest.offset)
        self._last_index_entry = position


class _ProducerRecovery:
    """Passes recovered batches to the producers. Owns the tails.

    Batches without a key in `tails` go through `add`, all others straight into their tail.
    """

    def __init__(self, producers: ProducerStateManager, on_completed: Callable[[CompletedTxn, int], None]) -> None:
        self.tails: _Tails = {}
        self._of_run: set[int] = set()
        self._producers = producers
        self._on_completed = on_completed
        self._update = ProducerStateUpdate(producers, AppendOrigin.REPLICATION)

    def add(self, raw: RawHeader, batch: memoryview) -> None:
        """Takes a batch that may change more than the list of its producer's batches.

        Transactional and control batches are applied at once, because they move the last stable
        offset. Earlier batches are applied before a producer's next epoch, which makes the producer
        forget them.
        """
        header = BatchHeader(*raw, 0)
        key = (header.producer_id, header.producer_epoch, header.attributes & _KIND)
        is_plain = not key[2]
        if not is_plain or header.producer_id in self._of_run:
            self.apply()
        self._update.add(header, batch, 0)
        if not is_plain:
            self.apply()
        if not header.is_control:
            self.tails[key] = deque(maxlen=NUM_BATCHES_TO_RETAIN)
            self._of_run.add(header.producer_id)

    def apply(self) -> None:
        """Applies everything that was added to the states."""
        for tail in self.tails.values():
            for raw in tail:
                self._update.add(BatchHeader(*raw, 0), b"", 0)
        self.tails.clear()
        self._of_run.clear()
        self._update.apply(self._on_completed)
        self._update = ProducerStateUpdate(self._producers, AppendOrigin.REPLICATION)
