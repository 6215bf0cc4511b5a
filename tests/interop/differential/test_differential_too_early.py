"""Requests that come too early or have no time: coordinators before their topics exist, and
controller requests whose `timeout_ms` is 0 or less.

A small positive `timeout_ms` is none of these: Kafka lets a request run that has begun, and when it
begins is a matter of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from harness import Pair
from known_differences import is_known
from peer_pairs import COMMON, both
from steps import create_topic

from kmirror.common.uuid import Uuid
from kmirror.wire.messages import alter_partition_reassignments as move
from kmirror.wire.messages import alter_share_group_offsets as alter_share
from kmirror.wire.messages import create_partitions as grow
from kmirror.wire.messages import create_topics as create
from kmirror.wire.messages import delete_share_group_offsets as delete_share
from kmirror.wire.messages import delete_topics as delete
from kmirror.wire.messages import describe_share_group_offsets as share_offsets
from kmirror.wire.messages import elect_leaders as elect
from kmirror.wire.messages import initialize_share_group_state as share_state
from kmirror.wire.messages import join_group, leave_group, offset_fetch, read_share_group_state
from kmirror.wire.messages import list_partition_reassignments as listing
from kmirror.wire.messages import update_features as features
from kmirror.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kmirror.wire.messages.delete_groups import DeleteGroupsRequest
from kmirror.wire.messages.describe_groups import DescribeGroupsRequest
from kmirror.wire.messages.describe_transactions import DescribeTransactionsRequest
from kmirror.wire.messages.end_txn import EndTxnRequest
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.list_groups import ListGroupsRequest
from kmirror.wire.messages.offset_commit import OffsetCommitRequest
from kmirror.wire.messages.offset_delete import OffsetDeleteRequest
from kmirror.wire.messages.share_group_describe import ShareGroupDescribeRequest
from kmirror.wire.messages.sync_group import SyncGroupRequest

pytestmark = pytest.mark.interop

UNKNOWN = Uuid(bytes(range(1, 17)))
PROTOCOLS = [join_group.JoinGroupRequestProtocol("range", b"")]
OF_GROUP = [offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)]
OF_STATE = [share_state.InitializeStateData(UNKNOWN, [share_state.PartitionData(0, 1, 0)])]
READ_STATE = read_share_group_state.ReadStateData(UNKNOWN, [read_share_group_state.PartitionData(0, 1)])
TO_COORDINATORS: list[tuple[Any, int]] = [
    (ShareGroupDescribeRequest(["g", ""], True), 1),
    (ConsumerGroupDescribeRequest(["g", ""], True), 1),
    *((DescribeGroupsRequest(["g"]), version) for version in (0, 5, 6)),
    (offset_fetch.OffsetFetchRequest(groups=OF_GROUP), 8),
    (HeartbeatRequest("g", 1, "m"), 4),
    (leave_group.LeaveGroupRequest("g", members=[leave_group.MemberIdentity("m", None)]), 5),
    (DeleteGroupsRequest(["g"]), 2),
    (ListGroupsRequest(), 4),
    (SyncGroupRequest("g", 1, "m"), 5),
    (join_group.JoinGroupRequest("g", 10000, 10000, "", None, "consumer", PROTOCOLS), 7),
    (ConsumerGroupHeartbeatRequest("g", "", 0), 0),
    (OffsetDeleteRequest("g", []), 0),
    (OffsetCommitRequest(group_id="g", topics=[]), 8),
    (
        share_offsets.DescribeShareGroupOffsetsRequest([share_offsets.DescribeShareGroupOffsetsRequestGroup("g", None)]),
        0,
    ),
    (alter_share.AlterShareGroupOffsetsRequest("g", []), 0),
    (delete_share.DeleteShareGroupOffsetsRequest("g", []), 0),
    (DescribeTransactionsRequest(["t"]), 0),
    (EndTxnRequest("t", 1, 1, True), 3),
    (share_state.InitializeShareGroupStateRequest("g", OF_STATE), 0),
    (read_share_group_state.ReadShareGroupStateRequest("g", [READ_STATE]), 0),
]


def new(name: str, factor: int = 1) -> create.CreatableTopic:
    return create.CreatableTopic(name, 1, factor, [], [])


def more(name: str) -> grow.CreatePartitionsTopic:
    return grow.CreatePartitionsTopic(name, 3, None)


def without_time(timeout_ms: int) -> Iterator[tuple[Any, int]]:
    """Requests of all kinds; some ask for nothing that could take time."""
    for topics in (
        [],
        [new("d"), new("d")],
        [new("d"), new("d"), new("e")],
        [new("a b")],
        [new("early")],
        [new("f", 9)],
        [new("__cluster_metadata")],
        [new("__cluster_metadata"), new("f")],
    ):
        yield create.CreateTopicsRequest(topics, timeout_ms, False), 7
        yield create.CreateTopicsRequest(topics, timeout_ms, True), 7
    for names in ([], ["nope"], ["early", "early"], ["nope", "nope", "early"]):
        states = [delete.DeleteTopicState(name) for name in names]
        yield delete.DeleteTopicsRequest(states, names, timeout_ms), 6
        yield delete.DeleteTopicsRequest([], names, timeout_ms), 4
    by_id = [delete.DeleteTopicState(None, UNKNOWN)]
    for states in (by_id, by_id * 2):
        yield delete.DeleteTopicsRequest(states, [], timeout_ms), 6
    for topics in ([], [more("early")] * 2, [more("early")] * 2 + [more("nope")], [more("nope")]):
        yield grow.CreatePartitionsRequest(topics, timeout_ms, False), 3
    for partitions in ([], [move.ReassignablePartition(0, [1])]):
        topics = [move.ReassignableTopic("early", partitions)]
        yield move.AlterPartitionReassignmentsRequest(timeout_ms, True, topics), 1
    yield move.AlterPartitionReassignmentsRequest(timeout_ms, True, []), 1
    for kind, wanted in ((0, []), (0, None), (0, [elect.TopicPartitions("early", [0])]), (7, None)):
        yield elect.ElectLeadersRequest(kind, wanted, timeout_ms), 2
    for wanted in ([], None):
        yield listing.ListPartitionReassignmentsRequest(timeout_ms, wanted), 0
    for updates in ([], [features.FeatureUpdateKey("nonsense", 1, upgrade_type=1)]):
        yield features.UpdateFeaturesRequest(timeout_ms, updates, True), 2


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both before anybody has asked for a coordinator."""
    with both(tmp_path_factory.mktemp("fresh"), COMMON) as pair:
        yield pair


def differing(pair: Pair) -> str:
    return "\n".join(line for line in pair.report() if not is_known(line))


def test_coordinators_without_their_topics(fresh: Pair) -> None:
    for request, version in TO_COORDINATORS:
        fresh.same(request, version)
    assert not differing(fresh)


def test_requests_without_time(fresh: Pair) -> None:
    create_topic(fresh, "early")
    for timeout_ms in (0, -1, -(1 << 31)):
        for request, version in without_time(timeout_ms):
            fresh.same(request, version, note=repr(request)[:200])
    assert not differing(fresh)
