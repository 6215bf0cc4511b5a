"""Source offsets of a standalone worker, in the file `offset.storage.file.filename` (Connect's
`FileOffsetBackingStore`).

The file is a Java map from keys to values, both as `connect_offsets` has them; Apache's worker goes on
where this one ended, and this one where Apache's ended. It is written whole, beside the old one, and
put in its place, when tasks store their offsets. Keys of other connectors stay as they are.

Where nothing can be put in its place it is written as it lies: a file that is mounted by itself into a
container, one in a folder that may not be written, a device such as /dev/null. A link stays a link.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.uuid import Uuid
from kmirror.mirrormaker.connect_offsets import (
    NOTHING_STORED,
    SourcePartition,
    offset_key,
    offset_value,
    parse_json,
    parse_key,
    parse_topic_id,
    parse_value,
    topic_id_key,
    topic_id_value,
)
from kmirror.mirrormaker.herder.herder import SourceOffset
from kmirror.mirrormaker.herder.java_hash_map import JavaSerializationError, read_hash_map, write_hash_map

DEVICES: Final = "/dev/"
NOT_REPLACED: Final = (errno.EBUSY, errno.EACCES, errno.EPERM, errno.EXDEV)
_log = logging.getLogger(__name__)


class FileOffsetStorage:
    """Implements `SourceOffsets`. ConfigError if the file is there, and is no such file."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self._path = path = os.path.realpath(path) if path else path
        self._entries: dict[bytes, tuple[bytes, bytes]] = {}
        """By the key in our order of names: the key as it was written, and the value."""
        try:
            data = files.read_bytes(path)
        except FileNotFoundError:
            data = b""
        except OSError as error:
            raise ConfigError(f"Failed to start FileOffsetStorage: {path} cannot be read: {error}") from error
        try:
            stored = read_hash_map(data) if data else {}
        except JavaSerializationError as error:
            raise ConfigError(f"Failed to start FileOffsetStorage: {path} is not a file of offsets: {error}") from error
        self._entries = {parse_key(key) or key: (key, value) for key, value in stored.items() if value is not None}

    async def refresh(self) -> None:
        """One process has the file: what it says is known."""

    def get(self, connector: str, source: SourcePartition) -> int:
        """Returns the last offset that was stored, NOTHING_STORED (-1) if there is none."""
        found = self._entries.get(offset_key(connector, source))
        offset = None if found is None else parse_value(found[1])
        return NOTHING_STORED if offset is None else max(offset, NOTHING_STORED)

    def topic_id(self, connector: str, source: SourcePartition) -> Uuid:
        """Returns the id of the source's topic that was stored last, zero if there is none."""
        found = self._entries.get(topic_id_key(connector, source))
        return Uuid.ZERO if found is None else parse_topic_id(found[1])

    async def write_topic_ids(self, connector: str, rows: Sequence[tuple[SourcePartition, int, Uuid]]) -> None:
        """Stores ids. KmirrorError if the file cannot be written."""
        for source, first, topic_id in rows:
            self._put(topic_id_key(connector, source), topic_id_value(first, topic_id))
        self._save()

    async def write(self, connector: str, offsets: list[tuple[SourcePartition, int]], transaction_of: KafkaProducer | None = None) -> None:
        """Stores offsets. KmirrorError if the file cannot be written, or for a transaction: no file can
        be a part of one.
        """
        if transaction_of is not None:
            raise KmirrorError("a standalone worker does not copy exactly once")
        for source, offset in offsets:
            self._put(offset_key(connector, source), offset_value(offset))
        self._save()

    def of_connector(self, connector: str) -> list[SourceOffset]:
        """Returns all source partitions of a connector with their offsets."""
        found = []
        for key, value in self._entries.values():
            parsed = parse_json(key)
            if isinstance(parsed, list) and len(parsed) == 2 and parsed[0] == connector:
                found.append((parsed[1], parse_json(value)))
        return found

    def change(self, connector: str, offsets: Sequence[SourceOffset]) -> None:
        """Stores any offsets; None removes one. KmirrorError if the file cannot be written."""
        for partition, offset in offsets:
            key = _key(connector, partition)
            if offset is None:
                self._entries.pop(key, None)
                self._entries.pop(topic_id_key(connector, partition or {}), None)
            else:
                self._put(key, json.dumps(offset, separators=(",", ":"), ensure_ascii=False).encode())
        self._save()

    def _put(self, key: bytes, value: bytes) -> None:
        written, _ = self._entries.get(key, (key, b""))
        self._entries[key] = (written, value)

    def _save(self) -> None:
        data = write_hash_map(dict(self._entries.values()))
        try:
            if self._path.startswith(DEVICES):
                self._files.write_bytes(self._path, data)
            else:
                self._replace(data)
        except OSError as error:
            raise KmirrorError(f"the offsets cannot be written to {self._path}: {error}") from error

    def _replace(self, data: bytes) -> None:
        beside = f"{self._path}.new"
        try:
            self._files.write_bytes(beside, data)
            self._files.rename(beside, self._path)
        except OSError as error:
            if error.errno not in NOT_REPLACED or not self._files.exists(self._path):
                raise
            self._files.write_bytes(self._path, data)


def _key(connector: str, partition: Mapping[str, Any] | None) -> bytes:
    if partition is not None:
        return offset_key(connector, partition)
    return json.dumps([connector, None], separators=(",", ":"), ensure_ascii=False).encode()
