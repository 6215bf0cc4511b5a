"""The periodic work of a `LogManager`: retention, flushing, checkpoints, removing deleted logs,
expiring producers.

The `LogScheduler` runs every task. A task schedules itself again when it is done, so there is never
more than one of a kind. All of them change the state of logs and so belong to the loop. Work that
may be long (removing the logs of a topic with hundreds of partitions takes seconds on a busy disk)
is done in small pieces, so that other work on the loop gets its turn in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_checkpoints import LogCheckpoints
from kmirror.storage.log_dir_failure_handler import LogDirFailureHandler, guarded
from kmirror.storage.log_removal import LogRemoval
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.ports import LogPorts
from kmirror.storage.unified_log import UnifiedLog

NEVER_MS: Final = 1 << 62
FAILURE_CHECK_MS: Final = 1000
IDLE_LOGS_A_TURN: Final = 16


class LogManagerTasks:
    """The periodic part of a `LogManager`. Owns the queue of idle logs whose topic id is still to
    be written.
    """

    def __init__(
        self,
        settings: LogSettings,
        ports: LogPorts,
        logs: BrokerLogs,
        *,
        checkpoints: LogCheckpoints,
        removal: LogRemoval,
        failures: LogDirFailureHandler,
    ) -> None:
        self._settings = settings
        self._ports = ports
        self._logs = logs
        self._checkpoints = checkpoints
        self._removal = removal
        self._failures = failures
        self._idle_logs: deque[UnifiedLog] = deque()
        self._is_started = self._is_stopped = False

    def start(self) -> None:
        self._is_started = True
        config, checkpoints = self._settings.config, self._checkpoints
        self._every("kafka-log-retention", self.cleanup_logs, config.retention_check_interval_ms)
        self._every("kafka-log-flusher", self.flush_dirty_logs, config.flush_check_interval_ms)
        self._every(
            "kafka-recovery-point-checkpoint", checkpoints.write_recovery_points, config.flush_recovery_offset_checkpoint_interval_ms
        )
        self._every(
            "kafka-log-start-offset-checkpoint", checkpoints.write_log_start_offsets, config.flush_start_offset_checkpoint_interval_ms
        )
        self._check_producers_after_an_interval(self._logs.all())
        self._every("log-dir-failures", self._failures.handle_reported, FAILURE_CHECK_MS, initial_delay_ms=FAILURE_CHECK_MS)
        self._ports.scheduler.schedule_once("kafka-delete-logs", self._delete_logs_and_reschedule, config.initial_task_delay_ms)

    def stop(self) -> None:
        """Stops all tasks, also those that are scheduled already."""
        self._is_stopped = True

    def add(self, log: UnifiedLog) -> None:
        """Takes on a log that has just been created."""
        if self._is_started:
            self._check_producers_after_an_interval([log])
        if log.is_deferred:
            self._add_idle_log(log)

    def _every(self, name: str, task: Callable[[], object], period_ms: int, *, initial_delay_ms: int | None = None) -> None:
        if period_ms >= NEVER_MS:
            return

        def run() -> None:
            if self._is_stopped:
                return
            try:
                task()
            finally:  # an error goes to the scheduler, but the task runs again
                self._ports.scheduler.schedule_once(name, run, period_ms)

        delay_ms = self._settings.config.initial_task_delay_ms if initial_delay_ms is None else initial_delay_ms
        self._ports.scheduler.schedule_once(name, run, delay_ms)

    # topic ids of idle logs

    def _add_idle_log(self, log: UnifiedLog) -> None:
        """Queues a log whose topic id is to be written soon. A few are written at a time, because
        one request may create thousands of logs.
        """
        self._idle_logs.append(log)
        if len(self._idle_logs) == 1:
            self._ports.scheduler.schedule_once("flush-metadata-files", self._note_topic_ids, 0)

    def _note_topic_ids(self) -> None:
        if self._is_stopped:
            return
        try:
            for _ in range(min(len(self._idle_logs), IDLE_LOGS_A_TURN)):
                log = self._idle_logs.popleft()
                guarded(self._ports.log_dir_failures, log, log.note_topic_id)
        finally:
            if self._idle_logs:
                self._ports.scheduler.schedule_once("flush-metadata-files", self._note_topic_ids, 0)

    # retention, flush, producers

    def cleanup_logs(self) -> int:
        """Applies retention to the logs that are not compacted (the cleaner does the others);
        returns the number of segments deleted.
        """
        total = 0
        for log in list(self._logs.current.values()):
            if not log.cleaning_config.compact:
                total += guarded(self._ports.log_dir_failures, log, log.delete_old_segments) or 0
        return total

    def flush_dirty_logs(self) -> None:
        now_ms = self._ports.clock.time_ms()
        for log in self._logs.all():
            if now_ms - log.local_log.last_flush_time_ms >= log.config.flush_ms:
                guarded(self._ports.log_dir_failures, log, log.flush)

    def _check_producers_after_an_interval(self, opened: list[UnifiedLog]) -> None:
        """Checks logs that were opened together from time to time, for the first time when they
        have been open for an interval.

        Kafka's `UnifiedLog` schedules its check in the same way. A check soon after the start would
        forget producers whose records carry old timestamps, and they may be about to send a batch
        again.
        """
        period_ms = self._settings.config.producer_id_expiration_check_interval_ms
        if not opened or period_ms >= NEVER_MS:
            return

        def run() -> None:
            kept = [] if self._is_stopped else [log for log in opened if self._logs.has(log)]
            try:
                self.remove_expired_producers(kept)
            finally:
                self._check_producers_after_an_interval(kept)

        self._ports.scheduler.schedule_once("PeriodicProducerExpirationCheck", run, period_ms)

    def remove_expired_producers(self, logs: Iterable[UnifiedLog]) -> None:
        now_ms = self._ports.clock.time_ms()
        for log in logs:
            log.producer_state_manager.remove_expired_producers(now_ms)

    # deleted logs

    def _delete_logs_and_reschedule(self) -> None:
        if self._is_stopped:
            return
        delay_ms = max(1, self._settings.default_log_config.file_delete_delay_ms)
        try:
            delay_ms = self._removal.delete_logs()
        finally:
            self._ports.scheduler.schedule_once("kafka-delete-logs", self._delete_logs_and_reschedule, delay_ms)
