"""Rows of numbers by bucket, more than fit into memory: the rest waits in one scratch file.

Rows are added in any order and read back one bucket at a time. Memory holds `MAX_ROWS` rows and the
rows of one bucket. The caller provides the scratch file (an unnamed temporary file, which
disappears with its process). Without one, or if the disk is full, NoRoomError says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final

import numpy as np
import numpy.typing as npt

from kmirror.common.errors import KmirrorError
from kmirror.record.columns import Int64s

MAX_ROWS: Final = 1 << 20

Scratch = Callable[[], IO[bytes]]
"""Makes an empty file for reading and writing that nobody else sees."""


class NoRoomError(KmirrorError):
    """There are more rows than memory may take, and no disk for them. The text says what is
    missing."""


class SpilledRows:
    """Rows of `width` 64-bit numbers in `bucket_count` buckets."""

    def __init__(self, width: int, bucket_count: int, scratch: Scratch | None, *, max_rows: int = MAX_ROWS) -> None:
        self._width = width
        self._bucket_count = bucket_count
        self._scratch = scratch
        self._max_rows = max_rows
        self._waiting: list[tuple[Int64s, npt.NDArray[np.int64]]] = []
        self._waiting_count = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._extents: list[list[tuple[int, int]]] = [[] for _ in range(bucket_count)]
        """For each bucket: (byte in the file, number of rows)."""
        self.row_count = 0

    def add(self, buckets: Int64s, rows: npt.NDArray[np.int64]) -> None:
        """Adds `rows[i]` to bucket `buckets[i]`. NoRoomError if they do not fit."""
        self._waiting.append((buckets, rows))
        self._waiting_count += len(rows)
        self.row_count += len(rows)
        if self._waiting_count >= self._max_rows:
            self._spill()

    def bucket(self, number: int) -> npt.NDArray[np.int64]:
        """Returns all rows of one bucket, in the order in which they were added; only after
        `settle`."""
        parts = []
        for position, count in self._extents[number]:
            assert self._file is not None, "extents without a file"
            self._file.seek(position)
            data = self._file.read(count * self._width * 8)
            parts.append(np.frombuffer(data, dtype=np.int64).reshape(count, self._width))
        for buckets, rows in self._waiting:
            first, behind = np.searchsorted(buckets, (number, number + 1))
            parts.append(rows[first:behind])
        return np.concatenate(parts) if parts else np.zeros((0, self._width), dtype=np.int64)

    def settle(self) -> None:
        """Ends adding: rows in memory are sorted by bucket once, or follow the rest to disk."""
        if self._file is not None:
            self._spill()
        elif self._waiting_count:
            self._waiting = [self._sorted()]

    def close(self) -> None:
        self._waiting, self._waiting_count = [], 0
        if self._file is not None:
            self._file.close()
            self._file = None

    def _sorted(self) -> tuple[Int64s, npt.NDArray[np.int64]]:
        buckets = np.concatenate([buckets for buckets, _ in self._waiting])
        rows = np.concatenate([rows for _, rows in self._waiting])
        order = np.argsort(buckets, kind="stable")
        return buckets[order], rows[order]

    def _spill(self) -> None:
        if not self._waiting_count:
            return
        if self._scratch is None:
            raise NoRoomError(f"there is no scratch file for more than {self._max_rows:,} keys")
        buckets, rows = self._sorted()
        self._waiting, self._waiting_count = [], 0
        starts = np.searchsorted(buckets, np.arange(self._bucket_count + 1))
        try:
            if self._file is None:
                self._file = self._scratch()
            self._file.seek(self._end)
            self._file.write(rows.data)
            self._file.flush()
        except OSError as error:
            raise NoRoomError(f"the keys do not fit into the scratch file: {error.strerror or error}") from error
        for number in np.flatnonzero(np.diff(starts)).tolist():
            first, behind = int(starts[number]), int(starts[number + 1])
            self._extents[number].append((self._end + first * self._width * 8, behind - first))
        self._end += rows.nbytes
