"""MirrorMaker 2 on one node: all flows of a properties file (Kafka's `MirrorMaker`).

For each flow that the grammar gives workers (DG5) there are three connectors: source, heartbeat,
checkpoint. A disabled flow has heartbeats only. Each connector and each task is kept running, and
`statuses` says what is known of it.

Not built: several nodes that share the work (`dedicated.mode.enable.internal.rest=true` is refused),
Connect's REST interface. One node serves all flows of the file, or those to the targets of
`--clusters`. Kafka's topics `mm2-configs` and `mm2-status` are neither read nor written;
`mm2-offsets` is in Kafka's format, so Apache's MirrorMaker 2 goes on where this one ended.

With exactly.once.source.support=enabled, records are copied in transactions (`task_transactions`).
Heartbeats and checkpoints are not: nobody counts them. Two nodes with the same flow shut out each
other's tasks in turn; what they copy is still there once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kmirror.admin.admin_client import AdminClient
from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.checkpoint_connector import MirrorCheckpointConnector
from kmirror.mirrormaker.checkpoint_task import CheckpointTaskConfig, MirrorCheckpointTask
from kmirror.mirrormaker.connect_offsets import OffsetStorage
from kmirror.mirrormaker.connector_config import (
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
    validate_checkpoint,
    validate_source,
)
from kmirror.mirrormaker.connector_host import ConnectorHost
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.heartbeats import HeartbeatTaskConfig, MirrorHeartbeatConnector, MirrorHeartbeatTask
from kmirror.mirrormaker.internal_topics import create_compacted_topic
from kmirror.mirrormaker.kept_running import Status, Work
from kmirror.mirrormaker.mirror_maker_config import MirrorMakerConfig, Transform
from kmirror.mirrormaker.mirror_metrics import MirrorCheckpointMetrics, MirrorSourceMetrics
from kmirror.mirrormaker.source_connector import MirrorSourceConnector
from kmirror.mirrormaker.source_task import MirrorSourceTask, SourceTaskConfig
from kmirror.mirrormaker.task_transactions import REQUIRED_CONFIG, boundary_ms, fence_former_tasks
from kmirror.mirrormaker.worker_config import WorkerConfig, open_admin, refuse_what_is_not_built
from kmirror.runtime.api import Runtime, run_together

SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
_WITHOUT_CHECKPOINTS: Final = "emit.checkpoints.enabled"
_NOT_SUPPORTED: Final = "This worker does not have exactly-once source support enabled."


class Flow:
    """The connectors of one flow on this node. ConfigError for settings that are wrong, or ask for
    what is not built.
    """

    def __init__(
        self, runtime: Runtime, config: MirrorMakerConfig, flow: SourceAndTarget, transform: Transform, metrics: MetricsRegistry
    ) -> None:
        self.flow = flow
        self._runtime = runtime
        self._worker = WorkerConfig(config.worker_config(flow, transform))
        refuse_what_is_not_built(self._worker.originals)
        self._source_metrics = MirrorSourceMetrics(metrics, runtime.clock, flow)
        self._checkpoint_metrics = MirrorCheckpointMetrics(metrics, runtime.clock, flow)
        self._offsets: OffsetStorage | None = None
        self._has_fenced = False
        self._tasks_max = 1
        props = {name: transform(config.connector_base_config(flow, name)) for name in (SOURCE, HEARTBEAT, CHECKPOINT)}
        for own in props.values():
            refuse_what_is_not_built(own)
        self.hosts: list[ConnectorHost] = []
        if config.is_enabled(flow):
            self._add_source(MirrorSourceConfig(props[SOURCE], config.profile))
        self._add_heartbeats(MirrorHeartbeatConfig(props[HEARTBEAT], config.profile))
        if config.is_enabled(flow) and props[CHECKPOINT].get(_WITHOUT_CHECKPOINTS, "true").strip().lower() != "false":
            self._add_checkpoints(MirrorCheckpointConfig(props[CHECKPOINT], config.profile))

    async def stop(self) -> None:
        await run_together(self._runtime, f"{self.flow} stops", [host.stop() for host in self.hosts])
        if self._offsets is not None:
            await self._offsets.close()

    def _host(self, config: MirrorConnectorConfig, make_connector: Any, make_task: Any, prepare: Any = None) -> None:
        timeout_ms = config.get_int("admin.timeout.ms")
        self.hosts.append(
            ConnectorHost(self._runtime, config.entity_label, make_connector, make_task, prepare=prepare, admin_timeout_ms=timeout_ms)
        )

    def _add_source(self, config: MirrorSourceConfig) -> None:
        _raise_wrong(validate_source(config.originals))
        boundary_ms(config.originals, self._worker.offset_flush_interval_ms)
        if config.originals.get(REQUIRED_CONFIG, "").strip().lower() == "required" and not self._worker.is_exactly_once:
            raise ConfigError(f"Invalid value required for configuration {REQUIRED_CONFIG}: {_NOT_SUPPORTED}")
        self._tasks_max = config.get_int("tasks.max")
        make = partial(MirrorSourceConnector, self._runtime, config, self._worker)
        self._host(config, make, self._source_task, self._prepare_offsets)

    def _add_checkpoints(self, config: MirrorCheckpointConfig) -> None:
        _raise_wrong(validate_checkpoint(config.originals))
        self._host(config, partial(MirrorCheckpointConnector, self._runtime, config, self._worker), self._checkpoint_task)

    def _add_heartbeats(self, config: MirrorHeartbeatConfig) -> None:
        def make(_: object) -> MirrorHeartbeatConnector:
            return MirrorHeartbeatConnector(self._runtime, config, self._worker)

        self._host(config, make, self._heartbeat_task)

    # Tasks

    def _source_task(self, config: SourceTaskConfig) -> Work:
        assert self._offsets is not None, "the connector is prepared before it has tasks"
        task = MirrorSourceTask(self._runtime, config, self._offsets, self._source_metrics)
        return lambda status: task.run(status.heard)

    def _checkpoint_task(self, config: CheckpointTaskConfig) -> Work:
        task = MirrorCheckpointTask(self._runtime, config, self._checkpoint_metrics)
        return lambda status: task.run(status.heard)

    def _heartbeat_task(self, config: HeartbeatTaskConfig) -> Work:
        task = MirrorHeartbeatTask(self._runtime, config)
        return lambda status: task.run(status.heard)

    async def _prepare_offsets(self) -> None:
        """Makes the topic of source offsets, and what reads and writes it. With exactly-once support,
        shuts out former tasks first.
        """
        worker, label = self._worker, f"{self.flow}|offsets"
        admin: AdminClient = open_admin(self._runtime, worker.client("admin", f"{label}-admin"))
        try:
            await create_compacted_topic(
                admin,
                worker.offset_storage_topic,
                partitions=worker.offset_storage_partitions,
                replication_factor=worker.offset_storage_replication_factor,
            )
            if worker.is_exactly_once and not self._has_fenced:
                await fence_former_tasks(admin, worker.group_id, SOURCE, self._tasks_max)
                self._has_fenced = True
        finally:
            admin.close()
        if self._offsets is None:
            self._offsets = OffsetStorage(
                self._runtime,
                worker.offset_storage_topic,
                consumer=worker.client("consumer", f"{label}-consumer"),
                producer=worker.client("producer", f"{label}-producer"),
            )


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
        if self.config.enable_internal_rest:
            raise ConfigError(
                "Invalid value true for configuration dedicated.mode.enable.internal.rest: connect-mirror-maker of kmirror runs on one node; "
                "leave the property out and start one process for the flows of a target (--clusters)"
            )
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

    def start(self) -> None:
        """Begins; a cluster that cannot be reached is tried again for ever."""
        for flow in self.flows:
            for host in flow.hosts:
                host.start()

    async def stop(self) -> None:
        """Stops all flows; tasks wait for what is on its way and store their offsets."""
        await run_together(self._runtime, "MirrorMaker stops", [flow.stop() for flow in self.flows])

    def statuses(self) -> list[Status]:
        return [status for flow in self.flows for host in flow.hosts for status in host.statuses]

    def reasons(self) -> list[str]:
        """Returns a line for each connector and task that does not run; none if all do."""
        return [status.described() for status in self.statuses() if not status.is_well]


def _raise_wrong(wrong: Mapping[str, str]) -> None:
    for message in wrong.values():
        raise ConfigError(message)
