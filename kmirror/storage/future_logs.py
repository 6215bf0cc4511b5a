"""Moving a log to another directory: its future log there replaces the current one, or the move is
given up.

A future log must never have a batch that the current log does not have. So it is cut first when the
current one is cut; after a crash in between it is only shorter.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_checkpoints import LogCheckpoints
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_file_names import log_dir_name
from kmirror.storage.log_removal import LogRemoval
from kmirror.storage.log_truncation import LogCut

_LOGGER: Final = logging.getLogger(__name__)


class FutureLogs:
    """Changes which log is a partition's, when a replica is moved (`replica.alter_log_dirs` decides
    when). It owns no logs: `BrokerLogs` does.
    """

    def __init__(self, logs: BrokerLogs, removal: LogRemoval, checkpoints: LogCheckpoints, cleaner: LogCleaner | None) -> None:
        self.on_cut: Callable[[TopicPartition, int], None] | None = None
        """Called with the end of a future log that was cut because the current one is about to be
        cut.
        """
        self._logs = logs
        self._removal = removal
        self._checkpoints = checkpoints
        self._cleaner = cleaner

    def replace_current(self, topic_partition: TopicPartition) -> None:
        """Makes the future log the current one; the old one is deleted later.

        KAFKA_STORAGE_ERROR if one of them is offline. The new log is renamed first: whatever
        happens in between, the folder name has the data once or twice, never not at all.
        """
        source, future = self._logs.current.get(topic_partition), self._logs.future.get(topic_partition)
        if future is None:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"The future replica for {topic_partition} is offline")
        if source is not None:
            future.maybe_update_high_watermark(source.high_watermark)
        future.rename_dir(log_dir_name(topic_partition))
        del self._logs.future[topic_partition]
        self._logs.current[topic_partition] = future
        if source is not None:
            self._removal.try_to_set_aside(source)
        for path in dict.fromkeys([future.parent_dir, *([] if source is None else [source.parent_dir])]):
            if self._cleaner is not None:
                self._cleaner.manager.remove_from_checkpoints(path)
            self._checkpoints.write_in(path)
        _LOGGER.info("the current replica of %s was replaced by the future replica in %s", topic_partition, future.directory)

    def delete(self, topic_partition: TopicPartition) -> None:
        """Gives up a move and removes its future log."""
        log = self._logs.future.pop(topic_partition)
        self._removal.set_aside(log)
        self._checkpoints.write_in(log.parent_dir)

    def cut(self, topic_partition: TopicPartition, cut: LogCut) -> None:
        """Cuts the future log, because the current log is about to be cut.

        A future log that cannot be cut is given up: it must never replace the current one.
        """
        future = self._logs.future.get(topic_partition)
        if future is None:
            return
        try:
            if cut.is_full:
                future.truncate_fully_and_start_at(cut.target_offset)
            else:
                future.truncate_to(cut.target_offset)
        except ApiException as error:
            _LOGGER.error(
                "cancelling the move of %s: its future log cannot be truncated together with the current log: %s",
                topic_partition,
                error.message,
            )
            del self._logs.future[topic_partition]
            self._removal.try_to_set_aside(future)
            return
        if self.on_cut is not None:
            self.on_cut(topic_partition, future.log_end_offset)
