"""A file that is open only while something is done to it, as those of indexes are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.ports import File, FileSystem


@contextmanager
def opened(files: FileSystem, path: str) -> Iterator[File]:
    """The file at `path`, which is made when it is not there; closed at the end."""
    file = files.open(path, create=True)
    try:
        yield file
    finally:
        file.close()
