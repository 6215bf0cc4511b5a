"""`leader-epoch-checkpoint` of a partition: one `<epoch> <start offset>` a line, epochs
ascending.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kmirror.common.ports import FileSystem
from kmirror.storage.checkpoint_file import CheckpointFile, parse_decimal

LEADER_EPOCH_CHECKPOINT_FILE_NAME: Final = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """A leader epoch and the offset of the first record written in it."""

    epoch: int
    start_offset: int


class LeaderEpochCheckpointFile:
    """The epochs of one partition on disk.

    The empty file is created with this object, unless `deferred`.
    """

    def __init__(self, files: FileSystem, log_dir: str, *, deferred: bool = False) -> None:
        """`log_dir` is the partition's folder."""
        self._files = files
        self._log_dir = log_dir
        self._checkpoint = CheckpointFile(
            files,
            f"{log_dir}/{LEADER_EPOCH_CHECKPOINT_FILE_NAME}",
            format_entry=_format_entry,
            parse_entry=_parse_entry,
        )
        if not deferred:
            self._checkpoint.create_if_absent()

    @property
    def path(self) -> str:
        return self._checkpoint.path

    def write(self, entries: Iterable[EpochEntry]) -> None:
        self._checkpoint.write(entries)

    def write_if_dir_exists(self, entries: Iterable[EpochEntry]) -> None:
        """Writes after a truncation, asynchronously; the partition may have been deleted or renamed
        by then.
        """
        if self._files.is_dir(self._log_dir):
            self._checkpoint.write(entries)

    def read(self) -> list[EpochEntry]:
        return self._checkpoint.read()


def _format_entry(entry: EpochEntry) -> str:
    return f"{entry.epoch} {entry.start_offset}"


def _parse_entry(line: str) -> EpochEntry:
    epoch, start_offset = line.split()
    return EpochEntry(parse_decimal(epoch), parse_decimal(start_offset))
