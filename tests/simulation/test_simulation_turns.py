"""Rare worlds of the mirrors' storm: each is met by the seed, breaks no rule where it is told, and
shows that a safeguard is off.
"""

from __future__ import annotations

import pytest

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.campaign import run_seed
from kmirror.sim.checkers import check
from kmirror.sim.events import Acknowledged, Appended, Batch, History, LogKey, LogLost, MirrorStatesRead, Removed, StateWritten
from kmirror.sim.fleet_events import Healed
from kmirror.sim.fleet_keys import COMPACTED, KEYED, KeysRead, KeyWritten, check_keys
from kmirror.sim.histories.registry import run_named
from kmirror.sim.mirror_storm import MIRROR_STORMS
from kmirror.sim.mirror_world import ANEW, EMPTY, MirrorWorld
from kmirror.sim.stage import ORDERS

FIRST_SEEDS = range(80)
TRIES = range(1, 5)
KNOBS = {
    "mirrors_disks_break": lambda world: world.disks_break,
    "mirrors_keyed": lambda world: world.keyed,
    "mirrors_switched_off": lambda world: world.switched_off,
    "mirrors_states_grow": lambda world: world.states_grow,
    "mirrors_source_empty": lambda world: world.source_lost == EMPTY,
    "mirrors_source_anew": lambda world: world.source_lost == ANEW,
    "mirrors_refused": lambda world: world.refusing,
}
WHAT_HAPPENS = {
    "mirrors_disks_break": "has its disks mended",
    "mirrors_keyed": "operator: pause keys in mirror k at b",
    "mirrors_switched_off": "operator: switch mirroring on at ",
    "mirrors_states_grow": "story: __mirror_state of ",
    "mirrors_source_empty": "has the log of orders-",
    "mirrors_source_anew": "operator: delete topic orders at ",
    "mirrors_refused": "refuses mirrors until ",
}
ABLATIONS = [
    ("refusal_is_no_verdict", "mirrors_refused"),
    ("state_topic_not_grown", "mirrors_states_grow"),
    ("states_by_birth_count", "mirrors_states_grow"),
    ("loss_refused", "mirrors_source_empty"),
]


def _world(seed: int) -> MirrorWorld:
    return MirrorWorld.drawn(SeededRandom(f"mirrors/{seed}/world"))


def test_every_history_is_tested():
    assert {*KNOBS, "mirrors", "mirrors_calm"} == set(MIRROR_STORMS)


@pytest.mark.parametrize("name", KNOBS)
def test_a_world_is_met_among_the_first_seeds(name):
    seeds = [seed for seed in FIRST_SEEDS if KNOBS[name](_world(seed))]
    assert seeds
    assert str(_world(seeds[0])) != str(MirrorWorld())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", KNOBS)
def test_a_world_that_is_told_breaks_no_rule(name, seed):
    result = run_named(name, seed)
    assert result.violations == []
    told = [f"{who}: {what}" for _, who, what in result.history.story()]
    assert str(told[0]).startswith("story: the world: ") and any(WHAT_HAPPENS[name] in line for line in told)


@pytest.mark.soak
@pytest.mark.parametrize(("without", "history"), ABLATIONS)
def test_the_storm_notices_that_a_safeguard_is_off(without, history):
    assert any(not run_seed(history, seed, (without,)).ok for seed in TRIES)


@pytest.mark.parametrize(("last", "may_lack", "breaks"), [(True, False, True), (True, True, False), (False, True, True)])
def test_only_a_tombstone_may_have_been_missed(last, may_lack, breaks):
    first = KeyWritten(0, "a", b"k", 1, deleted=False, acknowledged=True)
    second = KeyWritten(60_000_000, "a", b"k", 2, deleted=last, acknowledged=True)
    read = KeysRead(70_000_000, "b1", "a", {b"k": b"k=1"}, may_lack)
    assert bool(list(check_keys(History([first, second, read])))) is breaks


def test_what_a_disaster_takes_is_excused_and_nothing_else():
    log = LogKey("a1", ORDERS)
    batch = Batch(0, 0, 0, -1, False, False, None, (b"a/x/0",), b"digest", b"chain", "path", 0, 9)
    taken = [Appended(1, log, batch), Acknowledged(2, LogKey("a", ORDERS), "x", 0, batch.values)]
    gone = [Removed(4, log, [batch], "disk lost"), Healed(5, "a", {ORDERS: ("a1",)})]
    for disaster, rules in (([LogLost(3, "a", ORDERS)], set()), ([], {"acknowledged"})):
        history = History([*taken, *disaster, *gone], hosts={"a1": "a"}, min_in_sync_replicas=1)
        assert {violation.rule for violation in check(history)} == rules


def test_a_deleted_mirror_tells_no_last_mirror_epoch():
    """Seed 10 of `mirrors_switched_off`: made again and removed while it was PREPARING, it had none
    to tell.
    """
    assert run_seed("mirrors_switched_off", 10, ()).violations == ()


@pytest.mark.parametrize(("pause_us", "breaks"), [(1_000, False), (60_000_000, True)])
def test_an_unanswered_write_of_a_key_may_be_overtaken_for_a_while(pause_us, breaks):
    first = KeyWritten(0, "a", b"k", 1, deleted=False, acknowledged=False)
    second = KeyWritten(pause_us, "a", b"k", 2, deleted=False, acknowledged=True)
    read = KeysRead(pause_us + 1, "b1", "a", {b"k": b"k=1"})
    assert bool(list(check_keys(History([first, second, read])))) is breaks


def test_tombstones_live_for_less_than_the_mirror_is_away():
    history = run_named("mirrors_keyed", 1).history
    keyed = [event for event in history.events if isinstance(event, StateWritten) and event.log.partition == KEYED]
    paused_us = [event.now_us for event in keyed if event.state is State.PAUSED]
    resumed_us = [event.now_us for event in keyed if event.state is State.MIRRORING]
    longest_us = max(min((later for later in resumed_us if later > at_us), default=at_us) - at_us for at_us in paused_us)
    assert longest_us > 1000 * int(COMPACTED["delete.retention.ms"])
    assert any(isinstance(event, KeyWritten) and event.deleted and event.acknowledged for event in history.events)
    assert any(isinstance(event, MirrorStatesRead) for event in history.events)
