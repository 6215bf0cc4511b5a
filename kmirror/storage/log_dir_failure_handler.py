"""What happens when the disk under a log directory fails: the directory goes offline, its logs are
closed, and the owner is told.

A failure is reported from deep inside a log, perhaps on a worker. The log refuses further use at
once; everything else happens later, on the loop (`handle_reported`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kmirror.common.errors import KmirrorError, disk_error_advice, disk_error_text
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_dirs import LogDirs
from kmirror.storage.ports import LogDirFailureChannel, LogDirFailures
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)


class LogDirFailureHandler:
    """Owner of the failures that were reported but not handled yet (Kafka's class of this name)."""

    def __init__(self, dirs: LogDirs, logs: BrokerLogs, on_log_dir_failure: Callable[[str, OSError], None] | None) -> None:
        self.channel = LogDirFailures(self._report)
        """The channel to which logs report."""
        self.cleaner: LogCleaner | None = None
        """Set once it exists. The cleaner reports here, too."""
        self.on_log_dir_failure = on_log_dir_failure
        """Called after a directory was taken offline."""
        self._dirs = dirs
        self._logs = logs
        self._reported: list[tuple[str, OSError]] = []

    @property
    def failed_paths(self) -> list[str]:
        """The directories that no log is served from any more: the offline ones, and those that
        `handle_reported` will take offline.
        """
        channel, live = self.channel, self._dirs.live
        return [path for path in self._dirs.paths if path not in live or channel.has_offline_log_dir(path)]

    def handle(self, log_dir: str, error: OSError) -> None:
        """Stops serving the logs in `log_dir`; they are closed without another write."""
        if self._dirs.take_offline(log_dir, error) is None:
            return
        _LOGGER.error(
            "no longer serving the logs in dir %s: %s; no data in it was removed, %s and start again",
            log_dir,
            disk_error_text(error),
            disk_error_advice(error),
        )
        if self.cleaner is not None:
            self.cleaner.manager.handle_log_dir_failure(log_dir)
        for log in self._logs.take_out_dir(log_dir):
            log.close_handlers()
        if self.on_log_dir_failure is not None:
            self.on_log_dir_failure(log_dir, error)

    def handle_reported(self) -> None:
        """Takes the directories offline that failed since the last call; a task calls this every
        second.
        """
        while self._reported:
            self.handle(*self._reported.pop(0))

    def note(self, log_dir: str, error: OSError) -> None:
        """Notes a directory that failed on a worker; `handle_reported` takes it offline."""
        self._reported.append((log_dir, error))

    def _report(self, log_dir: str, message: str, error: OSError) -> None:
        _LOGGER.error("%s", message)
        self.note(log_dir, error)


def guarded(channel: LogDirFailureChannel, log: UnifiedLog, action: Callable[[], int | None]) -> int | None:
    """Runs `action`. A failure of this log (its dir is about to go offline) does not keep the other
    logs from their turn.
    """
    try:
        return action()
    except KmirrorError as error:
        _LOGGER.error("%s: %s", log.topic_partition, error)
    except OSError as error:
        channel.maybe_add_offline_log_dir(log.parent_dir, f"Error on {log.directory}: {error}", error)
    return None
