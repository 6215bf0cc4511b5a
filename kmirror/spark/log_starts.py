"""Where logs begin, for a read and for a stream."""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.inputs import FoundPartition
from kmirror.storage.offset_checkpoint_file import LOG_START_OFFSET_CHECKPOINT_FILE_NAME
from kmirror.storage.reader import read_offset_checkpoint


class LogStarts:
    """Where logs begin: at their first segment or, with checkpoints, at the later log start offset
    that DeleteRecords left, as consumers see it."""

    def __init__(self, *, use_checkpoints: bool) -> None:
        self._use_checkpoints = use_checkpoints
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}

    def of(self, one: FoundPartition) -> int:
        segments = one.partition.segments
        first = segments[0].base_offset if segments else 0
        if not self._use_checkpoints:
            return first
        if one.data_dir not in self._checkpoints:
            name = LOG_START_OFFSET_CHECKPOINT_FILE_NAME
            self._checkpoints[one.data_dir] = read_offset_checkpoint(one.files, one.data_dir, name)
        return max(first, self._checkpoints[one.data_dir].get(one.name, 0))
