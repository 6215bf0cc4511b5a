"""The table of transaction states against Kafka's own list of valid previous states, and every pair
by hand.
"""

from __future__ import annotations

import pytest

from kmirror.common.errors import Errors, KmirrorError
from kmirror.coordinator.transaction.transaction_state import TRANSITIONS, TransactionEvent, TransactionState

S = TransactionState
E = TransactionEvent

KAFKAS_VALID_PREVIOUS_STATES = {
    S.EMPTY: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.ONGOING: {S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
    S.DEAD: {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT},
    S.PREPARE_EPOCH_FENCE: {S.ONGOING},
}


def test_the_table_has_every_pair() -> None:
    assert set(TRANSITIONS) == {(state, event) for state in S for event in E}


def test_the_table_moves_as_kafka_moves() -> None:
    previous: dict[TransactionState, set[TransactionState]] = {state: set() for state in S}
    for (state, _), outcome in TRANSITIONS.items():
        if isinstance(outcome, S):
            previous[outcome].add(state)
    assert previous == KAFKAS_VALID_PREVIOUS_STATES


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (S.EMPTY, [S.EMPTY, S.ONGOING, "invalid", "invalid", "invalid", S.PREPARE_ABORT]),
        (S.ONGOING, [S.PREPARE_EPOCH_FENCE, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.PREPARE_COMMIT, S.PREPARE_ABORT]),
        (S.PREPARE_COMMIT, ["wait"] * 6),
        (S.PREPARE_ABORT, ["wait"] * 6),
        (S.COMPLETE_COMMIT, [S.EMPTY, S.ONGOING, "done", "invalid", "invalid", S.PREPARE_ABORT]),
        (S.COMPLETE_ABORT, [S.EMPTY, S.ONGOING, "invalid", "done", "invalid", S.PREPARE_ABORT]),
        (S.DEAD, [None] * 6),
        (S.PREPARE_EPOCH_FENCE, [None] * 6),
    ],
)
def test_what_a_producer_asks_in_each_state(state: TransactionState, expected: list[object]) -> None:
    words = {"invalid": Errors.INVALID_TXN_STATE, "wait": Errors.CONCURRENT_TRANSACTIONS, "done": Errors.NONE}
    events = [E.INIT_PRODUCER_ID, E.ADD_PARTITIONS, E.COMMIT_V1, E.ABORT_V1, E.COMMIT_V2, E.ABORT_V2]
    assert [TRANSITIONS[state, event] for event in events] == [words[word] if isinstance(word, str) else word for word in expected]


def test_a_repeated_end_of_version_2_is_done_only_where_it_was_the_same_end() -> None:
    done = {(state, event) for (state, event), outcome in TRANSITIONS.items() if outcome is Errors.NONE}
    assert done == {
        (S.COMPLETE_COMMIT, E.COMMIT_V1),
        (S.COMPLETE_ABORT, E.ABORT_V1),
        (S.COMPLETE_COMMIT, E.COMMIT_V2_AGAIN),
        (S.COMPLETE_ABORT, E.ABORT_V2_AGAIN),
    }


def test_names_and_ids_are_kafkas() -> None:
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"]
    assert [S.from_id(number).label for number in range(8)] == names
    assert [S.from_label(name) for name in names] == list(S)
    assert S.from_label("ongoing") is None
    with pytest.raises(KmirrorError, match="Unknown transaction state id 8"):
        S.from_id(8)
