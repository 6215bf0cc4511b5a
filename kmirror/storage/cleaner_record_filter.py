"""What happens to one batch when the cleaner copies a segment (Kafka's `RecordFilter` and
`MemoryRecords.filterTo`).

A batch is, in this order of preference,

* copied byte for byte, when every record stays and no delete horizon has to be set;
* rebuilt with the records that stay: same codec, base offset, last offset, producer and epochs; timestamps anew;
* kept as a bare header without records, when it holds the last data offset of a live producer (its sequence number),
  or the last marker of one without data (its epoch), or is the last batch of the cleaning round (its offset);
* dropped.

A record stays if it lies above the offsets that the map covers, or if it is the last one of its key
and not a tombstone past its horizon. A *delete horizon* is the time from which tombstones, and
markers without data, may be dropped. The first pass that meets one writes the horizon into the
batch in place of the base timestamp (attribute bit 6), and a later pass acts on it. Records without
a key do not belong in a compacted log and are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from kmirror.common.ports import Buffer
from kmirror.record.builder import empty_batch, rebuild_batch
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.cleaned_transaction_metadata import CleanedTransactionMetadata
from kmirror.storage.cleaner_offset_map import OffsetMap
from kmirror.storage.cleaner_record_keys import RecordKey, record_keys


class LastRecord(NamedTuple):
    """A live producer's last data offset (None if it wrote only markers) and its epoch."""

    last_data_offset: int | None
    producer_epoch: int


class CleanerStats(Struct):
    """What a pass read, kept and dropped, for the log line and the metrics."""

    messages_read: int = 0
    bytes_read: int = 0
    messages_written: int = 0
    bytes_written: int = 0
    invalid_messages_read: int = 0
    buffer_utilization: float = 0.0
    """Share of the offset map's slots that were taken."""


class CleanerRecordFilter:
    """Decides about batches in offset order. Owns whether the last batch kept a tombstone.

    There is one for each pass; `last_records_of_active_producers` is set anew for every group of
    segments.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        transaction_metadata: CleanedTransactionMetadata,
        stats: CleanerStats,
        *,
        upper_bound_offset: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        """`upper_bound_offset` is the end of the cleaning round, the first uncleanable offset."""
        self.last_records_of_active_producers: Mapping[int, LastRecord] = {}
        self._offset_map = offset_map
        self.transaction_metadata = transaction_metadata
        self._stats = stats
        self._upper_bound_offset = upper_bound_offset
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._has_kept_tombstone = False

    def filter(self, batch: RecordBatch) -> Buffer | None:
        """The bytes that replace the batch; None if it is dropped."""
        kept = self._filter(batch)
        self._stats.bytes_read += batch.size_in_bytes
        if kept is not None:
            self._stats.bytes_written += len(kept)
        return kept

    def _filter(self, batch: RecordBatch) -> Buffer | None:
        discardable = self._is_discardable(batch)
        discard_records = discardable
        if batch.is_control:
            horizon = batch.delete_horizon_ms
            discard_records = discardable and horizon is not None and horizon <= self._now_ms
        retain_empty = self._holds_producer_state(batch) or batch.last_offset + 1 == self._upper_bound_offset
        if discard_records and not retain_empty:
            return None
        kept = [] if discard_records else self._kept(batch)
        retained_count = sum(kept)
        if not retained_count:
            return empty_batch(batch) if retain_empty else None
        self._stats.messages_written += retained_count
        marker_of_empty_transaction = discardable and batch.is_control
        needs_horizon = batch.delete_horizon_ms is None and (marker_of_empty_transaction or self._has_kept_tombstone)
        if retained_count == len(kept) and not needs_horizon:
            return batch.memory
        horizon = self._now_ms + self._delete_retention_ms if needs_horizon else None
        retained = [record for record, is_kept in zip(batch.records(), kept, strict=True) if is_kept]
        return rebuild_batch(batch, retained, delete_horizon_ms=horizon)

    def _is_discardable(self, batch: RecordBatch) -> bool:
        if batch.is_control:
            return self.transaction_metadata.on_control_batch_read(batch)
        return self.transaction_metadata.on_batch_read(batch)

    def _holds_producer_state(self, batch: RecordBatch) -> bool:
        last = self.last_records_of_active_producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_data_offset is not None:
            return batch.last_offset == last.last_data_offset
        return batch.is_control and batch.producer_epoch == last.producer_epoch

    def _kept(self, batch: RecordBatch) -> list[bool]:
        """For each record whether it stays; notes whether a tombstone is among them."""
        rows = record_keys(batch)
        self._stats.messages_read += len(rows)
        if batch.is_control:
            kept = [True] * len(rows)
        else:
            horizon = batch.delete_horizon_ms
            keep_tombstones = horizon is None or self._now_ms < horizon
            kept = [self._is_kept(row, keep_tombstones=keep_tombstones) for row in rows]
        self._has_kept_tombstone = any(is_kept and not row.has_value for row, is_kept in zip(rows, kept, strict=True))
        return kept

    def _is_kept(self, row: RecordKey, *, keep_tombstones: bool) -> bool:
        if row.offset > self._offset_map.latest_offset:
            return True
        if row.key is None:
            self._stats.invalid_messages_read += 1
            return False
        if row.offset < self._offset_map.get(row.key):
            return False
        return keep_tombstones or row.has_value
