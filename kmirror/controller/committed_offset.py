"""`committed-offset`: how far `__cluster_metadata` is known to be flushed, so that a start can tell
lost records from a torn tail.

Recovery cuts a log at the first invalid batch. At the end of a log that is right: a power loss
tears writes that were not flushed, and nobody has seen those. A bad sector in the middle looks the
same, and everything after it would be lost: topics, and then their data as strays. Kafka's
`KafkaRaftLog` is recovered in this way too, from offset 0 at every start, and its other voters
bring the records back. Here there is one voter, so the metadata log is not cut below the offset
that is known to be committed (`MetadataLog.open`). Two sources give that offset:

- this file: the high watermark, written after each flush and not synced. After a crash of the
  process it is exact. After a power loss it may be an older one, or torn; a torn file counts as
  missing. It is never too high;
- the start of the newest leader epoch (`leader-epoch-checkpoint`, synced): everything before it was
  flushed when the epoch began.

Records that a snapshot contains may be cut, since nothing is lost by that. The file is 30 bytes,
`<offset> <CRC-32C of that>`, written in place. Kafka ignores it.
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
    """Call `note` after each flush, on whichever thread flushes, and `close` at the end."""

    def __init__(self, files: FileSystem, folder: str) -> None:
        self.path = f"{folder}/{COMMITTED_OFFSET_FILE_NAME}"
        self._files = files
        self._file: File | None = None
        self._has_failed = False

    def read(self) -> int:
        """Returns the offset; 0 if there is no file or a torn one. Raises OSError if it cannot be
        read."""
        try:
            data = self._files.read_bytes(self.path)
        except FileNotFoundError:
            return 0
        digits = data[:20]
        return int(digits) if digits.isdigit() and data == _encode(int(digits)) else 0

    def note(self, offset: int) -> None:
        """Notes that everything below `offset` is flushed. This only protects the next start: if it
        cannot be written, the node goes on without it."""
        try:
            if self._file is None:
                self._file = self._files.open(self.path, create=True)
            self._file.pwrite(_encode(offset), 0)
        except OSError as error:
            if not self._has_failed:
                _LOGGER.warning("Cannot write the committed offset of the metadata log: %s", error)
            self._has_failed = True

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
