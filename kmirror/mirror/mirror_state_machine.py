"""The state machine of one mirrored partition, as a table that the driver executes.

Each partition of a mirror topic has one machine. The leader of the *destination* partition runs it,
and the coordinator of (mirror, topic id, partition) stores its state in `__mirror_state`. Three
rules make it safe:

* *Persist, then act.* A transition is committed as a type-2 record before anything is done about it. A crash at any moment
  leaves a state from which the work can be done again, and every step of the work is idempotent.
* *Levels, not edges.* What is wanted is read off the topic's `mirror.name` (`X` run, `X.paused` pause, `….removed` stop,
  absent: not mirrored). It is looked at again after every transition, state load, leader change and refresh. No event can
  be missed, because nothing is remembered of events.
* *One table.* `TABLE` has a row, or several told apart by their guards, for each state and event, and `MirrorPartition`
  does nothing but execute it: what a row says comes `first`, then its next state is committed, then what comes `then`. Rows
  without any of these are pairs in which nothing is to be done (`IGNORED`) or which must not happen (`ILLEGAL`: logged).

The work of a state (aligning, fetching, stopping) goes on while the machine is in it, and ends in
an event of its own; `MirrorPartition.WORK` lists it by state. Everything else that can happen to a
partition changes no state, and `ELSEWHERE` says which code handles it.

`VALID_TRANSITIONS` says which state may follow which and is what WriteMirrorStates checks; the
table's rows stay inside it (asserted by the tests). The same state again is always allowed and
writes nothing, except where a row says `REWRITE_STATE`: after gaining leadership in PREPARING or
STOPPING, the leader first appends the same state as a new record, so that an isolated old
coordinator cannot answer with an outdated state (F19).

Numbers such as D3-16 are rules of docs/RULES.md, whose diagram of the states is drawn from this
table (`tools/state_diagram.py`). A storage error concerns the replica, not the partition: nothing
is written, because FAILED would outlive the leader whose disk it was, and healthy replicas take
over (D3-37). With FAILED, as in the KIP, an operator would be needed where an election is enough.
Known holes, inherent in the KIP: failback discards what lies beyond the failover point; the cut at
STOPPING discards open transactions and what is interleaved with them; a cycle over three clusters
empties all three.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from kmirror.metadata.mirror_names import MirrorAssociation


class MirrorPartitionState(IntEnum):
    """The state bytes of records and RPCs (revision kip-2026-04).

    UNKNOWN is never stored; on the wire it means "no state".
    """

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
        """The state of a wire or record byte; -1 is read as UNKNOWN too.

        ValueError for any other number.
        """
        return cls.UNKNOWN if value == -1 else cls(value)

    @property
    def read_only(self) -> bool:
        """Whether clients' writes are refused (D1).

        UNKNOWN refuses too, but with a retriable error (C38).
        """
        return self is not MirrorPartitionState.STOPPED


class MirrorEvent(Enum):
    """What moves a machine.

    The first three are levels read off `mirror.name`; the rest are moments.
    """

    RUN_WANTED = "mirror.name is X"
    PAUSE_WANTED = "mirror.name is X.paused"
    STOP_WANTED = "mirror.name ends .removed"
    ALIGNED = "the leader's log and all replicas that count are cut to what the source has"
    REPLICAS_MISSING = "unclean-election support is on and a replica is outside the ISR"
    SOURCE_REJECTED = "malformed batch, other topic id, or a source that lost its log"
    FETCHER_REMOVED = "the fetcher no longer owns the partition"
    SOURCE_TOPIC_DELETED = "the source topic is unknown in two consecutive refreshes"
    STOP_COMPLETED = "all steps of stopping are done"
    LEADERSHIP_GAINED = "this broker became leader and loaded the state"
    UNCLEAN_ELECTION = "the destination's leader was elected uncleanly"
    STORAGE_FAILED = "a local storage error"


class MirrorGuard(Enum):
    """The condition that distinguishes the rows of one (state, event) pair."""

    ALWAYS = "always"
    SOURCE_TOPIC_SAME = "the source topic exists with the local topic id, or the source has no ids"
    SOURCE_TOPIC_OTHER = "the source topic is missing or has another id"
    RESET_IS_LAST = "the log's last batch is a reset that this cluster wrote when it stopped mirroring (D4, step 0)"
    RESET_MISSING = "the log does not end with a reset that this cluster wrote (D4, step 0)"
    RESET_LOST = "a last mirror epoch is stored, and no batch has a higher leader epoch: the reset was lost"
    RESET_THERE = "the log ends in a leader epoch above the stored last mirror epoch, or none is stored"
    DEADLINE_AHEAD = "2 x replica.lag.time.max.ms have not passed"
    DEADLINE_PASSED = "2 x replica.lag.time.max.ms have passed"
    UNCLEAN_SUPPORTED = "mirror.support.unclean.leader.election is true"
    UNCLEAN_UNSUPPORTED = "mirror.support.unclean.leader.election is false"


class MirrorAction(Enum):
    """What the driver does for a row (`MirrorActions` has a method for each)."""

    BUMP_IF_NEEDED = "raise the leader epoch unless it is above the log's latest batch epoch"
    LOG_ILLEGAL = "log that this must not happen"
    LOG_UNCLEAN = "log that the leader was elected uncleanly, unless its one replica is the log"
    PAUSE_NAME = "have the controller set mirror.name to X.paused"
    PREPARE_AGAIN = "remember that it has mirrored: the guard against a source that lost its log holds"
    REMOVE_FETCHER = "take the partition from its fetcher"
    RETRY = "log the reason once, and try again after mirror.truncation.backoff.ms"
    REWRITE_STATE = "append the state again as a new record"
    TELL_DISK_FAILURE = "log the failing disk once, and try again after mirror.truncation.backoff.ms"
    WAIT = "show the reason, and look again when something has changed"
    WRITE_RESET_AGAIN = "run the steps of stopping once more, while Produce gets NOT_LEADER_OR_FOLLOWER"


class Row(NamedTuple):
    """One row of the table. `next_state` None: the state stays."""

    number: str
    state: MirrorPartitionState
    event: MirrorEvent
    guard: MirrorGuard
    first: tuple[MirrorAction, ...]
    """The actions before the next state is committed, in order."""
    next_state: MirrorPartitionState | None
    then: tuple[MirrorAction, ...]
    """The actions after that, in order. The last one says when the next step is due."""

    @property
    def is_empty(self) -> bool:
        return self.next_state is None and not self.first and not self.then


class Elsewhere(NamedTuple):
    """A rule that changes no state: what happens, and the `module:name` in `kmirror.mirror` that
    handles it.
    """

    number: str
    what: str
    by: str


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
"""Which state may follow which (D2).

From UNKNOWN, STOPPING needs `.removed` and STOPPED needs the reset to be the last batch (D3-20b).
From MIRRORING, PREPARING needs an unclean election (D3-31).
"""


def is_valid_transition(current: MirrorPartitionState, following: MirrorPartitionState) -> bool:
    """Whether `following` may be written while `current` is stored; the same state may always be
    written again.
    """
    return current is following or following in VALID_TRANSITIONS[current]


def _rows() -> Iterator[Row]:
    def row(
        number: str,
        state: MirrorPartitionState,
        event: MirrorEvent,
        next_state: MirrorPartitionState | None,
        *then: MirrorAction,
        guard: MirrorGuard = _G.ALWAYS,
        first: tuple[MirrorAction, ...] = (),
    ) -> Row:
        return Row(number, state, event, guard, first, next_state, then)

    active = (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.PAUSED, _S.FAILED)
    yield row("D3-1", _S.UNKNOWN, _E.RUN_WANTED, _S.PREPARING)
    yield row("D3-1", _S.UNKNOWN, _E.PAUSE_WANTED, _S.PREPARING)
    yield row("D3-4", _S.STOPPED, _E.RUN_WANTED, _S.PREPARING, guard=_G.SOURCE_TOPIC_SAME)
    yield row("D3-5", _S.STOPPED, _E.RUN_WANTED, None, _A.WAIT, guard=_G.SOURCE_TOPIC_OTHER)
    yield row("D3-6", _S.PREPARING, _E.ALIGNED, _S.MIRRORING)
    yield row("D3-9", _S.PREPARING, _E.REPLICAS_MISSING, None, _A.RETRY, guard=_G.DEADLINE_AHEAD)
    yield row("D3-10", _S.PREPARING, _E.REPLICAS_MISSING, _S.FAILED, _A.REMOVE_FETCHER, guard=_G.DEADLINE_PASSED)
    yield row("D3-16", _S.MIRRORING, _E.SOURCE_REJECTED, _S.FAILED, _A.REMOVE_FETCHER)
    yield row("D5-1", _S.PREPARING, _E.SOURCE_REJECTED, _S.FAILED, _A.REMOVE_FETCHER)
    yield row("D3-17", _S.MIRRORING, _E.PAUSE_WANTED, _S.PAUSING, _A.REMOVE_FETCHER)
    yield row("D3-18", _S.PAUSING, _E.FETCHER_REMOVED, _S.PAUSED)
    yield row("D3-19", _S.PAUSED, _E.RUN_WANTED, _S.MIRRORING)
    yield row("D3-20a", _S.UNKNOWN, _E.STOP_WANTED, _S.STOPPING, _A.REMOVE_FETCHER, guard=_G.RESET_MISSING)
    yield row("D3-20b", _S.UNKNOWN, _E.STOP_WANTED, _S.STOPPED, guard=_G.RESET_IS_LAST, first=(_A.BUMP_IF_NEEDED,))
    for state in active:
        yield row("D3-21", state, _E.STOP_WANTED, _S.STOPPING, _A.REMOVE_FETCHER)
        yield row("D3-22", state, _E.SOURCE_TOPIC_DELETED, _S.STOPPING, _A.REMOVE_FETCHER, first=(_A.PAUSE_NAME,))
    yield row("D3-23", _S.STOPPING, _E.STOP_COMPLETED, _S.STOPPED)
    yield row("D3-25", _S.STOPPED, _E.STOP_WANTED, None)
    yield row("D3-27", _S.MIRRORING, _E.LEADERSHIP_GAINED, None)
    yield row("D3-28", _S.PREPARING, _E.LEADERSHIP_GAINED, None, first=(_A.REWRITE_STATE,))
    yield row("D3-29", _S.STOPPING, _E.LEADERSHIP_GAINED, None, first=(_A.REWRITE_STATE,))
    yield row("D3-29b", _S.STOPPED, _E.LEADERSHIP_GAINED, None, guard=_G.RESET_LOST, first=(_A.WRITE_RESET_AGAIN,))
    yield row("D3-29c", _S.STOPPED, _E.LEADERSHIP_GAINED, None, guard=_G.RESET_THERE)
    yield row("D3-30", _S.PAUSING, _E.LEADERSHIP_GAINED, _S.PAUSED)
    yield row("D3-30", _S.PAUSED, _E.LEADERSHIP_GAINED, None)
    unclean = (_A.LOG_UNCLEAN, _A.REMOVE_FETCHER, _A.PREPARE_AGAIN)
    yield row("D3-31", _S.MIRRORING, _E.UNCLEAN_ELECTION, _S.PREPARING, guard=_G.UNCLEAN_SUPPORTED, first=unclean)
    yield row("D3-31", _S.MIRRORING, _E.UNCLEAN_ELECTION, None, guard=_G.UNCLEAN_UNSUPPORTED, first=(_A.LOG_UNCLEAN,))
    for state in _S:
        if state is not _S.FAILED:
            yield row("D3-37", state, _E.STORAGE_FAILED, None, _A.REMOVE_FETCHER, _A.TELL_DISK_FAILURE)
    yield row("D3-37", _S.FAILED, _E.STORAGE_FAILED, None, _A.RETRY)


_NOTHING_TO_DO: Final[dict[MirrorEvent, tuple[MirrorPartitionState, ...]]] = {
    # what is wanted is so already, is on its way, or waits for an operator
    _E.RUN_WANTED: (_S.PREPARING, _S.MIRRORING, _S.PAUSING, _S.STOPPING, _S.FAILED),
    _E.PAUSE_WANTED: (_S.PREPARING, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.STOP_WANTED: (_S.STOPPING,),
    # what was under way when the state moved on
    _E.FETCHER_REMOVED: (_S.UNKNOWN, _S.PREPARING, _S.MIRRORING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.SOURCE_REJECTED: (_S.UNKNOWN, _S.PAUSING, _S.PAUSED, _S.STOPPING, _S.STOPPED, _S.FAILED),
    _E.SOURCE_TOPIC_DELETED: (_S.UNKNOWN, _S.STOPPING, _S.STOPPED),
    _E.UNCLEAN_ELECTION: tuple(state for state in _S if state is not _S.MIRRORING),
    _E.LEADERSHIP_GAINED: (_S.FAILED, _S.UNKNOWN),
}

ELSEWHERE: Final = (
    Elsewhere("D3-2", "the coordinator is not available, or loads", "partition.mirror_partition_status:MirrorPartitionStatus.load"),
    Elsewhere("D3-7", "the source cannot tell its last mirror epoch now", "source.last_mirror_epoch:decide_last_mirror_epoch"),
    Elsewhere("D3-8", "the ISR is below min ISR", "partition.preparing:Preparing.wait_for_replicas"),
    Elsewhere("D3-11", "the source has no last mirror epoch", "partition.preparing:Preparing.align"),
    Elsewhere("D3-12", "records are fetched", "fetch.mirror_fetcher:MirrorFetcher._append"),
    Elsewhere("D3-13", "the source's leader moved, is fenced or unreachable", "fetch.mirror_fetcher:MirrorFetcher._find_leader"),
    Elsewhere("D3-14", "the source answers OFFSET_OUT_OF_RANGE", "logs.log_verifier:out_of_range"),
    Elsewhere("D3-15", "the source's epochs diverge, or its log ends before ours", "logs.log_verifier:diverged"),
    Elsewhere("D3-24", "a step fails", "partition.mirror_partition:MirrorPartition._try_step"),
    Elsewhere("D3-26", "the leadership is lost", "partition.mirror_partition:MirrorPartition.resign"),
    Elsewhere("D3-32", "the mirror's configuration is altered", "mirror_manager:MirrorManager._reconnect"),
    Elsewhere("D3-33", "the mirror is deleted", "coordination.mirror_coordinator_shard:MirrorCoordinatorShard.delete_mirror"),
    Elsewhere("D3-34", "the destination topic is deleted", "mirror_manager:MirrorManager._forget_deleted_topic"),
    Elsewhere("D3-35", "another source cluster answers", "source.mirror:Mirror.check_not_suspended"),
)
"""Rules of D3 that commit no state; each has code of its own."""


def _build_table() -> dict[tuple[MirrorPartitionState, MirrorEvent], tuple[Row, ...]]:
    table: dict[tuple[MirrorPartitionState, MirrorEvent], list[Row]] = {}
    for row in _rows():
        table.setdefault((row.state, row.event), []).append(row)
    for event, states in _NOTHING_TO_DO.items():
        for state in states:
            table.setdefault((state, event), []).append(Row(IGNORED, state, event, _G.ALWAYS, (), None, ()))
    for state in _S:
        for event in _E:
            table.setdefault((state, event), [Row(ILLEGAL, state, event, _G.ALWAYS, (), None, (_A.LOG_ILLEGAL,))])
    return {pair: tuple(rows) for pair, rows in table.items()}


TABLE: Final = _build_table()


def lookup(state: MirrorPartitionState, event: MirrorEvent, guard: MirrorGuard = MirrorGuard.ALWAYS) -> Row:
    """The one row of (state, event) under `guard`, which is ignored if the pair's only row holds
    always.
    """
    rows = TABLE[(state, event)]
    if len(rows) == 1 and rows[0].guard is MirrorGuard.ALWAYS:
        return rows[0]
    for row in rows:
        if row.guard is guard:
            return row
    raise ValueError(f"({state.name}, {event.name}) has no row for the guard {guard.name}")


class WantedState(Enum):
    """What `mirror.name` asks for."""

    NOT_MIRRORED = "mirror.name was deleted"
    RUN = MirrorEvent.RUN_WANTED
    PAUSE = MirrorEvent.PAUSE_WANTED
    STOP = MirrorEvent.STOP_WANTED

    @property
    def event(self) -> MirrorEvent:
        """The level that a mirrored topic's `mirror.name` stands for."""
        assert isinstance(self.value, MirrorEvent), "a topic of no mirror has no machine"
        return self.value


def wanted_state(association: MirrorAssociation | None) -> WantedState:
    """What the parsed `mirror.name` asks for; None when the topic has none."""
    if association is None:
        return WantedState.NOT_MIRRORED
    if association.removed:
        return WantedState.STOP
    return WantedState.PAUSE if association.paused else WantedState.RUN
