"""One partition of `__transaction_state`: the transactional ids that hash to it, as synchronous
functions.

A request decides on the state that its predecessors left, even if their records are not committed
yet; its answer, even an error, waits for them (see `coordinator_runtime`). Kafka keeps a change
pending until its record is committed and answers CONCURRENT_TRANSACTIONS meanwhile; here the second
request simply waits, which clients cannot tell from a slower first one.

A decided end is Kafka's other pending change, and that one is visible: it lasts from the decision
until the Complete record, while markers are being written. Meanwhile requests get
CONCURRENT_TRANSACTIONS, whatever producer id and epoch they give, because these change with the
end. The order of checks, as in Kafka 4.3:

    InitProducerId                        exists (or is made), end decided, producer id and its epoch, state
    AddPartitionsToTxn, AddOffsetsToTxn   exists, end decided, producer id, epoch, state
    EndTxn of version 2                   exists, end decided, producer id, epoch, state
    EndTxn of version 1                   exists, producer id, epoch, end decided, state
    AddPartitionsToTxn, verify only       exists, producer id, epoch, end decided, partitions

A new producer id comes from the controller, so a decision that needs one raises
`ProducerIdNeededError`, and the coordinator repeats it with an id. The end of a transaction is
decided here (`end_transaction`) and reported to `on_prepared`; the writer of the markers then calls
`complete`. After a load, every transaction with a decided end is reported to `on_prepared`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Clock
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult, ShardContext
from kmirror.coordinator.transaction.transaction_checks import (
    end_v1,
    end_v2,
    ensure_is_producer,
    ensure_no_end_is_decided,
    given,
    is_valid_producer,
)
from kmirror.coordinator.transaction.transaction_log import read_transaction_record, transaction_record, transaction_tombstone
from kmirror.coordinator.transaction.transaction_metadata import (
    TRANSACTIONS_V2,
    TransactionMetadata,
)
from kmirror.coordinator.transaction.transaction_state import TransactionEvent, TransactionState
from kmirror.record.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

R = TypeVar("R")
REMOVE_EXPIRED_TIMER: Final = "remove-expired-transactional-ids"


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Kafka's broker settings of the same names."""

    transactional_id_expiration_ms: int = 604_800_000
    transaction_max_timeout_ms: int = 900_000
    abort_timed_out_transactions_interval_ms: int = 10_000
    remove_expired_transactional_ids_interval_ms: int = 3_600_000
    two_phase_commit_enable: bool = False


class ProducerResult(NamedTuple):
    """An error, or the id and epoch with which the producer continues."""

    error: Errors
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


class PendingCompletion(NamedTuple):
    """A transaction whose end is decided: the content of its markers, and the state to write when
    all are there."""

    prepared: TransactionMetadata
    completed: TransactionMetadata
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        return self.prepared.state is TransactionState.PREPARE_COMMIT


class TransactionFilter(NamedTuple):
    """The filter of ListTransactions; empty collections, a negative duration and no pattern match
    everything."""

    producer_ids: frozenset[int] = frozenset()
    states: frozenset[TransactionState] | None = None
    duration_ms: int = -1
    matches_id: Callable[[str], bool] | None = None

    def matches(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        return (
            (not self.producer_ids or metadata.producer_id in self.producer_ids)
            and (self.states is None or metadata.state in self.states)
            and (self.duration_ms < 0 or now_ms - metadata.start_timestamp_ms > self.duration_ms)
            and (self.matches_id is None or self.matches_id(metadata.transactional_id))
        )


class TransactionCoordinatorShard:
    """Implements `CoordinatorShard`. `transaction_version` returns the present level of that
    feature."""

    def __init__(
        self,
        config: TransactionConfig,
        context: ShardContext,
        *,
        clock: Clock,
        transaction_version: Callable[[], int],
        on_prepared: Callable[[TopicPartition, str], None],
    ) -> None:
        self._config = config
        self._context = context
        self._clock = clock
        self._transaction_version = transaction_version
        self._on_prepared = on_prepared
        self._transactions: dict[str, TransactionMetadata] = {}
        self._decided: tuple[CoordinatorRecord, TransactionMetadata] | None = None
        self._loaded = False

    # -- CoordinatorShard --------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        found = read_transaction_record(record)
        if found is None:
            return  # a key type of a later version
        transactional_id, metadata = found
        if metadata is None:
            self._transactions.pop(transactional_id, None)
            return
        if self._decided is not None and self._decided[0] == record:
            metadata = self._decided[1]  # just decided here: it has fields that the record does not carry
        self._transactions[transactional_id] = metadata
        if self._loaded and metadata.state.is_prepared:
            self._on_prepared(self._context.topic_partition, transactional_id)

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Does nothing: no transactions are written to this topic."""

    def on_loaded(self, now_ms: int) -> None:
        self._loaded = True
        self._schedule_removal()
        for transactional_id, metadata in self._transactions.items():
            if metadata.state.is_prepared:
                self._on_prepared(self._context.topic_partition, transactional_id)

    def on_unloaded(self) -> None:
        """Does nothing: the writers of markers notice by NOT_COORDINATOR."""

    # -- InitProducerId ----------------------------------------------------------------------------

    def init_producer_id(
        self,
        transactional_id: str,
        *,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        new_producer_id: int | None,
        now_ms: int,
    ) -> CoordinatorResult[ProducerResult]:
        """Returns the id and epoch of a (new instance of a) producer; `expected` is what the
        producer claims to have. An open transaction is aborted first, and the answer is
        CONCURRENT_TRANSACTIONS until that is done."""
        current = self._transactions.get(transactional_id)
        if current is None:
            current = TransactionMetadata(
                transactional_id=transactional_id,
                producer_id=given(new_producer_id),
                timeout_ms=timeout_ms,
                last_update_timestamp_ms=now_ms,
            )
        try:
            ensure_no_end_is_decided(current)
            if expected is not None and not is_valid_producer(current, *expected):
                raise ApiException(Errors.PRODUCER_FENCED)
            follows = current.outcome(TransactionEvent.INIT_PRODUCER_ID)
            if follows is TransactionState.PREPARE_EPOCH_FENCE:
                aborted = self._fenced_abort(current, new_producer_id, now_ms)
                return self._decide(aborted, ProducerResult(Errors.CONCURRENT_TRANSACTIONS))
            initialized = self._initialized(current, timeout_ms, expected, new_producer_id, now_ms)
        except ApiException as error:
            return CoordinatorResult([], ProducerResult(error.error))
        return self._decide(initialized, ProducerResult(Errors.NONE, initialized.producer_id, initialized.producer_epoch))

    def _initialized(
        self,
        current: TransactionMetadata,
        timeout_ms: int,
        expected: tuple[int, int] | None,
        new_producer_id: int | None,
        now_ms: int,
    ) -> TransactionMetadata:
        expected_epoch = None if expected is None else expected[1]
        if current.is_producer_epoch_exhausted and expected_epoch in (None, current.producer_epoch):
            return current.prepare_producer_id_rotation(
                given(new_producer_id), timeout_ms=timeout_ms, record_last_epoch=expected is not None, now_ms=now_ms
            )
        return current.prepare_increment_producer_epoch(timeout_ms=timeout_ms, expected_producer_epoch=expected_epoch, now_ms=now_ms)

    # -- AddPartitionsToTxn ------------------------------------------------------------------------

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        *,
        client_transaction_version: int,
        now_ms: int,
    ) -> CoordinatorResult[Errors]:
        """Begins the producer's transaction, or adds partitions to it."""
        try:
            ensure_no_end_is_decided(self._known(transactional_id))
            current = self._of_producer(transactional_id, producer_id, producer_epoch)
            current.outcome(TransactionEvent.ADD_PARTITIONS)
        except ApiException as error:
            return CoordinatorResult([], error.error)
        if current.state is TransactionState.ONGOING and set(partitions) <= set(current.partitions):
            return CoordinatorResult([], Errors.NONE)
        added = current.prepare_add_partitions(tuple(partitions), client_transaction_version=client_transaction_version, now_ms=now_ms)
        return self._decide(added, Errors.NONE)

    def verify_partitions(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, Errors]:
        """Checks whether each partition is in the producer's open transaction;
        TRANSACTION_ABORTABLE for one that is not."""
        try:
            current = self._of_producer(transactional_id, producer_id, producer_epoch)
            ensure_no_end_is_decided(current)
        except ApiException as error:
            return dict.fromkeys(partitions, error.error)
        return {partition: Errors.NONE if partition in current.partitions else Errors.TRANSACTION_ABORTABLE for partition in partitions}

    def _of_producer(self, transactional_id: str, producer_id: int, producer_epoch: int) -> TransactionMetadata:
        current = self._known(transactional_id)
        ensure_is_producer(current, producer_id, producer_epoch)
        return current

    def _known(self, transactional_id: str) -> TransactionMetadata:
        current = self._transactions.get(transactional_id)
        if current is None:
            raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING)
        return current

    # -- EndTxn ------------------------------------------------------------------------------------

    def end_transaction(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        *,
        commit: bool,
        client_transaction_version: int,
        new_producer_id: int | None,
        now_ms: int,
    ) -> CoordinatorResult[ProducerResult]:
        """Decides the end of the producer's transaction; the answer has the id and epoch with which
        the producer continues (version 2)."""
        current = self._transactions.get(transactional_id)
        try:
            if current is None:
                raise ApiException(Errors.INVALID_PRODUCER_ID_MAPPING)
            if client_transaction_version < TRANSACTIONS_V2:
                event = end_v1(current, producer_id, producer_epoch, commit=commit)
            else:
                event = end_v2(current, producer_id, producer_epoch, commit=commit)
            current.outcome(event)
        except ApiException as error:
            if error.error is not Errors.NONE or current is None:
                return CoordinatorResult([], ProducerResult(error.error))
            return CoordinatorResult([], ProducerResult(Errors.NONE, current.producer_id, current.producer_epoch))
        is_v2 = client_transaction_version >= TRANSACTIONS_V2
        prepared = current.prepare_abort_or_commit(
            event,
            client_transaction_version=client_transaction_version if is_v2 else 0,
            next_producer_id=given(new_producer_id) if is_v2 and current.is_producer_epoch_exhausted else NO_PRODUCER_ID,
            now_ms=now_ms,
        )
        goes_on = prepared.prepare_complete(now_ms=now_ms)
        return self._decide(prepared, ProducerResult(Errors.NONE, goes_on.producer_id, goes_on.producer_epoch))

    def timed_out(self, now_ms: int) -> list[TransactionMetadata]:
        """Returns the transactions that have been open for longer than their producers'
        timeouts."""
        return [metadata for metadata in self._transactions.values() if metadata.is_timed_out(now_ms)]

    def abort_timed_out(self, timed_out: TransactionMetadata, *, new_producer_id: int | None, now_ms: int) -> CoordinatorResult[bool]:
        """Fences the producer of a transaction that `timed_out` returned, and aborts it; False if
        it ended (or went on) meanwhile."""
        current = self._transactions.get(timed_out.transactional_id)
        if (
            current is None
            or (current.producer_id, current.producer_epoch) != (timed_out.producer_id, timed_out.producer_epoch)
            or not current.is_timed_out(now_ms)
        ):
            return CoordinatorResult([], False)
        return self._decide(self._fenced_abort(current, new_producer_id, now_ms), True)

    def _fenced_abort(self, current: TransactionMetadata, new_producer_id: int | None, now_ms: int) -> TransactionMetadata:
        version = self._transaction_version()
        is_v2 = version >= TRANSACTIONS_V2
        return current.prepare_fence_producer_epoch().prepare_abort_or_commit(
            TransactionEvent.ABORT_FENCED,
            client_transaction_version=version if is_v2 else 0,
            next_producer_id=given(new_producer_id) if is_v2 and current.is_producer_epoch_exhausted else NO_PRODUCER_ID,
            now_ms=now_ms,
        )

    # -- completion --------------------------------------------------------------------------------

    def pending_completion(self, transactional_id: str, now_ms: int) -> PendingCompletion | None:
        """Returns the content of the markers of a decided end; None if there is no decided end (any
        more)."""
        current = self._transactions.get(transactional_id)
        if current is None or not current.state.is_prepared:
            return None
        return PendingCompletion(current, current.prepare_complete(now_ms=now_ms), self._context.leader_epoch)

    def complete(self, pending: PendingCompletion) -> CoordinatorResult[bool]:
        """Completes the transaction after all markers of `pending` are written. False if `pending`
        is not what is pending here."""
        current = self._transactions.get(pending.prepared.transactional_id)
        if current != pending.prepared or pending.coordinator_epoch != self._context.leader_epoch:
            return CoordinatorResult([], False)
        return self._decide(pending.completed, True)

    # -- queries and expiry ------------------------------------------------------------------------

    def transaction(self, transactional_id: str) -> TransactionMetadata | None:
        return self._transactions.get(transactional_id)

    def list_transactions(self, wanted: TransactionFilter, now_ms: int) -> list[TransactionMetadata]:
        return [metadata for metadata in self._transactions.values() if wanted.matches(metadata, now_ms)]

    def remove_expired(self, now_ms: int) -> CoordinatorResult[None]:
        """Returns tombstones for ids that were not used for `transactional.id.expiration.ms`."""
        expiration_ms = self._config.transactional_id_expiration_ms
        expired = [name for name, metadata in self._transactions.items() if metadata.is_expired(now_ms, expiration_ms)]
        return CoordinatorResult([transaction_tombstone(transactional_id) for transactional_id in expired], None)

    def _schedule_removal(self) -> None:
        interval_ms = self._config.remove_expired_transactional_ids_interval_ms
        self._context.timer.schedule(REMOVE_EXPIRED_TIMER, interval_ms, self._remove_expired_now)

    def _remove_expired_now(self) -> CoordinatorResult[None]:
        self._schedule_removal()
        return self.remove_expired(self._clock.time_ms())

    def _decide(self, metadata: TransactionMetadata, response: R) -> CoordinatorResult[R]:
        record = transaction_record(metadata, transaction_version=self._transaction_version())
        self._decided = (record, metadata)
        return CoordinatorResult([record], response)
