"""The simulator's two fleets with mirrors between them: a seed sweep, named disasters, ablations that a checker must notice."""

from __future__ import annotations

import pytest

from kmirror.sim.campaign import run_seed
from kmirror.sim.fleet_history import Consumed, GroupSynced
from kmirror.sim.histories import run_named
from kmirror.sim.history import Acknowledged, Converged, MirrorStatesRead, StateWritten
from kmirror.sim.mirror_group_checker import follow_groups
from kmirror.sim.mirror_histories import NAMED_MIRROR_HISTORIES
from kmirror.sim.mirror_storm import MIRROR_HISTORIES

SWEEP = range(8)
TRIES = range(1, 9)
NAMED = {
    "slow_follower_at_alignment": "F1",
    "produce_that_waits": "F3",
    "mirror_deleted_before_return": "F5",
    "follower_down_at_failback": "F12",
    "epochs_above_ours": "C36 S21",
    "silent_source_broker": "C6 C7",
    "source_leader_behind": "C6",
    "late_offset_sync": "C18",
}
ABLATIONS = [
    ("bump_after_cut", "slow_follower_at_alignment"),
    ("follower_verification", "slow_follower_at_alignment"),
    ("follower_verification", "follower_down_at_failback"),
    ("follower_verification", "mirror_deleted_before_return"),
    ("pending_produces_fail", "produce_that_waits"),
    ("mirror_leader_epoch", "epochs_above_ours"),
    ("definite_answers_only", "silent_source_broker"),
    ("leader_knows", "source_leader_behind"),
    ("offsets_while_mirrored", "late_offset_sync"),
]


@pytest.mark.parametrize("seed", SWEEP)
def test_mirrors_break_no_rule(seed):
    assert run_seed("mirrors", seed, ()).violations == ()


@pytest.mark.parametrize("name", ["mirrors_calm", *NAMED])
def test_named_history_breaks_no_rule(name):
    assert run_seed(name, 1, ()).violations == ()


def test_every_history_is_tested():
    assert {"mirrors", "mirrors_calm"} == set(MIRROR_HISTORIES)
    assert set(NAMED) == set(NAMED_MIRROR_HISTORIES)


@pytest.mark.parametrize(("without", "history"), ABLATIONS)
def test_a_checker_notices_that_a_safeguard_is_off(without, history):
    """Whichever sees it first: replicas that differ stop a fetcher (failure), keep the fleet from being whole (progress) or are seen (isr)."""
    assert any(not run_seed(history, seed, (without,)).ok for seed in TRIES)


def test_a_produce_that_waited_is_not_acknowledged_after_all():
    assert any("acknowledged" in run_seed("produce_that_waits", seed, ("pending_produces_fail",)).rules for seed in TRIES)


def test_offsets_that_come_after_the_failover_are_noticed():
    assert any("groups" in run_seed("late_offset_sync", seed, ("offsets_while_mirrored",)).rules for seed in TRIES)


def test_a_group_follows_the_active_cluster():
    """Seed 52: it reads at both, and reads nothing but what was not synced twice."""
    history = run_named("mirrors", 52).history
    groups, violations = follow_groups(history)
    assert violations == []
    assert {event.cluster for event in history.events if isinstance(event, Consumed)} == {"a", "b"}
    assert any(isinstance(event, GroupSynced) and event.offsets for event in history.events)
    assert groups.counts["twice"] > 0 and groups.counts["beyond"] == groups.counts["stale"] == 0


def test_a_calm_history_mirrors_something():
    events = run_named("mirrors_calm", 1).history.events
    assert sum(isinstance(event, Acknowledged) for event in events) > 5
    assert sum(isinstance(event, StateWritten) for event in events) > 5
    assert any(isinstance(event, Converged) for event in events)
    assert sum(bool(event.records) for event in events if isinstance(event, MirrorStatesRead)) > 0
