"""How a `LogManager` finds its logs at start: those of each live directory, one step a log; what may not be loaded, and strays.

An error of the disk (full, read-only, failing, no descriptor left) takes the directory offline, and says nothing of the logs in
it: they stay as they are. Bytes that make no sense, and that recovery may not cut off, end the start.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.clean_shutdown_file import CleanShutdownFile
from kmirror.storage.log_dirs import LogDir, LogDirs
from kmirror.storage.log_file_names import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    log_stray_dir_name,
)
from kmirror.storage.log_manager_steps import LogOpening, folders_to_load
from kmirror.storage.ports import LogPorts
from kmirror.storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kmirror.storage.log_manager import LogManager

_LOGGER: Final = logging.getLogger(__name__)

BlockingStep = Callable[[], None]
LOGS_LOADED_A_TURN = 100
Logs = dict[TopicPartition, UnifiedLog]


class LogManagerLoading:
    """Fills the manager's maps of logs, which are given here to be filled."""

    def __init__(self, manager: LogManager, ports: LogPorts, dirs: LogDirs, *, current_logs: Logs, future_logs: Logs) -> None:
        self._manager = manager
        self._ports = ports
        self._dirs = dirs
        self._current_logs = current_logs
        self._future_logs = future_logs

    def load_steps(self, is_stray: Callable[[UnifiedLog], bool] = lambda log: False) -> Iterator[BlockingStep]:
        """`startup` without the tasks: each step opens one log and may run on a worker; take the next one when it is done."""
        self._manager.handle_reported_failures()
        for log_dir in list(self._dirs.live.values()):
            yield from self._load_dir(log_dir, is_stray)

    def _load_dir(self, log_dir: LogDir, is_stray: Callable[[UnifiedLog], bool]) -> Iterator[BlockingStep]:
        try:
            marker = CleanShutdownFile(self._ports.files, log_dir.path)
            log_dir.had_clean_shutdown = marker.exists()
            marker.delete()
            recovery_points = log_dir.recovery_points.read()
            log_start_offsets = log_dir.log_start_offsets.read()
            folders = folders_to_load(self._ports.files, log_dir.path)
        except OSError as error:
            self._manager.handle_log_dir_failure(log_dir.path, error)
            return
        _LOGGER.info("%s %d logs from %s", "loading" if log_dir.had_clean_shutdown else "recovering", len(folders), log_dir.path)
        for folder in folders:
            opening = LogOpening(self._manager, log_dir, f"{log_dir.path}/{folder}", recovery_points, log_start_offsets)
            yield opening.run
            if opening.error is not None:
                self._manager.note_failure(log_dir.path, opening.error)
            elif opening.refusal is not None:
                _LOGGER.error("refusing to load %s: %s", opening.topic_partition, opening.refusal)
                self._manager.refused[opening.topic_partition] = opening.refusal
            elif opening.log is not None:
                self._add_loaded(opening.log, is_stray)
            self._manager.handle_reported_failures()
            if log_dir.path not in self._dirs.live:
                return
        log_dir.is_loaded = True

    def _add_loaded(self, log: UnifiedLog, is_stray: Callable[[UnifiedLog], bool]) -> None:
        if log.name.endswith(DELETE_DIR_SUFFIX):
            self._manager.tasks.add_log_to_be_deleted(log)
            return
        logs = self._future_logs if log.name.endswith(FUTURE_DIR_SUFFIX) else self._current_logs
        if is_stray(log) or (logs is self._current_logs and log.topic_id is None and log.size > 0):
            self._try_to_rename_stray(log)
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
        """Rename the loaded logs that are strays by now: what they were checked against when they were loaded may be older."""
        for logs in (self._current_logs, self._future_logs):
            for topic_partition, log in list(logs.items()):
                if is_stray(log):
                    del logs[topic_partition]
                    self._try_to_rename_stray(log)
        self._manager.handle_reported_failures()

    def _try_to_rename_stray(self, log: UnifiedLog) -> None:
        try:
            self.rename_stray(log)
        except ApiException as error:
            log.close_handlers()
            _LOGGER.error("cannot set %s aside: %s", log.directory, error.message)

    def rename_stray(self, log: UnifiedLog) -> None:
        log.rename_dir(log_stray_dir_name(log.topic_partition, self._ports.random))
        log.close_handlers()
        _LOGGER.warning("log for partition %s is marked as stray and renamed to %s", log.topic_partition, log.directory)


def run_some(steps: Iterator[BlockingStep]) -> bool:
    """Load some logs, on a worker: nobody else has the log manager yet. False when all are loaded."""
    loaded = 0
    for step in itertools.islice(steps, LOGS_LOADED_A_TURN):
        step()
        loaded += 1
    return loaded == LOGS_LOADED_A_TURN
