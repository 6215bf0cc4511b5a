"""KIP-848 by its frames: ConsumerGroupHeartbeat, ConsumerGroupDescribe, commits with epochs, and
the classic protocol in consumer groups.
"""

from __future__ import annotations

import time
from typing import Any

import pytest
from harness import Pair, Side
from steps import create_topic
from support.waiting import REACHED_S
from test_differential_groups import await_coordinators, keep_group

from kmirror.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatRequestTopicPartitions
from kmirror.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.describe_groups import DescribeGroupsRequest
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.list_groups import ListGroupsRequest
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kmirror.wire.primitives import Writer

pytestmark = pytest.mark.interop

GROUP_RESOURCE = 32


@pytest.fixture(autouse=True)
def coordinators(pair: Pair) -> None:
    pair.each(await_coordinators)


def at_once(pair: Pair, *groups: str) -> None:
    """These groups compute assignments whenever there is reason to."""
    for group in groups:
        resource = AlterConfigsResource(GROUP_RESOURCE, group, [AlterableConfig("consumer.assignment.interval.ms", 0, "0")])
        pair.same(IncrementalAlterConfigsRequest([resource]), 1)


def beat(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def join(group: str, member: str, topics: list[str] | None = None, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": topics, "topic_partitions": []} | fields
    return beat(group, member, 0, **fields)


def owned(side: Side, **partitions: list[int]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    return [ConsumerGroupHeartbeatRequestTopicPartitions(side.topic_id(topic), numbers) for topic, numbers in partitions.items()]


def sorted_assignments(answer: dict[str, Any]) -> None:
    """Topics of a subscription and of an assignment stand in the order of a hash map."""
    for group in answer.get("groups", []):
        for member in group["members"]:
            member["subscribed_topic_names"].sort()
            for name in ("assignment", "target_assignment"):
                member[name]["topic_partitions"].sort(key=lambda topic: topic["topic_name"])


def describe(pair: Pair, group: str, note: str) -> None:
    pair.every_version(ConsumerGroupDescribeRequest([group]), note=note, edit=sorted_assignments)


def await_group_epoch(side: Side, group: str, epoch: int) -> None:
    """A broker resolves a pattern in its own time."""
    deadline = time.monotonic() + REACHED_S
    while side.ask(ConsumerGroupDescribeRequest([group]), 0).groups[0].group_epoch < epoch:
        assert time.monotonic() < deadline, f"{side.name}: group {group} did not reach epoch {epoch}"
        time.sleep(0.02)


def test_heartbeats_that_no_group_takes(pair: Pair) -> None:
    every = pair.every_version
    every(join("", "m", ["t"]), note="no group")
    every(join("hb", "", ["t"]), 1, note="no member id")
    every(beat("hb", "", 3), note="no member id and an epoch")
    every(join("hb", "m", ["t"], instance_id=""), note="empty instance")
    every(join("hb", "m", ["t"], rack_id=" "), note="blank rack")
    every(join("hb", "m", ["t"], rebalance_timeout_ms=-1), note="no timeout")
    every(join("hb", "m", ["t"], topic_partitions=None), note="no partitions")
    every(join("hb", "m"), note="no subscription")
    every(join("hb", "m", ["t"], server_assignor="mine"), note="assignor")
    every(beat("hb", "m", -2), note="leaves for a while without an instance")
    every(beat("hb", "m", -3), note="epoch -3")
    every(beat("hb", "m", 1), note="unknown group")
    every(beat("hb", "m", -1), note="leaves an unknown group")
    for pattern in ("[a", "(a", "a**", "\\1", "(?=a)", "a{2,1}", "*a", "a\\", "[b-a]", "(?P<1!>a)"):
        pair.same(join("hb", "m", subscribed_topic_regex=pattern), 1, note=pattern)
    pair.same(ConsumerGroupDescribeRequest(["hb", "", "nobody"]), 1, note="none is there")
    pair.same(ConsumerGroupDescribeRequest(["hb"], True), 1, note="operations")


def test_members_come_reconcile_and_go(pair: Pair) -> None:
    create_topic(pair, "cg", partitions=4)
    at_once(pair, "cg")
    pair.same(join("cg", "m1", ["cg"], rack_id="r"), 1)
    describe(pair, "cg", "one")
    pair.same(beat("cg", "m1", 2), 1, note="keep alive")
    pair.same(beat("cg", "m1", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=["cg"], topic_partitions=[]), 1, note="full")
    pair.same(join("cg", "m2", ["cg", "nowhere"], server_assignor="range"), 1, note="second")
    describe(pair, "cg", "two")
    pair.same(lambda side: beat("cg", "m1", 2, topic_partitions=owned(side, cg=[0, 1, 2, 3])), 1, note="still owns all")
    describe(pair, "cg", "revoking")
    pair.same(beat("cg", "m2", 3, topic_partitions=[]), 1, note="waits")
    pair.same(lambda side: beat("cg", "m1", 2, topic_partitions=owned(side, cg=[0, 1])), 1, note="gave up")
    pair.same(beat("cg", "m2", 3, topic_partitions=[]), 1, note="gets")
    describe(pair, "cg", "stable")
    for epoch in (1, 2, 4, 99):
        pair.same(beat("cg", "m1", epoch), 1, note=f"epoch {epoch}")
    pair.same(beat("cg", "nobody", 3), 1, note="nobody")
    pair.same(beat("cg", "m1", 3, instance_id="i"), 1, note="instance")
    pair.same(ListGroupsRequest([], ["consumer"]), 5, edit=lambda answer: keep_group(answer, "cg"))
    pair.same(ListGroupsRequest(["Stable"], []), 5, edit=lambda answer: keep_group(answer, "cg"))
    for version in range(7):
        pair.same(DescribeGroupsRequest(["cg"]), version, note="as a classic group")
    pair.same(DeleteGroupsRequest(["cg"]), 2, note="not empty")
    for member, epoch in (("m1", 3), ("m1", 2), ("m1", 9), ("m1", -1), ("nobody", 3), ("", -1)):
        for version in (8, 9):
            rows = [OffsetCommitRequestPartition(0, 5, -1, "x"), OffsetCommitRequestPartition(3, 5, -1, "x")]
            request = OffsetCommitRequest("cg", epoch, member, None, -1, [OffsetCommitRequestTopic("cg", partitions=rows)])
            pair.same(request, version, note=repr((member, epoch)))
        topics = [OffsetFetchRequestTopics("cg", partition_indexes=[0])]
        pair.same(OffsetFetchRequest(groups=[OffsetFetchRequestGroup("cg", member or None, epoch, topics)]), 9, note=repr((member, epoch)))
    pair.same(beat("cg", "m1", -1), 1, note="leaves")
    pair.same(beat("cg", "m2", 3), 1, note="gets the rest")
    pair.same(beat("cg", "m2", -1), 1, note="leaves")
    describe(pair, "cg", "empty")
    pair.same(DeleteGroupsRequest(["cg"]), 2)
    describe(pair, "cg", "deleted")


def test_static_members(pair: Pair) -> None:
    create_topic(pair, "cs", partitions=2)
    at_once(pair, "cs")
    pair.same(join("cs", "m1", ["cs"], instance_id="i"), 1)
    pair.same(join("cs", "m2", ["cs"], instance_id="i"), 1, note="taken")
    pair.same(beat("cs", "m2", 2, instance_id="i"), 1, note="fenced")
    pair.same(beat("cs", "m1", 2, instance_id="j"), 1, note="unknown instance")
    pair.same(beat("cs", "m1", -2, instance_id="i"), 1, note="away")
    describe(pair, "cs", "away")
    pair.same(join("cs", "m2", ["cs"], instance_id="i"), 1, note="back")
    pair.same(beat("cs", "m1", 2, instance_id="i"), 1, note="the former self")
    pair.same(beat("cs", "m1", -1, instance_id="i"), 1, note="the former self leaves")
    describe(pair, "cs", "back")
    pair.same(LeaveGroupRequest("cs", members=[MemberIdentity("", "j"), MemberIdentity("m1", "i"), MemberIdentity("x", None)]), 5)
    pair.same(LeaveGroupRequest("cs", members=[MemberIdentity("", "i")]), 5, note="by its instance")
    describe(pair, "cs", "left")


def classic_join(side: Side, group: str, topics: list[str], who: str = "", kind: str = "consumer") -> JoinGroupRequest:
    out = Writer()
    ConsumerProtocolSubscription(topics=topics).write(out, 1)
    metadata = b"\x00\x01" + out.to_bytes()
    protocols = [JoinGroupRequestProtocol("range", metadata)]
    return JoinGroupRequest(group, 30_000, 30_000, side.kept.get(who, who), None, kind, protocols)


def keep(pair: Pair, answers: tuple[Any, Any], name: str) -> None:
    for side, answer in zip(pair.sides, answers, strict=True):
        side.kept[name] = answer.member_id


def hide_members(answer: dict[str, Any]) -> None:
    """The coordinator chooses the ids of classic members in consumer groups; they are plain uuids."""
    sorted_assignments(answer)
    for group in answer.get("groups", []):
        group["members"].sort(key=lambda member: member["member_type"])
        for number, member in enumerate(group["members"]):
            member["member_id"] = str(number)
    if "member_id" in answer:
        answer["member_id"] = bool(answer["member_id"])


def test_a_classic_member_in_a_consumer_group_and_the_way_back(pair: Pair) -> None:
    create_topic(pair, "cm", partitions=2)
    at_once(pair, "cm")
    pair.same(join("cm", "new", ["cm"]), 1)
    pair.same(lambda side: classic_join(side, "cm", ["cm"], kind="connect"), 9, note="another type", edit=hide_members)
    keep(pair, pair.same(lambda side: classic_join(side, "cm", ["cm"]), 9, note="needs an id", edit=hide_members), "old")
    pair.same(lambda side: classic_join(side, "cm", ["cm"], "old"), 9, note="joins", edit=hide_members)
    pair.same(ConsumerGroupDescribeRequest(["cm"]), 1, note="mixed", edit=hide_members)

    def classic_beat(side: Side, generation: int, who: str = "old") -> HeartbeatRequest:
        return HeartbeatRequest("cm", generation, side.kept.get(who, who))

    def sync(side: Side, generation: int, name: str = "range") -> SyncGroupRequest:
        return SyncGroupRequest("cm", generation, side.kept["old"], None, "consumer", name, [SyncGroupRequestAssignment("x", b"")])

    pair.same(lambda side: sync(side, 3), 5, note="has nothing yet")
    pair.same(lambda side: sync(side, 3, "other"), 5, note="another protocol")
    pair.same(lambda side: sync(side, 9), 5, note="another generation")
    for generation in (2, 3, 4):
        pair.same(lambda side, generation=generation: classic_beat(side, generation), 4, note=f"generation {generation}")
    pair.same(lambda side: classic_beat(side, 3, "new"), 4, note="a consumer member")
    pair.same(lambda side: beat("cm", "new", 2, topic_partitions=owned(side, cm=[0, 1])), 1, note="is told to give up")
    pair.same(lambda side: beat("cm", "new", 2, topic_partitions=owned(side, cm=[0])), 1, note="gave up")
    pair.same(lambda side: classic_beat(side, 3), 4, note="may rejoin")
    pair.same(lambda side: classic_join(side, "cm", ["cm"], "old"), 9, note="rejoins", edit=hide_members)
    pair.same(lambda side: sync(side, 3), 5, note="has one")
    pair.same(beat("cm", "new", -1), 1, note="the last of its kind leaves")
    pair.same(DescribeGroupsRequest(["cm"]), 6, note="a classic group", edit=lambda answer: answer["groups"][0].update(members=[]))
    pair.same(lambda side: classic_beat(side, 4), 4, note="rebalances")
    keep(pair, pair.same(lambda side: classic_join(side, "cm", ["cm"], "old"), 9, note="in the classic group", edit=_counted), "old")


def _counted(answer: dict[str, Any]) -> None:
    answer["members"] = len(answer["members"])
    answer["member_id"] = answer["leader"] = bool(answer["member_id"])


def test_a_classic_group_is_upgraded_by_the_first_heartbeat(pair: Pair) -> None:
    create_topic(pair, "up", partitions=1)
    at_once(pair, "up")
    keep(pair, pair.same(lambda side: classic_join(side, "up", ["up"]), 3, note="classic", edit=_counted), "old")
    mine = bytes.fromhex("0001 00000001 0002") + b"up" + bytes.fromhex("00000001 00000000 ffffffff")

    def sync(side: Side) -> SyncGroupRequest:
        return SyncGroupRequest("up", 1, side.kept["old"], None, None, None, [SyncGroupRequestAssignment(side.kept["old"], mine)])

    pair.same(sync, 4)
    pair.same(join("up", "new", ["up"]), 1, note="upgrades")
    pair.same(ConsumerGroupDescribeRequest(["up"]), 1, note="upgraded", edit=hide_members)
    pair.same(lambda side: HeartbeatRequest("up", 1, side.kept["old"]), 4, note="the classic member")
    connect = JoinGroupRequest("up-connect", 30_000, 30_000, "", None, "connect", [JoinGroupRequestProtocol("p", b"x")])
    pair.same(connect, 3, edit=_counted)
    pair.same(join("up-connect", "new", ["up"]), 1, note="not of the consumer protocol")


def test_patterns(pair: Pair) -> None:
    create_topic(pair, "px", partitions=1)
    at_once(pair, "pt")
    pair.same(join("pt", "m", subscribed_topic_regex="px|no-such"), 1)
    for _ in range(3):
        pair.ask(beat("pt", "m", 2), 1)
    pair.same(beat("pt", "m", 3, rebalance_timeout_ms=60_000, subscribed_topic_regex="px|no-such", topic_partitions=[]), 1, note="resolved")
    pair.each(lambda side: await_group_epoch(side, "pt", 2))
    describe(pair, "pt", "resolved")
    pair.same(lambda side: beat("pt", "m", 3, subscribed_topic_regex="", topic_partitions=owned(side, px=[0])), 1, note="no pattern")
    describe(pair, "pt", "no pattern")
