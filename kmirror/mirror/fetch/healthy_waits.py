"""Why a mirrored partition does not move although nothing is wrong with it.

A partition that is fetched and gets nothing has no error, so its state says MIRRORING and its lag
grows. What holds it back is somebody's decision, and whoever looks has to be told whose:

    the source's quota   the source answers our client id with throttle_time_ms, and a fetch without records
    our own throttle     mirror.replication.throttled.rate: the partition is left out of fetches for now
    a transaction        it is open at the source: what lies behind its first record is not decided yet (B51)

The first two hold for a fetcher, the last for a partition. Each is part of DescribeMirrors from when
it is known, and a line of the log when it has lasted for TOLD_AFTER_MS, when it changes and when it
is over. Throttling comes in spells: an answer with records between two that were throttled does not
end it (`throttle_spell`).

Which producer has the transaction open, the source is asked (`open_transactions`) when the partition
has waited for TOLD_AFTER_MS. What it does not say is said to be unknown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from kmirror.common.lasting_conditions import LastingConditions, seconds_text
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition
from kmirror.mirror.fetch.fetcher_partitions import FetcherPartitions
from kmirror.mirror.fetch.open_transactions import OpenTransactions
from kmirror.mirror.source.source_end_point import SourceEndPoint
from kmirror.mirror.source.throttle_spell import ThrottleSpell
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime

TOLD_AFTER_MS = 5_000
LOOK_EVERY_MS = 1_000
QUOTA_WINDOWS_MS = 10_000
"""The time over which Kafka measures quotas unless it is told otherwise: ten windows of a second."""
_QUOTA, _THROTTLE = "the source's quota", "our own throttle"
_log = logging.getLogger(__name__)


class Wait(NamedTuple):
    """Why a partition waits, in words that stay as long as it does, and numbers that do not."""

    text: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.text}; {self.detail}" if self.detail else self.text


class HealthyWaits:
    """Owns what holds back the partitions of one fetcher, and says so in the log."""

    def __init__(
        self,
        runtime: Runtime,
        end_point: SourceEndPoint,
        partitions: FetcherPartitions,
        quota: ReplicationQuotaManager,
        *,
        mirror_name: str,
        name: str,
    ) -> None:
        """`name`: the fetcher's; `quota`: our own throttle."""
        self._partitions = partitions
        now_ms = self._now_ms = runtime.clock.monotonic_ms
        self._end_point = end_point
        self._quota = quota
        self._own_throttle = ThrottleSpell()
        self._own_rate = 0
        self._own_debt_ms = 0
        self._transactions = OpenTransactions(runtime, end_point, name)
        self._undecided: dict[TopicPartition, FetchedMirrorPartition] = {}
        self._records_ms = now_ms()
        self._looked_ms = now_ms()
        self._subject = f"mirror {mirror_name}"
        self._conditions = LastingConditions(_log, now_ms)

    # --- what the fetcher notes

    def note_answer(self, partition: FetchedMirrorPartition, *, has_records: bool) -> None:
        """The source answered for the partition; its progress has the answer's offsets."""
        if has_records:
            self._records_ms = self._now_ms()
        progress = partition.progress
        if progress.last_stable_offset < progress.source_offset:
            self._undecided[partition.topic_partition] = partition
        else:
            self._undecided.pop(partition.topic_partition, None)

    def note_own_throttle(self, pause_ms: int) -> None:
        """Throttled partitions are left out of the fetches of the next `pause_ms`."""
        self._own_throttle.note(self._now_ms(), pause_ms)
        self._own_rate, self._own_debt_ms = self._quota.upper_bound, self._quota.debt_ms()

    def forget(self, topic_partition: TopicPartition) -> None:
        if self._undecided.pop(topic_partition, None) is not None:
            self._conditions.forget(topic_partition)
            self._transactions.forget(topic_partition)

    def close(self) -> None:
        self._transactions.close()

    # --- what is asked

    def of(self, partition: FetchedMirrorPartition) -> str | None:
        """Why the partition waits now, all that is known; None if nothing is known to hold it
        back.
        """
        now_ms = self._now_ms()
        waits: list[Wait] = []
        if partition.topic_partition in self._undecided and self._waits_for_decision(partition, now_ms):
            waits.append(self._transaction_wait(partition))
        if self._end_point.throttle.is_on(now_ms):
            waits.append(self._quota_wait(now_ms))
        if self._own_throttle.is_on(now_ms) and self._quota.is_throttled(partition.topic_partition):
            waits.append(self._throttle_wait(now_ms))
        return ". And ".join(map(str, waits)) or None

    def look(self) -> None:
        """Tells the log what has begun, changed and ended; cheap to call in every round."""
        self._tell(_QUOTA, self._end_point.throttle, self._quota_wait)
        self._tell(_THROTTLE, self._own_throttle, self._throttle_wait)
        now_ms = self._now_ms()
        if now_ms - self._looked_ms >= LOOK_EVERY_MS:
            self._looked_ms = now_ms
            self._look_for_transactions(now_ms)

    def _look_for_transactions(self, now_ms: int) -> None:
        for gone in [name for name, partition in self._undecided.items() if not self._partitions.is_current(partition)]:
            self.forget(gone)
        waiting = {name: partition for name, partition in self._undecided.items() if self._waits_for_decision(partition, now_ms)}
        if waiting or len(self._conditions):
            self._transactions.ask_about(waiting)
            known = {
                name: self._transaction_wait(partition).text for name, partition in waiting.items() if self._transactions.was_asked(name)
            }
            told = [key for key in self._conditions if isinstance(key, TopicPartition)]
            self._conditions.replace(told, known, subject=self._subject)

    def _tell(self, key: str, spell: ThrottleSpell, wait: Callable[[int], Wait]) -> None:
        """Tells a spell that has lasted, or is known to last: a fetcher that waits looks no more."""
        now_ms = self._now_ms()
        if not spell.is_on(now_ms):
            self._conditions.end(key)
        elif spell.until_ms - spell.since_ms >= TOLD_AFTER_MS:
            self._conditions.tell(key, wait(now_ms).text, subject=self._subject)

    def _waits_for_decision(self, partition: FetchedMirrorPartition, now_ms: int) -> bool:
        """Whether all that is decided was fetched, and nothing was decided for a while."""
        progress = partition.progress
        log = partition.partition.log
        is_open = 0 <= progress.last_stable_offset < progress.source_offset
        if log is None or not is_open or log.log_end_offset < progress.last_stable_offset:
            return False
        return now_ms - progress.stable_since_ms >= TOLD_AFTER_MS

    def _quota_wait(self, now_ms: int) -> Wait:
        wait, spell = quota_wait(self._end_point, now_ms), self._end_point.throttle
        silent_ms = now_ms - max(self._records_ms, spell.since_ms)
        if silent_ms >= QUOTA_WINDOWS_MS + spell.asked_ms:
            why = "if the next batch is larger than ten seconds of the quota, it comes only when consumer_byte_rate is raised"
            return Wait(wait.text, f"{wait.detail}; no record came for {seconds_text(silent_ms)}: {why}")
        return wait

    def _throttle_wait(self, now_ms: int) -> Wait:
        text = f"it is throttled by mirror.replication.throttled.rate={self._own_rate} bytes a second of this broker"
        detail = f"for {seconds_text(now_ms - self._own_throttle.since_ms)}"
        if self._own_debt_ms >= QUOTA_WINDOWS_MS:
            detail += f"; what was fetched last is {seconds_text(self._own_debt_ms)} ahead of the rate, as one large batch is"
        return Wait(text, detail)

    def _transaction_wait(self, partition: FetchedMirrorPartition) -> Wait:
        progress = partition.progress
        found = self._transactions.text_of(partition.topic_partition)
        records = progress.source_offset - progress.last_stable_offset
        return Wait(
            f"a transaction is open at the source ({found}); what lies behind its first record is mirrored when it ends",
            f"{records} records from offset {progress.last_stable_offset} on",
        )


def quota_wait(end_point: SourceEndPoint, now_ms: int) -> Wait:
    """Why everything waits that is asked over a throttled connection."""
    spell = end_point.throttle
    text = f"a quota of the source throttles client id {end_point.client_id}"
    return Wait(text, f"for {seconds_text(now_ms - spell.since_ms)}, the last time by {spell.asked_ms} ms")
