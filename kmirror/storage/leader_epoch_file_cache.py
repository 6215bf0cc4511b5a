"""Which leader epoch began at which offset (Kafka's `LeaderEpochFileCache`), kept in
`leader-epoch-checkpoint`.

Entries ascend in both epoch and start offset. A new entry drops every entry that contradicts it
(epoch >= its epoch or start offset >= its offset), so an epoch that began but was never written to
leaves no trace. A new entry is written and synced before the append that caused it goes on. When a
truncation drops entries, the file is rewritten later, because loading a log truncates the cache to
the log anyway. A log that has no files yet (`deferred`) writes its epochs when it gets them: an
epoch without a batch means nothing after a crash.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.leader_epoch_checkpoint_file import EpochEntry, LeaderEpochCheckpointFile
from kmirror.storage.log_offset_metadata import EpochAndOffset
from kmirror.storage.ports import LogScheduler

UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1


class LeaderEpochFileCache:
    """Owner of the epochs of one log.

    The list is short (one entry for each leader change), so all look-ups are linear.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        checkpoint: LeaderEpochCheckpointFile,
        scheduler: LogScheduler,
        *,
        deferred: bool = False,
    ) -> None:
        self._topic_partition = topic_partition
        self._checkpoint = checkpoint
        self._scheduler = scheduler
        self._epochs: list[EpochEntry] = []
        self._is_deferred = deferred
        if not deferred:
            for entry in checkpoint.read():
                self._assign(entry)

    def end_deferral(self) -> None:
        """Writes the epochs, now that the log has files."""
        if self._is_deferred:
            self._is_deferred = False
            self._write()

    # reading
    @property
    def is_empty(self) -> bool:
        return not self._epochs

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self._epochs[0] if self._epochs else None

    @property
    def latest_epoch(self) -> int | None:
        return self._epochs[-1].epoch if self._epochs else None

    @property
    def epoch_entries(self) -> list[EpochEntry]:
        return list(self._epochs)

    def previous_epoch(self, epoch: int | None = None) -> int | None:
        """The largest epoch below `epoch` (default: below the latest)."""
        limit = self.latest_epoch if epoch is None else epoch
        lower = [entry.epoch for entry in self._epochs if limit is not None and entry.epoch < limit]
        return lower[-1] if lower else None

    def end_offset_for(self, requested_epoch: int, log_end_offset: int) -> EpochAndOffset:
        """(largest epoch <= the requested one, start offset of the next higher epoch); (-1, -1) if
        the requested epoch is above all known ones.
        """
        if requested_epoch == UNDEFINED_EPOCH:
            return EpochAndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if requested_epoch == self.latest_epoch:
            return EpochAndOffset(requested_epoch, log_end_offset)
        floor: EpochEntry | None = None
        for entry in self._epochs:
            if entry.epoch > requested_epoch:
                return EpochAndOffset(floor.epoch if floor else requested_epoch, entry.start_offset)
            floor = entry
        return EpochAndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)

    # writing
    def assign(self, epoch: int, start_offset: int) -> None:
        """Notes that `epoch` begins at `start_offset`, and writes it at once if that is new."""
        latest = self._epochs[-1] if self._epochs else None
        if latest is not None and latest.epoch == epoch and start_offset >= latest.start_offset:
            return
        self._assign(EpochEntry(epoch, start_offset))
        self._write()

    def _assign(self, entry: EpochEntry) -> None:
        if entry.epoch < 0 or entry.start_offset < 0:
            raise ValueError(f"Received invalid partition leader epoch entry {entry} for {self._topic_partition}")
        while self._epochs and (self._epochs[-1].epoch >= entry.epoch or self._epochs[-1].start_offset >= entry.start_offset):
            self._epochs.pop()
        self._epochs.append(entry)

    def truncate_from_end_async_flush(self, end_offset: int) -> None:
        """Drops the epochs that begin at or above `end_offset`."""
        kept = [entry for entry in self._epochs if entry.start_offset < end_offset]
        if end_offset >= 0 and len(kept) < len(self._epochs):
            self._epochs = kept
            self._flush_later()

    def truncate_from_start_async_flush(self, start_offset: int) -> None:
        """Forgets the epochs below `start_offset`. The epoch that contains it then begins there."""
        removed = [entry for entry in self._epochs if entry.start_offset <= start_offset]
        if removed:
            self._epochs = [EpochEntry(removed[-1].epoch, start_offset), *self._epochs[len(removed) :]]
            self._flush_later()

    def clear_and_flush(self) -> None:
        self._epochs = []
        self._write()

    def clear(self) -> None:
        """Forgets everything, in memory only (the folder is being deleted)."""
        self._epochs = []

    def with_checkpoint(self, checkpoint: LeaderEpochCheckpointFile) -> None:
        """Writes to another file from now on, because the folder was renamed."""
        self._checkpoint = checkpoint

    def _write(self) -> None:
        if not self._is_deferred:
            self._checkpoint.write(self._epochs)

    def _flush_later(self) -> None:
        if self._is_deferred:
            return
        self._scheduler.schedule_once(f"leader-epoch-cache-flush-{self._topic_partition}", self._write_if_dir_exists, 0)

    def _write_if_dir_exists(self) -> None:
        self._checkpoint.write_if_dir_exists(self._epochs)
