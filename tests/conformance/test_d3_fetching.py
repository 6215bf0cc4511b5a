"""What a mirror does with the answers of its source, whatever the source's version: batches, a new
leader, an offset out of range, a diverging epoch, errors (D3-12 to D3-16).
"""

from __future__ import annotations

import pytest
from support.logs.cleaned_histories import verdict_of
from support.mirrors import scripted_source
from support.mirrors.mirror_world import MirrorWorld
from support.mirrors.scripted_source import KAFKA_2_1, KAFKA_2_8, KAFKA_3_9, NEWEST, batch, offsets

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.mirror.logs.local_log import cut_fully
from kmirror.mirror.logs.log_questions import LogAction
from kmirror.mirror.logs.log_verifier import diverged
from kmirror.network.client import AuthenticationError
from kmirror.record.builder import build_batch
from kmirror.record.record_batch import RecordBatch
from kmirror.replica.log_verification import same_batch
from kmirror.wire.messages import fetch

AGES = [
    pytest.param(NEWEST, id="newest"),
    pytest.param(KAFKA_3_9, id="3.9"),
    pytest.param(KAFKA_2_8, id="2.8"),
    pytest.param(KAFKA_2_1, id="2.1"),
]
BACKOFF_MS = 1_000


def read_log_offsets(world: MirrorWorld) -> list[int]:
    """Returns the base offsets of all batches on disk, also of those below the log start."""
    log = world.broker.partition("t").leader_log
    return [header.base_offset for header in log.batch_headers(0)]


async def mirroring(world: MirrorWorld, *batches: int, epoch: int = 0) -> scripted_source.Driver:
    """Creates topic t at the source, with batches of these numbers of records, and mirrors it."""
    world.source.create("t")
    world.source.log("t").epoch = epoch
    for number, count in enumerate(batches):
        world.source.append("t", *[b"%d-%d" % (number, index) for index in range(count)])
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")
    return driver


@pytest.mark.parametrize("versions", AGES)
async def test_d3_12_batches_are_appended_as_they_are(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions)
    driver = await mirroring(world, 3, 1, 2, epoch=4)
    world.source.append("t", b"later")
    await world.settle()
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.log.high_watermark == driver.progress.source_offset == 7
    assert driver.given_back == [] and driver.cuts == 0


async def test_d3_12_batches_of_a_later_epoch_than_the_sources_are_left_out(tmp_path):
    """Another leader wrote them, so that leader is asked whether they continue our log."""
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 1)
    world.source.append("t", b"of epoch 3", epoch=3)
    await world.settle()
    assert driver.log.log_end_offset == 1
    assert driver.given_back == ["the source sent batches with a newer leader epoch than the one that the fetch was for"]


async def test_d3_12_in_a_chain_batches_exceed_the_sources_epoch(tmp_path):
    """The source's topic is a mirror too: its batches have the epochs of the cluster before it."""
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 1)
    world.source.mirrored_topics.add("t")
    world.source.append("t", b"of epoch 3", epoch=3)
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.given_back == []


@pytest.mark.parametrize("versions", AGES)
@pytest.mark.parametrize("tells_leader", [True, False])
async def test_d3_13_a_new_source_leader_is_found_and_nothing_is_cut(tmp_path, versions, tells_leader):
    world = MirrorWorld(str(tmp_path), versions, brokers=2)
    driver = await mirroring(world, 3, 2)
    world.source.log("t").tells_leader = tells_leader
    world.source.elect("t", leader=2, epoch=1)
    world.source.append("t", b"by broker 2")
    answered = versions[1] >= 12 and tells_leader
    await world.advance(600 if answered else BACKOFF_MS + 700)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert (driver.cuts, len(driver.given_back)) == (0, 0 if answered else 1)
    assert {address for address, _, _, _ in world.source.requests[-2:]} == {("source-2", 9092)}


@pytest.mark.parametrize("error", [Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH, Errors.UNKNOWN_LEADER_EPOCH])
async def test_d3_13_an_error_that_stays_is_asked_about_once_a_backoff(tmp_path, error):
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 1)
    world.source.log("t").error = error
    world.source.log("t").tells_leader = False
    world.source.notify()
    await world.settle()
    before = len(world.source.requests)
    await world.advance(5 * BACKOFF_MS)
    assert len(driver.given_back) <= 7
    assert len(world.source.requests) - before <= 6 * 5
    assert error.name in driver.status.reason
    world.source.log("t").error = Errors.NONE
    world.source.append("t", b"again")
    await world.advance(2 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.status.reason is None


async def test_d3_13_a_broker_that_went_away_comes_back_at_another_address(tmp_path):
    world = MirrorWorld(str(tmp_path), brokers=2)
    driver = await mirroring(world, 2)
    world.source.down.add(("source-1", 9092))
    world.source.notify()
    await world.advance(3 * BACKOFF_MS)
    assert driver.failures or driver.given_back
    world.source.addresses[1] = ("moved", 9999)
    world.source.append("t", b"from there")
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert world.source.requests[-1][0] == ("moved", 9999)
    assert driver.cuts == 0


@pytest.mark.parametrize("versions", AGES)
async def test_d3_14_retention_at_the_source_passed_us(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions)
    driver = await mirroring(world, 3)
    world.source.down.add(("source-1", 9092))
    world.source.notify()
    await world.settle()
    log = world.source.log("t")
    log.start = 100
    log.batches[:] = [batch(100, b"x", b"y", epoch=0)]
    world.source.down.clear()
    await world.advance(3 * BACKOFF_MS)
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (100, 102)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.cuts == 1


async def test_d3_14_the_sources_log_starts_inside_a_batch(tmp_path):
    """An empty mirror takes the whole batch in which the source's log starts, and then moves its
    own log start there (F11).
    """
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    log = world.source.log("t")
    log.batches[:] = [batch(0, b"a", b"b", b"c"), batch(3, b"d")]
    log.start = 1
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    assert read_log_offsets(world) == offsets(world.source_bytes("t")) == [0, 3]
    assert (driver.log.log_start_offset, driver.log.log_end_offset) == (1, 4)
    assert driver.rejected is None and driver.cuts == 0


@pytest.mark.parametrize("versions", AGES)
async def test_d3_14b_out_of_range_never_empties_a_log_that_has_something_in_common(tmp_path, versions):
    """After an unclean election the source's log is shorter than ours, and continues differently in
    a later epoch.
    """
    world = MirrorWorld(str(tmp_path), versions)
    driver = await mirroring(world, 2, 2, 2)
    log = world.source.log("t")
    log.batches[:] = log.batches[:1]
    log.epoch = 5
    world.source.notify()
    await world.advance(4 * BACKOFF_MS)
    assert driver.log.log_end_offset == 2 and driver.cuts == 1
    world.source.append("t", b"of epoch 5")
    await world.advance(600)
    assert world.log_bytes("t") == world.source_bytes("t")


async def mirroring_two_epochs(world):
    """Mirrors two records each of epochs 1 and 2; returns the driver and the source's log."""
    driver = await mirroring(world, 2, epoch=1)
    log = world.source.log("t")
    log.epoch = 2
    world.source.append("t", b"of epoch 2", b"and more")
    await world.advance(2 * BACKOFF_MS)
    assert driver.log.log_end_offset == 4
    return driver, log


async def test_d3_14b_steps_down_to_an_epoch_that_the_source_knows(tmp_path):
    world = MirrorWorld(str(tmp_path), KAFKA_2_8)
    driver, log = await mirroring_two_epochs(world)
    log.batches[:] = log.batches[:1]
    log.epoch = 3
    world.source.append("t", b"of epoch 3")
    await world.advance(4 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.cuts == 1


async def test_d3_14b_a_source_that_knows_none_of_our_epochs_is_asked_once_a_backoff(tmp_path):
    """The reference implementation asks 900 times a second."""
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 2)

    def out_of_range(request):
        if isinstance(request, fetch.FetchRequest) and request.isolation_level == 1:
            row = fetch.PartitionData(partition_index=0, error_code=Errors.OFFSET_OUT_OF_RANGE, high_watermark=-1, records=b"")
            topic = fetch.FetchableTopicResponse(topic_id=world.source.topic_ids["t"], partitions=[row])
            return fetch.FetchResponse(session_id=1, responses=[topic])
        if type(request).__name__ == "OffsetForLeaderEpochRequest":
            world.source.override, given = None, world.source.override
            response = world.source._end_of_epochs(request)
            world.source.override = given
            response.topics[0].partitions[0].leader_epoch = response.topics[0].partitions[0].end_offset = -1
            return response
        return None

    world.source.override = out_of_range
    await world.advance(600)
    before = len(world.source.requests)
    await world.advance(10 * BACKOFF_MS)
    assert len(world.source.requests) - before <= 11 * 4
    assert driver.log.log_end_offset == 2 and driver.cuts == 0
    assert "knows none of the leader epochs of the local log" in driver.status.reason


@pytest.mark.parametrize("versions", AGES)
async def test_d3_15_a_log_that_goes_on_differently_is_cut_where_the_sources_epoch_ends(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions)
    driver = await mirroring(world, 2, 2)
    log = world.source.log("t")
    log.batches[:] = [*log.batches[:1], batch(2, b"other", b"records", b"here", epoch=1)]
    log.epoch = 1
    world.source.notify()
    await world.advance(4 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.cuts == 1 and driver.log.log_start_offset == 0


async def test_d3_15_an_epoch_that_goes_on_longer_at_the_source_is_cut_where_ours_ends(tmp_path):
    """Our log continues with an epoch that the source does not have.

    A cut at the end of the source's epoch would keep those batches.
    """
    world = MirrorWorld(str(tmp_path))
    driver, log = await mirroring_two_epochs(world)
    log.batches[1:] = [batch(2, b"x", b"y", b"z", epoch=1)]
    log.epoch = 1
    inquiry = diverged(driver.log, 1, 5, cleaned_until=lambda: 0)
    assert verdict_of(inquiry, log.batches)[:2] == (LogAction.CUT, 2)


async def test_d3_15_a_point_below_our_log_start_starts_the_log_over(tmp_path):
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 2, 2)
    driver.max_truncation_records = -1
    log = world.source.log("t")
    log.start = 2
    world.source.append("t", b"e")
    await world.settle()
    assert driver.log.log_start_offset == 2
    log.batches[:] = [batch(0, b"z", epoch=1), batch(1, b"y", b"x", b"w", epoch=1)]
    log.start, log.epoch = 0, 1
    world.source.notify()
    await world.advance(4 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.log.log_start_offset == 0


async def test_d3_15_a_high_watermark_that_falls_back_cuts_nothing(tmp_path):
    """After a restart the source's high watermark and last stable offset are lower than before, but
    its log is as long.
    """
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 2, 2)
    world.source.forget_sessions()
    world.source.log("t").high_watermark = 1
    world.source.elect("t", leader=1, epoch=1)
    await world.advance(3 * BACKOFF_MS)
    assert driver.log.log_end_offset == 4 and driver.cuts == 0
    assert "does not serve the batch at 2 yet" in driver.status.reason
    world.source.log("t").high_watermark = None
    world.source.append("t", b"after all")
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.cuts == 0


async def test_d3_16_a_malformed_batch_fails_its_partition_alone(tmp_path):
    world = MirrorWorld(str(tmp_path))
    world.source.create("t", partitions=2)
    bad = bytearray(batch(0, b"broken"))
    bad[-1] ^= 1
    world.source.log("t", 0).batches.append(bytes(bad))
    world.source.append("t", b"sound", partition=1)
    failing, sound = await world.mirror_topic("t", partitions=2)
    await world.advance(3 * BACKOFF_MS)
    assert failing.rejected is not None and failing.rejected.startswith("malformed batch from the source: Record is corrupt")
    assert failing.log.log_end_offset == 0
    world.source.append("t", b"more", partition=1)
    await world.advance(600)
    assert world.log_bytes("t", 1) == world.source_bytes("t", 1) and sound.rejected is None


@pytest.mark.parametrize("magic", [0, 1])
async def test_d3_16_messages_of_old_formats_fail_the_partition_with_a_clear_reason(tmp_path, magic):
    """The source still holds messages in the format of Kafka 0.10; none of them is appended."""
    world = MirrorWorld(str(tmp_path), KAFKA_2_1)
    world.source.create("t")
    message = b"\0\0\0\0" + bytes([magic, 0]) + (b"\0" * 8 if magic else b"") + b"\xff\xff\xff\xff" + b"\0\0\0\x05hello"
    world.source.log("t").batches.append((0).to_bytes(8, "big") + len(message).to_bytes(4, "big") + message)
    world.source.log("t").high_watermark = 1
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    assert driver.rejected is not None and f"message format v{magic}" in driver.rejected
    assert driver.log.log_end_offset == 0


@pytest.mark.parametrize("versions", [pytest.param(NEWEST, id="by_id"), pytest.param(KAFKA_2_8, id="by_name")])
async def test_d3_16_a_topic_made_anew_under_another_id_fails_and_cuts_nothing(tmp_path, versions):
    world = MirrorWorld(str(tmp_path), versions)
    driver = await mirroring(world, 2, 2)
    world.source.topic_ids["t"] = Uuid.random(world.runtime.random)
    world.source.log("t").batches[:] = [batch(0, b"of the new topic")]
    world.source.notify()
    await world.advance(4 * BACKOFF_MS)
    assert driver.rejected is not None and str(world.source.topic_ids["t"]) in driver.rejected
    assert driver.log.log_end_offset == 4 and driver.cuts == 0


async def test_d3_16_a_refused_topic_is_asked_for_again_for_as_long_as_it_is_refused(tmp_path):
    """Once, it failed after two refresh intervals, and the way out of FAILED copied everything
    again.
    """
    world = MirrorWorld(str(tmp_path), mirror_metadata_refresh_interval_ms=2_000)
    driver = await mirroring(world, 1)
    for _ in range(2):
        world.source.log("t").error = Errors.TOPIC_AUTHORIZATION_FAILED
        world.source.notify()
        await world.advance(20_000, step_ms=250)
        assert driver.rejected is None and driver.status.reason == "the source refuses to let us read the topic"
        world.source.log("t").error = Errors.NONE
        world.source.append("t", b"allowed")
        await world.advance(2_000)
        assert world.log_bytes("t") == world.source_bytes("t") and driver.status.reason is None


async def test_d3_16_a_refused_login_is_tried_again_for_as_long_as_it_is_refused(tmp_path):
    world = MirrorWorld(str(tmp_path), mirror_metadata_refresh_interval_ms=2_000)
    driver = await mirroring(world, 1)
    world.source.override = lambda request: AuthenticationError("the login at source-1:9092 failed: wrong password")
    world.source.notify()
    await world.advance(20_000, step_ms=250)
    assert driver.rejected is None and "wrong password" in driver.status.reason
    world.source.override = lambda request: None
    world.source.append("t", b"allowed")
    await world.advance(3_000)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.status.reason is None


@pytest.mark.parametrize("equal", [0, 1, 23, 39])
async def test_c36b_other_batches_in_equal_epochs_are_found_before_anything_is_fetched(tmp_path, equal):
    """Two clusters assign epochs independently, so from some batch on the source has another
    history in the same epoch.
    """
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, *[2] * 40)
    driver.max_truncation_records = -1 if equal == 0 else 80
    world.fetchers.remove_partition(driver.id.topic_partition)
    log = world.source.log("t")
    log.batches[equal:] = [batch(2 * number, b"other", b"history", epoch=0) for number in range(equal, 45)]
    world.source.requests.clear()
    driver.start()
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t")
    assert driver.cuts == 1
    assert len(world.source.fetches(long_polls=False)) <= 14, "steps double, then halve"


async def test_c36b_an_empty_log_that_ends_above_the_sources_start_begins_there(tmp_path):
    """Otherwise the records in between would be skipped silently (F16)."""
    world = MirrorWorld(str(tmp_path))
    driver = await mirroring(world, 2, 2)
    world.fetchers.remove_partition(driver.id.topic_partition)
    cut_fully(driver.partition, 3)
    driver.start()
    await world.advance(3 * BACKOFF_MS)
    assert world.log_bytes("t") == world.source_bytes("t") and driver.log.log_start_offset == 0


@pytest.mark.parametrize("policy", ["compact", "delete"])
async def test_c36b_what_the_sources_cleaner_rewrote_is_equal_also_where_the_topic_is_compacted_no_more(tmp_path, policy):
    """The source's cleaner removed one record of the last batch, so only the CRC differs."""
    world = MirrorWorld(str(tmp_path))
    world.source.create("t")
    world.source.append("t", b"a", b"b")
    world.source.append("t", b"c", b"d")
    (driver,) = await world.mirror_topic("t", configs={"cleanup.policy": policy})
    await world.advance(600)
    world.fetchers.remove_partition(driver.id.topic_partition)
    log = world.source.log("t")
    whole = RecordBatch(log.batches[1])
    kept = [record for record in whole.records() if record.value == b"d"]
    log.batches[1] = bytes(build_batch(kept, base_offset=2, partition_leader_epoch=whole.partition_leader_epoch))
    driver.start()
    await world.advance(3 * BACKOFF_MS)
    assert driver.cuts == 0
    assert world.log_bytes("t") != world.source_bytes("t") and driver.log.log_end_offset == 4


@pytest.mark.parametrize("change", [{"producer_id": 8}, {"producer_epoch": 2}, {"base_sequence": 4}, {"epoch": 1}, {}])
async def test_c36b_every_producer_field_tells_batches_apart_also_in_a_compacted_topic(tmp_path, change):
    world = MirrorWorld(str(tmp_path))
    fields = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 3}
    world.source.create("t")
    world.source.log("t").batches.append(batch(0, b"a", **fields))
    (driver,) = await world.mirror_topic("t")
    await world.advance(600)
    theirs = RecordBatch(batch(0, b"a", **(fields | change)))
    assert same_batch(driver.log.last_batch(), theirs) is (not change)
