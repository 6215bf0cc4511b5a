"""The controller role of a node: the quorum controller, its APIs, and the controller listener.

The listener takes plain requests from brokers, and requests of clients that a broker forwards
inside Envelopes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from kmirror.common.errors import ApiException
from kmirror.common.metrics import MetricsRegistry
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_apis import ControllerApis
from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.authorizer.acl_publisher import AclPublisher
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.registrations import Endpoint
from kmirror.network.frame_memory import FrameMemory
from kmirror.network.request_context import CLOSE, Answer, CloseType, RequestContext
from kmirror.network.socket_server import SocketServer
from kmirror.runtime.api import Runtime
from kmirror.server.apis.describe_configs import describe_configs
from kmirror.server.authorizer import create_authorizer
from kmirror.server.broker_metrics import register_network
from kmirror.server.controller_metrics import ControllerMetrics
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.listener_security import channel_builder
from kmirror.server.quota.quota_managers import DynamicClientQuotaPublisher, QuotaManagers
from kmirror.server.request import Request
from kmirror.server.request_frames import close, decode_fairly, encode_fairly
from kmirror.server.request_log import REQUEST_LOGGER, log_completed
from kmirror.server.request_metrics import RequestChannelMetrics
from kmirror.server.request_timing import RequestTiming, timed
from kmirror.storage.meta_properties import MetaProperties
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader
from kmirror.wire.messages.describe_configs import DescribeConfigsResponse

NOT_SERVED = (0, -1)
"""The version range of an API that the controller does not serve."""

_log = logging.getLogger(__name__)


class ControllerServer:
    """Owns the quorum controller, its authorizer and its listener.

    `start` binds the listener and opens the metadata log; `port` is the bound port. The port is
    part of the controller's registration, so the listener comes first. Requests wait until the log
    is open.
    """

    def __init__(
        self,
        runtime: Runtime,
        config: KafkaConfig,
        properties: MetaProperties,
        *,
        metrics: MetricsRegistry,
        quotas: QuotaManagers,
        request_metrics: RequestChannelMetrics,
        on_fatal: Callable[[str], None],
    ) -> None:
        """`on_fatal(reason)` is called when the controller has failed for good.

        It is the only one of its quorum, so it must not stay up without a word.
        """
        self._runtime = runtime
        self._on_fatal = on_fatal
        self._request_metrics = request_metrics
        self._config = config
        self._properties = properties
        self._quotas = quotas
        self._metrics = metrics
        self._listener = config.controller_listeners[0]
        self._ready: asyncio.Future[ControllerApis] = runtime.create_future()
        self._socket_server = SocketServer(
            runtime,
            self._listener.name,
            self._listener.host,
            self._listener.port,
            self._handle,
            limits=config.socket_server_limits(),
            connection_quotas=quotas.connections,
            frame_memory=FrameMemory(config.get_int("queued.max.request.bytes")),
            security=channel_builder(config, self._listener, runtime=runtime, metrics=metrics, images=self._image, ready=self._ready),
        )
        register_network(metrics, [self._socket_server])
        self._authorizer = create_authorizer(config, metrics, "controller")
        self.controller: QuorumController | None = None

    @property
    def port(self) -> int:
        return self._socket_server.port

    def _image(self) -> MetadataImage:
        return MetadataImage.EMPTY if self.controller is None else self.controller.image

    @property
    def is_active(self) -> bool:
        """Whether requests are answered: the log is open and nothing failed."""
        return self._ready.done() and self.controller is not None and self.controller.is_active

    async def start(self) -> None:
        await self._socket_server.start()
        endpoint = Endpoint(self._listener.name, self._listener.host, self.port, self._listener.security_protocol_id)
        properties = self._properties
        config = self._config.controller_config(
            cluster_id=properties.cluster_id or "", directory_id=properties.directory_id or Uuid.ZERO, listeners=(endpoint,)
        )
        self.controller = QuorumController(config, self._runtime)
        if self._authorizer is not None:
            self.controller.loader.install_publisher(AclPublisher(self._authorizer, waits_for_load=True))
        await self.controller.start()
        self.controller.on_fatal = self._on_fatal
        if self._authorizer is not None:
            self._authorizer.complete_initial_load()
        self.controller.loader.install_publisher(DynamicClientQuotaPublisher(self._config, self._quotas))
        self.controller.loader.install_publisher(ControllerMetrics(self.controller, self._metrics, self._runtime.clock))
        apis = ControllerApis(self.controller, self._authorizer, self._quotas.controller_mutation)
        apis.register(ApiKeys.DESCRIBE_CONFIGS, self._describe_configs)
        self._ready.set_result(apis)

    async def _describe_configs(self, header: RequestHeader, request: Any, context: ControllerRequestContext) -> DescribeConfigsResponse:
        """Describes this node and the cluster; permissions were checked before."""
        return describe_configs(request, self._config, self._image(), check=lambda resource: None)

    async def stop(self) -> None:
        await self._socket_server.stop()
        if self.controller is not None:
            await self.controller.stop()

    async def kill(self) -> None:
        """Stops without flushing or closing anything on disk."""
        await self._socket_server.stop()
        if self.controller is not None:
            await self.controller.kill()

    async def _handle(self, context: RequestContext) -> Answer | CloseType:
        now_ns = self._runtime.clock.monotonic_ns
        timing = RequestTiming(arrived_ns=context.arrived_ns, started_ns=now_ns())
        return await timed(self._answer(context, timing), timing, now_ns)

    async def _answer(self, context: RequestContext, timing: RequestTiming) -> Answer | CloseType:
        header = context.header
        apis = await asyncio.shield(self._ready)
        lowest, highest = apis.versions().get(ApiKeys(header.api_key), NOT_SERVED)
        is_served = lowest <= header.api_version <= highest
        request = await decode_fairly(self._runtime, context, timing, is_served=is_served)
        if not isinstance(request, Request):
            return request
        asked = ControllerRequestContext(
            principal=context.principal, is_broker=True, listener_name=context.listener_name, client_address=context.client_address
        )
        try:
            response = await apis.handle(header, request.message, asked)
        except ApiException as error:
            return close(context, f"{request.api_key.name} cannot be answered: {error.message}")
        parts = await encode_fairly(self._runtime, context, request, response)
        if parts is CLOSE:
            return CLOSE
        return Answer(parts, 0, lambda send_ns: self._completed(request, response, send_ns))

    def _completed(self, request: Request, response: Any, send_ns: int) -> None:
        """Counts a request whose response was sent, and logs it if the request log is on."""
        self._request_metrics.completed(request, response, throttle_time_ms=0, send_ns=send_ns, is_for_controller=True)
        if REQUEST_LOGGER.isEnabledFor(logging.DEBUG):
            log_completed(request, response, throttle_time_ms=0, send_ns=send_ns)
