"""LogWatch: turns what a simulated disk sees into events about logs.

It follows the `.log` files of one node below its data directories. Each write appends batches, each
truncation and removal takes batches away, and an fsync makes durable what the file holds. After a
power loss it reads the disk again, since anything may be missing or torn. A future log is not
followed until it takes the place of the current one; then the batches that it lacks are removed
("move"), and those that it has in addition are appended.

Writes to `__mirror_state` become the states that they hold. Writes of a fleet's controller to the
metadata log become its topics (`topics`). Three kinds of logs are not followed: the metadata log of
other nodes, the offsets topic, and the compacted topic (`sim.fleet_keys`).

It never asks the program, and the program never sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import source_of_reset
from kmirror.record.record_batch import RecordBatch
from kmirror.sim.disk import SimDisk
from kmirror.sim.events import (
    START,
    Appended,
    Batch,
    History,
    LastMirrorEpochWritten,
    LogKey,
    Recovered,
    Reloaded,
    Removed,
    StateLost,
    StateWritten,
    chain_of,
    digest_of,
)
from kmirror.sim.file_batches import decision_of, whole_batches
from kmirror.sim.state_watch import States, StateWatch, read_all
from kmirror.sim.topic_events import was_deletion_asked
from kmirror.sim.topic_watch import METADATA_FOLDER, TopicWatch
from kmirror.storage.log_file_names import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    log_dir_name,
    parse_topic_partition_name,
)

SUFFIX = ".log"
MIRROR_STATE_TOPIC = "__mirror_state"
SET_ASIDE = (DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX)
NO_CURRENT_LOG = (*SET_ASIDE, FUTURE_DIR_SUFFIX)
MOVE, DISK_LOST, TOPIC_DELETED = "move", "disk lost", "topic deleted"
NOT_FOLLOWED = ("__cluster_metadata", "__consumer_offsets", "keys-")


@dataclass(slots=True)
class KnownChains:
    """Chains by (partition, base offset, digest), shared by all clusters. They tell where a log
    that begins in the middle joins.
    """

    by_batch: dict[tuple[TopicPartition, int, bytes], bytes] = field(default_factory=dict)


class LogWatch:
    """The watcher of one node's disk, with one data directory or several.

    It owns `logs`: what the logs hold now.
    """

    def __init__(
        self, cluster: str, data_dirs: Sequence[str], disk: SimDisk, history: History, known: KnownChains, now_us: Callable[[], int]
    ) -> None:
        self.logs: dict[TopicPartition, list[Batch]] = {}
        self.is_starting = False
        self.changed: Callable[[], object] = lambda: None
        self.topics: TopicWatch | None = None
        self._cluster = cluster
        self._states = StateWatch(cluster)
        self._data_dirs = tuple(data_dirs)
        self._homes: dict[TopicPartition, str] = {}
        self._renamed: dict[str, str] = {}
        self._disk = disk
        self._history = history
        self._known = known
        self._now_us = now_us

    @property
    def states(self) -> States:
        """Returns the mirror name and state of each partition, as this disk's `__mirror_state` has
        them.
        """
        return self._states.states

    def data_dir_of(self, partition: TopicPartition) -> str | None:
        """Returns the log directory that the partition lies in; None if nothing was written to it
        yet.
        """
        folders = self._folders(partition)
        home = self._homes.get(partition, "")
        found = home if home in folders else folders[0] if folders else None
        return found.rpartition("/")[0] if found is not None else None

    def former_folders(self) -> list[str]:
        """Returns the folders of partitions that lie in more than one directory, except the one
        that is the log.
        """
        return [folder for partition, home in self._homes.items() for folder in self._folders(partition) if folder != home]

    def moving(self) -> list[TopicPartition]:
        """Returns the partitions that have a future log."""
        names = (name for data_dir in self._data_dirs for name in self._disk.names(data_dir))
        return [parse_topic_partition_name(name) for name in names if name.endswith(FUTURE_DIR_SUFFIX)]

    # DiskWatcher

    def on_write(self, path: str, position: int, data: bytes) -> None:
        path = self._now_at(path)
        partition = self._partition_of(path)
        if partition is None:
            self._see_topics(path, data)
            return
        batches = list(whole_batches(data))
        if partition.topic == MIRROR_STATE_TOPIC:
            for _, batch in batches:
                for event in self._states.read(self._now_us(), batch):
                    self._history.add(event)
        else:
            for start, batch in batches:
                self._append(partition, batch, path, position + start)
        if batches:
            self.changed()

    def _see_topics(self, path: str, data: bytes) -> None:
        if self.topics is not None and path.endswith(SUFFIX) and self._folder_of(path).startswith(METADATA_FOLDER):
            for _, batch in whole_batches(data):
                for event in self.topics.read(self._now_us(), batch):
                    self._history.add(event)

    def on_truncate(self, path: str, size: int) -> None:
        path = self._now_at(path)
        partition = self._partition_of(path)
        if partition is None:
            return
        if partition.topic == MIRROR_STATE_TOPIC:
            self._reload_states()
        self._drop(partition, lambda batch: batch.path == path and batch.position >= size, "truncate")

    def on_fsync(self, path: str) -> None:
        path = self._now_at(path)
        partition = self._partition_of(path)
        if partition is not None:
            for batch in self.logs.get(partition, ()):
                if batch.path == path:
                    batch.durable = True

    def on_rename(self, source: str, destination: str) -> None:
        if self._partition_of(source) is not None:
            self.on_remove(source)
        elif source.rpartition("/")[0] in self._data_dirs and source.endswith(FUTURE_DIR_SUFFIX) and not destination.endswith(SET_ASIDE):
            self._renamed[source] = destination
            self._take_over(destination)
        elif source.rpartition("/")[0] in self._data_dirs and destination.endswith(SET_ASIDE):
            self._set_aside(parse_topic_partition_name(source), source)

    def _take_over(self, folder: str) -> None:
        """Makes that folder the partition's log from now on; batches that are not in it are gone.
        As in Kafka, nobody has synced it as a whole, so batches that were durable in the other
        folder may go with the power.
        """
        partition = parse_topic_partition_name(folder)
        self._homes[partition] = folder
        if partition.topic == MIRROR_STATE_TOPIC:
            self._reload_states()
            return
        before = self.logs.get(partition, [])
        batches, _ = self._scan(partition)
        kept, had = {batch.key for batch in batches}, {batch.key for batch in before}
        self._drop(partition, lambda batch: batch.key not in kept, MOVE)
        self.logs[partition] = batches
        for batch in batches:
            batch.durable = False
            if batch.key not in had:
                self._history.add(Appended(self._now_us(), LogKey(self._cluster, partition), batch))
        self.changed()

    def _set_aside(self, partition: TopicPartition, folder: str) -> None:
        """Notes that the folder is set aside to be deleted. A starting node does this with logs of
        topics that were deleted while it was down; with others it would be a loss. If the partition
        also lies in another directory, that is its log.
        """
        others = [other for other in self._folders(partition) if other != folder]
        if self._homes.get(partition, folder) != folder:
            return
        if others:
            self._take_over(others[0])
            return
        is_deleted = was_deletion_asked(self._history, self._history.hosts.get(self._cluster, self._cluster), partition.topic)
        self._drop(partition, lambda batch: True, TOPIC_DELETED if is_deleted or not self.is_starting else "recovery")

    def on_remove(self, path: str) -> None:
        path = self._now_at(path)
        partition = self._partition_of(path)
        if partition is None:
            return
        log = self.logs.get(partition, [])
        cause = "retention" if log and log[0].path == path and log[-1].path != path else "truncate"
        self._drop(partition, lambda batch: batch.path == path, cause)

    # What the cluster tells

    def after_power_loss(self) -> None:
        """Reads the disk again, to see what it still holds."""
        for partition in sorted(self.logs):
            before = self.logs[partition]
            batches, _ = self._scan(partition)
            kept = {batch.key for batch in batches}
            self.logs[partition] = batches
            lost = [batch for batch in before if batch.key not in kept]
            key = LogKey(self._cluster, partition)
            if lost:
                self._history.add(Removed(self._now_us(), key, lost, "power loss"))
            self._history.add(Reloaded(self._now_us(), key, list(batches)))
        self._reload_states()
        if self.topics is not None:
            for event in self.topics.read_again(self._now_us(), self._batches_below(METADATA_FOLDER)):
                self._history.add(event)

    def after_disk_loss(self, data_dir: str) -> None:
        """Notes that nothing is in that directory any more."""
        for partition in [partition for partition, home in self._homes.items() if home.startswith(data_dir + "/")]:
            self._drop(partition, lambda batch: True, DISK_LOST)
            del self._homes[partition]
        self._reload_states()

    def after_log_loss(self, partition: TopicPartition) -> None:
        """Notes that the partition's directory is gone."""
        self._drop(partition, lambda batch: True, DISK_LOST)
        self._homes.pop(partition, None)

    def after_start(self, unused: Collection[str]) -> None:
        """Notes what recovery has left, now that the node serves.

        `unused` are directories that the node does not use or that are to be replaced. A log there
        is judged when a node that uses it starts: either it was not recovered, or an append after
        its recovery was torn.
        """
        self.is_starting = False
        for partition in sorted(self.logs):
            if self.data_dir_of(partition) in unused:
                continue
            batches, invalid = self._scan(partition)
            self._history.add(Recovered(self._now_us(), LogKey(self._cluster, partition), list(batches), invalid))
            self.logs[partition] = batches

    def is_torn(self, data_dir: str) -> bool:
        """Returns whether a log in that directory has bytes that are no valid batch, behind its
        recovery point or before it.
        """
        folders = [folder for folder in self._disk.names(data_dir) if not folder.endswith(NO_CURRENT_LOG)]
        return any(self._is_torn(f"{data_dir}/{folder}/{name}") for folder in folders for name in self._disk.names(f"{data_dir}/{folder}"))

    def _is_torn(self, path: str) -> bool:
        data = self._disk.contents(path) if path.endswith(SUFFIX) else b""
        sound = [batch.size_in_bytes for _, batch in whole_batches(data) if batch.is_valid()]
        return sum(sound) != len(data)

    # Inside

    def _now_at(self, path: str) -> str:
        """Returns the file's present path. Someone who opened a file of a future log before it took
        over goes on naming it by its old folder.
        """
        folder, _, name = path.rpartition("/")
        return f"{self._renamed[folder]}/{name}" if folder in self._renamed else path

    def _folder_of(self, path: str) -> str:
        """Returns the name of the log's folder that the file lies in; "" if it lies in none."""
        place, _, folder = path.rpartition("/")[0].rpartition("/")
        return folder if place in self._data_dirs else ""

    def _folders(self, partition: TopicPartition) -> list[str]:
        """Returns the folders of the partition. There is more than one only if the power was lost
        while one took the other's place.
        """
        name = log_dir_name(partition)
        return [f"{data_dir}/{name}" for data_dir in self._data_dirs if name in self._disk.names(data_dir)]

    def _partition_of(self, path: str) -> TopicPartition | None:
        if not path.endswith(SUFFIX):
            return None
        folder = self._folder_of(path)
        if not folder or folder.startswith(NOT_FOLLOWED) or folder.endswith(NO_CURRENT_LOG):
            return None
        return parse_topic_partition_name(folder)

    def _append(self, partition: TopicPartition, record_batch: RecordBatch, path: str, position: int) -> None:
        log = self.logs.setdefault(partition, [])
        self._homes[partition] = path.rpartition("/")[0]
        self._drop(partition, lambda batch: batch.base_offset >= record_batch.base_offset, "truncate")
        batch = self._batch(partition, log[-1] if log else None, record_batch, path, position)
        log.append(batch)
        self._history.add(Appended(self._now_us(), LogKey(self._cluster, partition), batch))

    def _batch(self, partition: TopicPartition, previous: Batch | None, batch: RecordBatch, path: str, position: int) -> Batch:
        data = bytes(batch.memory)
        digest = digest_of(data)
        key = (partition, batch.base_offset, digest)
        if previous is not None:
            chain = chain_of(previous.chain, digest)
        else:
            joined = self._known.by_batch.get(key) if batch.base_offset > 0 else None
            chain = chain_of(START, digest) if joined is None else joined
        self._known.by_batch.setdefault(key, chain)
        values = () if batch.is_control else tuple(bytes(record.value or b"") for record in batch.records())
        reset = source_of_reset(batch) if batch.is_control and not batch.is_transactional else None
        return Batch(
            batch.base_offset,
            batch.last_offset,
            batch.partition_leader_epoch,
            batch.producer_id,
            batch.is_transactional,
            batch.is_control,
            reset,
            values,
            digest,
            chain,
            path,
            position,
            len(data),
            commits=decision_of(batch),
        )

    def _drop(self, partition: TopicPartition, gone: Callable[[Batch], bool], cause: str) -> None:
        log = self.logs.get(partition)
        if not log:
            return
        removed = [batch for batch in log if gone(batch)]
        if removed:
            log[:] = [batch for batch in log if not gone(batch)]
            shown = "recovery" if self.is_starting and cause != "topic deleted" else cause
            self._history.add(Removed(self._now_us(), LogKey(self._cluster, partition), removed, shown))

    def _scan(self, partition: TopicPartition) -> tuple[list[Batch], int | None]:
        """Returns the valid batches on disk, and the position of the first invalid bytes in their
        segment.
        """
        folders = self._folders(partition)
        folder = self._homes.get(partition, "")
        if folder not in folders:
            folder = folders[0] if folders else f"{self._data_dirs[0]}/{log_dir_name(partition)}"
        durable = {batch.key for batch in self.logs.get(partition, ()) if batch.durable}
        batches: list[Batch] = []
        for name in self._disk.names(folder):
            if not name.endswith(SUFFIX):
                continue
            path = f"{folder}/{name}"
            data = self._disk.contents(path)
            end = 0
            for start, record_batch in whole_batches(data):
                if not record_batch.is_valid() or (batches and record_batch.base_offset <= batches[-1].last_offset):
                    return batches, start
                batch = self._batch(partition, batches[-1] if batches else None, record_batch, path, start)
                batch.durable = batch.key in durable
                batches.append(batch)
                end = start + batch.size
            if end != len(data):
                return batches, end
        return batches, None

    def _reload_states(self) -> None:
        """Reads the states again; only what differs from before becomes an event."""
        before = self._states.states
        self._states.states = self.stored_states()[0]
        for partition, (mirror_name, state) in before.items():
            after = self._states.states.get(partition)
            if after is None:
                self._history.add(StateLost(self._now_us(), LogKey(self._cluster, partition), mirror_name, None))
            elif after != (mirror_name, state):
                self._history.add(StateLost(self._now_us(), LogKey(self._cluster, partition), *after))

    def stored_states(self) -> tuple[States, list[StateWritten | LastMirrorEpochWritten]]:
        """Returns what `__mirror_state` on this disk says, and the events that led there."""
        return read_all(self._cluster, self._batches_below(MIRROR_STATE_TOPIC))

    def _batches_below(self, prefix: str) -> Iterator[RecordBatch]:
        """Yields the batches of all logs whose folder names begin with that prefix."""
        for data_dir in self._data_dirs:
            for folder in self._disk.names(data_dir):
                if folder.startswith(prefix) and not folder.endswith(NO_CURRENT_LOG):
                    yield from self._batches_in(f"{data_dir}/{folder}")

    def _batches_in(self, folder: str) -> Iterator[RecordBatch]:
        for name in self._disk.names(folder):
            for _, batch in whole_batches(self._disk.contents(f"{folder}/{name}")) if name.endswith(SUFFIX) else ():
                yield batch
