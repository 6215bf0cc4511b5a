"""The simulator's two fleets with mirrors between them: a seed sweep, named disasters, ablations that a checker must notice."""

from __future__ import annotations

import pytest

from kmirror.sim.campaign import run_seed
from kmirror.sim.histories import run_named
from kmirror.sim.history import Acknowledged, Converged, MirrorStatesRead, StateWritten
from kmirror.sim.mirror_storm import MIRROR_HISTORIES

SWEEP = range(10)
NAMED = {"mirrors_calm": "both ways in turn, without faults"}


@pytest.mark.parametrize("seed", SWEEP)
def test_mirrors_break_no_rule(seed):
    assert run_seed("mirrors", seed, ()).violations == ()


@pytest.mark.parametrize("name", NAMED)
def test_named_history_breaks_no_rule(name):
    assert run_seed(name, 1, ()).violations == ()


def test_every_history_is_tested():
    assert {"mirrors", *NAMED} == set(MIRROR_HISTORIES)


def test_a_calm_history_mirrors_something():
    events = run_named("mirrors_calm", 1).history.events
    assert sum(isinstance(event, Acknowledged) for event in events) > 5
    assert sum(isinstance(event, StateWritten) for event in events) > 5
    assert any(isinstance(event, Converged) for event in events)
    assert sum(bool(event.records) for event in events if isinstance(event, MirrorStatesRead)) > 0
