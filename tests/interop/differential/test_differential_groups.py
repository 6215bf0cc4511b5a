"""Groups: FindCoordinator, JoinGroup to LeaveGroup, offsets, listing, describing, deleting."""

from __future__ import annotations

import time

import pytest
from harness import Pair, Side
from steps import create_topic
from support.waiting import REACHED_S

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.describe_groups import DescribeGroupsRequest
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kmirror.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kmirror.wire.messages.list_groups import ListGroupsRequest
from kmirror.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kmirror.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

pytestmark = pytest.mark.interop

UNKNOWN_ID = Uuid(bytes(range(16)))
EMPTY_SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff")
LOADING = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR)


@pytest.fixture(autouse=True)
def coordinators(pair: Pair) -> None:
    """Every partition of __consumer_offsets has a coordinator that is loaded."""
    pair.each(await_coordinators)


def await_coordinators(side: Side) -> None:
    deadline = time.monotonic() + REACHED_S
    groups = ["a", "b", "c", "d", "e", "f"]
    while time.monotonic() < deadline:
        found = side.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=groups), 4).coordinators
        fetched = side.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=[]) for group in groups]), 8)
        if all(entry.error_code == 0 for entry in [*found, *fetched.groups]):
            return
        time.sleep(0.05)
    raise AssertionError(f"{side.name}: no coordinator")


def await_transaction_coordinators(side: Side) -> None:
    """The first to ask makes the topic, and until it is there the answer is
    COORDINATOR_NOT_AVAILABLE.
    """
    deadline = time.monotonic() + REACHED_S
    while time.monotonic() < deadline:
        found = side.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["g", "h", ""]), 4).coordinators
        if all(entry.error_code == 0 for entry in found):
            return
        time.sleep(0.05)
    raise AssertionError(f"{side.name}: no transaction coordinator")


def test_find_coordinator(pair: Pair) -> None:
    pair.each(await_transaction_coordinators)
    for key_type in (0, 1, 2, 3, -1):
        for keys in (["g"], ["g", "h", ""], []):
            pair.every_version(FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys), 4, note=repr((key_type, keys)))
        for key in ("g", ""):
            pair.every_version(FindCoordinatorRequest(key=key, key_type=key_type), 1, 3, note=repr((key_type, key)))
    for key in ("g", ""):
        pair.every_version(FindCoordinatorRequest(key=key), 0, 0, note=repr(key))


def join(
    side: Side | None, group: str, *, member: str = "", instance: str | None = None, session: int = 6000, protocols: tuple[str, ...] = ("range",),
    kind: str = "consumer",
) -> JoinGroupRequest:  # fmt: skip
    member_id = side.kept.get(member, member) if side is not None else member
    entries = [JoinGroupRequestProtocol(name, EMPTY_SUBSCRIPTION) for name in protocols]
    return JoinGroupRequest(group, session, 5000, member_id, instance, kind, entries)


def keep_member(pair: Pair, answers: tuple, name: str) -> None:
    for side, answer in zip(pair.sides, answers, strict=True):
        if answer.member_id:
            side.kept[name] = answer.member_id


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_beats_and_leaves(pair: Pair, version: int) -> None:
    group, member = f"life-{version}", f"m-{version}"
    other = min(version, 4)
    sync_version, leave_version = min(version, 5), min(version, 5)
    keep_member(pair, pair.same(lambda side: join(side, group), version, note="first"), member)
    if version >= 4:
        keep_member(pair, pair.same(lambda side: join(side, group, member=member), version, note="with id"), member)
    pair.same(lambda side: join(side, group, member="nobody"), version, note="unknown member")
    pair.same(DescribeGroupsRequest([group]), 5, note="waiting for sync")
    pair.same(ListGroupsRequest(states_filter=["CompletingRebalance"]), 5, edit=lambda answer: keep_group(answer, group))

    def sync(side: Side, generation: int, who: str, kind: str | None = "consumer", name: str | None = "range") -> SyncGroupRequest:
        mine = SyncGroupRequestAssignment(side.kept.get(who, who), b"plan")
        return SyncGroupRequest(group, generation, side.kept.get(who, who), None, kind, name, [mine])

    def beat(side: Side, generation: int, who: str, of: str = group) -> HeartbeatRequest:
        return HeartbeatRequest(of, generation, side.kept.get(who, who))

    pair.same(lambda side: sync(side, 5, member), sync_version, note="wrong generation")
    pair.same(lambda side: sync(side, 1, "nobody"), sync_version, note="unknown")
    if sync_version == 5:
        pair.same(lambda side: sync(side, 1, member, "other"), 5, note="wrong type")
        pair.same(lambda side: sync(side, 1, member, name="other"), 5, note="wrong name")
    pair.same(lambda side: beat(side, 1, member), other, note="before sync")
    pair.same(lambda side: sync(side, 1, member), sync_version)
    pair.same(lambda side: sync(side, 1, member), sync_version, note="again")
    for generation, who, of in (
        (1, member, group),
        (2, member, group),
        (0, member, group),
        (1, "nobody", group),
        (1, member, "no-group"),
        (1, member, ""),
    ):
        pair.same(lambda side, g=generation, w=who, o=of: beat(side, g, w, o), other, note=repr((generation, who, of)))
    pair.same(DescribeGroupsRequest([group]), 6, note="stable")
    for described in range(6):
        pair.same(DescribeGroupsRequest([group, "no-such-group", ""]), described, note="stable")
    pair.same(DescribeGroupsRequest([group], True), 5, note="operations")
    pair.same(DeleteGroupsRequest([group]), 2, note="not empty")

    def commit(side: Side, generation: int, who: str) -> OffsetCommitRequest:
        topics = [OffsetCommitRequestTopic("ghost", partitions=[OffsetCommitRequestPartition(0, 5, -1, "note")])]
        return OffsetCommitRequest(group, generation, side.kept.get(who, who), None, -1, topics)

    for generation, who in ((1, member), (2, member), (1, "nobody"), (-1, ""), (-1, member), (1, "")):
        pair.same(lambda side, g=generation, w=who: commit(side, g, w), min(version + 2, 9), note=repr((generation, who)))

    def leave(side: Side, who: str, of: str = group) -> LeaveGroupRequest:
        if leave_version < 3:
            return LeaveGroupRequest(of, side.kept.get(who, who))
        return LeaveGroupRequest(of, members=[MemberIdentity(side.kept.get(who, who), None), MemberIdentity("nobody", None)])

    pair.same(lambda side: leave(side, "nobody"), leave_version, note="unknown")
    pair.same(lambda side: leave(side, member, "no-group"), leave_version, note="no group")
    pair.same(lambda side: leave(side, member, ""), leave_version, note="empty group")
    pair.same(lambda side: leave(side, member), leave_version)
    pair.same(lambda side: leave(side, member), leave_version, note="again")
    pair.same(DescribeGroupsRequest([group]), 5, note="left")
    pair.same(DeleteGroupsRequest([group, group, "no-such-group", ""]), 2)
    pair.same(DescribeGroupsRequest([group]), 5, note="deleted")


def keep_group(answer: dict, prefix: str) -> None:
    answer["groups"] = [group for group in answer["groups"] if group["group_id"].startswith(prefix)]


def test_join_group_refuses(pair: Pair) -> None:
    for version in range(10):
        pair.same(join(None, ""), version, note="empty group")
        pair.same(join(None, f"r-{version}", session=1), version, note="short session")
        pair.same(join(None, f"r-{version}", session=10**9), version, note="long session")
        pair.same(join(None, f"r-{version}", protocols=()), version, note="no protocols")
        pair.same(join(None, f"r-{version}", kind=""), version, note="no type")
        pair.same(join(None, f"r-{version}", member="made-up"), version, note="made-up member")


def test_static_members(pair: Pair) -> None:
    group = "static"
    keep_member(pair, pair.same(lambda side: join(side, group, instance="i1"), 5, note="first"), "s1")

    def sync(side: Side, generation: int, who: str, instance: str | None = "i1") -> SyncGroupRequest:
        mine = SyncGroupRequestAssignment(side.kept.get(who, who), b"plan")
        return SyncGroupRequest(group, generation, side.kept.get(who, who), instance, "consumer", "range", [mine])

    pair.same(lambda side: sync(side, 1, "s1"), 5)
    keep_member(pair, pair.same(lambda side: join(side, group, instance="i1"), 9, note="replaces"), "s2")
    for who in ("s1", "s2", "nobody"):
        for instance in ("i1", "i2", None):
            pair.same(lambda side, w=who, i=instance: HeartbeatRequest(group, 1, side.kept.get(w, w), i), 4, note=repr((who, instance)))
            pair.same(lambda side, w=who, i=instance: sync(side, 1, w, i), 5, note=repr((who, instance)))
    pair.same(lambda side: join(side, group, member="s1", instance="i1"), 7, note="fenced")
    pair.same(DescribeGroupsRequest([group]), 5)
    members = [MemberIdentity("", "i1"), MemberIdentity("", "i2"), MemberIdentity("wrong", "i1"), MemberIdentity("", None)]
    pair.same(LeaveGroupRequest(group, members=members[1:]), 5, note="others")
    pair.same(LeaveGroupRequest(group, members=members), 5)
    pair.same(DescribeGroupsRequest([group]), 5, note="after")


def test_commit_and_fetch_offsets(pair: Pair) -> None:
    create_topic(pair, "oc", partitions=2)

    def commit(side: Side, group: str, version: int, metadata: str | None = "m", offset: int = 7) -> OffsetCommitRequest:
        parts = [
            OffsetCommitRequestPartition(0, offset, 0 if version >= 6 else -1, metadata),
            OffsetCommitRequestPartition(9, offset, -1, ""),
        ]
        if version >= 10:
            topics = [
                OffsetCommitRequestTopic(topic_id=side.topic_id("oc"), partitions=parts),
                OffsetCommitRequestTopic(topic_id=UNKNOWN_ID, partitions=parts),
            ]
        else:
            topics = [OffsetCommitRequestTopic("oc", partitions=parts), OffsetCommitRequestTopic("nowhere", partitions=parts)]
        return OffsetCommitRequest(group, -1, "", None, -1, topics)

    for version in range(2, 11):
        group = f"oc-{version}"
        pair.same(lambda side, group=group, version=version: commit(side, group, version), version)
        pair.same(lambda side, group=group, version=version: commit(side, "", version), version, note="empty group")
        pair.same(lambda side, group=group, version=version: commit(side, group, version, None), version, note="null metadata")
        pair.same(lambda side, group=group, version=version: commit(side, group, version, "x" * 5000), version, note="long metadata")
        pair.same(lambda side, group=group, version=version: commit(side, group, version, "x" * 4096, -3), version, note="negative offset")
        pair.same(OffsetCommitRequest(group, -1, "", None, -1, []), version, note="nothing")
    for version in range(1, 8):
        topics = [OffsetFetchRequestTopic("oc", [0, 1, 9]), OffsetFetchRequestTopic("nowhere", [0])]
        for group in ("oc-9", "no-group", ""):
            pair.same(OffsetFetchRequest(group, topics), version, note=group)
            pair.same(OffsetFetchRequest(group, []), version, note=f"{group} nothing")
            if version >= 2:
                pair.same(OffsetFetchRequest(group, None), version, note=f"{group} all")
    for version in range(8, 11):

        def topics_of(side: Side, version: int = version) -> list[OffsetFetchRequestTopics]:
            if version >= 10:
                return [
                    OffsetFetchRequestTopics(topic_id=side.topic_id("oc"), partition_indexes=[0, 1, 9]),
                    OffsetFetchRequestTopics(topic_id=UNKNOWN_ID, partition_indexes=[0]),
                ]
            return [OffsetFetchRequestTopics("oc", partition_indexes=[0, 1, 9]), OffsetFetchRequestTopics("nowhere", partition_indexes=[0])]

        def make(side: Side, *, stable: bool = False) -> OffsetFetchRequest:
            groups = [OffsetFetchRequestGroup(group, topics=topics_of(side)) for group in ("oc-9", "no-group", "")]
            groups += [OffsetFetchRequestGroup("oc-8", topics=None), OffsetFetchRequestGroup("oc-7", topics=[])]
            return OffsetFetchRequest(groups=groups, require_stable=stable)

        pair.same(make, version)
        pair.same(lambda side: make(side, stable=True), version, note="stable")
        if version >= 9:
            groups = [OffsetFetchRequestGroup("oc-9", "member", 3, []), OffsetFetchRequestGroup("oc-9", None, 3, [])]
            pair.same(OffsetFetchRequest(groups=groups), version, note="member")


def test_delete_offsets_and_groups(pair: Pair) -> None:
    create_topic(pair, "od")
    parts = [OffsetCommitRequestPartition(0, 3, -1, "")]
    pair.same(OffsetCommitRequest("od-g", -1, "", None, -1, [OffsetCommitRequestTopic("od", partitions=parts)]), 5)
    part = OffsetDeleteRequestPartition
    topics = [OffsetDeleteRequestTopic("od", [part(0), part(5)]), OffsetDeleteRequestTopic("nowhere", [part(0)])]
    for group in ("od-g", "no-such-group", ""):
        pair.same(OffsetDeleteRequest(group, topics), 0, note=group)
    pair.same(OffsetFetchRequest("od-g", None), 7, note="after")
    pair.same(ListGroupsRequest(), 5, edit=lambda answer: keep_group(answer, "od-"))
    for version in range(3):
        pair.same(OffsetCommitRequest(f"dg-{version}", -1, "", None, -1, [OffsetCommitRequestTopic("od", partitions=parts)]), 5)
        pair.same(DeleteGroupsRequest([f"dg-{version}", "no-such-group", ""]), version)


def test_list_groups(pair: Pair) -> None:
    create_topic(pair, "lg")
    parts = [OffsetCommitRequestPartition(0, 3, -1, "")]
    pair.same(OffsetCommitRequest("lg-g", -1, "", None, -1, [OffsetCommitRequestTopic("lg", partitions=parts)]), 5)
    for version in range(6):
        pair.same(ListGroupsRequest(), version, edit=lambda answer: keep_group(answer, "lg-"))
        for states in (["Empty"], ["empty"], ["Stable"], ["Nonsense"], ["Dead", "Empty"]):
            if version >= 4:
                pair.same(ListGroupsRequest(states), version, edit=lambda answer: keep_group(answer, "lg-"), note=repr(states))
    for types in (["classic"], ["Classic"], ["consumer"], ["nonsense"]):
        pair.same(ListGroupsRequest([], types), 5, edit=lambda answer: keep_group(answer, "lg-"), note=repr(types))
