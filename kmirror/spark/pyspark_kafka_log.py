"""Found by Spark itself: `spark.read.format("kafka-log")` without a call of `kmirror.spark.register`.

Spark imports the top-level modules whose names begin with `pyspark_` and takes their `DefaultSource`; so the installed package has this file at the
top (`pyproject.toml`, force-include). It does so in a process of its own, which cannot help the driver: filters are not pushed down and `count()`
makes all columns, until `register(spark)` is called. The options that select (`subscribe`, `startingOffsets`, `columns` ...) do their part either way.
"""

from kmirror.spark.data_source import KafkaLogDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KafkaLogDataSource):
    """`kafka-log`."""
