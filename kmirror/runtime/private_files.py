"""Which files hold secrets, and so belong to their owner alone: 0600, their folders 0700.

`__cluster_metadata` holds the configs of mirrors (logins at their sources), broker configs, SCRAM credentials: in segments, in snapshots, in
what is written on the way to either. `bootstrap.checkpoint` holds the credentials that a directory was formatted with. The name decides,
when a file is created, so no writer of these files has to think of it; `OsFileSystem.make_private` mends what an older release or another
program left behind. Kafka leaves all of them to the umask.
"""

from __future__ import annotations

import os
from typing import Final

from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME

PRIVATE_FILE_MODE: Final = 0o600
PRIVATE_DIR_MODE: Final = 0o700
_OTHERS: Final = 0o077
_BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"
_METADATA_FOLDER: Final = f"/{CLUSTER_METADATA_TOPIC_NAME}-"


def is_private(path: str) -> bool:
    """Whether what is created at `path` may hold secrets."""
    return _METADATA_FOLDER in path or path.rpartition("/")[2].startswith(_BOOTSTRAP_FILE)


def make_private(path: str) -> None:
    """Take every permission of others from `path`, and from what lies in it when it is a folder; OSError if it is not ours."""
    if not os.path.isdir(path):
        _narrow(path, PRIVATE_FILE_MODE)
        return
    _narrow(path, PRIVATE_DIR_MODE)
    with os.scandir(path) as entries:
        names = [entry.path for entry in entries if not entry.is_symlink()]
    for name in names:
        make_private(name)


def _narrow(path: str, mode: int) -> None:
    if os.stat(path).st_mode & _OTHERS:
        os.chmod(path, mode)
