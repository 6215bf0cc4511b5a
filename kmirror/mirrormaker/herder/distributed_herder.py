"""One worker of a group, kept running (Connect's `DistributedHerder`).

It makes the topics of its group, that of source offsets too, and then joins. A worker that fails, for
example since its cluster is away, begins again; what it does while it lives is in `worker`.

What other workers ask of this one over HTTP is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan, MakePlan
from kmirror.mirrormaker.herder.herder import BAD_REQUEST, INTERNAL_SERVER_ERROR, NOT_FOUND, HerderError, RequestTargetError, TargetState
from kmirror.mirrormaker.herder.worker import Peers, Worker, WorkerSetup
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupConfig
from kmirror.mirrormaker.internal_topics import create_compacted_topic
from kmirror.mirrormaker.kept_running import KeptRunning, Status
from kmirror.mirrormaker.worker_config import WorkerConfig, open_admin
from kmirror.runtime.api import Runtime

CONFIG_PARTITIONS: Final = 1


class DistributedHerder:
    def __init__(
        self, runtime: Runtime, name: str, worker: WorkerConfig, plans: Sequence[ConnectorPlan], make_plan: MakePlan, *, worker_id: str = ""
    ) -> None:
        self.name = name
        self._runtime = runtime
        self._worker = worker
        self._setup = WorkerSetup(
            name,
            worker_id or name,
            worker,
            WorkerGroupConfig(worker.group_props(f"{name}|group"), runtime),
            {plan.name: plan for plan in plans},
            make_plan,
        )
        self._life = KeptRunning(runtime, f"{name}|worker", self._live)
        self._work: Worker | None = None

    def reach(self, peers: Peers) -> None:
        """Before the start: workers of the group can ask each other."""
        self._setup = replace(self._setup, peers=peers)

    @property
    def statuses(self) -> list[Status]:
        """Of the worker, of its connectors, of its tasks."""
        return [self._life.status, *(self._work.statuses if self._work is not None else ())]

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
            await life.end()
            self._work = None

    async def _create_topics(self) -> None:
        worker = self._worker
        admin = open_admin(self._runtime, worker.client("admin", f"{self.name}|worker-admin"))
        try:
            for topic, partitions, factor in (
                (worker.offset_storage_topic, worker.offset_storage_partitions, worker.offset_storage_replication_factor),
                (worker.config_storage_topic, CONFIG_PARTITIONS, worker.config_storage_replication_factor),
                (worker.status_storage_topic, worker.status_storage_partitions, worker.status_storage_replication_factor),
            ):
                await create_compacted_topic(admin, topic, partitions=partitions, replication_factor=factor)
        finally:
            admin.close()

    # Between workers

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        work = self._leader("Only the leader may write task configurations.")
        self._known(work, connector)
        if configs and work.configs.state.target_state(connector) is TargetState.STOPPED:
            raise HerderError(BAD_REQUEST, f"Cannot submit non-empty set of task configs for stopped connector {connector}")
        await work.write_tasks(connector, configs)
        work.assign_changed_tasks()

    async def fence_zombie_source_tasks(self, connector: str) -> None:
        work = self._leader("Only the leader may perform zombie fencing.")
        self._known(work, connector)
        await work.fence(connector)

    def _living(self) -> Worker:
        if self._work is None:
            raise HerderError(INTERNAL_SERVER_ERROR, f"The worker {self.name} is not running: {self._life.status.described()}")
        return self._work

    def _leader(self, refusal: str) -> Worker:
        work = self._living()
        if not work.leads:
            raise RequestTargetError(refusal, work.leader_url)
        return work

    def _known(self, work: Worker, connector: str) -> None:
        if connector not in work.configs.state.connectors:
            raise HerderError(NOT_FOUND, f"Connector {connector} not found")
