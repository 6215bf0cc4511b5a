"""A `HashMap<byte[], byte[]>` as Java's `ObjectOutputStream` writes it: the file of a standalone worker's
source offsets.

    AC ED 00 05                     stream, version 5
    73 72 "java.util.HashMap" ...   an object and its class: fields loadFactor (float), threshold (int)
    float, int                      0.75, and the size at which the table grows
    77 08 int int                   buckets and entries
    key value ...                   each a byte array, or 70 for null
    78                              the end

An array is `75`, its class, an int with its length and its bytes. The class of the first array is
written out (72 "[B" ...), that of the others refers to it (71 and a handle). Handles count classes and
objects from 7E0000 in the order in which they are written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from kmirror.common.errors import KmirrorError

_MAGIC: Final = bytes.fromhex("aced0005")
_MAP_CLASS: Final = bytes.fromhex("7372") + b"\0\x11java.util.HashMap" + bytes.fromhex("0507dac1c31660d1030002")
_FIELDS: Final = b"F\0\x0aloadFactorI\0\x09threshold" + bytes.fromhex("7870")
_HEAD: Final = _MAGIC + _MAP_CLASS + _FIELDS
_ARRAY_CLASS: Final = bytes.fromhex("7200025b42acf317f8060854e00200007870")
_NULL, _REFERENCE, _ARRAY, _END = 0x70, 0x71, 0x75, 0x78
_FIRST_HANDLE: Final = 0x7E0000
_ARRAY_CLASS_HANDLE: Final = _FIRST_HANDLE + 2
_LOAD_FACTOR: Final = 0.75
_LEAST_BUCKETS: Final = 16


class JavaSerializationError(KmirrorError):
    """The bytes are not such a map."""


def write_hash_map(entries: Mapping[bytes, bytes | None]) -> bytes:
    """Returns the stream, with the table's size as Java has it."""
    buckets = _LEAST_BUCKETS
    while len(entries) > buckets * _LOAD_FACTOR:
        buckets *= 2
    grows_at = int(buckets * _LOAD_FACTOR) if entries else 0
    parts = [_HEAD, struct.pack(">fi", _LOAD_FACTOR, grows_at), struct.pack(">BBii", 0x77, 8, buckets, len(entries))]
    array_class = _ARRAY_CLASS
    for data in (one for entry in entries.items() for one in entry):
        if data is None:
            parts.append(bytes([_NULL]))
            continue
        parts += [bytes([_ARRAY]), array_class, struct.pack(">i", len(data)), data]
        array_class = struct.pack(">Bi", _REFERENCE, _ARRAY_CLASS_HANDLE)
    return b"".join([*parts, bytes([_END])])


def read_hash_map(data: bytes) -> dict[bytes, bytes | None]:
    """Returns the entries; the last of equal keys counts. A key that is null is left out."""
    if not data.startswith(_HEAD):
        raise JavaSerializationError("not a java.util.HashMap of Java's object stream")
    reader = _Reader(data, len(_HEAD))
    reader.take(8)  # load factor and threshold follow from the size
    block, length, _, count = struct.unpack(">BBii", reader.take(10))
    if (block, length) != (0x77, 8) or count < 0:
        raise JavaSerializationError("a HashMap without its size")
    found: dict[bytes, bytes | None] = {}
    for _ in range(count):
        key, value = reader.array(), reader.array()
        if key is not None:
            found[key] = value
    if reader.take(1)[0] != _END:
        raise JavaSerializationError("a HashMap without its end")
    return found


class _Reader:
    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._handles: list[bytes | None] = [None, None]  # the map's class and the map

    def take(self, size: int) -> bytes:
        end = self._position + size
        if size < 0 or end > len(self._data):
            raise JavaSerializationError("the stream ends in the middle of a HashMap")
        taken, self._position = self._data[self._position : end], end
        return taken

    def array(self) -> bytes | None:
        tag = self.take(1)[0]
        if tag == _NULL:
            return None
        if tag == _REFERENCE:
            return self._referred()
        if tag != _ARRAY:
            raise JavaSerializationError(f"an entry of a HashMap is no byte array: tag 0x{tag:02x}")
        self._array_class()
        (length,) = struct.unpack(">i", self.take(4))
        data = self.take(length)
        self._handles.append(data)
        return data

    def _array_class(self) -> None:
        if self._data.startswith(_ARRAY_CLASS, self._position):
            self.take(len(_ARRAY_CLASS))
            self._handles.append(None)
        elif struct.unpack(">Bi", self.take(5)) != (_REFERENCE, _ARRAY_CLASS_HANDLE):
            raise JavaSerializationError("an entry of a HashMap is an array of something other than bytes")

    def _referred(self) -> bytes:
        (handle,) = struct.unpack(">i", self.take(4))
        index = handle - _FIRST_HANDLE
        found: bytes | None = self._handles[index] if 0 <= index < len(self._handles) else None
        if found is None:
            raise JavaSerializationError(f"a HashMap refers to what is no byte array: 0x{handle:x}")
        return found
