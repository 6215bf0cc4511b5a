"""The ACL matrix (tests/acl_matrix.py) asked of kmirror in this process: every outcome is Apache Kafka 4.3's.

Users need no login here: requests are handed to the broker and to the controller with the user's principal on them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from acl_matrix import CASES, CLOSED, GOLDEN, run, variants

from kmirror import EmbeddedCluster
from kmirror.common.kafka_principal import ANONYMOUS, KafkaPrincipal
from kmirror.common.uuid import Uuid
from kmirror.network.request_context import CLOSE, Answer, RequestContext
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_request_header, read_response

KNOWN: dict[str, str] = {
    "DescribeConfigs of client metrics": "a subscription's defaults are not shown",
    "IncrementalAlterConfigs of loggers | all": "levels of loggers cannot be set over the wire",
    "ConsumerGroupHeartbeat": "not served",
    "ConsumerGroupDescribe": "not served",
    "AlterReplicaLogDirs": "not served",
    "DescribeUserScramCredentials": "not served",
    "AlterUserScramCredentials": "not served",
}
"""Outcomes that differ and why, by the beginning of the variant's name."""


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


@pytest.fixture(scope="module")
def outcomes() -> Iterator[dict[str, Any]]:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "3",
    }
    with EmbeddedCluster(config=config) as cluster:
        yield run(KmirrorSide(cluster))


def is_known(label: str) -> bool:
    return any(label.startswith(known) for known in KNOWN)


RECORDED: dict[str, Any] = json.loads(GOLDEN.read_text())


def test_every_variant_is_recorded() -> None:
    assert {f"{variant.case.name} | {variant.label}" for variant in variants()} == RECORDED.keys()


def test_what_is_known_to_differ_still_does(outcomes: dict[str, Any]) -> None:
    differing = [label for label in outcomes if outcomes[label] != RECORDED[label]]
    assert [known for known in KNOWN if not any(label.startswith(known) for label in differing)] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_kmirror_answers_as_apache_kafka(case: Any, outcomes: dict[str, Any]) -> None:
    labels = [f"{variant.case.name} | {variant.label}" for variant in variants() if variant.case is case]
    differing = {
        label: (outcomes[label], RECORDED[label]) for label in labels if outcomes[label] != RECORDED[label] and not is_known(label)
    }
    assert not differing, "\n".join(f"{label}\n  kmirror {ours}\n  Kafka   {kafka}" for label, (ours, kafka) in differing.items())
