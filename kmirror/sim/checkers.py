"""What must hold of every history of a mirror. Each rule looks at the events in order, together
with what the logs hold at that moment (`Replay`).

    prefix        a mirror appends only what its source's log held next, byte for byte, gaps too
    read-only     no client's record gets into a partition while it is a mirror, and none is
                  acknowledged
    offsets       a leader's own appends leave no gap and no overlap; a mirror's leave no gap that
                  its source does not have
    epochs        leader epochs never fall; the reset's epoch is above that of every mirrored batch,
                  including those that STOPPING cut
    alignment     after PREPARING no batch has an epoch above the last mirror epoch that the source
                  stores (-1: no batch; `sim.alignment_checker`)
    transactions  STOPPING cuts to the LSO fixpoint and leaves no transaction open; it cuts more
                  only while the fetcher still follows its source (the state is written before the
                  fetcher is stopped)
    reset         when STOPPED is written, the last batch is a reset
    states        each state may follow the one before (D2); the same state is written again only
                  where a new leader repeats it (D3-28, D3-29)
    acknowledged  an acknowledged record is lost only where the KIP or Kafka says so
                  (`sim.acknowledgements`)
    recovery      after a restart a log holds valid batches only, and everything that was synced
    served        a reader gets valid bytes that the log has held
    front         nothing that the source still has is missing at the front of a mirror, and
                  retention takes nothing of that (`sim.front_checker`)
    converged     when everything has healed, the destination equals the source, from the source's
                  first batch on

In a fleet, a log is one replica's. What a follower copies was judged when its leader wrote it. A
leader that is cut off may not know of a state yet, and may take what it should refuse; such records
may neither be acknowledged nor stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.mirror.mirror_state_machine import is_valid_transition
from kmirror.sim.acknowledgements import Acknowledgements
from kmirror.sim.alignment_checker import AlignmentChecker
from kmirror.sim.events import (
    Acknowledged,
    Appended,
    Batch,
    Converged,
    Event,
    History,
    LogKey,
    MirrorStatesRead,
    Order,
    Recovered,
    Removed,
    Served,
    StateWritten,
)
from kmirror.sim.front_checker import FrontChecker
from kmirror.sim.open_transactions import fixpoint, open_transactions
from kmirror.sim.replay import Place, Replay
from kmirror.sim.topic_events import TopicGone

FETCHING = (State.MIRRORING, State.PAUSING, State.STOPPING)
WRITABLE = (None, State.STOPPED)
SAID_AGAIN = (State.PREPARING, State.STOPPING)


@dataclass(frozen=True, slots=True)
class Violation:
    """One breach of a rule: which rule, when, and a text that says what happened."""

    rule: str
    now_us: int
    text: str

    def __str__(self) -> str:
        return f"[{self.rule}] at {self.now_us / 1_000_000:.3f} s: {self.text}"


class Rule(Protocol):
    """Looks at each event, and once more at the end; yields (virtual time in us, what is wrong)."""

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]: ...

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]: ...


@dataclass(slots=True)
class _Each:
    """A rule that remembers nothing."""

    look: Callable[[Event, Replay], Iterator[str]]

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        for text in self.look(event, replay):
            yield event.now_us, text

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())


def _is_clients(event: Appended, replay: Replay) -> bool:
    """Returns whether a client wrote this batch to this very cluster."""
    return event.batch.is_from(replay.history.cluster_of(event.log))


def _prefix(event: Event, replay: Replay) -> Iterator[str]:
    if not isinstance(event, Appended):
        return
    state = replay.state(event.log)
    is_own_reset = event.batch.reset_source is not None and state is State.STOPPING
    if state in WRITABLE or is_own_reset or replay.is_copy(event) or _is_clients(event, replay):
        return
    if replay.is_fleet(event.log) and event.batch.is_control:
        return  # the marker or the reset of a former leader
    if not replay.is_of_source(event.log, event.batch):
        yield f"{event.log} appends {event.batch}, which its source never had there"
    elif state not in FETCHING and not replay.is_fleet(event.log):
        assert state is not None
        yield f"{event.log} appends {event.batch} in state {state.name}, which fetches nothing"


@dataclass(slots=True)
class _ReadOnly:
    """Finds records that a client got into a mirror; in a fleet, only those that were also
    acknowledged.
    """

    refused: set[tuple[Place, bytes]] = field(default_factory=set)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, Appended):
            yield from self._appended(event, replay)
        elif isinstance(event, Acknowledged) and any((replay.place(event.log), value) in self.refused for value in event.values):
            yield event.now_us, f"{event.log} acknowledges {event.client}'s write to a mirror"

    def _appended(self, event: Appended, replay: Replay) -> Iterator[tuple[int, str]]:
        state = replay.state(event.log)
        if state in WRITABLE or not _is_clients(event, replay):
            return
        if replay.is_fleet(event.log) and state is State.PREPARING:
            return  # its leader may not have heard yet that the state is written
        if not replay.is_copy(event) and not replay.is_of_source(event.log, event.batch):
            self.refused.update((replay.place(event.log), value) for value in event.batch.values)
            if not replay.is_fleet(event.log):
                assert state is not None
                yield event.now_us, f"{event.log} takes a client's {event.batch} in state {state.name}"

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())


def _offsets(event: Event, replay: Replay) -> Iterator[str]:
    log = replay.log(event.log) if isinstance(event, Appended) else []
    if isinstance(event, Appended) and log:
        end, base = log[-1].last_offset + 1, event.batch.base_offset
        if base < end or (base > end and replay.state(event.log) in WRITABLE):
            yield f"{event.log} ends at {end} and appends {event.batch}"
        elif base > end and replay.source_has_between(event.log, end, base):
            yield f"{event.log} ends at {end} and appends {event.batch}; its source has something between the two"


@dataclass(slots=True)
class _Epochs:
    """Owns, for each log, the largest epoch that STOPPING has cut (`cut`).

    Those epochs count too, since a replica that was away may come back with them (F15). The leader
    cannot know of batches above the high watermark that only other replicas had; such replicas
    compare their batches with the leader's when they return (C36b).
    """

    cut: dict[LogKey, int] = field(default_factory=dict)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, StateWritten) and replay.takes_effect and event.state is not State.STOPPED:
            if event.state is not replay.state(event.log):
                for replica in replay.replicas(replay.place(event.log)):
                    self.cut.pop(replica, None)
        elif isinstance(event, Removed) and event.cause == "truncate" and replay.state(event.log) is State.STOPPING:
            self.cut[event.log] = max(self.cut.get(event.log, NO_EPOCH), *(batch.leader_epoch for batch in event.batches))
        elif isinstance(event, Appended):
            yield from ((event.now_us, text) for text in self._appended(event, replay))

    def _appended(self, event: Appended, replay: Replay) -> Iterator[str]:
        log, batch = replay.log(event.log), event.batch
        if log and batch.leader_epoch < log[-1].leader_epoch:
            yield f"{event.log} appends {batch} after {log[-1]}"
        if batch.reset_source is not None and replay.state(event.log) in (State.STOPPING, State.STOPPED):
            above = [other for other in log if other.leader_epoch >= batch.leader_epoch and other.reset_source is None]
            if above:
                yield f"{event.log} appends {batch}, in the epoch of {above[-1]}"
            elif self._is_in_cut(event, replay) and replay.state(event.log) is State.STOPPING:
                yield f"{event.log} appends {batch} after cutting batches up to e{self.cut[event.log]}"

    def _is_in_cut(self, event: Appended, replay: Replay) -> bool:
        return self.cut.get(event.log, NO_EPOCH) >= event.batch.leader_epoch and not replay.is_copy(event)

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())


def _transactions(event: Event, replay: Replay) -> Iterator[str]:
    if isinstance(event, Appended) and event.batch.reset_source is not None and replay.state(event.log) is State.STOPPING:
        opened = open_transactions(replay.log(event.log)) if not replay.is_copy(event) else {}
        if opened:
            yield f"{event.log} gets its reset while transactions are open: {opened} (producer: first offset)"
    elif isinstance(event, Removed) and event.cause == "truncate" and replay.state(event.log) is State.STOPPING:
        if replay.is_fleet(event.log):
            return  # a follower follows its leader; the rule `acknowledged` judges what is lost for good
        kept = {batch.key for batch in fixpoint(replay.log(event.log))}
        excess = [batch for batch in event.batches if batch.key in kept and replay.source_has(event.log, batch)]
        if excess:
            yield f"{event.log} cuts {excess[0]}, which is below the LSO fixpoint"


def _reset(event: Event, replay: Replay) -> Iterator[str]:
    if not isinstance(event, StateWritten) or not replay.takes_effect:
        return
    if event.state is State.STOPPED and replay.state(event.log) is State.STOPPING:
        lasts = [replay.log(replica)[-1] for replica in replay.replicas(replay.place(event.log)) if replay.log(replica)]
        if all(last.reset_source is None for last in lasts):
            yield f"{event.log} is STOPPED and its last batch is {lasts[0] if lasts else 'nothing'}, no reset"


NOTHING = ("", State.UNKNOWN)


def _may_follow(before: State, after: State) -> bool:
    is_again = before is after and before not in SAID_AGAIN
    return not is_again and is_valid_transition(before, after)


@dataclass(slots=True)
class _States:
    """Checks the order of states; in a fleet, by the log of `__mirror_state` as it is in the end.

    When a topic is deleted, its states are forgotten (D3-34). No record says so if no last mirror
    epoch was stored, so the states that follow may begin anew.
    """

    now: dict[Place, tuple[str, State]] = field(default_factory=dict)
    since: dict[Place, int] = field(default_factory=dict)
    written: dict[tuple[Place, Order], int] = field(default_factory=dict)
    gone: dict[tuple[str, str], list[int]] = field(default_factory=dict)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, StateWritten):
            self.written.setdefault((replay.place(event.log), event.order), event.now_us)
        elif isinstance(event, TopicGone):
            self.gone.setdefault((event.cluster, event.topic), []).append(event.now_us)
        elif isinstance(event, MirrorStatesRead):
            for record in event.records:
                place = event.cluster, record.log.partition
                if isinstance(record, StateWritten):
                    yield from self._follow(place, record, event.now_us)
                elif record.epoch < 0 and self.now.get(place, NOTHING)[1] is State.STOPPED:
                    del self.now[place]  # the topic was deleted, and the coordinator forgot its states (D3-34)

    def _follow(self, place: Place, record: StateWritten, now_us: int) -> Iterator[tuple[int, str]]:
        mirror_name, before = self.now.pop(place, (record.mirror_name, State.UNKNOWN))
        since_us, self.since[place] = self.since.get(place, 0), self.written.get((place, record.order), 0)
        if record.state is None:
            return
        self.now[place] = (record.mirror_name, record.state)
        if mirror_name != record.mirror_name:
            before = State.UNKNOWN
        is_anew = any(since_us <= at_us <= self.since[place] for at_us in self.gone.get((place[0], place[1].topic), ()))
        if not any(_may_follow(state, record.state) for state in ((before, State.UNKNOWN) if is_anew else (before,))):
            yield now_us, f"{place[1]} of {place[0]} went from {before.name} to {record.state.name} at offset {record.order[1]}"

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())


def _recovery(event: Event, replay: Replay) -> Iterator[str]:
    if isinstance(event, Recovered):
        if event.invalid_position is not None:
            yield f"{event.log} serves a log whose bytes from position {event.invalid_position} on are no valid batch"
        kept = {batch.key for batch in event.batches}
        gone = [batch for batch in replay.log(event.log) if batch.key not in kept]
        if gone:
            yield f"{event.log} has lost {gone[0]} in a restart"
    elif isinstance(event, Removed) and event.cause == "power loss":
        synced = [batch for batch in event.batches if batch.durable]
        if synced:
            yield f"{event.log} has lost {synced[0]}, which was synced"
    elif (
        isinstance(event, Removed) and event.cause == "recovery" and replay.state(event.log) in WRITABLE and not replay.is_fleet(event.log)
    ):
        # (in a fleet, a node that starts may follow its leader before it says that it serves)
        yield f"recovery of {event.log} removes {event.batches[0]}, which is valid"


@dataclass(slots=True)
class _Served:
    held: set[tuple[LogKey, int, bytes]] = field(default_factory=set)

    def see(self, event: Event, replay: Replay) -> Iterator[tuple[int, str]]:
        if isinstance(event, Appended):
            self.held.add((event.log, event.batch.base_offset, event.batch.digest))
        elif isinstance(event, Served):
            previous = -1
            for base_offset, digest, is_valid in event.batches:
                if not is_valid:
                    yield event.now_us, f"{event.log} serves a batch at {base_offset} whose CRC is wrong"
                elif (event.log, base_offset, digest) not in self.held:
                    yield event.now_us, f"{event.log} serves a batch at {base_offset} that its log never had"
                if base_offset <= previous:
                    yield event.now_us, f"{event.log} serves offset {base_offset} after {previous}"
                previous = base_offset

    def end(self, replay: Replay) -> Iterator[tuple[int, str]]:
        return iter(())


def _converged(event: Event, replay: Replay) -> Iterator[str]:
    if isinstance(event, Converged):
        theirs, ours = replay.log(event.source), replay.log(event.destination)
        start = theirs[0].base_offset if theirs else 0
        ours = [batch for batch in ours if batch.base_offset >= start]
        if [batch.key for batch in theirs] != [batch.key for batch in ours]:
            yield f"{event.destination} does not equal {event.source}: {_difference(theirs, ours)}"


def _difference(source: list[Batch], destination: list[Batch]) -> str:
    for ours, theirs in zip(destination, source, strict=False):
        if ours.digest != theirs.digest:
            return f"{ours} where the source has {theirs}"
    longer, which = (source, "is missing") if len(source) > len(destination) else (destination, "is too much")
    return f"{longer[min(len(source), len(destination))]} {which}"


CHECKERS: dict[str, Callable[[], Rule]] = {
    "prefix": lambda: _Each(_prefix),
    "read-only": _ReadOnly,
    "offsets": lambda: _Each(_offsets),
    "epochs": _Epochs,
    "alignment": AlignmentChecker,
    "transactions": lambda: _Each(_transactions),
    "reset": lambda: _Each(_reset),
    "states": _States,
    "acknowledged": Acknowledgements,
    "recovery": lambda: _Each(_recovery),
    "served": _Served,
    "front": FrontChecker,
    "converged": lambda: _Each(_converged),
}


def check(history: History, names: Sequence[str] = tuple(CHECKERS)) -> list[Violation]:
    """Returns the violations of these rules, or of all, in the order of time."""
    rules = {name: CHECKERS[name]() for name in names}
    replay = Replay(history)
    found = []
    for event in replay.walk():
        for name, rule in rules.items():
            found += [Violation(name, now_us, text) for now_us, text in rule.see(event, replay)]
    for name, rule in rules.items():
        found += [Violation(name, now_us, text) for now_us, text in rule.end(replay)]
    return sorted(found, key=lambda violation: violation.now_us)
