"""Groups that move between the protocols, with and without members, both ways, and what forbids it."""

from __future__ import annotations

import pytest
from support.coordinators.group_doubles import ClassicClient, ConsumerClient, ShardHarness

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.classic_group import ClassicGroup
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.group_coordinator_config import ConsumerGroupMigrationPolicy, GroupCoordinatorConfig

FAST = GroupCoordinatorConfig(initial_rebalance_delay_ms=0)
Client = ClassicClient | ConsumerClient


def new_harness(config: GroupCoordinatorConfig = FAST, **topics: int) -> ShardHarness:
    return ShardHarness(config).set_topics(**(topics or {"t": 4})).load()


def go_on(harness: ShardHarness, *clients: Client, rounds: int = 30) -> None:
    for _ in range(rounds):
        harness.advance(500)
        for client in clients:
            if isinstance(client, ClassicClient):
                client.poll()
            else:
                client.beat()


def everything(*clients: Client) -> list[tuple[str, int]]:
    return sorted(each for client in clients for each in client.partitions)


ALL = [("t", index) for index in range(4)]


@pytest.mark.parametrize("cooperative", [False, True])
def test_two_classic_members_share_a_classic_group(cooperative: bool) -> None:
    harness = new_harness()
    first, second = (
        ClassicClient(harness, topics=["t"], cooperative=cooperative),
        ClassicClient(harness, topics=["t"], cooperative=cooperative),
    )
    go_on(harness, first)
    assert first.partitions == ALL
    go_on(harness, first, second)
    assert everything(first, second) == ALL and len(first.partitions) == 2


@pytest.mark.parametrize("cooperative", [False, True])
def test_members_move_one_by_one_to_the_consumer_protocol_and_back(cooperative: bool) -> None:
    harness = new_harness()
    classic = [ClassicClient(harness, topics=["t"], cooperative=cooperative) for _ in range(2)]
    go_on(harness, *classic)
    new = ConsumerClient(harness, topics=["t"])
    new.join()
    assert isinstance(harness.shard.groups.groups.by_id["g"], ConsumerGroup)
    go_on(harness, *classic, new)
    assert everything(*classic, new) == ALL and all(client.partitions for client in (*classic, new))
    described = harness.shard.groups.describe_consumer_group("g")
    assert sorted(member.member_type for member in described.members) == [0, 0, 1]
    classic[0].leave()
    go_on(harness, classic[1], new)
    assert everything(classic[1], new) == ALL
    new.leave()
    group = harness.shard.groups.groups.by_id["g"]
    assert isinstance(group, ClassicGroup) and group.state.value == "PreparingRebalance"
    go_on(harness, classic[1])
    assert classic[1].partitions == ALL
    assert harness.shard.groups.groups.classic_group("g").state.value == "Stable"


def test_partitions_stay_with_cooperative_members_when_the_group_is_upgraded() -> None:
    harness = new_harness()
    classic = [ClassicClient(harness, topics=["t"], cooperative=True) for _ in range(2)]
    go_on(harness, *classic)
    before = [client.partitions for client in classic]
    new = ConsumerClient(harness, topics=["t"])
    new.join()
    assert [client.partitions for client in classic] == before and new.partitions == []
    group = harness.shard.groups.groups.consumer_group("g")
    assert {len(member.assigned_partitions) for member in group.members.values() if member.uses_classic_protocol} == {1}


def test_a_converted_group_is_the_same_after_a_reload() -> None:
    harness = new_harness()
    classic, new = ClassicClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    go_on(harness, classic)
    new.join()
    go_on(harness, classic, new)
    ours, theirs = harness.shard.groups.groups.consumer_group("g"), harness.reloaded().shard.groups.groups.consumer_group("g")
    assert ours.members == theirs.members and ours.target_assignments == theirs.target_assignments
    new.leave()
    again = harness.reloaded().shard.groups.groups.classic_group("g")
    assert list(again.members) == [classic.member_id] and again.generation_id == ours.group_epoch


def test_empty_groups_change_their_protocol_whatever_the_policy_and_keep_their_offsets() -> None:
    harness = new_harness(
        GroupCoordinatorConfig(initial_rebalance_delay_ms=0, consumer_migration_policy=ConsumerGroupMigrationPolicy.DISABLED)
    )
    classic = ClassicClient(harness, topics=["t"])
    go_on(harness, classic)
    classic.leave()
    new = ConsumerClient(harness, topics=["t"])
    new.join()
    assert isinstance(harness.shard.groups.groups.by_id["g"], ConsumerGroup)
    new.leave()
    back = ClassicClient(harness, topics=["t"])
    go_on(harness, back)
    assert isinstance(harness.shard.groups.groups.by_id["g"], ClassicGroup) and back.partitions == ALL
    assert isinstance(harness.reloaded().shard.groups.groups.by_id["g"], ClassicGroup)


@pytest.mark.parametrize("policy", [ConsumerGroupMigrationPolicy.DISABLED, ConsumerGroupMigrationPolicy.DOWNGRADE])
def test_a_classic_group_with_members_is_not_upgraded_where_the_policy_forbids_it(policy: ConsumerGroupMigrationPolicy) -> None:
    harness = new_harness(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, consumer_migration_policy=policy))
    go_on(harness, ClassicClient(harness, topics=["t"]))
    with pytest.raises(ApiException) as raised:
        ConsumerClient(harness, topics=["t"]).join()
    assert raised.value.error is Errors.GROUP_ID_NOT_FOUND
    assert raised.value.message == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."


@pytest.mark.parametrize("policy", [ConsumerGroupMigrationPolicy.DISABLED, ConsumerGroupMigrationPolicy.UPGRADE])
def test_a_consumer_group_stays_one_where_the_policy_forbids_the_downgrade(policy: ConsumerGroupMigrationPolicy) -> None:
    harness = new_harness(GroupCoordinatorConfig(initial_rebalance_delay_ms=0, consumer_migration_policy=policy))
    new, classic = ConsumerClient(harness, topics=["t"]), ClassicClient(harness, topics=["t"])
    new.join()
    go_on(harness, new, classic)
    new.leave()
    go_on(harness, classic)
    assert isinstance(harness.shard.groups.groups.by_id["g"], ConsumerGroup) and classic.partitions == ALL


def test_a_static_member_that_comes_back_with_the_classic_protocol_takes_the_last_consumer_members_place() -> None:
    harness = new_harness()
    new, classic = ConsumerClient(harness, topics=["t"], instance_id="i"), ClassicClient(harness, topics=["t"])
    new.join()
    go_on(harness, new, classic)
    kept = new.partitions
    back = ClassicClient(harness, topics=["t"], instance_id="i")
    back.poll()
    group = harness.shard.groups.groups.by_id["g"]
    assert isinstance(group, ClassicGroup) and group.static_members == {"i": back.member_id or group.static_members["i"]}
    go_on(harness, back, classic)
    assert everything(back, classic) == ALL and len(back.partitions) == len(kept)


def test_a_member_of_another_protocol_type_cannot_join_a_consumer_group_with_members() -> None:
    harness = new_harness()
    new, classic = ConsumerClient(harness, topics=["t"]), ClassicClient(harness, topics=["t"], cooperative=True)
    new.join()
    go_on(harness, new, classic)
    eager = ClassicClient(harness, topics=["t"])
    eager.join()
    assert eager.joined is not None and eager.joined.error_code == Errors.INCONSISTENT_GROUP_PROTOCOL
