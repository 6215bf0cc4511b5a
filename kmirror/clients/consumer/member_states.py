"""The life of a group member, as tables: one for each group protocol. Pure.

Every (state, event) pair is listed. A pair that cannot happen is missing, and `step` fails for it;
one that changes nothing leads to the same state. The memberships do what the new state asks for;
nothing else changes a state.

Classic protocol (`CLASSIC`). A task of the member joins, syncs and sends heartbeats; whatever calls
the application (commits before revocation, the listener) happens inside of `poll`.

    UNJOINED   no member: nothing is subscribed, or everything was left
    PREPARING  must join: `poll` gives up what must be given up, then the task may join.
               Heartbeats go on as long as the member id is known
    JOINING    JoinGroup is out, or is tried again; the coordinator waits, no heartbeats
    SYNCING    SyncGroup is out
    ASSIGNED   the assignment is here, `poll` has to take it over
    STABLE     everything is taken over
    FATAL      the coordinator refused for good; `poll` raises

Consumer protocol, KIP-848 (`CONSUMER`, Kafka's `MemberState`). The task sends heartbeats, which
do everything; `poll` reconciles.

    UNSUBSCRIBED    no member
    JOINING         heartbeats with epoch 0 until one is answered
    RECONCILING     a target assignment is here that `poll` has to take over: commit, revoke, own
    ACKNOWLEDGING   the next heartbeat goes out at once, and tells what is owned
    STABLE          nothing to do but heartbeats
    FENCED          the coordinator does not know us: `poll` gives everything up as lost, then joins
    LEAVING         the next heartbeat says good-bye (epoch -1; -2 for a static member)
    STALE           left because `poll` was not called within max.poll.interval.ms; the next `poll`
                    gives everything up as lost, then joins
    FATAL           refused for good
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class ClassicState(Enum):
    """States of the classic protocol."""

    UNJOINED = "UNJOINED"
    PREPARING = "PREPARING"
    JOINING = "JOINING"
    SYNCING = "SYNCING"
    ASSIGNED = "ASSIGNED"
    STABLE = "STABLE"
    FATAL = "FATAL"


class ClassicEvent(Enum):
    """What happens to a member of the classic protocol."""

    REJOIN_NEEDED = "subscribed, or topics changed, or the coordinator said REBALANCE_IN_PROGRESS"
    PREPARED = "poll gave up what must be given up"
    JOINED = "JoinGroup was answered"
    RETRY = "JoinGroup or SyncGroup failed in a way that the next try may mend"
    SYNCED = "SyncGroup was answered"
    TAKEN = "poll took the assignment over"
    FENCED = "the coordinator does not know the member or its generation, or poll came too late"
    LEFT = "unsubscribed or closed"
    REFUSED = "an error that no retry mends"


class ConsumerState(Enum):
    """States of the consumer protocol."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    LEAVING = "LEAVING"
    STALE = "STALE"
    FATAL = "FATAL"


class ConsumerEvent(Enum):
    """What happens to a member of the consumer protocol."""

    SUBSCRIBED = "a subscription exists"
    ANSWERED = "a heartbeat was answered, without a new assignment"
    ASSIGNED = "a heartbeat was answered with an assignment that differs from what is owned"
    RECONCILED = "poll took the assignment over"
    ACKNOWLEDGED = "a heartbeat that tells what is owned went out"
    FENCED = "FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID"
    GIVEN_UP = "poll gave everything up as lost"
    LEAVE = "unsubscribed or closed"
    LEFT = "the heartbeat that leaves was answered, or will not be"
    POLL_EXPIRED = "poll was not called within max.poll.interval.ms"
    REFUSED = "an error that no retry mends"


def _classic() -> dict[tuple[ClassicState, ClassicEvent], ClassicState]:
    state, event = ClassicState, ClassicEvent
    table = {
        (state.UNJOINED, event.REJOIN_NEEDED): state.PREPARING,
        (state.PREPARING, event.REJOIN_NEEDED): state.PREPARING,
        (state.JOINING, event.REJOIN_NEEDED): state.JOINING,
        (state.SYNCING, event.REJOIN_NEEDED): state.SYNCING,
        (state.ASSIGNED, event.REJOIN_NEEDED): state.ASSIGNED,
        (state.STABLE, event.REJOIN_NEEDED): state.PREPARING,
        (state.PREPARING, event.PREPARED): state.JOINING,
        (state.JOINING, event.JOINED): state.SYNCING,
        (state.JOINING, event.RETRY): state.JOINING,
        (state.SYNCING, event.RETRY): state.JOINING,
        (state.SYNCING, event.SYNCED): state.ASSIGNED,
        (state.ASSIGNED, event.TAKEN): state.STABLE,
        (state.FATAL, event.REJOIN_NEEDED): state.FATAL,
        (state.UNJOINED, event.FENCED): state.UNJOINED,
        (state.FATAL, event.FENCED): state.FATAL,
    }
    for fenced in (state.PREPARING, state.JOINING, state.SYNCING, state.ASSIGNED, state.STABLE):
        table[fenced, event.FENCED] = state.PREPARING
    for any_state in ClassicState:
        table[any_state, event.LEFT] = state.UNJOINED
        table[any_state, event.REFUSED] = state.FATAL
    return table


def _consumer() -> dict[tuple[ConsumerState, ConsumerEvent], ConsumerState]:
    state, event = ConsumerState, ConsumerEvent
    member = (state.JOINING, state.RECONCILING, state.ACKNOWLEDGING, state.STABLE)
    table = {
        (state.UNSUBSCRIBED, event.SUBSCRIBED): state.JOINING,
        (state.LEAVING, event.SUBSCRIBED): state.LEAVING,
        (state.JOINING, event.ANSWERED): state.STABLE,
        (state.RECONCILING, event.ANSWERED): state.RECONCILING,
        (state.ACKNOWLEDGING, event.ANSWERED): state.ACKNOWLEDGING,
        (state.STABLE, event.ANSWERED): state.STABLE,
        (state.RECONCILING, event.RECONCILED): state.ACKNOWLEDGING,
        (state.ACKNOWLEDGING, event.ACKNOWLEDGED): state.STABLE,
        (state.FENCED, event.GIVEN_UP): state.JOINING,
        (state.STALE, event.GIVEN_UP): state.JOINING,
        (state.UNSUBSCRIBED, event.LEAVE): state.UNSUBSCRIBED,
        (state.FENCED, event.LEAVE): state.UNSUBSCRIBED,
        (state.STALE, event.LEAVE): state.UNSUBSCRIBED,
        (state.LEAVING, event.LEAVE): state.LEAVING,
        (state.FATAL, event.LEAVE): state.FATAL,
        (state.LEAVING, event.LEFT): state.UNSUBSCRIBED,
        (state.LEAVING, event.FENCED): state.UNSUBSCRIBED,
    }
    for joined in member:
        table[joined, event.SUBSCRIBED] = joined
        table[joined, event.ASSIGNED] = state.RECONCILING
        table[joined, event.FENCED] = state.FENCED
        table[joined, event.POLL_EXPIRED] = state.STALE
        table[joined, event.LEAVE] = state.LEAVING
    for gone in (state.UNSUBSCRIBED, state.FENCED, state.STALE, state.FATAL):
        table[gone, event.ANSWERED] = table[gone, event.ASSIGNED] = table[gone, event.FENCED] = gone
        table.setdefault((gone, event.SUBSCRIBED), gone)
    table[state.LEAVING, event.ANSWERED] = table[state.LEAVING, event.ASSIGNED] = state.LEAVING
    for any_state in ConsumerState:
        table[any_state, event.REFUSED] = state.FATAL
    return table


CLASSIC: Final = _classic()
CONSUMER: Final = _consumer()


def classic_step(state: ClassicState, event: ClassicEvent) -> ClassicState:
    """The next state; AssertionError for a pair that cannot happen."""
    assert (state, event) in CLASSIC, f"{event.name} cannot happen to a member that is {state.name}"
    return CLASSIC[state, event]


def consumer_step(state: ConsumerState, event: ConsumerEvent) -> ConsumerState:
    """The next state; AssertionError for a pair that cannot happen."""
    assert (state, event) in CONSUMER, f"{event.name} cannot happen to a member that is {state.name}"
    return CONSUMER[state, event]
