"""The progress of a Spark job, reported while the driver waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

POLL_S: Final = 0.25


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
