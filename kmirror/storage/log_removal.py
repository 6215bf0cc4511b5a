"""How a log leaves a broker: its folder is renamed to `-delete` and removed later, or renamed to
`-stray` and kept.

Removing the logs of a topic with hundreds of partitions takes seconds on a busy disk, so
`delete_logs` removes one at each call.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_checkpoints import LogCheckpoints
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_dir_failure_handler import guarded
from kmirror.storage.log_file_names import log_delete_dir_name, log_stray_dir_name
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.ports import LogPorts
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)


class LogRemoval:
    """Owner of the queue of logs that wait to be removed."""

    def __init__(
        self, settings: LogSettings, ports: LogPorts, logs: BrokerLogs, checkpoints: LogCheckpoints, cleaner: LogCleaner | None
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._logs = logs
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._logs_to_be_deleted: deque[tuple[UnifiedLog, int]] = deque()

    def async_delete(
        self,
        topic_partitions: Iterable[TopicPartition],
        *,
        is_stray: bool = False,
        on_error: Callable[[TopicPartition, Exception], None] | None = None,
    ) -> None:
        """Sets the current logs aside; syncs each dir and rewrites its checkpoints once."""
        affected: list[str] = []
        for topic_partition in topic_partitions:
            log = self._logs.current.pop(topic_partition, None)
            if log is None:
                continue
            affected.append(log.parent_dir)
            if self._cleaner is not None:
                self._cleaner.abort_cleaning(topic_partition)
            try:
                if is_stray:
                    self.rename_stray(log)
                else:
                    self.set_aside(log, synced=False)
            except (OSError, ApiException) as error:
                if on_error is None:
                    raise
                on_error(topic_partition, error)
        for path in dict.fromkeys(affected):
            self._checkpoints.sync_renames_in(path)
            if self._cleaner is not None:
                self._cleaner.manager.remove_from_checkpoints(path)
            self._checkpoints.write_in(path)

    def set_aside(self, log: UnifiedLog, *, synced: bool = True) -> None:
        """Renames the log to `-delete`; it is removed after file.delete.delay.ms."""
        log.rename_dir(log_delete_dir_name(log.topic_partition, self._ports.random), synced=synced)
        self.add(log)
        _LOGGER.info("log for partition %s is renamed to %s and is scheduled for deletion", log.topic_partition, log.directory)

    def try_to_set_aside(self, log: UnifiedLog) -> None:
        """Sets aside a log that another one has replaced already. A disk failure is only logged: it
        does not concern the other log.
        """
        try:
            self.set_aside(log)
        except ApiException as error:
            _LOGGER.error("cannot rename the log %s: %s", log.directory, error.message)

    def rename_stray(self, log: UnifiedLog) -> None:
        """Renames the log to `-stray` and closes it; it is never removed."""
        log.rename_dir(log_stray_dir_name(log.topic_partition, self._ports.random))
        log.close_handlers()
        _LOGGER.warning("log for partition %s is marked as stray and renamed to %s", log.topic_partition, log.directory)

    def try_to_rename_stray(self, log: UnifiedLog) -> None:
        try:
            self.rename_stray(log)
        except ApiException as error:
            log.close_handlers()
            _LOGGER.error("cannot rename the log %s: %s", log.directory, error.message)

    def close_handlers(self) -> None:
        """Closes the files of the logs that wait. The next start removes their folders."""
        for log, _ in self._logs_to_be_deleted:
            log.close_handlers()

    def add(self, log: UnifiedLog) -> None:
        """Queues a log whose folder is named `-delete`."""
        self._logs_to_be_deleted.append((log, self._ports.clock.time_ms()))

    def delete_logs(self) -> int:
        """Removes the folder of one log that was deleted at least file.delete.delay.ms ago; returns
        the ms until the next one is due.
        """
        if self._until_next_deletion_ms() == 0:
            log, _ = self._logs_to_be_deleted.popleft()
            guarded(self._ports.log_dir_failures, log, log.delete)
            _LOGGER.info("deleted log for partition %s in %s", log.topic_partition, log.directory)
        return self._until_next_deletion_ms()

    def _until_next_deletion_ms(self) -> int:
        """0 if one is due. Logs deleted from now on are not due before file.delete.delay.ms have
        passed.
        """
        delay_ms = self._settings.default_log_config.file_delete_delay_ms
        if not self._logs_to_be_deleted:
            return max(1, delay_ms)
        _, deleted_at_ms = self._logs_to_be_deleted[0]
        return max(0, deleted_at_ms + delay_ms - self._ports.clock.time_ms())
