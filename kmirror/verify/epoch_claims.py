"""A leader epoch that is too high and falls nowhere behind: held against `leader-epoch-checkpoint`.

No CRC covers a leader epoch, and behind the last batch of an epoch nothing contradicts one that is
too high. The checkpoint may: it has each epoch with its first offset. But it may be damaged itself,
and a running broker writes it late. So a batch is wrong only if the checkpoint is right about what
lies around it: the batch before is of the epoch that the checkpoint has there, and the batch ends

    where the checkpoint has the next epoch begin, to the offset, or
    with the log, in a data dir whose broker was shut down cleanly

Every other contradiction is left to `verify-logs`, which names the file and says no more of the
batches. So is a batch that nobody is before, at the beginning of a slice. The checkpoint is read
only where epochs rise, so a log costs as many reads as it had leaders.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry, LeaderEpochCheckpointFile
from kmirror.verify.replay.claims import CLEAN_SHUTDOWN_FILE


class Rise(NamedTuple):
    """A batch whose leader epoch is above that of the batch before it."""

    epoch: int
    base_offset: int
    next_offset: int
    epoch_before: int
    last_offset_before: int
    ends_log: bool
    """Whether no batch of the log, as it was listed, is behind it."""


class EpochClaims:
    """What the checkpoint beside a segment says of rising epochs."""

    def __init__(self, files: FileSystem, segment_path: str) -> None:
        self._files = files
        self._folder = posixpath.dirname(segment_path)
        self._entries: list[EpochEntry] | None = None

    def problem(self, rise: Rise) -> str | None:
        """Returns why the epoch is wrong. The file is read again before it is said: a broker may
        have cut the log and written other batches since."""
        if self._entries is None or self._contradicts(rise) is not None:
            self._entries = self._read()
        return self._contradicts(rise)

    def _contradicts(self, rise: Rise) -> str | None:
        entries = self._entries or []
        row = bisect_right(entries, rise.base_offset, key=lambda entry: entry.start_offset) - 1
        if row < 0:
            return None
        claimed = entries[row]
        if claimed.epoch != rise.epoch_before or rise.last_offset_before < claimed.start_offset:
            return None
        told = f"a batch of leader epoch {rise.epoch} at offset {rise.base_offset}, behind one of epoch {claimed.epoch}"
        if row + 1 < len(entries):
            following = entries[row + 1]
            if rise.next_offset != following.start_offset:
                return None
            return (
                f"{told}; by leader-epoch-checkpoint the next epoch is {following.epoch} and begins behind it, at {following.start_offset}"
            )
        if not rise.ends_log or not self._files.exists(f"{posixpath.dirname(self._folder)}/{CLEAN_SHUTDOWN_FILE}"):
            return None
        return f"{told}; leader-epoch-checkpoint of a broker that was shut down has no epoch above that"

    def _read(self) -> list[EpochEntry]:
        """Returns nothing of a file that is not there or makes no sense: it is no log's damage."""
        try:
            entries = LeaderEpochCheckpointFile(self._files, self._folder, deferred=True).read()
        except (KmirrorError, OSError, ValueError):
            return []
        ascends = all(one.epoch < two.epoch and one.start_offset < two.start_offset for one, two in zip(entries, entries[1:]))
        return entries if ascends else []
