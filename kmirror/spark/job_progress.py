"""A Spark job whose rows come to the driver: its progress while the driver waits for it, and its
failure as one line.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from kmirror.common.errors import KmirrorError

POLL_S: Final = 0.25
_TOLD: Final = re.compile(r"^:? ?(?:[\w$]+\.)*(?P<kind>\w*(?:Error|Exception)): (?P<text>.+)$")
_OF_A_TASK: Final = "most recent failure: "
_OURS: Final = ("KmirrorError", "CorruptFileError", "DataLossError", "SparkException")
"""Kinds whose text says everything."""


def collected(rows: Any) -> list[Any]:
    """Returns the rows of an RDD. KmirrorError, in one line, if Spark gives the job up: a failed
    task's own error, without what Java and Python say around it."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        found: list[Any] = rows.collect()
    except (Py4JJavaError, PySparkException) as error:
        raise KmirrorError(f"Spark's job failed: {reason_of(str(error))}") from error
    return found


def reason_of(text: str) -> str:
    """Returns the line of an error of Spark's that says what is wrong: the last one before the
    frames of Java, which is the Python error's if there is one."""
    lines = text.partition("\tat ")[0].strip().splitlines()
    told = next((found for line in reversed(lines) if (found := _TOLD.match(line.strip()))), None)
    if told is None:
        return next(iter(lines), "no reason was given")
    words = told["text"].partition(_OF_A_TASK)[2] or told["text"]
    return words if told["kind"] in _OURS else f"{told['kind']}: {words}"


@contextmanager
def watched(context: Any, sizes: Sequence[int], progress: Callable[[int], None]) -> Iterator[None]:
    """Watches the jobs that run inside the `with` block: one stage, with one task for each of
    `sizes`. `progress` gets the bytes as tasks end.

    Spark says how many tasks have ended, not which ones, so each counts as the average size until
    the job is done.
    """
    from py4j.protocol import Py4JError

    total = sum(sizes)
    if not total:
        yield
        return
    told = 0
    is_done = threading.Event()
    tracker = context.statusTracker()
    before = set(tracker.getJobIdsForGroup())

    def tell(ended: int) -> None:
        nonlocal told
        size = total * ended // len(sizes)
        progress(size - told)
        told = size

    def poll() -> None:
        while not is_done.wait(POLL_S):
            try:
                stages = [stage for job in set(tracker.getJobIdsForGroup()) - before for stage in tracker.getJobInfo(job).stageIds]
                tell(min(sum(tracker.getStageInfo(stage).numCompletedTasks for stage in stages), len(sizes)))
            except (Py4JError, AttributeError):
                continue  # Spark has forgotten the job or not begun it: wait; the job reports errors

    watcher = threading.Thread(target=poll, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        is_done.set()
        watcher.join()
    tell(len(sizes))
