"""`spark.read.format("kafka-log").load(path)`: the records or batches in Kafka's log folders as rows.

`path` is a broker's log.dir (all its partitions, internal topics too), one partition's folder, or a folder of segments; local or a
URI (`files`). One task a segment; segments larger than `splitBytes` are cut at batches that the offset index knows. A task reads blocks of
a few MB and yields Arrow batches, so its memory is bounded by a block, or by one batch where that is larger.

Options
    rows        record (default): topic, partition, offset, timestamp, timestamp_type, key, value, headers, base_offset, last_offset,
                leader_epoch, producer_id, producer_epoch, sequence, is_transactional, is_control, control_type, compression, crc,
                position, segment
                batch: a row a batch, without unpacking it: base_offset, last_offset, record_count, size_bytes, crc_valid ...
    columns     names separated by commas: only these are made (Spark does not tell a Python source which columns a query needs)
    splitBytes  see above (default 134217728)
Filters on topic, partition and offset (base_offset for rows of batches) are pushed down (`pushdown`: how, and when not). Control records are rows too (`is_control`),
records of aborted transactions also: this is the log, not what a consumer sees. Writing and streaming are not offered.

Corrupt input fails the query with the file and byte; an incomplete batch at the end of a segment is left out, as Kafka does.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from kmirror.common.errors import CorruptFileError, KmirrorError
from kmirror.record.record_batch import CURRENT_MAGIC
from kmirror.spark.columns import BATCH_COLUMNS, RECORD_COLUMNS, Block, batch_rows, record_rows, sql_schema
from kmirror.spark.files import file_system_for
from kmirror.spark.filters import MAX_OFFSET, Pushed
from kmirror.spark.pushdown import has_marker, widen
from kmirror.storage.reader import SegmentFiles, SegmentReader
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.data_dir_logs import open_folder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

NAME: Final = "kafka-log"
BLOCK_BYTES: Final = 2 << 20
DEFAULT_SPLIT_BYTES: Final = 128 << 20
OPTIONS: Final = {"path": "path", "rows": "rows", "columns": "columns", "splitbytes": "splitBytes"}


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of one read."""

    path: str
    rows: str
    columns: tuple[str, ...]
    split_bytes: int

    @classmethod
    def parse(cls, options: dict[str, str]) -> ReadOptions:
        """KmirrorError with one line for what is unknown, missing or not allowed."""
        given = {key.lower(): value for key, value in options.items()}
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            raise KmirrorError(f"{NAME}: there is no option {', '.join(unknown)}; the options are {', '.join(OPTIONS.values())}")
        if not given.get("path"):
            raise KmirrorError(f'{NAME}: no path; use spark.read.format("{NAME}").load("/a/log/dir")')
        rows = given.get("rows", "record").lower()
        if rows not in ("record", "batch"):
            raise KmirrorError(f"{NAME}: option rows is 'record' or 'batch', not '{given['rows']}'")
        split = given.get("splitbytes", str(DEFAULT_SPLIT_BYTES))
        if not split.isdecimal() or int(split) < 1:
            raise KmirrorError(f"{NAME}: option splitBytes is a number of bytes, not '{split}'")
        known = RECORD_COLUMNS if rows == "record" else BATCH_COLUMNS
        names = [name.strip() for name in given.get("columns", ",".join(known)).split(",")]
        return cls(given["path"], rows, _checked(names, known, rows), int(split))


def _checked(names: Sequence[str], known: Sequence[str], rows: str) -> tuple[str, ...]:
    wrong = [name for name in names if name not in known]
    if wrong:
        raise KmirrorError(f"{NAME}: a {rows} has no column {', '.join(wrong) or 'without a name'}; the columns are {', '.join(known)}")
    return tuple(dict.fromkeys(names))


class KafkaLogDataSource(DataSource):  # type: ignore[misc]
    """What Spark asks; see the text on top. One object per `load()`, pickled from one planning worker to the next."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.load_id = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return sql_schema(ReadOptions.parse(self.options).columns)

    def reader(self, schema: StructType) -> KafkaLogReader:
        options = ReadOptions.parse(self.options)
        known = RECORD_COLUMNS if options.rows == "record" else BATCH_COLUMNS
        return KafkaLogReader(options, _checked(schema.names, known, options.rows), self.load_id)


@dataclass
class SegmentTask(InputPartition):  # type: ignore[misc]
    """Bytes `start` to `end` of one segment."""

    location: str
    path: str
    topic: str
    partition: int
    start: int
    end: int


class KafkaLogReader(DataSourceReader):  # type: ignore[misc]
    """Plans on the driver, reads on executors; pickled in between."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...], load_id: str) -> None:
        self.options = options
        self.load_id = load_id
        self.columns = columns
        self.pushed = Pushed(offset_column="offset" if options.rows == "record" else "base_offset")

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """All come back: Spark evaluates them again."""
        taken = Pushed(offset_column=self.pushed.offset_column)
        if has_marker(filters):
            taken.push(filters)
        self.pushed = widen(self.load_id, taken)
        return filters

    def partitions(self) -> Sequence[SegmentTask]:
        files, location = file_system_for(self.options.path)
        logs, _ = open_folder(files, location)
        tasks: list[SegmentTask] = []
        for log in logs:
            if self.pushed.wants(*log.topic_partition):
                tasks += self._tasks(log)
        return tasks

    def _tasks(self, log: DirectoryLog) -> Iterator[SegmentTask]:
        segments = log.partition.segments
        for index, segment in enumerate(segments):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else MAX_OFFSET
            if segment.base_offset > self.pushed.high or next_base <= self.pushed.low or not segment.log_size:
                continue
            topic, partition = log.topic_partition
            for start, end in self._cuts(log, segment):
                yield SegmentTask(self.options.path, segment.path(), topic, partition, start, end)

    def _cuts(self, log: DirectoryLog, segment: SegmentFiles) -> Iterator[tuple[int, int]]:
        start = log.indexed_position(segment, offset=self.pushed.low) if self.pushed.low > segment.base_offset else 0
        split = self.options.split_bytes
        while segment.log_size - start > split:
            cut = log.indexed_position(segment, position=start + split)
            if cut <= start:
                break
            yield start, cut
            start = cut
        yield start, segment.log_size

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, SegmentTask), f"a task of ours, not {partition!r}"
        files, _ = file_system_for(partition.location)
        make = record_rows if self.options.rows == "record" else batch_rows
        with SegmentReader(files, partition.path, start=partition.start, end=partition.end) as reader:
            for found in reader.blocks(block_bytes=BLOCK_BYTES):
                block = self._block(partition, found.positions, found.batches)
                if block is not None:
                    rows = make(block, self.columns)
                    if rows.num_rows:
                        yield rows
                if found.batches[-1].base_offset > self.pushed.high:
                    return

    def _block(self, task: SegmentTask, positions: Sequence[int], batches: Sequence[Any]) -> Block | None:
        """What is left of a block after the offset filter, by batches."""
        low, high = self.pushed.low, self.pushed.high
        kept = []
        for position, batch in zip(positions, batches):
            if batch.magic != CURRENT_MAGIC:
                raise CorruptFileError(task.path, position, f"a batch of magic {batch.magic}; only message format v2 can be read")
            first, last = batch.base_offset, batch.base_offset if self.options.rows == "batch" else batch.last_offset
            if last >= low and first <= high:
                kept.append((position, batch))
        if not kept:
            return None
        return Block(task.topic, task.partition, task.path, [row[0] for row in kept], [row[1] for row in kept], low, high)
