"""Positions: every pair of fetch states, validation against the leader's log, late answers."""

from __future__ import annotations

import itertools

import pytest

from kmirror.clients.consumer.auto_offset_reset_strategy import AutoOffsetResetStrategy
from kmirror.clients.consumer.consumer_types import (
    IllegalStateError,
    LogTruncationException,
    NoOffsetForPartitionException,
    OffsetAndMetadata,
)
from kmirror.clients.consumer.fetch_state import FetchPosition, FetchState, KnownLeader, PartitionState
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ConfigError
from kmirror.common.topic_partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
EARLIEST, LATEST, NONE = AutoOffsetResetStrategy.EARLIEST, AutoOffsetResetStrategy.LATEST, AutoOffsetResetStrategy.NONE
FIRST, SECOND = KnownLeader(1, 5), KnownLeader(2, 6)


def assigned(strategy: AutoOffsetResetStrategy = EARLIEST, position: FetchPosition | None = None) -> SubscriptionState:
    state = SubscriptionState(strategy)
    state.assign_from_user([A, B])
    if position is not None:
        state.seek(A, position)
    return state


@pytest.mark.parametrize(("before", "after"), list(itertools.product(FetchState, FetchState)))
def test_fetch_states(before: FetchState, after: FetchState) -> None:
    state = PartitionState(before, FetchPosition(1))
    allowed = after is not FetchState.INITIALIZING and (before, after) != (FetchState.AWAIT_RESET, FetchState.AWAIT_VALIDATION)
    assert state.go(after, FetchPosition(2)) is allowed
    assert state.fetch_state is (after if allowed else before)


def test_subscriptions_exclude_each_other() -> None:
    state = SubscriptionState(EARLIEST)
    assert state.subscribe(["t"], None)
    assert not state.subscribe(["t"], None)
    with pytest.raises(IllegalStateError, match="mutually exclusive"):
        state.assign_from_user([A])
    state.unsubscribe()
    assert state.assign_from_user([A, B, A])
    assert not state.assign_from_user([B, A])


def test_what_stays_keeps_its_position() -> None:
    state = assigned(position=FetchPosition(7, 2))
    state.assign_from_user([A])
    assert state.all_consumed() == {A: OffsetAndMetadata(7, 2)}
    with pytest.raises(IllegalStateError, match="No current assignment for partition b-1"):
        state.seek(B, FetchPosition(1))


def test_a_new_leader_makes_a_position_be_validated() -> None:
    state = assigned(position=FetchPosition(7, 4, FIRST))
    assert A in state.partitions_needing_validation(0)
    state.complete_validation(A, FetchPosition(7, 4, FIRST), 4, 9)
    assert state.fetchable_partitions() == [A]
    state.maybe_validate_position(A, FIRST)
    assert state.fetchable_partitions() == [A], "the same leader in the same epoch is no news"
    state.maybe_validate_position(A, SECOND)
    assert state.fetchable_partitions() == []
    state.complete_validation(A, FetchPosition(7, 4, FIRST), 4, 9)
    assert state.fetchable_partitions() == [], "an answer about the position under the old leader does not count"


@pytest.mark.parametrize("epochs", [(-1, 5), (4, -1)])
def test_without_epochs_there_is_nothing_to_validate(epochs: tuple[int, int]) -> None:
    state = assigned(position=FetchPosition(7, epochs[0], KnownLeader(1, epochs[1])))
    assert state.fetchable_partitions() == [A]


def test_a_cut_log_is_read_on_where_it_was_cut_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    state = assigned(position=FetchPosition(7, 4, FIRST))
    state.complete_validation(A, FetchPosition(7, 4, FIRST), 3, 5)
    assert state.state(A).position == FetchPosition(5, 3, FIRST)
    assert f"{A} has lost its end: it was read up to offset 7, and is read again from 5" in caplog.text


def test_a_cut_log_without_a_policy_raises() -> None:
    state = assigned(NONE, FetchPosition(7, 4, FIRST))
    with pytest.raises(LogTruncationException) as caught:
        state.complete_validation(A, FetchPosition(7, 4, FIRST), 3, 5)
    assert caught.value.offsets == {A: 7}
    assert caught.value.divergent_offsets == {A: OffsetAndMetadata(5, 3)}


@pytest.mark.parametrize(("strategy", "raises"), [(LATEST, False), (NONE, True)])
def test_an_epoch_that_the_leader_does_not_know(strategy: AutoOffsetResetStrategy, raises: bool) -> None:
    state = assigned(strategy, FetchPosition(7, 4, FIRST))
    if raises:
        with pytest.raises(LogTruncationException):
            state.complete_validation(A, FetchPosition(7, 4, FIRST), -1, -1)
    else:
        state.complete_validation(A, FetchPosition(7, 4, FIRST), -1, -1)
        assert state.state(A).reset_strategy == LATEST


def test_a_reset_that_comes_too_late_does_not_undo_a_seek() -> None:
    state = assigned()
    state.request_offset_reset(A)
    state.seek(A, FetchPosition(42))
    assert not state.complete_reset(A, EARLIEST, FetchPosition(0))
    state.request_offset_reset(A, LATEST)
    assert not state.complete_reset(A, EARLIEST, FetchPosition(0)), "another reset is wanted by now"
    assert state.complete_reset(A, LATEST, FetchPosition(99))
    assert state.all_consumed()[A].offset == 99


@pytest.mark.parametrize("is_subscribed", [True, False])
def test_where_a_group_begins_without_an_offset_is_logged(is_subscribed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """A MirrorMaker whose group's offsets had expired skipped records with auto.offset.reset=latest, in silence."""
    caplog.set_level("INFO")
    state = SubscriptionState(LATEST)
    if is_subscribed:
        state.subscribe([A.topic], None)
        state.assign_from_subscribed([A])
    else:
        state.assign_from_user([A])
    state.request_offset_reset(A)
    assert state.complete_reset(A, LATEST, FetchPosition(99))
    assert ("Resetting offset for partition a-0 to position 99." in caplog.text) is is_subscribed


def test_nothing_committed_and_no_policy() -> None:
    state = assigned(NONE, FetchPosition(3))
    with pytest.raises(NoOffsetForPartitionException, match=r"Undefined offset with no reset policy for partitions: \[b-1\]"):
        state.reset_initializing_positions(state.initializing_partitions())


def test_failed_questions_wait() -> None:
    state = assigned()
    state.reset_initializing_positions(state.initializing_partitions())
    state.request_failed([A], 100)
    assert state.partitions_needing_reset(99) == [B]
    assert state.partitions_needing_reset(100) == [A, B]


def test_partitions_take_turns() -> None:
    state = assigned()
    state.move_partition_to_end(A)
    assert state.assigned_partitions() == [B, A]


@pytest.mark.parametrize("mark", ["paused", "pending_revocation", "pending_on_assigned_callback"])
def test_what_is_not_fetched(mark: str) -> None:
    state = assigned(position=FetchPosition(1))
    setattr(state.state(A), mark, True)
    assert state.fetchable_partitions() == []
    assert state.all_consumed() == {A: OffsetAndMetadata(1)}, "but what was consumed is committed"


@pytest.mark.parametrize(
    ("text", "timestamp"),
    [("earliest", -2), ("LATEST", -1), ("by_duration:PT1H", 3_600_000), ("by_duration:P1DT0.5S", 7_200_000 - 86_400_500)],
)
def test_reset_strategies(text: str, timestamp: int) -> None:
    assert AutoOffsetResetStrategy.from_string(text).timestamp(7_200_000) == timestamp


@pytest.mark.parametrize(
    "text", ["", "beginning", "by_duration:", "by_duration:1h", "by_duration:PT", "by_duration:-PT1S", "by_duration:P1M"]
)
def test_wrong_reset_strategies(text: str) -> None:
    with pytest.raises(ConfigError):
        AutoOffsetResetStrategy.from_string(text)
