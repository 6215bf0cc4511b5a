"""How a `LogManager` finds its logs at start: directory by directory, one step for each log. It
also decides which folders are refused or set aside as strays.

A disk error (full, read-only, failing, no descriptor left) takes the directory offline and says
nothing about the logs in it: they stay as they are. Corrupt bytes that recovery may not cut off end
the start.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.log_dir_failure_handler import LogDirFailureHandler
from kmirror.storage.log_dirs import LogDir, LogDirs
from kmirror.storage.log_factory import LogFactory
from kmirror.storage.log_file_names import DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX
from kmirror.storage.log_manager_steps import LogOpening, folders_to_load
from kmirror.storage.log_removal import LogRemoval
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)

BlockingStep = Callable[[], None]
LOGS_LOADED_A_TURN = 100


class LogManagerLoading:
    """Fills the broker's logs (`BrokerLogs`), and the queue of those to be removed
    (`LogRemoval`).
    """

    def __init__(
        self,
        files: FileSystem,
        dirs: LogDirs,
        logs: BrokerLogs,
        *,
        settings: LogSettings,
        factory: LogFactory,
        removal: LogRemoval,
        failures: LogDirFailureHandler,
    ) -> None:
        self._files = files
        self._dirs = dirs
        self._logs = logs
        self._settings = settings
        self._factory = factory
        self._removal = removal
        self._failures = failures

    def load_steps(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> Iterator[BlockingStep]:
        """Each step opens one log and may run on a worker; take the next step when it is done."""
        self._failures.handle_reported()
        for log_dir in list(self._dirs.live.values()):
            yield from self._load_dir(log_dir, is_stray)

    def _load_dir(self, log_dir: LogDir, is_stray: Callable[[UnifiedLog], bool]) -> Iterator[BlockingStep]:
        try:
            marker = CleanShutdownFile(self._files, log_dir.path)
            log_dir.had_clean_shutdown = marker.exists()
            marker.delete()
            recovery_points = log_dir.recovery_points.read()
            log_start_offsets = log_dir.log_start_offsets.read()
            folders = folders_to_load(self._files, log_dir.path)
        except OSError as error:
            self._failures.handle(log_dir.path, error)
            return
        _LOGGER.info("%s %d logs from %s", "loading" if log_dir.had_clean_shutdown else "recovering", len(folders), log_dir.path)
        for folder in folders:
            directory = f"{log_dir.path}/{folder}"
            opening = LogOpening(self._factory, self._settings, self._files, log_dir, directory, recovery_points, log_start_offsets)
            yield opening.run
            if opening.error is not None:
                self._failures.note(log_dir.path, opening.error)
            elif opening.refusal is not None:
                _LOGGER.error("refusing to load %s: %s", opening.topic_partition, opening.refusal)
                self._logs.refused[opening.topic_partition] = opening.refusal
            elif opening.log is not None:
                self._add_loaded(opening.log, is_stray)
            self._failures.handle_reported()
            if log_dir.path not in self._dirs.live:
                return
        log_dir.is_loaded = True

    def _add_loaded(self, log: UnifiedLog, is_stray: Callable[[UnifiedLog], bool]) -> None:
        if log.name.endswith(DELETE_DIR_SUFFIX):
            self._removal.add(log)
            return
        logs = self._logs.future if log.name.endswith(FUTURE_DIR_SUFFIX) else self._logs.current
        if is_stray(log) or (logs is self._logs.current and log.topic_id is None and log.size > 0):
            self._removal.try_to_rename_stray(log)
            return
        previous = logs.get(log.topic_partition)
        if previous is not None:
            raise KmirrorError(
                f"Duplicate log directories for {log.topic_partition} are found in both {log.directory} and {previous.directory}: "
                f"move one of them away. If a log directory failed recently, the one in it. If the node died while the replica was moved from "
                f"one to the other, both are whole: keep the one in the directory that it was moved to"
            )
        logs[log.topic_partition] = log

    def set_strays_aside(self, is_stray: Callable[[UnifiedLog], bool]) -> None:
        """Renames the loaded logs that are strays by now; at loading they may have been checked
        against older metadata.
        """
        for logs in (self._logs.current, self._logs.future):
            for topic_partition, log in list(logs.items()):
                if is_stray(log):
                    del logs[topic_partition]
                    self._removal.try_to_rename_stray(log)
        self._failures.handle_reported()


def run_some(steps: Iterator[BlockingStep]) -> bool:
    """Runs some steps on a worker, which is safe because nothing else uses the log manager yet.

    False when all logs are loaded.
    """
    loaded = 0
    for step in itertools.islice(steps, LOGS_LOADED_A_TURN):
        step()
        loaded += 1
    return loaded == LOGS_LOADED_A_TURN
