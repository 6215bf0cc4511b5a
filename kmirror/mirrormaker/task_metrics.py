"""What any task of a worker measures, under the names of Connect's MBean.

    kafka.connect:type=connector-task-metrics,connector=c,task=0
        batch-size-avg, batch-size-max                          records that one poll brought
        offset-commit-avg-time-ms, offset-commit-max-time-ms    commits that succeeded
        offset-commit-success-percentage,
        offset-commit-failure-percentage                        of the attempts of the last windows

As in Connect, a commit that finds nothing to store is one that succeeded, the two percentages are
fractions of 1, and all is over Kafka's two windows of 30 seconds. Before the first attempt Connect
says 0 to both percentages; here they are NaN, since nothing is known yet. With exactly-once support
a commit is that of a transaction, in which the offsets are.

`status`, `running-ratio` and `pause-ratio` of the same MBean are in `herder.worker_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kmirror.common.ports import Clock
from kmirror.common.sensors import Avg, AvgMinMax, MetricConfig

TASK: Final = "connector-task-metrics"
_CONFIG: Final = MetricConfig()


class TaskMeter:
    """Of one task."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._commits, self._commit_times, self._batches = Avg(), AvgMinMax(), AvgMinMax()

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Around an attempt to commit offsets. One that is cut off has failed."""
        began_ms = self._clock.monotonic_ms()
        try:
            yield
        except BaseException:
            self._commits.record(_CONFIG, 0.0, self._clock.monotonic_ms())
            raise
        now_ms = self._clock.monotonic_ms()
        self._commits.record(_CONFIG, 1.0, now_ms)
        self._commit_times.record(_CONFIG, now_ms - began_ms, now_ms)

    def batch_polled(self, records: int) -> None:
        self._batches.record(_CONFIG, records, self._clock.monotonic_ms())

    def read_task(self) -> Iterator[tuple[str, float]]:
        now_ms = self._clock.monotonic_ms()
        succeeded = self._commits.measure(_CONFIG, now_ms)
        yield "batch-size-avg", self._batches.measure(_CONFIG, now_ms)
        yield "batch-size-max", self._batches.greatest(_CONFIG, now_ms)
        yield "offset-commit-avg-time-ms", self._commit_times.measure(_CONFIG, now_ms)
        yield "offset-commit-max-time-ms", self._commit_times.greatest(_CONFIG, now_ms)
        yield "offset-commit-success-percentage", succeeded
        yield "offset-commit-failure-percentage", 1.0 - succeeded
