"""The destination's throttle for mirrored partitions, and the source's quota on the fetcher's
client id (E10).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, add, create_mirror, create_topic, log_bytes, produce, send, wait_caught_up
from support.mirrors.mirror_world import MirrorWorld
from support.mirrors.scripted_source import batch

from kmirror.common.metrics import sensor_metric
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.wire.messages import (
    add_topics_to_mirror,
    alter_client_quotas,
    delete_mirror,
    describe_mirrors,
    fetch,
    incremental_alter_configs,
    list_mirrors,
    pause_mirror_topics,
    remove_topics_from_mirror,
    resume_mirror_topics,
)
from kmirror.wire.messages import (
    create_mirror as create_mirror_messages,
)
from kmirror.wire.messages.bump_leader_epochs import BumpLeaderEpochsResponse
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.read_mirror_states import ReadMirrorStatesResponse
from kmirror.wire.messages.write_mirror_states import WriteMirrorStatesResponse

RATE = 100_000
BATCH_BYTES = 5_000
BROKER_RESOURCE = 4
TOPIC_RESOURCE = 2
RATE_CONFIG = "mirror.replication.throttled.rate"
REPLICAS_CONFIG = "mirror.replication.throttled.replicas"
CLIENT_ID = "broker-1-fetcher-0-mirror-m"


def set_rate(world: MirrorWorld, value: int | None, *, broker: str = "1") -> None:
    text = None if value is None else str(value)
    world.broker.apply(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=broker, name=RATE_CONFIG, value=text))


def fill(world: MirrorWorld, number: int, batches: int) -> None:
    """So many batches of 5 KB."""
    chance = random.Random(number)
    log = world.source.log("t", number)
    for index in range(batches):
        log.batches.append(batch(log.end, chance.randbytes(BATCH_BYTES), epoch=0))
        assert index < 10_000


async def throttled(world: MirrorWorld, *, partitions: int = 2, replicas: str = "0:1", batches: int = 1_000) -> None:
    """Topic t whose partitions have 5 MB each, of which `replicas` are throttled to 100 KB/s."""
    world.source.create("t", partitions=partitions)
    for number in range(partitions):
        fill(world, number, batches)
    set_rate(world, RATE)
    await world.mirror_topic("t", partitions=partitions, configs={REPLICAS_CONFIG: replicas})


def size(world: MirrorWorld, number: int = 0) -> int:
    return int(world.broker.partition("t", number).leader_log.size)


def byte_rate(world: MirrorWorld) -> float:
    metric = world.broker.metrics.get(sensor_metric("MirrorReplication", "byte-rate"))
    assert metric is not None
    return float(metric.value())


@pytest.mark.parametrize("replicas", ["0:1", "*", "5:1,0:1,1:7"])
async def test_thr1_the_rate_holds_for_the_replicas_that_are_listed(tmp_path, replicas):
    world = MirrorWorld(str(tmp_path))
    await throttled(world, partitions=1, replicas=replicas)
    await world.advance(30_000, step_ms=20)
    assert size(world) == pytest.approx(30 * RATE, rel=0.05)


@pytest.mark.parametrize("replicas", ["0:2", "1:1", ""])
async def test_thr1_replicas_that_are_not_listed_are_not_throttled(tmp_path, replicas):
    world = MirrorWorld(str(tmp_path))
    await throttled(world, partitions=1, replicas=replicas)
    await world.advance(1_000)
    assert world.log_bytes("t") == world.source_bytes("t")


async def test_thr1_the_throttles_of_replication_say_nothing_of_mirrors(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    fill(world, 0, 400)
    for name in ("leader.replication.throttled.rate", "follower.replication.throttled.rate"):
        world.broker.apply(ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name=name, value="1000"))
    configs = {"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}
    await world.mirror_topic("t", configs=configs)
    await world.advance(1_000)
    assert world.log_bytes("t") == world.source_bytes("t")
    quotas = world.broker.replica_manager.quotas
    assert not quotas.leader.is_quota_exceeded and not quotas.follower.is_quota_exceeded


async def test_thr2_cfg15_cfg9_changes_work_at_once_the_brokers_own_before_the_clusters(tmp_path):
    world = MirrorWorld(str(tmp_path))
    set_rate(world, RATE // 10, broker="")
    await throttled(world, partitions=1, batches=4_000)
    await world.advance(10_000, step_ms=20)
    assert size(world) == pytest.approx(10 * RATE, rel=0.1), "the broker's own"
    set_rate(world, None)
    before = size(world)
    await world.advance(25_000, step_ms=100)
    before, slow = size(world), size(world) - before
    assert slow == pytest.approx(25 * RATE // 10, rel=0.1), "the cluster's default"
    set_rate(world, 5 * RATE)
    await world.advance(20_000, step_ms=20)
    assert size(world) - before == pytest.approx(20 * 5 * RATE, rel=0.05)
    world.broker.set_configs("t", {REPLICAS_CONFIG: None})
    await world.advance(1_000)
    assert world.log_bytes("t") == world.source_bytes("t"), "no longer throttled at all"


async def test_thr3_other_partitions_of_the_fetcher_go_on_and_do_not_slow_the_throttled_one(tmp_path):
    world = MirrorWorld(str(tmp_path))
    await throttled(world, partitions=3)
    await world.advance(1_500, step_ms=20)
    for number in (1, 2):
        assert world.log_bytes("t", number) == world.source_bytes("t", number)
    assert len(world.fetchers.running()) == 1
    for second in range(10):
        world.source.append("t", b"second %d" % second, partition=1)
        await world.advance(1_000, step_ms=50)
        assert world.log_bytes("t", 1) == world.source_bytes("t", 1), "not delayed"
    assert size(world) == pytest.approx(11.5 * RATE, rel=0.1)


async def test_thr3_a_rate_of_0_lets_nothing_through(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    fill(world, 0, 10)
    set_rate(world, 0)
    (driver,) = await world.mirror_topic("t", configs={REPLICAS_CONFIG: "*"})
    await world.advance(30_000, step_ms=250)
    assert driver.log.log_end_offset == 0 and driver.given_back == []
    set_rate(world, None)
    await world.advance(2_000)
    assert world.log_bytes("t") == world.source_bytes("t")


async def test_thr6_met16_byte_rate_is_the_throttled_traffic(tmp_path):
    world = MirrorWorld(str(tmp_path))
    await throttled(world)
    await world.advance(15_000, step_ms=20)
    assert size(world, 1) > 4 * size(world, 0) / 2, "the other partition's bytes are not in it"
    assert byte_rate(world) == pytest.approx(RATE, rel=0.1)
    world.fetchers.remove_partition(TopicPartition("t", 0))
    await world.advance(15_000, step_ms=500)
    assert byte_rate(world) == 0


async def test_thr4_a_fetcher_that_the_source_throttles_asks_again_when_it_may(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    world.source.throttle_time_ms = 3_000
    await world.advance(600)
    before = world.source.count(fetch.FetchRequest)
    await world.advance(2_300)
    assert world.source.count(fetch.FetchRequest) == before
    world.source.throttle_time_ms = 0
    world.source.append("t", b"a")
    await world.advance(1_500)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.given_back == []


# --- on the wire
# ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """A source, and a destination that has its mirror m."""
    short = {"quota.window.num": "2"}
    with EmbeddedCluster(mirroring=True, config=short) as a, EmbeddedCluster(mirroring=True, config={**FAST_MIRROR, **short}) as b:
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        yield a, b


def node_id(cluster: EmbeddedCluster) -> int:
    return int(cluster.call(lambda server: server.broker.replica_manager.config.broker_id))


def set_quota(cluster: EmbeddedCluster, client_id: str, **values: float | None) -> None:
    entity = [alter_client_quotas.AlterClientQuotasRequestEntityData("client-id", client_id)]
    ops = [alter_client_quotas.OpData(key, value or 0.0, value is None) for key, value in values.items()]
    request = alter_client_quotas.AlterClientQuotasRequest([alter_client_quotas.AlterClientQuotasRequestEntryData(entity, ops)])
    response = send(cluster.bootstrap_servers, request)
    assert response.entries[0].error_code == 0, response
    time.sleep(0.2)


def alter(cluster: EmbeddedCluster, resource_type: int, name: str, key: str, value: str | None) -> None:
    config = incremental_alter_configs.AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    response = send(cluster.bootstrap_servers, incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))
    assert response.responses[0].error_code == 0, response


def test_thr4_thr5_consumer_byte_rate_on_the_fetchers_client_id_slows_the_mirror(clusters):
    """The source's operator needs to know nothing but the client id; other clients of the source
    are not concerned.
    """
    a, b = clusters
    node = node_id(b)
    client_id = f"broker-{node}-fetcher-0-mirror-m"
    create_topic(a.bootstrap_servers, "quota")
    set_quota(a, client_id, consumer_byte_rate=1_000_000.0)
    produce(a.bootstrap_servers, "quota", ["x" * 10_000] * 250, batch=10)
    began = time.monotonic()
    add(b.bootstrap_servers, "m", "quota")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert time.monotonic() - began > 1, "2.5 MB at 1 MB/s, less what the quota's windows allow at once"
    assert log_bytes(a.log_dir(), "quota-0") == log_bytes(b.log_dir(), "quota-0") != b""
    set_quota(a, client_id, consumer_byte_rate=None)


def test_thr1_thr2_the_throttle_is_set_and_ended_by_configs(clusters):
    a, b = clusters
    node = str(node_id(b))
    create_topic(a.bootstrap_servers, "slow")
    produce(a.bootstrap_servers, "slow", ["first"])
    add(b.bootstrap_servers, "m", "slow")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    alter(b, TOPIC_RESOURCE, "slow", REPLICAS_CONFIG, f"0:{node}")
    alter(b, BROKER_RESOURCE, node, RATE_CONFIG, "1")
    time.sleep(1)
    produce(a.bootstrap_servers, "slow", ["x" * 10_000] * 60, batch=10)
    time.sleep(1)
    assert len(log_bytes(b.log_dir(), "slow-0")) < len(log_bytes(a.log_dir(), "slow-0"))
    alter(b, BROKER_RESOURCE, node, RATE_CONFIG, None)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert log_bytes(a.log_dir(), "slow-0") == log_bytes(b.log_dir(), "slow-0")


MIRROR_REQUESTS = {
    94: create_mirror_messages.CreateMirrorRequest(mirror_name="m", config=[]),
    95: add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name="m", topics=[]),
    96: remove_topics_from_mirror.RemoveTopicsFromMirrorRequest(mirror_name="m", topics=[]),
    98: list_mirrors.ListMirrorsRequest(),
    99: describe_mirrors.DescribeMirrorsRequest(mirror_names=["m"]),
    102: pause_mirror_topics.PauseMirrorTopicsRequest(mirror_name="m", topics=[]),
    103: resume_mirror_topics.ResumeMirrorTopicsRequest(mirror_name="m", topics=[]),
    104: delete_mirror.DeleteMirrorRequest(mirror_name="nobody"),
}


def test_thr7_a_request_quota_shows_in_the_answer_of_every_mirror_request(clusters):
    """What brokers ask of each other (100, 101, 105) is exempt, as between brokers of Kafka; the
    field is there.
    """
    _, b = clusters
    set_quota(b, "greedy", request_percentage=0.001)
    send(b.bootstrap_servers, MIRROR_REQUESTS[99], client_id="greedy")
    with ThreadPoolExecutor(len(MIRROR_REQUESTS)) as threads:
        answers = list(threads.map(lambda request: send(b.bootstrap_servers, request, client_id="greedy"), MIRROR_REQUESTS.values()))
    assert [request.API_KEY for request in MIRROR_REQUESTS.values()] == list(MIRROR_REQUESTS)
    assert all(answer.throttle_time_ms > 0 for answer in answers)
    for inter_broker in (ReadMirrorStatesResponse, WriteMirrorStatesResponse, BumpLeaderEpochsResponse):
        assert inter_broker().throttle_time_ms == 0
