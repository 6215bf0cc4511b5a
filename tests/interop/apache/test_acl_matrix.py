"""The ACL matrix asked of Apache Kafka 4.3 over SASL/PLAIN: what it answers is what
tests/golden/acl_matrix.json says.

With KMIRROR_RECORD set, the file is written instead.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator

import pytest
from support.brokers.acl_matrix import CLOSED, GOLDEN, PASSWORD, run, sasl_plain_frames, users
from support.peers.peers import KafkaPeer, apache_kafka, free_port
from support.waiting import REACHED_S

from kmirror.common.uuid import Uuid
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from tests.interop.differential.harness import RawConnection

pytestmark = pytest.mark.interop
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class ApacheSide:
    """A connection for each user, which logs in first; the super user's is the plaintext
    listener's.
    """

    def __init__(self, peer: KafkaPeer, sasl_port: int, controller_port: int) -> None:
        self.topic_ids: dict[str, Uuid] = {}
        self._ports = {"plain": peer.port, "sasl": sasl_port, "controller": controller_port}
        self._connections: dict[tuple[str, str | None], RawConnection] = {}
        self._correlation_id = 0

    def ask(self, user: str | None, api_key: ApiKeys, version: int, message: object, *, controller: bool = False) -> object:
        connection = self._connection("plain" if user is None else "controller" if controller else "sasl", user)
        return self._exchange(connection, api_key, version, message)

    def _connection(self, listener: str, user: str | None) -> RawConnection:
        if (listener, user) not in self._connections:
            connection = self._connections[listener, user] = RawConnection(self._ports[listener], timeout_s=REACHED_S)
            for api_key, version, message in sasl_plain_frames(user) if user is not None else ():
                answer = self._exchange(connection, api_key, version, message)
                assert getattr(answer, "error_code", None) == 0, answer
        return self._connections[listener, user]

    def _exchange(self, connection: RawConnection, api_key: ApiKeys, version: int, message: object) -> object:
        self._correlation_id += 1
        header = RequestHeader(api_key, version, self._correlation_id, "acl-matrix")
        connection.send(b"".join(bytes(part) for part in encode_request(header, message)))  # type: ignore[arg-type]
        raw = connection.frame()
        return CLOSED if raw is None else read_response(api_key, version, memoryview(raw))[1]

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()


@pytest.fixture
def apache(tmp_path: pathlib.Path) -> Iterator[ApacheSide]:
    sasl_port, controller_port = free_port(), free_port()
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in ["admin", *users()])
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="{PASSWORD}" {known};'
    properties = {
        "listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{sasl_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{{port}},SASL://127.0.0.1:{sasl_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": login,
        "listener.name.controller.plain.sasl.jaas.config": login,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:admin",
        "auto.create.topics.enable": "true",
        "delegation.token.secret.key": "a secret",
    }
    with apache_kafka(tmp_path, formatted=True, started=False) as peer:
        peer.properties = {name: value.replace("{port}", str(peer.port)) for name, value in properties.items()}
        peer.format()
        peer.start()
        side = ApacheSide(peer, sasl_port, controller_port)
        yield side
        side.close()


def test_apache_kafka_answers_as_recorded(apache: ApacheSide) -> None:
    outcomes = run(apache)
    if os.environ.get("KMIRROR_RECORD"):
        lines = [f"{json.dumps(name)}: {json.dumps(outcomes[name], sort_keys=True)}" for name in sorted(outcomes)]
        GOLDEN.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    recorded = json.loads(GOLDEN.read_text())
    assert {name: (entry, recorded.get(name)) for name, entry in outcomes.items() if recorded.get(name) != entry} == {}
    assert recorded.keys() == outcomes.keys()
