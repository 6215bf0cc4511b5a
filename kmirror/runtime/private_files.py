"""Which files hold secrets and are readable only by their owner: mode 0600, their folders 0700.

`__cluster_metadata` holds the configs of mirrors (logins at their sources), broker configs and
SCRAM credentials, in segments, in snapshots and in their temporary files. `bootstrap.checkpoint`
holds the credentials that a directory was formatted with. The name decides when a file is created,
so the code that writes these files need not care; `OsFileSystem.make_private` corrects files that
an older release or another program left behind. Kafka leaves all of this to the umask.
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
    """Whether a file created at `path` may hold secrets."""
    return _METADATA_FOLDER in path or path.rpartition("/")[2].startswith(_BOOTSTRAP_FILE)


def make_private(path: str) -> None:
    """Removes all permissions of others from `path`, and from its contents if it is a folder;
    raises OSError if it is not ours."""
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
