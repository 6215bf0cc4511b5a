"""A worker from its start to its end: what it runs, and as the leader what all run (Connect's `Worker`,
and the part of `DistributedHerder` that follows its group).

Workers agree on what runs by the topic of configs. The leader of their group writes it: what the
connectors are configured with (of a properties file, or what the REST interface was told), and what
their tasks are, as each connector says. Whenever that changes the leader has the group assigned anew,
and every worker runs the tasks it is given.

    leader      task configs, shutting out former tasks, assignment, session keys
    all         tasks, and connectors (see below)

Under the eager protocol tasks stop before a worker joins again, so none runs twice; connectors stay with
a leader that stays one. A worker that was alone in its group goes on copying while it joins: it is the
leader again, and stops what others get before it assigns. Tasks whose configuration is the same go on
then. The leader waits until each connector that starts here has said what its tasks are, SETTLE_MS at most,
before it has the group assigned anew.

Under a cooperative protocol a worker joins with what it has (`_held`). Only tasks that are configured
otherwise by now stop before: all workers have read the configs that the round is about when it begins, so
no partition is copied twice after it. What the leader takes away stops, and the worker joins again. A
worker that lost its place in the group stops everything, but says that it has it when it comes back, and
goes on with it unless others got it.

Connectors may run at any worker where all of them have a REST interface. One that does not run at the
leader tells it over HTTP what its tasks are (`leader_requests`), again and again while there is no leader
that takes it.

With exactly-once support, tasks of a new set of configs start only after all tasks before it were
shut out (KIP-618): the leader does it before it assigns, and notes it in the topic. A worker that can
ask the leader for it does so before each life of a task, since a leader of Apache's waits to be asked;
and once the task's own former lives are shut out it looks whether the task is still its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.health import Health
from kmirror.mirrormaker.herder.assigned_work import AssignedWork
from kmirror.mirrormaker.herder.cluster_config_state import ConfigChanges
from kmirror.mirrormaker.herder.connect_protocol import (
    CONFIG_MISMATCH,
    NO_ERROR,
    NOT_USED,
    Assignment,
    ConnectorTaskId,
    ConnectProtocol,
    WorkerState,
    serialize_assignment,
    serialize_metadata,
)
from kmirror.mirrormaker.herder.connector_life import run_connector
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlans, TaskContext, file_differences
from kmirror.mirrormaker.herder.former_tasks import FormerTasks
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.herder.leader_assignor import GroupRound, LeaderAssignor, held_after
from kmirror.mirrormaker.herder.request_signatures import RequestSignature
from kmirror.mirrormaker.herder.session_keeper import SessionKeeper
from kmirror.mirrormaker.herder.way_to_leader import WayToLeader
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupMember
from kmirror.mirrormaker.herder.worker_health import WorkerFacts, worker_health
from kmirror.mirrormaker.herder.worker_reports import WorkerReports
from kmirror.mirrormaker.herder.worker_setup import WorkerSetup, config_store, status_store
from kmirror.mirrormaker.kept_running import Status
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

STATUS_INTERVAL_MS: Final = 1_000
SETTLE_MS: Final = 3_000
"""A connector whose source cannot be reached says nothing; tasks of others do not wait for it."""
NOTHING_READ: Final = -1
_log = logging.getLogger(__name__)


class Worker:
    """Implements `WorkerRebalanceListener`."""

    def __init__(self, runtime: Runtime, setup: WorkerSetup, status: Status) -> None:
        self._runtime = runtime
        self._name = name = setup.name
        self._config = worker = setup.config
        self._peers = setup.peers
        self._on_logger_level = setup.on_logger_level
        self._url = NOT_USED if setup.peers is None else setup.peers.url
        self.configs = config_store(runtime, setup)
        self.status_store = status_store(runtime, setup)
        self._member = WorkerGroupMember(runtime, setup.group, self, status.heard, setup.rebalances)
        self._scope = TaskScope(runtime, f"{name}|worker")
        self._work = AssignedWork(runtime, name, self._connector_life, self._task_life, setup.startups)
        self._reports = WorkerReports(name, self.status_store, self._work, tracks_topics=setup.tracks_topics)
        self.plans = ConnectorPlans(setup.plans, setup.make_plan, lambda name: self.configs.state.connectors.get(name, {}))
        self._changing = asyncio.Lock()
        self._asked: set[str] = set()
        self._changed_ms: int | None = None
        self._held: Assignment | None = None
        """What the worker says that it has, under a cooperative protocol also while it has lost its place."""
        self._recommitted: set[str] = set()
        """Connectors whose tasks were committed anew since the last round."""
        self._former = FormerTasks(runtime, name, worker, self.configs, self._stop_tasks)
        self._assignor = LeaderAssignor(self._url, setup.group.max_delay_ms)
        self._joins = True
        self.is_member = False
        """Whether the group has given it work since it last lost its place."""
        self._is_alone = False
        self._group_id = worker.group_id
        self._told_differences: list[str] = []
        self._session = SessionKeeper(runtime, name, setup.group.session, self.configs)
        self._leader = WayToLeader(runtime, name, worker.group_id, setup.peers, self.configs, self._session.sign)

    @property
    def statuses(self) -> list[Status]:
        return list(self._work.statuses.values())

    @property
    def units(self) -> dict[str | ConnectorTaskId, Status]:
        """The connectors and tasks that run here."""
        return self._work.statuses

    @property
    def leads(self) -> bool:
        return self._leader.leads

    @property
    def leader_url(self) -> str | None:
        """None while no leader is known."""
        return self._leader.url

    def health(self) -> Health:
        """Returns whether what should run here is known, and runs."""
        lost = None if self.is_member else self._member.trouble or "it has not joined yet"
        if lost is None and not self._joins:
            lost = self._member.silence
        is_moving = self._joins and not self._member.protocol.is_cooperative
        owned = frozenset(self._assignor.owners) if self.leads and not self._joins else None
        state, work = self.configs.state, self._work
        return worker_health(
            WorkerFacts(self._name, self._group_id, lost, is_moving, work.assignment, state, work.statuses, owned, self.plans.needs_tasks)
        )

    async def run(self) -> None:
        await self.configs.start()
        self._scope.spawn(Supervised(self._runtime, self._report, name=f"{self._name}|status").run(), name="status")
        if self._peers is not None:
            self._scope.spawn(Supervised(self._runtime, self._follow, name=f"{self._name}|configs").run(), name="configs")
        await self._member.run()

    async def end(self) -> None:
        """Ends all, even if it is cancelled while it ends for another reason."""
        ended = list(self._work.statuses)
        async with AsyncExitStack() as closing:
            for close in (self.status_store.close, self.configs.close, self._member.close, self._scope.cancel):
                closing.push_async_callback(close)
            await self._give_up()
            await self._scope.cancel()
            if self._peers is not None:
                await self._reports.unassigned(ended)

    # WorkerRebalanceListener

    def metadata(self, protocol: ConnectProtocol) -> bytes:
        return serialize_metadata(WorkerState(self._url, self._offset, self._held), protocol)

    async def before_join(self) -> None:
        self._changed_ms, self._joins = None, True
        if self._member.protocol.is_cooperative:
            await self._stop_changed_tasks()
            return
        if self.leads and self._is_alone:
            return
        async with self._changing:
            if self.leads:
                await self._work.stop_tasks()
            else:
                await self._work.stop_all()

    async def on_lost(self) -> None:
        self._leader.leads, self._leader.url, self._joins, self.is_member = False, None, True, False
        if not self._member.protocol.is_cooperative:
            self._held = None
        await self._give_up()

    async def assign(self, group: GroupRound) -> dict[str, bytes]:
        if len(group.members) > 1 and not group.protocol.is_cooperative:
            await self._stop_tasks()
        if not self.leads:
            await self.configs.claim_write_privileges()
            self._leader.leads = True
        self._is_alone = len(group.members) == 1
        await self.configs.refresh()
        await self._write_connectors()
        state = self.configs.state
        names = [*(self.plans.of_file or state.connectors)]
        await self._former.fence([name for name in names if self.plans.is_source(name)])
        tasks = [task for name in names for task in state.tasks(name)]
        self._recommitted |= state.changes.tasks
        state.changes.added_or_removed.clear()
        state.changes.tasks.clear()
        ahead = max(member.offset for member in group.members.values())
        if ahead > self._offset:
            mismatch = Assignment(group.leader, self._url, ahead, error=CONFIG_MISMATCH)
            assigned = dict.fromkeys(group.members, mismatch)
        else:
            assigned = self._assignor.assign(group, self._offset, names, tasks, self._runtime.clock.monotonic_ms())
        return {member: serialize_assignment(one, group.protocol) for member, one in assigned.items()}

    async def on_assigned(self, assignment: Assignment, generation: int, *, leads: bool) -> None:
        self._reports.generation, self._leader.leads = generation, leads
        self._leader.url = assignment.leader_url if assignment.leader_url != NOT_USED else None
        self._is_alone = self._is_alone and leads
        is_cooperative = self._member.protocol.is_cooperative
        if is_cooperative:
            await self._give_up_revoked(assignment)
        held = self._held = held_after(self._held, assignment) if is_cooperative else assignment
        if not self._has_read(assignment):
            await self.configs.refresh()
        if not self._has_read(assignment):
            if not is_cooperative:
                await self._give_up()
            self._member.rejoin("the worker had not read the configs of its assignment")
            return
        _log.info(
            "[%s] Joined group at generation %d: %d connectors, %d tasks%s",
            self._name, generation, len(held.connectors), len(held.tasks), ", leads" if leads else "",
        )  # fmt: skip
        if not leads:
            self._tell_differences()
        async with self._changing:
            if is_cooperative:
                await self._work.stop_changed(self.configs.state, self._take_recommitted())
            self._asked.difference_update(await self._work.run(held, self.configs.state))
        self._joins, self.is_member = assignment.revokes, True
        if assignment.revokes:
            self._member.rejoin("what was taken away is to be given out")
        elif assignment.delay_ms > 0:
            _log.info(
                "[%s] The group is assigned anew in %d ms: work that is left waits for its member until then",
                self._name,
                assignment.delay_ms,
            )
            self._member.rejoin_in(assignment.delay_ms)
        if leads and self._member.protocol is ConnectProtocol.SESSIONED:
            self._scope.spawn(self._keep_session_key(), name="session-key")
        if leads and self._peers is not None:
            self._scope.spawn(self._reports.forget_what_is_gone(self.configs.state), name="statuses")

    async def _give_up_revoked(self, assignment: Assignment) -> None:
        async with self._changing:
            ended = await self._work.stop_revoked(assignment)
        if ended and self._peers is not None:
            await self._reports.revoked(ended)

    async def _stop_changed_tasks(self) -> None:
        if not self._work.tasks:
            return
        try:
            await self.configs.refresh()
        except KmirrorError as error:
            _log.warning("[%s] The topic of configs cannot be read: %s", self._name, error)
            return
        async with self._changing:
            await self._work.stop_changed(self.configs.state, self._take_recommitted())

    def _take_recommitted(self) -> set[str]:
        """Returns connectors of which all tasks begin again: with exactly-once support those that were
        committed anew, whose former tasks are shut out.
        """
        changes = self.configs.state.changes
        found, self._recommitted = self._recommitted | changes.tasks, set()
        if not self.leads:
            changes.tasks.clear()  # the leader has the group assigned anew for them
        return {name for name in found if self._config.is_exactly_once and self.plans.is_source(name)}

    @property
    def _offset(self) -> int:
        """The end of the topic of configs, as the group is told. Apache's workers call that of a topic
        without records -1, and join again and again if their leader does not.
        """
        return self.configs.offset if self._peers is None else self.configs.offset or NOTHING_READ

    def _has_read(self, assignment: Assignment) -> bool:
        return assignment.error == NO_ERROR and self._offset >= assignment.offset

    # The leader

    async def _write_connectors(self) -> None:
        """The leader's file says what the connectors are (Apache's `configureConnectors`)."""
        for name, plan in self.plans.of_file.items():
            if self.configs.state.connectors.get(name) != plan.properties:
                if not self._is_alone:
                    self._tell_differences()
                await self.configs.put_connector_config(name, plan.properties)

    def _tell_differences(self) -> None:
        """A worker whose file says something else than the group runs: the leader's file counts."""
        told = file_differences(self._name, self.plans.of_file, self.configs.state.connectors)
        for line in told:
            if line not in self._told_differences:
                _log.warning("%s", line)
        self._told_differences = told

    async def write_tasks(self, connector: str, tasks: Sequence[Mapping[str, str]]) -> None:
        """Writes what a connector's tasks are, if that is news; the group is then assigned anew. A stopped
        connector has none.
        """
        if tasks and self.configs.state.target_state(connector) is TargetState.STOPPED:
            return
        if self.configs.state.task_configs(connector) != list(tasks):
            await self.configs.put_task_configs(connector, tasks)
            self._changed_ms = self._changed_ms or self._runtime.clock.monotonic_ms()

    async def fence(self, connector: str) -> None:
        """Shuts out the tasks before those of the last commit, if that was not done yet."""
        await self.configs.refresh()
        await self._former.fence([connector])

    async def _stop_tasks(self, connectors: Sequence[str] | None = None) -> None:
        async with self._changing:
            await self._work.stop_tasks(connectors)

    async def _keep_session_key(self) -> None:
        if self.leads and self.is_member and self._member.protocol is ConnectProtocol.SESSIONED:
            await self._session.keep()

    def require_signed(self, signature: RequestSignature | None) -> None:
        """HerderError for a request of no worker, if the group signs its requests."""
        if self._member.protocol is ConnectProtocol.SESSIONED:
            self._session.require_signed(signature)

    def assign_changed_tasks(self) -> None:
        """Has the group assigned anew, if tasks have changed and no connector is about to change more."""
        if self._changed_ms is None:
            return
        waited_ms = self._runtime.clock.monotonic_ms() - self._changed_ms
        if self._asked >= self._work.running or waited_ms >= SETTLE_MS:
            self._changed_ms, self._joins = None, True
            self._member.rejoin("the tasks of connectors have changed")

    # The topic of configs

    @property
    def is_settled(self) -> bool:
        """Whether what was assigned last is what runs, and no change of it is known."""
        return not self._joins and self._changed_ms is None

    @property
    def joins(self) -> bool:
        """Whether the group is being assigned anew."""
        return self._joins

    def owner_url(self, of: str | ConnectorTaskId) -> str | None:
        """For the leader: who runs a connector or task."""
        return self._assignor.owners.get(of)

    async def _follow(self) -> None:
        while True:
            try:
                await self.configs.follow()
            except KmirrorError as error:
                _log.warning("[%s] The topic of configs cannot be read: %s", self._name, error)
                await self._runtime.sleep_ms(STATUS_INTERVAL_MS)
                continue
            await self._handle(self.configs.take_changes())

    async def _handle(self, changes: ConfigChanges) -> None:
        if changes.added_or_removed or changes.connectors or changes.target_states:
            async with self._changing:
                self._asked.difference_update(await self._work.run_on(self.configs.state))
        self._recommitted |= changes.tasks
        for request in changes.restarts.values():
            await self.restart(self._work.wanted(request))
        for namespace, level in changes.logger_levels.items():
            self._on_logger_level(namespace, level)
        if self.leads and (changes.added_or_removed or changes.tasks):
            self._changed_ms = self._changed_ms or self._runtime.clock.monotonic_ms()
            self.assign_changed_tasks()

    async def restart(self, units: Sequence[str | ConnectorTaskId]) -> bool:
        """Restarts connectors and tasks that run here; returns whether there are any."""
        async with self._changing:
            found = [of for of in units if of in self._work.statuses]
            if found:
                self._scope.spawn(self._reports.restarting(found), name="restarting")
                await self._work.restart(found)
        return bool(found)

    # Work

    async def _connector_life(self, name: str, status: Status) -> None:
        self._leader.require()
        await run_connector(self._runtime, f"{self._name}|{name}", self.plans.plan(name), status, partial(self._publish, name))

    async def _task_life(self, task: ConnectorTaskId, properties: Mapping[str, str], status: Status) -> None:
        plan, check = self.plans.plan(task.connector), partial(self._check, task, properties)
        if plan.is_source and self._config.is_exactly_once:
            await self._leader.fence(task.connector)
        await plan.make_task(properties, task.task, TaskContext(check, partial(self._reports.note_topic, task)))(status)

    async def _publish(self, connector: str, tasks: list[dict[str, str]]) -> None:
        """Writes what a connector's tasks are, or has the leader write it, if that is news."""
        if not await self._leader.put_task_configs(connector, tasks):
            await self.write_tasks(connector, tasks)
        self._asked.add(connector)
        self.assign_changed_tasks()

    async def _check(self, task: ConnectorTaskId, properties: Mapping[str, str]) -> None:
        """A task that was fenced in between, and began again, may have become another worker's."""
        await self.configs.refresh()
        self._work.require_current(task, properties, self.configs.state)

    async def _give_up(self) -> None:
        async with self._changing:
            await self._work.stop_all()

    # Status

    async def _report(self) -> None:
        while True:
            self.assign_changed_tasks()
            await self._keep_session_key()
            await self.report()
            await self._reports.report_topics()
            await self._runtime.sleep_ms(STATUS_INTERVAL_MS)

    async def report(self) -> None:
        """Writes what has changed about the work that runs here."""
        await self._reports.report()
