"""The keys of compacted logs on Spark: rows of hashes go through the shuffle, so that all rows of a
key come together.

Tasks read slices of about 64 MB and send their rows on by bucket. Buckets are packed, by the number
of records that the logs are known to have, so that each task after the shuffle holds about
`TASK_ROWS` rows, whatever the number of keys. The driver gets counts.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from kmirror.record.columns import Int64s
from kmirror.spark.job_progress import collected, watched
from kmirror.spark.one_line import in_one_line
from kmirror.spark.visible import files_of_task
from kmirror.verify.planner import pack_by
from kmirror.verify.replay.compaction import BUCKET_ROWS, ROW_WIDTH, KeyCounts, KeyLog, KeyScope, Rows, by_bucket, judge, merge, scan_slice
from kmirror.verify.slices import LogSlice
from kmirror.verify.unpacking import Unpacker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ROWS: Final = 2 * BUCKET_ROWS
"""About how many rows one task judges: 16 MB, plus what sorting one bucket takes."""
SENT_ROWS: Final = 1 << 16
"""How many rows a reading task gathers before it sends them on."""


class KeyPiece(NamedTuple):
    """A slice, and the number of its log."""

    log: int
    piece: LogSlice
    bucket_bits: int


class ShuffledKeys(NamedTuple):
    """What goes through the shuffle: rows of one bucket as bytes, or the counts of a slice."""

    log: int
    bucket: int
    rows: bytes
    counts: KeyCounts


def count_keys_on_spark(spark: SparkSession, logs: Sequence[KeyLog], progress: Callable[[int], None]) -> list[KeyCounts]:
    """Returns the counts of each log, in their order."""
    context = spark.sparkContext
    pieces = [KeyPiece(number, piece, log.bucket_bits) for number, log in enumerate(logs) for piece in log.slices]
    tasks = pack_by(pieces, lambda one: one.piece.size)
    scopes = {number: log.scope for number, log in enumerate(logs)}
    packed = pack_by(_buckets(logs), lambda one: one[2], task_bytes=TASK_ROWS, open_cost=1)
    target = {(log, bucket): number for number, some in enumerate(packed) for log, bucket, _ in some}

    @in_one_line
    def read(data: bytes) -> Iterator[tuple[int, ShuffledKeys]]:
        for sent in _read(pickle.loads(data)):
            yield target[sent.log, sent.bucket], sent

    @in_one_line
    def judged(keyed: Iterable[tuple[int, ShuffledKeys]]) -> Iterator[tuple[int, KeyCounts]]:
        yield from _judged((sent for _, sent in keyed), scopes)

    if not tasks:
        return [KeyCounts() for _ in logs]
    given = [pickle.dumps([(one, scopes[one.log]) for one in task]) for task in tasks]
    rows = context.parallelize(given, len(given)).flatMap(read)
    counted = rows.partitionBy(len(packed), lambda number: number).mapPartitions(judged)
    found = [KeyCounts() for _ in logs]
    with watched(context, [sum(one.piece.size for one in task) for task in tasks], progress):
        for number, counts in collected(counted):
            found[number] = merge(found[number], counts)
    return found


def _buckets(logs: Sequence[KeyLog]) -> Iterator[tuple[int, int, int]]:
    """Yields (log, bucket, about how many rows)."""
    for number, log in enumerate(logs):
        for bucket in range(1 << log.bucket_bits):
            yield number, bucket, log.records >> log.bucket_bits


def _read(pieces: list[tuple[KeyPiece, KeyScope]]) -> Iterator[ShuffledKeys]:
    unpacker = Unpacker()
    for one, scope in pieces:
        files = files_of_task(one.piece.location)
        waiting: list[tuple[Int64s, Rows]] = []

        def hold(buckets: Int64s, rows: Rows, waiting: list[tuple[Int64s, Rows]] = waiting) -> None:
            waiting.append((buckets, rows))

        counts = scan_slice(files, one.piece, scope, one.bucket_bits, hold, unpacker)
        yield ShuffledKeys(one.log, 0, b"", counts)
        if waiting:
            buckets, rows = (np.concatenate(some) for some in zip(*waiting))
            for bucket, some in by_bucket(buckets, rows):
                yield ShuffledKeys(one.log, bucket, some.tobytes(), KeyCounts())


def _judged(sent: Iterable[ShuffledKeys], scopes: dict[int, KeyScope]) -> Iterator[tuple[int, KeyCounts]]:
    rows: dict[tuple[int, int], list[bytes]] = {}
    counts: dict[int, KeyCounts] = {}
    for one in sent:
        if one.rows:
            rows.setdefault((one.log, one.bucket), []).append(one.rows)
        else:
            counts[one.log] = merge(counts.get(one.log, KeyCounts()), one.counts)
    for log, bucket in list(rows):
        found = np.frombuffer(b"".join(rows.pop((log, bucket))), dtype=np.int64).reshape(-1, ROW_WIDTH)
        counts[log] = merge(counts.get(log, KeyCounts()), judge(found, scopes[log]))
    yield from counts.items()
