"""D1, D2 and D3 of the KIP decisions, row by row, against the table."""

from __future__ import annotations

import pytest

from kmirror.metadata.mirror_names import parse_association
from kmirror.mirror.mirror_state_machine import (
    IGNORED,
    TABLE,
    VALID_TRANSITIONS,
    MirrorAction,
    MirrorEvent,
    MirrorGuard,
    MirrorPartitionState,
    Row,
    WantedState,
    is_valid_transition,
    lookup,
    wanted_state,
)

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
            if row.is_illegal or row.number == IGNORED:
                assert row.next_state is None
                assert set(row.actions) <= {A.LOG}


def test_guarded_pair_needs_a_known_guard() -> None:
    with pytest.raises(ValueError, match="STOPPED, RUN_WANTED"):
        lookup(S.STOPPED, E.RUN_WANTED)


ROWS = [
    ("D3-1", S.UNKNOWN, E.RUN_WANTED, G.ALWAYS, S.PREPARING, {A.PREPARE}),
    ("D3-1", S.UNKNOWN, E.PAUSE_WANTED, G.ALWAYS, S.PREPARING, {A.PREPARE}),
    ("D3-2", S.UNKNOWN, E.STATE_UNAVAILABLE, G.ALWAYS, None, {A.RETRY}),
    ("D3-4", S.STOPPED, E.RUN_WANTED, G.SOURCE_TOPIC_SAME, S.PREPARING, {A.PREPARE}),
    ("D3-5", S.STOPPED, E.RUN_WANTED, G.SOURCE_TOPIC_OTHER, None, {A.LOG, A.RETRY}),
    ("D3-6", S.PREPARING, E.TRUNCATED, G.ALWAYS, S.MIRRORING, {A.START_FETCHER}),
    ("D3-7", S.PREPARING, E.LAST_MIRROR_EPOCH_UNKNOWN, G.ALWAYS, None, {A.LOG, A.RETRY}),
    ("D3-8", S.PREPARING, E.BELOW_MIN_ISR, G.ALWAYS, None, {A.LOG, A.RETRY}),
    ("D3-9", S.PREPARING, E.REPLICAS_MISSING, G.DEADLINE_AHEAD, None, {A.LOG, A.RETRY}),
    ("D3-10", S.PREPARING, E.REPLICAS_MISSING, G.DEADLINE_PASSED, S.FAILED, {A.LOG}),
    ("D3-11", S.PREPARING, E.LAST_MIRROR_EPOCH_NONE, G.ALWAYS, None, {A.TRUNCATE}),
    ("D3-12", S.MIRRORING, E.RECORDS_FETCHED, G.ALWAYS, None, {A.APPEND}),
    ("D3-13", S.MIRRORING, E.SOURCE_LEADER_LOST, G.ALWAYS, None, {A.RESOLVE_LEADER, A.RETRY}),
    ("D3-13", S.PREPARING, E.SOURCE_LEADER_LOST, G.ALWAYS, None, {A.RESOLVE_LEADER, A.RETRY}),
    ("D3-14", S.MIRRORING, E.OFFSET_OUT_OF_RANGE, G.ALWAYS, None, {A.TRUNCATE}),
    ("D3-15", S.MIRRORING, E.DIVERGED, G.ALWAYS, None, {A.LOG, A.TRUNCATE}),
    ("D3-16", S.MIRRORING, E.SOURCE_REJECTED, G.ALWAYS, S.FAILED, {A.LOG, A.REMOVE_FETCHER}),
    ("D3-17", S.MIRRORING, E.PAUSE_WANTED, G.ALWAYS, S.PAUSING, {A.REMOVE_FETCHER}),
    ("D3-18", S.PAUSING, E.FETCHER_REMOVED, G.ALWAYS, S.PAUSED, set()),
    ("D3-19", S.PAUSED, E.RUN_WANTED, G.ALWAYS, S.MIRRORING, {A.START_FETCHER}),
    ("D3-20a", S.UNKNOWN, E.STOP_WANTED, G.RESET_MISSING, S.STOPPING, {A.STOP}),
    ("D3-20b", S.UNKNOWN, E.STOP_WANTED, G.RESET_IS_LAST, S.STOPPED, {A.BUMP_IF_NEEDED, A.OPEN_WRITES}),
    *(
        ("D3-21", state, E.STOP_WANTED, G.ALWAYS, S.STOPPING, {A.STOP})
        for state in (S.PREPARING, S.MIRRORING, S.PAUSING, S.PAUSED, S.FAILED)
    ),
    *(
        ("D3-22", state, E.SOURCE_TOPIC_DELETED, G.ALWAYS, S.STOPPING, {A.PAUSE_NAME, A.STOP})
        for state in (S.PREPARING, S.MIRRORING, S.PAUSING, S.PAUSED, S.FAILED)
    ),
    ("D3-23", S.STOPPING, E.STOP_COMPLETED, G.ALWAYS, S.STOPPED, {A.OPEN_WRITES}),
    ("D3-24", S.STOPPING, E.STEP_FAILED, G.ALWAYS, None, {A.LOG, A.RETRY}),
    ("D3-25", S.STOPPED, E.STOP_WANTED, G.ALWAYS, None, set()),
    *(("D3-26", state, E.LEADERSHIP_LOST, G.ALWAYS, None, {A.REMOVE_FETCHER, A.FORGET}) for state in S),
    ("D3-27", S.MIRRORING, E.LEADERSHIP_GAINED, G.ALWAYS, None, {A.START_FETCHER}),
    ("D3-28", S.PREPARING, E.LEADERSHIP_GAINED, G.ALWAYS, None, {A.REWRITE, A.PREPARE}),
    ("D3-29", S.STOPPING, E.LEADERSHIP_GAINED, G.ALWAYS, None, {A.REWRITE, A.STOP}),
    ("D3-29b", S.STOPPED, E.LEADERSHIP_GAINED, G.RESET_LOST, None, {A.FENCE_WRITES, A.STOP, A.OPEN_WRITES}),
    ("D3-30", S.PAUSING, E.LEADERSHIP_GAINED, G.ALWAYS, S.PAUSED, set()),
    ("D3-30", S.PAUSED, E.LEADERSHIP_GAINED, G.ALWAYS, None, set()),
    ("D3-31", S.MIRRORING, E.UNCLEAN_ELECTION, G.UNCLEAN_SUPPORTED, S.PREPARING, {A.LOG, A.PREPARE}),
    ("D3-31", S.MIRRORING, E.UNCLEAN_ELECTION, G.UNCLEAN_UNSUPPORTED, None, {A.LOG}),
    ("D3-32", S.MIRRORING, E.CONFIG_ALTERED, G.ALWAYS, None, {A.RECREATE_FETCHER}),
    ("D3-33", S.STOPPED, E.NAME_CLEARED, G.ALWAYS, None, {A.FORGET}),
    *(("D3-34", state, E.TOPIC_DELETED, G.ALWAYS, None, {A.REMOVE_TOPIC, A.FORGET}) for state in S),
    ("D3-35", S.MIRRORING, E.SOURCE_CLUSTER_CHANGED, G.ALWAYS, None, {A.SUSPEND_FETCHER, A.LOG}),
    *(("D3-37", state, E.STORAGE_FAILED, G.ALWAYS, None, {A.LOG, A.REMOVE_FETCHER, A.RETRY}) for state in S if state is not S.FAILED),
]


@pytest.mark.parametrize(("number", "state", "event", "guard", "next_state", "actions"), ROWS)
def test_d3_row(number: str, state: S, event: E, guard: G, next_state: S | None, actions: set[A]) -> None:
    row = lookup(state, event, guard)
    assert row == Row(number, state, event, row.guard, next_state, row.actions)
    assert set(row.actions) == actions


@pytest.mark.parametrize(
    ("state", "event"),
    [
        (S.FAILED, E.TRUNCATED),
        (S.STOPPED, E.STOP_COMPLETED),
        (S.MIRRORING, E.TRUNCATED),
        (S.MIRRORING, E.STOP_COMPLETED),
        (S.MIRRORING, E.NAME_CLEARED),
        (S.PAUSED, E.STEP_FAILED),
    ],
)
def test_what_must_not_happen_is_illegal(state: S, event: E) -> None:
    assert lookup(state, event).is_illegal


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
