"""Registers the data source with a session, and what Spark lacks for it. A client of Spark Connect
has no JVM, so what it lacks is mended in another way (`connect_session`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kmirror.common.errors import KmirrorError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OLDEST: Final = (4, 1)


def register(spark: SparkSession) -> None:
    """Registers `kafka-log` with a session. From then on reads push filters down and `count()` uses
    headers, and writes know every save mode. In a session of Spark Connect the server needs kmirror,
    too."""
    check_version()
    from kmirror.spark.counting import count_from_headers
    from kmirror.spark.data_source import NAME, KafkaLogDataSource
    from kmirror.spark.hadoop_settings import hand_on_settings
    from kmirror.spark.pushdown import PUSHDOWN, mark_loads
    from kmirror.spark.save_modes import save_in_all_modes

    if is_connect(spark):
        from kmirror.spark.connect_session import mend_connect_session

        spark.dataSource.register(KafkaLogDataSource)
        mend_connect_session(spark, NAME)
        return
    hand_on_settings(spark)
    spark.dataSource.register(KafkaLogDataSource)
    mark_loads(NAME)
    count_from_headers(NAME)
    save_in_all_modes(NAME)
    spark.conf.set(PUSHDOWN, "true")


def check_version() -> None:
    """KmirrorError for a PySpark that is too old. 4.0 would say something else: that a source of this
    name exists, or that a class cannot be imported."""
    import pyspark

    found = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if found < OLDEST:
        raise KmirrorError(f"kmirror needs PySpark {OLDEST[0]}.{OLDEST[1]} or newer, and 4.2 for streams; this is {pyspark.__version__}")


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is a client of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")
