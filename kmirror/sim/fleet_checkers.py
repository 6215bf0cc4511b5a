"""The rules that every history of a fleet must keep, as pure functions from a `History` to its
violations.

    acknowledged   a record that was acknowledged with acks=all is in the partition's final log, at its offset
    duplicates     no value of a producer with an id is in the log twice, unless its id was forgotten in between (MIRROR_PID_RESET)
    isr            the final logs of all replicas in sync are equal, byte for byte
    matching       two replicas that have the same epoch at the same offset have the same batch there        (Raft's log matching)
    reads          the records that a reader got, with either isolation level, are those of the final log: reads are repeatable
    transactions   a transaction is committed as a whole or not at all; it is if EndTxn said so, and is not if EndTxn said aborted
    zombies        no transaction is committed that its producer asked to commit after a later instance had begun
    ownership      no partition is owned by two members of a group at the same time
    offsets        no committed offset goes back, and later fetches return what was committed

The final log of a partition is that of its leader at `Healed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kmirror.common.topic_partition import TopicPartition
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Acknowledged, Appended, Batch, Event, History, Recovered, Reloaded, Removed
from kmirror.sim.fleet_events import (
    Healed,
    InstanceBegan,
    OffsetCommitted,
    OffsetFetched,
    OwnedPartitions,
    ReadTo,
    TransactionEnded,
)

Offsets = dict[int, bytes]


@dataclass(slots=True)
class Truth:
    """The final logs of a fleet's replicas. `log` returns that of the first replica in sync."""

    cluster: str
    now_us: int
    logs: dict[TopicPartition, dict[str, list[Batch]]] = field(default_factory=dict)

    def log(self, partition: TopicPartition) -> list[Batch]:
        replicas = self.logs.get(partition, {})
        return next(iter(replicas.values()), [])

    def values(self, partition: TopicPartition) -> Offsets:
        return {offset: value for batch in self.log(partition) if not batch.is_control for offset, value in _records(batch)}

    def committed(self, partition: TopicPartition) -> Offsets:
        """Returns what read_committed shows: the records of committed transactions and of none."""
        found: Offsets = {}
        pending: dict[int, Offsets] = {}
        for batch in self.log(partition):
            if batch.commits is not None:
                ended = pending.pop(batch.producer_id, {})
                if batch.commits:
                    found.update(ended)
            elif batch.is_transactional:
                pending.setdefault(batch.producer_id, {}).update(_records(batch))
            elif not batch.is_control:
                found.update(_records(batch))
        return found


def _records(batch: Batch) -> Iterator[tuple[int, bytes]]:
    first = batch.last_offset - len(batch.values) + 1
    return ((first + index, value) for index, value in enumerate(batch.values))


def _of(history: History, kind: type[Event]) -> Iterator[Event]:
    return (event for event in history.events if isinstance(event, kind))


def truth_of(history: History, cluster: str | None = None) -> Truth | None:
    """Returns the logs at the cluster's `Healed` event, or at the only one if no name is given.

    Returns None if there is no such event.
    """
    logs: dict[tuple[str, TopicPartition], list[Batch]] = {}
    for event in history.events:
        if isinstance(event, Appended):
            logs.setdefault((event.log.cluster, event.log.partition), []).append(event.batch)
        elif isinstance(event, Removed):
            gone = {batch.key for batch in event.batches}
            key = (event.log.cluster, event.log.partition)
            logs[key] = [batch for batch in logs.get(key, []) if batch.key not in gone]
        elif isinstance(event, (Recovered, Reloaded)):
            logs[event.log.cluster, event.log.partition] = list(event.batches)
        elif isinstance(event, Healed) and cluster in (None, event.cluster):
            truth = Truth(event.cluster, event.now_us)
            for partition, hosts in event.isr.items():
                truth.logs[partition] = {host: list(logs.get((host, partition), [])) for host in hosts}
            return truth
    return None


def check_isr(history: History, truth: Truth) -> list[Violation]:
    found = []
    for partition, replicas in truth.logs.items():
        (first, log), *others = replicas.items()
        for name, other in others:
            if [batch.key for batch in other] != [batch.key for batch in log]:
                found.append(Violation("isr", truth.now_us, f"{partition} is in sync on {first} and {name}: {_difference(log, other)}"))
    return found


def _difference(log: list[Batch], other: list[Batch]) -> str:
    for left, right in zip(log, other, strict=False):
        if left.key != right.key:
            return f"{left} on one, {right} on the other"
    return f"they end at {log[-1] if log else 'nothing'} and {other[-1] if other else 'nothing'}"


def check_acknowledged(history: History, truth: Truth) -> list[Violation]:
    found = []
    values = {partition: truth.values(partition) for partition in truth.logs}
    for event in _of(history, Acknowledged):
        assert isinstance(event, Acknowledged)
        for index, value in enumerate(event.values):
            there = values.get(event.log.partition, {}).get(event.base_offset + index)
            if there != value:
                text = f"{event.log.partition} acknowledged {value.decode()} at offset {event.base_offset + index}; there is {_shown(there)} now"
                found.append(Violation("acknowledged", event.now_us, text))
    return found


def check_duplicates(history: History, truth: Truth) -> list[Violation]:
    found = []
    for partition in truth.logs:
        seen: dict[bytes, Batch] = {}
        for batch in truth.log(partition):
            if batch.reset_source is not None:
                seen.clear()  # the ids are forgotten, so a batch may be sent again
            for value in batch.values if batch.producer_id >= 0 else ():
                if value in seen:
                    text = f"{partition} has {value.decode()} twice: in {seen[value]} and in {batch}"
                    found.append(Violation("duplicates", truth.now_us, text))
                seen[value] = batch
    return found


def check_matching(history: History, truth: Truth) -> list[Violation]:
    """Checks every append of the history: for an offset and epoch that a leader assigned there is
    only one batch, on whichever replica.
    """
    found = []
    known: dict[tuple[TopicPartition, int, int], bytes] = {}
    for event in _of(history, Appended):
        assert isinstance(event, Appended)
        if event.log.partition not in truth.logs:
            continue
        key = (event.log.partition, event.batch.base_offset, event.batch.leader_epoch)
        digest = known.setdefault(key, event.batch.digest)
        if digest != event.batch.digest:
            found.append(
                Violation("matching", event.now_us, f"{event.log} appends {event.batch}, another batch of the same epoch and offset")
            )
    return found


def check_reads(history: History, truth: Truth) -> list[Violation]:
    found = []
    every = {partition: truth.values(partition) for partition in truth.logs}
    committed = {partition: truth.committed(partition) for partition in truth.logs}
    for event in _of(history, ReadTo):
        assert isinstance(event, ReadTo)
        expected = (committed if event.committed else every)[event.partition]
        want = {offset: value for offset, value in expected.items() if event.from_offset <= offset < event.to_offset}
        got = dict(event.records)
        if want != got:
            offset = min(offset for offset in want.keys() | got.keys() if want.get(offset) != got.get(offset))
            kind = "committed" if event.committed else "uncommitted"
            text = f"{event.client} read {_shown(got.get(offset))} ({kind}) at offset {offset} of {event.partition}; there is {_shown(want.get(offset))}"
            found.append(Violation("reads", event.now_us, text))
    return found


def check_transactions(history: History, truth: Truth) -> list[Violation]:
    found = []
    committed = {value for partition in truth.logs for value in truth.committed(partition).values()}
    for event in _of(history, TransactionEnded):
        assert isinstance(event, TransactionEnded)
        visible = [value for _, value in event.values if value in committed]
        whole = len(visible) == len(event.values)
        if event.outcome == "committed" and not whole:
            missing = next(value for _, value in event.values if value not in committed)
            found.append(Violation("transactions", event.now_us, f"{event.label} was committed, and {missing.decode()} is not visible"))
        elif event.outcome == "aborted" and visible:
            found.append(Violation("transactions", event.now_us, f"{event.label} was aborted, and {visible[0].decode()} is visible"))
        elif event.outcome == "unknown" and visible and not whole:
            text = f"{event.label} is visible in part: {len(visible)} of {len(event.values)} records"
            found.append(Violation("transactions", event.now_us, text))
    return found


def check_zombies(history: History, truth: Truth) -> list[Violation]:
    """Only the instance that was initialised last may commit.

    Instances may initialise again, so their numbers do not give the order. For two requests that
    overlap in time the order is unknown.
    """
    found = []
    began: dict[str, list[InstanceBegan]] = {}
    committed = {value for partition in truth.logs for value in truth.committed(partition).values()}
    for event in history.events:
        if isinstance(event, InstanceBegan):
            began.setdefault(event.transactional_id, []).append(event)
        elif isinstance(event, TransactionEnded):
            before = [other for other in began[event.transactional_id] if other.now_us < event.asked_us]
            own = [other for other in before if other.instance == event.instance][-1]
            later = [other for other in before if other.instance != event.instance and other.asked_us > own.now_us]
            if later and any(value in committed for _, value in event.values):
                text = f"{event.label} is committed, asked for at {event.asked_us / 1e6:.3f} s; instance {later[0].instance} began at {later[0].now_us / 1e6:.3f} s"
                found.append(Violation("zombies", event.now_us, text))
    return found


def check_ownership(history: History, truth: Truth) -> list[Violation]:
    found = []
    owned: dict[tuple[str, str], OwnedPartitions] = {}
    for event in _of(history, OwnedPartitions):
        assert isinstance(event, OwnedPartitions)
        for (group, member), other in owned.items():
            if group != event.group or member == event.member or other.until_us <= event.now_us or event.until_us <= event.now_us:
                continue
            both = sorted(event.partitions & other.partitions)
            if both:
                text = f"{both[0].topic_partition} of group {group} is owned by {member} (until {other.until_us / 1e6:.3f} s) and by {event.member}"
                found.append(Violation("ownership", event.now_us, text))
        owned[event.group, event.member] = event
    return found


def check_offsets(history: History, truth: Truth) -> list[Violation]:
    found = []
    best: dict[tuple[str, TopicPartition], list[tuple[int, int]]] = {}
    for event in history.events:
        if isinstance(event, (OffsetCommitted, OffsetFetched)):
            before = [offset for at_us, offset in best.get((event.group, event.partition), ()) if at_us < event.asked_us]
            if before and event.offset < max(before):
                verb = "commits" if isinstance(event, OffsetCommitted) else "fetches"
                text = f"{event.member} {verb} {event.offset} of {event.partition} after {max(before)} was committed by group {event.group}"
                found.append(Violation("offsets", event.now_us, text))
        if isinstance(event, OffsetCommitted):
            best.setdefault((event.group, event.partition), []).append((event.now_us, event.offset))
    return found


def _shown(value: bytes | None) -> str:
    return "nothing" if value is None else value.decode()


CHECKERS: dict[str, Callable[[History, Truth], list[Violation]]] = {
    "isr": check_isr,
    "acknowledged": check_acknowledged,
    "duplicates": check_duplicates,
    "matching": check_matching,
    "reads": check_reads,
    "transactions": check_transactions,
    "zombies": check_zombies,
    "ownership": check_ownership,
    "offsets": check_offsets,
}


def check_fleet(history: History) -> list[Violation]:
    """Returns the violations of all rules, by time.

    Without `Healed` there is nothing to compare with; a fleet that does not heal violates
    "progress".
    """
    truth = truth_of(history)
    if truth is None:
        return []
    found = [violation for checker in CHECKERS.values() for violation in checker(history, truth)]
    return sorted(found, key=lambda violation: violation.now_us)
