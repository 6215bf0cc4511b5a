"""Whatever arrives in a frame, KafkaApis answers or closes that connection; it never fails, and
serves the next request.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from support.brokers.broker_doubles import BrokerWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.network.request_context import CLOSE, RequestContext
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages import metadata

BODIES_PER_VERSION = 12


class NoController:
    async def send(self, message: Any) -> Any:
        raise ApiException(Errors.REQUEST_TIMED_OUT, "no controller")

    async def forward(self, request: Any) -> Any:
        raise ApiException(Errors.REQUEST_TIMED_OUT, "no controller")


def bodies(source: random.Random, valid: bytes) -> list[bytes]:
    """Noise, the valid body cut short, the valid body with bytes changed, and the valid body with
    more behind it.
    """
    noise = [source.randbytes(source.randrange(0, 60)) for _ in range(BODIES_PER_VERSION // 3)]
    cut = [valid[: source.randrange(len(valid) + 1)] for _ in range(BODIES_PER_VERSION // 3)]
    changed = []
    for _ in range(BODIES_PER_VERSION // 3):
        body = bytearray(valid or b"\0")
        body[source.randrange(len(body))] = source.randrange(256)
        changed.append(bytes(body))
    return [*noise, *cut, *changed, valid + b"\0\0\0\0"]


async def test_garbage_in_every_served_version(tmp_path: Path) -> None:
    source = random.Random(20261121)
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t")
    controller = NoController()
    world.apis.controller = world.apis.producer_ids._controller = controller
    world.apis.auto_topic_creation._controller = controller
    answered = closed = 0
    for served in world.apis.served.ranges():
        for version in range(served.lowest, served.highest + 1):
            header = RequestHeader(served.api_key, version, 7, "garbage")
            message = API_TABLE[served.api_key].request()
            frame = b"".join(bytes(part) for part in encode_request(header, message))[4:]
            head = len(frame) - _body_size(served.api_key, version, frame)
            for body in bodies(source, frame[head:]):
                context = RequestContext(header, memoryview(frame[:head] + body), head, "PLAINTEXT", "127.0.0.1", "c")
                outcome = await world.apis.handle(context)
                if outcome is CLOSE:
                    closed += 1
                elif outcome.parts is not None:
                    answer = b"".join(part if isinstance(part, bytes) else bytes(part) for part in outcome.parts)
                    read_response(served.api_key, version, memoryview(answer)[4:])
                    answered += 1
    assert answered > 400 and closed > 400
    header = RequestHeader(ApiKeys.METADATA, 9, 7, "fine")
    parts = encode_request(header, metadata.MetadataRequest(topics=None))
    frame = b"".join(bytes(part) for part in parts)[4:]
    head = len(frame) - _body_size(ApiKeys.METADATA, 9, frame)
    assert await world.apis.handle(RequestContext(header, memoryview(frame), head, "PLAINTEXT", "127.0.0.1", "c")) is not CLOSE


def _body_size(api_key: int, version: int, frame: bytes) -> int:
    """Bytes behind the header: key, version, correlation id, client id, and a tag count in flexible
    versions.
    """
    client_id_size = int.from_bytes(frame[8:10], "big")
    tags = 1 if API_TABLE[ApiKeys(api_key)].is_flexible(version) else 0
    return len(frame) - (10 + client_id_size + tags)
