"""What lies in a log.dir before a write: the partitions there, and whether the save mode allows to
add to them or to replace them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.spark.commit_journal import JOURNAL_FILE_NAME, TEMPORARY_FILE_NAME
from kmirror.spark.local_writes import WritableLocalFiles
from kmirror.spark.options import NAME
from kmirror.spark.write_options import WriteOptions
from kmirror.spark.written_batches import BATCHES_FILE_NAME, TEMPORARY_BATCHES_FILE_NAME
from kmirror.storage import log_file_names
from kmirror.storage.checkpoint_file import TEMPORARY_SUFFIX
from kmirror.storage.clean_shutdown_file import CLEAN_SHUTDOWN_FILE_NAME
from kmirror.storage.log_dirs import LOCK_FILE_NAME
from kmirror.storage.meta_properties import META_PROPERTIES_FILE_NAME
from kmirror.storage.offset_checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT_FILE_NAME,
    HIGH_WATERMARK_CHECKPOINT_FILE_NAME,
    LOG_START_OFFSET_CHECKPOINT_FILE_NAME,
    RECOVERY_POINT_CHECKPOINT_FILE_NAME,
)
from kmirror.storage.partition_metadata_file import PARTITION_METADATA_FILE_NAME

CHECKPOINT_FILES: Final = (
    RECOVERY_POINT_CHECKPOINT_FILE_NAME,
    LOG_START_OFFSET_CHECKPOINT_FILE_NAME,
    HIGH_WATERMARK_CHECKPOINT_FILE_NAME,
    CLEANER_OFFSET_CHECKPOINT_FILE_NAME,
)
TEMPORARY_FILES: Final = (*(name + TEMPORARY_SUFFIX for name in CHECKPOINT_FILES), TEMPORARY_BATCHES_FILE_NAME)
"""What a process that was killed while it wrote a checkpoint leaves."""
_KEPT: Final = (
    META_PROPERTIES_FILE_NAME,
    "bootstrap.checkpoint",
    LOCK_FILE_NAME,
    JOURNAL_FILE_NAME,
    TEMPORARY_FILE_NAME,
    BATCHES_FILE_NAME,
)
_NOT_A_LOG: Final = (log_file_names.DELETE_DIR_SUFFIX, log_file_names.FUTURE_DIR_SUFFIX, log_file_names.STRAY_DIR_SUFFIX)


def partitions_in(files: WritableLocalFiles, path: str, names: Iterable[str]) -> set[TopicPartition]:
    """Returns the partitions whose logs lie in a log.dir."""
    return {
        log_file_names.parse_topic_partition_name(name)
        for name in names
        if is_log_folder(files, path, name) and not name.endswith(_NOT_A_LOG)
    }


def is_log_folder(files: WritableLocalFiles, path: str, name: str) -> bool:
    """Whether it is a folder with a log's name; deleted and stray logs count too."""
    if not files.is_dir(f"{path}/{name}"):
        return False
    try:
        log_file_names.parse_topic_partition_name(name)
    except KmirrorError:
        return False
    return True


def _holds_log(files: WritableLocalFiles, path: str, name: str) -> bool:
    """Whether more than its name makes a folder a log's: folders like `photos-2024` exist."""
    if not is_log_folder(files, path, name):
        return False
    inside = files.list_dir(f"{path}/{name}")
    return name.endswith(_NOT_A_LOG) or PARTITION_METADATA_FILE_NAME in inside or any(log_file_names.is_log_file(one) for one in inside)


def check_save_mode(options: WriteOptions, path: str, found: Iterable[TopicPartition]) -> None:
    """KmirrorError if there already is a log and the save mode is `error`."""
    if options.save_mode and any(True for _ in found):
        raise KmirrorError(f"{NAME}: {path} has logs already; append to them with mode('append'), replace them with mode('overwrite')")


def check_overwrite(files: WritableLocalFiles, path: str, names: Iterable[str]) -> None:
    """KmirrorError if `overwrite` would remove something that is no log, or a node's own log."""
    for name in names:
        if name.startswith(f"{CLUSTER_METADATA_TOPIC_NAME}-"):
            raise KmirrorError(
                f"{NAME}: {path} has {name}: it belongs to a node, and overwrite would destroy the cluster; remove the file first if that is intended"
            )
        known = name in (*CHECKPOINT_FILES, *TEMPORARY_FILES, *_KEPT, CLEAN_SHUTDOWN_FILE_NAME) or _holds_log(files, path, name)
        if not known:
            raise KmirrorError(f"{NAME}: {path}/{name} is not part of a log.dir; overwrite replaces only log.dirs")
