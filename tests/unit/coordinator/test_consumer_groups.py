"""KIP-848: members join, are given partitions, give them up, leave, are fenced; what the
coordinator says, and what it stores.
"""

from __future__ import annotations

import pytest
from support.coordinators.group_doubles import REQUESTER, ConsumerClient, ShardHarness, converge, topic_id

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.consumer_group import ConsumerGroup
from kmirror.coordinator.group.consumer_group_member import MemberState
from kmirror.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions


def new_harness(config: GroupCoordinatorConfig | None = None, **topics: int) -> ShardHarness:
    return ShardHarness(config).set_topics(**(topics or {"t": 4})).load()


def group_of(harness: ShardHarness) -> ConsumerGroup:
    return harness.shard.groups.groups.consumer_group("g")


def refused(send: object) -> tuple[Errors, str]:
    assert callable(send)
    with pytest.raises(ApiException) as raised:
        send()
    return raised.value.error, raised.value.message


def test_the_first_member_gets_everything_at_once() -> None:
    harness = new_harness()
    member = ConsumerClient(harness, topics=["t"])
    response = member.join()
    assert (response.error_code, response.member_epoch, response.heartbeat_interval_ms) == (0, 2, 5_000)
    assert len(member.member_id) == 22
    assert member.partitions == [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
    assert group_of(harness).state.value == "Stable"
    assert member.beat().assignment is None


def test_a_changed_topic_concerns_the_groups_that_name_it_alone() -> None:
    """Each delta of a topic walked all groups of the shard."""
    harness = ShardHarness().set_topics(t=1, u=1, v=1).load()
    for group_id, topics in (("by-name", ["t"]), ("both", ["t", "u"]), ("other", ["v"])):
        ConsumerClient(harness, group_id, topics=topics).join()
    groups = harness.shard.groups.groups
    leaver = ConsumerClient(harness, "by-name", topics=["t", "v"])
    leaver.join()
    assert {topic: sorted(groups.by_topic.groups(topic)) for topic in "tuv"} == {
        "t": ["both", "by-name"],
        "u": ["both"],
        "v": ["by-name", "other"],
    }
    leaver.leave()
    assert list(groups.by_topic.groups("v")) == ["other"]
    for group_id in ("by-name", "both", "other"):
        groups.mark_metadata_fresh(group_id)
    harness.shard.groups.on_metadata_update(groups.image, ["u", "w"], has_new_topics=False)
    assert [group_id for group_id, group in groups.by_id.items() if isinstance(group, ConsumerGroup) and not group.is_metadata_fresh] == [
        "both"
    ]


def test_a_second_member_waits_until_the_first_has_given_up_what_it_is_to_get() -> None:
    harness = new_harness()
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    first.join()
    harness.advance(1_000)
    second.join()
    assert second.partitions == [] and second.epoch == 3
    assert group_of(harness).members[second.member_id].state is MemberState.UNRELEASED_PARTITIONS
    keeps = first.beat()
    assert keeps.member_epoch == 2 and len(first.partitions) == 2
    assert second.beat().assignment is None, "the first one has not confirmed yet"
    assert first.beat().member_epoch == 3
    second.beat()
    assert sorted(first.partitions + second.partitions) == [("t", index) for index in range(4)]
    assert group_of(harness).state.value == "Stable"


def test_a_new_target_waits_for_the_assignment_interval() -> None:
    harness = new_harness(GroupCoordinatorConfig(consumer_assignment_interval_ms=5_000))
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    first.join()
    second.join()
    assert group_of(harness).state.value == "Assigning"
    assert second.epoch == 2, "it has reached the last target, in which it has nothing"
    harness.advance(5_000)
    second.beat()
    assert group_of(harness).assignment_epoch == 3


def test_a_leaving_members_partitions_go_to_the_others() -> None:
    harness = new_harness()
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    first.join()
    second.join()
    converge(harness, first, second)
    second.leave()
    converge(harness, first)
    assert len(first.partitions) == 4
    assert list(group_of(harness).members) == [first.member_id]
    first.leave()
    assert group_of(harness).state.value == "Empty"


def test_a_silent_member_is_fenced_when_its_session_ends() -> None:
    harness = new_harness()
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    first.join()
    second.join()
    converge(harness, first, second)
    for _ in range(10):
        harness.advance(5_000)
        first.beat()
    assert list(group_of(harness).members) == [first.member_id]
    assert refused(second.beat) == (Errors.UNKNOWN_MEMBER_ID, f"Member {second.member_id} is not a member of group g.")


def test_a_member_that_does_not_give_up_its_partitions_is_fenced_after_its_rebalance_timeout() -> None:
    harness = new_harness(GroupCoordinatorConfig(consumer_session_timeout_ms=60_000))
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"])
    first.join()
    harness.advance(1_000)
    second.join()
    first.beat()
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id("t"), partitions=[0, 1, 2, 3])]
    for _ in range(7):
        harness.advance(5_000)
        second.beat()
        if first.member_id in group_of(harness).members:
            first.send(first.request(first.epoch, topic_partitions=owned))
    assert list(group_of(harness).members) == [second.member_id]
    converge(harness, second)
    assert len(second.partitions) == 4


def test_epochs_fence_a_member_unless_only_an_answer_was_lost() -> None:
    harness = new_harness()
    member = ConsumerClient(harness, topics=["t"])
    member.join()
    ahead = "The consumer group member has a greater member epoch (9) than the one known by the group coordinator (2). "
    behind = "The consumer group member has a smaller member epoch (1) than the one known by the group coordinator (2). "
    advice = "The member must abandon all its partitions and rejoin."
    assert refused(lambda: member.send(member.request(9))) == (Errors.FENCED_MEMBER_EPOCH, ahead + advice)
    assert refused(lambda: member.send(member.request(1))) == (Errors.FENCED_MEMBER_EPOCH, behind + advice)
    harness.set_topics(t=5)
    harness.advance(1_000)
    owned = [ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id("t"), partitions=[0, 1, 2, 3])]
    assert member.send(member.request(2, topic_partitions=owned)).member_epoch == 3
    again = member.send(member.request(2, topic_partitions=owned))
    assert again.member_epoch == 3, "epoch 2 was its last one, and it has what it says it has"
    assert refused(lambda: member.send(member.request(2)))[0] is Errors.FENCED_MEMBER_EPOCH


def test_new_partitions_and_a_deleted_topic_are_seen_with_the_next_heartbeat() -> None:
    harness = new_harness(t=2, u=1)
    member = ConsumerClient(harness, topics=["t", "u", "later"])
    member.join()
    assert len(member.partitions) == 3
    harness.set_topics(t=4, later=1)
    converge(harness, member)
    assert member.partitions == [("later", 0), ("t", 0), ("t", 1), ("t", 2), ("t", 3)]


def test_a_changed_subscription_takes_the_topics_that_were_left_away_at_once() -> None:
    harness = new_harness(t=2, u=2)
    member = ConsumerClient(harness, topics=["t", "u"])
    member.join()
    member.topics = ["u"]
    member.beat(subscribed_topic_names=["u"])
    assert member.partitions == [("u", 0), ("u", 1)]
    converge(harness, member)
    assert group_of(harness).state.value == "Stable" and member.partitions == [("u", 0), ("u", 1)]


# -- static members
# -----------------------------------------------------------------------------------------------------


def test_a_static_member_that_leaves_for_a_while_gets_its_partitions_back_under_a_new_id() -> None:
    harness = new_harness()
    first, other = ConsumerClient(harness, topics=["t"], instance_id="i"), ConsumerClient(harness, topics=["t"])
    first.join()
    other.join()
    converge(harness, first, other)
    kept, epoch = first.partitions, group_of(harness).group_epoch
    assert first.leave(-2).member_epoch == -2
    converge(harness, other)
    assert len(other.partitions) == 2, "nobody gets what it had"
    back = ConsumerClient(harness, topics=["t"], instance_id="i")
    back.join()
    assert back.partitions == kept and back.member_id != first.member_id
    assert group_of(harness).group_epoch == epoch, "no rebalance for it"
    error, message = refused(first.beat)
    assert error is Errors.FENCED_INSTANCE_ID
    assert message == f"Static member {first.member_id} with instance id i was fenced by member {back.member_id}."


def test_a_static_member_cannot_take_the_place_of_a_living_one() -> None:
    harness = new_harness()
    first = ConsumerClient(harness, topics=["t"], instance_id="i")
    first.join()
    second = ConsumerClient(harness, topics=["t"], instance_id="i", member_id="second")
    assert refused(second.join) == (
        Errors.UNRELEASED_INSTANCE_ID,
        f"Static member second with instance id i cannot join the group because the instance id is owned by {first.member_id} member.",
    )
    assert refused(lambda: ConsumerClient(harness, instance_id="x", member_id="m").send(first.request(3)))[0] is Errors.FENCED_MEMBER_EPOCH
    stranger = ConsumerClient(harness, instance_id="x", member_id="m")
    assert refused(lambda: stranger.send(stranger.request(3))) == (Errors.UNKNOWN_MEMBER_ID, "Instance id x is unknown.")


def test_a_static_member_that_never_comes_back_is_removed_when_its_session_ends() -> None:
    harness = new_harness()
    member = ConsumerClient(harness, topics=["t"], instance_id="i")
    member.join()
    member.leave(-2)
    harness.advance(45_000)
    assert group_of(harness).state.value == "Empty"


# -- limits and settings
# ------------------------------------------------------------------------------------------------


def test_a_full_group_takes_nobody_else_but_its_members() -> None:
    harness = new_harness(GroupCoordinatorConfig(consumer_max_size=1))
    first, second = ConsumerClient(harness, topics=["t"]), ConsumerClient(harness, topics=["t"], member_id="second")
    first.join()
    assert refused(second.join) == (Errors.GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of 1 members.")
    first.beat()


def test_a_groups_own_settings_hold_from_its_next_heartbeat_within_the_brokers_bounds() -> None:
    harness = new_harness()
    member = ConsumerClient(harness, topics=["t"])
    harness.group_properties["g"] = {"consumer.heartbeat.interval.ms": "7000", "consumer.session.timeout.ms": "1"}
    assert member.join().heartbeat_interval_ms == 7_000
    harness.advance(44_999)
    member.beat()
    harness.group_properties["g"] = {"consumer.heartbeat.interval.ms": "99999"}
    assert member.beat().heartbeat_interval_ms == 15_000


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    harness = new_harness(t=3, u=3)
    members = [
        ConsumerClient(harness, topics=["t", "u"], assignor="range", member_id="a"),
        ConsumerClient(harness, topics=["t", "u"], assignor="range", member_id="b"),
        ConsumerClient(harness, topics=["t", "u"], member_id="c"),
    ]
    for member in members:
        member.join()
    converge(harness, *members)
    assert [member.partitions for member in members] == [[("t", index), ("u", index)] for index in range(3)]
    described = harness.shard.groups.describe_consumer_group("g")
    assert (described.assignor_name, described.group_state, len(described.members)) == ("range", "Stable", 3)
    assert {member.member_type for member in described.members} == {1}


# -- patterns
# -----------------------------------------------------------------------------------------------------------


def test_a_pattern_is_resolved_right_after_the_heartbeat_that_brought_it() -> None:
    harness = new_harness(foo1=1, foo2=1, bar=1)
    member = ConsumerClient(harness, regex="foo.*", member_id="m")
    member.join()
    assert member.partitions == []
    converge(harness, member)
    assert member.partitions == [("foo1", 0), ("foo2", 0)]
    harness.set_topics(2, foo1=1, foo2=1, foo3=1, bar=1)
    converge(harness, member, rounds=15)
    assert member.partitions == [("foo1", 0), ("foo2", 0), ("foo3", 0)]


def test_a_pattern_names_only_what_its_member_may_describe() -> None:
    harness = new_harness(foo1=1, foo2=1)
    member = ConsumerClient(harness, regex="foo.*", member_id="m")
    narrow = type(REQUESTER)("client", "/127.0.0.1", lambda names: [name for name in names if name != "foo2"])
    request = member.request(0, rebalance_timeout_ms=1_000, subscribed_topic_regex="foo.*", topic_partitions=[])
    harness.run(harness.shard.groups.consumer_heartbeat(request, narrow))
    harness.advance(0)
    assert group_of(harness).resolved_regular_expressions["foo.*"].topics == ("foo1",)


def test_a_pattern_that_is_none_is_refused_with_the_reason() -> None:
    harness = new_harness()
    assert refused(ConsumerClient(harness, regex="[a", member_id="m").join) == (
        Errors.INVALID_REGULAR_EXPRESSION,
        "SubscribedTopicRegex `[a` is not a valid regular expression: missing closing ].",
    )


def test_the_last_member_of_a_pattern_takes_it_along() -> None:
    harness = new_harness(foo=1, t=1)
    first, second = ConsumerClient(harness, regex="foo.*", member_id="a"), ConsumerClient(harness, topics=["t"], member_id="b")
    first.join()
    second.join()
    converge(harness, first, second)
    assert first.partitions == [("foo", 0)]
    first.leave()
    assert group_of(harness).resolved_regular_expressions == {}
    assert second.partitions == [("t", 0)]


# -- the log
# ------------------------------------------------------------------------------------------------------------


def test_another_broker_reads_the_same_group_from_the_log() -> None:
    harness = new_harness(t=4, foo=2)
    members = [
        ConsumerClient(harness, topics=["t"]),
        ConsumerClient(harness, topics=["t"], instance_id="i", assignor="range"),
        ConsumerClient(harness, topics=["t"], regex="fo+"),
    ]
    for member in members:
        member.join()
        converge(harness, *[each for each in members if each.member_id], rounds=2)
    ours, theirs = group_of(harness), group_of(harness.reloaded())
    for name in ("group_epoch", "metadata_hash", "assignment_epoch", "members", "target_assignments", "resolved_regular_expressions"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.state is theirs.state


def test_an_emptied_group_is_deleted_with_all_of_its_records() -> None:
    harness = new_harness()
    member = ConsumerClient(harness, topics=["t"])
    member.join()
    assert harness.run(harness.shard.delete_groups(["g"]))[0].error_code == Errors.NON_EMPTY_GROUP
    member.leave()
    assert harness.run(harness.shard.delete_groups(["g"]))[0].error_code == 0
    for each in (harness, harness.reloaded()):
        described = each.shard.groups.describe_consumer_group("g")
        assert (described.error_code, described.error_message) == (Errors.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert {key for key, value in {record.key: record.value for record, _ in harness.log}.items() if value is not None} == set()
