"""Any image survives its snapshot; any order of decisions leaves an image that its own records
rebuild.
"""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from support.brokers.metadata_doubles import ControllerDouble, ScriptedClock

from kmirror.common.errors import ApiException
from kmirror.metadata.loader import replay_all
from kmirror.metadata.snapshot import decode_snapshot, encode_snapshot
from kmirror.wire.messages import alter_partition as ap
from kmirror.wire.messages import incremental_alter_configs as inc
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kmirror.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

BROKERS = st.integers(1, 3)
TOPICS = st.sampled_from(["a", "b"])
STEPS = st.one_of(
    st.tuples(st.just("fence"), BROKERS),
    st.tuples(st.just("beat"), BROKERS),
    st.tuples(st.just("stop"), BROKERS),
    st.tuples(st.just("restart"), BROKERS),
    st.tuples(st.just("create"), TOPICS, st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("config"), TOPICS, st.sampled_from(["1", "2", None])),
    st.tuples(st.just("isr"), TOPICS, st.permutations([1, 2, 3]), st.integers(1, 3)),
)


def take(controller: ControllerDouble, step: tuple[object, ...]) -> None:
    match step:
        case ("fence", int(broker)):
            controller.heartbeat(broker, want_fence=True)
        case ("beat", int(broker)):
            controller.heartbeat(broker)
        case ("stop", int(broker)):
            controller.heartbeat(broker, want_shut_down=True)
        case ("restart", int(broker)):
            controller.clock.now_ms += 20_000
            controller.register(broker, incarnation=controller.clock.now_ms)
        case ("create", str(name), int(partitions), int(factor)):
            topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
            controller.run(controller.replication.create_topics(CreateTopicsRequest(topics=[topic])))
        case ("delete", str(name)):
            controller.run(controller.replication.delete_topics(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)])))
        case ("config", str(name), value):
            assert value is None or isinstance(value, str)
            config = inc.AlterableConfig(name="min.insync.replicas", config_operation=1 if value is None else 0, value=value)
            resource = inc.AlterConfigsResource(resource_type=2, resource_name=name, configs=[config])
            controller.run(controller.configuration.incremental_alter_configs(inc.IncrementalAlterConfigsRequest(resources=[resource])))
        case ("isr", str(name), list(order), int(size)):
            change_isr(controller, name, order[:size])


def change_isr(controller: ControllerDouble, name: str, isr: list[int]) -> None:
    topic = controller.state.image.topics.by_name.get(name)
    if topic is None or topic.partitions[0].leader < 0:
        return
    partition = topic.partitions[0]
    data = ap.AlterPartitionRequestPartitionData(
        partition_index=0, leader_epoch=partition.leader_epoch, partition_epoch=partition.partition_epoch,
        new_isr_with_epochs=[ap.BrokerState(broker_id=i) for i in isr],
    )  # fmt: skip
    request = ap.AlterPartitionRequest(
        broker_id=partition.leader, broker_epoch=controller.state.image.cluster.brokers[partition.leader].epoch,
        topics=[ap.AlterPartitionRequestTopicData(topic_id=topic.id, partitions=[data])],
    )  # fmt: skip
    controller.run(controller.replication.reports.alter_partition(request, 3))


def check(controller: ControllerDouble, *, elr: bool) -> None:
    """What must hold of every partition, whatever happened."""
    image = controller.state.image
    for topic in image.topics.by_id.values():
        for partition in topic.partitions.values():
            assert partition.leader == -1 or image.cluster.is_active(partition.leader)
            assert partition.leader == -1 or partition.leader in partition.isr
            assert set(partition.isr) <= set(partition.replicas)
            assert len(set(partition.isr)) == len(partition.isr)
            assert partition.isr or elr
            assert not set(partition.elr) & set(partition.isr)
            assert len(partition.directories) == len(partition.replicas)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=25), st.booleans())
def test_decisions_keep_their_promises_and_images_survive_snapshots(steps: list[tuple[object, ...]], elr: bool) -> None:
    controller = ControllerDouble(levels={"eligible.leader.replicas.version": int(elr)})
    controller.start_brokers(1, 2, 3)
    epochs: dict[tuple[object, int], tuple[int, int]] = {}
    for step in steps:
        try:
            take(controller, step)
        except ApiException:
            continue
        check(controller, elr=elr)
        for topic in controller.state.image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                now = (partition.leader_epoch, partition.partition_epoch)
                assert now >= epochs.get((topic.id, number), (0, 0)), "epochs never go back"
                epochs[topic.id, number] = now
    image = controller.state.image
    data = encode_snapshot(image.records(), ScriptedClock(1, 2, 3), last_contained_log_timestamp=4, epoch=1)
    assert replay_all(decode_snapshot(data, "snapshot").records, image.provenance) == image
