"""ShareCoordinatorShard: what is stored of share partitions, who is fenced, when snapshots are
written, what may be pruned.
"""

from __future__ import annotations

import pytest
from support.coordinators.share_doubles import OTHER_TOPIC, TOPIC, ShareShardHarness

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch, combine_state_batches
from kmirror.coordinator.share.share_coordinator_records import read_share_record
from kmirror.coordinator.share.share_coordinator_shard import NEGATIVE_PARTITION, READ_UNINITIALIZED, WRITE_UNINITIALIZED
from kmirror.coordinator.share.share_partition_key import SharePartitionKey

OTHER = SharePartitionKey("g", OTHER_TOPIC, 0)


def kinds(harness: ShareShardHarness) -> list[int]:
    """Record types: 0 snapshot, 1 update."""
    return [int.from_bytes(record.key[:2], "big") for record in harness.log]


def batch(first: int, last: int, state: int = 0, count: int = 1) -> PersisterStateBatch:
    return PersisterStateBatch(first, last, count, state)


def test_an_initialised_partition_begins_at_its_offset_under_the_groups_epoch() -> None:
    harness = ShareShardHarness()
    assert harness.initialize(state_epoch=3, start_offset=10).error_code == 0
    summary = harness.summary()
    assert (summary.start_offset, summary.state_epoch, summary.leader_epoch, summary.delivery_complete_count) == (10, 3, 0, 0)
    harness.initialize(state_epoch=3, start_offset=-1)
    state = harness.state()
    assert state is not None
    assert (state.start_offset, state.delivery_complete_count, state.snapshot_epoch) == (-1, -1, 1)


def test_what_was_never_initialised_has_no_offset_and_takes_no_reads_and_writes() -> None:
    harness = ShareShardHarness()
    summary = harness.summary()
    assert (summary.error_code, summary.start_offset, summary.delivery_complete_count) == (0, -1, -1)
    assert (harness.write().error_code, harness.write().error_message) == (Errors.INVALID_REQUEST, WRITE_UNINITIALIZED)
    assert (harness.read().error_code, harness.read().error_message) == (Errors.INVALID_REQUEST, READ_UNINITIALIZED)
    assert harness.delete().error_code == 0
    assert harness.log == []


def test_unknown_topics_and_partitions_are_refused() -> None:
    harness = ShareShardHarness()
    for key in (SharePartitionKey("g", Uuid(b"\x09" * 16), 0), SharePartitionKey("g", TOPIC, 2)):
        for result in (harness.initialize(key), harness.summary(key), harness.delete(key)):
            assert result.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    negative = SharePartitionKey("g", TOPIC, -1)
    for refused in (harness.initialize(negative), harness.write(key=negative), harness.read(negative), harness.summary(negative)):
        assert (refused.error_code, refused.error_message) == (Errors.INVALID_REQUEST, NEGATIVE_PARTITION)
    assert harness.log == []


def test_a_write_adds_to_the_state_and_moves_the_start() -> None:
    harness = ShareShardHarness()
    harness.initialize(start_offset=100)
    harness.write((100, 109, 0, 1), (110, 119, 2, 1))
    harness.write((100, 104, 2, 1), start_offset=-1, delivery_complete_count=5)
    answer = harness.read()
    assert [(b.first_offset, b.last_offset, b.delivery_state, b.delivery_count) for b in answer.state_batches] == [
        (100, 104, 2, 1),
        (105, 109, 0, 1),
        (110, 119, 2, 1),
    ]
    harness.write(start_offset=107, delivery_complete_count=10)
    state = harness.state()
    assert state is not None
    assert state.state_batches == (batch(107, 109), batch(110, 119, 2))
    assert (state.start_offset, state.delivery_complete_count) == (107, 10)
    assert kinds(harness) == [0, 1, 1, 1]


def test_the_write_after_enough_updates_is_a_snapshot() -> None:
    harness = ShareShardHarness(updates_per_snapshot=2)
    harness.initialize(start_offset=0)
    for offset in range(5):
        harness.write((offset, offset, 2, 1))
    assert kinds(harness) == [0, 1, 1, 0, 1, 1]
    state = harness.state()
    assert state is not None
    assert (state.snapshot_epoch, state.state_batches) == (1, (batch(0, 4, 2),))
    assert ShareShardHarness(updates_per_snapshot=0).initialize().error_code == 0


def test_an_older_leader_and_an_older_group_are_fenced() -> None:
    harness = ShareShardHarness()
    harness.initialize(state_epoch=5)
    harness.read(leader_epoch=7)
    assert harness.write(state_epoch=5, leader_epoch=6).error_code == Errors.FENCED_LEADER_EPOCH
    assert harness.write(state_epoch=4, leader_epoch=7).error_code == Errors.FENCED_STATE_EPOCH
    assert harness.initialize(state_epoch=4).error_code == Errors.FENCED_STATE_EPOCH
    assert harness.read(leader_epoch=6).error_code == Errors.FENCED_LEADER_EPOCH
    assert harness.read(leader_epoch=-1).error_code == Errors.FENCED_LEADER_EPOCH
    assert harness.write(state_epoch=-1, leader_epoch=-1).error_code == 0
    assert harness.initialize(state_epoch=-1).error_code == 0
    assert harness.write(state_epoch=5, leader_epoch=6).error_code == Errors.FENCED_LEADER_EPOCH


def test_a_read_stores_the_leader_epoch_once() -> None:
    harness = ShareShardHarness()
    harness.initialize()
    harness.read(leader_epoch=4)
    harness.read(leader_epoch=4)
    assert kinds(harness) == [0, 1]
    assert harness.summary().leader_epoch == 4
    harness.write((0, 0, 2, 1), leader_epoch=9)
    assert harness.summary().leader_epoch == 4, "a write is checked against the epoch, and leaves it"


def test_deleting_forgets_the_state_and_its_fences() -> None:
    harness = ShareShardHarness()
    harness.initialize(state_epoch=5)
    harness.read(leader_epoch=7)
    harness.delete()
    assert harness.log[-1].value is None
    assert harness.summary().start_offset == -1
    assert harness.initialize(state_epoch=1).error_code == 0
    assert harness.read(leader_epoch=0).error_code == 0


def test_states_of_deleted_topics_go() -> None:
    harness = ShareShardHarness()
    harness.initialize()
    harness.initialize(OTHER)
    harness.run(harness.shard.on_topics_deleted([TOPIC]))
    assert list(harness.shard.states()) == [OTHER]


def test_records_before_the_lowest_snapshot_that_counts_are_redundant() -> None:
    harness = ShareShardHarness(updates_per_snapshot=1)
    assert harness.shard.last_redundant_offset() is None
    harness.initialize()
    harness.initialize(OTHER)
    harness.write((0, 0, 2, 1))
    harness.write((1, 1, 2, 1))
    assert harness.shard.last_redundant_offset() == 1, "the other partition's snapshot is needed"
    harness.initialize(OTHER, start_offset=3)
    assert harness.shard.last_redundant_offset() == 3
    harness.delete()
    harness.delete(OTHER)
    assert harness.shard.last_redundant_offset() == 6, "up to the last tombstone"
    assert harness.reloaded(log_start=6).shard.states() == {}


def test_cold_partitions_get_a_snapshot_that_frees_the_log() -> None:
    harness = ShareShardHarness()
    harness.initialize()
    harness.now_ms += 299_999
    harness.initialize(OTHER)
    assert harness.shard.snapshot_cold_partitions(harness.now_ms).records == []
    harness.now_ms += 1
    harness.run(harness.shard.snapshot_cold_partitions(harness.now_ms))
    state = harness.state()
    assert state is not None
    assert (state.snapshot_epoch, state.create_timestamp_ms, state.write_timestamp_ms) == (1, 1_000, 301_000)
    assert harness.shard.last_redundant_offset() == 1
    harness.now_ms += 300_000
    harness.run(harness.shard.snapshot_cold_partitions(harness.now_ms))
    harness.now_ms += 300_000
    assert harness.shard.snapshot_cold_partitions(harness.now_ms).records == [], "everything was cold already"


def test_record_types_of_later_versions_change_nothing_and_unknown_values_fail() -> None:
    harness = ShareShardHarness()
    harness.initialize()
    harness.shard.replay(1, CoordinatorRecord(b"\x00\x07rest", b"\x00\x00"), producer_id=-1, producer_epoch=-1)
    assert len(harness.shard.states()) == 1
    unknown = CoordinatorRecord(harness.log[0].key, b"\x00\x05" + (harness.log[0].value or b"")[2:])
    with pytest.raises(KmirrorError, match="Unknown version 5"):
        read_share_record(unknown)


def test_the_key_of_a_share_partition_is_read_back() -> None:
    key = SharePartitionKey("team:blue", TOPIC, 3)
    assert SharePartitionKey.parse(str(key)) == key
    for text in ("", "g", f"g:{TOPIC}", f":{TOPIC}:1", f" :{TOPIC}:1", "g:not-an-id:1", f"g:{TOPIC}:x", f"g:{TOPIC}:"):
        with pytest.raises(ValueError):
            SharePartitionKey.parse(text)


def test_of_two_overlapping_ranges_the_one_delivered_more_often_wins() -> None:
    assert combine_state_batches([batch(0, 9)], [batch(3, 5, 0, 2)], -1) == [batch(0, 2), batch(3, 5, 0, 2), batch(6, 9)]
    assert combine_state_batches([batch(3, 5, 0, 2)], [batch(0, 9)], -1) == [batch(0, 2), batch(3, 5, 0, 2), batch(6, 9)]
    assert combine_state_batches([batch(0, 4, 2)], [batch(2, 6)], -1) == [batch(0, 4, 2), batch(5, 6)]
    assert combine_state_batches([batch(0, 4)], [batch(5, 9)], -1) == [batch(0, 9)]
    assert combine_state_batches([batch(0, 4)], [batch(6, 9)], -1) == [batch(0, 4), batch(6, 9)]
    assert combine_state_batches([batch(0, 4), batch(6, 9)], [], 3) == [batch(3, 4), batch(6, 9)]
    assert combine_state_batches([batch(0, 4)], [], 5) == []
