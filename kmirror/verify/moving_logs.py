"""Whether a log's segments were replaced or deleted since they were listed.

Appending and rolling change nothing that was listed. A cleaner and retention do: what was read then
belongs to two versions of the log, and what looks like damage may be the seam between them.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.ports import FileSystem
from kmirror.storage.reader import PartitionFiles, read_partition

MAX_READINGS: Final = 10
"""How often a log is read that changes each time."""
PAUSE_S: Final = 0.05
"""How long a caller with a clock waits between two readings; a broker swaps segments in less."""


def listed_again(files: FileSystem, partition: PartitionFiles) -> PartitionFiles | None:
    """Returns what the folder holds now; None if it was deleted or renamed."""
    if partition.is_dangling:
        return partition
    try:
        return read_partition(files, partition.path, partition.topic_partition)
    except (FileNotFoundError, NotADirectoryError):
        return None


def has_moved(before: PartitionFiles, now: PartitionFiles) -> bool:
    """Whether the log has other segments than those that were listed, up to the last one of them,
    which may have grown."""
    if not before.segments:
        return bool(now.segments)
    last = before.segments[-1]
    sizes = {segment.base_offset: segment.log_size for segment in now.segments if segment.base_offset <= last.base_offset}
    grown = sizes.get(last.base_offset, -1)
    listed = {segment.base_offset: segment.log_size for segment in before.segments}
    return before.swaps != now.swaps or grown < last.log_size or sizes != {**listed, last.base_offset: grown}
