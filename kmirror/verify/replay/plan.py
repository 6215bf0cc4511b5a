"""What has to be read and closed of a cluster, whichever engine does it.

    tasks     slices of about 64 MB, packed by the common planner (`verify.planner`)
    closings  one per partition: what is needed besides its partials to close it

A partition that lies within one task can be closed there. A partition of several tasks is a tree of
merges. Its parts are numbered in the order of the log, so neighbours are known without looking at
them.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.planner import MAX_OFFSET, TASK_BYTES, Listing, pack_by
from kmirror.verify.replay.claims import DataDirClaims
from kmirror.verify.replay.kept import Identities, KnownSegment
from kmirror.verify.replay.partial import ReplayPartial, merge
from kmirror.verify.replay.slice_replay import replay_slice
from kmirror.verify.slices import LogSlice

Cuts = Mapping[str, Sequence[int]]
"""Ascending offsets, by the partition's folder."""


Piece = LogSlice | KnownSegment


class Part(NamedTuple):
    """The partial of consecutive slices of one partition, and where they begin."""

    folder: str
    base_offset: int
    start: int
    partial: ReplayPartial


@dataclass(frozen=True)
class ReplayPlan:
    """The plan for one cluster."""

    location: str
    """The input as it was given: a path or a URI."""
    partitions: list[PartitionFiles]
    """The partitions to close, in the order of the tables."""
    data_dirs: Mapping[str, DataDirClaims]
    """By path."""
    tasks: list[list[Piece]]
    identities: Mapping[str, Identities] = field(default_factory=dict)
    """By folder: the identities of the segments whose partials are kept for the next run."""

    @cached_property
    def cuts(self) -> dict[str, tuple[int, ...]]:
        return cuts_of(self.partitions)

    @cached_property
    def part_counts(self) -> Counter[str]:
        """How many tasks have slices of each partition, by folder."""
        return Counter(folder for task in self.tasks for folder in folders_of(task))

    @property
    def size_bytes(self) -> int:
        """How many bytes have to be read."""
        return sum(piece.size for task in self.tasks for piece in task)

    def claims_of(self, partition: PartitionFiles) -> DataDirClaims:
        """Returns what the partition's data dir claims about it."""
        return self.data_dirs.get(posixpath.dirname(partition.path), DataDirClaims()).of(partition.topic_partition)


def plan_tasks(
    files: FileSystem,
    listing: Listing,
    *,
    wants: Callable[[TopicPartition], bool] = lambda _: True,
    known: Mapping[str, Sequence[KnownSegment]] = MappingProxyType({}),
    task_bytes: int = TASK_BYTES,
) -> list[list[Piece]]:
    """Returns the slices of the partitions that `wants` accepts, packed into tasks. What is `known`
    of a segment, by folder, takes the place of its slices."""

    def wanted() -> Iterator[Piece]:
        for partition in listing.partitions:
            if wants(partition.topic_partition):
                yield from _pieces(files, listing, partition, known.get(partition.path, ()), task_bytes)

    return pack_by(wanted(), lambda piece: piece.size, task_bytes=task_bytes)


def _pieces(
    files: FileSystem, listing: Listing, partition: PartitionFiles, known: Sequence[KnownSegment], task_bytes: int
) -> Iterable[Piece]:
    if not known:
        return _slices(files, listing, partition, task_bytes)
    bases = {one.base_offset for one in known}
    unknown = replace(partition, segments=[segment for segment in partition.segments if segment.base_offset not in bases])
    last = partition.segments[-1].base_offset
    slices = (piece._replace(is_last_segment=piece.base_offset == last) for piece in _slices(files, listing, unknown, task_bytes))
    return sorted([*known, *slices], key=lambda piece: (piece.base_offset, piece.start))


def _slices(files: FileSystem, listing: Listing, partition: PartitionFiles, task_bytes: int) -> list[LogSlice]:
    """Returns the slices of a partition; whole segments if one was deleted before it could be
    cut, which is noticed where it is read."""
    try:
        return list(listing.slices(files, partition, task_bytes=task_bytes))
    except FileNotFoundError:
        return list(listing.slices(files, partition, task_bytes=MAX_OFFSET))


def cuts_of(partitions: Iterable[PartitionFiles]) -> dict[str, tuple[int, ...]]:
    """Returns where the producers of each partition are kept apart: at its snapshots, and where its
    segments begin."""
    return {
        partition.path: tuple(sorted({*partition.snapshots, *(segment.base_offset for segment in partition.segments)}))
        for partition in partitions
    }


def folders_of(pieces: Iterable[Piece]) -> list[str]:
    """Returns the partitions' folders, each once, in the order of the slices."""
    return list(dict.fromkeys(posixpath.dirname(piece.path) for piece in pieces))


def run_task(
    files: FileSystem,
    pieces: Iterable[Piece],
    cuts: Cuts,
    *,
    check_crc: bool = True,
    unpack: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Part]:
    """Returns the parts that a task's slices give. Neighbouring slices of one partition must be
    consecutive in the log."""
    parts: list[Part] = []
    for piece in pieces:
        folder = posixpath.dirname(piece.path)
        if isinstance(piece, KnownSegment):
            partial = piece.partial()
        else:
            partial = replay_slice(files, piece, cuts=cuts[folder], check_crc=check_crc, unpack=unpack)
        if parts and parts[-1].folder == folder:
            parts[-1] = parts[-1]._replace(partial=merge(parts[-1].partial, partial))
        else:
            parts.append(Part(folder, piece.base_offset, piece.start, partial))
        if progress is not None:
            progress(piece.size)
    return parts


def merge_parts(parts: Iterable[Part]) -> ReplayPartial:
    """Returns the partial of a whole partition from its parts, given in any order."""
    return merge_all([part.partial for part in sorted(parts, key=lambda part: (part.base_offset, part.start))])


def merge_all(partials: Sequence[ReplayPartial]) -> ReplayPartial:
    """Returns the partial of consecutive partials, by a tree of merges."""
    left = list(partials) or [ReplayPartial()]
    while len(left) > 1:
        left = [merge(*left[at : at + 2]) if at + 1 < len(left) else left[at] for at in range(0, len(left), 2)]
    return left[0]
