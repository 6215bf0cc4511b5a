"""One partition of a mirror fetcher: what is known about its source side, and how far its fetching
has come.

A fetcher copies into a `FetchTarget`: the local replica that it appends to, and the listener that
it reports to. The fetcher decides nothing about the partition's state. It tells its target that the
source is unusable, that a disk failed, or that it gives the partition back (after a cut, for
instance), and from then on it does not touch the partition.
"""

from __future__ import annotations

from typing import Protocol

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.fetch.source_progress import SourceProgress
from kmirror.mirror.logs.log_questions import Inquiry, Question
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_end_point import LeaderHint
from kmirror.mirror.source.source_fetch_session import FetchPosition
from kmirror.replica.partition import Partition
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog


class FetchTarget(Protocol):
    """What a fetcher needs of the partition that it copies into. `MirrorPartition` is one."""

    @property
    def id(self) -> MirrorPartitionId: ...
    @property
    def partition(self) -> Partition:
        """The local replica, whose leader we are: the fetcher appends to it and cuts it."""
        ...

    @property
    def progress(self) -> SourceProgress:
        """What the source has said; only the fetcher that has the partition writes it."""
        ...

    @property
    def mirror(self) -> Mirror: ...
    @property
    def max_truncation_records(self) -> int:
        """The mirror.max.truncation.records that applies to the partition now."""
        ...

    def cleaned_until(self) -> int:
        """The offset up to which our own cleaner has been through the log."""
        ...

    def on_progress(self) -> None:
        """The source answered a fetch, and its records were appended."""
        ...

    def on_delay(self, reason: str) -> None:
        """The fetcher keeps the partition, and asks again after mirror.fetch.backoff.ms."""
        ...

    def note_cut(self) -> None:
        """The leader's log was cut: the leader epoch must be bumped before anything is appended (D5
        step 4).
        """
        ...

    def on_fetcher_gone(self, reason: str | None) -> None:
        """The fetcher gave the partition back: after a cut, or because its source broker failed
        (D3-13). If there is no reason, fetching may begin again at once.
        """
        ...

    def on_rejected(self, reason: str) -> None:
        """The source's data or answer is unusable for good (D3-16)."""
        ...

    def on_storage_error(self, reason: str) -> None:
        """A disk failed under the partition's log (D3-37)."""
        ...


class FetchedMirrorPartition:
    """One partition of a fetcher: owns its inquiry, its delay, and the source's epoch and topic id
    that it was added with.
    """

    __slots__ = (
        "corrupt_answers",
        "delayed_until_ms",
        "inquiry",
        "last_epoch",
        "partition",
        "progress",
        "question",
        "source_epoch",
        "source_is_mirror",
        "source_start_offset",
        "target",
        "topic_id",
        "topic_partition",
        "verdicts",
        "was_redirected",
    )

    def __init__(
        self, target: FetchTarget, *, topic_id: Uuid, source_epoch: int, source_is_mirror: bool, was_redirected: bool = False
    ) -> None:
        self.target = target
        self.partition = target.partition
        self.progress = target.progress
        self.topic_partition: TopicPartition = target.id.topic_partition
        self.topic_id = topic_id
        self.source_epoch = source_epoch
        self.source_is_mirror = source_is_mirror
        self.was_redirected = was_redirected
        """Whether another source broker's answer sent it to this fetcher in its source epoch."""
        self.inquiry: Inquiry | None = None
        self.question: Question | None = None
        self.delayed_until_ms = 0
        self.corrupt_answers = 0
        self.verdicts = 0
        """The number of inquiries that ended since the source last answered a fetch normally."""
        self.last_epoch = -1
        self.source_start_offset = -1

    @property
    def log(self) -> UnifiedLog:
        return self.partition.leader_log

    def position(self) -> FetchPosition:
        """The position at the log's end; its last epoch is that of the last batch (C36b)."""
        return FetchPosition(self.topic_id, self.log.log_end_offset, self.source_epoch, self.last_epoch)

    def follow_log_start(self) -> bool:
        """Moves our log start to the source's, as far as our high watermark allows. Returns False
        if some of that remains to be done later: the source reports its log start only once.
        """
        log = self.log
        new_start = min(self.source_start_offset, log.high_watermark)
        if new_start > log.log_start_offset:
            log.maybe_increment_log_start_offset(new_start, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
        return log.log_start_offset >= self.source_start_offset


class FetcherOwner(Protocol):
    """What a fetcher asks of its manager."""

    def redirect(self, partition: FetchedMirrorPartition, leader: LeaderHint) -> bool:
        """Moves the partition to the fetcher of another source broker; False if that broker's
        address is not known.
        """
        ...
