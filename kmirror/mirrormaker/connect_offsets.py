"""Where each connector goes on reading: Kafka Connect's offset storage, `mm2-offsets.<x>.internal`.

A record's key is the JSON list of the connector's name and the source partition, without blanks and
with the names of the partition as a Java HashMap has them; its value is `{"offset":n}`, n being the
last offset that the target has (MC14). So keys are equal, byte for byte, to those of Apache's workers,
and compaction keeps one record of both.

    ["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"t"}]    {"offset":41}

An offset says where, not in what: so the id of a source's topic stands beside it, with where the
partition was read first, under a connector's name that no connector has. Apache's workers do not ask
for it.

    ["kmirror-topic-ids",{"cluster":"A","connector":"c","partition":0,"topic":"t"}]
                                                                       {"offset":0,"topicId":"..."}

A record without a value deletes. What is not of this form is left alone, with a warning: another
connector may share the topic.

Offsets are stored after the target has acknowledged what they stand for, never before. What is
stored at the target, but not here yet, is copied again after a restart: at least once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.java_hash_map import hash_map_order
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirrormaker.internal_topics import APPEARS_MS, InternalTopicReader
from kmirror.runtime.api import Runtime

OFFSET_KEY: Final = "offset"
TOPIC_ID_KEY: Final = "topicId"
TOPIC_IDS: Final = "kmirror-topic-ids"
NOTHING_STORED: Final = -1
MOST_LONG: Final = 2**63 - 1
_log = logging.getLogger(__name__)

SourcePartition = Mapping[str, str | int]
"""Connect's source partition: what a connector calls the place that it reads."""


def record_source(cluster: str, partition: TopicPartition) -> SourcePartition:
    """Returns the source partition of MirrorSourceConnector (`MirrorUtils.wrapPartition`)."""
    return {"cluster": cluster, "partition": partition.partition, "topic": partition.topic}


def offset_key(connector: str, source: SourcePartition) -> bytes:
    in_order = {name: source[name] for name in _hash_map_order(tuple(source))}
    return json.dumps([connector, in_order], separators=(",", ":"), ensure_ascii=False).encode()


@lru_cache(maxsize=16)
def _hash_map_order(names: tuple[str, ...]) -> list[str]:
    """Each kind of source has the same names in all its keys."""
    return hash_map_order(names)


def offset_value(offset: int) -> bytes:
    return json.dumps({OFFSET_KEY: offset}, separators=(",", ":")).encode()


def topic_id_key(connector: str, source: SourcePartition) -> bytes:
    return offset_key(TOPIC_IDS, {**source, "connector": connector})


def topic_id_value(first_offset: int, topic_id: Uuid) -> bytes:
    return json.dumps({OFFSET_KEY: first_offset, TOPIC_ID_KEY: str(topic_id)}, separators=(",", ":")).encode()


def parse_topic_id(value: bytes | None) -> Uuid:
    """Returns the id, zero if the value has none."""
    parsed = parse_json(value)
    text = parsed.get(TOPIC_ID_KEY) if isinstance(parsed, dict) else None
    try:
        return Uuid.from_string(text) if isinstance(text, str) else Uuid.ZERO
    except ValueError:
        return Uuid.ZERO


def parse_key(key: bytes | None) -> bytes | None:
    """Returns the key in the order of a HashMap, None if it is not a key of this topic."""
    parsed = parse_json(key)
    if isinstance(parsed, list) and len(parsed) == 2 and isinstance(parsed[0], str) and isinstance(parsed[1], dict):
        return offset_key(parsed[0], parsed[1])
    return None


def parse_value(value: bytes) -> int | None:
    """Returns the offset, None if the value has none, or one that no log can have."""
    parsed = parse_json(value)
    offset = parsed.get(OFFSET_KEY) if isinstance(parsed, dict) else None
    return offset if isinstance(offset, int) and not isinstance(offset, bool) and offset < MOST_LONG else None


def parse_json(data: bytes | None) -> Any:
    """None for what is no JSON, is nested deeper than Python can follow, or has text that is no Unicode
    (`"\\ud800"`): anybody may write to these topics.
    """
    try:
        parsed = None if data is None else json.loads(data)
        if data is not None and b"\\u" in data:
            json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return parsed


class SourceOffsets(Protocol):
    """Where a worker's tasks go on reading: `OffsetStorage`, or a standalone worker's file."""

    async def refresh(self) -> None: ...
    def get(self, connector: str, source: SourcePartition) -> int: ...
    def topic_id(self, connector: str, source: SourcePartition) -> Uuid:
        """Returns the id that the source's topic had when its partition was read last, zero if none is stored."""
        ...

    async def write_topic_ids(self, connector: str, rows: Sequence[tuple[SourcePartition, int, Uuid]]) -> None:
        """Stores ids, and the offsets at which the partitions were read first."""
        ...

    async def write(
        self, connector: str, offsets: list[tuple[SourcePartition, int]], transaction_of: KafkaProducer | None = None
    ) -> None: ...


class StoredOffsets:
    """What the topic says: the newest offset of each key. Pure."""

    def __init__(self) -> None:
        self._offsets: dict[bytes, int] = {}
        self._topic_ids: dict[bytes, Uuid] = {}

    def handle_record(self, key: bytes | None, value: bytes | None) -> None:
        known = parse_key(key)
        if known is None:
            _log.warning("Ignoring a record of the offsets topic with the key %r, which is not a connector and a source partition.", key)
        elif value is None:
            self._offsets.pop(known, None)
            self._topic_ids.pop(known, None)
        elif topic_id := parse_topic_id(value):
            self._topic_ids[known] = topic_id
        else:
            offset = parse_value(value)
            if offset is None:
                _log.warning("Ignoring the stored offset %r of %s, which has no number `offset`.", value, known.decode())
            else:
                self._offsets[known] = offset

    def get(self, connector: str, source: SourcePartition) -> int:
        """NOTHING_STORED (-1) without an offset, as for a negative one."""
        return max(self._offsets.get(offset_key(connector, source), NOTHING_STORED), NOTHING_STORED)

    def topic_id(self, connector: str, source: SourcePartition) -> Uuid:
        return self._topic_ids.get(topic_id_key(connector, source), Uuid.ZERO)


class OffsetStorage:
    """The offsets of a flow. Owns a consumer and a producer."""

    def __init__(self, runtime: Runtime, topic: str, *, consumer: Mapping[str, str], producer: Mapping[str, str]) -> None:
        self._topic = topic
        self._stored = StoredOffsets()
        self._reader = InternalTopicReader(runtime, consumer, topic, self._stored.handle_record, appears_ms=APPEARS_MS)
        self._producer = KafkaProducer(runtime, {"linger.ms": "0", **producer})
        self._started = False
        self._reading = asyncio.Lock()

    async def refresh(self) -> None:
        """Reads the topic, which must exist, up to its end: a task that starts must see what the
        last one stored.
        """
        async with self._reading:
            if self._started:
                await self._reader.read_to_end()
            else:
                await self._reader.start()
                self._started = True

    def get(self, connector: str, source: SourcePartition) -> int:
        """Returns the last offset that was stored, NOTHING_STORED (-1) if there is none."""
        return self._stored.get(connector, source)

    def topic_id(self, connector: str, source: SourcePartition) -> Uuid:
        return self._stored.topic_id(connector, source)

    async def write_topic_ids(self, connector: str, rows: Sequence[tuple[SourcePartition, int, Uuid]]) -> None:
        await self._write(
            self._producer, [(topic_id_key(connector, source), topic_id_value(first, topic_id)) for source, first, topic_id in rows]
        )

    async def write(self, connector: str, offsets: list[tuple[SourcePartition, int]], transaction_of: KafkaProducer | None = None) -> None:
        """Stores offsets; returns when all are written, raises if one was not. With a producer in
        `transaction_of`, they are a part of its transaction.
        """
        producer = self._producer if transaction_of is None else transaction_of
        await self._write(producer, [(offset_key(connector, source), offset_value(offset)) for source, offset in offsets])

    async def _write(self, producer: KafkaProducer, rows: Sequence[tuple[bytes, bytes]]) -> None:
        for one in [await producer.send(ProducerRecord(self._topic, value, key=key)) for key, value in rows]:
            await one

    async def close(self) -> None:
        try:
            await self._reader.close()
        finally:
            await self._producer.close(timeout_ms=0)
