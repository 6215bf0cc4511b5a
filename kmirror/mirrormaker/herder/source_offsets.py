"""Where a connector goes on reading, shown and changed by its users (KIP-875).

The topic of source offsets is read for each question, to its end: a question is rare, and tasks write
all the time. Offsets may only be changed while nothing runs that writes them; with exactly-once support
the write is a transaction of the connector's first task, which shuts that out.

What a source partition and an offset are made of is the connector's:

    MirrorSourceConnector        {"cluster", "topic", "partition"}      {"offset": n}
    MirrorCheckpointConnector    {"group", "topic", "partition"}        {"offset": 0}
    MirrorHeartbeatConnector     {"sourceClusterAlias", "targetClusterAlias"}     {"offset": 0}

An offset None removes whatever stands there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.mirrormaker.connect_offsets import MOST_LONG, OFFSET_KEY, offset_key, parse_json
from kmirror.mirrormaker.connector_validation import CHECKPOINT, HEARTBEAT
from kmirror.mirrormaker.herder.herder import INTERNAL_SERVER_ERROR, HerderError, SourceOffset
from kmirror.mirrormaker.internal_topics import InternalTopicReader
from kmirror.runtime.api import Runtime

TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    CHECKPOINT: ("group", "topic"),
    HEARTBEAT: ("sourceClusterAlias", "targetClusterAlias"),
}
"""By the simple name of a connector's class; all others have those of the source connector."""
_OF_SOURCE: Final = ("cluster", "topic")
PARTITION: Final = "partition"
_MOST_INT: Final = 2**31 - 1


class ConnectorOffsets:
    """What the topic says of one connector. Pure."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._offsets: dict[bytes, SourceOffset] = {}

    def handle_record(self, key: bytes | None, value: bytes | None) -> None:
        parsed = parse_json(key)
        if not (isinstance(parsed, list) and len(parsed) == 2 and parsed[0] == self._connector and isinstance(parsed[1], dict)):
            return
        offset = parse_json(value)
        known = offset_key(self._connector, parsed[1])
        if isinstance(offset, dict):
            self._offsets[known] = (parsed[1], offset)
        else:
            self._offsets.pop(known, None)

    def offsets(self) -> list[SourceOffset]:
        return list(self._offsets.values())


async def read_offsets(runtime: Runtime, topic: str, consumer: Mapping[str, str], connector: str) -> list[SourceOffset]:
    stored = ConnectorOffsets(connector)
    reader = InternalTopicReader(runtime, consumer, topic, stored.handle_record)
    try:
        await reader.start()
    finally:
        await reader.close()
    return stored.offsets()


async def write_offsets(
    runtime: Runtime, topic: str, producer: Mapping[str, str], connector: str, offsets: Sequence[SourceOffset], transactional_id: str | None
) -> None:
    """Returns when all are stored. With a `transactional_id`, all or none."""
    exact = {} if transactional_id is None else {"transactional.id": transactional_id, "enable.idempotence": "true"}
    writer = KafkaProducer(runtime, {"linger.ms": "0", **producer, **exact})
    try:
        if transactional_id is not None:
            await writer.init_transactions()
            await writer.begin_transaction()
        rows = [(offset_key(connector, source), None if offset is None else _encoded(offset)) for source, offset in offsets]
        for sent in [await writer.send(ProducerRecord(topic, value, key=key)) for key, value in rows]:
            await sent
        if transactional_id is not None:
            await writer.commit_transaction()
    finally:
        await writer.close(timeout_ms=0)


def _encoded(offset: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(offset), separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def check_offsets(connector_class: str, offsets: Sequence[SourceOffset]) -> None:
    """HerderError 500, as of Connect, for what is no offset of a connector of this class."""
    for source, offset in offsets:
        if offset is None:
            continue
        if source is None:
            raise _wrong("Source partitions may not be null")
        for name in TEXTS.get(connector_class, _OF_SOURCE):
            if not isinstance(_required(source, name), str):
                raise _wrong(
                    f"Source partition {shown(source)} has an invalid value {shown(source[name])} for the '{name}' key, which must be a string"
                )
        if connector_class != HEARTBEAT:
            number = _required(source, PARTITION)
            said = f"Source partition {shown(source)} has an invalid value {shown(number)} for the '{PARTITION}' key, which"
            if not _is_int(number) or number > _MOST_INT:
                raise _wrong(f"{said} must be an integer")
            if number < 0:
                raise _wrong(f"{said} cannot be negative")
        _check_offset(source, offset, only_zero=connector_class in TEXTS)


def _check_offset(source: Mapping[str, Any], offset: Mapping[str, Any], *, only_zero: bool) -> None:
    said = f"Source offset {shown(offset)} for source partition {shown(source)}"
    if OFFSET_KEY not in offset:
        raise _wrong(f"{said} is missing the '{OFFSET_KEY}' key, which is required")
    number = offset[OFFSET_KEY]
    said += f" has an invalid value {shown(number)} for the '{OFFSET_KEY}' key"
    if not _is_int(number) or number > MOST_LONG:
        raise _wrong(f"{said}, which must be an integer")
    if only_zero and number != 0:
        raise _wrong(f"{said}; the only accepted value is 0")
    if number < 0:
        raise _wrong(f"{said}, which cannot be negative")


def _required(source: Mapping[str, Any], name: str) -> Any:
    if name not in source:
        raise _wrong(f"Source partition {shown(source)} is missing the '{name}' key, which is required")
    return source[name]


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(message: str) -> HerderError:
    return HerderError(INTERNAL_SERVER_ERROR, message)


def shown(value: Any) -> str:
    """As Java prints a value of JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}={shown(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value) if isinstance(value, str) else json.dumps(value)
