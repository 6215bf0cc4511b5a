"""MirrorFetcher: copies batches from one source broker for one mirror (the KIP's
MirrorFetcherThread, as a task).

One fetcher per (fetcher id, source broker, mirror): mirrors never share one, because their
credentials differ. It has one fetch in flight (B27), a long poll in an incremental session. The
cost of a round depends on what changed, not on the number of idle partitions. Its parts:

    fetcher_partitions   whose log is compared with the source's first, who is fetched next and who waits
    fetcher_inquiries    how logs are compared, and what is cut
    fetch_failures       what happens to a partition with which the fetcher cannot go on
    healthy_waits        what holds partitions back with which nothing is wrong
    FetchTarget          into what it copies, and who hears what comes of it (`fetched_mirror_partition`)

How an answer is handled (D3-12 ... D3-16):

* records: appended as they are, at the local log end; the high watermark follows our own ISR, the log start the source's
* OFFSET_OUT_OF_RANGE, diverging epochs: cut where the source says, never more than that; after a cut the partition is given
  back to its target, which bumps the leader epoch before anything is appended (F1)
* another leader: the answer says who (Fetch v12), and where (v16): the partition moves to that broker's fetcher at once; else, and
  when the connection is lost, it is given back and its target asks for Metadata, after the backoff. Nothing is cut by that
* a batch that cannot be one, a topic id that is not ours, or a source that lost its log
  (`truncation_guard`): the partition fails
* a refused authorization or login: asked again after the backoff, for as long as it lasts; the reason shows meanwhile

A source without topic ids (before Fetch v13) does not say that a topic was recreated while nobody
asked for it; if the new topic is longer, fetching would go on in the middle of another log. So with
such a source, a partition that was not fetched for a while (a delay, a lost session, a pause of our
own) has its log compared again.

The position of a partition is always its log's end, so no answer can be appended twice or leave a
hole. An answer does not touch a partition that was removed, or added again, while it was under way.

Throttling: while the rate of throttled partitions is above mirror.replication.throttled.rate, they
are left out of the fetch; the others go on, and the fetch waits no longer than the throttle does
(THR1 to THR3). A fetch with throttled partitions asks for no more than a tenth of a second's worth,
so that the rate is met closely.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetch_failures import LEADER_ERRORS, REFUSED, FetchFailures
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition, FetcherOwner
from kmirror.mirror.fetch.fetcher_inquiries import FetcherInquiries
from kmirror.mirror.fetch.fetcher_partitions import FetcherPartitions
from kmirror.mirror.fetch.fetcher_stats import FetcherStats
from kmirror.mirror.fetch.healthy_waits import HealthyWaits
from kmirror.mirror.logs.local_log import cut_fully
from kmirror.mirror.logs.log_verifier import diverged, out_of_range
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.mirror.source.source_end_point import FetchedPartition, SourceEndPoint
from kmirror.mirror.source.source_fetch_session import SESSION_ERRORS, FetchPosition
from kmirror.network.client_metrics import ClientMetrics
from kmirror.record.record_batch import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, RecordBatch, next_batch_size
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime

ANY_EPOCH = 2**31 - 1
THROTTLED_FETCHES_A_SECOND = 10
OUT_OF_SIGHT_MS = 1_000
"""No topic is deleted, recreated and filled in less time."""
_log = logging.getLogger(__name__)


class MirrorFetcher:
    """One task, which owns its partitions, its connection and its inquiries. `add` and `remove`
    take effect at once.
    """

    def __init__(
        self,
        runtime: Runtime,
        end_point: SourceEndPoint,
        name: str,
        *,
        config: MirrorConfig,
        safeguards: MirrorSafeguards,
        quota: ReplicationQuotaManager,
        complete_delayed: Callable[[Sequence[TopicPartition]], None],
        owner: FetcherOwner,
        mirror_name: str = "",
    ) -> None:
        """`complete_delayed` is called with local logs that have grown, for those who wait on them
        (our followers' fetches).
        """
        self.name = name
        self.stats = FetcherStats(runtime.clock)
        self._runtime = runtime
        self._end_point = end_point
        self._config = config
        self._quota = quota
        self._complete_delayed = complete_delayed
        self._owner = owner
        backoff_ms = config.mirror_fetch_backoff_ms
        self._partitions = FetcherPartitions(quota)
        self._failures = FetchFailures(runtime, self._partitions, name, backoff_ms=backoff_ms)
        self._failures_of = self._failures.of
        self._inquiries = FetcherInquiries(
            runtime, end_point, self._partitions, self._failures, name, safeguards=safeguards, backoff_ms=backoff_ms
        )
        self._waits = HealthyWaits(runtime, end_point, self._partitions, quota, mirror_name=mirror_name, name=name)
        self._appended: list[TopicPartition] = []
        self._seen_ms = -1
        self._ask_all = True
        self._waiter: asyncio.Future[None] | None = None

    # --- owner's side
    # -------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._partitions.all

    @property
    def node_id(self) -> int:
        return self._end_point.node.id

    def owns(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions.all

    def known_as_of_ms(self, partition: FetchedMirrorPartition) -> int:
        """When the source last said where its log of the partition ends (monotonic clock); an
        answer in a session also says so for the partitions that it leaves out.
        """
        return self._partitions.known_as_of_ms(partition)

    def partition(self, topic_partition: TopicPartition) -> FetchedMirrorPartition | None:
        return self._partitions.all.get(topic_partition)

    @property
    def client_metrics(self) -> ClientMetrics:
        """What its connection counts."""
        return self._end_point.client_metrics

    def add(self, partition: FetchedMirrorPartition) -> None:
        """Fetch the partition from now on, after its log was compared with the source's."""
        self._partitions.put(partition)
        partition.progress.fetcher_name = self.name
        self._inquiries.verify(partition)
        self._wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        """Removes the partition: its log is not touched from now on, because the fetcher checks
        before every change of a log that the partition is still its own.
        """
        self._partitions.remove(topic_partition)
        self._waits.forget(topic_partition)

    def wait_of(self, topic_partition: TopicPartition) -> str | None:
        """Why a partition waits although nothing is wrong; None if nothing is known to hold it
        back.
        """
        partition = self._partitions.all.get(topic_partition)
        return None if partition is None else self._waits.of(partition)

    async def run(self) -> None:
        """Makes rounds until cancelled."""
        while True:
            await self._round()

    def on_unexpected_end(self, error: Exception) -> None:
        """Gives all partitions back, since what was under way is unknown: they are added again
        after the backoff, and their logs are compared with the source's first.
        """
        self._ask_all = True
        self._appended.clear()
        for partition in list(self._partitions.all.values()):
            self._failures.give_back(partition, f"the fetcher ended unexpectedly: {error!r}")

    def close(self) -> None:
        self._waits.close()
        self._end_point.close()

    # --- what is next for a partition
    # ---------------------------------------------------------------------------------

    def _end_delays(self) -> None:
        for partition in self._partitions.whose_delay_is_over(self._runtime.clock.monotonic_ms()):
            with self._failures_of(partition):
                if partition.inquiry is not None:  # a damaged batch ended it
                    self._inquiries.verify(partition)
                elif self._end_point.asks_by_name:
                    self._inquiries.verify_what_was_out_of_sight(partition)
                else:
                    self._partitions.fetch_next(partition)

    def _was_out_of_sight(self) -> bool:
        """Whether the last answer is so old that a topic may have been recreated under the same
        name.
        """
        if not self._end_point.asks_by_name or self._seen_ms < 0:
            return False
        return self._runtime.clock.monotonic_ms() - self._seen_ms > OUT_OF_SIGHT_MS

    def _verify_again(self) -> None:
        """Compares the logs of all due partitions again."""
        self._seen_ms = -1
        for topic_partition in list(self._partitions.due):
            partition = self._partitions.all[topic_partition]
            with self._failures_of(partition):
                self._inquiries.verify_what_was_out_of_sight(partition)

    # --- the round
    # ----------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        if self._partitions.delayed:
            self._end_delays()
        while self._partitions.inquiring:
            await self._inquiries.ask()
        if self._partitions.behind_source_start:
            self._follow_log_starts()
        self._waits.look()
        positions, wait_ms, max_bytes = self._what_to_ask()
        if not positions:
            await self._wait(wait_ms)
            return
        if self._was_out_of_sight():
            self._verify_again()
            return
        touched = self._partitions.take_touched()
        ask_all, self._ask_all = self._ask_all, False
        was_full = self._end_point.session.is_full
        try:
            answers = await self._end_point.fetch(positions, None if ask_all else touched, max_wait_ms=wait_ms, max_bytes=max_bytes)
        except KmirrorError as error:
            self._ask_all = True
            if isinstance(error, SourceError) and error.error in SESSION_ERRORS and self._end_point.asks_by_name and not was_full:
                self._verify_again()
                return
            for topic_partition in list(self._partitions.due):
                self._failures.give_back(self._partitions.all[topic_partition], str(error))
            return
        self._seen_ms = self._runtime.clock.monotonic_ms()
        if not self._end_point.is_withheld:
            self._partitions.answered(self._seen_ms, leaves_throttled_out=len(positions) < len(self._partitions.due))
        self.stats.fetched(sum([len(fetched.records) for fetched in answers.values()]))
        for partition in self._handle_all(answers):
            await self._classify(partition)

    def _handle_all(self, answers: Mapping[TopicPartition, FetchedPartition]) -> list[FetchedMirrorPartition]:
        """Returns the partitions for which batches with a higher epoch than the source's were
        skipped. Our followers are told of all appends together.
        """
        higher_epochs = []
        for topic_partition, fetched in answers.items():
            position = self._partitions.due.get(topic_partition)
            if position is None or topic_partition in self._partitions.touched:
                continue
            partition = self._partitions.all[topic_partition]
            with self._failures_of(partition):
                if not self._handle(partition, position, fetched):
                    higher_epochs.append(partition)
        appended, self._appended = self._appended, []
        if appended:
            self._complete_delayed(appended)
        return higher_epochs

    def _what_to_ask(self) -> tuple[Mapping[TopicPartition, FetchPosition], int, int]:
        """The positions to fetch from, how long the fetch waits (or the fetcher, if there are no
        positions), and the maximum bytes.
        """
        if not self._partitions.all:
            return {}, 0, 0
        config = self._config
        wait_ms, max_bytes = config.replica_fetch_wait_max_ms, config.replica_fetch_response_max_bytes
        quota, due = self._quota, self._partitions.due
        if quota.is_unused:
            return due, wait_ms, max_bytes
        self._ask_all = True
        throttled = [topic_partition for topic_partition in due if quota.is_throttled(topic_partition)]
        pause_ms = quota.pause_ms() if throttled else 0
        if pause_ms > 0:
            self._waits.note_own_throttle(pause_ms)
            positions = {topic_partition: position for topic_partition, position in due.items() if not quota.is_throttled(topic_partition)}
            return positions, min(wait_ms, pause_ms), max_bytes
        if throttled:
            max_bytes = min(max_bytes, max(1, quota.upper_bound // THROTTLED_FETCHES_A_SECOND))
        return due, wait_ms, max_bytes

    async def _wait(self, pause_ms: int) -> None:
        """Waits until a partition is added, the first delay ends, or the throttle allows a
        fetch.
        """
        waiter: asyncio.Future[None] = self._runtime.create_future()
        self._waiter = waiter
        now_ms = self._runtime.clock.monotonic_ms()
        ends = [partition.delayed_until_ms - now_ms for partition in self._partitions.delayed.values()]
        if self._partitions.due:
            ends.append(pause_ms)
        timer = self._runtime.call_later_ms(max(1, min(ends)), self._wake) if ends else None
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- answers
    # ------------------------------------------------------------------------------------------------------

    def _handle(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> bool:
        """False if batches with a higher epoch than the source's were skipped."""
        error = fetched.error
        if error is Errors.NONE:
            return self._handle_data(partition, position, fetched)
        log = partition.log
        if error is Errors.OFFSET_OUT_OF_RANGE:
            self._partitions.inquire(partition, out_of_range(log, cleaned_until=partition.target.cleaned_until))
        elif error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE:
            _log.warning("%s: the source has offset %d in its remote storage only", partition.topic_partition, position.offset)
            self._partitions.inquire(partition, out_of_range(log, cleaned_until=partition.target.cleaned_until, local=True))
        elif error in LEADER_ERRORS:
            self._find_leader(partition, fetched)
        elif error is Errors.INCONSISTENT_TOPIC_ID:
            self._failures.reject(partition, "the source's topic has another id")
        elif error is Errors.TOPIC_AUTHORIZATION_FAILED:
            self._failures.delay(partition, REFUSED)
        else:
            self._failures.delay(partition, f"source broker {self.node_id}: {error.name}")
        return True

    def _find_leader(self, partition: FetchedMirrorPartition, fetched: FetchedPartition) -> None:
        """Moves the partition to the leader that the answer names, if it leads in a newer epoch or
        (once) is another broker in this epoch; otherwise gives the partition back, and the leader
        is found through Metadata.
        """
        leader = fetched.leader
        if leader is not None and leader.leader_epoch >= 0:
            is_newer = leader.leader_epoch > partition.source_epoch
            is_other = leader.leader_epoch == partition.source_epoch and leader.leader_id != self.node_id and not partition.was_redirected
            if (is_newer or is_other) and self._owner.redirect(partition, leader):
                return
        self._failures.give_back(partition, f"source broker {self.node_id}: {fetched.error.name}")

    def _handle_data(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> bool:
        log = partition.log
        if fetched.diverging_epoch >= 0:
            cleaned_until = partition.target.cleaned_until
            inquiry = diverged(log, fetched.diverging_epoch, fetched.diverging_end_offset, cleaned_until=cleaned_until)
            self._partitions.inquire(partition, inquiry)
            return True
        partition.verdicts = 0
        if log.log_end_offset != position.offset:
            self._partitions.fetch_next(partition)
            return True
        skipped = has_records = False
        if next_batch_size(fetched.records, 0) is None:
            if len(fetched.records) > 0:  # since Fetch v3 the first batch comes whole, or not at all
                self._failures.delay(partition, f"source broker {self.node_id} sent only {len(fetched.records)} bytes of a batch")
                return True
        else:
            has_records = True
            skipped = self._append(partition, fetched)
            self._partitions.fetch_next(partition)
        partition.progress.answered(
            self._runtime.clock.monotonic_ms(),
            high_watermark=fetched.high_watermark,
            source_epoch=partition.source_epoch,
            last_stable_offset=fetched.last_stable_offset,
        )
        self._waits.note_answer(partition, has_records=has_records)
        partition.target.on_progress()
        partition.source_start_offset = fetched.log_start_offset
        self._follow_log_start(partition)
        return not skipped

    def _append(self, partition: FetchedMirrorPartition, fetched: FetchedPartition) -> bool:
        """Returns whether batches with a higher epoch than the source's were skipped."""
        log = partition.log
        records = fetched.records
        if partition.last_epoch < 0 and records[HEADER_SIZE_UP_TO_MAGIC - 1] == CURRENT_MAGIC:
            first = RecordBatch(records)
            if 0 <= first.base_offset < log.log_end_offset <= first.last_offset and log.last_batch() is None:
                cut_fully(partition.partition, first.base_offset)
        accepted = ANY_EPOCH if partition.source_is_mirror or partition.source_epoch < 0 else partition.source_epoch
        info = partition.partition.append_records_to_mirror_leader(records, source_leader_epoch=accepted)
        self._appended.append(partition.topic_partition)
        partition.corrupt_answers = 0
        if info.last_leader_epoch is not None:
            partition.last_epoch = info.last_leader_epoch
        if not self._quota.is_unused and self._quota.is_throttled(partition.topic_partition):
            self._quota.record(len(records))
        return info.skipped_higher_epoch

    async def _classify(self, partition: FetchedMirrorPartition) -> None:
        """Finds out why a batch had a higher epoch than the source's own: that is correct if the
        source's topic is itself a mirror (D3-12); otherwise another broker leads there now.
        """
        if not self._partitions.is_current(partition):
            return
        with self._failures_of(partition):
            mirror, topic = partition.target.mirror, partition.topic_partition.topic
            partition.source_is_mirror = mirror.is_known_chain(topic) or await mirror.is_source_topic_mirrored(topic)
            if not partition.source_is_mirror:
                self._failures.give_back(partition, "the source sent batches with a newer leader epoch than the one that the fetch was for")

    def _follow_log_start(self, partition: FetchedMirrorPartition) -> None:
        self._partitions.note_log_start(partition, is_behind=not partition.follow_log_start())

    def _follow_log_starts(self) -> None:
        for partition in list(self._partitions.behind_source_start.values()):
            with self._failures_of(partition):
                self._follow_log_start(partition)
