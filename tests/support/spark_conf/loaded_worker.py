"""Runs `python ARGUMENTS` for a Spark session of the tests. Of PySpark's daemons, which fork a worker
for each task, it loads what the workers import before the first fork.

PySpark collects garbage after every task. What was loaded here is exempt from that (`gc.freeze`),
which is half of what a task of a few rows costs.
"""

from __future__ import annotations

import gc
import importlib
import runpy
import sys

DAEMON = ["-m", "pyspark.daemon"]


def main(arguments: list[str]) -> None:
    assert arguments[0] == "-m", f"Spark starts its workers as modules, not with {arguments}"
    if arguments[:2] == DAEMON:
        for name in (*arguments[2:], "kmirror.spark.data_source"):
            importlib.import_module(name)
        gc.collect()
        gc.freeze()
    del sys.path[0]  # this folder
    sys.argv[1:] = arguments[2:]
    runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)


main(sys.argv[1:])
