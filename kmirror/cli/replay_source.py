"""What of a recording is replayed: the batches of a partition in order, a block at a time.

No file stays open between two blocks: a paced replay has thousands of partitions under way and may
read one of them for days.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.batch_walk import WALK_BLOCK_BYTES, SoundBatches, walk
from kmirror.verify.epoch_claims import EpochClaims, Rise
from kmirror.verify.offset_lookup import log_end_offset
from kmirror.verify.planner import MAX_OFFSET, Listing
from kmirror.verify.slices import LogSlice
from kmirror.verify.transaction_spans import TransactionSpan, TransactionSpans
from kmirror.verify.visibility import read_undecided

WHOLE: Final = 1 << 62
MIN_BLOCK_BYTES: Final = 64 << 10
BLOCKS_MEMORY_BYTES: Final = 128 << 20
"""Memory for the blocks of all partitions together; each still gets at least MIN_BLOCK_BYTES."""


@dataclass(frozen=True, slots=True)
class RecordedPartition:
    """One partition's files, and what of them is asked for.

    Offsets and timestamps (ms) are the recording's; both bounds are inclusive.
    """

    location: str
    files: PartitionFiles
    source: TopicPartition
    target: TopicPartition
    topic_id: str | None = None
    """The recorded topic's id, if the folder says it."""
    first_offset: int = 0
    first_timestamp: int | None = None
    """Batches whose youngest record is older are left out."""
    last_timestamp: int | None = None
    """Batches with a younger record are left out."""
    drops_aborted: bool = False

    @property
    def size(self) -> int:
        return self.files.size

    @property
    def listing(self) -> Listing:
        return Listing(self.location, self.files.path, [self.files], True, {})

    def wants(self, batch: RecordBatch) -> bool:
        """Whether a data batch is within the time bounds."""
        return (self.first_timestamp is None or batch.max_timestamp >= self.first_timestamp) and (
            self.last_timestamp is None or batch.max_timestamp <= self.last_timestamp
        )


def check_front(partition: RecordedPartition, needed: int) -> None:
    """KmirrorError if a recording no longer has what is to be replayed from the offset `needed` on."""
    if needed < partition.first_offset:
        raise KmirrorError(
            f"offsets {needed} to {partition.first_offset - 1} of {partition.source} were deleted from the recording before they were "
            "replayed; replay it into another topic with another --state, or go on without them: set next_offset in the progress file to "
            f"{partition.first_offset}, and redo to []"
        )


def check_end(files: FileSystem, partition: RecordedPartition, next_offset: int) -> None:
    """KmirrorError if a recording ends before what was replayed of it."""
    try:
        end = max(log_end_offset(files, partition.files), partition.first_offset)
    except CorruptFileError:
        return  # reading will tell
    if end < next_offset:
        raise KmirrorError(
            f"{partition.source} was replayed up to offset {next_offset}, and the recording now ends at {end}: it was truncated, or is another copy; "
            "replay it into another topic with another --state"
        )


def block_bytes(partitions: int) -> int:
    """Returns how many bytes of each of so many partitions are read at a time."""
    return max(MIN_BLOCK_BYTES, min(WALK_BLOCK_BYTES, BLOCKS_MEMORY_BYTES // max(1, partitions)))


def blocks_from(files: FileSystem, partition: RecordedPartition, offset: int, *, size: int) -> Iterator[list[RecordBatch]]:
    """Yields the batches with offsets from `offset` on, including control batches.

    CorruptFileError at the first bytes that are no batch.
    """
    listing, next_offset, epoch = partition.listing, -1, -1
    for piece in listing.slices(files, partition.files, task_bytes=WHOLE, low=offset, high=MAX_OFFSET):
        position = piece.start
        while position < piece.end:
            found = _block_at(files, piece, position, size)
            if found is None:
                break
            if found.batches[0].base_offset < next_offset:
                first = found.batches[0].base_offset
                raise CorruptFileError(piece.path, found.positions[0], f"a batch at offset {first}, and offset {next_offset} is the next")
            epoch = _checked_epoch(files, piece, found, epoch, next_offset)
            next_offset = found.batches[-1].next_offset
            wanted = [batch for batch in found.batches if batch.last_offset >= offset]
            if wanted:
                yield wanted
            position = found.positions[-1] + found.batches[-1].size_in_bytes


def _checked_epoch(files: FileSystem, piece: LogSlice, found: SoundBatches, epoch: int, next_offset: int) -> int:
    """Returns the last leader epoch of a block. CorruptFileError if its first one, which no CRC
    covers, is below that of the block before, which ended at `next_offset`, or above what the log
    has there (`epoch_claims`)."""
    first = found.batches[0].partition_leader_epoch
    if 0 <= epoch < first:
        batch = found.batches[0]
        ends_log = piece.ends_log_at(found.positions[0] + batch.size_in_bytes)
        rise = Rise(first, batch.base_offset, batch.next_offset, epoch, next_offset - 1, ends_log)
        problem = EpochClaims(files, piece.path).problem(rise)
        if problem is not None:
            raise CorruptFileError(piece.path, found.positions[0], problem)
    if 0 <= first < epoch:
        offset = found.batches[0].base_offset
        raise CorruptFileError(
            piece.path, found.positions[0], f"a batch of leader epoch {first} at offset {offset}, behind one of epoch {epoch}"
        )
    return max(epoch, found.batches[-1].partition_leader_epoch)


def _block_at(files: FileSystem, piece: LogSlice, position: int, size: int) -> SoundBatches | None:
    found = next(walk(files, piece._replace(start=position), block_bytes=size), None)
    return found if isinstance(found, SoundBatches) else None


def first_time(files: FileSystem, partition: RecordedPartition, offset: int) -> int | None:
    """Returns the max timestamp of the first wanted data batch from `offset` on.

    Returns None if there is none, or if the log cannot be read (its replay will report that).
    """
    try:
        for batches in blocks_from(files, partition, offset, size=MIN_BLOCK_BYTES):
            for batch in batches:
                if not batch.is_control and batch.max_timestamp >= 0 and batch.record_count and partition.wants(batch):
                    return batch.max_timestamp
    except (CorruptFileError, OSError):
        pass
    return None


def aborted_transactions(files: FileSystem, partition: RecordedPartition) -> TransactionSpans:
    """Returns the aborted transactions from `.txnindex` and headers.

    CorruptFileError if these are damaged.
    """
    aborted = read_undecided(files, partition.listing, partition.files).aborted
    return TransactionSpans(TransactionSpan(one.producer_id, one.first_offset, one.last_offset) for one in aborted)
