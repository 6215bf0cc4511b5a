"""What a source task has given to its producer, in runs: batches of one partition that were read
together and leave one after the other.

A run costs once what each batch cost before: metrics, a wait for memory, a wake-up of the sender, and
the note of what the target has. For offset syncs, batches of a run that were written without a gap
count as one (`neighbours`); the syncs stay those of their records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.submitted_records import Submitted


class SentBatch(NamedTuple):
    """A batch on its way: `upstream` are its records' offsets at the source."""

    upstream: Sequence[int]
    newest_ms: int
    size: int
    submitted: Submitted | None


class SentRun:
    """Batches of one partition that were given to the producer together."""

    __slots__ = ("batches", "partition", "remote", "size")

    def __init__(self, partition: TopicPartition, remote: TopicPartition, batches: list[SentBatch]) -> None:
        self.partition = partition
        self.remote = remote
        self.batches = batches
        self.size = sum([batch.size for batch in batches])


Written = tuple[SentBatch, int]
"""A batch that the target has, and the offset of its first record there; -1 if the target did not say."""


def neighbours(written: list[Written]) -> Iterator[tuple[Sequence[int], int]]:
    """Joins batches whose records follow each other without a gap at both ends: offsets at the
    source, and the first one at the target.
    """
    (first, _, _, _), offset = written[0]
    for (upstream, _, _, _), next_offset in written[1:]:
        if (
            isinstance(first, range)
            and isinstance(upstream, range)
            and upstream.start == first.stop
            and offset >= 0
            and next_offset == offset + len(first)
        ):
            first = range(first.start, upstream.stop)
            continue
        yield first, offset
        first, offset = upstream, next_offset
    yield first, offset
