"""Client-side assignors: Kafka's documented examples, and what every assignment must be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kmirror.clients.consumer.consumer_protocol import (
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
    serialize_subscription,
)
from kmirror.clients.consumer.partition_assignor import Assignments, ConsumerPartitionAssignor, Subscription
from kmirror.clients.consumer.range_assignor import RangeAssignor
from kmirror.clients.consumer.round_robin_assignor import RoundRobinAssignor
from kmirror.clients.consumer.sticky_assignor import CooperativeStickyAssignor, StickyAssignor, user_data_v1
from kmirror.common.topic_partition import TopicPartition
from kmirror.wire.primitives import ProtocolReadError

ASSIGNORS = [RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor()]


def short(assignments: Assignments) -> dict[str, list[str]]:
    return {member: [f"{one.topic}p{one.partition}" for one in sorted(assignments[member])] for member in sorted(assignments)}


def parts(*names: str) -> list[TopicPartition]:
    return [TopicPartition(*((text := name.split("p"))[0], int(text[1]))) for name in names]


def subscribed(*topics: str, owned: list[TopicPartition] | None = None, generation: int = -1, instance: str | None = None) -> Subscription:
    """A member as both sticky assignors see it: the ownership is in the fields and in the user data."""
    data = None if owned is None else user_data_v1(owned, generation)
    return Subscription(topics, owned or (), generation, data, None, instance)


def test_range_gives_runs_and_the_rest_to_the_first() -> None:
    members = {"m1": subscribed("t0", "t1"), "m0": subscribed("t0", "t1")}
    assert short(RangeAssignor().assign({"t0": 3, "t1": 3}, members)) == {"m0": ["t0p0", "t0p1", "t1p0", "t1p1"], "m1": ["t0p2", "t1p2"]}


def test_round_robin_deals_out() -> None:
    members = {"m0": subscribed("t0", "t1"), "m1": subscribed("t0", "t1")}
    assert short(RoundRobinAssignor().assign({"t0": 3, "t1": 3}, members)) == {
        "m0": ["t0p0", "t0p2", "t1p1"],
        "m1": ["t0p1", "t1p0", "t1p2"],
    }


def test_round_robin_with_different_subscriptions() -> None:
    members = {"m0": subscribed("t0"), "m1": subscribed("t0", "t1"), "m2": subscribed("t0", "t1", "t2")}
    counts = {"t0": 1, "t1": 2, "t2": 3}
    assert short(RoundRobinAssignor().assign(counts, members)) == {"m0": ["t0p0"], "m1": ["t1p0"], "m2": ["t1p1", "t2p0", "t2p1", "t2p2"]}


@pytest.mark.parametrize("assignor", [RangeAssignor(), RoundRobinAssignor()])
def test_static_members_come_first_by_instance(assignor: ConsumerPartitionAssignor) -> None:
    members = {"a": subscribed("t"), "z": subscribed("t", instance="i1"), "y": subscribed("t", instance="i2")}
    assert short(assignor.assign({"t": 3}, members)) == {"a": ["tp2"], "y": ["tp1"], "z": ["tp0"]}


@pytest.mark.parametrize("assignor", [StickyAssignor(), CooperativeStickyAssignor()])
def test_sticky_documented_example(assignor: ConsumerPartitionAssignor) -> None:
    """Three members, four topics of two partitions; then the second leaves. (Which free partitions
    the others get follows from `AbstractStickyAssignor`; the javadoc's example is older than it.)"""
    counts = {f"t{number}": 2 for number in range(4)}
    members = {name: subscribed(*counts) for name in ("m0", "m1", "m2")}
    before = {"m0": ["t0p0", "t1p1", "t3p0"], "m1": ["t0p1", "t2p0", "t3p1"], "m2": ["t1p0", "t2p1"]}
    assert short(assignor.assign(counts, members)) == before
    rest = {name: subscribed(*counts, owned=parts(*before[name]), generation=1) for name in ("m0", "m2")}
    after = short(assignor.assign(counts, rest))
    assert after == {"m0": ["t0p0", "t0p1", "t1p1", "t3p0"], "m2": ["t1p0", "t2p0", "t2p1", "t3p1"]}


def test_sticky_documented_example_with_different_subscriptions() -> None:
    counts = {"t0": 1, "t1": 2, "t2": 3}
    members = {"m0": subscribed("t0"), "m1": subscribed("t0", "t1"), "m2": subscribed("t0", "t1", "t2")}
    before = short(StickyAssignor().assign(counts, members))
    assert before == {"m0": ["t0p0"], "m1": ["t1p0", "t1p1"], "m2": ["t2p0", "t2p1", "t2p2"]}
    rest = {
        "m1": subscribed("t0", "t1", owned=parts(*before["m1"]), generation=1),
        "m2": subscribed("t0", "t1", "t2", owned=parts(*before["m2"]), generation=1),
    }
    assert short(StickyAssignor().assign(counts, rest)) == {"m1": ["t0p0", "t1p0", "t1p1"], "m2": ["t2p0", "t2p1", "t2p2"]}


def test_cooperative_leaves_out_what_must_be_given_up_first() -> None:
    owned = parts("tp0", "tp1", "tp2", "tp3")
    members = {"m0": subscribed("t", owned=owned, generation=3), "m1": subscribed("t", owned=[], generation=3)}
    assert short(CooperativeStickyAssignor().assign({"t": 4}, members)) == {"m0": ["tp0", "tp1"], "m1": []}
    assert short(StickyAssignor().assign({"t": 4}, members)) == {"m0": ["tp0", "tp1"], "m1": ["tp2", "tp3"]}
    given_up = {"m0": subscribed("t", owned=parts("tp0", "tp1"), generation=4), "m1": subscribed("t", owned=[], generation=4)}
    assert short(CooperativeStickyAssignor().assign({"t": 4}, given_up)) == {"m0": ["tp0", "tp1"], "m1": ["tp2", "tp3"]}


def test_the_later_generation_wins_a_claim() -> None:
    members = {"m0": subscribed("t", owned=parts("tp0", "tp1"), generation=1), "m1": subscribed("t", owned=parts("tp0"), generation=2)}
    assert short(CooperativeStickyAssignor().assign({"t": 2}, members)) == {"m0": ["tp1"], "m1": ["tp0"]}


def test_a_claim_of_two_in_one_generation_is_nobodys() -> None:
    members = {"m0": subscribed("t", owned=parts("tp0"), generation=1), "m1": subscribed("t", owned=parts("tp0"), generation=1)}
    assert short(CooperativeStickyAssignor().assign({"t": 1}, members)) == {"m0": [], "m1": []}, "first both must give it up"


def test_a_deleted_partition_is_not_kept() -> None:
    members = {"m0": subscribed("t", owned=parts("tp0", "tp7"), generation=1), "m1": subscribed("u", "t", owned=[], generation=1)}
    for assignor in (StickyAssignor(), CooperativeStickyAssignor()):
        assert TopicPartition("t", 7) not in assignor.assign({"t": 2, "u": 1}, members)["m0"]


def test_unreadable_user_data_is_no_claim() -> None:
    members = {"m0": Subscription(("t",), user_data=b"\0\0\0\7x"), "m1": Subscription(("t",), user_data=b"")}
    assert short(StickyAssignor().assign({"t": 2}, members)) == {"m0": ["tp0"], "m1": ["tp1"]}


TOPICS = ("t0", "t1", "t2", "t3")
counts_strategy = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 9), min_size=1)
members_strategy = st.dictionaries(
    st.sampled_from([f"consumer-{index}-abc" for index in range(6)]), st.sets(st.sampled_from(TOPICS), min_size=1), min_size=1
)


def check_complete(assignments: Assignments, counts: dict[str, int], members: dict[str, set[str]]) -> None:
    owners: dict[TopicPartition, str] = {}
    for member, partitions in assignments.items():
        for partition in partitions:
            assert partition not in owners, f"{partition} has two owners"
            assert partition.topic in members[member]
            owners[partition] = member
    wanted = set().union(*members.values())
    assert owners.keys() == {TopicPartition(topic, number) for topic in wanted & counts.keys() for number in range(counts[topic])}


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda one: one.name)
@given(counts=counts_strategy, members=members_strategy)
@settings(max_examples=60, deadline=None)
def test_every_partition_has_one_owner(assignor: ConsumerPartitionAssignor, counts: dict[str, int], members: dict[str, set[str]]) -> None:
    group = {member: subscribed(*sorted(topics)) for member, topics in members.items()}
    wanted = {topic: count for topic, count in counts.items() if any(topic in topics for topics in members.values())}
    assignments = assignor.assign(wanted, group)
    check_complete(assignments, wanted, members)
    assert assignments == assignor.assign(dict(reversed(wanted.items())), dict(reversed(group.items()))), (
        "the order of input does not matter"
    )


@given(counts=counts_strategy, before=members_strategy, after=members_strategy, same=st.booleans())
@settings(max_examples=200, deadline=None)
def test_sticky_is_balanced_and_keeps_what_it_can(
    counts: dict[str, int], before: dict[str, set[str]], after: dict[str, set[str]], same: bool
) -> None:
    if same:
        before, after = dict.fromkeys(before, set(counts)), dict.fromkeys(after, set(counts))
    wanted = {topic: count for topic, count in counts.items() if any(topic in topics for topics in after.values())}
    first = StickyAssignor().assign(
        {topic: count for topic, count in counts.items() if any(topic in topics for topics in before.values())},
        {member: subscribed(*sorted(topics)) for member, topics in before.items()},
    )
    group = {
        member: subscribed(*sorted(topics), owned=first.get(member, []), generation=5 if member in first else -1)
        for member, topics in after.items()
    }
    second = StickyAssignor().assign(wanted, group)
    check_complete(second, wanted, after)
    for one, mine in second.items():
        for other, theirs in second.items():
            if len(theirs) > len(mine) + 1 and len(set(map(frozenset, after.values()))) == 1:
                raise AssertionError(f"{other} has {len(theirs)}, {one} only {len(mine)}")
    again = {member: subscribed(*sorted(after[member]), owned=second[member], generation=6) for member in after}
    assert short(StickyAssignor().assign(wanted, again)) == short(second), "nothing changed, so nothing moves"


@given(counts=counts_strategy, before=members_strategy, after=members_strategy)
@settings(max_examples=100, deadline=None)
def test_cooperative_never_gives_what_another_still_has(
    counts: dict[str, int], before: dict[str, set[str]], after: dict[str, set[str]]
) -> None:
    owned = StickyAssignor().assign(counts, {member: subscribed(*sorted(topics | set(counts))) for member, topics in before.items()})
    wanted = {topic: count for topic, count in counts.items() if any(topic in topics for topics in after.values())}
    for round_number in range(8):
        group = {
            member: subscribed(
                *sorted(topics), owned=[one for one in owned.get(member, []) if one.topic in topics], generation=round_number
            )
            for member, topics in after.items()
        }
        assigned = CooperativeStickyAssignor().assign(wanted, group)
        for member, partitions in assigned.items():
            for other, subscription in group.items():
                if other != member:
                    assert not set(partitions) & set(subscription.owned_partitions)
        if {member: set(partitions) for member, partitions in assigned.items()} == {member: set(owned.get(member, ())) for member in after}:
            break
        owned = assigned
    else:
        raise AssertionError("the group does not settle")
    check_complete(assigned, wanted, after)


def test_consumer_protocol_round_trips() -> None:
    subscription = Subscription(("b", "a"), parts("bp1", "ap0", "bp0"), 7, b"data", "r1", "i1")
    read = deserialize_subscription(serialize_subscription(subscription), group_instance_id="i1")
    assert read == Subscription(["a", "b"], parts("ap0", "bp0", "bp1"), 7, b"data", "r1", "i1")
    assert deserialize_assignment(serialize_assignment(parts("bp1", "ap0", "bp0"))) == parts("bp1", "bp0", "ap0")
    assert deserialize_assignment(b"") == []


def test_a_newer_version_is_read_as_the_newest_known() -> None:
    data = b"\0\x63" + serialize_subscription(Subscription(("a",), (), 3))[2:] + b"more"
    assert deserialize_subscription(data).generation_id == 3


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0", b"\0\1\0\0\0\7"])
def test_bad_bytes_of_a_member_are_one_error(data: bytes) -> None:
    with pytest.raises(ProtocolReadError):
        deserialize_subscription(data)


def test_a_partition_does_not_go_back_to_a_member_that_is_no_longer_subscribed() -> None:
    """The member refused the assignment and joined again, and nobody read the partition meanwhile.
    It had owned the partition in an earlier generation, and gave up its topic since.
    """
    counts = {"t0": 3, "t2": 2, "t3": 5}
    subscriptions = {
        "m0": Subscription(["t0", "t2", "t3"], [], 5),
        "m1": Subscription(["t0"], parts("t2p1", "t3p3"), -1),
        "m2": Subscription(["t0", "t2", "t3"], parts("t0p2", "t3p0"), 5),
        "m3": Subscription([], parts("t2p0"), 5),
        "m4": Subscription(["t0", "t2", "t3"], parts("t0p0"), 5),
    }
    assigned = CooperativeStickyAssignor().assign(counts, subscriptions)
    assert {member: {one.topic for one in partitions} - set(subscriptions[member].topics) for member, partitions in assigned.items()} == {
        member: set() for member in subscriptions
    }
