"""A partition on disk as a stream sees it: what it has at this moment, and how far a budget of
offsets or bytes reaches.
"""

from __future__ import annotations

import posixpath
from contextlib import closing

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.inputs import FoundPartition
from kmirror.spark.stream_positions import CheckpointEpochs, Epochs, LogState
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, LeaderEpochCheckpointFile
from kmirror.storage.offset_checkpoint_file import HIGH_WATERMARK_CHECKPOINT_FILE_NAME
from kmirror.storage.reader import SegmentReader, read_offset_checkpoint
from kmirror.verify.compared_log import WALK_BLOCK_BYTES, DirectoryLog
from kmirror.verify.visibility import read_undecided


class HighWatermarks:
    """The `replication-offset-checkpoint` of each log.dir, read once."""

    def __init__(self) -> None:
        self._read: dict[str, dict[TopicPartition, int]] = {}

    def of(self, one: FoundPartition) -> int:
        """Returns a partition's high watermark, 0 if the file does not have the partition yet.
        KmirrorError without the file."""
        found = self._read.get(one.data_dir)
        if found is None:
            path = posixpath.join(one.data_dir, HIGH_WATERMARK_CHECKPOINT_FILE_NAME)
            if not one.files.exists(path):
                raise KmirrorError(
                    f"{path} is not there, so the high watermark of {one.name} is not known, below which no leader truncates it; "
                    "with readUpTo=logEndOffset a stream reads to the end of the last whole batch"
                )
            found = self._read[one.data_dir] = read_offset_checkpoint(one.files, one.data_dir, HIGH_WATERMARK_CHECKPOINT_FILE_NAME)
        return found.get(one.name, 0)


def read_state(one: FoundPartition, *, log_start: int, high_watermark: int | None, is_committed: bool, is_permissive: bool) -> LogState:
    """Returns what a partition has. Without a high watermark all whole batches are visible; with
    `is_committed` only those below the last stable offset.

    With `is_permissive`, a last segment that cannot be walked ends at the high watermark.
    """
    log = DirectoryLog(one.files, one.partition, log_start_offset=log_start)
    try:
        log_end = max(log.log_end_offset(), log_start)
    except CorruptFileError:
        if not is_permissive or high_watermark is None:
            raise
        log_end = max(high_watermark, log_start)
    visible_end = log_end if high_watermark is None else min(high_watermark, log_end)
    if is_committed and visible_end > log_start:
        visible_end = min(visible_end, read_undecided(one.files, one.listing, one.partition, end=visible_end).last_stable_offset)
    topic_id = one.partition.topic_id(one.files)
    return LogState(
        log_start, log_end, max(visible_end, log_start), read_epochs(one, log, log_end), None if topic_id is None else str(topic_id)
    )


def read_epochs(one: FoundPartition, log: DirectoryLog, log_end: int) -> Epochs:
    """Returns the epochs of `leader-epoch-checkpoint` or, if only segments were copied or the file
    is empty, those of batch headers."""
    if LEADER_EPOCH_CHECKPOINT_FILE_NAME in one.partition.other_files:
        entries = LeaderEpochCheckpointFile(one.files, one.partition.path, deferred=True).read()
        if entries:
            return CheckpointEpochs(entries, log_end)
    return HeaderEpochs(log, log_end)


class HeaderEpochs:
    """The leader epochs of batch headers. If all batches of an epoch were cleaned away, the epoch
    is missing too."""

    is_exact = False

    def __init__(self, log: DirectoryLog, log_end: int) -> None:
        self._log = log
        self._log_end = log_end

    def before(self, offset: int) -> int:
        log = self._log
        for segment in reversed(log.partition.segments):
            if segment.base_offset >= offset or not segment.log_size:
                continue
            epoch = NO_EPOCH
            start = log.indexed_position(segment, offset=offset - 1)
            with SegmentReader(log.files, segment.path(), start=start, end=segment.log_size) as reader:
                for _, batch in reader.batches(block_bytes=WALK_BLOCK_BYTES):
                    if batch.base_offset >= offset:
                        break
                    epoch = batch.partition_leader_epoch
            if epoch != NO_EPOCH:
                return epoch
        return NO_EPOCH

    def end_of(self, epoch: int, offset: int) -> int:
        if self.before(offset) <= epoch:
            return self._log_end
        for segment in self._log.partition.segments:
            with SegmentReader(self._log.files, segment.path(), end=segment.log_size) as reader:
                _, headers = reader.headers()
            later = headers["base_offset"][headers["partition_leader_epoch"] > epoch]
            if len(later):
                return int(later[0])
        return self._log_end


class LogWindow:
    """A partition's batches between two offsets."""

    def __init__(self, one: FoundPartition, low: int, end: int) -> None:
        self._one = one
        self._log = DirectoryLog(one.files, one.partition)
        self._segments = one.partition.segments
        self.low = low
        self.end = end

    def up_to(self, end: int) -> LogWindow:
        return LogWindow(self._one, self.low, end)

    def _place(self, offset: int) -> tuple[int, int]:
        """Returns (segment, byte in it) where the first batch that ends at `offset` or later
        begins."""
        with closing(self._log.cursor(offset)) as cursor:
            return cursor.place

    @property
    def size_bytes(self) -> int:
        """Bytes of the batches that begin in the window or reach into it."""
        if self.low >= self.end:
            return 0
        first, last = self._place(self.low), self._place(self.end)
        between = sum(segment.log_size for segment in self._segments[first[0] : last[0]])
        return max(between - first[1] + last[1], 0)

    def first_batch_end(self) -> int:
        """Returns the offset after the first batch."""
        with closing(self._log.cursor(self.low)) as cursor:
            found = cursor.peek()
        return self.end if found is None else min(max(found.batch.next_offset, self.low + 1), self.end)

    def end_by_offsets(self, count: int) -> int:
        """Returns the end of the last batch that lies completely within the next `count` offsets;
        `low` if there is none."""
        target = self.low + count
        if target >= self.end:
            return self.end
        with closing(self._log.cursor(target)) as cursor:
            found = cursor.peek()
        return target if found is None or found.batch.base_offset >= target else max(found.batch.base_offset, self.low)

    def end_by_bytes(self, size: int) -> int:
        """Returns the same for the next `size` bytes."""
        index, position = self._place(self.low)
        left = size
        while index < len(self._segments) and left >= self._segments[index].log_size - position:
            left -= self._segments[index].log_size - position
            index, position = index + 1, 0
        if index == len(self._segments):
            return self.end
        segment = self._segments[index]
        start = max(self._log.indexed_position(segment, position=position + left), position)
        with SegmentReader(self._log.files, segment.path(), start=start, end=position + left) as reader:
            reader.headers()
        with closing(self._log.cursor_at((index, reader.valid_bytes))) as cursor:
            found = cursor.peek()
        return self.end if found is None else min(max(found.batch.base_offset, self.low), self.end)
