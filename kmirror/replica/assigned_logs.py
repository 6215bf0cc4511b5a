"""The logs of this broker's replicas, each in the directory that the metadata assigns to it.

A log is created as soon as its partition is assigned, for followers too, so that its high watermark
is in the checkpoint from the beginning. If the log is in another directory than the metadata says,
the controller is told (`on_assignment`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kmirror.common.topic_partition import TopicIdPartition, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.registrations import DIRECTORY_UNASSIGNED, PartitionRegistration
from kmirror.replica.alter_log_dirs import AssignmentListener
from kmirror.storage.log_manager import LogManager
from kmirror.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


class AssignedLogs:
    """Opens, creates and deletes the logs. It owns the checkpoints of high watermarks as read, once
    for each delta.
    """

    def __init__(self, log_manager: LogManager, broker_id: int) -> None:
        self.on_assignment: AssignmentListener | None = None
        self._log_manager = log_manager
        self._broker_id = broker_id
        self._checkpointed: dict[str, dict[TopicPartition, int]] = {}

    def begin_delta(self) -> None:
        """Has the checkpoints read again, since they may have been written after the last delta."""
        self._checkpointed = {}

    def get_or_create(self, topic: TopicIdPartition, registration: PartitionRegistration) -> UnifiedLog:
        """The log, with the high watermark of its checkpoint; ApiException when its directory is
        offline."""
        directory = registration.directory(self._broker_id)
        self._maybe_take_over_future_log(topic.topic_partition, directory)
        log = self._log_manager.get_or_create_log(
            topic.topic_partition,
            topic_id=topic.topic_id,
            is_new=registration.partition_epoch == 0,
            target_directory_id=None if directory == DIRECTORY_UNASSIGNED else directory,
        )
        log.update_high_watermark(self._checkpointed_high_watermark(log, topic.topic_partition))
        actual = self._log_manager.directory_id(log.parent_dir)
        if self.on_assignment is not None and actual is not None and actual != directory:
            self.on_assignment(topic, actual, lambda: None)
        return log

    def _maybe_take_over_future_log(self, topic_partition: TopicPartition, directory: Uuid) -> None:
        """Takes the future log as the log, if the old directory was lost after the controller took
        the new one.
        """
        future = self._log_manager.future_log(topic_partition)
        if future is None or self._log_manager.get_log(topic_partition) is not None:
            return
        if self._log_manager.directory_id(future.parent_dir) == directory:
            self._log_manager.replace_current_with_future_log(topic_partition)

    def _checkpointed_high_watermark(self, log: UnifiedLog, topic_partition: TopicPartition) -> int:
        checkpoint = self._checkpointed.get(log.parent_dir)
        if checkpoint is None:
            checkpoint = self._checkpointed[log.parent_dir] = self._log_manager.read_high_watermarks(log.parent_dir)
        return checkpoint.get(topic_partition, 0)

    def delete(self, deleted: Sequence[TopicPartition]) -> None:
        """Delete the logs of these partitions later, on a worker."""
        self._log_manager.async_delete(
            [topic_partition for topic_partition in deleted if self._log_manager.get_log(topic_partition) is not None],
            on_error=lambda topic_partition, error: _log.error("Unable to delete replica %s: %s", topic_partition, error),
        )
