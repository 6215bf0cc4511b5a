"""Clusters whose brokers have different defaults and whose clocks are hours apart: a mirror keeps what
its source has, and is what its source is. With a safeguard off, a rule fails.
"""

from __future__ import annotations

import pytest

from kmirror.sim.campaign import run_seed
from kmirror.sim.histories.fronts import FRONT_HISTORIES

ABLATIONS = [
    ("front_is_the_sources", "clocks_apart", "front"),
    ("configs_before_records", "defaults_apart", "progress"),
    ("stopping_is_retried", "defaults_apart", "progress"),
]
TRIES = range(1, 9)


@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("history", FRONT_HISTORIES)
def test_no_rule_is_broken(history: str, seed: int) -> None:
    assert run_seed(history, seed, ()).violations == ()


@pytest.mark.parametrize(("without", "history", "rule"), ABLATIONS)
def test_a_rule_fails_without_the_safeguard(without: str, history: str, rule: str) -> None:
    assert any(rule in run_seed(history, seed, (without,)).rules for seed in TRIES)
