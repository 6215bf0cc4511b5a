"""`spark.readStream.format("kafka-log").load(path)`: the records of log folders as they come.

Options, besides those of the batch source (`data_source`). A stream cannot have `endingOffsets`,
`endingTimestamp` or `endingOffsetsByTimestamp`.
    startingOffsets     latest (default, as in Spark's Kafka source), earliest, or offsets by
                        partition. Only a query without a checkpoint uses it. A partition that is
                        added later is read from offset 0.
    maxOffsetsPerTrigger, maxBytesPerTrigger
                        the most that one micro-batch reads, in offsets or in bytes of log.
                        Partitions get equal shares; what one does not need goes to the others. A
                        share ends between two batches of the log. At least one batch of the log is
                        always read, or the stream would never advance.
    minOffsetsPerTrigger, maxTriggerDelay
                        a micro-batch waits for that many new offsets, at most that long (15m)
                        after the one before (`trigger_delay`)
    readUpTo            highWatermark (default): up to the high watermark in the log.dir's
                        `replication-offset-checkpoint`, which a broker writes every 5 s. Records
                        that a leader may still truncate are not returned.
                        logEndOffset: to the end of the last whole batch. Use it for logs without
                        that file, and for __cluster_metadata, which the file does not list.
    failOnDataLoss      true (default): the query fails, with one line that names the partition, the
                        offset and the leader epochs. false: the driver (or the executor that
                        noticed) logs a warning, and the query goes on with what is there.
    isolation.level     read_committed: up to the last stable offset below the high watermark

`stream_positions` finds data loss in a log that changed: it was truncated after a failover (shown
by the leader epoch), it was deleted and created again (shown by the topic id), its front was
deleted before it was read, it is new and does not begin at offset 0, or it is gone. The position of
a partition that is gone is kept, so reading resumes there if it comes back. Spark's Kafka source
forgets the position and would read the partition again from offset 0.

Exactly once: a micro-batch is a range of offsets, written to the checkpoint before it is read, and
the log alone decides its rows. The range of the first one is in the checkpoint with its start
(`stream_positions`), so a restart does not work out again what "earliest" or a timestamp means. The same micro-batch after a restart gives the same rows, except
that cleaning or DeleteRecords may have removed some in between, as they may for any consumer.

Trigger.AvailableNow reads what was there when the query began, in as many micro-batches as the
limits require. Trigger.Once (deprecated) reads all of it in one, whatever the limits.
ProcessingTime works as usual. Python sources have no continuous mode. `query.lastProgress` shows
the visible end as `latestOffset`. All of this needs PySpark 4.2, the first version that tells a
Python source where a micro-batch begins and what its limits are.

A stream over a folder without logs waits for the first one. (A topic that `subscribe` or `assign`
names must be there when the query begins.)

A trigger lists the input once, and opens only the partitions whose files or high watermark changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, SupportsTriggerAvailableNow

from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.inputs import FoundPartition, find_partitions
from kmirror.spark.log_starts import LogStarts
from kmirror.spark.one_line import in_one_line
from kmirror.spark.options import NAME, ReadOptions
from kmirror.spark.range_reader import MOST_EPOCH, LossReport, RangePiece, RangeTask, WantedRange, ranges_of, rows_of
from kmirror.spark.selection import EARLIEST, LATEST
from kmirror.spark.settled import planned_again, settled
from kmirror.spark.slice_reader import Aborted, put_together
from kmirror.spark.stream_limits import Backlog, admit
from kmirror.spark.stream_log import HighWatermarks, LogWindow, read_state
from kmirror.spark.stream_positions import (
    LogState,
    Position,
    Resumed,
    added,
    begins_of,
    from_json,
    range_between,
    resume,
    to_json,
    with_starts,
)
from kmirror.spark.trigger_delay import TriggerDelay
from kmirror.verify.offset_lookup import offset_for_time
from kmirror.verify.planner import MAX_OFFSET, pack_by
from kmirror.verify.visibility import read_undecided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.datasource import ReadLimit

_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
Positions = dict[TopicPartition, Position]


def check_stream_options(options: Mapping[str, str]) -> None:
    """Raises KmirrorError for an option that a stream cannot have."""
    given = {name.lower() for name in options}
    for name in _ENDS:
        if name.lower() in given:
            raise KmirrorError(f"{NAME}: option {name} is for batch queries; a stream has no end")


def _more(first: str, names: Sequence[TopicPartition]) -> str:
    """Returns the first five names, as they are shown, and how many more there are."""
    return first + (f" and {len(names) - 5} more" if len(names) > 5 else "")


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Lives as long as the query in a process beside the driver, and for one task on executors."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._losses = LossReport(fails=options.selection.fail_on_data_loss)
        self._known: dict[TopicPartition, tuple[FoundPartition, int | None, LogState]] = {}
        """What the last listing showed, and what was found in each partition."""
        self._planned: Positions | None = None
        """What `latestOffset` answered from `_known`, until it is planned."""
        self._target: dict[TopicPartition, int] | None = None
        """Where logs ended when a query with Trigger.AvailableNow began."""
        self._delay = TriggerDelay(options.min_offsets, options.max_delay_s)
        self._waiting: dict[TopicPartition, int] = {}
        self._told_gone: set[TopicPartition] = set()
        self._initial: Positions | None = None
        """The initial offsets, once Spark has asked for them."""
        self._refusal: KmirrorError | None = None
        """Why there are none. A first micro-batch that runs again does not need them."""

    # entry points that Spark calls
    @in_one_line
    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            try:
                self._initial = planned_again(self._first)
            except KmirrorError as error:
                self._initial, self._refusal = {}, error
        return to_json(self._initial)

    def _first(self) -> Positions:
        return {name: state.position(self._starting(one, state)) for name, (one, state) in self._look(is_first=True).items()}

    @in_one_line
    def getDefaultReadLimit(self) -> ReadLimit:
        if self.options.max_offsets is not None:
            return ReadMaxRows(self.options.max_offsets)
        if self.options.max_bytes is not None:
            return ReadMaxBytes(self.options.max_bytes)
        return ReadAllAvailable() if self.options.min_offsets is None else ReadMaxRows(MAX_OFFSET)

    @in_one_line
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._refusal is not None and not start:
            raise self._refusal
        return to_json(planned_again(lambda: self._ends(from_json(start), limit)))

    def _ends(self, begins: Positions, limit: ReadLimit) -> Positions:
        """Returns the very positions that were given if there is nothing new: Spark compares
        texts."""
        ends = self._read_to({name: begin.alone for name, begin in begins.items()}, limit)
        if begins == self._initial:
            ends = with_starts(ends, begins)
        elif all(ends[name] == begin.alone for name, begin in begins.items()) and ends.keys() == begins.keys():
            ends = begins
        self._planned = dict(ends)
        return ends

    def _read_to(self, positions: Positions, limit: ReadLimit) -> Positions:
        logs = self._look_for(positions)
        backlogs = [self._backlog(name, positions.get(name), *log) for name, log in logs.items() if self._is_due(name)]
        if self._waits(backlogs, limit):
            return positions
        ends = self._admitted(backlogs, limit)
        for backlog in backlogs:
            before, end = positions.get(backlog.name), ends[backlog.name]
            if before is None or end != before.offset or backlog.is_new_start:
                positions[backlog.name] = logs[backlog.name][1].position(end)
        return positions

    @in_one_line
    def reportLatestOffset(self) -> dict[str, Any] | None:
        return to_json({name: state.visible_position for name, (_, _, state) in self._known.items()}) or None

    @in_one_line
    def prepareForTriggerAvailableNow(self) -> None:
        self._target = {name: state.visible_end for name, (_, state) in planned_again(self._look).items()}

    @in_one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[RangeTask]:
        return planned_again(lambda: self._tasks(from_json(start), from_json(end)))

    def _tasks(self, given: Positions, ends: Positions) -> list[RangeTask]:
        self._check_kept(given, ends)
        begins = begins_of(given, ends)
        changed = {name: position for name, position in ends.items() if begins.get(name) != position.alone}
        if not changed:
            return []
        was_told, self._planned = self._planned == ends, None
        logs = self._seen() if was_told else self._look_for(changed)
        losses = LossReport(fails=False, is_silent=True) if was_told else self._losses
        pieces: list[RangePiece] = []
        for name, position in changed.items():
            if name in logs:
                pieces += self._pieces(*logs[name], begins.get(name), position, losses)
        return [RangeTask(task) for task in pack_by(pieces, lambda piece: piece.size, task_bytes=self.options.split_bytes)]

    def _check_kept(self, begins: Positions, ends: Positions) -> None:
        """Reports a first micro-batch that runs again and whose beginning nobody kept."""
        if begins != self._initial or any(end.start is not None for end in ends.values()):
            return
        if self._refusal is not None and ends:
            raise self._refusal
        start = self.options.selection.start
        unknown = [name for name, begin in sorted(begins.items()) if begin.offset and start.named_offset(name) is None]
        if unknown:
            first = ", ".join(f"{name} from offset {begins[name].offset}" for name in unknown[:5])
            self._losses.tell(
                f"the checkpoint's first micro-batch is run again, and the checkpoint does not say where it began, because an older "
                f"kmirror or Spark's Kafka source wrote it; {_more(first, unknown)} would be read now, and what lay before may be lost"
            )

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeTask), f"a task of ours, not {partition!r}"
        yield from put_together(rows_of(self.options, partition))

    # what the input has
    def _look(self, *, is_first: bool = False) -> dict[TopicPartition, tuple[FoundPartition, LogState]]:
        """Returns the wanted partitions as they are now, by name. With `is_first`, partitions asked
        for by name must be there; later a missing one is data loss."""
        options = self.options
        listed = find_partitions(options.locations, replica=options.replica, may_be_empty=True)
        chosen = options.selection.partitions(listed) if is_first else [one for one in listed if options.selection.wants(one.name)]
        starts, high_watermarks = LogStarts(use_checkpoints=options.is_kafka), HighWatermarks()
        known: dict[TopicPartition, tuple[FoundPartition, int | None, LogState]] = {}
        for found in sorted(chosen, key=lambda one: one.name):
            one = found._replace(partition=settled(found.files, found.partition))
            high_watermark = None if options.to_log_end else high_watermarks.of(one)
            log_start = starts.of(one)
            before = self._known.get(one.name)
            if (
                before is not None
                and before[0].partition == one.partition
                and (before[1], before[2].log_start) == (high_watermark, log_start)
            ):
                state = before[2]
            else:
                state = read_state(
                    one,
                    log_start=log_start,
                    high_watermark=high_watermark,
                    is_committed=options.is_committed,
                    is_permissive=options.is_permissive,
                )
            known[one.name] = one, high_watermark, state
        self._known = known
        return self._seen()

    def _look_for(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[FoundPartition, LogState]]:
        """Like `_look`, and reports those of `names` that are missing as data loss, once. A log
        that moves between two log.dirs is in neither for a moment, so the input is listed twice."""
        logs = self._look()
        self._told_gone -= logs.keys()
        if any(name not in logs for name in names if name not in self._told_gone):
            logs = self._look()
        gone = [name for name in names if name not in logs and name not in self._told_gone]
        if gone:
            self._told_gone.update(gone)
            self._losses.tell(
                f"{_more(', '.join(map(str, gone[:5])), gone)}: they were read so far, but are no longer in the input or no longer selected"
            )
        return logs

    def _seen(self) -> dict[TopicPartition, tuple[FoundPartition, LogState]]:
        return {name: (one, state) for name, (one, _, state) in self._known.items()}

    def _starting(self, one: FoundPartition, state: LogState) -> int:
        """Returns the first offset of a query without a checkpoint."""
        selection = self.options.selection
        timestamp, offset = selection.start.of(one.name)
        if timestamp is not None:
            offset = offset_for_time(one.files, one.listing, one.partition, timestamp, log_start=state.log_start)
            if offset is not None and offset < state.visible_end:
                return offset
            if not selection.latest_if_no_record:
                raise KmirrorError(
                    f"{NAME}: {one.name} has no record at or after {timestamp}; with startingOffsetsByTimestampStrategy=latest it would begin at its end"
                )
            return state.visible_end
        if offset is None or offset == LATEST:
            return state.visible_end
        if offset == EARLIEST:
            return state.log_start
        if not state.log_start <= offset <= state.log_end:
            self._losses.tell(f"{one.name} has offsets from {state.log_start} to {state.log_end}, and {offset} is its starting offset")
        return min(max(offset, state.log_start), state.log_end)

    # what is new
    def _is_due(self, name: TopicPartition) -> bool:
        return self._target is None or name in self._target

    def _backlog(self, name: TopicPartition, position: Position | None, one: FoundPartition, state: LogState) -> Backlog:
        if position is None:
            begin = added(name, state)
        else:
            begin = Resumed(position.offset) if position == state.visible_position else resume(name, position, state)
        if begin.loss is not None:
            self._losses.tell(begin.loss)
        end = state.visible_end if self._target is None else min(state.visible_end, self._target[name])
        end = max(begin.offset, end)
        return Backlog(name, begin.offset, end, LogWindow(one, begin.offset, end), is_new_start=begin.loss is not None)

    def _waits(self, backlogs: Sequence[Backlog], limit: ReadLimit) -> bool:
        """Whether a micro-batch is put off. One that has lost something is not: that is told."""
        if isinstance(limit, ReadAllAvailable) or self._target is not None or any(one.is_new_start for one in backlogs):
            return False
        return self._delay.waits(sum(one.end - one.low for one in backlogs))

    def _admitted(self, backlogs: Sequence[Backlog], limit: ReadLimit) -> dict[TopicPartition, int]:
        """Returns the end of the micro-batch, by partition."""
        if isinstance(limit, ReadAllAvailable):
            return {one.name: one.end for one in backlogs}
        offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else self.options.max_offsets
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self.options.max_bytes
        ends = admit(backlogs, max_offsets=offsets, max_bytes=size, waiting=self._waiting)
        self._waiting = {
            one.name: self._waiting.get(one.name, 0) + 1 for one in backlogs if one.low < one.end and ends[one.name] == one.low
        }
        return ends

    # what a micro-batch reads
    def _pieces(self, one: FoundPartition, state: LogState, begin: Position | None, end: Position, report: LossReport) -> list[RangePiece]:
        options = self.options
        low, behind, losses = range_between(one.name, begin, end, state)
        for loss in losses:
            report.tell(loss)
        if low >= behind:
            return []
        wanted = WantedRange(
            low,
            behind - 1,
            no_control=options.is_kafka,
            aborted=Aborted.of(read_undecided(one.files, one.listing, one.partition).aborted) if options.is_committed else None,
            name=one.name,
            most_epoch=MOST_EPOCH if end.epoch == NO_EPOCH else end.epoch,
            losses=self._losses,
        )
        slices = list(one.listing.slices(one.files, one.partition, task_bytes=options.split_bytes, low=low, high=behind - 1))
        return ranges_of(slices, wanted)
