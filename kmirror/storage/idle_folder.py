"""Whether a partition's folder holds nothing yet: how a broker starts with thousands of partitions
that nobody ever wrote to.

Such a folder is new, or has only `partition.metadata`. That file may be torn after a power loss,
because for an idle partition it is not synced; it then counts as missing, for there is no data
whose topic it could name. Beside it may lie what the first append had written of its successor when
the power went.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import TEMPORARY_SUFFIX
from kmirror.storage.partition_metadata_file import PARTITION_METADATA_FILE_NAME, PartitionMetadataFile

_LOGGER = logging.getLogger(__name__)
_TEMPORARY_NAME = f"{PARTITION_METADATA_FILE_NAME}{TEMPORARY_SUFFIX}"


class IdleFolder(NamedTuple):
    """`topic_id` is what an idle folder says that it belongs to."""

    is_idle: bool
    topic_id: Uuid | None = None


def idle_folder(files: FileSystem, directory: str) -> IdleFolder:
    """Look into `directory`, which is made when it is not there."""
    try:
        names = files.list_dir(directory)
    except FileNotFoundError:
        files.make_dirs(directory)
        return IdleFolder(is_idle=True)
    if not {PARTITION_METADATA_FILE_NAME, _TEMPORARY_NAME}.issuperset(names):
        return IdleFolder(is_idle=False)
    if PARTITION_METADATA_FILE_NAME not in names:
        return IdleFolder(is_idle=True)
    try:
        return IdleFolder(is_idle=True, topic_id=PartitionMetadataFile(files, directory).read())
    except CorruptFileError as error:
        _LOGGER.warning("%s; the partition has no data, so the file is written anew", error)
        return IdleFolder(is_idle=True)
