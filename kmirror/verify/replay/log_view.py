"""A partition's partial and its claims together, with the questions that all closings ask about
both."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection

from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.storage.index_reader import OFFSET_INDEX_DTYPE, TIME_INDEX_DTYPE
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX
from kmirror.storage.reader import SegmentFiles
from kmirror.verify.replay.claims import PartitionClaims
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.indexes import IndexCheck
from kmirror.verify.replay.partial import ReplayPartial, SegmentPart
from kmirror.verify.replay.structure import GONE, Structure

NEVER_DELETING_TOPICS = ("__consumer_offsets", "__transaction_state")
"""The brokers' own topics with cleanup.policy=compact."""
COMPACTED_TOPICS = (*NEVER_DELETING_TOPICS, "__share_group_state")
"""Those, and one more that may have gaps."""


def is_gone(segment: SegmentPart) -> bool:
    return any(place.kind == GONE for place in segment.structure.problem_examples)


def _end_of(segment: SegmentPart) -> int:
    return segment.structure.next_offset if segment.structure.batches else segment.base_offset


class LogView:
    """The whole log: `partial` must cover all its segments."""

    def __init__(self, partial: ReplayPartial, claims: PartitionClaims, *, compacted_topics: Collection[str] | None = None) -> None:
        """`compacted_topics` has all topics with cleanup.policy=compact, None if they are not
        known."""
        self.partial = partial
        self.claims = claims
        self.path = claims.path
        self.topic, self.partition = claims.topic_partition
        self.at_rest = claims.data_dir.at_rest
        self.segments = self._all_segments(partial.segments)
        self._sum_up()
        self.first_base_offset = self.segments[0].base_offset if self.segments else 0
        self.log_end_offset = self._log_end()
        checkpoint = claims.checkpoint("log_start")
        self.log_start_offset = max(self.first_base_offset, checkpoint or 0)
        self.may_be_compacted = compacted_topics is None or self.topic in compacted_topics
        """Whether a cleaner may have made the gaps. Its checkpoint does not tell: a replica that
        fetched a cleaned log has gaps and no checkpoint."""
        self.findings: list[Finding] = []

    def _all_segments(self, read: tuple[SegmentPart, ...]) -> list[SegmentPart]:
        """Returns the segments that were read and the empty ones, which are not read, without those
        at the front that a running broker has deleted since."""
        parts = {part.base_offset: part for part in read}
        listed = [parts.get(segment.base_offset) or self._empty(segment) for segment in self.claims.segments]
        first = 0
        while not self.at_rest and first < len(listed) - 1 and is_gone(listed[first]):
            first += 1
        self.has_lost_its_beginning = first > 0
        return listed[first:]

    def _empty(self, segment: SegmentFiles) -> SegmentPart:
        """Returns the part of an empty segment. Its indexes have no batch to name, so any entry is
        wrong at rest, when an index has no room in reserve."""
        slots = {INDEX_FILE_SUFFIX: OFFSET_INDEX_DTYPE.itemsize, TIME_INDEX_FILE_SUFFIX: TIME_INDEX_DTYPE.itemsize}
        entries = [segment.sizes.get(suffix, 0) // size if self.at_rest else 0 for suffix, size in slots.items()]
        return SegmentPart(
            segment.base_offset, segment.path(), segment.log_size, Structure(), IndexCheck(entries[0]), IndexCheck(entries[1])
        )

    def _log_end(self) -> int:
        for segment in reversed(self.segments):
            if segment.structure.batches:
                return max(segment.structure.next_offset, self.segments[-1].base_offset)
        return self.segments[-1].base_offset if self.segments else 0

    @property
    def log_start_is_known(self) -> bool:
        """Whether the data dir says where the log begins. The checkpoint has the logs that begin
        above the start of their first segment. It does not have the metadata log, which begins at
        its oldest snapshot."""
        return "log_start" in self.claims.data_dir.offsets and self.topic != CLUSTER_METADATA_TOPIC_NAME

    def segment_at(self, offset: int) -> SegmentPart | None:
        """Returns the segment that holds `offset`, or would hold it."""
        found = None
        for segment in self.segments:
            if segment.base_offset > offset:
                break
            found = segment
        return found

    def _span(self, start: int, end: int) -> tuple[int, int]:
        """Returns the segments that hold offsets in [start, end), as bounds of a slice of
        `segments`."""
        return max(bisect_right(self._bases, start) - 1, 0), bisect_left(self._bases, end)

    def is_damaged(self, start: int, end: int) -> bool:
        """Whether something in [start, end) could not be read as it was written."""
        first, behind = self._span(start, end)
        return self.has_lost_its_beginning or self._problems[behind] > self._problems[first]

    def has_holes(self, start: int, end: int) -> bool:
        """Whether offsets or records are missing in the segments of [start, end). Batches of which
        nothing is left may have been there."""
        first, behind = self._span(start, end)
        if first >= behind:
            return False
        return (
            self._holes[behind] > self._holes[first]
            or self._breaks[behind] > self._breaks[first + 1]
            or _end_of(self.segments[behind - 1]) < end
        )

    def _sum_up(self) -> None:
        """Counts the problems, holes and breaks (to the segment before) ahead of each segment."""
        self._bases = [segment.base_offset for segment in self.segments]
        self._problems, self._holes, self._breaks = [0], [0], [0]
        for number, segment in enumerate(self.segments):
            structure = segment.structure
            has_hole = structure.holes or (structure.batches > 0 and structure.first_offset != segment.base_offset)
            is_break = number > 0 and _end_of(self.segments[number - 1]) != segment.base_offset
            self._problems.append(self._problems[-1] + structure.problems)
            self._holes.append(self._holes[-1] + has_hole)
            self._breaks.append(self._breaks[-1] + is_break)

    def found(
        self,
        table: str,
        kind: str,
        file: str,
        text: str,
        *,
        segment: int | None = None,
        position: int | None = None,
        first_offset: int | None = None,
        last_offset: int | None = None,
    ) -> None:
        """Adds a finding."""
        self.findings.append(
            Finding(self.path, self.topic, self.partition, table, kind, file, segment, position, first_offset, last_offset, text)
        )
