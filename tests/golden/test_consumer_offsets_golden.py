"""`__consumer_offsets` as Apache Kafka wrote it: our shard reads every record, and from what it
then knows writes the same bytes.

Sets have no order in Kafka's records (topics of an assignment stand in the order of a Java hash
map), so assignments are compared sorted.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.coordinators.group_doubles import ShardHarness
from support.logs.golden_vectors import golden_cases, golden_dir

from kmirror.common.uuid import Uuid
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.coordinator.group.classic_group import ClassicGroup
from kmirror.coordinator.group.consumer_group_records import (
    current_assignment_record,
    group_epoch_record,
    member_subscription_record,
    regular_expression_record,
    target_assignment_metadata_record,
    target_assignment_record,
)
from kmirror.coordinator.group.coordinator_metadata_image import CoordinatorMetadataImage
from kmirror.coordinator.group.group_records import (
    empty_group_metadata_record,
    group_metadata_record,
    offset_commit_record,
    read_record,
)
from kmirror.coordinator.group.share_group_records import share_group_epoch_record, state_partitions_record
from kmirror.metadata.image import MetadataImage, TopicImage, TopicsImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.record.record_batch import iter_batches
from kmirror.wire.messages.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from kmirror.wire.messages.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from kmirror.wire.messages.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey

CASES = golden_cases("08-")
SHARE_MEMBER_RECORDS = (10, 12, 13, 14)
NAMES = {Uuid.from_string("1qw7S_zkTj2AG6L6KwixNg"): "w1", Uuid.from_string("XSrD4hODRB29tGO9tsRgqg"): "w2"}
LOGS = [f"{case}/{log.parent.name}" for case in CASES for log in sorted((golden_dir() / case / "logs").glob("__consumer_offsets-*/*.log"))]


def records_of(name: str) -> Iterator[CoordinatorRecord]:
    case, partition = name.split("/")
    for log in sorted((golden_dir() / case / "logs" / partition).glob("*.log")):
        for batch in iter_batches(pathlib.Path(log).read_bytes()):
            batch.ensure_valid()
            for record in batch.records():
                yield CoordinatorRecord(bytes(record.key or b""), None if record.value is None else bytes(record.value))


def kind_of(record: CoordinatorRecord) -> int:
    return int.from_bytes(record.key[:2], "big")


def written_again(harness: ShardHarness, kind: int, key: Any) -> CoordinatorRecord:
    """The record that our code writes for what the shard knows of `key`."""
    if kind in (0, 1):
        committed = harness.shard.offsets.offset(key.group, key.topic, key.partition)
        assert committed is not None
        return offset_commit_record(key.group, key.topic, key.partition, committed)
    groups = harness.shard.groups.groups
    if kind == 2:
        classic = groups.classic_group(key.group)
        if not classic.members and classic.generation_id == 0:
            return empty_group_metadata_record(classic)
        return group_metadata_record(classic, {member.member_id: member.assignment for member in classic.members.values()})
    if kind in (11, 15):
        share = groups.share_group(key.group_id)
        if kind == 11:
            return share_group_epoch_record(share.group_id, share.group_epoch, share.metadata_hash)
        assert share.state_partitions is not None
        return state_partitions_record(share.group_id, share.state_partitions, lambda topic_id: NAMES[topic_id])
    group = groups.consumer_group(key.group_id)
    if kind == 3:
        return group_epoch_record(group.group_id, group.group_epoch, group.metadata_hash)
    if kind == 5:
        return member_subscription_record(group.group_id, group.members[key.member_id])
    if kind == 6:
        return target_assignment_metadata_record(group.group_id, group.assignment_epoch, group.assignment_timestamp_ms)
    if kind == 7:
        return target_assignment_record(group.group_id, key.member_id, group.target_assignments[key.member_id])
    if kind == 8:
        return current_assignment_record(group.group_id, group.members[key.member_id])
    assert kind == 16, f"a record of type {kind}"
    resolved = group.resolved_regular_expressions[key.regular_expression]
    return regular_expression_record(group.group_id, key.regular_expression, resolved)


def assert_member_is_known(harness: ShardHarness, key: Any, value: Any) -> None:
    """A share group's member, as far as it is kept here: its subscription, its epochs and what it
    works on.
    """
    if isinstance(key, ShareGroupTargetAssignmentMetadataKey):
        assert harness.shard.groups.groups.share_group(key.group_id).assignment_epoch == value.assignment_epoch
        return
    member = harness.shard.groups.groups.share_group(key.group_id).members[key.member_id]
    if isinstance(key, ShareGroupMemberMetadataKey):
        known = (member.client_id, member.client_host, list(member.subscribed_topic_names))
        assert known == (value.client_id, value.client_host, value.subscribed_topic_names)
    elif isinstance(key, ShareGroupCurrentMemberAssignmentKey):
        assert (member.member_epoch, member.previous_member_epoch) == (value.member_epoch, value.previous_member_epoch)
        assert member.assigned_partitions == {topic.topic_id: tuple(topic.partitions) for topic in value.assigned_partitions}


def sorted_topics(value: Any) -> Any:
    for name in ("topic_partitions", "assigned_partitions", "partitions_pending_revocation"):
        if hasattr(value, name):
            getattr(value, name).sort(key=lambda topic: topic.topic_id.raw)
    return value


@pytest.mark.parametrize("name", LOGS)
def test_every_record_is_read_and_written_with_the_same_bytes(name: str) -> None:
    harness, seen = ShardHarness(), set()
    for record in records_of(name):
        harness.append(record)
        known = read_record(record)
        if known is None:
            assert kind_of(record) >= 17, "streams groups"
            continue
        seen.add(kind_of(record))
        if record.value is None:
            continue
        if kind_of(record) in SHARE_MEMBER_RECORDS:
            assert_member_is_known(harness, *known)
            continue
        again = written_again(harness, kind_of(record), known[0])
        assert again.key == record.key
        if kind_of(record) in (7, 8):
            read_again = read_record(again)
            assert read_again is not None and again.value is not None and len(again.value) == len(record.value)
            assert sorted_topics(read_again[1]) == sorted_topics(known[1])
        else:
            assert again.value == record.value, known
    assert {1, 2} <= seen or {3, 8} <= seen


def test_all_types_of_records_are_in_the_vectors() -> None:
    kinds = {kind_of(record) for name in LOGS for record in records_of(name)}
    assert {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 16} <= kinds


def test_expired_groups_are_gone_as_in_kafka() -> None:
    for name in LOGS:
        harness = ShardHarness()
        for record in records_of(name):
            harness.append(record)
        groups = harness.shard.groups.groups.by_id
        if "after-expiry" in name:
            assert "grp-classic" not in groups and "grp-consumer" not in groups
        assert all(group.is_empty for group in groups.values() if isinstance(group, ClassicGroup)) or "after" not in name


def test_the_hash_of_topics_is_kafkas() -> None:
    partition = PartitionRegistration(replicas=(1,), isr=(1,), leader=1)
    ids = {"w1": ("1qw7S_zkTj2AG6L6KwixNg", 3), "w2": ("XSrD4hODRB29tGO9tsRgqg", 2)}
    topics = [TopicImage(name, Uuid.from_string(text), dict.fromkeys(range(count), partition)) for name, (text, count) in ids.items()]
    topics_image = TopicsImage({topic.id: topic for topic in topics}, {topic.name: topic for topic in topics})
    image = CoordinatorMetadataImage(MetadataImage(topics=topics_image))
    assert image.metadata_hash(["w2", "w1", "not there"]) == -5857050173059130338
    assert image.metadata_hash([]) == 0
