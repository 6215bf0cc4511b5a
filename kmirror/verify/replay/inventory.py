"""Which logs have to be in a cluster's data dirs, which are, and which are nobody's.

Each log may be sound while one is missing. Three things say what has to be there:

    the metadata log     topics and their ids, each partition's replicas, and the directory of each
                         replica (KIP-858), if the input has it from its beginning or a snapshot
    checkpoints          a data dir's own files name the logs that were open in it
    the folders' names   a folder that is no log's makes a broker refuse to start, and a log that
                         lies twice does, too

Without the metadata log the set is not known, and that is said. A replica whose broker or directory
is not in the input is not judged. Neither is a partition that was created, moved or deleted within
`FRESH_MS` before the newest metadata record of a running cluster: its broker may be about to follow.
A log that a broker set aside (`-delete`, `-future`, `-stray`) is counted and not read.
"""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, TopicPartition
from kmirror.storage.log_file_names import parse_topic_partition_name
from kmirror.storage.meta_properties import (
    DIRECTORY_ID_MIGRATING,
    DIRECTORY_ID_UNASSIGNED,
    MetaProperties,
    read_meta_properties,
)
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.planner import Listing
from kmirror.verify.replay.claims import CHECKPOINTS, DataDirClaims
from kmirror.verify.replay.findings import Finding
from kmirror.verify.replay.timelines import Timelines

FRESH_MS: Final = 60_000
SET_ASIDE: Final = ("-delete", "-future", "-stray")
NOT_LOGS: Final = ("remote-log-index-cache",)
"""Folders of a data dir that a broker makes itself."""
ANY_DIRECTORY: Final = (str(DIRECTORY_ID_UNASSIGNED), str(DIRECTORY_ID_MIGRATING))


class Assigned(NamedTuple):
    """A partition as the metadata log has it."""

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    changed_ms: int


@dataclass(slots=True)
class Expected:
    """What the metadata log says of all topics that exist."""

    topic_ids: dict[str, str] = field(default_factory=dict)
    partitions: dict[TopicPartition, Assigned] = field(default_factory=dict)

    @staticmethod
    def of(timelines: Timelines) -> Expected | None:
        """None if the input does not have the metadata log, or not all of it."""
        if not timelines.knows_topics:
            return None
        found, names = Expected(), {}
        for row in timelines.topics:
            if row.event == "created" and row.name is not None and row.topic_id is not None:
                found.topic_ids[row.name] = names_of = row.topic_id
                names[names_of] = row.name
            elif row.event == "removed" and row.topic_id in names and found.topic_ids.get(names[row.topic_id]) == row.topic_id:
                del found.topic_ids[names[row.topic_id]]
        for change in timelines.assignments:
            name = names.get(change.topic_id)
            if name is None or found.topic_ids.get(name) != change.topic_id:
                continue
            key = TopicPartition(name, change.assigned_partition)
            before = found.partitions.get(key, Assigned((), (), -1))
            replicas = before.replicas if change.replicas is None else tuple(map(int, filter(None, change.replicas.split(","))))
            directories = before.directories if change.directories is None else tuple(filter(None, change.directories.split(",")))
            found.partitions[key] = Assigned(replicas, directories, change.record_timestamp)
        return found


@dataclass(frozen=True, slots=True)
class DataDir:
    """A data dir of the input, and whose it is."""

    path: str
    properties: MetaProperties | None
    claims: DataDirClaims
    logs: dict[TopicPartition, PartitionFiles]
    folders: tuple[str, ...]
    """Everything in it that is a folder."""

    @property
    def node(self) -> int | None:
        return None if self.properties is None else self.properties.node_id

    @property
    def directory(self) -> str | None:
        found = None if self.properties is None else self.properties.directory_id
        return None if found is None else str(found)


class Inventory:
    """The data dirs of one cluster against what has to be in them."""

    def __init__(
        self,
        files: FileSystem,
        listing: Listing,
        timelines: Timelines,
        data_dirs: Mapping[str, DataDirClaims],
        *,
        newest_ms: int,
    ) -> None:
        """`newest_ms` is the time of the newest metadata record."""
        self._newest_ms = newest_ms
        self._files = files
        self._deeper = listing.deeper
        self._expected = Expected.of(timelines)
        self._dirs = [_data_dir(files, listing, path, claims) for path, claims in data_dirs.items()]
        self.unseen: list[str] = []
        """What could not be judged, filled by `findings`."""

    def findings(self) -> list[Finding]:
        """Returns what is wrong with the set of logs."""
        found = [*self._folders(), *self._twice(), *self._checkpoints(), *self._ids()]
        if self._expected is None:
            self.unseen.append("which partitions belong here (the input has no __cluster_metadata from its beginning or a snapshot on)")
        else:
            found += [*self._missing(self._expected), *self._nobodys(self._expected)]
        if self._deeper:
            self.unseen.append(f"{self._deeper} partitions' folders deeper in the tree")
        aside = Counter(suffix for one in self._dirs for name in one.folders for suffix in SET_ASIDE if name.endswith(suffix))
        if aside:
            self.unseen.append("folders set aside: " + ", ".join(f"{count} {suffix}" for suffix, count in sorted(aside.items())))
        return found

    def _folders(self) -> Iterator[Finding]:
        for one in self._dirs:
            for name in one.folders:
                path = f"{one.path}/{name}"
                if name in NOT_LOGS or name.endswith(SET_ASIDE):
                    continue
                partition = partition_named(name)
                if partition is None:
                    text = "the folder is not named <topic>-<partition>, so a broker refuses to start on this data dir"
                    yield _finding("name", path, None, text)
                elif partition not in one.logs and self._is_still(path):
                    text = "the folder is a partition's and holds no segment; a broker that starts here begins the log anew at offset 0"
                    yield _finding("empty", path, partition, text)

    def _twice(self) -> Iterator[Finding]:
        for node in {one.node for one in self._dirs} - {None}:
            seen: dict[TopicPartition, str] = {}
            for one in self._dirs:
                if one.node != node:
                    continue
                for partition in one.logs:
                    if partition in seen and partition.topic != CLUSTER_METADATA_TOPIC_NAME:
                        text = f"broker {node} has the log here and in {seen[partition]}; it refuses to start with both"
                        yield _finding("twice", f"{one.path}/{partition}", partition, text)
                    seen.setdefault(partition, one.path)

    def _checkpoints(self) -> Iterator[Finding]:
        """A checkpoint names a log that is in no data dir of its broker."""
        for one in self._dirs:
            named: dict[TopicPartition, list[str]] = {}
            for key, offsets in one.claims.offsets.items():
                for partition in offsets:
                    named.setdefault(partition, []).append(CHECKPOINTS[key])
            for partition, names in sorted(named.items()):
                if not self._has(one, partition) and not self._was_removed(one, partition):
                    text = f"{' and '.join(names)} of {one.path} {'name' if len(names) > 1 else 'names'} this log, and it has no folder"
                    yield _finding("missing", f"{one.path}/{partition}", partition, text)

    def _has(self, one: DataDir, partition: TopicPartition) -> bool:
        """Whether a log, or what a broker set aside of it, is in a data dir of the same broker."""
        mine = [other for other in self._dirs if other is one or (one.node is not None and other.node == one.node)]
        begins = f"{partition}."
        aside = any(name.startswith(begins) and name.endswith(SET_ASIDE) for other in mine for name in other.folders)
        return aside or any(partition in other.logs or str(partition) in other.folders for other in mine)

    def _was_removed(self, one: DataDir, partition: TopicPartition) -> bool:
        """Whether the metadata log says that the log need not be here, or not any more, or may have
        just come or gone; or is in a directory that is not in the input."""
        if self._expected is None or partition.topic == CLUSTER_METADATA_TOPIC_NAME:
            return False
        assigned = self._expected.partitions.get(partition)
        if assigned is None or one.node not in assigned.replicas:
            return True
        return self._is_elsewhere(assigned, one.node) or self._is_fresh(assigned, one)

    def _is_elsewhere(self, assigned: Assigned, node: int) -> bool:
        directory = _directory_of(assigned, node)
        return directory not in (None, *ANY_DIRECTORY) and all(other.directory != directory for other in self._dirs)

    def _is_fresh(self, assigned: Assigned, one: DataDir) -> bool:
        return not one.claims.at_rest and self._newest_ms - assigned.changed_ms < FRESH_MS

    def _ids(self) -> Iterator[Finding]:
        """A folder has another topic's id."""
        ids: dict[str, Counter[str]] = {}
        rows: list[tuple[str, TopicPartition, str]] = []
        for one in self._dirs:
            for partition, log in sorted(one.logs.items()):
                try:
                    found = log.topic_id(self._files)
                except (KmirrorError, OSError) as error:
                    yield _finding(
                        "topic_id",
                        f"{log.path}/partition.metadata",
                        partition,
                        f"the topic's id cannot be read: {error}",
                    )
                    continue
                if found is not None and partition.topic != CLUSTER_METADATA_TOPIC_NAME:
                    ids.setdefault(partition.topic, Counter())[str(found)] += 1
                    rows.append((log.path, partition, str(found)))
        known = {} if self._expected is None else self._expected.topic_ids
        for path, partition, own in rows:
            right, who = known.get(partition.topic), "the metadata log says"
            if right is None and self._expected is None:
                right, who = ids[partition.topic].most_common(1)[0][0], "other partitions say"
            if right is not None and own != right:
                text = f"the folder has topic id {own}, and {who} {right} for {partition.topic}; a broker sets it aside as stray"
                yield _finding("topic_id", f"{path}/partition.metadata", partition, text)

    def _missing(self, expected: Expected) -> Iterator[Finding]:
        nodes = {one.node: one for one in self._dirs if one.node is not None}
        elsewhere, absent = 0, Counter[int]()
        named = {(one.node, partition) for one in self._dirs for said in one.claims.offsets.values() for partition in said}
        for partition, assigned in sorted(expected.partitions.items()):
            for node in assigned.replicas:
                one = nodes.get(node)
                if one is None:
                    absent[node] += 1
                elif self._has(one, partition) or self._is_fresh(assigned, one):
                    continue
                elif self._is_elsewhere(assigned, node):
                    elsewhere += 1
                elif (node, partition) not in named:
                    text = f"broker {node} is a replica, says the metadata log, and has no folder for it in the input"
                    yield _finding("missing", f"{one.path}/{partition}", partition, text)
        if elsewhere:
            self.unseen.append(f"{elsewhere} replicas in log directories that are not in the input")
        if absent:
            who = ", ".join(map(str, sorted(absent)))
            self.unseen.append(f"{absent.total()} replicas of brokers that are not in the input ({who})")

    def _nobodys(self, expected: Expected) -> Iterator[Finding]:
        for one in self._dirs:
            for partition, log in sorted(one.logs.items()):
                if partition.topic == CLUSTER_METADATA_TOPIC_NAME or not self._is_still(log.path):
                    continue
                assigned = expected.partitions.get(partition)
                if partition.topic not in expected.topic_ids:
                    text = "the metadata log has no such topic; a broker sets the folder aside as stray"
                elif assigned is None:
                    text = f"the metadata log has no partition {partition.partition} of {partition.topic}; a broker sets the folder aside as stray"
                elif one.node is not None and one.node not in assigned.replicas and not self._is_fresh(assigned, one):
                    replicas = ", ".join(map(str, assigned.replicas))
                    text = f"broker {one.node} is no replica, says the metadata log ({replicas} are); it sets the folder aside as stray"
                else:
                    continue
                yield _finding("nobodys", log.path, partition, text)

    def _is_still(self, path: str) -> bool:
        """Whether a folder is there by now, and not one that a running broker has moved since."""
        return self._files.is_dir(path)


def partition_named(name: str) -> TopicPartition | None:
    try:
        return parse_topic_partition_name(name)
    except KmirrorError:
        return None


def _directory_of(assigned: Assigned, node: int) -> str | None:
    if len(assigned.directories) != len(assigned.replicas):
        return None
    return assigned.directories[assigned.replicas.index(node)]


def _data_dir(files: FileSystem, listing: Listing, path: str, claims: DataDirClaims) -> DataDir:
    try:
        properties = read_meta_properties(files, path)
    except (KmirrorError, OSError):
        properties = None
    logs = {one.topic_partition: one for one in listing.partitions if posixpath.dirname(one.path) == path}
    folders = tuple(name for name in files.list_dir(path) if files.is_dir(f"{path}/{name}"))
    return DataDir(path, properties, claims, logs, folders)


def _finding(kind: str, path: str, partition: TopicPartition | None, text: str) -> Finding:
    log = posixpath.dirname(path) if path.endswith("/partition.metadata") else path
    topic, number = (posixpath.basename(path), -1) if partition is None else partition
    return Finding(log, topic, number, "inventory", kind, path, None, None, None, None, text)
