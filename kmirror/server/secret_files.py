"""Makes the files with secrets in this node's log directories private to their owner, at the start.

New files are created private (`runtime.private_files`). This is for files of an older release, of
Apache Kafka (a data directory may come from there), or of somebody who copied a directory. A file
that we may not change is logged and left alone: the node serves all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kmirror.common.ports import FileSystem
from kmirror.controller.metadata_log import METADATA_LOG_FOLDER
from kmirror.metadata.snapshot import BOOTSTRAP_FILE_NAME

_log = logging.getLogger(__name__)


def make_secret_files_private(files: FileSystem, log_dirs: Iterable[str]) -> None:
    """Sets `__cluster_metadata-0` and `bootstrap.checkpoint` of each directory to 0700 and 0600."""
    for log_dir in log_dirs:
        for path in (f"{log_dir}/{METADATA_LOG_FOLDER}", f"{log_dir}/{BOOTSTRAP_FILE_NAME}"):
            try:
                if files.exists(path):
                    files.make_private(path)
            except OSError as error:
                _log.warning("%s may hold secrets, but its file mode cannot be changed: %s", path, error.strerror or error)
