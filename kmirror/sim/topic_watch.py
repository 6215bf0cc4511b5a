"""TopicWatch: which topics a fleet has and which hosts hold their partitions, read from the bytes
that its controller writes to its metadata log.

A topic exists from its TopicRecord until its RemoveTopicRecord; no history reassigns partitions.
The controller is its own quorum, so a written record counts, and the controller synced it before it
answered. After a power loss the log is read again, and each difference from before becomes an
event, too. Known hole: a log that begins with a snapshot is not understood (no history lasts long
enough for one). Internal topics are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kmirror.common.uuid import Uuid
from kmirror.record.record_batch import RecordBatch
from kmirror.sim.topic_events import PartitionMade, TopicGone, TopicMade
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import FRAME_VERSION, read_metadata_record

METADATA_FOLDER = "__cluster_metadata-0"
TYPES = (TopicRecord.API_KEY, PartitionRecord.API_KEY, RemoveTopicRecord.API_KEY)
Topics = dict[Uuid, str]
Read = TopicRecord | PartitionRecord | RemoveTopicRecord
Told = TopicMade | PartitionMade | TopicGone


class TopicWatch:
    """Owns `topics`: names by id, as of the last record read."""

    def __init__(self, cluster: str) -> None:
        self.topics: Topics = {}
        self._cluster = cluster

    def read(self, now_us: int, batch: RecordBatch) -> Iterator[Told]:
        """Yields the events of a batch, and updates `topics`."""
        for record in _topic_records(batch):
            if isinstance(record, RemoveTopicRecord):
                if record.topic_id in self.topics:
                    yield TopicGone(now_us, self._cluster, self.topics.pop(record.topic_id))
            elif isinstance(record, PartitionRecord):
                if record.topic_id in self.topics:
                    hosts = tuple(f"{self._cluster}{broker_id}" for broker_id in record.replicas)
                    yield PartitionMade(now_us, self._cluster, self.topics[record.topic_id], record.partition_id, hosts)
            elif not record.name.startswith("__"):
                self.topics[record.topic_id] = record.name
                yield TopicMade(now_us, self._cluster, record.name, record.topic_id)

    def read_again(self, now_us: int, batches: Iterable[RecordBatch]) -> Iterator[Told]:
        """Reads the whole log after a power loss, up to its first invalid batch. Yields events only
        for topics that differ from before, with their partitions.
        """
        before, self.topics = self.topics, {}
        made: list[PartitionMade] = []
        for batch in batches:
            if not batch.is_valid():
                break
            made += (event for event in self.read(now_us, batch) if isinstance(event, PartitionMade))
        for topic_id, name in before.items():
            if topic_id not in self.topics:
                yield TopicGone(now_us, self._cluster, name, by_power_loss=True)
        for topic_id, name in self.topics.items():
            if topic_id not in before:
                yield TopicMade(now_us, self._cluster, name, topic_id, by_power_loss=True)
                yield from (event for event in made if event.topic == name)


def _topic_records(batch: RecordBatch) -> Iterator[Read]:
    for record in () if batch.is_control else batch.records():
        value = record.value
        if value is not None and len(value) > 1 and value[0] == FRAME_VERSION and value[1] in TYPES:
            message = read_metadata_record(value)
            if isinstance(message, (TopicRecord, PartitionRecord, RemoveTopicRecord)):
                yield message
