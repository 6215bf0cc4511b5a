"""What a flow of MirrorMaker has come to, as its checkers (`flow_checkers`) see it at the end.

Records of MirrorMaker's internal topics are read from the disk of the partition's leader.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import Checkpoint, OffsetSync
from kmirror.record.record_batch import RecordBatch
from kmirror.sim.events import Event, History, Removed
from kmirror.sim.log_watch import TOPIC_DELETED
from kmirror.sim.server import SimServer

Copied = tuple[TopicPartition, TopicPartition]
"""A partition of the source, and the target's that has its records."""


@dataclass(slots=True)
class FaultsEnded(Event):
    """All nodes and workers run, and nothing disturbs them any more."""


@dataclass(slots=True)
class FlowRead(Event):
    """A flow from cluster `source` to `target`, after its workers have ended in good order.

    `committed`: its consumer does not read aborted records. `exactly_once`: nothing may be at the
    target twice. `heartbeats` is the target's topic of them, None if there are none. `filters`: it drops records that
    are marked.
    """

    source: str
    target: str
    committed: bool
    exactly_once: bool
    copied: tuple[Copied, ...]
    syncs: tuple[OffsetSync, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    heartbeats: str | None = None
    filters: bool = False


@dataclass(slots=True)
class LossesTold(Event):
    """Of a partition of the source at the end: `missing` of its records are not at the target, `told` were
    counted as lost.
    """

    partition: TopicPartition
    missing: int
    told: int


@dataclass(slots=True)
class TopicsSeen(Event):
    """The topics of a cluster at the end."""

    cluster: str
    names: tuple[str, ...]


@dataclass(slots=True)
class GroupMoved(Event):
    """What a group has committed at the source of a flow and, if offsets are synced, at its target;
    by the partitions of each.
    """

    source: str
    target: str
    group: str
    at_source: dict[TopicPartition, int]
    at_target: dict[TopicPartition, int]


def went_with_topics(history: History, cluster: str) -> dict[TopicPartition, set[bytes]]:
    """Returns the values that the cluster's topics have lost by being deleted, by partition."""
    gone: dict[TopicPartition, set[bytes]] = {}
    for event in history.events:
        if isinstance(event, Removed) and event.cause == TOPIC_DELETED and history.cluster_of(event.log) == cluster:
            gone.setdefault(event.log.partition, set()).update(value for batch in event.batches for value in batch.values)
    return gone


def key_values(server: SimServer, partition: TopicPartition) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yields the key and value of every record that the server's disk has of the partition."""
    for batch in server.watch.logs.get(partition, []):
        if batch.is_control:
            continue
        data = server.node.disk.contents(batch.path)[batch.position : batch.position + batch.size]
        for record in RecordBatch(data).records():
            yield (None if record.key is None else bytes(record.key), None if record.value is None else bytes(record.value))
