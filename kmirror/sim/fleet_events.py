"""What clients of a fleet did and were told, for `fleet_checkers`.

What logs held, and what was acknowledged, is in the events of `sim.events`.

A transaction has a label, `id/instance/number`, that begins each of its values; `instance` counts
the lives of a producer with that transactional id. Intervals are virtual time in us: an answer that
came at `now_us` was asked for at `asked_us`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.sim.events import Event


@dataclass(slots=True)
class FleetEvent(Event):
    """Something a client of that cluster was told."""

    cluster: str


@dataclass(slots=True)
class InstanceBegan(FleetEvent):
    """A producer of that transactional id is initialised, by a request of `asked_us`; others are
    fenced from now on.
    """

    transactional_id: str
    instance: int
    asked_us: int


@dataclass(slots=True)
class TransactionEnded(FleetEvent):
    """What EndTxn answered: "committed", "aborted", or "unknown"."""

    label: str
    transactional_id: str
    instance: int
    asked_us: int
    outcome: str
    values: tuple[tuple[TopicPartition, bytes], ...]


@dataclass(slots=True)
class ReadTo(FleetEvent):
    """A reader, who asked at `asked_us`, got what lies in [from_offset, to_offset); `committed`:
    with isolation read_committed, aborted records left out.
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
    """What a member of `group` read and handed to its application, before it commits `to_offset`."""

    group: str


@dataclass(slots=True)
class GroupSynced(FleetEvent):
    """What the group has committed at the active cluster is what `cluster`, its mirror, says, too
    (where there is something committed).
    """

    group: str
    offsets: tuple[tuple[TopicPartition, int], ...]


@dataclass(slots=True)
class OwnedPartitions(FleetEvent):
    """From now on, and until its next event of this kind or `until_us`, the member works on these
    partitions.
    """

    group: str
    member: str
    partitions: frozenset[TopicIdPartition]
    until_us: int


@dataclass(slots=True)
class OffsetCommitted(FleetEvent):
    """The group coordinator took it."""

    group: str
    member: str
    partition: TopicPartition
    asked_us: int
    offset: int


@dataclass(slots=True)
class OffsetFetched(FleetEvent):
    """The coordinator's answer to an OffsetFetch that was asked at `asked_us`; -1: nothing
    committed.
    """

    group: str
    member: str
    partition: TopicPartition
    asked_us: int
    offset: int


@dataclass(slots=True)
class Healed(FleetEvent):
    """Nobody writes any more, everything runs, every replica is in sync: now everything must be
    right. `isr` by partition: host names.
    """

    isr: dict[TopicPartition, tuple[str, ...]]
