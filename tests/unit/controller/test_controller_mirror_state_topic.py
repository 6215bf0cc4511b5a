"""`__mirror_state` at the controller: what would lose states, or look for them elsewhere, is
refused to everybody.
"""

from __future__ import annotations

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import Errors
from kmirror.controller.controller_result import ControllerResult
from kmirror.metadata.image import RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource
from kmirror.wire.messages import alter_configs as legacy
from kmirror.wire.messages import alter_partition_reassignments as alter
from kmirror.wire.messages import elect_leaders as el
from kmirror.wire.messages import incremental_alter_configs as incremental
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, MirrorConfig
from kmirror.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kmirror.wire.messages.delete_mirror import DeleteMirrorRequest
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest

STATES = "__mirror_state"
E = Errors
SET, DELETE, APPEND = 0, 1, 2


@pytest.fixture
def controller() -> ControllerDouble:
    double = ControllerDouble(mirroring=True, mirror_topic_num_partitions=2, mirror_topic_replication_factor=3)
    double.start_brokers(1, 2, 3, 4, 5)
    request = CreateMirrorRequest(mirror_name="X", config=[MirrorConfig(name="bootstrap.servers", value="source:9092")])
    assert double.run(double.mirrors.create_mirror(request)).error_code == 0
    return double


def configure(
    controller: ControllerDouble, name: str, value: str | None, *, operation: int = SET, by_broker: bool = False
) -> tuple[E, str]:
    change = incremental.AlterableConfig(name=name, config_operation=DELETE if value is None else operation, value=value)
    resource = incremental.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=STATES, configs=[change])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    result = controller.run(controller.configuration.incremental_alter_configs(request, by_broker=by_broker)).responses[0]
    return E(result.error_code), result.error_message or ""


def delete(controller: ControllerDouble, *, by_broker: bool = False) -> tuple[E, str]:
    response = controller.run(controller.replication.delete_topics(DeleteTopicsRequest(topic_names=[STATES]), by_broker=by_broker))
    return E(response.responses[0].error_code), response.responses[0].error_message or ""


@pytest.mark.parametrize("by_broker", [False, True])
def test_it_does_not_grow(controller: ControllerDouble, by_broker: bool) -> None:
    for assignments in (None, [[1, 2, 3]]):
        wanted = CreatePartitionsTopic(
            name=STATES, count=3, assignments=assignments and [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        )
        request = CreatePartitionsRequest(topics=[wanted])
        result = controller.run(controller.replication.create_partitions(request, by_broker=by_broker)).results[0]
        assert E(result.error_code) is E.INVALID_PARTITIONS
        assert "keeps the number of partitions that it was created with" in result.error_message
    assert len(controller.state.image.topics.by_name[STATES].partitions) == 2


@pytest.mark.parametrize("by_broker", [False, True])
def test_it_is_not_deleted_while_there_are_mirrors(controller: ControllerDouble, by_broker: bool) -> None:
    code, text = delete(controller, by_broker=by_broker)
    assert code is E.POLICY_VIOLATION
    assert text == (
        "__mirror_state holds the states of the mirrors X: delete the mirrors first. "
        "If it is beyond repair, set mirror.topic.deletion.enable=true as a default of all brokers, and delete it."
    )


def test_it_is_deleted_when_there_are_no_mirrors(controller: ControllerDouble) -> None:
    assert controller.run(controller.mirrors.delete_mirror(DeleteMirrorRequest(mirror_name="X"))).error_code == 0
    assert delete(controller) == (E.NONE, "")


def test_it_is_deleted_when_that_was_allowed(controller: ControllerDouble) -> None:
    change = incremental.AlterableConfig(name="mirror.topic.deletion.enable", config_operation=SET, value="true")
    resource = incremental.AlterConfigsResource(resource_type=RESOURCE_BROKER, resource_name="", configs=[change])
    request = incremental.IncrementalAlterConfigsRequest(resources=[resource])
    assert controller.run(controller.configuration.incremental_alter_configs(request)).responses[0].error_code == 0
    assert delete(controller) == (E.NONE, "")
    assert controller.state.image.configs.topic(STATES) == {}


REFUSED = [
    ("cleanup.policy", "delete"), ("cleanup.policy", "compact,delete"), ("cleanup.policy", ""), ("cleanup.policy", None),
    ("retention.ms", "1000"), ("retention.ms", None), ("retention.bytes", "0"), ("flush.messages", "10"), ("flush.messages", None),
    ("unclean.leader.election.enable", "true"), ("unclean.leader.election.enable", None), ("max.message.bytes", "100"),
]  # fmt: skip


@pytest.mark.parametrize("by_broker", [False, True])
@pytest.mark.parametrize(("name", "value"), REFUSED)
def test_configs_that_lose_states_or_keep_them_out(controller: ControllerDouble, name: str, value: str | None, by_broker: bool) -> None:
    before = controller.state.image.configs.topic(STATES)
    code, text = configure(controller, name, value, by_broker=by_broker)
    assert code is E.INVALID_CONFIG
    assert text.startswith(f"{name} of __mirror_state cannot be {'removed' if value is None else repr(value)}"), text
    assert controller.state.image.configs.topic(STATES) == before


def test_a_policy_that_is_added(controller: ControllerDouble) -> None:
    assert configure(controller, "cleanup.policy", "delete", operation=APPEND)[0] is E.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("segment.bytes", "2097152"), ("min.insync.replicas", "2"), ("max.message.bytes", "20000000"), ("delete.retention.ms", "5"),
        ("unclean.leader.election.enable", "false"), ("max.message.bytes", None), ("retention.bytes", "-1"), ("compression.type", "zstd"),
    ],
)  # fmt: skip
def test_other_configs_are_free(controller: ControllerDouble, name: str, value: str | None) -> None:
    assert configure(controller, name, value) == (E.NONE, "")


def set_default(controller: ControllerDouble, name: str, value: str | None) -> None:
    """Of all brokers."""
    records = controller.configuration.set_records(ConfigResource(RESOURCE_BROKER, ""), {name: value})
    controller.run(ControllerResult(records, None))


@pytest.mark.parametrize(
    ("name", "default", "harmless"),
    [
        ("unclean.leader.election.enable", "unclean.leader.election.enable", "false"), ("cleanup.policy", "log.cleanup.policy", "compact"),
        ("retention.ms", "log.retention.ms", "-1"), ("flush.messages", "log.flush.interval.messages", "1"),
    ],
)  # fmt: skip
def test_a_config_does_not_go_while_the_default_is_harmless_either(
    controller: ControllerDouble, name: str, default: str, harmless: str
) -> None:
    """The default was changed afterwards, and the topic had lost what protects it."""
    set_default(controller, default, harmless)
    assert configure(controller, name, None)[0] is E.INVALID_CONFIG
    assert name in controller.state.image.configs.topic(STATES)


def test_what_is_inherited_counts_when_a_config_goes(controller: ControllerDouble) -> None:
    set_default(controller, "message.max.bytes", "1000")
    assert configure(controller, "max.message.bytes", "2000000") == (E.NONE, "")
    assert configure(controller, "max.message.bytes", None)[0] is E.INVALID_CONFIG


def test_it_is_not_elected_uncleanly_by_what_it_inherits(controller: ControllerDouble) -> None:
    """A topic made by an earlier program, or one whose config was removed."""
    topic_configs = {"unclean.leader.election.enable": None}
    controller.run(ControllerResult(controller.configuration.set_records(ConfigResource(RESOURCE_TOPIC, STATES), topic_configs), None))
    set_default(controller, "unclean.leader.election.enable", "true")
    for broker in controller.partition(STATES).replicas:
        controller.heartbeat(broker, want_fence=True)
    last = controller.partition(STATES).isr[0]
    for broker in controller.partition(STATES).replicas:
        if broker != last:
            controller.heartbeat(broker)
    controller.run(controller.replication.elections.elect_unclean())
    assert controller.partition(STATES).leader == -1
    assert controller.partition(STATES).isr == (last,)


def test_the_old_request_for_configs_is_judged_too_and_keeps_the_number_of_partitions(controller: ControllerDouble) -> None:
    def ask(**values: str) -> E:
        configs = [legacy.AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
        resource = legacy.AlterConfigsResource(resource_type=RESOURCE_TOPIC, resource_name=STATES, configs=configs)
        request = legacy.AlterConfigsRequest(resources=[resource])
        return E(controller.run(controller.configuration.alter_configs(request)).responses[0].error_code)

    assert ask(segment_bytes="2097152") is E.INVALID_CONFIG, "what is not named would go"
    made_with = {"cleanup_policy": "compact", "retention_ms": "-1", "flush_messages": "1", "unclean_leader_election_enable": "false"}
    assert ask(**made_with) is E.NONE
    assert controller.state.image.configs.topic(STATES)["mirror.topic.num.partitions"] == "2"
    assert ask(**made_with, mirror_topic_num_partitions="9") is E.INVALID_REQUEST


def test_the_number_of_partitions_is_no_clients_to_set(controller: ControllerDouble) -> None:
    assert configure(controller, "mirror.topic.num.partitions", "9")[0] is E.INVALID_REQUEST
    assert configure(controller, "mirror.topic.num.partitions", None)[0] is E.INVALID_REQUEST


def reassign(controller: ControllerDouble, *target: int) -> tuple[E, str]:
    wanted = alter.ReassignablePartition(partition_index=0, replicas=list(target))
    request = alter.AlterPartitionReassignmentsRequest(topics=[alter.ReassignableTopic(name=STATES, partitions=[wanted])])
    result = controller.run(controller.replication.reassignments.alter_partition_reassignments(request)).responses[0].partitions[0]
    return E(result.error_code), result.error_message or ""


def test_its_replication_does_not_fall_below_the_setting(controller: ControllerDouble) -> None:
    code, text = reassign(controller, 1)
    assert code is E.INVALID_REPLICATION_FACTOR
    assert "cannot go from 3 to 1 replicas" in text
    assert reassign(controller, 1, 2)[0] is E.INVALID_REPLICATION_FACTOR


def test_it_moves_grows_in_replicas_and_comes_back(controller: ControllerDouble) -> None:
    old = controller.partition(STATES).replicas
    assert reassign(controller, *[broker for broker in (1, 2, 3, 4, 5) if broker not in old[1:]]) == (E.NONE, "")
    assert reassign(controller, 1, 2, 3, 4) == (E.NONE, "")
    assert reassign(controller, 1, 2)[0] is E.INVALID_REPLICATION_FACTOR, "in the middle of a move what was there before counts"


def test_what_has_fewer_replicas_than_the_setting_may_move() -> None:
    double = ControllerDouble(mirroring=True, mirror_topic_num_partitions=1, mirror_topic_replication_factor=3)
    double.start_brokers(1, 2, 3)
    double.create_topic(STATES, [[1]])
    assert reassign(double, 2) == (E.NONE, "")


def test_no_unclean_election(controller: ControllerDouble) -> None:
    for broker in controller.partition(STATES).replicas:
        controller.heartbeat(broker, want_fence=True)
    for everything in (False, True):
        wanted = None if everything else [el.TopicPartitions(topic=STATES, partitions=[0])]
        response = controller.run(
            controller.replication.elections.elect_leaders(el.ElectLeadersRequest(election_type=1, topic_partitions=wanted))
        )
        found = {row.topic: row.partition_result[0] for row in response.replica_election_results}[STATES]
        assert E(found.error_code) is E.POLICY_VIOLATION
        assert "cannot be elected uncleanly" in found.error_message


def test_made_by_hand_it_is_made_right() -> None:
    double = ControllerDouble(mirroring=True, mirror_topic_num_partitions=1, mirror_topic_replication_factor=1)
    double.start_brokers(1)

    def make(**configs: str) -> E:
        values = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        topic = CreatableTopic(name=STATES, num_partitions=7, replication_factor=1, configs=values)
        return E(double.run(double.replication.create_topics(CreateTopicsRequest(topics=[topic]))).topics[0].error_code)

    assert make(cleanup_policy="delete") is E.INVALID_CONFIG
    assert make(retention_ms="1") is E.INVALID_CONFIG
    assert make(mirror_topic_num_partitions="1") is E.INVALID_REQUEST
    assert make(segment_bytes="2097152") is E.NONE
    assert double.state.image.configs.topic(STATES) == {
        "cleanup.policy": "compact", "compression.type": "producer", "retention.ms": "-1", "flush.messages": "1",
        "unclean.leader.election.enable": "false", "segment.bytes": "2097152", "mirror.topic.num.partitions": "7",
    }  # fmt: skip
