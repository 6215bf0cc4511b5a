"""What a run keeps for the next one: the partial of every sound segment, so that tomorrow's
segments are merged into today's result.

A segment is not read again if its *identity* is unchanged. The identity has:

* the sizes of its .log, .index and .timeindex, the modification time of the .log and which file that
  is (`file_identity`), whether CRCs and records were checked, and whether it was the last segment, where an incomplete batch is no damage;
* the snapshots that lie within it, because producers are kept apart there;
* how far the log's cleaner had come. A cleaner's pass keeps a segment's modification time, and one
  that only set a delete horizon also keeps its size; but each pass moves
  `cleaner-offset-checkpoint`. (For a partition's folder by itself, that file is not known.)

A whole partition's partial can be split into those of its segments, because the producers have a
cut where a segment begins. The partial of a damaged log is not kept. The counts of a log's keys are
kept for the whole log, with the scope that they were counted for. Files beside segments are
compared with the result every time.

What a disk loses does not change a file's time; a full run finds that.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

import msgspec

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, LOG_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.file_identity import file_identity
from kmirror.verify.replay.claims import DataDirClaims
from kmirror.verify.replay.compaction import KeyCounts, KeyScope
from kmirror.verify.replay.leader_epochs import EpochRun
from kmirror.verify.replay.partial import ReplayPartial, Section
from kmirror.verify.replay.tables import KeptRow

T = TypeVar("T")
VERSION: Final = 2
"""The version of kept partials and counts; what another version kept is ignored."""
Identities = Mapping[int, str]
"""The identities of a partition's segments, by base offset."""
Known = Mapping[tuple[str, int | None], tuple[str, str]]
"""What an earlier run kept: by folder and base offset (None: the keys of the log), the identity and
the text."""


class KnownSegment(NamedTuple):
    """A segment whose partial an earlier run kept; it takes the place of the segment's slices."""

    path: str
    base_offset: int
    kept: str
    start: int = 0
    size: int = 0
    """0, because nothing of it is read."""

    def partial(self) -> ReplayPartial:
        return _decoded(self.kept, ReplayPartial)


def identities_of(files: FileSystem, partition: PartitionFiles, data_dir: DataDirClaims, *depth: bool) -> dict[int, str]:
    """Returns the identities. Called before a segment is read, so the next run notices changes made
    in between. `depth` is what is looked at: CRCs, records."""
    cleaned = data_dir.offsets.get("cleaner", {}).get(partition.topic_partition)
    found = {}
    for number, segment in enumerate(partition.segments):
        is_last = number == len(partition.segments) - 1
        end = None if is_last else partition.segments[number + 1].base_offset
        inside = [offset for offset in partition.snapshots if segment.base_offset < offset and (end is None or offset < end)]
        sizes = [segment.sizes.get(suffix) for suffix in (LOG_FILE_SUFFIX, INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX)]
        try:
            modified = (files.mtime_ms(segment.path()), file_identity(files, segment.path()))
        except FileNotFoundError:
            continue  # a running broker deleted it
        found[segment.base_offset] = _text([VERSION, *sizes, modified, depth, is_last, inside, cleaned])
    return found


def known_segments(partition: PartitionFiles, identities: Identities, known: Known) -> list[KnownSegment]:
    """Returns the segments that have not changed."""
    found = []
    for segment in partition.segments:
        identity, kept = known.get((partition.path, segment.base_offset), ("", ""))
        if identity and identities.get(segment.base_offset) == identity:
            found.append(KnownSegment(segment.path(), segment.base_offset, kept))
    return found


def kept_rows(partition: PartitionFiles, partial: ReplayPartial, identities: Identities) -> Iterator[KeptRow]:
    """Yields the rows of a partition with this partial; none if something is wrong with its
    segments."""
    parts = _taken_apart(partial)
    for base_offset, one in parts.items():
        if base_offset in identities:
            yield KeptRow(partition.path, *partition.topic_partition, base_offset, identities[base_offset], _text(one))


def _taken_apart(partial: ReplayPartial) -> dict[int, ReplayPartial]:
    """Returns the partial of each segment; merged again they give the whole."""
    segments = partial.segments
    ends = [segment.structure.next_offset for segment in segments if segment.structure.batches]
    firsts = [segment.structure.first_offset for segment in segments if segment.structure.batches]
    bases = [segment.base_offset for segment in segments]
    is_sound = not any(segment.structure.problems for segment in segments) and all(end <= first for end, first in zip(ends, firsts[1:]))
    if not is_sound or any(segment.structure.batches and segment.structure.first_offset < segment.base_offset for segment in segments):
        return {}
    found = {}
    sections: dict[int, list[int]] = {}
    for number, section in enumerate(partial.sections):
        sections.setdefault(bisect_right(bases, section.first_offset) - 1, []).append(number)
    run = 0
    for number, segment in enumerate(segments):
        epochs = []
        first, end = segment.structure.first_offset, segment.structure.next_offset
        while segment.structure.batches and run < len(partial.epochs) and partial.epochs[run].first_offset < end:
            each = partial.epochs[run]
            epochs.append(EpochRun(each.epoch, max(each.first_offset, first), min(each.next_offset, end)))
            if each.next_offset > end:
                break
            run += 1
        own = tuple(_in_order(partial.sections[index]) for index in sections.get(number, []))
        found[segment.base_offset] = ReplayPartial((segment,), tuple(epochs), own)
    return found


def _in_order(section: Section) -> Section:
    """Returns the section with its producers sorted by id, since their order depends on the tree of
    merges."""
    producers = section.producers
    states, fronts = dict(sorted(producers.states.items())), dict(sorted(producers.fronts.items()))
    return replace(section, producers=replace(producers, states=states, fronts=fronts))


# keys
def keys_identity(identities: Iterable[tuple[int, str]], scope: KeyScope) -> str:
    """Returns the identity of the counts of a whole log's keys."""
    return hashlib.sha256(msgspec.json.encode((VERSION, sorted(identities), scope))).hexdigest()


def known_counts(folder: str, identity: str, known: Known) -> KeyCounts | None:
    before, kept = known.get((folder, None), ("", ""))
    return _decoded(kept, KeyCounts) if before == identity else None


def kept_counts(partition: PartitionFiles, identity: str, counts: KeyCounts) -> KeptRow:
    return KeptRow(partition.path, *partition.topic_partition, None, identity, _text(counts))


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(kept: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(kept, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise KmirrorError(f"the results of the previous run cannot be read ({error}); use --full to read all segments again") from error
