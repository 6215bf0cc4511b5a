"""What becomes of a record that cannot be transformed, converted or written (Connect's
`RetryWithToleranceOperator`, `LogReporter` and `ErrorHandlingMetrics`).

    errors.tolerance=none             the task fails, and names the record's error
    errors.tolerance=all              the record is skipped
    errors.log.enable                 a line for each such record, with either
    errors.log.include.messages       ... and what is in it
    errors.retry.timeout, errors.retry.delay.max.ms
                                      repeat what Connect calls retriable; nothing that these
                                      transformations and converters throw is

With exactly-once support a record that cannot be written fails the task with either, as in Connect,
because its transaction is lost.

    kafka.connect:type=task-error-metrics,connector=c,task=0
        total-record-failures, total-record-errors, total-records-skipped, total-retries,
        total-errors-logged, last-error-timestamp, deadletterqueue-produce-requests, -failures

As in Connect, what cannot be written counts as a failure only, and not as a record that is skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.metrics import MetricName, MetricsRegistry, Value
from kmirror.common.ports import Clock
from kmirror.mirrormaker.transforms import Failed

PRODUCE_STAGE: Final = "KAFKA_PRODUCE"
PRODUCE_CLASS: Final = "org.apache.kafka.connect.runtime.WorkerSourceTask"
_log = logging.getLogger(__name__)


class ErrorSettings(NamedTuple):
    tolerates_all: bool = False
    log: bool = False
    log_messages: bool = False


@dataclass
class ErrorCounts:
    """Of one task. Times are ms."""

    failures: int = 0
    errors: int = 0
    skipped: int = 0
    logged: int = 0
    last_error_ms: int = 0

    def read(self) -> Iterator[tuple[str, int]]:
        yield "total-record-failures", self.failures
        yield "total-record-errors", self.errors
        yield "total-records-skipped", self.skipped
        yield "total-retries", 0
        yield "total-errors-logged", self.logged
        yield "deadletterqueue-produce-requests", 0
        yield "deadletterqueue-produce-failures", 0
        yield "last-error-timestamp", self.last_error_ms


class ErrorHandlingMetrics:
    """Of all tasks of a worker."""

    def __init__(self, registry: MetricsRegistry, flow: str | None = None) -> None:
        """`flow` tells workers apart that share a registry."""
        self._tags = () if flow is None else (("flow", flow),)
        self._tasks: dict[tuple[str, int], ErrorCounts] = {}
        registry.add_collector(self._collect)

    @contextmanager
    def of_task(self, connector: str, task: int) -> Iterator[ErrorCounts]:
        """The counts of a task that runs, from 0 on; they are gone with it."""
        counts = self._tasks[connector, task] = ErrorCounts()
        try:
            yield counts
        finally:
            if self._tasks.get((connector, task)) is counts:
                del self._tasks[connector, task]

    def _collect(self) -> Iterator[tuple[MetricName, Value]]:
        for (connector, task), counts in self._tasks.items():
            tags = (*self._tags, ("connector", connector), ("task", str(task)))
            for attribute, value in counts.read():
                yield MetricName("kafka.connect", "task-error-metrics", "", tags, attribute), value


class RecordErrors:
    """The errors of one life of a task, whose name is `connector-number`."""

    def __init__(self, task: str, settings: ErrorSettings, counts: ErrorCounts, clock: Clock) -> None:
        self._task = task
        self._settings = settings
        self._counts = counts
        self._clock = clock

    @property
    def tolerates_all(self) -> bool:
        return self._settings.tolerates_all

    def failed(self, failed: Failed, described: Callable[[], str]) -> None:
        """A record could not be made; `described` returns what it was. KmirrorError unless it is skipped."""
        self._counts.failures += 1
        self._counts.errors += 1
        self._counts.last_error_ms = self._clock.time_ms()
        self._report(failed.stage, failed.java_class, failed.error.described, described)
        if not self.tolerates_all:
            raise KmirrorError(
                f"Tolerance exceeded in error handler: {failed.error.described} ({failed.stage} by {failed.java_class}; "
                "errors.tolerance=all skips such records)"
            )
        self._counts.skipped += 1

    def not_written(self, error: Exception, described: Callable[[], str]) -> None:
        """A record was refused, and is skipped; for a task that tolerates it."""
        self._counts.failures += 1
        self._counts.last_error_ms = self._clock.time_ms()
        self._report(PRODUCE_STAGE, PRODUCE_CLASS, str(error), described)

    def _report(self, stage: str, java_class: str, error: str, described: Callable[[], str]) -> None:
        if not self._settings.log:
            return
        record = f", where source record is = {described()}" if self._settings.log_messages else ""
        _log.error("Error encountered in task %s. Executing stage '%s' with class '%s'%s. %s", self._task, stage, java_class, record, error)
        self._counts.logged += 1


def described_record(
    source: Mapping[str, object], offset: int, topic: str, partition: int, key: bytes | None, value: bytes | None, rest: str
) -> str:
    """A record as Connect writes it, but with the content of its bytes."""
    origin = ", ".join(f"{name}={one}" for name, one in source.items())
    return (
        f"SourceRecord{{sourcePartition={{{origin}}}, sourceOffset={{offset={offset}}}}} ConnectRecord{{topic='{topic}', "
        f"kafkaPartition={partition}, key={_shown(key)}, keySchema=Schema{{BYTES}}, value={_shown(value)}, valueSchema=Schema{{BYTES}}, {rest}}}"
    )


def described_headers(headers: list[tuple[str, bytes | None]]) -> str:
    shown = ", ".join(f"ConnectHeader(key={key}, value={_shown(value)}, schema=Schema{{BYTES}})" for key, value in headers)
    return f"ConnectHeaders(headers={f'[{shown}]' if headers else ''})"


def _shown(value: bytes | None) -> str:
    return "null" if value is None else ascii(value)[1:]
