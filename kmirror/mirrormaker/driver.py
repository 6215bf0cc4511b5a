"""MirrorMaker 2 on one node: all flows of a properties file (Kafka's `MirrorMaker`).

For each flow that the grammar gives workers (DG5) there are three connectors: source, heartbeat,
checkpoint. A disabled flow has heartbeats only. A flow's worker shares them, and their tasks, with the
workers of other nodes that have the same flow (`herder`); what runs is kept running, and `statuses`
says what is known of it.

`mm2-offsets`, `mm2-configs` and `mm2-status` are in Kafka's formats, so Apache's MirrorMaker 2 goes on
where this one ended, and this one where Apache's ended. With `dedicated.mode.enable.internal.rest=true`
both share a flow: one HTTP server for all flows of the node lets the leader of each be told what tasks a
connector wants (KIP-710). Nodes of kmirror alone need none to share a flow.

A flow with MirrorSinkConnector has its worker at the source's cluster, and writes to the target (MC2).

With exactly.once.source.support=enabled, all tasks write in transactions (`task_transactions`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.health import Health, joined
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.connector_config import CONNECTORS, MirrorCheckpointConfig, MirrorSourceConfig
from kmirror.mirrormaker.connector_validation import CHECKPOINT, HEARTBEAT
from kmirror.mirrormaker.cycles import SourceAndTarget
from kmirror.mirrormaker.echoes import KeepingFlow, echo_warnings
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan
from kmirror.mirrormaker.herder.distributed_herder import DistributedHerder
from kmirror.mirrormaker.herder.leader_requests import HttpRequest, LeaderRequests
from kmirror.mirrormaker.herder.rebalance_metrics import register_rebalance_metrics
from kmirror.mirrormaker.herder.worker_metrics import register_worker_metrics
from kmirror.mirrormaker.herder.worker_setup import Peers
from kmirror.mirrormaker.kept_running import Status
from kmirror.mirrormaker.mirror_maker_config import SOURCE_CONNECTOR, MirrorMakerConfig, Transform
from kmirror.mirrormaker.mirror_plans import MirrorPlans
from kmirror.mirrormaker.replication_policy import IdentityReplicationPolicy
from kmirror.mirrormaker.transforms import make_chain
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.runtime.api import Runtime, run_together

_WITHOUT_CHECKPOINTS: Final = "emit.checkpoints.enabled"
_log = logging.getLogger(__name__)


class Flow:
    """One flow's worker on this node. ConfigError for settings that are wrong, or ask for what is not
    built.
    """

    def __init__(
        self, runtime: Runtime, config: MirrorMakerConfig, flow: SourceAndTarget, transform: Transform, metrics: MetricsRegistry
    ) -> None:
        self.flow = flow
        worker = WorkerConfig(config.worker_config(flow, transform), is_sink=config.is_sink(flow))
        self._plans = MirrorPlans(runtime, str(flow), worker, metrics, transform, config.profile, flow=str(flow))
        raw = {name: config.connector_base_config(flow, name) for name in (SOURCE_CONNECTOR, HEARTBEAT, CHECKPOINT)}
        resolved = {name: transform(props) for name, props in raw.items()}
        for props in resolved.values():
            make_chain(props, worker.header_converter)
        if config.is_enabled(flow):
            _check_filters(resolved, config.profile)
        names = [SOURCE_CONNECTOR] if config.is_enabled(flow) else []
        names.append(HEARTBEAT)
        if config.is_enabled(flow) and resolved[CHECKPOINT].get(_WITHOUT_CHECKPOINTS, "true").strip().lower() != "false":
            names.append(CHECKPOINT)
        plans = [self._plans.plan_resolved(raw[name], resolved[name], name) for name in names]
        self.herder = DistributedHerder(runtime, str(flow), worker, plans, self._plan)
        register_worker_metrics(metrics, lambda: self.herder.units, self.herder.startups, str(flow))
        register_rebalance_metrics(metrics, lambda: self.herder.rebalances, str(flow))

    def reach(self, advertised_url: str, http_request: HttpRequest) -> None:
        """Before the start: nodes that share the flow can ask each other."""
        namespace = (self.flow.source, self.flow.target)
        self.herder.reach(Peers(advertised_url, LeaderRequests(http_request, namespace)))

    async def stop(self) -> None:
        await self.herder.stop()
        await self._plans.close()

    def _plan(self, properties: Mapping[str, str]) -> ConnectorPlan:
        """Of a connector that another node has written."""
        name = properties.get("name", "")
        return self._plans.plan(properties, name if name in CONNECTORS else None)


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
        for warning in self.config.warnings():
            _log.warning("%s", warning)
        for warning in echo_warnings(list(_keeping_flows(self.config, transform))):
            _log.warning("%s", warning)

    @property
    def herders(self) -> dict[SourceAndTarget, DistributedHerder]:
        return {flow.flow: flow.herder for flow in self.flows}

    def reach(self, advertised_url: str, http_request: HttpRequest) -> None:
        """Before the start: other nodes reach this one at `advertised_url`."""
        for flow in self.flows:
            flow.reach(advertised_url, http_request)

    def start(self) -> None:
        """Begins; a cluster that cannot be reached is tried again for ever."""
        for flow in self.flows:
            flow.herder.start()

    async def stop(self) -> None:
        """Stops all flows; tasks wait for what is on its way and store their offsets."""
        await run_together(self._runtime, "MirrorMaker stops", [flow.stop() for flow in self.flows])

    def statuses(self) -> list[Status]:
        return [status for flow in self.flows for status in flow.herder.statuses]

    def health(self) -> Health:
        """Returns whether what should run on this node is known, and runs."""
        return joined(flow.herder.readiness() for flow in self.flows)

    def reasons(self) -> list[str]:
        """Returns why the node is not ready; empty if it is."""
        return self.health().all_reasons


def _check_filters(resolved: Mapping[str, Mapping[str, str]], profile: str) -> None:
    """ConfigError for lists that are no regular expressions."""
    source = MirrorSourceConfig(resolved[SOURCE_CONNECTOR], profile)
    source.topics()
    source.config_property_filter()
    MirrorCheckpointConfig(resolved[CHECKPOINT], profile).group_filter()


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
