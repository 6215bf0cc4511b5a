"""A log as chunks of some megabytes, cut only by offsets, each with its fingerprint.

A chunk is what lies in a dyadic interval of offsets, [i * 2^k, (i + 1) * 2^k). Of the intervals
around a batch it is the largest with at most `CHUNK_BYTES` of batches. These intervals are nested
or disjoint, never crossing. So two clusters cut alike where their logs are alike, whatever their
segments are and wherever scanning began. Where one cuts finer than the other, its chunks are
combined until both have the same interval.

A part of a log (a block, a slice, a segment) knows only the intervals that it covers completely.
Those at its edges are small, and grow when its neighbour is known. `coalesced` does that, for
batches and for chunks alike, in any order:

    chunks(log) = coalesced(chunks(part), chunks(part), ...)

A batch belongs where its base offset is. Offsets must ascend; where they do not, there are no
chunks (`segment_print`).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kmirror.verify.fingerprint import Uint64s, batch_hashes, run_values, sums

CHUNK_BYTES: Final = 8 << 20
"""The maximum; the average is a little more than half of it."""
MAX_LEVEL: Final = 62
CHUNK_DTYPE: Final = np.dtype(
    [
        ("start", np.int64),  # the interval's first offset, a multiple of 2^level
        ("level", np.int64),
        ("first_offset", np.int64),  # of the first batch in it
        ("last_offset", np.int64),  # of the last one
        ("batch_count", np.int64),
        ("bad_crc_count", np.int64),
        ("size_bytes", np.int64),
        ("segment", np.int64),  # base offset of the segment with the first batch
        ("position", np.int64),  # that batch's first byte there
        ("value", np.uint64),
    ]
)
Chunks = npt.NDArray[Any]
"""Rows of CHUNK_DTYPE, by offset."""
NO_CHUNKS: Final[Chunks] = np.zeros(0, dtype=CHUNK_DTYPE)


def chunks_of(
    headers: npt.NDArray[Any],
    positions: npt.NDArray[np.int64],
    crc_ok: npt.NDArray[np.bool_] | None,
    segment: int,
    bodies: Uint64s | None = None,
) -> Chunks:
    """Returns the chunks of batches of one segment, whose offsets must ascend."""
    rows = np.zeros(len(headers), dtype=CHUNK_DTYPE)
    rows["start"] = rows["first_offset"] = headers["base_offset"]
    rows["last_offset"] = headers["base_offset"] + headers["last_offset_delta"]
    rows["batch_count"] = 1
    if crc_ok is not None:
        rows["bad_crc_count"] = ~crc_ok
    rows["size_bytes"] = headers["length"].astype(np.int64) + 12
    rows["segment"] = segment
    rows["position"] = positions
    rows["value"] = batch_hashes(headers, bodies)
    return coalesced(rows)


def coalesced(rows: Chunks) -> Chunks:
    """Returns the chunks of `rows`, which are sorted by offset and complete from the first of their
    offsets to the last."""
    if len(rows) < 2:
        return rows
    starts, levels = _grown(rows)
    first = np.flatnonzero(np.concatenate(([True], starts[1:] != starts[:-1])))
    return merged(rows, first, starts[first], levels[first])


def merged(rows: Chunks, first: npt.NDArray[np.intp], starts: npt.NDArray[np.int64], levels: npt.NDArray[np.int64]) -> Chunks:
    """Returns one row for all rows from each of `first` to the next, in the given intervals."""
    ends = np.append(first[1:], len(rows))
    made = rows[first].copy()
    made["start"], made["level"] = starts, levels
    made["last_offset"] = rows["last_offset"][ends - 1]
    for name in ("batch_count", "bad_crc_count", "size_bytes"):
        made[name] = np.add.reduceat(rows[name], first)
    made["value"] = run_values(sums(rows["value"], rows["batch_count"]), first.astype(np.int64), ends.astype(np.int64))
    return made


def _grown(rows: Chunks) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns (start, level) of the interval that each row ends up in. Level by level, intervals
    with the same parent become one where that is allowed."""
    low, high = int(rows["first_offset"][0]), int(rows["last_offset"][-1]) + 1
    starts, levels = rows["start"].copy(), rows["level"].copy()
    of_row = np.arange(len(rows))  # the item that a row is in
    sizes = rows["size_bytes"].copy()
    is_final = np.zeros(len(rows), dtype=bool)
    for level in range(MAX_LEVEL):
        if is_final.all() or 1 << level + 1 > high - low:
            break
        parents = starts >> level + 1
        first = np.flatnonzero(np.concatenate(([True], parents[1:] != parents[:-1])))
        group = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(starts))))
        inside = (parents[first] << level + 1 >= low) & (parents[first] + 1 << level + 1 <= high)
        total = np.add.reduceat(sizes, first)
        waits = np.maximum.reduceat(levels, first) > level  # an interval that is larger already
        grows = inside & (total <= CHUNK_BYTES) & ~np.logical_or.reduceat(is_final, first) & ~waits
        is_final |= ~(grows | waits)[group]
        if not grows.any():
            continue
        keeps = np.ones(len(starts), dtype=bool)
        keeps[grows[group]] = False
        keeps[first[grows]] = True
        item = np.cumsum(keeps) - 1
        starts = np.where(grows[group], parents << level + 1, starts)[keeps]
        levels = np.where(grows[group], level + 1, levels)[keeps]
        is_final = is_final[keeps]
        sizes = np.add.reduceat(sizes, np.flatnonzero(keeps))
        of_row = item[of_row]
    return starts[of_row], levels[of_row]
