"""What must hold of every history: pure functions from a `History` to the rules it breaks.

    prefix        a mirror appends nothing but what its source's log held next, byte for byte, gaps included
    read-only     no client's record gets into a partition while it is a mirror, none is acknowledged
    offsets       a leader's own appends leave no gap and no overlap
    epochs        leader epochs never fall; the reset's epoch is above every mirrored batch's
    alignment     after PREPARING no batch has an epoch above the last mirror epoch that the source stores (-1: no batch)
    transactions  STOPPING cuts to the LSO fixpoint and leaves no transaction open; more it cuts only while the fetcher still
                  follows its source (the state is written before the fetcher is stopped)
    reset         STOPPED is written when the last batch is a reset
    acknowledged  an acknowledged record is lost only where the KIP or Kafka says so (see `check_acknowledged`)
    recovery      after a restart a log holds valid batches only, and what was synced is there
    served        a reader gets valid bytes that the log has held
    converged     when everything has healed the destination equals the source, from the source's first batch on

Each walks the events in order, with `_Logs` keeping what the logs hold at that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.history import (
    Acknowledged,
    Appended,
    Batch,
    Converged,
    Event,
    History,
    LastMirrorEpochWritten,
    LogKey,
    Recovered,
    Reloaded,
    Removed,
    Served,
    StateLost,
    StateWritten,
)

FETCHING = (State.MIRRORING, State.PAUSING, State.STOPPING)
WRITABLE = (None, State.STOPPED)
NO_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, when, and in which words."""

    rule: str
    now_us: int
    text: str

    def __str__(self) -> str:
        return f"[{self.rule}] at {self.now_us / 1_000_000:.3f} s: {self.text}"


@dataclass(slots=True)
class _Logs:
    """Logs, states and chains as of the event being looked at."""

    history: History
    logs: dict[LogKey, list[Batch]] = field(default_factory=dict)
    chains: dict[LogKey, set[bytes]] = field(default_factory=dict)
    states: dict[LogKey, tuple[str, State]] = field(default_factory=dict)
    epochs: dict[tuple[LogKey, str], int] = field(default_factory=dict)

    def walk(self) -> Iterator[Event]:
        """Every event; the logs are as they were before it until the generator is resumed."""
        for event in self.history.events:
            yield event
            if isinstance(event, Appended):
                self.logs.setdefault(event.log, []).append(event.batch)
                self.chains.setdefault(event.log, set()).add(event.batch.chain)
            elif isinstance(event, Removed):
                gone = {batch.key for batch in event.batches}
                self.logs[event.log] = [batch for batch in self.log(event.log) if batch.key not in gone]
            elif isinstance(event, (Recovered, Reloaded)):
                self.logs[event.log] = list(event.batches)
            elif isinstance(event, (StateWritten, StateLost)):
                if event.state is None:
                    self.states.pop(event.log, None)
                else:
                    self.states[event.log] = (event.mirror_name, event.state)
            elif isinstance(event, LastMirrorEpochWritten):
                self.epochs[event.log, event.mirror_name] = event.epoch

    def log(self, key: LogKey) -> list[Batch]:
        return self.logs.get(key, [])

    def state(self, key: LogKey) -> State | None:
        found = self.states.get(key)
        return found[1] if found is not None else None

    def source(self, key: LogKey) -> LogKey | None:
        """The source log of a mirrored partition."""
        found = self.states.get(key)
        cluster = self.history.sources.get((key.cluster, found[0])) if found is not None else None
        return LogKey(cluster, key.partition) if cluster is not None else None

    def source_has(self, key: LogKey, batch: Batch) -> bool:
        """Whether the source's log is equal to this one up to and including `batch` now."""
        source = self.source(key)
        return source is not None and any(batch.chain == other.chain for other in self.log(source))

    def is_of_source(self, key: LogKey, batch: Batch) -> bool:
        """Whether the source's log ever was equal to this one up to and including `batch`."""
        source = self.source(key)
        return source is not None and batch.chain in self.chains.get(source, ())


def check_prefix(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, Appended) and logs.state(event.log) not in WRITABLE and not _is_own_reset(logs, event):
            if not logs.is_of_source(event.log, event.batch) and not _is_clients(event):
                found.append(Violation("prefix", event.now_us, f"{event.log} appends {event.batch}, which its source never had there"))
            elif logs.state(event.log) not in FETCHING and not _is_clients(event):
                state = logs.states[event.log][1].name
                found.append(
                    Violation("prefix", event.now_us, f"{event.log} appends {event.batch} in state {state}, which fetches nothing")
                )
    return found


def _is_own_reset(logs: _Logs, event: Appended) -> bool:
    return event.batch.reset_source is not None and logs.state(event.log) is State.STOPPING


def _is_clients(event: Appended) -> bool:
    """Whether a client wrote this to this very cluster: what clients write begins with the cluster they write to."""
    return any(value.startswith(event.log.cluster.encode() + b"/") for value in event.batch.values)


def check_read_only(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    refused: set[tuple[LogKey, bytes]] = set()
    for event in logs.walk():
        if isinstance(event, Appended) and logs.state(event.log) not in WRITABLE:
            if _is_clients(event) and not logs.is_of_source(event.log, event.batch):
                refused.update((event.log, value) for value in event.batch.values)
                state = logs.states[event.log][1].name
                found.append(Violation("read-only", event.now_us, f"{event.log} takes a client's {event.batch} in state {state}"))
        elif isinstance(event, Acknowledged) and any((event.log, value) in refused for value in event.values):
            found.append(Violation("read-only", event.now_us, f"{event.log} acknowledges {event.client}'s write to a mirror"))
    return found


def check_offsets(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, Appended):
            log = logs.log(event.log)
            if not log:
                continue
            end = log[-1].last_offset + 1
            base = event.batch.base_offset
            if base < end or (base > end and logs.state(event.log) in WRITABLE):
                found.append(Violation("offsets", event.now_us, f"{event.log} ends at {end} and appends {event.batch}"))
    return found


def check_epochs(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if not isinstance(event, Appended):
            continue
        log, batch = logs.log(event.log), event.batch
        if log and batch.leader_epoch < log[-1].leader_epoch:
            found.append(Violation("epochs", event.now_us, f"{event.log} appends {batch} after {log[-1]}"))
        if batch.reset_source is not None and logs.state(event.log) in (State.STOPPING, State.STOPPED):
            above = [other for other in log if other.leader_epoch >= batch.leader_epoch and other.reset_source is None]
            if above:
                found.append(Violation("epochs", event.now_us, f"{event.log} appends {batch}, in the epoch of {above[-1]}"))
    return found


def check_alignment(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if not isinstance(event, StateWritten) or event.state is not State.MIRRORING or logs.state(event.log) is not State.PREPARING:
            continue
        source = logs.source(event.log)
        if source is None:
            continue
        mirrors_us = source in logs.states and history.sources.get((source.cluster, event.mirror_name)) == event.log.cluster
        epoch = logs.epochs.get((source, event.mirror_name), NO_EPOCH) if mirrors_us else NO_EPOCH
        above = [batch for batch in logs.log(event.log) if batch.leader_epoch > epoch]
        if above:
            found.append(
                Violation(
                    "alignment", event.now_us, f"{event.log} starts mirroring with {above[0]}; the source's last mirror epoch is {epoch}"
                )
            )
    return found


def open_transactions(batches: list[Batch]) -> dict[int, int]:
    """Producer id -> first offset of its open transaction; naive on purpose."""
    opened: dict[int, int] = {}
    for batch in batches:
        if batch.reset_source is not None:
            opened.clear()
        elif batch.is_transactional and batch.is_control:
            opened.pop(batch.producer_id, None)
        elif batch.is_transactional:
            opened.setdefault(batch.producer_id, batch.base_offset)
    return opened


def fixpoint(batches: list[Batch]) -> list[Batch]:
    """What is left when everything from the first open transaction on is cut, again and again."""
    left = list(batches)
    while opened := open_transactions(left):
        cut = min(opened.values())
        left = [batch for batch in left if batch.base_offset < cut]
    return left


def check_transactions(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, Appended) and event.batch.reset_source is not None and logs.state(event.log) is State.STOPPING:
            opened = open_transactions(logs.log(event.log))
            if opened:
                text = f"{event.log} gets its reset while transactions are open: {opened} (producer: first offset)"
                found.append(Violation("transactions", event.now_us, text))
        elif isinstance(event, Removed) and event.cause == "truncate" and logs.state(event.log) is State.STOPPING:
            kept = {batch.key for batch in fixpoint(logs.log(event.log))}
            excess = [batch for batch in event.batches if batch.key in kept and logs.source_has(event.log, batch)]
            if excess:
                found.append(Violation("transactions", event.now_us, f"{event.log} cuts {excess[0]}, which is below the LSO fixpoint"))
    return found


def check_reset(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, StateWritten) and event.state is State.STOPPED and logs.state(event.log) is State.STOPPING:
            log = logs.log(event.log)
            if not log or log[-1].reset_source is None:
                last = str(log[-1]) if log else "nothing"
                found.append(Violation("reset", event.now_us, f"{event.log} is STOPPED and its last batch is {last}, no reset"))
    return found


def check_acknowledged(history: History) -> list[Violation]:
    """An acknowledged record may go only

    * with the power, if it was not synced (Kafka acknowledges before it flushes; RF 1)
    * when a mirror is aligned with its source or follows its truncation, if the source's log does not have it: lag at failover,
      or written behind the failover's back
    * at the LSO cut of STOPPING (`check_transactions` says that it cuts no more than that)
    * by retention, or with its topic

    and must otherwise be in its cluster's log at the end.
    """
    found = []
    logs = _Logs(history)
    missing: dict[tuple[LogKey, bytes], tuple[int, str]] = {}
    acknowledged: dict[tuple[LogKey, bytes], Acknowledged] = {}
    excused: set[tuple[LogKey, bytes]] = set()
    for event in logs.walk():
        if isinstance(event, Acknowledged):
            present = {value for batch in logs.log(event.log) for value in batch.values}
            for value in event.values:
                key = (event.log, value)
                acknowledged[key] = event
                if value not in present and key not in missing and key not in excused:
                    found.append(
                        Violation("acknowledged", event.now_us, f"{event.log} acknowledges {value.decode()}, which is not in its log")
                    )
        elif isinstance(event, Removed):
            for batch in event.batches:
                reason = _excuse(logs, event, batch)
                for value in batch.values:
                    key = (event.log, value)
                    if reason is None:
                        missing[key] = (event.now_us, event.cause)
                    else:
                        excused.add(key)
    return found + _still_missing(logs, acknowledged, missing, excused)


def _excuse(logs: _Logs, event: Removed, batch: Batch) -> str | None:
    state = logs.state(event.log)
    if event.cause == "power loss":
        return None if batch.durable else "not synced"
    if event.cause in ("retention", "topic deleted"):
        return event.cause
    if state is State.STOPPING:
        return "LSO"
    if state in (State.PREPARING, State.MIRRORING):
        return None if logs.source_has(event.log, batch) else "the source does not have it"
    return None


def _still_missing(
    logs: _Logs,
    acknowledged: dict[tuple[LogKey, bytes], Acknowledged],
    missing: dict[tuple[LogKey, bytes], tuple[int, str]],
    excused: set[tuple[LogKey, bytes]],
) -> list[Violation]:
    found = []
    for (log, value), event in acknowledged.items():
        if (log, value) in excused:
            continue
        if not any(value in batch.values for batch in logs.log(log)):
            now_us, cause = missing.get((log, value), (event.now_us, "nothing that was seen"))
            text = f"{log} acknowledged {value.decode()} at {event.now_us / 1_000_000:.3f} s, lost it by {cause}, and it did not come back"
            found.append(Violation("acknowledged", now_us, text))
    return found


def check_recovery(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, Recovered):
            if event.invalid_position is not None:
                text = f"{event.log} serves a log whose bytes from position {event.invalid_position} on are no valid batch"
                found.append(Violation("recovery", event.now_us, text))
            kept = {batch.key for batch in event.batches}
            gone = [batch for batch in logs.log(event.log) if batch.key not in kept]
            if gone:
                found.append(Violation("recovery", event.now_us, f"{event.log} has lost {gone[0]} in a restart"))
        elif isinstance(event, Removed) and event.cause == "power loss":
            synced = [batch for batch in event.batches if batch.durable]
            if synced:
                found.append(Violation("recovery", event.now_us, f"{event.log} has lost {synced[0]}, which was synced"))
        elif isinstance(event, Removed) and event.cause == "recovery" and logs.state(event.log) in WRITABLE:
            found.append(Violation("recovery", event.now_us, f"recovery of {event.log} removes {event.batches[0]}, which is valid"))
    return found


def check_served(history: History) -> list[Violation]:
    found = []
    held: set[tuple[LogKey, int, bytes]] = set()
    for event in history.events:
        if isinstance(event, Appended):
            held.add((event.log, event.batch.base_offset, event.batch.digest))
        elif isinstance(event, Served):
            previous = -1
            for base_offset, digest, is_valid in event.batches:
                if not is_valid:
                    found.append(Violation("served", event.now_us, f"{event.log} serves a batch at {base_offset} whose CRC is wrong"))
                elif (event.log, base_offset, digest) not in held:
                    found.append(Violation("served", event.now_us, f"{event.log} serves a batch at {base_offset} that its log never had"))
                if base_offset <= previous:
                    found.append(Violation("served", event.now_us, f"{event.log} serves offset {base_offset} after {previous}"))
                previous = base_offset
    return found


def check_converged(history: History) -> list[Violation]:
    found = []
    logs = _Logs(history)
    for event in logs.walk():
        if isinstance(event, Converged):
            theirs, ours = logs.log(event.source), logs.log(event.destination)
            start = theirs[0].base_offset if theirs else 0
            ours = [batch for batch in ours if batch.base_offset >= start]
            if [batch.key for batch in theirs] != [batch.key for batch in ours]:
                text = _difference(theirs, ours)
                found.append(Violation("converged", event.now_us, f"{event.destination} does not equal {event.source}: {text}"))
    return found


def _difference(source: list[Batch], destination: list[Batch]) -> str:
    for ours, theirs in zip(destination, source, strict=False):
        if ours.digest != theirs.digest:
            return f"{ours} where the source has {theirs}"
    longer, which = (source, "is missing") if len(source) > len(destination) else (destination, "is too much")
    return f"{longer[min(len(source), len(destination))]} {which}"


CHECKERS: dict[str, Callable[[History], list[Violation]]] = {
    "prefix": check_prefix,
    "read-only": check_read_only,
    "offsets": check_offsets,
    "epochs": check_epochs,
    "alignment": check_alignment,
    "transactions": check_transactions,
    "reset": check_reset,
    "acknowledged": check_acknowledged,
    "recovery": check_recovery,
    "served": check_served,
    "converged": check_converged,
}


def check(history: History) -> list[Violation]:
    """All rules; violations in the order of time."""
    found = [violation for checker in CHECKERS.values() for violation in checker(history)]
    return sorted(found, key=lambda violation: violation.now_us)
