"""Faults as they are declared: each has a name of its own, a weight and a text; storms draw what
they are told to.
"""

from __future__ import annotations

from kmirror.sim.fault_kinds import FAULTS
from kmirror.sim.faults import NO_FAULTS, FaultRates
from kmirror.sim.mirror_world import MirrorWorld


def test_every_fault_is_declared_whole():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.weight > 0 and fault.about.endswith(".") for fault in FAULTS)


def test_a_storm_draws_by_the_weights():
    drawn = [fault.name for fault in FaultRates.storm(node_pause=2, reset=0).table()]
    assert drawn.count("crash") == 3 and drawn.count("node_pause") == 2 and "reset" not in drawn
    assert not any(fault.of_disks for fault in FaultRates.storm().table())


def test_disks_break_only_in_a_storm_of_a_world_where_they_do():
    world = MirrorWorld(disks_break=True)
    assert {fault.name for fault in world.rates(FaultRates.storm()).table()} == {fault.name for fault in FAULTS}
    assert world.rates(NO_FAULTS).table() == []
    assert MirrorWorld().rates(FaultRates.storm()) == FaultRates.storm()
