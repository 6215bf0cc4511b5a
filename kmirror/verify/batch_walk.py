"""The batches of a slice, each checked before it is trusted, for callers that read records.

Anything that is not a batch of the log is an error that names file and byte or, for a caller who
wants the rest, a `BadBytes` between the sound batches: an impossible length, another magic, an
offset that cannot follow or that lies behind the slice, a wrong CRC, an incomplete batch that is no append under way (`tail`).
After a bad batch the walk goes on right behind it if a sound one begins there, otherwise where the
next sound one begins.

No CRC covers a base offset. Of two batches whose offsets overlap, the first one is wrong if there
is room for it below the second one, otherwise the second one is. So a batch is not sound before the next one was seen;
only the last one of a slice has nobody behind it, and whoever knows the next slice holds it against
that.

Nor does one cover the leader epoch, which never falls within a log. Of two batches whose epochs
fall, the first one is wrong if it began a new epoch and the second one's would have followed without
it, otherwise the second one is. One bit can also make an epoch that falls nowhere: where epochs
rise, `epoch_claims` holds them against `leader-epoch-checkpoint`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.record_batch import ATTRIBUTES_POSITION, CURRENT_MAGIC, RecordBatch
from kmirror.storage.reader import BatchBlock, SegmentReader
from kmirror.verify.epoch_claims import EpochClaims, Rise
from kmirror.verify.slices import LogSlice
from kmirror.verify.tail import begins_batch, find_batch, tail_problem

WALK_BLOCK_BYTES: Final = 4 << 20
_LAST_RELATIVE_OFFSET: Final = (1 << 31) - 1


class SoundBatches(NamedTuple):
    """Batches that follow each other: views into one buffer, and their byte positions in the
    segment."""

    positions: list[int]
    batches: list[RecordBatch]


class BadBytes(NamedTuple):
    """Bytes `position` to `end` of a segment are no sound batch."""

    position: int
    end: int
    offset: int
    """The offset in the batch's header, or the next offset that the log would have."""
    reason: str


def walk(
    files: FileSystem, piece: LogSlice, *, check_crc: bool = True, skip_bad: bool = False, block_bytes: int = WALK_BLOCK_BYTES
) -> Iterator[SoundBatches | BadBytes]:
    """Yields the batches of `piece` in order. CorruptFileError at the first bad one, unless
    `skip_bad` asks for `BadBytes`."""
    walker = _Walker(files, piece, check_crc=check_crc)
    position = piece.start
    while position < piece.end:
        yield from walker.sound(position, block_bytes)
        bad = walker.bad
        if bad is None:
            return
        if not skip_bad:
            raise CorruptFileError(piece.path, bad.position, bad.reason)
        yield bad
        position = bad.end


class _Walker:
    def __init__(self, files: FileSystem, piece: LogSlice, *, check_crc: bool) -> None:
        self._files = files
        self._piece = piece
        self._check_crc = check_crc
        self._next_offset = piece.base_offset
        self._before = piece.base_offset
        """Where the offsets stood before the last sound batch."""
        self._epoch = self._epoch_before = NO_PARTITION_LEADER_EPOCH
        """The leader epoch of the last sound batch, and of those before it."""
        self._claims = EpochClaims(files, piece.path)
        self.bad: BadBytes | None = None
        """Why `sound` ended before the slice did."""

    def sound(self, position: int, block_bytes: int) -> Iterator[SoundBatches]:
        """Yields the batches from `position` to the end or to the first bad one."""
        self.bad = None
        held: SoundBatches | None = None
        with SegmentReader(self._files, self._piece.path, start=position, end=self._piece.end) as reader:
            try:
                for block in reader.blocks(block_bytes=block_bytes):
                    if held is not None:
                        if self._shows_wrong(held.batches[0], block.batches[0]):
                            self._blame(held.positions[0], held.batches[0], block.batches[0])
                            return
                        yield held
                        held = None
                    count = self._sound_count(block)
                    if self.bad is None:
                        count -= 1
                        held = SoundBatches(block.positions[count:], block.batches[count:])
                    if count:
                        yield SoundBatches(block.positions[:count], block.batches[:count])
                    if self.bad is not None:
                        return
            except CorruptFileError as error:
                if held is not None:
                    yield held
                self.bad = self._bad(error.position, error.reason, self._next_offset)
                return
            if held is not None:
                yield held
            if reader.valid_bytes < self._piece.end:
                with closing(self._files.open(self._piece.path, write=False)) as file:
                    problem = tail_problem(file, self._piece, reader.valid_bytes, self._next_offset)
                if problem is not None:
                    self.bad = self._bad(reader.valid_bytes, problem, self._next_offset)

    def _sound_count(self, block: BatchBlock) -> int:
        for row, batch in enumerate(block.batches):
            if row and self._shows_wrong(block.batches[row - 1], batch):
                self._blame(block.positions[row - 1], block.batches[row - 1], batch)
                return row - 1
            position = block.positions[row]
            problem = self._problem(batch)
            if problem is None and 0 <= self._epoch < batch.partition_leader_epoch:
                problem = self._unclaimed(batch, position + batch.size_in_bytes)
            if problem is not None:
                self.bad = self._bad(position, problem, batch.base_offset, batch_end=position + batch.size_in_bytes)
                return row
            self._before, self._next_offset = self._next_offset, batch.next_offset
            self._epoch_before, self._epoch = self._epoch, max(self._epoch, batch.partition_leader_epoch)
        return len(block.batches)

    def _shows_wrong(self, before: RecordBatch, batch: RecordBatch) -> bool:
        """Whether a sound batch shows that the offsets of the one before it are wrong: it begins
        below their end, and there is room for them below it. Or that its leader epoch is."""
        room = batch.base_offset - self._before
        fits = batch.base_offset < self._next_offset and room >= before.next_offset - before.base_offset
        if not fits and not self._shows_wrong_epoch(before, batch):
            return False
        return batch.base_offset <= batch.last_offset and self._damage(batch) is None

    def _shows_wrong_epoch(self, before: RecordBatch, batch: RecordBatch) -> bool:
        began_epoch = self._epoch_before < before.partition_leader_epoch == self._epoch
        follows = max(self._epoch_before, 0) <= batch.partition_leader_epoch < self._epoch
        return began_epoch and follows and batch.base_offset >= self._next_offset

    def _blame(self, position: int, batch: RecordBatch, following: RecordBatch) -> None:
        reason = f"a batch with offsets {batch.base_offset} to {batch.last_offset}, and the next one begins below"
        if following.base_offset >= self._next_offset:
            epochs = f"{batch.partition_leader_epoch} at offset {batch.base_offset}, and the next one is of epoch {following.partition_leader_epoch}"
            reason = f"a batch of leader epoch {epochs}"
        self.bad = self._bad(position, reason, batch.base_offset, batch_end=position + batch.size_in_bytes)
        self._next_offset, self._epoch = self._before, self._epoch_before

    def _damage(self, batch: RecordBatch) -> str | None:
        """Returns what is wrong with a batch by itself."""
        if batch.magic != CURRENT_MAGIC:
            return f"a batch of magic {batch.magic}; only message format v2 can be read"
        if self._check_crc and crc32c(batch.memory[ATTRIBUTES_POSITION:]) != batch.crc:
            return f"the CRC of the batch at offset {batch.base_offset} is {batch.compute_crc()}, its header says {batch.crc}"
        return None

    def _problem(self, batch: RecordBatch) -> str | None:
        damage = self._damage(batch)
        if damage is not None:
            return damage
        piece = self._piece
        expected, most = self._next_offset, min(piece.base_offset + _LAST_RELATIVE_OFFSET, piece.end_offset - 1)
        if expected <= batch.base_offset and most < batch.last_offset < piece.base_offset + _LAST_RELATIVE_OFFSET:
            return f"a batch with offsets {batch.base_offset} to {batch.last_offset}, and offset {piece.end_offset} lies behind it"
        if not expected <= batch.base_offset <= batch.last_offset <= most:
            if batch.last_offset <= most:
                self._next_offset = batch.next_offset  # one of two that do not fit is wrong, not all that follow
            return f"a batch with offsets {batch.base_offset} to {batch.last_offset}, and offset {expected} is the next"
        epoch = batch.partition_leader_epoch
        if epoch < NO_PARTITION_LEADER_EPOCH or 0 <= epoch < self._epoch:
            self._next_offset = batch.next_offset
            return f"a batch of leader epoch {epoch} at offset {batch.base_offset}, behind one of epoch {self._epoch}"
        return None

    def _unclaimed(self, batch: RecordBatch, end: int) -> str | None:
        ends_log = self._piece.ends_log_at(end)
        rise = Rise(batch.partition_leader_epoch, batch.base_offset, batch.next_offset, self._epoch, self._next_offset - 1, ends_log)
        problem = self._claims.problem(rise)
        if problem is not None:
            self._next_offset = batch.next_offset
        return problem

    def _bad(self, position: int, reason: str, offset: int, *, batch_end: int | None = None) -> BadBytes:
        piece, least = self._piece, self._piece.base_offset
        with closing(self._files.open(piece.path, write=False)) as file:
            if batch_end is not None and (batch_end >= piece.end or begins_batch(file, piece, batch_end, least)):
                end = batch_end
            else:
                found = find_batch(file, piece, position + 1, least)
                end = piece.end if found is None else found
        return BadBytes(position, end, offset, reason)
