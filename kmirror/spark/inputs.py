"""The inputs of one read: paths, globs, the log.dirs of many brokers, and which replica of a
partition is read.

A partition that lies in several places (the replicas of a cluster) is read once. `replica=longest`
takes the copy that an election would: the one with the latest leader epoch in its
`leader-epoch-checkpoint`, and among those the one whose log ends last. `replica=first` takes the
copy in the first input that has one.
"""

from __future__ import annotations

import fnmatch
import os
import posixpath
import re
import urllib.parse
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.files import HADOOP_SCHEMES, LocalFiles, file_system_for
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, LeaderEpochCheckpointFile
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.offset_lookup import log_end_offset
from kmirror.verify.planner import Listing, NoPartitionError, list_input

_GLOB: Final = re.compile(r"[*?[{]")
_BRACES: Final = re.compile(r"\{([^{}]*)\}")


class FoundPartition(NamedTuple):
    """A partition to read, and where it was found."""

    files: FileSystem
    listing: Listing
    partition: PartitionFiles

    @property
    def name(self) -> TopicPartition:
        return self.partition.topic_partition

    @property
    def data_dir(self) -> str:
        return posixpath.dirname(self.partition.path) or "."


def find_partitions(
    locations: Sequence[str], *, replica: str, tolerates_damage: bool = False, may_be_empty: bool = False
) -> list[FoundPartition]:
    """Returns the partitions of all inputs, each once, in the order of the inputs and by name
    within each. KmirrorError for an input without a log, unless `may_be_empty`.

    With `tolerates_damage`, a copy whose end is damaged comes last; else that is an error, because
    a log that a cleaner is just changing looks damaged too, and a stream must not leave it."""
    found: dict[TopicPartition, list[FoundPartition]] = {}
    for location in dict.fromkeys(one for given in locations for one in expand(given)):
        files, path = file_system_for(location)
        if isinstance(files, LocalFiles):
            path = os.path.join(os.getcwd(), path)  # tasks may run in another folder
        try:
            listing = list_input(files, path, location=location)
        except NoPartitionError:
            if not may_be_empty:
                raise
            continue
        for partition in listing.partitions:
            partition.check_complete()
            found.setdefault(partition.topic_partition, []).append(FoundPartition(files, listing, partition))

    def age(copy: FoundPartition) -> tuple[int, int]:
        try:
            return _age(copy)
        except CorruptFileError:
            if not tolerates_damage:
                raise
            return -1, -1

    return [copies[0] if len(copies) == 1 or replica == "first" else max(copies, key=age) for copies in found.values()]


def _age(copy: FoundPartition) -> tuple[int, int]:
    """Returns (the copy's latest leader epoch, where its log ends); among equal copies `max` takes
    the first."""
    epoch = -1
    if LEADER_EPOCH_CHECKPOINT_FILE_NAME in copy.partition.other_files:
        entries = LeaderEpochCheckpointFile(copy.files, copy.partition.path, deferred=True).read()
        epoch = entries[-1].epoch if entries else -1
    return epoch, log_end_offset(copy.files, copy.partition)


def expand(location: str) -> list[str]:
    """Returns the folders that a glob matches, sorted; those of `{a,b}` in the order of its parts. A
    location without `*`, `?`, `[` and `{`, or one that exists as it is written, is returned
    unchanged.

    In a URI, `?` begins the parameters for its client: `s3://bucket/node-*/data?region=eu-west-1`.
    """
    is_remote = "://" in location and not location.lower().startswith("file:")
    place, mark, query = location.partition("?") if is_remote else (location, "", "")
    if not _GLOB.search(place):
        return [location]
    files, path = file_system_for(location)
    if files.is_dir(path):
        return [location]
    is_escaped = is_remote and location.partition("://")[0].lower() not in HADOOP_SCHEMES
    shown = urllib.parse.unquote(place) if is_escaped else place
    prefix = shown[: len(shown) - len(path)] if shown.endswith(path) and is_remote else ""  # local names are as the disk has them
    matches = [one for pattern in _without_braces(path) for one in _matches(files, pattern)]
    found = [f"{prefix}{one.replace('%', '%25') if is_escaped else one}{mark}{query}" for one in dict.fromkeys(matches)]
    if not found:
        raise KmirrorError(f"{location}: there is no such folder")
    return found


def _without_braces(path: str) -> list[str]:
    """Returns a pattern for each part of `{a,b}`, as Hadoop reads globs."""
    found = _BRACES.search(path)
    if found is None:
        return [path]
    return [one for part in found[1].split(",") for one in _without_braces(path[: found.start()] + part + path[found.end() :])]


def _matches(files: FileSystem, path: str) -> Iterator[str]:
    parts = path.split("/")
    if not any(_GLOB.search(part) for part in parts):
        if files.is_dir(path):
            yield path
        return
    first = next(index for index, part in enumerate(parts) if _GLOB.search(part))
    folder = "/".join(parts[:first]) or ("/" if path.startswith("/") else ".")
    rest = parts[first + 1 :]
    if not files.is_dir(folder):
        return
    for name in files.list_dir(folder):
        if not fnmatch.fnmatchcase(name, parts[first].replace("[^", "[!")) or (name.startswith(".") and not parts[first].startswith(".")):
            continue
        below = "/".join([folder.rstrip("/") if parts[:first] != [] else "", name]) if parts[:first] else name
        if any(_GLOB.search(part) for part in rest):
            yield from _matches(files, "/".join([below, *rest]))
        elif files.is_dir(whole := "/".join([below, *rest])):
            yield whole
