"""`spark.read.format("kafka-log").load(path)`: the records or batches in Kafka's log folders as rows.

`path` is a broker's log.dir (all its partitions, internal topics too), a partition's folder, a folder of segments, or a folder of log.dirs; local
or a URI (`files`). It is listed once; segments are cut where their offset index knows a batch to begin, and packed into tasks (`verify.planner`).
A task reads blocks of a few MB and unpacks pieces of a few MB, so its memory is bounded by those, or by one record where that is larger.

Options
    rows        record (default): topic, partition, offset, timestamp, timestamp_type, key, value, headers, base_offset, last_offset,
                leader_epoch, producer_id, producer_epoch, sequence, is_transactional, is_control, control_type, compression, crc,
                position, segment; on request timestamp_ms
                batch: a row a batch, without unpacking it: base_offset, last_offset, record_count, size_bytes, crc_valid ...; on request
                base_timestamp_ms, max_timestamp_ms
    columns     names separated by commas: only these are made (Spark does not tell a Python source which columns a query needs). What stands in
                headers (all but timestamp, key, value, headers, sequence) is read without unpacking a record.
    splitBytes  about how much of the log a task reads (default 67108864)
    mode        FAILFAST (default): the query fails at the first damage, with one line that names file and byte
                PERMISSIVE: damage is a row whose `_corrupt` says that line; topic, partition, segment, position and offset say where it is, other
                columns are null. It goes on where the next sound batch begins.
    paths       more inputs, separated by commas (or `load(["a", "b"])`); each may be a glob, such as `/cluster/node-*/data`
    replica     which copy of a partition is read that lies in several inputs: longest (default: the latest leader epoch, then the longest log), first
    isolation.level   read_uncommitted (default); read_committed leaves out aborted transactions and what is not yet decided
    subscribe, subscribePattern, assign, startingOffsets, endingOffsets, startingTimestamp ...   as Spark's Kafka source has them: `selection`
    kafkaCompatible   true: rows as that source makes them, so that a query moves from format("kafka") unchanged: key, value, topic, partition, offset,
                timestamp, timestampType (0 or 1), with includeHeaders=true headers (null without any). Control records are left out, and what
                DeleteRecords removed. Options that begin with `kafka.` are for a consumer's connection: none but kafka.isolation.level counts.
Filters on topic, partition, offset and the least timestamp (base_offset and max_timestamp for rows of batches) are pushed down (`filters`; `pushdown`: when not).
Otherwise control records are rows too
(`is_control`), records of aborted transactions also, up to the end of the log: this is the log, not what a consumer sees. `spark.readStream` follows
a log: `stream_reader`. What `df.write.format("kafka-log")` takes stands in `log_writer`.

Damage is an impossible length or offset, a wrong CRC (looked at wherever a record is unpacked, and always with PERMISSIVE), records that are not
as the header says, and an incomplete batch, except at the end of a partition's last segment, where a broker may be appending: there it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from kmirror.common.errors import KmirrorError
from kmirror.spark.columns import sql_schema
from kmirror.spark.files import file_system_for
from kmirror.spark.filters import NO_TIME, Pushed
from kmirror.spark.inputs import FoundPartition, find_partitions
from kmirror.spark.log_writer import KafkaLogWriter
from kmirror.spark.one_line import in_one_line
from kmirror.spark.options import NAME, ReadOptions
from kmirror.spark.pushdown import widen
from kmirror.spark.slice_reader import Aborted, SliceReader, Wanted, put_together
from kmirror.spark.write_options import WriteOptions
from kmirror.storage.offset_checkpoint_file import LOG_START_OFFSET_CHECKPOINT_FILE_NAME
from kmirror.storage.reader import read_offset_checkpoint
from kmirror.verify.offset_lookup import time_index_entries
from kmirror.verify.planner import pack
from kmirror.verify.slices import LogSlice
from kmirror.verify.visibility import read_undecided

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from kmirror.common.ports import FileSystem
    from kmirror.common.topic_partition import TopicPartition

__all__: Final = ["NAME", "KafkaLogDataSource"]


class KafkaLogDataSource(DataSource):  # type: ignore[misc]
    """What Spark asks; see the text on top. One object per `load()`, pickled from one planning worker to the next."""

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
        options = ReadOptions.parse(self.options).with_columns(schema.names)
        return PushingReader(options, self.load_id) if options.is_marked else KafkaLogReader(options)

    @in_one_line
    def writer(self, schema: StructType, overwrite: bool) -> KafkaLogWriter:
        return KafkaLogWriter(WriteOptions.parse(self.options), schema, overwrite=overwrite)

    @in_one_line
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        try:
            from kmirror.spark.stream_reader import KafkaLogStreamReader, check_stream_options
        except ImportError as error:
            if error.name is None or not error.name.startswith("pyspark"):
                raise
            raise KmirrorError(f"{NAME}: streams need PySpark 4.2 or newer: {error}") from error
        check_stream_options(self.options)
        return KafkaLogStreamReader(ReadOptions.parse(self.options, for_stream=True).with_columns(schema.names))


@dataclass
class LogTask(InputPartition):  # type: ignore[misc]
    """Slices that one task reads, and what of each segment is wanted, by path."""

    slices: list[LogSlice] = field(default_factory=list)
    wanted: dict[str, Wanted] = field(default_factory=dict)


class KafkaLogReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on executors; pickled in between."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.pushed = Pushed(offset_column=options.offset_column)

    @in_one_line
    def partitions(self) -> Sequence[LogTask]:
        options = self.options
        log_starts = LogStarts(use_checkpoints=options.is_kafka)
        slices: list[LogSlice] = []
        wanted: dict[str, Wanted] = {}
        for one in options.selection.partitions(find_partitions(options.locations, replica=options.replica)):
            if not self.pushed.wants(*one.name):
                continue
            ours = self._wanted(one, log_starts)
            pieces = one.listing.slices(one.files, one.partition, task_bytes=options.split_bytes, low=ours.low, high=ours.high)
            for piece in without_old_segments(one, pieces, ours.time_low):
                slices.append(piece)
                wanted[piece.path] = ours
        tasks = pack(slices, task_bytes=options.split_bytes)
        return [LogTask(task, {piece.path: wanted[piece.path] for piece in task}) for task in tasks] or [LogTask()]

    def _wanted(self, one: FoundPartition, log_starts: LogStarts) -> Wanted:
        options, pushed = self.options, self.pushed
        low, high = options.selection.offsets(one, lambda: log_starts.of(one))
        aborted = None
        if options.is_committed:
            undecided = read_undecided(one.files, one.listing, one.partition)
            high = min(high, undecided.last_stable_offset - 1)
            aborted = Aborted.of(undecided.aborted)
        return Wanted(max(low, pushed.low), min(high, pushed.high), time_low=pushed.time_low, no_control=options.is_kafka, aborted=aborted)

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogTask), f"a task of ours, not {partition!r}"
        yield from put_together(self._rows(partition))

    def _rows(self, task: LogTask) -> Iterator[pa.RecordBatch]:
        options = self.options
        reader = SliceReader(
            options.columns,
            rows_of_batches=options.rows == "batch",
            permissive=options.is_permissive,
            null_headers=options.is_kafka,
        )
        opened: dict[str, FileSystem] = {}
        for piece in task.slices:
            if piece.location not in opened:
                opened[piece.location] = file_system_for(piece.location)[0]
            yield from reader.read(opened[piece.location], piece, task.wanted[piece.path])


def without_old_segments(one: FoundPartition, pieces: Iterable[LogSlice], time_low: int) -> Iterator[LogSlice]:
    """Without the slices of closed segments whose time index ends before `time_low` (ms)."""
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


class LogStarts:
    """Where logs begin: at their first segment, or with checkpoints where DeleteRecords said, as consumers see it."""

    def __init__(self, *, use_checkpoints: bool) -> None:
        self._use_checkpoints = use_checkpoints
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}

    def of(self, one: FoundPartition) -> int:
        segments = one.partition.segments
        first = segments[0].base_offset if segments else 0
        if not self._use_checkpoints:
            return first
        if one.data_dir not in self._checkpoints:
            name = LOG_START_OFFSET_CHECKPOINT_FILE_NAME
            self._checkpoints[one.data_dir] = read_offset_checkpoint(one.files, one.data_dir, name)
        return max(first, self._checkpoints[one.data_dir].get(one.name, 0))


class PushingReader(KafkaLogReader):
    """For a `load()` whose queries all push something: see `pushdown`."""

    def __init__(self, options: ReadOptions, load_id: str) -> None:
        super().__init__(options)
        self.load_id = load_id

    @in_one_line
    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """All come back: Spark evaluates them again."""
        taken = Pushed(offset_column=self.options.offset_column)
        taken.push(filters)
        self.pushed = widen(self.load_id, taken)
        return filters
