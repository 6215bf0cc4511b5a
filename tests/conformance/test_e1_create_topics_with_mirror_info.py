"""CreateTopics v8 with MirrorInfo: its bytes, and what the controller makes of it (RS12)."""

from __future__ import annotations

from typing import Any

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest, MirrorInfo
from kmirror.wire.primitives import Writer

GIVEN = Uuid.from_string("lBq12jYZRp-9wF3M9MPopg")
OTHER = Uuid(b"0123456789abcdef")
E = Errors


def three() -> ControllerDouble:
    controller = ControllerDouble(mirroring=True)
    controller.start_brokers(1, 2, 3)
    return controller


def topic(name: str, topic_id: Uuid | None, **more: Any) -> CreatableTopic:
    settings = {"num_partitions": 2, "replication_factor": 2} | more
    return CreatableTopic(name=name, mirror_info=None if topic_id is None else MirrorInfo(topic_id=topic_id), **settings)


def create(controller: ControllerDouble, *topics: CreatableTopic) -> list[tuple[Errors, str | None, Uuid]]:
    answer = controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=list(topics))))
    return [(E.for_code(row.error_code), row.error_message, row.topic_id) for row in answer.topics]


@pytest.mark.parametrize(
    ("topic_id", "expected"), [(None, "ff"), (GIVEN, "01941ab5da3619469fbdc05dccf4c3e8a600"), (Uuid.ZERO, "01" + "00" * 17)]
)
@pytest.mark.item("A2")
def test_rs12_bytes_of_mirror_info(topic_id: Uuid | None, expected: str) -> None:
    """MirrorInfo follows the topic's configs, and null is one byte of -1 (A2).

    Versions below 8 do not carry it.
    """

    def written(version: int) -> bytes:
        out = Writer()
        topic("t", topic_id).write(out, version)
        return b"".join(bytes(part) for part in out.parts())

    assert written(8) == written(7)[:-1] + bytes.fromhex(expected) + b"\x00"


def test_rs12_the_id_that_is_given_is_the_topics() -> None:
    controller = three()
    assert create(controller, topic("t", GIVEN)) == [(E.NONE, None, GIVEN)]
    assert controller.state.image.topics.by_name["t"].id == GIVEN


@pytest.mark.parametrize("nothing", [None, Uuid.ZERO])
def test_rs12_null_and_the_zero_id_make_an_ordinary_topic(nothing: Uuid | None) -> None:
    controller = three()
    ((error, _, topic_id),) = create(controller, topic("t", nothing))
    assert error is E.NONE and topic_id not in (Uuid.ZERO, GIVEN)


def test_rs12_an_id_belongs_to_one_topic() -> None:
    controller = three()
    create(controller, topic("t", GIVEN))
    assert create(controller, topic("u", GIVEN))[0][:2] == (E.INVALID_REQUEST, f"Topic id {GIVEN} is already used by topic 't'.")
    same = create(controller, topic("v", OTHER), topic("w", OTHER), topic("x", None))
    assert [row[0] for row in same] == [E.INVALID_REQUEST, E.INVALID_REQUEST, E.NONE]
    metadata = create(controller, topic("y", Uuid.METADATA_TOPIC_ID))
    assert metadata[0][0] is E.INVALID_REQUEST
    assert sorted(controller.state.image.topics.by_name) == ["t", "x"]


@pytest.mark.item("ERR38", "ERR39")
def test_rs12_every_replica_has_to_be_active() -> None:
    """Fenced, or on its way out: INVALID_REPLICA_ASSIGNMENT where the replicas were named,
    INVALID_REPLICATION_FACTOR where they were not.
    """
    for make_inactive in ({"want_fence": True}, {"want_shut_down": True}):
        controller = three()
        create(
            controller, topic("led", None, num_partitions=-1, replication_factor=-1, assignments=[CreatableReplicaAssignment(0, [3, 1])])
        )
        controller.heartbeat(3, **make_inactive)
        named = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 3])]
        manual = topic("t", GIVEN, num_partitions=-1, replication_factor=-1, assignments=named)
        assert create(controller, manual)[0][0] is E.INVALID_REPLICA_ASSIGNMENT
        assert create(controller, topic("t", GIVEN, replication_factor=3))[0][0] is E.INVALID_REPLICATION_FACTOR
        assert create(controller, topic("t", GIVEN, replication_factor=2, num_partitions=1))[0][0] is E.NONE, "two are active"
        ordinary = topic("u", None, num_partitions=-1, replication_factor=-1, assignments=named)
        assert create(controller, ordinary)[0][0] is E.NONE, "ordinary topics do not care"


def test_rs12_without_the_feature_no_id_is_taken() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1, 2, 3)
    assert create(controller, topic("t", GIVEN))[0][0] is E.UNSUPPORTED_VERSION
    assert create(controller, topic("t", Uuid.ZERO))[0][0] is E.NONE
