"""How a mirror asks its source: as a consumer (RS14), in sessions (FEA9), through fetchers with
connections of their own (FEA8, FEA10), under predictable client ids (THR5), and past failures (E9).
"""

from __future__ import annotations

import pytest
from support.mirrors import scripted_source
from support.mirrors.mirror_world import MirrorWorld
from support.mirrors.scripted_source import KAFKA_2_1, KAFKA_2_8, KAFKA_3_9, NEWEST, batch

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.messages import fetch, list_offsets, offset_for_leader_epoch

AGES = [
    pytest.param(NEWEST, id="newest"),
    pytest.param(KAFKA_3_9, id="3.9"),
    pytest.param(KAFKA_2_8, id="2.8"),
    pytest.param(KAFKA_2_1, id="2.1"),
]
BACKOFF_MS = 1_000


async def mirroring(world: MirrorWorld, topic: str = "t", *, partitions: int = 1, epoch: int = 0) -> list[scripted_source.Driver]:
    """A topic with two batches in each partition, mirrored to its end."""
    world.source.create(topic, partitions=partitions)
    for number in range(partitions):
        world.source.log(topic, number).epoch = epoch
        world.source.append(topic, b"a", b"b", partition=number)
        world.source.append(topic, b"c", partition=number)
    drivers = await world.mirror_topic(topic, partitions=partitions)
    await world.advance(1_100)
    for number in range(partitions):
        assert world.log_bytes(topic, number) == world.source_bytes(topic, number)
    return drivers


@pytest.mark.parametrize("versions", AGES)
async def test_rs14_a_mirror_fetches_as_a_consumer(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions, replica_fetch_max_bytes=111_111, replica_fetch_response_max_bytes=222_222)
    await mirroring(world, epoch=6)
    asked = world.source.fetches()
    assert asked and not world.source.fetches(long_polls=False)
    for request in asked:
        assert (request.replica_id, request.replica_state.replica_id) == (-1, -1)
        assert (request.isolation_level, request.max_wait_ms, request.min_bytes, request.max_bytes) == (1, 500, 1, 222_222)
    rows = [row for request in asked for topic in request.topics for row in topic.partitions]
    assert {row.current_leader_epoch for row in rows} == {6}, "the epoch of Metadata, not one that is learned by trying"
    assert {row.partition_max_bytes for row in rows} == {111_111}
    assert {row.mirror_leader_epoch for row in rows} == {-1}
    assert rows[0].last_fetched_epoch == -1, "an empty log has none"
    assert rows[-1].last_fetched_epoch == (6 if versions[1] >= 12 else -1)


async def test_rs14_below_metadata_v7_there_are_no_leader_epochs(tmp_path):
    world = MirrorWorld(str(tmp_path), {**KAFKA_2_1, 3: 5})
    (driver,) = await mirroring(world, epoch=6)
    rows = [row for request in world.source.fetches() for topic in request.topics for row in topic.partitions]
    assert {row.current_leader_epoch for row in rows} == {-1}
    world.source.append("t", b"of a later epoch", epoch=7)
    await world.settle()
    assert world.log_bytes("t") == world.source_bytes("t") and driver.given_back == []


@pytest.mark.parametrize("versions", AGES)
async def test_fea9_an_idle_session_asks_for_nothing_by_name(tmp_path, versions):
    """After the first fetch a hundred idle partitions are not named again, and one that moves is
    named alone.
    """
    world = MirrorWorld(str(tmp_path), versions)
    await mirroring(world, partitions=20)
    await world.advance(1_100)
    full, last = world.source.fetches()[0], world.source.fetches()[-1]
    assert (full.session_id, full.session_epoch) == (0, 0)
    assert last.session_id > 0 and last.session_epoch > 1 and last.topics == []
    world.source.append("t", b"d", partition=7)
    await world.settle()
    named = [row.partition for topic in world.source.fetches()[-1].topics for row in topic.partitions]
    assert named == [7] and world.log_bytes("t", 7) == world.source_bytes("t", 7)


@pytest.mark.parametrize("loses", ["id", "epoch", "topic_ids"])
async def test_fea9_a_session_that_the_source_lost_begins_anew(tmp_path, loses):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    before = world.source.fetches()[-1].session_id
    if loses == "id":
        world.source.forget_sessions()
    elif loses == "epoch":
        next(iter(world.source._sessions.values())).epoch += 5
    else:
        errors = [Errors.FETCH_SESSION_TOPIC_ID_ERROR]
        world.source.override = lambda request: (
            fetch.FetchResponse(error_code=errors.pop(), responses=[]) if errors and isinstance(request, fetch.FetchRequest) else None
        )
    await world.advance(600)
    world.source.append("t", b"d")
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")
    anew = [request for request in world.source.fetches() if request.session_epoch == 0][-1]
    assert anew.session_id == (0 if loses == "id" else before), "a session that may live on is ended by its successor"
    assert driver.given_back == [], "nobody else notices"


async def test_fea9_a_source_that_refuses_every_session_is_asked_once_a_backoff(tmp_path):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    world.source.override = lambda request: (
        fetch.FetchResponse(error_code=Errors.INVALID_FETCH_SESSION_EPOCH, responses=[])
        if isinstance(request, fetch.FetchRequest) and request.isolation_level == 1
        else None
    )
    before = world.source.count(fetch.FetchRequest)
    await world.advance(10 * BACKOFF_MS)
    assert world.source.count(fetch.FetchRequest) - before <= 11 * 3
    assert "INVALID_FETCH_SESSION_EPOCH" in driver.status.reason
    world.source.override = None
    world.source.append("t", b"d")
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.cuts == 0


async def test_fea9_without_room_for_a_session_everything_is_asked_each_time(tmp_path):
    world = MirrorWorld(str(tmp_path), sessions=0)
    await mirroring(world, partitions=3)
    world.source.append("t", b"d", partition=1)
    await world.advance(1_100)
    assert {(request.session_id, request.session_epoch) for request in world.source.fetches()} == {(0, 0)}
    assert world.log_bytes("t", 1) == world.source_bytes("t", 1)


async def test_fea9_a_partition_that_left_is_forgotten_by_the_session(tmp_path):
    world = MirrorWorld(str(tmp_path))
    await mirroring(world, partitions=3)
    world.fetchers.remove_partition(TopicPartition("t", 1))
    await world.advance(1_100)
    forgotten = [number for request in world.source.fetches() for topic in request.forgotten_topics_data for number in topic.partitions]
    assert forgotten == [1]
    world.source.append("t", b"d", partition=1)
    await world.advance(600)
    assert world.log_bytes("t", 1) != world.source_bytes("t", 1)


async def test_fea9_an_answer_that_was_not_asked_for_is_not_used(tmp_path):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)

    def foreign(request):
        if isinstance(request, fetch.FetchRequest) and request.isolation_level == 1:
            row = fetch.PartitionData(partition_index=9, high_watermark=1, log_start_offset=0, records=batch(0, b"not asked for"))
            topic = fetch.FetchableTopicResponse(topic_id=world.source.topic_ids["t"], partitions=[row])
            return fetch.FetchResponse(session_id=request.session_id, responses=[topic])
        return None

    world.source.override = foreign
    await world.advance(2 * BACKOFF_MS)
    assert "does not match the request" in driver.status.reason
    world.source.override = None
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.status.reason is None


async def test_fea9_topics_without_ids_and_with_them_share_no_session(tmp_path):
    """A session speaks of ids or of names; a source of Kafka 2.8 has ids in its metadata only, and
    is asked by name.
    """
    world = MirrorWorld(str(tmp_path), KAFKA_2_8)
    await mirroring(world)
    assert {version for _, _, version, request in world.source.requests if isinstance(request, fetch.FetchRequest)} == {12}
    world.source.versions = dict(NEWEST)
    await world.advance(1_100)
    later = world.source.fetches()[-1]
    assert later.session_epoch > 0
    first_by_id = next(
        request for _, _, version, request in world.source.requests if isinstance(request, fetch.FetchRequest) and version >= 13
    )
    assert first_by_id.session_epoch == 0 and first_by_id.topics[0].topic_id == world.source.topic_ids["t"]


@pytest.mark.parametrize("fetchers", [1, 4])
async def test_cfg13_fea8_partitions_spread_over_the_fetchers_of_their_source_broker_and_mirror(tmp_path, fetchers):
    world = MirrorWorld(str(tmp_path), brokers=2, mirror_num_replica_fetchers=fetchers)
    world.source.create("t", partitions=16)
    for number in range(16):
        world.source.log("t", number).leader = 1 + number % 2
        world.source.append("t", b"a", partition=number)
    await world.mirror_topic("t", partitions=16)
    await world.advance(1_100)
    running = world.fetchers.running()
    keys = {(each.key.source_broker.id, each.key.fetcher_id, each.key.mirror_name) for each in running}
    assert len(keys) == len(running)
    assert {broker for broker, _, _ in keys} == {1, 2}
    assert {number for _, number, _ in keys} <= set(range(fetchers))
    per_broker = [len([key for key in keys if key[0] == broker]) for broker in (1, 2)]
    assert per_broker == [1, 1] if fetchers == 1 else min(per_broker) >= 2
    for number in range(16):
        assert world.log_bytes("t", number) == world.source_bytes("t", number)


@pytest.mark.item("A12")
async def test_thr5_the_client_id_of_a_fetcher_is_broker_fetcher_and_mirror(tmp_path):
    world = MirrorWorld(str(tmp_path), mirror_num_replica_fetchers=2)
    await mirroring(world, partitions=6)
    ids = {client_id for _, client_id, _, request in world.source.requests if isinstance(request, fetch.FetchRequest)}
    assert ids == {"broker-1-fetcher-0-mirror-m", "broker-1-fetcher-1-mirror-m"}
    assert {each.fetcher.name for each in world.fetchers.running()} == {"MirrorFetcherThread-1-0-m", "MirrorFetcherThread-1-1-m"}


async def test_fea10_the_fetchers_of_mirrors_are_not_those_of_replication(tmp_path):
    """A pool of their own: num.replica.fetchers says nothing of them, and replication has none of
    their partitions.
    """
    world = MirrorWorld(str(tmp_path), mirror_num_replica_fetchers=3)
    await mirroring(world, partitions=9)
    assert len(world.fetchers.running()) > world.broker.config.replica_config().num_replica_fetchers
    assert {type(each.fetcher).__name__ for each in world.fetchers.running()} == {"MirrorFetcher"}


async def test_b27_one_fetch_is_in_flight(tmp_path):
    world = MirrorWorld(str(tmp_path))
    await mirroring(world, partitions=5)
    waiting = world.source._waiters
    assert len([waiter for waiter in waiting if not waiter.done()]) == 1
    before = len(world.source.fetches())
    await world.advance(5_000)
    assert len(world.source.fetches()) - before == 10, "a long poll after the other, and no timer beside them"


async def test_fea11_what_is_in_remote_storage_only_is_taken_for_retention(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    log = world.source.log("t")
    log.batches[:] = [batch(50, b"local", epoch=0)]
    log.start = 50
    asked = []

    def tiered(request):
        if isinstance(request, fetch.FetchRequest) and any(row.fetch_offset < 50 for topic in request.topics for row in topic.partitions):
            row = fetch.PartitionData(partition_index=0, error_code=Errors.OFFSET_MOVED_TO_TIERED_STORAGE, high_watermark=-1, records=b"")
            topic = fetch.FetchableTopicResponse(topic_id=world.source.topic_ids["t"], partitions=[row])
            return fetch.FetchResponse(session_id=5, responses=[topic])
        if isinstance(request, list_offsets.ListOffsetsRequest):
            asked.append(request.topics[0].partitions[0].timestamp)
        return None

    world.source.override = tiered
    (driver,) = await world.mirror_topic("t")
    await world.advance(2 * BACKOFF_MS)
    assert asked == [-4], "the earliest local timestamp"
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (50, 51)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.rejected is None


async def test_fm1_source_leaders_come_and_go_without_truncation(tmp_path):
    world = MirrorWorld(str(tmp_path), brokers=3)
    (driver,) = await mirroring(world)
    for epoch in range(1, 7):
        world.source.elect("t", leader=1 + epoch % 3, epoch=epoch)
        world.source.append("t", b"in epoch %d" % epoch)
        await world.advance(700)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.cuts == 0 and driver.given_back == []


async def test_fm1_a_preferred_read_replica_is_ignored(tmp_path):
    world = MirrorWorld(str(tmp_path), brokers=2)
    await mirroring(world)

    def prefers(request):
        if isinstance(request, fetch.FetchRequest) and request.isolation_level == 1:
            row = fetch.PartitionData(
                partition_index=0, high_watermark=3, last_stable_offset=3, log_start_offset=0, preferred_read_replica=2, records=b""
            )
            topic = fetch.FetchableTopicResponse(topic_id=world.source.topic_ids["t"], partitions=[row])
            return fetch.FetchResponse(session_id=request.session_id, responses=[topic])
        return None

    asked = 0

    def once(request):
        nonlocal asked
        asked += isinstance(request, fetch.FetchRequest)
        return prefers(request) if asked == 1 else None

    world.source.override = once
    await world.advance(1_200)
    world.source.append("t", b"d")
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert {address for address, _, _, request in world.source.requests if isinstance(request, fetch.FetchRequest)} == {("source-1", 9092)}


async def test_fm2_a_source_that_is_down_is_asked_again_and_the_last_offset_stays(tmp_path):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    world.source.down.add(("source-1", 9092))
    world.source.notify()
    await world.advance(20 * BACKOFF_MS, step_ms=250)
    assert len(driver.failures) in range(10, 23)
    assert driver.progress.source_offset == driver.log.log_end_offset == 3
    world.source.down.clear()
    world.source.append("t", b"d")
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.progress.source_offset == driver.log.log_end_offset == 4


async def test_fm10_retention_beyond_our_log_end_starts_the_log_over_while_fetching(tmp_path):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    log = world.source.log("t")
    log.start, log.batches[:] = 40, [batch(40, b"x")]
    world.source.notify()
    await world.advance(3 * BACKOFF_MS)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (40, 41)
    assert world.log_bytes("t") == world.source_bytes("t")


async def test_fm11_a_refused_login_shows_while_it_lasts(tmp_path):
    from kmirror.network.client import AuthenticationError

    world = MirrorWorld(str(tmp_path), mirror_metadata_refresh_interval_ms=3_000)
    drivers = await mirroring(world, partitions=2)
    world.source.override = lambda request: AuthenticationError("the login at source-1:9092 failed")
    await world.advance(3_000)
    assert all("the login at source-1:9092 failed" in driver.status.reason for driver in drivers)
    await world.advance(60_000, step_ms=500)
    assert all("the login at source-1:9092 failed" in driver.status.reason for driver in drivers)
    assert all(driver.rejected is None for driver in drivers), "it passes by itself"


async def test_fm12_one_malformed_batch_among_many_partitions(tmp_path):
    world = MirrorWorld(str(tmp_path))
    drivers = await mirroring(world, partitions=4)
    bad = bytearray(batch(3, b"damaged on its way"))
    bad[-2] ^= 0x40
    world.source.log("t", 2).batches.append(bytes(bad))
    for number in (0, 1, 3):
        world.source.append("t", b"d", partition=number)
    await world.advance(3 * BACKOFF_MS)
    assert [driver.rejected is not None for driver in drivers] == [False, False, True, False]
    assert drivers[2].log.log_end_offset == 3
    for number in (0, 1, 3):
        assert world.log_bytes("t", number) == world.source_bytes("t", number)


async def test_fm15_an_unclean_election_at_the_source_is_repaired_by_epochs(tmp_path):
    """The source lost its end, and wrote something else there in a later epoch, before we looked."""
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    world.fetchers.remove_partition(TopicPartition("t", 0))
    log = world.source.log("t")
    log.batches[:] = [log.batches[0], batch(2, b"other", b"end", epoch=2)]
    log.epoch = 2
    driver.start()
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.cuts == 1


async def test_s13_the_log_start_follows_the_source_while_mirroring(tmp_path):
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    world.source.log("t").start = 2
    world.source.append("t", b"d")
    await world.settle()
    assert driver.log.log_start_offset == 2
    world.source.log("t").start = 4
    await world.advance(600)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (4, 4), "also with nothing to append"


async def test_fea3_the_log_start_waits_for_our_own_replicas(tmp_path):
    """The source tells its log start once; what our high watermark does not allow yet is done when
    it does.
    """
    world = MirrorWorld(str(tmp_path))
    (driver,) = await mirroring(world)
    partition = driver.partition
    move, partition._maybe_increment_leader_high_watermark = partition._maybe_increment_leader_high_watermark, lambda log: None
    log = world.source.log("t")
    world.source.append("t", b"d", b"e")
    await world.settle()
    log.start = 5
    await world.advance(1_100)
    assert (driver.log.log_end_offset, driver.log.high_watermark, driver.log.log_start_offset) == (5, 3, 3)
    partition._maybe_increment_leader_high_watermark = move
    move(driver.log)
    await world.advance(600)
    assert driver.log.log_start_offset == 5


@pytest.mark.parametrize("versions", AGES)
async def test_s10_holes_of_a_compacted_source_are_kept(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions)
    world.source.create("t")
    log = world.source.log("t")
    values = [b"v"] * 10
    for first in (0, 10, 20, 41, 50, 71, 80, 90):
        log.batches.append(batch(first, *values[: 9 if first == 41 else 10], epoch=0))
    log.batches.append(batch(100, b"last"))
    (driver,) = await world.mirror_topic("t", configs={"cleanup.policy": "compact"})
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.log.log_end_offset == 101
    assert scripted_source.offsets(world.log_bytes("t")) == [0, 10, 20, 41, 50, 71, 80, 90, 100]


async def test_cfg18_cfg21_sizes_waits_and_backoffs_are_the_brokers(tmp_path):
    world = MirrorWorld(str(tmp_path), replica_fetch_wait_max_ms=200, replica_fetch_min_bytes=7, mirror_fetch_backoff_ms=3_000)
    (driver,) = await mirroring(world)
    request = world.source.fetches()[-1]
    assert (request.max_wait_ms, request.min_bytes) == (200, 7)
    world.source.log("t").error = Errors.UNKNOWN_SERVER_ERROR
    world.source.notify()
    await world.settle()
    before = len(world.source.fetches())
    await world.advance(2_900)
    assert len(world.source.fetches()) == before and "UNKNOWN_SERVER_ERROR" in driver.status.reason
    await world.advance(300)
    assert len(world.source.fetches()) > before


async def test_inquiries_of_many_partitions_go_together(tmp_path):
    """A destination broker that takes over a hundred partitions asks the source three requests, not
    three hundred.
    """
    world = MirrorWorld(str(tmp_path))
    drivers = await mirroring(world, partitions=30)
    world.source.requests.clear()
    for driver in drivers:
        driver.start()
    await world.advance(1_200)
    assert len(world.source.fetches(long_polls=False)) <= 3
    assert world.source.count(list_offsets.ListOffsetsRequest) <= 3
    assert world.source.count(offset_for_leader_epoch.OffsetForLeaderEpochRequest) == 0
    assert all(driver.cuts == 0 for driver in drivers)


async def test_met4_a_fetcher_that_died_is_counted_and_begins_again(tmp_path):
    """By an error that nobody expected.

    Nobody has to do anything; what was under way is compared with the source first.
    """
    world = MirrorWorld(str(tmp_path))
    drivers = await mirroring(world, partitions=3)
    reported = world.runtime.expected_failures = []
    world.source.override = lambda request: ZeroDivisionError("a bug")
    seen = []
    for _ in range(12):
        await world.advance(50)
        seen += [each.is_dead for each in world.fetchers.running()]
    assert True in seen and reported, "it counts while it is down, and somebody is told"
    world.source.override = None
    for number in range(3):
        world.source.append("t", b"d", partition=number)
    await world.advance(12_000)
    assert [each.is_dead for each in world.fetchers.running()] == [False]
    assert all(world.fetchers.owns(driver.id.topic_partition) for driver in drivers)
    for number in range(3):
        assert world.log_bytes("t", number) == world.source_bytes("t", number)
