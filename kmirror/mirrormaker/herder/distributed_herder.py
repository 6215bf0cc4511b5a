"""One worker of a group, kept running (Connect's `DistributedHerder`).

It makes the topics of its group, that of source offsets too, and then joins. A worker that fails, for
example since its cluster is away, begins again; what it does while it lives is in `worker`.

What users and other workers ask over HTTP is answered here (`herder.Herder`): from the topics of configs
and status, or by writing there. The leader alone writes what runs; a request for that goes to it. Who
writes reads it back, and so do the other workers, which then do what it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kmirror.common.health import Health, joined
from kmirror.mirrormaker.connect_offsets import TOPIC_IDS
from kmirror.mirrormaker.connector_validation import connector_class
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan, MakePlan
from kmirror.mirrormaker.herder.herder import (
    BAD_REQUEST,
    CONFLICT,
    INTERNAL_SERVER_ERROR,
    NOT_FOUND,
    ConnectorInfo,
    ConnectorStateInfo,
    HerderError,
    RequestTargetError,
    RestartRequest,
    SourceOffset,
    TargetState,
    TaskInfo,
    WorkerStatus,
    after_restart,
    not_stopped,
    patched,
)
from kmirror.mirrormaker.herder.rebalance_metrics import Rebalances
from kmirror.mirrormaker.herder.request_signatures import RequestSignature
from kmirror.mirrormaker.herder.source_offsets import check_offsets, read_offsets, write_offsets
from kmirror.mirrormaker.herder.status_backing_store import StoredStatuses
from kmirror.mirrormaker.herder.worker import Worker
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupConfig
from kmirror.mirrormaker.herder.worker_health import NOT_LOOKED_AT
from kmirror.mirrormaker.herder.worker_setup import Peers, WorkerSetup
from kmirror.mirrormaker.internal_topics import create_compacted_topic, require_only_compact
from kmirror.mirrormaker.kept_running import KeptRunning, Status, health_of
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.task_transactions import transactional_id
from kmirror.mirrormaker.worker_config import WorkerConfig, kafka_cluster_id, open_admin
from kmirror.runtime.api import Runtime

CONFIG_PARTITIONS: Final = 1
SETTLED_MS: Final = 60_000
SETTLING_POLL_MS: Final = 50
_log = logging.getLogger(__name__)


class DistributedHerder:
    """`plans` are the connectors of a properties file; with none the topic of configs says what runs. A
    config is stored once `validate` has not refused it with HerderError.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        worker: WorkerConfig,
        plans: Sequence[ConnectorPlan],
        make_plan: MakePlan,
        *,
        validate: Callable[[Mapping[str, str]], object] = lambda _: None,
        tracks_topics: bool = False,
        on_logger_level: Callable[[str, str], object] = lambda namespace, level: None,
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._worker = worker
        self._validate = validate
        group = WorkerGroupConfig(worker.group_props(f"{name}|group"), runtime)
        self.rebalances = Rebalances(runtime.clock, group.protocol.name.lower())
        self.startups = WorkerStartups(runtime.clock)
        self._setup = WorkerSetup(
            name,
            name,
            worker,
            group,
            {plan.name: plan for plan in plans},
            make_plan,
            self.rebalances,
            self.startups,
            tracks_topics=tracks_topics,
            on_logger_level=on_logger_level,
        )
        self._life = KeptRunning(runtime, f"{name}|worker", self._live)
        self._work: Worker | None = None
        self._was_member = False
        self._turn = asyncio.Lock()

    def reach(self, peers: Peers) -> None:
        """Before the start: workers of the group can ask each other."""
        self._setup = replace(self._setup, peers=peers)

    def name_worker(self, worker_id: str) -> None:
        """Before the start: what statuses call this worker."""
        self._setup = replace(self._setup, worker_id=worker_id)

    @property
    def statuses(self) -> list[Status]:
        """Of the worker, of its connectors, of its tasks."""
        return [self._life.status, *(self._work.statuses if self._work is not None else ())]

    @property
    def units(self) -> dict[str | ConnectorTaskId, Status]:
        """The connectors and tasks that run here."""
        return {} if self._work is None else self._work.units

    def readiness(self) -> Health:
        """Returns whether what should run at this worker is known, and runs."""
        life = health_of([self._life.status])
        if self._work is None:
            return joined(
                [life, Health([f"{self.name}: the worker has not begun, so what should run here is not known"], (), NOT_LOOKED_AT)]
            )
        return joined([life, self._work.health()])

    def start(self) -> None:
        self._life.start()

    async def stop(self) -> None:
        """Stops connectors, then tasks, which store what they have copied; leaves the group."""
        await self._life.stop()

    async def _live(self, status: Status) -> None:
        await self._create_topics()
        self._work = life = Worker(self._runtime, self._setup, status)
        try:
            await life.run()
        finally:
            self._was_member = self.is_ready()
            await life.end()
            self._work = None

    async def _create_topics(self) -> None:
        worker = self._worker
        admin = open_admin(self._runtime, worker.client("admin", f"{self.name}|worker-admin"))
        try:
            for topic, partitions, factor, keeps in (
                (worker.offset_storage_topic, worker.offset_storage_partitions, worker.offset_storage_replication_factor, "source offsets"),
                (worker.config_storage_topic, CONFIG_PARTITIONS, worker.config_storage_replication_factor, "configurations"),
                (worker.status_storage_topic, worker.status_storage_partitions, worker.status_storage_replication_factor, "statuses"),
            ):
                if not await create_compacted_topic(admin, topic, partitions=partitions, replication_factor=factor):
                    await require_only_compact(admin, topic, keeps)
        finally:
            admin.close()

    # What there is

    async def connectors(self) -> list[str]:
        return list((await self._settled()).configs.state.connectors)

    async def connector_info(self, connector: str) -> ConnectorInfo:
        return self._info(await self._settled(), connector)

    async def task_infos(self, connector: str) -> list[TaskInfo]:
        work = await self._settled()
        self._known(work, connector)
        state = work.configs.state
        return [TaskInfo(task, state.task_config(task)) for task in state.tasks(connector)]

    def _info(self, work: Worker, connector: str) -> ConnectorInfo:
        self._known(work, connector)
        state = work.configs.state
        return ConnectorInfo(connector, dict(state.connectors[connector]), state.tasks(connector))

    async def connector_status(self, connector: str) -> ConnectorStateInfo:
        stored = await self._statuses()
        status = stored.connectors.get(connector)
        if status is None:
            raise HerderError(NOT_FOUND, f"No status found for connector {connector}")
        return ConnectorStateInfo(connector, status, _tasks_of(stored, connector))

    async def task_status(self, task: ConnectorTaskId) -> WorkerStatus:
        status = (await self._statuses()).tasks.get(task)
        if status is None:
            raise HerderError(NOT_FOUND, f"No status found for task {task}")
        return status

    async def _statuses(self) -> StoredStatuses:
        """What all workers have written, this one just now."""
        work = self._living()
        await work.report()
        await work.status_store.refresh()
        return work.status_store.stored

    # What it is configured with

    async def put_connector_config(
        self, connector: str, config: Mapping[str, str], *, allow_replace: bool, target_state: TargetState | None = None
    ) -> tuple[bool, ConnectorInfo]:
        self._validate(config)
        async with self._turn:
            work = await self._leader("Only the leader can set connector configs.")
            exists = connector in work.configs.state.connectors
            if exists and not allow_replace:
                raise HerderError(CONFLICT, f"Connector {connector} already exists")
            await work.configs.put_connector_config(connector, config, target_state)
            return not exists, ConnectorInfo(connector, dict(config), work.configs.state.tasks(connector))

    async def patch_connector_config(self, connector: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        work = await self._leader("Only the leader can set connector configs.")
        self._known(work, connector)
        config = patched(work.configs.state.connectors[connector], patch)
        return (await self.put_connector_config(connector, config, allow_replace=True))[1]

    async def delete_connector_config(self, connector: str) -> None:
        async with self._turn:
            work = await self._leader("Only the leader can delete connector configs.")
            self._known(work, connector)
            await work.configs.remove_connector_config(connector)

    async def set_target_state(self, connector: str, state: TargetState) -> None:
        async with self._turn:
            work = self._living()
            self._known(work, connector, f"Unknown connector {connector}")
            if state is TargetState.STOPPED:
                work = await self._leader("Only the leader can transition connectors to the STOPPED state.")
                await work.write_tasks(connector, [])  # first: without a state, the connector writes its tasks anew
            await work.configs.put_target_state(connector, state)
            work.assign_changed_tasks()

    # Restarts

    async def restart_connector(self, connector: str) -> None:
        work = await self._settled()
        self._known(work, connector, f"Unknown connector: {connector}")
        if not await work.restart([connector]):
            self._refuse_unassigned(work, connector, "connector", "Only the leader can process restart requests.")

    async def restart_task(self, task: ConnectorTaskId) -> None:
        work = await self._settled()
        self._known(work, task.connector, f"Unknown connector: {task.connector}")
        if task not in work.configs.state.tasks(task.connector):
            raise HerderError(NOT_FOUND, f"Unknown task: {task}")
        if not await work.restart([task]):
            self._refuse_unassigned(work, task, "task", "Cannot restart task since it is not assigned to this member")

    def _refuse_unassigned(self, work: Worker, of: str | ConnectorTaskId, what: str, not_leader: str) -> None:
        if work.leads:
            raise RequestTargetError(f"Cannot restart {what} since it is not assigned to this member", work.owner_url(of))
        raise RequestTargetError(not_leader, work.leader_url)

    async def restart_connector_and_tasks(self, request: RestartRequest) -> ConnectorStateInfo:
        self._known(await self._settled(), request.connector, f"Unknown connector: {request.connector}")
        work = await self._leader("Only the leader can process restart requests.")
        stored = await self._statuses()
        status = stored.connectors.get(request.connector)
        tasks = _tasks_of(stored, request.connector)
        await work.configs.put_restart_request(request)
        if status is None:
            raise HerderError(NOT_FOUND, f"Status for connector {request.connector} not found")
        return after_restart(ConnectorStateInfo(request.connector, status, tasks), request)

    # Topics and offsets

    async def connector_active_topics(self, connector: str) -> list[str]:
        return (await self._statuses()).topics(connector)

    async def reset_connector_active_topics(self, connector: str) -> None:
        await self._statuses()
        await self._living().status_store.remove_active_topics(connector)

    async def connector_offsets(self, connector: str) -> list[SourceOffset]:
        self._known(self._living(), connector)
        return await read_offsets(self._runtime, self._worker.offset_storage_topic, self._offsets_consumer(), connector)

    async def alter_connector_offsets(self, connector: str, offsets: Sequence[SourceOffset]) -> str:
        if not offsets:
            raise HerderError(INTERNAL_SERVER_ERROR, "The offsets to be altered may not be null or empty")
        return await self._modify_offsets(connector, offsets)

    async def reset_connector_offsets(self, connector: str) -> str:
        return await self._modify_offsets(connector, None)

    async def _modify_offsets(self, connector: str, offsets: Sequence[SourceOffset] | None) -> str:
        async with self._turn:
            await self._settled()  # nothing runs then that was stopped before
            work = await self._leader("Only the leader can process external offsets modification requests")
            await work.configs.refresh()
            self._require_stopped(work, connector)
            exact = self._worker.is_exactly_once and work.plans.is_source(connector)
            if exact:
                await work.fence(connector)
                self._require_stopped(work, connector)
            topic = self._worker.offset_storage_topic
            if offsets is None:
                offsets = [(source, None) for source, _ in await read_offsets(self._runtime, topic, self._offsets_consumer(), connector)]
                ids = await read_offsets(self._runtime, topic, self._offsets_consumer(), TOPIC_IDS)
                done = "reset"
            else:
                check_offsets(connector_class(work.configs.state.connectors[connector]), offsets)
                ids, done = [], "altered"
            if offsets:
                producer = self._worker.client("producer", f"{self.name}|{connector}-offsets-producer")
                own = transactional_id(self._worker.group_id, connector, 0) if exact else None
                await write_offsets(self._runtime, topic, producer, connector, offsets, own)
                gone: list[SourceOffset] = [(source, None) for source, _ in ids if source and source.get("connector") == connector]
                await write_offsets(self._runtime, topic, producer, TOPIC_IDS, gone, None)
            return f"The offsets for this connector have been {done} successfully"

    def _require_stopped(self, work: Worker, connector: str) -> None:
        self._known(work, connector)
        state = work.configs.state
        if state.target_state(connector) is not TargetState.STOPPED or state.tasks(connector):
            raise not_stopped(connector)

    def _offsets_consumer(self) -> dict[str, str]:
        return self._worker.storage_consumer(f"{self.name}|offsets-reader")

    # The worker

    async def kafka_cluster_id(self) -> str:
        return await kafka_cluster_id(self._runtime, self._worker.client("admin", f"{self.name}|worker-admin"))

    def health(self) -> str | None:
        if self._work is None or not self._work.is_member:
            return self._life.status.described()
        return None

    def is_ready(self) -> bool:
        return self._was_member or (self._work is not None and self._work.is_member)

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        await self._living().configs.put_logger_level(namespace, level)

    # Between workers

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        self._living().require_signed(signature)
        work = await self._leader("Only the leader may write task configurations.")
        self._known(work, connector)
        if configs and work.configs.state.target_state(connector) is TargetState.STOPPED:
            raise HerderError(BAD_REQUEST, f"Cannot submit non-empty set of task configs for stopped connector {connector}")
        await work.write_tasks(connector, configs)
        work.assign_changed_tasks()

    async def fence_zombie_source_tasks(self, connector: str, signature: RequestSignature | None) -> None:
        self._living().require_signed(signature)
        work = await self._leader("Only the leader may perform zombie fencing.")
        self._known(work, connector)
        await work.fence(connector)

    def _living(self) -> Worker:
        if self._work is None:
            raise HerderError(INTERNAL_SERVER_ERROR, f"The worker {self.name} is not running: {self._life.status.described()}")
        return self._work

    async def _settled(self) -> Worker:
        """Waits until the group is assigned."""
        return await self._until(lambda work: work.is_settled)

    async def _leader(self, refusal: str) -> Worker:
        """Waits until it is known who leads."""
        work = await self._until(lambda work: not work.joins)
        if not work.leads:
            raise RequestTargetError(refusal, work.leader_url)
        return work

    async def _until(self, condition: Callable[[Worker], bool]) -> Worker:
        deadline_ms = self._runtime.clock.monotonic_ms() + SETTLED_MS
        while not condition(self._living()):
            if self._runtime.clock.monotonic_ms() > deadline_ms:
                raise HerderError(
                    CONFLICT,
                    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)",
                )
            await self._runtime.sleep_ms(SETTLING_POLL_MS)
        return self._living()

    def _known(self, work: Worker, connector: str, refusal: str | None = None) -> None:
        if connector not in work.configs.state.connectors:
            raise HerderError(NOT_FOUND, refusal or f"Connector {connector} not found")


def _tasks_of(stored: StoredStatuses, connector: str) -> dict[int, WorkerStatus]:
    return {task.task: status for task, status in sorted(stored.tasks.items()) if task.connector == connector}
