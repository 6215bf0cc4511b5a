"""Waits until a broker has swapped in what its cleaner made.

A cleaner writes `.cleaned` files, renames them to `.swap`, renames the old segments to `.deleted`,
and only then gives the new ones their name. In between, a segment is missing from a listing, at the
front or in the middle, and its records would be left out silently. So a folder with such files is
listed until two listings have the same segments and nothing is being swapped. If a broker died in
the middle, it ends the swap at its next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.reader import PartitionFiles, read_partition

T = TypeVar("T")

SETTLE_S: Final = 5.0
"""How long a swap of cleaned segments may take; a broker needs milliseconds."""
_PAUSE_S: Final = 0.05
_AT_WORK: Final = (".cleaned", ".swap", ".deleted")
_SWAP: Final = ".log.swap"
"""The log gets its name first: a segment whose indexes alone are still to be renamed is there."""


def settled(files: FileSystem, partition: PartitionFiles) -> PartitionFiles:
    """Returns the folder's files once no cleaned segment is being swapped in. KmirrorError if the
    swapping does not end."""
    if not any(name.endswith(_AT_WORK) for name in partition.other_files):
        return partition
    deadline = time.monotonic() + SETTLE_S
    while True:
        again = read_partition(files, partition.path, partition.topic_partition)
        is_same = [one.base_offset for one in again.segments] == [one.base_offset for one in partition.segments]
        swaps = [name for name in again.other_files if name.endswith(_SWAP)]
        if is_same and not swaps:
            return again
        if time.monotonic() > deadline:
            what = swaps[0] if swaps else "its segments change all the time"
            raise KmirrorError(
                f"{partition.path}: cleaned segments are being swapped in, and that does not end: {what}; is the broker down?"
            )
        partition = again
        time.sleep(_PAUSE_S)


def planned_again(plan: Callable[[], T]) -> T:
    """Returns the result of `plan`. A broker may delete or swap files after they were listed, so
    `plan` is called up to three times; the third error is raised."""
    for _ in range(2):
        try:
            return plan()
        except (FileNotFoundError, CorruptFileError):
            continue
    return plan()
