"""What an idempotent or transactional producer knows of itself: its id and epoch, the sequences of
its partitions, and where its transaction stands (`transaction_states`; Kafka's `TransactionManager`).
Pure.

Sequences. A batch gets its sequence when it is first sent and keeps it over every retry, so the
broker writes it once. Its partition remembers the batches that are neither acknowledged nor failed,
in order; only the first of them is sent again, until all before it are settled.

A gap. If a batch failed for good after it had a sequence, or its outcome can no longer be learnt, or
the broker has lost the producer's state, the sequences that follow can no longer fit. Without
transactions the producer raises its own epoch and gives the partition's open batches new sequences
from 0. Before that, the first of them is sent again under its old sequence as long as it may have
been written (its answer was lost); Kafka does not wait for that, and may write such a batch twice.
With transactions the transaction can only be aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kmirror.clients.partition_entry import NO_ACKED_OFFSET, PartitionEntry
from kmirror.clients.producer_batch import NO_PRODUCER, IllegalStateError, ProducerBatch, ProducerIdAndEpoch
from kmirror.clients.transaction_states import SOURCES, State
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record import NO_PRODUCER_ID, NO_SEQUENCE, increment_sequence

MAX_EPOCH: Final = 2**15 - 1
_FENCED: Final = {
    Errors.PRODUCER_FENCED: "has been fenced by another producer with the same transactionalId",
    Errors.INVALID_PRODUCER_EPOCH: "attempted to produce with an old epoch",
}
_UNRESOLVED: Final = (
    "The client hasn't received acknowledgment for some previously sent messages and can no longer retry them. "
    "It is safe to abort the transaction and continue."
)
FATAL_ERRORS: Final = (
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Errors.PRODUCER_FENCED,
    Errors.UNSUPPORTED_VERSION,
)
"""Errors of a send after which a producer with sequences cannot go on."""


class TransactionManager:
    """One producer's. `transactional_id` None: only idempotent. Its owner keeps `now_ms` up to date."""

    def __init__(self, transactional_id: str | None) -> None:
        self.transactional_id = transactional_id
        self.now_ms = 0
        self.state = State.UNINITIALIZED
        self.last_error: Exception | None = None
        self.producer = NO_PRODUCER
        self.transactions_v2 = False
        """Whether a batch adds its partition to the transaction by itself, and EndTxn returns the
        next epoch (KIP-890). Taken over when a transaction begins.
        """
        self.epoch_bump_required = False
        self.has_begun = False
        """Whether the coordinator may know of the open transaction."""
        self.new_partitions: dict[TopicPartition, None] = {}
        self.pending_partitions: dict[TopicPartition, None] = {}
        self.partitions: dict[TopicPartition, None] = {}
        self._entries: dict[TopicPartition, PartitionEntry] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}
        self._unresolved: dict[TopicPartition, int] = {}

    @property
    def is_transactional(self) -> bool:
        return self.transactional_id is not None

    @property
    def has_fatal_error(self) -> bool:
        return self.state is State.FATAL_ERROR

    @property
    def has_error(self) -> bool:
        return self.state in (State.FATAL_ERROR, State.ABORTABLE_ERROR)

    @property
    def is_completing(self) -> bool:
        return self.state in (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)

    @property
    def wants_no_more(self) -> bool:
        """Whether the transaction can only be aborted, or is being aborted."""
        return self.has_error or self.state is State.ABORTING_TRANSACTION

    @property
    def is_quiet(self) -> bool:
        """Whether nothing but sending is to be done: there is an id, no error, and no question open."""
        return (
            (self.state is State.READY or self.state is State.IN_TRANSACTION)
            and self.producer.producer_id > NO_PRODUCER_ID
            and not (self.epoch_bump_required or self._unresolved or self.new_partitions)
        )

    # States

    def transition_to(self, target: State, error: Exception | None = None) -> None:
        """IllegalStateError if `target` may not follow the present state."""
        if self.state not in SOURCES[target]:
            owner = "" if self.transactional_id is None else f"TransactionalId {self.transactional_id}: "
            raise IllegalStateError(f"{owner}Invalid transition attempted from state {self.state.value} to state {target.value}")
        if target in (State.FATAL_ERROR, State.ABORTABLE_ERROR):
            self.last_error = error
        elif target is not State.INITIALIZING:
            self.last_error = None
        self.state = target

    def fail_for_good(self, error: Exception) -> None:
        if not self.has_fatal_error:
            self.transition_to(State.FATAL_ERROR, error)

    def must_abort(self, error: Exception) -> None:
        """An error after which the transaction can only be aborted; it is being aborted already if
        the state says so.
        """
        if self.state in SOURCES[State.ABORTABLE_ERROR]:
            self.transition_to(State.ABORTABLE_ERROR, error)

    def ensure_no_error(self) -> None:
        """Raises the producer's error again, if it has one."""
        if not self.has_error:
            return
        cause = self.last_error
        text = "Cannot execute transactional method because we are in an error state"
        if not isinstance(cause, ApiException):
            kind = type(cause) if isinstance(cause, KmirrorError) else KmirrorError
            raise kind(f"{text}: {cause}") from cause
        if cause.error in _FENCED:
            raise ApiException(cause.error, f"{self._named} {_FENCED[cause.error]}") from cause
        raise ApiException(cause.error, f"{text}: {cause.message}") from cause

    @property
    def _named(self) -> str:
        producer_id, epoch = self.producer
        return f"Producer with transactionalId '{self.transactional_id}' and (producerId={producer_id}, epoch={epoch})"

    def ensure_transactional(self) -> None:
        if not self.is_transactional:
            raise IllegalStateError("Transactional method invoked on a non-transactional producer.")

    def may_add(self, partition: TopicPartition) -> None:
        """Checks that a record may be sent now."""
        if not self.is_transactional:
            if self.has_fatal_error:
                self.ensure_no_error()
            return
        self.ensure_no_error()
        if self.state is not State.IN_TRANSACTION:
            text = f"Cannot add partition {partition} to transaction while in state  {self.state.value}"
            if not self.producer.is_valid:
                text = f"Cannot add partition {partition} to transaction before completing a call to initTransactions"
            raise IllegalStateError(text)

    def added(self, partition: TopicPartition) -> None:
        """Notes the partition of a record that was accepted for the transaction. Not before: the
        coordinator refuses to commit a transaction that nothing was sent in.
        """
        if not self.is_transactional or partition in self.partitions or partition in self.pending_partitions:
            return
        if self.transactions_v2:
            self.partitions[partition] = None
            self.has_begun = True
        else:
            self.new_partitions[partition] = None

    def refused(self, error: ApiException) -> None:
        """A record was not accepted. The transaction can only be aborted, so that nobody commits it
        without the record.
        """
        if self.state is State.IN_TRANSACTION:
            self.must_abort(error)

    def partitions_added(self, partitions: Iterable[TopicPartition]) -> None:
        """The coordinator has taken partitions into the transaction (below version 2)."""
        for partition in partitions:
            self.pending_partitions.pop(partition, None)
            self.new_partitions.pop(partition, None)
            self.partitions[partition] = None
        self.has_begun = True

    def may_send_to(self, partition: TopicPartition) -> bool:
        """Whether batches of the partition may leave: the producer has an id, and the partition is
        part of the transaction, if there is one.
        """
        if not self.producer.is_valid or self.has_fatal_error:
            return False
        return not self.is_transactional or partition in self.partitions

    def transaction_over(self, producer: ProducerIdAndEpoch | None, *, needs_bump: bool = False) -> None:
        """The transaction was ended; `producer` is what comes next, if the coordinator said so.
        With `needs_bump` the producer asks for its next epoch before it goes on.
        """
        if producer is not None:
            self.set_producer(producer)
        self.has_begun = False
        for held in (self.new_partitions, self.pending_partitions, self.partitions):
            held.clear()
        self.transition_to(State.INITIALIZING if needs_bump else State.READY)

    def set_producer(self, producer: ProducerIdAndEpoch) -> None:
        """A new id or epoch of a transactional producer: all sequences begin at 0."""
        self.producer = producer
        self.epoch_bump_required = False
        self._entries.clear()
        self._unresolved.clear()
        self._to_rewrite.clear()

    def initialized(self, producer: ProducerIdAndEpoch) -> None:
        """InitProducerId has succeeded."""
        if self.is_transactional:
            self.set_producer(producer)
        else:
            self.producer = producer
        self.transition_to(State.READY)

    # Sequences

    def entry(self, partition: TopicPartition) -> PartitionEntry:
        found = self._entries.get(partition)
        if found is None:
            found = self._entries[partition] = PartitionEntry(self.producer)
        return found

    def take(self, batch: ProducerBatch) -> bool:
        """Whether a batch may be sent now; gives it a sequence if it has none."""
        entry = self._entries.get(batch.partition)
        if entry is None:
            entry = self.entry(batch.partition)
        if self._to_rewrite and batch.partition in self._to_rewrite and not batch.is_doubtful:
            return False
        if batch.has_sequence:
            batch.was_next, batch.attempted_life = entry.is_next(batch), entry.life
            return not entry.in_flight or entry.in_flight[0] is batch
        if entry.producer != self.producer:
            if entry.in_flight:
                return False
            entry.producer, entry.next_sequence = self.producer, 0
            entry.last_acked_sequence, entry.last_acked_offset = NO_SEQUENCE, NO_ACKED_OFFSET
        if self._unresolved and batch.partition in self._unresolved:
            return False
        if entry.in_flight and (entry.in_flight[0].in_retry or not entry.is_known_at(self.now_ms)):
            # A broker that does not know the producer takes any sequence for the first. If the first batch
            # came too early (the topic is new), or is still under way to a former life of the topic, the
            # second would be written, and the first never.
            return False
        batch.set_producer(entry.producer, entry.next_sequence)
        entry.next_sequence = increment_sequence(batch.last_sequence, 1)
        entry.in_flight.append(batch)
        batch.was_next, batch.attempted_life = entry.is_next(batch), entry.life
        return True

    def made_anew(self, topic: str) -> None:
        """The topic has another id: its brokers do not know the producer."""
        for partition, entry in self._entries.items():
            if partition.topic == topic:
                entry.life += 1

    def completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """The batch was written."""
        entry = self.entry(batch.partition)
        in_flight = entry.in_flight
        if in_flight and in_flight[0] is batch:
            del in_flight[0]
        else:
            entry.settle(batch)
        if batch.producer is not entry.producer and batch.producer != entry.producer:
            return
        entry.last_acked_ms = self.now_ms
        entry.known_life = max(entry.known_life, batch.attempted_life)
        if entry.last_acked_sequence == NO_SEQUENCE or (batch.last_sequence - entry.last_acked_sequence) & 0x7FFFFFFF < 1 << 30:
            entry.last_acked_sequence = batch.last_sequence
        if base_offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, base_offset + batch.record_count - 1)

    def split(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Parts take the place of a batch that was too large."""
        in_flight = self.entry(batch.partition).in_flight
        position = in_flight.index(batch)
        in_flight[position : position + 1] = parts

    def failed(self, batch: ProducerBatch, error: Exception, *, has_definite_outcome: bool) -> None:
        """The batch failed for good. With `has_definite_outcome` it was certainly not written, so
        its sequences are missing for those that follow.
        """
        code = error.error if isinstance(error, ApiException) else Errors.UNKNOWN_SERVER_ERROR
        if code in FATAL_ERRORS:
            self.fail_for_good(error)
        elif self.is_transactional:
            self.epoch_bump_required = self.epoch_bump_required or not self.transactions_v2
            self.must_abort(error)
        if not batch.has_sequence:
            return
        self.entry(batch.partition).settle(batch)
        if self.is_transactional or self.has_fatal_error:
            return
        if has_definite_outcome or code in (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID):
            self.request_rewrite(batch.partition)

    def outcome_unknown(self, batch: ProducerBatch) -> None:
        """The batch has expired after it had been sent: nobody knows whether it was written."""
        self._unresolved[batch.partition] = batch.last_sequence

    def can_retry(self, batch: ProducerBatch, error: Errors, log_start_offset: int) -> bool:
        """Whether a batch that the broker refused may be sent again; requests a rewrite of the
        partition's sequences where only that helps.
        """
        if error in (Errors.UNKNOWN_PRODUCER_ID, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER):
            batch.is_doubtful = False  # a broker that had written it would have said so
        if error is Errors.UNKNOWN_PRODUCER_ID:
            entry = self.entry(batch.partition)
            if log_start_offset == -1:
                return False
            if batch.sequence_was_reset:
                return True
            if self.is_transactional and entry.last_acked_offset >= log_start_offset:
                return False
            if self.is_transactional:
                entry.restart(self.producer)
            else:
                self.request_rewrite(batch.partition)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if self.is_transactional and self.has_error:
                return False  # it was not written, and what it belongs to can only be aborted
            if batch.partition not in self._unresolved and (batch.sequence_was_reset or not batch.was_next):
                return True
            if self.is_transactional:
                return False
            self.request_rewrite(batch.partition)
            return True
        return error.retriable

    def request_rewrite(self, partition: TopicPartition) -> None:
        """The partition's open batches need new sequences, under a new epoch."""
        self.epoch_bump_required = True
        self._to_rewrite[partition] = None

    def resolve(self) -> None:
        """Decides about partitions with batches of unknown outcome, once all others are settled: if
        a later batch was written, so were they.
        """
        for partition in list(self._unresolved):
            entry = self.entry(partition)
            if entry.in_flight:
                continue
            last = self._unresolved.pop(partition)
            if entry.last_acked_sequence != NO_SEQUENCE and increment_sequence(entry.last_acked_sequence, 1) == entry.next_sequence:
                continue
            if not self.is_transactional:
                self.request_rewrite(partition)
                continue
            self._unresolved[partition] = last
            self.epoch_bump_required = self.epoch_bump_required or not self.transactions_v2
            self.must_abort(ApiException(Errors.UNKNOWN_SERVER_ERROR, _UNRESOLVED))

    def needs_new_id(self) -> bool:
        """Raises the epoch of an idempotent producer if that is due. Returns whether it needs an id
        from a broker.
        """
        if self.is_transactional or self.has_fatal_error:
            return False
        if self.epoch_bump_required and not any(self._has_open_question(partition) for partition in self._to_rewrite):
            self._bump_epoch()
        return not self.producer.is_valid and self.state is not State.INITIALIZING

    def _has_open_question(self, partition: TopicPartition) -> bool:
        """Whether a batch of the partition may be written already, or be under way. Under another
        sequence it could be written twice.

        Only the first one can be: behind a batch that is certainly not written, brokers write none.
        """
        in_flight = self.entry(partition).in_flight
        return any(batch.on_wire for batch in in_flight) or bool(in_flight and in_flight[0].is_doubtful)

    def _bump_epoch(self) -> None:
        if not self.producer.is_valid or self.producer.epoch >= MAX_EPOCH:
            if self.producer.is_valid:
                self.producer = NO_PRODUCER
                self.transition_to(State.UNINITIALIZED)
            return
        self.producer = ProducerIdAndEpoch(self.producer.producer_id, self.producer.epoch + 1)
        for partition in self._to_rewrite:
            self.entry(partition).restart(self.producer)
            self._unresolved.pop(partition, None)
        self._to_rewrite.clear()
        self.epoch_bump_required = False
