"""Answers questions about logs on disk: are two logs equal, are the files beside a log right?

In: folders of logs, local or remote, through the `FileSystem` port. Out: rows of tables and
verdicts (`verdict.py`). A slice of a segment becomes columns, columns become partial results, and
partial results are merged into a verdict. These are plain functions over bytes; the engine that
runs them (this process, a process pool, or Spark) is the caller's.

Start reading: `planner.py` (how an input becomes tasks), `log_diff.py` (compares two logs of a
partition), and `replay/` (recomputes what a broker writes beside its segments).

`cli` and `spark` import this room, and no other does: brokers do not need it, and `sim` must not
import it. It imports `storage`, `record`, `wire` and `common`, and neither asyncio nor pyspark.
"""
