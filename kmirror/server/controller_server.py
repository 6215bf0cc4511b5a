"""The controller role of a node: the quorum controller, its APIs, and the controller listener.

The listener takes bare requests of brokers and, inside Envelopes, those of clients that a broker forwards.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_apis import ControllerApis
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.network.request_context import CLOSE, CloseType, RequestContext
from kmirror.network.socket_server import Parts, SocketServer, SocketServerLimits
from kmirror.runtime.api import Runtime
from kmirror.server.listeners import Listener
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import encode_response, read_request
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kmirror.wire.primitives import ProtocolReadError


class ControllerServer:
    """`start` opens the metadata log and the listener; `port` is the bound one."""

    def __init__(self, runtime: Runtime, config: ControllerConfig, listener: Listener, limits: SocketServerLimits) -> None:
        self.controller = QuorumController(config, runtime)
        self._apis = ControllerApis(self.controller)
        self._listener = listener
        self._socket_server = SocketServer(runtime, listener.name, listener.host, listener.port, self._handle, limits=limits)

    @property
    def port(self) -> int:
        return self._socket_server.port

    async def start(self) -> None:
        await self.controller.start()
        await self._socket_server.start()

    async def stop(self) -> None:
        await self._socket_server.stop()
        await self.controller.stop()

    async def kill(self) -> None:
        """Stop without flushing or closing anything on disk."""
        await self._socket_server.stop()
        await self.controller.kill()

    async def _handle(self, context: RequestContext) -> Parts | None | CloseType:
        header = context.header
        try:
            message = read_request(header, context.buffer, context.position)
        except ApiException as error:
            if error.error is Errors.UNSUPPORTED_VERSION and header.api_key == ApiKeys.API_VERSIONS:
                return encode_response(ApiKeys.API_VERSIONS, 0, header.correlation_id, self._unsupported_api_versions())
            return CLOSE
        except ProtocolReadError:
            return CLOSE
        asked = ControllerRequestContext(is_broker=True, listener_name=context.listener_name, client_address=context.client_address)
        response = await self._apis.handle(header, message, asked)
        return encode_response(header.api_key, header.api_version, header.correlation_id, response)

    def _unsupported_api_versions(self) -> ApiVersionsResponse:
        """What a client that asks in a version we do not know can read: version 0 and the versions that we do know."""
        spec = API_TABLE[ApiKeys.API_VERSIONS]
        known = ApiVersion(api_key=ApiKeys.API_VERSIONS, min_version=spec.lowest, max_version=spec.highest)
        return ApiVersionsResponse(error_code=Errors.UNSUPPORTED_VERSION, api_keys=[known])
