"""A tiny broker for tests of the network: ApiVersions and Metadata, on any runtime.

`ServerBench`: a server of it on a simulated network.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kmirror.common.errors import Errors
from kmirror.network.request_context import RequestContext
from kmirror.network.socket_server import SocketServer
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response
from kmirror.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kmirror.wire.messages.metadata import MetadataRequest, MetadataResponse

METADATA_RANGE = (0, 9)
PORT = 9092


def tiny_broker(
    before_answer: Callable[[RequestContext], Awaitable[None]] | None = None, *, newest_api_versions: int = 3
) -> Callable[[RequestContext], Awaitable[list]]:
    """A handler; `before_answer` is awaited for every Metadata request.

    The cluster id in the answer is the client id.
    """
    ranges = [
        ApiVersion(api_key=ApiKeys.API_VERSIONS, min_version=0, max_version=newest_api_versions),
        ApiVersion(api_key=ApiKeys.METADATA, min_version=METADATA_RANGE[0], max_version=METADATA_RANGE[1]),
    ]

    async def handle(context: RequestContext) -> list:
        header = context.header
        if header.api_key == ApiKeys.API_VERSIONS:
            known = header.api_version <= newest_api_versions
            message = ApiVersionsResponse(error_code=Errors.NONE if known else Errors.UNSUPPORTED_VERSION, api_keys=ranges)
            return encode_response(header.api_key, header.api_version if known else 0, header.correlation_id, message)
        if before_answer is not None:
            await before_answer(context)
        return encode_response(header.api_key, header.api_version, header.correlation_id, MetadataResponse(cluster_id=header.client_id))

    return handle


def frame_of(parts: list) -> bytes:
    return b"".join(part if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes() for part in parts)


def metadata_request(correlation_id: int, *, client_id: str = "raw") -> bytes:
    return frame_of(encode_request(RequestHeader(ApiKeys.METADATA, 9, correlation_id, client_id), MetadataRequest()))


def api_versions_request(correlation_id: int, version: int) -> bytes:
    """Also of versions that we cannot encode: the header is all that matters then."""
    frame = frame_of(encode_request(RequestHeader(ApiKeys.API_VERSIONS, 3, correlation_id, "raw"), ApiVersionsRequest()))
    return frame[:6] + version.to_bytes(2, "big") + frame[8:]


class RawPeer:
    """A `ConnectionProtocol` that keeps every byte and says when the connection ended."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = False
        self.error: Exception | None = None
        self.connection = None
        self._buffer = memoryview(bytearray(4096))

    def connection_made(self, connection) -> None:
        self.connection = connection

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, size: int) -> None:
        self.received += self._buffer[:size]

    def pause_writing(self) -> None:
        pass

    def resume_writing(self) -> None:
        pass

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self.error = error

    def frames(self) -> list[bytes]:
        """Complete frames received so far."""
        frames, position = [], 0
        while position + 4 <= len(self.received):
            size = int.from_bytes(self.received[position : position + 4], "big")
            frames.append(bytes(self.received[position + 4 : position + 4 + size]))
            position += 4 + size
        return frames

    def correlation_ids(self) -> list[int]:
        return [int.from_bytes(frame[:4], "big") for frame in self.frames()]


class SimBench:
    """A simulated world, which whoever made it closes."""

    def __init__(self, seed: int) -> None:
        self.world = SimWorld(SimLoop(seed))

    def run_ms(self, duration_ms: int) -> None:
        self.world.loop.run_for_us(duration_ms * 1000)


class ServerBench(SimBench):
    """A server on node "broker" and raw peers on node "client"."""

    def __init__(self) -> None:
        super().__init__(3)
        self.broker = self.world.node("broker").boot()
        self.client = self.world.node("client").boot()

    def start(self, handler, **options) -> SocketServer:
        server = SocketServer(self.broker, "PLAINTEXT", "", PORT, handler or tiny_broker(), **options)
        self.world.loop.run_until_complete(self.broker.spawn(server.start(), name="start"))
        return server

    def peer(self) -> RawPeer:
        connecting = self.client.spawn(self.client.connect("broker", PORT, RawPeer), name="connect")
        return self.world.loop.run_until_complete(connecting)[1]
