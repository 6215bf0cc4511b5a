"""What Spark lacks for `df.write`: the save modes `error` and `ignore`, and writes in threads.

For a Python source, Spark writes only with `append` and `overwrite`; it refuses its default,
`error`, before it asks the source. So our `save()` looks at the log.dir itself and passes on
`append`, with the real mode in an option that lets the commit look again.

Spark looks for a Python source to write to in the session that is active in the thread. A driver's
own threads have none, and there it finds no Python source at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from kmirror.spark.commit_journal import settle_if_nobody_writes
from kmirror.spark.existing_logs import partitions_in
from kmirror.spark.local_writes import WritableLocalFiles
from kmirror.spark.replaced_methods import replace_once
from kmirror.spark.write_options import IGNORE, SAVE_MODE, WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession

ERROR: Final = ("error", "errorifexists", "default")


def save_in_all_modes(source_name: str) -> None:
    """Makes `df.write...save()` support `error` and `ignore` for this source."""
    from pyspark.sql import DataFrameWriter

    replace_once(DataFrameWriter, "save", lambda original: _save_in_all_modes(original, source_name))


def _save_in_all_modes(original: Callable[..., None], source_name: str) -> Callable[..., None]:
    def save(
        self: DataFrameWriter, path: Any = None, format: str | None = None, mode: str | None = None, partitionBy: Any = None, **options: Any
    ) -> None:
        chosen = str(mode or self._jwrite.curmode().toString()).lower()
        is_ours = str(format or self._jwrite.source()).lower() == source_name
        if is_ours:
            _make_active(self._spark)
        if not is_ours or chosen not in (*ERROR, IGNORE):
            original(self, path, format, mode, partitionBy, **options)
        elif chosen != IGNORE or not has_logs(_options(self, path, options)):
            original(self, path, format, "append", partitionBy, **options, **{SAVE_MODE: chosen})

    return save


def _make_active(session: SparkSession) -> None:
    """Makes a session the active one of this thread, unless the thread has one."""
    jvm: Any = session._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    if sessions.getActiveSession().isEmpty():
        sessions.setActiveSession(session._jsparkSession)


def _options(writer: DataFrameWriter, path: str | None, options: dict[str, Any]) -> WriteOptions:
    given = writer._jwrite.extraOptions().toMap()
    iterator = given.iterator()
    found = {}
    while iterator.hasNext():
        pair = iterator.next()
        found[str(pair._1())] = str(pair._2())
    found |= {name: str(value) for name, value in options.items()}
    return WriteOptions.parse(found if path is None else found | {"path": path})


def has_logs(options: WriteOptions) -> bool:
    """Whether the log.dir has a partition's folder."""
    files = WritableLocalFiles()
    settle_if_nobody_writes(options.path)
    return os.path.isdir(options.path) and bool(partitions_in(files, options.path, files.list_dir(options.path)))
