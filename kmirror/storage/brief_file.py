"""Files that are open only during an operation, like those of indexes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.ports import File, FileSystem


@contextmanager
def opened(files: FileSystem, path: str) -> Iterator[File]:
    """Opens the file at `path`, creating it if needed, and closes it at the end."""
    file = files.open(path, create=True)
    try:
        yield file
    finally:
        file.close()
