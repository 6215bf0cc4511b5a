"""A worker of a Connect cluster that runs MirrorMaker's connectors (Kafka's `ConnectDistributed`).

Workers with the same `group.id` and the same three topics are a cluster, of ours, of Apache's, or both.
What it runs is said over HTTP (`rest`), and stands in the topic of configs. The connectors are
MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector and MirrorSinkConnector; they
write to the worker's own cluster, `bootstrap.servers`, the sink to its target.

    bootstrap.servers, group.id                                     required
    config.storage.topic, offset.storage.topic, status.storage.topic      required
    key.converter, value.converter                                  required: of connectors without their own
    listeners, rest.advertised.*, ...                               `rest.rest_config`
    exactly.once.source.support, session.timeout.ms, ...            as for `connect-mirror-maker`
    security.protocol, sasl.*, ssl.*, client.id                     the worker's own clients
    producer.*, consumer.*, admin.*                                 clients of connectors

Keys and values are bytes already, so a connector runs with ByteArrayConverter only, its own or the
worker's. Connectors of MirrorMaker mostly name it themselves, because Apache's sample file and many
images have JsonConverter for the worker: such a file is well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kmirror.common.errors import ConfigError
from kmirror.common.health import Health
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.client_configs import CLIENT_CONFIG_NAMES
from kmirror.mirrormaker.connector_validation import ConfigInfos, require_valid, validate
from kmirror.mirrormaker.herder.connector_plan import ConnectorPlan
from kmirror.mirrormaker.herder.distributed_herder import DistributedHerder
from kmirror.mirrormaker.herder.leader_requests import LeaderRequests
from kmirror.mirrormaker.herder.rebalance_metrics import register_rebalance_metrics
from kmirror.mirrormaker.herder.worker_metrics import register_worker_metrics
from kmirror.mirrormaker.herder.worker_setup import Peers
from kmirror.mirrormaker.mirror_maker_config import Transform
from kmirror.mirrormaker.mirror_plans import MirrorPlans
from kmirror.mirrormaker.rest.connect_rest import ConnectRest
from kmirror.mirrormaker.transforms.converters import SIMPLE_CLASS
from kmirror.mirrormaker.worker_config import WorkerConfig
from kmirror.runtime.api import Runtime

REQUIRED: Final = (
    "bootstrap.servers",
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
    "key.converter",
    "value.converter",
)
CONVERTERS: Final = ("key.converter", "value.converter")
"""Headers are copied as they are, whatever the worker says of them."""
BYTES: Final = "ByteArrayConverter"


class ConnectClientsConfig(WorkerConfig):
    """Of a worker whose file has settings of its own clients without a prefix, and those of connectors'
    clients with one.
    """

    default_header_converter = SIMPLE_CLASS

    def client(self, kind: str, client_id: str) -> dict[str, str]:
        own = {name: value for name, value in self.originals.items() if name in CLIENT_CONFIG_NAMES}
        return own | {"bootstrap.servers": ",".join(self.get_list("bootstrap.servers")), "client.id": client_id}

    def connector_client(self, kind: str, client_id: str) -> dict[str, str]:
        return super().client(kind, client_id)


class ConnectWorkerConfig(ConnectClientsConfig):
    """ConfigError, in Kafka's words, for what is missing or wrong."""

    def __init__(self, props: Mapping[str, str]) -> None:
        for name in REQUIRED:
            if not props.get(name, "").strip():
                raise ConfigError(f'Missing required configuration "{name}" which has no default value.')
        super().__init__(props)
        self.converters = {name: props[name] for name in CONVERTERS}
        """Of connectors that name none."""

    def require_bytes(self, connector: Mapping[str, str]) -> None:
        """ConfigError for a connector whose keys or values would not be copied as they are."""
        for name in CONVERTERS:
            given = connector.get(name, "").strip() or self.converters[name].strip()
            if given.rpartition(".")[2] != BYTES:
                whose = "" if connector.get(name, "").strip() else ", the worker's,"
                raise ConfigError(
                    f"Invalid value {given}{whose} for configuration {name}: kmirror's connectors copy bytes; give the connector "
                    "org.apache.kafka.connect.converters.ByteArrayConverter"
                )


class ConnectWorker:
    """ConfigError, before anything begins, for a file that cannot be used."""

    def __init__(self, runtime: Runtime, props: Mapping[str, str], *, transform: Transform = dict) -> None:
        resolved = transform(props)
        self._config = config = ConnectWorkerConfig(resolved)
        self.metrics = MetricsRegistry(runtime.clock)
        self._transform = transform
        self._rest = ConnectRest(runtime, resolved)
        name = config.originals.get("client.id", "").strip() or config.group_id
        self._plans = MirrorPlans(runtime, name, config, self.metrics, transform)
        self.herder = DistributedHerder(
            runtime,
            name,
            config,
            [],
            self._plan,
            validate=lambda given: require_valid(self._checked(given)),
            tracks_topics=self._rest.config.tracks_topics,
            on_logger_level=self._rest.loggers.set_level,
        )

        register_worker_metrics(self.metrics, lambda: self.herder.units, self.herder.startups)
        register_rebalance_metrics(self.metrics, lambda: self.herder.rebalances)

    @property
    def advertised_url(self) -> str:
        return self._rest.advertised_url

    async def start(self) -> None:
        """ConfigError if a listener cannot be opened. A cluster that cannot be reached is tried again for ever."""
        await self._rest.start()
        url = self.advertised_url
        self.herder.name_worker(url.partition("://")[2].rstrip("/"))
        self.herder.reach(Peers(url, LeaderRequests(self._rest.client.http_request)))
        self.herder.start()
        self._rest.serve(self.herder, self._checked)

    async def stop(self) -> None:
        """Stops answering, then what runs here; tasks store their offsets."""
        await self._rest.stop()
        await self.herder.stop()
        await self._plans.close()

    def health(self) -> Health:
        """Returns whether what should run at this worker is known, and runs."""
        return self.herder.readiness()

    def _checked(self, config: Mapping[str, str | None]) -> ConfigInfos:
        return validate(config, self._transform, self._plans.plan, self._config.converters)

    def _plan(self, properties: Mapping[str, str]) -> ConnectorPlan:
        """Of a connector that stands in the topic of configs, whoever wrote it there."""
        self._config.require_bytes(self._transform(properties))
        return self._plans.plan(properties)
