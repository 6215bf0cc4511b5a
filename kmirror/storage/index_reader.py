"""Index files of someone else's log as numpy rows, read-only (see `reader`).

Each file is an array of fixed-size slots without a header. A preallocated index of a running or
killed broker ends in slots of zeros; the caller decides which of them count.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kmirror.common.ports import FileSystem

OFFSET_INDEX_DTYPE: Final = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])
TIME_INDEX_DTYPE: Final = np.dtype([("timestamp", ">i8"), ("relative_offset", ">i4")])
TRANSACTION_INDEX_DTYPE: Final = np.dtype(
    [("version", ">i2"), ("producer_id", ">i8"), ("first_offset", ">i8"), ("last_offset", ">i8"), ("last_stable_offset", ">i8")]
)


def read_offset_index(files: FileSystem, path: str) -> npt.NDArray[Any]:
    """The slots of an `.index` file (fields of `OFFSET_INDEX_DTYPE`), preallocated zeros included;
    an incomplete slot at the end is left out.
    """
    return _rows(files.read_bytes(path), OFFSET_INDEX_DTYPE)


def read_time_index(files: FileSystem, path: str) -> npt.NDArray[Any]:
    """The slots of a `.timeindex` file (fields of `TIME_INDEX_DTYPE`)."""
    return _rows(files.read_bytes(path), TIME_INDEX_DTYPE)


def read_transaction_index(files: FileSystem, path: str) -> npt.NDArray[Any]:
    """The aborted transactions of a `.txnindex` file (fields of `TRANSACTION_INDEX_DTYPE`)."""
    return _rows(files.read_bytes(path), TRANSACTION_INDEX_DTYPE)


def _rows(data: bytes, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)
