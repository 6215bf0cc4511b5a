"""Damages one thing in a pair of clusters from `cluster_stories`, and says what the tools must
report: which file, partition, kind and offset.

A damage is chosen by `random` among all the places of its kind; `Nowhere` is raised if a story has
none. Only what contradicts the bytes is damage: a leader epoch that is one lower, where it could
have been so, is not.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from kmirror.common.crc32c import crc32c
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.coordinator.group.group_records import OffsetAndMetadata, offset_commit_record
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RECORD_BATCH_OVERHEAD, RecordBatch, iter_batches
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.producer_snapshot_file import read_producer_snapshot
from kmirror.storage.reader import read_offset_checkpoint
from support.logs.cluster_stories import AUDIT, DATA, GROUPS, METADATA, MIRRORED, ORDERS, TRANSACTIONS

T = TypeVar("T")

FILES: Final = OsFileSystem()
NOT_COMPACTED: Final = (*ORDERS, AUDIT, METADATA)
ANY: Final = (*DATA, GROUPS, TRANSACTIONS, METADATA)
VERIFY: Final = "verify-logs"
DIFF: Final = "log-diff"


class Nowhere(Exception):
    """The story has no such place."""


class Expected(NamedTuple):
    """What a tool must say.

    `kinds` are `<table> <kind>` of a finding, or the kind of a difference.
    """

    tool: str
    kinds: frozenset[str]
    name: TopicPartition | None
    """None for a file of a whole data dir."""
    files: frozenset[str]
    offset: int | None = None
    positions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch and where it lies."""

    path: Path
    position: int
    batch: RecordBatch

    @property
    def data(self) -> bytes:
        return bytes(self.batch.memory)


class Replica:
    """A partition's folder."""

    def __init__(self, folder: Path, name: TopicPartition) -> None:
        self.folder = folder
        self.name = name

    @property
    def segments(self) -> list[Path]:
        """Those with batches."""
        return [path for path in sorted(self.folder.glob("*.log")) if path.stat().st_size]

    def placed(self, path: Path) -> list[Placed]:
        found, position = [], 0
        for batch in iter_batches(path.read_bytes()):
            found.append(Placed(path, position, batch))
            position += batch.size_in_bytes
        return found

    @property
    def batches(self) -> list[Placed]:
        return [one for path in self.segments for one in self.placed(path)]

    @property
    def log_start(self) -> int:
        starts = read_offset_checkpoint(FILES, str(self.folder.parent), "log-start-offset-checkpoint")
        return max(starts.get(self.name, 0), int(self.segments[0].stem))

    @property
    def log_end(self) -> int:
        return int(self.batches[-1].batch.last_offset) + 1

    def beside(self, name: str) -> Path:
        return self.folder / name

    def expected(
        self, kinds: str, *files: Path, offset: int | None = None, positions: tuple[int, ...] = (), tool: str = VERIFY
    ) -> Expected:
        return Expected(tool, frozenset(kinds.split(", ")), self.name, frozenset(map(str, files)), offset, frozenset(positions))


class Clusters:
    """`folder/A` and `folder/B`, and the random source of the damage."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)

    def replica(self, side: str, node: int, name: TopicPartition) -> Replica:
        return Replica(self.folder / side / f"node-{node}" / str(name), name)

    def replicas(self, *names: TopicPartition) -> list[Replica]:
        """Returns all replicas of these partitions that have batches, in random order."""
        found = [self.replica(side, node, name) for side in "AB" for node in (1, 2) for name in names]
        found = [one for one in found if one.folder.is_dir() and one.segments]
        self.random.shuffle(found)
        return found

    def one_of(self, places: Iterator[T] | list[T]) -> T:
        found = list(places)
        if not found:
            raise Nowhere
        return self.random.choice(found)


def rewrite(path: Path, batches: list[bytes]) -> None:
    path.write_bytes(b"".join(batches))


def patch(path: Path, position: int, data: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        file.write(data)


def sealed(data: bytearray) -> bytes:
    """Returns the batch with the CRC of its bytes."""
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


# batches
def byte_flipped(clusters: Clusters) -> Expected:
    in_header = clusters.random.random() < 0.2
    replica = clusters.replicas(*(NOT_COMPACTED if in_header else ANY))[0]
    batches = replica.batches
    number = clusters.random.randrange(len(batches))
    one = batches[number]
    at = clusters.random.randrange(17) if in_header else clusters.random.randrange(17, len(one.data))
    patch(one.path, one.position + at, bytes([one.data[at] ^ 1 << clusters.random.randrange(8)]))
    if 12 <= at < 16:
        kinds = "leader_epochs epoch, leader_epochs missing, leader_epochs differs, leaders epoch"
        return replica.expected(kinds, one.path, replica.beside("leader-epoch-checkpoint"), offset=one.batch.base_offset)
    if not in_header:
        return replica.expected("structure crc", one.path, positions=(one.position,))
    kinds = (
        "structure crc, structure order, structure gap, structure corrupt, structure torn, structure magic, structure name, indexes wrong"
    )
    following = batches[number + 1 : number + 2]  # offsets that go back or leave a hole are said of the batch behind
    places = (one.position, *(each.position for each in following))
    return replica.expected(kinds, one.path, *(each.path for each in following), positions=places)


def tail_missing(clusters: Clusters) -> Expected:
    replica = clusters.replicas(*ANY)[0]
    batches = replica.batches
    last = batches[-1]
    if clusters.random.random() < 0.5:
        patch_size = last.position + clusters.random.randrange(1, len(last.data))
        with open(last.path, "r+b") as file:
            file.truncate(patch_size)
        return replica.expected("structure torn, structure corrupt", last.path, positions=(last.position,))
    with open(last.path, "r+b") as file:
        file.truncate(last.position)
    end = batches[-2].batch.last_offset + 1 if len(batches) > 1 and last.position else int(last.path.stem)
    return beyond_end(replica, end)


def beyond_end(replica: Replica, end: int) -> Expected:
    """Returns what must be reported about a log that ends too early."""
    names = ("replication-offset-checkpoint", "recovery-point-offset-checkpoint")
    files = [replica.folder.parent / name for name in names]
    return replica.expected("checkpoints beyond_end, producers beyond_end", *files, *replica.folder.glob("*.snapshot"), offset=end)


def batches_swapped(clusters: Clusters) -> Expected:
    def places() -> Iterator[tuple[Replica, list[Placed]]]:
        for replica in clusters.replicas(*ANY):
            yield from ((replica, found) for path in replica.segments if len(found := replica.placed(path)) > 1)

    replica, found = clusters.one_of(places())
    at = clusters.random.randrange(len(found) - 1)
    parts = [one.data for one in found]
    parts[at], parts[at + 1] = parts[at + 1], parts[at]
    rewrite(found[at].path, parts)
    place = found[at].position + len(parts[at])
    return replica.expected("structure order", found[at].path, offset=found[at].batch.base_offset, positions=(place,))


def epoch_wrong(clusters: Clusters) -> Expected:
    replica = clusters.replicas(*DATA)[0]
    one = clusters.one_of(replica.batches)
    patch(one.path, one.position + 12, struct.pack(">i", one.batch.partition_leader_epoch + clusters.random.choice((100, 1000))))
    kinds = "leader_epochs missing, leaders epoch"
    return replica.expected(kinds, one.path, replica.beside("leader-epoch-checkpoint"), replica.folder, offset=one.batch.base_offset)


def marker_lost(clusters: Clusters) -> Expected:
    """From the middle of a log."""

    def places() -> Iterator[tuple[Replica, Placed]]:
        for replica in clusters.replicas(*ORDERS, AUDIT):
            for one in replica.batches[1:-1]:
                if one.batch.is_control and one.batch.has_producer_id and one.batch.base_offset > replica.log_start:
                    yield replica, one

    replica, marker = clusters.one_of(places())
    parts = [one.data for one in replica.placed(marker.path) if one.position != marker.position]
    rewrite(marker.path, parts)
    is_last = marker.path.stat().st_size == marker.position
    following = replica.segments[replica.segments.index(marker.path) + 1] if is_last and marker.path in replica.segments else marker.path
    files = (marker.path, following, *replica.folder.glob("*.log"))
    return replica.expected("structure gap", *files, offset=marker.batch.base_offset)


# inside batches, under a right CRC
def _data_batches(clusters: Clusters, *names: TopicPartition) -> Iterator[tuple[Replica, Placed]]:
    for replica in clusters.replicas(*names):
        yield from ((replica, one) for one in replica.batches if not one.batch.is_control and one.batch.record_count)


def body_garbage(clusters: Clusters) -> Expected:
    replica, one = clusters.one_of(_data_batches(clusters, *DATA))
    body = clusters.random.randbytes(len(one.data) - RECORD_BATCH_OVERHEAD)
    patch(one.path, one.position, sealed(bytearray(one.data[:RECORD_BATCH_OVERHEAD] + body)))
    kinds = "structure records, compaction corrupt"
    return replica.expected(kinds, one.path, positions=(one.position,))


def record_count_wrong(clusters: Clusters) -> Expected:
    def places() -> Iterator[tuple[Replica, Placed]]:
        yield from ((replica, one) for replica, one in _data_batches(clusters, *DATA) if one.batch.record_count > 1)

    replica, one = clusters.one_of(places())
    data = bytearray(one.data)
    struct.pack_into(">i", data, 57, one.batch.record_count + clusters.random.choice((-1, 1)))
    patch(one.path, one.position, sealed(data))
    kinds = "structure records, structure count, compaction corrupt"
    return replica.expected(kinds, one.path, positions=(one.position,))


def sequence_jumps(clusters: Clusters) -> Expected:
    """A producer's batch does not go on where the one before it, of the same epoch, has ended."""

    def places() -> Iterator[tuple[Replica, Placed]]:
        for replica in clusters.replicas(*ORDERS, AUDIT):
            seen: dict[int, int] = {}
            for one in replica.batches:
                batch = one.batch
                if not batch.has_producer_id:
                    seen.clear()
                elif not batch.is_control:
                    if seen.get(batch.producer_id) == batch.producer_epoch and batch.base_offset > replica.log_start:
                        yield replica, one
                    seen[batch.producer_id] = batch.producer_epoch
                elif seen.get(batch.producer_id) != batch.producer_epoch:
                    seen.pop(batch.producer_id, None)

    replica, one = clusters.one_of(places())
    data = bytearray(one.data)
    jump = clusters.random.choice((-1, 1)) * clusters.random.randrange(1, 9)
    struct.pack_into(">i", data, 53, max(one.batch.base_sequence + jump, 0))
    if bytes(data) == one.data:
        raise Nowhere
    patch(one.path, one.position, sealed(data))
    return replica.expected("producers sequence", one.path, offset=one.batch.base_offset)


# files beside the segments
def _snapshots(clusters: Clusters) -> Iterator[tuple[Replica, Path]]:
    for replica in clusters.replicas(*ORDERS, AUDIT):
        for path in sorted(replica.folder.glob("*.snapshot")):
            entries = read_producer_snapshot(FILES, str(path))
            first = int(replica.segments[0].stem)
            if int(path.stem) > first and entries and entries[0].last_data_offset >= replica.log_start:
                yield replica, path


def snapshot_wrong(clusters: Clusters) -> Expected:
    replica, path = clusters.one_of(_snapshots(clusters))
    data = bytearray(path.read_bytes())
    how = clusters.random.choice(("epoch", "gone", "crc"))
    if how == "epoch":
        struct.pack_into(">h", data, 18, struct.unpack_from(">h", data, 18)[0] + 1)
    elif how == "gone":
        data = data[:10] + data[10 + 46 :]
        struct.pack_into(">i", data, 6, struct.unpack_from(">i", data, 6)[0] - 1)
    else:
        data[-1] ^= 1
    if how != "crc":
        struct.pack_into(">I", data, 2, crc32c(bytes(data[6:])))
    times = path.stat()
    path.write_bytes(data)
    _set_times(path, times.st_mtime)
    kinds = {"epoch": "producers differs", "gone": "producers missing", "crc": "producers corrupt"}
    return replica.expected(kinds[how], path, offset=int(path.stem))


def _set_times(path: Path, when: float) -> None:
    os.utime(path, (when, when))


def _of_suffix(clusters: Clusters, suffix: str, entry_size: int, *names: TopicPartition) -> tuple[Replica, Path, int]:
    """A file with entries, and one of them."""

    def places() -> Iterator[tuple[Replica, Path, int]]:
        for replica in clusters.replicas(*names):
            for path in sorted(replica.folder.glob(f"*{suffix}")):
                yield from ((replica, path, entry) for entry in range(path.stat().st_size // entry_size))

    return clusters.one_of(places())


def index_wrong(clusters: Clusters) -> Expected:
    replica, path, entry = _of_suffix(clusters, ".index", 8, *ANY)
    relative, position = struct.unpack_from(">ii", path.read_bytes(), 8 * entry)
    if clusters.random.random() < 0.2:
        path.write_bytes(path.read_bytes()[:-3])
        return replica.expected("indexes size", path)
    patch(path, 8 * entry + 4, struct.pack(">i", position + clusters.random.choice((1, 7))))
    return replica.expected("indexes wrong", path, offset=int(path.stem) + relative)


def time_index_wrong(clusters: Clusters) -> Expected:
    replica, path, entry = _of_suffix(clusters, ".timeindex", 12, *ANY)
    timestamp, relative = struct.unpack_from(">qi", path.read_bytes(), 12 * entry)
    patch(path, 12 * entry, struct.pack(">q", timestamp - 10_000))
    return replica.expected("indexes wrong", path, offset=int(path.stem) + relative)


def txn_index_wrong(clusters: Clusters) -> Expected:
    replica, path, entry = _of_suffix(clusters, ".txnindex", 34, *ORDERS, AUDIT)
    data = path.read_bytes()
    first, last = struct.unpack_from(">qq", data, 34 * entry + 10)
    how = clusters.random.choice(("differs", "missing", "corrupt"))
    if how == "differs":
        patch(path, 34 * entry + 10, struct.pack(">q", first + 1))
    elif how == "missing":
        path.write_bytes(data[: 34 * entry] + data[34 * (entry + 1) :])
    else:
        path.write_bytes(data[:-5])
        return replica.expected("transactions corrupt", path)
    if first < replica.log_start:
        raise Nowhere  # what it was there is forgotten
    return replica.expected(f"transactions {how}", path, offset=last)


def leader_epochs_wrong(clusters: Clusters) -> Expected:
    def places() -> Iterator[tuple[Replica, int, int, int]]:
        for replica in clusters.replicas(*DATA):
            starts = {one.batch.base_offset: one.batch.partition_leader_epoch for one in reversed(replica.batches)}
            lines = replica.beside("leader-epoch-checkpoint").read_text().split("\n")[2:-1]
            for number, line in enumerate(lines[1:], 1):
                epoch, start = map(int, line.split())
                if starts.get(start) == epoch and start > replica.log_start + 1:
                    yield replica, number, epoch, start

    replica, number, epoch, start = clusters.one_of(places())
    path = replica.beside("leader-epoch-checkpoint")
    lines = path.read_text().split("\n")
    how = clusters.random.choice(("differs", "missing", "corrupt"))
    if how == "differs":
        lines[2 + number] = f"{epoch} {start + 1}"
    elif how == "missing":
        del lines[2 + number]
        lines[1] = str(int(lines[1]) - 1)
    else:
        lines[2 + number] = f"{epoch} x{start}"
    path.write_text("\n".join(lines))
    kinds = {
        "differs": "leader_epochs differs, leader_epochs order",
        "missing": "leader_epochs missing",
        "corrupt": "leader_epochs corrupt",
    }
    return replica.expected(kinds[how], path, offset=None if how == "corrupt" else start)


def checkpoint_wrong(name: str) -> Callable[[Clusters], Expected]:
    def damage(clusters: Clusters) -> Expected:
        replica = clusters.replicas(*DATA)[0]
        path = replica.folder.parent / name
        known = read_offset_checkpoint(FILES, str(replica.folder.parent), name) if path.exists() else {}
        end = replica.log_end
        if clusters.random.random() < 0.25:
            path.write_text("0\n1\nnot a line of a checkpoint\n")
            return replica.expected("checkpoints corrupt", path)._replace(name=None)
        known[replica.name] = end + clusters.random.choice((1, 500))
        lines = [f"{each.topic} {each.partition} {offset}\n" for each, offset in known.items()]
        path.write_text(f"0\n{len(lines)}\n{''.join(lines)}")
        return replica.expected("checkpoints beyond_end", path, offset=end)

    return damage


# the set of logs
def _folder_of(clusters: Clusters) -> Replica:
    return clusters.replicas(*DATA)[0]


def partition_gone(clusters: Clusters) -> Expected:
    replica = _folder_of(clusters)
    shutil.rmtree(replica.folder)
    return replica.expected("inventory missing", replica.folder)


def segments_gone(clusters: Clusters) -> Expected:
    """The folder is there, and empty."""
    replica = _folder_of(clusters)
    shutil.rmtree(replica.folder)
    replica.folder.mkdir()
    return replica.expected("inventory empty", replica.folder)


def foreign_topic_id(clusters: Clusters) -> Expected:
    replica = _folder_of(clusters)
    path = replica.beside("partition.metadata")
    path.write_text("version: 0\ntopic_id: " + str(Uuid(clusters.random.randbytes(16))) + "\n")
    return replica.expected("inventory topic_id", path)


def no_log_s_folder(clusters: Clusters) -> Expected:
    replica = _folder_of(clusters)
    path = replica.folder.parent / clusters.random.choice(("backup", "orders", "orders-x", "-1"))
    path.mkdir()
    return Expected(VERIFY, frozenset({"inventory name"}), None, frozenset({str(path)}))


def unknown_topic(clusters: Clusters) -> Expected:
    replica = _folder_of(clusters)
    name = TopicPartition(clusters.random.choice(("stranger", replica.name.topic)), 77)
    path = replica.folder.parent / str(name)
    shutil.copytree(replica.folder, path)
    return Expected(VERIFY, frozenset({"inventory nobodys"}), name, frozenset({str(path)}))


def garbage_swap(clusters: Clusters) -> Expected:
    replica = _folder_of(clusters)
    path = replica.beside(f"{replica.segments[0].stem}.log.swap")
    path.write_bytes(clusters.random.randbytes(200))
    return replica.expected("structure swap", path)


# clusters
def reset_missing(clusters: Clusters) -> Expected:
    """At the destination of a mirror, in both replicas: nobody wrote it, or its place was taken."""
    how = clusters.random.choice(("never written", "replaced"))
    name, offset = ORDERS[0], None
    for node in (1, 2):
        replica = clusters.replica("B", node, name)
        for one in replica.batches:
            if one.batch.is_control and not one.batch.has_producer_id:
                record = Record(one.batch.base_offset, one.batch.max_timestamp, b"k", b"own", [])
                epoch = one.batch.partition_leader_epoch
                own = build_batch([record], base_offset=one.batch.base_offset, partition_leader_epoch=epoch)
                parts = [each.data for each in replica.placed(one.path) if each.position != one.position]
                if how == "replaced":
                    parts.insert([each.position for each in replica.placed(one.path)].index(one.position), bytes(own))
                rewrite(one.path, parts)
                offset = one.batch.base_offset
    if offset is None:
        raise Nowhere
    logs = [path for node in (1, 2) for path in clusters.replica("B", node, name).folder.glob("*.log")]
    first_own = (
        offset
        if how == "replaced"
        else next((b.batch.base_offset for b in _longest(clusters, name).batches if b.batch.base_offset > offset), offset)
    )
    return clusters.replica("B", 1, name).expected("mirror-rule", *logs, offset=first_own, tool=DIFF)


def _longest(clusters: Clusters, name: TopicPartition) -> Replica:
    return max((clusters.replica("B", node, name) for node in (1, 2)), key=lambda replica: replica.log_end)


def group_beyond_end(clusters: Clusters) -> Expected:
    side = clusters.random.choice("AB")
    name = clusters.random.choice(DATA)
    offset = commit(clusters, side, name, end_of(clusters, side, name) + 7)
    folders = [clusters.replica(side, node, GROUPS).folder for node in (1, 2)]
    return clusters.replica(side, 1, GROUPS).expected("group_offsets beyond_end", *folders, offset=offset)


def end_of(clusters: Clusters, side: str, name: TopicPartition) -> int:
    """Returns where the longest replica of a side ends."""
    return max(replica.log_end for node in (1, 2) if (replica := clusters.replica(side, node, name)).segments)


def commit(clusters: Clusters, side: str, name: TopicPartition, committed: int) -> int:
    """A commit of group `late` in both replicas of __consumer_offsets; the offset of its record."""
    offset = 0
    for node in (1, 2):
        replica = clusters.replica(side, node, GROUPS)
        offset, now = replica.log_end, replica.batches[-1].batch.max_timestamp
        record = offset_commit_record("late", name.topic, name.partition, OffsetAndMetadata(committed, 0, "", now))
        data = build_batch([Record(offset, now, record.key, record.value, [])], base_offset=offset, partition_leader_epoch=0)
        path = max(replica.folder.glob("*.log"))
        path.write_bytes(path.read_bytes() + bytes(data))
    return offset


def segment_deleted(clusters: Clusters) -> Expected:
    def places() -> Iterator[tuple[Replica, int]]:
        for replica in clusters.replicas(*NOT_COMPACTED):
            found = replica.segments
            ends = [replica.placed(path)[-1].batch.last_offset for path in found]
            if len(found) > 1 and found[-1] == max(replica.folder.glob("*.log")):
                yield from ((replica, number) for number, end in enumerate(ends) if end >= replica.log_start)

    replica, number = clusters.one_of(places())
    found = replica.segments
    first, is_last = replica.placed(found[number])[0], number == len(found) - 1
    start = max(first.batch.base_offset, replica.log_start)
    for path in replica.folder.glob(f"{found[number].stem}.*"):
        path.unlink()
    if is_last:
        return beyond_end(replica, replica.log_end)
    return replica.expected("structure gap", found[number + 1], offset=start)


def _with_other_times(one: Placed) -> bytes:
    """Returns a valid batch that differs only in its timestamps."""
    data = bytearray(one.data)
    for position in (27, 35):
        struct.pack_into(">q", data, position, struct.unpack_from(">q", data, position)[0] - 1)
    return sealed(data)


def replica_diverged(clusters: Clusters) -> Expected:
    def places() -> Iterator[tuple[Replica, Placed]]:
        for replica in clusters.replicas(*MIRRORED):
            side, node = replica.folder.parts[-3], int(replica.folder.parts[-2].removeprefix("node-"))
            other = clusters.replica(side, 3 - node, replica.name)
            if not other.segments:
                continue
            low, high = max(replica.log_start, other.log_start), min(replica.log_end, other.log_end)
            for one in replica.batches:
                if low <= one.batch.base_offset and one.batch.last_offset < high and not one.batch.is_control:
                    yield replica, one

    replica, one = clusters.one_of(places())
    patch(one.path, one.position, _with_other_times(one))
    return replica.expected("bytes-differ", one.path, offset=one.batch.base_offset, tool=DIFF)


def mirror_diverged(clusters: Clusters) -> Expected:
    """Below the mirrored point, in both replicas of the destination."""
    name = clusters.random.choice((ORDERS[1], AUDIT))
    first, second = (clusters.replica("B", node, name) for node in (1, 2))
    source = clusters.replica("A", 1, name)
    if not first.segments:
        raise Nowhere
    low = max(first.log_start, source.log_start)
    one = clusters.one_of([one for one in first.batches if one.batch.base_offset >= low and not one.batch.is_control])
    patch(one.path, one.position, _with_other_times(one))
    for other in second.batches if second.segments else []:
        if other.batch.base_offset == one.batch.base_offset:
            patch(other.path, other.position, _with_other_times(other))
    files = [path for replica in (first, second) for path in replica.folder.glob("*.log")]
    return first.expected("bytes-differ", *files, offset=one.batch.base_offset, tool=DIFF)


DAMAGES: Final[dict[str, Callable[[Clusters], Expected]]] = {
    "byte flipped": byte_flipped,
    "tail missing": tail_missing,
    "batches swapped": batches_swapped,
    "epoch wrong": epoch_wrong,
    "marker lost": marker_lost,
    "body garbage": body_garbage,
    "record count wrong": record_count_wrong,
    "sequence jumps": sequence_jumps,
    "snapshot wrong": snapshot_wrong,
    ".index wrong": index_wrong,
    ".timeindex wrong": time_index_wrong,
    ".txnindex wrong": txn_index_wrong,
    "leader-epoch-checkpoint wrong": leader_epochs_wrong,
    **{f"{name} wrong": checkpoint_wrong(name) for name in (
        "replication-offset-checkpoint", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "cleaner-offset-checkpoint")},
    "partition gone": partition_gone,
    "segments gone": segments_gone,
    "another topic's id": foreign_topic_id,
    "no log's folder": no_log_s_folder,
    "unknown topic": unknown_topic,
    "garbage .swap": garbage_swap,
    "reset missing": reset_missing,
    "group beyond the end": group_beyond_end,
    "segment deleted": segment_deleted,
    "replica diverged": replica_diverged,
    "mirror diverged": mirror_diverged,
}  # fmt: skip
"""By name."""


def is_named(expected: Expected, findings: list[dict[str, Any]], report: dict[str, Any]) -> bool:
    """Whether one of the `findings` of verify-logs, or of the differences in the `report` of
    kafka-log-diff, names everything expected.
    """
    if expected.tool == VERIFY:
        return any(_says(expected, finding) for finding in findings)
    return any(
        difference["kind"] in expected.kinds
        and TopicPartition(difference["topic"], difference["partition"]) == expected.name
        and (expected.offset is None or difference["first_offset"] <= expected.offset <= difference["last_offset"])
        and (_files(difference) & expected.files or not _files(difference))
        for verdict in report["partitions"]
        for difference in verdict["differences"]
    )


def _files(difference: dict[str, Any]) -> set[str]:
    return {batch["file"] for side in ("left", "right") for batch in difference[side]}


def _says(expected: Expected, finding: dict[str, Any]) -> bool:
    first, last = finding["first_offset"], finding["last_offset"]
    return (
        f"{finding['table']} {finding['kind']}" in expected.kinds
        and expected.name in (None, TopicPartition(finding["topic"], finding["partition"]))
        and finding["file"] in expected.files
        and (not expected.positions or finding["position"] in expected.positions)
        and (expected.offset is None or (first is not None and last is not None and first <= expected.offset <= last))
    )
