"""What Spark lacks for the source, in a client of Spark Connect.

A Connect client has no JVM: it sends plans, and the server's Python workers run the source, so the
server needs kmirror, too. The same three things are mended as in a classic session, from what a
client has:

    filters     `load()` marks its frame and the load (`pushdown`). The hulls are on the server's
                side, where its planning workers are.
    count()     of a whole load, and of nothing else: it adds up the record counts of batches. A
                client cannot see what a filter's expression needs.
    save modes  `error` and `ignore` become `append` with the real mode in an option. The path is
                the server's, so the source's writer looks there (`log_writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.spark.counting import narrowed_options
from kmirror.spark.options import MARKED
from kmirror.spark.pushdown import PUSHDOWN, mark
from kmirror.spark.replaced_methods import replace_once
from kmirror.spark.save_modes import ERROR
from kmirror.spark.write_options import IGNORE, SAVE_MODE

if TYPE_CHECKING:
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter
    from pyspark.sql.connect.session import SparkSession

_LOAD: Final = "_kafka_log_load"
"""The attribute of a marked frame's plan that holds the plan of the load."""


def mend_connect_session(spark: SparkSession, source_name: str) -> None:
    """Makes `load()`, `count()` and `save()` of Spark Connect know this source, and has filters
    pushed down in this session."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.readwriter import DataFrameReader, DataFrameWriter

    replace_once(DataFrameReader, "load", lambda original: _marking_load(original, source_name))
    replace_once(DataFrame, "count", lambda original: _count_from_headers(original, source_name))
    replace_once(DataFrameWriter, "save", lambda original: _save_in_all_modes(original, source_name))
    spark.conf.set(PUSHDOWN, "true")


def _marking_load(original: Callable[..., Any], source_name: str) -> Callable[..., Any]:
    def load(self: DataFrameReader, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        is_ours = str(format or self._format or "").lower() == source_name
        if not is_ours or self._client.conf.get(PUSHDOWN, "false") != "true":
            return original(self, path, format, schema, **options)
        loaded = original(self, path, format, schema, **{**options, MARKED: "true"})
        marked: Any = mark(loaded)
        if marked is not loaded:
            setattr(marked._plan, _LOAD, loaded._plan)
        return marked

    return load


def _count_from_headers(original: Callable[..., int], source_name: str) -> Callable[..., int]:
    def count(self: DataFrame) -> int:
        load: Any = getattr(self._plan, _LOAD, None)
        if load is None or load._schema:
            return int(original(self))
        changed = _batch_options(load._options, load._paths)
        if changed is None or _is_cached(self):
            return int(original(self))
        from pyspark.sql.connect.functions import sum as total

        counted = self.sparkSession.read.format(source_name).options(**changed).load(load._paths)
        return int(counted.agg(total("record_count")).collect()[0][0] or 0)

    return count


def _batch_options(options: Mapping[str, str], paths: Sequence[str] | None) -> dict[str, str] | None:
    """Returns options for rows of batches with their record counts; None if these do not say how many
    rows the load has. `paths` are given to `load()`, and stay there."""
    place = {"path": paths[0]} if paths else {}
    try:
        narrowed = narrowed_options({**options, **place}, ())
    except KmirrorError:
        return None  # Spark's own count will report it
    if narrowed is None or not narrowed.sums:
        return None
    return {name: value for name, value in narrowed.options.items() if name not in place}


def _is_cached(frame: DataFrame) -> bool:
    level = frame.storageLevel
    return bool(level.useMemory or level.useDisk)


def _save_in_all_modes(original: Callable[..., None], source_name: str) -> Callable[..., None]:
    def save(
        self: DataFrameWriter, path: Any = None, format: str | None = None, mode: str | None = None, partitionBy: Any = None, **options: Any
    ) -> None:
        chosen = str(mode or self._write.mode or "error").lower()
        is_ours = str(format or self._write.source or "").lower() == source_name
        if not is_ours or chosen not in (*ERROR, IGNORE):
            original(self, path, format, mode, partitionBy, **options)
        else:
            original(self, path, format, "append", partitionBy, **{**options, SAVE_MODE: chosen})

    return save
