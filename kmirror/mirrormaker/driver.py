"""MirrorMaker 2 on one node: all flows of a properties file (Kafka's `MirrorMaker`).

For each flow that the grammar gives workers (DG5) there are three connectors: source, heartbeat,
checkpoint. A disabled flow has heartbeats only. A flow's worker shares them, and their tasks, with the
workers of other nodes that have the same flow (`herder`); what runs is kept running, and `statuses`
says what is known of it.

`mm2-offsets`, `mm2-configs` and `mm2-status` are in Kafka's formats, so Apache's MirrorMaker 2 goes on
where this one ended, and this one where Apache's ended. The two do not share a flow: a leader of
Apache's would give ours connectors, whose tasks only the leader may write. Connect's REST interface is
not built. Nodes of kmirror need none to share a flow, so `dedicated.mode.enable.internal.rest` changes
nothing.

A flow with MirrorSinkConnector has its worker at the source's cluster, and writes to the target (MC2).

With exactly.once.source.support=enabled, records are copied in transactions (`task_transactions`).
Heartbeats and checkpoints are not: nobody counts them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.checkpoint_connector import MirrorCheckpointConnector
from kmirror.mirrormaker.checkpoint_task import MirrorCheckpointTask
from kmirror.mirrormaker.connect_offsets import OffsetStorage
from kmirror.mirrormaker.connector_config import (
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
    validate_checkpoint,
    validate_source,
)
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.echoes import KeepingFlow, echo_warnings
from kmirror.mirrormaker.heartbeat_connector import MirrorHeartbeatConnector
from kmirror.mirrormaker.heartbeats import MirrorHeartbeatTask
from kmirror.mirrormaker.herder.distributed_herder import Connector, ConnectorPlan, DistributedHerder
from kmirror.mirrormaker.kept_running import Status, Work
from kmirror.mirrormaker.mirror_maker_config import SOURCE_CONNECTOR, MirrorMakerConfig, Transform
from kmirror.mirrormaker.mirror_metrics import MirrorCheckpointMetrics, MirrorSourceMetrics
from kmirror.mirrormaker.replication_policy import IdentityReplicationPolicy
from kmirror.mirrormaker.source_connector import MirrorSourceConnector
from kmirror.mirrormaker.source_task import MirrorSourceTask
from kmirror.mirrormaker.task_configs import checkpoint_task_config, heartbeat_task_config, source_task_config
from kmirror.mirrormaker.task_transactions import REQUIRED_CONFIG, boundary_ms
from kmirror.mirrormaker.worker_config import WorkerConfig, refuse_what_is_not_built
from kmirror.runtime.api import Runtime, run_together

CHECKPOINT, HEARTBEAT = "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_WITHOUT_CHECKPOINTS: Final = "emit.checkpoints.enabled"
_log = logging.getLogger(__name__)
_NOT_SUPPORTED: Final = "This worker does not have exactly-once source support enabled."


class Flow:
    """One flow's worker on this node. ConfigError for settings that are wrong, or ask for what is not
    built.
    """

    def __init__(
        self, runtime: Runtime, config: MirrorMakerConfig, flow: SourceAndTarget, transform: Transform, metrics: MetricsRegistry
    ) -> None:
        self.flow = flow
        self._runtime = runtime
        self._profile = config.profile
        self._transform = transform
        self._worker = WorkerConfig(config.worker_config(flow, transform), is_sink=config.is_sink(flow))
        refuse_what_is_not_built(self._worker.originals)
        self._source_metrics = MirrorSourceMetrics(metrics, runtime.clock, flow)
        self._checkpoint_metrics = MirrorCheckpointMetrics(metrics, runtime.clock, flow)
        self._offsets: OffsetStorage | None = None
        raw = {name: config.connector_base_config(flow, name) for name in (SOURCE_CONNECTOR, HEARTBEAT, CHECKPOINT)}
        resolved = {name: transform(props) for name, props in raw.items()}
        for props in resolved.values():
            refuse_what_is_not_built(props)
        plans = []
        if config.is_enabled(flow):
            plans.append(self._source_plan(raw[SOURCE_CONNECTOR], resolved[SOURCE_CONNECTOR]))
        plans.append(self._heartbeat_plan(raw[HEARTBEAT], resolved[HEARTBEAT]))
        if config.is_enabled(flow) and resolved[CHECKPOINT].get(_WITHOUT_CHECKPOINTS, "true").strip().lower() != "false":
            plans.append(self._checkpoint_plan(raw[CHECKPOINT], resolved[CHECKPOINT]))
        self.herder = DistributedHerder(runtime, str(flow), self._worker, plans)

    async def stop(self) -> None:
        await self.herder.stop()
        if self._offsets is not None:
            await self._offsets.close()

    # Connectors, as the file has them and with its references resolved

    def _source_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorSourceConfig(resolved, self._profile)
        _raise_wrong(validate_source(config.originals))
        boundary_ms(config.originals, self._worker.offset_flush_interval_ms)
        if config.originals.get(REQUIRED_CONFIG, "").strip().lower() == "required" and not self._worker.is_exactly_once:
            raise ConfigError(f"Invalid value required for configuration {REQUIRED_CONFIG}: {_NOT_SUPPORTED}")
        make = partial(MirrorSourceConnector, self._runtime, config)
        return _plan(config, raw, make, self._source_task, is_source=True)

    def _checkpoint_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorCheckpointConfig(resolved, self._profile)
        _raise_wrong(validate_checkpoint(config.originals))
        return _plan(config, raw, partial(MirrorCheckpointConnector, self._runtime, config), self._checkpoint_task)

    def _heartbeat_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorHeartbeatConfig(resolved, self._profile)
        return _plan(config, raw, lambda _: MirrorHeartbeatConnector(self._runtime, config), self._heartbeat_task)

    # Tasks, with the properties that the workers agreed on

    def _source_task(self, props: Mapping[str, str], index: int) -> Work:
        async def work(status: Status) -> None:
            config = source_task_config(MirrorSourceConfig(self._transform(props), self._profile), self._worker, index)
            await MirrorSourceTask(self._runtime, config, self._offset_storage(), self._source_metrics).run(status.heard)

        return work

    def _checkpoint_task(self, props: Mapping[str, str], index: int) -> Work:
        async def work(status: Status) -> None:
            config = checkpoint_task_config(MirrorCheckpointConfig(self._transform(props), self._profile), self._worker, index)
            await MirrorCheckpointTask(self._runtime, config, self._checkpoint_metrics).run(status.heard)

        return work

    def _heartbeat_task(self, props: Mapping[str, str], _: int) -> Work:
        async def work(status: Status) -> None:
            config = heartbeat_task_config(MirrorHeartbeatConfig(self._transform(props), self._profile), self._worker)
            await MirrorHeartbeatTask(self._runtime, config).run(status.heard)

        return work

    def _offset_storage(self) -> OffsetStorage:
        """One for all source tasks of the flow on this node."""
        if self._offsets is None:
            worker, label = self._worker, f"{self.flow}|offsets"
            self._offsets = OffsetStorage(
                self._runtime,
                worker.offset_storage_topic,
                consumer=worker.storage_consumer(f"{label}-consumer"),
                producer=worker.client("producer", f"{label}-producer"),
            )
        return self._offsets


class MirrorMaker:
    """One node. ConfigError, before anything begins, for a file that cannot be used."""

    def __init__(
        self,
        runtime: Runtime,
        props: Mapping[str, str],
        *,
        targets: list[str] | None = None,
        transform: Transform = dict,
        profile: str | None = None,
    ) -> None:
        self.config = MirrorMakerConfig(props) if profile is None else MirrorMakerConfig(props, profile)
        unknown = [target for target in targets or () if target not in self.config.clusters]
        if unknown:
            raise ConfigError(f"--clusters names {', '.join(unknown)}; clusters in the file are {', '.join(self.config.clusters)}")
        self.metrics = MetricsRegistry(runtime.clock)
        self._runtime = runtime
        flows = self.config.pairs_of_node(targets)
        for alias in dict.fromkeys(alias for flow in flows for alias in (flow.source, flow.target)):
            if not self.config.cluster_props(alias).get("bootstrap.servers", "").strip():
                raise ConfigError(f'Missing required configuration "{alias}.bootstrap.servers" which has no default value.')
        self.flows = [Flow(runtime, self.config, flow, transform, self.metrics) for flow in flows]
        for warning in echo_warnings(list(_keeping_flows(self.config, transform))):
            _log.warning("%s", warning)

    def start(self) -> None:
        """Begins; a cluster that cannot be reached is tried again for ever."""
        for flow in self.flows:
            flow.herder.start()

    async def stop(self) -> None:
        """Stops all flows; tasks wait for what is on its way and store their offsets."""
        await run_together(self._runtime, "MirrorMaker stops", [flow.stop() for flow in self.flows])

    def statuses(self) -> list[Status]:
        return [status for flow in self.flows for status in flow.herder.statuses]

    def reasons(self) -> list[str]:
        """Returns a line for each worker, connector and task that does not run; none if all do."""
        return [status.described() for status in self.statuses() if not status.is_well]


def _plan(
    config: MirrorConnectorConfig,
    props: Mapping[str, str],
    make: Callable[[Callable[[], object]], Connector],
    make_task: Callable[[Mapping[str, str], int], Work],
    *,
    is_source: bool = False,
) -> ConnectorPlan:
    timeout_ms = config.get_int("admin.timeout.ms")
    return ConnectorPlan(config.connector_name, config.entity_label, dict(props), make, make_task, timeout_ms, is_source)


def _keeping_flows(config: MirrorMakerConfig, transform: Transform) -> Iterator[KeepingFlow]:
    """Yields the flows of the file that keep the names of topics, those of other nodes, too.

    What another node's flow refers to need not be known here; then nothing is said of it.
    """
    for flow in filter(config.is_enabled, config.cluster_pairs()):
        try:
            source = MirrorSourceConfig(transform(config.connector_base_config(flow, SOURCE_CONNECTOR)), config.profile)
            topic_filter = source.topic_filter()
        except ConfigError:
            continue
        if isinstance(source.replication_policy, IdentityReplicationPolicy):
            yield KeepingFlow(flow, source.get_list("topics"), topic_filter)


def _raise_wrong(wrong: Mapping[str, str]) -> None:
    for message in wrong.values():
        raise ConfigError(message)
