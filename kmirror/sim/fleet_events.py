"""Events of a fleet's history that its clients record for `fleet_checkers`: what they did, and what
they were told.

The contents of logs, and what was acknowledged, are in the events of `sim.events`.

Each transaction has a label, `id/instance/number`, and its values begin with it. `instance` counts
the producers that have used the transactional id. Times are virtual, in us: the answer that came at
`now_us` was asked for at `asked_us`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.sim.events import Event


@dataclass(slots=True)
class FleetEvent(Event):
    """Something that a client of `cluster` was told."""

    cluster: str


@dataclass(slots=True)
class InstanceBegan(FleetEvent):
    """InitProducerId succeeded for an instance, and fences the others from now on."""

    transactional_id: str
    instance: int
    asked_us: int


@dataclass(slots=True)
class TransactionEnded(FleetEvent):
    """The outcome of EndTxn: "committed", "aborted" or "unknown"."""

    label: str
    transactional_id: str
    instance: int
    asked_us: int
    outcome: str
    values: tuple[tuple[TopicPartition, bytes], ...]


@dataclass(slots=True)
class ReadTo(FleetEvent):
    """A reader got the records in [from_offset, to_offset).

    `committed` says that it read with read_committed, without aborted records.
    """

    partition: TopicPartition
    client: str
    committed: bool
    from_offset: int
    to_offset: int
    records: tuple[tuple[int, bytes], ...]
    asked_us: int


@dataclass(slots=True)
class Consumed(ReadTo):
    """A member of `group` read these records, before it commits `to_offset`."""

    group: str


@dataclass(slots=True)
class GroupSynced(FleetEvent):
    """The mirror at `cluster` has the offsets that the group has committed at the active cluster.

    `offsets` has the partitions with a committed offset.
    """

    group: str
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(slots=True)
class OwnedPartitions(FleetEvent):
    """The member owns these partitions from now on, until its next event of this kind or
    `until_us`.
    """

    group: str
    member: str
    partitions: frozenset[TopicIdPartition]
    until_us: int


@dataclass(slots=True)
class OffsetCommitted(FleetEvent):
    """The group coordinator accepted a commit."""

    group: str
    member: str
    partition: TopicPartition
    asked_us: int
    offset: int


@dataclass(slots=True)
class OffsetFetched(FleetEvent):
    """The group coordinator's answer to an OffsetFetch; -1 means that nothing is committed."""

    group: str
    member: str
    partition: TopicPartition
    asked_us: int
    offset: int


@dataclass(slots=True)
class Healed(FleetEvent):
    """Nobody writes any more, all servers run and all replicas are in sync, so from now on the logs
    are final. `isr` has the host names by partition, the leader's first.
    """

    isr: dict[TopicPartition, tuple[str, ...]]
