"""One partition of a mirror fetcher: what is known of the source's side of it, and where its fetching stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.log_questions import Inquiry, Question
from kmirror.mirror.source_end_point import LeaderHint
from kmirror.mirror.source_fetch_session import FetchPosition
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason

if TYPE_CHECKING:
    from kmirror.mirror.mirror_partition import MirrorPartition


class FetchedMirrorPartition:
    """One partition of a fetcher."""

    __slots__ = (
        "corrupt_answers",
        "delayed_until_ms",
        "driver",
        "inquiry",
        "last_epoch",
        "question",
        "source_epoch",
        "source_is_mirror",
        "source_start_offset",
        "topic_id",
        "topic_partition",
        "verdicts",
        "was_redirected",
    )

    def __init__(
        self, driver: MirrorPartition, *, topic_id: Uuid, source_epoch: int, source_is_mirror: bool, was_redirected: bool = False
    ) -> None:
        self.driver = driver
        self.topic_partition: TopicPartition = driver.id.topic_partition
        self.topic_id = topic_id
        self.source_epoch = source_epoch
        self.source_is_mirror = source_is_mirror
        self.was_redirected = was_redirected
        """Whether it came here in the source epoch that it has, because another broker said so."""
        self.inquiry: Inquiry | None = None
        self.question: Question | None = None
        self.delayed_until_ms = 0
        self.corrupt_answers = 0
        self.verdicts = 0
        """Inquiries that ended since the source last answered a fetch as it was asked."""
        self.last_epoch = -1
        self.source_start_offset = -1

    def position(self) -> FetchPosition:
        """The log's end; `last_epoch` is that of the last batch (C36b)."""
        return FetchPosition(self.topic_id, self.driver.log.log_end_offset, self.source_epoch, self.last_epoch)

    def follow_log_start(self) -> bool:
        """Our log start goes to the source's, as far as our high watermark allows. False: the rest later, for the source says it once."""
        log = self.driver.log
        new_start = min(self.source_start_offset, log.high_watermark)
        if new_start > log.log_start_offset:
            log.maybe_increment_log_start_offset(new_start, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)
        return log.log_start_offset >= self.source_start_offset


class FetcherOwner(Protocol):
    """What a fetcher asks its manager."""

    def redirect(self, partition: FetchedMirrorPartition, leader: LeaderHint) -> bool:
        """Have the fetcher of another broker go on with the partition; False when that broker is not known."""
        ...
