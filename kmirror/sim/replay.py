"""Replay: what the logs held, and which states were in force, at each moment of a history.

A cluster of one node has one log of a partition; a fleet has one on each replica's host. `state` is
the cluster's. For a cluster of one node it is what was written last. For a fleet it is what the
final `__mirror_state` has (`MirrorStatesRead`), from the moment when a second replica had it:
nobody may act on a record before it is committed, and a record that was truncated again never
counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import (
    Appended,
    Batch,
    Event,
    History,
    LastMirrorEpochWritten,
    LogKey,
    MirrorStatesRead,
    Order,
    Recovered,
    Reloaded,
    Removed,
    StateLost,
    StateWritten,
)
from kmirror.sim.topic_events import PartitionMade

COPIES_OF_A_FLEET = 2

Stored = StateWritten | LastMirrorEpochWritten
Place = tuple[str, TopicPartition]
"""A partition of a cluster."""


@dataclass(slots=True)
class Replay:
    """Owns the logs, states and chains as they are at the current event."""

    history: History
    logs: dict[LogKey, list[Batch]] = field(default_factory=dict)
    chains: dict[LogKey, set[bytes]] = field(default_factory=dict)
    _states: dict[Place, tuple[str, State]] = field(default_factory=dict)
    _epochs: dict[tuple[Place, str], int] = field(default_factory=dict)
    _replicas: dict[Place, dict[LogKey, None]] = field(default_factory=dict)
    _assigned: dict[Place, tuple[str, ...]] = field(default_factory=dict)
    _final: set[tuple[type[Stored], Place, Order]] = field(default_factory=set)
    _copies: dict[tuple[type[Stored], Place, Order], set[str]] = field(default_factory=dict)
    _wanted_copies: dict[str, int] = field(default_factory=dict)
    _in_force: bool = False

    def walk(self) -> Iterator[Event]:
        """Yields every event; the logs are as they were before it until the generator is resumed."""
        self._final = {
            (type(record), (event.cluster, record.log.partition), record.order)
            for event in self.history.events
            if isinstance(event, MirrorStatesRead)
            for record in event.records
        }
        holders: dict[str, set[str]] = {}
        for event in self.history.events:
            if isinstance(event, (StateWritten, LastMirrorEpochWritten)):
                holders.setdefault(self.history.cluster_of(event.log), set()).add(event.log.cluster)
        self._wanted_copies = {cluster: min(COPIES_OF_A_FLEET, len(hosts)) for cluster, hosts in holders.items()}
        for event in self.history.events:
            self._in_force = isinstance(event, (StateWritten, LastMirrorEpochWritten)) and self._count(event)
            yield event
            self._apply(event)

    @property
    def takes_effect(self) -> bool:
        """Returns whether the current event, a state or an epoch, is in force from now on (in a
        fleet: this is its second copy).
        """
        return self._in_force

    def _count(self, event: Stored) -> bool:
        if not self.is_fleet(event.log):
            return True
        key = (type(event), self.place(event.log), event.order)
        hosts = self._copies.setdefault(key, set())
        before = len(hosts)
        hosts.add(event.log.cluster)
        return key in self._final and before < self._wanted_copies[key[1][0]] <= len(hosts)

    def _apply(self, event: Event) -> None:
        if isinstance(event, Appended):
            self.logs.setdefault(event.log, []).append(event.batch)
            self.chains.setdefault(event.log, set()).add(event.batch.chain)
            self._replicas.setdefault(self.place(event.log), {})[event.log] = None
        elif isinstance(event, Removed):
            gone = {batch.key for batch in event.batches}
            self.logs[event.log] = [batch for batch in self.log(event.log) if batch.key not in gone]
        elif isinstance(event, (Recovered, Reloaded)):
            self.logs[event.log] = list(event.batches)
        elif isinstance(event, (StateWritten, StateLost)):
            if self._in_force or (isinstance(event, StateLost) and not self.is_fleet(event.log)):
                self._set_state(self.place(event.log), event.mirror_name, event.state)
        elif isinstance(event, PartitionMade):
            self._assigned[event.cluster, TopicPartition(event.topic, event.partition)] = event.hosts
        elif isinstance(event, LastMirrorEpochWritten) and self._in_force:
            self._epochs[self.place(event.log), event.mirror_name] = event.epoch

    def _set_state(self, place: Place, mirror_name: str, state: State | None) -> None:
        if state is None:  # the mirror was deleted, and its topics' last mirror epochs with it
            self._states.pop(place, None)
            self._epochs.pop((place, mirror_name), None)
        else:
            self._states[place] = (mirror_name, state)

    def is_fleet(self, log: LogKey) -> bool:
        """Returns whether it is one replica of several."""
        return self.history.cluster_of(log) != log.cluster

    def is_fleet_of(self, cluster: str) -> bool:
        return cluster in self.history.hosts.values()

    def place(self, key: LogKey) -> Place:
        return self.history.cluster_of(key), key.partition

    def log(self, key: LogKey) -> list[Batch]:
        return self.logs.get(key, [])

    def replicas(self, place: Place) -> list[LogKey]:
        """Returns the replicas of which anything was seen yet."""
        return list(self._replicas.get(place, ()))

    def all_replicas(self, place: Place) -> list[LogKey]:
        """Returns all replicas, including those to which nothing was appended."""
        return [LogKey(host, place[1]) for host in self._assigned.get(place, ())] or self.replicas(place)

    def mirror_name(self, key: LogKey) -> str:
        """Returns the mirror whose state the partition has; "" if it has none."""
        found = self._states.get(self.place(key))
        return found[0] if found is not None else ""

    def state(self, key: LogKey) -> State | None:
        found = self._states.get(self.place(key))
        return found[1] if found is not None else None

    def last_mirror_epoch(self, place: Place, mirror_name: str) -> int | None:
        return self._epochs.get((place, mirror_name))

    def source(self, key: LogKey) -> Place | None:
        """Returns the partition that this one mirrors."""
        found = self._states.get(self.place(key))
        cluster = self.history.sources.get((self.history.cluster_of(key), found[0])) if found is not None else None
        return (cluster, key.partition) if cluster is not None else None

    def has_state(self, place: Place) -> bool:
        return place in self._states

    def source_has(self, key: LogKey, batch: Batch) -> bool:
        """Returns whether every replica of the source's log now equals this one up to and including
        `batch`.
        """
        source = self.source(key)
        replicas = self.replicas(source) if source is not None else []
        return bool(replicas) and all(any(batch.chain == other.chain for other in self.log(replica)) for replica in replicas)

    def source_has_between(self, key: LogKey, start: int, end: int) -> bool:
        """Returns whether a replica of the source's log has a batch with offsets in [start, end)."""
        source = self.source(key)
        replicas = self.replicas(source) if source is not None else []
        return any(batch.base_offset < end and batch.last_offset >= start for replica in replicas for batch in self.log(replica))

    def is_of_source(self, key: LogKey, batch: Batch) -> bool:
        """Returns whether the source's log, on any replica, ever equalled this one up to and
        including `batch`.
        """
        source = self.source(key)
        return source is not None and any(batch.chain in self.chains.get(replica, ()) for replica in self.replicas(source))

    def is_copy(self, event: Appended) -> bool:
        """Returns whether another replica of the same cluster had this batch already, so that this
        is replication from a leader.
        """
        others = (replica for replica in self.replicas(self.place(event.log)) if replica != event.log)
        return any(event.batch.chain in self.chains.get(replica, ()) for replica in others)
