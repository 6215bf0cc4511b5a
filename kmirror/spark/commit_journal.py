"""The journal of a commit, `.kmirror-write` in the log.dir: what a write that was killed while it
moved its segments into place had done, and how to undo it.

A commit renames many files, and a driver can be killed between any two. So before it changes
anything, it writes down where everything comes from and what was there. The file is in the log.dir
only while segments are moved. It is a plain file, which brokers and readers pass over; the staging
folder would not do, because a broker removes that at its start.

Whoever has the log.dir's lock and finds a journal settles it first (`settle`):

    the log.dir has                             then
    all segments, and a clean-shutdown marker   the write was finished: the journal is removed
    what the commit left, and nobody has        the write is rolled back: the log.dir is as it was
      changed anything since                      before
    all segments, without a marker, and         nothing is missing: the journal is removed. (An
      a broker has been there                     append asks for a clean shutdown, as always.)
    some of the segments, and a broker has      an append is refused: the records that are there may
      been there                                  have been read. `overwrite` replaces them.

A broker that has been there has removed the staging folder, or has opened it as a log that is to be
deleted, which leaves files in it; or it has appended to a log, so that a segment's size or name is
new; or it has written the clean-shutdown marker.

The journal undoes a commit in its own process, too, if a move fails. Undoing may be interrupted
and repeated: each step looks at what is there.
"""

from __future__ import annotations

import base64
import json
import posixpath
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any, Final

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.runtime.system_ports import SystemClock
from kmirror.spark.local_writes import WritableLocalFiles, remove_staging_if_possible
from kmirror.spark.options import NAME
from kmirror.storage.clean_shutdown_file import CLEAN_SHUTDOWN_FILE_NAME, CleanShutdownFile
from kmirror.storage.log_dirs import LOCK_FILE_NAME
from kmirror.storage.log_file_names import is_log_file, log_file

JOURNAL_FILE_NAME: Final = ".kmirror-write"
TEMPORARY_FILE_NAME: Final = JOURNAL_FILE_NAME + ".tmp"
NEW, OLD, TASK = "new", "old", "task-"
"""What a staging folder has: logs that were put together, logs that are replaced, tasks' pieces."""


@dataclass
class CommitJournal:
    """What one commit does. All names are relative to the log.dir."""

    staging: str
    started_ms: int = field(default_factory=lambda: SystemClock().time_ms())
    moves: list[tuple[str, str]] = field(default_factory=list)
    """(from, to), in their order; those to `old` in the staging folder are first."""
    kept: dict[str, str | None] = field(default_factory=dict)
    """Files that the commit changes, as they were (base64); None if a file was not there. The
    clean-shutdown marker is the last one."""
    folders: dict[str, list[str]] = field(default_factory=dict)
    """The names in each folder that gets segments, before it got them."""
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """The sizes that each `.log` may have during the commit, in the folders that it changes or
    makes: two where a segment replaces an empty one."""
    arrivals: dict[str, list[int]] = field(default_factory=dict)
    """By partition: the base offsets of its new segments, and where they end."""
    earlier: str | None = None
    """The journal that was there before (base64): of a write that cannot be rolled back."""

    # made by the commit

    def keep(self, files: WritableLocalFiles, path: str, name: str) -> None:
        """Remembers a file as it is; the first time counts."""
        if name not in self.kept:
            there = files.exists(f"{path}/{name}")
            self.kept[name] = base64.b64encode(files.read_bytes(f"{path}/{name}")).decode() if there else None

    def expect_sizes(self, files: WritableLocalFiles, folder: str, name: str) -> None:
        """Notes the sizes of the segments in `folder`, which are in the folder `name` of the
        log.dir sooner or later."""
        for file_name in filter(is_log_file, files.list_dir(folder)):
            self.sizes.setdefault(f"{name}/{file_name}", []).append(files.size(f"{folder}/{file_name}"))

    def write(self, files: WritableLocalFiles, path: str) -> None:
        """Puts the journal into the log.dir. From here on the commit can be undone by anyone."""
        temporary, final = f"{path}/{TEMPORARY_FILE_NAME}", f"{path}/{JOURNAL_FILE_NAME}"
        if files.exists(final):
            self.earlier = base64.b64encode(files.read_bytes(final)).decode()
        try:
            files.write_bytes(temporary, json.dumps(asdict(self)).encode())
            files.fsync_path(temporary)
            files.rename(temporary, final)
        except OSError:
            if files.exists(temporary):
                files.remove(temporary)
            raise
        files.fsync_path(path)

    @classmethod
    def read(cls, files: WritableLocalFiles, path: str) -> CommitJournal | None:
        """Returns the journal of a log.dir, None if it has none. CorruptFileError if it is
        damaged."""
        place = f"{path}/{JOURNAL_FILE_NAME}"
        if not files.exists(place):
            return None
        try:
            given: dict[str, Any] = json.loads(files.read_bytes(place))
            made = cls(**{one.name: given[one.name] for one in fields(cls)})
            made.moves = [(source, destination) for source, destination in made.moves]
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFileError(place, 0, f"no journal of a write: {error!r}") from error
        return made

    def remove(self, files: WritableLocalFiles, path: str) -> None:
        """Ends the commit, or its undoing."""
        if files.exists(f"{path}/{JOURNAL_FILE_NAME}"):
            files.remove(f"{path}/{JOURNAL_FILE_NAME}")
            files.fsync_path(path)

    # what is there

    def has_arrived(self, files: WritableLocalFiles, path: str) -> bool:
        """Whether everything was moved: all segments are in the logs, and what they replace is
        not."""
        into_logs = {destination for _, destination in self.moves if not destination.startswith(f"{self.staging}/")}
        return all(files.exists(f"{path}/{destination}") for destination in into_logs) and not any(
            files.exists(f"{path}/{source}") for source, _ in self.moves if source not in into_logs
        )

    def can_be_undone(self, files: WritableLocalFiles, path: str) -> bool:
        """Whether everything is as the commit left it."""
        staging = f"{path}/{self.staging}"
        if not files.is_dir(staging) or not all(name in (NEW, OLD) or name.startswith(TASK) for name in files.list_dir(staging)):
            return False
        if not all(files.exists(f"{path}/{source}") or files.exists(f"{path}/{destination}") for source, destination in self.moves):
            return False
        has_moved = any(not files.exists(f"{path}/{source}") for source, _ in self.moves)
        if has_moved and files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE_NAME}"):
            return False
        return all(size in self.sizes.get(name, ()) for name, size in self._logs(files, path))

    def _logs(self, files: WritableLocalFiles, path: str) -> Iterator[tuple[str, int]]:
        """Yields the `.log` files in the folders that the commit changes or has made."""
        made = [destination for source, destination in self.moves if not files.exists(f"{path}/{source}")]
        for folder in [*self.folders, *made]:
            if files.is_dir(f"{path}/{folder}") and not folder.startswith(f"{self.staging}/"):
                for name in filter(is_log_file, files.list_dir(f"{path}/{folder}")):
                    yield f"{folder}/{name}", files.size(f"{path}/{folder}/{name}")

    def undo(self, files: WritableLocalFiles, path: str) -> None:
        """Makes the log.dir what it was before the commit, and removes the journal. Without a
        marker until the end: a broker that comes first recovers the logs."""
        CleanShutdownFile(files, path).delete()
        for source, destination in reversed(self.moves):
            if not files.exists(f"{path}/{source}") and files.exists(f"{path}/{destination}"):
                files.rename(f"{path}/{destination}", f"{path}/{source}")
        for folder, names in self.folders.items():
            for name in set(files.list_dir(f"{path}/{folder}")) - set(names):
                files.remove(f"{path}/{folder}/{name}")
        for name, data in self.kept.items():
            if data is not None:
                files.write_bytes(f"{path}/{name}", base64.b64decode(data))
                files.fsync_path(f"{path}/{name}")
            elif files.exists(f"{path}/{name}"):
                files.remove(f"{path}/{name}")
        for folder in (*self.folders, "."):
            files.fsync_path(f"{path}/{folder}")
        if self.earlier is None:
            self.remove(files, path)
        else:
            files.write_bytes(f"{path}/{JOURNAL_FILE_NAME}", base64.b64decode(self.earlier))

    def told(self, files: WritableLocalFiles, path: str) -> str:
        """Returns what a write that cannot be rolled back has done, for an error message."""
        there: list[str] = []
        missing: list[str] = []
        for partition, (*bases, end) in self.arrivals.items():
            for base, following in zip(bases, [*bases[1:], end]):
                segment = log_file(f"{path}/{partition}", base)
                is_there = files.exists(segment) and files.size(segment)  # an empty one was there before
                (there if is_there else missing).append(f"{partition} offsets {base} to {following - 1}")
        began = datetime.fromtimestamp(self.started_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return (
            f"a write was killed at {began} while it moved its segments into place: {_some(there)} are in the log, {_some(missing)} are not"
        )


def _some(ranges: list[str]) -> str:
    return ", ".join(ranges[:5]) + (f" and {len(ranges) - 5} more" if len(ranges) > 5 else "") if ranges else "none"


def settle(files: WritableLocalFiles, path: str, *, overwrite: bool) -> None:
    """Finishes with a write that was killed; the caller has the log.dir's lock. KmirrorError if a
    broker has seen a part of it, unless that is to be overwritten."""
    journal = CommitJournal.read(files, path)
    if journal is None:
        return
    is_shut_down = files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE_NAME}")
    if not (is_shut_down and journal.has_arrived(files, path)) and journal.can_be_undone(files, path):
        journal.undo(files, path)
    elif journal.has_arrived(files, path):
        journal.remove(files, path)
    elif overwrite:
        return
    else:
        raise KmirrorError(
            f"{NAME}: {path}: {journal.told(files, path)}, and a broker has used the log.dir since, so that cannot be undone; "
            f"write what is missing by itself, or overwrite; remove {posixpath.join(path, JOURNAL_FILE_NAME)} first"
        )
    remove_staging_if_possible(files, f"{path}/{journal.staging}")


def settle_if_nobody_writes(path: str, *, overwrite: bool = False) -> None:
    """`settle` before a job. A log.dir whose lock is held is left alone: the commit there is being
    made."""
    files = WritableLocalFiles()
    if not files.exists(f"{path}/{JOURNAL_FILE_NAME}"):
        return
    try:
        lock = files.lock(f"{path}/{LOCK_FILE_NAME}")
    except BlockingIOError:
        return
    try:
        settle(files, path, overwrite=overwrite)
    finally:
        lock.close()
