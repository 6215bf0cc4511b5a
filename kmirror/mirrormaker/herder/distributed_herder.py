"""One worker of a flow (Connect's `DistributedHerder` with its `Worker`).

Workers agree on what runs by the topic of configs. The leader of their group writes it: first what
the connectors are configured with, from its own properties file; then, with each connector running
at the leader, what its tasks are. Whenever that changes the leader has the group assigned anew, and
every worker runs the tasks it is given.

    leader      connectors, task configs, shutting out former tasks, assignment
    all         tasks

Tasks stop before a worker joins again, so none runs twice; connectors stay with a leader that stays
one. A worker that was alone in its group goes on copying while it joins: it is the leader again, and
stops what others get before it assigns. Tasks whose configuration is the same go on then. The leader
waits until each connector that starts has said what its tasks are, SETTLE_MS at most, before it has
the group assigned anew.

With exactly-once support, tasks of a new set of configs start only after all tasks before it were
shut out (KIP-618): the leader does it before it assigns, and notes it in the topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.config_backing_store import LEADERS_ID_PREFIX, ConfigBackingStore
from kmirror.mirrormaker.herder.connect_protocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    NOT_USED,
    Assignment,
    ConnectorTaskId,
    WorkerState,
    assign_eagerly,
    deserialize_metadata,
    serialize_assignment,
    serialize_metadata,
)
from kmirror.mirrormaker.herder.status_backing_store import StatusBackingStore
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupConfig, WorkerGroupMember
from kmirror.mirrormaker.internal_topics import create_compacted_topic
from kmirror.mirrormaker.kept_running import KeptRunning, Status, Work
from kmirror.mirrormaker.scheduler import Job, run_regularly
from kmirror.mirrormaker.task_transactions import fence_former_tasks
from kmirror.mirrormaker.worker_config import WorkerConfig, open_admin
from kmirror.runtime.api import Runtime, TaskScope, run_together
from kmirror.runtime.supervision import Supervised

CONFIG_PARTITIONS: Final = 1
STATUS_INTERVAL_MS: Final = 1_000
SETTLE_MS: Final = 3_000
"""A connector whose source cannot be reached says nothing; tasks of others do not wait for it."""
_log = logging.getLogger(__name__)


class Connector(Protocol):
    """What a herder needs of a connector. `task_properties` are what each task has besides the
    properties of the connector.
    """

    async def start(self) -> None: ...
    def jobs(self) -> list[Job]: ...
    def task_properties(self) -> Sequence[Mapping[str, str]]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class ConnectorPlan:
    """A connector that the flow has. `properties` are as written in the file, references of config
    providers included; `make` gets what to call when the tasks are to be asked for again, `make_task`
    a task's properties and number.
    """

    name: str
    label: str
    properties: Mapping[str, str]
    make: Callable[[Callable[[], object]], Connector]
    make_task: Callable[[Mapping[str, str], int], Work]
    admin_timeout_ms: int = 60_000
    is_source: bool = False


class DistributedHerder:
    """Keeps one worker of a flow running. It makes the topics of its group, that of source offsets
    too, before it joins.
    """

    def __init__(self, runtime: Runtime, name: str, worker: WorkerConfig, plans: Sequence[ConnectorPlan]) -> None:
        self.name = name
        self._runtime = runtime
        self._worker = worker
        self._group_config = WorkerGroupConfig(worker.group_props(f"{name}|group"), runtime)
        self._plans = {plan.name: plan for plan in plans}
        self._life = KeptRunning(runtime, f"{name}|worker", self._live)
        self._work: Worker | None = None

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
        self._work = life = Worker(self._runtime, self.name, self._worker, self._group_config, self._plans, status)
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


class Worker:
    """A worker from its start to its end. Implements `WorkerRebalanceListener`."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        worker: WorkerConfig,
        group: WorkerGroupConfig,
        plans: Mapping[str, ConnectorPlan],
        status: Status,
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._worker = worker
        self._plans = plans
        self._status = status
        self._configs = ConfigBackingStore(
            runtime,
            worker.config_storage_topic,
            consumer=worker.storage_consumer(f"{name}|configs-consumer"),
            producer=worker.client("producer", f"{name}|configs-producer"),
            transactional_id=f"{LEADERS_ID_PREFIX}{worker.group_id}" if worker.is_exactly_once else None,
        )
        producer = worker.client("producer", f"{name}|status-producer")
        self._reports = StatusBackingStore(runtime, worker.status_storage_topic, producer=producer, worker_id=name)
        self._member = WorkerGroupMember(runtime, group, self, status.heard)
        self._scope = TaskScope(runtime, f"{name}|worker")
        self._connectors: dict[str, KeptRunning] = {}
        self._tasks: dict[ConnectorTaskId, tuple[Mapping[str, str], KeptRunning]] = {}
        self._asked: set[str] = set()
        self._changed_ms: int | None = None
        self._generation = 0
        self._leads = False
        self._is_alone = False

    @property
    def statuses(self) -> list[Status]:
        return [*(one.status for one in self._connectors.values()), *(task.status for _, task in self._tasks.values())]

    async def run(self) -> None:
        await self._configs.start()
        self._scope.spawn(Supervised(self._runtime, self._report, name=f"{self._name}|status").run(), name="status")
        await self._member.run()

    async def end(self) -> None:
        await self._give_up()
        await self._scope.cancel()
        await self._member.close()
        await self._configs.close()
        await self._reports.close()

    # WorkerRebalanceListener

    def metadata(self) -> bytes:
        return serialize_metadata(WorkerState(NOT_USED, self._configs.offset))

    async def before_join(self) -> None:
        self._changed_ms = None
        if not (self._leads and self._is_alone):
            await self._stop(list(self._tasks), [])

    async def on_lost(self) -> None:
        self._leads = False
        await self._give_up()

    async def assign(self, member_id: str, members: Sequence[tuple[str, bytes]]) -> dict[str, bytes]:
        if len(members) > 1:
            await self._stop(list(self._tasks), [])
        if not self._leads:
            await self._configs.claim_write_privileges()
            self._leads = True
        self._is_alone = len(members) == 1
        await self._configs.refresh()
        await self._write_connectors()
        await self._fence()
        state = self._configs.state
        tasks = [task for name in self._plans for task in state.tasks(name)]
        assigned = assign_eagerly(member_id, NOT_USED, self._configs.offset, [member for member, _ in members], self._plans, tasks)
        ahead = max(deserialize_metadata(metadata).offset for _, metadata in members)
        if ahead > self._configs.offset:
            mismatch = Assignment(member_id, NOT_USED, ahead, error=CONFIG_MISMATCH)
            assigned = dict.fromkeys(assigned, mismatch)
        return {member: serialize_assignment(one) for member, one in assigned.items()}

    async def on_assigned(self, assignment: Assignment, generation: int, *, leads: bool) -> None:
        self._generation, self._leads = generation, leads
        self._is_alone = self._is_alone and leads
        if self._configs.offset < assignment.offset or assignment.error != NO_ERROR:
            await self._configs.refresh()
        if self._configs.offset < assignment.offset or assignment.error != NO_ERROR:
            await self._give_up()
            self._member.rejoin("the worker had not read the configs of its assignment")
            return
        _log.info(
            "[%s] Joined group at generation %d: %d connectors, %d tasks%s",
            self._name, generation, len(assignment.connectors), len(assignment.tasks), ", leads" if leads else "",
        )  # fmt: skip
        await self._run(assignment)

    # The leader

    async def _write_connectors(self) -> None:
        """The leader's file says what the connectors are (Apache's `configureConnectors`)."""
        for name, plan in self._plans.items():
            if self._configs.state.connectors.get(name) != plan.properties:
                await self._configs.put_connector_config(name, plan.properties)

    async def _fence(self) -> None:
        """Shuts out the tasks before those of the last commit."""
        state = self._configs.state
        pending = [plan.name for plan in self._plans.values() if plan.is_source and state.pending_fencing(plan.name)]
        if not self._worker.is_exactly_once or not pending:
            return
        await self._stop([task for task in self._tasks if task.connector in pending], [])
        admin: AdminClient = open_admin(self._runtime, self._worker.client("admin", f"{self._name}|fencing-admin"))
        try:
            for name in pending:
                count = len(state.tasks(name))
                await fence_former_tasks(admin, self._worker.group_id, name, max(count, 1))
                await self._configs.put_task_count_record(name, count)
        finally:
            admin.close()

    async def _publish(self, plan: ConnectorPlan, connector: Connector) -> None:
        """Writes what the connector's tasks are, if that is news."""
        tasks = [{**plan.properties, **own} for own in connector.task_properties()]
        if self._configs.state.task_configs(plan.name) != tasks:
            await self._configs.put_task_configs(plan.name, tasks)
            self._changed_ms = self._changed_ms or self._runtime.clock.monotonic_ms()
        self._asked.add(plan.name)
        self._assign_changed_tasks()

    def _assign_changed_tasks(self) -> None:
        """Has the group assigned anew, if tasks have changed and no connector is about to change more."""
        if self._changed_ms is None:
            return
        waited_ms = self._runtime.clock.monotonic_ms() - self._changed_ms
        if self._asked >= self._connectors.keys() or waited_ms >= SETTLE_MS:
            self._changed_ms = None
            self._member.rejoin("the tasks of connectors have changed")

    # Work

    async def _run(self, assignment: Assignment) -> None:
        """Runs what is assigned; what runs already, with the same configuration, goes on."""
        state = self._configs.state
        wanted = {task: state.task_config(task) for task in assignment.tasks if task.connector in self._plans}
        ended = [task for task, (props, _) in self._tasks.items() if wanted.get(task) != props]
        await self._stop(ended, [name for name in self._connectors if name not in assignment.connectors])
        for name in assignment.connectors:
            if name in self._plans and name not in self._connectors:
                self._connectors[name] = self._start_connector(self._plans[name])
        for task, props in wanted.items():
            if task not in self._tasks:
                plan = self._plans[task.connector]
                kept = KeptRunning(self._runtime, f"{plan.label}-task-{task.task}", plan.make_task(props, task.task))
                self._tasks[task] = (props, kept)
                kept.start()

    def _start_connector(self, plan: ConnectorPlan) -> KeptRunning:
        self._asked.discard(plan.name)

        async def live(status: Status) -> None:
            if not self._leads:
                raise KmirrorError(
                    f"the connector was given to this worker by another program, the leader of the group {self._worker.group_id}, and the "
                    "configurations of its tasks can only be written by the leader; run one program alone"
                )
            await self._connector_lives(plan, status)

        kept = KeptRunning(self._runtime, plan.label, live)
        kept.start()
        return kept

    async def _connector_lives(self, plan: ConnectorPlan, status: Status) -> None:
        changed = False

        def reconfigure() -> None:
            nonlocal changed
            changed = True

        async def after() -> None:
            nonlocal changed
            if changed:
                changed = False
                await self._publish(plan, connector)

        connector = plan.make(reconfigure)
        try:
            await connector.start()
            status.heard()
            await self._publish(plan, connector)
            jobs, timeout_ms = connector.jobs(), plan.admin_timeout_ms
            await run_regularly(self._runtime, plan.label, jobs, timeout_ms=timeout_ms, heard=status.heard, after=after)
        finally:
            connector.close()

    async def _give_up(self) -> None:
        await self._stop(list(self._tasks), list(self._connectors))

    async def _stop(self, tasks: list[ConnectorTaskId], connectors: list[str]) -> None:
        """Connectors first, so that none starts another task."""
        await run_together(self._runtime, f"{self._name} stops", [self._connectors[name].stop() for name in connectors])
        await run_together(self._runtime, f"{self._name} stops", [self._tasks[task][1].stop() for task in tasks])
        for name in connectors:
            self._connectors.pop(name, None)
        for task in tasks:
            self._tasks.pop(task, None)

    async def _report(self) -> None:
        while True:
            self._assign_changed_tasks()
            running: dict[str | ConnectorTaskId, Status] = {name: one.status for name, one in self._connectors.items()}
            running |= {task: one.status for task, (_, one) in self._tasks.items()}
            await self._reports.put({of: (status.state, status.error) for of, status in running.items()}, self._generation)
            await self._runtime.sleep_ms(STATUS_INTERVAL_MS)
