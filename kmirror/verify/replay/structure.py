"""Structure: what the headers of a run of batches say about counts, offsets, sizes, codecs, CRC and
order.

Offsets must ascend from batch to batch. A gap by itself is no error: the cleaner makes gaps, and so
does a truncation inside a batch. Whether a cleaner made one is decided when the log is closed,
where the cleaner's checkpoint is known. Examples are kept from the left, so merging stays
associative: any tree of merges gives the first `MAX_EXAMPLES` of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kmirror.record.record_batch import (
    COMPRESSION_MASK,
    CONTROL_FLAG,
    CURRENT_MAGIC,
    DELETE_HORIZON_FLAG,
    LOG_OVERHEAD,
    TRANSACTIONAL_FLAG,
)
from kmirror.verify.header_scan import HeaderBlock
from kmirror.verify.replay.findings import MAX_EXAMPLES

NO_BATCH = "no batch has these offsets"
GONE = "gone"
"""A kind of problem: the segment was listed, but its file is missing."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd", "5", "6", "7")


class BatchPlace(NamedTuple):
    """A batch that something is said about."""

    position: int
    first_offset: int
    last_offset: int
    kind: str
    """As in a finding."""
    text: str


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure of one run of batches in one segment; `batches == 0` is the identity."""

    size: int = 0
    """The bytes of the batches."""
    batches: int = 0
    records: int = 0
    first_offset: int = -1
    next_offset: int = -1
    max_timestamp: int = -1
    first_position: int = 0
    control_batches: int = 0
    transactional_batches: int = 0
    producer_batches: int = 0
    horizon_batches: int = 0
    short_batches: int = 0
    """Batches with fewer records than offsets: the cleaner removed some."""
    largest_batch: int = 0
    codecs: tuple[int, ...] = (0,) * len(CODECS)
    gaps: int = 0
    missing_offsets: int = 0
    gap_examples: tuple[BatchPlace, ...] = ()
    crc_errors: int = 0
    problems: int = 0
    """Things that no broker writes: wrong CRC, decreasing offsets, impossible counts, bytes that
    are no batch."""
    problem_examples: tuple[BatchPlace, ...] = ()

    @property
    def holes(self) -> bool:
        """Whether offsets or records are missing."""
        return self.gaps > 0 or self.short_batches > 0

    def with_problem(self, problem: BatchPlace) -> Structure:
        """Returns this with a problem that was found after everything else here."""
        return replace(self, problems=self.problems + 1, problem_examples=_first(self.problem_examples, (problem,)))


def of_block(block: HeaderBlock) -> Structure:
    """Returns the structure of a block of batches."""
    headers, positions = block.headers, block.positions
    base = headers["base_offset"]
    delta = headers["last_offset_delta"].astype(np.int64)
    last, counts, attributes = base + delta, headers["record_count"], headers["attributes"]
    sizes = headers["length"].astype(np.int64) + LOG_OVERHEAD
    steps = base[1:] - last[:-1] - 1
    gap_rows = np.flatnonzero(steps > 0) + 1
    problems = _problems(block, delta, steps)
    return Structure(
        size=int(sizes.sum()),
        batches=len(headers),
        records=int(np.maximum(counts, 0).sum(dtype=np.int64)),
        first_offset=int(base[0]),
        next_offset=int(last[-1]) + 1,
        max_timestamp=int(headers["max_timestamp"].max()),
        first_position=int(positions[0]),
        control_batches=int(np.count_nonzero(attributes & CONTROL_FLAG)),
        transactional_batches=int(np.count_nonzero(attributes & TRANSACTIONAL_FLAG)),
        producer_batches=int(np.count_nonzero(headers["producer_id"] >= 0)),
        horizon_batches=int(np.count_nonzero(attributes & DELETE_HORIZON_FLAG)),
        short_batches=int(np.count_nonzero(counts <= delta)),
        largest_batch=int(sizes.max()),
        codecs=tuple(np.bincount(attributes & COMPRESSION_MASK, minlength=len(CODECS)).tolist()),
        gaps=len(gap_rows),
        missing_offsets=int(steps[gap_rows - 1].sum()) if len(gap_rows) else 0,
        gap_examples=tuple(
            BatchPlace(int(positions[row]), int(last[row - 1]) + 1, int(base[row]) - 1, "gap", NO_BATCH)
            for row in gap_rows[:MAX_EXAMPLES].tolist()
        ),
        crc_errors=0 if block.crc_ok is None else int(np.count_nonzero(~block.crc_ok)),
        problems=len(problems),
        problem_examples=tuple(problems[:MAX_EXAMPLES]),
    )


def _problems(block: HeaderBlock, delta: npt.NDArray[Any], steps: npt.NDArray[Any]) -> list[BatchPlace]:
    headers, positions = block.headers, block.positions
    base, counts = headers["base_offset"], headers["record_count"]
    found: list[tuple[int, str, str]] = []
    if block.crc_ok is not None and not block.crc_ok.all():
        found += [
            (row, "crc", f"the stored CRC {int(headers['crc'][row])} does not match the bytes of the batch") for row in _rows(~block.crc_ok)
        ]
    found += [(row + 1, "order", f"offset {int(base[row + 1])} follows {int(base[row] + delta[row])}") for row in _rows(steps < 0)]
    found += [
        (row, "count", f"{int(counts[row])} records on {int(delta[row]) + 1} offsets") for row in _rows((counts < 0) | (counts > delta + 1))
    ]
    found += [(row, "magic", f"magic {int(headers['magic'][row])}") for row in _rows(headers["magic"] != CURRENT_MAGIC)]
    found += [
        (row, "codec", f"codec {int(headers['attributes'][row]) & COMPRESSION_MASK} does not exist")
        for row in _rows((headers["attributes"] & COMPRESSION_MASK) > 4)
    ]
    found.sort()
    return [BatchPlace(int(positions[row]), int(base[row]), int(base[row] + delta[row]), kind, text) for row, kind, text in found]


def _rows(mask: npt.NDArray[Any]) -> list[int]:
    rows: list[int] = np.flatnonzero(mask).tolist()
    return rows


def merge(left: Structure, right: Structure) -> Structure:
    """Returns the structure of both; `right` follows `left` in the same segment."""
    if not left.batches or not right.batches:
        return replace(
            left if left.batches else right,
            problems=left.problems + right.problems,
            problem_examples=_first(left.problem_examples, right.problem_examples),
        )
    step = right.first_offset - left.next_offset
    gap = (BatchPlace(right.first_position, left.next_offset, right.first_offset - 1, "gap", NO_BATCH),) if step > 0 else ()
    back: tuple[BatchPlace, ...] = ()
    if step < 0:
        text = f"offset {right.first_offset} follows {left.next_offset - 1}"
        back = (BatchPlace(right.first_position, right.first_offset, right.first_offset, "order", text),)
    return Structure(
        size=left.size + right.size,
        batches=left.batches + right.batches,
        records=left.records + right.records,
        first_offset=left.first_offset,
        next_offset=right.next_offset,
        max_timestamp=max(left.max_timestamp, right.max_timestamp),
        first_position=left.first_position,
        control_batches=left.control_batches + right.control_batches,
        transactional_batches=left.transactional_batches + right.transactional_batches,
        producer_batches=left.producer_batches + right.producer_batches,
        horizon_batches=left.horizon_batches + right.horizon_batches,
        short_batches=left.short_batches + right.short_batches,
        largest_batch=max(left.largest_batch, right.largest_batch),
        codecs=tuple(map(sum, zip(left.codecs, right.codecs))),
        gaps=left.gaps + len(gap) + right.gaps,
        missing_offsets=left.missing_offsets + max(step, 0) + right.missing_offsets,
        gap_examples=(left.gap_examples + gap + right.gap_examples)[:MAX_EXAMPLES],
        crc_errors=left.crc_errors + right.crc_errors,
        problems=left.problems + len(back) + right.problems,
        problem_examples=_first(left.problem_examples, back, right.problem_examples),
    )


def _first(*parts: tuple[BatchPlace, ...]) -> tuple[BatchPlace, ...]:
    """Returns the first places by position. What a slice without a batch reports may lie before
    what merging its neighbours reports."""
    return tuple(sorted(place for part in parts for place in part))[:MAX_EXAMPLES]
