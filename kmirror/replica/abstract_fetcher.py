"""The fetcher framework: one task that fetches partitions from one leader and passes the data to
its owner's hooks.

The owner's `FetcherHooks` (`ReplicaFetcher`, `ReplicaAlterLogDirs`) say what to do with data and
how to cut; the `LeaderEndPoint` says how to ask: a broker of this cluster, or this broker's own
logs. The loop:

    fetch everything that is not delayed -> per partition: append, or truncate where it diverges, or move into range, or
    back off -> again

Adding and removing partitions works at any time and at once. An answer is used only for a partition
that was not touched since the request; so data in flight is dropped if the partition was removed,
or added again in another epoch. Delayed partitions are left out until their time has come; with
nothing to fetch the task sleeps.

There may be thousands of partitions, of which few move. So the due ones are kept (`_due`) and not
computed, and the leader's end point is told which partitions were touched since the last request:
the cost of a round depends only on what changed.

Failures, as Kafka's `AbstractFetcherThread` has them. No answer at all (`LeaderUnavailableError`):
every partition asked backs off. An error with one partition affects only that one; the others go
on:

    the leader refuses it, in a fetch or a ListOffsets     it backs off; with FENCED_LEADER_EPOCH it leaves the fetcher, for the metadata
                                                           bring the new epoch (not where epochs may begin anew)
    its bytes are damaged, or the disk fails here          it backs off; when its log directory goes offline the manager takes it out
    anything else while its data are taken over            it leaves the fetcher (`on_partition_failed`), until metadata add it again
    anything else while it is moved into range             it backs off

An error that only a program mistake can cause is also reported (`Runtime.report_failure`). The task
itself runs under a `Supervised`: whatever ends it is reported, and it starts again with the
partitions it has.

A leader that has not yet read metadata which we have read answers UNKNOWN_LEADER_EPOCH, or the
like. It needs only milliseconds, and a new leader's producers (acks=all) wait for us. So it is
asked again soon, and then at intervals that double up to the backoff (Kafka waits for the whole of
`replica.fetch.backoff.ms`, a second, and then for the request under way). There is one request at a
time; while such a partition waits, a request asks the leader to wait for news of the other
partitions only until that retry is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import replace

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import TopicPartition, java_string_hash
from kmirror.replica.fetcher_hooks import FetcherHooks
from kmirror.replica.leader_end_point import FetchData, LeaderEndPoint, LeaderUnavailableError, PartitionFetchState, RefusedByLeaderError
from kmirror.runtime.api import Runtime
from kmirror.runtime.supervision import Supervised

_log = logging.getLogger(__name__)

PASSING_ERRORS = frozenset((Errors.CORRUPT_MESSAGE, Errors.INVALID_RECORD, Errors.KAFKA_STORAGE_ERROR))
"""Errors on this side that may pass: the data may be sound when fetched again, and the owner
handles a disk that fails for good.
"""
LEADER_IS_BEHIND = frozenset(
    (Errors.UNKNOWN_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID)
)
"""Errors from a broker that has not yet read that it is the leader."""
FIRST_RETRY_MS = 10


def fetcher_id(topic_partition: TopicPartition, count: int) -> int:
    """Which of `count` fetchers has a partition (Kafka's `AbstractFetcherManager.getFetcherId`)."""
    value = 31 * java_string_hash(topic_partition.topic) + topic_partition.partition
    return (value & 0x7FFFFFFF) % count


class AbstractFetcher:
    """Owns the fetch states of its partitions, and the task. `name` is for logs; `backoff_ms` is
    how long a partition stays out after an error.
    """

    def __init__(self, runtime: Runtime, name: str, leader: LeaderEndPoint, hooks: FetcherHooks, *, backoff_ms: int) -> None:
        self.name = name
        self._runtime = runtime
        self._leader = leader
        self._hooks = hooks
        self._backoff_ms = backoff_ms
        self._states: dict[TopicPartition, PartitionFetchState] = {}
        self._due: dict[TopicPartition, PartitionFetchState] = {}
        self._delayed: dict[TopicPartition, None] = {}
        self._touched: dict[TopicPartition, None] = {}
        self._conditions = LastingConditions(_log, runtime.clock.monotonic_ms)
        self._was_throttled = False
        self._ask_all = False
        self._wake = asyncio.Event()
        self._life = Supervised(runtime, self._run, name=name, on_end=self._on_end)
        self._task: asyncio.Task[None] | None = None

    # --- partitions
    # -------------------------------------------------------------------------------------------------

    @property
    def partition_count(self) -> int:
        return len(self._states)

    def states(self) -> list[tuple[TopicPartition, PartitionFetchState]]:
        return list(self._states.items())

    def state(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        return self._states.get(topic_partition)

    def add_partitions(self, partitions: Mapping[TopicPartition, PartitionFetchState]) -> None:
        """Fetches these from now on; a partition that is already fetched in the same epoch keeps
        its position.
        """
        for topic_partition, state in partitions.items():
            known = self._states.get(topic_partition)
            if known is None or known.current_leader_epoch != state.current_leader_epoch or known.topic_id != state.topic_id:
                self._set(topic_partition, state)
        self._wake.set()

    def remove_partitions(self, partitions: list[TopicPartition]) -> dict[TopicPartition, PartitionFetchState]:
        """Stops fetching these at once; returns the states of those that were fetched."""
        removed = {topic_partition: self._remove(topic_partition) for topic_partition in partitions}
        return {topic_partition: state for topic_partition, state in removed.items() if state is not None}

    def _set(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        self._states[topic_partition] = state
        self._touched[topic_partition] = None
        if state.delayed_until_ms > self._runtime.clock.monotonic_ms():
            self._delayed[topic_partition] = None
            self._due.pop(topic_partition, None)
        else:
            self._delayed.pop(topic_partition, None)
            self._due[topic_partition] = state

    def _remove(self, topic_partition: TopicPartition) -> PartitionFetchState | None:
        self._due.pop(topic_partition, None)
        self._delayed.pop(topic_partition, None)
        self._conditions.forget(topic_partition)
        self._touched[topic_partition] = None
        return self._states.pop(topic_partition, None)

    # --- life
    # -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._task = self._life.start()

    @property
    def is_dead(self) -> bool:
        """Whether its task ended although nobody ended it, and has not been restarted."""
        return self._life.is_down

    def _on_end(self, error: Exception) -> None:
        """Has the next request carry everything, since what the leader was last told is unknown."""
        self._ask_all = True

    async def shutdown(self) -> None:
        """Stop the task and close the connection to the leader."""
        self.stop()
        await self._leader.close()

    def stop(self) -> None:
        """Stop the task, and nothing else."""
        for states in (self._states, self._due, self._delayed):
            states.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            await self.do_work()

    async def do_work(self) -> None:
        """One round: fetch what is due and deal with the answers, or wait until something is due."""
        now_ms = self._runtime.clock.monotonic_ms()
        self._end_delays(now_ms)
        if not self._due:
            await self._wait_until_due(now_ms)
            return
        asked, touched = self._what_to_ask()
        if not asked:
            await self._runtime.sleep_ms(self._backoff_ms)
            return
        try:
            answers = await self._leader.fetch(asked, touched, max_wait_ms=self._until_early_retry_ms(now_ms))
        except KmirrorError as error:
            _log.info("[%s] Error sending fetch request: %s", self.name, error)
            for topic_partition, state in [item for item in asked.items() if item[0] not in self._touched]:
                self._delay(topic_partition, state)
            return
        for topic_partition, data in answers.items():
            state_now = self._due.get(topic_partition)
            if state_now is not None and topic_partition not in self._touched:
                await self._process(topic_partition, state_now, data)
        for topic_partition in [tp for tp in self._hooks.unverified() if tp in self._due and tp in asked and tp not in answers]:
            if topic_partition not in self._touched:
                await self._process(topic_partition, self._due[topic_partition], None)

    def _end_delays(self, now_ms: int) -> None:
        for topic_partition in list(self._delayed):
            state = self._states[topic_partition]
            if state.delayed_until_ms <= now_ms:
                self._set(topic_partition, state)

    def _until_early_retry_ms(self, now_ms: int) -> int | None:
        """How long it is until a leader that was behind us is asked again; None when none was."""
        waiting = [state.delayed_until_ms - now_ms for state in map(self._states.__getitem__, self._delayed) if state.retry_ms]
        return min(waiting, default=None)

    def _what_to_ask(self) -> tuple[dict[TopicPartition, PartitionFetchState], Collection[TopicPartition] | None]:
        """The due partitions that no throttle holds back, and those touched since the last call."""
        touched: Collection[TopicPartition] | None
        touched, self._touched = self._touched, {}
        if not self._hooks.is_throttled:
            if self._was_throttled or self._ask_all:
                self._was_throttled, self._ask_all, touched = False, False, None
            return self._due, touched
        self._was_throttled = True
        return {tp: state for tp, state in self._due.items() if not self._hooks.must_wait(tp, state)}, None

    async def _wait_until_due(self, now_ms: int) -> None:
        self._wake.clear()
        timer = None
        if self._states:
            delay_ms = min(state.delayed_until_ms for state in self._states.values()) - now_ms
            timer = self._runtime.call_later_ms(max(1, delay_ms), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    # --- answers
    # ----------------------------------------------------------------------------------------------------

    async def _process(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData | None) -> None:
        try:
            if data is None:
                await self._look_for_the_end(topic_partition, state)
            elif data.error is Errors.NONE:
                self._process_data(topic_partition, state, data)
            elif data.error is Errors.OFFSET_OUT_OF_RANGE:
                await self._move_into_range(topic_partition, state)
            else:
                self._on_refusal(topic_partition, state, data.error)
        except RefusedByLeaderError as refusal:
            self._on_refusal(topic_partition, state, refusal.error)
        except LeaderUnavailableError as error:
            _log.info("[%s] %s: %s", self.name, topic_partition, error)
            self._delay(topic_partition, state)
        except (KmirrorError, OSError) as error:
            is_moving = data is not None and data.error is Errors.OFFSET_OUT_OF_RANGE
            self._on_failure(topic_partition, state, error, is_moving=is_moving)
        except Exception as error:  # noqa: BLE001 - reported: a mistake over one partition must not stop the others
            self._runtime.report_failure(f"[{self.name}] Unexpected error over partition {topic_partition}", error)
            self._fail(topic_partition, state, ApiException(Errors.UNKNOWN_SERVER_ERROR, repr(error)))

    def _on_refusal(self, topic_partition: TopicPartition, state: PartitionFetchState, error: Errors) -> None:
        """Handles an error from the leader. A mirror topic that was deleted and recreated has its
        source's id again, and its epochs start again: a leader that is behind still leads the old
        topic, in a higher epoch, so a fenced epoch may pass there.
        """
        if error is Errors.FENCED_LEADER_EPOCH and not self._hooks.may_epochs_begin_anew:
            self._fail(topic_partition, state, ApiException(error))
            return
        if error not in LEADER_IS_BEHIND:
            self._tell_once(topic_partition, f"the leader answered {error.name} at offset {state.fetch_offset}")
        self._delay(topic_partition, state, soon=error in LEADER_IS_BEHIND)

    def _on_failure(
        self, topic_partition: TopicPartition, state: PartitionFetchState, failure: KmirrorError | OSError, *, is_moving: bool
    ) -> None:
        """Handles an error on this side."""
        code = Errors.KAFKA_STORAGE_ERROR if isinstance(failure, OSError) else Errors.UNKNOWN_SERVER_ERROR
        error = failure if isinstance(failure, ApiException) else ApiException(code, str(failure))
        if is_moving or error.error in PASSING_ERRORS:
            self._tell_once(topic_partition, str(error))
            self._delay(topic_partition, state)
        else:
            self._fail(topic_partition, state, error)

    def _tell_once(self, topic_partition: TopicPartition, text: str) -> None:
        """Logs a failure once, until the partition is fetched again or fails for another reason."""
        self._conditions.tell(topic_partition, f"Error processing data for partition {topic_partition}: {text}", subject=f"[{self.name}]")

    def _process_data(self, topic_partition: TopicPartition, state: PartitionFetchState, data: FetchData) -> None:
        if data.diverging_epoch is not None:
            next_offset, last_epoch = self._hooks.truncate(topic_partition, data.diverging_epoch)
        else:
            next_offset, last_epoch = self._hooks.process_partition_data(topic_partition, state, data)
        self._advance(topic_partition, state, next_offset, last_epoch, data)

    def _advance(
        self, topic_partition: TopicPartition, state: PartitionFetchState, next_offset: int, last_epoch: int | None, data: FetchData
    ) -> None:
        if self._states.get(topic_partition) is state:
            self._conditions.end(topic_partition)
            advanced = replace(
                state,
                fetch_offset=next_offset,
                last_fetched_epoch=last_epoch,
                mirror_leader_epoch=self._hooks.next_mirror_leader_epoch(topic_partition, state, data),
                log_start_offset=self._hooks.log_start_offset(topic_partition),
                retry_ms=0,
                lag=max(0, data.high_watermark - next_offset),
            )
            self._set(topic_partition, advanced)

    async def _look_for_the_end(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Asks for the leader's end after an answer without news: its log may end where we asked,
        and an idle leader would never say so.
        """
        end_offset = await _offset(self._leader.fetch_latest_offset(topic_partition, state.current_leader_epoch))
        end_offset = min(end_offset, state.fetch_offset + 1)  # its log may go on with a hole that its cleaner left
        start_offset = await _offset(self._leader.fetch_earliest_offset(topic_partition, state.current_leader_epoch))
        if self._states.get(topic_partition) is state:
            nothing = FetchData(
                Errors.NONE, high_watermark=end_offset, log_start_offset=start_offset, mirror_leader_epoch=state.mirror_leader_epoch
            )
            self._process_data(topic_partition, state, nothing)

    async def _move_into_range(self, topic_partition: TopicPartition, state: PartitionFetchState) -> None:
        """Handles OFFSET_OUT_OF_RANGE: if our log ends after the leader's, cuts it to the leader's
        end; if the leader's log starts after our end, starts again there.
        """
        log_end_offset = self._hooks.log_end_offset(topic_partition)
        leader_end_offset = await _offset(self._leader.fetch_latest_offset(topic_partition, state.current_leader_epoch))
        if self._states.get(topic_partition) is not state:
            return
        if leader_end_offset < log_end_offset:
            _log.warning(
                "[%s] Reset fetch offset for partition %s from %d to current leader's latest offset %d",
                self.name,
                topic_partition,
                state.fetch_offset,
                leader_end_offset,
            )
            next_offset, last_epoch = self._hooks.truncate_to(topic_partition, leader_end_offset)
            self._set(topic_partition, replace(state, fetch_offset=next_offset, last_fetched_epoch=last_epoch))
            return
        leader_start_offset = await _offset(self._leader.fetch_earliest_offset(topic_partition, state.current_leader_epoch))
        if self._states.get(topic_partition) is not state:
            return
        next_offset = max(leader_start_offset, log_end_offset)
        last_epoch = state.last_fetched_epoch
        if leader_start_offset > log_end_offset:
            self._hooks.truncate_fully_and_start_at(topic_partition, leader_start_offset)
            last_epoch = None
        lag = max(0, leader_end_offset - next_offset)
        self._set(topic_partition, replace(state, fetch_offset=next_offset, last_fetched_epoch=last_epoch, lag=lag))

    def _delay(self, topic_partition: TopicPartition, state: PartitionFetchState, *, soon: bool = False) -> None:
        if self._states.get(topic_partition) is state:
            retry_ms = min(max(FIRST_RETRY_MS, 2 * state.retry_ms), self._backoff_ms) if soon else 0
            until_ms = self._runtime.clock.monotonic_ms() + (retry_ms or self._backoff_ms)
            self._set(topic_partition, replace(state, delayed_until_ms=until_ms, retry_ms=retry_ms))

    def _fail(self, topic_partition: TopicPartition, state: PartitionFetchState, error: ApiException) -> None:
        """Fails the partition, unless it was removed, or added in another epoch, while we waited:
        then the error does not concern it.
        """
        if self._states.get(topic_partition) is state:
            self._remove(topic_partition)
            self._hooks.on_partition_failed(topic_partition, error)


async def _offset(question: Awaitable[int]) -> int:
    """The leader's answer to a ListOffsets; its errors are kept apart from those on this side."""
    try:
        return await question
    except ApiException as error:
        raise RefusedByLeaderError(error.error) from error
