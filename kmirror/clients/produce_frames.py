"""Produce requests and their answers as bytes, without message objects in between.

A producer that passes batches on makes one request for each 16 KB, so what a request costs counts.
`produce_body` joins what stands between two batches into one piece, and takes the records by
reference. `acknowledged_rows` reads an answer in which every partition was written. An answer that
says anything else (an error, a newer leader, unknown tags) is left to the generated reader.

    request   transactional id, acks, timeout, topics: [name or id, partitions: [index, batch]]
    answer    topics: [name or id, partitions: [index, error, offset, time, start, errors, text]],
              throttle time

From version 9 on lengths are compact and tags follow each part; from 13 on a topic goes by its id.
The tests compare both directions with the generated modules, for each version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from kmirror.common.ports import Buffer
from kmirror.wire.primitives import READ_ERRORS, ProtocolReadError, Writer, encode_unsigned_varint, read_unsigned_varint

FIRST_FLEXIBLE: Final = 9
FIRST_WITH_IDS: Final = 13
ID_BYTES: Final = 16
NO_ELEMENTS: Final = 1
"""The compact length of an array without elements."""
_INT32 = struct.Struct(">i")
_TWO_INT32 = struct.Struct(">ii")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_ANSWER_BEGIN = struct.Struct(">ib")
_ROW = struct.Struct(">ihqqqBBB")
"""Index, error, base offset, append time, log start offset, errors + 1, text + 1, tags."""


class BatchOnWire(NamedTuple):
    """One batch of a request: its partition, its header, and the records behind it."""

    partition: int
    header: Buffer
    payload: Buffer


class AcknowledgedRow(NamedTuple):
    """A batch that was written. `topic` is a name, or an id's bytes from version 13 on. Times are
    ms.
    """

    topic: str | bytes
    partition: int
    base_offset: int
    log_append_time_ms: int


class ProduceBodies:
    """Bodies of the requests of one producer, whose settings do not change. `timeout_ms` is what
    the broker may take.
    """

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int) -> None:
        self._beginnings = tuple(_beginning(transactional_id, acks, timeout_ms, is_compact) for is_compact in (False, True))
        self._names: dict[tuple[str, bool], bytes] = {}

    def body(self, version: int, topics: Mapping[str | bytes, Sequence[BatchOnWire]]) -> tuple[list[Buffer], int]:
        """Returns the request behind its header, and its size in bytes. The first part is bytes.
        From version 13 on the keys are the bytes of ids.
        """
        is_compact = version >= FIRST_FLEXIBLE
        pending = self._beginnings[is_compact] + (encode_unsigned_varint(len(topics) + 1) if is_compact else _INT32.pack(len(topics)))
        parts: list[Buffer] = []
        size = 0
        for topic, batches in topics.items():
            pending += self._name(topic, is_compact)
            pending += encode_unsigned_varint(len(batches) + 1) if is_compact else _INT32.pack(len(batches))
            for index, header, payload in batches:
                length = len(header) + len(payload)
                if is_compact:
                    piece = b"".join((pending, _INT32.pack(index), encode_unsigned_varint(length + 1), header))
                else:
                    piece = b"".join((pending, _TWO_INT32.pack(index, length), header))
                parts += (piece, payload)
                size += len(piece) + len(payload)
                pending = b"\0" if is_compact else b""
            if is_compact:
                pending += b"\0"
        if is_compact:
            pending += b"\0"
        if pending:
            parts.append(pending)
        return parts, size + len(pending)

    def _name(self, topic: str | bytes, is_compact: bool) -> bytes:
        if isinstance(topic, bytes):
            return topic
        found = self._names.get((topic, is_compact))
        if found is None:
            found = self._names[topic, is_compact] = _name_bytes(topic, is_compact)
        return found


def _beginning(transactional_id: str | None, acks: int, timeout_ms: int, is_compact: bool) -> bytes:
    out = Writer()
    if is_compact:
        out.write_compact_nullable_string(transactional_id)
    else:
        out.write_nullable_string(transactional_id)
    return out.to_bytes() + _ACKS_AND_TIMEOUT.pack(acks, timeout_ms)


def _name_bytes(topic: str, is_compact: bool) -> bytes:
    out = Writer()
    if is_compact:
        out.write_compact_string(topic)
    else:
        out.write_string(topic)
    return out.to_bytes()


def acknowledged_rows(version: int, frame: memoryview) -> tuple[list[AcknowledgedRow], int] | None:
    """Reads the answer to a request of this version, from the correlation id on: the rows, and the
    throttle time in ms. None if any row has more to say than that it was written, and for bytes that
    make no sense: then the generated reader decides.
    """
    if version < FIRST_FLEXIBLE:
        return None
    try:
        return _read_rows(version, frame)
    except (*READ_ERRORS, ProtocolReadError, UnicodeDecodeError):
        return None


def _read_rows(version: int, frame: memoryview) -> tuple[list[AcknowledgedRow], int] | None:
    _, tags = _ANSWER_BEGIN.unpack_from(frame, 0)
    if tags:
        return None
    rows: list[AcknowledgedRow] = []
    position = _ANSWER_BEGIN.size
    topics, position = read_unsigned_varint(frame, position)
    for _ in range(topics - 1):
        topic: str | bytes
        if version >= FIRST_WITH_IDS:
            topic, position = bytes(frame[position : position + ID_BYTES]), position + ID_BYTES
        else:
            length, position = read_unsigned_varint(frame, position)
            topic, position = str(frame[position : position + length - 1], "utf-8"), position + length - 1
        partitions, position = read_unsigned_varint(frame, position)
        for _ in range(partitions - 1):
            index, error, base_offset, time_ms, _start, errors, text, tags = _ROW.unpack_from(frame, position)
            if error or errors != NO_ELEMENTS or text or tags:
                return None
            position += _ROW.size
            rows.append(AcknowledgedRow(topic, index, base_offset, time_ms))
        if frame[position]:
            return None
        position += 1
    (throttle_ms,) = _INT32.unpack_from(frame, position)
    return None if frame[position + _INT32.size] else (rows, throttle_ms)
