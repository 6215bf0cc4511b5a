"""The simulator's two fleets with mirrors between them: a seed sweep, named disasters, ablations
that a checker must notice.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.campaign import run_seed
from kmirror.sim.events import Acknowledged, Converged, History, MirrorStatesRead, StateWritten
from kmirror.sim.fleet_events import Consumed, GroupSynced, Healed, OwnedPartitions
from kmirror.sim.histories.registry import run_named
from kmirror.sim.histories.replicas import REPLICA_HISTORIES
from kmirror.sim.mirror_checkers import check_mirrors
from kmirror.sim.mirror_group_checker import follow_groups
from kmirror.sim.mirror_operators import Controls, MirrorOperator, OperatorHeard, check_operators
from kmirror.sim.mirror_readers import READER_HISTORIES
from kmirror.sim.mirror_share_groups import SHARE_GROUP_HISTORIES
from kmirror.sim.mirror_storm import STORM, storm_of
from kmirror.sim.run import run_history

SWEEP = range(8)
FIRST_NOTICED = {"offsets_while_mirrored": 4}
"""The first seed that shows what most seeds do not: the seeds before it are left out."""
TRIES = 8
NAMED = {
    "slow_follower_at_alignment": "F1",
    "produce_that_waits": "F3",
    "mirror_deleted_before_return": "F5",
    "mirrors_switched_off_before_return": "F5",
    "follower_down_at_failback": "F12",
    "epochs_above_ours": "C36 S21",
    "silent_source_broker": "C6 C7",
    "source_leader_behind": "C6",
    "late_offset_sync": "C18",
    "transaction_open_at_failback": "C41",
    "topic_deleted_at_the_mirror": "B30 D3-34",
    "share_group_at_failover": "SYN15 C18",
    "java_group_reads_a_mirror": "C19",
}
ABLATIONS = [
    ("bump_after_cut", "slow_follower_at_alignment"),
    ("follower_verification", "slow_follower_at_alignment"),
    ("follower_verification", "follower_down_at_failback"),
    ("follower_verification", "mirror_deleted_before_return"),
    ("verified_at_any_level", "mirrors_switched_off_before_return"),
    ("mirror_leader_epoch", "epochs_above_ours"),
    ("definite_answers_only,kept_when_added_again", "silent_source_broker"),
    ("leader_knows,kept_when_added_again", "source_leader_behind"),
    ("offsets_while_mirrored", "late_offset_sync"),
    ("share_groups_synced", "share_group_at_failover"),
    ("batch_epochs_hidden", "java_group_reads_a_mirror"),
    ("offset_epochs_hidden", "java_group_reads_a_mirror"),
    ("markers_swallowed", "transaction_open_at_failback"),
    ("mirrors_not_deleted", "topic_deleted_at_the_mirror"),
    ("deleted_is_forgotten", "topic_deleted_at_the_mirror"),
]
"""Without an answer that is definite nothing is lost as long as what the source has is kept
(`kept_when_added_again`).
"""
LEGAL_OR_NOT = [
    ("MIRROR_TOPIC_ALREADY_PAUSED", "m.paused", False),
    ("MIRROR_TOPIC_ALREADY_PAUSED", "m", True),
    ("MIRROR_TOPIC_BEING_REMOVED", "m.paused.removed", False),
    ("NONE", "m.removed", True),
    ("UNKNOWN_MIRROR", "m", False),
    ("NOT_LEADER_OR_FOLLOWER", "m", True),
]


BROKE_A_RULE_ITSELF = (46922, 45276, 47552, 42019, 16836, 13402)
"""Where the campaign showed that a rule asked too much: a mirror stopped before what it had cut
came back; a host that was away still had a deleted topic's batches, which its leader mirrored
again; a partition of another topic id; an operator's broker that was behind; a read whose answer
was late; a deleted topic's log that a starting node set aside.
"""


def tries(without: str) -> range:
    first = FIRST_NOTICED.get(without, 1)
    return range(first, first + TRIES)


@pytest.mark.parametrize("seed", SWEEP)
def test_mirrors_break_no_rule(seed):
    assert run_seed("mirrors", seed, ()).violations == ()


@pytest.mark.parametrize("seed", BROKE_A_RULE_ITSELF)
def test_a_rule_asks_no_more_than_it_may(seed):
    """In the world that the seed had then."""
    as_it_was = storm_of(keyed=False, switched_off=False, states_grow=False, source_lost=None, refusing=False)
    assert run_history("mirrors", seed, as_it_was, STORM).violations == []


def test_a_log_that_a_node_tore_while_it_started_is_not_one_that_it_serves():
    """Seed 200199: a follower's fetch fills the disk between recovery and "serves"; the log refuses
    everything by then.
    """
    assert run_seed("mirrors", 200199, ()).violations == ()


def test_a_source_that_knows_no_mirroring_tells_no_last_mirror_epoch():
    """Seed 201301: the source has one stored, answers as Kafka 3.9, and what is the same in both
    logs stays.
    """
    assert run_seed("mirrors", 201301, ()).violations == ()


def test_no_broker_dies_while_another_has_a_bad_disk():
    """Seed 211047: one disk was lost while the other replica's, which had lied before, was
    read-only and was to be replaced.
    """
    assert run_seed("mirrors", 211047, ()).violations == ()


@pytest.mark.parametrize(("name", "seed"), [("mirrors", 261418)])
def test_an_add_that_the_guard_refuses_is_the_operators_to_decide(name, seed):
    """The topic was removed while its first alignment was under way, and added again: its own
    records lie behind a reset, and are kept.
    """
    result = run_named(name, seed)
    assert result.violations == []
    assert any("says go" in what for _, _, what in result.history.story())


def test_a_disk_that_lied_is_replaced_where_a_log_is_torn_below_its_recovery_point():
    """Seed 322160: a segment of the compacted topic that was rolled during the lie was half zeros
    after the power loss, and no recovery looks there.
    """
    assert run_seed("mirrors", 322160, ()).violations == ()


def test_half_of_a_move_does_not_outlive_its_topic():
    """Seed 360242: the topic was deleted, and made again on other brokers, while a broker was down
    that moved it; it kept the copy for ever.
    """
    assert run_seed("mirrors", 360242, ()).violations == ()


def test_the_guard_keeps_what_could_be_read():
    """Seed 320013: a follower's disk had failed, nothing of the partition was below the high
    watermark, and the mirror rightly followed its source.
    """
    assert run_seed("mirrors", 320013, ()).violations == ()


@pytest.mark.parametrize("seed", [311297, 353863])
def test_what_a_late_request_undoes_the_operator_does_again(seed):
    """An add that was given up was carried out just after the topic had been STOPPED; a removal
    just before it was to be paused.
    """
    assert run_seed("mirrors", seed, ()).violations == ()


def test_who_has_lost_its_power_is_not_asked_what_is_kept():
    """Seed 260407: it leads until the controller knows that it is gone."""
    assert run_seed("mirrors", 260407, ()).violations == ()


@pytest.mark.parametrize("name", ["mirrors_calm", *(pytest.param(name, id=f"{items}-{name}") for name, items in NAMED.items())])
def test_named_history_breaks_no_rule(name):
    assert run_seed(name, 1, ()).violations == ()


def test_every_history_is_tested():
    assert set(NAMED) == set(REPLICA_HISTORIES) | set(SHARE_GROUP_HISTORIES) | set(READER_HISTORIES)


def test_a_share_group_of_the_storm_that_is_not_synced_is_noticed():
    """Seed 1 has one."""
    assert run_seed("mirrors", 1, ("share_groups_synced",)).rules == ("progress",)


@pytest.mark.soak
@pytest.mark.parametrize(("without", "history"), [pytest.param(*row, id=f"{NAMED[row[1]]}-{row[0]}-{row[1]}") for row in ABLATIONS])
def test_a_checker_notices_that_a_safeguard_is_off(without, history):
    """Whichever sees it first: replicas that differ stop a fetcher (failure), keep the fleet from
    being whole (progress) or are seen (isr).
    """
    assert any(not run_seed(history, seed, tuple(without.split(","))).ok for seed in tries(without))


def test_offsets_that_come_after_the_failover_are_noticed():
    assert any(
        "groups" in run_seed("late_offset_sync", seed, ("offsets_while_mirrored",)).rules for seed in tries("offsets_while_mirrored")
    )


def test_a_topic_that_is_deleted_while_it_mirrors_is_noticed():
    assert "topics" in run_seed("topic_deleted_at_the_mirror", 1, ("mirrors_not_deleted",)).rules


@pytest.mark.parametrize("seed", [3, 22])
def test_a_group_follows_the_active_cluster(seed):
    history = run_named("mirrors", seed).history
    groups, violations = follow_groups(history)
    assert violations == [] and groups.positions
    assert {event.cluster for event in history.events if isinstance(event, Consumed)} == {"a", "b"}
    assert any(isinstance(event, GroupSynced) and event.offsets for event in history.events)


def test_two_members_follow_the_active_cluster():
    """Seed 129: both of them at either cluster, each with partitions of its own."""
    history = run_named("mirrors", 129).history
    assert Counter(
        cluster for cluster, _ in {(event.cluster, event.client) for event in history.events if isinstance(event, Consumed)}
    ) == {
        "a": 2,
        "b": 2,
    }
    assert check_mirrors(history) == []


@pytest.mark.parametrize(("cluster", "topic_id", "rules"), [("a", b"1", set()), ("b", b"1", {"ownership"}), ("b", b"2", set())])
def test_a_partition_that_two_members_own_at_one_cluster_is_noticed(cluster, topic_id, rules):
    first, second = (frozenset({TopicIdPartition(Uuid(16 * digit), "orders", 0)}) for digit in (b"1", topic_id))
    owned = [OwnedPartitions(1, "b", "readers", "first", first, 9), OwnedPartitions(2, cluster, "readers", "second", second, 9)]
    history = History([*owned, Healed(3, "a", {}), Healed(3, "b", {})], hosts={"a1": "a", "b1": "b"})
    assert {violation.rule for violation in check_mirrors(history)} == rules


def test_two_operators_at_once_hear_what_is_legal():
    """Seed 59: one of them has the topic deleted, too, which a removal overtook (it was deleted
    while it was STOPPING).
    """
    history = run_named("mirrors", 59).history
    heard = [event for event in history.events if isinstance(event, OperatorHeard)]
    assert {"operator-1", "operator-2", "arbiter"} >= {event.who for event in heard} >= {"operator-1", "operator-2"}
    assert len({(event.operation, event.error) for event in heard}) > 3
    assert list(check_operators(history)) == []


@pytest.mark.parametrize("meanwhile", [False, True])
def test_an_operation_is_not_alone_if_another_began_and_ended_meanwhile(meanwhile):
    """Seed 649: a remove that was asked for later was carried out before an add that was on its
    way.
    """

    async def run() -> list[bool]:
        history, answered = History(), asyncio.Event()
        controls = Controls("b", "m", "orders", {}, lambda: "m")

        async def delete_mirror(_mirror: str) -> None:
            await answered.wait()

        loop, admin = SimpleNamespace(now_us=0), SimpleNamespace(delete_mirror=delete_mirror)
        slow, quick = (MirrorOperator(loop, name, admin, controls, history) for name in ("slow", "quick"))
        under_way = asyncio.create_task(slow.attempt("delete mirror"))
        await asyncio.sleep(0)
        answered.set()
        if meanwhile:
            await quick.attempt("delete mirror")
        await under_way
        return [event.alone for event in history.events if isinstance(event, OperatorHeard) and event.who == "slow"]

    assert asyncio.run(run()) == [not meanwhile]


@pytest.mark.parametrize(("error", "before", "rule_breaks"), LEGAL_OR_NOT)
def test_an_illegal_answer_is_noticed(error, before, rule_breaks):
    heard = OperatorHeard(0, "b", "operator-1", "pause", error, before, before, alone=True)
    assert bool(list(check_operators(History([heard])))) is rule_breaks
    behind = OperatorHeard(0, "b", "operator-1", "pause", error, before, before, alone=True, earlier=frozenset({"m", "m.paused"}))
    assert bool(list(check_operators(History([behind])))) is (error == "NOT_LEADER_OR_FOLLOWER")
    overlapping = OperatorHeard(0, "b", "operator-1", "pause", error, before, before, alone=False)
    assert bool(list(check_operators(History([overlapping])))) is (error == "NOT_LEADER_OR_FOLLOWER")


@pytest.mark.parametrize("seed", [35, 20])
def test_a_source_topic_of_another_id_is_not_followed(seed):
    """The mirror's topic is FAILED until it is deleted, too; or STOPPED, if the deletion was
    noticed first (B5).
    """
    result = run_named("mirrors", seed)
    assert result.violations == []
    deleted = [what for _, who, what in result.history.story() if who == "operator" and what.startswith("delete topic")]
    assert {"delete topic orders at a", "delete topic orders at b"} == set(deleted)
    states = {event.state for event in result.history.events if isinstance(event, StateWritten)}
    assert states & {State.FAILED, State.STOPPED, State.PAUSED}


def test_a_calm_history_mirrors_something():
    events = run_named("mirrors_calm", 1).history.events
    assert sum(isinstance(event, Acknowledged) for event in events) > 5
    assert sum(isinstance(event, StateWritten) for event in events) > 5
    assert any(isinstance(event, Converged) for event in events)
    assert sum(bool(event.records) for event in events if isinstance(event, MirrorStatesRead)) > 0
