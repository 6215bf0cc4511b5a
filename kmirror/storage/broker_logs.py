"""The logs of a broker by partition: the current ones, the future ones, and the partitions whose
folder may not be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.unified_log import UnifiedLog


class BrokerLogs:
    """Owner of the maps of logs (Kafka's `currentLogs` and `futureLogs`). The parts of a
    `LogManager` share them, and change them on the loop only.
    """

    def __init__(self) -> None:
        self.current: dict[TopicPartition, UnifiedLog] = {}
        self.future: dict[TopicPartition, UnifiedLog] = {}
        """Each will replace the current log, which is being moved to another directory."""
        self.refused: dict[TopicPartition, str] = {}
        """Partitions whose folder holds data that may not be loaded, and the reason."""

    def all(self) -> list[UnifiedLog]:
        return [*self.current.values(), *self.future.values()]

    def has(self, log: UnifiedLog) -> bool:
        """Whether a log is current or future, not removed or being removed."""
        key = log.topic_partition
        return self.current.get(key) is log or self.future.get(key) is log

    def of_topic(self, topic: str, partitions: Iterable[int]) -> list[UnifiedLog]:
        """The logs of these partitions, future ones included. They are looked up by name, because a
        broker has many more logs than a topic.
        """
        wanted = [TopicPartition(topic, number) for number in partitions]
        return [logs[key] for logs in (self.current, self.future) for key in wanted if key in logs]

    def in_dir(self, log_dir: str) -> list[UnifiedLog]:
        return [log for log in self.all() if log.parent_dir == log_dir]

    def take_out_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Removes the logs in `log_dir` from the maps and returns them."""
        taken: list[UnifiedLog] = []
        for logs in (self.current, self.future):
            for topic_partition, log in list(logs.items()):
                if log.parent_dir == log_dir:
                    del logs[topic_partition]
                    taken.append(log)
        return taken
