"""The four checkpoints at the top of a log directory: `<topic> <partition> <offset>` lines.

| file | the offset is | written |
|---|---|---|
| recovery-point-offset-checkpoint | everything below is flushed | every 60 s, on truncation, deletion, shutdown |
| log-start-offset-checkpoint | log start offset, only where it lies above the first segment's base | every 60 s, deletion, shutdown |
| replication-offset-checkpoint | high watermark | every 5 s, shutdown (by ReplicaManager) |
| cleaner-offset-checkpoint | first dirty offset of a compacted log | after a clean, truncation, deletion |

Lines come in the order of a Java `HashMap<TopicPartition, Long>`; the order has no meaning and
readers ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kmirror.common.java_hash_map import java_hash_map_order, java_topic_partition_hash, table_size_for_copy
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.checkpoint_file import CheckpointFile, parse_decimal

RECOVERY_POINT_CHECKPOINT_FILE_NAME: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT_FILE_NAME: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT_FILE_NAME: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT_FILE_NAME: Final = "cleaner-offset-checkpoint"


class OffsetCheckpointFile:
    """Offsets by partition in one file (Kafka's `OffsetCheckpointFile`)."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self._checkpoint = CheckpointFile(files, path, format_entry=_format_entry, parse_entry=_parse_entry)
        self._checkpoint.create_if_absent()

    @property
    def path(self) -> str:
        return self._checkpoint.path

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        order = java_hash_map_order(offsets, java_topic_partition_hash, table_size=table_size_for_copy(len(offsets)))
        self._checkpoint.write((partition, offsets[partition]) for partition in order)

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; OSError if they cannot be read, or make no sense."""
        return dict(self._checkpoint.read())


def _format_entry(entry: tuple[TopicPartition, int]) -> str:
    partition, offset = entry
    return f"{partition.topic} {partition.partition} {offset}"


def _parse_entry(line: str) -> tuple[TopicPartition, int]:
    topic, partition, offset = line.split()
    return TopicPartition(topic, parse_decimal(partition)), parse_decimal(offset)
