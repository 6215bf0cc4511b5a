"""FetchRequest and FetchResponse. Generated from FetchRequest.json and FetchResponse.json in protocol/messages by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.wire.primitives import (
    READ_ERRORS,
    ProtocolReadError,
    Records,
    TaggedFields,
    Writer,
    malformed,
    read_array_length,
    read_compact_array_length,
    read_compact_nullable_array_length,
    read_compact_nullable_records,
    read_compact_nullable_string,
    read_compact_string,
    read_int32s,
    read_nullable_array_length,
    read_nullable_records,
    read_string,
    read_tagged_fields,
    read_unknown_tagged_field,
    read_unsigned_varint,
    unsupported_field,
)

_read_i4 = struct.Struct(">i").unpack_from
_read_i4_i2_i4 = struct.Struct(">ihi").unpack_from
_read_i4_i2_i8_i8 = struct.Struct(">ihqq").unpack_from
_read_i4_i2_i8_i8_i8 = struct.Struct(">ihqqq").unpack_from
_read_i4_i4 = struct.Struct(">ii").unpack_from
_read_i4_i4_i4_i1_i4_i4 = struct.Struct(">iiibii").unpack_from
_read_i4_i4_i4_i4_i1 = struct.Struct(">iiiib").unpack_from
_read_i4_i4_i4_i4_i1_i4_i4 = struct.Struct(">iiiibii").unpack_from
_read_i4_i4_i8_i4_i8_i4 = struct.Struct(">iiqiqi").unpack_from
_read_i4_i4_i8_i8_i4 = struct.Struct(">iiqqi").unpack_from
_read_i4_i8 = struct.Struct(">iq").unpack_from
_read_i4_i8_i4 = struct.Struct(">iqi").unpack_from
_read_i4_i8_i8_i4 = struct.Struct(">iqqi").unpack_from
_read_i8 = struct.Struct(">q").unpack_from
_read_i8_i4 = struct.Struct(">qi").unpack_from
_read_i8_i8 = struct.Struct(">qq").unpack_from
_read_uuid = struct.Struct(">16s").unpack_from
_write_i4 = struct.Struct(">i").pack
_write_i4_i2_i4 = struct.Struct(">ihi").pack
_write_i4_i2_i8_i8 = struct.Struct(">ihqq").pack
_write_i4_i2_i8_i8_i8 = struct.Struct(">ihqqq").pack
_write_i4_i4 = struct.Struct(">ii").pack
_write_i4_i4_i4_i1_i4_i4 = struct.Struct(">iiibii").pack
_write_i4_i4_i4_i4_i1 = struct.Struct(">iiiib").pack
_write_i4_i4_i4_i4_i1_i4_i4 = struct.Struct(">iiiibii").pack
_write_i4_i4_i8_i4_i8_i4 = struct.Struct(">iiqiqi").pack
_write_i4_i4_i8_i8_i4 = struct.Struct(">iiqqi").pack
_write_i4_i8 = struct.Struct(">iq").pack
_write_i4_i8_i4 = struct.Struct(">iqi").pack
_write_i4_i8_i8_i4 = struct.Struct(">iqqi").pack
_write_i8 = struct.Struct(">q").pack
_write_i8_i4 = struct.Struct(">qi").pack
_write_i8_i8 = struct.Struct(">qq").pack
_write_uuid = struct.Struct(">16s").pack


class ReplicaState(Struct, gc=False):
    """Which replica is fetching."""

    replica_id: int = -1  # Number of the replica, -1 for a consumer.
    replica_epoch: int = -1  # Epoch of the fetching broker, -1 if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        replica_id, replica_epoch = _read_i4_i8(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(replica_id, replica_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.replica_id, self.replica_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FetchPartition(Struct, gc=False):
    """Partitions concerned."""

    partition: int = 0  # Number of the partition.
    current_leader_epoch: int = -1  # Leader epoch that the caller knows, to be fenced if it is old; -1 for none. [9+]
    fetch_offset: int = 0  # First offset wanted.
    last_fetched_epoch: int = -1  # Epoch of the last record in the caller's log, -1 if it does not check. [12+]
    log_start_offset: int = -1  # First offset that is still there. [5+]
    partition_max_bytes: int = 0  # Most bytes to return for this partition.
    replica_directory_id: Uuid = Uuid.ZERO  # Id of the directory that holds the replica. [17+]
    high_watermark: int = 9223372036854775807  # Offset below which records are replicated and readable. [18+]
    mirror_leader_epoch: int = -1  # Greatest source epoch in the log of a mirror partition, -1 for no mirror partition. [19+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 12:
            partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes = _read_i4_i4_i8_i4_i8_i4(buffer, position)
            position += 32
        elif version >= 9:
            partition, current_leader_epoch, fetch_offset, log_start_offset, partition_max_bytes = _read_i4_i4_i8_i8_i4(buffer, position)
            position += 28
            last_fetched_epoch = -1
        elif version >= 5:
            partition, fetch_offset, log_start_offset, partition_max_bytes = _read_i4_i8_i8_i4(buffer, position)
            position += 24
            current_leader_epoch = -1
            last_fetched_epoch = -1
        else:
            partition, fetch_offset, partition_max_bytes = _read_i4_i8_i4(buffer, position)
            position += 16
            current_leader_epoch = -1
            last_fetched_epoch = -1
            log_start_offset = -1
        replica_directory_id: Uuid = Uuid.ZERO
        high_watermark: int = 9223372036854775807
        mirror_leader_epoch: int = -1
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        if version < 17:
                            raise ProtocolReadError(f"tag 0 is not valid for FetchRequest version {version}")
                        (replica_directory_id_bytes,) = _read_uuid(buffer, position)
                        position += 16
                        replica_directory_id = Uuid(replica_directory_id_bytes)
                    elif tag == 1:
                        if version < 18:
                            raise ProtocolReadError(f"tag 1 is not valid for FetchRequest version {version}")
                        (high_watermark,) = _read_i8(buffer, position)
                        position += 8
                    elif tag == 2:
                        if version < 19:
                            raise ProtocolReadError(f"tag 2 is not valid for FetchRequest version {version}")
                        (mirror_leader_epoch,) = _read_i4(buffer, position)
                        position += 4
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes, replica_directory_id, high_watermark, mirror_leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if version < 12:
            if self.last_fetched_epoch != -1:
                raise unsupported_field("FetchRequest", "last_fetched_epoch", version)
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 12:
            append(_write_i4_i4_i8_i4_i8_i4(self.partition, self.current_leader_epoch, self.fetch_offset, self.last_fetched_epoch, self.log_start_offset, self.partition_max_bytes))
        elif version >= 9:
            append(_write_i4_i4_i8_i8_i4(self.partition, self.current_leader_epoch, self.fetch_offset, self.log_start_offset, self.partition_max_bytes))
        elif version >= 5:
            append(_write_i4_i8_i8_i4(self.partition, self.fetch_offset, self.log_start_offset, self.partition_max_bytes))
        else:
            append(_write_i4_i8_i4(self.partition, self.fetch_offset, self.partition_max_bytes))
        if version >= 12:
            tagged = list(self.unknown_tagged_fields)
            if version >= 17 and (self.replica_directory_id):
                tagged.append((0, _write_uuid(self.replica_directory_id.raw)))
            if version >= 18 and (self.high_watermark != 9223372036854775807):
                tagged.append((1, _write_i8(self.high_watermark)))
            if version == 19 and (self.mirror_leader_epoch != -1):
                tagged.append((2, _write_i4(self.mirror_leader_epoch)))
            out.write_tagged_fields(tagged)


class FetchTopic(Struct, gc=False):
    """Topics concerned."""

    topic: str = ""  # Name of the topic. [4-12]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [13+]
    partitions: list[FetchPartition] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic: str
        if version <= 12:
            if version >= 12:
                topic, position = read_compact_string(buffer, position)
            else:
                topic, position = read_string(buffer, position)
        else:
            topic = ""
        if version >= 13:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[FetchPartition]
        if version >= 12:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = FetchPartition.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 12:
            if version >= 12:
                out.write_compact_string(self.topic)
            else:
                out.write_string(self.topic)
        if version >= 13:
            append(_write_uuid(self.topic_id.raw))
        if version >= 12:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 12:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class ForgottenTopic(Struct, gc=False):
    """Partitions to drop from the fetch session."""

    topic: str = ""  # Name of the topic. [7-12]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [13+]
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic: str
        if version <= 12:
            if version >= 12:
                topic, position = read_compact_string(buffer, position)
            else:
                topic, position = read_string(buffer, position)
        else:
            topic = ""
        if version >= 13:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[int]
        if version >= 12:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version <= 12:
            if version >= 12:
                out.write_compact_string(self.topic)
            else:
                out.write_string(self.topic)
        if version >= 13:
            append(_write_uuid(self.topic_id.raw))
        if version >= 12:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)
        if version >= 12:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class FetchRequest(Struct, gc=False):
    """Asks to read record batches, as a consumer or as a follower."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 4
    HIGHEST_VERSION: ClassVar[int] = 19
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    cluster_id: str | None = None  # Id of the cluster. [12+]
    replica_id: int = -1  # Number of the replica, -1 for a consumer. [4-14]
    replica_state: ReplicaState = field(default_factory=ReplicaState)  # Which replica is fetching. [15+]
    max_wait_ms: int = 0  # Longest time to wait for MinBytes.
    min_bytes: int = 0  # Bytes to wait for before answering.
    max_bytes: int = 2147483647  # Most bytes to return; a first batch larger than this is returned all the same.
    isolation_level: int = 0  # Which records are visible: 0 all, 1 committed ones.
    session_id: int = 0  # Id of the fetch session, 0 for none. [7+]
    session_epoch: int = -1  # Place of this request in its session: 0 opens one, -1 ends it or goes without. [7+]
    topics: list[FetchTopic] = field(default_factory=list)  # Topics concerned.
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)  # Partitions to drop from the fetch session. [7+]
    rack_id: str = ""  # Rack of the caller. [11+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 15:
                max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _read_i4_i4_i4_i1_i4_i4(buffer, position)
                position += 21
                replica_id = -1
            elif version >= 7:
                replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = _read_i4_i4_i4_i4_i1_i4_i4(buffer, position)
                position += 25
            else:
                replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _read_i4_i4_i4_i4_i1(buffer, position)
                position += 17
                session_id = 0
                session_epoch = -1
            topics: list[FetchTopic]
            if version >= 12:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            topics = []
            for _ in range(count):
                topics_element, position = FetchTopic.read(buffer, position, version)
                topics.append(topics_element)
            forgotten_topics_data: list[ForgottenTopic]
            if version >= 7:
                if version >= 12:
                    count, position = read_compact_array_length(buffer, position)
                else:
                    count, position = read_array_length(buffer, position)
                forgotten_topics_data = []
                for _ in range(count):
                    forgotten_topics_data_element, position = ForgottenTopic.read(buffer, position, version)
                    forgotten_topics_data.append(forgotten_topics_data_element)
            else:
                forgotten_topics_data = []
            rack_id: str
            if version >= 11:
                if version >= 12:
                    rack_id, position = read_compact_string(buffer, position)
                else:
                    rack_id, position = read_string(buffer, position)
            else:
                rack_id = ""
            cluster_id: str | None = None
            replica_state: ReplicaState = ReplicaState()
            unknown_tagged_fields: TaggedFields = ()
            if version >= 12:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            cluster_id, position = read_compact_nullable_string(buffer, position)
                        elif tag == 1:
                            if version < 15:
                                raise ProtocolReadError(f"tag 1 is not valid for FetchRequest version {version}")
                            replica_state, position = ReplicaState.read(buffer, position, version)
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(cluster_id, replica_id, replica_state, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten_topics_data, rack_id, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FetchRequest", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if version > 14:
            if self.replica_id != -1:
                raise unsupported_field("FetchRequest", "replica_id", version)
        if version < 15:
            if self.replica_state != _DEFAULT_REPLICA_STATE:
                raise unsupported_field("FetchRequest", "replica_state", version)
        if version < 7:
            if self.forgotten_topics_data:
                raise unsupported_field("FetchRequest", "forgotten_topics_data", version)
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchRequest", "unknown_tagged_fields", version)
        append = out.append
        if version >= 15:
            append(_write_i4_i4_i4_i1_i4_i4(self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level, self.session_id, self.session_epoch))
        elif version >= 7:
            append(_write_i4_i4_i4_i4_i1_i4_i4(self.replica_id, self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level, self.session_id, self.session_epoch))
        else:
            append(_write_i4_i4_i4_i4_i1(self.replica_id, self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level))
        if version >= 12:
            out.write_compact_array_length(len(self.topics))
        else:
            out.write_array_length(len(self.topics))
        for topics_element in self.topics:
            topics_element.write(out, version)
        if version >= 7:
            if version >= 12:
                out.write_compact_array_length(len(self.forgotten_topics_data))
            else:
                out.write_array_length(len(self.forgotten_topics_data))
            for forgotten_topics_data_element in self.forgotten_topics_data:
                forgotten_topics_data_element.write(out, version)
        if version >= 11:
            if version >= 12:
                out.write_compact_string(self.rack_id)
            else:
                out.write_string(self.rack_id)
        if version >= 12:
            tagged = list(self.unknown_tagged_fields)
            if self.cluster_id is not None:
                cluster_id_out = Writer()
                cluster_id_out.write_compact_nullable_string(self.cluster_id)
                tagged.append((0, cluster_id_out.to_bytes()))
            if version >= 15 and (self.replica_state != _DEFAULT_REPLICA_STATE):
                replica_state_out = Writer()
                self.replica_state.write(replica_state_out, version)
                tagged.append((1, replica_state_out.to_bytes()))
            out.write_tagged_fields(tagged)


class EpochEndOffset(Struct, gc=False):
    """Largest epoch and its end offset from which on the logs differ; the follower truncates to it."""

    epoch: int = -1  # Largest epoch that both logs have, -1 for none.
    end_offset: int = -1  # Offset after the last one of the epoch or range.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        epoch, end_offset = _read_i4_i8(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(epoch, end_offset, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i8(self.epoch, self.end_offset))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class LeaderIdAndEpoch(Struct, gc=False):
    """Who leads the partition now, if the caller asked the wrong one."""

    leader_id: int = -1  # Number of the leader, -1 if unknown.
    leader_epoch: int = -1  # Epoch of the leader, -1 if unknown.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        leader_id, leader_epoch = _read_i4_i4(buffer, position)
        position += 8
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(leader_id, leader_epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4_i4(self.leader_id, self.leader_epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class SnapshotId(Struct, gc=False):
    """Snapshot that the follower must fetch instead of the log."""

    end_offset: int = -1  # Offset after the last one of the epoch or range.
    epoch: int = -1  # Epoch of the snapshot.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        end_offset, epoch = _read_i8_i4(buffer, position)
        position += 12
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(end_offset, epoch, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i8_i4(self.end_offset, self.epoch))
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class AbortedTransaction(Struct, gc=False):
    """Aborted transactions whose records are among those returned; null when not asked for committed reads."""

    producer_id: int = 0  # Id of the producer.
    first_offset: int = 0  # First offset of the transaction or range.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        producer_id, first_offset = _read_i8_i8(buffer, position)
        position += 16
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(producer_id, first_offset, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchResponse", "unknown_tagged_fields", version)
        append = out.append
        append(_write_i8_i8(self.producer_id, self.first_offset))
        if version >= 12:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class PartitionData(Struct, gc=False):
    """Partitions concerned."""

    partition_index: int = 0  # Number of the partition.
    error_code: int = 0  # Result as a code, 0 on success.
    high_watermark: int = 0  # Offset below which records are replicated and readable.
    last_stable_offset: int = -1  # Offset below which every transaction is decided.
    log_start_offset: int = -1  # First offset that is still there. [5+]
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)  # Largest epoch and its end offset from which on the logs differ; the follower truncates to it. [12+]
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)  # Who leads the partition now, if the caller asked the wrong one. [12+]
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)  # Snapshot that the follower must fetch instead of the log. [12+]
    mirror_leader_epoch: int = -1  # Greatest source epoch in the log of a mirror partition, -1 for no mirror partition. [19+]
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)  # Aborted transactions whose records are among those returned; null when not asked for committed reads.
    preferred_read_replica: int = -1  # Replica that the consumer had better read from, -1 for none. [11+]
    records: Records | None = b""  # Record batches.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        if version >= 5:
            partition_index, error_code, high_watermark, last_stable_offset, log_start_offset = _read_i4_i2_i8_i8_i8(buffer, position)
            position += 30
        else:
            partition_index, error_code, high_watermark, last_stable_offset = _read_i4_i2_i8_i8(buffer, position)
            position += 22
            log_start_offset = -1
        aborted_transactions: list[AbortedTransaction] | None
        if version >= 12:
            count, position = read_compact_nullable_array_length(buffer, position)
        else:
            count, position = read_nullable_array_length(buffer, position)
        if count < 0:
            aborted_transactions = None
        else:
            aborted_transactions = []
            for _ in range(count):
                aborted_transactions_element, position = AbortedTransaction.read(buffer, position, version)
                aborted_transactions.append(aborted_transactions_element)
        if version >= 11:
            (preferred_read_replica,) = _read_i4(buffer, position)
            position += 4
        else:
            preferred_read_replica = -1
        records: Records | None
        if version >= 12:
            records, position = read_compact_nullable_records(buffer, position)
        else:
            records, position = read_nullable_records(buffer, position)
        diverging_epoch: EpochEndOffset = EpochEndOffset()
        current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
        snapshot_id: SnapshotId = SnapshotId()
        mirror_leader_epoch: int = -1
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                tag_count, position = read_unsigned_varint(buffer, position)
                for _ in range(tag_count):
                    tag, position = read_unsigned_varint(buffer, position)
                    size, position = read_unsigned_varint(buffer, position)
                    if tag == 0:
                        diverging_epoch, position = EpochEndOffset.read(buffer, position, version)
                    elif tag == 1:
                        current_leader, position = LeaderIdAndEpoch.read(buffer, position, version)
                    elif tag == 2:
                        snapshot_id, position = SnapshotId.read(buffer, position, version)
                    elif tag == 3:
                        if version < 19:
                            raise ProtocolReadError(f"tag 3 is not valid for FetchResponse version {version}")
                        (mirror_leader_epoch,) = _read_i4(buffer, position)
                        position += 4
                    else:
                        value, position = read_unknown_tagged_field(buffer, position, size)
                        unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
        return cls(partition_index, error_code, high_watermark, last_stable_offset, log_start_offset, diverging_epoch, current_leader, snapshot_id, mirror_leader_epoch, aborted_transactions, preferred_read_replica, records, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 5:
            append(_write_i4_i2_i8_i8_i8(self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset, self.log_start_offset))
        else:
            append(_write_i4_i2_i8_i8(self.partition_index, self.error_code, self.high_watermark, self.last_stable_offset))
        if self.aborted_transactions is None:
            if version >= 12:
                out.append(b"\0")
            else:
                out.append(b"\xff\xff\xff\xff")
        else:
            if version >= 12:
                out.write_compact_array_length(len(self.aborted_transactions))
            else:
                out.write_array_length(len(self.aborted_transactions))
            for aborted_transactions_element in self.aborted_transactions:
                aborted_transactions_element.write(out, version)
        if version >= 11:
            append(_write_i4(self.preferred_read_replica))
        if version >= 12:
            out.write_compact_nullable_records(self.records)
        else:
            out.write_nullable_records(self.records)
        if version >= 12:
            tagged = list(self.unknown_tagged_fields)
            if self.diverging_epoch != _DEFAULT_EPOCH_END_OFFSET:
                diverging_epoch_out = Writer()
                self.diverging_epoch.write(diverging_epoch_out, version)
                tagged.append((0, diverging_epoch_out.to_bytes()))
            if self.current_leader != _DEFAULT_LEADER_ID_AND_EPOCH:
                current_leader_out = Writer()
                self.current_leader.write(current_leader_out, version)
                tagged.append((1, current_leader_out.to_bytes()))
            if self.snapshot_id != _DEFAULT_SNAPSHOT_ID:
                snapshot_id_out = Writer()
                self.snapshot_id.write(snapshot_id_out, version)
                tagged.append((2, snapshot_id_out.to_bytes()))
            if version == 19 and (self.mirror_leader_epoch != -1):
                tagged.append((3, _write_i4(self.mirror_leader_epoch)))
            out.write_tagged_fields(tagged)


class FetchableTopicResponse(Struct, gc=False):
    """Topics with what was read."""

    topic: str = ""  # Name of the topic. [4-12]
    topic_id: Uuid = Uuid.ZERO  # Id of the topic. [13+]
    partitions: list[PartitionData] = field(default_factory=list)  # Partitions concerned.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic: str
        if version <= 12:
            if version >= 12:
                topic, position = read_compact_string(buffer, position)
            else:
                topic, position = read_string(buffer, position)
        else:
            topic = ""
        if version >= 13:
            (topic_id_bytes,) = _read_uuid(buffer, position)
            position += 16
            topic_id = Uuid(topic_id_bytes)
        else:
            topic_id = Uuid.ZERO
        partitions: list[PartitionData]
        if version >= 12:
            count, position = read_compact_array_length(buffer, position)
        else:
            count, position = read_array_length(buffer, position)
        partitions = []
        for _ in range(count):
            partitions_element, position = PartitionData.read(buffer, position, version)
            partitions.append(partitions_element)
        unknown_tagged_fields: TaggedFields = ()
        if version >= 12:
            if not buffer[position]:
                position += 1
            else:
                unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(topic, topic_id, partitions, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version <= 12:
            if version >= 12:
                out.write_compact_string(self.topic)
            else:
                out.write_string(self.topic)
        if version >= 13:
            append(_write_uuid(self.topic_id.raw))
        if version >= 12:
            out.write_compact_array_length(len(self.partitions))
        else:
            out.write_array_length(len(self.partitions))
        for partitions_element in self.partitions:
            partitions_element.write(out, version)
        if version >= 12:
            if self.unknown_tagged_fields:
                out.write_tagged_fields(self.unknown_tagged_fields)
            else:
                append(b"\0")


class NodeEndpoint(Struct, gc=False):
    """Addresses of the leaders named in this answer."""

    node_id: int = 0  # Number of the node.
    host: str = ""  # Name or address of the host.
    port: int = 0  # Port number.
    rack: str | None = None  # Rack of the node; null if it has none.
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        (node_id,) = _read_i4(buffer, position)
        position += 4
        host, position = read_compact_string(buffer, position)
        (port,) = _read_i4(buffer, position)
        position += 4
        rack: str | None
        rack, position = read_compact_nullable_string(buffer, position)
        unknown_tagged_fields: TaggedFields = ()
        if not buffer[position]:
            position += 1
        else:
            unknown_tagged_fields, position = read_tagged_fields(buffer, position)
        return cls(node_id, host, port, rack, unknown_tagged_fields), position

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        append(_write_i4(self.node_id))
        out.write_compact_string(self.host)
        append(_write_i4(self.port))
        out.write_compact_nullable_string(self.rack)
        if self.unknown_tagged_fields:
            out.write_tagged_fields(self.unknown_tagged_fields)
        else:
            append(b"\0")


class FetchResponse(Struct, gc=False):
    """Answers a request to read record batches, as a consumer or as a follower."""

    API_KEY: ClassVar[int] = 1
    LOWEST_VERSION: ClassVar[int] = 4
    HIGHEST_VERSION: ClassVar[int] = 19
    FLEXIBLE_FROM: ClassVar[int | None] = 12

    throttle_time_ms: int = 0  # How long the caller must pause because of a quota, 0 for not at all.
    error_code: int = 0  # Result as a code, 0 on success. [7+]
    session_id: int = 0  # Id of the fetch session, 0 for none. [7+]
    responses: list[FetchableTopicResponse] = field(default_factory=list)  # Topics with what was read.
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # Addresses of the leaders named in this answer. [16+]
    unknown_tagged_fields: TaggedFields = ()

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            if version >= 7:
                throttle_time_ms, error_code, session_id = _read_i4_i2_i4(buffer, position)
                position += 10
            else:
                (throttle_time_ms,) = _read_i4(buffer, position)
                position += 4
                error_code = 0
                session_id = 0
            responses: list[FetchableTopicResponse]
            if version >= 12:
                count, position = read_compact_array_length(buffer, position)
            else:
                count, position = read_array_length(buffer, position)
            responses = []
            for _ in range(count):
                responses_element, position = FetchableTopicResponse.read(buffer, position, version)
                responses.append(responses_element)
            node_endpoints: list[NodeEndpoint] = []
            unknown_tagged_fields: TaggedFields = ()
            if version >= 12:
                if not buffer[position]:
                    position += 1
                else:
                    tag_count, position = read_unsigned_varint(buffer, position)
                    for _ in range(tag_count):
                        tag, position = read_unsigned_varint(buffer, position)
                        size, position = read_unsigned_varint(buffer, position)
                        if tag == 0:
                            if version < 16:
                                raise ProtocolReadError(f"tag 0 is not valid for FetchResponse version {version}")
                            count, position = read_compact_array_length(buffer, position)
                            node_endpoints = []
                            for _ in range(count):
                                node_endpoints_element, position = NodeEndpoint.read(buffer, position, version)
                                node_endpoints.append(node_endpoints_element)
                        else:
                            value, position = read_unknown_tagged_field(buffer, position, size)
                            unknown_tagged_fields = (*unknown_tagged_fields, (tag, value))
            return cls(throttle_time_ms, error_code, session_id, responses, node_endpoints, unknown_tagged_fields), position
        except READ_ERRORS as error:
            raise malformed("FetchResponse", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        if self.unknown_tagged_fields and version < 12:
            raise unsupported_field("FetchResponse", "unknown_tagged_fields", version)
        append = out.append
        if version >= 7:
            append(_write_i4_i2_i4(self.throttle_time_ms, self.error_code, self.session_id))
        else:
            append(_write_i4(self.throttle_time_ms))
        if version >= 12:
            out.write_compact_array_length(len(self.responses))
        else:
            out.write_array_length(len(self.responses))
        for responses_element in self.responses:
            responses_element.write(out, version)
        if version >= 12:
            tagged = list(self.unknown_tagged_fields)
            if version >= 16 and (self.node_endpoints):
                node_endpoints_out = Writer()
                node_endpoints_out.write_compact_array_length(len(self.node_endpoints))
                for node_endpoints_element in self.node_endpoints:
                    node_endpoints_element.write(node_endpoints_out, version)
                tagged.append((0, node_endpoints_out.to_bytes()))
            out.write_tagged_fields(tagged)


_DEFAULT_REPLICA_STATE = ReplicaState()
_DEFAULT_EPOCH_END_OFFSET = EpochEndOffset()
_DEFAULT_LEADER_ID_AND_EPOCH = LeaderIdAndEpoch()
_DEFAULT_SNAPSHOT_ID = SnapshotId()
