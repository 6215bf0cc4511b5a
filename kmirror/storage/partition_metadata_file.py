"""`partition.metadata`: the topic id that a partition's folder belongs to.

    version: 0\\n
    topic_id: <22 characters base64url>         (no line end after the last line)

The id is recorded in memory and flushed before the first record data is written, as in Kafka
(`record`, `maybe_flush`). For a partition without data `note` is enough. It does not sync, because
a folder that lost the id is as good as a new one.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import ApiException, CorruptCheckpointError, Errors
from kmirror.common.ports import FileSystem
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parse_decimal, write_atomically

PARTITION_METADATA_FILE_NAME: Final = "partition.metadata"


class PartitionMetadataFile:
    """The topic id of one partition folder on disk. Owns the id that waits to be written."""

    VERSION: Final = 0

    def __init__(self, files: FileSystem, log_dir: str) -> None:
        """`log_dir` is the partition's folder."""
        self.path = f"{log_dir}/{PARTITION_METADATA_FILE_NAME}"
        self._files = files
        self._dirty_topic_id: Uuid | None = None
        self._is_noted = False

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def record(self, topic_id: Uuid) -> None:
        """Remembers the id for the next `maybe_flush`; INCONSISTENT_TOPIC_ID if another one is
        already waiting.
        """
        if self._dirty_topic_id is not None and self._dirty_topic_id != topic_id:
            raise ApiException(
                Errors.INCONSISTENT_TOPIC_ID,
                f"Tried to record topic ID {topic_id} to file but had already recorded {self._dirty_topic_id}",
            )
        self._dirty_topic_id = topic_id

    def record_noted(self, topic_id: Uuid) -> None:
        """As `record`, for an id that `note` wrote in an earlier run; `maybe_flush` then writes it
        again, synced.
        """
        self.record(topic_id)
        self._is_noted = True

    def note(self) -> None:
        """Writes the id without a sync, so that a restart finds it; `maybe_flush` must still write
        it safely.
        """
        if self._dirty_topic_id is not None and not self._is_noted:
            self._files.write_bytes(self.path, encode_partition_metadata(self._dirty_topic_id))
            self._is_noted = True

    def maybe_flush(self) -> None:
        if self._dirty_topic_id is None:
            return
        write_atomically(self._files, self.path, encode_partition_metadata(self._dirty_topic_id))
        self._dirty_topic_id = None

    def read(self) -> Uuid:
        """The recorded id; FileNotFoundError if there is no file, CorruptCheckpointError if it is
        malformed.
        """
        return decode_partition_metadata(self.path, self._files.read_bytes(self.path))

    def delete(self) -> None:
        self._files.remove(self.path)


def encode_partition_metadata(topic_id: Uuid) -> bytes:
    return f"version: {PartitionMetadataFile.VERSION}\ntopic_id: {topic_id}".encode()


def decode_partition_metadata(path: str, data: bytes) -> Uuid:
    """The topic id in the bytes of a partition.metadata file; `path` is for the error."""
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(path, error.start, "not UTF-8") from error
    position = 0
    fields: list[str] = []
    for name, line in zip(("version", "topic_id"), lines, strict=False):
        key, separator, value = line.partition(":")
        if not separator or key.strip() != name:
            raise CorruptCheckpointError(path, position, f"malformed line {line!r}, expected '{name}: ...'")
        fields.append(value.strip())
        position += len(line.encode()) + 1
    if len(fields) < 2:
        raise CorruptCheckpointError(path, len(data), "expected the lines 'version: ...' and 'topic_id: ...'")
    return _topic_id(path, version=fields[0], topic_id=fields[1], position=len(lines[0]) + 1)


def _topic_id(path: str, *, version: str, topic_id: str, position: int) -> Uuid:
    try:
        number = parse_decimal(version)
    except ValueError as error:
        raise CorruptCheckpointError(path, 0, f"malformed version {version!r}") from error
    if number < PartitionMetadataFile.VERSION:
        raise CorruptCheckpointError(path, 0, f"unrecognised version {number}")
    try:
        uuid = Uuid.from_string(topic_id)
    except ValueError as error:
        raise CorruptCheckpointError(path, position, f"malformed topic id {topic_id!r}") from error
    if not uuid:
        raise CorruptCheckpointError(path, position, f"invalid topic id {topic_id!r}")
    return uuid
