"""The parts of a `LogManager`'s start and shutdown that take long, one log each, and what it looks at before them.

A step's `run` may be on a worker thread; what came of it is read on the loop afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.log_dirs import LogDir
from kmirror.storage.log_file_names import STRAY_DIR_SUFFIX, is_log_file, parse_topic_partition_name
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.partition_metadata_file import PARTITION_METADATA_FILE_NAME

if TYPE_CHECKING:
    from kmirror.storage.log_manager import LogManager
    from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
_REMOTE_LOG_INDEX_CACHE: Final = "remote-log-index-cache"


def folders_to_load(files: FileSystem, log_dir: str) -> list[str]:
    """The names of the partition folders in a log dir: not the metadata log's, and no strays. KmirrorError for any other folder."""
    folders = [name for name in files.list_dir(log_dir) if files.is_dir(f"{log_dir}/{name}") and name != _REMOTE_LOG_INDEX_CACHE]
    partitions = {name: parse_topic_partition_name(name) for name in folders if not name.endswith(STRAY_DIR_SUFFIX)}
    return [name for name, partition in partitions.items() if partition.topic != CLUSTER_METADATA_TOPIC_NAME]


def missing_metadata_reason(files: FileSystem, directory: str) -> str | None:
    """Why a folder may not be loaded: it holds data but does not say of which topic id; None if it may."""
    metadata_path = f"{directory}/{PARTITION_METADATA_FILE_NAME}"
    if files.exists(metadata_path):
        return None
    if not any(files.size(f"{directory}/{name}") for name in files.list_dir(directory) if is_log_file(name)):
        return None
    return (
        f"{metadata_path} is missing: the topic id of the log in {directory} is not known. Restore the file "
        f"(version: 0, topic_id: <id>), or move the folder away"
    )


def read_or_empty(checkpoint: OffsetCheckpointFile) -> dict[TopicPartition, int]:
    """The offsets; a broken file is logged and counts as empty, as in Kafka."""
    try:
        return checkpoint.read()
    except CorruptFileError as error:
        _LOGGER.warning("%s; going on as if the file were empty", error)
        return {}


class LogOpening:
    """One folder's loading. An OSError is kept for the loop (the dir goes offline); other errors stop the start."""

    def __init__(
        self,
        manager: LogManager,
        log_dir: LogDir,
        directory: str,
        recovery_points: Mapping[TopicPartition, int],
        log_start_offsets: Mapping[TopicPartition, int],
    ) -> None:
        self.directory = directory
        self.topic_partition = parse_topic_partition_name(directory)
        self.error: OSError | None = None
        self._log: UnifiedLog | None = None
        self._manager = manager
        self._clean = log_dir.had_clean_shutdown
        self._recovery_point = recovery_points.get(self.topic_partition, 0)
        self._log_start_offset = log_start_offsets.get(self.topic_partition, 0)

    @property
    def log(self) -> UnifiedLog:
        assert self._log is not None, f"{self.directory} was not opened"
        return self._log

    def run(self) -> None:
        try:
            self._log = self._manager.open_log(
                self.directory,
                self._manager.log_config(self.topic_partition.topic),
                log_start_offset=self._log_start_offset,
                recovery_point=self._recovery_point,
                clean=self._clean,
            )
        except OSError as error:
            self.error = error


class LogClosing:
    """One log's flush and close."""

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
