"""The table of states is complete, stays within the valid transitions, and is executed.

What its rows do is tested in `test_d3_events.py` and `test_d3_fetching.py`, under the
rows' numbers.
"""

from __future__ import annotations

import importlib
import inspect
import re

import pytest

from kmirror.metadata.mirror_names import parse_association
from kmirror.mirror.mirror_state_machine import (
    ELSEWHERE,
    IGNORED,
    ILLEGAL,
    TABLE,
    VALID_TRANSITIONS,
    Elsewhere,
    MirrorAction,
    MirrorEvent,
    MirrorGuard,
    MirrorPartitionState,
    WantedState,
    is_valid_transition,
    lookup,
    wanted_state,
)
from kmirror.mirror.partition import mirror_partition, preparing
from kmirror.mirror.partition.mirror_actions import MirrorActions

S = MirrorPartitionState
E = MirrorEvent
G = MirrorGuard
A = MirrorAction

D2 = {
    S.UNKNOWN: "PREPARING STOPPING STOPPED FAILED",
    S.PREPARING: "PREPARING MIRRORING STOPPING FAILED",
    S.MIRRORING: "PREPARING MIRRORING PAUSING STOPPING FAILED",
    S.PAUSING: "PAUSING PAUSED STOPPING FAILED",
    S.PAUSED: "MIRRORING PAUSED STOPPING FAILED",
    S.STOPPING: "STOPPING STOPPED FAILED",
    S.STOPPED: "PREPARING STOPPED FAILED",
    S.FAILED: "STOPPING FAILED",
}


def test_state_bytes_are_those_of_the_dialect() -> None:
    assert {state.name: int(state) for state in S} == {
        "PREPARING": 0, "MIRRORING": 1, "PAUSING": 2, "PAUSED": 3, "STOPPING": 4, "STOPPED": 5, "FAILED": 6, "UNKNOWN": 16,
    }  # fmt: skip
    assert S.from_byte(-1) is S.UNKNOWN
    with pytest.raises(ValueError, match="7"):
        S.from_byte(7)


@pytest.mark.parametrize("current", list(S))
@pytest.mark.parametrize("following", list(S))
def test_d2_transition(current: S, following: S) -> None:
    expected = following.name in D2[current].split() or following is current
    assert is_valid_transition(current, following) is expected


def test_every_pair_of_state_and_event_is_in_the_table() -> None:
    assert set(TABLE) == {(state, event) for state in S for event in E}


def test_rows_of_a_pair_differ_by_their_guard() -> None:
    for rows in TABLE.values():
        guards = [row.guard for row in rows]
        assert len(set(guards)) == len(guards)
        assert len(guards) == 1 or G.ALWAYS not in guards


def test_next_states_are_valid_transitions() -> None:
    for rows in TABLE.values():
        for row in rows:
            assert row.next_state is None or row.next_state in VALID_TRANSITIONS[row.state], row


def test_illegal_and_ignored_rows_change_nothing() -> None:
    for rows in TABLE.values():
        for row in rows:
            if row.number == IGNORED:
                assert row.is_empty
            elif row.number == ILLEGAL:
                assert (row.first, row.next_state, row.then) == ((), None, (A.LOG_ILLEGAL,))


def test_guarded_pair_needs_a_known_guard() -> None:
    with pytest.raises(ValueError, match="STOPPED, RUN_WANTED"):
        lookup(S.STOPPED, E.RUN_WANTED)


def test_every_action_is_a_method_and_every_method_is_in_a_row() -> None:
    used = {action for rows in TABLE.values() for row in rows for action in (*row.first, *row.then)}
    assert used == set(A) == set(MirrorActions.METHODS)


def test_every_event_is_raised_by_the_driver() -> None:
    raised = set(re.findall(r"_E\.([A-Z_]+)", inspect.getsource(mirror_partition) + inspect.getsource(preparing)))
    assert raised | {level.event.name for level in WantedState if level is not WantedState.NOT_MIRRORED} == {event.name for event in E}


@pytest.mark.parametrize("rule", ELSEWHERE, ids=lambda rule: f"{rule.number}-is-dealt-with-elsewhere")
def test_who_deals_with_a_rule_that_moves_no_machine(rule: Elsewhere) -> None:
    module, _, name = rule.by.partition(":")
    found: object = importlib.import_module(f"kmirror.mirror.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found) and rule.number not in {row.number for rows in TABLE.values() for row in rows}


@pytest.mark.parametrize(
    ("state", "event"),
    [(S.FAILED, E.ALIGNED), (S.STOPPED, E.STOP_COMPLETED), (S.MIRRORING, E.ALIGNED), (S.MIRRORING, E.STOP_COMPLETED)],
)
def test_what_must_not_happen_is_illegal(state: S, event: E) -> None:
    row = lookup(state, event)
    assert (row.number, row.then) == (ILLEGAL, (A.LOG_ILLEGAL,))


def test_failed_leaves_only_to_stopping() -> None:
    leaving = {row.next_state for (state, _), rows in TABLE.items() if state is S.FAILED for row in rows if row.next_state is not None}
    assert leaving == {S.STOPPING}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, WantedState.NOT_MIRRORED),
        ("", WantedState.NOT_MIRRORED),
        ("X", WantedState.RUN),
        ("X.paused", WantedState.PAUSE),
        ("X.removed", WantedState.STOP),
        ("X.paused.removed", WantedState.STOP),
    ],
)
def test_mirror_name_says_what_is_wanted(value: str | None, expected: WantedState) -> None:
    assert wanted_state(parse_association(value)) is expected


def test_only_stopped_is_writable() -> None:
    assert [state for state in S if not state.read_only] == [S.STOPPED]
