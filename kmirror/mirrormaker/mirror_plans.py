"""The connectors of a worker, made from properties: what a properties file or the REST interface says
becomes a plan, which a herder runs.

All connectors and tasks of a worker share one reader of source offsets, and the metrics of their flow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from kmirror.common.errors import ConfigError
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.checkpoint_connector import MirrorCheckpointConnector
from kmirror.mirrormaker.checkpoint_task import MirrorCheckpointTask
from kmirror.mirrormaker.connect_offsets import OffsetStorage, SourceOffsets
from kmirror.mirrormaker.connector_config import (
    KAFKA_4,
    SCHEDULED,
    MirrorCheckpointConfig,
    MirrorConnectorConfig,
    MirrorHeartbeatConfig,
    MirrorSourceConfig,
    validate_checkpoint,
    validate_source,
)
from kmirror.mirrormaker.connector_validation import CHECKPOINT, HEARTBEAT, connector_class
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.error_handling import ErrorCounts, ErrorHandlingMetrics
from kmirror.mirrormaker.heartbeat_connector import MirrorHeartbeatConnector
from kmirror.mirrormaker.heartbeats import MirrorHeartbeatTask
from kmirror.mirrormaker.herder.connector_plan import Connector, ConnectorPlan, TaskContext
from kmirror.mirrormaker.herder.herder import HerderError
from kmirror.mirrormaker.kept_running import Status, Work
from kmirror.mirrormaker.mirror_maker_config import Transform
from kmirror.mirrormaker.mirror_metrics import MirrorCheckpointMetrics, MirrorSourceMetrics, TaskOfMetrics
from kmirror.mirrormaker.missing_topics import require_valid_topic_creation
from kmirror.mirrormaker.recreated_topics import recreated_policy
from kmirror.mirrormaker.source_connector import MirrorSourceConnector
from kmirror.mirrormaker.source_records import RecordsConfig
from kmirror.mirrormaker.source_task import MirrorSourceTask
from kmirror.mirrormaker.source_task_metrics import SourceTaskMetrics
from kmirror.mirrormaker.task_configs import checkpoint_task_config, heartbeat_task_config, source_task_config
from kmirror.mirrormaker.task_transactions import REQUIRED_CONFIG, boundary_ms
from kmirror.mirrormaker.transforming import transforming
from kmirror.mirrormaker.transforms import require_valid_aliases
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.runtime.api import Runtime

T = TypeVar("T", contravariant=True)
_NOT_SUPPORTED = "This worker does not have exactly-once source support enabled."


class MirrorPlans:
    """Of one worker. `name` begins the ids of the clients that read and write source offsets, which are
    elsewhere if `offsets` are given. ConfigError for settings that are wrong, or ask for what is not
    built.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        worker: WorkerConfig,
        metrics: MetricsRegistry,
        transform: Transform,
        profile: str = KAFKA_4,
        offsets: SourceOffsets | None = None,
        *,
        flow: str | None = None,
    ) -> None:
        """`flow` tells the metrics of workers apart that share a registry."""
        self._runtime = runtime
        self._name = name
        self._worker = worker
        self._registry = metrics
        self._transform = transform
        self._profile = profile
        self._source_metrics: dict[SourceAndTarget, MirrorSourceMetrics] = {}
        self._checkpoint_metrics: dict[SourceAndTarget, MirrorCheckpointMetrics] = {}
        self._errors = ErrorHandlingMetrics(metrics, flow)
        self._source_tasks = SourceTaskMetrics(metrics, runtime.clock, flow)
        self._given_offsets = offsets
        self._offsets: OffsetStorage | None = None

    async def close(self) -> None:
        if self._offsets is not None:
            await self._offsets.close()

    def plan(self, properties: Mapping[str, str], name: str | None = None) -> ConnectorPlan:
        """`properties` are as written, references of config providers included. `name` is the simple name
        of the class, if it is known otherwise.
        """
        resolved = self._transform(properties)
        if name is None:
            try:
                name = connector_class(resolved)
            except HerderError as error:
                raise ConfigError(str(error)) from error
        return self.plan_resolved(properties, resolved, name)

    def plan_resolved(self, properties: Mapping[str, str], resolved: Mapping[str, str], name: str) -> ConnectorPlan:
        """... of properties whose references are `resolved`."""
        require_valid_aliases(resolved)
        if name == CHECKPOINT:
            return self._checkpoint_plan(properties, resolved)
        if name == HEARTBEAT:
            return self._heartbeat_plan(properties, resolved)
        return self._source_plan(properties, resolved)

    # Connectors, as written and with references resolved

    def _source_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorSourceConfig(resolved, self._profile)
        _raise_wrong(validate_source(config.originals))
        recreated_policy(config.originals)
        boundary_ms(config.originals, self._worker.offset_flush_interval_ms)
        if config.originals.get(REQUIRED_CONFIG, "").strip().lower() == "required" and not self._worker.is_exactly_once:
            raise ConfigError(f"Invalid value required for configuration {REQUIRED_CONFIG}: {_NOT_SUPPORTED}")
        return self._plan(config, raw, partial(MirrorSourceConnector, self._runtime, config), self._source_task)

    def _checkpoint_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorCheckpointConfig(resolved, self._profile)
        _raise_wrong(validate_checkpoint(config.originals))
        return self._plan(config, raw, partial(MirrorCheckpointConnector, self._runtime, config), self._checkpoint_task)

    def _heartbeat_plan(self, raw: Mapping[str, str], resolved: Mapping[str, str]) -> ConnectorPlan:
        config = MirrorHeartbeatConfig(resolved, self._profile)
        return self._plan(config, raw, lambda _: MirrorHeartbeatConnector(self._runtime, config), self._heartbeat_task)

    def _plan(
        self,
        config: MirrorConnectorConfig,
        props: Mapping[str, str],
        make: Callable[[Callable[[], object]], Connector],
        make_task: Callable[[Mapping[str, str], int, TaskContext], Work],
    ) -> ConnectorPlan:
        for activity in SCHEDULED[config.connector]:
            config.interval_ms(activity)

        def checked_make(reconfigure: Callable[[], object]) -> Connector:
            # As in Connect: wrong rules for topics are no fault of a config that is put, but of a connector that begins.
            require_valid_topic_creation(config, self._worker)
            return make(reconfigure)

        return ConnectorPlan(
            config.connector_name, dict(props), checked_make, make_task, config.get_int("admin.timeout.ms"),
            is_source=not config.is_sink, needs_tasks=isinstance(config, MirrorSourceConfig) and config.enabled,
        )  # fmt: skip

    # Tasks, with the properties that the workers agreed on

    def _source_task(self, props: Mapping[str, str], index: int, context: TaskContext) -> Work:
        async def work(status: Status) -> None:
            source = MirrorSourceConfig(self._transform(props), self._profile)
            config, metrics = source_task_config(source, self._worker, index), self._metrics_of_source(source.flow)
            remotes = [
                TopicPartition(config.policy.format_remote_topic(config.flow.source, one.topic), one.partition) for one in config.partitions
            ]
            meters = self._source_tasks.of_task(config.connector, index)
            with _measured(metrics, source, index, remotes), self._errors.of_task(config.connector, index) as counts, meters as meter:
                config = replace(config, transforming=transforming(source, self._worker, index, counts, self._runtime.clock))
                await MirrorSourceTask(self._runtime, config, self.offset_storage(), metrics, context, meter).run(status)

        return work

    def _checkpoint_task(self, props: Mapping[str, str], index: int, context: TaskContext) -> Work:
        async def work(status: Status) -> None:
            checkpoint = MirrorCheckpointConfig(self._transform(props), self._profile)
            config, metrics = checkpoint_task_config(checkpoint, self._worker, index), self._metrics_of_checkpoints(checkpoint.flow)
            meters, errors = (
                self._source_tasks.of_task(checkpoint.connector_name, index),
                self._errors.of_task(checkpoint.connector_name, index),
            )
            with _measured(metrics, checkpoint, index, config.groups), errors as counts, meters as meter:
                config = replace(config, records=self._transformed(checkpoint, config.records, index, counts))
                await MirrorCheckpointTask(self._runtime, config, self.offset_storage(), metrics, context, meter).run(status)

        return work

    def _heartbeat_task(self, props: Mapping[str, str], _: int, context: TaskContext) -> Work:
        async def work(status: Status) -> None:
            heartbeat = MirrorHeartbeatConfig(self._transform(props), self._profile)
            config = heartbeat_task_config(heartbeat, self._worker)
            meters = self._source_tasks.of_task(heartbeat.connector_name, 0)
            with self._errors.of_task(heartbeat.connector_name, 0) as counts, meters as meter:
                config = replace(config, records=self._transformed(heartbeat, config.records, 0, counts))
                await MirrorHeartbeatTask(self._runtime, config, self.offset_storage(), context, meter).run(status.heard)

        return work

    def _transformed(self, config: MirrorConnectorConfig, records: RecordsConfig, index: int, counts: ErrorCounts) -> RecordsConfig:
        return replace(records, transforming=transforming(config, self._worker, index, counts, self._runtime.clock))

    def _metrics_of_source(self, flow: SourceAndTarget) -> MirrorSourceMetrics:
        if flow not in self._source_metrics:
            self._source_metrics[flow] = MirrorSourceMetrics(self._registry, self._runtime.clock, flow)
        return self._source_metrics[flow]

    def _metrics_of_checkpoints(self, flow: SourceAndTarget) -> MirrorCheckpointMetrics:
        if flow not in self._checkpoint_metrics:
            self._checkpoint_metrics[flow] = MirrorCheckpointMetrics(self._registry, self._runtime.clock, flow)
        return self._checkpoint_metrics[flow]

    def offset_storage(self) -> SourceOffsets:
        if self._given_offsets is not None:
            return self._given_offsets
        if self._offsets is None:
            worker, label = self._worker, f"{self._name}|offsets"
            self._offsets = OffsetStorage(
                self._runtime,
                worker.offset_storage_topic,
                consumer=worker.storage_consumer(f"{label}-consumer"),
                producer=worker.client("producer", f"{label}-producer"),
            )
        return self._offsets


class Measured(Protocol[T]):
    """`MirrorSourceMetrics`, `MirrorCheckpointMetrics`."""

    def begin(self, task: TaskOfMetrics, of: Iterable[T], /) -> None: ...

    def end(self, task: TaskOfMetrics) -> None: ...


@contextmanager
def _measured(metrics: Measured[T], config: MirrorConnectorConfig, index: int, of: Sequence[T]) -> Iterator[None]:
    """What a task has is shown as its own while it runs."""
    task = TaskOfMetrics(config.connector_name, index, tuple(config.get_list("metric.names.formats")))
    metrics.begin(task, of)
    try:
        yield
    finally:
        metrics.end(task)


def _raise_wrong(wrong: Mapping[str, str]) -> None:
    for message in wrong.values():
        raise ConfigError(message)
