"""Topics and partitions: creation, deletion, growth, ISR changes, elections, and the texts of
Kafka's refusals.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.brokers.metadata_doubles import ControllerDouble, directory_of
from support.logs.storage_doubles import SeededRandom

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.replica_placer import place_replicas
from kmirror.metadata.registrations import BrokerRegistration
from kmirror.wire.messages import alter_partition as ap
from kmirror.wire.messages import elect_leaders as el
from kmirror.wire.messages import incremental_alter_configs as iac
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from kmirror.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    MirrorInfo,
)
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord

TOPIC_ID = Uuid(b"0123456789abcdef")


def three(**settings: object) -> ControllerDouble:
    controller = ControllerDouble(**settings)  # type: ignore[arg-type]
    controller.start_brokers(1, 2, 3)
    return controller


def create(controller: ControllerDouble, *topics: CreatableTopic, validate_only: bool = False) -> list[tuple[str, Errors, str | None]]:
    response = controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=list(topics), validate_only=validate_only)))
    return [(result.name, Errors(result.error_code), result.error_message) for result in response.topics]


def simple(name: str, partitions: int = 1, factor: int = 1, **fields: object) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **fields)  # type: ignore[arg-type]


def manual(name: str, *replicas: list[int]) -> CreatableTopic:
    assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(replicas)]
    return simple(name, -1, -1, assignments=assignments)


def test_records_of_a_new_topic_come_in_kafkas_order() -> None:
    controller = three()
    topic = simple("t", 3, 2, configs=[CreatableTopicConfig(name="retention.ms", value="5")])
    assert create(controller, topic) == [("t", Errors.NONE, None)]
    assert [type(record) for record in controller.records] == [TopicRecord, ConfigRecord, *[PartitionRecord] * 3]
    image = controller.state.image.topics.by_name["t"]
    assert sorted(partition.leader for partition in image.partitions.values()) == [1, 2, 3], "leaders go round the brokers"
    for partition in image.partitions.values():
        assert partition.isr == partition.replicas
        assert len(set(partition.replicas)) == 2
        assert partition.directories == tuple(directory_of(replica) for replica in partition.replicas)


def test_defaults_come_from_the_settings() -> None:
    controller = three(num_partitions=4, default_replication_factor=3)
    create(controller, simple("t", -1, -1))
    assert [len(p.replicas) for p in controller.state.image.topics.by_name["t"].partitions.values()] == [3] * 4


def test_the_response_describes_configs_and_their_sources() -> None:
    controller = three(static_topic_configs={"log.segment.bytes": "2097152"})
    topic = simple("t", configs=[CreatableTopicConfig(name="retention.ms", value="5")])
    result = controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=[topic]))).topics[0]
    assert (result.num_partitions, result.replication_factor) == (1, 1)
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["segment.bytes"] == ("2097152", 4)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert "mirror.name" not in configs
    assert list(configs) == sorted(configs)


def test_validate_only_writes_nothing() -> None:
    controller = three()
    assert create(controller, simple("t"), validate_only=True) == [("t", Errors.NONE, None)]
    assert "t" not in controller.state.image.topics.by_name


@pytest.mark.parametrize(
    ("topic", "code", "text"),
    [
        (simple(""), Errors.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
        (simple("there"), Errors.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (simple("a.b"), Errors.INVALID_TOPIC_EXCEPTION, "Topic 'a.b' collides with existing topic: a_b"),
        (simple("t", 0), Errors.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (simple("t", 1, 0), Errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."),
        (
            simple("t", 1, 4), Errors.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (manual("t", [1, 1]), Errors.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes the broker 1 more than once."),
        (
            manual("t", [9]), Errors.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (manual("t", []), Errors.INVALID_REPLICA_ASSIGNMENT, "The manual partition assignment includes an empty replica list."),
        (
            manual("t", [1, 2], [1]), Errors.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 "
            "replica(s).",
        ),
        (
            simple("t", 1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]), Errors.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            simple("t", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=1, broker_ids=[1])]), Errors.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            simple("t", configs=[CreatableTopicConfig(name="retention.ms", value=None)]), Errors.INVALID_CONFIG,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            simple("t", configs=[CreatableTopicConfig(name="segment.bytes", value="1")]), Errors.INVALID_CONFIG,
            "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576",
        ),
        (
            simple("t", configs=[CreatableTopicConfig(name="mirror.name", value="X")]), Errors.INVALID_REQUEST,
            "Config mirror.name is internal: it is set by the requests of cluster mirroring only.",
        ),
        (simple("t", mirror_info=MirrorInfo(topic_id=TOPIC_ID)), Errors.UNSUPPORTED_VERSION, None),
    ],
)  # fmt: skip
def test_topics_that_are_refused(topic: CreatableTopic, code: Errors, text: str | None) -> None:
    controller = three()
    create(controller, simple("there"), simple("a_b"))
    (name, error, message), *_ = create(controller, topic, simple("fine"))
    assert (name, error) == (topic.name, code)
    assert text is None or message == text
    assert "fine" in controller.state.image.topics.by_name, "one topic's error is its own"


def test_a_name_given_twice() -> None:
    controller = three()
    assert create(controller, simple("t"), simple("t")) == [("t", Errors.INVALID_REQUEST, "Duplicate topic name.")]


def test_no_broker_at_all_or_none_awake() -> None:
    controller = ControllerDouble()
    controller.register(1)
    _, code, text = create(controller, simple("t"))[0]
    assert (code, text) == (
        Errors.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced.",
    )


def test_a_fenced_broker_follows_but_is_not_in_sync() -> None:
    controller = ControllerDouble()
    controller.start_brokers(1)
    controller.register(2)
    create(controller, simple("t", 1, 2))
    partition = controller.partition("t")
    assert (partition.replicas, partition.isr) == ((1, 2), (1,))


def test_a_mirror_topic_keeps_the_id_it_is_given() -> None:
    controller = three(mirroring=True)
    assert create(controller, simple("t", 1, 2, mirror_info=MirrorInfo(topic_id=TOPIC_ID)))[0][1] is Errors.NONE
    assert controller.state.image.topics.by_name["t"].id == TOPIC_ID
    assert create(controller, simple("u", mirror_info=MirrorInfo(topic_id=TOPIC_ID)))[0][1] is Errors.INVALID_REQUEST
    assert create(controller, simple("v", mirror_info=MirrorInfo()))[0][1] is Errors.NONE, "a zero id asks for nothing"
    assert controller.state.image.topics.by_name["v"].id not in (Uuid.ZERO, TOPIC_ID)


def test_a_mirror_topic_wants_all_its_replicas_awake() -> None:
    controller = ControllerDouble(mirroring=True)
    controller.start_brokers(1)
    controller.register(2)
    info = MirrorInfo(topic_id=TOPIC_ID)
    assert create(controller, simple("t", 1, 2, mirror_info=info))[0][1] is Errors.INVALID_REPLICATION_FACTOR
    topic = manual("t", [1, 2])
    topic.mirror_info = info
    assert create(controller, topic)[0][1] is Errors.INVALID_REPLICA_ASSIGNMENT


def test_deleting_by_name_and_by_id() -> None:
    controller = three()
    create(controller, simple("a"), simple("b"))
    by_id = controller.state.image.topics.by_name["b"].id
    wanted = [
        DeleteTopicState(name="a"), DeleteTopicState(topic_id=by_id), DeleteTopicState(name="b"), DeleteTopicState(name="nope"),
        DeleteTopicState(topic_id=TOPIC_ID), DeleteTopicState(), DeleteTopicState(name="a", topic_id=by_id),
    ]  # fmt: skip
    response = controller.run(controller.replication.delete_topics(DeleteTopicsRequest(topics=wanted)))
    assert [Errors(result.error_code) for result in response.responses] == [
        Errors.NONE, Errors.INVALID_REQUEST, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID, Errors.INVALID_REQUEST,
        Errors.INVALID_REQUEST,
    ]  # fmt: skip
    assert response.responses[1].name == "b"
    assert "b" in controller.state.image.topics.by_name, "named by name and by id: refused once, and not deleted"


def test_adding_partitions() -> None:
    controller = three()
    create(controller, simple("t", 2, 2))

    def grow(count: int, assignments: list[list[int]] | None = None) -> tuple[Errors, str | None]:
        chosen = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=count, assignments=chosen)])
        result = controller.run(controller.replication.create_partitions(request)).results[0]
        return Errors(result.error_code), result.error_message

    assert grow(2) == (Errors.INVALID_PARTITIONS, "Topic already has 2 partition(s).")
    assert grow(1) == (Errors.INVALID_PARTITIONS, "The topic t currently has 2 partition(s); 1 would not be an increase.")
    text = "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    assert grow(4, [[1, 2]]) == (Errors.INVALID_REPLICA_ASSIGNMENT, text)
    assert grow(4) == (Errors.NONE, None)
    assert grow(5, [[3, 1]]) == (Errors.NONE, None)
    partitions = controller.state.image.topics.by_name["t"].partitions
    assert list(partitions) == [0, 1, 2, 3, 4]
    assert partitions[4].replicas == (3, 1)


def alter(
    controller: ControllerDouble, isr: list[int], *, broker: int = 1, leader_epoch: int = 0, partition_epoch: int = 0, **fields: int
) -> Errors:
    epochs = {b.id: b.epoch for b in controller.state.image.cluster.brokers.values()}
    data = ap.AlterPartitionRequestPartitionData(
        partition_index=0, leader_epoch=leader_epoch, partition_epoch=partition_epoch,
        new_isr_with_epochs=[ap.BrokerState(broker_id=i, broker_epoch=fields.get("epoch", epochs.get(i, -1))) for i in isr],
    )  # fmt: skip
    topic = ap.AlterPartitionRequestTopicData(topic_id=controller.state.image.topics.by_name["t"].id, partitions=[data])
    request = ap.AlterPartitionRequest(broker_id=broker, broker_epoch=epochs[broker], topics=[topic])
    result = controller.run(controller.replication.reports.alter_partition(request, 3)).topics[0].partitions[0]
    return Errors(result.error_code)


def test_the_leader_changes_its_isr() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2, 3]])
    assert alter(controller, [1, 2]) is Errors.NONE
    partition = controller.partition("t")
    assert (partition.isr, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 0, 1), "a shrink keeps the leader epoch since 3.6"
    assert alter(controller, [1, 2, 3], partition_epoch=1) is Errors.NONE
    assert controller.partition("t").isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("isr", "fields", "code"),
    [
        ([1, 2], {"leader_epoch": 1}, Errors.NOT_CONTROLLER), ([1, 2], {"partition_epoch": 1}, Errors.NOT_CONTROLLER),
        ([1, 2], {"broker": 2}, Errors.INVALID_REQUEST), ([2, 3], {}, Errors.INVALID_REQUEST), ([1, 9], {}, Errors.INVALID_REQUEST),
        ([1, 1], {}, Errors.INVALID_REQUEST), ([1, 2], {"epoch": 99}, Errors.INELIGIBLE_REPLICA),
    ],
)  # fmt: skip
def test_isr_changes_that_are_refused(isr: list[int], fields: dict[str, int], code: Errors) -> None:
    controller = three()
    controller.create_topic("t", [[1, 2, 3]])
    assert alter(controller, isr, **fields) is code
    assert controller.partition("t").partition_epoch == 0


def test_a_late_isr_change_meets_a_newer_epoch() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2, 3]])
    controller.heartbeat(3, want_fence=True)
    assert alter(controller, [1, 2]) is Errors.INVALID_UPDATE_VERSION
    assert alter(controller, [1, 2, 3], partition_epoch=1) is Errors.INELIGIBLE_REPLICA


def test_a_stale_broker_epoch_refuses_everything() -> None:
    controller = three()
    with pytest.raises(ApiException) as error:
        controller.replication.reports.alter_partition(ap.AlterPartitionRequest(broker_id=1, broker_epoch=99), 3)
    assert error.value.error is Errors.STALE_BROKER_EPOCH


def elect(controller: ControllerDouble, election_type: int = 0) -> Errors:
    request = el.ElectLeadersRequest(election_type=election_type, topic_partitions=[el.TopicPartitions(topic="t", partitions=[0])])
    response = controller.run(controller.replication.elections.elect_leaders(request))
    return Errors(response.replica_election_results[0].partition_result[0].error_code)


def test_the_preferred_leader_comes_back() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2]])
    assert elect(controller) is Errors.ELECTION_NOT_NEEDED
    controller.heartbeat(1, want_fence=True)
    assert controller.partition("t").leader == 2
    assert elect(controller) is Errors.PREFERRED_LEADER_NOT_AVAILABLE
    controller.heartbeat(1)
    assert alter(controller, [2, 1], broker=2, leader_epoch=1, partition_epoch=1) is Errors.NONE
    assert controller.run(controller.replication.elections.balance_leaders()) == 1
    assert controller.partition("t").leader == 1


def test_an_unclean_election_loses_the_isr_and_begins_recovery() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2]])
    controller.heartbeat(2, want_fence=True)
    controller.heartbeat(1, want_fence=True)
    assert (controller.partition("t").leader, controller.partition("t").isr) == (-1, (1,)), "the last in-sync replica stays in the ISR"
    controller.heartbeat(2)
    assert controller.partition("t").leader == -1, "replica 2 is not in sync"
    assert elect(controller, 1) is Errors.NONE
    partition = controller.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_unclean_elections_by_themselves_where_the_topic_allows() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2]], {"unclean.leader.election.enable": "true"})
    controller.heartbeat(2, want_fence=True)
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(2)
    assert controller.partition("t").leader == 2


def test_elr_members_may_lead_when_the_isr_is_empty() -> None:
    controller = three(levels={"eligible.leader.replicas.version": 1})
    controller.create_topic("t", [[1, 2, 3]], {"min.insync.replicas": "2"})
    for broker in (3, 2):
        controller.heartbeat(broker, want_fence=True)
    assert (controller.partition("t").isr, controller.partition("t").elr) == ((1,), (2,)), (
        "3 left while the ISR was large enough, 2 below min ISR"
    )
    controller.heartbeat(1, want_fence=True)
    partition = controller.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1, 2), (1,))
    controller.heartbeat(3)
    assert controller.partition("t").leader == -1, "3 may miss records"
    controller.heartbeat(2)
    partition = controller.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 0)


def broker(broker_id: int, rack: str | None = None, *, fenced: bool = False) -> BrokerRegistration:
    return BrokerRegistration(broker_id, 1, Uuid.ZERO, {}, {}, rack=rack, fenced=fenced)


def test_replicas_spread_over_racks_and_leaders_over_brokers() -> None:
    brokers = [broker(0, "a"), broker(1, "a"), broker(2, "b"), broker(3, "b"), broker(4, "c"), broker(5, "c")]
    assignments = place_replicas(brokers, SeededRandom(1), partitions=12, replication_factor=3)
    leaders = [replicas[0] for replicas in assignments]
    assert sorted(leaders) == sorted([0, 1, 2, 3, 4, 5] * 2)
    for replicas in assignments:
        assert len(set(replicas)) == 3
        assert {"aabbcc"[replica] for replica in replicas} == {"a", "b", "c"}, "each replica on another rack"
    assert len({tuple(sorted(replicas)) for replicas in assignments}) > 2, "not always the same brokers together"


def test_a_small_rack_gets_a_replica_of_each_partition() -> None:
    """Racks come before an even load, as in Kafka."""
    brokers = [broker(number, "big") for number in range(5)] + [broker(9, "small")]
    assignments = place_replicas(brokers, SeededRandom(3), partitions=20, replication_factor=2)
    assert all(9 in replicas for replicas in assignments)


def test_more_replicas_than_racks_go_round_again() -> None:
    brokers = [broker(0, "a"), broker(1, "a"), broker(2, "b"), broker(3, "b")]
    for replicas in place_replicas(brokers, SeededRandom(5), partitions=8, replication_factor=4):
        assert sorted(replicas) == [0, 1, 2, 3]
    for replicas in place_replicas(brokers, SeededRandom(5), partitions=8, replication_factor=3):
        assert {"aabb"[replica] for replica in replicas[:2]} == {"a", "b"}


def test_brokers_with_cordoned_directories_get_nothing() -> None:
    cordoned = replace(broker(2), directories=(TOPIC_ID,), cordoned_directories=(TOPIC_ID,))
    assignments = place_replicas([broker(0), broker(1), cordoned], SeededRandom(1), partitions=6, replication_factor=2)
    assert all(2 not in replicas for replicas in assignments)
    with pytest.raises(ApiException) as error:
        place_replicas([broker(0), broker(1), cordoned], SeededRandom(1), partitions=1, replication_factor=3)
    assert "some brokers have all their log directories cordoned" in error.value.message


def test_fenced_brokers_come_last() -> None:
    assignments = place_replicas([broker(0), broker(1, fenced=True)], SeededRandom(1), partitions=3, replication_factor=2)
    assert assignments == [[0, 1]] * 3


def test_leaderless_partitions_are_elected_uncleanly_only_where_that_is_allowed() -> None:
    controller = three()
    for name in ("safe", "allowed"):
        controller.create_topic(name, [[1, 2]], {"unclean.leader.election.enable": "true"} if name == "allowed" else {})
        assert controller.alter_isr(name, [1]) is Errors.NONE
    controller.heartbeat(2, want_fence=True)
    controller.heartbeat(1, want_fence=True)
    assert [controller.partition(name).leader for name in ("safe", "allowed")] == [-1, -1]
    assert controller.run(controller.replication.elections.elect_unclean()) == 0, "nobody is alive"
    controller.heartbeat(2)
    assert controller.partition("allowed").leader == 2
    assert controller.run(controller.replication.elections.elect_unclean()) == 0
    assert controller.partition("safe").leader == -1


def test_a_cluster_wide_switch_elects_for_every_topic() -> None:
    controller = three()
    controller.create_topic("t", [[1, 2]])
    assert controller.alter_isr("t", [1]) is Errors.NONE
    controller.heartbeat(1, want_fence=True)
    assert controller.partition("t").leader == -1
    change = iac.AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
    resource = iac.AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
    controller.run(controller.configuration.incremental_alter_configs(iac.IncrementalAlterConfigsRequest(resources=[resource])))
    assert controller.run(controller.replication.elections.elect_unclean()) == 1
    partition = controller.partition("t")
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (2, (2,), 1)


def test_ten_thousand_partitions_at_once_are_the_most() -> None:
    controller = three()
    controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=[simple("t")])))
    for topics in ([simple("a", 10_001)], [simple("a", 6_000), simple("b", 6_000)], [simple("a", 2**31 - 1)]):
        with pytest.raises(ApiException, match=r"Excessively large number of partitions per request\.") as refused:
            controller.replication.create_topics(CreateTopicsRequest(topics=topics))
        assert refused.value.error is Errors.POLICY_VIOLATION
    grown = [CreatePartitionsTopic(name="t", count=65_535, assignments=None)]
    (result,) = controller.run(controller.replication.create_partitions(CreatePartitionsRequest(topics=grown))).results
    assert result.error_code == Errors.POLICY_VIOLATION
    assert len(controller.state.image.topics.by_name["t"].partitions) == 1


def test_names_collide_while_the_other_topic_exists() -> None:
    controller = three()
    assert create(controller, simple("a.b_c"))[0][1] is Errors.NONE
    text = "Topic 'a_b.c' collides with existing topic: a.b_c"
    assert create(controller, simple("a_b.c")) == [("a_b.c", Errors.INVALID_TOPIC_EXCEPTION, text)]
    assert create(controller, simple("a.b_c"))[0][1] is Errors.TOPIC_ALREADY_EXISTS
    assert create(controller, simple("abc"))[0][1] is Errors.NONE
    controller.run(controller.replication.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name="a.b_c")])))
    assert create(controller, simple("a_b.c"))[0][1] is Errors.NONE
