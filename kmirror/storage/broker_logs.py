"""The logs of a broker by partition: the current ones, the future ones, and the folders that may
not be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.unified_log import UnifiedLog


class BrokerLogs:
    """Kafka's `currentLogs` and `futureLogs`, shared by the parts of a `LogManager`; changed on the
    loop only.
    """

    def __init__(self) -> None:
        self.current: dict[TopicPartition, UnifiedLog] = {}
        self.future: dict[TopicPartition, UnifiedLog] = {}
        """Each is to take the place of the current log, while it is moved to another directory."""
        self.refused: dict[TopicPartition, str] = {}
        """Partitions whose folder holds data that may not be loaded, and why."""

    def all(self) -> list[UnifiedLog]:
        return [*self.current.values(), *self.future.values()]

    def of_topic(self, topic: str, partitions: Iterable[int]) -> list[UnifiedLog]:
        """What is here of these partitions, future logs too: found by name, since a broker has many
        more logs than a topic.
        """
        wanted = [TopicPartition(topic, number) for number in partitions]
        return [logs[key] for logs in (self.current, self.future) for key in wanted if key in logs]

    def in_dir(self, log_dir: str) -> list[UnifiedLog]:
        return [log for log in self.all() if log.parent_dir == log_dir]

    def take_out_dir(self, log_dir: str) -> list[UnifiedLog]:
        """Forget the logs in `log_dir`; these."""
        taken: list[UnifiedLog] = []
        for logs in (self.current, self.future):
            for topic_partition, log in list(logs.items()):
                if log.parent_dir == log_dir:
                    del logs[topic_partition]
                    taken.append(log)
        return taken
