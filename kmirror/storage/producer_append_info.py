"""One producer's part of one append: validated batch by batch, then applied as a whole (Kafka's
`ProducerAppendInfo`).

The origin of the append decides what is checked. Clients: epoch and sequence. Coordinators: the
epoch (offset commits have no sequence). Replication and recovery: nothing is refused, because the
leader accepted it; oddities are only logged.
"""

from __future__ import annotations

import logging

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_SEQUENCE
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_state_entry import (
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    VerificationStateEntry,
)

log = logging.getLogger(__name__)
MAX_SEQUENCE = 0x7FFFFFFF


class ProducerAppendInfo:
    """Accumulates the batches of `current_entry`'s producer in one append. `updated_entry` is the
    result; `lost_transactions` are first offsets of transactions that nobody can end any more.
    """

    __slots__ = (
        "current_entry",
        "lost_transactions",
        "origin",
        "producer_id",
        "started_transactions",
        "topic_partition",
        "updated_entry",
        "verification_state_entry",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        producer_id: int,
        current_entry: ProducerStateEntry,
        origin: AppendOrigin,
        verification_state_entry: VerificationStateEntry | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.producer_id = producer_id
        self.current_entry = current_entry
        self.origin = origin
        self.verification_state_entry = verification_state_entry
        self.updated_entry = current_entry.without_batches()
        self.started_transactions: list[TxnMetadata] = []
        self.lost_transactions: list[int] = []

    def append_data_batch(self, header: BatchHeader, first_offset: LogOffsetMetadata) -> None:
        """Adds a data batch. INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or
        INVALID_TXN_STATE if it does not follow the producer's state.
        """
        self._check_producer_epoch(header.producer_epoch, header.base_offset)
        if self.origin is AppendOrigin.CLIENT:
            self._check_sequence(header.producer_epoch, header.base_sequence, header.base_offset)
        entry = self.updated_entry
        batch = BatchMetadata(header.last_sequence, header.last_offset, header.last_offset_delta, header.max_timestamp)
        entry.add_batch(header.producer_epoch, batch)
        if entry.current_txn_first_offset is not None and not header.is_transactional:
            self._refuse_write_outside_transaction(entry, header.base_offset)
        if entry.current_txn_first_offset is None and header.is_transactional:
            entry.current_txn_first_offset = header.base_offset
            self.started_transactions.append(TxnMetadata(self.producer_id, first_offset))

    def _refuse_write_outside_transaction(self, entry: ProducerStateEntry, offset: int) -> None:
        """INVALID_TXN_STATE for a client. What a leader has accepted, or a log holds, stays: whoever
        accepted it had lost the transaction, because its records are below the log start offset.
        """
        message = f"Expected transactional write from producer {self.producer_id} at offset {offset} in partition {self.topic_partition}"
        if self.origin is not AppendOrigin.REPLICATION:
            raise ApiException(Errors.INVALID_TXN_STATE, message)
        assert entry.current_txn_first_offset is not None
        log.warning("%s; the transaction that began at offset %d is forgotten", message, entry.current_txn_first_offset)
        self.lost_transactions.append(entry.current_txn_first_offset)
        entry.current_txn_first_offset = None

    def append_end_txn_marker(
        self, header: BatchHeader, *, is_abort: bool, coordinator_epoch: int, timestamp: int, transaction_version: int = 0
    ) -> CompletedTxn | None:
        """Adds a marker. Returns the transaction that it ended; None if that had no data in this
        partition.
        """
        self._check_marker_epoch(header.producer_epoch, header.base_offset, transaction_version)
        self._check_coordinator_epoch(coordinator_epoch, header.base_offset)
        first_offset = self.updated_entry.current_txn_first_offset
        self.updated_entry.end_transaction(header.producer_epoch, coordinator_epoch, timestamp)
        return None if first_offset is None else CompletedTxn(self.producer_id, first_offset, header.base_offset, is_abort)

    def _check_producer_epoch(self, producer_epoch: int, offset: int) -> None:
        if producer_epoch < self.updated_entry.producer_epoch:
            self._refuse_epoch(producer_epoch, offset)

    def _check_marker_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        """Transactions of version 2 bump the epoch with each marker. A repeated marker (equal
        epoch, nothing open) is accepted.
        """
        entry = self.updated_entry
        lenient = transaction_version < 2 or self.origin is AppendOrigin.REPLICATION
        is_retry = producer_epoch == entry.producer_epoch and entry.current_txn_first_offset is None
        if producer_epoch < entry.producer_epoch or not (lenient or is_retry or producer_epoch > entry.producer_epoch):
            self._refuse_epoch(producer_epoch, offset)

    def _refuse_epoch(self, producer_epoch: int, offset: int) -> None:
        message = (
            f"Epoch of producer {self.producer_id} at offset {offset} in {self.topic_partition} is {producer_epoch}, "
            f"which is smaller than the last seen epoch {self.updated_entry.producer_epoch}"
        )
        if self.origin is not AppendOrigin.REPLICATION:
            raise ApiException(Errors.INVALID_PRODUCER_EPOCH, message)
        log.warning(message)

    def _check_coordinator_epoch(self, coordinator_epoch: int, offset: int) -> None:
        current = self.updated_entry.coordinator_epoch
        if current <= coordinator_epoch:
            return
        message = (
            f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset} in partition {self.topic_partition}: "
            f"{coordinator_epoch} (zombie), {current} (current)"
        )
        if self.origin is not AppendOrigin.REPLICATION:
            raise ApiException(Errors.TRANSACTION_COORDINATOR_FENCED, message)
        log.info(message)

    def _check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        where = f"for producer {self.producer_id} at offset {offset} in partition {self.topic_partition}"
        verification = self.verification_state_entry
        if verification is not None and verification.supports_epoch_bump and first_sequence != 0 and self.current_entry.is_empty:
            raise _out_of_order(
                f"Invalid sequence number {where}: {first_sequence} (incoming seq. number). Expected sequence 0 for a producer with no state"
            )
        if verification is not None and first_sequence > verification.lowest_sequence:
            raise _out_of_order(
                f"Out of order sequence number {where}: {first_sequence} (incoming seq. number), "
                f"{verification.lowest_sequence} (earliest seen sequence)"
            )
        updated = self.updated_entry
        if producer_epoch != updated.producer_epoch:
            if first_sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise _out_of_order(
                    f"Invalid sequence number for new epoch of producer {self.producer_id} at offset {offset} in partition "
                    f"{self.topic_partition}: {producer_epoch} (request epoch), {first_sequence} (seq. number), "
                    f"{updated.producer_epoch} (current producer epoch)"
                )
            return
        last_sequence = self._last_sequence(producer_epoch)
        if self.current_entry.producer_epoch != NO_PRODUCER_EPOCH and not _in_sequence(last_sequence, first_sequence):
            raise _out_of_order(
                f"Out of order sequence number {where}: {first_sequence} (incoming seq. number), {last_sequence} (current end sequence number)"
            )

    def _last_sequence(self, producer_epoch: int) -> int:
        if not self.updated_entry.is_empty:
            return self.updated_entry.last_sequence
        return self.current_entry.last_sequence if producer_epoch == self.current_entry.producer_epoch else NO_SEQUENCE


def _in_sequence(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == last_sequence + 1 or (next_sequence == 0 and last_sequence == MAX_SEQUENCE)


def _out_of_order(message: str) -> ApiException:
    return ApiException(Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
