"""A share coordinator's shard under random requests: its log says the same as its state, also from
where it was pruned.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.coordinators.share_doubles import OTHER_TOPIC, TOPIC, ShareShardHarness

from kmirror.coordinator.share.persister_state_batch import PersisterStateBatch, combine_state_batches
from kmirror.coordinator.share.share_partition_key import SharePartitionKey

KEYS = [SharePartitionKey("g", TOPIC, 0), SharePartitionKey("g", TOPIC, 1), SharePartitionKey("h", OTHER_TOPIC, 0)]
keys = st.sampled_from(KEYS)
epochs = st.integers(-1, 4)
offsets = st.integers(-1, 30)
ranges = st.tuples(st.integers(0, 30), st.integers(0, 8), st.sampled_from([0, 2, 4]), st.integers(1, 3))
operations = st.one_of(
    st.tuples(st.just("initialize"), keys, epochs, offsets),
    st.tuples(st.just("write"), keys, epochs, epochs, offsets, st.lists(ranges, max_size=4)),
    st.tuples(st.just("read"), keys, epochs),
    st.tuples(st.just("delete"), keys),
    st.tuples(st.just("cold"), st.integers(0, 400_000)),
    st.tuples(st.just("topic"), st.sampled_from([TOPIC, OTHER_TOPIC])),
)


def perform(harness: ShareShardHarness, operation: tuple[Any, ...]) -> None:
    match operation:
        case ("initialize", key, state_epoch, start_offset):
            harness.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        case ("write", key, state_epoch, leader_epoch, start_offset, batches):
            named = [(first, first + length, state, count) for first, length, state, count in batches]
            harness.write(*named, key=key, state_epoch=state_epoch, leader_epoch=leader_epoch, start_offset=start_offset)
        case ("read", key, leader_epoch):
            harness.read(key, leader_epoch=leader_epoch)
        case ("delete", key):
            harness.delete(key)
        case ("cold", passed_ms):
            harness.now_ms += passed_ms
            harness.run(harness.shard.snapshot_cold_partitions(harness.now_ms))
        case ("topic", topic_id):
            harness.run(harness.shard.on_topics_deleted([topic_id]))


@settings(max_examples=150, deadline=None)
@given(st.lists(operations, max_size=40), st.integers(0, 3))
def test_a_reloaded_shard_is_the_one_that_wrote_the_log(steps: list[tuple[Any, ...]], updates_per_snapshot: int) -> None:
    harness = ShareShardHarness(updates_per_snapshot=updates_per_snapshot)
    for step in steps:
        perform(harness, step)
        redundant = harness.shard.last_redundant_offset() or 0
        assert harness.reloaded().shard.states() == harness.shard.states()
        assert harness.reloaded(log_start=redundant).shard.states() == harness.shard.states()


def winners(batches: list[PersisterStateBatch], start_offset: int) -> dict[int, tuple[int, int]]:
    """Offset by offset: the delivery that was furthest."""
    found: dict[int, tuple[int, int]] = {}
    for batch in batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            found[offset] = max(found.get(offset, (0, 0)), batch.delivery)
    return found


batches = st.lists(
    ranges.map(lambda named: PersisterStateBatch(named[0], named[0] + named[1], named[3], named[2])),
    max_size=10,
)


@settings(max_examples=400, deadline=None)
@given(batches, batches, offsets)
def test_combined_ranges_say_of_each_offset_what_the_furthest_range_said(
    so_far: list[PersisterStateBatch], newer: list[PersisterStateBatch], start_offset: int
) -> None:
    combined = combine_state_batches(so_far, newer, start_offset)
    assert winners(combined, -1) == winners([*so_far, *newer], start_offset)
    if len(so_far) + len(newer) > 1:
        assert all(before.last_offset < after.first_offset for before, after in zip(combined, combined[1:], strict=False))
