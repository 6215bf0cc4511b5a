"""What a `LogManager` does from time to time: retention, flushing, checkpoints, removing deleted logs, forgetting producers.

Every task is run by the `LogScheduler` and puts itself there again when it is done, so there is never more than one of a
kind. All of them change state of logs and so belong to the loop. What may be long (to remove the logs of a topic with hundreds of
partitions takes seconds on a busy disk) is done a little a turn: everybody who waits for the broker has a turn in between.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import KmirrorError
from kmirror.storage.ports import LogPorts

if TYPE_CHECKING:
    from kmirror.storage.log_manager import LogManager
    from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
NEVER_MS: Final = 1 << 62
FAILURE_CHECK_MS: Final = 1000
IDLE_LOGS_A_TURN: Final = 16


class LogManagerTasks:
    """The periodic part of a `LogManager`, and the queue of logs that wait to be removed."""

    def __init__(self, manager: LogManager, ports: LogPorts) -> None:
        self._manager = manager
        self._ports = ports
        self._logs_to_be_deleted: deque[tuple[UnifiedLog, int]] = deque()
        self._idle_logs: deque[UnifiedLog] = deque()
        self._is_stopped = False

    def start(self) -> None:
        config = self._manager.config
        self._every("kafka-log-retention", self.cleanup_logs, config.retention_check_interval_ms)
        self._every("kafka-log-flusher", self.flush_dirty_logs, config.flush_check_interval_ms)
        self._every(
            "kafka-recovery-point-checkpoint", self.checkpoint_log_recovery_offsets, config.flush_recovery_offset_checkpoint_interval_ms
        )
        self._every(
            "kafka-log-start-offset-checkpoint", self.checkpoint_log_start_offsets, config.flush_start_offset_checkpoint_interval_ms
        )
        self._every("PeriodicProducerExpirationCheck", self.remove_expired_producers, config.producer_id_expiration_check_interval_ms)
        self._every("log-dir-failures", self._manager.handle_reported_failures, FAILURE_CHECK_MS, initial_delay_ms=FAILURE_CHECK_MS)
        self._ports.scheduler.schedule_once("kafka-delete-logs", self._delete_logs_and_reschedule, config.initial_task_delay_ms)

    def stop(self) -> None:
        """Nothing runs any more, also what was scheduled already."""
        self._is_stopped = True

    def _every(self, name: str, task: Callable[[], object], period_ms: int, *, initial_delay_ms: int | None = None) -> None:
        if period_ms >= NEVER_MS:
            return

        def run() -> None:
            if self._is_stopped:
                return
            try:
                task()
            finally:  # whatever it raises goes to the scheduler, and is not the end of the task
                self._ports.scheduler.schedule_once(name, run, period_ms)

        delay_ms = self._manager.config.initial_task_delay_ms if initial_delay_ms is None else initial_delay_ms
        self._ports.scheduler.schedule_once(name, run, delay_ms)

    # topic ids of idle logs

    def add_idle_log(self, log: UnifiedLog) -> None:
        """Its topic id is written soon, a few logs a turn: a request may create thousands."""
        self._idle_logs.append(log)
        if len(self._idle_logs) == 1:
            self._ports.scheduler.schedule_once("flush-metadata-files", self._note_topic_ids, 0)

    def _note_topic_ids(self) -> None:
        if self._is_stopped:
            return
        try:
            for _ in range(min(len(self._idle_logs), IDLE_LOGS_A_TURN)):
                log = self._idle_logs.popleft()
                self._guarded(log, log.note_topic_id)
        finally:
            if self._idle_logs:
                self._ports.scheduler.schedule_once("flush-metadata-files", self._note_topic_ids, 0)

    # retention, flush, producers

    def cleanup_logs(self) -> int:
        """Retention on the logs that are not compacted (the cleaner sees to the others); the number of segments deleted."""
        total = 0
        for log in self._manager.current_logs():
            if not log.config.compact:
                total += self._guarded(log, log.delete_old_segments) or 0
        return total

    def flush_dirty_logs(self) -> None:
        now_ms = self._ports.clock.time_ms()
        for log in self._manager.all_logs():
            if now_ms - log.last_flush_time_ms >= log.config.flush_ms:
                self._guarded(log, log.flush)

    def remove_expired_producers(self) -> None:
        now_ms = self._ports.clock.time_ms()
        for log in self._manager.all_logs():
            log.remove_expired_producers(now_ms)

    def _guarded(self, log: UnifiedLog, action: Callable[[], int | None]) -> int | None:
        """One log's failure (its dir is on its way offline) does not keep the others from their turn."""
        try:
            return action()
        except KmirrorError as error:
            _LOGGER.error("%s: %s", log.topic_partition, error)
        except OSError as error:
            self._ports.log_dir_failures.maybe_add_offline_log_dir(log.parent_dir, f"Error on {log.directory}: {error}", error)
        return None

    # checkpoints

    def checkpoint_log_recovery_offsets(self) -> None:
        for path in self._manager.live_log_dirs:
            self.checkpoint_recovery_offsets_in(path)

    def checkpoint_log_start_offsets(self) -> None:
        for path in self._manager.live_log_dirs:
            self.checkpoint_log_start_offsets_in(path)

    def sync_renames_in(self, path: str) -> None:
        """Behind all logs of a log dir that were renamed in one turn: a sync for each would take seconds of a topic with a thousand partitions."""
        if self._manager.log_dir(path) is None:
            return
        try:
            self._ports.files.fsync_path(path)
        except OSError as error:
            self._report(path, f"Disk error while renaming deleted logs in directory {path}: {error}", error)

    def checkpoint_recovery_offsets_in(self, path: str) -> None:
        log_dir = self._manager.log_dir(path)
        if log_dir is None:
            return
        offsets = {partition: log.recovery_point for partition, log in self._manager.logs_in_dir(path).items()}
        try:
            log_dir.recovery_points.write(offsets)
        except OSError as error:
            self._report(path, f"Disk error while writing recovery offsets checkpoint in directory {path}: {error}", error)

    def checkpoint_log_start_offsets_in(self, path: str) -> None:
        """Only logs that begin inside of their first segment: the others' start is in the file names."""
        log_dir = self._manager.log_dir(path)
        if log_dir is None:
            return
        logs = self._manager.logs_in_dir(path)
        offsets = {
            partition: log.log_start_offset for partition, log in logs.items() if log.log_start_offset > log.log_segments[0].base_offset
        }
        try:
            log_dir.log_start_offsets.write(offsets)
        except OSError as error:
            self._report(path, f"Disk error while writing log start offsets checkpoint in directory {path}: {error}", error)

    def _report(self, path: str, message: str, error: OSError) -> None:
        self._ports.log_dir_failures.maybe_add_offline_log_dir(path, message, error)

    # deleted logs

    def add_log_to_be_deleted(self, log: UnifiedLog) -> None:
        self._logs_to_be_deleted.append((log, self._ports.clock.time_ms()))

    def delete_logs(self) -> int:
        """Remove the folder of a log that was deleted at least file.delete.delay.ms ago; ms until the next one is due."""
        if self._until_next_deletion_ms() == 0:
            log, _ = self._logs_to_be_deleted.popleft()
            self._guarded(log, log.delete)
            _LOGGER.info("deleted log for partition %s in %s", log.topic_partition, log.directory)
        return self._until_next_deletion_ms()

    def _until_next_deletion_ms(self) -> int:
        """0 when one is due; what is deleted from now on is not due before file.delete.delay.ms have gone by."""
        delay_ms = self._manager.default_log_config.file_delete_delay_ms
        if not self._logs_to_be_deleted:
            return max(1, delay_ms)
        _, deleted_at_ms = self._logs_to_be_deleted[0]
        return max(0, deleted_at_ms + delay_ms - self._ports.clock.time_ms())

    def _delete_logs_and_reschedule(self) -> None:
        if self._is_stopped:
            return
        delay_ms = max(1, self._manager.default_log_config.file_delete_delay_ms)
        try:
            delay_ms = self.delete_logs()
        finally:
            self._ports.scheduler.schedule_once("kafka-delete-logs", self._delete_logs_and_reschedule, delay_ms)
