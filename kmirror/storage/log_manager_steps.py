"""The long parts of a `LogManager`'s start and shutdown, one step for each log, and the checks
before them.

A step's `run` may be on a worker thread; the loop reads its result afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.log_dirs import LogDir
from kmirror.storage.log_factory import LogFactory
from kmirror.storage.log_file_names import DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX, is_log_file, parse_topic_partition_name
from kmirror.storage.log_settings import LogSettings
from kmirror.storage.partition_metadata_file import PARTITION_METADATA_FILE_NAME
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
_REMOTE_LOG_INDEX_CACHE: Final = "remote-log-index-cache"


def folders_to_load(files: FileSystem, log_dir: str) -> list[str]:
    """The names of the partition folders in a log dir, without the metadata log's and strays.

    KmirrorError for any other folder.
    """
    folders = [name for name in files.list_dir(log_dir) if files.is_dir(f"{log_dir}/{name}") and name != _REMOTE_LOG_INDEX_CACHE]
    partitions = {name: parse_topic_partition_name(name) for name in folders if not name.endswith(STRAY_DIR_SUFFIX)}
    return [name for name, partition in partitions.items() if partition.topic != CLUSTER_METADATA_TOPIC_NAME]


def missing_metadata_reason(files: FileSystem, directory: str) -> str | None:
    """Why a folder may not be loaded (it holds data, but its topic id is missing); None if it
    may.
    """
    metadata_path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    if files.exists(metadata_path):
        return None
    if not any(files.size(f"{directory}/{name}") for name in files.list_dir(directory) if is_log_file(name)):
        return None
    return (
        f"{metadata_path} is missing: the topic id of the log in {directory} is not known. Restore the file "
        f"(version: 0, topic_id: <id>), or move the folder away"
    )


class LogOpening:
    """Loads one folder, and owns the result. If the folder holds data whose topic id is unknown,
    `refusal` says so instead.

    An OSError is kept for the loop (the dir goes offline); other errors stop the start.
    """

    def __init__(
        self,
        factory: LogFactory,
        settings: LogSettings,
        files: FileSystem,
        log_dir: LogDir,
        directory: str,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
    ) -> None:
        self.directory = directory
        self.topic_partition = parse_topic_partition_name(directory)
        self.error: OSError | None = None
        self.refusal: str | None = None
        self.log: UnifiedLog | None = None
        """None until it was opened, or if it could not be."""
        self._factory = factory
        self._settings = settings
        self._files = files
        self._clean = log_dir.had_clean_shutdown
        self._recovery_point = recovery_points.get(self.topic_partition, 0)
        self._log_start_offset = log_start_offsets.get(self.topic_partition, 0)

    def run(self) -> None:
        try:
            self.refusal = self._reason_to_refuse()
            if self.refusal is None:
                self.log = self._open()
        except OSError as error:
            self.error = error
        except ApiException as error:
            if error.error is not Errors.KAFKA_STORAGE_ERROR:
                raise  # the directory's failure has been reported

    def _open(self) -> UnifiedLog:
        return self._factory.open(
            self.directory,
            self._settings.log_config(self.topic_partition.topic),
            log_start_offset=self._log_start_offset,
            recovery_point=self._recovery_point,
            clean=self._clean,
        )

    def _reason_to_refuse(self) -> str | None:
        if self._settings.config.stray_on_missing_partition_metadata or self.directory.endswith(DELETE_DIR_SUFFIX):
            return None
        return missing_metadata_reason(self._files, self.directory)


class LogClosing:
    """Flushes and closes one log."""

    def __init__(self, log: UnifiedLog) -> None:
        self.succeeded = False
        self._log = log

    def run(self) -> None:
        try:
            self._log.flush(force_flush_active_segment=True)
            self._log.close()
            self.succeeded = True
        except (OSError, ApiException) as error:
            _LOGGER.warning("cannot close %s, its directory is not marked as cleanly shut down: %s", self._log.directory, error)
