"""A partition's partial beside its claims: what all closings ask of both."""

from __future__ import annotations

from collections.abc import Collection

from kmirror.storage.index_reader import OFFSET_INDEX_DTYPE, TIME_INDEX_DTYPE
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX
from kmirror.storage.reader import SegmentFiles
from kmirror.verify.replay.claims import PartitionClaims
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.indexes import IndexCheck
from kmirror.verify.replay.partial import ReplayPartial, SegmentPart
from kmirror.verify.replay.structure import GONE, Structure

COMPACTED_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


def is_gone(segment: SegmentPart) -> bool:
    return any(place.kind == GONE for place in segment.structure.problem_examples)


class LogView:
    """The whole log: `partial` must be of all its segments."""

    def __init__(self, partial: ReplayPartial, claims: PartitionClaims, *, compacted_topics: Collection[str] | None = None) -> None:
        """`compacted_topics`: all topics with cleanup.policy=compact, None where nobody knows them."""
        self.partial = partial
        self.claims = claims
        self.path = claims.path
        self.topic, self.partition = claims.topic_partition
        self.at_rest = claims.data_dir.at_rest
        self.segments = self._all_segments(partial.segments)
        self.first_base_offset = self.segments[0].base_offset if self.segments else 0
        self.log_end_offset = self._log_end()
        checkpoint = claims.checkpoint("log_start")
        self.log_start_offset = max(self.first_base_offset, checkpoint or 0)
        self.may_be_compacted = compacted_topics is None or self.topic in compacted_topics
        """Whether a cleaner may have made the gaps. Its checkpoint does not tell: a replica that fetched a cleaned log has gaps and no checkpoint."""
        self.findings: list[Finding] = []

    def _all_segments(self, read: tuple[SegmentPart, ...]) -> list[SegmentPart]:
        """Those that were read, and the empty ones, which nobody reads. What a running broker deleted in front of them since is left out."""
        parts = {part.base_offset: part for part in read}
        listed = [parts.get(segment.base_offset) or self._empty(segment) for segment in self.claims.segments]
        first = 0
        while not self.at_rest and first < len(listed) - 1 and is_gone(listed[first]):
            first += 1
        self.has_lost_its_beginning = first > 0
        return listed[first:]

    def _empty(self, segment: SegmentFiles) -> SegmentPart:
        """Its indexes have no batch to name: at rest, when an index has no room in reserve, whatever is in them is wrong."""
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
        """Whether the data dir says where logs begin: the checkpoint has only those that begin above their first segment."""
        return "log_start" in self.claims.data_dir.offsets

    def segment_at(self, offset: int) -> SegmentPart | None:
        """The segment that holds `offset`, or would."""
        found = None
        for segment in self.segments:
            if segment.base_offset > offset:
                break
            found = segment
        return found

    def _between(self, start: int, end: int) -> list[SegmentPart]:
        """The segments that hold offsets in [start, end)."""
        bases = [segment.base_offset for segment in self.segments[1:]]
        return [
            segment
            for segment, following in zip(self.segments, [*bases, None])
            if segment.base_offset < end and (following is None or following > start)
        ]

    def is_damaged(self, start: int, end: int) -> bool:
        """Whether something in [start, end) could not be read as it was written."""
        return self.has_lost_its_beginning or any(segment.structure.problems for segment in self._between(start, end))

    def has_holes(self, start: int, end: int) -> bool:
        """Whether offsets or records are missing in the segments of [start, end): batches may have been there that nothing tells of."""
        expected: int | None = None
        for segment in self._between(start, end):
            structure = segment.structure
            if structure.holes or (expected is not None and expected != segment.base_offset):
                return True
            if structure.batches and structure.first_offset != segment.base_offset:
                return True
            expected = structure.next_offset if structure.batches else segment.base_offset
        return expected is not None and expected < end

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
        """Add a finding."""
        self.findings.append(
            Finding(self.path, self.topic, self.partition, table, kind, file, segment, position, first_offset, last_offset, text)
        )
