"""`.kafka_cleanshutdown`: written last at a clean shutdown, read and removed first at the next
start.

One JSON object without a line end, `{"version":0,"brokerEpoch":<n>}`. Its presence alone means that
the shutdown was clean. The broker epoch goes into the next registration (PreviousBrokerEpoch) and
may be unreadable.
"""

from __future__ import annotations

import json
from typing import Final

from kmirror.common.ports import FileSystem
from kmirror.storage.checkpoint_file import parent_dir

CLEAN_SHUTDOWN_FILE_NAME: Final = ".kafka_cleanshutdown"


class CleanShutdownFile:
    """The clean-shutdown marker of one log directory (Kafka's `CleanShutdownFileHandler`)."""

    VERSION: Final = 0

    def __init__(self, files: FileSystem, log_dir: str) -> None:
        self.path = f"{log_dir}/{CLEAN_SHUTDOWN_FILE_NAME}"
        self._files = files

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def write(self, broker_epoch: int) -> None:
        self._files.write_bytes(self.path, f'{{"version":{self.VERSION},"brokerEpoch":{broker_epoch}}}'.encode())
        self._files.fsync_path(self.path)
        self._files.fsync_path(parent_dir(self.path))

    def read(self) -> int | None:
        """The broker epoch, or None when there is no marker or its text is unreadable."""
        try:
            content = json.loads(self._files.read_bytes(self.path))
        except (FileNotFoundError, ValueError):
            return None
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        return epoch if isinstance(epoch, int) and not isinstance(epoch, bool) else None

    def delete(self) -> None:
        """Removes the marker durably, because from now on the logs may become unclean."""
        if self.exists():
            self._files.remove(self.path)
            self._files.fsync_path(parent_dir(self.path))
