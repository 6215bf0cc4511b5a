"""The partial of a run of batches of one partition, and how two of them merge: each part by its own
rule.

Structure and indexes belong to a segment, so a partial has one of each for every segment that it
touches. Producers are kept apart at every offset that a `.snapshot` is named after, so that each
snapshot can be compared with the state before it. They are also kept apart where a segment begins,
so that a segment's own partial can be taken out again. Both are `cuts`. Leader epochs know no
segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kmirror.verify.replay import indexes, leader_epochs, producer_states, structure
from kmirror.verify.replay.indexes import IndexCheck
from kmirror.verify.replay.leader_epochs import Runs
from kmirror.verify.replay.producer_states import ProducersPartial
from kmirror.verify.replay.structure import Structure


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """What was read of one segment."""

    base_offset: int
    path: str
    segment_size: int
    """The size when it was listed."""
    structure: Structure
    offset_index: IndexCheck
    time_index: IndexCheck


@dataclass(frozen=True, slots=True)
class Section:
    """The producers between two cuts."""

    cut: int
    """The greatest cut that is not above the section's first batch; -1 before all cuts."""
    first_offset: int
    next_offset: int
    producers: ProducersPartial


@dataclass(frozen=True, slots=True)
class ReplayPartial:
    """The partial of a run of batches of one partition; the default is the identity."""

    segments: tuple[SegmentPart, ...] = ()
    epochs: Runs = ()
    sections: tuple[Section, ...] = ()


def merge(left: ReplayPartial, right: ReplayPartial) -> ReplayPartial:
    """Returns the partial of both; `right` follows `left` in the log."""
    return ReplayPartial(
        segments=_merge_segments(left.segments, right.segments),
        epochs=leader_epochs.merge(left.epochs, right.epochs),
        sections=merge_sections(left.sections, right.sections),
    )


def _merge_segments(left: tuple[SegmentPart, ...], right: tuple[SegmentPart, ...]) -> tuple[SegmentPart, ...]:
    if not left or not right or left[-1].base_offset != right[0].base_offset:
        return left + right
    one, other = left[-1], right[0]
    joined = replace(
        one,
        segment_size=max(one.segment_size, other.segment_size),
        structure=structure.merge(one.structure, other.structure),
        offset_index=indexes.merge(one.offset_index, other.offset_index),
        time_index=indexes.merge(one.time_index, other.time_index),
    )
    return (*left[:-1], joined, *right[1:])


def merge_sections(left: tuple[Section, ...], right: tuple[Section, ...]) -> tuple[Section, ...]:
    """Concatenates sections; two that no cut separates become one."""
    if not left or not right or left[-1].cut != right[0].cut:
        return left + right
    one, other = left[-1], right[0]
    joined = Section(one.cut, one.first_offset, other.next_offset, producer_states.merge(one.producers, other.producers))
    return (*left[:-1], joined, *right[1:])
