"""Why pushed filters are safe here, though Spark shares them between queries.

Spark keeps what a Python source planned (`readInfo`: tasks and filters) once per `load()`, not per query: a query with filters overwrites
it, one without uses what is there, and two scans of one DataFrame in one plan (a union, a self-join) both run with the filters that came
last. Seen with Spark 4.3.0: silently missing rows. Three things make it right again, whatever the order of planning and running:

1. Spark evaluates every filter again; what was pushed only chooses what is read.
2. What is pushed only widens: the filters of all queries on one `load()` are remembered under its id, and their hull is what is read.
   So whatever plan runs with whatever was stored last, it reads at least what it asked for.
3. Every query must push something, or 2 does not see it. So `load()` gives the frame a filter that is always true (the marker),
   and where the marker is missing (SQL on a view made with USING) all is read, now and later.

A query without filters therefore ends pushing for that DataFrame: load again to read less. The hulls are small files in the folder for
temporary files of the driver's machine, where Spark's planning workers run one after the other.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kmirror.spark.filters import Pushed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.datasource import Filter

_NOT_THERE: Final = -2_000_000_001
MARKERS: Final[dict[str, Any]] = {
    "position": _NOT_THERE,
    "crc": _NOT_THERE,
    "last_offset": _NOT_THERE,
    "base_offset": _NOT_THERE,
    "segment": "\x00none",
    "offset": _NOT_THERE,
    "partition": _NOT_THERE,
    "topic": "\x00none",
}
"""No row has these values and none of these columns is ever null, so `column <> value` is always true; the first one there is used.
Spark drops it where a query says `column = constant`, hence the unusual ones first."""
KEEP_S: Final = 7 * 24 * 3600
_LOAD_ID: Final = re.compile(r"[0-9a-f]{32}")


def mark(frame: DataFrame) -> DataFrame:
    """The same rows, with the marker; the frame itself if it has no column that can be pushed."""
    from pyspark.sql.functions import lit

    for name, value in MARKERS.items():
        if name in frame.columns:
            return frame.filter(frame[name] != lit(value))
    return frame


def mark_loads(source_name: str) -> None:
    """From now on `spark.read...load()` marks the frames of this source."""
    from pyspark.sql import DataFrameReader

    original = DataFrameReader.load
    if getattr(original, "marks_loads", False):
        return

    def load(self: DataFrameReader, *arguments: Any, **options: Any) -> DataFrame:
        frame = original(self, *arguments, **options)
        return mark(frame) if _is_from(frame, source_name) else frame

    load.__doc__ = original.__doc__
    load.marks_loads = True  # type: ignore[attr-defined]
    DataFrameReader.load = load


def _is_from(frame: Any, source_name: str) -> bool:
    plan = frame._jdf.queryExecution().analyzed()
    return bool(plan.getClass().getSimpleName() == "DataSourceV2Relation" and plan.table().name() == source_name)


def has_marker(filters: Iterable[Filter]) -> bool:
    from pyspark.sql.datasource import EqualTo, Not

    return any(
        isinstance(one, Not)
        and isinstance(one.child, EqualTo)
        and len(one.child.attribute) == 1
        and MARKERS.get(one.child.attribute[0]) == one.child.value
        for one in filters
    )


def widen(load_id: str, pushed: Pushed) -> Pushed:
    """The hull of `pushed` and of all that was pushed for this load before; remembered for the next."""
    assert _LOAD_ID.fullmatch(load_id), f"a load's id, not {load_id!r}"
    folder = Path(tempfile.gettempdir()) / f"kmirror-spark-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        return Pushed(offset_column=pushed.offset_column)
    _forget_old(folder)
    with (folder / load_id).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        data = file.read()
        hull = pushed.hull(pickle.loads(data)) if data else pushed
        file.truncate(0)
        file.write(pickle.dumps(hull))
    return hull


def _forget_old(folder: Path) -> None:
    oldest = time.time() - KEEP_S
    for path in folder.iterdir():
        if path.stat().st_mtime < oldest:
            path.unlink(missing_ok=True)
