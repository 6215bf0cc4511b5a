"""The partitions of a mirror fetcher, and what is next for each of them.

Each partition is in one of three places:

    inquiring   its log is compared with the source's before anything is fetched (C36b), or because an answer said that they differ;
                the questions of all such partitions go together (`log_verifier`)
    due         it is part of the next fetch
    delayed     it waits for mirror.fetch.backoff.ms after an error; every error costs that much, so nothing is asked in a busy loop

`touched` holds the partitions whose place or position changed since the last fetch. The next fetch
must report them in its session, and an answer that was under way meanwhile does not apply to them.

An answer in a session also says something about the partitions it leaves out: nothing changed
there. So for all partitions that were part of the last fetch, the source's end is known as of that
answer (`known_as_of_ms`).
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition
from kmirror.mirror.logs.log_questions import Inquiry
from kmirror.mirror.source.source_fetch_session import FetchPosition
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager


class FetcherPartitions:
    """Owns which place each partition is in. Nothing here waits or sends requests. Others may read
    the dicts, not change them.
    """

    def __init__(self, quota: ReplicationQuotaManager) -> None:
        self.all: dict[TopicPartition, FetchedMirrorPartition] = {}
        self.inquiring: dict[TopicPartition, FetchedMirrorPartition] = {}
        self.due: dict[TopicPartition, FetchPosition] = {}
        self.delayed: dict[TopicPartition, FetchedMirrorPartition] = {}
        self.behind_source_start: dict[TopicPartition, FetchedMirrorPartition] = {}
        """Partitions whose log start could not follow the source's yet; each of them is also in one
        of the three places.
        """
        self.touched: dict[TopicPartition, None] = {}
        self._quota = quota
        self._answered_ms = -1
        self._leaves_throttled_out = False

    def put(self, partition: FetchedMirrorPartition) -> None:
        """Adds the partition, replacing the one of that name if there is one. It is in no place
        yet.
        """
        self.remove(partition.topic_partition)
        self.all[partition.topic_partition] = partition

    def remove(self, topic_partition: TopicPartition) -> None:
        """Removes the partition; what the session has said about it is kept in its progress."""
        partition = self.all.get(topic_partition)
        if partition is not None:
            partition.progress.source_offset_at_ms = self.known_as_of_ms(partition)
            del self.all[topic_partition]
            self._take_out(topic_partition)

    def answered(self, now_ms: int, *, leaves_throttled_out: bool) -> None:
        """Notes that the source answered a fetch of the due partitions, or of those that are not
        throttled.
        """
        self._answered_ms, self._leaves_throttled_out = now_ms, leaves_throttled_out

    def known_as_of_ms(self, partition: FetchedMirrorPartition) -> int:
        """When the source last said where its log of the partition ends (monotonic clock); -1 if it
        never did.
        """
        topic_partition, known_ms = partition.topic_partition, partition.progress.source_offset_at_ms
        is_in_session = topic_partition in self.due and topic_partition not in self.touched
        if known_ms < 0 or not is_in_session or (self._leaves_throttled_out and self._quota.is_throttled(topic_partition)):
            return known_ms
        return max(known_ms, self._answered_ms)

    def is_current(self, partition: FetchedMirrorPartition) -> bool:
        """Whether the partition was neither removed nor replaced."""
        return self.all.get(partition.topic_partition) is partition

    def inquire(self, partition: FetchedMirrorPartition, inquiry: Inquiry) -> None:
        self._take_out(partition.topic_partition)
        partition.inquiry, partition.question = inquiry, None
        self.inquiring[partition.topic_partition] = partition

    def fetch_next(self, partition: FetchedMirrorPartition) -> None:
        """Makes the partition part of the next fetch, from its log's end."""
        topic_partition = partition.topic_partition
        self.inquiring.pop(topic_partition, None)
        self.delayed.pop(topic_partition, None)
        self.touched[topic_partition] = None
        self.due[topic_partition] = partition.position()

    def delay(self, partition: FetchedMirrorPartition, *, until_ms: int) -> None:
        """Leaves the partition out until `until_ms` (monotonic clock)."""
        self._take_out(partition.topic_partition)
        partition.delayed_until_ms = until_ms
        self.delayed[partition.topic_partition] = partition

    def whose_delay_is_over(self, now_ms: int) -> list[FetchedMirrorPartition]:
        return [partition for partition in self.delayed.values() if partition.delayed_until_ms <= now_ms]

    def note_log_start(self, partition: FetchedMirrorPartition, *, is_behind: bool) -> None:
        if is_behind:
            self.behind_source_start[partition.topic_partition] = partition
        else:
            self.behind_source_start.pop(partition.topic_partition, None)

    def take_touched(self) -> dict[TopicPartition, None]:
        """Returns, and clears, the partitions touched since the last call."""
        touched, self.touched = self.touched, {}
        return touched

    def _take_out(self, topic_partition: TopicPartition) -> None:
        self.touched[topic_partition] = None
        self.due.pop(topic_partition, None)
        self.inquiring.pop(topic_partition, None)
        self.delayed.pop(topic_partition, None)
        self.behind_source_start.pop(topic_partition, None)
