"""What breaks in the storm of broken disks: each of its faults is met, heals, and breaks no rule."""

from __future__ import annotations

import pytest

from kmirror.sim.fault_kinds import FAULTS
from kmirror.sim.histories.registry import run_named

TOLD = {
    "disk_fails": ("cannot be read", 14),
    "disk_fills": ("is full", 12),
    "disk_lies": ("says that it is synced, and is not", 9),
    "disk_lost": ("has another disk at", 13),
}
"""What the story says, and a seed in which it does."""


def test_every_fault_of_disks_is_met():
    assert set(TOLD) == {fault.name for fault in FAULTS if fault.of_disks}


@pytest.mark.parametrize("name", TOLD)
def test_a_disk_that_breaks_is_mended_and_breaks_no_rule(name):
    what, seed = TOLD[name]
    result = run_named("mirrors_disks_break", seed)
    assert result.violations == []
    told = [line for _, _, line in result.history.story()]
    assert any(what in line for line in told) and any("has its disks mended" in line or "lies no more" in line for line in told)
