"""Mirrors in the controller: table D6 row by row, names, configs, the state topic, deletion, and
leader epochs (KIP-1279).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_result import ControllerResult
from kmirror.metadata.image import ConfigResource
from kmirror.wire.messages import add_topics_to_mirror as add
from kmirror.wire.messages import bump_leader_epochs as bump
from kmirror.wire.messages import pause_mirror_topics as pause
from kmirror.wire.messages import remove_topics_from_mirror as remove
from kmirror.wire.messages import resume_mirror_topics as resume
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, MirrorConfig
from kmirror.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.delete_mirror import DeleteMirrorRequest
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kmirror.wire.messages.partition_record import PartitionRecord

OTHER_ID = Uuid(b"0123456789abcdef")
ACTIONS = ("add", "remove", "pause", "resume")


def double(*, mirroring: bool = True, replication_factor: int = 1) -> ControllerDouble:
    controller = ControllerDouble(mirroring=mirroring, mirror_topic_num_partitions=3, mirror_topic_replication_factor=replication_factor)
    controller.start_brokers(1, 2)
    return controller


def create(controller: ControllerDouble, name: str = "X", **configs: str | None) -> tuple[Errors, str | None]:
    values: dict[str, str | None] = {"bootstrap_servers": "source:9092"} | configs
    config = [MirrorConfig(name=key.replace("_", "."), value=value) for key, value in values.items()]
    response = controller.run(controller.mirrors.create_mirror(CreateMirrorRequest(mirror_name=name, config=config)))
    return Errors(response.error_code), response.error_message


def act(controller: ControllerDouble, action: str, *topics: tuple[str, Uuid], mirror: str = "X") -> Any:
    modules: dict[str, tuple[Any, Any, Callable[[Any], Any]]] = {
        "add": (add, add.AddTopicsToMirrorRequest, controller.mirrors.add_topics),
        "remove": (remove, remove.RemoveTopicsFromMirrorRequest, controller.mirrors.remove_topics),
        "pause": (pause, pause.PauseMirrorTopicsRequest, controller.mirrors.pause_topics),
        "resume": (resume, resume.ResumeMirrorTopicsRequest, controller.mirrors.resume_topics),
    }
    module, request, decide = modules[action]
    data = [module.TopicData(topic_name=name, topic_id=topic_id) for name, topic_id in topics]
    return controller.run(decide(request(mirror_name=mirror, topics=data)))


def association(controller: ControllerDouble, topic: str = "t") -> str | None:
    return controller.state.image.configs.topic(topic).get("mirror.name")


def associate(controller: ControllerDouble, value: str, topic: str = "t") -> None:
    controller.run(ControllerResult(controller.configuration.set_records(ConfigResource(2, topic), {"mirror.name": value}), None))


TABLE = {
    None: ("X", 136, 136, 136),
    "X": (137, "X.removed", "X.paused", 140),
    "X.paused": (137, "X.paused.removed", 139, "X"),
    "X.removed": ("X", 138, 141, 141),
    "X.paused.removed": ("X", 138, 141, 141),
    "Y": (137, 138, 138, 138),
    "Y.paused": (137, 138, 138, 138),
    "Y.removed": ("X", 138, 138, 138),
    "Y.paused.removed": ("X", 138, 138, 138),
}


@pytest.mark.parametrize("present", list(TABLE), ids=str)
@pytest.mark.parametrize("action", ACTIONS)
def test_table_d6(present: str | None, action: str) -> None:
    controller = double()
    create(controller)
    create(controller, "Y")
    controller.create_topic("t", [[1]])
    if present is not None:
        associate(controller, present)
    expected = TABLE[present][ACTIONS.index(action)]
    response = act(controller, action, ("t", Uuid.ZERO))
    assert (response.error_code, response.error_message, response.mirror_name) == (0, None, "X")
    code = response.topics[0].error_code
    if isinstance(expected, int):
        assert (code, association(controller)) == (expected, present)
    else:
        assert (code, association(controller)) == (0, expected)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_topic_gets_one_result(action: str) -> None:
    controller = double()
    create(controller)
    topic = controller.create_topic("t", [[1]])
    response = act(
        controller, action, ("nope", Uuid.ZERO), ("t", OTHER_ID), ("__mirror_state", Uuid.ZERO), ("", topic.id), ("", OTHER_ID), ("t", topic.id)
    )  # fmt: skip
    codes = {result.name: Errors(result.error_code) for result in response.topics}
    assert codes["nope"] is Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert codes["__mirror_state"] is Errors.INVALID_TOPIC_EXCEPTION
    assert codes["t"] is Errors.INCONSISTENT_TOPIC_ID, "the first result of a name stands"
    assert codes[""] is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_can_be_named_by_its_id() -> None:
    controller = double()
    create(controller)
    topic = controller.create_topic("t", [[1]])
    assert act(controller, "add", ("", topic.id)).topics[0].name == "t"
    assert association(controller) == "X"


@pytest.mark.parametrize("action", ACTIONS)
def test_an_unknown_mirror_refuses_the_request_as_a_whole(action: str) -> None:
    controller = double()
    controller.create_topic("t", [[1]])
    response = act(controller, action, ("t", Uuid.ZERO), mirror="nope")
    assert (response.error_code, response.error_message, response.topics) == (136, "The mirror 'nope' does not exist.", [])


@pytest.mark.parametrize("action", ACTIONS)
def test_nothing_works_while_mirror_version_is_0(action: str) -> None:
    controller = double(mirroring=False)
    controller.create_topic("t", [[1]])
    assert act(controller, action, ("t", Uuid.ZERO)).error_code == Errors.UNSUPPORTED_VERSION
    assert create(controller)[0] is Errors.UNSUPPORTED_VERSION
    assert controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name="X"))).error_code == Errors.UNSUPPORTED_VERSION
    with pytest.raises(ApiException) as error:
        controller.mirrors.bump_leader_epochs(bump.BumpLeaderEpochsRequest())
    assert error.value.error is Errors.UNSUPPORTED_VERSION


def test_the_first_mirror_makes_the_state_topic() -> None:
    controller = double(replication_factor=2)
    assert create(controller, mirror_groups_include=None) == (Errors.NONE, None)
    topic = controller.state.image.topics.by_name["__mirror_state"]
    assert [len(partition.replicas) for partition in topic.partitions.values()] == [2, 2, 2]
    assert controller.state.image.configs.topic("__mirror_state") == {
        "cleanup.policy": "compact", "compression.type": "producer", "retention.ms": "-1", "flush.messages": "1",
        "unclean.leader.election.enable": "false", "mirror.topic.num.partitions": "3",
    }  # fmt: skip
    assert controller.state.image.configs.mirror("X") == {"bootstrap.servers": "source:9092"}, "a null value leaves the config unset"
    create(controller, "Y")
    assert controller.state.image.configs.mirror_names() == ["X", "Y"]


def test_too_few_brokers_for_the_state_topic() -> None:
    controller = double(replication_factor=3)
    code, text = create(controller)
    assert code is Errors.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in str(text)
    assert controller.state.image.configs.mirror_names() == []


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("a b", {}, Errors.INVALID_MIRROR_NAME), ("X.paused", {}, Errors.INVALID_MIRROR_NAME), ("", {}, Errors.INVALID_MIRROR_NAME),
        ("X", {}, Errors.INVALID_MIRROR_NAME), ("Z", {"no_such": "1"}, Errors.INVALID_CONFIG), ("Z", {"bootstrap_servers": None}, Errors.INVALID_CONFIG),
        ("Z", {"source_cluster_id": "x"}, Errors.INVALID_CONFIG), ("a b", {"no_such": "1"}, Errors.INVALID_MIRROR_NAME),
        ("X", {"no_such": "1"}, Errors.INVALID_CONFIG),
    ],
)  # fmt: skip
def test_mirrors_that_cannot_be_created(name: str, configs: dict[str, str | None], code: Errors) -> None:
    controller = double()
    create(controller)
    before = controller.state.image
    assert create(controller, name, **configs)[0] is code
    assert controller.state.image.configs is before.configs


def test_an_existing_mirror_is_named_in_the_error() -> None:
    controller = double()
    create(controller)
    assert create(controller) == (Errors.INVALID_MIRROR_NAME, "Mirror 'X' already exists")


@pytest.mark.parametrize("value", ["X", "X.paused"])
def test_a_mirror_with_topics_stays(value: str) -> None:
    controller = double()
    create(controller)
    controller.create_topic("t", [[1]])
    controller.create_topic("u", [[1]])
    associate(controller, value)
    associate(controller, "X.removed", "u")
    assert controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name="X"))).error_code == 142
    assert association(controller, "u") == "X.removed", "nothing of a refused request is done"


def test_deleting_a_mirror_clears_its_removed_topics_only() -> None:
    controller = double()
    create(controller)
    create(controller, "Y")
    values = {"a": "X.removed", "b": "X.paused.removed", "c": "Y", "d": "Y.removed"}
    for topic, value in values.items():
        controller.create_topic(topic, [[1]])
        associate(controller, value, topic)
    response = controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name="X")))
    assert (response.error_code, response.error_message) == (0, None)
    assert [association(controller, topic) for topic in "abcd"] == [None, None, "Y", "Y.removed"]
    assert controller.state.image.configs.mirror_names() == ["Y"]
    assert controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name="X"))).error_code == 136
    assert create(controller)[0] is Errors.NONE, "the name is free again"


@pytest.mark.parametrize(
    ("value", "by_broker", "code"), [("X", False, 134), ("X.paused", False, 134), ("X.removed", False, 0), ("X", True, 0)]
)
def test_clients_cannot_grow_or_delete_a_mirrored_topic(value: str, by_broker: bool, code: int) -> None:
    controller = double()
    controller.create_topic("t", [[1]])
    associate(controller, value)
    grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)])
    assert controller.run(controller.replication.create_partitions(grow, by_broker=by_broker)).results[0].error_code == code
    drop = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")])
    assert controller.run(controller.replication.delete_topics(drop, by_broker=by_broker)).responses[0].error_code == code


def test_leader_epochs_rise_above_the_sources() -> None:
    controller = double()
    topic = controller.create_topic("t", [[1], [2], [1]])

    def ask(*wanted: tuple[Uuid, int, int]) -> Any:
        topics = [
            bump.TopicState(topic_id=i, partitions=[bump.LeaderEpochState(partition_index=p, min_leader_epoch=m)]) for i, p, m in wanted
        ]
        return controller.run(controller.mirrors.bump_leader_epochs(bump.BumpLeaderEpochsRequest(topics=topics)))

    response = ask((topic.id, 0, 7), (topic.id, 1, 0), (topic.id, 2, -1), (topic.id, 9, 1), (OTHER_ID, 0, 1))
    assert [type(record) for record in controller.records] == [PartitionRecord, PartitionRecord], "a full record, in Kafka's format"
    assert [(controller.partition("t", i).leader_epoch, controller.partition("t", i).partition_epoch) for i in range(3)] == [
        (8, 1),
        (1, 1),
        (0, 0),
    ]
    assert controller.partition("t", 0).leader == 1
    codes = [(found.topic_name, found.partitions[0].error_code) for found in response.topics]
    unknown = [("t", Errors.UNKNOWN_TOPIC_OR_PARTITION), ("", Errors.UNKNOWN_TOPIC_ID)]
    assert codes == [("t", 0), ("t", 0), ("t", 0), *unknown]
    ask((topic.id, 0, 7))
    assert controller.records == [], "already above"
    ask((topic.id, 1, 9), (topic.id, 1, 4))
    assert controller.partition("t", 1).leader_epoch == 10, "asked for twice, the epoch does not go back"
    response = ask((topic.id, 2, 2**31 - 1), (topic.id, 0, 2**31 - 2))
    assert [found.partitions[0].error_code for found in response.topics] == [Errors.INVALID_REQUEST, 0], "no int32 is above the largest"
    assert [controller.partition("t", i).leader_epoch for i in (0, 2)] == [2**31 - 1, 0]


def test_an_epoch_is_bumped_without_a_leader_too() -> None:
    controller = double()
    topic = controller.create_topic("t", [[1]])
    controller.heartbeat(1, want_fence=True)
    state = bump.LeaderEpochState(partition_index=0, min_leader_epoch=5)
    controller.run(
        controller.mirrors.bump_leader_epochs(bump.BumpLeaderEpochsRequest(topics=[bump.TopicState(topic_id=topic.id, partitions=[state])]))
    )
    assert (controller.partition("t").leader, controller.partition("t").leader_epoch) == (-1, 6)
