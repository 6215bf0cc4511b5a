"""Offsets of groups of both protocols: who may commit and fetch, with which epoch; what expires,
and what goes with its topic.
"""

from __future__ import annotations

import pytest
from support.coordinators.group_doubles import ClassicClient, ConsumerClient, ShardHarness, converge, topic_id

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from kmirror.coordinator.group.offset_metadata_manager import UNSTABLE
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

DAY_MS = 86_400_000
CONFIG = GroupCoordinatorConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=7 * DAY_MS, consumer_session_timeout_ms=60_000)


@pytest.fixture
def harness() -> ShardHarness:
    return ShardHarness(CONFIG).set_topics(t=4, u=1).load()


def commit(
    harness: ShardHarness,
    epoch: int = -1,
    member_id: str = "",
    *,
    topic: str = "t",
    partition: int = 0,
    version: int = 9,
    metadata: str = "",
) -> int:
    rows = [OffsetCommitRequestPartition(partition_index=partition, committed_offset=7, committed_metadata=metadata)]
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=topic_id(topic), partitions=rows)],
    )
    response = harness.run(harness.shard.offsets.commit(request, version, harness.clock.time_ms()))
    return response.topics[0].partitions[0].error_code


def commit_in_transaction(harness: ShardHarness, epoch: int = -1, member_id: str = "", *, partition: int = 0) -> None:
    rows = [TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=9)]
    topics = [TxnOffsetCommitRequestTopic(name="t", partitions=rows)]
    request = TxnOffsetCommitRequest(group_id="g", producer_id=1, generation_id=epoch, member_id=member_id, topics=topics)
    harness.run(harness.shard.offsets.commit_transactional(request, harness.clock.time_ms()), producer_id=1)


def error_of(action: object) -> tuple[Errors, str]:
    assert callable(action)
    with pytest.raises(ApiException) as raised:
        action()
    return raised.value.error, raised.value.message


def test_a_member_commits_with_its_epoch_and_an_older_one_only_for_what_it_had_then(harness: ShardHarness) -> None:
    first, second = ConsumerClient(harness, topics=["t"], member_id="first"), ConsumerClient(harness, topics=["t"], member_id="second")
    first.join()
    assert commit(harness, 2, "first") == 0
    harness.advance(1_000)
    second.join()
    converge(harness, first, second, rounds=4)
    assert first.epoch == 3
    kept = first.partitions[0][1]
    assert commit(harness, 2, "first", partition=kept) == 0, "it has had this one since epoch 2"
    lost = second.partitions[0][1]
    stale = Errors.STALE_MEMBER_EPOCH
    assert error_of(lambda: commit(harness, 2, "first", partition=lost)) == (
        stale,
        f"Partition t-{lost} is not assigned or pending revocation for member.",
    )
    assert error_of(lambda: commit(harness, 2, "second", partition=lost)) == (
        stale,
        f"Received member epoch 2 is older than assignment epoch 3 for partition t-{lost}.",
    )
    assert error_of(lambda: commit(harness, 9, "first"))[1] == "Received member epoch 9 is newer than current member epoch 3."
    assert error_of(lambda: commit(harness, 3, "nobody"))[0] is Errors.UNKNOWN_MEMBER_ID
    assert error_of(lambda: commit(harness, 3, "first", version=8))[0] is Errors.UNSUPPORTED_VERSION


def test_a_group_that_is_not_there_takes_commits_from_outside_only(harness: ShardHarness) -> None:
    assert error_of(lambda: commit(harness, 1, "m", version=8))[0] is Errors.ILLEGAL_GENERATION
    assert error_of(lambda: commit(harness, 1, "m")) == (Errors.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert commit(harness) == 0
    assert harness.shard.groups.groups.classic_group("g").is_simple


def test_metadata_that_is_too_large_is_refused_for_its_partition(harness: ShardHarness) -> None:
    assert commit(harness, metadata="x" * 4096) == 0
    assert commit(harness, metadata="x" * 4097) == Errors.OFFSET_METADATA_TOO_LARGE


def test_in_a_transaction_a_stale_epoch_is_an_illegal_generation(harness: ShardHarness) -> None:
    member = ConsumerClient(harness, topics=["t"], member_id="m")
    member.join()
    commit_in_transaction(harness, 2, "m")
    assert error_of(lambda: commit_in_transaction(harness, 9, "m"))[0] is Errors.ILLEGAL_GENERATION
    assert error_of(lambda: commit_in_transaction(harness, 2, "nobody"))[0] is Errors.UNKNOWN_MEMBER_ID
    commit_in_transaction(harness)  # a producer that names no member
    fetch = harness.shard.offsets.fetch
    assert fetch("g", {"t": [0]}, member_id=None, member_epoch=-1, require_stable=True) == {"t": {0: UNSTABLE}}
    assert fetch("g", {"t": [0]}, member_id=None, member_epoch=-1, require_stable=False) == {"t": {0: None}}
    harness.end_transaction(1, committed=True)
    found = fetch("g", None, member_id="m", member_epoch=2, require_stable=True)["t"][0]
    assert found is not None and found is not UNSTABLE and found.offset == 9


def test_a_fetch_that_names_a_member_must_name_it_rightly(harness: ShardHarness) -> None:
    ConsumerClient(harness, topics=["t"], member_id="m").join()
    fetch = harness.shard.offsets.fetch
    assert error_of(lambda: fetch("g", None, member_id="x", member_epoch=2, require_stable=False))[0] is Errors.UNKNOWN_MEMBER_ID
    assert error_of(lambda: fetch("g", None, member_id="m", member_epoch=1, require_stable=False)) == (
        Errors.STALE_MEMBER_EPOCH,
        "The received member epoch 1 does not match the expected member epoch 2.",
    )
    assert fetch("other", {"t": [0]}, member_id=None, member_epoch=-1, require_stable=False) == {"t": {0: None}}


# -- expiry and deletion
# ------------------------------------------------------------------------------------------------


def expire(harness: ShardHarness, days: int) -> None:
    harness.clock.now_ms += days * DAY_MS
    harness.run(harness.shard._expire())


def committed(harness: ShardHarness) -> list[str]:
    return sorted(harness.shard.offsets.offsets("g"))


def test_a_simple_groups_offsets_expire_and_the_group_goes_with_the_last(harness: ShardHarness) -> None:
    commit(harness)
    expire(harness, 6)
    assert committed(harness) == ["t"]
    expire(harness, 1)
    assert committed(harness) == [] and "g" not in harness.shard.groups.groups.by_id
    assert "g" not in harness.reloaded().shard.groups.groups.by_id


def test_a_consumer_group_keeps_offsets_of_topics_that_it_subscribes_to(harness: ShardHarness) -> None:
    member = ConsumerClient(harness, topics=["t"], member_id="m")
    member.join()
    commit(harness, 2, "m")
    commit(harness, 2, "m", topic="u")
    expire(harness, 8)
    assert committed(harness) == ["t"]
    member.leave()
    expire(harness, 0)
    assert committed(harness) == [] and "g" not in harness.shard.groups.groups.by_id


def test_a_classic_groups_offsets_count_from_when_it_became_empty(harness: ShardHarness) -> None:
    member = ClassicClient(harness, topics=["t"])
    for _ in range(6):
        harness.advance(100)
        member.poll()
    commit(harness, member.generation, member.member_id)
    commit(harness, member.generation, member.member_id, topic="u")
    expire(harness, 8)
    assert committed(harness) == ["t"]
    member.leave()
    expire(harness, 6)
    assert committed(harness) == ["t"]
    expire(harness, 1)
    assert committed(harness) == []


def test_an_open_transaction_keeps_an_offset_and_its_group(harness: ShardHarness) -> None:
    commit(harness)
    commit_in_transaction(harness)
    expire(harness, 8)
    assert committed(harness) == ["t"]
    harness.end_transaction(1, committed=False)
    expire(harness, 0)
    assert committed(harness) == []


def test_offsets_go_with_their_topic_unless_they_are_of_a_later_one(harness: ShardHarness) -> None:
    commit(harness)
    harness.run(harness.shard.offsets.on_topics_deleted({"t": topic_id("another t")}))
    assert committed(harness) == ["t"]
    harness.run(harness.shard.offsets.on_topics_deleted({"t": topic_id("t")}))
    assert committed(harness) == []


def test_offsets_of_subscribed_topics_are_not_deleted(harness: ShardHarness) -> None:
    ConsumerClient(harness, topics=["t"], member_id="m").join()
    commit(harness, 2, "m")
    commit(harness, 2, "m", topic="u")
    topics = [OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]) for name in "tu"]
    response = harness.run(harness.shard.offsets.delete(OffsetDeleteRequest(group_id="g", topics=topics)))
    assert [topic.partitions[0].error_code for topic in response.topics] == [Errors.GROUP_SUBSCRIBED_TO_TOPIC, Errors.NONE]
    assert committed(harness) == ["t"]
    assert error_of(lambda: harness.shard.offsets.delete(OffsetDeleteRequest(group_id="x"))) == (
        Errors.GROUP_ID_NOT_FOUND,
        "Group x not found.",
    )
