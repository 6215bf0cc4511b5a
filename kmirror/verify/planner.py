"""What lies in an input, and the tasks that read it: for Spark's source, the diff and the replay.

An input is a partition's folder, a folder of segments (partition 0 of a topic of that name), a
broker's log.dir, or a folder that holds log.dirs (`cluster/node-1/data`, at most `MAX_DEPTH`
folders deep). It is listed with files and sizes in one go if the file system supports that (object
stores answer with 1,000 names per request), and otherwise folder by folder while a broker works in
them (`storage.folder_listing`). A partition's folder that is named and cannot be entered, and a
segment that is named and has no file, stay in the listing as `dangling`.

A segment larger than a task is cut at batches that its offset index knows. The index is only a
hint: at a cut there must be the header of a batch that can have the offset that the index says, or
there is no cut. A slice ends before its segment does only where a batch behind the wanted offsets
begins, whatever the index says. Without an index a segment is one slice. Slices are then packed, in order, into tasks: a
large partition becomes many, and many small ones become one.

Checkpoint files are not read here: most reads do not need them, and a damaged one must not make
those fail.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import CURRENT_MAGIC, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD
from kmirror.storage.folder_listing import TRIES, list_folder
from kmirror.storage.index_reader import read_offset_index
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, LOG_FILE_SUFFIX, parse_topic_partition_name
from kmirror.storage.meta_properties import META_PROPERTIES_FILE_NAME
from kmirror.storage.reader import PartitionFiles, SegmentFiles, partition_files
from kmirror.verify.slices import LogSlice

T = TypeVar("T")

TASK_BYTES: Final = 64 << 20
OPEN_COST_BYTES: Final = 128 << 10
"""What opening a slice costs, in bytes of reading. It limits the number of small partitions in a
task."""
MAX_DEPTH: Final = 3
MAX_OFFSET: Final = (1 << 63) - 1
_ENTRY_DTYPE: Final = np.dtype([("offset", np.int64), ("position", np.int64)])
_NOT_A_LOG: Final = ("-delete", "-future", "-stray")
_BATCH_START: Final = struct.Struct(">qiib")


NO_FILE: Final = -1


class ListedFile(NamedTuple):
    path: str
    size: int
    """NO_FILE for a name without a file behind it."""


@runtime_checkable
class ListsTrees(Protocol):
    """A file system that lists a whole tree with few requests."""

    def list_tree(self, path: str, depth: int) -> Iterable[ListedFile]:
        """Returns the files in `path` and in folders at most `depth` below it, with sizes in
        bytes."""
        ...


@dataclass(frozen=True)
class Listing:
    """What one recursive listing of an input found."""

    location: str
    """The input as it was given."""
    path: str
    """The path on its file system."""
    partitions: list[PartitionFiles]
    """Sorted by data dir, then by name."""
    is_one_partition: bool
    data_dir_files: dict[str, list[str]]
    """What else lies in each data dir: checkpoint files, meta.properties."""
    deeper: int = 0
    """How many partitions' folders lie deeper in the tree. They are not in `partitions`."""

    def slices(
        self, files: FileSystem, partition: PartitionFiles, *, task_bytes: int = TASK_BYTES, low: int = 0, high: int = MAX_OFFSET
    ) -> Iterator[LogSlice]:
        """Yields the slices of a partition that can have offsets from `low` to `high`."""
        segments = partition.segments
        for index, segment in enumerate(segments):
            is_last = index + 1 == len(segments)
            if not segment.log_size or segment.base_offset > high or (not is_last and segments[index + 1].base_offset <= low):
                continue
            cuts = _cuts(files, segment, task_bytes, low, high)
            behind = MAX_OFFSET if is_last else segments[index + 1].base_offset
            for (start, first_offset), (end, _) in zip(cuts, cuts[1:]):
                yield LogSlice(
                    self.location,
                    segment.path(),
                    *partition.topic_partition,
                    segment.base_offset,
                    start,
                    end,
                    segment.log_size,
                    is_last,
                    first_offset,
                    behind,
                )


class NoPartitionError(KmirrorError):
    """A folder is there, and no log is in it."""


def list_input(files: FileSystem, path: str, *, location: str | None = None) -> Listing:
    """Lists an input. KmirrorError, in one line, if `path` is no folder; NoPartitionError if it
    holds no log. If partitions lie at several depths, those nearest to `path` count."""
    path = path.rstrip("/") or path
    folders: dict[str, list[ListedFile]] = {}
    try:
        for listed in list_tree(files, path, MAX_DEPTH):
            folders.setdefault(posixpath.dirname(listed.path), []).append(listed)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise KmirrorError(f"{path} is not a directory; give a partition's folder, a broker's log.dir or a folder of log.dirs") from error
    here = folders.get(path, [])
    location = location or path
    if _partition_name(path) is not None and _holds_log(here):
        return Listing(location, path, [_partition(path, here)], True, {})
    if any(_is_segment(one.path) for one in here):
        return Listing(location, path, [_partition(path, here, TopicPartition(posixpath.basename(path), 0))], True, {})
    found = [folder for folder, inside in folders.items() if _is_log_below(path, folder) and _holds_log(inside)]
    if not found:
        raise NoPartitionError(f"{path} holds no partition: neither segments nor a folder named <topic>-<partition> with a .log file")
    depth = min(folder.count("/") for folder in found)
    partitions = [_partition(folder, folders[folder]) for folder in found if folder.count("/") == depth]
    lost = [one.path for inside in folders.values() for one in inside if one.size == NO_FILE and _partition_name(one.path) is not None]
    partitions += [_partition(folder, [ListedFile(f"{folder}/", NO_FILE)]) for folder in lost if folder.count("/") == depth]
    partitions.sort(key=lambda one: (posixpath.dirname(one.path), one.topic_partition))
    data_dirs = dict.fromkeys(posixpath.dirname(one.path) for one in partitions)
    data_dirs |= dict.fromkeys(folder for folder, inside in folders.items() if folder.count("/") == depth - 1 and _is_data_dir(inside))
    names = {folder: sorted(posixpath.basename(one.path) for one in folders.get(folder, [])) for folder in data_dirs}
    deeper = sum(folder.count("/") > depth for folder in found)
    return Listing(location, path, partitions, False, names, deeper)


def list_tree(files: FileSystem, path: str, depth: int) -> Iterable[ListedFile]:
    """Returns every file in `path` and in folders at most `depth` below it."""
    return files.list_tree(path, depth) if isinstance(files, ListsTrees) else _walk(files, path, depth)


def may_be_skipped(folder: str) -> bool:
    """Whether a folder that cannot be read does not matter: `lost+found` and the like."""
    return _partition_name(folder) is None


def _walk(files: FileSystem, path: str, depth: int) -> Iterator[ListedFile]:
    """Yields the files of a tree. A folder below `path` that is gone when its turn comes was deleted
    or renamed by a running broker, unless the folder above still names it: then it is listed
    again."""
    listed = list_folder(files, path)
    for name, size in listed.files.items():
        yield ListedFile(f"{path.rstrip('/')}/{name}", size)
    for name in listed.dangling:
        yield ListedFile(f"{path.rstrip('/')}/{name}", NO_FILE)
    waiting = [f"{path.rstrip('/')}/{name}" for name in listed.folders] if depth else []
    for _ in range(TRIES):
        gone = []
        for below in waiting:
            try:
                yield from _walk(files, below, depth - 1)
            except (FileNotFoundError, NotADirectoryError):
                gone.append(below)
            except PermissionError:
                if not may_be_skipped(below):
                    raise
        if not gone:
            return
        here = set(list_folder(files, path).folders)
        waiting = [below for below in gone if posixpath.basename(below) in here]


def pack(slices: Iterable[LogSlice], *, task_bytes: int = TASK_BYTES, open_cost: int = OPEN_COST_BYTES) -> list[list[LogSlice]]:
    """Packs slices, in their order, into tasks of about `task_bytes`."""
    return pack_by(slices, attrgetter("size"), task_bytes=task_bytes, open_cost=open_cost)


def pack_by(
    pieces: Iterable[T], weight: Callable[[T], int], *, task_bytes: int = TASK_BYTES, open_cost: int = OPEN_COST_BYTES
) -> list[list[T]]:
    """Packs anything that has a size in bytes in the same way as `pack`."""
    tasks: list[list[T]] = []
    left = 0
    for piece in pieces:
        cost = weight(piece) + open_cost
        if not tasks or left < cost // 2:
            tasks.append([])
            left = task_bytes + open_cost
        tasks[-1].append(piece)
        left -= cost
    return tasks


def plan(
    files: FileSystem,
    listing: Listing,
    *,
    wants: Callable[[TopicPartition], tuple[int, int] | None] = lambda _: (0, MAX_OFFSET),
    task_bytes: int = TASK_BYTES,
) -> list[list[LogSlice]]:
    """Returns the tasks that read an input. `wants` returns the first and last offset wanted of a
    partition, None for an unwanted one."""

    def wanted() -> Iterator[LogSlice]:
        for partition in listing.partitions:
            offsets = wants(partition.topic_partition)
            if offsets is not None:
                yield from listing.slices(files, partition, task_bytes=task_bytes, low=offsets[0], high=offsets[1])

    return pack(wanted(), task_bytes=task_bytes)


def index_entries(files: FileSystem, segment: SegmentFiles) -> npt.NDArray[Any]:
    """Returns the entries of a segment's offset index up to the first that cannot be true, as rows
    of (offset, position), both ascending; offsets are absolute."""
    if not segment.sizes.get(INDEX_FILE_SUFFIX, 0):
        return np.zeros(0, dtype=_ENTRY_DTYPE)
    slots = read_offset_index(files, segment.path(INDEX_FILE_SUFFIX))
    entries = np.empty(len(slots), dtype=_ENTRY_DTYPE)
    entries["offset"], entries["position"] = slots["relative_offset"], slots["position"]
    position = entries["position"]
    sound = (position > 0) & (position <= segment.log_size - RECORD_BATCH_OVERHEAD)
    sound[1:] &= (np.diff(position) > 0) & (np.diff(entries["offset"]) > 0)
    entries = entries[: len(entries) if sound.all() else int(np.argmin(sound))]
    entries["offset"] += segment.base_offset
    return entries


def _cuts(files: FileSystem, segment: SegmentFiles, task_bytes: int, low: int, high: int) -> list[tuple[int, int]]:
    """Returns (position, offset of the batch there) where the slices of a segment begin, and where
    the last one ends."""
    size = segment.log_size
    whole = [(0, segment.base_offset), (size, MAX_OFFSET)]
    if size <= task_bytes and low <= segment.base_offset and (high == MAX_OFFSET or size <= task_bytes // 16):
        return whole
    entries = index_entries(files, segment)
    offsets, positions = entries["offset"], entries["position"]
    first = int(np.searchsorted(offsets, low, side="right")) - 1  # its batch begins at or before `low`
    behind = int(np.searchsorted(offsets, high, side="right")) + 1  # the entry before it ends after `high`, and it begins after that
    start = int(positions[first]) if first >= 0 else 0
    end = int(positions[behind]) if behind < len(entries) else size
    count = -(-(end - start) // task_bytes)
    wanted = [start + (end - start) * part // count for part in range(1, count)] if count > 1 else []
    rows = [int(np.searchsorted(positions, one, side="right")) - 1 for one in wanted]
    found = _sound_cuts(files, segment, entries, {row for row in [first, *rows, behind] if 0 <= row < len(entries)})
    cuts = [(int(positions[first]), found[first]) if first in found else whole[0]]
    stop = (int(positions[behind]), found[behind]) if behind in found and found[behind] > high else whole[1]
    for row in sorted(set(rows) & set(found)):
        if cuts[-1][0] < positions[row] < stop[0] and max(cuts[-1][1], low) < found[row] <= min(high, stop[1]):
            cuts.append((int(positions[row]), found[row]))
    return [*cuts, stop]


def _sound_cuts(files: FileSystem, segment: SegmentFiles, entries: npt.NDArray[Any], rows: set[int]) -> dict[int, int]:
    """Returns the rows of the index where a batch begins that can have the offset that the index
    says, with the offset that it has."""
    if not rows:
        return {}
    sound = {}
    file = files.open(segment.path(), write=False)
    try:
        for row in sorted(rows):
            offset, position = int(entries["offset"][row]), int(entries["position"][row])
            head = file.pread(_BATCH_START.size, position)
            if len(head) < _BATCH_START.size:
                continue
            base_offset, length, _, magic = _BATCH_START.unpack(head)
            fits = RECORD_BATCH_OVERHEAD - LOG_OVERHEAD <= length <= segment.log_size - position - LOG_OVERHEAD
            if fits and magic == CURRENT_MAGIC and segment.base_offset <= base_offset <= offset:
                sound[row] = int(base_offset)
    finally:
        file.close()
    return sound


def _is_segment(path: str) -> bool:
    """Whether a path is named like a segment's `.log`."""
    stem = posixpath.basename(path).removesuffix(LOG_FILE_SUFFIX)
    return path.endswith(LOG_FILE_SUFFIX) and len(stem) == 20 and stem.isascii() and stem.isdigit()


def _partition(folder: str, found: Sequence[ListedFile], name: TopicPartition | None = None) -> PartitionFiles:
    there = {posixpath.basename(one.path): one.size for one in found if one.size != NO_FILE}
    dangling = tuple(posixpath.basename(one.path) for one in found if one.size == NO_FILE)
    return partition_files(folder, there, dangling, name)


def _holds_log(found: Sequence[ListedFile]) -> bool:
    return any(_is_segment(one.path) or one.path.endswith("/partition.metadata") for one in found)


def _is_data_dir(found: Sequence[ListedFile]) -> bool:
    """Whether a folder was formatted as a data dir, even if no log is left in it."""
    return any(posixpath.basename(one.path) == META_PROPERTIES_FILE_NAME for one in found)


def _partition_name(folder: str) -> TopicPartition | None:
    if folder.endswith(_NOT_A_LOG):
        return None
    try:
        return parse_topic_partition_name(folder)
    except KmirrorError:
        return None


def _is_log_below(path: str, folder: str) -> bool:
    """Whether a folder below `path` is named like a partition's, and no folder on the way like a
    log that is being deleted or moved."""
    set_aside = any(part.endswith(_NOT_A_LOG) for part in folder[len(path) :].split("/"))
    return not set_aside and _partition_name(folder) is not None
