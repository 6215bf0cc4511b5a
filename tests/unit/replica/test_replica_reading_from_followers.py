"""KIP-392 and replication throttles: who reads where, and who waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.brokers.broker_doubles import BrokerWorld, batch_of

from kmirror.common.errors import ConfigError, Errors
from kmirror.common.sentinels import LATEST_TIMESTAMP
from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.replica.leader_end_point import FetchData, PartitionFetchState
from kmirror.replica.partition_reader import fetch_offset_for_timestamp
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.replica.replica_selector import RACK_AWARE, create_replica_selector
from kmirror.replica.replica_types import ClientMetadata, FetchParams, FetchPartition, FetchPartitionData
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord

T0 = TopicPartition("t", 0)
SELECTING = {"replica.selector.class": RACK_AWARE}


def client(rack: str, listener: str = "PLAINTEXT") -> ClientMetadata:
    return ClientMetadata(rack, "c", "127.0.0.1", "User:ANONYMOUS", listener)


async def consume(world: BrokerWorld, offset: int, who: ClientMetadata | None, *, epoch: int | None = None) -> FetchPartitionData:
    topic_id = world.cache.topic_id("t")
    params = FetchParams(-1, 0, 1, 1 << 20, FetchIsolation.HIGH_WATERMARK, client_metadata=who)
    info = (TopicIdPartition(topic_id, "t", 0), FetchPartition(topic_id, offset, 0, 1 << 20, epoch))
    return (await world.replica_manager.fetch_messages(params, [info]))[0][1]


async def follow(world: BrokerWorld, broker: int, offset: int, *, max_wait_ms: int = 0) -> FetchPartitionData:
    topic_id = world.cache.topic_id("t")
    params = FetchParams(broker, max_wait_ms, 1, 1 << 20, FetchIsolation.LOG_END, replica_epoch=10)
    info = (TopicIdPartition(topic_id, "t", 0), FetchPartition(topic_id, offset, 0, 1 << 20, 0))
    return (await world.replica_manager.fetch_messages(params, [info]))[0][1]


def append(world: BrokerWorld, *values: bytes) -> None:
    log = world.partition("t").log
    world.partition("t").append_records_to_mirror_leader(
        batch_of(*values, base_offset=log.log_end_offset, partition_leader_epoch=0), source_leader_epoch=0
    )


async def test_a_consumer_is_sent_to_the_replica_in_its_rack_that_has_the_offset(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props=SELECTING, others=(2, 3))
    world.create_topic("t", replicas=(1, 2, 3))
    append(world, b"a", b"b")
    assert (await consume(world, 0, client("r2"))).preferred_read_replica == -1, "2 has not fetched yet"
    await follow(world, 2, 2)
    await follow(world, 3, 2)
    sent = await consume(world, 1, client("r2"))
    assert (sent.error, sent.preferred_read_replica, sent.records, sent.high_watermark) == (Errors.NONE, 2, None, 2)
    for who in (client(""), client("r1"), client("elsewhere"), client("r2", listener="OTHER"), None):
        here = await consume(world, 1, who)
        assert (here.preferred_read_replica, here.size_in_bytes > 0) == (-1, True), who
    assert (await consume(world, 3, client("r2"))).error is Errors.OFFSET_OUT_OF_RANGE
    world.apply(PartitionChangeRecord(topic_id=world.cache.topic_id("t"), partition_id=0, isr=[1, 3]))
    assert (await consume(world, 1, client("r2"))).preferred_read_replica == -1, "2 is not in sync"


async def test_a_follower_serves_consumers_up_to_the_high_watermark_it_knows(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), props=SELECTING, others=(2,))
    world.create_topic("t", replicas=(1, 2), leader=2)
    partition = world.partition("t")
    partition.append_records_to_follower(batch_of(b"a", partition_leader_epoch=0), leader_epoch=0)
    partition.append_records_to_follower(batch_of(b"b", base_offset=1, partition_leader_epoch=0), leader_epoch=0)
    partition.log.maybe_update_high_watermark(1)
    first = await consume(world, 0, client("r1"))
    assert (first.error, first.high_watermark, first.preferred_read_replica) == (Errors.NONE, 1, -1)
    assert first.size_in_bytes > 0
    beyond = await consume(world, 1, client("r1"))
    assert (beyond.error, beyond.size_in_bytes) == (Errors.NONE, 0), "there, but not known to be committed"
    assert (await consume(world, 3, client("r1"))).error is Errors.OFFSET_OUT_OF_RANGE
    assert (await consume(world, 0, client("r1"), epoch=1)).error is Errors.UNKNOWN_LEADER_EPOCH
    assert (await consume(world, 0, None)).error is Errors.NOT_LEADER_OR_FOLLOWER, "below v11"
    assert (await follow(world, 2, 0)).error is Errors.NOT_LEADER_OR_FOLLOWER, "a follower follows the leader"

    def latest(*, fetch_only_leader: bool) -> tuple[Errors, int]:
        found = fetch_offset_for_timestamp(
            partition,
            timestamp=LATEST_TIMESTAMP,
            isolation_level=None,
            current_leader_epoch=None,
            fetch_only_leader=fetch_only_leader,
        )
        return found.error, found.offset

    assert latest(fetch_only_leader=True) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)
    assert latest(fetch_only_leader=False) == (Errors.NONE, 2)


async def test_a_waiting_consumer_of_a_follower_is_answered_when_the_high_watermark_comes(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    topic_id = world.create_topic("t", replicas=(1, 2), leader=2)
    params = FetchParams(-1, 500, 1, 1 << 20, FetchIsolation.HIGH_WATERMARK, client_metadata=client(""))
    info = (TopicIdPartition(topic_id, "t", 0), FetchPartition(topic_id, 0, 0, 1 << 20))
    answer = world.replica_manager.fetch_messages(params, [info])
    data = FetchData(Errors.NONE, 1, 0, batch_of(b"a", partition_leader_epoch=0))
    ReplicaFetcher(world.replica_manager).process_partition_data(T0, PartitionFetchState(topic_id, 0, 0), data)
    assert answer.done() and answer.result()[0][1].size_in_bytes > 0


def test_an_unknown_selector_is_refused_with_kafkas_text() -> None:
    with pytest.raises(
        ConfigError, match="Invalid value org.x.Y for configuration replica.selector.class: Class org.x.Y could not be found."
    ):
        create_replica_selector("org.x.Y")
    assert create_replica_selector(None) is None


# --- throttles
# ---------------------------------------------------------------------------------------------------------


def set_rates(world: BrokerWorld, **rates: str) -> None:
    names = {"leader": "leader.replication.throttled.rate", "follower": "follower.replication.throttled.rate"}
    world.apply(*(ConfigRecord(resource_type=4, resource_name="1", name=names[kind], value=value) for kind, value in rates.items()))


async def test_a_throttled_leader_gives_nothing_to_a_follower_that_is_behind_and_all_to_one_in_sync(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2, 3))
    world.create_topic("t", replicas=(1, 2, 3), configs={"leader.replication.throttled.replicas": "0:1,1:2"})
    world.apply(PartitionChangeRecord(topic_id=world.cache.topic_id("t"), partition_id=0, isr=[1, 2]))
    append(world, b"x" * 1000)
    set_rates(world, leader="100")
    first = await follow(world, 3, 0)
    assert first.size_in_bytes > 1000, "the rate is not exceeded yet"
    topic = TopicIdPartition(world.cache.topic_id("t"), "t", 0)
    world.replica_manager.reads.record_throttled_replication([(topic, first)])
    assert (await follow(world, 3, 0)).size_in_bytes == 0
    assert (await follow(world, 2, 0)).size_in_bytes > 1000, "the ISR is never held back"
    waiting = world.replica_manager.fetch_messages(
        FetchParams(3, 500, 1, 1 << 20, FetchIsolation.LOG_END, replica_epoch=10),
        [(topic, FetchPartition(topic.topic_id, 0, 0, 1 << 20, 0))],
    )
    append(world, b"y")
    assert not waiting.done(), "throttled bytes wake nobody"
    world.runtime.advance(500)
    assert waiting.result()[0][1].size_in_bytes == 0
    world.runtime.advance(12_000)
    assert (await follow(world, 3, 0)).size_in_bytes > 1000, "1000 bytes in 11 seconds are below 100 a second"
    set_rates(world, leader="1")
    assert (await follow(world, 3, 0)).size_in_bytes > 1000, "nothing was sent in the window"


async def test_a_throttled_follower_leaves_partitions_out_that_are_behind(tmp_path: Path) -> None:
    world = BrokerWorld(str(tmp_path), others=(2,))
    topic_id = world.create_topic("t", replicas=(1, 2), leader=2, configs={"follower.replication.throttled.replicas": "*"})
    set_rates(world, follower="100")
    hooks = ReplicaFetcher(world.replica_manager)
    behind, in_sync = PartitionFetchState(topic_id, 0, 0), PartitionFetchState(topic_id, 0, 0, lag=0)
    assert not hooks.must_wait(T0, behind)
    data = FetchData(Errors.NONE, 0, 0, batch_of(b"x" * 2000, partition_leader_epoch=0))
    hooks.process_partition_data(T0, behind, data)
    assert hooks.must_wait(T0, behind) and not hooks.must_wait(T0, in_sync)
    world.set_configs("t", {"follower.replication.throttled.replicas": "0:2"})
    assert not hooks.must_wait(T0, behind), "the throttle is for broker 2"
    world.set_configs("t", {"follower.replication.throttled.replicas": "0:1"})
    assert hooks.must_wait(T0, behind)
    set_rates(world, follower="9223372036854775807")
    assert not hooks.must_wait(T0, behind)
