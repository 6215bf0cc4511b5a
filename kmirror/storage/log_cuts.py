"""What belongs to every cut of a log: its future log is cut too, the cleaner keeps away, and
checkpoints do not refer to offsets that are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.future_logs import FutureLogs
from kmirror.storage.log_checkpoints import LogCheckpoints
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_truncation import LogCut
from kmirror.storage.unified_log import UnifiedLog


class LogCuts:
    """Provides the guard that is entered around every cut of a broker's log."""

    def __init__(self, logs: BrokerLogs, future_logs: FutureLogs, checkpoints: LogCheckpoints, cleaner: LogCleaner | None) -> None:
        self._logs = logs
        self._future_logs = future_logs
        self._checkpoints = checkpoints
        self._cleaner = cleaner

    @contextmanager
    def guard(self, log: UnifiedLog, cut: LogCut) -> Iterator[None]:
        """Entered around one cut of `log`.

        A recovery point above the log end must not stay on disk, because records appended later
        would count as flushed. The checkpoint is rewritten only if it had one: a failback cuts
        every partition, and the file has a line for each of them.
        """
        recovery_point = log.recovery_point
        is_current = self._logs.current.get(log.topic_partition) is log
        cleaner = self._cleaner if is_current and cut.reaches_sealed_segments else None
        if is_current:
            self._future_logs.cut(log.topic_partition, cut)
        if cleaner is not None:
            cleaner.abort_and_pause_cleaning(log.topic_partition)
        try:
            yield
            if cleaner is not None:
                cleaner.manager.maybe_truncate_checkpoint(log.parent_dir, log.topic_partition, log.active_segment.base_offset)
        finally:
            if cleaner is not None:
                cleaner.resume_cleaning([log.topic_partition])
        if recovery_point > log.log_end_offset:
            self._checkpoints.write_recovery_points_in(log.parent_dir)
