"""Compaction: which record of each key of a log survives, and what is left of the others.

    scan    returns a slice's committed records as rows (128-bit hash of the key, offset, size), and
            counts of what needs no key
    judge   for some keys with all their rows: the newest offset of each key, and how many older
            ones there are below three bounds
    merge   adds up counts; both kinds merge in any order

The rows of one key must come together. They go into buckets by the hash's highest bits, through
scratch files here (`spilled_rows`) and through the shuffle on Spark. A bucket has about
`BUCKET_ROWS` rows, so memory does not grow with the number of keys.

Only committed records count, as for the cleaner: data of an aborted transaction replaces nothing,
and that of an open one cannot be cleaned yet. The replay of the same log says which those are
(`transactions`), so no marker is read again. What a MIRROR_PID_RESET forgot has no ABORT, and
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kmirror.common.errors import CorruptFileError, disk_error_text
from kmirror.common.ports import FileSystem
from kmirror.record.columns import Int64s, RecordColumns
from kmirror.record.record_batch import DELETE_HORIZON_FLAG
from kmirror.verify.batch_walk import SoundBatches, walk
from kmirror.verify.key_hash import hash_keys
from kmirror.verify.slices import LogSlice
from kmirror.verify.spilled_rows import Scratch, SpilledRows
from kmirror.verify.transaction_spans import NEVER, TransactionSpan, TransactionSpans
from kmirror.verify.unpacking import MalformedBatchError, Unpacker

BUCKET_ROWS: Final = 1 << 18
"""About how many rows are judged together: 8 MB."""
MAX_EXAMPLES: Final = 3
ROW_WIDTH: Final = 4
_HASH, _SECOND, _OFFSET, _SIZE = range(ROW_WIDTH)
Rows = npt.NDArray[np.int64]


class KeyScope(NamedTuple):
    """What a reader of a log's keys has to know about the log."""

    log_start_offset: int
    checked_from: int
    """The range that a cleaner has surely processed begins here ..."""
    checked_to: int
    """... and ends here."""
    first_dirty_offset: int
    first_uncleanable_offset: int
    now_ms: int
    spans: tuple[TransactionSpan, ...]


class KeyLog(NamedTuple):
    """One log whose keys are to be read."""

    slices: list[LogSlice]
    records: int
    """The number that its batches state."""
    scope: KeyScope

    @property
    def bucket_bits(self) -> int:
        """How many of the hash's highest bits name the bucket."""
        return max(self.records // BUCKET_ROWS, 0).bit_length()


class KeyCounts(NamedTuple):
    """The results of both kinds of counting; the default is the identity."""

    records: int = 0
    unkeyed: int = 0
    aborted: int = 0
    open: int = 0
    tombstones: int = 0
    tombstones_with_horizon: int = 0
    tombstones_past_horizon: int = 0
    first_delete_horizon: int = NEVER
    keys: int = 0
    live_keys: int = 0
    superseded: int = 0
    superseded_bytes: int = 0
    removable: int = 0
    removable_bytes: int = 0
    kept_below_checkpoint: int = 0
    examples: tuple[tuple[int, int], ...] = ()
    """(offset, offset of the newer record) of the first records of `kept_below_checkpoint`."""
    problem: tuple[str, int, str] | None = None
    """(file, byte, reason) where reading the log failed."""


_ADDED: Final = tuple(name for name in KeyCounts._fields if name not in ("first_delete_horizon", "examples", "problem"))


def merge(left: KeyCounts, right: KeyCounts) -> KeyCounts:
    problems = [one.problem for one in (left, right) if one.problem is not None]
    return KeyCounts(
        **{name: getattr(left, name) + getattr(right, name) for name in _ADDED},
        first_delete_horizon=min(left.first_delete_horizon, right.first_delete_horizon),
        examples=tuple(sorted(left.examples + right.examples)[:MAX_EXAMPLES]),
        problem=min(problems, default=None),
    )


# scan
def scan_slice(
    files: FileSystem, piece: LogSlice, scope: KeyScope, bucket_bits: int, emit: Callable[[Int64s, Rows], None], unpacker: Unpacker
) -> KeyCounts:
    """Returns the counts of a slice. `emit` gets (the bucket of each row, rows) of its committed
    records."""
    spans = TransactionSpans(scope.spans)
    counts = KeyCounts()
    positions: Sequence[int] = ()
    try:
        for found in walk(files, piece, check_crc=False):
            assert isinstance(found, SoundBatches), "bad bytes were not asked for"
            chosen = [row for row, batch in enumerate(found.batches) if not batch.is_control and batch.record_count]
            batches = [found.batches[row] for row in chosen]
            positions = [found.positions[row] for row in chosen]
            state = np.array([_state_of(spans.of(batch)) for batch in batches], dtype=np.int8)
            for first, columns in unpacker.pieces(batches):
                counts = merge(counts, _take(columns, state[first:], scope, bucket_bits, emit))
    except CorruptFileError as error:
        return counts._replace(problem=(piece.path, error.position, error.reason))
    except MalformedBatchError as error:
        return counts._replace(problem=(piece.path, positions[error.index], error.problem.message))
    except OSError as error:
        return counts._replace(problem=(piece.path, piece.start, disk_error_text(error)))
    return counts


_COMMITTED, _ABORTED, _OPEN = range(3)


def _state_of(span: TransactionSpan | None) -> int:
    if span is None:
        return _COMMITTED
    return _OPEN if span.end_offset == NEVER else _ABORTED


def _take(
    columns: RecordColumns, state: npt.NDArray[np.int8], scope: KeyScope, bucket_bits: int, emit: Callable[[Int64s, Rows], None]
) -> KeyCounts:
    inside = columns.offset >= scope.log_start_offset
    states = state[columns.batch_index]
    committed = inside & (states == _COMMITTED)
    is_tombstone = committed & (columns.value_length < 0) & (columns.key_length >= 0)
    with_horizon = is_tombstone & (columns.batches["attributes"] & DELETE_HORIZON_FLAG != 0)[columns.batch_index]
    horizons = columns.batches["base_timestamp"][columns.batch_index[with_horizon]]
    rows = np.flatnonzero(committed & (columns.key_length >= 0))
    if rows.size:
        first, second = hash_keys(columns, rows)
        made = np.empty((len(rows), ROW_WIDTH), dtype=np.int64)
        made[:, _HASH] = (first & ~np.uint64(1) | is_tombstone[rows].astype(np.uint64)).view(np.int64)
        made[:, _SECOND] = second.view(np.int64)
        made[:, _OFFSET] = columns.offset[rows]
        made[:, _SIZE] = columns.record_length[rows]
        emit(_buckets(first, bucket_bits), made)
    return KeyCounts(
        records=int(np.count_nonzero(inside)),
        unkeyed=int(np.count_nonzero(committed & (columns.key_length < 0))),
        aborted=int(np.count_nonzero(inside & (states == _ABORTED))),
        open=int(np.count_nonzero(inside & (states == _OPEN))),
        tombstones=int(np.count_nonzero(is_tombstone)),
        tombstones_with_horizon=int(np.count_nonzero(with_horizon)),
        tombstones_past_horizon=int(np.count_nonzero(horizons <= scope.now_ms)),
        first_delete_horizon=int(horizons.min()) if horizons.size else NEVER,
    )


def _buckets(first: npt.NDArray[np.uint64], bits: int) -> Int64s:
    return (first >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(first), dtype=np.int64)


# judge
def judge(rows: Rows, scope: KeyScope) -> KeyCounts:
    """Returns the counts of some keys; `rows` are all rows of each key, in any order."""
    if not len(rows):
        return KeyCounts()
    key = rows[:, _HASH].view(np.uint64) >> np.uint64(1)
    order = np.lexsort((rows[:, _OFFSET], rows[:, _SECOND], key))
    rows, key = rows[order], key[order]
    offsets, sizes = rows[:, _OFFSET], rows[:, _SIZE]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (key[1:] != key[:-1]) | (rows[1:, _SECOND] != rows[:-1, _SECOND])
    starts = np.flatnonzero(is_first)
    group = np.cumsum(is_first) - 1
    is_newest = np.ones(len(rows), dtype=bool)
    is_newest[:-1] = is_first[1:]

    def newest_below(bound: int) -> Int64s:
        newest: Int64s = np.maximum.reduceat(np.where(offsets < bound, offsets, -1), starts)[group]
        return newest

    in_reach = newest_below(scope.first_uncleanable_offset)
    removable = (offsets < in_reach) & (in_reach >= scope.first_dirty_offset)
    replacing = newest_below(scope.checked_to)
    kept = np.flatnonzero((offsets < replacing) & (offsets >= scope.checked_from))
    first = kept[np.argsort(offsets[kept], kind="stable")[:MAX_EXAMPLES]]
    return KeyCounts(
        keys=len(starts),
        live_keys=int(np.count_nonzero(rows[is_newest, _HASH] & 1 == 0)),
        superseded=len(rows) - len(starts),
        superseded_bytes=int(sizes[~is_newest].sum()),
        removable=int(np.count_nonzero(removable)),
        removable_bytes=int(sizes[removable].sum()),
        kept_below_checkpoint=len(kept),
        examples=tuple((int(offsets[row]), int(replacing[row])) for row in first.tolist()),
    )


# in this process
def count_keys(files: FileSystem, log: KeyLog, scratch: Scratch | None, progress: Callable[[int], None] | None = None) -> KeyCounts:
    """Returns the counts of one log, read in this process. NoRoomError if its rows do not fit."""
    counts = KeyCounts()
    rows = SpilledRows(ROW_WIDTH, 1 << log.bucket_bits, scratch)
    unpacker = Unpacker()
    try:
        for piece in log.slices:
            counts = merge(counts, scan_slice(files, piece, log.scope, log.bucket_bits, rows.add, unpacker))
            if progress is not None:
                progress(piece.size)
        rows.settle()
        for bucket in range(1 << log.bucket_bits):
            counts = merge(counts, judge(rows.bucket(bucket), log.scope))
    finally:
        rows.close()
    return counts


def by_bucket(buckets: Int64s, rows: Rows) -> Iterator[tuple[int, Rows]]:
    """Yields (bucket, its rows), for callers that send them elsewhere."""
    order: npt.NDArray[Any] = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    ends = [*starts[1:].tolist(), len(rows)]
    for bucket, start, end in zip(found.tolist(), starts.tolist(), ends):
        yield bucket, rows[order[start:end]]
