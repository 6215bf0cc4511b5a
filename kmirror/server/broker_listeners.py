"""The listeners of a broker, one socket server each, and what dynamic settings change in them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kmirror.common.metrics import MetricsRegistry
from kmirror.metadata.image import MetadataImage
from kmirror.network.connection_quotas import ConnectionQuotas
from kmirror.network.frame_memory import FrameMemory
from kmirror.network.server_connection import Handler
from kmirror.network.socket_server import SocketServer
from kmirror.runtime.api import Runtime
from kmirror.server.dynamic_broker_config import Reconfigurable, reconfigure_sockets
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.listener_security import channel_builder, reconfigure_security


class BrokerListeners:
    """Owns the broker's socket servers; `handler` answers the requests of all of them.

    Logins are checked against `images()`, and wait until `ready` is done.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: KafkaConfig,
        metrics: MetricsRegistry,
        handler: Handler,
        *,
        connection_quotas: ConnectionQuotas,
        on_disconnect: Callable[[str], None] | None,
        images: Callable[[], MetadataImage],
        ready: asyncio.Future[None],
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._listeners = config.broker_listeners
        frame_memory = FrameMemory(config.get_int("queued.max.request.bytes"))
        self.sockets = [
            SocketServer(
                runtime,
                listener.name,
                listener.host,
                listener.port,
                handler,
                limits=config.socket_server_limits(),
                connection_quotas=connection_quotas,
                frame_memory=frame_memory,
                on_disconnect=on_disconnect,
                security=channel_builder(config, listener, runtime=runtime, metrics=metrics, images=images, ready=ready),
            )
            for listener in self._listeners
        ]

    def port(self, listener_name: str) -> int:
        """Returns the bound port of a listener."""
        return next(socket.port for socket in self.sockets if socket.listener_name == listener_name)

    def reconfigurables(self) -> tuple[Reconfigurable, Reconfigurable]:
        """Returns what applies dynamic settings: connection limits, then TLS and logins."""
        secured = [(listener, socket.security) for listener, socket in zip(self._listeners, self.sockets, strict=True)]
        return reconfigure_sockets(self.sockets), reconfigure_security(secured, runtime=self._runtime, images=self._images)

    async def start(self) -> None:
        for socket in self.sockets:
            await socket.start()

    async def stop(self, *, grace_ms: int = 0) -> None:
        """Stops every listener; requests in progress have up to `grace_ms` to be answered."""
        for socket in self.sockets:
            await socket.stop(grace_ms=grace_ms)
