"""Compaction in the background (Kafka's `LogCleaner` and `Cleaner`).

A pass over one log reads the dirty section into a map from key to last offset. Then it copies all
segments from the log's beginning to the end of the map, group by group, and leaves out the records
for which the map has a later one. Each copy replaces its originals. Neighbours share a group, and
so become one segment, as long as together they stay within segment.bytes, segment.index.bytes and
2^31 offsets.

The long part (`CleaningJob.work`) reads only sealed segments and writes only `.cleaned` files, so
it may run on a worker thread. All decisions and swaps happen in `CleaningJob.advance` on the loop.
Between the two the log may be truncated or deleted. Whoever does that aborts the run first
(`abort_and_pause_cleaning`), and an aborted job removes its files and leaves the log alone.

A crash at any moment is repaired when the log is loaded: `.cleaned` files are removed, a complete
set of `.swap` files takes its place. A pass that fails on the content of a partition (corrupt
batches) marks the partition uncleanable, and the cleaner goes on with others. All passes together
read and write at most log.cleaner.io.max.bytes.per.second: a job whose `pause_ms` is positive
should be left alone for that long.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.cleaned_transaction_metadata import CleanedTransactionMetadata
from kmirror.storage.cleaner_offset_map import OffsetMap
from kmirror.storage.cleaner_record_filter import CleanerRecordFilter, CleanerStats, LastRecord
from kmirror.storage.cleaner_segments import OffsetMapBuilder, SegmentCleaner, SegmentSource, group_segments_by_size
from kmirror.storage.log_cleaner_manager import CleaningRun, LogCleanerManager, LogToClean, segments_between
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.ports import LogPorts
from kmirror.storage.throttler import Throttler, ThrottlerMeter
from kmirror.storage.unified_log import UnifiedLog

_LOGGER: Final = logging.getLogger(__name__)


class CleanerConfig(Struct, frozen=True):
    """The broker's log.cleaner.* settings, with Kafka's defaults."""

    enable: bool = True
    threads: int = 1
    dedupe_buffer_size: int = 134_217_728
    dedupe_buffer_load_factor: float = 0.9
    backoff_ms: int = 15_000
    io_max_bytes_per_second: float = sys.float_info.max


class CleaningAborted(KmirrorError):
    """The partition was truncated, deleted or stopped being compacted while it was being
    cleaned.
    """


class LogCleaner:
    """Owner of the cleaner's settings, throttler and last results. Hands out `CleaningJob`s, each
    for another log. The caller asks `next_job` again after backoff_ms if there was none.
    """

    def __init__(
        self, config: CleanerConfig, ports: LogPorts, *, log_dirs: Sequence[str], logs: Mapping[TopicPartition, UnifiedLog]
    ) -> None:
        """`logs` is the LogManager's live map of current logs."""
        self.config = config
        self.manager = LogCleanerManager(ports, log_dirs, logs)
        self.last_stats = CleanerStats()
        self.last_run_ms: int | None = None
        self.last_clean_time_ms = 0
        self.last_max_compaction_delay_ms = 0
        """The longest time that any log had waited beyond its max.compaction.lag.ms when the last
        pass began.
        """
        self.dead_threads: Callable[[], int] = lambda: 0
        """How many of the tasks that drive the jobs have died; set by their owner."""
        self._ports = ports
        self.throttler = Throttler(config.io_max_bytes_per_second, ports.clock)

    def reconfigure(self, config: CleanerConfig) -> None:
        """Settings for new jobs. The limit on their I/O applies at once."""
        self.config = config
        self.throttler.update_desired_rate_per_sec(config.io_max_bytes_per_second)

    def next_job(self) -> CleaningJob | None:
        """The job for the filthiest log, or None.

        If there is none, retention runs on the compacted logs (as it does after each job).
        """
        self.last_run_ms = self._ports.clock.monotonic_ms()
        self.manager.uncleanable_partitions()
        grabbed = self.manager.grab_filthiest_compacted_log(self._ports.clock.time_ms())
        if grabbed is None:
            self.delete_old_segments()
            return None
        candidate, run = grabbed
        self.last_max_compaction_delay_ms = self.manager.max_compaction_delay_ms
        return CleaningJob(self, candidate, run, self._ports, self.config)

    def clean_filthiest_log(self) -> bool:
        """Runs one whole job inline; False if nothing is to be cleaned."""
        job = self.next_job()
        if job is None:
            return False
        job.run_inline()
        return True

    def delete_old_segments(self) -> int:
        """Applies retention to compact,delete logs, and deletes what lies below the log start of
        all compacted ones. Returns the number of segments.
        """
        return sum(map(self._delete_old_segments_of, self.manager.deletable_logs()))

    def _delete_old_segments_of(self, log: UnifiedLog) -> int:
        """Applies retention to one log. Its failure (its dir is about to go offline) stops neither
        the other logs nor the cleaner.
        """
        try:
            return log.delete_old_segments()
        except KmirrorError as error:
            _LOGGER.error("%s: %s", log.topic_partition, error)
            return 0

    def abort_cleaning(self, topic_partition: TopicPartition) -> None:
        self.manager.abort_cleaning(topic_partition)

    def abort_and_pause_cleaning(self, topic_partition: TopicPartition) -> None:
        self.manager.abort_and_pause_cleaning(topic_partition)

    def resume_cleaning(self, topic_partitions: Iterable[TopicPartition]) -> None:
        self.manager.resume_cleaning(topic_partitions)


class CleaningJob:
    """One pass over one log, and the owner of its offset map: `while job.advance(): await
    run_blocking(job.work)`, with a wait wherever there is a `pause_ms`.
    """

    def __init__(self, cleaner: LogCleaner, candidate: LogToClean, run: CleaningRun, ports: LogPorts, config: CleanerConfig) -> None:
        self.candidate = candidate
        self.stats = CleanerStats()
        self._cleaner = cleaner
        self._run = run
        self._ports = ports
        self._config = config
        self._log = candidate.log
        self._now_ms = ports.clock.time_ms()
        self._started_ms = ports.clock.monotonic_ms()
        self._offset_map = OffsetMap(config.dedupe_buffer_size // max(1, config.threads))
        self._end_offset = candidate.first_dirty_offset
        self._steps = self._clean()
        self._work: Iterator[None] | None = None
        self._meter = ThrottlerMeter(ports.clock)
        self._error: Exception | None = None

    def advance(self) -> bool:
        """On the loop: applies the results of the last `work` and prepares the next; False when the
        pass is over, for whatever reason.
        """
        self._cleaner.throttler.maybe_throttle(self._meter.take())
        if self._work is not None and self._error is None:
            return True  # it has more to do
        try:
            self._work = next(self._steps) if self._error is None else self._steps.throw(self._error)
            return True
        except StopIteration:
            self._finish()
        except CleaningAborted:
            _LOGGER.info("cleaning of %s was aborted", self._log.topic_partition)
            self._done()
        except OSError as error:
            self._done()
            if self._run.is_aborted:
                return False  # the folder was renamed under the worker
            message = f"failed to clean up log for {self._log.topic_partition} in dir {self._log.parent_dir} due to {error}"
            self._ports.log_dir_failures.maybe_add_offline_log_dir(self._log.parent_dir, message, error)
        except KmirrorError as error:
            _LOGGER.warning("cannot clean %s, which is not cleaned from now on: %s", self._log.topic_partition, error)
            self._cleaner.manager.mark_partition_uncleanable(self._log.topic_partition, str(error))
            self._done()
        except Exception as error:
            self._cleaner.manager.mark_partition_uncleanable(self._log.topic_partition, repr(error))
            self._done()
            raise  # a bug: the job's driver reports it; the next job is for another log
        return False

    def work(self) -> None:
        """On any thread: does the long part, up to the point where the I/O limit must be checked.
        Errors are kept for `advance`.
        """
        assert self._work is not None, "advance() comes first"
        self._meter.begin()
        try:
            next(self._work)
        except StopIteration:
            self._work = None
        except Exception as error:  # noqa: BLE001 - kept
            self._error = error

    @property
    def pause_ms(self) -> int:
        """How long `work` should wait because of log.cleaner.io.max.bytes.per.second; 0 for an
        aborted job.
        """
        return 0 if self._run.is_aborted else self._cleaner.throttler.pause_ms

    def run_inline(self) -> None:
        """Runs the whole job without pauses."""
        while self.advance():
            self.work()

    def abort(self) -> None:
        """Makes a running `work` end soon."""
        self._run.is_aborted = True

    def cancel(self) -> None:
        """Gives up between two steps (shutdown), never during `work`. Files are removed, the
        checkpoint stays.
        """
        self.abort()
        self._error = self._error or CleaningAborted(f"cleaning of {self._log.topic_partition} was cancelled")
        assert not self.advance(), "a cancelled job went on"

    def _finish(self) -> None:
        self._done()
        stats = self._cleaner.last_stats = self.stats
        self._cleaner.last_clean_time_ms = self._ports.clock.monotonic_ms() - self._started_ms
        _LOGGER.info(
            "cleaned log %s (dirty section = [%d, %d]): read %d messages in %d bytes, kept %d in %d, %d without key",
            self._log.name,
            self.candidate.first_dirty_offset,
            self._end_offset,
            stats.messages_read,
            stats.bytes_read,
            stats.messages_written,
            stats.bytes_written,
            stats.invalid_messages_read,
        )
        self._cleaner.delete_old_segments()

    def _done(self) -> None:
        self._cleaner.manager.done_cleaning(self._log, self._run, self._end_offset)

    def check_not_aborted(self) -> None:
        if self._run.is_aborted:
            raise CleaningAborted(f"cleaning of {self._log.topic_partition} was aborted")

    # the pass

    def _clean(self) -> Generator[Iterator[None], None, None]:
        upper_bound_offset = self.candidate.first_uncleanable_offset
        yield self._offset_map_builder(upper_bound_offset).build()
        self.check_not_aborted()
        self.stats.buffer_utilization = self._offset_map.utilization
        end_offset = self._offset_map.latest_offset + 1
        record_filter = CleanerRecordFilter(
            self._offset_map,
            CleanedTransactionMetadata(),
            self.stats,
            upper_bound_offset=upper_bound_offset,
            now_ms=self._now_ms,
            delete_retention_ms=self._log.cleaning_config.delete_retention_ms,
        )
        groups = group_segments_by_size(
            segments_between(self._log, 0, end_offset),
            max_size=self._log.config.segment_size,
            max_index_size=self._log.config.max_index_size,
            first_uncleanable_offset=upper_bound_offset,
        )
        for group in groups:
            yield from self._clean_group(group, record_filter)
        self._end_offset = end_offset

    def _offset_map_builder(self, upper_bound_offset: int) -> OffsetMapBuilder:
        start_offset = self.candidate.first_dirty_offset
        dirty = segments_between(self._log, start_offset, upper_bound_offset)
        limits = [segment.base_offset for segment in dirty[1:]] + [upper_bound_offset] if dirty else []
        return OffsetMapBuilder(
            [SegmentSource.of(segment, start_offset=start_offset, end_offset=limit) for segment, limit in zip(dirty, limits, strict=True)],
            self._log.collect_aborted_transactions(start_offset, upper_bound_offset) if dirty else [],
            self._offset_map,
            start_offset=start_offset,
            max_entries=int(self._offset_map.slots * self._config.dedupe_buffer_load_factor),
            meter=self._meter,
            check_not_aborted=self.check_not_aborted,
        )

    def _clean_group(self, group: list[LogSegment], record_filter: CleanerRecordFilter) -> Generator[Iterator[None], None, None]:
        record_filter.last_records_of_active_producers = last_records_of_active_producers(self._log)
        segment_cleaner = SegmentCleaner(
            self._log, group, record_filter, self._ports, meter=self._meter, check_not_aborted=self.check_not_aborted
        )
        try:
            yield segment_cleaner.clean()
            self.check_not_aborted()
            assert all(self._log.segments.get(segment.base_offset) is segment for segment in group), (
                f"segments of {self._log.topic_partition} changed under the cleaner: {group}"
            )
            self._log.replace_segments([segment_cleaner.cleaned], group)
        except Exception:
            segment_cleaner.discard()  # not in a finally: a job that a killed node left behind must touch nothing when it is collected
            raise


def last_records_of_active_producers(log: UnifiedLog) -> dict[int, LastRecord]:
    """The last data offset and epoch of each live producer of the log."""
    return {
        producer_id: LastRecord(entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch)
        for producer_id, entry in log.producer_state_manager.active_producers.items()
    }
