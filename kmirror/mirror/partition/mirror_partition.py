"""One mirrored partition that this broker leads: the driver of its state machine.

The driver is a loop of steps (`step_loop`). A step looks at the levels (state, `mirror.name`, what
the source was last seen to have), raises the event that they amount to, and executes the row that
`mirror_state_machine` has for it (`_take`): an action is a method (`MirrorActions`), a next state
is committed at the coordinator. If the row has nothing to do, it goes on with the work of the state
(`WORK`). If that has nothing to do either, it sleeps until it is woken: by a metadata update, a
refresh, its fetcher, or a retry. Nothing is remembered of events, so a crash, a leader change or a
lost wake-up costs time only.

    load state -> (D3-27..30 on gaining leadership) -> levels -> PREPARING: `Preparing.align` (D5)
                                                               -> STOPPING: `Stopping.stop` (D4)
                                                               -> MIRRORING: keep a fetcher

Its parts, each with a state of its own:

    status     the state at the coordinator, and why the partition does not go on   `mirror_partition_status`
    led        log, followers, leader epoch and topic settings on this side          `led_partition`
    progress   what fetchers heard from the source                                   `source_progress`
    actions    what the rows of the table do                                         `mirror_actions`

Work that waits for the source, which may be dead, is interrupted when the partition is to stop,
because a failover must not wait for it: aligning (D5), and looking for the source's leader. Every
failure has a reason, which DescribeMirrors, log lines and metrics show.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import ClassVar

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.metadata.registrations import RECOVERING, PartitionRegistration
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.fetch.source_progress import SourceProgress
from kmirror.mirror.logs.log_questions import Inquiry, Verdict
from kmirror.mirror.mirror_state_machine import MirrorEvent, MirrorGuard, MirrorPartitionState, Row, WantedState, lookup
from kmirror.mirror.partition.led_partition import LedPartition
from kmirror.mirror.partition.mirror_actions import MirrorActions
from kmirror.mirror.partition.mirror_partition_status import MirrorPartitionStatus
from kmirror.mirror.partition.mirror_services import MirrorServices
from kmirror.mirror.partition.preparing import Preparing
from kmirror.mirror.partition.step_loop import StepLoop
from kmirror.mirror.partition.stopping import Stopping
from kmirror.mirror.source.last_mirror_epoch import NotYetError
from kmirror.mirror.source.mirror import Mirror
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.replica.partition import Partition

_log = logging.getLogger(__name__)
_S = MirrorPartitionState
_E = MirrorEvent


class MirrorPartition:
    """The driver: owns the step loop, the partition's parts, and the events that are not handled
    yet. Call `start` once, `wake` at every change, `close` when the leadership is gone.
    """

    __slots__ = (
        "_actions",
        "_gained",
        "_has_source_configs",
        "_loop",
        "_preparing",
        "_recovering",
        "_rejected",
        "_services",
        "_source_deleted",
        "_stopping",
        "_storage_error",
        "_unclean",
        "_was_stopped",
        "id",
        "led",
        "partition",
        "progress",
        "status",
    )

    def __init__(
        self,
        services: MirrorServices,
        partition_id: MirrorPartitionId,
        partition: Partition,
        registration: PartitionRegistration,
        *,
        led_before_by: int = -1,
        was_stopped: bool = False,
    ) -> None:
        """`led_before_by`: another broker that led the partition until now; -1 where none is known.

        `was_stopped`: whether this broker led the partition as STOPPED until its state was lost.
        """
        self.id = partition_id
        self.partition = partition
        self.led = LedPartition(services, partition_id, partition)
        self.progress = SourceProgress()
        self.status = MirrorPartitionStatus(
            services.states, partition_id, leader_epoch=registration.leader_epoch, led_before_by=led_before_by
        )
        self._services = services
        self._loop = StepLoop(services.runtime, services.scope, self._try_step, name=partition_id.topic_partition)
        self._gained = True
        self._source_deleted = False
        self._has_source_configs = False
        self._was_stopped = was_stopped
        self._rejected: str | None = None
        self._storage_error: str | None = None
        self._recovering = self._unclean = registration.leader_recovery_state == RECOVERING
        self._preparing = Preparing(
            self.led,
            self._inquire,
            services.runtime.clock,
            safeguards=services.safeguards,
            cluster_id=services.cluster_id,
            replica_lag_time_max_ms=services.config.replica_lag_time_max_ms,
        )
        self._stopping = Stopping(self.led, self.status, self.progress, services.runtime.clock, safeguards=services.safeguards)
        self._actions = MirrorActions(services, self.led, self.status, self._stopping)

    # --- owner's side
    # -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._apply_read_only()
        self.wake()

    def wake(self) -> None:
        """Something may have changed: look at the levels again."""
        self._loop.wake()
        if self._loop.is_interruptible and self.led.wanted is WantedState.STOP and self.status.state in (_S.PREPARING, _S.MIRRORING):
            self._loop.interrupt()

    def on_refresh(self) -> None:
        """Looks at all levels again, once every refresh interval (C24). A partition that is copying
        normally is not woken.
        """
        is_copying = self.status.loaded and self.status.state is _S.MIRRORING and self._services.fetchers.owns(self.id.topic_partition)
        if not is_copying or self._source_deleted or self.led.wanted is not WantedState.RUN or self.mirror.is_suspended:
            self.wake()

    def on_source_deleted(self) -> None:
        """The source topic is unknown in two consecutive refreshes (D3-22)."""
        self._source_deleted = True
        self.wake()

    def on_source_present(self) -> None:
        self._source_deleted = False

    def on_metadata_update(self, registration: PartitionRegistration) -> None:
        """Takes a metadata update after which this broker still leads.

        A new leader epoch that was not our own bump means that the leadership was lost and regained
        in between, so the state is loaded again. After an unclean election the partition is aligned
        again (D5, D3-31). RECOVERING stays set until the ISR grows (at RF 1: forever), and means
        nothing after a bump of ours.
        """
        recovering = registration.leader_recovery_state == RECOVERING
        if self.status.note_leader_epoch(registration.leader_epoch):
            if not self.led.is_bumping:
                self._gained = True
                self._has_source_configs = self._was_stopped = False
                self._rejected = None  # of what another leader may have changed; what is still so is found again
                self.status.forget()
                self._apply_read_only()
            if recovering and not (self.led.is_bumping and self._recovering):
                self._unclean = True
        self._recovering = recovering
        if self.status.loaded:  # what is wanted may have changed, and with it whether it is about to be writable
            self._apply_read_only()
        self.led.on_metadata_update()
        self.wake()

    def resign(self) -> None:
        """Ends the driver, because the leadership is lost (D3-26).

        No record is written; the partition is taken from its fetcher, and pending work is
        cancelled. From now on this driver does not touch the log.
        """
        self._loop.end()
        self._end_fetching()
        self._services.conditions.forget(self.id.topic_partition)

    async def close(self) -> None:
        """Resign, and wait until what was under way has ended."""
        self.resign()
        await self._loop.close()

    @property
    def is_known_to_be_stopped(self) -> bool:
        """Whether the partition is STOPPED by what is stored, and this broker leads it as such."""
        return self.status.loaded and not self._gained and self.status.state is _S.STOPPED

    # --- for fetchers (`FetchTarget`)
    # ---------------------------------------------------------------------------------

    @property
    def mirror(self) -> Mirror:
        return self.led.mirror

    @property
    def max_truncation_records(self) -> int:
        """The limit that applies now: a topic counts as being added only in PREPARING, and not if
        it was MIRRORING until an unclean election here.
        """
        is_added = self.status.state is _S.PREPARING and not self.status.is_prepared_again
        return self.led.max_truncation_records(is_added=is_added)

    def cleaned_until(self) -> int:
        return self.led.cleaned_until()

    def note_cut(self) -> None:
        self.led.note_cut()

    def on_rejected(self, reason: str) -> None:
        """The source's data or answer is unusable for good (D3-16)."""
        self._rejected = reason
        self.wake()

    def on_progress(self) -> None:
        """The fetcher goes on, so the partition has no reason to show any more."""
        if self.status.reason is not None:
            self.status.set_reason(None)
            self._services.conditions.end(self.id.topic_partition)

    def on_delay(self, reason: str) -> None:
        self._actions.show(reason)

    def on_fetcher_gone(self, reason: str | None) -> None:
        """The fetcher gave the partition back: after a cut, or because its source broker failed
        (D3-13). If there is no reason, fetching begins again at once.
        """
        if reason is None:
            self.status.set_reason(None)
            self.wake()
        else:
            self._actions.show(reason)
            self._loop.wake_later(self._services.config.mirror_fetch_backoff_ms)

    def on_storage_error(self, reason: str) -> None:
        """A disk failed under the partition's log.

        Its directory goes offline, and the controller elects a replica that has one (D3-37).
        """
        self._storage_error = reason
        self.wake()

    # --- steps
    # --------------------------------------------------------------------------------------------------------

    async def _try_step(self) -> int | None:
        try:
            return await self._step()
        except (NotYetError, DisconnectError, RequestTimeoutError, UnsupportedVersionError) as error:
            return self._actions.retry(str(error) or type(error).__name__)
        except ApiException as error:
            if error.error is Errors.KAFKA_STORAGE_ERROR:
                return await self._storage_failed(error.message)
            retry_ms = self._actions.retry(str(error))
            return 0 if error.error is Errors.INVALID_REQUEST and not self.status.loaded else retry_ms
        except KmirrorError as error:
            return self._actions.retry(str(error))
        except OSError as error:
            return await self._storage_failed(str(error))

    async def _step(self) -> int | None:
        """One step. 0: step again at once; n: again after n ms or when woken; None: when woken."""
        if self.status.reason is None:
            self._services.conditions.end(self.id.topic_partition)
        if not self.status.loaded:
            return await self._load()
        if self._storage_error is not None:
            error, self._storage_error = self._storage_error, None
            return await self._storage_failed(error)
        if self._rejected is not None:
            return await self._fail()
        if self._gained:
            return await self._gain()
        if self._unclean:
            return await self._unclean_election()
        wanted = self.led.wanted
        if wanted is WantedState.NOT_MIRRORED:
            return None
        if wanted is WantedState.PAUSE and self.status.state is _S.UNKNOWN and self._was_stopped:
            wanted = WantedState.STOP  # its source topic is gone: what is STOPPED stays so (D3-20b)
        if wanted is not WantedState.STOP and self._source_deleted and self.status.state not in (_S.UNKNOWN, _S.STOPPING, _S.STOPPED):
            return await self._take(_E.SOURCE_TOPIC_DELETED)
        return await self._level(wanted)

    async def _fail(self) -> int:
        """Fails the partition, because the source's data or answer is unusable (D3-16).

        The reason is kept until FAILED is committed, or found to be committed: writing FAILED may
        fail too.
        """
        reason = self._rejected
        await self._take(_E.SOURCE_REJECTED, reason=reason)
        self.status.set_reason_of_failure(reason)
        self._rejected = None
        return 0

    async def _storage_failed(self, error: str) -> int | None:
        """Handles a failed disk: no state is written, because only this replica's disk failed
        (D3-37).

        What was to be done is tried again here, until another broker leads.
        """
        is_failed = self.status.state is _S.FAILED
        return await self._take(_E.STORAGE_FAILED, reason=self.status.reason or error if is_failed else error)

    async def _level(self, wanted: WantedState) -> int | None:
        row = lookup(self.status.state, wanted.event, await self._guard(wanted))
        return await self._work() if row.is_empty else await self._execute(row)

    async def _guard(self, wanted: WantedState) -> MirrorGuard:
        if self.status.state is _S.UNKNOWN and wanted is WantedState.STOP:
            done = self._was_stopped or await self._stopping.is_stopped_already()
            return MirrorGuard.RESET_IS_LAST if done else MirrorGuard.RESET_MISSING
        if self.status.state is _S.STOPPED and wanted is WantedState.RUN:
            same = await self.mirror.source_has_topic(self.id.topic, self.id.topic_id)
            self._source_deleted = self._source_deleted and not same
            return MirrorGuard.SOURCE_TOPIC_SAME if same else MirrorGuard.SOURCE_TOPIC_OTHER
        return MirrorGuard.ALWAYS

    async def _work(self) -> int | None:
        """Does the work of the current state; its completion is an event of its own."""
        work = self.WORK.get(self.status.state)
        if work is not None:
            return await work(self)
        if self.status.state is not _S.FAILED:  # what kept it from a state that is not wanted any more is no reason now
            self.status.set_reason(None)
        return None

    async def _prepare(self) -> int | None:
        retry_ms = await self._loop.interruptible(self._align)
        return 0 if retry_ms is None else retry_ms

    async def _align(self) -> int | None:
        status = self.status
        found = await self._preparing.align(stored_epoch=status.last_mirror_epoch, is_prepared_again=status.is_prepared_again)
        if found.event is _E.ALIGNED:
            await self._take_source_configs()
        return await self._take(found.event, found.guard, reason=found.reason)

    async def _take_source_configs(self) -> None:
        """Waits until the topic's configs are its source's. They may have changed while nothing was
        fetched here: before the first record, in a pause, before this broker led.
        """
        if self._services.safeguards.configs_before_records and not self._has_source_configs:
            await self._services.align_configs(self.id.mirror_name, self.id.topic)
        self._has_source_configs = True

    async def _begin_fetching(self) -> None:
        await self._take_source_configs()
        await self._services.fetchers.add_partition(self)

    async def _pause(self) -> int | None:
        self._end_fetching()
        return await self._take(_E.FETCHER_REMOVED)

    async def _stop(self) -> int | None:
        self._end_fetching()
        await self._stopping.stop()
        return await self._take(_E.STOP_COMPLETED)

    async def _keep_fetching(self) -> int | None:
        if self.mirror.is_suspended:
            self._has_source_configs = False
            self._end_fetching()
            self.status.set_reason(self.mirror.suspended_reason)
            return None
        if self._services.fetchers.owns(self.id.topic_partition):
            return None
        if self.led.is_bump_owed:
            await self.led.bump(self.partition.leader_epoch)
            await self._preparing.wait_for_replicas()
        try:
            await self._loop.interruptible(self._begin_fetching)
        except ApiException:
            raise  # of our own log: whoever made the step deals with it
        except KmirrorError as error:
            self._actions.show(str(error))
            return self._services.config.mirror_fetch_backoff_ms
        if not self._actions.tells_disk_failure:  # which the first append ends
            self.status.set_reason(None)
        return None

    async def _inquire(self, inquiry: Inquiry) -> Verdict:
        verdict = await self._services.fetchers.inquire(self, inquiry)
        if verdict is None:
            raise NotYetError("the source's topic was replaced by another one")
        return verdict

    def _end_fetching(self) -> None:
        """No fetcher touches the partition from now on."""
        self._services.fetchers.remove_partition(self.id.topic_partition)

    # --- transitions
    # --------------------------------------------------------------------------------------------------

    async def _load(self) -> int | None:
        retry_ms = await self.status.load(is_gained=self._gained)
        if self.status.loaded:
            if self.status.state is not _S.MIRRORING:  # a write of ours was refused: the partition moved on without us
                self._end_fetching()
            if not self._gained:
                self._apply_read_only()
        return retry_ms

    async def _gain(self) -> int | None:
        """Does what a new leader has to do in the state that it found (D3-27 to D3-30)."""
        guard = MirrorGuard.ALWAYS
        if self.status.state is _S.STOPPED:
            lost = self.led.wanted is not WantedState.RUN and await self._stopping.is_reset_lost()
            guard = MirrorGuard.RESET_LOST if lost else MirrorGuard.RESET_THERE
        await self._take(_E.LEADERSHIP_GAINED, guard)
        if self.status.loaded:  # else the leadership was lost and gained again meanwhile: begin anew
            self._gained = False
        self._apply_read_only()
        return 0

    async def _unclean_election(self) -> int:
        guard = MirrorGuard.UNCLEAN_SUPPORTED if self.led.unclean_supported else MirrorGuard.UNCLEAN_UNSUPPORTED
        await self._take(_E.UNCLEAN_ELECTION, guard, reason=guard.value)
        self._unclean = False
        return 0

    async def _take(self, event: MirrorEvent, guard: MirrorGuard = MirrorGuard.ALWAYS, *, reason: str | None = None) -> int | None:
        """Executes the table's row for an event.

        Returns when the next step is due: 0 at once, n after n ms, None when woken.
        """
        return await self._execute(lookup(self.status.state, event, guard), reason)

    async def _execute(self, row: Row, reason: str | None = None) -> int | None:
        """Executes a row. `reason`: the event's reason, if it has one; it is shown with FAILED, or
        while the partition waits.
        """
        for action in row.first:
            await self._actions.run(action, row, reason)
        if row.next_state is not None:
            await self._enter(row, row.next_state, reason if row.next_state is _S.FAILED else None)
        retry_ms: int | None = 0
        for action in row.then:
            retry_ms = await self._actions.run(action, row, reason)
        return retry_ms

    async def _enter(self, row: Row, next_state: MirrorPartitionState, reason: str | None) -> None:
        """Commit the row's next state, and adopt it."""
        previous, epoch = self.status.state, NO_EPOCH
        self._has_source_configs = self._has_source_configs and next_state is _S.MIRRORING and previous is _S.PREPARING
        if (next_state is _S.STOPPING and self.status.has_mirrored) or (next_state is _S.PREPARING and previous is _S.MIRRORING):
            self._end_fetching()
            epoch = await self._stopping.last_mirror_epoch_on_entry()
        await self.status.enter(next_state, reason=reason, last_mirror_epoch=epoch)
        if next_state in (_S.PREPARING, _S.MIRRORING):
            self._preparing.begin()
        level = logging.ERROR if next_state is _S.FAILED else logging.INFO
        name, suffix = f"{self.id.mirror_name}, {self.id.topic_partition}", f" ({reason})" if reason else ""
        _log.log(level, "mirror %s: %s -> %s by %s%s", name, previous.name, next_state.name, row.number, suffix)
        if not self._gained:
            self._apply_read_only()

    def _apply_read_only(self) -> None:
        """Sets the read-only flag for the current state. A new leader in STOPPED looks at the log
        before it lets clients write.
        """
        is_known = self.status.loaded and not (self._gained and self.status.state is _S.STOPPED)
        self.led.apply_read_only(self.status.state if is_known else _S.UNKNOWN)

    WORK: ClassVar[dict[MirrorPartitionState, Callable[[MirrorPartition], Awaitable[int | None]]]] = {
        _S.PREPARING: _prepare,
        _S.MIRRORING: _keep_fetching,
        _S.PAUSING: _pause,
        _S.STOPPING: _stop,
    }
