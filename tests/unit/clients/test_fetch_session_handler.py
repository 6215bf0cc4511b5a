"""Incremental fetch sessions: what a request carries after answers, errors and changes."""

from __future__ import annotations

import pytest

from kmirror.clients.consumer.fetch_session_handler import FINAL_EPOCH, MAX_EPOCH, FetchSessionHandler, PartitionRequest
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
ID_A, ID_B, OTHER = (Uuid(bytes([number]) * 16) for number in (1, 2, 3))


def request(offset: int, topic_id: Uuid = ID_A) -> PartitionRequest:
    return PartitionRequest(topic_id, offset, 1, -1, 1000)


def opened() -> FetchSessionHandler:
    handler = FetchSessionHandler()
    handler.build({A: request(1), B: request(1, ID_B)}, can_use_ids=True)
    assert handler.answered(77, [A, B]) is None
    return handler


def test_only_what_changed_is_sent() -> None:
    handler = opened()
    difference = handler.build({A: request(5), B: request(1, ID_B)}, can_use_ids=True)
    assert (difference.session_id, difference.epoch, list(difference.to_send), difference.forgotten) == (77, 1, [A], {})
    assert handler.answered(77, []) is None
    difference = handler.build({A: request(5)}, can_use_ids=True)
    assert (difference.epoch, list(difference.to_send), difference.forgotten) == (2, [], {B: ID_B})


def test_a_full_cache_means_everything_each_time() -> None:
    handler = FetchSessionHandler()
    for _ in range(2):
        difference = handler.build({A: request(1)}, can_use_ids=True)
        assert (difference.session_id, difference.epoch, list(difference.to_send)) == (0, 0, [A])
        assert handler.answered(0, [A]) is None


@pytest.mark.parametrize(
    ("error", "session_id"), [(Errors.FETCH_SESSION_ID_NOT_FOUND, 0), (Errors.INVALID_FETCH_SESSION_EPOCH, 77), (None, 77)]
)
def test_errors_begin_anew(error: Errors | None, session_id: int) -> None:
    handler = opened()
    if error is None:
        handler.lost()
    else:
        handler.refused(error)
    difference = handler.build({A: request(1)}, can_use_ids=True)
    assert (difference.session_id, difference.epoch, list(difference.to_send)) == (session_id, 0, [A])


def test_an_answer_that_does_not_fit_is_not_used() -> None:
    handler = FetchSessionHandler()
    handler.build({A: request(1), B: request(1, ID_B)}, can_use_ids=True)
    assert "lacks b-0" in str(handler.answered(5, [A]))
    handler = opened()
    handler.build({A: request(2)}, can_use_ids=True)
    assert "not asked" in str(handler.answered(77, [B]))
    assert handler.build({A: request(2)}, can_use_ids=True).epoch == 0


def test_a_topic_made_anew_is_forgotten_under_its_old_id() -> None:
    handler = opened()
    difference = handler.build({A: request(0, OTHER), B: request(1, ID_B)}, can_use_ids=True)
    assert (difference.to_send, difference.forgotten) == ({A: request(0, OTHER)}, {A: ID_A})
    assert handler.names == {OTHER: "a", ID_B: "b"}


def test_a_topic_without_an_id_makes_all_go_by_name_in_a_new_session() -> None:
    handler = opened()
    difference = handler.build({A: request(1), B: request(1, Uuid.ZERO)}, can_use_ids=True)
    assert (difference.epoch, difference.uses_topic_ids, list(difference.to_send)) == (0, False, [A, B])


def test_epochs_wrap() -> None:
    handler = opened()
    handler._epoch = MAX_EPOCH
    assert handler.answered(77, []) is None
    assert handler.build({}, can_use_ids=True).epoch == 1 != FINAL_EPOCH
