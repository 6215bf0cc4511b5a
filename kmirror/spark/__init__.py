"""The data pipeline: Kafka's log folders as DataFrames, and the log diff on a cluster.

    from kmirror.spark import register, spark_session

    spark = spark_session("my-app")                                   # or: register(an existing session)
    records = spark.read.format("kafka-log").load("/var/lib/kafka")   # one row per record
    batches = spark.read.format("kafka-log").option("rows", "batch").load("/var/lib/kafka")
    frame.write.format("kafka-log").option("topic", "t").option("numPartitions", "3").save("/a/log/dir")

Needs `pip install kmirror[spark]`. `data_source` describes columns and options for reading,
`log_writer` those for writing, and `session` how it runs without a JDK.

In: folders of logs, local or remote, or a DataFrame. Out: DataFrames, verdicts and tables, or new
log folders. Tasks run `verify`'s functions on executors. Start reading: `data_source.py`, then
`slice_reader.py`; `stream_reader.py` for streams, `log_writer.py` for writing.

Only `cli` imports this room. It imports `verify`, `storage`, `record`, `wire` and `common`, so an
executor never loads a broker. No room below `cli` imports pyspark or pyarrow but this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kmirror.spark.saving import write_log
    from kmirror.spark.session import spark_session

__all__ = ["register", "spark_session", "write_log"]


def register(spark: SparkSession) -> None:
    """Registers `kafka-log` with a session. From then on reads push filters down and `count()` uses
    headers, and writes know every save mode."""
    from kmirror.spark.counting import count_from_headers
    from kmirror.spark.data_source import NAME, KafkaLogDataSource
    from kmirror.spark.pushdown import PUSHDOWN, mark_loads
    from kmirror.spark.saving import save_in_all_modes

    spark.dataSource.register(KafkaLogDataSource)
    mark_loads(NAME)
    count_from_headers(NAME)
    save_in_all_modes(NAME)
    spark.conf.set(PUSHDOWN, "true")


def __getattr__(name: str) -> Any:
    if name == "spark_session":
        from kmirror.spark.session import spark_session

        return spark_session
    if name == "write_log":
        from kmirror.spark.saving import write_log

        return write_log
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
