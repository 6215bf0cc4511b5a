"""`committed-offset`: how far `__cluster_metadata` was certainly flushed, so that a start can tell lost records from a torn tail.

Recovery cuts a log at the first batch that is not valid. At the end of a log that is right: a power loss tears what was not flushed,
and nobody has seen that. A bad sector in the middle looks the same, and everything behind it would go: topics, and then their data as
strays. Kafka's `KafkaRaftLog` is recovered like that too, from offset 0 at every start; its other voters bring the records back. Here
there is one voter. So the metadata log is not cut below what is known to be committed (`MetadataLog.open`):

- this file: the high watermark, written behind each flush and not synced. After a crash of the process it is exact; after a power loss
  it may be an older one, or torn, and then counts as not there. It is never ahead;
- the start of the newest leader epoch (`leader-epoch-checkpoint`, synced): everything before was flushed when the epoch began.

What a snapshot holds may be cut: nothing is lost by that. The file is 30 bytes, `<offset> <CRC-32C of that>`, written in place. Kafka
ignores it.
"""

from __future__ import annotations

import logging
from typing import Final

from kmirror.common.crc32c import crc32c
from kmirror.common.ports import File, FileSystem

COMMITTED_OFFSET_FILE_NAME: Final = "committed-offset"
_LOGGER: Final = logging.getLogger(__name__)


def _encode(offset: int) -> bytes:
    digits = f"{offset:020d}"
    return f"{digits} {crc32c(digits.encode()):08x}\n".encode()


class CommittedOffsetFile:
    """`note` after each flush, on any thread that flushes; `close` at the end."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self.path = f"{folder}/{COMMITTED_OFFSET_FILE_NAME}"
        self._files = files
        self._file: File | None = None
        self._has_failed = False

    def read(self) -> int:
        """The offset; 0 where there is no file, or a torn one. OSError where it cannot be read."""
        try:
            data = self._files.read_bytes(self.path)
        except FileNotFoundError:
            return 0
        digits = data[:20]
        return int(digits) if digits.isdigit() and data == _encode(int(digits)) else 0

    def note(self, offset: int) -> None:
        """Everything below `offset` is flushed. A safeguard of the next start: where it cannot be written, the node goes on without."""
        try:
            if self._file is None:
                self._file = self._files.open(self.path, create=True)
            self._file.pwrite(_encode(offset), 0)
        except OSError as error:
            if not self._has_failed:
                _LOGGER.warning("Cannot note how far the metadata log is committed: %s", error)
            self._has_failed = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
