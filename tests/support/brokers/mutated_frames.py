"""Request frames, and a `Mutator` that damages them.

The frames are those of the golden captures (12-wire, and the mirror APIs' of 20-reference) and one
of every API and version with every list filled. Names and ids of topics in them are those of topics
that the broker has, so that handlers run to their end. A `Mutator` changes bits, bytes, numbers and
lengths, cuts, repeats and splices, and makes one frame claim to be another API or version. The seed
decides everything.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
import struct
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_request, read_request_header
from support.logs.golden_vectors import golden_dir, read_recording, recordings

MAX_WAIT_MS = 20
TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")
INTERESTING = (0, 1, -1, 2, 127, 128, 255, 256, 32767, -32768, 65535, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 0x01010101)


def captured_frames() -> list[bytes]:
    """Returns every distinct request of the captures, without its length."""
    frames: dict[bytes, None] = {}
    folder = golden_dir() / "12-wire"
    for name in recordings(folder, ".jsonl"):
        if not name.endswith(".decoded.jsonl"):
            for line in read_recording(folder, name).splitlines():
                frames[base64.b64decode(json.loads(line)["request"])] = None
    for path in sorted((golden_dir() / "20-reference").glob("wire-frames.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            frames[bytes.fromhex(json.loads(line)["req"])[4:]] = None
    return list(frames)


def filled(cls: Any, topic_ids: list[Uuid]) -> Any:
    """A struct of a request with one entry in every list and something in every field."""
    values = {}
    for name, hint in get_type_hints(cls).items():
        if name in getattr(cls, "__struct_fields__", ()) and name != "unknown_tagged_fields":
            values[name] = _filled_field(name, hint, topic_ids)
    return cls(**values)


def _filled_field(name: str, hint: Any, topic_ids: list[Uuid]) -> Any:
    options = [hint, *get_args(hint)]
    for option in options:
        if hasattr(option, "__struct_fields__"):
            return filled(option, topic_ids)
        entry = get_args(option)[0] if getattr(option, "__origin__", None) is list else None
        if entry is not None and name != "records":
            return [_filled_field(name, entry, topic_ids)]
    if name == "records":
        return bytes(build_batch([Record(0, 1_750_000_000_000, b"k", b"v")]))
    plain: dict[Any, Any] = {str: TOPICS[0], int: 1, bool: True, bytes: b"bytes", Uuid: topic_ids[0], float: 1.0}
    return next((plain[option] for option in options if option in plain), None)


def filled_frames(topic_ids: list[Uuid]) -> list[bytes]:
    """Returns every API in every version, as far as the version can carry what its fields hold."""
    frames = []
    for api_key, spec in API_TABLE.items():
        for version in range(spec.lowest, spec.highest + 1):
            for message in (filled(spec.request, topic_ids), spec.request()):
                try:
                    frames.append(encode(api_key, version, message))
                except KmirrorError:
                    continue
    return frames


def encode(api_key: ApiKeys, version: int, message: Any, correlation_id: int = 1) -> bytes:
    """A frame without its length."""
    parts = encode_request(RequestHeader(api_key, version, correlation_id, "fuzzer"), message)
    return b"".join(bytes(part) for part in parts)[4:]  # type: ignore[arg-type]


def decoded(frame: bytes) -> tuple[RequestHeader, Any] | None:
    """Returns header and message of a frame that can be read; None for any other."""
    try:
        header, position = read_request_header(memoryview(frame))
        return header, read_request(header, memoryview(frame), position)
    except KmirrorError:
        return None


def localised(frame: bytes, chance: random.Random, topic_ids: list[Uuid]) -> bytes:
    """Returns the frame with topics of this broker, and with short waits."""
    read = decoded(frame)
    if read is None:
        return frame
    header, message = read
    _localise(message, chance, topic_ids)
    try:
        return encode(ApiKeys(header.api_key), header.api_version, message)
    except KmirrorError:
        return frame


def _localise(value: Any, chance: random.Random, topic_ids: list[Uuid]) -> None:
    for name in value.__struct_fields__:
        entry = getattr(value, name)
        if isinstance(entry, Uuid) and entry and name == "topic_id":
            setattr(value, name, chance.choice(topic_ids))
        elif (
            name in ("topic", "topic_name")
            and isinstance(entry, str)
            and entry
            or name == "name"
            and isinstance(entry, str)
            and "opic" in type(value).__name__
            and entry
        ):
            setattr(value, name, chance.choice(TOPICS))
        elif name in ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms") and isinstance(entry, int):
            setattr(value, name, min(entry, MAX_WAIT_MS))
        elif isinstance(entry, list):
            for item in entry:
                if hasattr(item, "__struct_fields__"):
                    _localise(item, chance, topic_ids)
        elif hasattr(entry, "__struct_fields__"):
            _localise(entry, chance, topic_ids)


class Mutator:
    """Endless mutated frames of a corpus, always the same ones for a seed."""

    def __init__(self, corpus: list[bytes], seed: int) -> None:
        self._corpus = corpus
        self._chance = random.Random(seed)
        self._steps: list[Callable[[bytearray], None]] = [
            self._flip, self._byte, self._number, self._number, self._cut, self._insert, self._repeat, self._remove, self._splice, self._version, self._api,
        ]  # fmt: skip

    def next_frame(self) -> bytes:
        chance = self._chance
        frame = bytearray(chance.choice(self._corpus))
        if chance.random() < 0.5:
            return self._with_other_values(bytes(frame))
        for _ in range(chance.choice((0, 1, 1, 1, 1, 2, 3, 5))):
            if frame:
                chance.choice(self._steps)(frame)
        return bytes(frame)

    def _with_other_values(self, frame: bytes) -> bytes:
        """Returns a well-formed frame with unexpected values, so that more than the decoder is
        tested.
        """
        read = decoded(frame)
        if read is None:
            return frame
        header, message = read
        for _ in range(self._chance.choice((1, 1, 2, 4))):
            self._change(message)
        try:
            return encode(ApiKeys(header.api_key), header.api_version, message)
        except (KmirrorError, struct.error, OverflowError, TypeError, AttributeError, ValueError):
            return frame

    def _change(self, struct: Any) -> None:
        """One field, here or further down."""
        chance = self._chance
        name = chance.choice(struct.__struct_fields__)
        value = getattr(struct, name)
        if hasattr(value, "__struct_fields__"):
            self._change(value)
        elif isinstance(value, list) and value and hasattr(value[0], "__struct_fields__") and chance.random() < 0.7:
            self._change(chance.choice(value))
        elif name != "unknown_tagged_fields" and "topic_id" not in name:
            setattr(struct, name, self._other_value(value))

    def _other_value(self, value: Any) -> Any:
        chance = self._chance
        if isinstance(value, bool):
            return not value
        if isinstance(value, int):
            return chance.choice((*INTERESTING[:11], value + 1, value - 1, chance.randrange(100)))
        if isinstance(value, str):
            return chance.choice(
                (
                    "",
                    "x" * 300,
                    *TOPICS,
                    "__consumer_offsets",
                    "__cluster_metadata",
                    "*",
                    "\0",
                    "\u00fc\u4e2d",
                    "1",
                    "a,b",
                    "..",
                    value + "'",
                )
            )
        if isinstance(value, list):
            return chance.choice(([], value * 2, value[:1], value * 20))
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytearray(value or b"\0")
            self._flip(data)
            return bytes(chance.choice((data, data[:1], data * 2, b"")))
        return chance.choice((None, value))

    def _flip(self, frame: bytearray) -> None:
        frame[self._chance.randrange(len(frame))] ^= 1 << self._chance.randrange(8)

    def _byte(self, frame: bytearray) -> None:
        frame[self._chance.randrange(len(frame))] = self._chance.choice((0, 1, 0x7F, 0x80, 0xFF, self._chance.randrange(256)))

    def _number(self, frame: bytearray) -> None:
        size = self._chance.choice((2, 4, 8))
        at = self._chance.randrange(len(frame))
        value = self._chance.choice(INTERESTING) & (2 ** (8 * size) - 1)
        frame[at : at + size] = value.to_bytes(size, "big")

    def _cut(self, frame: bytearray) -> None:
        del frame[1 + self._chance.randrange(len(frame)) :]

    def _insert(self, frame: bytearray) -> None:
        at = self._chance.randrange(len(frame) + 1)
        frame[at:at] = self._chance.randbytes(self._chance.choice((1, 2, 4, 40)))

    def _repeat(self, frame: bytearray) -> None:
        start = self._chance.randrange(len(frame))
        piece = frame[start : start + self._chance.choice((1, 4, 16, 60))]
        frame[start:start] = piece * self._chance.choice((1, 1, 2, 10))

    def _remove(self, frame: bytearray) -> None:
        start = self._chance.randrange(len(frame))
        del frame[start : start + self._chance.choice((1, 1, 2, 4, 20))]

    def _splice(self, frame: bytearray) -> None:
        other = self._chance.choice(self._corpus)
        frame[self._chance.randrange(len(frame)) :] = other[self._chance.randrange(len(other)) :]

    def _version(self, frame: bytearray) -> None:
        frame[2:4] = struct.pack(">h", self._chance.choice((-1, *range(20))))

    def _api(self, frame: bytearray) -> None:
        frame[0:2] = struct.pack(">h", self._chance.choice((-1, 200, *map(int, API_TABLE))))
