"""A mirror with leader epochs above its own: what clients are not told, other clusters and tools
must be (`replica.client_epochs`).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from functools import partial

import pytest
from confluent_kafka import OFFSET_END, Consumer, Producer
from confluent_kafka import TopicPartition as ConsumedPartition
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    log_bytes,
    numbered,
    produce,
    quiet,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.admin.admin_client import AdminClient
from kmirror.admin.groups import OffsetAndMetadata
from kmirror.admin.reassignments import ElectionType
from kmirror.cli.log_diff import main as log_diff
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import iter_batches

T0 = TopicPartition("t", 0)
COUNT = 20


@contextlib.contextmanager
def mirror_of_higher_epochs(brokers: int = 1) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """B mirrors "t" of A; A's first batches have an epoch that is B's, the others a higher one."""
    replication = {"mirror.topic.replication.factor": str(brokers), "auto.leader.rebalance.enable": "false"}
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(brokers=brokers, mirroring=True, config=FAST_MIRROR | replication) as b,
    ):
        create_topic(a.bootstrap_servers, "t", 1)
        produce(a.bootstrap_servers, "t", numbered("first", COUNT))
        a.stop_node()
        a.start_node()
        produce(a.bootstrap_servers, "t", numbered("second", COUNT))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        yield a, b


def test_a_mirror_of_a_mirror_and_the_tools_see_the_epochs_as_they_are() -> None:
    with mirror_of_higher_epochs() as (a, b), EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as c:
        create_mirror(c.bootstrap_servers, "m", b.bootstrap_servers)
        add(c.bootstrap_servers, "m", "t")
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "m")
        assert_equal_logs(a.log_dir(), c.log_dir(), ["t-0"])
        epochs = {batch.partition_leader_epoch for batch in iter_batches(log_bytes(c.log_dir(), "t-0"))}
        assert min(epochs) == 0 < max(epochs)
        live = [f"bootstrap:{cluster.bootstrap_servers}" for cluster in (a, b, c)]
        with contextlib.redirect_stdout(io.StringIO()):
            assert log_diff([*live[:2], "--topics", "t"]) == 0
            assert log_diff([*live[1:], "--topics", "t"]) == 0
        for cluster in (b, c):
            kafka_mirrors(cluster.bootstrap_servers, "--verify", "--mirror", "m")


def test_a_committed_epoch_is_hidden_until_the_failover_and_stays_as_it_was_committed() -> None:
    """A group that knows the epochs of batches commits them, plainly and in a transaction;
    OffsetFetch tells them when they fence nothing any more.
    """
    with mirror_of_higher_epochs() as (a, b):
        higher = max(batch.partition_leader_epoch for batch in iter_batches(log_bytes(a.log_dir(), "t-0")))
        for group, epoch in {"low": 0, "high": higher}.items():
            offsets = {T0: OffsetAndMetadata(COUNT, "", epoch)}
            call(b.bootstrap_servers, partial(AdminClient.alter_consumer_group_offsets, group_id=group, offsets=offsets))
        _commit_in_a_transaction(b.bootstrap_servers, "transactional", higher)

        def epochs() -> dict[str, int]:
            groups = ("low", "high", "transactional")
            rows = {group: call(b.bootstrap_servers, partial(AdminClient.list_consumer_group_offsets, group_id=group)) for group in groups}
            return {group: found[T0].leader_epoch for group, found in rows.items()}

        assert epochs() == {"low": 0, "high": -1, "transactional": -1}
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        assert epochs() == {"low": 0, "high": higher, "transactional": higher}


def _commit_in_a_transaction(bootstrap_servers: str, group: str, leader_epoch: int) -> None:
    producer = Producer(quiet({"bootstrap.servers": bootstrap_servers, "transactional.id": "committer"}))
    consumer = Consumer(quiet({"bootstrap.servers": bootstrap_servers, "group.id": group}))
    producer.init_transactions(30)
    producer.begin_transaction()
    offset = ConsumedPartition("t", 0, COUNT, leader_epoch=leader_epoch)
    producer.send_offsets_to_transaction([offset], consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    consumer.close()


@pytest.mark.parametrize("position", ["the end", "the middle"])
def test_librdkafka_keeps_its_position_when_the_leader_changes(position: str) -> None:
    """Its position may have an epoch, of ListOffsets or of a batch, which it asks the new leader
    about; "truncated" would be an error here.
    """
    with mirror_of_higher_epochs(brokers=3) as (a, b):
        consumer = Consumer(
            quiet({"bootstrap.servers": b.bootstrap_servers, "group.id": "g", "auto.offset.reset": "error", "enable.auto.commit": False})
        )
        start = OFFSET_END if position == "the end" else COUNT // 2
        consumer.assign([ConsumedPartition("t", 0, start)])
        read: list[int] = []

        def poll() -> int:
            message = consumer.poll(0.1)
            if message is not None:
                assert message.error() is None, message.error()
                read.append(message.offset())
            return len(read)

        for _ in range(20):
            poll()
        before = call(b.bootstrap_servers, lambda admin: admin.describe_topics(["t"]))["t"].partitions[0]
        replicas = [replica for replica in before.replicas if replica != before.leader] + [before.leader]
        call(b.bootstrap_servers, lambda admin: admin.alter_partition_reassignments({T0: replicas}))
        call(b.bootstrap_servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, [T0]))
        produce(a.bootstrap_servers, "t", numbered("third", COUNT))
        expected = list(range(2 * COUNT if start == OFFSET_END else start, 3 * COUNT))
        wait_for("all records", lambda: poll() >= len(expected))
        consumer.close()
        assert read == expected
