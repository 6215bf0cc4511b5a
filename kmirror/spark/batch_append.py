"""`foreachBatch(append_batches(path, ...))`: appends each micro-batch of a query to a log.dir once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.spark.options import NAME
from kmirror.spark.registration import is_connect, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERY: Final = "sql.streaming.queryId"
"""The local property by which Spark tells a micro-batch whose it is. The id is in the checkpoint,
so a restart has the same one and a new checkpoint another one."""


def append_batches(path: str, **options: Any) -> Callable[[DataFrame, int], None]:
    """Returns a function for `foreachBatch` that appends each micro-batch to the log.dir at `path`,
    once even if Spark runs the micro-batch again.

    `options` are those of `log_writer`, with underscores for dots. `txnAppId` names the writer; by
    default it is the query's id and the option topic. A query with two of these functions for one
    log.dir has to give each a name. KmirrorError in Spark Connect without `txnAppId`.
    """

    def append(frame: DataFrame, number: int) -> None:
        register(frame.sparkSession)
        given = {name.replace("_", "."): value for name, value in options.items()}
        if "txnAppId" not in given:
            given["txnAppId"] = f"{_query_of(frame)} {given.get('topic', '')}".rstrip()
        frame.write.format(NAME).mode("append").options(**given, txnVersion=number).save(path)

    return append


def _query_of(frame: DataFrame) -> str:
    session = frame.sparkSession
    found = None if is_connect(session) else session.sparkContext.getLocalProperty(_QUERY)
    if not found:
        raise KmirrorError(
            f"{NAME}: who writes this micro-batch is not known here; give append_batches(path, txnAppId='a name of your own')"
        )
    return str(found)
