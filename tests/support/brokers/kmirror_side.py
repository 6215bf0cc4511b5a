"""An embedded cluster that can be asked under any principal: requests are handed to the broker or
the controller with the name on them.

Whole frames go in and come out, so that versions and error responses are those of the wire; there
is no socket and no login.
"""

from __future__ import annotations

from typing import Any

from kmirror import EmbeddedCluster
from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import CLOSE, Answer, RequestContext
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_request_header, read_response
from support.brokers.acl_matrix import CLOSED

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}


class KmirrorSide:
    """Whole frames in, whole frames out, without sockets."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.topic_ids: dict[str, Uuid] = {}
        self._cluster = cluster

    def ask(self, user: str | None, api_key: ApiKeys, version: int, message: Any, *, controller: bool = False) -> Any:
        frame = b"".join(bytes(part) for part in encode_request(RequestHeader(api_key, version, 1, "acl-matrix"), message))[4:]
        header, position = read_request_header(memoryview(frame))
        context = RequestContext(
            header=header,
            buffer=memoryview(frame),
            position=position,
            listener_name="CONTROLLER" if controller else "PLAINTEXT",
            client_address="127.0.0.1",
            connection_id="matrix",
            principal=ANONYMOUS if user is None else KafkaPrincipal("User", user),
            security_protocol="SASL_PLAINTEXT",
        )
        answer = self._cluster._call(_handle(self._cluster, context, controller=controller))
        return CLOSED if answer is None else read_response(api_key, version, memoryview(answer))[1]


async def _handle(cluster: EmbeddedCluster, context: RequestContext, *, controller: bool) -> bytes | None:
    server = cluster.nodes[0].server
    assert isinstance(server, KafkaServer) and server.broker is not None and server.controller is not None
    answer = await (server.controller._handle(context) if controller else server.broker._handle(context))
    parts = answer.parts if isinstance(answer, Answer) else answer
    if parts is None or parts is CLOSE:
        return None
    return b"".join(bytes(part) if isinstance(part, bytes | bytearray | memoryview) else part.to_bytes() for part in parts)[4:]  # type: ignore[union-attr]
