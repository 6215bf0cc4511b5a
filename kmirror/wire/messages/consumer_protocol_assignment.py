"""ConsumerProtocolAssignment. Generated from ConsumerProtocolAssignment.json in protocol/records by tools/generate_messages.py; do not edit."""

from __future__ import annotations

from typing import ClassVar, Self

from msgspec import Struct, field

from kmirror.wire.primitives import (
    READ_ERRORS,
    Writer,
    malformed,
    read_array_length,
    read_int32s,
    read_nullable_bytes,
    read_string,
)



class TopicPartition(Struct, gc=False):
    """Partitions that the member owns."""

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


class ConsumerProtocolAssignment(Struct, gc=False):
    """What a classic consumer is assigned."""

    LOWEST_VERSION: ClassVar[int] = 0
    HIGHEST_VERSION: ClassVar[int] = 3
    FLEXIBLE_FROM: ClassVar[int | None] = None

    assigned_partitions: list[TopicPartition] = field(default_factory=list)  # Partitions that the member owns.
    user_data: bytes | None = None  # Bytes for the assignment strategy.

    @classmethod
    def read(cls, buffer: memoryview, position: int, version: int) -> tuple[Self, int]:
        try:
            assigned_partitions: list[TopicPartition]
            count, position = read_array_length(buffer, position)
            assigned_partitions = []
            for _ in range(count):
                assigned_partitions_element, position = TopicPartition.read(buffer, position, version)
                assigned_partitions.append(assigned_partitions_element)
            user_data: bytes | None
            user_data, position = read_nullable_bytes(buffer, position)
            return cls(assigned_partitions, user_data), position
        except READ_ERRORS as error:
            raise malformed("ConsumerProtocolAssignment", version, error) from error

    def write(self, out: Writer, version: int) -> None:
        out.write_array_length(len(self.assigned_partitions))
        for assigned_partitions_element in self.assigned_partitions:
            assigned_partitions_element.write(out, version)
        out.write_nullable_bytes(self.user_data)
