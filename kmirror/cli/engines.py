"""Chooses the engine of a tool that reads logs.

`--engine auto|local|spark` and `--master URL` mean the same in all these tools.
"""

from __future__ import annotations

from typing import Final

from kmirror.cli.log_diff_inputs import spark_is_installed
from kmirror.common.errors import KmirrorError

ENGINES: Final = ("auto", "local", "spark")
SPARK_THRESHOLD_BYTES: Final = 64 << 30


def chosen_engine(engine: str, master: str | None, *, is_remote: bool, size_bytes: int, not_on_spark: str | None = None) -> str:
    """Returns local or spark.

    `not_on_spark` says why Spark cannot read this input; None if it can. KmirrorError if Spark was
    asked for and cannot be used.
    """
    if engine == "local" and master is not None:
        raise KmirrorError("--master can only be used with --engine spark; --engine local runs on this machine")
    if engine == "spark" or master is not None:
        if not_on_spark is not None:
            raise KmirrorError(not_on_spark)
        if not spark_is_installed():
            raise KmirrorError("--engine spark needs pyspark and pyarrow; install kmirror[spark]")
        return "spark"
    is_large = is_remote or size_bytes > SPARK_THRESHOLD_BYTES
    return "spark" if engine == "auto" and not_on_spark is None and is_large and spark_is_installed() else "local"
