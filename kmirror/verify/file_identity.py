"""Which file it is that was read, as far as a file system says without reading it.

An in-place write of the same size, or a rewritten file with its old modification time (as a log
cleaner makes it), changes neither size nor time. On a local disk it changes the file's inode or its
status-change time (ctime), which no program can set. An object store gives each written object a
new modification time, so nothing more is needed there.

A cleaner's pass also moves the log's cleaner-offset-checkpoint, which concerns every segment that
begins below it.

What stays unseen: bytes that a disk loses or flips by itself, which change no time; a change before
the old end of a file that has grown, other than in its last batch; and on HDFS a file whose time
was set back (`setTimes`).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from kmirror.common.ports import FileSystem


@runtime_checkable
class IdentifiedFiles(Protocol):
    """A file system that knows more of a file than its size and time."""

    def file_identity(self, path: str) -> str: ...


def file_identity(files: FileSystem, path: str) -> str:
    """Returns a text that changes when the file is written or replaced; empty if its size and time
    are all that is known. OSError as the file system says."""
    return files.file_identity(path) if isinstance(files, IdentifiedFiles) else ""


def segment_identity(files: FileSystem, path: str, base_offset: int, cleaned_offset: int) -> str:
    """Returns the identity of a segment's file, with how far the log's cleaner had come if that
    concerns the segment."""
    cleaned = cleaned_offset if base_offset < cleaned_offset else 0
    return f"{file_identity(files, path)} {cleaned}"
