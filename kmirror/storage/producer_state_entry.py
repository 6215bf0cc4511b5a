"""What a partition remembers about one producer: its epoch, its last five batches, and its open
transaction.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from kmirror.record.record import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence
from kmirror.storage.log_offset_metadata import LogOffsetMetadata

NUM_BATCHES_TO_RETAIN: Final = 5


class BatchMetadata(NamedTuple):
    """One batch of a producer; `offset_delta` is last offset - base offset."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class TxnMetadata:
    """A transaction of a partition: ongoing, or completed by the marker at `last_offset`."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: LogOffsetMetadata, last_offset: int | None = None) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset

    def __repr__(self) -> str:
        return f"TxnMetadata(producer_id={self.producer_id}, first_offset={self.first_offset}, last_offset={self.last_offset})"


class CompletedTxn(NamedTuple):
    """A transaction with data and the marker that ended it."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerStateEntry:
    """The state of one producer id (Kafka's `ProducerStateEntry`)."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_append_ms",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        *,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp: int = NO_TIMESTAMP,
        current_txn_first_offset: int | None = None,
        batch: BatchMetadata | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.last_append_ms = NO_TIMESTAMP
        """When this broker last took something from the producer. A snapshot does not store it."""
        self.current_txn_first_offset = current_txn_first_offset
        self.batches: deque[BatchMetadata] = deque(() if batch is None else (batch,), maxlen=NUM_BATCHES_TO_RETAIN)

    @property
    def is_empty(self) -> bool:
        return not self.batches

    @property
    def first_sequence(self) -> int:
        return self.batches[0].first_sequence if self.batches else NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def without_batches(self) -> ProducerStateEntry:
        """A copy without batches, in which an append is accumulated."""
        return ProducerStateEntry(
            self.producer_id,
            producer_epoch=self.producer_epoch,
            coordinator_epoch=self.coordinator_epoch,
            last_timestamp=self.last_timestamp,
            current_txn_first_offset=self.current_txn_first_offset,
        )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        self._maybe_update_producer_epoch(producer_epoch)
        self.batches.append(batch)
        self.last_timestamp = batch.timestamp

    def _maybe_update_producer_epoch(self, producer_epoch: int) -> None:
        if self.producer_epoch != producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """Notes a marker: no transaction is open any more, and a new epoch clears the batches."""
        self._maybe_update_producer_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_first_offset = None
        self.last_timestamp = timestamp

    def update(self, next_entry: ProducerStateEntry) -> None:
        """Takes over what `next_entry` accumulated since it was copied from this one."""
        self._maybe_update_producer_epoch(next_entry.producer_epoch)
        self.batches.extend(next_entry.batches)
        self.coordinator_epoch = next_entry.coordinator_epoch
        self.current_txn_first_offset = next_entry.current_txn_first_offset
        self.last_timestamp = next_entry.last_timestamp

    def find_duplicate_batch(self, producer_epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        if producer_epoch != self.producer_epoch:
            return None
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"current_txn_first_offset={self.current_txn_first_offset}, coordinator_epoch={self.coordinator_epoch}, "
            f"last_timestamp={self.last_timestamp}, batches={list(self.batches)})"
        )


class VerificationGuard:
    """The token of one verification of a transaction; compared by identity."""

    __slots__ = ()


class VerificationStateEntry:
    """The state of a transaction's verification while its coordinator is asked. Blocks sequences
    above the lowest one seen.
    """

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump", "timestamp", "verification_guard")

    def __init__(self, timestamp: int, *, sequence: int, epoch: int, supports_epoch_bump: bool) -> None:
        self.timestamp = timestamp
        self.verification_guard = VerificationGuard()
        self.lowest_sequence = sequence
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump

    def maybe_update_lowest_sequence_and_epoch(self, sequence: int, epoch: int) -> None:
        if epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
