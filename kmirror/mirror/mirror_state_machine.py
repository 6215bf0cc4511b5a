"""The state machine of one mirrored partition, as a table.

Theory. Each partition of a mirror topic has one machine, run by the leader of the *destination* partition and stored by
the coordinator of (mirror, topic id, partition) in `__mirror_state`. Three rules make it safe:

* *Persist, then act.* A transition is committed as a type-2 record before anything is done about it, so that a crash at
  any moment finds a state from which the work can be done again; every step of the work is idempotent.
* *Levels, not edges.* What is wanted is read off the topic's `mirror.name` (`X` run, `X.paused` pause, `….removed` stop,
  absent: not mirrored) and is looked at again after every transition, state load, leader change and refresh. No event can
  be missed, because nothing is remembered of events.
* *One table.* `TABLE` lists every (state, event) pair. A pair has one row or several told apart by their guards; a pair
  without a row cannot be: `tests/conformance/test_mirror_state_machine.py` counts them. Rows without a next state and
  without actions are the pairs in which nothing is to be done (`IGNORED`) or which must not happen (`ILLEGAL`: it is
  logged, changes nothing and writes nothing).

`VALID_TRANSITIONS` says which state may follow which and is what WriteMirrorStates checks; the table's rows stay inside it
(asserted by the tests). The same state again is always allowed and writes nothing, except where a row says `REWRITE`:
after gaining leadership in PREPARING and STOPPING the same state is appended as a new record first, so that an isolated
old coordinator cannot answer with a state that has passed (F19).

Where the KIP contradicts itself the decision's number stands in the row (`facts`: D3-1 ... D3-37, B1 ..., C1 ...).
A storage error is the replica's, not the partition's (D3-37): nothing is written, for FAILED would outlive the leader whose disk it was, and
healthy replicas take over. The KIP's FAILED for it would need an operator where an election does.
Known holes, inherent in the KIP: failback discards what lies beyond the failover point; the cut at STOPPING discards open
transactions and what is interleaved with them; a cycle over three clusters empties all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from kmirror.metadata.mirror_names import MirrorAssociation


class MirrorPartitionState(IntEnum):
    """The state bytes of records and RPCs (revision kip-2026-04). UNKNOWN is never stored; on the wire it means "no state"."""

    PREPARING = 0
    MIRRORING = 1
    PAUSING = 2
    PAUSED = 3
    STOPPING = 4
    STOPPED = 5
    FAILED = 6
    UNKNOWN = 16

    @classmethod
    def from_byte(cls, value: int) -> MirrorPartitionState:
        """The state of a wire or record byte; -1 is read as UNKNOWN too. ValueError for any other number."""
        return cls.UNKNOWN if value == -1 else cls(value)

    @property
    def read_only(self) -> bool:
        """Whether clients' writes are refused (D1). UNKNOWN refuses too, but with a retriable error (C38)."""
        return self is not MirrorPartitionState.STOPPED


class MirrorEvent(Enum):
    """What can happen to a partition. The first four are levels read off `mirror.name`; the rest are moments."""

    RUN_WANTED = "mirror.name is X"
    PAUSE_WANTED = "mirror.name is X.paused"
    STOP_WANTED = "mirror.name ends .removed"
    NAME_CLEARED = "mirror.name was deleted"
    STATE_UNAVAILABLE = "the coordinator is not available or loading"
    TRUNCATED = "LME truncation finished on the leader and all replicas that count"
    LAST_MIRROR_EPOCH_UNKNOWN = "the LME request failed, is incomplete or unauthorised"
    LAST_MIRROR_EPOCH_NONE = "the source has no API 99 or answers a definite -1"
    BELOW_MIN_ISR = "the ISR is below min ISR"
    REPLICAS_MISSING = "unclean-election support is on and a replica is outside the ISR"
    RECORDS_FETCHED = "a fetch response with records"
    SOURCE_LEADER_LOST = "the source's leader moved, is fenced or unreachable"
    OFFSET_OUT_OF_RANGE = "the source answered OFFSET_OUT_OF_RANGE"
    DIVERGED = "the source's epochs diverge or its log ends before ours"
    SOURCE_REJECTED = "malformed batch, other topic id, or a source that lost its log"
    FETCHER_REMOVED = "the fetcher no longer owns the partition"
    SOURCE_TOPIC_DELETED = "the source topic is unknown in two consecutive refreshes"
    STOP_COMPLETED = "all steps of stopping are done"
    STEP_FAILED = "a step of stopping failed"
    LEADERSHIP_GAINED = "this broker became leader and loaded the state"
    LEADERSHIP_LOST = "this broker is leader no longer"
    UNCLEAN_ELECTION = "the destination's leader was elected uncleanly"
    CONFIG_ALTERED = "the mirror's configuration was altered"
    TOPIC_DELETED = "the destination topic was deleted"
    SOURCE_CLUSTER_CHANGED = "the source's cluster id differs from the remembered one"
    STORAGE_FAILED = "a local storage error"


class MirrorGuard(Enum):
    """What tells rows of one (state, event) pair apart."""

    ALWAYS = "always"
    SOURCE_TOPIC_SAME = "the source topic exists with the local topic id, or the source has no ids"
    SOURCE_TOPIC_OTHER = "the source topic is missing or has another id"
    RESET_IS_LAST = "D4 step 0 holds: an own reset is the log's last batch"
    RESET_MISSING = "D4 step 0 does not hold"
    RESET_LOST = "a stored LME, and no batch of a higher epoch: the reset was lost"
    RESET_THERE = "the log still ends in an epoch above the stored LME, or none is stored"
    DEADLINE_AHEAD = "2 x replica.lag.time.max.ms have not passed"
    DEADLINE_PASSED = "2 x replica.lag.time.max.ms have passed"
    UNCLEAN_SUPPORTED = "mirror.support.unclean.leader.election is true"
    UNCLEAN_UNSUPPORTED = "mirror.support.unclean.leader.election is false"


class MirrorAction(Enum):
    """What the driver does after the next state is committed, in the order listed."""

    PREPARE = "run D5"
    STOP = "run D4"
    START_FETCHER = "create the fetcher at the local log end offset"
    REMOVE_FETCHER = "remove the fetcher and wait until it no longer owns the partition"
    SUSPEND_FETCHER = "stop fetching and metadata sync until the source is the known one"
    RECREATE_FETCHER = "close and rebuild the connections"
    BUMP_IF_NEEDED = "bump the leader epoch when it is not above the log's latest batch epoch"
    REWRITE = "append the same state as a new record first; reload when that is refused"
    RETRY = "try again after the backoff"
    LOG = "say so in the log"
    APPEND = "append the batches unchanged; the log start follows the source"
    RESOLVE_LEADER = "find the source's leader again"
    TRUNCATE = "truncate where the fetch protocol says"
    PAUSE_NAME = "have the controller set mirror.name to X.paused first"
    OPEN_WRITES = "clear the read-only flag"
    FENCE_WRITES = "answer Produce with NOT_LEADER_OR_FOLLOWER until the reset is written again"
    FORGET = "drop cached state and pending work"
    REMOVE_TOPIC = "WriteMirrorStates with RemovedTopics"


class Row(NamedTuple):
    """One row of the table. `next_state` None: the state stays."""

    number: str
    state: MirrorPartitionState
    event: MirrorEvent
    guard: MirrorGuard
    next_state: MirrorPartitionState | None
    actions: tuple[MirrorAction, ...]

    @property
    def is_illegal(self) -> bool:
        return self.number == ILLEGAL


IGNORED: Final = "ignored"
ILLEGAL: Final = "illegal"

_S = MirrorPartitionState
_E = MirrorEvent
_G = MirrorGuard
_A = MirrorAction

PERSISTED_STATES: Final = (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED)

VALID_TRANSITIONS: Final[dict[MirrorPartitionState, frozenset[MirrorPartitionState]]] = {
    _S.UNKNOWN: frozenset({_S.PREPARING, _S.STOPPING, _S.STOPPED, _S.FAILED}),
    _S.PREPARING: frozenset({_S.MIRRORING, _S.STOPPING, _S.FAILED}),
    _S.MIRRORING: frozenset({_S.PREPARING, _S.PAUSING, _S.STOPPING, _S.FAILED}),
    _S.PAUSING: frozenset({_S.PAUSED, _S.STOPPING, _S.FAILED}),
    _S.PAUSED: frozenset({_S.MIRRORING, _S.STOPPING, _S.FAILED}),
    _S.STOPPING: frozenset({_S.STOPPED, _S.FAILED}),
    _S.STOPPED: frozenset({_S.PREPARING, _S.FAILED}),
    _S.FAILED: frozenset({_S.STOPPING}),
}
"""D2. Of UNKNOWN's, STOPPING needs `.removed` and STOPPED needs D3-20b; of MIRRORING's, PREPARING needs D3-31."""


def is_valid_transition(current: MirrorPartitionState, following: MirrorPartitionState) -> bool:
    """Whether `following` may be written while `current` is stored; the same state again always may."""
    return current is following or following in VALID_TRANSITIONS[current]


def _rows() -> Iterator[Row]:
    def row(
        number: str,
        state: MirrorPartitionState,
        event: MirrorEvent,
        next_state: MirrorPartitionState | None,
        *actions: MirrorAction,
        guard: MirrorGuard = _G.ALWAYS,
    ) -> Row:
        return Row(number, state, event, guard, next_state, actions)

    active = (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.PAUSED, _S.FAILED)
    yield row("D3-1", _S.UNKNOWN, _E.RUN_WANTED, _S.PREPARING, _A.PREPARE)
    yield row("D3-1", _S.UNKNOWN, _E.PAUSE_WANTED, _S.PREPARING, _A.PREPARE)
    yield row("D3-2", _S.UNKNOWN, _E.STATE_UNAVAILABLE, None, _A.RETRY)
    yield row("D3-4", _S.STOPPED, _E.RUN_WANTED, _S.PREPARING, _A.PREPARE, guard=_G.SOURCE_TOPIC_SAME)
    yield row("D3-5", _S.STOPPED, _E.RUN_WANTED, None, _A.LOG, _A.RETRY, guard=_G.SOURCE_TOPIC_OTHER)
    yield row("D3-6", _S.PREPARING, _E.TRUNCATED, _S.MIRRORING, _A.START_FETCHER)
    yield row("D3-7", _S.PREPARING, _E.LAST_MIRROR_EPOCH_UNKNOWN, None, _A.LOG, _A.RETRY)
    yield row("D3-8", _S.PREPARING, _E.BELOW_MIN_ISR, None, _A.LOG, _A.RETRY)
    yield row("D3-9", _S.PREPARING, _E.REPLICAS_MISSING, None, _A.LOG, _A.RETRY, guard=_G.DEADLINE_AHEAD)
    yield row("D3-10", _S.PREPARING, _E.REPLICAS_MISSING, _S.FAILED, _A.LOG, guard=_G.DEADLINE_PASSED)
    yield row("D3-11", _S.PREPARING, _E.LAST_MIRROR_EPOCH_NONE, None, _A.TRUNCATE)
    yield row("D3-12", _S.MIRRORING, _E.RECORDS_FETCHED, None, _A.APPEND)
    yield row("D3-13", _S.MIRRORING, _E.SOURCE_LEADER_LOST, None, _A.RESOLVE_LEADER, _A.RETRY)
    yield row("D3-13", _S.PREPARING, _E.SOURCE_LEADER_LOST, None, _A.RESOLVE_LEADER, _A.RETRY)
    yield row("D3-14", _S.MIRRORING, _E.OFFSET_OUT_OF_RANGE, None, _A.TRUNCATE)
    yield row("D3-15", _S.MIRRORING, _E.DIVERGED, None, _A.LOG, _A.TRUNCATE)
    yield row("D3-16", _S.MIRRORING, _E.SOURCE_REJECTED, _S.FAILED, _A.LOG, _A.REMOVE_FETCHER)
    yield row("D5-1", _S.PREPARING, _E.SOURCE_REJECTED, _S.FAILED, _A.LOG)
    yield row("D3-17", _S.MIRRORING, _E.PAUSE_WANTED, _S.PAUSING, _A.REMOVE_FETCHER)
    yield row("D3-18", _S.PAUSING, _E.FETCHER_REMOVED, _S.PAUSED)
    yield row("D3-19", _S.PAUSED, _E.RUN_WANTED, _S.MIRRORING, _A.START_FETCHER)
    yield row("D3-20a", _S.UNKNOWN, _E.STOP_WANTED, _S.STOPPING, _A.STOP, guard=_G.RESET_MISSING)
    yield row("D3-20b", _S.UNKNOWN, _E.STOP_WANTED, _S.STOPPED, _A.BUMP_IF_NEEDED, _A.OPEN_WRITES, guard=_G.RESET_IS_LAST)
    for state in active:
        yield row("D3-21", state, _E.STOP_WANTED, _S.STOPPING, _A.STOP)
        yield row("D3-22", state, _E.SOURCE_TOPIC_DELETED, _S.STOPPING, _A.PAUSE_NAME, _A.STOP)
    yield row("D3-23", _S.STOPPING, _E.STOP_COMPLETED, _S.STOPPED, _A.OPEN_WRITES)
    yield row("D3-24", _S.STOPPING, _E.STEP_FAILED, None, _A.LOG, _A.RETRY)
    yield row("D3-25", _S.STOPPED, _E.STOP_WANTED, None)
    for state in _S:
        yield row("D3-26", state, _E.LEADERSHIP_LOST, None, _A.REMOVE_FETCHER, _A.FORGET)
    yield row("D3-27", _S.MIRRORING, _E.LEADERSHIP_GAINED, None, _A.START_FETCHER)
    yield row("D3-28", _S.PREPARING, _E.LEADERSHIP_GAINED, None, _A.REWRITE, _A.PREPARE)
    yield row("D3-29", _S.STOPPING, _E.LEADERSHIP_GAINED, None, _A.REWRITE, _A.STOP)
    yield row("D3-29b", _S.STOPPED, _E.LEADERSHIP_GAINED, None, _A.FENCE_WRITES, _A.STOP, _A.OPEN_WRITES, guard=_G.RESET_LOST)
    yield row("D3-29c", _S.STOPPED, _E.LEADERSHIP_GAINED, None, _A.OPEN_WRITES, guard=_G.RESET_THERE)
    yield row("D3-30", _S.PAUSING, _E.LEADERSHIP_GAINED, _S.PAUSED)
    yield row("D3-30", _S.PAUSED, _E.LEADERSHIP_GAINED, None)
    yield row(IGNORED, _S.FAILED, _E.LEADERSHIP_GAINED, None)
    yield row(IGNORED, _S.UNKNOWN, _E.LEADERSHIP_GAINED, None)
    yield row("D3-31", _S.MIRRORING, _E.UNCLEAN_ELECTION, _S.PREPARING, _A.LOG, _A.PREPARE, guard=_G.UNCLEAN_SUPPORTED)
    yield row("D3-31", _S.MIRRORING, _E.UNCLEAN_ELECTION, None, _A.LOG, guard=_G.UNCLEAN_UNSUPPORTED)
    for state in _S:
        yield row("D3-32", state, _E.CONFIG_ALTERED, None, *((_A.RECREATE_FETCHER,) if state is _S.MIRRORING else ()))
        yield row("D3-34", state, _E.TOPIC_DELETED, None, _A.REMOVE_TOPIC, _A.FORGET)
    yield row("D3-33", _S.STOPPED, _E.NAME_CLEARED, None, _A.FORGET)
    yield row("D3-33", _S.UNKNOWN, _E.NAME_CLEARED, None, _A.FORGET)
    yield row("D3-35", _S.MIRRORING, _E.SOURCE_CLUSTER_CHANGED, None, _A.SUSPEND_FETCHER, _A.LOG)
    yield row("D3-35", _S.PREPARING, _E.SOURCE_CLUSTER_CHANGED, None, _A.LOG, _A.RETRY)
    for state in _S:
        if state is not _S.FAILED:
            yield row("D3-37", state, _E.STORAGE_FAILED, None, _A.LOG, _A.REMOVE_FETCHER, _A.RETRY)


_NOTHING_TO_DO: Final[dict[MirrorEvent, tuple[MirrorPartitionState, ...]]] = {
    # what is wanted is so already, is on its way, or waits for an operator
    _E.RUN_WANTED: (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.STOPPING, _S.FAILED),
    _E.PAUSE_WANTED: (_S.PREPARING, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.STOP_WANTED: (_S.STOPPING,),
    # answers that were under way when the state moved on
    _E.STATE_UNAVAILABLE: PERSISTED_STATES,
    _E.FETCHER_REMOVED: (_S.UNKNOWN, _S.PREPARING, _S.MIRRORING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.RECORDS_FETCHED: tuple(state for state in _S if state is not _S.MIRRORING),
    _E.SOURCE_LEADER_LOST: (_S.UNKNOWN, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.OFFSET_OUT_OF_RANGE: tuple(state for state in _S if state is not _S.MIRRORING),
    _E.DIVERGED: tuple(state for state in _S if state is not _S.MIRRORING),
    _E.SOURCE_REJECTED: (_S.UNKNOWN, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.SOURCE_TOPIC_DELETED: (_S.UNKNOWN, _S.STOPPING, _S.STOPPED),
    _E.UNCLEAN_ELECTION: tuple(state for state in _S if state is not _S.MIRRORING),
    _E.SOURCE_CLUSTER_CHANGED: tuple(state for state in _S if state not in (_S.MIRRORING, _S.PREPARING)),
    _E.STORAGE_FAILED: (_S.FAILED,),
}


def _build_table() -> dict[tuple[MirrorPartitionState, MirrorEvent], tuple[Row, ...]]:
    table: dict[tuple[MirrorPartitionState, MirrorEvent], list[Row]] = {}
    for row in _rows():
        table.setdefault((row.state, row.event), []).append(row)
    for event, states in _NOTHING_TO_DO.items():
        for state in states:
            table.setdefault((state, event), []).append(Row(IGNORED, state, event, _G.ALWAYS, None, ()))
    for state in _S:
        for event in _E:
            table.setdefault((state, event), [Row(ILLEGAL, state, event, _G.ALWAYS, None, (_A.LOG,))])
    return {pair: tuple(rows) for pair, rows in table.items()}


TABLE: Final = _build_table()


def lookup(state: MirrorPartitionState, event: MirrorEvent, guard: MirrorGuard = MirrorGuard.ALWAYS) -> Row:
    """The one row of (state, event) under `guard`; a pair that does not look at the guard ignores it."""
    rows = TABLE[(state, event)]
    if len(rows) == 1 and rows[0].guard is MirrorGuard.ALWAYS:
        return rows[0]
    for row in rows:
        if row.guard is guard:
            return row
    raise ValueError(f"({state.name}, {event.name}) has no row for the guard {guard.name}")


class WantedState(Enum):
    """What `mirror.name` asks for."""

    NOT_MIRRORED = MirrorEvent.NAME_CLEARED
    RUN = MirrorEvent.RUN_WANTED
    PAUSE = MirrorEvent.PAUSE_WANTED
    STOP = MirrorEvent.STOP_WANTED

    @property
    def event(self) -> MirrorEvent:
        event: MirrorEvent = self.value
        return event


def wanted_state(association: MirrorAssociation | None) -> WantedState:
    """What the parsed `mirror.name` asks for; None when the topic has none."""
    if association is None:
        return WantedState.NOT_MIRRORED
    if association.removed:
        return WantedState.STOP
    return WantedState.PAUSE if association.paused else WantedState.RUN
