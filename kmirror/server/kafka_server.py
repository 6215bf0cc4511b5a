"""One node: broker, controller, or both, from one `server.properties` (Kafka's `KafkaRaftServer`).

The roles know each other only by the address of the controller listener and talk by Kafka's RPCs,
even when they share a process. In a combined node the controller starts first and stops last.
"""

from __future__ import annotations

import asyncio
import logging

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.health import Health, joined
from kmirror.common.metrics import MetricsRegistry
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.runtime.api import Runtime
from kmirror.server.broker_metrics import UNEXPECTED_FAILURES, register_node
from kmirror.server.broker_server import BrokerServer
from kmirror.server.controller_server import ControllerServer
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.node_http import HTTP_LISTENER_CONFIG, NodeHttp
from kmirror.server.quota.quota_managers import QuotaManagers
from kmirror.server.request_metrics import RequestChannelMetrics
from kmirror.server.secret_files import make_secret_files_private
from kmirror.storage.meta_properties import MetaProperties
from kmirror.storage.meta_properties_ensemble import MetaPropertiesEnsemble

_log = logging.getLogger(__name__)


class KafkaServer:
    """Owns a node's roles, metrics, quotas and HTTP endpoint.

    Call `start`, then `stop` (in good order) or `kill` (as SIGKILL); the object cannot be used
    again. Only the simulator passes other `safeguards`.
    """

    def __init__(self, config: KafkaConfig, runtime: Runtime, *, safeguards: MirrorSafeguards = ALL_SAFEGUARDS) -> None:
        self._config = config
        self._runtime = runtime
        self._safeguards = safeguards
        self.metrics = MetricsRegistry(runtime.clock)
        self.quotas = QuotaManagers(config, self.metrics, runtime.clock)
        self.request_metrics = RequestChannelMetrics(self.metrics, runtime.clock)
        self.controller: ControllerServer | None = None
        self.broker: BrokerServer | None = None
        http_listener = config.get_string(HTTP_LISTENER_CONFIG)
        mirrors = self._mirrors if config.is_broker else None
        self.http = NodeHttp(runtime, http_listener, self.metrics, self.health, mirrors) if http_listener else None
        self.fatal: asyncio.Future[str] = runtime.create_future()
        self._halting: asyncio.Task[None] | None = None
        self._busy: asyncio.Task[None] | None = None
        """The task that is starting or stopping the node now."""

    def bound_port(self, listener_name: str) -> int:
        """The port that a listener of this node is bound to."""
        if self.controller is not None and listener_name in self._config.controller_listener_names:
            return self.controller.port
        if self.broker is None:
            raise KmirrorError(f"this node has no listener {listener_name}")
        return self.broker.port(listener_name)

    async def start(self) -> None:
        """Starts the node.

        Raises KmirrorError when the log dirs are not formatted or belong to another node or
        cluster, or when something happens that ends a running node (a failing disk).
        """
        self._busy = starting = asyncio.current_task()
        try:
            await self._start()
        except BaseException:
            if self._halting is None:
                await self.kill()
                raise
            await self._wait_until_halted(starting)
            raise KmirrorError(self.fatal.result()) from None
        finally:
            self._busy = None
        _log.info("[KafkaServer id=%d] Kafka Server started", self._config.node_id)

    async def _wait_until_halted(self, busy: asyncio.Task[None] | None) -> None:
        """Waits for `_halt`, which has cancelled the start or the stop.

        That task may have failed by itself before it noticed.
        """
        assert self._halting is not None, "waits for a halt that nobody asked for"
        if busy is not None:
            busy.uncancel()
        try:
            await asyncio.shield(self._halting)
        except asyncio.CancelledError:
            await self._halting

    async def _start(self) -> None:
        properties = self._read_meta_properties()
        make_secret_files_private(self._runtime.files, dict.fromkeys((self._config.metadata_log_dir, *self._config.log_dirs)))
        register_node(self.metrics, self._config.node_id, properties.cluster_id or "", self._config.process_roles)
        self.metrics.gauge(UNEXPECTED_FAILURES, lambda: self._runtime.failure_count)
        if self.http is not None:
            await self.http.start()
        if self._config.is_controller:
            self.controller = ControllerServer(
                self._runtime,
                self._config,
                properties,
                metrics=self.metrics,
                quotas=self.quotas,
                request_metrics=self.request_metrics,
                on_fatal=self._halt,
            )
            await self.controller.start()
        if self._config.is_broker:
            host, port = self._controller_address()
            self.broker = BrokerServer(
                self._runtime,
                self._config,
                properties.cluster_id or "",
                controller_host=host,
                controller_port=port,
                metrics=self.metrics,
                quotas=self.quotas,
                request_metrics=self.request_metrics,
                safeguards=self._safeguards,
                on_fatal=self._halt,
            )
            await self.broker.start()

    def health(self) -> Health:
        """Returns whether the node serves."""
        if self.fatal.done():
            return Health([self.fatal.result()], ["the end of the node"])
        roles: list[Health] = []
        if self._config.is_controller:
            is_active = self.controller is not None and self.controller.is_active
            reasons = [] if is_active else ["the controller is not active"]
            roles.append(Health(reasons, [f"the controller is {'' if is_active else 'not '}active"]))
        if self._config.is_broker:
            roles.append(
                self.broker.health() if self.broker is not None else Health(["the broker is starting"], ["the start of the broker"])
            )
        return joined(roles)

    def _mirrors(self) -> dict[str, Health]:
        return {} if self.broker is None else self.broker.mirror.healths()

    def _halt(self, reason: str) -> None:
        """Drops the node as by SIGKILL, since it cannot go on; `fatal` says why."""
        if not self.fatal.done():
            _log.error("[KafkaServer id=%d] %s", self._config.node_id, reason)
            self.fatal.set_result(reason)
            self._halting = self._runtime.spawn(self.kill(), name="halt")
            if self._busy is not None:
                self._busy.cancel()

    def _controller_address(self) -> tuple[str, int]:
        """Returns the address of the one voter; for this process's own controller, with the bound
        port.
        """
        addresses = [*self._config.quorum_voters.values(), *self._config.quorum_bootstrap_servers]
        if len(addresses) != 1:
            raise ConfigError(f"kmirror runs a controller quorum of one voter, but {len(addresses)} are configured")
        host, port = addresses[0]
        return host, self.controller.port if self.controller is not None else port

    def _read_meta_properties(self) -> MetaProperties:
        """Reads the metadata log dir's properties, after checking that all log dirs are this
        node's.
        """
        config, runtime = self._config, self._runtime
        ensemble = MetaPropertiesEnsemble.load(runtime.files, config.metadata_log_dir, config.log_dirs)
        ensemble.verify(runtime.files, node_id=config.node_id, keeps_metadata=config.is_controller)
        ensemble.complete(runtime.files, runtime.clock, runtime.random)
        return ensemble.properties[config.metadata_log_dir]

    async def stop(self) -> None:
        """Stops in good order, or as `_halt` does if something happens that ends a running node.

        In that case `fatal` is done.
        """
        if self._halting is not None:
            await self._halting
            return
        self._busy = stopping = asyncio.current_task()
        try:
            await self._stop()
        except BaseException:
            if self._halting is None:
                raise
            await self._wait_until_halted(stopping)
        finally:
            self._busy = None

    async def _stop(self) -> None:
        if self.broker is not None:
            await self.broker.stop()
        if self.controller is not None:
            await self.controller.stop()
        if self.http is not None:
            self.http.stop()

    async def kill(self) -> None:
        if self.broker is not None:
            await self.broker.kill()
        if self.controller is not None:
            await self.controller.kill()
        if self.http is not None:
            self.http.stop()
