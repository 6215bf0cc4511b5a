"""A standalone worker of Connect: one process with a file of its own, connectors from further files or
the REST interface (RU3; Connect's `ConnectStandalone`).

    bootstrap.servers                   the cluster that the worker's producers write to: the target
    key.converter, value.converter      connectors without their own have these: ByteArrayConverter
    offset.storage.file.filename        where source offsets are
    offset.flush.interval.ms            how often tasks store them (60000)
    listeners                           where the REST interface is (http://:8083)
    security.protocol, sasl.*, ssl.*    the worker's own clients; producer.* and so on are the connectors'
    config.providers                    replace references in this file and in configs of connectors

Without `config.providers` no reference is replaced: whoever may use the REST interface could read any
file of this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from kmirror.clients.client_config import ClientConfig, common_config_def
from kmirror.common.config import NO_DEFAULT, ConfigDef, ConfigType
from kmirror.common.health import Health, joined
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirrormaker.cluster_watch import ClusterWatch
from kmirror.mirrormaker.connect_worker import ConnectClientsConfig
from kmirror.mirrormaker.herder.file_offset_storage import FileOffsetStorage
from kmirror.mirrormaker.herder.herder import TargetState
from kmirror.mirrormaker.herder.standalone_herder import StandaloneHerder
from kmirror.mirrormaker.herder.worker_health import NOT_LOOKED_AT
from kmirror.mirrormaker.herder.worker_metrics import register_worker_metrics
from kmirror.mirrormaker.mirror_maker_config import Transform
from kmirror.mirrormaker.mirror_plans import MirrorPlans
from kmirror.mirrormaker.rest.connect_rest import ConnectRest
from kmirror.mirrormaker.startups import WorkerStartups
from kmirror.mirrormaker.task_transactions import SUPPORT_CONFIG
from kmirror.runtime.api import Runtime

OFFSET_FILE_CONFIG: Final = "offset.storage.file.filename"
CONVERTERS: Final = ("key.converter", "value.converter")
_NO_TOPICS: Final = {"group.id": "", **{f"{kind}.storage.topic": "" for kind in ("offset", "config", "status")}}
"""What other workers share, this one has in memory and in its file."""


def _definition() -> ConfigDef:
    definition = ConfigDef()
    definition.define("bootstrap.servers", ConfigType.LIST, NO_DEFAULT)
    for name in CONVERTERS:
        definition.define(name, ConfigType.CLASS, NO_DEFAULT)
    definition.define(OFFSET_FILE_CONFIG, ConfigType.STRING, NO_DEFAULT)
    return definition


class StandaloneWorker:
    """ConfigError, before anything begins, for properties that are wrong."""

    def __init__(self, runtime: Runtime, props: Mapping[str, str], resolve: Transform = dict) -> None:
        self._runtime = runtime
        self._resolve = resolve
        self._props = dict(resolve(props))
        self._values = _definition().parse(self._props)
        self._config = ConnectClientsConfig({name: value for name, value in self._props.items() if name != SUPPORT_CONFIG} | _NO_TOPICS)
        self._rest = ConnectRest(runtime, self._props)
        self._offsets = FileOffsetStorage(runtime.files, self._values[OFFSET_FILE_CONFIG])
        self._plans: MirrorPlans | None = None
        self.metrics = MetricsRegistry(runtime.clock)
        self._herder: StandaloneHerder | None = None
        admin = self._config.client("admin", "connect-standalone-watch")
        self._startups = WorkerStartups(runtime.clock)
        register_worker_metrics(self.metrics, lambda: {} if self._herder is None else self._herder.units, self._startups)
        self._watch = ClusterWatch(runtime, "target", ClientConfig(common_config_def(), admin, runtime))

    @property
    def herder(self) -> StandaloneHerder:
        """Once it has started."""
        assert self._herder is not None
        return self._herder

    @property
    def url(self) -> str:
        return self._rest.advertised_url

    async def start(self) -> None:
        """Answers the REST interface; no connector runs yet."""
        await self._rest.start()
        worker_id = urlsplit(self._rest.advertised_url).netloc
        self._plans = MirrorPlans(self._runtime, f"connect-{worker_id}", self._config, self.metrics, self._resolve, offsets=self._offsets)
        self._herder = StandaloneHerder(
            self._runtime,
            worker_id,
            self._config,
            self._plans,
            self._offsets,
            self._resolve,
            self._rest.loggers.set_level,
            {name: self._values[name] for name in CONVERTERS},
            self._startups,
        )
        self._watch.start()
        self._rest.serve(self._herder, self._herder.validate)

    async def create(self, name: str, config: Mapping[str, str], target_state: TargetState | None = None) -> None:
        """Makes a connector of a file. HerderError if it is wrong."""
        await self.herder.put_connector_config(name, config, allow_replace=False, target_state=target_state)

    async def stop(self) -> None:
        """Answers no more; tasks wait for what is on its way and store their offsets."""
        await self._rest.stop()
        await self._watch.stop()
        if self._herder is not None:
            await self._herder.stop()
        if self._plans is not None:
            await self._plans.close()

    def health(self) -> Health:
        """Returns whether what should run is known, and runs, and whether the worker's cluster answers."""
        if self._herder is None:
            return Health(["the worker is starting"], ["the start of the worker"], NOT_LOOKED_AT)
        return joined([self._herder.readiness(), self._watch.health()])
