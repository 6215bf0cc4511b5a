"""What the files beside a partition's segments claim: they are read completely here, and judged
elsewhere.

A file that cannot be parsed becomes the text of its error. These files are read after the segments,
and a running broker may have moved on by then.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.index_reader import TRANSACTION_INDEX_DTYPE, read_transaction_index
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, EpochEntry, LeaderEpochCheckpointFile
from kmirror.storage.log_file_names import TXN_INDEX_FILE_SUFFIX, is_log_file, producer_snapshot_file
from kmirror.storage.producer_snapshot_file import read_producer_snapshot
from kmirror.storage.producer_state_entry import ProducerStateEntry
from kmirror.storage.reader import PartitionFiles, SegmentFiles, read_offset_checkpoint

CHECKPOINTS = {
    "log_start": "log-start-offset-checkpoint",
    "high_watermark": "replication-offset-checkpoint",
    "recovery_point": "recovery-point-offset-checkpoint",
    "cleaner": "cleaner-offset-checkpoint",
}
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"


class TxnIndexEntry(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class DataDirClaims:
    """A data dir's own files. The default is for a partition's folder whose data dir is not
    known."""

    path: str | None = None
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """By key of CHECKPOINTS; a file that is missing has no key."""
    errors: dict[str, str] = field(default_factory=dict)
    at_rest: bool = False
    """Whether a broker shut down here and none has started since."""

    def of(self, partition: TopicPartition) -> DataDirClaims:
        """Returns the claims about one partition, small enough to go with a task."""
        offsets = {key: {partition: said[partition]} if partition in said else {} for key, said in self.offsets.items()}
        return DataDirClaims(self.path, offsets, self.errors, self.at_rest)


@dataclass(frozen=True, slots=True)
class SnapshotClaim:
    """The claims of one producer snapshot."""

    path: str
    written_ms: int
    entries: list[ProducerStateEntry]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionClaims:
    """The claims in a partition's folder."""

    path: str
    topic_partition: TopicPartition
    segments: list[SegmentFiles]
    snapshots: dict[int, SnapshotClaim]
    epochs: list[EpochEntry] | None
    """None without a checkpoint."""
    epochs_error: str | None
    aborted: dict[int, list[TxnIndexEntry]]
    """By the base offset of the segment."""
    aborted_errors: dict[int, str]
    data_dir: DataDirClaims
    has_grown: bool
    """Whether a broker has appended since the folder was listed."""
    swaps: list[str]
    """The paths of cleaned segments that have not come into their places."""
    dangling: list[str]
    """The paths of listed names without a file."""

    def checkpoint(self, key: str) -> int | None:
        return self.data_dir.offsets.get(key, {}).get(self.topic_partition)


def read_data_dir_claims(files: FileSystem, path: str) -> DataDirClaims:
    """Reads the checkpoints at the top of a data dir; those that are missing claim nothing."""
    offsets, errors = {}, {}
    for key, name in CHECKPOINTS.items():
        try:
            if files.exists(f"{path}/{name}"):
                offsets[key] = read_offset_checkpoint(files, path, name)
        except KmirrorError as error:
            errors[name] = str(error)
    return DataDirClaims(path, offsets, errors, files.exists(f"{path}/{CLEAN_SHUTDOWN_FILE}"))


def read_partition_claims(files: FileSystem, partition: PartitionFiles, data_dir: DataDirClaims) -> PartitionClaims:
    """Reads the claims in a partition's folder."""
    epochs: list[EpochEntry] | None = None
    epochs_error = None
    if LEADER_EPOCH_CHECKPOINT_FILE_NAME in partition.other_files:
        try:
            epochs = LeaderEpochCheckpointFile(files, partition.path, deferred=True).read()
        except (KmirrorError, ValueError) as error:
            epochs_error = str(error)
    aborted, aborted_errors = {}, {}
    for segment in partition.segments:
        if TXN_INDEX_FILE_SUFFIX in segment.sizes:
            try:
                entries, problem = _txn_index(files, segment)
            except FileNotFoundError:
                continue  # gone with its segment
            aborted[segment.base_offset] = entries
            if problem is not None:
                aborted_errors[segment.base_offset] = problem
    read = {offset: _snapshot(files, producer_snapshot_file(partition.path, offset)) for offset in partition.snapshots}
    snapshots = {offset: claim for offset, claim in read.items() if claim is not None}
    return PartitionClaims(
        path=partition.path,
        topic_partition=partition.topic_partition,
        segments=partition.segments,
        snapshots=snapshots,
        epochs=epochs,
        epochs_error=epochs_error,
        aborted=aborted,
        aborted_errors=aborted_errors,
        data_dir=data_dir,
        has_grown=not data_dir.at_rest and has_grown(files, partition),
        swaps=[path for name in partition.swaps if files.exists(path := f"{partition.path}/{name}")],
        dangling=partition.dangling_paths,
    )


def has_grown(files: FileSystem, partition: PartitionFiles) -> bool:
    """Whether a broker has appended since the folder was listed."""
    if not partition.segments:
        return False
    last = partition.segments[-1]
    try:
        newest = max((name for name in files.list_dir(partition.path) if is_log_file(name)), default="")
        return newest > posixpath.basename(last.path()) or files.size(last.path()) != last.log_size
    except (FileNotFoundError, NotADirectoryError):
        return True


def _snapshot(files: FileSystem, path: str) -> SnapshotClaim | None:
    """Returns what a snapshot claims; None if a running broker has deleted it."""
    try:
        return SnapshotClaim(path, files.mtime_ms(path), read_producer_snapshot(files, path))
    except FileNotFoundError:
        return None
    except KmirrorError as error:
        return SnapshotClaim(path, 0, [], str(error))


def _txn_index(files: FileSystem, segment: SegmentFiles) -> tuple[list[TxnIndexEntry], str | None]:
    path = segment.path(TXN_INDEX_FILE_SUFFIX)
    size = segment.sizes[TXN_INDEX_FILE_SUFFIX]
    rows = read_transaction_index(files, path)
    if (rows["version"] != 0).any():
        return [], f"{path}: an aborted transaction of version {int(rows['version'][rows['version'] != 0][0])}"
    problem = None if size % TRANSACTION_INDEX_DTYPE.itemsize == 0 else f"{path}: {size} bytes are not a whole number of entries"
    return [TxnIndexEntry(*row[1:]) for row in rows.tolist()], problem
