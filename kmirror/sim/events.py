"""What happened, in order: the one thing the checkers look at.

A `History` is a list of events. Those about logs come from the disks, not from the program:
`sim.log_watch` sees every byte that is written to a `.log` file, so nothing the program believes
about itself can hide what it did. Those about clients come from the clients: what they sent, what
they were told.

Chains. Every batch carries a hash over itself and all batches before it in its log. Two logs have
equal chains at a batch exactly if they are equal up to it, byte for byte, gaps included. A log that
begins in the middle (the records before are gone by retention) takes the chain that its first batch
has elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState

START = b"start"
Order = tuple[int, int]
UNORDERED = (-1, -1)


@dataclass(slots=True, eq=False)
class Batch:
    """One batch in one log.

    `commits` is set for an end marker: whether it commits (None: not a marker). `reset_source` is
    set for a MIRROR_PID_RESET. `durable`: it was fsynced.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    is_transactional: bool
    is_control: bool
    reset_source: str | None
    values: tuple[bytes, ...]
    digest: bytes
    chain: bytes
    path: str
    position: int
    size: int
    durable: bool = False
    commits: bool | None = None

    @property
    def key(self) -> tuple[int, bytes]:
        """Returns a key that is equal for the same bytes at the same offset, on any cluster."""
        return self.base_offset, self.digest

    def is_from(self, cluster: str) -> bool:
        """Returns whether a client of that cluster wrote it: each value begins with the cluster
        that its client wrote to.
        """
        return any(value.startswith(cluster.encode() + b"/") for value in self.values)

    def __str__(self) -> str:
        kind = "reset" if self.reset_source is not None else "marker" if self.is_control else "batch"
        return f"{kind} {self.base_offset}..{self.last_offset} e{self.leader_epoch}"


class LogKey(NamedTuple):
    """One partition's log on one cluster; in a fleet, on one of its hosts (`History.hosts`)."""

    cluster: str
    partition: TopicPartition

    def __str__(self) -> str:
        return f"{self.partition}@{self.cluster}"


@dataclass(slots=True)
class Event:
    """Something that happened at a virtual time."""

    now_us: int


@dataclass(slots=True)
class Appended(Event):
    log: LogKey
    batch: Batch


@dataclass(slots=True)
class Removed(Event):
    """Batches were removed, in ascending order.

    `cause`: "truncate", "retention", "topic deleted", "recovery", "power loss", "disk lost", or
    "move" (a future log without them took the current log's place).
    """

    log: LogKey
    batches: list[Batch]
    cause: str


@dataclass(slots=True)
class LogLost(Event):
    """All replicas of a cluster's partition are about to lose what they have: a disaster that Kafka
    does not survive either.
    """

    cluster: str
    partition: TopicPartition


@dataclass(slots=True)
class StateWritten(Event):
    """A state was written to `__mirror_state` on `log`'s host; None if its mirror was deleted.

    `order`: epoch and offset of the record.
    """

    log: LogKey
    mirror_name: str
    state: MirrorPartitionState | None
    order: Order = UNORDERED


@dataclass(slots=True)
class StateLost(Event):
    """After a power loss `__mirror_state` says something different: `state` (None: nothing)."""

    log: LogKey
    mirror_name: str
    state: MirrorPartitionState | None


@dataclass(slots=True)
class LastMirrorEpochWritten(Event):
    log: LogKey
    mirror_name: str
    epoch: int
    order: Order = UNORDERED


@dataclass(slots=True)
class MirrorDeletionAsked(Event):
    """An operator begins to ask for the mirror's deletion. From now on the cluster may refuse to
    tell what it has stored of the mirror, whenever that is removed.
    """

    cluster: str
    mirror_name: str


@dataclass(slots=True)
class MirrorStatesRead(Event):
    """What a fleet's `__mirror_state` says in the end, in the order of its log. A fleet's states
    count only if they are here.
    """

    cluster: str
    records: list[StateWritten | LastMirrorEpochWritten]


@dataclass(slots=True)
class Reloaded(Event):
    """The valid batches that the disk begins with after a power loss.

    Batches that had been cut may be there again, if the cut was not synced.
    """

    log: LogKey
    batches: list[Batch]


@dataclass(slots=True)
class Recovered(Event):
    """A node has started and uses the log's directory: what the log holds on disk.

    `invalid_position` is that of the first bytes that are no valid batch, else None.
    """

    log: LogKey
    batches: list[Batch]
    invalid_position: int | None


@dataclass(slots=True)
class Acknowledged(Event):
    """A client was told that its records are at `base_offset`... of the log."""

    log: LogKey
    client: str
    base_offset: int
    values: tuple[bytes, ...]


@dataclass(slots=True)
class Refused(Event):
    """A client's write was refused (`error` is Kafka's name) or its fate is unknown ("unknown")."""

    log: LogKey
    client: str
    error: str


@dataclass(slots=True)
class Served(Event):
    """A reader got these batches (base offset, digest of the bytes, whether the CRC holds)."""

    log: LogKey
    client: str
    fetch_offset: int
    batches: list[tuple[int, bytes, bool]]


@dataclass(slots=True)
class Told(Event):
    """A line of the story: faults, operations, phases."""

    who: str
    what: str


@dataclass(slots=True)
class Converged(Event):
    """Everything has healed and the lag is 0: `destination` must equal `source`."""

    source: LogKey
    destination: LogKey


@dataclass(slots=True)
class History:
    """Owns the events of a run, in order, and what the rules need to know about its clusters.

    `sources` says which cluster a mirror's name means as its source at a cluster. `old` names the
    clusters that tell mirrors no last mirror epoch (`old_dialects`). `hosts` says which cluster
    each host belongs to (a cluster of one node is its own host). `min_in_sync_replicas` is how many
    replicas must have a fleet's record before it is acknowledged.
    """

    events: list[Event] = field(default_factory=list)
    sources: dict[tuple[str, str], str] = field(default_factory=dict)
    old: set[str] = field(default_factory=set)
    hosts: dict[str, str] = field(default_factory=dict)
    min_in_sync_replicas: int = 2

    def add(self, event: Event) -> None:
        self.events.append(event)

    def cluster_of(self, log: LogKey) -> str:
        """Returns the cluster that the log belongs to."""
        return self.hosts.get(log.cluster, log.cluster)

    def story(self) -> Iterator[tuple[int, str, str]]:
        """Yields (virtual time in us, who, what) of the events that a reader wants to see."""
        for event in self.events:
            if isinstance(event, Told):
                yield event.now_us, event.who, event.what
            elif isinstance(event, StateWritten):
                state = "no state" if event.state is None else event.state.name
                yield event.now_us, event.log.cluster, f"{event.log.partition} is {state} in mirror {event.mirror_name}"
            elif isinstance(event, StateLost):
                state = "no state" if event.state is None else event.state.name
                yield (
                    event.now_us,
                    event.log.cluster,
                    f"{event.log.partition} has {state} in mirror {event.mirror_name}, for the newer one is lost",
                )
            elif isinstance(event, LastMirrorEpochWritten):
                yield (
                    event.now_us,
                    event.log.cluster,
                    f"{event.log.partition} has the last mirror epoch {event.epoch} in mirror {event.mirror_name}",
                )
            elif isinstance(event, Removed):
                first, last = event.batches[0].base_offset, event.batches[-1].last_offset
                yield event.now_us, event.log.cluster, f"{event.log.partition} loses offsets {first}..{last} by {event.cause}"
            elif isinstance(event, Appended) and event.batch.reset_source is not None:
                yield (
                    event.now_us,
                    event.log.cluster,
                    f"{event.log.partition} gets a PID reset at {event.batch.base_offset} in epoch {event.batch.leader_epoch}",
                )


def digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()


def chain_of(previous: bytes, digest: bytes) -> bytes:
    return hashlib.blake2b(previous + digest, digest_size=8).digest()
