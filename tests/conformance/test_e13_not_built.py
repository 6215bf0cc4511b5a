"""What the KIP rejects, leaves out or has superseded does not exist in kmirror, neither as an API
nor as a config, a topic or bytes in a log (E13, NOT1 to NOT15).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    quiet,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror import EmbeddedCluster
from kmirror.common.errors import Errors
from kmirror.metadata.resource_configs import MIRROR_CONFIGS
from kmirror.metadata.topic_configs import TOPIC_CONFIGS
from kmirror.mirror.mirror_state_machine import TABLE, MirrorEvent, MirrorPartitionState
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import iter_batches
from kmirror.server.broker_configs import broker_configs, dynamic_only_configs
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import bump_leader_epochs as bump
from kmirror.wire.messages import create_topics, metadata
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS, mirror_dialect

BROKER_CONFIGS = {
    "mirror.topic.num.partitions",
    "mirror.topic.replication.factor",
    "mirror.num.replica.fetchers",
    "mirror.metadata.refresh.interval.ms",
    "mirror.replication.throttled.rate",
    "mirror.fetch.backoff.ms",
    "mirror.truncation.backoff.ms",
    "mirror.topic.deletion.enable",
}
"""All broker configs of mirroring: the KIP's (CFG11 to CFG15) and kmirror's own (CFG21). None is a
throttle on the source's side, a synchronous mode or a stretch cluster.
"""
MIRROR_CONFIGS_OF_ITS_OWN = {
    "mirror.topic.properties.exclude",
    "mirror.groups.include",
    "mirror.acl.include",
    "mirror.max.truncation.records",
}
TOPIC_CONFIGS_OF_MIRRORS = {
    "mirror.topic.num.partitions",
    "mirror.name",
    "mirror.max.truncation.records",
    "mirror.replication.throttled.replicas",
    "mirror.source.cleaning",
    "mirror.source.defaults",
    "mirror.support.unclean.leader.election",
}
INTERNAL = {"__mirror_state", "__consumer_offsets", "__transaction_state"}


class Pair(NamedTuple):
    a: EmbeddedCluster
    b: EmbeddedCluster


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        yield Pair(a, b)


def topic(cluster: EmbeddedCluster, name: str) -> metadata.MetadataResponseTopic:
    asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    found: metadata.MetadataResponseTopic = send(cluster.bootstrap_servers, asked).topics[0]
    return found


@pytest.mark.item("A1")
def test_not4_not13_no_last_mirrored_offsets_and_no_other_api() -> None:
    """Key 97 stays unassigned (NOT13), and none of the eleven APIs serves to find cycles (NOT4)."""
    assert sorted(MIRROR_API_KEYS) == [94, 95, 96, 98, 99, 100, 101, 102, 103, 104, 105]
    assert 97 not in {int(key) for key in ApiKeys} and 97 not in mirror_dialect().api_names
    assert max(ApiKeys) == 105


def test_not5_not8_not11_configs_are_those_of_the_checklist() -> None:
    """No config is for synchronous mirroring, for a throttle on the source's side or for a stretch
    cluster (NOT5, NOT8, NOT11).
    """
    assert {
        key.name
        for configs in (broker_configs(), dynamic_only_configs())
        for key in configs
        if "mirror." in key.name and "kmirror." not in key.name
    } == BROKER_CONFIGS
    assert {key.name for key in MIRROR_CONFIGS if key.name.startswith("mirror.")} == MIRROR_CONFIGS_OF_ITS_OWN
    assert {key.name for key in TOPIC_CONFIGS if key.name.startswith("mirror.")} == TOPIC_CONFIGS_OF_MIRRORS


def test_not12_nothing_leaves_failed_but_a_removal() -> None:
    """Neither time, nor the source's return, nor a resume ends FAILED (NOT12)."""
    leaving = {
        event
        for (state, event), rows in TABLE.items()
        if state is MirrorPartitionState.FAILED
        for row in rows
        if row.next_state is not None
    }
    assert leaving == {MirrorEvent.STOP_WANTED, MirrorEvent.SOURCE_TOPIC_DELETED}


def test_not1_not2_not7_topics_offsets_and_bytes_are_the_sources(pair: Pair) -> None:
    """There are no topics of MirrorMaker, no prefixes and no offset-sync topics on either side, and
    the logs are equal byte for byte (NOT1, NOT2, NOT7).
    """
    a, b = pair
    create_topic(a.bootstrap_servers, "plain")
    produce(a.bootstrap_servers, "plain", numbered("v", 30), enable_idempotence="true", compression_codec="lz4")
    add(b.bootstrap_servers, "m", "plain")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert_equal_logs(a.log_dir(), b.log_dir(), ["plain-0"])
    for cluster in pair:
        names = set(call(cluster.bootstrap_servers, lambda admin: admin.list_topics(include_internal=True)))
        assert "plain" in names
        assert not [
            name
            for name in names
            if name.startswith(("mm2-", "heartbeats")) or "checkpoints" in name or name.endswith((".plain", "-plain"))
        ]
        assert {name for name in names if name.startswith("__")} <= INTERNAL


def test_not3_not6_not9_no_writes_to_both_no_internal_topics_no_tiers(pair: Pair) -> None:
    """A mirrored topic takes no writes (NOT3), `__transaction_state` cannot be added to a mirror
    (NOT6), and tiered storage is refused (NOT9).
    """
    a, b = pair
    create_topic(a.bootstrap_servers, "one")
    produce(a.bootstrap_servers, "one", ["v"])
    add(b.bootstrap_servers, "m", "one")
    wait_state(b.bootstrap_servers, "m", "MIRRORING", topic="one")
    assert produce(b.bootstrap_servers, "one", ["mine"])[0].code() == Errors.READ_ONLY_TOPIC
    Producer(quiet({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "x"})).init_transactions(30)
    for name in ("__transaction_state", "__mirror_state"):
        assert call(b.bootstrap_servers, lambda admin, name=name: admin.add_topics_to_mirror("m", [name])).failed[name].error in (
            Errors.INVALID_TOPIC_EXCEPTION,
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
        )
    assert not any(row.topic.startswith("__") for row in partitions_of(b.bootstrap_servers, "m"))
    tiered = create_topics.CreatableTopicConfig(name="remote.storage.enable", value="true")
    wanted = create_topics.CreatableTopic(name="tiered", num_partitions=1, replication_factor=1, configs=[tiered])
    answer = send(b.bootstrap_servers, create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=9_000))
    assert answer.topics[0].error_code == Errors.INVALID_CONFIG


def test_not5_a_source_producer_waits_for_no_destination(pair: Pair) -> None:
    """A produce with acks=all succeeds while the only destination is down (NOT5)."""
    a, b = pair
    create_topic(a.bootstrap_servers, "alone")
    add(b.bootstrap_servers, "m", "alone")
    wait_state(b.bootstrap_servers, "m", "MIRRORING", topic="alone")
    b.stop_node()
    try:
        assert produce(a.bootstrap_servers, "alone", ["v"], acks="all") == []
    finally:
        b.start_node()


def test_not14_the_leader_epoch_stays_while_the_sources_grows(pair: Pair) -> None:
    """Batches of the source's epoch 7 are appended to a log that is led in epoch 0 (NOT14)."""
    a, b = pair
    create_topic(a.bootstrap_servers, "grown")
    produce(a.bootstrap_servers, "grown", ["v0"])
    add(b.bootstrap_servers, "m", "grown")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    epoch = topic(b, "grown").partitions[0].leader_epoch
    partitions = [bump.LeaderEpochState(partition_index=0, min_leader_epoch=6)]
    state = bump.TopicState(topic_id=topic(a, "grown").topic_id, partitions=partitions)
    send(a.bootstrap_servers, bump.BumpLeaderEpochsRequest(topics=[state]))
    wait_for("the source's epoch 7", lambda: topic(a, "grown").partitions[0].leader_epoch == 7)
    produce(a.bootstrap_servers, "grown", ["v7"])
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    epochs = [batch.partition_leader_epoch for batch in iter_batches(log_bytes(b.log_dir(), "grown-0"))]
    assert epochs == [0, 7] and topic(b, "grown").partitions[0].leader_epoch == epoch


def test_not6_not15_no_abort_marker_at_a_stop(pair: Pair) -> None:
    """A transaction that is open at the failover is cut, not aborted, so the reset is the only
    control record (NOT6, NOT15).
    """
    a, b = pair
    create_topic(a.bootstrap_servers, "open")
    produce(a.bootstrap_servers, "open", ["before"])
    producer = Producer(quiet({"bootstrap.servers": a.bootstrap_servers, "transactional.id": "open"}))
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("open", b"undecided")
    producer.flush(10)
    create_mirror(b.bootstrap_servers, "m15", a.bootstrap_servers)
    add(b.bootstrap_servers, "m15", "open")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m15")
    remove(b.bootstrap_servers, "m15", "open")
    wait_state(b.bootstrap_servers, "m15", "STOPPED", topic="open")
    found = list(iter_batches(log_bytes(b.log_dir(), "open-0")))
    assert [batch.is_control for batch in found] == [False, True]
    assert ControlRecordType.parse(next(iter(found[-1].records())).key) is ControlRecordType.MIRROR_PID_RESET
    producer.abort_transaction(30)


@pytest.mark.item("B54")
def test_not10_the_source_sees_a_consumer(pair: Pair) -> None:
    """A mirror fetches as a consumer, with version 18 at most, and never as a follower (NOT10)."""
    a, b = pair
    create_topic(a.bootstrap_servers, "fetched")
    produce(a.bootstrap_servers, "fetched", ["v"])
    add(b.bootstrap_servers, "m", "fetched")
    wait_state(b.bootstrap_servers, "m", "MIRRORING", topic="fetched")
    prefix = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=Fetch"
    fetches = {name.removeprefix(prefix) for name in a.metrics() if name.startswith(prefix)}
    assert "Consumer,version=18" in fetches
    assert {name for name in fetches if name.startswith("Follower")} <= {"Follower,version=19"}, "the node's own fetch of the metadata log"
