"""The records of `__mirror_state`: two types, keyed by the mirror's name alone, as the KIP has them
byte for byte (A7).

    key    int16 type, then the *non-flexible* key message: MirrorName as int16-length string
    value  int16 version (0), then the *flexible* value message; null = tombstone

    type 1  LastMirrorEpochs      the whole last-mirror-epoch map of the mirror's partitions at this coordinator partition
    type 2  MirrorPartitionState  one partition's state

The keys do not name the partition, so compaction would keep only one state per mirror (C1). The
cleaner therefore skips `__mirror_state` (`storage.log_cleaner`), and a reader takes every record in
order: the newest record of a (topic, partition) wins, and a tombstone clears all earlier records of
its type for its mirror.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.wire.messages.last_mirror_epochs_key import LastMirrorEpochsKey
from kmirror.wire.messages.last_mirror_epochs_value import LastMirrorEpochsValue, Partition, Topic
from kmirror.wire.messages.mirror_partition_state_key import MirrorPartitionStateKey
from kmirror.wire.messages.mirror_partition_state_value import MirrorPartitionStateValue
from kmirror.wire.primitives import ProtocolReadError, Writer

LAST_MIRROR_EPOCHS_TYPE = 1
MIRROR_PARTITION_STATE_TYPE = 2
VALUE_VERSION = 0


class LastMirrorEpochs(NamedTuple):
    """A type-1 record; `epochs` None is a tombstone."""

    mirror_name: str
    epochs: dict[tuple[str, int], int] | None


class PartitionStateRecord(NamedTuple):
    """A type-2 record of one partition."""

    mirror_name: str
    topic: str
    partition: int
    state: MirrorPartitionState


class PartitionStateTombstone(NamedTuple):
    """A type-2 tombstone: all of the mirror's states are gone."""

    mirror_name: str


MirrorStateRecord = LastMirrorEpochs | PartitionStateRecord | PartitionStateTombstone


def last_mirror_epochs_record(mirror_name: str, epochs: Mapping[tuple[str, int], int]) -> CoordinatorRecord:
    """The type-1 record of a mirror's whole map, topics and partitions sorted."""
    topics: dict[str, list[Partition]] = {}
    for topic, partition in sorted(epochs):
        entry = Partition(partition_index=partition, last_mirror_epoch=epochs[topic, partition])
        topics.setdefault(topic, []).append(entry)
    value = LastMirrorEpochsValue(topics=[Topic(name=name, partitions=partitions) for name, partitions in topics.items()])
    return CoordinatorRecord(_key(LAST_MIRROR_EPOCHS_TYPE, mirror_name), _value(value))


def partition_state_record(mirror_name: str, topic: str, partition: int, state: MirrorPartitionState) -> CoordinatorRecord:
    """The type-2 record of one partition."""
    if state is MirrorPartitionState.UNKNOWN:
        raise ValueError("UNKNOWN is the absence of a state and is never stored")
    value = MirrorPartitionStateValue(topic_name=topic, partition=partition, state=int(state))
    return CoordinatorRecord(_key(MIRROR_PARTITION_STATE_TYPE, mirror_name), _value(value))


def tombstones(mirror_name: str) -> list[CoordinatorRecord]:
    """Tombstones for both keys of a mirror (D3-33)."""
    return [
        CoordinatorRecord(_key(LAST_MIRROR_EPOCHS_TYPE, mirror_name), None),
        CoordinatorRecord(_key(MIRROR_PARTITION_STATE_TYPE, mirror_name), None),
    ]


def read_record(record: CoordinatorRecord) -> MirrorStateRecord:
    """Decode a record; KmirrorError where the type, the version or the state is unknown or bytes
    are missing.
    """
    try:
        return _read(record)
    except (ProtocolReadError, ValueError) as error:
        raise KmirrorError(f"a record of __mirror_state cannot be read: {error}") from error


def _read(record: CoordinatorRecord) -> MirrorStateRecord:
    key = memoryview(record.key)
    if len(key) < 2:
        raise KmirrorError(f"a key of __mirror_state has {len(key)} bytes; at least 2 are needed for its type")
    kind = int.from_bytes(key[:2], "big", signed=True)
    if kind == LAST_MIRROR_EPOCHS_TYPE:
        mirror_name = LastMirrorEpochsKey.read(key, 2, 0)[0].mirror_name
        if record.value is None:
            return LastMirrorEpochs(mirror_name, None)
        value = LastMirrorEpochsValue.read(memoryview(record.value), _check_version(record.value), VALUE_VERSION)[0]
        epochs = {(topic.name, entry.partition_index): entry.last_mirror_epoch for topic in value.topics for entry in topic.partitions}
        return LastMirrorEpochs(mirror_name, epochs)
    if kind == MIRROR_PARTITION_STATE_TYPE:
        mirror_name = MirrorPartitionStateKey.read(key, 2, 0)[0].mirror_name
        if record.value is None:
            return PartitionStateTombstone(mirror_name)
        state = MirrorPartitionStateValue.read(memoryview(record.value), _check_version(record.value), VALUE_VERSION)[0]
        return PartitionStateRecord(mirror_name, state.topic_name, state.partition, MirrorPartitionState.from_byte(state.state))
    raise KmirrorError(f"a key of __mirror_state has the unknown type {kind}; known are 1 and 2")


def _check_version(value: bytes) -> int:
    version = int.from_bytes(value[:2], "big", signed=True)
    if len(value) < 2 or version != VALUE_VERSION:
        raise KmirrorError(f"a value of __mirror_state has version {version}; kmirror reads version {VALUE_VERSION}")
    return 2


def _key(kind: int, mirror_name: str) -> bytes:
    message = (
        LastMirrorEpochsKey(mirror_name=mirror_name)
        if kind == LAST_MIRROR_EPOCHS_TYPE
        else MirrorPartitionStateKey(mirror_name=mirror_name)
    )
    writer = Writer()
    message.write(writer, 0)
    return kind.to_bytes(2, "big") + writer.to_bytes()


def _value(message: LastMirrorEpochsValue | MirrorPartitionStateValue) -> bytes:
    writer = Writer()
    message.write(writer, VALUE_VERSION)
    return VALUE_VERSION.to_bytes(2, "big") + writer.to_bytes()
