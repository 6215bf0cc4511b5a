"""What must hold of a group that follows the active cluster while its offsets are synced to the
mirror (SYN14, C18, C32).

    origin     a member is told to begin only at a position that a member of its group once had, on
               either cluster
    own        neither an offset that the group committed itself after its cluster took over, nor
              the offset that was synced last, is set back, unless the group itself went back at
               the other cluster (from a position beyond the end of its log)
    skipped    each record that the cluster holds below the first position was consumed somewhere

The KIP syncs now and then, copies values as they are, and does not touch the groups when it cuts a
log. So the KIP itself lets a group skip records in two cases:

    beyond     its offset was beyond the end of the mirrored log at the failover, so it does not see
               what the new active cluster took in between (C32)
    stale      its offset is of a former life of the log (the cluster was active once and was cut
               since), and no newer one was synced before the failover; a position counts as stale,
               too, if a member reached it from such a beginning without reading any record

Both are counted, as is what was consumed twice. A new life of a cluster's partition begins with
each PREPARING and when its topic is deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Batch, Event, History, LogKey, Removed, StateWritten
from kmirror.sim.fleet_checkers import Truth
from kmirror.sim.fleet_events import Consumed, GroupSynced, OffsetCommitted, OffsetFetched
from kmirror.sim.replay import Place, Replay

Life = tuple[str, int]
"""A cluster, and how many lives its partition had before."""


class Synced(NamedTuple):
    """A group's offset that was seen to be synced to a mirror, and the partition's life at that
    time.
    """

    life: Life
    at_us: int
    offset: int


@dataclass(slots=True)
class GroupsAtFailover:
    """Follows one group's positions. `counts` the three imperfections that the KIP allows: "twice",
    "beyond", "stale".
    """

    counts: Counter[str] = field(default_factory=Counter)
    lives: Counter[Place] = field(default_factory=Counter)
    consumed: dict[TopicPartition, set[bytes]] = field(default_factory=dict)
    excused: dict[TopicPartition, set[bytes]] = field(default_factory=dict)
    positions: dict[TopicPartition, dict[int, set[Life]]] = field(default_factory=dict)
    floors: dict[tuple[TopicPartition, Life], list[tuple[int, int]]] = field(default_factory=dict)
    synced: dict[TopicPartition, list[Synced]] = field(default_factory=dict)
    beginnings: dict[tuple[str, str, TopicPartition], int] = field(default_factory=dict)

    def see(self, event: Event, replay: Replay) -> Iterator[str]:
        if isinstance(event, StateWritten) and replay.takes_effect and event.state is State.PREPARING:
            if replay.state(event.log) is not State.PREPARING:
                self.lives[replay.place(event.log)] += 1
        elif isinstance(event, Removed) and event.cause == "topic deleted":
            self.lives[replay.place(event.log)] += 1
        elif isinstance(event, OffsetFetched):
            yield from self._fetched(event)
        elif isinstance(event, Consumed):
            yield from self._consumed(event, replay)
        elif isinstance(event, OffsetCommitted):
            self._lower_synced(event)
            life = self._life(event.cluster, event.partition)
            if life in self.positions.get(event.partition, {}).get(event.offset, ()):
                self.floors.setdefault((event.partition, life), []).append((event.now_us, event.offset))
        elif isinstance(event, GroupSynced):
            for partition, offset in event.offsets:
                self.synced.setdefault(partition, []).append(Synced(self._life(event.cluster, partition), event.now_us, offset))

    def _lower_synced(self, event: OffsetCommitted) -> None:
        """Lowers the synced offsets of the other cluster: a group that goes back itself may be told
        so there.
        """
        synced = self.synced.get(event.partition, [])
        synced[:] = [each if each.life[0] == event.cluster else each._replace(offset=min(each.offset, event.offset)) for each in synced]

    def _life(self, cluster: str, partition: TopicPartition) -> Life:
        return cluster, self.lives[cluster, partition]

    def _fetched(self, event: OffsetFetched) -> Iterator[str]:
        who = f"a member at {event.cluster} is told to begin {event.partition} at {event.offset}"
        self.beginnings[event.member, event.cluster, event.partition] = max(0, event.offset)
        if event.offset > 0 and event.offset not in self.positions.get(event.partition, {}):
            yield f"{who}, where nobody of group {event.group} ever was"
        life = self._life(event.cluster, event.partition)
        synced = [(each.at_us, each.offset) for each in self.synced.get(event.partition, ()) if each.life == life]
        floors = self.floors.get((event.partition, life), []) + synced
        floor = max((offset for at_us, offset in floors if at_us < event.asked_us), default=-1)
        if event.offset < floor:
            yield f"{who}, after group {event.group} had {floor} there"

    def _consumed(self, event: Consumed, replay: Replay) -> Iterator[str]:
        partition, life = event.partition, self._life(event.cluster, event.partition)
        known = self.consumed.setdefault(partition, set())
        if event.records:
            yield from self._first_read(event, life, replay)
        positions = self.positions.setdefault(partition, {})
        positions.setdefault(event.to_offset, set()).add(life)
        if not event.records and any(key[1:] == (event.cluster, partition) for key in self.beginnings):
            positions[event.to_offset] |= positions.get(event.from_offset, set())  # no record yet: the position has the beginning's origins
        self.counts["twice"] += sum(value in known for _, value in event.records)
        known.update(value for _, value in event.records)

    def _first_read(self, event: Consumed, life: Life, replay: Replay) -> Iterator[str]:
        """The first records after a beginning show which replica's log it was, and what lies below."""
        partition = event.partition
        keys = [key for key in self.beginnings if key[1:] == (event.cluster, partition)]
        for key in keys:
            begun = self.beginnings.pop(key)
            if begun > event.from_offset:
                continue  # the offset was beyond the end of the log, and the member began again
            log = _holder(replay, (event.cluster, partition), event.records[0][1])
            seen = self.consumed[partition] | self.excused.setdefault(partition, set())
            below = {offset: value for offset, value in _visible(log, partition).items() if offset < begun}
            skipped = {offset: value for offset, value in below.items() if value not in seen}
            why = self._why(event.cluster, begun, partition, skipped.values()) if skipped else ""
            if why:
                self.counts[why] += len(skipped)
            elif skipped:
                offset, value = min(skipped.items())
                yield f"group {event.group} begins {partition} at {event.cluster} at {begun} and skips {value.decode()} at {offset}"
            self.excused[partition].update(skipped.values())

    def _why(self, cluster: str, begun: int, partition: TopicPartition, skipped: Iterable[bytes]) -> str:
        origins = self.positions.get(partition, {}).get(begun, set())
        if any(self.lives[origin, partition] > number for origin, number in origins):
            return "stale"
        if all(value.startswith(cluster.encode() + b"/") for value in skipped) and not any(origin == cluster for origin, _ in origins):
            return "beyond"
        return ""


def _holder(replay: Replay, place: Place, value: bytes) -> list[Batch]:
    """Returns the log of a replica that has that record."""
    for replica in replay.replicas(place):
        log = replay.log(LogKey(replica.cluster, place[1]))
        if any(value in batch.values for batch in log):
            return log
    return []


def _visible(log: list[Batch], partition: TopicPartition) -> dict[int, bytes]:
    """Returns what read_committed shows of the log."""
    return Truth("", 0, {partition: {"": log}}).committed(partition)


def follow_groups(history: History) -> tuple[GroupsAtFailover, list[Violation]]:
    """Returns what the groups of a history did, and what of it breaks the rule "groups"."""
    groups = GroupsAtFailover()
    replay = Replay(history)
    found = [Violation("groups", event.now_us, text) for event in replay.walk() for text in groups.see(event, replay)]
    return groups, found


def check_groups(history: History) -> list[Violation]:
    """Returns the violations of the rule "groups"; none where no group consumed anything."""
    return follow_groups(history)[1] if any(isinstance(event, Consumed) for event in history.events) else []
