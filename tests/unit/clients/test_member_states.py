"""The tables of the two group protocols: what can happen in which state, and where it leads."""

from __future__ import annotations

import pytest

from kmirror.clients.consumer.member_states import (
    CLASSIC,
    CONSUMER,
    ClassicEvent,
    ClassicState,
    ConsumerEvent,
    ConsumerState,
    classic_step,
    consumer_step,
)


def test_a_classic_member_joins_and_rejoins() -> None:
    state, events = ClassicState.UNJOINED, ClassicEvent
    for event in (events.REJOIN_NEEDED, events.PREPARED, events.JOINED, events.SYNCED, events.TAKEN):
        state = classic_step(state, event)
    assert state is ClassicState.STABLE
    assert classic_step(state, events.REJOIN_NEEDED) is ClassicState.PREPARING


@pytest.mark.parametrize("state", list(ClassicState))
def test_a_fenced_classic_member_prepares_before_it_joins(state: ClassicState) -> None:
    stays = state in (ClassicState.UNJOINED, ClassicState.FATAL)
    assert classic_step(state, ClassicEvent.FENCED) is (state if stays else ClassicState.PREPARING)


def test_nothing_joins_without_preparing() -> None:
    ways = [
        (state, event) for (state, event), after in CLASSIC.items() if after is ClassicState.JOINING and state is not ClassicState.JOINING
    ]
    assert ways == [(ClassicState.PREPARING, ClassicEvent.PREPARED), (ClassicState.SYNCING, ClassicEvent.RETRY)]


def test_an_impossible_pair_fails() -> None:
    with pytest.raises(AssertionError, match="TAKEN cannot happen to a member that is JOINING"):
        classic_step(ClassicState.JOINING, ClassicEvent.TAKEN)
    with pytest.raises(AssertionError, match="RECONCILED cannot happen to a member that is STABLE"):
        consumer_step(ConsumerState.STABLE, ConsumerEvent.RECONCILED)


def test_a_consumer_member_acknowledges_before_it_is_stable_again() -> None:
    state, events = ConsumerState.STABLE, ConsumerEvent
    for event in (events.ASSIGNED, events.ANSWERED, events.RECONCILED):
        state = consumer_step(state, event)
    assert state is ConsumerState.ACKNOWLEDGING
    assert consumer_step(state, events.ACKNOWLEDGED) is ConsumerState.STABLE
    assert consumer_step(state, events.ASSIGNED) is ConsumerState.RECONCILING


@pytest.mark.parametrize("state", [ConsumerState.FENCED, ConsumerState.STALE])
def test_who_was_thrown_out_gives_up_before_joining(state: ConsumerState) -> None:
    assert consumer_step(state, ConsumerEvent.GIVEN_UP) is ConsumerState.JOINING
    assert {event for (before, event), after in CONSUMER.items() if before is state and after is ConsumerState.JOINING} == {
        ConsumerEvent.GIVEN_UP
    }


@pytest.mark.parametrize("event", [ConsumerEvent.ANSWERED, ConsumerEvent.ASSIGNED, ConsumerEvent.FENCED])
def test_answers_that_come_too_late_bring_nobody_back(event: ConsumerEvent) -> None:
    for state in (ConsumerState.UNSUBSCRIBED, ConsumerState.STALE, ConsumerState.FENCED, ConsumerState.FATAL):
        assert consumer_step(state, event) is state
