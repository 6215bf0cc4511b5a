"""One worker that runs all its connectors itself (Connect's `StandaloneHerder`, RU3).

Configs, states and the topics that were written to are in memory: they come from the files of the
command line, or through the REST interface, and are gone with the process. Source offsets are in a file
(`file_offset_storage`).

Changes of one connector are one after the other. A request that makes a connector waits until the
connector (`standalone_connector`) has said what its tasks are, or has failed, but not for long: a
cluster that cannot be reached does not hold up the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NoReturn

from kmirror.common.health import Health, joined
from kmirror.mirrormaker.connector_validation import ConfigInfos, class_named, connector_class, require_valid, validate
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan
from kmirror.mirrormaker.herder.file_offset_storage import FileOffsetStorage
from kmirror.mirrormaker.herder.herder import (
    BAD_REQUEST,
    CONFLICT,
    INTERNAL_SERVER_ERROR,
    NOT_FOUND,
    ConnectorInfo,
    ConnectorStateInfo,
    HerderError,
    RestartRequest,
    SourceOffset,
    TargetState,
    TaskInfo,
    WorkerStatus,
    after_restart,
    not_stopped,
    patched,
)
from kmirror.mirrormaker.herder.request_signatures import RequestSignature
from kmirror.mirrormaker.herder.source_offsets import check_offsets
from kmirror.mirrormaker.herder.standalone_connector import StandaloneConnector
from kmirror.mirrormaker.herder.worker_health import NOT_LOOKED_AT, NOTHING_TO_COPY
from kmirror.mirrormaker.kept_running import KeptRunning, Status, health_of
from kmirror.mirrormaker.mirror_maker_config import Transform
from kmirror.mirrormaker.mirror_plans import MirrorPlans
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.worker_config import WorkerConfig, kafka_cluster_id
from kmirror.runtime.api import Runtime, run_together


class StandaloneHerder:
    """Implements `Herder`. `set_logger_level` changes the level of a logger in this process, `converters` are
    those that connectors have without their own.
    """

    def __init__(
        self,
        runtime: Runtime,
        worker_id: str,
        worker: WorkerConfig,
        plans: MirrorPlans,
        offsets: FileOffsetStorage,
        resolve: Transform,
        set_logger_level: Callable[[str, str], object],
        converters: Mapping[str, str],
        startups: WorkerStartups,
    ) -> None:
        self._startups = startups
        self._runtime = runtime
        self._worker_id = worker_id
        self._worker = worker
        self._plans = plans
        self._offsets = offsets
        self._resolve = resolve
        self._set_logger_level = set_logger_level
        self._converters = converters
        self._is_ready = False
        self._connectors: dict[str, StandaloneConnector] = {}
        self._topics: dict[str, set[str]] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._cluster_id: str | None = None

    async def stop(self) -> None:
        """Tasks wait for what is on its way and store their offsets."""
        await run_together(self._runtime, "the worker stops", [one.halt() for one in list(self._connectors.values())])

    def statuses(self) -> list[Status]:
        """Of all connectors and tasks."""
        return [status for one in self._connectors.values() for status in one.statuses]

    @property
    def units(self) -> dict[str | ConnectorTaskId, Status]:
        """All connectors and tasks."""
        found: dict[str | ConnectorTaskId, Status] = {name: one.life.status for name, one in self._connectors.items()}
        for name, one in self._connectors.items():
            found |= {ConnectorTaskId(name, number): kept.status for number, kept in enumerate(one.tasks)}
        return found

    def readiness(self) -> Health:
        """Returns whether what was asked for runs."""
        reasons = [f"{self._worker_id}: {reason}" for reason in [self.health()] if reason is not None]
        reasons += [
            f"{one.name}: {NOTHING_TO_COPY}"
            for one in self._connectors.values()
            if one.target_state is TargetState.STARTED and one.plan.needs_tasks and not one.task_configs
        ]
        made = f"{len(self._connectors)} connectors" if self._connectors else "no connector is configured, so nothing runs"
        return joined([Health(reasons, [f"{self._worker_id}: {made}"], NOT_LOOKED_AT[1:]), health_of(self.statuses())])

    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        return validate(config, self._resolve, self._plan, self._converters)

    # Configs

    async def connectors(self) -> list[str]:
        return list(self._connectors)

    async def connector_info(self, connector: str) -> ConnectorInfo:
        return self._info(self._get(connector))

    async def put_connector_config(
        self, connector: str, config: Mapping[str, str], *, allow_replace: bool, target_state: TargetState | None = None
    ) -> tuple[bool, ConnectorInfo]:
        require_valid(self.validate(config))
        async with self._lock(connector):
            former = self._connectors.get(connector)
            if former is not None and not allow_replace:
                raise HerderError(CONFLICT, f"Connector {connector} already exists")
            wanted = target_state or (former.target_state if former is not None else TargetState.STARTED)
            made = StandaloneConnector(
                self._runtime,
                connector,
                self._plan(config),
                wanted,
                self._lock(connector),
                partial(self._writes_to, connector),
                self._startups,
            )
            if former is not None:
                await former.halt()
            self._connectors[connector] = made
            made.start()
        await made.settled()
        return former is None, self._info(made)

    async def patch_connector_config(self, connector: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        former = self._get(connector)
        if patch.get("name", connector) != connector:
            raise HerderError(
                BAD_REQUEST, f"Connector name configuration ({patch['name']}) doesn't match connector name in the URL ({connector})"
            )
        return (await self.put_connector_config(connector, patched(former.plan.properties, patch), allow_replace=True))[1]

    async def delete_connector_config(self, connector: str) -> None:
        async with self._lock(connector):
            await self._get(connector).halt()
            del self._connectors[connector]
            self._topics.pop(connector, None)

    async def task_infos(self, connector: str) -> list[TaskInfo]:
        one = self._get(connector)
        return [TaskInfo(ConnectorTaskId(connector, number), props) for number, props in enumerate(one.task_configs)]

    # States

    async def connector_status(self, connector: str) -> ConnectorStateInfo:
        one = self._connectors.get(connector)
        if one is None:
            raise HerderError(NOT_FOUND, f"No status found for connector {connector}")
        tasks = {number: self._status(kept) for number, kept in enumerate(one.tasks)}
        return ConnectorStateInfo(connector, self._status(one.life), tasks)

    async def task_status(self, task: ConnectorTaskId) -> WorkerStatus:
        one = self._connectors.get(task.connector)
        if one is None or not 0 <= task.task < len(one.tasks):
            raise HerderError(NOT_FOUND, f"No status found for task {task}")
        return self._status(one.tasks[task.task])

    async def set_target_state(self, connector: str, state: TargetState) -> None:
        async with self._lock(connector):
            one = self._connectors.get(connector)
            if one is None:
                raise HerderError(NOT_FOUND, f"Unknown connector {connector}")
            if one.target_state is not state:
                await one.change_state(state)

    async def restart_connector(self, connector: str) -> None:
        async with self._lock(connector):
            one = self._get(connector)
            await one.restart_connector()
        await one.settled()

    async def restart_task(self, task: ConnectorTaskId) -> None:
        async with self._lock(task.connector):
            one = self._get(task.connector)
            if not 0 <= task.task < len(one.tasks):
                raise HerderError(NOT_FOUND, f"Task {task} not found")
            await one.restart_tasks([task.task])

    async def restart_connector_and_tasks(self, request: RestartRequest) -> ConnectorStateInfo:
        name = request.connector
        if name not in self._connectors:
            raise HerderError(NOT_FOUND, f"Unknown connector: {name}")
        async with self._lock(name):
            one, before = self._get(name), await self.connector_status(name)
            if request.concerns(before.connector.state):
                await one.restart_connector()
            if request.include_tasks:
                await one.restart_tasks([number for number, task in before.tasks.items() if request.concerns(task.state)])
            return after_restart(before, request)

    # Offsets and topics

    async def connector_active_topics(self, connector: str) -> list[str]:
        return sorted(self._topics.get(connector, ()))

    async def reset_connector_active_topics(self, connector: str) -> None:
        self._topics.pop(connector, None)

    async def connector_offsets(self, connector: str) -> list[SourceOffset]:
        self._get(connector)
        return self._offsets.of_connector(connector)

    async def alter_connector_offsets(self, connector: str, offsets: Sequence[SourceOffset]) -> str:
        async with self._lock(connector):
            one = self._get_stopped(connector)
            check_offsets(connector_class(self._resolve(one.plan.properties)), offsets)
            self._offsets.change(connector, offsets)
        return "The offsets for this connector have been altered successfully"

    async def reset_connector_offsets(self, connector: str) -> str:
        async with self._lock(connector):
            self._get_stopped(connector)
            self._offsets.change(connector, [(partition, None) for partition, _ in self._offsets.of_connector(connector)])
        return "The offsets for this connector have been reset successfully"

    # The worker

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]], signature: RequestSignature | None) -> None:
        _not_supported("externally setting task configurations")

    async def fence_zombie_source_tasks(self, connector: str, signature: RequestSignature | None) -> None:
        _not_supported("exactly-once source connectors")

    async def set_cluster_logger_level(self, namespace: str, level: str) -> None:
        """This worker is the whole cluster."""
        self._set_logger_level(namespace, level)

    async def kafka_cluster_id(self) -> str:
        if self._cluster_id is None:
            props = self._worker.client("admin", f"{self._worker_id}|cluster-admin")
            self._cluster_id = await kafka_cluster_id(self._runtime, props)
        return self._cluster_id

    def mark_ready(self) -> None:
        """The connectors of the command line are made."""
        self._is_ready = True

    def health(self) -> str | None:
        return None if self._is_ready else "The connectors of the command line are being made."

    def is_ready(self) -> bool:
        return self._is_ready

    # What is known

    def _plan(self, config: Mapping[str, str]) -> ConnectorPlan:
        return self._plans.plan(config, class_named(self._resolve(config).get("connector.class", "")))

    def _get(self, connector: str) -> StandaloneConnector:
        one = self._connectors.get(connector)
        if one is None:
            raise HerderError(NOT_FOUND, f"Connector {connector} not found")
        return one

    def _get_stopped(self, connector: str) -> StandaloneConnector:
        one = self._get(connector)
        if one.target_state is not TargetState.STOPPED:
            raise not_stopped(connector)
        return one

    def _writes_to(self, connector: str, topic: str) -> None:
        self._topics.setdefault(connector, set()).add(topic)

    def _lock(self, connector: str) -> asyncio.Lock:
        return self._locks.setdefault(connector, asyncio.Lock())

    def _info(self, one: StandaloneConnector) -> ConnectorInfo:
        tasks = [ConnectorTaskId(one.name, number) for number in range(len(one.task_configs))]
        return ConnectorInfo(one.name, one.plan.properties, tasks)

    def _status(self, kept: KeptRunning) -> WorkerStatus:
        return WorkerStatus(kept.status.state.value, self._worker_id, kept.status.error)


def _not_supported(what: str) -> NoReturn:
    raise HerderError(INTERNAL_SERVER_ERROR, f"Kafka Connect in standalone mode does not support {what}.")
