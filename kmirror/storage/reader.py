"""Reads log directories that belong to another process: of a stopped broker, a running one, or a
copy on HDFS. Never writes.

It serves verify, dump-log, log-diff and Spark. A broker's own classes change things when they open
a log (create a missing index, resize it, trim it, delete stray files, rebuild state). This must not
happen here, so nothing of `UnifiedLog` is used: a partition is a list of file names, a segment a
run of batches. Files are opened read-only and read in blocks through the `FileSystem` port, so
memory is bounded by a block or by one batch, whichever is larger.

A running broker appends while we read. So a segment is read up to the size it had when it was
opened, and an incomplete batch at its end is reported as trailing bytes, not as an error (as in
Kafka's own scanner).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import File, FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.legacy import wrong_magic
from kmirror.record.record_batch import (
    CURRENT_MAGIC,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_LEGACY_RECORD_SIZE,
    RECORD_BATCH_OVERHEAD,
    RecordBatch,
)
from kmirror.storage.folder_listing import list_folder
from kmirror.storage.log_file_names import (
    INDEX_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    PRODUCER_SNAPSHOT_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    TIME_INDEX_FILE_SUFFIX,
    TXN_INDEX_FILE_SUFFIX,
    parse_topic_partition_name,
)
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.partition_metadata_file import decode_partition_metadata

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

BLOCK_BYTES: Final = 4 * 1024 * 1024
HEADER_BLOCK_BYTES: Final = 256 * 1024
_LENGTH: Final = struct.Struct(">i")
_SEGMENT_SUFFIXES: Final = (LOG_FILE_SUFFIX, INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX)


class BatchBlock(NamedTuple):
    """Complete batches from one read: `batches` are views into one buffer, `positions` their byte
    positions in the file.
    """

    positions: list[int]
    batches: list[RecordBatch]


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """One segment: its base offset and which files it has (sizes in bytes, by suffix)."""

    directory: str
    base_offset: int
    sizes: dict[str, int] = field(default_factory=dict)

    def path(self, suffix: str = LOG_FILE_SUFFIX) -> str:
        return f"{self.directory}/{self.base_offset:020d}{suffix}"

    @property
    def log_size(self) -> int:
        return self.sizes[LOG_FILE_SUFFIX]


@dataclass(frozen=True, slots=True)
class PartitionFiles:
    """A partition's folder: `segments` ascending by base offset; `snapshots` are the offsets of
    producer snapshots.
    """

    path: str
    topic_partition: TopicPartition
    segments: list[SegmentFiles]
    snapshots: list[int]
    other_files: list[str]
    dangling: tuple[str, ...] = ()
    """Names in the folder that have no file (`folder_listing`)."""

    @property
    def size(self) -> int:
        """Bytes of all `.log` files."""
        return sum(segment.log_size for segment in self.segments)

    @property
    def swaps(self) -> list[str]:
        """The names of cleaned segments' files that have no name of their own yet. A broker that
        starts here puts each in the place of the segments whose offsets it covers.
        """
        return [name for name in self.other_files if name.endswith(LOG_FILE_SUFFIX + SWAP_FILE_SUFFIX)]

    @property
    def unfinished_swap(self) -> str | None:
        """The first of `swaps` whose segment has lost its name, so that its records are missing
        from `segments`. Brokers rename the replaced segments in their order.
        """
        there = {f"{segment.base_offset:020d}{LOG_FILE_SUFFIX}{SWAP_FILE_SUFFIX}" for segment in self.segments}
        return next((name for name in self.swaps if name not in there), None)

    @property
    def is_dangling(self) -> bool:
        """Whether the folder itself is only a name, without anything behind it."""
        return self.dangling == ("",)

    @property
    def dangling_paths(self) -> list[str]:
        return [f"{self.path}/{name}".rstrip("/") for name in self.dangling]

    @property
    def lost_segment(self) -> str | None:
        """The name of a segment that has no file."""
        return next((name for name in self.dangling if name.endswith(LOG_FILE_SUFFIX)), None)

    def check_complete(self) -> None:
        """KmirrorError if the folder names a segment that has no file. Its records would be left
        out silently.
        """
        if self.is_dangling:
            raise KmirrorError(f"{self.path}: this folder is listed, but nothing is behind its name (a broken link?)")
        if self.lost_segment is not None:
            raise KmirrorError(
                f"{self.path}/{self.lost_segment}: the folder lists this segment, but no file is behind its name (a broken link?)"
            )

    def topic_id(self, files: FileSystem) -> Uuid | None:
        """The id in `partition.metadata`; None without that file, CorruptFileError if it is
        damaged.
        """
        if "partition.metadata" not in self.other_files:
            return None
        path = f"{self.path}/partition.metadata"
        return decode_partition_metadata(path, files.read_bytes(path))


def read_partition(files: FileSystem, path: str, topic_partition: TopicPartition | None = None) -> PartitionFiles:
    """The files in a partition's folder.

    KmirrorError if the folder has no partition's name and none is given.
    """
    path = path.rstrip("/") or path
    listed = list_folder(files, path)
    return partition_files(path, listed.files, tuple(listed.dangling), topic_partition)


def partition_files(
    path: str, found: Mapping[str, int], dangling: tuple[str, ...] = (), topic_partition: TopicPartition | None = None
) -> PartitionFiles:
    """The files of a partition's folder, sorted by what they are. `found` has their sizes by name."""
    sizes: dict[int, dict[str, int]] = {}
    snapshots: list[int] = []
    others: list[str] = []
    for name, size in found.items():
        stem, suffix = name[:20], name[20:]
        is_offset = len(stem) == 20 and stem.isascii() and stem.isdigit()
        if is_offset and suffix in _SEGMENT_SUFFIXES:
            sizes.setdefault(int(stem), {})[suffix] = size
        elif is_offset and suffix == PRODUCER_SNAPSHOT_FILE_SUFFIX:
            snapshots.append(int(stem))
        else:
            others.append(name)
    segments = []
    for offset in sorted(sizes):
        if LOG_FILE_SUFFIX in sizes[offset]:
            segments.append(SegmentFiles(path, offset, sizes[offset]))
        else:
            others += [f"{offset:020d}{suffix}" for suffix in sizes[offset]]
    of = topic_partition or parse_topic_partition_name(path)
    return PartitionFiles(path, of, segments, sorted(snapshots), sorted(others), dangling)


def read_offset_checkpoint(files: FileSystem, data_dir: str, name: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file of a data dir (`replication-offset-checkpoint` ...), empty
    without the file; CorruptFileError if it is damaged.
    """
    path = f"{data_dir.rstrip('/')}/{name}"
    return OffsetCheckpointFile(files, path).read() if files.exists(path) else {}


class SegmentReader:
    """Reads the batches of one `.log` file (or KRaft snapshot) from byte `start` to byte `end`
    (default: its size when opened). Owns the open file.
    """

    def __init__(self, files: FileSystem, path: str, *, start: int = 0, end: int | None = None) -> None:
        self.path = path
        self._file: File = files.open(path, write=False)
        size = self._file.size()
        self.size = size if end is None else min(end, size)
        self.start = start
        self.valid_bytes = start
        """The end of the last complete batch, so far."""

    def __enter__(self) -> SegmentReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def blocks(self, *, block_bytes: int = BLOCK_BYTES) -> Iterator[BatchBlock]:
        """Yields the batches, as many at a time as fit into `block_bytes` (at least one).

        CorruptFileError for an impossible length, and for messages of format v0 or v1. An
        incomplete batch at the end is left out. The CRC is not checked, nor is a magic above 2
        (Kafka takes that for format v2 here).
        """
        position = self.start
        wanted = block_bytes
        while self.size - position >= HEADER_SIZE_UP_TO_MAGIC:
            block = memoryview(self._file.pread(min(wanted, self.size - position), position))
            positions, batches, used = self._parse(block, position)
            if batches:
                self.valid_bytes = position + used
                yield BatchBlock(positions, batches)
            position += used
            if self.size - position < HEADER_SIZE_UP_TO_MAGIC:
                return
            needed = self._size_at(block, used, position)
            if needed > self.size - position or (not batches and needed <= wanted):
                return
            wanted = max(block_bytes, needed)

    def batches(self, *, block_bytes: int = BLOCK_BYTES) -> Iterator[tuple[int, RecordBatch]]:
        """Yields (position in the file, batch), one after the other."""
        for block in self.blocks(block_bytes=block_bytes):
            yield from zip(block.positions, block.batches)

    def _parse(self, block: memoryview, position: int) -> tuple[list[int], list[RecordBatch], int]:
        positions: list[int] = []
        batches: list[RecordBatch] = []
        cursor, end = 0, len(block)
        while end - cursor >= HEADER_SIZE_UP_TO_MAGIC:
            try:
                size = self._checked_size(block, cursor, position)
            except CorruptFileError:
                if not batches:
                    raise
                break  # return the good batches first; the next block begins here and raises
            if cursor + size > end:
                break
            if block[cursor + 16] < CURRENT_MAGIC:
                if batches:
                    break
                raise CorruptFileError(self.path, position + cursor, f"{wrong_magic(block[cursor + 16]).message}; rewrite the topic first")
            batches.append(RecordBatch(block, cursor))
            positions.append(position + cursor)
            cursor += size
        return positions, batches, cursor

    def _checked_size(self, block: memoryview, cursor: int, position: int) -> int:
        length: int = _LENGTH.unpack_from(block, cursor + 8)[0]
        if length < MIN_LEGACY_RECORD_SIZE:
            raise CorruptFileError(
                self.path,
                position + cursor,
                f"Found record size {length} smaller than minimum record overhead ({MIN_LEGACY_RECORD_SIZE})",
            )
        size = length + LOG_OVERHEAD
        if size < RECORD_BATCH_OVERHEAD and position + cursor + size <= self.size and block[cursor + 16] >= CURRENT_MAGIC:
            raise CorruptFileError(self.path, position + cursor, f"a batch of {size} bytes; the smallest has {RECORD_BATCH_OVERHEAD}")
        return size

    def _size_at(self, block: memoryview, cursor: int, position: int) -> int:
        if len(block) - cursor >= HEADER_SIZE_UP_TO_MAGIC:
            return self._checked_size(block, cursor, position - cursor)
        return self._checked_size(memoryview(self._file.pread(HEADER_SIZE_UP_TO_MAGIC, position)), 0, position)

    def headers(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
        """(positions, headers as rows of `record.columns.HEADER_DTYPE` in native byte order)
        without reading the records of large batches.
        """
        import numpy as np

        from kmirror.record.columns import headers_from

        positions: list[int] = []
        rows: list[bytes] = []
        position, block, block_start = self.start, b"", 0
        while self.size - position >= HEADER_SIZE_UP_TO_MAGIC:
            offset = position - block_start
            if offset + RECORD_BATCH_OVERHEAD > len(block):
                last_size = position - positions[-1] if positions else 0
                wanted = HEADER_BLOCK_BYTES if last_size < HEADER_BLOCK_BYTES else RECORD_BATCH_OVERHEAD
                block, block_start, offset = self._file.pread(min(wanted, self.size - position), position), position, 0
            size = self._checked_size(memoryview(block), offset, block_start)
            if position + size > self.size:
                break
            positions.append(position)
            rows.append(block[offset : offset + RECORD_BATCH_OVERHEAD])
            position += size
        self.valid_bytes = position
        return np.array(positions, dtype=np.int64), headers_from(rows)

    @property
    def trailing_bytes(self) -> int:
        """Bytes after the last complete batch, once `blocks`, `batches` or `headers` has come to
        its end.
        """
        return self.size - self.valid_bytes
