"""What a folder holds while a broker works in it.

A listing takes two steps: the names, then each file's size. A broker rolls, deletes, cleans and
renames in between. So each step may fail for one name, and says nothing about the others:

- A name that is no file of a log (`.deleted`, `.cleaned`, a checkpoint's `.tmp`) and has no file by
  now is left out.
- If another name has lost its file, the folder is listed again: the log start has moved, or a
  cleaned segment has come into its place.
- A name that is listed again and again without a file behind it is `dangling`: a broken link, or
  a file system that does not agree with itself. Readers must say so. Its records are not there.

A folder that is itself gone raises FileNotFoundError.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kmirror.common.ports import FileSystem

TRIES: Final = 20
"""How often a folder is listed. A broker removes a segment between two steps of one listing, not
of twenty in a row."""
_LOG_FILE: Final = re.compile(r"\d{20}\.(log|index|timeindex|txnindex|snapshot)")
_PASSING: Final = (".deleted", ".cleaned", ".swap", ".tmp")
"""Names that a broker gives to files that are about to go, or to get another name."""


class ListedFolder(NamedTuple):
    """The names in a folder, sorted."""

    files: dict[str, int]
    """Sizes in bytes."""
    folders: list[str]
    dangling: list[str]
    """Names without a file or a folder."""


def list_folder(files: FileSystem, path: str) -> ListedFolder:
    """Lists a folder until every name that matters has a file. FileNotFoundError or
    NotADirectoryError if `path` is no folder (any more)."""
    before: set[str] = set()
    for _ in range(TRIES):
        listed = _once(files, path)
        gone = set(listed.dangling)
        if gone <= before:
            break
        before = gone
    return listed


def _once(files: FileSystem, path: str) -> ListedFolder:
    listed = ListedFolder({}, [], [])
    for name in files.list_dir(path):
        below = f"{path.rstrip('/')}/{name}"
        try:
            if _LOG_FILE.fullmatch(name) is None and files.is_dir(below):
                listed.folders.append(name)
            else:
                listed.files[name] = files.size(below)
        except (FileNotFoundError, NotADirectoryError):
            if not name.endswith(_PASSING):
                listed.dangling.append(name)
    return listed
