"""Holes in logs of compacted topics that no cleaner can have made.

`close_structure` finds every hole of a topic that was never compacted. Those of a compacted topic
are a cleaner's work, except where none can have been (`verify.cleaner_facts`): in the newest
segment, and from the first segment on that is too young for a pass. Such a hole is a finding if the
partition only ever had this log. A copy of another log has that one's holes; then it is not
decided, and that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from kmirror.verify.cleaner_facts import Barrier, CleanerFacts
from kmirror.verify.replay.cleaner_history import TopicCleaner
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.tables import LogRow, ReplayTables, SegmentRow


class Hole(NamedTuple):
    """What a segment lacks, or what lies between it and the next one."""

    segment: SegmentRow
    first_offset: int | None
    last_offset: int | None
    text: str
    barrier: Barrier


def uncleaned(
    closed: Iterable[ReplayTables], cleaners: Mapping[str, TopicCleaner], seen_ms: Callable[[str], int]
) -> Iterator[Finding | str]:
    """Yields findings, and what is not decided in words. `seen_ms` returns when a log, by its
    folder, was last seen."""
    for tables in closed:
        for log in tables.logs:
            cleaner = cleaners.get(log.topic)
            if cleaner is not None and cleaner.spans:
                facts = cleaner.facts(log.partition, seen_ms(log.log) if cleaner.needs_time else 0)
                yield from _of_log(log, [row for row in tables.structure if row.log == log.log], facts)


def _of_log(log: LogRow, segments: Sequence[SegmentRow], facts: CleanerFacts) -> Iterator[Finding | str]:
    segments = sorted(segments, key=lambda row: row.base_offset)
    if any(row.problems for row in segments):
        return  # damage explains holes, and is told
    for hole in _holes(segments, facts):
        text = f"{hole.text}, and {hole.barrier.text}"
        segment, first, last = hole.segment, hole.first_offset, hole.last_offset
        if hole.barrier.is_sure:
            yield Finding(
                log.log, log.topic, log.partition, "structure", "gap", segment.path, segment.base_offset, None, first, last, text
            )  # fmt: skip
        else:
            yield f"whether a cleaner made the holes in {segment.path} ({text})"


def _holes(segments: Sequence[SegmentRow], facts: CleanerFacts) -> Iterator[Hole]:
    """Yields the holes behind a barrier. The part of a log that a pass can clean ends before its
    first segment that is too young, so what follows that one is too young, too."""
    newest_ms = -1
    for row, following in pairwise([*segments, None]):
        assert row is not None, "only the last one has no next"
        newest_ms = max(newest_ms, row.max_timestamp if row.max_timestamp is not None else -1)
        active_offset = row.base_offset if following is None else row.base_offset + 1
        barrier = facts.barrier(row.base_offset, newest_ms, active_offset)
        if barrier is not None and (row.gaps or row.short_batches):
            yield Hole(row, None, None, _inside(row), barrier)
        if following is not None and (between := _between(row, following)) is not None:
            barrier = facts.barrier(row.base_offset, newest_ms, row.base_offset + 1)
            if barrier is not None:
                yield Hole(following, *between, f"offsets {between[0]} to {between[1]} are in no batch", barrier)


def _inside(row: SegmentRow) -> str:
    counted = [f"{row.missing_offsets} offsets are in no batch"] if row.missing_offsets else []
    counted += [f"{row.short_batches} batches have fewer records than offsets"] if row.short_batches else []
    return " and ".join(counted)


def _between(row: SegmentRow, following: SegmentRow) -> tuple[int, int] | None:
    end = row.base_offset if row.last_offset is None else row.last_offset + 1
    first = following.base_offset if following.first_offset is None else following.first_offset
    return (end, first - 1) if first > end else None
