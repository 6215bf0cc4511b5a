"""One mirrored partition that this broker leads: the driver of its state machine.

The driver is a loop of steps (`step_loop`). A step looks at the levels (state, `mirror.name`, what the source was last seen to have), raises
the event that they amount to, and executes the row that `mirror_state_machine` has for it (`_take`): an action is a method
(`ACTIONS`), a next state is committed at the coordinator. Where nothing is to be done it goes on with the work of the state
(`WORK`). When that has nothing to do either it sleeps until it is woken: by a metadata update, a refresh, its fetcher, or a
retry. Nothing is remembered of events, so a crash, a leader change or a lost wake-up costs time only.

    load state -> (D3-27..30 on gaining leadership) -> levels -> PREPARING: `preparing.align` (D5)
                                                               -> STOPPING: `stopping.stop` (D4)
                                                               -> MIRRORING: keep a fetcher

Work that waits for the source, which may be dead, is interrupted when the partition shall stop, because a failover must not wait for it: D5,
and looking for the source's leader. Every failure has a reason that DescribeMirrors' log lines and metrics show.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import ClassVar

from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.metadata.mirror_names import association_of, is_unclean_election_supported, max_truncation_records
from kmirror.metadata.registrations import RECOVERING, PartitionRegistration
from kmirror.mirror import preparing, stopping
from kmirror.mirror.last_mirror_epoch import NotYetError, RejectedError
from kmirror.mirror.leader_epoch_bumper import EpochBump
from kmirror.mirror.mirror import Mirror
from kmirror.mirror.mirror_coordinator import MirrorPartitionId
from kmirror.mirror.mirror_coordinator_shard import StateWrite
from kmirror.mirror.mirror_services import MirrorPartitionStatus, MirrorServices
from kmirror.mirror.mirror_state_machine import (
    MirrorAction,
    MirrorEvent,
    MirrorGuard,
    MirrorPartitionState,
    Row,
    WantedState,
    lookup,
    wanted_state,
)
from kmirror.mirror.partition_wait import PartitionWait
from kmirror.mirror.source_progress import SourceProgress
from kmirror.mirror.step_loop import StepLoop
from kmirror.network.client import DisconnectError, RequestTimeoutError, UnsupportedVersionError
from kmirror.replica.partition import Partition, ReadOnlyReason
from kmirror.storage.unified_log import UnifiedLog

FIRST_LOAD_BACKOFF_MS = 100
MAX_LOAD_BACKOFF_MS = 5_000
MAX_REFUSALS = 8
DISK_FAILED = "a disk of this broker failed"

_log = logging.getLogger(__name__)
_S = MirrorPartitionState
_E = MirrorEvent


class MirrorPartition:
    """The driver. `start` once; `wake` at every change; `close` when the leadership is gone."""

    __slots__ = (
        "_bump_pending",
        "_bumping",
        "_gained",
        "_is_reason_unknown",
        "_led_before_by",
        "_led_from_epoch",
        "_load_backoff_ms",
        "_loop",
        "_recovering",
        "_refusals",
        "_rejected",
        "_services",
        "_source_deleted",
        "_storage_error",
        "_storage_error_told",
        "_unclean",
        "_wait",
        "id",
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
    ) -> None:
        """`led_before_by`: another broker that led the partition until now; -1 where none is known."""
        self.id = partition_id
        self.partition = partition
        self.progress = SourceProgress()
        self.status = MirrorPartitionStatus()
        self._services = services
        self._led_from_epoch = registration.leader_epoch
        self._gained = True
        self._load_backoff_ms = FIRST_LOAD_BACKOFF_MS
        self._loop = StepLoop(services.runtime, services.scope, self._try_step, name=partition_id.topic_partition)
        self._source_deleted = False
        self._bump_pending = False
        self._bumping = False
        self._refusals = 0
        self._rejected: str | None = None
        self._storage_error: str | None = None
        self._storage_error_told: str | None = None
        self._led_before_by = led_before_by
        self._is_reason_unknown = False
        self._recovering = self._unclean = registration.leader_recovery_state == RECOVERING
        self._wait = PartitionWait(services.runtime, partition, timeout_ms=services.config.mirror_truncation_backoff_ms)

    # --- owner's side -------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._apply_read_only()
        self.wake()

    def wake(self) -> None:
        """Something may have changed: look at the levels again."""
        self._loop.wake()
        if self._loop.is_interruptible and self.wanted is WantedState.STOP and self.status.state in (_S.PREPARING, _S.MIRRORING):
            self._loop.interrupt()

    def on_refresh(self) -> None:
        """Every refresh interval all levels are looked at again (C24). A partition that copies as it should has nothing to look at."""
        is_copying = self.status.loaded and self.status.state is _S.MIRRORING and self._services.fetchers.owns(self.id.topic_partition)
        if not is_copying or self._source_deleted or self.wanted is not WantedState.RUN or self.mirror.is_suspended:
            self.wake()

    def on_source_deleted(self) -> None:
        """The source topic is unknown in two consecutive refreshes (D3-22)."""
        self._source_deleted = True
        self.wake()

    def on_source_present(self) -> None:
        self._source_deleted = False

    def on_rejected(self, reason: str) -> None:
        """The source's data or answer is unusable for good (D3-16)."""
        self._rejected = reason
        self.wake()

    def on_progress(self) -> None:
        """The fetcher goes on: nothing keeps the partition from it."""
        self.status.reason = None

    def on_delay(self, reason: str) -> None:
        """The fetcher asks again after a while."""
        self.status.reason = reason

    def on_fetcher_gone(self, reason: str | None) -> None:
        """The fetcher gave the partition back: after a cut (no reason: at once) or because its source broker failed it (D3-13)."""
        self.status.reason = reason
        if reason is None:
            self.wake()
        else:
            self._loop.wake_later(self._services.config.mirror_fetch_backoff_ms)

    def on_storage_error(self, reason: str) -> None:
        """A disk failed under the partition's log. Its directory goes offline, and the controller elects a replica that has one (D3-37)."""
        self._storage_error = reason
        self.wake()

    def on_metadata_update(self, registration: PartitionRegistration) -> None:
        """This broker still leads. A leader epoch that no bump of ours explains means that the leadership was lost and gained
        in between: load the state again. An unclean election repeats D5 (D3-31); RECOVERING stays until the ISR grows, so at RF 1 for good,
        and says nothing after a bump of ours."""
        recovering = registration.leader_recovery_state == RECOVERING
        if registration.leader_epoch != self._led_from_epoch:
            self._led_from_epoch = registration.leader_epoch
            self._refusals = 0
            if not self._bumping:
                self._gained = True
                self._rejected = None  # of what another leader may have changed; what is still so is found again
                self.status.loaded = False
                self._apply_read_only()
            if recovering and not (self._bumping and self._recovering):
                self._unclean = True
        self._recovering = recovering
        self._wait.notify()
        self.wake()

    def note_cut(self) -> None:
        """The leader's log was cut: a bump is owed before anything is appended (D5 step 4)."""
        self._bump_pending = self._services.safeguards.bump_after_cut

    def resign(self) -> None:
        """D3-26: leadership lost. No record; the fetcher goes, pending work is cancelled. From now on nothing of this driver touches the log."""
        self._loop.end()
        self._services.fetchers.remove_partition(self.id.topic_partition)

    async def close(self) -> None:
        """Resign, and wait until what was under way has ended."""
        self.resign()
        await self._loop.close()

    # --- levels -------------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> WantedState:
        configs = self._services.image().configs.topic(self.id.topic)
        association = association_of(configs)
        if association is not None and association.mirror_name != self.id.mirror_name:
            return WantedState.NOT_MIRRORED
        return wanted_state(association)

    @property
    def unclean_supported(self) -> bool:
        """mirror.support.unclean.leader.election of the topic."""
        return is_unclean_election_supported(self._services.image().configs.topic(self.id.topic))

    @property
    def max_truncation_records(self) -> int:
        """mirror.max.truncation.records of the topic, or of its mirror. What is MIRRORING, or was so until an unclean election here, is added no more."""
        is_added = self.status.state is _S.PREPARING and not self.status.is_prepared_again
        return max_truncation_records(self._services.image().configs.topic(self.id.topic), self.mirror.configs, is_added=is_added)

    def cleaned_until(self) -> int:
        """How far our own cleaner has been through the log."""
        return self._services.replica_manager.log_manager.cleaned_until(self.log)

    @property
    def mirror(self) -> Mirror:
        return self._services.mirror(self.id.mirror_name)

    @property
    def services(self) -> MirrorServices:
        return self._services

    @property
    def bump_pending(self) -> bool:
        return self._bump_pending

    @property
    def log(self) -> UnifiedLog:
        return self.partition.leader_log

    # --- steps --------------------------------------------------------------------------------------------------------

    async def _try_step(self) -> int | None:
        try:
            return await self._step()
        except (NotYetError, DisconnectError, RequestTimeoutError, UnsupportedVersionError) as error:
            return self._failed(str(error) or type(error).__name__)
        except ApiException as error:
            if error.error is Errors.KAFKA_STORAGE_ERROR:
                return await self._storage_failed(error.message)
            retry_ms = self._failed(str(error))
            return 0 if error.error is Errors.INVALID_REQUEST and not self.status.loaded else retry_ms
        except KmirrorError as error:
            return self._failed(str(error))
        except OSError as error:
            return await self._storage_failed(str(error))

    def _failed(self, reason: str) -> int:
        if self.status.reason != reason:
            _log.warning("mirror %s, %s, %s: %s", self.id.mirror_name, self.id.topic_partition, self.status.state.name, reason)
        self.status.reason = reason
        return self._services.config.mirror_truncation_backoff_ms

    async def wait_until(self, problem: Callable[[], str | None]) -> None:
        """Until `problem()` is None; NotYetError with its text after mirror.truncation.backoff.ms."""
        await self._wait.until(problem)

    async def _step(self) -> int | None:
        """One step. 0: step again at once; n: again after n ms or when woken; None: when woken."""
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
        wanted = self.wanted
        if wanted is WantedState.NOT_MIRRORED:
            return None
        if wanted is not WantedState.STOP and self._source_deleted and self.status.state not in (_S.UNKNOWN, _S.STOPPING, _S.STOPPED):
            return await self._take(_E.SOURCE_TOPIC_DELETED)
        return await self._level(wanted)

    async def _fail(self) -> int:
        """D3-16. What is wrong is remembered until FAILED is committed, or found committed: the write of it may fail too."""
        reason = self._rejected
        await self._take(_E.SOURCE_REJECTED, reason=reason)
        if self.status.state is _S.FAILED and self._is_reason_unknown:
            self.status.reason, self._is_reason_unknown = reason, False
        self._rejected = None
        return 0

    async def _storage_failed(self, error: str) -> int | None:
        """D3-37: nothing is written, for it is this replica's disk. What was to be done is tried again, here until somebody else leads."""
        is_failed = self.status.state is _S.FAILED
        return await self._take(_E.STORAGE_FAILED, reason=self.status.reason or error if is_failed else error)

    async def _level(self, wanted: WantedState) -> int | None:
        row = lookup(self.status.state, wanted.event, await self._guard(wanted))
        return await self._work() if row.is_empty else await self._execute(row)

    async def _guard(self, wanted: WantedState) -> MirrorGuard:
        if self.status.state is _S.UNKNOWN and wanted is WantedState.STOP:
            done = await stopping.is_stopped_already(self)
            return MirrorGuard.RESET_IS_LAST if done else MirrorGuard.RESET_MISSING
        if self.status.state is _S.STOPPED and wanted is WantedState.RUN:
            same = await self.mirror.source_has_topic(self.id.topic, self.id.topic_id)
            self._source_deleted = self._source_deleted and not same
            return MirrorGuard.SOURCE_TOPIC_SAME if same else MirrorGuard.SOURCE_TOPIC_OTHER
        return MirrorGuard.ALWAYS

    async def _work(self) -> int | None:
        """The work of the state we are in; its completion is an event of its own."""
        work = self.WORK.get(self.status.state)
        if work is not None:
            return await work(self)
        if self.status.state is not _S.FAILED:  # what kept it from a state that is not wanted any more is no reason now
            self.status.reason = None
        return None

    async def _prepare(self) -> int | None:
        retry_ms = await self._loop.interruptible(self._align())
        return 0 if retry_ms is None else retry_ms

    async def _align(self) -> int | None:
        try:
            await preparing.align(self)
        except RejectedError as error:
            return await self._take(_E.SOURCE_REJECTED, reason=str(error))
        except preparing.ReplicasMissingError as error:
            guard = MirrorGuard.DEADLINE_PASSED if error.deadline_passed else MirrorGuard.DEADLINE_AHEAD
            return await self._take(_E.REPLICAS_MISSING, guard, reason=str(error))
        return await self._take(_E.ALIGNED)

    async def _end_fetching(self) -> int | None:
        self._services.fetchers.remove_partition(self.id.topic_partition)
        return await self._take(_E.FETCHER_REMOVED)

    async def _stop(self) -> int | None:
        await stopping.stop(self)
        return await self._take(_E.STOP_COMPLETED)

    async def _keep_fetching(self) -> int | None:
        if self.mirror.is_suspended:
            self._services.fetchers.remove_partition(self.id.topic_partition)
            self.status.reason = self.mirror.suspended_reason
            return None
        if self._services.fetchers.owns(self.id.topic_partition):
            return None
        if self._bump_pending:
            await self.bump(self.partition.leader_epoch)
            await preparing.wait_for_replicas(self)
        try:
            await self._loop.interruptible(self._services.fetchers.add_partition(self))
        except ApiException:
            raise  # of our own log: whoever made the step deals with it
        except KmirrorError as error:
            self.status.reason = str(error)
            return self._services.config.mirror_fetch_backoff_ms
        if self.status.reason != self._storage_error_told:  # which the first append ends
            self.status.reason = None
        return None

    # --- transitions --------------------------------------------------------------------------------------------------

    async def _load(self) -> int | None:
        led_from_epoch = self._led_from_epoch
        try:
            stored = await self._services.states.read_one(self.id)
        except (ApiException, DisconnectError, RequestTimeoutError, OSError) as error:
            self.status.reason = f"the coordinator did not answer: {error}"
            delay_ms = self._load_backoff_ms
            self._load_backoff_ms = min(2 * delay_ms, MAX_LOAD_BACKOFF_MS)
            return delay_ms
        self._load_backoff_ms = FIRST_LOAD_BACKOFF_MS
        if self._led_from_epoch != led_from_epoch:
            return 0  # somebody else may have led after the question: what was answered may have passed
        self.status.state = stored.state
        self.status.last_mirror_epoch = stored.last_mirror_epoch
        self.status.stored_offset = stored.offset
        is_own_stop = stored.state is _S.STOPPING and self.status.has_mirrored and not self._gained
        self.status.has_mirrored = stored.has_mirrored or is_own_stop or stored.state in (_S.MIRRORING, _S.PAUSING, _S.PAUSED)
        self.status.loaded = True
        self.status.reason = self._loaded_failure(stored.reason) if stored.state is _S.FAILED else None
        if stored.state is not _S.MIRRORING:  # a write of ours was refused: the partition moved on without us
            self._services.fetchers.remove_partition(self.id.topic_partition)
        if not self._gained:
            self._apply_read_only()
        return self._delay_after_refusal_ms()

    def _loaded_failure(self, stored: str | None) -> str:
        """Why a partition is FAILED that was so when it was loaded; said once by each leader. No record has room for it: the coordinator
        remembers it while it lives."""
        who = f"broker {self._led_before_by}" if self._led_before_by >= 0 else "the broker that led the partition then"
        reason = stored or f"the reason is not known here; the log of {who} says it"
        if self.status.reason is None or stored is not None:
            _log.error("mirror %s, %s is FAILED: %s", self.id.mirror_name, self.id.topic_partition, reason)
        self._is_reason_unknown = stored is None
        return reason

    def _delay_after_refusal_ms(self) -> int:
        """None after the first: the state that was loaded says why. Refused again, we wait for the coordinator to read the metadata that we
        act on (D3-4); nothing else tells when it has, so we ask soon, and then ever later."""
        return min(FIRST_LOAD_BACKOFF_MS << (self._refusals - 2), MAX_LOAD_BACKOFF_MS) if self._refusals > 1 else 0

    async def _gain(self) -> int | None:
        """D3-27 to D3-30: what a new leader does with the state that it found."""
        guard = MirrorGuard.ALWAYS
        if self.status.state is _S.STOPPED:
            lost = self.wanted is not WantedState.RUN and await stopping.is_reset_lost(self)
            guard = MirrorGuard.RESET_LOST if lost else MirrorGuard.RESET_THERE
        await self._take(_E.LEADERSHIP_GAINED, guard)
        if self.status.loaded:  # else the leadership was lost and gained again meanwhile: begin anew
            self._gained = False
        self._apply_read_only()
        return 0

    async def _unclean_election(self) -> int:
        guard = MirrorGuard.UNCLEAN_SUPPORTED if self.unclean_supported else MirrorGuard.UNCLEAN_UNSUPPORTED
        await self._take(_E.UNCLEAN_ELECTION, guard, reason=guard.value)
        self._unclean = False
        return 0

    async def _take(self, event: MirrorEvent, guard: MirrorGuard = MirrorGuard.ALWAYS, *, reason: str | None = None) -> int | None:
        """Execute what the table has for an event. When the next step is due: 0 at once, n after n ms, None when woken."""
        return await self._execute(lookup(self.status.state, event, guard), reason)

    async def _execute(self, row: Row, reason: str | None = None) -> int | None:
        """`reason`: why, where the event says it; it is shown with FAILED, or while the partition waits."""
        for action in row.first:
            await self.ACTIONS[action](self, row, reason)
        if row.next_state is not None:
            await self._enter(row, row.next_state, reason if row.next_state is _S.FAILED else None)
        retry_ms: int | None = 0
        for action in row.then:
            retry_ms = await self.ACTIONS[action](self, row, reason)
        return retry_ms

    async def _enter(self, row: Row, next_state: MirrorPartitionState, reason: str | None) -> None:
        """Commit the row's next state, and adopt it."""
        previous = self.status.state
        if next_state is _S.STOPPING and self.status.has_mirrored:
            await stopping.enter(self)
        elif previous is _S.MIRRORING and next_state is _S.PREPARING:
            await stopping.enter(self, next_state)
        else:
            await self.write_state(StateWrite(self.id.topic, self.id.partition, next_state, reason=reason))
        self.status.state = next_state
        self.status.reason = reason
        self.status.is_prepared_again = self.status.is_prepared_again and next_state is _S.PREPARING
        if next_state in (_S.PREPARING, _S.MIRRORING):
            self.status.has_mirrored = next_state is _S.MIRRORING
            self.status.missing_since_ms = None
        level = logging.ERROR if next_state is _S.FAILED else logging.INFO
        suffix = f" ({reason})" if reason else ""
        name = f"{self.id.mirror_name}, {self.id.topic_partition}"
        _log.log(level, "mirror %s: %s -> %s by %s%s", name, previous.name, next_state.name, row.number, suffix)
        if not self._gained:
            self._apply_read_only()

    # --- actions: what is done, and when the next step is due -----------------------------------------------------------

    async def _bump_if_needed(self, row: Row, reason: str | None) -> int | None:
        await stopping.bump_if_needed(self)
        return 0

    async def _log_illegal(self, row: Row, reason: str | None) -> int | None:
        _log.error("%s: %s in state %s must not happen; nothing is done", self.id.topic_partition, row.event.name, row.state.name)
        return 0

    async def _log_unclean(self, row: Row, reason: str | None) -> int | None:
        if len(self.partition.assigned_replicas) > 1:  # else its one replica is the log
            _log.warning("%s: elected uncleanly while mirroring; %s", self.id.topic_partition, reason)
        return 0

    async def _pause_name(self, row: Row, reason: str | None) -> int | None:
        """Before the state, so that nothing starts PREPARING again without an operator (B5)."""
        if self.wanted is WantedState.RUN:
            await self.mirror.pause_name(self.id.topic)
        return 0

    async def _prepare_again(self, row: Row, reason: str | None) -> int | None:
        self.status.is_prepared_again = True
        return 0

    async def _remove_fetcher(self, row: Row, reason: str | None) -> int | None:
        self._services.fetchers.remove_partition(self.id.topic_partition)
        return 0

    async def _retry(self, row: Row, reason: str | None) -> int | None:
        return self._failed(reason or row.guard.value)

    async def _rewrite_state(self, row: Row, reason: str | None) -> int | None:
        if self._services.safeguards.state_rewritten_on_election:
            await self.write_state(StateWrite(self.id.topic, self.id.partition, self.status.state, rewrite=True))
        return 0

    async def _tell_disk_failure(self, row: Row, error: str | None) -> int | None:
        reason = f"{DISK_FAILED}: {error}; it goes on when a replica with a healthy disk leads, or when the log directory is back"
        if self._storage_error_told != reason or self.status.reason is None:  # None: it went on in between
            self._storage_error_told = reason
            _log.error("mirror %s, %s, %s: %s", self.id.mirror_name, self.id.topic_partition, self.status.state.name, reason)
        self.status.reason = reason
        return self._services.config.mirror_truncation_backoff_ms

    async def _wait_for_change(self, row: Row, reason: str | None) -> int | None:
        self.status.reason = reason or row.guard.value
        return None

    async def _write_reset_again(self, row: Row, reason: str | None) -> int | None:
        await stopping.stop(self)
        return 0

    ACTIONS: ClassVar[dict[MirrorAction, Callable[[MirrorPartition, Row, str | None], Awaitable[int | None]]]] = {
        MirrorAction.BUMP_IF_NEEDED: _bump_if_needed,
        MirrorAction.LOG_ILLEGAL: _log_illegal,
        MirrorAction.LOG_UNCLEAN: _log_unclean,
        MirrorAction.PAUSE_NAME: _pause_name,
        MirrorAction.PREPARE_AGAIN: _prepare_again,
        MirrorAction.REMOVE_FETCHER: _remove_fetcher,
        MirrorAction.RETRY: _retry,
        MirrorAction.REWRITE_STATE: _rewrite_state,
        MirrorAction.TELL_DISK_FAILURE: _tell_disk_failure,
        MirrorAction.WAIT: _wait_for_change,
        MirrorAction.WRITE_RESET_AGAIN: _write_reset_again,
    }
    WORK: ClassVar[dict[MirrorPartitionState, Callable[[MirrorPartition], Awaitable[int | None]]]] = {
        _S.PREPARING: _prepare,
        _S.MIRRORING: _keep_fetching,
        _S.PAUSING: _end_fetching,
        _S.STOPPING: _stop,
    }

    # --- writes -------------------------------------------------------------------------------------------------------

    async def write_state(self, write: StateWrite) -> None:
        """Commit at the coordinator. INVALID_REQUEST means that it knows another state; after any other error the state may be stored all the
        same, now or later. So load it, and look again. A disk that fails there is not this partition's."""
        try:
            known = write._replace(follows=self.status.stored_offset, leader_epoch=self._led_from_epoch)
            offset = await self._services.states.write_one(self.id, known)
        except BaseException as error:
            self.status.loaded = False
            code = error.error if isinstance(error, ApiException) else None
            if code is Errors.INVALID_REQUEST:
                self._refusals = min(self._refusals + 1, MAX_REFUSALS)
            if code is Errors.KAFKA_STORAGE_ERROR or isinstance(error, OSError):
                raise NotYetError(f"the coordinator cannot write: {error}") from error
            raise
        self.status.stored_offset = offset
        self._refusals = 0

    async def store_last_mirror_epoch(self, epoch: int) -> None:
        """D4 step 5."""
        await self.write_state(StateWrite(self.id.topic, self.id.partition, last_mirror_epoch=epoch))

    async def bump(self, min_leader_epoch: int) -> None:
        """Have the controller raise the leader epoch above `min_leader_epoch`, and wait until this broker leads in it."""
        self._bumping = True
        try:
            await self.request_bump(min_leader_epoch)
            await self.wait_until(lambda: self._bump_problem(min_leader_epoch))
        finally:
            self._bumping = False
        self._bump_pending = False

    async def request_bump(self, min_leader_epoch: int) -> None:
        """BumpLeaderEpochs at the controller, not awaiting the epoch."""
        await self._services.bumper.bump(EpochBump(self.id.topic, self.id.topic_id, self.id.partition, min_leader_epoch))

    def _bump_problem(self, min_leader_epoch: int) -> str | None:
        if self.partition.is_leader and self.partition.leader_epoch > min_leader_epoch:
            return None
        return f"the leader epoch is still {self.partition.leader_epoch}, not above {min_leader_epoch}"

    def _apply_read_only(self) -> None:
        """D1: writable in STOPPED alone; retriable until the state is known (C38)."""
        if not self._services.safeguards.read_only_enforced:
            self.partition.set_read_only(None)
        elif not self.status.loaded or self.status.state is _S.UNKNOWN or (self._gained and self.status.state is _S.STOPPED):
            self.partition.set_read_only(ReadOnlyReason.MIRROR_STATE_UNKNOWN)
        else:
            self.partition.set_read_only(ReadOnlyReason.MIRROR_TOPIC if self.status.state.read_only else None)
