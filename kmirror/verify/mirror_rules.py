"""Whether one cluster's folder mirrors another's by the rules of KIP-1279, judging only by logs,
`__mirror_state` and `leader-epoch-checkpoint`.

- Below the mirrored point, the destination's batches are the source's, byte for byte, and nothing
  else: no batch of its own, no reset.
- The mirrored point of a STOPPED partition is where its last mirror epoch ends. There its own part
  begins, with the MIRROR_PID_RESET that a failover writes first. (The reference implementation
  writes it in that very epoch: a reset at the epoch's end that the source does not have is the
  destination's.) What the clusters wrote after it is their own.
- In any other state, the mirrored point is the end of the destination's log. What the source has
  after it is not mirrored yet.

- What the source has before the destination's log start, and below the mirrored point, is missing
  at the destination's front (`front`), whatever its state is.

A partition that `__mirror_state` does not mention is not mirrored, and is not compared. There is
nothing to check in a partition that never mirrored a batch (last mirror epoch -1).

The end is found first (`mirrored_end`). What is below it is compared like any two logs: whole
(`diff_mirrored`), in pieces (`paired_slices`) or by fingerprints (`chunk_diff`), which all stop
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Final, NamedTuple

import msgspec

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.leader_epoch_checkpoint_file import LEADER_EPOCH_CHECKPOINT_FILE_NAME, LeaderEpochCheckpointFile
from kmirror.verify.chain import control_type_of, facts_of
from kmirror.verify.chunk_diff import ComparedChunks, PartToCompare
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.front import Deletion, front_range, scan_front, why_gone, with_front
from kmirror.verify.log_diff import DiffSettings, Progress, diff_parts, no_progress
from kmirror.verify.planner import list_input
from kmirror.verify.replay.timelines import STATE_NAMES, read_timelines
from kmirror.verify.verdict import Difference, DifferenceKind, Front, PartitionVerdict, Status, error_verdict

MIRROR_STATE_TOPIC: Final = "__mirror_state"
STOPPED: Final = STATE_NAMES.index("STOPPED")
RESET: Final = "MIRROR_PID_RESET"


class MirroredPartition(NamedTuple):
    """The last state that `__mirror_state` has of a partition."""

    mirror: str
    state: int
    last_mirror_epoch: int | None

    @property
    def is_stopped(self) -> bool:
        return self.state == STOPPED

    @property
    def was_mirrored(self) -> bool:
        """Whether any batch of it can be the source's."""
        epoch = self.last_mirror_epoch
        return not self.is_stopped or (epoch is not None and epoch >= 0)


def mirrored_partitions(files: FileSystem, path: str) -> Mapping[TopicPartition, MirroredPartition]:
    """Returns the mirrored partitions of a destination's folder. KmirrorError if `__mirror_state`
    is missing there, or cannot be read."""
    listing = list_input(files, path)
    if not any(partition.topic_partition.topic == MIRROR_STATE_TOPIC for partition in listing.partitions):
        raise KmirrorError(f"{path} has no {MIRROR_STATE_TOPIC}, so it is not known what it mirrors")
    timelines = read_timelines(files, listing, only=(MIRROR_STATE_TOPIC,))
    if timelines.torn:
        raise KmirrorError(f"{', '.join(sorted(timelines.torn))} cannot be read to the end, so it is not known what {path} mirrors")
    epochs: dict[tuple[str, str, int], int] = {}
    for row in timelines.last_mirror_epochs:
        if row.mirrored_topic is None or row.mirrored_partition is None or row.epoch is None:
            epochs = {key: epoch for key, epoch in epochs.items() if key[0] != row.mirror}
        else:
            epochs[row.mirror, row.mirrored_topic, row.mirrored_partition] = row.epoch
    found: dict[TopicPartition, MirroredPartition] = {}
    for state in timelines.mirror_states:
        if state.mirrored_topic is None or state.mirrored_partition is None or state.state is None:
            found = {name: one for name, one in found.items() if one.mirror != state.mirror}
            continue
        key = (state.mirror, state.mirrored_topic, state.mirrored_partition)
        found[TopicPartition(state.mirrored_topic, state.mirrored_partition)] = MirroredPartition(
            state.mirror, state.state, epochs.get(key)
        )
    return found


class MirroredEnd(NamedTuple):
    """Where the mirrored part of a partition ends, and what is wrong there."""

    offset: int
    """The first offset that does not come from the source."""
    problem: Difference | None = None
    """The reset that the rules demand there is missing."""
    front: Front | None = None
    """What only one side has before the other's log start."""


def mirrored_end(source: DirectoryLog, destination: DirectoryLog, mirrored: MirroredPartition) -> MirroredEnd:
    """Finds the end. KmirrorError or OSError if a log cannot be read there, or lacks its leader
    epochs."""
    end = _mirrored_end(source, destination, mirrored)
    has_own_part = mirrored.is_stopped and end >= destination.log_start_offset
    problem = _reset_problem(destination, end) if has_own_part else None
    front = mirrored_front(source, destination, end) if mirrored.was_mirrored else None
    return MirroredEnd(end, problem, front)


def mirrored_front(source: DirectoryLog, destination: DirectoryLog, end_offset: int) -> Front | None:
    """Returns what only one side has of the mirrored part, because the other's log begins later.

    Reads the headers there. KmirrorError or OSError if they cannot be read."""
    found = front_range(source.log_start_offset, destination.log_start_offset, end_offset)
    if found is None:
        return None
    has, lacks = (source, destination) if found.only_in_left else (destination, source)
    scan = scan_front(has, found)
    segments = lacks.partition.segments
    deletion = Deletion(is_inside_segment=bool(segments) and segments[0].base_offset < found.end)
    return Front(found.only_in_left, found.start, found.end - 1, scan.record_count, why_gone(scan, deletion, ""))


def end_or_verdict(source: DirectoryLog, destination: DirectoryLog, mirrored: MirroredPartition) -> MirroredEnd | PartitionVerdict:
    """Returns the end, or the verdict on a partition whose end cannot be found."""
    try:
        return mirrored_end(source, destination, mirrored)
    except OSError as error:
        return error_verdict(*destination.topic_partition, f"{error.filename or destination.name}: {error.strerror or error}")
    except KmirrorError as error:
        return error_verdict(*destination.topic_partition, str(error))


def diff_mirrored(
    source: DirectoryLog, destination: DirectoryLog, mirrored: MirroredPartition, settings: DiffSettings, progress: Progress = no_progress
) -> PartitionVerdict:
    """Returns what breaks the rules. Never raises for what is in the logs."""
    end = end_or_verdict(source, destination, mirrored)
    if isinstance(end, PartitionVerdict):
        return end
    parts = [PartToCompare(None, None, None, None)] if end.offset > max(source.log_start_offset, destination.log_start_offset) else []
    found = diff_parts(source, destination, ComparedChunks(parts, 0, end.offset), settings, progress)
    return with_borders(found, end, settings)


def with_borders(verdict: PartitionVerdict, end: MirroredEnd, settings: DiffSettings) -> PartitionVerdict:
    """Returns the verdict on what was mirrored, with what is wrong at its front and at its end."""
    found = with_front(verdict, end.front, ("in A", "in B"), ignored=settings.ignored)
    return _with_problem(found, end.problem, settings)


def _with_problem(verdict: PartitionVerdict, problem: Difference | None, settings: DiffSettings) -> PartitionVerdict:
    if problem is None:
        return verdict
    kind = problem.kind
    if kind in settings.ignored:
        return msgspec.structs.replace(verdict, ignored_counts={**verdict.ignored_counts, kind.value: 1})
    status = Status.ERROR if verdict.error is not None else Status.DIFFERENT
    counts = {**verdict.difference_counts, kind.value: 1}
    return msgspec.structs.replace(verdict, status=status, difference_counts=counts, differences=[*verdict.differences, problem])


def _mirrored_end(source: DirectoryLog, log: DirectoryLog, mirrored: MirroredPartition) -> int:
    """Returns the first offset that does not come from the source."""
    if not mirrored.is_stopped:
        return log.log_end_offset()
    epoch = mirrored.last_mirror_epoch
    if epoch is None or epoch < 0:
        return log.log_start_offset
    if LEADER_EPOCH_CHECKPOINT_FILE_NAME not in log.partition.other_files:
        raise KmirrorError(f"{log.name} has no {LEADER_EPOCH_CHECKPOINT_FILE_NAME}: where its last mirror epoch {epoch} ends is not known")
    entries = LeaderEpochCheckpointFile(log.files, log.partition.path, deferred=True).read()
    end = next((entry.start_offset for entry in entries if entry.epoch > epoch), log.log_end_offset())
    last = _batch_at(log, end - 1) if end > log.log_start_offset else None
    if last is None or control_type_of(last) != RESET:
        return end
    other = _batch_at(source, last.base_offset)
    return end if other is not None and other.memory == last.memory else last.base_offset


def _batch_at(log: DirectoryLog, offset: int) -> RecordBatch | None:
    """Returns the batch that holds `offset`, or the first one after it."""
    with closing(log.cursor(offset)) as cursor:
        head = cursor.peek()
    return None if head is None else head.batch


def _reset_problem(log: DirectoryLog, end: int) -> Difference | None:
    """Returns a difference if the destination's own part does not begin with a reset, as the rules
    demand."""
    topic, partition = log.topic_partition
    with closing(log.cursor(end)) as cursor:
        head = cursor.peek()
    if head is None:
        detail = f"B is {STATE_NAMES[STOPPED]} and its log ends at offset {end}, without the {RESET} of a failover"
        return Difference(DifferenceKind.MIRROR_RULE, topic, partition, end, end, [], [], detail)
    if control_type_of(head.batch) == RESET:
        return None
    batch = facts_of(head)
    detail = f"B's own part begins at offset {batch.base_offset} without the {RESET} of a failover"
    size = batch.size_bytes
    kind = DifferenceKind.MIRROR_RULE
    return Difference(
        kind, topic, partition, batch.base_offset, batch.last_offset, [], [batch], detail, right_batch_count=1, right_size_bytes=size
    )
