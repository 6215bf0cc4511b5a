"""What clients are told of leader epochs above the partition's own: nothing, in any version;
replicas and log readers see the log as it is.

A Java client that hears of a larger epoch than metadata has drops that metadata, and reads nothing
after its next rebalance.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from support.brokers.broker_doubles import BrokerWorld
from support.brokers.frame_exchange import exchange

from kmirror.common.errors import Errors
from kmirror.common.ports import FileSlice
from kmirror.coordinator.group.group_records import OffsetAndMetadata
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.replica.client_epochs import ClientEpochs
from kmirror.storage.file_records import FileRecords
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages import fetch, list_offsets, offset_fetch, offset_for_leader_epoch
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord

LOCAL_EPOCH = 3
EPOCHS = [0, 3, 7, 9]
TOLD = [0, 3, -1, -1]
TIMESTAMPS = [1_000, 2_000, 3_000, 4_000]
UNSTABLE = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}
MIRRORED = {"mirror.name": "m"}


class Coordinator:
    """One committed offset in each partition: the epochs of EPOCHS."""

    async def fetch_offsets(self, group_id: str, wanted: Any, **options: Any) -> dict[str, dict[int, OffsetAndMetadata | None]]:
        rows: dict[int, OffsetAndMetadata | None] = {
            number: OffsetAndMetadata(offset=5, leader_epoch=epoch, metadata="", commit_timestamp_ms=0)
            for number, epoch in enumerate(EPOCHS)
        }
        return {"t": rows}


def mirror(folder: Path, *, configs: dict[str, str] | None = None, partitions: int = 1, replicas: tuple[int, ...] = (1,)) -> BrokerWorld:
    """Broker 1 leads "t" in LOCAL_EPOCH; its log has a batch of each of EPOCHS."""
    world = BrokerWorld(str(folder), props=UNSTABLE, others=(2,))
    world.apply(FeatureLevelRecord(name="mirror.version", feature_level=1))
    world.apis.group_coordinator = Coordinator()
    world.create_topic("t", partitions=partitions, replicas=replicas, configs=MIRRORED if configs is None else configs)
    for number in range(partitions):
        for _ in range(LOCAL_EPOCH):
            world.elect("t", number, 1)
    for offset, (epoch, timestamp) in enumerate(zip(EPOCHS, TIMESTAMPS, strict=True)):
        record = Record(offset=offset, timestamp=timestamp, key=None, value=b"v")
        batch = bytearray(build_batch([record], base_offset=offset, partition_leader_epoch=epoch))
        world.partition("t").append_records_to_mirror_leader(batch, source_leader_epoch=epoch)
    return world


def fetch_request(world: BrokerWorld, offset: int = 0, *, last_fetched_epoch: int = -1, **fields: Any) -> fetch.FetchRequest:
    partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, last_fetched_epoch=last_fetched_epoch)
    topic = fetch.FetchTopic(topic="t", topic_id=world.cache.topic_id("t"), partitions=[partition])
    return fetch.FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[topic], **fields)


def epochs_in(response: Any) -> list[int]:
    (row,) = response.responses[0].partitions
    assert row.error_code == Errors.NONE
    batches = list(iter_batches(bytes(row.records)))
    assert all(batch.is_valid() for batch in batches), "the CRC does not cover the epoch"
    return [batch.partition_leader_epoch for batch in batches]


async def test_a_consumer_is_sent_no_batch_with_an_epoch_above_the_local_one_in_any_version(tmp_path: Path) -> None:
    world = mirror(tmp_path)
    for version in range(4, 20):
        assert epochs_in(await exchange(world, ApiKeys.FETCH, version, fetch_request(world))) == TOLD, version
    (segment,) = tmp_path.glob("t-0/*.log")
    assert [batch.partition_leader_epoch for batch in iter_batches(segment.read_bytes())] == EPOCHS, "the disk has them"


@pytest.mark.parametrize(
    ("client_id", "fields", "version"),
    [
        ("test", {"unknown_tagged_fields": log_reader_tag(12)}, 12),
        ("test", {"unknown_tagged_fields": log_reader_tag(18)}, 18),
        ("test", {"last_fetched_epoch": 0}, 12),
        ("broker-4-fetcher-0-mirror-my-mirror", {}, 11),
        ("test", {"replica_id": -2}, 11),
    ],
    ids=["tag v12", "tag v18", "last fetched epoch", "client id", "debugging consumer"],
)
async def test_who_keeps_or_compares_the_log_is_sent_it_as_it_is(
    tmp_path: Path, client_id: str, fields: dict[str, Any], version: int
) -> None:
    world = mirror(tmp_path)
    response = await exchange(world, ApiKeys.FETCH, version, fetch_request(world, **fields), client_id=client_id)
    assert epochs_in(response) == EPOCHS


async def test_a_follower_is_sent_the_log_as_it_is(tmp_path: Path) -> None:
    world = mirror(tmp_path, replicas=(1, 2))
    request = fetch_request(world, replica_id=2)
    assert epochs_in(await exchange(world, ApiKeys.FETCH, 12, request)) == EPOCHS


async def test_a_replica_that_follows_hides_epochs_from_consumers_too(tmp_path: Path) -> None:
    """KIP-392: a consumer reads from the replica in its rack."""
    world = BrokerWorld(str(tmp_path), others=(2,))
    world.create_topic("t", replicas=(1, 2), leader=2, configs=MIRRORED)
    for epoch in (0, 7):
        log = world.partition("t").log
        batch = bytearray(
            build_batch([Record(log.log_end_offset, 1, None, b"v")], base_offset=log.log_end_offset, partition_leader_epoch=epoch)
        )
        world.partition("t").append_records_to_follower(batch, leader_epoch=epoch)
    world.partition("t").log.maybe_update_high_watermark(2)
    assert epochs_in(await exchange(world, ApiKeys.FETCH, 12, fetch_request(world))) == [0, -1]


async def test_a_log_that_cannot_be_read_is_a_storage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent by sendfile ends the connection where the disk fails; what is read has an
    answer.
    """

    def broken(records: FileRecords) -> bytes:
        raise OSError(errno.EIO, "broken")

    world = mirror(tmp_path)
    monkeypatch.setattr(FileRecords, "to_bytes", broken)
    (row,) = (await world.ask(ApiKeys.FETCH, fetch_request(world), 12)).responses[0].partitions
    assert (row.error_code, bytes(row.records)) == (Errors.KAFKA_STORAGE_ERROR, b"")


async def test_nothing_is_hidden_once_the_local_epoch_is_above_the_log(tmp_path: Path) -> None:
    world = mirror(tmp_path)
    while world.partition("t").leader_epoch < EPOCHS[-1]:
        world.elect("t", 0, 1)
    (row,) = (await world.ask(ApiKeys.FETCH, fetch_request(world), 12)).responses[0].partitions
    assert isinstance(row.records, FileSlice), "the zero-copy path"
    assert [batch.partition_leader_epoch for batch in iter_batches(row.records.to_bytes())] == EPOCHS


async def test_list_offsets_tells_a_consumer_no_epoch_above_the_local_one(tmp_path: Path) -> None:
    world = mirror(tmp_path)

    async def epoch_of(timestamp: int, version: int, replica_id: int = -1) -> tuple[int, int]:
        partition = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        topics = [list_offsets.ListOffsetsTopic(name="t", partitions=[partition])]
        message = list_offsets.ListOffsetsRequest(replica_id=replica_id, topics=topics)
        (row,) = (await world.ask(ApiKeys.LIST_OFFSETS, message, version)).topics[0].partitions
        assert row.error_code == Errors.NONE
        return row.offset, row.leader_epoch

    for version in range(4, 12):
        for offset, (timestamp, epoch) in enumerate(zip(TIMESTAMPS, TOLD, strict=True)):
            assert await epoch_of(timestamp, version) == (offset, epoch), version
        assert await epoch_of(-2, version) == (0, 0)
        assert await epoch_of(-1, version) == (4, -1), "the log's latest epoch is not ours"
    assert await epoch_of(-3, 7) == (3, -1)
    assert await epoch_of(3_000, 7, replica_id=2) == (2, 7)
    assert await epoch_of(-1, 7, replica_id=2) == (4, LOCAL_EPOCH)
    world.partition("t").local_log.truncate_fully_and_start_at(0)
    assert await epoch_of(-1, 7) == (0, LOCAL_EPOCH), "an empty log"


def test_the_latest_offset_has_the_latest_epoch_of_the_log(tmp_path: Path) -> None:
    """A mirror's leader has no batch of its own epoch; librdkafka validates its position by this
    epoch when the leader changes.
    """
    assert [ClientEpochs.of_log_end(latest, 5) for latest in (None, 0, 5, 6)] == [5, 0, 5, -1]


@pytest.mark.parametrize("association", ["m", "m.paused", "m.removed", "m.paused.removed"])
async def test_offset_fetch_tells_no_committed_epoch_above_the_local_one_in_any_version(tmp_path: Path, association: str) -> None:
    world = mirror(tmp_path, configs={"mirror.name": association}, partitions=len(EPOCHS))
    for version in range(1, 11):
        assert await committed_epochs(world, version) == (TOLD if version >= 5 else [-1] * 4), version


async def test_offset_fetch_tells_of_other_topics_what_was_committed(tmp_path: Path) -> None:
    world = mirror(tmp_path, partitions=len(EPOCHS))
    world.set_configs("t", {"mirror.name": None})
    assert await committed_epochs(world, 9) == EPOCHS


async def committed_epochs(world: BrokerWorld, version: int) -> list[int]:
    numbers = list(range(len(EPOCHS)))
    if version >= 8:
        topic_id = world.cache.topic_id("t")
        wanted = [offset_fetch.OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=numbers)]
        message = offset_fetch.OffsetFetchRequest(groups=[offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=wanted)])
    else:
        old = [offset_fetch.OffsetFetchRequestTopic(name="t", partition_indexes=numbers)]
        message = offset_fetch.OffsetFetchRequest(group_id="g", topics=old)
    response = await exchange(world, ApiKeys.OFFSET_FETCH, version, message)
    (topic,) = response.groups[0].topics if version >= 8 else response.topics
    assert [row.committed_offset for row in topic.partitions] == [5] * 4
    return [row.committed_leader_epoch for row in topic.partitions]


@pytest.mark.parametrize(("asked", "expected"), [(0, (0, 1)), (3, (3, 2)), (5, (3, 2)), (7, (7, 3)), (9, (9, 4))])
async def test_offset_for_leader_epoch_tells_consumers_the_truth_for_truncation_detection(
    tmp_path: Path, asked: int, expected: tuple[int, int]
) -> None:
    """Never more than was asked for, so that nothing new gets into a client's metadata."""
    world = mirror(tmp_path)
    partition = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=asked, current_leader_epoch=LOCAL_EPOCH)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=[partition])
    for version in range(2, 5):
        message = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])
        (row,) = (await exchange(world, ApiKeys.OFFSET_FOR_LEADER_EPOCH, version, message)).topics[0].partitions
        assert (row.leader_epoch, row.end_offset) == expected
