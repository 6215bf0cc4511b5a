"""The active controller of a one-voter quorum (Kafka's `QuorumController`).

A request becomes a write event: a manager, a pure function of (image, soft state, request), returns
a `ControllerResult`; its records are appended to the metadata log as one batch and replayed at
once, so that the next event sees them; the response waits until the log is flushed. With one voter,
flushed means committed.

One task, the pump, runs the events: it takes all waiting ones, decides and appends them one after
the other, flushes once for all of them on a worker, and answers. Nothing is appended while a flush
runs, so the worker has the log to itself, and requests that arrive meanwhile share the next flush.
Snapshots of the image are written in parallel to the pump (`snapshot_generator`). A failed flush
fails the controller for good, because nobody can tell what of the unacknowledged records is on the
disk.

`image` is the state including every appended record; apart from it, the managers' only state is the
brokers' heartbeats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kmirror.common.errors import ApiException, Errors, KmirrorError, disk_error_advice, disk_error_text
from kmirror.common.uuid import Uuid
from kmirror.controller.acl_control_manager import AclControlManager
from kmirror.controller.activation_records import activation_records
from kmirror.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from kmirror.controller.client_quota_control_manager import ClientQuotaControlManager
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.configuration_control_manager import ConfigurationControlManager
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.delegation_token_control_manager import DelegationTokenControlManager
from kmirror.controller.feature_control_manager import FeatureControlManager
from kmirror.controller.late_work import LateWork
from kmirror.controller.metadata_log import MetadataLog, MetadataLogConfig
from kmirror.controller.mirror_control_manager import MirrorControlManager
from kmirror.controller.periodic_tasks import PeriodicTasks
from kmirror.controller.producer_id_control_manager import ProducerIdControlManager
from kmirror.controller.replication_control_manager import ReplicationControlManager
from kmirror.controller.scram_control_manager import ScramControlManager
from kmirror.controller.snapshot_generator import SnapshotGenerator
from kmirror.metadata.image import METADATA_VERSION_FEATURE, MetadataImage, MetadataProvenance
from kmirror.metadata.loader import MetadataLoader
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.runtime.api import Runtime, TaskScope, TimerHandle
from kmirror.storage.ports import LogDirFailures, LogPorts
from kmirror.wire.messages import controller_registration
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.voters_record import Endpoint as VoterEndpoint
from kmirror.wire.messages.voters_record import KRaftVersionFeature, Voter
from kmirror.wire.primitives import ProtocolWriteError

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _WriteEvent(NamedTuple):
    name: str
    decide: Callable[[], ControllerResult[Any]]
    future: asyncio.Future[Any]
    queued_ms: int


class QuorumController:
    """Create, `await start()`, `await write(...)`; `await stop()` closes the log cleanly."""

    def __init__(self, config: ControllerConfig, runtime: Runtime) -> None:
        self.config = config
        self.runtime = runtime
        self.loader = MetadataLoader()
        self.state = ControllerState(config, runtime.clock, runtime.random, BrokerHeartbeatManager(config.broker_session_timeout_ms))
        self.loader.install_publisher(self.state.name_collisions)
        self.loader.install_publisher(self.state.lookups)
        self.cluster = ClusterControlManager(self.state)
        self.configuration = ConfigurationControlManager(self.state)
        self.replication = ReplicationControlManager(self.state, self.cluster, self.configuration)
        self.features = FeatureControlManager(self.state, self.configuration)
        self.client_quotas = ClientQuotaControlManager(self.state)
        self.acls = AclControlManager(self.state)
        self.scram = ScramControlManager(self.state)
        self.delegation_tokens = DelegationTokenControlManager(self.state)
        self.producer_ids = ProducerIdControlManager(self.state, self.cluster)
        self.mirrors = MirrorControlManager(self.state, self.configuration, self.replication)
        self.incarnation_id = Uuid.random(runtime.random)
        self._log: MetadataLog | None = None
        self._late_work = LateWork(runtime)
        self._late_timer: TimerHandle | None = None
        self._queue: list[_WriteEvent] = []
        self._wake = asyncio.Event()
        self._high_watermark_waiters: list[asyncio.Future[None]] = []
        self._tasks = TaskScope(runtime, f"controller-{config.node_id}", on_failure=self._on_task_failure)
        self._failure: BaseException | None = None
        self._closing = False
        self._pump_done: asyncio.Future[None] | None = None
        self.appended_at_ms = 0
        """When records were last appended, by the monotonic clock."""
        self.snapshots = SnapshotGenerator(config, runtime, self._tasks, on_written=self._wake.set)
        self.periodic = PeriodicTasks(
            config,
            runtime,
            self,
            self._tasks,
            heartbeats=self.state.heartbeats,
            cluster=self.cluster,
            replication=self.replication,
            delegation_tokens=self.delegation_tokens,
        )
        self.on_event: Callable[[int, int], None] | None = None
        """Called after every event with the time that it waited (ms) and the time that it took
        (ns)."""
        self.on_fatal: Callable[[str], None] | None = None
        """Called once with the reason when this controller fails: its log cannot be written, or a
        record cannot be applied."""
        self._has_ended = False
        self.events_started = 0
        self._program_errors = 0

    # ---- start and stop

    async def start(self) -> None:
        """Opens the log, replays it, begins a new epoch, writes the bootstrap records on the first
        start, and registers itself.

        Raises CorruptFileError if the log or a snapshot is inconsistent, and KmirrorError, which
        says what to do, if the disk fails.
        """
        try:
            await self._start()
        except (OSError, ApiException) as error:
            failure = self._failure or error
            if isinstance(failure, OSError):
                raise KmirrorError(self._disk_failed(failure)) from error
            raise

    def _disk_failed(self, error: OSError) -> str:
        return (
            f"Metadata log directory {self.config.metadata_log_dir} has failed: {disk_error_text(error)}. "
            f"No data in it was removed; {disk_error_advice(error)} and start again"
        )

    async def _start(self) -> None:
        self._log = await self.runtime.run_blocking(self._open_log)
        self._replay_log()
        await self.runtime.run_blocking(self.log.become_leader)
        self._refresh()
        now = self.runtime.clock.monotonic_ms()
        self.appended_at_ms = self.snapshots.generated_at_ms = now
        for broker in self.image.cluster.brokers.values():
            self.state.heartbeats.register(broker.id, broker.epoch, fenced=broker.fenced)
            if not broker.fenced:
                self.state.heartbeats.grant_session(broker.id, now)
        self._pump_done = self.runtime.create_future()
        self._tasks.spawn(self._pump(), name="pump")
        if METADATA_VERSION_FEATURE not in self.image.features.finalized_levels:
            bootstrap = activation_records(self.config, self.runtime.files, self.features.check_known)
            await self.write("bootstrap", lambda: ControllerResult(bootstrap, None))
        await self.write("registerController", lambda: self.cluster.register_controller(self._registration_request()))
        self.periodic.start()

    def _open_log(self) -> MetadataLog:
        runtime = self.runtime
        ports = LogPorts(runtime.files, runtime.clock, runtime.random, self._late_work, LogDirFailures(self._on_log_dir_failure))
        config = self.config
        log_config = MetadataLogConfig(
            node_id=config.node_id,
            segment_bytes=config.metadata_segment_bytes,
            segment_ms=config.metadata_segment_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )
        return MetadataLog.open(config.metadata_log_dir, ports, log_config)

    def _replay_log(self) -> None:
        snapshot = self.log.latest_snapshot()
        if snapshot is not None and snapshot.records:
            snapshot_id = self.log.snapshots[-1]
            provenance = MetadataProvenance(snapshot_id.end_offset - 1, snapshot_id.epoch, snapshot.last_contained_log_timestamp)
            self.loader.handle_load_snapshot(snapshot.records, provenance)
        for batch in self.log.batches():
            self.loader.handle_commit(batch.memory)
        self._refresh()
        self.features.check_known(self.image.features.finalized_levels)

    def _registration_request(self) -> controller_registration.ControllerRegistrationRequest:
        return controller_registration.ControllerRegistrationRequest(
            controller_id=self.config.node_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                controller_registration.Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in self.config.listeners
            ],
            features=[
                controller_registration.Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in self.features.supported().items()
            ],
        )

    async def kill(self) -> None:
        """Ends the tasks and closes the log's files as they are: nothing is flushed."""
        self._closing = True
        await self._tasks.cancel()
        self._refuse_waiting(ApiException(Errors.NOT_CONTROLLER, "The controller was killed."))
        self._end_late_work()
        if self._log is not None:
            log, self._log = self._log, None
            log.kill()

    async def stop(self) -> None:
        """Lets the running event finish, ends the tasks, flushes and closes the log. Waiting events
        are refused."""
        self._closing = True
        self._wake.set()
        if self._pump_done is not None:
            await self._pump_done
        await self.snapshots.finish()
        await self._tasks.cancel()
        self._refuse_waiting(ApiException(Errors.NOT_CONTROLLER, "The controller is shutting down."))
        self._end_late_work()
        if self._log is not None:
            log, self._log = self._log, None
            await self.runtime.run_blocking(log.close)

    def _end_late_work(self) -> None:
        """Leaves waiting work to the next start: its files have the suffix by which a log removes
        them when it is opened."""
        if self._late_timer is not None:
            self._late_timer.cancel()
            self._late_timer = None

    # ---- state

    @property
    def log(self) -> MetadataLog:
        assert self._log is not None, "the controller is not running"
        return self._log

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    @property
    def epoch(self) -> int:
        """The leader epoch of the metadata log."""
        return self.log.leader_epoch

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def fault_count(self) -> int:
        """How many events, tasks and snapshots have failed (Kafka's MetadataErrorCount)."""
        return self._program_errors + self.snapshots.error_count

    @property
    def is_active(self) -> bool:
        return self._log is not None and self._failure is None and not self._closing

    def _refresh(self) -> None:
        self.state.image = self.loader.image
        self.state.log_end_offset = self.log.log_end_offset
        self.state.kraft_version = self.log.kraft_version

    # ---- write events

    async def write(self, name: str, decide: Callable[[], ControllerResult[T]]) -> T:
        """Runs one write event; returns its response once its records are durable. Raises
        ApiException if the manager refuses, NOT_CONTROLLER after a failure."""
        if not self.is_active:
            raise ApiException(Errors.NOT_CONTROLLER, Errors.NOT_CONTROLLER.message)
        future: asyncio.Future[T] = self.runtime.create_future()
        self._queue.append(_WriteEvent(name, decide, future, self.runtime.clock.monotonic_ms()))
        self._wake.set()
        return await future

    async def _pump(self) -> None:
        try:
            while not self._closing:
                await self._wake.wait()
                self._wake.clear()
                await self._run_events()
                self.snapshots.clean_up(self.log)
                self._run_late_work()
                if self._failure is not None:
                    self._fail(self._failure)  # nobody else would hear of a failure of late work (the flush after a roll)
        finally:
            if self._pump_done is not None and not self._pump_done.done():
                self._pump_done.set_result(None)

    def _run_late_work(self) -> None:
        next_ms = self._late_work.run_due()
        if self._late_timer is not None:
            self._late_timer.cancel()
        self._late_timer = None if next_ms is None else self.runtime.call_later_ms(next_ms, self._wake.set)

    async def _run_events(self) -> None:
        events, self._queue = self._queue, []
        answers: list[tuple[asyncio.Future[Any], Any]] = []
        complete = False
        try:
            answers = [(event.future, self._decide(event)) for event in events if not event.future.done()]
            await self._flush()
            complete = True
        finally:
            if not complete:
                self._refuse([event.future for event in events], self._failure)
        for future, response in answers:
            if not future.done():
                future.set_result(response)
        self.snapshots.maybe_generate(self.log, self.image)

    def _decide(self, event: _WriteEvent) -> Any:
        self.events_started += 1
        if self.on_event is None:
            return self._decide_now(event)
        clock = self.runtime.clock
        queued_ms, started_ns = clock.monotonic_ms() - event.queued_ms, clock.monotonic_ns()
        response = self._decide_now(event)
        self.on_event(queued_ms, clock.monotonic_ns() - started_ns)
        return response

    def _decide_now(self, event: _WriteEvent) -> Any:
        try:
            result = event.decide()
        except ApiException as error:
            event.future.set_exception(error)
            return None
        except Exception as error:  # noqa: BLE001 - reported: nothing is appended yet, so only this event fails
            self.runtime.report_failure(f"the controller failed to process {event.name}", error)
            self._program_errors += 1
            event.future.set_exception(ApiException(Errors.UNKNOWN_SERVER_ERROR))
            return None
        if result.kraft_version is not None:
            self.log.upgrade_kraft_version(result.kraft_version, self._voter())
        try:
            self._append(result.records)
        except ProtocolWriteError as error:  # raised before anything is appended
            _log.error("%s: a record cannot be written: %s", event.name, error)
            event.future.set_exception(ApiException(Errors.UNKNOWN_SERVER_ERROR, Errors.UNKNOWN_SERVER_ERROR.message))
            return None
        if any(_allows_unclean_elections(record.message) for record in result.records):
            self._append(self.replication.elections.elect_unclean().records)
        return result.response

    def _voter(self) -> Voter:
        """Returns this node as the quorum's only voter, in the form in which a dynamic quorum
        stores it."""
        config = self.config
        return Voter(
            voter_id=config.node_id,
            voter_directory_id=Uuid.from_string(config.directory_id) if config.directory_id else Uuid.ZERO,
            endpoints=[VoterEndpoint(name=e.name, host=e.host, port=e.port) for e in config.listeners],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )

    def _append(self, records: list[ApiMessageAndVersion]) -> None:
        if not records:
            return
        time_ms = self.runtime.clock.time_ms()
        before = self.log.size
        offset = self.log.append(records, time_ms=time_ms)
        self.snapshots.note_appended(self.log.size - before)
        self.appended_at_ms = self.runtime.clock.monotonic_ms()
        self.loader.handle_records([record.message for record in records], MetadataProvenance(offset, self.log.leader_epoch, time_ms))
        self._refresh()

    async def _flush(self) -> None:
        if self.log.log_end_offset == self.log.high_watermark:
            return
        try:
            await self.runtime.run_blocking(self.log.flush)
        except (OSError, ApiException) as error:
            self._fail(error)
            raise
        self._wake_waiters()

    def _wake_waiters(self) -> None:
        waiters, self._high_watermark_waiters = self._high_watermark_waiters, []
        for waiter in waiters:
            _wake(waiter)

    async def wait_for_high_watermark(self, offset: int, timeout_ms: int) -> None:
        """Returns when the high watermark has passed `offset`, or after `timeout_ms`."""
        if self.high_watermark > offset or timeout_ms <= 0:
            return
        waiter: asyncio.Future[None] = self.runtime.create_future()
        self._high_watermark_waiters.append(waiter)
        timer = self.runtime.call_later_ms(timeout_ms, lambda: _wake(waiter))
        try:
            await waiter
        finally:
            timer.cancel()
            self._high_watermark_waiters = [other for other in self._high_watermark_waiters if other is not waiter]

    # ---- failure

    def _on_log_dir_failure(self, log_dir: str, message: str, error: OSError) -> None:
        """Only takes note, since it may be called on a worker: the append or flush that failed
        raises to the pump."""
        self._failure = self._failure or error

    def _on_task_failure(self, name: str, error: BaseException) -> None:
        self._program_errors += 1
        self._fail(error)
        if not isinstance(self._failure, OSError):
            self.runtime.report_failure(f"task {name} of the controller failed", error)

    def _fail(self, error: BaseException) -> None:
        """Fails for good and ends the node, as in Kafka: a controller that cannot write, or cannot
        apply what it wrote, must not appear to work."""
        if self._failure is None:
            self._failure = error
        if not self._has_ended:
            self._has_ended = True
            if isinstance(self._failure, OSError):
                text = self._disk_failed(self._failure)
                _log.error("%s", text)
            else:
                text = f"it failed: {self._failure!r}"
            if self.on_fatal is not None:
                self.on_fatal(f"Shutdown controller: {text}")
        self._refuse_waiting(self._failure if isinstance(self._failure, OSError) else error)

    def _refuse_waiting(self, error: BaseException) -> None:
        events, self._queue = self._queue, []
        self._refuse([event.future for event in events], error)
        self._wake_waiters()

    @staticmethod
    def _refuse(futures: list[asyncio.Future[Any]], error: BaseException | None) -> None:
        for future in futures:
            if not future.done():
                future.set_exception(ApiException(Errors.NOT_CONTROLLER, f"The controller failed: {error}"))


def _allows_unclean_elections(record: Any) -> bool:
    """Whether the record switches unclean elections on for a topic or for all: partitions without a
    leader then need not wait for the next periodic election."""
    return isinstance(record, ConfigRecord) and record.name == "unclean.leader.election.enable" and record.value == "true"


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
