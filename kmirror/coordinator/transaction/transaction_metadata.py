"""The coordinator's state of one transactional id, and how each event changes it (Kafka's
`TransactionMetadata`).

Values are immutable: a `prepare_*` function returns the next value, which is written to the log and
becomes the state when its record is replayed. `transaction_state.TRANSITIONS` says which event is
possible in which state; this file has its effect on ids, epochs, partitions and times.

Ids and epochs. A producer is fenced by a higher epoch of its id. InitProducerId gives the next
epoch. In version 2 each end of a transaction does so, too (at *prepare*, so the marker carries the
new epoch and fences requests that are still under way). Epoch 32766 is exhausted: 32767 is reserved
for fencing and for the last marker, so the next producer gets a new id with epoch 0. In version 2
that id is chosen at prepare (`next_producer_id`) and taken at complete; `previous_producer_id`
remembers the old one, so that a repeated end is recognised across the change.

`last_producer_epoch` is not in the log. It is the epoch from which the producer was last bumped at
its own request (KIP-360). With it a producer can repeat InitProducerId with the old epoch; after a
restart of the coordinator such a producer is fenced, as in Kafka.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.transaction.transaction_state import TRANSITIONS, TransactionEvent, TransactionState
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

MAX_EPOCH: Final = 32767
EXHAUSTED_EPOCH: Final = MAX_EPOCH - 1
NO_TIMESTAMP: Final = -1
TWO_PHASE_COMMIT_TIMEOUT_MS: Final = 2_147_483_647
TRANSACTIONS_V2: Final = 2


def is_epoch_exhausted(producer_epoch: int) -> bool:
    return producer_epoch >= EXHAUSTED_EPOCH


class TransactionMetadata(Struct, frozen=True, kw_only=True):
    """Times are ms since 1970; `partitions` keeps the order in which they were added.
    `client_transaction_version` is the producer's."""

    transactional_id: str
    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: tuple[TopicPartition, ...] = ()
    start_timestamp_ms: int = NO_TIMESTAMP
    last_update_timestamp_ms: int
    client_transaction_version: int = 0

    @property
    def is_producer_epoch_exhausted(self) -> bool:
        return is_epoch_exhausted(self.producer_epoch)

    @property
    def is_two_phase_commit(self) -> bool:
        """Whether an outer coordinator prepared it (KIP-939): then it never times out here."""
        return self.timeout_ms == TWO_PHASE_COMMIT_TIMEOUT_MS

    def is_timed_out(self, now_ms: int) -> bool:
        return (
            self.state is TransactionState.ONGOING and not self.is_two_phase_commit and self.start_timestamp_ms + self.timeout_ms < now_ms
        )

    def is_expired(self, now_ms: int, expiration_ms: int) -> bool:
        return self.state.is_expiration_allowed and self.last_update_timestamp_ms <= now_ms - expiration_ms

    # -- the steps ---------------------------------------------------------------------------------

    def outcome(self, event: TransactionEvent) -> TransactionState:
        """Returns the state that follows; raises ApiException with the table's error (NONE: it is
        already done)."""
        outcome = TRANSITIONS[self.state, event]
        assert outcome is not None, f"{event.value} in state {self.state.label} of {self.transactional_id!r}: this must not happen"
        if isinstance(outcome, Errors):
            raise ApiException(outcome)
        return outcome

    def prepare_increment_producer_epoch(self, *, timeout_ms: int, expected_producer_epoch: int | None, now_ms: int) -> TransactionMetadata:
        """Returns the next epoch for a new instance of the producer, or for a producer that gives
        its present epoch; raises PRODUCER_FENCED for any other epoch."""
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_producer_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_producer_epoch):
                last_epoch = self.producer_epoch
            elif expected_producer_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                raise ApiException(Errors.PRODUCER_FENCED)
        assert epoch < MAX_EPOCH, f"no epoch is left for producer id {self.producer_id}"
        return self._initialized(self.producer_id, epoch, last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)

    def prepare_producer_id_rotation(
        self, producer_id: int, *, timeout_ms: int, record_last_epoch: bool, now_ms: int
    ) -> TransactionMetadata:
        """Returns the state with a new producer id, because the epochs of the present one are used
        up."""
        last_epoch = self.producer_epoch if record_last_epoch else NO_PRODUCER_EPOCH
        return self._initialized(producer_id, 0, last_epoch, timeout_ms=timeout_ms, now_ms=now_ms)

    def _initialized(self, producer_id: int, epoch: int, last_epoch: int, *, timeout_ms: int, now_ms: int) -> TransactionMetadata:
        state = self.outcome(TransactionEvent.INIT_PRODUCER_ID)
        return replace(
            self,
            state=state,
            producer_id=producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            partitions=(),
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    def prepare_add_partitions(
        self, partitions: tuple[TopicPartition, ...], *, client_transaction_version: int, now_ms: int
    ) -> TransactionMetadata:
        begins = self.state is not TransactionState.ONGOING
        state = self.outcome(TransactionEvent.ADD_PARTITIONS)
        return replace(
            self,
            state=state,
            previous_producer_id=self.producer_id,
            partitions=tuple(dict.fromkeys((*self.partitions, *partitions))),
            start_timestamp_ms=now_ms if begins else self.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare_fence_producer_epoch(self) -> TransactionMetadata:
        """Bumps the epoch without giving it to anybody (PrepareEpochFence), so the running producer
        is fenced. An abort always follows."""
        state = self.outcome(TransactionEvent.FENCE)
        return replace(self, state=state, producer_epoch=min(self.producer_epoch + 1, MAX_EPOCH))

    def prepare_abort_or_commit(
        self, event: TransactionEvent, *, client_transaction_version: int, next_producer_id: int, now_ms: int
    ) -> TransactionMetadata:
        """Returns the state with a decided end. Version 2 bumps the epoch; a fenced producer's was
        already bumped."""
        is_begun = self.state in (TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE)
        state = self.outcome(event)
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if event is TransactionEvent.ABORT_FENCED:
            last_epoch = epoch - 1 if client_transaction_version >= TRANSACTIONS_V2 else NO_PRODUCER_EPOCH
        elif client_transaction_version >= TRANSACTIONS_V2:
            epoch, last_epoch = min(epoch + 1, MAX_EPOCH), epoch
        return replace(
            self,
            state=state,
            previous_producer_id=self.producer_id,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_timestamp_ms=self.start_timestamp_ms if is_begun else now_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_transaction_version,
        )

    def prepare_complete(self, *, now_ms: int) -> TransactionMetadata:
        """Returns the state after all markers are written: without partitions, and with the next
        producer id if one was chosen."""
        state = self.outcome(TransactionEvent.MARKERS_WRITTEN)
        rotates = self.client_transaction_version >= TRANSACTIONS_V2 and self.next_producer_id != NO_PRODUCER_ID
        return replace(
            self,
            state=state,
            producer_id=self.next_producer_id if rotates else self.producer_id,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            producer_epoch=0 if rotates else self.producer_epoch,
            partitions=(),
            last_update_timestamp_ms=now_ms,
        )
