"""Share groups by their frames: the state of share partitions, the offsets of groups, groups of
this kind in the other APIs; and their records.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from harness import Pair, Side
from share_logs import records_of
from steps import create_topic, fill
from test_differential_groups import await_coordinators, keep_group

from kmirror.common.uuid import Uuid
from kmirror.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kmirror.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kmirror.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsRequestTopic
from kmirror.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kmirror.wire.messages.describe_groups import DescribeGroupsRequest
from kmirror.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.list_groups import ListGroupsRequest
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kmirror.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kmirror.wire.messages.share_group_describe import ShareGroupDescribeRequest
from kmirror.wire.messages.sync_group import SyncGroupRequest

pytestmark = pytest.mark.interop

UNKNOWN = Uuid(b"\x07" * 16)
TOPIC_RESOURCE = 2
DYNAMIC_TOPIC_CONFIG = 1
Rows = dict[int, int]


@pytest.fixture(autouse=True)
def coordinators(pair: Pair) -> None:
    pair.each(await_coordinators)
    pair.each(await_share_coordinators)


def await_share_coordinators(side: Side) -> None:
    """The first to ask makes the topic; each of its partitions has to be loaded."""
    deadline = time.monotonic() + 30
    keys = [f"g{number}:{UNKNOWN}:{number}" for number in range(40)]
    while time.monotonic() < deadline:
        found = side.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), 6).coordinators
        summaries = [side.ask(summary(f"g{number}", number)(side), 0).results[0].partitions[0].error_code for number in range(40)]
        if all(entry.error_code == 0 for entry in found) and set(summaries) == {3}:
            return
        time.sleep(0.1)
    raise AssertionError(f"{side.name}: no share coordinator")


def id_of(side: Side, topic: str | None) -> Uuid:
    return UNKNOWN if topic is None else side.topic_id(topic)


def initialize(group: str, topic: str | None, epoch: int, **offsets: int) -> Any:
    module = initialize_share_group_state
    rows = [module.PartitionData(int(name[1:].replace("_", "-")), epoch, offset) for name, offset in offsets.items()]
    return lambda side: module.InitializeShareGroupStateRequest(group, [module.InitializeStateData(id_of(side, topic), rows)])


def write(
    group: str, topic: str | None, *batches: tuple[int, int, int, int], partition: int = 0, epoch: int = 1, leader: int = 0, start: int = -1
) -> Any:
    module = write_share_group_state
    rows = [module.PartitionData(partition, epoch, leader, start, 1, [module.StateBatch(*batch) for batch in batches])]
    return lambda side: module.WriteShareGroupStateRequest(group, [module.WriteStateData(id_of(side, topic), rows)])


def read(group: str, topic: str | None, leader: int, partition: int = 0) -> Any:
    module = read_share_group_state
    rows = [module.PartitionData(partition, leader)]
    return lambda side: module.ReadShareGroupStateRequest(group, [module.ReadStateData(id_of(side, topic), rows)])


def summary(group: str, *partitions: int, topic: str | None = None) -> Any:
    module = read_share_group_state_summary
    rows = [module.PartitionData(number, -1) for number in partitions]
    return lambda side: module.ReadShareGroupStateSummaryRequest(group, [module.ReadStateSummaryData(id_of(side, topic), rows)])


def delete_state(group: str, topic: str | None, *partitions: int) -> Any:
    module = delete_share_group_state
    rows = [module.PartitionData(number) for number in partitions]
    return lambda side: module.DeleteShareGroupStateRequest(group, [module.DeleteStateData(id_of(side, topic), rows)])


def alter(group: str, **topics: Rows) -> AlterShareGroupOffsetsRequest:
    rows = {name: [AlterShareGroupOffsetsRequestPartition(*item) for item in offsets.items()] for name, offsets in topics.items()}
    return AlterShareGroupOffsetsRequest(group, [AlterShareGroupOffsetsRequestTopic(name, entries) for name, entries in rows.items()])


def describe(group: str, **topics: list[int]) -> DescribeShareGroupOffsetsRequest:
    """Without topics: all of them."""
    rows = [DescribeShareGroupOffsetsRequestTopic(name, numbers) for name, numbers in topics.items()] or None
    return DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(group, rows)])


def delete_offsets(group: str, *topics: str) -> DeleteShareGroupOffsetsRequest:
    return DeleteShareGroupOffsetsRequest(group, [DeleteShareGroupOffsetsRequestTopic(name) for name in topics])


def settled(pair: Pair, group: str) -> None:
    """Apache Kafka answers an alteration before its group coordinator has confirmed it."""
    deadline = time.monotonic() + 10
    for side in pair.sides:
        while not side.ask(describe(group), 1).groups[0].topics and time.monotonic() < deadline:
            time.sleep(0.02)


def test_coordinators_of_share_partitions(pair: Pair) -> None:
    good = f"g:{UNKNOWN}:1"
    for keys in ([good], [good, f"a:b:{UNKNOWN}:0"], ["g"], [""], [f":{UNKNOWN}:1"], [f" :{UNKNOWN}:1"], [f"g:{UNKNOWN}:x"], ["g:abc:1"]):
        for version in (4, 5, 6):
            pair.same(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), version, note=repr(keys))
    for version in (1, 2, 3):
        pair.same(FindCoordinatorRequest(key=good, key_type=2), version, note="one key")


def test_states_are_made_written_read_and_deleted(pair: Pair) -> None:
    create_topic(pair, "ss", partitions=2)
    every = pair.every_version
    every(write("ss", "ss", (0, 9, 0, 1)), note="not initialised")
    every(read("ss", "ss", 0), note="not initialised")
    every(summary("ss", 0, 1, topic="ss"), note="not initialised")
    every(delete_state("ss", "ss", 0), note="not initialised")
    every(initialize("ss", "ss", 3, p0=10, p1=-1), note="two partitions")
    every(summary("ss", 0, 1, topic="ss"), note="initialised")
    every(write("ss", "ss", (10, 19, 0, 1), (15, 17, 2, 1), epoch=3), note="overlapping")
    every(write("ss", "ss", (12, 13, 4, 3), (14, 30, 0, 1), epoch=3, start=11), note="moves the start")
    every(read("ss", "ss", 2), note="stores the leader epoch")
    every(summary("ss", 0, topic="ss"), note="leader epoch")
    every(write("ss", "ss", (20, 20, 2, 1), epoch=3, leader=1), note="older leader")
    every(write("ss", "ss", (20, 20, 2, 1), epoch=2, leader=2), note="older group")
    every(write("ss", "ss", (20, 20, 2, 1), epoch=-1, leader=-1), note="no epochs")
    every(read("ss", "ss", 1), note="older leader")
    every(read("ss", "ss", -1), note="no leader")
    every(initialize("ss", "ss", 2, p0=1), note="older group")
    every(initialize("ss", "ss", 4, p0=1), note="again")
    every(summary("ss", 0, topic="ss"), note="again")
    every(read("ss", "ss", 2), note="again")
    every(delete_state("ss", "ss", 0), note="there")
    every(summary("ss", 0, topic="ss"), note="deleted")
    every(initialize("ss", "ss", 1, p0=1), note="after the deletion")


def test_states_that_cannot_be(pair: Pair) -> None:
    create_topic(pair, "sn")
    for topic, partition in (("sn", 1), ("sn", -1), (None, 0)):
        named = f"p{str(partition).replace('-', '_')}"
        note = f"{topic} {partition}"
        pair.every_version(initialize("sn", topic, 1, **{named: 5}), note=note)
        pair.every_version(write("sn", topic, (0, 1, 0, 1), partition=partition), note=note)
        pair.every_version(read("sn", topic, 0, partition), note=note)
        pair.every_version(summary("sn", partition, topic=topic), note=note)
        pair.every_version(delete_state("sn", topic, partition), note=note)
    for group, rows in (("", {"p0": 1}), ("sn", {})):
        pair.same(initialize(group, "sn", 1, **rows), 0, note=f"{group} {rows}")
    pair.same(initialize_share_group_state.InitializeShareGroupStateRequest("sn", []), 0, note="no topics")
    for group, partitions in (("", (0,)), ("sn", ())):
        pair.same(summary(group, *partitions, topic="sn"), 1, note=f"{group} {partitions}")
        pair.same(delete_state(group, "sn", *partitions), 0, note=f"{group} {partitions}")
    pair.same(write("", "sn", (0, 1, 0, 1)), 1, note="no group")
    pair.same(read("", "sn", 0), 0, note="no group")


def test_offsets_of_share_groups(pair: Pair) -> None:
    create_topic(pair, "so", partitions=2)
    create_topic(pair, "sp")
    fill(pair, "so", batches=3)
    every = pair.every_version
    every(describe("so"), note="no group, all")
    every(describe("so", so=[0, 1], nowhere=[0]), note="no group")
    every(DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup("so", [])]), note="no topics")
    every(DescribeShareGroupOffsetsRequest([]), note="no groups")
    every(describe(""), note="empty id")
    every(delete_offsets("so", "so"), note="no group")
    every(alter("so", so={0: 2, 1: 0}, sp={0: 0}))
    settled(pair, "so")
    every(describe("so"), note="all")
    every(describe("so", so=[0, 1], sp=[0], nowhere=[3]), note="named")
    every(alter("so", so={0: 4}), note="again")
    every(describe("so", so=[0]), note="again")
    every(alter("so", so={0: 1, 7: 1}, nowhere={0: 1}), note="partly unknown")
    every(alter("", so={0: 1}), note="empty id")
    every(AlterShareGroupOffsetsRequest("so", []), note="no topics")
    every(ShareGroupDescribeRequest(["so", "nobody", ""]), note="describe")
    every(ShareGroupDescribeRequest(["so"], True), note="operations")
    every(delete_offsets("so", "so", "nowhere"), note="one topic")
    every(describe("so"), note="after the deletion")
    every(delete_offsets("so", "so"), note="deleted already")
    every(delete_offsets("so"), note="no topics")
    every(delete_offsets("", "so"), note="empty id")
    for types in ([], ["share"], ["Share"], ["consumer"]):
        pair.same(ListGroupsRequest([], types), 5, edit=lambda answer: keep_group(answer, "so"), note=repr(types))
    for version in range(5):
        pair.same(ListGroupsRequest(["Empty"] if version == 4 else []), version, edit=lambda answer: keep_group(answer, "so"))
    every(DeleteGroupsRequest(["so"]), 2, note="delete")
    every(DeleteGroupsRequest(["so"]), 2, note="deleted")
    every(ShareGroupDescribeRequest(["so"]), note="deleted")
    every(describe("so"), note="deleted group")
    every(summary("so", 0, topic="sp"), note="states of a deleted group")


def test_share_groups_in_the_apis_of_other_groups(pair: Pair) -> None:
    create_topic(pair, "sq")
    pair.same(alter("sq", sq={0: 0}), 0)
    settled(pair, "sq")
    join = JoinGroupRequest("sq", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    for version in (4, 9):
        pair.same(join, version, note="join")
    named = JoinGroupRequest("sq", 10_000, 10_000, "m", None, "consumer", [JoinGroupRequestProtocol("range", b"")])
    pair.same(named, 9, note="join by id")
    pair.same(SyncGroupRequest("sq", 1, "m", None, "consumer", "range"), 5)
    pair.same(HeartbeatRequest("sq", 1, "m"), 4)
    pair.same(LeaveGroupRequest("sq", members=[MemberIdentity("m")]), 5)
    beat = ConsumerGroupHeartbeatRequest("sq", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["sq"], topic_partitions=[])
    pair.same(beat, 1, note="consumer")
    pair.same(ConsumerGroupDescribeRequest(["sq"]), 1)
    for version in (5, 6):
        pair.same(DescribeGroupsRequest(["sq"]), version)
    rows = [OffsetCommitRequestPartition(0, 5, -1, "x")]
    for version in (8, 9):
        pair.same(OffsetCommitRequest("sq", -1, "", None, -1, [OffsetCommitRequestTopic("sq", partitions=rows)]), version)
    topics = [OffsetFetchRequestTopics("sq", partition_indexes=[0])]
    for wanted in (topics, None):
        pair.same(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("sq", topics=wanted)]), 9)
    pair.same(OffsetDeleteRequest("sq", [OffsetDeleteRequestTopic("sq", [OffsetDeleteRequestPartition(0)])]), 0)
    commit = OffsetCommitRequest("classic", -1, "", None, -1, [OffsetCommitRequestTopic("sq", partitions=rows)])
    pair.same(commit, 9, note="classic")
    pair.same(alter("classic", sq={0: 0}), 0, note="classic")
    pair.every_version(describe("classic"), note="classic")
    pair.same(delete_offsets("classic", "sq"), 0, note="classic")
    pair.same(ShareGroupDescribeRequest(["classic"]), 1, note="classic")


def test_the_topic_is_set_up_as_kafka_does(pair: Pair) -> None:
    resource = DescribeConfigsResource(TOPIC_RESOURCE, "__share_group_state", None)
    pair.same(DescribeConfigsRequest([resource], include_synonyms=False), 4, edit=only_overrides)


def only_overrides(answer: dict[str, Any]) -> None:
    configs = answer["results"][0]["configs"]
    answer["results"][0]["configs"] = [entry for entry in configs if entry["config_source"] == DYNAMIC_TOPIC_CONFIG]


def test_the_records_are_those_that_kafka_writes(pair: Pair) -> None:
    create_topic(pair, "sr", partitions=3)
    pair.same(alter("sr", sr={0: 5, 2: 7}), 0)
    settled(pair, "sr")
    pair.same(write("sr", "sr", (5, 9, 0, 1), (7, 7, 2, 1), start=5), 1)
    pair.same(read("sr", "sr", 3), 0)
    pair.same(alter("sr", sr={1: 1}), 0)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(len(s.ask(describe("sr"), 1).groups[0].topics[0].partitions) < 3 for s in pair.sides):
        time.sleep(0.02)
    pair.same(delete_offsets("sr", "sr"), 0)
    pair.same(DeleteGroupsRequest(["sr"]), 2)
    for topic in ("__share_group_state", "__consumer_offsets"):
        apache, ours = (records_of(side, topic, "sr") for side in pair.sides)
        pair.note(f"records of {topic}", pair.plain(pair.apache, apache), pair.plain(pair.kmirror, ours))
        assert len(apache) >= 6, apache
