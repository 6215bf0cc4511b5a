"""MirrorFetcher: copies batches from one source broker for one mirror (the KIP's MirrorFetcherThread, as a task).

One fetcher per (fetcher id, source broker, mirror): mirrors never share one, for their credentials differ. It has one fetch
in flight (B27), a long poll in an incremental session; what a round costs is what changed, however many partitions are idle. Whose log is
compared with the source's first, who is fetched next and who waits: `fetcher_partitions`.

What is done with an answer is D3-12 ... D3-16:

* records: appended as they are, at the local log end; the high watermark follows our own ISR, the log start the source's
* OFFSET_OUT_OF_RANGE, diverging epochs: cut where the source says, never more than that; after a cut the partition is given
  back to its driver, which bumps the leader epoch before anything is appended (F1)
* another leader: the answer says who (Fetch v12), and where (v16): the partition moves to that broker's fetcher at once; else, and
  when the connection is lost, it is given back and its driver asks for Metadata, after the backoff. Nothing is cut by that
* a batch that cannot be one, a topic id that is not ours, a source that lost its log (`truncation_guard`): the partition fails
* a refused authorization or login: asked again after the backoff, for as long as it lasts; the reason shows meanwhile

A source without topic ids (before Fetch v13) does not say that a topic was made anew while nobody asked for it, and where the new one is longer
it goes on in the middle of another log. So there what was out of sight (a delay, a session that was lost, a pause of our own) is compared again.

The position of a partition is its log's end and nothing else, so no answer can be appended twice or with a hole. A partition
that was removed, or added anew, while its answer was under way is not touched by it.

Throttle (THR1 to THR3). While the rate of throttled partitions is above mirror.replication.throttled.rate, they are left out of the
fetch; the others go on, and the fetch waits no longer than the throttle does. A fetch with throttled partitions asks for no more than
a tenth of a second's worth, so that the rate is met closely.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetched_mirror_partition import FetchedMirrorPartition, FetcherOwner
from kmirror.mirror.fetcher_inquiries import ask_source
from kmirror.mirror.fetcher_partitions import FetcherPartitions
from kmirror.mirror.local_log import cut, cut_fully
from kmirror.mirror.log_questions import Action, Verdict
from kmirror.mirror.log_verifier import diverged, out_of_range, unverified, verify_log
from kmirror.mirror.mirror_metrics import FetcherStats
from kmirror.mirror.source_cluster import SourceError
from kmirror.mirror.source_end_point import FetchedPartition, SourceEndPoint
from kmirror.mirror.source_fetch_session import SESSION_ERRORS, FetchPosition
from kmirror.mirror.truncation_guard import is_guarded, readable_until, records_lost, refusal
from kmirror.network.client_metrics import ClientMetrics
from kmirror.record.record_batch import CURRENT_MAGIC, HEADER_SIZE_UP_TO_MAGIC, RecordBatch, next_batch_size
from kmirror.replica.replication_quota_manager import ReplicationQuotaManager
from kmirror.runtime.api import Runtime
from kmirror.storage.log_append import OffsetsOutOfOrderError

REFUSED = "the source refuses to let us read the topic"
ANY_EPOCH = 2**31 - 1
CORRUPT_ANSWERS_UNTIL_FAILED = 2
VERDICTS_WITHOUT_BACKOFF = 3
THROTTLED_FETCHES_A_SECOND = 10
OUT_OF_SIGHT_MS = 1_000
"""No topic is deleted, made anew and filled in less."""

_LEADER_ERRORS = frozenset(
    {
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.FENCED_LEADER_EPOCH,
        Errors.UNKNOWN_LEADER_EPOCH,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.LEADER_NOT_AVAILABLE,
        Errors.REPLICA_NOT_AVAILABLE,
        Errors.KAFKA_STORAGE_ERROR,
    }
)
_CORRUPT_ERRORS = frozenset({Errors.CORRUPT_MESSAGE, Errors.INVALID_RECORD, Errors.MESSAGE_TOO_LARGE})
_log = logging.getLogger(__name__)


class MirrorFetcher:
    """One task. `add` and `remove` take effect at once."""

    def __init__(
        self, runtime: Runtime, end_point: SourceEndPoint, name: str, *, quota: ReplicationQuotaManager, owner: FetcherOwner
    ) -> None:
        self.name = name
        self.stats = FetcherStats(runtime.clock)
        self._runtime = runtime
        self._end_point = end_point
        self._quota = quota
        self._owner = owner
        self._partitions = FetcherPartitions()
        self._appended: list[TopicPartition] = []
        self._answered_ms = -1
        self._seen_ms = -1
        self._leaves_throttled_out = False
        self._ask_all = True
        self._waiter: asyncio.Future[None] | None = None

    # --- owner's side -------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self._partitions.all

    @property
    def node_id(self) -> int:
        return self._end_point.node.id

    def owns(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._partitions.all

    def known_as_of_ms(self, partition: FetchedMirrorPartition) -> int:
        """When the source last told where the partition ends there (monotonic); an answer in a session tells it of what it leaves out, too."""
        topic_partition, known_ms = partition.topic_partition, partition.driver.status.source_offset_at_ms
        is_in_session = topic_partition in self._partitions.due and topic_partition not in self._partitions.touched
        if known_ms < 0 or not is_in_session or (self._leaves_throttled_out and self._quota.is_throttled(topic_partition)):
            return known_ms
        return max(known_ms, self._answered_ms)

    def partition(self, topic_partition: TopicPartition) -> FetchedMirrorPartition | None:
        return self._partitions.all.get(topic_partition)

    @property
    def client_metrics(self) -> ClientMetrics:
        """What its connection counts."""
        return self._end_point.client_metrics

    def add(self, partition: FetchedMirrorPartition) -> None:
        """Fetch the partition from now on, after its log was compared with the source's."""
        self._partitions.put(partition)
        partition.driver.status.fetcher_name = self.name
        self._verify(partition)
        self._wake()

    def remove(self, topic_partition: TopicPartition) -> None:
        """From now on the partition is not touched: every change of a log follows a look at whether the partition is still ours."""
        partition = self._partitions.all.get(topic_partition)
        if partition is not None:
            partition.driver.status.source_offset_at_ms = self.known_as_of_ms(partition)
        self._partitions.remove(topic_partition)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._round()

    def on_unexpected_end(self, error: Exception) -> None:
        """What was under way is not known any more: their drivers add the partitions again after the backoff, and their logs are compared
        with the source's first."""
        self._ask_all = True
        self._appended.clear()
        for partition in list(self._partitions.all.values()):
            self._give_back(partition, f"the fetcher ended unexpectedly: {error!r}")

    def close(self) -> None:
        self._end_point.close()

    # --- what is next for a partition ---------------------------------------------------------------------------------

    def _verify(self, partition: FetchedMirrorPartition) -> None:
        """Compare its log with the source's before anything else."""
        log = partition.driver.log
        is_verified = partition.driver.services.safeguards.first_fetch_verified
        self._partitions.inquire(partition, verify_log(log, cleaned_until=partition.driver.cleaned_until) if is_verified else unverified())

    def _delay(self, partition: FetchedMirrorPartition, reason: str) -> None:
        backoff_ms = partition.driver.services.config.mirror_fetch_backoff_ms
        self._partitions.delay(partition, until_ms=self._runtime.clock.monotonic_ms() + backoff_ms)
        partition.driver.status.reason = reason

    def _end_delays(self) -> None:
        for partition in self._partitions.whose_delay_is_over(self._runtime.clock.monotonic_ms()):
            with self._failures_of(partition):
                if partition.inquiry is not None:  # a damaged batch ended it
                    self._verify(partition)
                elif self._end_point.asks_by_name:
                    self._verify_what_was_out_of_sight(partition)
                else:
                    self._partitions.fetch_next(partition)

    def _give_back(self, partition: FetchedMirrorPartition, reason: str | None) -> None:
        if self._partitions.is_current(partition):
            self.remove(partition.topic_partition)
            partition.driver.on_fetcher_gone(reason)

    def _reject(self, partition: FetchedMirrorPartition, reason: str) -> None:
        if self._partitions.is_current(partition):
            self.remove(partition.topic_partition)
            partition.driver.on_rejected(reason)

    def _was_out_of_sight(self) -> bool:
        """Whether nobody asked for so long that a topic may be another one under the same name."""
        if not self._end_point.asks_by_name or self._seen_ms < 0:
            return False
        return self._runtime.clock.monotonic_ms() - self._seen_ms > OUT_OF_SIGHT_MS

    def _verify_again(self) -> None:
        """Compare the logs of all that would be fetched."""
        self._seen_ms = -1
        for topic_partition in list(self._partitions.due):
            partition = self._partitions.all[topic_partition]
            with self._failures_of(partition):
                self._verify_what_was_out_of_sight(partition)

    def _verify_what_was_out_of_sight(self, partition: FetchedMirrorPartition) -> None:
        """No answer of the source asks for this verdict, so it does not count among those that delay the next fetch."""
        partition.verdicts = 0
        self._verify(partition)

    # --- the round ----------------------------------------------------------------------------------------------------

    async def _round(self) -> None:
        if self._partitions.delayed:
            self._end_delays()
        while self._partitions.inquiring:
            await self._ask_questions()
        if self._partitions.behind_source_start:
            self._follow_log_starts()
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
                self._failed(self._partitions.all[topic_partition], error)
            return
        self._answered_ms, self._leaves_throttled_out = self._runtime.clock.monotonic_ms(), len(positions) < len(self._partitions.due)
        self._seen_ms = self._answered_ms
        self.stats.fetched(sum([len(fetched.records) for fetched in answers.values()]))
        for partition in self._handle_all(answers):
            await self._classify(partition)

    def _handle_all(self, answers: Mapping[TopicPartition, FetchedPartition]) -> list[FetchedMirrorPartition]:
        """Those of which batches of a higher epoch than the source's were left out. Our followers hear of all appends together."""
        higher_epochs = []
        services = None
        for topic_partition, fetched in answers.items():
            position = self._partitions.due.get(topic_partition)
            if position is None or topic_partition in self._partitions.touched:
                continue
            partition = self._partitions.all[topic_partition]
            services = partition.driver.services
            with self._failures_of(partition):
                if not self._handle(partition, position, fetched):
                    higher_epochs.append(partition)
        appended, self._appended = self._appended, []
        if appended and services is not None:
            services.replica_manager.complete_delayed_together(appended)
        return higher_epochs

    def _what_to_ask(self) -> tuple[Mapping[TopicPartition, FetchPosition], int, int]:
        """Positions, how long the fetch (or, without any, the fetcher) waits, and how much it asks for."""
        partition = next(iter(self._partitions.all.values()), None)
        if partition is None:
            return {}, 0, 0
        config = partition.driver.services.config
        wait_ms, max_bytes = config.replica_fetch_wait_max_ms, config.replica_fetch_response_max_bytes
        quota, due = self._quota, self._partitions.due
        if quota.is_unused:
            return due, wait_ms, max_bytes
        self._ask_all = True
        throttled = [topic_partition for topic_partition in due if quota.is_throttled(topic_partition)]
        pause_ms = quota.pause_ms() if throttled else 0
        if pause_ms > 0:
            positions = {topic_partition: position for topic_partition, position in due.items() if not quota.is_throttled(topic_partition)}
            return positions, min(wait_ms, pause_ms), max_bytes
        if throttled:
            max_bytes = min(max_bytes, max(1, quota.upper_bound // THROTTLED_FETCHES_A_SECOND))
        return due, wait_ms, max_bytes

    async def _wait(self, pause_ms: int) -> None:
        """For a partition, until the first delay is over, or for what a throttle demands."""
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

    # --- inquiries ----------------------------------------------------------------------------------------------------

    async def _ask_questions(self) -> None:
        """One question of every inquiry that has one; those that have come to their verdict end."""
        for partition in list(self._partitions.inquiring.values()):
            if partition.question is None and self._partitions.is_current(partition):
                with self._failures_of(partition):
                    await self._advance(partition, None)
        asking = [partition for partition in self._partitions.inquiring.values() if partition.question is not None]
        if not asking:
            return
        answers = await ask_source(self._runtime, self._end_point, asking)
        for partition in asking:
            if self._partitions.is_current(partition):
                with self._failures_of(partition):
                    await self._advance(partition, answers[partition.topic_partition])

    async def _advance(self, partition: FetchedMirrorPartition, answer: object) -> None:
        """Give an inquiry its answer (None: begin); carry out its verdict when it has come to one."""
        inquiry = partition.inquiry
        assert inquiry is not None, f"{partition.topic_partition} is asked about nothing"
        try:
            partition.question = inquiry.throw(answer) if isinstance(answer, Exception) else inquiry.send(answer)
        except StopIteration as ended:
            partition.inquiry = partition.question = None
            await self._carry_out(partition, ended.value)

    async def _carry_out(self, partition: FetchedMirrorPartition, verdict: Verdict) -> None:
        driver = partition.driver
        log = driver.log
        if verdict.action is Action.WAIT:
            self._delay(partition, verdict.reason)
            return
        is_cut = verdict.action is Action.START_OVER or (verdict.action is Action.CUT and verdict.offset < log.log_end_offset)
        if is_cut and not (await self._is_same_topic(partition) and await self._may_follow(partition, verdict)):
            return
        if not self._partitions.is_current(partition):
            return
        had_batches = log.last_batch() is not None
        removed = 0
        if verdict.action is Action.START_OVER:
            removed = cut_fully(driver.partition, verdict.offset)
        elif verdict.action is Action.CUT:
            removed = cut(driver.partition, verdict.offset)
        if removed > 0 and had_batches:
            self._after_cut(partition, verdict.reason)
            return
        epoch = log.latest_batch_epoch()
        partition.last_epoch = -1 if epoch is None or verdict.ignores_epochs else epoch
        partition.verdicts += 1
        if partition.verdicts > VERDICTS_WITHOUT_BACKOFF:
            self._delay(partition, f"the source's answers do not fit one another: {verdict.reason}")
        else:
            self._partitions.fetch_next(partition)

    async def _is_same_topic(self, partition: FetchedMirrorPartition) -> bool:
        """Before a cut: a source that is asked by name would not tell that the topic was made anew under another id."""
        if not self._end_point.asks_by_name or not partition.topic_id:
            return True
        metadata = await partition.driver.mirror.source_metadata(partition.topic_partition.topic)
        topic = metadata.topics.get(partition.topic_partition.topic)
        if topic is None or topic.error is not Errors.NONE:
            raise SourceError(f"source topic {partition.topic_partition.topic}: {'no answer' if topic is None else topic.error.name}")
        if topic.topic_id == partition.topic_id:
            return True
        self._reject(partition, f"the source's topic has the id {topic.topic_id}, the local one {partition.topic_id}")
        return False

    async def _may_follow(self, partition: FetchedMirrorPartition, verdict: Verdict) -> bool:
        """Else the partition fails, and keeps what the source has lost (`truncation_guard`)."""
        driver = partition.driver
        limit = driver.max_truncation_records
        if not driver.services.safeguards.loss_refused or not is_guarded(verdict, limit):
            return True
        log = driver.log
        until = readable_until(driver.partition)
        lost = await self._runtime.run_blocking(lambda: records_lost(log, verdict, until=until))
        reason = refusal(verdict, lost, limit)
        if reason is not None:
            self._reject(partition, reason)
        return reason is None

    def _after_cut(self, partition: FetchedMirrorPartition, reason: str) -> None:
        """A cut leader bumps its epoch before it appends again: back to the driver, at once unless the source has it cut again and again."""
        _log.warning("mirror fetcher %s: %s was cut: %s", self.name, partition.topic_partition, reason)
        if partition.driver.services.safeguards.bump_after_cut:
            partition.driver.note_cut()
        status, backoff_ms = partition.driver.status, partition.driver.services.config.mirror_fetch_backoff_ms
        before_ms, now_ms = status.cut_at_ms, self._runtime.clock.monotonic_ms()
        status.cut_at_ms = now_ms
        is_repeated = before_ms is not None and now_ms - before_ms < 2 * backoff_ms
        self._give_back(partition, f"cut again: {reason}" if is_repeated else None)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _handle(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> bool:
        """False when batches of a higher epoch than the source's were left out."""
        error = fetched.error
        if error is Errors.NONE:
            return self._handle_data(partition, position, fetched)
        log = partition.driver.log
        if error is Errors.OFFSET_OUT_OF_RANGE:
            self._partitions.inquire(partition, out_of_range(log, cleaned_until=partition.driver.cleaned_until))
        elif error is Errors.OFFSET_MOVED_TO_TIERED_STORAGE:
            _log.warning("%s: offset %d is in the source's remote storage only", partition.topic_partition, position.offset)
            self._partitions.inquire(partition, out_of_range(log, cleaned_until=partition.driver.cleaned_until, local=True))
        elif error in _LEADER_ERRORS:
            self._find_leader(partition, fetched)
        elif error is Errors.INCONSISTENT_TOPIC_ID:
            self._reject(partition, "the source's topic has another id")
        elif error is Errors.TOPIC_AUTHORIZATION_FAILED:
            self._delay(partition, REFUSED)
        else:
            self._delay(partition, f"source broker {self.node_id}: {error.name}")
        return True

    def _find_leader(self, partition: FetchedMirrorPartition, fetched: FetchedPartition) -> None:
        """Where the answer says a leader of a newer epoch, or, once, another one of this epoch, go there; else through Metadata."""
        leader = fetched.leader
        if leader is not None and leader.leader_epoch >= 0:
            is_newer = leader.leader_epoch > partition.source_epoch
            is_other = leader.leader_epoch == partition.source_epoch and leader.leader_id != self.node_id and not partition.was_redirected
            if (is_newer or is_other) and self._owner.redirect(partition, leader):
                return
        self._give_back(partition, f"source broker {self.node_id}: {fetched.error.name}")

    def _handle_data(self, partition: FetchedMirrorPartition, position: FetchPosition, fetched: FetchedPartition) -> bool:
        driver = partition.driver
        log = driver.log
        if fetched.diverging_epoch >= 0:
            cleaned_until = partition.driver.cleaned_until
            inquiry = diverged(log, fetched.diverging_epoch, fetched.diverging_end_offset, cleaned_until=cleaned_until)
            self._partitions.inquire(partition, inquiry)
            return True
        partition.verdicts = 0
        if log.log_end_offset != position.offset:
            self._partitions.fetch_next(partition)
            return True
        skipped = False
        if next_batch_size(fetched.records, 0) is None:
            if len(fetched.records) > 0:  # since Fetch v3 the first batch comes whole, or not at all
                self._delay(partition, f"source broker {self.node_id} sent {len(fetched.records)} bytes of a batch, less than it has")
                return True
        else:
            skipped = self._append(partition, fetched)
            self._partitions.fetch_next(partition)
        status = driver.status
        status.source_offset, status.source_offset_at_ms = fetched.high_watermark, self._runtime.clock.monotonic_ms()
        status.highest_source_epoch = max(status.highest_source_epoch, partition.source_epoch)
        status.reason = None
        end_offset = fetched.last_stable_offset if fetched.last_stable_offset >= 0 else fetched.high_watermark
        now_ms = self._runtime.clock.monotonic_ms()
        status.catch_up.note(now_ms, log_end_offset=log.log_end_offset, source_end_offset=end_offset)
        partition.source_start_offset = fetched.log_start_offset
        self._follow_log_start(partition)
        return not skipped

    def _append(self, partition: FetchedMirrorPartition, fetched: FetchedPartition) -> bool:
        """Whether batches of a higher epoch than the source's were left out."""
        driver = partition.driver
        log = driver.log
        records = fetched.records
        if partition.last_epoch < 0 and records[HEADER_SIZE_UP_TO_MAGIC - 1] == CURRENT_MAGIC:
            first = RecordBatch(records)
            if 0 <= first.base_offset < log.log_end_offset <= first.last_offset and log.last_batch() is None:
                cut_fully(driver.partition, first.base_offset)
        accepted = ANY_EPOCH if partition.source_is_mirror or partition.source_epoch < 0 else partition.source_epoch
        info = driver.partition.append_records_to_mirror_leader(records, source_leader_epoch=accepted)
        self._appended.append(partition.topic_partition)
        partition.corrupt_answers = 0
        if info.last_leader_epoch is not None:
            partition.last_epoch = info.last_leader_epoch
        if not self._quota.is_unused and self._quota.is_throttled(partition.topic_partition):
            self._quota.record(len(records))
        return info.skipped_higher_epoch

    async def _classify(self, partition: FetchedMirrorPartition) -> None:
        """Higher epochs than the source's own are right where its topic is a mirror, too (D3-12); else somebody else leads there now."""
        if not self._partitions.is_current(partition):
            return
        with self._failures_of(partition):
            mirror, topic = partition.driver.mirror, partition.topic_partition.topic
            partition.source_is_mirror = mirror.is_known_chain(topic) or await mirror.is_source_topic_mirrored(topic)
            if not partition.source_is_mirror:
                self._give_back(partition, "the source sent batches of a newer leader epoch than the one it was asked in")

    def _follow_log_start(self, partition: FetchedMirrorPartition) -> None:
        self._partitions.note_log_start(partition, is_behind=not partition.follow_log_start())

    def _follow_log_starts(self) -> None:
        for partition in list(self._partitions.behind_source_start.values()):
            with self._failures_of(partition):
                self._follow_log_start(partition)

    # --- failures -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _failures_of(self, partition: FetchedMirrorPartition) -> Iterator[None]:
        """What goes wrong with one partition stays its own."""
        try:
            yield
        except SourceError as error:
            self._failed(partition, error)
        except ApiException as error:
            if not self._partitions.is_current(partition):
                return
            if error.error is Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                self._reject(partition, f"the source's log cannot be mirrored as it is: {error.message}")
            elif error.error in _CORRUPT_ERRORS or isinstance(error, OffsetsOutOfOrderError):
                self._handle_corrupt(partition, error)
            elif error.error is Errors.KAFKA_STORAGE_ERROR:
                self.remove(partition.topic_partition)
                partition.driver.on_storage_error(str(error))
            else:
                self._give_back(partition, str(error))
        except KmirrorError as error:
            self._give_back(partition, str(error))
        except OSError as error:
            if self._partitions.is_current(partition):
                self.remove(partition.topic_partition)
                partition.driver.on_storage_error(str(error))
        except Exception as error:  # noqa: BLE001 - reported: a mistake over one partition must not stop the others
            self._runtime.report_failure(f"[{self.name}] Unexpected error over partition {partition.topic_partition}", error)
            self._give_back(partition, repr(error))

    def _failed(self, partition: FetchedMirrorPartition, error: KmirrorError) -> None:
        """The source did not answer, or not usably."""
        self._give_back(partition, str(error))

    def _handle_corrupt(self, partition: FetchedMirrorPartition, error: ApiException) -> None:
        partition.corrupt_answers += 1
        reason = f"malformed batch from the source: {error.message}"
        if partition.corrupt_answers >= CORRUPT_ANSWERS_UNTIL_FAILED:
            self._reject(partition, reason)
        else:
            self._delay(partition, reason)
