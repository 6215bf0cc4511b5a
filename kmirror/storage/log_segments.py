"""The segments of a log by base offset (Kafka's `LogSegments`)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.log_segment import LogSegment


class LogSegments:
    """Owner of a log's segments: an ordered map from base offset to segment; and of the files of
    deleted ones, until they are removed.

    The last one is active: it is the one that is written to.
    """

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        self._offsets: list[int] = []
        self._segments: dict[int, LogSegment] = {}
        self._deleted: set[LogSegment] = set()

    @property
    def is_empty(self) -> bool:
        return not self._offsets

    @property
    def number_of_segments(self) -> int:
        return len(self._offsets)

    @property
    def base_offsets(self) -> list[int]:
        return list(self._offsets)

    @property
    def values(self) -> list[LogSegment]:
        return [self._segments[offset] for offset in self._offsets]

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def active_segment(self) -> LogSegment:
        """The last one; there must be one."""
        return self._segments[self._offsets[-1]]

    @property
    def first_segment(self) -> LogSegment | None:
        return self._segments[self._offsets[0]] if self._offsets else None

    @property
    def last_segment(self) -> LogSegment | None:
        return self._segments[self._offsets[-1]] if self._offsets else None

    @property
    def first_segment_base_offset(self) -> int | None:
        return self._offsets[0] if self._offsets else None

    @property
    def size_in_bytes(self) -> int:
        return sum(segment.size for segment in self._segments.values())

    def contains(self, base_offset: int) -> bool:
        return base_offset in self._segments

    def get(self, base_offset: int) -> LogSegment | None:
        return self._segments.get(base_offset)

    def add(self, segment: LogSegment) -> LogSegment | None:
        """Adds `segment` in place of one with the same base offset, which is returned."""
        previous = self._segments.get(segment.base_offset)
        if previous is None:
            insort(self._offsets, segment.base_offset)
        self._segments[segment.base_offset] = segment
        return previous

    def remove(self, base_offset: int) -> None:
        if self._segments.pop(base_offset, None) is not None:
            del self._offsets[bisect_left(self._offsets, base_offset)]

    def clear(self) -> None:
        self._offsets.clear()
        self._segments.clear()

    def floor_segment(self, offset: int) -> LogSegment | None:
        """The segment with the largest base offset <= `offset`."""
        return self._at(bisect_right(self._offsets, offset) - 1)

    def lower_segment(self, offset: int) -> LogSegment | None:
        """The segment with the largest base offset < `offset`."""
        return self._at(bisect_left(self._offsets, offset) - 1)

    def higher_segment(self, offset: int) -> LogSegment | None:
        """The segment with the smallest base offset > `offset`."""
        return self._at(bisect_right(self._offsets, offset))

    def values_between(self, start: int, end: int) -> list[LogSegment]:
        """The segments that may hold offsets of [start, end), the one that contains `start`
        first.
        """
        if start == end:
            return []
        if end < start:
            raise ValueError(
                f"Invalid log segment range: requested segments in {self.topic_partition} from offset {start} which is greater than limit offset {end}"
            )
        first = max(bisect_right(self._offsets, start) - 1, 0)
        return [self._segments[offset] for offset in self._offsets[first : bisect_left(self._offsets, end)]]

    def filter(self, predicate: Callable[[LogSegment], bool]) -> list[LogSegment]:
        return [segment for segment in self.values if predicate(segment)]

    def note_deleted(self, segments: Iterable[LogSegment]) -> None:
        """Keeps segments that belong to the log no more, but whose `.deleted` files wait for their
        removal.
        """
        self._deleted.update(segments)

    def forget_deleted(self, segments: Iterable[LogSegment]) -> None:
        """Drops segments whose files were removed."""
        self._deleted.difference_update(segments)

    def close(self) -> None:
        for segment in self.values:
            segment.close()
        for segment in self._deleted:
            segment.close_handlers()

    def close_handlers(self) -> None:
        for segment in (*self.values, *self._deleted):
            segment.close_handlers()

    def close_index_handlers(self) -> None:
        for segment in (*self.values, *self._deleted):
            segment.close_index_handlers()

    def update_parent_dir(self, directory: str) -> None:
        for segment in (*self.values, *self._deleted):
            segment.update_parent_dir(directory)

    def _at(self, slot: int) -> LogSegment | None:
        return self._segments[self._offsets[slot]] if 0 <= slot < len(self._offsets) else None


def size_in_bytes(segments: Iterable[LogSegment]) -> int:
    return sum(segment.size for segment in segments)
