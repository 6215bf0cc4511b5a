"""The persisted state of one share partition (Kafka's `ShareGroupOffset`)."""

from __future__ import annotations

from msgspec import Struct

from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch

UNINITIALIZED_START_OFFSET = -1
UNINITIALIZED_DELIVERY_COMPLETE_COUNT = -1


class ShareGroupOffset(Struct, frozen=True):
    """From `start_offset` on (-1: where the group begins is not known yet), and what `state_batches` say of single ranges.

    `snapshot_epoch` counts the snapshots. `state_epoch` is the group's epoch when the state was initialised, `leader_epoch` that of the
    topic partition's leader that wrote last. `delivery_complete_count` records at or behind the start need no more delivery (-1: unknown).
    A snapshot is written for a share partition's first use or its number of updates (both timestamps the same), or because it was not
    written for long (a later `write_timestamp_ms`).
    """

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED_START_OFFSET
    delivery_complete_count: int = UNINITIALIZED_DELIVERY_COMPLETE_COUNT
    state_batches: tuple[PersisterStateBatch, ...] = ()
    create_timestamp_ms: int = 0
    write_timestamp_ms: int = 0
