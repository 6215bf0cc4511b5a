"""Produce requests and their answers as bytes, without message objects in between.

A producer that passes batches on makes one request for each 16 KB, so what a request costs counts.
`produce_body` joins what stands between two batches into one piece, and takes the records by
reference. `acknowledged` reads an answer in which every partition was written. An answer that
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
_LONG_VARINT: Final = 0x80
NO_ELEMENTS: Final = 1
"""The compact length of an array without elements."""
_ONE_ELEMENT: Final = b"\2"
_TAGS_OF_ONE: Final = b"\0\0\0"
"""No tags of a partition, of its topic and of the request."""
_INT32 = struct.Struct(">i")
_TWO_INT32 = struct.Struct(">ii")
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_ANSWER_BEGIN = struct.Struct(">ib")
_ANSWER_OF_ONE = struct.Struct(">i2s16sBihqqq9s")
"""Correlation id, tags and topics + 1, an id, partitions + 1, the row without its end, the rest."""
_BEGIN_OF_ONE: Final = b"\0\2"
_END_OF_ONE: Final = b"\1\0\0" + bytes(6)
_LEAST_ANSWER_BYTES: Final = 33
"""Size, correlation id, one topic by its id, both counts, throttle time and tags."""
_ROW = struct.Struct(">ihqqqBBB")
"""Index, error, base offset, append time, log start offset, errors + 1, text + 1, tags."""


class BatchOnWire(NamedTuple):
    """One batch of a request: its partition, its header, and the records behind it."""

    partition: int
    header: Buffer
    payload: Buffer


Key = tuple[str | bytes, int]
"""A partition in a request: its topic's name, or the id's bytes from version 13 on, and its number."""
Written = tuple[int, int]
"""Where a batch was written: base offset, and the broker's time in ms or -1."""


class ProduceBodies:
    """Bodies of the requests of one producer, whose settings do not change. `timeout_ms` is what
    the broker may take.
    """

    def __init__(self, transactional_id: str | None, acks: int, timeout_ms: int) -> None:
        self._beginnings = tuple(_beginning(transactional_id, acks, timeout_ms, is_compact) for is_compact in (False, True))
        self._names: dict[tuple[str, bool], bytes] = {}
        self._openings: dict[Key, tuple[int, bytes]] = {}

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

    def body_of_one(self, version: int, key: Key, header: Buffer, payload: Buffer) -> tuple[list[Buffer], int]:
        """Returns what `body` does for a request of one batch, sooner; for versions from
        FIRST_FLEXIBLE on.
        """
        known = self._openings.get(key)
        if known is None or known[0] != version:
            topic, index = key
            opening = self._beginnings[True] + _ONE_ELEMENT + self._name(topic, True) + _ONE_ELEMENT + _INT32.pack(index)
            known = self._openings[key] = (version, opening)
        length = len(header) + len(payload)
        piece = b"".join((known[1], encode_unsigned_varint(length + 1), header))
        return [piece, payload, _TAGS_OF_ONE], len(piece) + len(payload) + len(_TAGS_OF_ONE)

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


def least_answer_bytes(version: int, batches: int) -> int:
    """What the shortest answer to a request with so many batches takes, its size included; 0 if that
    is not known.
    """
    return _LEAST_ANSWER_BYTES + batches * _ROW.size if version >= FIRST_WITH_IDS else 0


def acknowledged(version: int, frame: memoryview, keys: Sequence[Key]) -> tuple[list[Written], int] | None:
    """Reads the answer to a request of this version with these partitions, from the correlation id
    on: where each batch was written, in their order, and the throttle time in ms.

    None if any row has more to say than that it was written, if the rows are others than those of
    the request, and for bytes that make no sense: then the generated reader decides.
    """
    if version < FIRST_FLEXIBLE:
        return None
    if len(keys) == 1 and len(frame) == _ANSWER_OF_ONE.size and version >= FIRST_WITH_IDS:
        _, begin, topic, count, index, error, base_offset, time_ms, _start, end = _ANSWER_OF_ONE.unpack(frame)
        if keys[0] == (topic, index) and not error and begin == _BEGIN_OF_ONE and count == NO_ELEMENTS + 1 and end == _END_OF_ONE:
            return [(base_offset, time_ms)], 0
    try:
        found = _read_rows(version, frame)
    except (*READ_ERRORS, ProtocolReadError, UnicodeDecodeError):
        return None
    if found is None:
        return None
    answered, rows, throttle_ms = found
    if answered != keys:  # in another order than the request
        if len(answered) != len(keys):
            return None
        by_key = dict(zip(answered, rows, strict=True))
        if any(key not in by_key for key in keys):
            return None
        rows = [by_key[key] for key in keys]
    return rows, throttle_ms


def _read_rows(version: int, frame: memoryview) -> tuple[list[Key], list[Written], int] | None:
    _, tags = _ANSWER_BEGIN.unpack_from(frame, 0)
    if tags:
        return None
    keys: list[Key] = []
    rows: list[Written] = []
    position = _ANSWER_BEGIN.size
    topics, position = _count(frame, position)
    for _ in range(topics - 1):
        topic: str | bytes
        if version >= FIRST_WITH_IDS:
            topic, position = bytes(frame[position : position + ID_BYTES]), position + ID_BYTES
        else:
            length, position = _count(frame, position)
            topic, position = str(frame[position : position + length - 1], "utf-8"), position + length - 1
        partitions, position = _count(frame, position)
        for _ in range(partitions - 1):
            index, error, base_offset, time_ms, _start, errors, text, tags = _ROW.unpack_from(frame, position)
            if error or errors != NO_ELEMENTS or text or tags:
                return None
            position += _ROW.size
            keys.append((topic, index))
            rows.append((base_offset, time_ms))
        if frame[position]:
            return None
        position += 1
    (throttle_ms,) = _INT32.unpack_from(frame, position)
    return None if frame[position + _INT32.size] else (keys, rows, throttle_ms)


def _count(frame: memoryview, position: int) -> tuple[int, int]:
    """A compact length, and the position behind it."""
    first = frame[position]
    return (first, position + 1) if first < _LONG_VARINT else read_unsigned_varint(frame, position)
