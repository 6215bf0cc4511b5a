"""A campaign's processes: a seed in a child is the same run, and whatever happens to the child is
told.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.sim import campaign as campaigns
from kmirror.sim import loop, run
from kmirror.sim.campaign import SeedResult, Workers, run_seed, run_seed_in_child
from kmirror.sim.runtime import SimWorld

HISTORY = "writes_to_the_mirror"


def test_a_seed_in_a_child_is_the_same_run():
    assert run_seed_in_child(HISTORY, 3, ()) == run_seed(HISTORY, 3, ())


@pytest.mark.parametrize("steps", [100, 1_000_000])
def test_dead_worlds_do_not_stay_in_memory(monkeypatch, steps):
    """A campaign in one process grew to 8 GB: what the loop's own collections had met was left alone
    by the one after a seed.
    """

    class World(SimWorld):
        """One of this test's."""

    monkeypatch.setattr(run, "SimWorld", World)
    monkeypatch.setattr(loop, "GC_STEPS", steps)
    for seed in (1, 2):
        run_seed(HISTORY, seed, ())
    assert [found for found in gc.get_objects() if isinstance(found, World)] == []


def test_an_error_of_the_child_is_raised_here():
    with pytest.raises(KmirrorError, match="there is no history 'x'"):
        run_seed_in_child("x", 1, ())


@pytest.mark.parametrize(
    ("error", "told", "text"),
    [
        (CorruptFileError("00.log", 17, "no batch"), KmirrorError, "00.log: at byte 17: no batch"),
        (KeyError("orders"), RuntimeError, "(?s)seed 7 of .*in a_broken_rule.*KeyError: 'orders'"),
    ],
)
def test_an_error_of_the_child_says_what_and_where(monkeypatch, error, told, text):
    """An error that takes other arguments than its text was lost to a TypeError, and every other
    one had lost its traceback.
    """

    def a_broken_rule(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
        raise error

    monkeypatch.setattr(campaigns, "_run", a_broken_rule)
    with pytest.raises(told, match=text):
        run_seed_in_child(HISTORY, 7, ())


def test_a_child_that_dies_is_told_with_its_seed(monkeypatch):
    def die(history: str, seed: int, without: tuple[str, ...]) -> SeedResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("dead")

    monkeypatch.setattr(campaigns, "_run", die)
    with pytest.raises(KmirrorError, match=f"seed 7 of {HISTORY} ended with status -{int(signal.SIGKILL)}"):
        run_seed_in_child(HISTORY, 7, ())


def test_workers_go_on_for_the_next_seeds():
    with Workers(2) as workers:
        first = list(workers.run([1, 2], HISTORY, ()))
        pool = workers._pool
        second = list(workers.run([3], HISTORY, ()))
        assert pool is not None and workers._pool is pool
    assert [result.seed for result in first + second] == [1, 2, 3]
    assert second == [run_seed(HISTORY, 3, ())]
