"""Framing of the stored records that carry generated messages.

A value in `__cluster_metadata` is: unsigned varint frame version (1), unsigned varint record type,
unsigned varint record version, message; the record key is null. A coordinator's record
(`__consumer_offsets`, `__transaction_state`, `__share_group_state`, `__mirror_state`) has an int16
before its value (the version) and before its key (the type); the room that owns the topic knows the
classes.
"""

from __future__ import annotations

import functools
import struct
from typing import Protocol, TypeVar, cast

from kmirror.common.ports import Buffer
from kmirror.wire.api_keys import Message, message_class
from kmirror.wire.messages.index import METADATA_RECORDS
from kmirror.wire.primitives import READ_ERRORS, ProtocolReadError, Writer, encode_unsigned_varint, malformed, read_unsigned_varint

FRAME_VERSION = 1
_INT16 = struct.Struct(">h")
M = TypeVar("M", bound="VersionedMessage")


class VersionedMessage(Message, Protocol):
    """A message class with its versions."""

    LOWEST_VERSION: int
    HIGHEST_VERSION: int


class MetadataRecord(VersionedMessage, Protocol):
    """A record of `__cluster_metadata`; its type number is `API_KEY`."""

    API_KEY: int


def read_metadata_record(value: Buffer) -> MetadataRecord:
    """Decodes one value of `__cluster_metadata`; raises ProtocolReadError for anything that Kafka's
    reader refuses."""
    buffer = memoryview(value)
    try:
        frame_version, position = read_unsigned_varint(buffer, 0)
        if frame_version != FRAME_VERSION:
            raise ProtocolReadError(f"metadata record has frame version {frame_version}; only {FRAME_VERSION} is supported")
        record_type, position = read_unsigned_varint(buffer, position)
        version, position = read_unsigned_varint(buffer, position)
    except READ_ERRORS as error:
        raise malformed("metadata record frame", FRAME_VERSION, error) from error
    if record_type not in METADATA_RECORDS:
        raise ProtocolReadError(f"unknown metadata record type {record_type}")
    message, position = _read(_metadata_record_class(record_type), buffer, position, version)
    if position < len(buffer):
        name = type(message).__name__
        raise ProtocolReadError(f"found {len(buffer) - position} byte(s) of garbage after {name} version {version}")
    return message


@functools.cache
def _metadata_record_class(record_type: int) -> type[MetadataRecord]:
    name, module = METADATA_RECORDS[record_type]
    return cast(type[MetadataRecord], message_class(module, name))


def write_metadata_record(message: MetadataRecord, version: int) -> bytes:
    """Encodes one value of `__cluster_metadata`."""
    out = Writer()
    out.append(encode_unsigned_varint(FRAME_VERSION) + encode_unsigned_varint(message.API_KEY) + encode_unsigned_varint(version))
    message.write(out, version)
    return out.to_bytes()


def read_versioned(message_class: type[M], value: Buffer) -> M:
    """Decodes an int16 version and the message in that version (values of coordinator records)."""
    buffer = memoryview(value)
    try:
        version = _INT16.unpack_from(buffer, 0)[0]
    except READ_ERRORS as error:
        raise malformed(message_class.__name__, 0, error) from error
    return _read(message_class, buffer, _INT16.size, version)[0]


def write_versioned(message: Message, version: int, *, prefix: int | None = None) -> bytes:
    """Encodes int16 `prefix` (default: the version) and the message. A coordinator key has its
    record type as prefix."""
    out = Writer()
    out.append(_INT16.pack(version if prefix is None else prefix))
    message.write(out, version)
    return out.to_bytes()


def _read(message_class: type[M], buffer: memoryview, position: int, version: int) -> tuple[M, int]:
    if not message_class.LOWEST_VERSION <= version <= message_class.HIGHEST_VERSION:
        known = f"{message_class.LOWEST_VERSION} to {message_class.HIGHEST_VERSION}"
        raise ProtocolReadError(f"{message_class.__name__} has no version {version}; known are {known}")
    return message_class.read(buffer, position, version)
