"""What makes a worker, and how it reaches the others of its group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kmirror.mirrormaker.herder.config_backing_store import LEADERS_ID_PREFIX, ConfigBackingStore
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan, MakePlan
from kmirror.mirrormaker.herder.leader_requests import LeaderRequests
from kmirror.mirrormaker.herder.rebalance_metrics import Rebalances
from kmirror.mirrormaker.herder.status_backing_store import StatusBackingStore
from kmirror.mirrormaker.herder.worker_group_member import WorkerGroupConfig
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.runtime.api import Runtime


@dataclass(frozen=True)
class Peers:
    """How workers of a group reach each other: `url` is this worker's own."""

    url: str
    leader: LeaderRequests


@dataclass(frozen=True)
class WorkerSetup:
    """What makes a worker. `plans` are the connectors of a properties file, which the worker writes to
    the topic of configs when it leads; with none it runs whatever the topic says. Without `peers` it
    has no REST interface, and reads the topic only when its group is assigned anew. With `tracks_topics`
    the topic of status says which topics a connector writes to (KIP-558).
    """

    name: str
    worker_id: str
    config: WorkerConfig
    group: WorkerGroupConfig
    plans: Mapping[str, ConnectorPlan]
    make_plan: MakePlan
    rebalances: Rebalances
    startups: WorkerStartups
    peers: Peers | None = None
    tracks_topics: bool = False
    on_logger_level: Callable[[str, str], object] = lambda namespace, level: None


def config_store(runtime: Runtime, setup: WorkerSetup) -> ConfigBackingStore:
    name, worker = setup.name, setup.config
    return ConfigBackingStore(
        runtime,
        worker.config_storage_topic,
        consumer=worker.storage_consumer(f"{name}|configs-consumer"),
        producer=worker.client("producer", f"{name}|configs-producer"),
        transactional_id=f"{LEADERS_ID_PREFIX}{worker.group_id}" if worker.is_exactly_once else None,
    )


def status_store(runtime: Runtime, setup: WorkerSetup) -> StatusBackingStore:
    name, worker = setup.name, setup.config
    return StatusBackingStore(
        runtime,
        worker.status_storage_topic,
        producer=worker.client("producer", f"{name}|status-producer"),
        consumer=worker.client("consumer", f"{name}|status-consumer"),
        worker_id=setup.worker_id,
    )
