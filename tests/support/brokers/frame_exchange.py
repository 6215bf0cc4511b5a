"""A request as bytes into a `BrokerWorld`, and its answer back from bytes, without sockets."""

from __future__ import annotations

from typing import Any

from kmirror.network.request_context import CLOSE, RequestContext
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_request_header, read_response
from support.brokers.broker_doubles import BrokerWorld


async def exchange(world: BrokerWorld, api_key: ApiKeys, version: int, message: Any, *, client_id: str = "test") -> Any:
    """A request as bytes in, the response message out; None and CLOSE as they are."""
    header = RequestHeader(api_key=api_key, api_version=version, correlation_id=7, client_id=client_id)
    frame = memoryview(bytearray(b"".join(_bytes(part) for part in encode_request(header, message))))[4:]
    return await send(world, frame, version)


def _bytes(part: Any) -> bytes:
    return bytes(part) if isinstance(part, (bytes, bytearray, memoryview)) else part.to_bytes()


async def send(world: BrokerWorld, frame: memoryview, version: int) -> Any:
    header, position = read_request_header(frame, 0)
    outcome = await world.apis.handle(RequestContext(header, frame, position, "PLAINTEXT", "127.0.0.1", "connection-1"))
    parts = outcome if outcome is CLOSE else outcome.parts
    if parts is None or parts is CLOSE:
        return parts
    outcome.on_sent(0) if outcome.on_sent else None
    answer = b"".join(_bytes(part) for part in parts)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, message = read_response(header.api_key, version, memoryview(answer)[4:])
    assert correlation_id == 7
    return message
