"""The directories in which a broker keeps its logs: created, locked, identified, and taken out of
service when the disk fails.

`.lock` is held exclusively for as long as the broker lives. The controller knows a directory by the
id in its `meta.properties` (`directory.id`). A directory that cannot be used goes offline for good;
the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import File, FileSystem
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parent_dir
from kmirror.storage.meta_properties import read_meta_properties
from kmirror.storage.offset_checkpoint_file import (
    HIGH_WATERMARK_CHECKPOINT_FILE_NAME,
    LOG_START_OFFSET_CHECKPOINT_FILE_NAME,
    RECOVERY_POINT_CHECKPOINT_FILE_NAME,
    OffsetCheckpointFile,
)

_LOGGER: Final = logging.getLogger(__name__)
LOCK_FILE_NAME: Final = ".lock"


class LogDir:
    """One usable log directory: its lock, id and offset checkpoints."""

    def __init__(self, files: FileSystem, path: str) -> None:
        self.path = path
        self.lock: File = _lock(files, path)
        try:
            meta_properties = read_meta_properties(files, path)
            self.recovery_points = OffsetCheckpointFile(files, f"{path}/{RECOVERY_POINT_CHECKPOINT_FILE_NAME}")
            self.log_start_offsets = OffsetCheckpointFile(files, f"{path}/{LOG_START_OFFSET_CHECKPOINT_FILE_NAME}")
            self.high_watermarks = OffsetCheckpointFile(files, f"{path}/{HIGH_WATERMARK_CHECKPOINT_FILE_NAME}")
        except BaseException:
            self.lock.close()
            raise
        self.directory_id: Uuid | None = meta_properties.directory_id if meta_properties else None
        self.had_clean_shutdown = False
        self.is_loaded = False


class LogDirs:
    """Owner of the configured log directories. `live` has the usable ones by path, in the
    configured order.
    """

    def __init__(self, files: FileSystem, paths: Sequence[str]) -> None:
        """KmirrorError if one is listed twice or in use by another broker, or if none can be
        used.
        """
        self.paths = tuple(paths)
        self.live: dict[str, LogDir] = {}
        self.failures: dict[str, Exception] = {}
        if len(set(self.paths)) < len(self.paths):
            raise KmirrorError(f"Duplicate log directory found: {', '.join(self.paths)}")
        for path in self.paths:
            try:
                _create(files, path)
                self.live[path] = LogDir(files, path)
            except (OSError, CorruptFileError) as error:  # a CorruptFileError is meta.properties'
                _LOGGER.error("log directory %s cannot be used: %s", path, error)
                self.failures[path] = error
        if not self.live:
            reasons = "; ".join(f"{path}: {error}" for path, error in self.failures.items())
            raise KmirrorError(f"none of the log directories can be created or used: {reasons}")

    @property
    def offline_paths(self) -> list[str]:
        return [path for path in self.paths if path not in self.live]

    def id_of(self, path: str) -> Uuid | None:
        found = self.live.get(path)
        return found.directory_id if found else None

    def path_of(self, directory_id: Uuid) -> str | None:
        return next((path for path, log_dir in self.live.items() if log_dir.directory_id == directory_id), None)

    def take_offline(self, path: str, error: OSError) -> LogDir | None:
        """Takes the directory out of service and unlocks it; None if that was done before."""
        log_dir = self.live.pop(path, None)
        if log_dir is not None:
            self.failures[path] = error
            log_dir.lock.close()
        return log_dir

    def unlock(self) -> None:
        for log_dir in self.live.values():
            log_dir.lock.close()


def _create(files: FileSystem, path: str) -> None:
    if not files.exists(path):
        _LOGGER.info("log directory %s not found, creating it", path)
        files.make_dirs(path)
        files.fsync_path(parent_dir(path))
    if not files.is_dir(path):
        raise NotADirectoryError(f"{path} is not a directory")


def _lock(files: FileSystem, path: str) -> File:
    try:
        return files.lock(f"{path}/{LOCK_FILE_NAME}")
    except BlockingIOError as error:
        raise KmirrorError(
            f"Failed to acquire lock on file {LOCK_FILE_NAME} in {path}. "
            f"A Kafka instance in another process or thread is using this directory."
        ) from error
