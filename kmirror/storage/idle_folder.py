"""Whether a partition's folder holds no data yet. A broker uses this to start with thousands of
partitions that nobody has written to.

Such a folder is new, or has only `partition.metadata`. For an idle partition that file is not
synced, so a power loss may tear it. It then counts as missing, since there is no data whose topic
it could name. A temporary file may lie beside it, if the power went while the first append was
replacing it.
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
    """What was found; `topic_id` is the id in an idle folder's `partition.metadata`."""

    is_idle: bool
    topic_id: Uuid | None = None


def idle_folder(files: FileSystem, directory: str) -> IdleFolder:
    """Looks into `directory`, and creates it if it does not exist."""
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
        _LOGGER.warning("%s; the partition has no data, so the file is written again", error)
        return IdleFolder(is_idle=True)
