"""The console consumer's formatters, with the properties of Kafka's `DefaultMessageFormatter`."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Protocol
from uuid import UUID

from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.formats import FORMATTERS

MIRROR_MAKER_PACKAGE = "org.apache.kafka.connect.mirror.formatters."
PACKAGE = "org.apache.kafka.tools.consumer."
DEFAULT_FORMATTER = f"{PACKAGE}DefaultMessageFormatter"
NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME = 0, 1, 2
TIMESTAMP_NAMES = {CREATE_TIME: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}

Deserializer = Callable[[bytes], str]


class ConsumedRecord(Protocol):
    """The part of confluent-kafka's Message that is used here."""

    def partition(self) -> int: ...
    def offset(self) -> int: ...
    def timestamp(self) -> tuple[int, int]: ...
    def leader_epoch(self) -> int | None: ...
    def headers(self) -> list[tuple[str, bytes | None]] | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def topic(self) -> str: ...


def _number(layout: str) -> Deserializer:
    def read(data: bytes) -> str:
        if len(data) != struct.calcsize(layout):
            raise KmirrorError(f"Size of data received by the deserializer is not {struct.calcsize(layout)}")
        return str(struct.unpack(layout, data)[0])

    return read


DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": lambda data: data.decode("utf-8", "replace"),
    "LongDeserializer": _number(">q"),
    "IntegerDeserializer": _number(">i"),
    "ShortDeserializer": _number(">h"),
    "DoubleDeserializer": _number(">d"),
    "FloatDeserializer": _number(">f"),
    "UUIDDeserializer": lambda data: str(UUID(data.decode())),
}
UNCHANGED = ("ByteArrayDeserializer", "BytesDeserializer")


def deserializer(name: str) -> Deserializer | None:
    """Returns the deserializer of a Java class, given with or without its package.

    None means that bytes are printed unchanged.
    """
    short = name.rsplit(".", 1)[-1]
    if short in UNCHANGED:
        return None
    if short not in DESERIALIZERS:
        known = ", ".join([*DESERIALIZERS, *UNCHANGED])
        raise KmirrorError(f"there is no deserializer {name}; there are {known}")
    return DESERIALIZERS[short]


class DefaultMessageFormatter:
    """Formats the parts of a record, in the order of Kafka's formatter.

    `key.separator` follows each part but the last.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._shown = {
            part: properties.get(f"print.{part}", "true" if part == "value" else "false").strip().lower() == "true"
            for part in ("timestamp", "partition", "offset", "epoch", "headers", "key", "value")
        }
        self._separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()
        self._headers_separator = properties.get("headers.separator", ",").encode()
        self._null = properties.get("null.literal", "null").encode()
        self._read = {
            part: deserializer(properties[f"{part}.deserializer"]) if f"{part}.deserializer" in properties else None
            for part in ("key", "value", "headers")
        }

    def format(self, record: ConsumedRecord) -> bytes:
        parts = [getattr(self, f"_{part}")(record) for part, is_shown in self._shown.items() if is_shown]
        if not parts:
            return b""
        # Kafka's formatter ends the line after the last part, the value unless it is switched off.
        return self._separator.join(parts) + self._line_separator

    def _timestamp(self, record: ConsumedRecord) -> bytes:
        kind, timestamp = record.timestamp()
        return f"{TIMESTAMP_NAMES[kind]}:{timestamp}".encode() if kind in TIMESTAMP_NAMES else b"NO_TIMESTAMP"

    def _partition(self, record: ConsumedRecord) -> bytes:
        return f"Partition:{record.partition()}".encode()

    def _offset(self, record: ConsumedRecord) -> bytes:
        return f"Offset:{record.offset()}".encode()

    def _epoch(self, record: ConsumedRecord) -> bytes:
        epoch = record.leader_epoch()
        return f"Epoch:{'NOT_PRESENT' if epoch is None else epoch}".encode()

    def _headers(self, record: ConsumedRecord) -> bytes:
        headers = record.headers()
        if not headers:
            return b"NO_HEADERS"
        return self._headers_separator.join(name.encode() + b":" + self._bytes("headers", value) for name, value in headers)

    def _key(self, record: ConsumedRecord) -> bytes:
        return self._bytes("key", record.key())

    def _value(self, record: ConsumedRecord) -> bytes:
        return self._bytes("value", record.value())

    def _bytes(self, part: str, data: bytes | None) -> bytes:
        read = self._read[part]
        if data is None:
            return self._null
        return data if read is None else read(data).encode()


class NoOpMessageFormatter:
    """Prints nothing."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        pass

    def format(self, record: ConsumedRecord) -> bytes:
        return b""


class CoordinatorRecordMessageFormatter:
    """Formats records of an internal topic as consecutive JSON objects, like Kafka's formatters."""

    def __init__(self, types: Mapping[int, str]) -> None:
        self._types = dict(types)

    def format(self, record: ConsumedRecord) -> bytes:
        from kmirror.cli.coordinator_formatter import coordinator_record

        return coordinator_record(self._types, record.offset(), record.key(), record.value())


class MirrorMakerFormatter:
    """Formats records of MirrorMaker 2's internal topics, one line each (KIP-597)."""

    def __init__(self, name: str) -> None:
        self._read = FORMATTERS[name]

    def format(self, record: ConsumedRecord) -> bytes:
        return f"{self._read(record.key(), record.value())}\n".encode()


MessageFormatter = DefaultMessageFormatter | NoOpMessageFormatter | CoordinatorRecordMessageFormatter | MirrorMakerFormatter


def message_formatter(name: str, properties: Mapping[str, str]) -> MessageFormatter:
    """Returns the formatter of a Kafka class, given with or without its package."""
    from kmirror.cli.coordinator_formatter import FORMATTER_TYPES

    short = name.rsplit(".", 1)[-1]
    if short == "DefaultMessageFormatter":
        return DefaultMessageFormatter(properties)
    if short == "NoOpMessageFormatter":
        return NoOpMessageFormatter(properties)
    if short in FORMATTERS:
        return MirrorMakerFormatter(short)
    if short not in FORMATTER_TYPES:
        ours = [PACKAGE + known for known in ("DefaultMessageFormatter", "NoOpMessageFormatter", *FORMATTER_TYPES)]
        known = ", ".join([*ours, *(MIRROR_MAKER_PACKAGE + name for name in FORMATTERS)])
        raise KmirrorError(f"there is no formatter {name}; there are {known}")
    return CoordinatorRecordMessageFormatter(FORMATTER_TYPES[short])
