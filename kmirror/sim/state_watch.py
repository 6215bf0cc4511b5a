"""StateWatch: the contents of `__mirror_state` on one host, read from the bytes that are written to
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, MirrorStateRecord, PartitionStateRecord, read_record
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.record_batch import RecordBatch
from kmirror.sim.events import LastMirrorEpochWritten, LogKey, Order, StateWritten

States = dict[TopicPartition, tuple[str, MirrorPartitionState]]


class StateWatch:
    """Owns `states`: mirror name and state of each partition, as of the last record read."""

    def __init__(self, host: str) -> None:
        self.states: States = {}
        self._host = host

    def read(self, now_us: int, batch: RecordBatch) -> Iterator[StateWritten | LastMirrorEpochWritten]:
        """Yields the events of a batch, and updates `states`."""
        for offset, read in _mirror_records(batch):
            order = (batch.partition_leader_epoch, offset)
            if isinstance(read, PartitionStateRecord):
                partition = TopicPartition(read.topic, read.partition)
                self.states[partition] = (read.mirror_name, read.state)
                yield StateWritten(now_us, LogKey(self._host, partition), read.mirror_name, read.state, order)
            elif isinstance(read, LastMirrorEpochs):
                for (topic, number), epoch in sorted((read.epochs or {}).items()):
                    yield LastMirrorEpochWritten(now_us, LogKey(self._host, TopicPartition(topic, number)), read.mirror_name, epoch, order)
            else:
                yield from self._deleted(now_us, read.mirror_name, order)

    def _deleted(self, now_us: int, mirror_name: str, order: Order) -> Iterator[StateWritten]:
        for partition in [known for known, (name, _) in self.states.items() if name == mirror_name]:
            del self.states[partition]
            yield StateWritten(now_us, LogKey(self._host, partition), mirror_name, None, order)


def read_all(host: str, batches: Iterable[RecordBatch]) -> tuple[States, list[StateWritten | LastMirrorEpochWritten]]:
    """Returns the states that a whole log holds up to its first invalid batch, and its events (at
    time 0).
    """
    watch = StateWatch(host)
    events: list[StateWritten | LastMirrorEpochWritten] = []
    for batch in batches:
        if not batch.is_valid():
            break
        events.extend(watch.read(0, batch))
    return watch.states, events


def _mirror_records(batch: RecordBatch) -> Iterator[tuple[int, MirrorStateRecord]]:
    for record in () if batch.is_control else batch.records():
        value = None if record.value is None else bytes(record.value)
        yield record.offset, read_record(CoordinatorRecord(bytes(record.key or b""), value))
