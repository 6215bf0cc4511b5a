"""ConsumerProtocolSubscription. Generated from ConsumerProtocolSubscription.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

import struct
from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_array_length,
    read_int32s,
    read_nullable_bytes,
    read_nullable_string,
    read_string,
    read_strings,
)

_read_i4 = struct.Struct(">i").unpack_from
_write_i4 = struct.Struct(">i").pack


class TopicPartition(Struct, gc=False):
    """Partitions that the member had before."""

    topic: str = ""  # Name of the topic.
    partitions: list[int] = field(default_factory=list)  # Partitions concerned.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        topic, position = read_string(buffer, position)
        partitions: list[int]
        count, position = read_array_length(buffer, position)
        partitions, position = read_int32s(buffer, position, count)
        return cls(topic, partitions), position

    def write(self, out: Writer, version: int) -> None:
        out.write_string(self.topic)
        out.write_array_length(len(self.partitions))
        out.write_int32s(self.partitions)


class ConsumerProtocolSubscription(Struct, gc=False):
    """What a classic consumer subscribes to."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = None

    topics: list[str] = field(default_factory=list)  # Topics concerned.
    user_data: bytes | None = None  # Bytes for the assignment strategy.
    owned_partitions: list[TopicPartition] = field(default_factory=list)  # Partitions that the member had before. [1+]
    generation_id: int = -1  # Generation of the group; goes up with every rebalance. [2+]
    rack_id: str | None = None  # Rack of the caller. [3+]

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            topics: list[str]
            count, position = read_array_length(buffer, position)
            topics, position = read_strings(buffer, position, count)
            user_data: bytes | None
            user_data, position = read_nullable_bytes(buffer, position)
            owned_partitions: list[TopicPartition]
            if version >= 1:
                count, position = read_array_length(buffer, position)
                owned_partitions = []
                for _ in range(count):
                    owned_partitions_element, position = TopicPartition.read(buffer, position, version)
                    owned_partitions.append(owned_partitions_element)
            else:
                owned_partitions = []
            if version >= 2:
                (generation_id,) = _read_i4(buffer, position)
                position += 4
            else:
                generation_id = -1
            rack_id: str | None
            if version == 3:
                rack_id, position = read_nullable_string(buffer, position)
            else:
                rack_id = None
            return cls(topics, user_data, owned_partitions, generation_id, rack_id), position
        except READ_ERRORS as error:
            raise malformed("ConsumerProtocolSubscription", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        append = out.append
        out.write_array_length(len(self.topics))
        out.write_strings(self.topics)
        out.write_nullable_bytes(self.user_data)
        if version >= 1:
            out.write_array_length(len(self.owned_partitions))
            for owned_partitions_element in self.owned_partitions:
                owned_partitions_element.write(out, version)
        if version >= 2:
            append(_write_i4(self.generation_id))
        if version == 3:
            out.write_nullable_string(self.rack_id)
