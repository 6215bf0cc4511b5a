"""Recorded logs as the data dir of a broker of their own.

Nothing is copied but small files, and nothing is written where the logs are. The data dir is a new
folder. For each recorded partition it has a folder with

- a link for every `.log`. `RecordedFiles` opens it read-only, whatever the broker asks for, and of
  a segment with a torn tail shows only the sound part;
- copies of the indexes (without the zeros that follow a running broker's entries), producer
  snapshots and leader epochs; if the recording has no `leader-epoch-checkpoint`, one is made from
  the batches' headers;
- checkpoints that say that everything is flushed, so the broker begins with the recording's log
  start and end. It reads the last segment of each log, as after a crash: after a clean shutdown it
  would believe that a log without snapshots has no open transactions.

So records are served from where they are, with sendfile. The metadata log begins with the topics,
under their recorded ids. This broker leads each partition, in the latest leader epoch of its log;
no epoch is added. Records are served up to the end of the log. A copy of a running broker's folder
may contain some that were never committed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from kmirror.cli.log_diff_inputs import FolderInput, is_remote
from kmirror.cli.replay_plan import CREATED_WITH, Plan
from kmirror.cli.replay_source import RecordedPartition
from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import BOOTSTRAP_FILE_NAME, decode_snapshot, encode_snapshot
from kmirror.record.record import NO_TIMESTAMP
from kmirror.runtime.api import Runtime
from kmirror.runtime.os_files import OsFile, VolatileOsFile, VolatileOsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.storage.index_reader import OFFSET_INDEX_DTYPE, read_time_index
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, EpochEntry, LeaderEpochCheckpointFile
from kmirror.storage.log_file_names import (
    INDEX_FILE_SUFFIX,
    TIME_INDEX_FILE_SUFFIX,
    TXN_INDEX_FILE_SUFFIX,
    producer_snapshot_file,
)
from kmirror.storage.offset_checkpoint_file import (
    HIGH_WATERMARK_CHECKPOINT_FILE_NAME,
    LOG_START_OFFSET_CHECKPOINT_FILE_NAME,
    RECOVERY_POINT_CHECKPOINT_FILE_NAME,
    OffsetCheckpointFile,
)
from kmirror.storage.partition_metadata_file import encode_partition_metadata
from kmirror.storage.reader import SegmentFiles, SegmentReader
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.header_scan import read_headers
from kmirror.verify.planner import index_entries
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.topic_record import TopicRecord

NODE_ID: Final = 1
TOPIC_RESOURCE: Final = 2
UNLIMITED: Final = "-1"


class RecordedFiles(VolatileOsFileSystem):
    """The machine's files; links are recorded segments, which cannot be written to through this."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        """Where the sound part of a segment ends, by the link's path."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False, write: bool = True) -> OsFile:
        if not os.path.islink(path):
            return super().open(path, create=create, exclusive=exclusive, write=write)
        file = super().open(path, write=False)
        return file if path not in self.ends else _Shortened(path, file.detach(), self.ends[path])

    def size(self, path: str) -> int:
        return min(super().size(path), self.ends.get(path, 1 << 62))

    def set_mtime_ms(self, path: str, mtime_ms: int) -> None:
        if not os.path.islink(path):
            super().set_mtime_ms(path, mtime_ms)


class _Shortened(VolatileOsFile):
    """A file that is shown only up to an end."""

    __slots__ = ("_end",)

    def __init__(self, path: str, descriptor: int, end: int) -> None:
        super().__init__(path, descriptor)
        self._end = end

    def pread(self, size: int, position: int) -> bytes:
        return super().pread(max(0, min(size, self._end - position)), position)

    def size(self) -> int:
        return min(super().size(), self._end)


@dataclass(slots=True)
class ServedFolder:
    """`build` fills the folder; then a broker of this `config` may start on it.

    The broker must use `files` as its file system.
    """

    folder: Path
    host: str
    port: int
    files: RecordedFiles = field(default_factory=RecordedFiles)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def config(self) -> KafkaConfig:
        """A combined broker and controller that deletes nothing and creates no topics by itself."""
        return KafkaConfig.from_props(
            {
                "process.roles": "broker,controller",
                "node.id": str(NODE_ID),
                "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:0",
                "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": str(self.data),
                "log.cleaner.enable": "false",
                "log.retention.ms": UNLIMITED,
                "log.retention.bytes": UNLIMITED,
                "auto.create.topics.enable": "false",
                "offsets.topic.replication.factor": "1",
                "offsets.topic.num.partitions": "1",
                "transaction.state.log.replication.factor": "1",
                "transaction.state.log.min.isr": "1",
                "share.coordinator.state.topic.replication.factor": "1",
                "share.coordinator.state.topic.min.isr": "1",
                "group.initial.rebalance.delay.ms": "0",
            }
        )

    def build(self, runtime: Runtime, plan: Plan, recorded: FolderInput, configs: Mapping[str, str]) -> None:
        """Fill the folder.

        KmirrorError for a recording that is not on this machine, CorruptFileError for one that
        cannot be read.
        """
        if is_remote(recorded.name):
            raise KmirrorError(
                f"--serve needs the logs on this machine's disks, and {recorded.name} is remote; without --serve it can be replayed"
            )
        format_node(self.config, FormatOptions(cluster_id=str(Uuid.random(runtime.random))), runtime)
        logs = {one.target: recorded.logs[one.source] for one in plan.partitions}
        ids = _topic_ids(runtime, plan, recorded)
        epochs: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for partition in plan.partitions:
            log = logs[partition.target]
            self._add(log, partition.target, ids[partition.target.topic])
            epochs[partition.target] = self._write_epochs(log, partition)
            ends[partition.target] = max(log.log_end_offset(), log.log_start_offset)
        starts = {name: log.log_start_offset for name, log in logs.items() if log.log_start_offset > _first_base_offset(log)}
        files, data = self.files, str(self.data)
        OffsetCheckpointFile(files, f"{data}/{RECOVERY_POINT_CHECKPOINT_FILE_NAME}").write(ends)
        OffsetCheckpointFile(files, f"{data}/{HIGH_WATERMARK_CHECKPOINT_FILE_NAME}").write(ends)
        OffsetCheckpointFile(files, f"{data}/{LOG_START_OFFSET_CHECKPOINT_FILE_NAME}").write(starts)
        path = self.data / BOOTSTRAP_FILE_NAME
        known = decode_snapshot(path.read_bytes(), str(path)).records
        records = [ApiMessageAndVersion(one, 0) for one in known] + list(_metadata(plan, ids, epochs, {**CREATED_WITH, **configs}))
        path.write_bytes(encode_snapshot(records, runtime.clock, last_contained_log_timestamp=0))

    def _add(self, log: DirectoryLog, target: TopicPartition, topic_id: Uuid) -> None:
        """Create the links and copies of one partition."""
        folder = self.data / str(target)
        folder.mkdir()
        (folder / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
        trailing_bytes = log.facts().trailing_bytes
        segments = log.partition.segments
        for segment in segments:
            link = folder / Path(segment.path()).name
            link.symlink_to(Path(segment.path()).resolve())
            size = segment.log_size - (trailing_bytes if segment is segments[-1] else 0)
            self.files.ends[str(link)] = size
            for suffix, data in _indexes(log.files, segment, size):
                (folder / Path(segment.path(suffix)).name).write_bytes(data)
        for offset in log.partition.snapshots:
            shutil.copyfile(producer_snapshot_file(log.partition.path, offset), producer_snapshot_file(str(folder), offset))

    def _write_epochs(self, log: DirectoryLog, partition: RecordedPartition) -> int:
        """Write every leader epoch into the partition's folder.

        Returns the latest epoch of the log, 0 for an empty log.
        """
        last = _last_epoch(log)
        entries: list[EpochEntry] = []
        if LEADER_EPOCH_CHECKPOINT_FILE_NAME in log.partition.other_files:
            entries = LeaderEpochCheckpointFile(log.files, log.partition.path, deferred=True).read()
        if last is not None and not any(entry.epoch == last for entry in entries):
            entries = list(_epochs_of(log.files, partition))
        LeaderEpochCheckpointFile(self.files, str(self.data / str(partition.target))).write(entries)
        return max(0, entries[-1].epoch if entries else 0)


def _first_base_offset(log: DirectoryLog) -> int:
    """Returns 0 for a log without segments: a broker creates the first with the first record."""
    return log.partition.segments[0].base_offset if log.partition.segments else 0


def _topic_ids(runtime: Runtime, plan: Plan, recorded: FolderInput) -> dict[str, Uuid]:
    """Returns the recorded topic ids.

    A topic without one gets a new id. So does a renamed topic: the cluster that mirrors it may have
    the recorded id under the recorded name.
    """
    ids: dict[str, Uuid] = {}
    for partition in plan.partitions:
        if partition.target.topic not in ids:
            found = recorded.logs[partition.source].partition.topic_id(recorded.files)
            is_recorded = partition.target.topic == partition.source.topic and found is not None and found not in ids.values()
            ids[partition.target.topic] = found if is_recorded and found is not None else Uuid.random(runtime.random)
    return ids


def _metadata(
    plan: Plan, ids: Mapping[str, Uuid], epochs: Mapping[TopicPartition, int], configs: Mapping[str, str]
) -> Iterator[ApiMessageAndVersion]:
    """Yields the records of the topics and of every partition up to the last recorded one.

    Partitions that the recording lacks are empty.
    """
    for topic, count in plan.counts.items():
        yield ApiMessageAndVersion(TopicRecord(name=topic, topic_id=ids[topic]), 0)
        for number in range(count):
            record = PartitionRecord(
                partition_id=number,
                topic_id=ids[topic],
                replicas=[NODE_ID],
                isr=[NODE_ID],
                leader=NODE_ID,
                leader_epoch=epochs.get(TopicPartition(topic, number), 0),
                partition_epoch=0,
            )
            yield ApiMessageAndVersion(record, 0)
        for name, value in sorted(configs.items()):
            yield ApiMessageAndVersion(ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value), 0)


def _indexes(files: FileSystem, segment: SegmentFiles, size: int) -> Iterator[tuple[str, bytes]]:
    """Yields the recorded indexes in the form in which a stopped broker leaves them."""
    if INDEX_FILE_SUFFIX in segment.sizes:
        sound = index_entries(files, segment)
        sound = sound[sound["position"] < size]
        slots = np.empty(len(sound), dtype=OFFSET_INDEX_DTYPE)
        slots["relative_offset"], slots["position"] = sound["offset"] - segment.base_offset, sound["position"]
        yield INDEX_FILE_SUFFIX, slots.tobytes()
    if TIME_INDEX_FILE_SUFFIX in segment.sizes:
        times = read_time_index(files, segment.path(TIME_INDEX_FILE_SUFFIX))
        falls = np.flatnonzero(np.diff(times["timestamp"].astype(np.int64), prepend=NO_TIMESTAMP) <= 0)
        is_empty = len(times) > 0 and not times["timestamp"][0] and not times["relative_offset"][0]
        yield TIME_INDEX_FILE_SUFFIX, times[: 0 if is_empty else falls[0] if len(falls) else len(times)].tobytes()
    if TXN_INDEX_FILE_SUFFIX in segment.sizes:
        yield TXN_INDEX_FILE_SUFFIX, files.read_bytes(segment.path(TXN_INDEX_FILE_SUFFIX))


def _last_epoch(log: DirectoryLog) -> int | None:
    """Returns the leader epoch of the last batch; None without a batch."""
    for segment in reversed(log.partition.segments):
        with SegmentReader(log.files, segment.path(), start=log.indexed_position(segment), end=segment.log_size) as reader:
            _, headers = reader.headers()
        if len(headers):
            return int(headers["partition_leader_epoch"][-1])
    return None


def _epochs_of(files: FileSystem, partition: RecordedPartition) -> Iterator[EpochEntry]:
    """Yields where each leader epoch begins, according to the batches."""
    epoch = -1
    for piece in partition.listing.slices(files, partition.files):
        for block in read_headers(files, piece, check_crc=False):
            rows: Sequence[tuple[int, int]] = list(
                zip(block.headers["partition_leader_epoch"].tolist(), block.headers["base_offset"].tolist())
            )
            for found, offset in rows:
                if found > epoch:
                    epoch = found
                    yield EpochEntry(epoch, offset)
