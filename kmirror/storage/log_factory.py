"""Opens the logs of a broker and creates new ones, with the right settings and in the right
directory.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_dirs import LogDirs
from kmirror.storage.log_file_names import log_dir_name, log_future_dir_name
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.log_truncation import LogCut
from kmirror.storage.meta_properties import DIRECTORY_ID_LOST, DIRECTORY_ID_MIGRATING, DIRECTORY_ID_UNASSIGNED
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import storage_error
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
_NO_DIRECTORY: Final = (DIRECTORY_ID_MIGRATING, DIRECTORY_ID_UNASSIGNED, DIRECTORY_ID_LOST)


class LogFactory:
    """Owner of the directories that were requested for logs that do not exist yet
    (`prefer_log_dir`).
    """

    def __init__(
        self,
        settings: LogSettings,
        ports: LogPorts,
        dirs: LogDirs,
        logs: BrokerLogs,
        *,
        guard: Callable[[UnifiedLog, LogCut], AbstractContextManager[None]],
    ) -> None:
        """`guard` is entered around every cut of a log that is opened here."""
        self._settings = settings
        self._ports = ports
        self._dirs = dirs
        self._logs = logs
        self._guard = guard
        self._preferred_log_dirs: dict[TopicPartition, str] = {}

    def open(
        self,
        directory: str,
        config: LogConfig,
        *,
        log_start_offset: int = 0,
        recovery_point: int = 0,
        clean: bool = True,
        topic_id: Uuid | None = None,
    ) -> UnifiedLog:
        """Opens the log in `directory` with the broker's settings."""
        settings = self._settings
        log = UnifiedLog.open(
            directory,
            config,
            self._ports,
            LogOpenOptions(
                log_start_offset=log_start_offset,
                recovery_point=recovery_point,
                last_shutdown_clean=clean,
                topic_id=topic_id,
                producer_state_config=settings.producer_state_config,
                max_transaction_timeout_ms=settings.config.max_transaction_timeout_ms,
                defer_files=settings.config.defer_files,
            ),
        )
        log.truncation.guard = functools.partial(self._guard, log)
        return log

    def prefer_log_dir(self, topic_partition: TopicPartition, log_dir: str) -> None:
        """Chooses the directory for a log that does not exist yet."""
        self._preferred_log_dirs[topic_partition] = log_dir

    def create(
        self, topic_partition: TopicPartition, topic_id: Uuid | None, *, is_new: bool, target_directory_id: Uuid | None
    ) -> UnifiedLog:
        """Creates a current log. KAFKA_STORAGE_ERROR if it may lie in an offline dir, was refused,
        or no directory is left.
        """
        if topic_partition in self._logs.refused:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, self._logs.refused[topic_partition])
        if not is_new:
            self._check_all_online(topic_partition)
        config = self._settings.log_config(topic_partition.topic)
        preferred = self._preferred_log_dirs.pop(topic_partition, None)
        preferred_dirs = [preferred] if preferred in self._dirs.live else []
        for path in [*preferred_dirs, *self._candidate_dirs(target_directory_id)]:
            try:
                log = self.open(f"{path}/{log_dir_name(topic_partition)}", config, topic_id=topic_id)
            except OSError as error:
                self._ports.log_dir_failures.maybe_add_offline_log_dir(
                    path, f"Error while creating log for {topic_partition} in dir {path}", error
                )
                continue
            self._logs.current[topic_partition] = log
            _LOGGER.info("created log for partition %s in %s", topic_partition, log.directory)
            return log
        raise ApiException(
            Errors.KAFKA_STORAGE_ERROR, f"No log directories available for {topic_partition}. Tried {', '.join(self._dirs.paths)}"
        )

    def create_future(self, topic_partition: TopicPartition, log_dir: str, *, topic_id: Uuid | None) -> UnifiedLog:
        """Creates an empty log beside the current one, in `log_dir`; KAFKA_STORAGE_ERROR while any
        directory is offline.
        """
        self._check_all_online(topic_partition)
        directory = f"{log_dir}/{log_future_dir_name(topic_partition, self._ports.random)}"
        try:
            log = self.open(directory, self._settings.log_config(topic_partition.topic), topic_id=topic_id)
        except OSError as error:
            message = f"Error while creating the future log of {topic_partition} in dir {log_dir}"
            raise storage_error(log_dir, self._ports, message, error) from error
        self._logs.future[topic_partition] = log
        _LOGGER.info("created future log for partition %s in %s", topic_partition, log.directory)
        return log

    def _check_all_online(self, topic_partition: TopicPartition) -> None:
        offline = self._dirs.offline_paths
        if offline:
            raise ApiException(
                Errors.KAFKA_STORAGE_ERROR,
                f"Can not create log for {topic_partition} because log directories {','.join(offline)} are offline",
            )

    def _candidate_dirs(self, target_directory_id: Uuid | None) -> list[str]:
        """The directory that the controller chose, else all, the ones with the fewest logs
        first.
        """
        if target_directory_id is not None and target_directory_id not in _NO_DIRECTORY:
            path = self._dirs.path_of(target_directory_id)
            if path is not None:
                return [path]
        live = list(self._dirs.live)
        return sorted(live, key=lambda path: len(self._logs.in_dir(path))) if len(live) > 1 else live
