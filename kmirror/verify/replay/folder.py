"""Replay of a data dir or of one partition's folder on this machine: no Spark, the same functions.

A data dir's checkpoints are read first, then the folders are listed: what a running broker does meanwhile only comes on top of that. Each segment
is one slice here; one with a slice that cannot be read is replayed as a whole by whoever cut it, for a wrong index entry makes a wrong cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.storage.reader import PartitionFiles, is_partition_dir, read_data_dir, read_partition
from kmirror.verify.replay.claims import DataDirClaims, read_data_dir_claims, read_partition_claims
from kmirror.verify.replay.close import PRODUCER_ID_EXPIRATION_MS, close_partition
from kmirror.verify.replay.partial import ReplayPartial, merge
from kmirror.verify.replay.slice_replay import replay_slice
from kmirror.verify.replay.tables import ReplayTables
from kmirror.verify.slices import LogSlice


def replay_folder(
    files: FileSystem,
    folder: str,
    *,
    check_crc: bool = True,
    now_ms: int | None = None,
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    compacted_topics: Collection[str] | None = None,
) -> ReplayTables:
    """The tables of all partitions in `folder`, a broker's log.dir or one partition's folder. KmirrorError if it is neither."""
    tables = ReplayTables()
    for data_dir, partition in partitions_of(files, folder):
        partial = replay_partition(files, partition, check_crc=check_crc)
        claims = read_partition_claims(files, partition, data_dir)
        tables.extend(
            close_partition(
                partial, claims, now_ms=now_ms, producer_id_expiration_ms=producer_id_expiration_ms, compacted_topics=compacted_topics
            )
        )
    return tables


def partitions_of(files: FileSystem, folder: str) -> Iterator[tuple[DataDirClaims, PartitionFiles]]:
    """The partitions, and what is known of where they lie."""
    folder = folder.rstrip("/") or folder
    if not files.is_dir(folder):
        raise KmirrorError(f"{folder} is not a directory; give a partition's folder or a broker's log.dir")
    if is_partition_dir(files, folder):
        yield DataDirClaims(), read_partition(files, folder)
        return
    data_dir = read_data_dir_claims(files, folder)
    found = read_data_dir(files, folder)
    if not found:
        raise KmirrorError(f"{folder} holds no partition: no folder named <topic>-<partition> with a .log file")
    for partition in found:
        yield data_dir, partition


def replay_partition(files: FileSystem, partition: PartitionFiles, *, check_crc: bool = True) -> ReplayPartial:
    """The partial of all segments, read one by one."""
    partial = ReplayPartial()
    cuts = tuple(partition.snapshots)
    for piece in segment_slices(partition):
        partial = merge(partial, replay_slice(files, piece, cuts=cuts, check_crc=check_crc))
    return partial


def segment_slices(partition: PartitionFiles) -> Iterator[LogSlice]:
    """Each segment as one slice."""
    topic, number = partition.topic_partition
    for segment in partition.segments:
        yield LogSlice(
            location=partition.path,
            path=segment.path(),
            topic=topic,
            partition=number,
            base_offset=segment.base_offset,
            start=0,
            end=segment.log_size,
            segment_size=segment.log_size,
            is_last_segment=segment is partition.segments[-1],
        )
