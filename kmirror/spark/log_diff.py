"""`kafka-log-diff --engine spark`: one task a pair of partitions, the same function as on one machine.

Folders are listed on the driver; a task carries the names and sizes of the files of both logs, reads them where it runs and sends back its
verdict as JSON. With paths instead of URIs every executor must see the same disk.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kmirror.spark.files import file_system_for
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.compared_log import DirectoryLog
from kmirror.verify.log_diff import DiffSettings, diff_logs
from kmirror.verify.verdict import PartitionVerdict, to_json, verdict_from_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LogDescription = tuple[str, PartitionFiles, int, int | None, int]
"""Where it is (path or URI), its files, log start offset, high watermark, cleaned offset."""


def diff_on_spark(
    spark: SparkSession, pairs: Sequence[tuple[DirectoryLog, DirectoryLog]], left: str, right: str, settings: DiffSettings
) -> list[PartitionVerdict]:
    """A verdict for each pair, in no particular order. `left` and `right` are the inputs as given, to open them on the executors."""
    ordered = sorted(pairs, key=lambda pair: -(pair[0].size_bytes + pair[1].size_bytes))
    tasks = [pickle.dumps((_describe(one, left), _describe(other, right), settings)) for one, other in ordered]
    if not tasks:
        return []
    answers: list[bytes] = spark.sparkContext.parallelize(tasks, len(tasks)).map(_diff_task).collect()
    return [verdict_from_json(answer) for answer in answers]


def _describe(log: DirectoryLog, location: str) -> LogDescription:
    return location, log.partition, log.log_start_offset, log.high_watermark, log.cleaned_offset


def _open(description: LogDescription) -> DirectoryLog:
    location, partition, log_start_offset, high_watermark, cleaned_offset = description
    files, _ = file_system_for(location)
    return DirectoryLog(files, partition, log_start_offset=log_start_offset, high_watermark=high_watermark, cleaned_offset=cleaned_offset)


def _diff_task(task: bytes) -> bytes:
    left, right, settings = pickle.loads(task)
    return to_json(diff_logs(_open(left), _open(right), settings))
