"""Writes a frame whose rows are in no order: `df.write` expects each task's rows sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kmirror.common.errors import KmirrorError
from kmirror.spark.options import NAME
from kmirror.spark.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_log(frame: DataFrame, path: str, *, mode: str = "error", **options: Any) -> None:
    """Shuffles, sorts and writes a frame whose rows are in no order: one task writes each
    partition, its records sorted by offset.

    `options` are those of `log_writer`, with underscores for dots (`compression_type="zstd"`). The
    frame must have a column `partition`. Without a column `offset`, a partition's records are
    sorted by `timestamp_ms` or `timestamp`, if there is one. Raises KmirrorError or Spark's error
    if the frame cannot be written.
    """
    register(frame.sparkSession)
    columns = frame.columns
    if "partition" not in columns:
        raise KmirrorError(f"{NAME}: write_log shuffles by column partition, which the frame does not have; use df.write instead")
    place = [name for name in ("topic", "partition") if name in columns]
    order = next(([name] for name in ("offset", "timestamp_ms", "timestamp") if name in columns), [])
    sorted_frame = frame.repartition(*place).sortWithinPartitions(*place, *order)
    writer = sorted_frame.write.format(NAME).mode(mode)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "."), value)
    writer.save(path)
