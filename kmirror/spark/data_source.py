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
Filters on topic, partition and offset (base_offset for rows of batches) are pushed down (`pushdown`: how, and when not). Control records are rows too (`is_control`),
records of aborted transactions also: this is the log, not what a consumer sees. Writing and streaming are not offered.

Damage is an impossible length or offset, a wrong CRC (looked at wherever a record is unpacked, and always with PERMISSIVE), records that are not
as the header says, and an incomplete batch, except at the end of a partition's last segment, where a broker may be appending: there it is left out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kmirror.spark.columns import sql_schema
from kmirror.spark.files import file_system_for
from kmirror.spark.filters import Pushed
from kmirror.spark.one_line import in_one_line
from kmirror.spark.options import NAME, ReadOptions
from kmirror.spark.pushdown import widen
from kmirror.spark.slice_reader import SliceReader, Wanted, put_together
from kmirror.verify.planner import list_input, plan
from kmirror.verify.slices import LogSlice

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
        return sql_schema(ReadOptions.parse(self.options).columns)

    @in_one_line
    def reader(self, schema: StructType) -> KafkaLogReader:
        options = ReadOptions.parse(self.options).with_columns(schema.names)
        return PushingReader(options, self.load_id) if options.is_marked else KafkaLogReader(options)


@dataclass
class LogTask(InputPartition):  # type: ignore[misc]
    """Slices that one task reads."""

    slices: list[LogSlice] = field(default_factory=list)


class KafkaLogReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on executors; pickled in between."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self.pushed = Pushed(offset_column=options.offset_column)

    @in_one_line
    def partitions(self) -> Sequence[LogTask]:
        files, path = file_system_for(self.options.path)
        listing = list_input(files, path, location=self.options.path)
        tasks = plan(files, listing, wants=self._wants, task_bytes=self.options.split_bytes)
        return [LogTask(task) for task in tasks] or [LogTask()]

    def _wants(self, name: TopicPartition) -> tuple[int, int] | None:
        return (self.pushed.low, self.pushed.high) if self.pushed.wants(*name) else None

    @in_one_line
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, LogTask), f"a task of ours, not {partition!r}"
        yield from put_together(self._rows(partition))

    def _rows(self, task: LogTask) -> Iterator[pa.RecordBatch]:
        options = self.options
        reader = SliceReader(options.columns, rows_of_batches=options.rows == "batch", permissive=options.is_permissive)
        wanted = Wanted(self.pushed.low, self.pushed.high)
        opened: dict[str, FileSystem] = {}
        for piece in task.slices:
            if piece.location not in opened:
                opened[piece.location] = file_system_for(piece.location)[0]
            yield from reader.read(opened[piece.location], piece, wanted)


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
