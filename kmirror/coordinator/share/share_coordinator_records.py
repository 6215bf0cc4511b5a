"""Records of `__share_group_state`, as Kafka 4.3 writes them (Kafka's
`ShareCoordinatorRecordHelpers`).

    key    int16 0 or 1, then ShareSnapshotKey or ShareUpdateKey v0: group id, topic id, partition
    value  int16 0, then ShareSnapshotValue v0 (the whole state) or ShareUpdateValue v0 (the changes
           since). None under a snapshot's key is a tombstone: the state is deleted
"""

from __future__ import annotations

from typing import Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch
from kmirror.coordinator.share.share_group_offset import ShareGroupOffset
from kmirror.coordinator.share.share_partition_key import SharePartitionKey
from kmirror.wire.messages import share_snapshot_value, share_update_value
from kmirror.wire.messages.share_snapshot_key import ShareSnapshotKey
from kmirror.wire.messages.share_update_key import ShareUpdateKey
from kmirror.wire.primitives import Writer

SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1
VALUE_VERSION: Final = 0


def _bytes(prefix: int, message: Any) -> bytes:
    out = Writer()
    message.write(out, VALUE_VERSION)
    return prefix.to_bytes(2, "big") + out.to_bytes()


def _snapshot_key(key: SharePartitionKey) -> bytes:
    return _bytes(SHARE_SNAPSHOT, ShareSnapshotKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition))


def share_snapshot_record(key: SharePartitionKey, state: ShareGroupOffset) -> CoordinatorRecord:
    """Returns a record with the whole state of a share partition."""
    value = share_snapshot_value.ShareSnapshotValue(
        snapshot_epoch=state.snapshot_epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.delivery_complete_count,
        create_timestamp=state.create_timestamp_ms,
        write_timestamp=state.write_timestamp_ms,
        state_batches=[
            share_snapshot_value.StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in state.state_batches
        ],
    )
    return CoordinatorRecord(_snapshot_key(key), _bytes(VALUE_VERSION, value))


def share_update_record(key: SharePartitionKey, change: ShareGroupOffset) -> CoordinatorRecord:
    """Returns a record with the changes since the snapshot that `change.snapshot_epoch` names.
    State epoch and timestamps are not part of an update."""
    value = share_update_value.ShareUpdateValue(
        snapshot_epoch=change.snapshot_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.delivery_complete_count,
        state_batches=[
            share_update_value.StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in change.state_batches
        ],
    )
    update_key = ShareUpdateKey(group_id=key.group_id, topic_id=key.topic_id, partition=key.partition)
    return CoordinatorRecord(_bytes(SHARE_UPDATE, update_key), _bytes(VALUE_VERSION, value))


def share_state_tombstone(key: SharePartitionKey) -> CoordinatorRecord:
    return CoordinatorRecord(_snapshot_key(key), None)


def read_share_record(record: CoordinatorRecord) -> tuple[int, SharePartitionKey, ShareGroupOffset | None] | None:
    """Returns (record type, share partition, its content; None for a tombstone). Returns None for a
    key type of a later version; raises KmirrorError for a value of one."""
    key_view = memoryview(record.key)
    kind = int.from_bytes(key_view[:2], "big", signed=True)
    if kind not in (SHARE_SNAPSHOT, SHARE_UPDATE):
        return None
    key_class: type[ShareSnapshotKey | ShareUpdateKey] = ShareSnapshotKey if kind == SHARE_SNAPSHOT else ShareUpdateKey
    message = key_class.read(key_view, 2, VALUE_VERSION)[0]
    key = SharePartitionKey(message.group_id, message.topic_id, message.partition)
    if record.value is None:
        return kind, key, None
    view = memoryview(record.value)
    version = int.from_bytes(view[:2], "big", signed=True)
    if version != VALUE_VERSION:
        raise KmirrorError(f"Unknown version {version} of the value of share partition {key} in __share_group_state")
    if kind == SHARE_SNAPSHOT:
        return kind, key, _from_snapshot(share_snapshot_value.ShareSnapshotValue.read(view, 2, version)[0])
    return kind, key, _from_update(share_update_value.ShareUpdateValue.read(view, 2, version)[0])


def _from_snapshot(value: share_snapshot_value.ShareSnapshotValue) -> ShareGroupOffset:
    return ShareGroupOffset(
        snapshot_epoch=value.snapshot_epoch,
        state_epoch=value.state_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        state_batches=_batches(value.state_batches),
        create_timestamp_ms=value.create_timestamp,
        write_timestamp_ms=value.write_timestamp,
    )


def _from_update(value: share_update_value.ShareUpdateValue) -> ShareGroupOffset:
    return ShareGroupOffset(
        snapshot_epoch=value.snapshot_epoch,
        leader_epoch=value.leader_epoch,
        start_offset=value.start_offset,
        delivery_complete_count=value.delivery_complete_count,
        state_batches=_batches(value.state_batches),
    )


def _batches(batches: list[share_snapshot_value.StateBatch] | list[share_update_value.StateBatch]) -> tuple[PersisterStateBatch, ...]:
    return tuple(
        PersisterStateBatch(batch.first_offset, batch.last_offset, batch.delivery_count, batch.delivery_state) for batch in batches
    )
