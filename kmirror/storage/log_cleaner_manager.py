"""Which log is cleaned next, up to which offset, and which partitions may not be cleaned at the
moment (Kafka's `LogCleanerManager`).

A compacted log is a clean head, which a pass has been over, and a dirty tail; the first dirty
offset of each log is in `cleaner-offset-checkpoint`. The part that may be cleaned ends at the
lowest of: the last stable offset (and so the high watermark), the base of the active segment, and
the first dirty segment with a timestamp younger than min.compaction.lag.ms. The log with the
highest share of dirty bytes goes first, if that share is above min.cleanable.dirty.ratio or its
oldest dirty record has waited longer than max.compaction.lag.ms.

A partition is idle, being cleaned by a `CleaningRun`, or paused (a count: truncation, retention and
deletion pause it). In Kafka, whoever pauses a partition waits until its cleaner thread has stopped.
Here everything except the reading and writing of files runs on one loop, so nobody waits: the run
is marked as aborted, discards what it wrote and never touches the log again. No other run starts on
that partition until the aborted one has ended.

`__mirror_state` is never cleaned: all state records of a mirror in one of its partitions share one
key, so compaction would lose states (C1).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.offset_checkpoint_file import CLEANER_OFFSET_CHECKPOINT_FILE_NAME, OffsetCheckpointFile
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import storage_error
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)
NEVER_CLEANED_TOPICS: Final = frozenset({MIRROR_STATE_TOPIC_NAME})


class CleaningRun:
    """One pass over one partition. A worker reads `is_aborted`, which the loop sets, and nothing
    else that the loop changes.
    """

    __slots__ = ("is_aborted",)

    def __init__(self) -> None:
        self.is_aborted = False


class OffsetsToClean(Struct, frozen=True):
    """The bounds of a log's dirty section."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    force_update_checkpoint: bool = False


class LogToClean(Struct, frozen=True):
    """A candidate for cleaning and how dirty it is (Kafka's `LogToClean`)."""

    topic_partition: TopicPartition
    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    needs_compaction_now: bool

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        return self.cleanable_bytes / self.total_bytes


class LogCleanerManager:
    """Owner of the cleaner's states and checkpoints; changed only on the loop."""

    def __init__(self, ports: LogPorts, log_dirs: Sequence[str], logs: Mapping[TopicPartition, UnifiedLog]) -> None:
        """`logs` is the live map of the LogManager's current logs."""
        self._logs = logs
        self._ports = ports
        self._checkpoints: dict[str, OffsetCheckpointFile] = {}
        for log_dir in log_dirs:
            with self._guarded(log_dir):
                path = f"{log_dir}/{CLEANER_OFFSET_CHECKPOINT_FILE_NAME}"
                self._checkpoints[log_dir] = OffsetCheckpointFile(ports.files, path)
        self._runs: dict[TopicPartition, CleaningRun] = {}
        self._pauses: dict[TopicPartition, int] = {}
        self._uncleanable: dict[TopicPartition, str] = {}
        self.dirtiest_log_cleanable_ratio = 0.0
        self.max_compaction_delay_ms = 0
        """The largest of all logs when they were last examined."""

    # candidates

    def grab_filthiest_compacted_log(self, now_ms: int) -> tuple[LogToClean, CleaningRun] | None:
        """Picks the log most worth cleaning and marks it as being cleaned; `done_cleaning` must
        follow.
        """
        last_cleaned = self.all_cleaner_checkpoints()
        self.max_compaction_delay_ms = 0
        candidates = self._candidates(last_cleaned, now_ms)
        dirty = [candidate for candidate in candidates if candidate.total_bytes > 0]
        self.dirtiest_log_cleanable_ratio = max((candidate.cleanable_ratio for candidate in dirty), default=0.0)
        eligible = [candidate for candidate in dirty if _is_eligible(candidate)]
        if not eligible:
            return None
        filthiest = max(eligible, key=lambda candidate: candidate.cleanable_ratio)
        run = CleaningRun()
        self._runs[filthiest.topic_partition] = run
        return filthiest, run

    def _candidates(self, last_cleaned: Mapping[TopicPartition, int], now_ms: int) -> list[LogToClean]:
        """Examines the logs that may be cleaned. A log that cannot be examined does not keep the
        others from being cleaned.
        """
        found: list[LogToClean] = []
        for partition, log in self._cleanable_logs():
            try:
                with self._guarded(log.parent_dir):
                    found.append(self._log_to_clean(log, last_cleaned.get(partition), now_ms))
            except KmirrorError as error:
                _LOGGER.warning("cannot clean %s, which is not cleaned from now on: %s", partition, error)
                self.mark_partition_uncleanable(partition, str(error))
        return found

    def deletable_logs(self) -> list[UnifiedLog]:
        """The compacted logs on which retention and the log start offset may act at the moment."""
        return [log for _, log in self._cleanable_logs()]

    def _cleanable_logs(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        """The compacted logs that are idle and cleanable. A log whose directory has failed but is
        not offline yet is left out: its next pass would only fail again.
        """
        failures = self._ports.log_dir_failures
        return [
            (partition, log)
            for partition, log in list(self._logs.items())
            if log.cleaning_config.compact
            and partition.topic not in NEVER_CLEANED_TOPICS
            and partition not in self._runs
            and partition not in self._pauses
            and partition not in self._uncleanable
            and not failures.has_offline_log_dir(log.parent_dir)
        ]

    def _log_to_clean(self, log: UnifiedLog, last_clean_offset: int | None, now_ms: int) -> LogToClean:
        offsets = cleanable_offsets(log, last_clean_offset, now_ms)
        first_dirty_offset = offsets.first_dirty_offset
        if offsets.force_update_checkpoint:
            self.update_checkpoint(log.parent_dir, log.topic_partition, first_dirty_offset)
        first_uncleanable_offset, cleanable_bytes = calculate_cleanable_bytes(log, first_dirty_offset, offsets.first_uncleanable_offset)
        delay_ms = max_compaction_delay_ms(log, first_dirty_offset, now_ms)
        self.max_compaction_delay_ms = max(self.max_compaction_delay_ms, delay_ms)
        return LogToClean(
            log.topic_partition,
            log,
            first_dirty_offset,
            first_uncleanable_offset,
            clean_bytes=sum(segment.size for segment in log.log_segments if segment.base_offset < first_dirty_offset),
            cleanable_bytes=cleanable_bytes,
            needs_compaction_now=delay_ms > 0,
        )

    # states

    def abort_cleaning(self, topic_partition: TopicPartition) -> None:
        """Stops a running pass; the partition may be cleaned again afterwards."""
        self.abort_and_pause_cleaning(topic_partition)
        self.resume_cleaning([topic_partition])

    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None:
        """Stops a running pass and prevents others until `resume_cleaning` was called as often as
        this.
        """
        run = self._runs.get(topic_partition)
        if run is not None:
            run.is_aborted = True
        self._pauses[topic_partition] = self._pauses.get(topic_partition, 0) + 1

    def resume_cleaning(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for topic_partition in topic_partitions:
            count = self._pauses.get(topic_partition, 0)
            assert count > 0, f"cleaning of {topic_partition} cannot be resumed, it is not paused"
            if count == 1:
                del self._pauses[topic_partition]
            else:
                self._pauses[topic_partition] = count - 1

    def is_paused(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._pauses

    def done_cleaning(self, log: UnifiedLog, run: CleaningRun, end_offset: int) -> None:
        """Ends the pass. Unless it was aborted, everything below `end_offset` is clean now."""
        assert self._runs.get(log.topic_partition) is run, f"no such run on {log.topic_partition}"
        del self._runs[log.topic_partition]
        if not run.is_aborted:
            self.update_checkpoint(log.parent_dir, log.topic_partition, end_offset)

    def mark_partition_uncleanable(self, topic_partition: TopicPartition, reason: str) -> None:
        """Leaves the partition alone from now on: a pass over it failed in a way that the next one
        would repeat.
        """
        self._uncleanable[topic_partition] = reason

    def uncleanable_partitions(self) -> dict[TopicPartition, str]:
        """The partitions that are left alone, and why. Deleted ones are forgotten."""
        self._uncleanable = {partition: reason for partition, reason in self._uncleanable.items() if partition in self._logs}
        return dict(self._uncleanable)

    def uncleanable_bytes(self, log_dir: str, now_ms: int) -> int:
        """The dirty bytes in the uncleanable partitions of a log dir."""
        logs = [self._logs[partition] for partition in self.uncleanable_partitions() if self._logs[partition].parent_dir == log_dir]
        if not logs:
            return 0
        last_cleaned = self.all_cleaner_checkpoints()
        total = 0
        for log in logs:
            offsets = cleanable_offsets(log, last_cleaned.get(log.topic_partition), now_ms)
            total += calculate_cleanable_bytes(log, offsets.first_dirty_offset, offsets.first_uncleanable_offset)[1]
        return total

    # checkpoints

    @contextmanager
    def _guarded(self, log_dir: str) -> Iterator[None]:
        """A disk error takes the directory offline; the cleaner goes on with the others."""
        try:
            yield
        except OSError as error:
            message = f"Error while looking for logs to clean in dir {log_dir}: {error}"
            self._ports.log_dir_failures.maybe_add_offline_log_dir(log_dir, message, error)

    def all_cleaner_checkpoints(self) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for log_dir, checkpoint in self._checkpoints.items():
            with self._guarded(log_dir):
                found.update(checkpoint.read())
        return found

    def cleaned_until(self, log_dir: str, topic_partition: TopicPartition) -> int:
        """The end of the cleaned part of a log; 0 if none was cleaned."""
        checkpoint = self._checkpoints.get(log_dir)
        if checkpoint is None:
            return 0
        try:
            return checkpoint.read().get(topic_partition, 0)
        except OSError as error:
            message = f"Error while reading checkpoint file {checkpoint.path}: {error}"
            raise storage_error(log_dir, self._ports, message, error) from error

    def update_checkpoint(self, log_dir: str, topic_partition: TopicPartition, first_dirty_offset: int) -> None:
        self._rewrite(log_dir, lambda offsets: offsets.update({topic_partition: first_dirty_offset}))

    def remove_from_checkpoints(self, log_dir: str, topic_partitions: Iterable[TopicPartition] = ()) -> None:
        """Drops these partitions, and all that the LogManager no longer has."""
        gone = list(topic_partitions)
        self._rewrite(log_dir, lambda offsets: [offsets.pop(partition, None) for partition in gone])

    def _rewrite(self, log_dir: str, change: Callable[[dict[TopicPartition, int]], object]) -> None:
        checkpoint = self._checkpoints.get(log_dir)
        if checkpoint is not None:
            with self._guarded(log_dir):
                offsets = {partition: offset for partition, offset in checkpoint.read().items() if partition in self._logs}
                change(offsets)
                checkpoint.write(offsets)

    def maybe_truncate_checkpoint(self, log_dir: str, topic_partition: TopicPartition, offset: int) -> None:
        """Marks the section from `offset` on as dirty again, after a truncation."""
        checkpoint = self._checkpoints.get(log_dir)
        log = self._logs.get(topic_partition)
        if checkpoint is None or log is None:
            return
        with self._guarded(log_dir):
            offsets = checkpoint.read()
            if offsets.get(topic_partition, 0) > offset:
                offsets[topic_partition] = offset
                checkpoint.write(offsets)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        self._checkpoints.pop(log_dir, None)


def _is_eligible(candidate: LogToClean) -> bool:
    if candidate.needs_compaction_now and candidate.cleanable_bytes > 0:
        return True
    return candidate.cleanable_ratio > candidate.log.cleaning_config.min_cleanable_ratio


def cleanable_offsets(log: UnifiedLog, last_clean_offset: int | None, now_ms: int) -> OffsetsToClean:
    """The beginning and the upper bound of the dirty section. A checkpoint outside the log is
    ignored.
    """
    first_dirty_offset = log.log_start_offset if last_clean_offset is None else last_clean_offset
    is_invalid = not log.log_start_offset <= first_dirty_offset <= log.log_end_offset
    if is_invalid:
        first_dirty_offset = log.log_start_offset
    bounds = [log.last_stable_offset, log.active_segment.base_offset]
    min_lag_ms = max(log.cleaning_config.compaction_lag_ms, 0)
    if min_lag_ms > 0:
        young = (segment for segment in dirty_sealed_segments(log, first_dirty_offset) if segment.largest_timestamp > now_ms - min_lag_ms)
        bounds.extend(segment.base_offset for segment in list(young)[:1])
    return OffsetsToClean(first_dirty_offset, max(first_dirty_offset, min(bounds)), force_update_checkpoint=is_invalid)


def dirty_sealed_segments(log: UnifiedLog, first_dirty_offset: int) -> list[LogSegment]:
    """The sealed segments from the one that holds `first_dirty_offset` on."""
    active_base_offset = log.active_segment.base_offset
    if first_dirty_offset > active_base_offset:
        return []
    sealed = [segment for segment in log.log_segments if segment.base_offset < active_base_offset]
    first = max((index for index, segment in enumerate(sealed) if segment.base_offset <= first_dirty_offset), default=0)
    return sealed[first:] if first_dirty_offset < active_base_offset else []


def calculate_cleanable_bytes(log: UnifiedLog, first_dirty_offset: int, uncleanable_offset: int) -> tuple[int, int]:
    """The base of the first segment that cannot be cleaned, and the bytes from the dirty offset's
    segment up to it.
    """
    uncleanable = dirty_sealed_segments(log, uncleanable_offset)
    first_uncleanable_offset = uncleanable[0].base_offset if uncleanable else log.active_segment.base_offset
    start_offset = min(first_dirty_offset, first_uncleanable_offset)
    return first_uncleanable_offset, sum(segment.size for segment in segments_between(log, start_offset, first_uncleanable_offset))


def segments_between(log: UnifiedLog, start_offset: int, end_offset: int) -> list[LogSegment]:
    """The segments that hold [start_offset, end_offset), beginning with the one that contains
    `start_offset` (Kafka's `logSegments(from, to)`).
    """
    if start_offset >= end_offset:
        return []
    segments = [segment for segment in log.log_segments if segment.base_offset < end_offset]
    first = max((index for index, segment in enumerate(segments) if segment.base_offset <= start_offset), default=0)
    return segments[first:]


def max_compaction_delay_ms(log: UnifiedLog, first_dirty_offset: int, now_ms: int) -> int:
    """How much longer than max.compaction.lag.ms the oldest dirty record has waited; 0 if it has
    not.
    """
    timestamps = [segment.first_batch_timestamp for segment in dirty_sealed_segments(log, first_dirty_offset)]
    earliest = min((timestamp for timestamp in timestamps if timestamp > 0), default=None)
    clean_until_ms = now_ms - max(log.cleaning_config.max_compaction_lag_ms, 0)
    return clean_until_ms - earliest if earliest is not None and earliest < clean_until_ms else 0
