"""`spark.read.format("kafka-log").load(path)`: records or batches in Kafka's log folders as rows.

`path` is a broker's log.dir (all its partitions, internal topics too), a partition's folder, a
folder of segments, or a folder of log.dirs. It is a local path or a URI (`files`). The source lists
it once, cuts segments at batch boundaries that their offset index knows, and packs the slices into
tasks (`verify.planner`). A task reads blocks of a few MB and unpacks pieces of a few MB. Those
bound its memory, unless one record is larger.

Options
    rows        record (default): one row per record. Columns: topic, partition, offset, timestamp,
                timestamp_type, key, value, headers, base_offset, last_offset, leader_epoch,
                producer_id, producer_epoch, sequence, is_transactional, is_control, control_type,
                compression, crc, position, segment; on request timestamp_ms.
                batch: one row per batch, which is not unpacked. Columns: topic, partition,
                base_offset, last_offset, record_count, size_bytes, leader_epoch, magic, crc,
                crc_valid, base_timestamp, max_timestamp, timestamp_type, producer_id,
                producer_epoch, base_sequence, last_sequence, is_transactional, is_control,
                control_type, has_delete_horizon, delete_horizon_ms, compression, position,
                segment; on request base_timestamp_ms, max_timestamp_ms.
    columns     column names, separated by commas. Only these are produced. (Spark does not tell a
                Python source which columns a query needs.) Columns that batch headers hold (all but
                timestamp, key, value, headers, sequence) are read without unpacking records.
    splitBytes  about how many bytes of log a task reads (default 67108864)
    mode        FAILFAST (default): the query fails at the first damage, with one line that names
                the file and the byte.
                PERMISSIVE: damage becomes a row with that line in `_corrupt`. Its topic, partition,
                segment, position and offset say where the damage is; its other columns are null.
                Reading goes on at the next sound batch.
                DROPMALFORMED: as PERMISSIVE, without the rows that damage becomes: what is damaged
                is missing, and nothing says so.
    paths       more inputs, separated by commas (or use `load(["a", "b"])`). Each may be a glob,
                such as `/cluster/node-*/data` or `/cluster/{north,south}/data`.
    replica     which copy is read of a partition that several inputs have. longest (default): the
                one with the latest leader epoch, and among those the longest log. first: the one
                in the first input.
    isolation.level
                read_uncommitted (default). read_committed leaves out aborted transactions and
                everything that is not decided yet.
    subscribe, subscribePattern, assign, startingOffsets, endingOffsets, startingTimestamp ...
                as in Spark's Kafka source: see `selection`
    kafkaCompatible
                true: rows like those of Spark's Kafka source, so a query moves from format("kafka")
                unchanged. Columns: key, value, topic, partition, offset, timestamp, timestampType
                (0 or 1), and with includeHeaders=true headers (null for a record that has none).
                Control records are left out, and so is what DeleteRecords removed. Options that
                begin with `kafka.` configure a consumer's connection and are ignored, except
                kafka.isolation.level. So are the others that change no row: minPartitions,
                maxRecordsPerPartition, groupIdPrefix, kafkaConsumer.* and fetchOffset.*. A
                timestamp whose microseconds do not fit 64 bits is null, where Spark's source
                fails; `timestamp_ms` without kafkaCompatible has it.

Filters on topic, partition, offset and a lower bound of timestamp are pushed down (`filters`); with
rows=batch the columns are base_offset and max_timestamp. `pushdown` says when they are not.

Without kafkaCompatible the rows are the log, not what a consumer sees: they include control records
(`is_control`) and records of aborted transactions, up to the end of the log.

A broker may be at work in the folder. Segments that are rolled, cleaned or deleted between planning
and reading are found by offset (`range_reader`), so a sound log is never called damaged.

`spark.readStream` follows a log: see `stream_reader`. For `df.write.format("kafka-log")` see
`log_writer`.

Damage is an impossible length or offset, a wrong CRC, records that contradict their batch header,
or an incomplete batch. CRCs are checked wherever records are unpacked, and always with PERMISSIVE
and DROPMALFORMED.
An incomplete batch at the end of a partition's last segment is no damage, since a broker may be
appending there: it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, InputPartition

from kmirror.common.errors import KmirrorError
from kmirror.spark.columns import sql_schema, sql_type
from kmirror.spark.filters import NO_TIME, Pushed
from kmirror.spark.inputs import FoundPartition, find_partitions
from kmirror.spark.log_starts import LogStarts
from kmirror.spark.one_line import in_one_line
from kmirror.spark.options import NAME, ReadOptions
from kmirror.spark.pushdown import know_far_times, widen
from kmirror.spark.range_reader import LossReport, RangePiece, RangeTask, WantedRange, ranges_of, rows_of
from kmirror.spark.settled import planned_again, settled
from kmirror.spark.slice_reader import Aborted, put_together
from kmirror.verify.offset_lookup import time_index_entries
from kmirror.verify.planner import pack_by
from kmirror.verify.slices import LogSlice
from kmirror.verify.visibility import read_undecided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from kmirror.spark.log_writer import KafkaLogWriter

__all__: Final = ["NAME", "KafkaLogDataSource"]


class KafkaLogDataSource(DataSource):  # type: ignore[misc]
    """The entry points that Spark calls. One object per `load()`, pickled between planning
    workers."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.load_id = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        return NAME

    @in_one_line
    def schema(self) -> str:
        return sql_schema(ReadOptions.parse(self.options, for_stream=True).columns)

    @in_one_line
    def reader(self, schema: StructType) -> KafkaLogReader:
        options = with_schema(ReadOptions.parse(self.options), schema)
        return PushingReader(options, self.load_id) if options.is_marked else KafkaLogReader(options)

    @in_one_line
    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        from kmirror.spark.log_writer import KafkaLogWriter  # 0.2 s, which each process of a read would spend
        from kmirror.spark.write_options import WriteOptions

        return KafkaLogWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    @in_one_line
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        raise KmirrorError(
            f"{NAME}: a stream cannot be written to a log.dir directly; append each micro-batch, once even if Spark runs it again: "
            f'writeStream.foreachBatch(append_batches("/a/log/dir", topic="t", numPartitions=3)) with kmirror.spark.append_batches'
        )

    @in_one_line
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from kmirror.spark.stream_reader import KafkaLogStreamReader, check_stream_options
        except ImportError as error:
            if error.name is None or not error.name.startswith("pyspark"):
                raise
            return NoStreamReader(f"{NAME}: streams need PySpark 4.2 or newer: {error}")
        check_stream_options(self.options)
        return KafkaLogStreamReader(with_schema(ReadOptions.parse(self.options, for_stream=True), schema))


class NoStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """Says why there is no stream. PySpark 4.1 hides what `streamReader` raises behind an error of
    its own, but shows what a reader raises."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    @in_one_line
    def initialOffset(self) -> dict[str, Any]:
        raise KmirrorError(self.reason)

    @in_one_line
    def latestOffset(self) -> dict[str, Any]:
        raise KmirrorError(self.reason)  # a query with a checkpoint asks for this first

    @in_one_line
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise KmirrorError(self.reason)

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise KmirrorError(self.reason)


def with_schema(options: ReadOptions, schema: StructType) -> ReadOptions:
    """Returns options for the columns of a schema, which may be the user's own. KmirrorError for a
    column that does not exist, has another type, or is said never to be null."""
    chosen = options.with_columns(schema.names)
    for field in schema:
        expected, found = sql_type(field.name), field.dataType.simpleString()
        if found != expected:
            raise KmirrorError(f"{NAME}: column {field.name} is of type {expected}, not {found}; use cast() on the loaded frame")
        if not field.nullable:
            raise KmirrorError(f"{NAME}: column {field.name} cannot be NOT NULL; leave that out of the schema")
    return chosen


class KafkaLogReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on executors; pickled in between."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.pushed = Pushed(offset_column=options.offset_column)
        self._losses = LossReport(fails=options.selection.fail_on_data_loss)

    @in_one_line
    def partitions(self) -> Sequence[RangeTask]:
        return planned_again(self._tasks)

    def _tasks(self) -> list[RangeTask]:
        options = self.options
        log_starts = LogStarts(use_checkpoints=options.is_kafka)
        pieces: list[RangePiece] = []
        listed = find_partitions(options.locations, replica=options.replica, tolerates_damage=options.is_permissive)
        for found in options.selection.partitions(listed):
            if not self.pushed.wants(*found.name):
                continue
            one = found._replace(partition=settled(found.files, found.partition))
            wanted = self._wanted(one, log_starts)
            slices = one.listing.slices(one.files, one.partition, task_bytes=options.split_bytes, low=wanted.low, high=wanted.high)
            pieces += ranges_of(list(without_old_segments(one, slices, wanted.time_low)), wanted)
        tasks = pack_by(pieces, lambda piece: piece.size, task_bytes=options.split_bytes)
        return [RangeTask(task) for task in tasks] or [RangeTask()]

    def _wanted(self, one: FoundPartition, log_starts: LogStarts) -> WantedRange:
        options, pushed = self.options, self.pushed
        low, high = options.selection.offsets(one, lambda: log_starts.of(one))
        aborted = None
        if options.is_committed:
            undecided = read_undecided(one.files, one.listing, one.partition)
            high = min(high, undecided.last_stable_offset - 1)
            aborted = Aborted.of(undecided.aborted)
        return WantedRange(
            max(low, pushed.low),
            min(high, pushed.high),
            time_low=pushed.time_low,
            no_control=options.is_kafka,
            aborted=aborted,
            name=one.name,
            losses=self._losses,
        )

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RangeTask), f"a task of ours, not {partition!r}"
        yield from put_together(rows_of(self.options, partition))


def without_old_segments(one: FoundPartition, pieces: Iterable[LogSlice], time_low: int) -> Iterator[LogSlice]:
    """Leaves out the slices of closed segments whose time index ends before `time_low` (ms)."""
    if time_low == NO_TIME:
        yield from pieces
        return
    bases = {segment.base_offset: segment for segment in one.partition.segments[:-1]}
    is_old: dict[int, bool] = {}
    for piece in pieces:
        if piece.base_offset in bases and piece.base_offset not in is_old:
            times, _ = time_index_entries(one.files, bases[piece.base_offset])
            is_old[piece.base_offset] = bool(len(times)) and int(times[-1]) < time_low
        if not is_old.get(piece.base_offset, False):
            yield piece


class PushingReader(KafkaLogReader):
    """The reader of a `load()` whose queries all push a filter: see `pushdown`."""

    def __init__(self, options: ReadOptions, load_id: str) -> None:
        super().__init__(options)
        self.load_id = load_id
        self._forget_far_times: Callable[[], None] | None = know_far_times()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_forget_far_times": None}

    @in_one_line
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Returns all filters: Spark evaluates them again."""
        if self._forget_far_times is not None:
            self._forget_far_times()
        taken = Pushed(offset_column=self.options.offset_column)
        taken.push(filters)
        self.pushed = widen(self.load_id, taken)
        return filters
