"""Log folders for tests of the tools that read them: batches written as segments, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.cleaner_facts import ANY_OFFSET, CleanerFacts
from kmirror.verify.compared_log import DirectoryLog

TIME = 1_750_000_000_000


def records(first: int, count: int, *, keys: int | None = None, text: str = "value") -> list[Record]:
    """Offsets from `first` on; `keys` distinct keys in turn (default: one a record)."""
    return [
        Record(offset, TIME + offset, b"k%d" % (offset if keys is None else offset % keys), f"{text}-{offset}".encode(), [("h", b"1")])
        for offset in range(first, first + count)
    ]


def batch(
    first: int, count: int = 5, *, epoch: int = 0, codec: CompressionType = CompressionType.NONE, text: str = "value", producer_id: int = -1
) -> bytes:
    sequence = first if producer_id >= 0 else -1
    return bytes(
        build_batch(
            records(first, count, text=text),
            base_offset=first,
            compression=codec,
            partition_leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
    )


def batches(count: int, *, first: int = 0, size: int = 5) -> list[bytes]:
    return [batch(first + index * size, size) for index in range(count)]


def write_segments(folder: Path, *segments: tuple[int, Sequence[bytes]]) -> Path:
    """A partition's folder with one `.log` for each (base offset, batches)."""
    folder.mkdir(parents=True, exist_ok=True)
    for base_offset, parts in segments:
        (folder / f"{base_offset:020d}.log").write_bytes(b"".join(parts))
    return folder


def write_log(folder: Path, *parts: bytes, base_offset: int = 0) -> Path:
    return write_segments(folder, (base_offset, parts))


def open_log(
    folder: Path,
    *,
    log_start_offset: int | None = None,
    high_watermark: int | None = None,
    cleaned_offset: int = 0,
    is_compacted: bool | None = None,
    cleaner: CleanerFacts | None = None,
) -> DirectoryLog:
    """Without `cleaner`, the log counts as rolled behind its last batch, so a cleaner could have been
    everywhere in it."""
    files = OsFileSystem()
    log = DirectoryLog(
        files,
        read_partition(files, str(folder)),
        log_start_offset=log_start_offset,
        high_watermark=high_watermark,
        cleaned_offset=cleaned_offset,
        cleaner=CleanerFacts(is_compacted=is_compacted) if cleaner is None else cleaner,
    )
    if cleaner is None:
        log.active_offset = ANY_OFFSET
    return log
