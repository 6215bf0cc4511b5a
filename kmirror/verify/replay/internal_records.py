"""The records of a cluster's own topics as rows: what coordinators and the controller wrote, in the
order of the log.

    __consumer_offsets   OffsetCommitRow: every commit and its deletion; GroupRow: every generation
                         or epoch of a group
    __mirror_state       MirrorStateRow: every state change of a mirrored partition;
                         LastMirrorEpochRow
    __transaction_state  CoordinatorTransactionRow: every state of a transactional id
    __cluster_metadata   LeaderRow: every leader epoch of a partition, AssignmentRow: its replicas,
                         TopicRow: a topic's creation, removal, what its cleaner is told, mirror.name

Merging is concatenating the rows of slices. Commits within a transaction become rows at once: the
replay of the same log says whether the transaction was committed, aborted or is still open
(`timelines`). A record of a type that is not listed here is skipped; one that cannot be decoded is
a `BadRecord`. None of these records contains secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer, FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.verify.batch_walk import SoundBatches, walk
from kmirror.verify.replay.findings import PartitionRow
from kmirror.verify.slices import LogSlice
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.consumer_group_metadata_key import ConsumerGroupMetadataKey
from kmirror.wire.messages.consumer_group_metadata_value import ConsumerGroupMetadataValue
from kmirror.wire.messages.group_metadata_key import GroupMetadataKey
from kmirror.wire.messages.group_metadata_value import GroupMetadataValue
from kmirror.wire.messages.last_mirror_epochs_key import LastMirrorEpochsKey
from kmirror.wire.messages.last_mirror_epochs_value import LastMirrorEpochsValue
from kmirror.wire.messages.mirror_partition_state_key import MirrorPartitionStateKey
from kmirror.wire.messages.mirror_partition_state_value import MirrorPartitionStateValue
from kmirror.wire.messages.offset_commit_key import OffsetCommitKey
from kmirror.wire.messages.offset_commit_value import OffsetCommitValue
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.share_group_metadata_key import ShareGroupMetadataKey
from kmirror.wire.messages.share_group_metadata_value import ShareGroupMetadataValue
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.messages.transaction_log_key import TransactionLogKey
from kmirror.wire.messages.transaction_log_value import TransactionLogValue
from kmirror.wire.primitives import ProtocolReadError
from kmirror.wire.records import read_metadata_record

TOPIC_CONFIGS: Final = ("cleanup.policy", "min.compaction.lag.ms", "mirror.name")
BROKER_CONFIGS: Final = ("log.cleanup.policy", "log.cleaner.min.compaction.lag.ms")
CONFIGS: Final = {2: TOPIC_CONFIGS, 4: BROKER_CONFIGS}
"""By `ConfigRecord.resource_type`: the configs of topics, and their defaults at the brokers."""


class RecordPlace(NamedTuple):
    """Where a record lies, as the first columns of its row."""

    log: str
    topic: str
    partition: int
    record_offset: int
    record_timestamp: int


class BadRecord(NamedTuple):
    """A record of an internal topic that cannot be decoded."""

    place: RecordPlace
    file: str
    position: int
    text: str


@dataclass(frozen=True, slots=True)
class RecordRow(PartitionRow):
    """A row with the record that it comes from: a `RecordPlace`."""

    record_offset: Annotated[int, "of the record"]
    record_timestamp: Annotated[int, "of the record, in ms"]


@dataclass(frozen=True, slots=True)
class OffsetCommitRow(RecordRow):
    """A row of `group_offsets`."""

    group: Annotated[str, "the group"]
    committed_topic: Annotated[str, "whose offset it is"]
    committed_partition: Annotated[int, "whose offset it is"]
    committed_offset: Annotated[int | None, "where the group goes on; null: the commit was deleted"]
    committed_epoch: Annotated[int | None, "leader epoch of the last record read"]
    commit_timestamp: Annotated[int | None, "as the coordinator saw it, in ms"]
    producer_id: Annotated[int | None, "of a transactional commit"]
    state: Annotated[str, "COMMITTED, or of a transactional commit ABORTED or ONGOING"]


@dataclass(frozen=True, slots=True)
class GroupRow(RecordRow):
    """A row of `groups`."""

    group: Annotated[str, "the group"]
    kind: Annotated[str, "classic, consumer or share"]
    generation: Annotated[int | None, "or epoch; null: the group was deleted"]
    members: Annotated[int | None, "of a classic group"]
    protocol: Annotated[str | None, "of a classic group"]


@dataclass(frozen=True, slots=True)
class MirrorStateRow(RecordRow):
    """A row of `mirror_states`."""

    mirror: Annotated[str, "the mirror"]
    mirrored_topic: Annotated[str | None, "null: all states of the mirror were deleted"]
    mirrored_partition: Annotated[int | None, "its partition"]
    state: Annotated[int | None, "the state's number"]
    previous_state: Annotated[int | None, "the one before; null: none"]
    is_legal: Annotated[bool, "whether the state machine has this step"]


@dataclass(frozen=True, slots=True)
class LastMirrorEpochRow(RecordRow):
    """A row of `last_mirror_epochs`."""

    mirror: Annotated[str, "the mirror"]
    mirrored_topic: Annotated[str | None, "null: all of the mirror were deleted"]
    mirrored_partition: Annotated[int | None, "its partition"]
    epoch: Annotated[int | None, "the source's last leader epoch that was mirrored; -1 as the KIP has it"]


@dataclass(frozen=True, slots=True)
class CoordinatorTransactionRow(RecordRow):
    """A row of `coordinator_transactions`."""

    transactional_id: Annotated[str, "the transactional id"]
    producer_id: Annotated[int | None, "null: the id expired"]
    producer_epoch: Annotated[int | None, "as coordinator and producer know it"]
    state: Annotated[int | None, "0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort"]
    partitions: Annotated[str | None, "topic-partition of the transaction, separated by commas"]
    updated_ms: Annotated[int | None, "when, in ms"]


@dataclass(frozen=True, slots=True)
class LeaderRow(RecordRow):
    """A row of `leaders`."""

    topic_id: Annotated[str, "the topic's id"]
    led_partition: Annotated[int, "the partition's number"]
    leader: Annotated[int, "the broker, -1 for none"]
    leader_epoch: Annotated[int | None, "null in a change: it is the one before and one"]


@dataclass(frozen=True, slots=True)
class TopicRow(RecordRow):
    """A row of `topics`."""

    name: Annotated[str | None, "of the topic; null in a removal, and for a default of brokers"]
    topic_id: Annotated[str | None, "null in a config's change"]
    event: Annotated[
        str,
        "created, removed, or a config that changed: cleanup.policy, min.compaction.lag.ms or mirror.name, "
        "or the brokers' default of one of the first two",
    ]
    value: Annotated[str | None, "of the config; null: the default again"]


@dataclass(frozen=True, slots=True)
class AssignmentRow(RecordRow):
    """A row of `assignments`."""

    topic_id: Annotated[str, "the topic's id"]
    assigned_partition: Annotated[int, "the partition's number"]
    replicas: Annotated[str | None, "the brokers, separated by commas; null: unchanged"]
    directories: Annotated[str | None, "ids of their log directories; null: unchanged"]


InternalRow = (
    OffsetCommitRow | GroupRow | MirrorStateRow | LastMirrorEpochRow | CoordinatorTransactionRow | LeaderRow | TopicRow | AssignmentRow
)
Decode = Callable[[RecordPlace, Buffer | None, Buffer | None, int | None], Iterator[InternalRow]]


def internal_rows(files: FileSystem, piece: LogSlice, log: str) -> Iterator[InternalRow | BadRecord]:
    """Yields the rows of a slice of one of the topics above, and none for other topics.
    CorruptFileError as `batch_walk` says."""
    decode = _DECODERS.get(piece.topic)
    if decode is None:
        return
    for found in walk(files, piece):
        assert isinstance(found, SoundBatches), "bad bytes were not asked for"
        for position, batch in zip(found.positions, found.batches):
            if batch.is_control:
                continue
            producer_id = batch.producer_id if batch.is_transactional else None
            for record in batch.records():
                place = RecordPlace(log, piece.topic, piece.partition, record.offset, record.timestamp)
                try:
                    yield from decode(place, record.key, record.value, producer_id)
                except (KmirrorError, ValueError) as error:
                    yield BadRecord(place, piece.path, position, str(error))


def _type_of(key: Buffer | None) -> int:
    if key is None or len(key) < 2:
        raise KmirrorError("a key of fewer than the 2 bytes of its type")
    return int.from_bytes(key[:2], "big", signed=True)


def _key(message: Any, key: Buffer | None) -> Any:
    return message.read(memoryview(key or b""), 2, 0)[0]


def _value(message: Any, value: Buffer) -> Any:
    version = int.from_bytes(value[:2], "big", signed=True)
    if len(value) < 2 or not message.LOWEST_VERSION <= version <= message.HIGHEST_VERSION:
        raise ProtocolReadError(
            f"{message.__name__} of version {version}; this program reads {message.LOWEST_VERSION} to {message.HIGHEST_VERSION}"
        )
    return message.read(memoryview(value), 2, version)[0]


def _offsets(place: RecordPlace, key: Buffer | None, value: Buffer | None, producer_id: int | None) -> Iterator[InternalRow]:
    kind = _type_of(key)
    if kind in (0, 1):
        name = _key(OffsetCommitKey, key)
        found = None if value is None else _value(OffsetCommitValue, value)
        yield OffsetCommitRow(
            *place,
            name.group,
            name.topic,
            name.partition,
            found.offset if found else None,
            found.leader_epoch if found and found.leader_epoch >= 0 else None,
            found.commit_timestamp if found else None,
            producer_id,
            "COMMITTED",
        )
    elif kind == 2:
        classic = None if value is None else _value(GroupMetadataValue, value)
        group = _key(GroupMetadataKey, key).group
        if classic is None:
            yield GroupRow(*place, group, "classic", None, None, None)
        else:
            yield GroupRow(*place, group, "classic", classic.generation, len(classic.members), classic.protocol)
    elif kind == 3:
        epoch = None if value is None else _value(ConsumerGroupMetadataValue, value).epoch
        yield GroupRow(*place, _key(ConsumerGroupMetadataKey, key).group_id, "consumer", epoch, None, None)
    elif kind == 11:
        epoch = None if value is None else _value(ShareGroupMetadataValue, value).epoch
        yield GroupRow(*place, _key(ShareGroupMetadataKey, key).group_id, "share", epoch, None, None)


def _mirrors(place: RecordPlace, key: Buffer | None, value: Buffer | None, _: int | None) -> Iterator[InternalRow]:
    kind = _type_of(key)
    if kind == 1:
        mirror = _key(LastMirrorEpochsKey, key).mirror_name
        if value is None:
            yield LastMirrorEpochRow(*place, mirror, None, None, None)
            return
        for topic in _value(LastMirrorEpochsValue, value).topics:
            for entry in topic.partitions:
                yield LastMirrorEpochRow(*place, mirror, topic.name, entry.partition_index, entry.last_mirror_epoch)
    elif kind == 2:
        mirror = _key(MirrorPartitionStateKey, key).mirror_name
        if value is None:
            yield MirrorStateRow(*place, mirror, None, None, None, None, True)
            return
        state = _value(MirrorPartitionStateValue, value)
        yield MirrorStateRow(*place, mirror, state.topic_name, state.partition, state.state, None, True)


def _transactions(place: RecordPlace, key: Buffer | None, value: Buffer | None, _: int | None) -> Iterator[InternalRow]:
    if _type_of(key) != 0:
        return
    transactional_id = _key(TransactionLogKey, key).transactional_id
    if value is None:
        yield CoordinatorTransactionRow(*place, transactional_id, None, None, None, None, None)
        return
    found = _value(TransactionLogValue, value)
    names = [f"{each.topic}-{number}" for each in found.transaction_partitions or () for number in each.partition_ids]
    yield CoordinatorTransactionRow(
        *place,
        transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.transaction_status,
        ",".join(sorted(names)) or None,
        found.transaction_last_update_timestamp_ms,
    )


def _assignment(place: RecordPlace, record: PartitionRecord | PartitionChangeRecord) -> AssignmentRow:
    replicas, directories = (None if said is None else ",".join(map(str, said)) for said in (record.replicas, record.directories))
    return AssignmentRow(*place, str(record.topic_id), record.partition_id, replicas, directories)


def _metadata(place: RecordPlace, _: Buffer | None, value: Buffer | None, __: int | None) -> Iterator[InternalRow]:
    if value is None:
        return
    record = read_metadata_record(value)
    if isinstance(record, PartitionRecord):
        yield LeaderRow(*place, str(record.topic_id), record.partition_id, record.leader, record.leader_epoch)
        yield _assignment(place, record)
    elif isinstance(record, PartitionChangeRecord):
        if record.leader != -2:
            yield LeaderRow(*place, str(record.topic_id), record.partition_id, record.leader, None)
        if record.replicas is not None or record.directories is not None:
            yield _assignment(place, record)
    elif isinstance(record, TopicRecord):
        yield TopicRow(*place, record.name, str(record.topic_id), "created", None)
    elif isinstance(record, RemoveTopicRecord):
        yield TopicRow(*place, None, str(record.topic_id), "removed", None)
    elif isinstance(record, ConfigRecord) and record.name in CONFIGS.get(record.resource_type, ()):
        name = None if record.name in BROKER_CONFIGS else record.resource_name
        yield TopicRow(*place, name, None, record.name, record.value)


_DECODERS: Final[dict[str, Decode]] = {
    "__consumer_offsets": _offsets,
    "__mirror_state": _mirrors,
    "__transaction_state": _transactions,
    CLUSTER_METADATA_TOPIC_NAME: _metadata,
}
INTERNAL_TOPICS: Final = tuple(_DECODERS)
