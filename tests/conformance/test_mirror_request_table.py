"""The result of each request, by the topic's present `mirror.name` and its partitions' states
(D6).
"""

from __future__ import annotations

import pytest

from kmirror.common.errors import Errors
from kmirror.metadata.mirror_names import parse_association
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.topic_requests import D6, Association, TopicRequest, association_kind, name_check, states_error

S = MirrorPartitionState
ANY = set(S)
COLUMNS = (TopicRequest.ADD, TopicRequest.REMOVE, TopicRequest.PAUSE, TopicRequest.RESUME, TopicRequest.DELETE)
EXPECTED: dict[str | None, tuple[int | set[S], ...]] = {
    None: ({S.UNKNOWN, S.STOPPED}, 136, 136, 136, ANY),
    "X": (137, ANY, {S.MIRRORING}, 140, 142),
    "X.paused": (137, ANY, 139, ANY, 142),
    "X.removed": ({S.STOPPED}, 138, 141, 141, {S.STOPPED}),
    "X.paused.removed": ({S.STOPPED}, 138, 141, 141, {S.STOPPED}),
    "Y": (137, 138, 138, 138, ANY),
    "Y.paused": (137, 138, 138, 138, ANY),
    "Y.removed": ({S.STOPPED}, 138, 138, 138, ANY),
    "Y.paused.removed": ({S.STOPPED}, 138, 138, 138, ANY),
}


@pytest.mark.parametrize("value", list(EXPECTED))
@pytest.mark.parametrize("column", range(len(COLUMNS)))
def test_d6(value: str | None, column: int) -> None:
    found = name_check(COLUMNS[column], parse_association(value), "X")
    expected = EXPECTED[value][column]
    assert (int(found) if isinstance(found, Errors) else set(found)) == expected


def test_d6_is_complete() -> None:
    assert set(D6) == {(association, request) for association in Association for request in TopicRequest}


@pytest.mark.parametrize("state", [S.PREPARING, S.MIRRORING, S.PAUSING, S.PAUSED, S.STOPPING, S.FAILED])
def test_add_while_a_partition_is_not_stopped_is_invalid(state: S) -> None:
    allowed = name_check(TopicRequest.ADD, None, "X")
    assert not isinstance(allowed, Errors)
    assert states_error(TopicRequest.ADD, allowed, [S.STOPPED, state]) is Errors.INVALID_REQUEST
    assert states_error(TopicRequest.ADD, allowed, [S.STOPPED, S.UNKNOWN]) is Errors.NONE


def test_pause_needs_every_partition_mirroring() -> None:
    allowed = name_check(TopicRequest.PAUSE, parse_association("X"), "X")
    assert not isinstance(allowed, Errors)
    assert states_error(TopicRequest.PAUSE, allowed, [S.MIRRORING, S.PREPARING]) is Errors.INVALID_REQUEST


def test_delete_with_a_topic_still_stopping_is_not_empty() -> None:
    allowed = name_check(TopicRequest.DELETE, parse_association("X.removed"), "X")
    assert not isinstance(allowed, Errors)
    assert states_error(TopicRequest.DELETE, allowed, [S.STOPPING]) is Errors.MIRROR_NOT_EMPTY


def test_other_mirror_is_told_from_own_by_the_whole_name() -> None:
    assert association_kind(parse_association("XX"), "X") is Association.OTHER
