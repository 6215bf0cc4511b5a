"""The simulator's fleets: three brokers and a controller, a seed sweep, named disasters, ablations
that a checker must notice.
"""

from __future__ import annotations

import pytest

from kmirror.sim.campaign import run_seed
from kmirror.sim.events import Acknowledged
from kmirror.sim.fleet_events import OffsetCommitted, OwnedPartitions, ReadTo, TransactionEnded
from kmirror.sim.fleet_storm import FLEET_HISTORIES
from kmirror.sim.histories.registry import run_named

SWEEP = range(12)
NAMED = ["brokers_calm", "lone_leader", "deposed_leader", "successors", "old_records"]
TRIES = range(1, 9)
ABLATIONS = [
    ("min_isr", "lone_leader", "acknowledged"),
    ("epoch_truncation", "deposed_leader", "isr"),
    ("epoch_fencing", "successors", "zombies"),
    ("old_records", "old_records", "duplicates"),
    ("last_stable_offset", "successors", "reads"),
]


@pytest.mark.parametrize("seed", SWEEP)
def test_brokers_break_no_rule(seed):
    assert run_seed("brokers", seed, ()).violations == ()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMED)
def test_named_history_breaks_no_rule(name, seed):
    assert run_seed(name, seed, ()).violations == ()


def test_every_history_is_tested():
    assert {"brokers", *NAMED} == set(FLEET_HISTORIES)


@pytest.mark.soak
@pytest.mark.parametrize(("without", "history", "rule"), ABLATIONS)
def test_a_checker_notices_that_a_safeguard_is_off(without, history, rule):
    assert run_seed(history, 1, ()).ok
    assert any(rule in run_seed(history, seed, tuple(without.split(","))).rules for seed in TRIES)


def test_the_clients_of_a_calm_history_get_something_done():
    events = run_named("brokers_calm", 1).history.events
    for kind in (Acknowledged, ReadTo, OffsetCommitted, OwnedPartitions, TransactionEnded):
        assert sum(isinstance(event, kind) for event in events) > 5, kind
