"""The persisted state of one share partition (Kafka's `ShareGroupOffset`)."""

from __future__ import annotations

from msgspec import Struct

from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch

UNINITIALIZED_START_OFFSET = -1
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1


class ShareGroupOffset(Struct, frozen=True):
    """The state begins at `start_offset` (-1: not known yet); `state_batches` has the delivery
    state of single ranges.

    `snapshot_epoch` counts the snapshots. `state_epoch` is the group's epoch when the state was
    initialised, `leader_epoch` that of the topic partition's leader that wrote last.
    `delivery_complete_count` records at or after the start need no more delivery (-1: unknown). A
    snapshot is written for the first use of a share partition or after a number of updates (then
    both timestamps are the same), or because it was not written for long (then `write_timestamp_ms`
    is later).
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    state_batches: tuple[PersisterStateBatch, ...] = ()
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
