"""Lets Spark itself find `spark.read.format("kafka-log")`, without a call of
`kmirror.spark.register`.

Spark imports the top-level modules whose names begin with `pyspark_` and uses their
`DefaultSource`, so the installed package has this file at the top level (`pyproject.toml`,
force-include). Spark imports it in a separate process, which cannot change the driver: until
`register(spark)` is called, filters are not pushed down and `count()` makes all columns. The
options that select (`subscribe`, `startingOffsets`, `columns` ...) work either way.
"""

from kmirror.spark.data_source import KafkaLogDataSource

__all__ = ["DefaultSource"]


class DefaultSource(KafkaLogDataSource):
    """`kafka-log`."""
