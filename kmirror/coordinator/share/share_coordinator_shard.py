"""One partition of `__share_group_state`: the states of share partitions, replayed from its records
(Kafka's `ShareCoordinatorShard`).

    Initialize   writes a snapshot: the group's start offset, with the group's epoch as state epoch
    Write        writes an update, or a snapshot after a number of updates. The share partition must
                 have been initialized
    Read         returns the state to the topic partition's leader, and stores its leader epoch, so
                 that an older leader is fenced
    Summary      returns the start offset alone; -1 for a share partition that does not exist
    Delete       writes a tombstone

Fencing: a request with a leader epoch below the highest seen gets FENCED_LEADER_EPOCH, one with a
lower state epoch FENCED_STATE_EPOCH; -1 means no check (but not in a read). The highest epochs are
kept as long as the share partition: an initialization sets the stored leader epoch back to 0, but
not the fence. A share partition that was not written for long also gets a snapshot; otherwise the
log's beginning could not be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from msgspec import structs

from kmirror.common.errors import Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.coordinator.share.persister_state_batch import NO_START_OFFSET, PersisterStateBatch, combine_state_batches
from kmirror.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from kmirror.coordinator.share.share_coordinator_offsets_manager import ShareCoordinatorOffsetsManager
from kmirror.coordinator.share.share_coordinator_records import (
    SHARE_SNAPSHOT,
    read_share_record,
    share_snapshot_record,
    share_state_tombstone,
    share_update_record,
)
from kmirror.coordinator.share.share_group_offset import (
    UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
    UNINITIALIZED_START_OFFSET,
    ShareGroupOffset,
)
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)

NEGATIVE_PARTITION = "The partition id cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."


class _Result(Protocol):
    def __init__(self, *, partition: int, error_code: int = ..., error_message: str | None = ...) -> None: ...


R = TypeVar("R", bound=_Result)
Refusal = tuple[Errors, str]


class ShareCoordinatorShard:
    """Implements `CoordinatorShard`. Each request is for one share partition, and its answer is an
    entry of the API's response.

    `partition_count` returns how many partitions a topic id has in the newest metadata, None for an
    unknown topic.
    """

    def __init__(
        self,
        config: ShareCoordinatorConfig,
        partition_count: Callable[[Uuid], int | None],
        on_write: Callable[[], None] = lambda: None,
    ) -> None:
        self._config = config
        self._partition_count = partition_count
        self._on_write = on_write
        self._states: dict[SharePartitionKey, ShareGroupOffset] = {}
        self._leader_epochs: dict[SharePartitionKey, int] = {}
        self._state_epochs: dict[SharePartitionKey, int] = {}
        self._update_counts: dict[SharePartitionKey, int] = {}
        self._offsets = ShareCoordinatorOffsetsManager()

    # -- CoordinatorShard --------------------------------------------------------------------------

    def replay(self, offset: int, record: CoordinatorRecord, *, producer_id: int, producer_epoch: int) -> None:
        """Applies a record. Types of later versions change nothing."""
        known = read_share_record(record)
        if known is None:
            return
        kind, key, state = known
        if kind == SHARE_SNAPSHOT:
            self._replay_snapshot(key, state)
            self._offsets.update(key, offset, is_delete=state is None)
        elif state is not None:
            self._replay_update(key, state)

    def _replay_snapshot(self, key: SharePartitionKey, state: ShareGroupOffset | None) -> None:
        if state is None:
            for forgotten in (self._states, self._leader_epochs, self._state_epochs, self._update_counts):
                forgotten.pop(key, None)
            return
        self._states[key] = state
        _raise_to(self._leader_epochs, key, state.leader_epoch)
        _raise_to(self._state_epochs, key, state.state_epoch)
        if self._update_counts.get(key, 0) >= self._config.snapshot_update_records_per_snapshot:
            self._update_counts[key] = 0

    def _replay_update(self, key: SharePartitionKey, change: ShareGroupOffset) -> None:
        so_far = self._states.get(key)
        self._states[key] = change if so_far is None else _updated(so_far, change)
        _raise_to(self._leader_epochs, key, change.leader_epoch)
        self._update_counts[key] = self._update_counts.get(key, 0) + 1

    def replay_end_transaction_marker(self, *, producer_id: int, producer_epoch: int, committed: bool) -> None:
        """Does nothing: the topic takes no transactions."""

    def on_loaded(self, now_ms: int) -> None:
        """Does nothing: the coordinator's rounds start the work."""

    def on_unloaded(self) -> None:
        """Does nothing: no requests are parked here."""

    # -- requests ----------------------------------------------------------------------------------

    def initialize(
        self, key: SharePartitionKey, data: initialize_share_group_state.PartitionData, now_ms: int
    ) -> CoordinatorResult[initialize_share_group_state.PartitionResult]:
        result = initialize_share_group_state.PartitionResult
        refusal = _negative(key) or self._behind_state_epoch(key, data.state_epoch) or self._unknown(key)
        if refusal is not None:
            return _refused(result, key, refusal)
        present = self._states.get(key)
        is_known = data.start_offset != UNINITIALIZED_START_OFFSET
        state = ShareGroupOffset(
            snapshot_epoch=0 if present is None else present.snapshot_epoch + 1,
            state_epoch=data.state_epoch,
            leader_epoch=0,
            start_offset=data.start_offset,
            delivery_complete_count=0 if is_known else UNINITIALIZED_DELIVERY_COMPLETE_COUNT,
            create_timestamp_ms=now_ms,
            write_timestamp_ms=now_ms,
        )
        return CoordinatorResult([share_snapshot_record(key, state)], result(partition=key.partition))

    def write(
        self, key: SharePartitionKey, data: write_share_group_state.PartitionData, now_ms: int
    ) -> CoordinatorResult[write_share_group_state.PartitionResult]:
        self._on_write()
        result = write_share_group_state.PartitionResult
        refusal = (
            _negative(key)
            or self._uninitialized(key, WRITE_UNINITIALIZED)
            or (None if data.leader_epoch == NO_EPOCH else self._behind_leader_epoch(key, data.leader_epoch))
            or self._behind_state_epoch(key, data.state_epoch)
            or self._unknown(key)
        )
        if refusal is not None:
            return _refused(result, key, refusal)
        change = ShareGroupOffset(
            leader_epoch=self._states[key].leader_epoch,
            start_offset=data.start_offset,
            delivery_complete_count=data.delivery_complete_count,
            state_batches=_batches(data.state_batches),
        )
        return CoordinatorResult([self._change_record(key, change, now_ms)], result(partition=key.partition))

    def read(
        self, key: SharePartitionKey, data: read_share_group_state.PartitionData, now_ms: int
    ) -> CoordinatorResult[read_share_group_state.PartitionResult]:
        result = read_share_group_state.PartitionResult
        refusal = (
            _negative(key)
            or self._uninitialized(key, READ_UNINITIALIZED)
            or self._behind_leader_epoch(key, data.leader_epoch)
            or self._unknown(key)
        )
        if refusal is not None:
            return _refused(result, key, refusal)
        state = self._states[key]
        response = result(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                read_share_group_state.StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
                for batch in state.state_batches
            ],
        )
        if data.leader_epoch in (NO_EPOCH, self._leader_epochs.get(key)):
            return CoordinatorResult([], response)
        self._on_write()
        change = structs.replace(state, leader_epoch=data.leader_epoch, state_batches=())
        return CoordinatorResult([self._change_record(key, change, now_ms)], response)

    def read_summary(self, key: SharePartitionKey) -> read_share_group_state_summary.PartitionResult:
        result = read_share_group_state_summary.PartitionResult
        refusal = _negative(key) or self._unknown(key)
        if refusal is not None:
            return _refused(result, key, refusal).response
        state = self._states.get(key)
        if state is None:
            return result(partition=key.partition, start_offset=UNINITIALIZED_START_OFFSET)
        return result(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        )

    def delete(self, key: SharePartitionKey) -> CoordinatorResult[delete_share_group_state.PartitionResult]:
        """Deletes a state; one that does not exist counts as deleted."""
        result = delete_share_group_state.PartitionResult
        refusal = _negative(key) or self._unknown(key)
        if refusal is not None:
            return _refused(result, key, refusal)
        records = [share_state_tombstone(key)] if key in self._states else []
        return CoordinatorResult(records, result(partition=key.partition))

    # -- the coordinator's own work ----------------------------------------------------------------

    def last_redundant_offset(self) -> int | None:
        """Returns the offset before which no record is needed, or None."""
        return self._offsets.last_redundant_offset()

    def snapshot_cold_partitions(self, now_ms: int) -> CoordinatorResult[None]:
        """Returns new snapshots of share partitions that were not written for long; none if every
        snapshot was already made for this reason."""
        records: list[CoordinatorRecord] = []
        if any(state.create_timestamp_ms == state.write_timestamp_ms for state in self._states.values()):
            for key, state in self._states.items():
                if now_ms - state.write_timestamp_ms >= self._config.cold_partition_snapshot_interval_ms:
                    again = structs.replace(state, snapshot_epoch=state.snapshot_epoch + 1, write_timestamp_ms=now_ms)
                    records.append(share_snapshot_record(key, again))
        return CoordinatorResult(records, None)

    def on_topics_deleted(self, topic_ids: Iterable[Uuid]) -> CoordinatorResult[None]:
        deleted = set(topic_ids)
        return CoordinatorResult([share_state_tombstone(key) for key in self._states if key.topic_id in deleted], None)

    def states(self) -> dict[SharePartitionKey, ShareGroupOffset]:
        """Returns the states that are stored now."""
        return dict(self._states)

    # -- helpers -----------------------------------------------------------------------------------

    def _change_record(self, key: SharePartitionKey, change: ShareGroupOffset, now_ms: int) -> CoordinatorRecord:
        """Returns an update, or, after enough updates, the snapshot that replaces it."""
        state = self._states[key]
        if self._update_counts.get(key, 0) < self._config.snapshot_update_records_per_snapshot:
            batches = combine_state_batches((), change.state_batches, change.start_offset)
            return share_update_record(key, structs.replace(change, snapshot_epoch=state.snapshot_epoch, state_batches=tuple(batches)))
        merged = _updated(state, change)
        snapshot = structs.replace(merged, snapshot_epoch=state.snapshot_epoch + 1, create_timestamp_ms=now_ms, write_timestamp_ms=now_ms)
        return share_snapshot_record(key, snapshot)

    def _uninitialized(self, key: SharePartitionKey, message: str) -> Refusal | None:
        return None if key in self._states else (Errors.INVALID_REQUEST, message)

    def _behind_leader_epoch(self, key: SharePartitionKey, leader_epoch: int) -> Refusal | None:
        error = Errors.FENCED_LEADER_EPOCH
        return (error, error.message) if self._leader_epochs.get(key, NO_EPOCH) > leader_epoch else None

    def _behind_state_epoch(self, key: SharePartitionKey, state_epoch: int) -> Refusal | None:
        """Returns the refusal of a lower state epoch; -1 means no check."""
        error = Errors.FENCED_STATE_EPOCH
        is_behind = state_epoch != NO_EPOCH and self._state_epochs.get(key, NO_EPOCH) > state_epoch
        return (error, error.message) if is_behind else None

    def _unknown(self, key: SharePartitionKey) -> Refusal | None:
        count = self._partition_count(key.topic_id)
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return (error, error.message) if count is None or key.partition >= count else None


def _negative(key: SharePartitionKey) -> Refusal | None:
    return (Errors.INVALID_REQUEST, NEGATIVE_PARTITION) if key.partition < 0 else None


def _refused(result: type[R], key: SharePartitionKey, refusal: Refusal) -> CoordinatorResult[R]:
    error, message = refusal
    return CoordinatorResult([], result(partition=key.partition, error_code=error, error_message=message))


def _updated(so_far: ShareGroupOffset, change: ShareGroupOffset) -> ShareGroupOffset:
    start_offset = so_far.start_offset if change.start_offset == NO_START_OFFSET else change.start_offset
    return structs.replace(
        so_far,
        leader_epoch=so_far.leader_epoch if change.leader_epoch == NO_EPOCH else change.leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=tuple(combine_state_batches(so_far.state_batches, change.state_batches, start_offset)),
    )


def _batches(batches: Iterable[Any]) -> tuple[PersisterStateBatch, ...]:
    return tuple(
        PersisterStateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state) for batch in batches
    )


def _raise_to(epochs: dict[SharePartitionKey, int], key: SharePartitionKey, epoch: int) -> None:
    epochs[key] = max(epochs.get(key, epoch), epoch)
