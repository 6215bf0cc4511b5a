"""One test per entry of "the KIP's reference implementation against the KIP text", named by its
number: what it did wrong, we do right.

What the reference does in the same steps is shown in interop/mirror/test_reference_deviations.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka import TopicPartition as GroupPartition
from confluent_kafka.admin import AdminClient as ConfluentAdmin
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    data_batch,
    is_tombstoned,
    kafka_mirrors,
    log_bytes,
    marker_batch,
    newest_by_key,
    numbered,
    partitions_of,
    produce,
    rebuild_log,
    remove,
    send,
    state_logs,
    transactional,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.admin.results import ConfigOperation, ConfigResourceType, NewTopic
from kmirror.cli import mirrors
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.embedded import EmbeddedCluster
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, MirrorStateRecord
from kmirror.network.client import UnsupportedVersionError
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.server.apis.fetch import handle_fetch
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.server.request import Request
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import add_topics_to_mirror, bump_leader_epochs, create_topics, find_coordinator, list_mirrors
from kmirror.wire.messages import create_mirror as create_mirror_messages
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS
from kmirror.wire.records import read_metadata_record

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]
MINIMAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
}


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def same(a: EmbeddedCluster, b: EmbeddedCluster, topic_partition: str) -> bool:
    left = log_bytes(a.log_dir(), topic_partition)
    return len(left) > 0 and left == log_bytes(b.log_dir(), topic_partition)


def mirrored(a: EmbeddedCluster, b: EmbeddedCluster, *topics: str, mirror: str = "m", records: int = 40, partitions: int = 1) -> None:
    """Topics of A are mirrored by B and caught up."""
    for topic in topics:
        create_topic(a.bootstrap_servers, topic, partitions)
        for partition in range(partitions):
            produce(a.bootstrap_servers, topic, numbered(topic, records), partition=partition)
    create_mirror(b.bootstrap_servers, mirror, a.bootstrap_servers)
    add(b.bootstrap_servers, mirror, *topics)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)


def fail_back(a: EmbeddedCluster, b: EmbeddedCluster, mirror: str, *topics: str) -> None:
    create_mirror(a.bootstrap_servers, mirror, b.bootstrap_servers)
    add(a.bootstrap_servers, mirror, *topics)
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, mirror)


def tool(cluster: EmbeddedCluster, *arguments: str) -> tuple[int, str]:
    """Exit code and output of kafka-mirrors."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = mirrors.main(["--bootstrap-server", cluster.bootstrap_servers, *arguments])
    return code, out.getvalue().strip()


def test_entry_01_clean_failback_as_in_the_recording_c1_to_c6(clusters: Clusters) -> None:
    """f1 in m1: the source restarts before it diverges. f2 in m2: three own records in the epoch of
    the mirrored ones. lz in m3: a batch of ten at the marker's offset. The reset is in a new epoch,
    and both ends become identical without a restart.
    """
    a, b = clusters
    mirrored(a, b, "f1", mirror="m1", records=100)
    mirrored(a, b, "f2", mirror="m2", records=50)
    mirrored(a, b, "lz", mirror="m3", records=40)
    for topic, mirror, end in (("f1", "m1", 101), ("f2", "m2", 51), ("lz", "m3", 41)):
        remove(b.bootstrap_servers, mirror, topic)
        (row,) = wait_state(b.bootstrap_servers, mirror, "STOPPED")
        assert (row.destination_offset, row.last_mirror_epoch) == (end, 0)
        *data, reset = iter_batches(log_bytes(b.log_dir(), f"{topic}-0"))
        assert reset.is_control and reset.size_in_bytes == 98 and reset.partition_leader_epoch == 1
        assert {batch.partition_leader_epoch for batch in data} == {0}
    produce(b.bootstrap_servers, "f1", numbered("D-after", 10), compression_type="lz4", enable_idempotence="true")
    for topic in ("f2", "lz"):
        for value in numbered("d", 4):
            produce(b.bootstrap_servers, topic, [value])
    for value in numbered("c", 3):
        produce(a.bootstrap_servers, "f2", [value])
    produce(a.bootstrap_servers, "lz", numbered("C-wide", 10))
    a.stop_node()
    a.start_node()
    produce(a.bootstrap_servers, "f1", numbered("C-divergent", 7))
    for topic, mirror in (("f1", "m1"), ("f2", "m2"), ("lz", "m3")):
        fail_back(a, b, mirror, topic)
        assert same(a, b, f"{topic}-0"), topic
    produce(b.bootstrap_servers, "f1", numbered("D-live", 3))
    produce(b.bootstrap_servers, "f2", ["live"])
    for topic, mirror in (("f1", "m1"), ("f2", "m2"), ("lz", "m3")):
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, mirror)
        assert same(a, b, f"{topic}-0"), topic
        assert b"C-divergent" not in log_bytes(a.log_dir(), "f1-0")


def test_entry_02_adding_a_topic_does_not_truncate_the_others(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t", partitions=3)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    create_topic(a.bootstrap_servers, "u", 2)
    produce(a.bootstrap_servers, "u", numbered("u", 20))
    ends: set[tuple[int, ...]] = set()

    def added() -> bool:
        rows = partitions_of(b.bootstrap_servers, "m")
        ends.add(tuple(row.destination_offset for row in rows if row.topic == "t"))
        return len(rows) == 5 and all(row.state == "MIRRORING" for row in rows)

    add(b.bootstrap_servers, "m", "u")
    wait_for("u to be mirrored", added)
    assert ends == {(40, 40, 40)}
    produce(a.bootstrap_servers, "t", numbered("t2", 20), partition=1)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert all(same(a, b, f"t-{number}") for number in range(3)) and same(a, b, "u-0")


def damage(cluster: EmbeddedCluster, topic_partition: str, *, batch_number: int) -> bytes:
    """Flip a byte of a batch on the disk of a running cluster; the bytes before."""
    (path,) = (cluster.log_dir() / topic_partition).glob("*.log")
    before = path.read_bytes()
    batch = list(iter_batches(log_bytes(cluster.log_dir(), topic_partition)))[batch_number]
    position = before.index(bytes(batch.memory)) + 70
    with path.open("r+b") as file:
        file.seek(position)
        file.write(bytes([before[position] ^ 0xFF]))
    return before


def test_entry_03_and_04_a_damaged_batch_fails_its_partition_and_remove_add_mends_it(clusters: Clusters) -> None:
    """FAILED is entered and shown, the other partition goes on; the KIP's remedy makes the logs
    equal, with one reset at most.
    """
    a, b = clusters
    mirrored(a, b, "t", partitions=2)
    call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"])).all()
    wait_state(b.bootstrap_servers, "m", "PAUSED")
    for partition in (0, 1):
        produce(a.bootstrap_servers, "t", numbered("more", 20), partition=partition)
    whole = damage(a, "t-0", batch_number=4)
    call(b.bootstrap_servers, lambda admin: admin.resume_mirror_topics("m", ["t"])).all()

    def states() -> list[str]:
        return [row.state for row in partitions_of(b.bootstrap_servers, "m")]

    wait_for("partition 0 to fail, and 1 to go on", lambda: states() == ["FAILED", "MIRRORING"])
    wait_for("partition 1", lambda: same(a, b, "t-1"))
    assert log_bytes(b.log_dir(), "t-0") == whole[: len(log_bytes(b.log_dir(), "t-0"))]
    (path,) = (a.log_dir() / "t-0").glob("*.log")
    path.write_bytes(whole)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert same(a, b, "t-0") and same(a, b, "t-1")
    assert not any(batch.is_control for batch in iter_batches(log_bytes(b.log_dir(), "t-0")))


def test_entry_05_what_failover_cuts_is_what_the_dry_run_said_and_failback_ends_equal(clusters: Clusters) -> None:
    """A decided transaction interleaved with one whose marker is missing is lost (the KIP admits
    it), but never silently.
    """
    a, b = clusters
    mirrored(a, b, "t", records=10)
    kept = log_bytes(a.log_dir(), "t-0")
    transactions = [
        data_batch(10, (b"A", b"1"), **transactional(4001)),
        data_batch(11, (b"X", b"9"), **transactional(4002)),
        data_batch(12, (b"B", b"2"), **transactional(4001, 1)),
        marker_batch(13, 4001, ControlRecordType.COMMIT),
    ]
    a.kill_node()  # or the mirror would compare this log with the source's, and cut it
    rebuild_log(b, "t-0", kept + b"".join(transactions))
    warning, _, losses = tool(b, "--remove", "--mirror", "m", "--topic", "t", "--dry-run", "--json")[1].partition("\n")
    assert warning.startswith("Warning: it is not known how much the mirror lacks"), "the source is dead"
    (loss,) = json.loads(losses)
    remove(b.bootstrap_servers, "m", "t")
    (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert (loss["cutOffset"], loss["logEndOffset"], loss["droppedRecords"]) == (10, 14, 3)
    assert (row.destination_offset, row.last_mirror_epoch) == (11, 0)
    assert call(b.bootstrap_servers, lambda admin: admin.list_offsets([TopicPartition("t", 0)], isolation_level=1)) == {
        TopicPartition("t", 0): 11
    }
    a.start_node()
    fail_back(a, b, "m", "t")
    assert same(a, b, "t-0") and log_bytes(a.log_dir(), "t-0").startswith(kept)


def test_entry_06_a_real_truncation_with_one_replica_finishes_without_a_restart(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t")
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    a.stop_node()
    a.start_node()
    produce(a.bootstrap_servers, "t", numbered("own", 7))
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    add(a.bootstrap_servers, "m", "t")
    wait_state(a.bootstrap_servers, "m", "MIRRORING")
    wait_for("equal logs", lambda: same(a, b, "t-0"))


def test_entry_07_two_brokers_with_two_replicas_stop_all_partitions_and_fail_back() -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(brokers=2, mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t", 4)
        for partition in range(4):
            produce(a.bootstrap_servers, "t", numbered("a", 60), partition=partition)
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        kafka_mirrors(b.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t", "--replication-factor", "2")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        remove(b.bootstrap_servers, "m", "t")
        rows = wait_state(b.bootstrap_servers, "m", "STOPPED")
        assert [row.destination_offset for row in rows] == [61] * 4
        for partition in range(4):
            assert produce(b.bootstrap_servers, "t", numbered("b", 9), partition=partition, acks="all") == []
            folder = f"t-{partition}"
            wait_for("both replicas", lambda folder=folder: log_bytes(b.log_dir(0), folder) == log_bytes(b.log_dir(1), folder))
        produce(a.bootstrap_servers, "t", numbered("lost", 3), partition=1)
        fail_back(a, b, "m", "t")
        assert all(same(a, b, f"t-{partition}") for partition in range(4))


def test_entry_08_a_source_restarted_after_it_diverged_does_not_spin(clusters: Clusters, caplog: pytest.LogCaptureFixture) -> None:
    """The restart leaves an epoch without a batch; the answer is a cut, or a retry with a pause,
    never a hot loop.
    """
    a, b = clusters
    mirrored(a, b, "t", records=50)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    for value in numbered("own", 3):
        produce(a.bootstrap_servers, "t", [value])
    produce(b.bootstrap_servers, "t", ["theirs"])
    a.stop_node()
    a.start_node()
    with caplog.at_level(logging.INFO):
        caplog.clear()
        fail_back(a, b, "m", "t")
        assert same(a, b, "t-0")
        assert len([record for record in caplog.records if "t-0" in record.getMessage()]) < 50


def test_entry_09_a_source_without_mirror_apis_is_mirrored_from_scratch() -> None:
    with EmbeddedCluster() as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        mirrored(a, b, "t")
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        produce(b.bootstrap_servers, "t", numbered("own", 20))
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert same(a, b, "t-0")


def test_entry_10_each_mirror_asks_its_own_source_and_altered_addresses_are_used(clusters: Clusters) -> None:
    a, b = clusters
    create_mirror(b.bootstrap_servers, "dead", "127.0.0.1:1")
    create_topic(b.bootstrap_servers, "d")
    add(b.bootstrap_servers, "dead", "d")
    mirrored(a, b, "t", mirror="live")
    assert same(a, b, "t-0")
    wait_state(b.bootstrap_servers, "dead", "PREPARING")
    topic_id = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["d"]))["d"].topic_id
    call(a.bootstrap_servers, lambda admin: admin.create_topics([NewTopic("d", 1, 1, mirror_topic_id=topic_id)])).all()
    produce(a.bootstrap_servers, "d", numbered("d", 10))
    config = [("bootstrap.servers", ConfigOperation.SET, a.bootstrap_servers)]
    call(b.bootstrap_servers, lambda admin: admin.incremental_alter_configs(ConfigResourceType.MIRROR, "dead", config))
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "dead")
    assert same(a, b, "d-0")


def test_entry_11_a_transaction_open_when_its_topic_becomes_a_mirror_is_ended_by_its_coordinator(clusters: Clusters) -> None:
    """The reference's coordinator stays in PrepareAbort for ever; here the marker is answered, and
    the mirrored log stays the source's.
    """
    a, b = clusters
    mirrored(a, b, "t")
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    producer = Producer({"bootstrap.servers": b.bootstrap_servers, "transactional.id": "open", "log_level": 0})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("t", b"open when the topic becomes a mirror")
    producer.flush(10)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    producer.abort_transaction(20)
    wait_for("equal logs", lambda: same(a, b, "t-0"))
    create_topic(b.bootstrap_servers, "plain")
    producer.begin_transaction()
    producer.produce("plain", b"next")
    producer.commit_transaction(20)
    assert same(a, b, "t-0")


def test_entry_12_repeated_requests_have_errors_and_the_tool_fails_with_them(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t")
    assert (
        call(b.bootstrap_servers, lambda admin: admin.add_topics_to_mirror("m", ["t"])).failed["t"].error is Errors.TOPIC_ALREADY_IN_MIRROR
    )
    assert tool(b, "--resume", "--mirror", "m", "--topic", "t") == (1, "kafka-mirrors: t: The mirror topic is not paused")
    assert tool(b, "--add", "--mirror", "m", "--topic", "t") == (1, "kafka-mirrors: t: The topic is already assigned to a mirror")
    assert tool(b, "--pause", "--mirror", "m", "--topic", "t")[0] == 0
    assert tool(b, "--pause", "--mirror", "m", "--topic", "t") == (1, "kafka-mirrors: t: The mirror topic is already paused")


def test_entry_13_mirror_names_are_checked_and_success_has_no_message(clusters: Clusters) -> None:
    _, b = clusters
    config = [create_mirror_messages.MirrorConfig(name="bootstrap.servers", value="127.0.0.1:1")]
    request = create_mirror_messages.CreateMirrorRequest(mirror_name="m", config=config)
    first, second = send(b.bootstrap_servers, request), send(b.bootstrap_servers, request)
    assert (first.error_code, first.error_message) == (0, None)
    assert (second.error_code, second.error_message) == (Errors.INVALID_MIRROR_NAME, "Mirror 'm' already exists")
    change = [("bootstrap.servers", ConfigOperation.SET, "127.0.0.1:2")]
    with pytest.raises(ApiException) as raised:
        call(b.bootstrap_servers, lambda admin: admin.incremental_alter_configs(ConfigResourceType.MIRROR, "nosuch", change))
    assert raised.value.error in (Errors.UNKNOWN_MIRROR, Errors.INVALID_REQUEST)
    assert call(b.bootstrap_servers, lambda admin: admin.list_mirrors())[0].source_bootstrap == "127.0.0.1:1"
    call(b.bootstrap_servers, lambda admin: admin.delete_mirror("m"))


def test_entry_14_ids_are_checked_and_a_zero_mirror_info_is_an_ordinary_topic(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t")
    topic = add_topics_to_mirror.TopicData(topic_name="t", topic_id=Uuid.from_string("lBq12jYZRp-9wF3M9MPopg"))
    answer = send(b.bootstrap_servers, add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name="m", topics=[topic]))
    assert [(row.name, row.error_code) for row in answer.topics] == [("t", Errors.INCONSISTENT_TOPIC_ID)]
    for name, info in (("zero", create_topics.MirrorInfo(topic_id=Uuid.ZERO)), ("null", None)):
        creatable = create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, mirror_info=info)
        answer = send(b.bootstrap_servers, create_topics.CreateTopicsRequest(topics=[creatable], timeout_ms=10_000), version=8)
        assert answer.topics[0].error_code == 0 and answer.topics[0].topic_id != Uuid.ZERO


def test_entry_14_our_own_requests_carry_the_topics_ids_and_no_mirror_info(clusters: Clusters) -> None:
    """The reference sends zero ids about mirrors, and a MirrorInfo with a zero id for ordinary
    topics.
    """
    a, b = clusters
    seen: list[Any] = []

    def listen(server: KafkaServer) -> None:
        assert server.broker is not None
        for api_key in (ApiKeys.CREATE_TOPICS, ApiKeys.DELETE_TOPICS, ApiKeys.CREATE_PARTITIONS, *MIRROR_API_KEYS):
            handler = server.broker.apis.handler_of(api_key)

            async def recorded(apis: KafkaApis, request: Request, *, handler: Any = handler) -> Any:
                seen.append(request.message)
                return await handler(apis, request)

            server.broker.apis.replace_handlers({api_key: recorded})

    b.call(listen)
    mirrored(a, b, "t")
    create_topic(b.bootstrap_servers, "ordinary")
    topic_id = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].topic_id
    for what in ("--pause", "--resume", "--remove"):
        wait_state(b.bootstrap_servers, "m", {"--pause": "MIRRORING", "--resume": "PAUSED", "--remove": "MIRRORING"}[what])
        assert tool(b, what, "--mirror", "m", "--topic", "t")[0] == 0
    about = [message for message in seen if hasattr(message, "mirror_name") and hasattr(message, "topics")]
    ids = {type(message).__name__: message.topics[0].topic_id for message in about}
    assert ids == {
        "AddTopicsToMirrorRequest": Uuid.ZERO,  # it is not there yet: the broker makes it (entry 19)
        "PauseMirrorTopicsRequest": topic_id,
        "ResumeMirrorTopicsRequest": topic_id,
        "RemoveTopicsFromMirrorRequest": topic_id,
    }
    (created,) = [message for message in seen if isinstance(message, create_topics.CreateTopicsRequest)]
    assert [(topic.name, topic.mirror_info) for topic in created.topics] == [("ordinary", None)]


def test_entry_15_a_bump_answers_for_its_partitions_and_is_written_as_a_partition_record(clusters: Clusters) -> None:
    _, b = clusters
    create_topic(b.bootstrap_servers, "t")
    topic_id = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].topic_id
    state = bump_leader_epochs.LeaderEpochState(partition_index=0, min_leader_epoch=7)
    topics = [bump_leader_epochs.TopicState(topic_id=topic_id, partitions=[state])]
    answer = send(b.bootstrap_servers, bump_leader_epochs.BumpLeaderEpochsRequest(topics=topics))
    assert [(topic.topic_name, [(row.partition_index, row.error_code) for row in topic.partitions]) for topic in answer.topics] == [
        ("t", [(0, 0)])
    ]
    wait_for("epoch 8", lambda: call(b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].partitions[0].leader_epoch == 8)
    values = [
        record.value
        for batch in iter_batches(log_bytes(b.log_dir(), "__cluster_metadata-0"))
        if not batch.is_control
        for record in batch.records()
    ]
    changed = [
        message for message in map(read_metadata_record, values) if isinstance(message, PartitionRecord) and message.leader_epoch == 8
    ]
    assert [(message.topic_id, message.partition_id) for message in changed] == [(topic_id, 0)]


def test_entry_16_the_fetchers_requests_are_the_kips(clusters: Clusters) -> None:
    a, b = clusters
    seen: list[Request] = []

    def listen(server: KafkaServer) -> None:
        assert server.broker is not None

        async def recorded(apis: KafkaApis, request: Request) -> Any:
            seen.append(request)
            return await handle_fetch(apis, request)

        server.broker.apis.replace_handlers({ApiKeys.FETCH: recorded})

    a.call(listen)
    mirrored(a, b, "t", records=10)
    fetches = [request for request in seen if (request.client_id or "").endswith("-mirror-m")]
    assert {request.client_id for request in fetches} == {"broker-1-fetcher-0-mirror-m"}
    first = fetches[0].message
    (partition,) = first.topics[0].partitions
    assert (first.replica_id, partition.last_fetched_epoch, partition.mirror_leader_epoch) == (-1, -1, -1)
    assert partition.current_leader_epoch == 0
    assert all(
        partition.last_fetched_epoch == (0 if partition.fetch_offset else -1)
        for request in fetches
        for topic in request.message.topics
        for partition in topic.partitions
    )
    assert {request.message.isolation_level for request in fetches if request.message.max_wait_ms} == {1}


def test_entry_17_the_coordinator_of_a_mirror_partition_can_be_found(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t")
    topic_id = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].topic_id
    request = find_coordinator.FindCoordinatorRequest(key_type=3, coordinator_keys=[f"m:{topic_id}:0"])
    (found,) = send(b.bootstrap_servers, request, version=7).coordinators
    assert (found.error_code, found.node_id) == (0, 1)
    (refused,) = send(b.bootstrap_servers, request, version=6).coordinators
    assert refused.error_code == Errors.INVALID_REQUEST


def test_entry_18_the_state_topic_has_the_kips_size_and_records_of_one_mirror_only() -> None:
    config = KafkaConfig.from_props(MINIMAL)
    assert (config.mirror_topic_num_partitions, config.mirror_topic_replication_factor) == (50, 3)
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        mirrored(a, b, "t", mirror="m1", partitions=3)
        mirrored(a, b, "u", mirror="m2", partitions=3)
        for mirror, topic in (("m1", "t"), ("m2", "u")):
            remove(b.bootstrap_servers, mirror, topic)
            wait_state(b.bootstrap_servers, mirror, "STOPPED")
        topics = {"m1": "t", "m2": "u"}
        epochs = [record for record in state_records(b) if isinstance(record, LastMirrorEpochs)]
        assert epochs and all({topic for topic, _ in record.epochs or {}} == {topics[record.mirror_name]} for record in epochs)
        call(b.bootstrap_servers, lambda admin: admin.delete_mirror("m1"))

        wait_for("tombstones of m1", lambda: is_tombstoned(b, "m1") or None)
        assert len(newest_by_key(b, "m1")) >= 2 and call(b.bootstrap_servers, lambda admin: admin.list_mirrors())[0].mirror_name == "m2"


def state_records(cluster: EmbeddedCluster) -> list[MirrorStateRecord]:
    return [record for log in state_logs(cluster) for record in log]


def test_entry_19_the_broker_makes_a_missing_topic_with_the_sources_id(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t", partitions=2)
    described = [call(cluster.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"] for cluster in clusters]
    assert described[0].topic_id == described[1].topic_id and len(described[1].partitions) == 2


def test_entry_20_groups_in_any_state_are_synced_and_the_offsets_topic_is_made(clusters: Clusters) -> None:
    """Only stable groups were, and nothing at all before a consumer had come to the destination."""
    a, b = clusters
    mirrored(a, b, "t")
    assert "__consumer_offsets" not in call(b.bootstrap_servers, lambda admin: admin.list_topics(include_internal=True))
    source, destination = (ConfluentAdmin({"bootstrap.servers": cluster.bootstrap_servers}) for cluster in clusters)
    never_joined = ConsumerGroupTopicPartitions("never-joined", [GroupPartition("t", 0, 7)])
    source.alter_consumer_group_offsets([never_joined])["never-joined"].result(REACHED_S)
    consumer = Consumer({"bootstrap.servers": a.bootstrap_servers, "group.id": "left", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    wait_for("a record", lambda: consumer.poll(0.2) is not None)
    consumer.close()

    def synced(group: str) -> list[int]:
        rows = destination.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(REACHED_S).topic_partitions
        return [row.offset for row in rows]

    wait_for("both groups' offsets", lambda: [*synced("never-joined"), *synced("left")] == [7, 1])


def test_entry_21_the_tools_tables_are_the_kips(clusters: Clusters) -> None:
    a, b = clusters
    mirrored(a, b, "t", "u", "v")
    call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"])).all()
    wait_state(b.bootstrap_servers, "m", "PAUSED", topic="t")
    assert tool(b, "--list")[1].splitlines()[1].split()[1] == "3", "the paused one is in the mirror"
    remove(b.bootstrap_servers, "m", "u")
    wait_state(b.bootstrap_servers, "m", "STOPPED", topic="u")
    header, row, health = tool(b, "--list")[1].splitlines()
    assert header.split() == ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"]
    assert row.split() == ["m", "2", a.cluster_id, a.bootstrap_servers]
    assert "1 PAUSED" in health, "the states stand below the KIP's table"
    rows = [line.split() for line in tool(b, "--describe", "--mirror", "m")[1].splitlines()[1:]]
    assert rows == [
        ["m", "t", "0", "40", "40", "0", "PAUSED"],
        ["m", "u", "0", "40", "41", "0", "STOPPED"],
        ["m", "v", "0", "40", "40", "0", "MIRRORING"],
    ]
    assert tool(b, "--help")[0] == 0


def test_entry_22_without_the_flags_there_is_no_mirroring(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster() as cluster, pytest.raises(UnsupportedVersionError):
        send(cluster.bootstrap_servers, list_mirrors.ListMirrorsRequest())
    config = KafkaConfig.from_props(MINIMAL | {"log.dirs": str(tmp_path / "data")})
    options = FormatOptions(cluster_id="lBq12jYZRp-9wF3M9MPopg", features={"mirror.version": 1})

    async def main(runtime: Runtime) -> None:
        format_node(config, options, runtime)

    with pytest.raises(KmirrorError, match=r"mirror\.version"):
        run(main)
