"""Server-side assignors against what every assignment must be: complete, exclusive, wanted,
balanced, and sticky.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.coordinators.group_doubles import topic_id

from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.assignor import Assignment, GroupSpec, MemberSpec, PartitionAssignorException, SubscriptionType
from kmirror.coordinator.group.range_assignor import RangeAssignor
from kmirror.coordinator.group.uniform_assignor import UniformAssignor

TOPICS = [topic_id(f"topic{index}") for index in range(5)]
MEMBERS = [f"member{index}" for index in range(7)]
counts_strategy = st.fixed_dictionaries({topic: st.integers(1, 12) for topic in TOPICS})


def group(subscriptions: dict[str, set[Uuid]], counts: dict[Uuid, int], before: dict[str, Assignment] | None = None) -> GroupSpec:
    kinds = {frozenset(topics) for topics in subscriptions.values()}
    return GroupSpec(
        members={
            member: MemberSpec(tuple(sorted(topics, key=lambda topic: topic.raw)), (before or {}).get(member, {}))
            for member, topics in subscriptions.items()
        },
        subscription_type=SubscriptionType.HOMOGENEOUS if len(kinds) <= 1 else SubscriptionType.HETEROGENEOUS,
        partition_counts=counts,
    )


def owners(assignments: dict[str, Assignment]) -> dict[tuple[Uuid, int], str]:
    """Who has each partition; fails where two have it."""
    found: dict[tuple[Uuid, int], str] = {}
    for member, assignment in assignments.items():
        for topic, partitions in assignment.items():
            assert partitions, "a topic without partitions is left out"
            for partition in partitions:
                assert (topic, partition) not in found, f"{topic}-{partition} belongs to {member} and {found[(topic, partition)]}"
                found[(topic, partition)] = member
    return found


def load(assignments: dict[str, Assignment], member: str) -> int:
    return sum(len(partitions) for partitions in assignments[member].values())


def check_complete(spec: GroupSpec, assignments: dict[str, Assignment]) -> None:
    assert assignments.keys() == spec.members.keys()
    found = owners(assignments)
    wanted = {topic for member in spec.members.values() for topic in member.topic_ids}
    assert found.keys() == {(topic, partition) for topic in wanted for partition in range(spec.partition_counts[topic])}
    for (topic, _), member in found.items():
        assert topic in spec.members[member].topic_ids


def check_balanced(spec: GroupSpec, assignments: dict[str, Assignment]) -> None:
    """No partition could move to another subscriber of its topic and make the two more equal."""
    for (topic, _), owner in owners(assignments).items():
        for member, each in spec.members.items():
            if topic in each.topic_ids:
                assert load(assignments, owner) - load(assignments, member) <= 1


subscriptions_strategy = st.dictionaries(st.sampled_from(MEMBERS), st.sets(st.sampled_from(TOPICS)), min_size=1)


@given(subscriptions_strategy, counts_strategy)
def test_every_partition_gets_one_owner_that_wants_it_and_loads_are_even(
    subscriptions: dict[str, set[Uuid]], counts: dict[Uuid, int]
) -> None:
    spec = group(subscriptions, counts)
    assignments = UniformAssignor().assign(spec)
    check_complete(spec, assignments)
    check_balanced(spec, assignments)
    check_complete(spec, RangeAssignor().assign(spec))


@given(st.sets(st.sampled_from(MEMBERS), min_size=1), st.sets(st.sampled_from(TOPICS)), counts_strategy)
def test_with_the_same_topics_for_all_loads_differ_by_at_most_one(members: set[str], topics: set[Uuid], counts: dict[Uuid, int]) -> None:
    spec = group(dict.fromkeys(members, topics), counts)
    assignments = UniformAssignor().assign(spec)
    loads = [load(assignments, member) for member in members]
    assert max(loads) - min(loads) <= 1


@given(subscriptions_strategy, counts_strategy)
def test_nothing_moves_when_nothing_changed(subscriptions: dict[str, set[Uuid]], counts: dict[Uuid, int]) -> None:
    first = UniformAssignor().assign(group(subscriptions, counts))
    assert UniformAssignor().assign(group(subscriptions, counts, first)) == first


@given(st.sets(st.sampled_from(MEMBERS), min_size=2), st.sets(st.sampled_from(TOPICS), min_size=1), counts_strategy, st.data())
def test_no_more_partitions_move_than_balance_needs(
    members: set[str], topics: set[Uuid], counts: dict[Uuid, int], data: st.DataObject
) -> None:
    """When a member comes, only it gets partitions; when one goes, only its partitions move."""
    changing = data.draw(st.sampled_from(sorted(members)))
    without = {member: topics for member in members if member != changing}
    small = UniformAssignor().assign(group(without, counts))
    spec = group(dict.fromkeys(members, topics), counts, small)
    large = UniformAssignor().assign(spec)
    check_complete(spec, large)
    before, after = owners(small), owners(large)
    assert {member for each, member in after.items() if before[each] != member} <= {changing}
    again = owners(UniformAssignor().assign(group(without, counts, large)))
    assert all(member == after[each] for each, member in again.items() if after[each] != changing)


@given(subscriptions_strategy, counts_strategy, counts_strategy, subscriptions_strategy)
def test_any_former_assignment_leads_to_a_good_one(
    subscriptions: dict[str, set[Uuid]], counts: dict[Uuid, int], old_counts: dict[Uuid, int], old: dict[str, set[Uuid]]
) -> None:
    before = UniformAssignor().assign(group(old, old_counts))
    spec = group(subscriptions, counts, before)
    assignments = UniformAssignor().assign(spec)
    check_complete(spec, assignments)
    check_balanced(spec, assignments)


@given(st.integers(1, 30), st.integers(1, 8))
def test_range_gives_each_member_one_run_and_the_first_ones_the_rest(partitions: int, members: int) -> None:
    topic = TOPICS[0]
    spec = group({member: {topic} for member in MEMBERS[:members]}, {topic: partitions})
    assignments = RangeAssignor().assign(spec)
    runs = [sorted(assignments[member].get(topic, ())) for member in sorted(assignments)]
    assert [partition for run in runs for partition in run] == list(range(partitions))
    assert [len(run) for run in runs] == sorted((len(run) for run in runs), reverse=True)
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_range_sorts_static_members_by_their_instance_before_the_others() -> None:
    topic = TOPICS[0]
    members = {
        "a": MemberSpec((topic,)),
        "z": MemberSpec((topic,), instance_id="1"),
        "y": MemberSpec((topic,), instance_id="2"),
    }
    assignments = RangeAssignor().assign(GroupSpec(members, SubscriptionType.HOMOGENEOUS, {topic: 3}))
    assert [assignments[member][topic] for member in ("z", "y", "a")] == [frozenset({0}), frozenset({1}), frozenset({2})]


@pytest.mark.parametrize("assignor", [UniformAssignor(), RangeAssignor()])
def test_a_topic_without_metadata_is_refused(assignor: UniformAssignor | RangeAssignor) -> None:
    with pytest.raises(PartitionAssignorException, match="doesn't exist in the topic metadata"):
        assignor.assign(group({"m": {TOPICS[0]}}, {}))
