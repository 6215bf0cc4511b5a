"""`df.write.format("kafka-log").save(path)`: writes rows as logs that Apache Kafka opens.

The columns are those of Spark's Kafka sink, and more optional ones:
    value           binary or string, required; null is a tombstone
    key             binary or string
    topic           string; option `topic` overrides it
    partition       int. Where it is null or missing, Kafka's default partitioner chooses
                    (`partitioner`); that needs option numPartitions.
    headers         array<struct<key:string,value:binary>>
    timestamp       timestamp, or bigint of ms (also as timestamp_ms). Null means the time of
                    writing.
    timestamp_type or timestampType
                    as the source has them. All records of a batch have the same type; with
                    LogAppendTime they also have the same timestamp.
    offset          bigint; it is kept. Offsets must ascend within a partition. All records of a
                    partition have one, or none has. Without it, records get the log's next offsets.
    leader_epoch    int. Epochs must not decrease within a partition. All records of a partition
                    have one, or none has.
The other columns of the source (base_offset, producer_id, sequence, compression, position ...)
describe the batch that a record came from. They are left out: a written record has no producer.
Control records (`is_control`), records of transactions (`is_transactional`) and damage (`_corrupt`)
are refused.

Options
    topic, numPartitions
                    see above. Partitions that get no record are created too, empty. numPartitions
                    may not be less than a topic has in a log.dir that is appended to: keys would
                    get into other partitions than before.
    compression.type
                    none (default), gzip, snappy, lz4 or zstd. The level is compression.gzip.level,
                    compression.lz4.level or compression.zstd.level.
    batch.size      bytes of records in a batch before compression (default 262144)
    segment.bytes, segment.ms, index.interval.bytes
                    as in Kafka (defaults 1073741824, no limit, 4096)
    message.timestamp.type
                    CreateTime, or LogAppendTime: the time of writing replaces `timestamp`. It
                    overrides timestamp_type.
    leaderEpoch     overrides leader_epoch. Default: 0 for a new log, the latest epoch of a log that
                    is appended to.
    txnAppId, txnVersion
                    who writes, and the number of a micro-batch, as in Delta Lake: a write whose
                    number is not above the last one of that name in the log.dir writes nothing.
                    `kmirror.spark.append_batches` gives both.
    topicId         a topic's id, or JSON of ids by topic. Default: the id that the log.dir has for
                    the topic, else a new one.

Save modes: `append` adds records after those that are there, so offsets, leader epochs and topic
ids continue; the log.dir must have been shut down cleanly. `overwrite` replaces all logs. If there
are logs, `error` (Spark's default) fails, and `ignore` does nothing. These two need
`kmirror.spark.register`: for Python sources, Spark itself accepts only `append` and `overwrite`.

The rows need not be shuffled. Each task writes its own segments, for the partitions that it has
rows of, into a staging folder in the log.dir. The driver puts the segments in order and moves them
into place (`log_commit`). Within a partition, records come in the order of the tasks, then of each
task's rows. Records with offsets come in offset order; the offsets of two tasks must not
interleave. Use `kmirror.spark.write_log`, which shuffles and sorts, for a frame that is not as the
source gave it. Segments of a failed task are never used, and a failed job leaves nothing behind.
The log.dir is locked as a broker locks it. The commit of another job is waited for. If a driver is
killed while it moves segments, the next write to the log.dir undoes that first (`commit_journal`).

`path` is on a disk that the driver and all executors share; it cannot be a remote URI. No
`meta.properties` is written: a broker's log.dir gets it from `kafka-storage format`. A broker
serves a partition if the cluster's metadata has its topic id.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kmirror.common.errors import KmirrorError
from kmirror.runtime.system_ports import SystemRandom
from kmirror.spark.commit_journal import CommitJournal, settle_if_nobody_writes
from kmirror.spark.existing_logs import check_overwrite, check_save_mode, partitions_in
from kmirror.spark.local_writes import WritableLocalFiles, locked_log_dir, remove_staging_if_possible, remove_while_tasks_write
from kmirror.spark.log_commit import LogCommit, staging_folder
from kmirror.spark.one_line import in_one_line
from kmirror.spark.options import NAME
from kmirror.spark.staged_log import Piece, TaskWriter
from kmirror.spark.write_options import IGNORE, WriteOptions
from kmirror.spark.written_batches import has_batch
from kmirror.storage.log_dirs import LOCK_FILE_NAME

if TYPE_CHECKING:
    import pyarrow as pa


_LOG: Final = logging.getLogger(__name__)


@dataclass
class WrittenPieces(WriterCommitMessage):  # type: ignore[misc]
    """What one task wrote."""

    pieces: list[Piece]


class KafkaLogWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Made on the driver, where it checks what it can; pickled to the tasks and to the commit."""

    def __init__(self, options: WriteOptions, fields: Iterable[Any], *, overwrite: bool) -> None:
        options.check_columns(fields)
        self._options = options
        self._overwrite = overwrite
        self._made_path = not os.path.exists(options.path)
        self._does_nothing = False
        files = WritableLocalFiles()
        if not self._made_path:
            if files.exists(f"{options.path}/{LOCK_FILE_NAME}"):
                locked_log_dir(files, options.path).lock.close()
            settle_if_nobody_writes(options.path, overwrite=overwrite)
            names = files.list_dir(options.path)
            found = partitions_in(files, options.path, names)
            if options.save_mode == IGNORE and found:
                self._does_nothing = True
                return
            if has_batch(files, options):
                self._does_nothing = True
                _LOG.warning("kafka-log: %s has %s already; nothing is written", options.path, options.batch)
                return
            check_save_mode(options, options.path, found)
            if overwrite:
                check_overwrite(files, options.path, names)
        self._staging = staging_folder(options.path)
        files.make_dirs(self._staging)

    @in_one_line
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenPieces:
        if self._does_nothing:
            return WrittenPieces([])
        number = _task_number()
        folder = f"{self._staging}/task-{number}-{SystemRandom().token_bytes(8).hex()}"
        try:
            os.mkdir(folder)
        except FileNotFoundError as error:
            raise KmirrorError(
                f"{NAME}: {self._staging} is not there: the job ended, or {self._options.path} is not on a disk that the driver and all executors have"
            ) from error
        return WrittenPieces(TaskWriter(self._options, folder, number).write(iterator))

    @in_one_line
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._does_nothing:
            return
        pieces = [piece for message in messages if isinstance(message, WrittenPieces) for piece in message.pieces]
        LogCommit(self._options, self._staging, overwrite=self._overwrite).run(pieces)
        remove_staging_if_possible(WritableLocalFiles(), self._staging)

    @in_one_line
    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self._does_nothing:
            return
        files = WritableLocalFiles()
        if files.is_dir(self._options.path) and self._is_in_journal(files):
            return
        remove_while_tasks_write(files, self._staging)
        if self._made_path and files.is_dir(self._options.path) and not files.list_dir(self._options.path):
            files.remove_tree(self._options.path)

    def _is_in_journal(self, files: WritableLocalFiles) -> bool:
        """Whether the commit ended in the middle and cannot be undone now. Then what it replaced is
        in the staging folder, for the next write to put back."""
        settle_if_nobody_writes(self._options.path, overwrite=True)
        journal = CommitJournal.read(files, self._options.path)
        return journal is not None and journal.staging == os.path.basename(self._staging)


def _task_number() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())
