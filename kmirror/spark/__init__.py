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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kmirror.spark.batch_append import append_batches
    from kmirror.spark.registration import register
    from kmirror.spark.session import spark_session
    from kmirror.spark.shuffled_write import write_log

__all__ = ["append_batches", "register", "spark_session", "write_log"]

_LAZY = {"append_batches": "batch_append", "register": "registration", "spark_session": "session", "write_log": "shuffled_write"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
