"""Why pushed filters are safe here, though Spark shares them between queries.

Spark keeps what a Python source planned (`readInfo`: tasks and filters) once per `load()`, not per
query. A query with filters overwrites it, one without filters uses what is there, and two scans of
one DataFrame in one plan (a union, a self-join) both run with the filters that came last. Spark
4.3.0 was seen to lose rows silently in this way. Three measures make the result right, whatever the
order of planning and running:

1. Spark evaluates every filter again; pushed filters only select what is read.
2. What is pushed only widens: the filters of all queries on one `load()` are remembered under its
   id, and their hull is read. So any plan that runs with whatever was stored last reads at least
   what it asked for.
3. Every query must push something, or 2 does not see it. So our `load()` gives the frame a filter
   that is always true (the marker), and tells the source so with an option (`options.MARKED`).
   Spark drops the marker only for a filter on the same column that implies it, and then it pushes
   that filter. Without the option (SQL on a view made with USING, a session without `register`)
   nothing is pushed at all.

Spark hands filters over in a process of its own, which cannot read all of them: see
`know_far_times`.

So a query without filters ends pushdown for its DataFrame; call `load()` again to read less. The
hulls are small files in the temporary folder of the driver's machine, where Spark's planning
workers run one after the other.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kmirror.spark.filters import FarTime, Pushed
from kmirror.spark.options import MARKED
from kmirror.spark.replaced_methods import replace_once

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader

_NOT_THERE: Final = -2_000_000_001
MARKERS: Final[dict[str, Any]] = {
    "position": _NOT_THERE,
    "last_offset": _NOT_THERE,
    "base_offset": _NOT_THERE,
    "segment": "\x00none",
    "offset": _NOT_THERE,
    "partition": _NOT_THERE,
    "topic": "\x00none",
}
"""No row has these values, and none of these columns is ever null (not even in a `_corrupt` row).
So `column <> value` is always true. The first column that the frame has is used."""
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
KEEP_S: Final = 7 * 24 * 3600
_LOAD_ID: Final = re.compile(r"[0-9a-f]{32}")


def mark(frame: DataFrame) -> DataFrame:
    """Returns the same rows with the marker, or the frame itself if it has no column that can be
    pushed."""
    columns = frame.columns
    for name, value in MARKERS.items():
        if name in columns:
            return frame.filter(frame[name] != value)
    return frame


def mark_loads(source_name: str) -> None:
    """Makes `spark.read...load()` mark the frames of this source."""
    from pyspark.sql import DataFrameReader

    replace_once(DataFrameReader, "format", _remembering_format)
    replace_once(DataFrameReader, "load", lambda original: _marking_load(original, source_name))


def _remembering_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def remember_format(self: DataFrameReader, source: str) -> DataFrameReader:
        self._kafka_log_format = source
        return original(self, source)

    return remember_format


def _marking_load(original: Callable[..., Any], source_name: str) -> Callable[..., Any]:
    def load(self: DataFrameReader, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> DataFrame:
        is_ours = str(format or getattr(self, "_kafka_log_format", "")).lower() == source_name
        if not is_ours or self._spark.conf.get(PUSHDOWN, "false") != "true":
            return original(self, path, format, schema, **options)
        return mark(original(self, path, format, schema, **{**options, MARKED: "true"}))

    return load


def know_far_times() -> Callable[[], None]:
    """Makes this process read filters with times before year 1 and after 9999, and returns what
    undoes that. Spark has such times. Python's `datetime` has not, and a planning worker fails on
    one before a source is asked for its filters."""
    from pyspark.sql.variant_utils import VariantUtils

    original = vars(VariantUtils).get("_get_timestamp")
    if original is None:
        return lambda: None

    def read(cls: Any, value: bytes, position: int, *zone: Any) -> Any:
        try:
            return original.__get__(None, cls)(value, position, *zone)
        except OverflowError:
            return FarTime.from_bytes(value[position + 1 : position + 9], "little", signed=True)

    def undo() -> None:
        VariantUtils._get_timestamp = original

    VariantUtils._get_timestamp = classmethod(read)
    return undo


def widen(load_id: str, pushed: Pushed) -> Pushed:
    """Returns the hull of `pushed` and everything pushed for this load before, and remembers it for
    the next call."""
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
        with suppress(FileNotFoundError):  # another session forgets too
            if path.stat().st_mtime < oldest:
                path.unlink()
