"""The driver's folders as a task sees them.

A path without a scheme is a folder of the machine that reads it. The driver has listed it; on an
executor of another machine it may not exist. Then every file in it seems to be gone, which would be
a finding about the logs. It is none: nothing was looked at, so the job fails.
"""

from __future__ import annotations

import platform

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.spark.files import file_system_for


def files_of_task(location: str) -> FileSystem:
    """Returns the file system of an input. KmirrorError if its folder is not here."""
    files, path = file_system_for(location)
    is_of_a_machine = "://" not in location or location.startswith("file:")
    if is_of_a_machine and not files.is_dir(path):
        raise KmirrorError(
            f"{path} does not exist on {platform.node()}, where a task of Spark runs, so nothing was read there; "
            "put the logs where all executors see them under one path, or on hdfs, s3, gs or abfs, or use --engine local"
        )
    return files
