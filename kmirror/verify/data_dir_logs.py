"""The logs of a folder, ready to be compared, with what the checkpoint files beside them say.

A folder is one of four: a broker's log.dir (all its partitions); a folder of log.dirs, of one
broker or of a whole cluster (a cluster may have a partition several times, as replicas); one
partition's folder; or any folder that holds segments itself (a copy under another name, which
counts as partition 0 of a topic of that name). In a log.dir, `replication-offset-checkpoint` gives
the high watermarks, `log-start-offset-checkpoint` the log starts (after DeleteRecords) and
`cleaner-offset-checkpoint` how far each cleaner got. They are written every few seconds, so after a
crash a high watermark may be older than the log.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME, INTERNAL_TOPICS, TopicPartition
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, LeaderEpochCheckpointFile
from kmirror.storage.log_file_names import parse_topic_partition_name
from kmirror.storage.offset_checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT_FILE_NAME,
    HIGH_WATERMARK_CHECKPOINT_FILE_NAME,
    LOG_START_OFFSET_CHECKPOINT_FILE_NAME,
)
from kmirror.storage.reader import PartitionFiles, read_offset_checkpoint
from kmirror.verify.compared_log import ComparedLog, DirectoryLog
from kmirror.verify.planner import Listing, list_input
from kmirror.verify.replay.cleaner_history import TopicCleaner
from kmirror.verify.replay.folder import clusters_of, last_seen_ms
from kmirror.verify.replay.log_view import NEVER_DELETING_TOPICS
from kmirror.verify.replay.timelines import read_timelines
from kmirror.verify.verdict import BatchFacts, Difference, DifferenceKind, PartitionVerdict, Status, error_verdict


def is_internal(topic: str) -> bool:
    """Whether a topic is Kafka's own: an internal topic, or `__cluster_metadata`. Other names may
    begin with `__` too."""
    return topic in INTERNAL_TOPICS or topic == CLUSTER_METADATA_TOPIC_NAME


def open_folder(files: FileSystem, path: str) -> tuple[list[DirectoryLog], bool]:
    """Returns (the logs in `path`, whether it is one partition's folder). KmirrorError if there is
    no log."""
    try:
        listing = list_input(files, path)
    except KmirrorError as error:
        if files.is_dir(path):
            raise
        raise KmirrorError(f"{path} is not a directory; give a partition's folder, a broker's log.dir or bootstrap:host:port") from error
    if listing.is_one_partition and not _is_named(listing.path):
        return [DirectoryLog(files, listing.partitions[0])], True
    below: dict[str, list[PartitionFiles]] = {}
    for partition in listing.partitions:
        below.setdefault(posixpath.dirname(partition.path) or ".", []).append(partition)
    logs = [log for data_dir, inside in below.items() for log in with_checkpoints(files, data_dir, inside)]
    note_policies(files, listing, logs)
    return logs, listing.is_one_partition


def note_policies(files: FileSystem, listing: Listing, logs: Iterable[DirectoryLog]) -> None:
    """Notes what the metadata log of each cluster in the input says of the logs' cleaners."""
    known: dict[str, dict[str, TopicCleaner]] = {}
    for cluster in clusters_of(files, listing):
        cleaners = read_timelines(files, cluster, only=(CLUSTER_METADATA_TOPIC_NAME,)).cleaners
        known |= dict.fromkeys((one.path for one in cluster.partitions), cleaners)
    for log in logs:
        topic, number = log.topic_partition
        cleaner = known.get(log.name, {}).get(topic)
        if cleaner is not None:
            seen_ms = last_seen_ms(files, listing, log.partition) if cleaner.needs_time else 0
            log.cleaner = cleaner.facts(number, seen_ms)
        if topic in NEVER_DELETING_TOPICS:
            log.cleaner = log.cleaner._replace(is_compacted=True)


def _is_named(path: str) -> bool:
    """Whether a folder is named `<topic>-<partition>`, and is not a copy under another name."""
    try:
        parse_topic_partition_name(path)
    except KmirrorError:
        return False
    return True


def chosen_replica(copies: list[DirectoryLog]) -> DirectoryLog:
    """Returns the replica that an election would choose: the one with the latest leader epoch, then
    the one whose log ends last, then the first."""
    return copies[0] if len(copies) == 1 else max(copies, key=_age)


def _age(log: DirectoryLog) -> tuple[int, int]:
    """Returns (latest leader epoch, log end offset); a log that cannot be read comes last."""
    try:
        epoch = -1
        if LEADER_EPOCH_CHECKPOINT_FILE_NAME in log.partition.other_files:
            entries = LeaderEpochCheckpointFile(log.files, log.partition.path, deferred=True).read()
            epoch = entries[-1].epoch if entries else -1
        return epoch, log.log_end_offset()
    except (KmirrorError, OSError):
        return -1, -1


def with_checkpoints(files: FileSystem, data_dir: str, partitions: list[PartitionFiles]) -> list[DirectoryLog]:
    """Returns the logs of a data dir's partitions, with what its checkpoint files say of them."""
    high_watermarks = read_offset_checkpoint(files, data_dir, HIGH_WATERMARK_CHECKPOINT_FILE_NAME)
    log_starts = read_offset_checkpoint(files, data_dir, LOG_START_OFFSET_CHECKPOINT_FILE_NAME)
    cleaned = read_offset_checkpoint(files, data_dir, CLEANER_OFFSET_CHECKPOINT_FILE_NAME)
    return [
        DirectoryLog(
            files,
            partition,
            log_start_offset=log_starts.get(partition.topic_partition),
            high_watermark=high_watermarks.get(partition.topic_partition),
            cleaned_offset=cleaned.get(partition.topic_partition, 0),
        )
        for partition in partitions
    ]


def choose_partitions(
    names: list[TopicPartition], *, topics: str | None = None, partitions: frozenset[int] | None = None, include_internal: bool = False
) -> list[TopicPartition]:
    """Returns, sorted, the partitions whose whole topic name matches the regular expression
    `topics` and whose number is in `partitions`."""
    pattern = re.compile(topics) if topics is not None else None
    return sorted(
        name
        for name in names
        if (include_internal or not is_internal(name.topic))
        and (pattern is None or pattern.fullmatch(name.topic))
        and (partitions is None or name.partition in partitions)
    )


def one_sided_verdict(log: ComparedLog, *, only_left: bool) -> PartitionVerdict:
    """Returns the verdict for a partition that only one of the two inputs has: one difference over
    all of its offsets."""
    topic, partition = log.topic_partition
    side = "A" if only_left else "B"
    try:
        facts = log.facts()
    except KmirrorError as error:
        return error_verdict(topic, partition, str(error))
    kind = DifferenceKind.MISSING if only_left else DifferenceKind.EXTRA
    none: list[BatchFacts] = []
    detail = f"the partition is only in {side}: {facts.segment_count} segments, {facts.size_bytes} bytes in {facts.name}"
    return PartitionVerdict(
        topic=topic,
        partition=partition,
        status=Status.DIFFERENT,
        start_offset=facts.log_start_offset,
        left=facts if only_left else None,
        right=None if only_left else facts,
        difference_counts={kind.value: 1},
        differences=[Difference(kind, topic, partition, facts.log_start_offset, facts.log_end_offset - 1, none, none, detail)],
    )
