"""The partition of each record that a producer sends (`partitioner` has the rules)."""

from __future__ import annotations

from operator import index

from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.partitioner import StickyPartitioner, partition_for_key
from kmirror.clients.produce_result import ProducerRecord
from kmirror.clients.producer_batch import IllegalStateError, ProducerBatch, plain_bytes
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.record_accumulator import RecordAccumulator
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition


class RecordPartitioner:
    """Owns a `StickyPartitioner` for each topic that records without a key go to."""

    def __init__(self, random: Random, config: ProducerConfig, cluster: ClusterClient, accumulator: RecordAccumulator) -> None:
        self._random = random
        self._config = config
        self._cluster = cluster
        self._accumulator = accumulator
        self._partitioners: dict[str, StickyPartitioner] = {}

    def partition(self, record: ProducerRecord, timestamp: int, most: int) -> int:
        """The record's own partition, or the one of its key, or one that is chosen for it. `most` is
        the most bytes that the record takes.
        """
        if record.partition is not None:
            check_partition(record.partition)
            return record.partition
        count = self._cluster.partition_count(record.topic)
        key = plain_bytes(record.key)
        if key is not None and not self._config.get_bool("partitioner.ignore.keys"):
            return partition_for_key(key, count)
        sticky = self._partitioners.get(record.topic)
        if sticky is None:
            adaptive = self._config.get_bool("partitioner.adaptive.partitioning.enable")
            sticky = self._partitioners[record.topic] = StickyPartitioner(self._random, self._config.batch_size, adaptive=adaptive)
        if sticky.has_choice(count):
            current = sticky.current(count, ())
            if not sticky.has_its_share or self._accumulator.has_room(TopicPartition(record.topic, current), most, timestamp):
                return current
            sticky.move_on()
        available = [number for number in range(count) if self._cluster.metadata.leader(TopicPartition(record.topic, number)) is not None]
        sticky.update_load(list(self._accumulator.queue_sizes(record.topic, available)), available)
        return sticky.current(count, available)

    def appended(self, record: ProducerRecord, batch: ProducerBatch) -> None:
        """Counts a record that was given to the partition which was chosen for it; it is the last
        one of `batch`.
        """
        sticky = self._partitioners.get(record.topic)
        if sticky is not None and record.partition is None and (record.key is None or self._config.get_bool("partitioner.ignore.keys")):
            sticky.appended(batch.last_appended_bytes, batch_is_full=batch.is_full)


def check_partition(number: int) -> None:
    """IllegalStateError for a number that no partition has, TypeError for what is no whole number."""
    if index(number) < 0:
        raise IllegalStateError(f"Invalid partition: {number}. Partition number should always be non-negative or null.")
