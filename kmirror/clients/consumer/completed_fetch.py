"""One partition's answer of a Fetch, and what an application may see of it (Kafka's
`CompletedFetch`). Pure.

With read_committed the answer names the aborted transactions that touch it: (producer id, first
offset). Batch by batch:

1. Aborted transactions that begin at or before the batch's last offset become ongoing: their
   producer ids join `aborted`.
2. A control batch with an ABORT marker ends the transaction: its producer id leaves `aborted`.
3. A transactional batch of a producer in `aborted` is skipped.

Whole batches are skipped, never single records. Control batches are not returned as records; as
batches they are, marked. The position goes behind a batch by the batch's own last offset, which
compaction keeps even if the last record is gone.

A batch's base offset and length are not under its CRC. So each batch has to lie where the answer
allows: the first one reaches to the offset that was asked for, each other one begins behind the one
before it, and all end below the high watermark. A single flipped bit would otherwise move the
position past records that nobody has seen. An offset that is too high and still below the high
watermark is noticed at the next batch only; at the last batch it looks like what a cleaner leaves.
The leader epoch is not under the CRC, either, and falls nowhere in a log: a batch whose epoch is
below that of one before it in the same answer is not returned. One that is too high and falls
nowhere cannot be told: an answer says nothing of where epochs begin (`kmirror verify-logs` finds it
beside the log).

If something is wrong with a batch, what came before it is returned, and the next call raises.
Every further call raises the same, until the application seeks past it. After any other error, such
as too little memory to unpack a batch, nothing more is returned: it is fetched again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kmirror.clients.consumer.consumer_types import ConsumedBatch, ConsumerRecord, FetchedBatches
from kmirror.clients.consumer.legacy_records import LegacyBatch, iter_any_batches
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import CONTROL_FLAG, RecordBatch
from kmirror.wire.messages.fetch import PartitionData

NOTHING: Final[Iterator[Record]] = iter(())


class CompletedFetch:
    """Owned by the fetcher. `next_fetch_offset` is where the next fetch has to begin once this
    one `is_consumed`; `last_epoch` is the leader epoch of the last batch that was looked at, -1 if
    there is none."""

    def __init__(
        self,
        partition: TopicPartition,
        row: PartitionData,
        fetch_offset: int,
        *,
        read_committed: bool,
        check_crcs: bool,
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.partition = partition
        self.row = row
        self.fetch_offset = fetch_offset
        self.topic_id = topic_id
        self.next_fetch_offset = fetch_offset
        self.last_epoch = -1
        self.initialized = False
        self.is_consumed = False
        self._read_committed = read_committed
        self._check_crcs = check_crcs
        self._data = _data_of(row)
        self._batches = iter_any_batches(self._data)
        self._aborted_transactions = sorted((entry.first_offset, entry.producer_id) for entry in row.aborted_transactions or ())
        self._aborted: set[int] = set()
        self._behind_last = -1
        """The offset behind the last batch that was looked at; -1 before the first."""
        self._batch: RecordBatch | LegacyBatch | None = None
        self._records: Iterator[Record] | None = None
        self._error: KmirrorError | None = None

    @property
    def error(self) -> Errors:
        return Errors.for_code(self.row.error_code)

    @property
    def size_in_bytes(self) -> int:
        return len(self._data)

    def has_complete_batch(self) -> bool:
        """Whether at least one whole batch came; raises nothing."""
        try:
            return next(iter_any_batches(self._data), None) is not None
        except ApiException:
            return True

    def drain(self) -> None:
        """What is left is not returned."""
        self.is_consumed = True
        self._records = None

    def fetch_batches(self, max_bytes: int) -> FetchedBatches | None:
        """The next visible batches, whole, of `max_bytes` together but at least one; None when
        there is nothing more and the position did not move. UNSUPPORTED_FOR_MESSAGE_FORMAT for
        message formats v0 and v1, which have no batches; `fetch_records` goes on with them."""
        begin, found, size = self.next_fetch_offset, list[ConsumedBatch](), 0
        old: LegacyBatch | None = None
        try:
            self._raise_error()
            row, partition = self.row, self.partition
            while not found or size < max_bytes:
                batch = self._batch if self._records is not None else self._next_batch()
                self._records = None
                if batch is None:
                    break
                if not isinstance(batch, RecordBatch):
                    if batch.next_offset <= self.next_fetch_offset:
                        continue
                    old, self._records = batch, batch.records()
                    break
                position, next_offset = self.next_fetch_offset, batch.base_offset + batch.last_offset_delta + 1
                if next_offset > position:
                    is_control = batch.attributes & CONTROL_FLAG != 0
                    offsets = (row.high_watermark, row.last_stable_offset, row.log_start_offset)
                    found.append(ConsumedBatch(partition, batch, position, next_offset, *offsets, is_control))
                    size += batch.size_in_bytes
                    self.next_fetch_offset = next_offset
        except KmirrorError as error:
            self._remember(error, is_first=not found)
        except BaseException:
            self.drain()
            raise
        if not found and self.next_fetch_offset == begin:
            if old is not None:  # nothing is wrong with them: the error is not kept
                raise ApiException(
                    Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                    f"{self.partition} has messages of format v{old.magic} at offset {begin}; batches need v2",
                )
            return None
        row = self.row
        return FetchedBatches(self.partition, found, begin, self.next_fetch_offset, row.high_watermark, row.log_start_offset, self.topic_id)

    def fetch_records(self, max_records: int) -> list[ConsumerRecord]:
        """The next records, at most that many."""
        found: list[ConsumerRecord] = []
        try:
            self._raise_error()
            while len(found) < max_records:
                record = self._next_record()
                if record is None:
                    break
                found.append(self._consumer_record(record))
                self.next_fetch_offset = record.offset + 1
        except KmirrorError as error:
            self._remember(error, is_first=not found)
        except BaseException:
            self.drain()  # an iterator that broke off would look like one that is done
            raise
        return found

    def _next_record(self) -> Record | None:
        while True:
            if self._records is None:
                batch = self._next_batch()
                if batch is None:
                    return None
                self._records = NOTHING if batch.is_control else batch.records()
            for record in self._records:
                if record.offset >= self.next_fetch_offset:
                    return record
            assert self._batch is not None
            self.next_fetch_offset = max(self.next_fetch_offset, self._batch.next_offset)
            self._records = None

    def _next_batch(self) -> RecordBatch | LegacyBatch | None:
        """The next batch that may be seen; None at the end."""
        if self.is_consumed:
            return None
        for batch in self._batches:
            self._batch = batch
            epoch = batch.partition_leader_epoch
            if epoch != NO_EPOCH:
                if epoch < self.last_epoch and self._check_crcs:
                    raise self._fallen_epoch(batch, epoch)
                self.last_epoch = epoch
            if self._check_crcs and not (isinstance(batch, RecordBatch) and batch.is_valid()):
                self._ensure_valid(batch)
            if self._check_crcs and isinstance(batch, RecordBatch):
                self._ensure_in_place(batch)
            if self._read_committed and isinstance(batch, RecordBatch) and batch.has_producer_id and self._is_aborted(batch):
                self.next_fetch_offset = max(self.next_fetch_offset, batch.next_offset)
                continue
            return batch
        self.is_consumed = True
        return None

    def _is_aborted(self, batch: RecordBatch) -> bool:
        while self._aborted_transactions and self._aborted_transactions[0][0] <= batch.last_offset:
            self._aborted.add(self._aborted_transactions.pop(0)[1])
        if batch.is_control:
            if _is_abort_marker(batch):
                self._aborted.discard(batch.producer_id)
            return False
        return batch.is_transactional and batch.producer_id in self._aborted

    def _ensure_valid(self, batch: RecordBatch | LegacyBatch) -> None:
        try:
            batch.ensure_valid()
        except ApiException as error:
            text = f"Record batch for partition {self.partition} at offset {batch.base_offset} is invalid, cause: {error.message}"
            raise ApiException(error.error, text) from error

    def _fallen_epoch(self, batch: RecordBatch | LegacyBatch, epoch: int) -> ApiException:
        text = f"it is of leader epoch {epoch}, behind one of epoch {self.last_epoch}, at offset {batch.base_offset}"
        return ApiException(Errors.CORRUPT_MESSAGE, f"Record batch for partition {self.partition} is out of place: {text}")

    def _ensure_in_place(self, batch: RecordBatch) -> None:
        """CORRUPT_MESSAGE for a batch whose offsets cannot be what the log has there."""
        first, last, high_watermark = batch.base_offset, batch.last_offset, self.row.high_watermark
        if self._behind_last < 0:
            is_below, bound = last < self.fetch_offset, f"offset {self.fetch_offset} was asked for"
        else:
            is_below, bound = first < self._behind_last, f"the batch before it ends at {self._behind_last - 1}"
        if is_below or last < first or 0 < high_watermark <= last:
            text = f"it has the offsets {first} to {last}; {bound} and the high watermark is {high_watermark}"
            raise ApiException(Errors.CORRUPT_MESSAGE, f"Record batch for partition {self.partition} is out of place: {text}")
        self._behind_last = last + 1

    def _consumer_record(self, record: Record) -> ConsumerRecord:
        batch = self._batch
        assert batch is not None
        return ConsumerRecord(
            self.partition.topic,
            self.partition.partition,
            record.offset,
            record.timestamp,
            batch.timestamp_type,
            None if record.key is None else bytes(record.key),
            None if record.value is None else bytes(record.value),
            record.headers,
            batch.partition_leader_epoch,
        )

    def _remember(self, error: KmirrorError, *, is_first: bool) -> None:
        if self._error is None:
            self._error = error
        if is_first:
            self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            code = self._error.error if isinstance(self._error, ApiException) else Errors.CORRUPT_MESSAGE
            raise ApiException(
                code,
                f"Received exception when fetching the next record from {self.partition}. If needed, please seek past the record to continue "
                f"consumption. ({self._error})",
            ) from self._error


def _data_of(row: PartitionData) -> Buffer:
    records = row.records or b""
    assert isinstance(records, (bytes, bytearray, memoryview)), "a response that was read holds bytes"
    return records


def _is_abort_marker(batch: RecordBatch) -> bool:
    first = next(batch.records(), None)
    return first is not None and ControlRecordType.parse(first.key) is ControlRecordType.ABORT
