"""Whether a task hears of its source: what a consumer tries again in silence is told here.

A consumer asks for ever, as Kafka's does, while brokers are away, a partition has no leader or is
refused. That is well for some seconds, in which a leader moves. After TOLD_AFTER_MS the log says what
goes wrong, again each TOLD_AGAIN_MS, and once when it is over. A task of which nothing is answered is
not heard of any more, so its state becomes unknown (`kept_running`). A task that gets other
partitions is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from kmirror.common.ports import Clock

TOLD_AFTER_MS: Final = 10_000
TOLD_AGAIN_MS: Final = 60_000
_log = logging.getLogger(__name__)


class WatchedConsumer(Protocol):
    """What a `KafkaConsumer` tells about its fetches."""

    @property
    def answered_fetches(self) -> int: ...
    def trouble(self) -> str | None: ...


class SourceWatch:
    """`task` and `source` are names for the log."""

    def __init__(self, clock: Clock, consumer: WatchedConsumer, task: str, source: str) -> None:
        self._clock = clock
        self._consumer = consumer
        self._task, self._source = task, source
        self._answers = 0
        self._answered_ms = clock.monotonic_ms()
        self._troubled_ms: int | None = None
        self._told_ms: int | None = None
        self.fault: str | None = None
        """What goes wrong, once it was told; None when it is over."""

    def polled(self, heard: Callable[[], object]) -> None:
        """Looks at the consumer after each poll; calls `heard` unless nothing is answered."""
        now_ms = self._clock.monotonic_ms()
        trouble = self._consumer.trouble()
        answers = self._consumer.answered_fetches
        if trouble is None or answers != self._answers:
            self._answers, self._answered_ms = answers, now_ms
            heard()
        if trouble is None:
            self._is_over(now_ms)
            return
        if self._troubled_ms is None:
            self._troubled_ms = now_ms
        if now_ms - self._troubled_ms < TOLD_AFTER_MS:
            return
        self.fault = self._said(now_ms, trouble)
        if self._told_ms is None or now_ms - self._told_ms >= TOLD_AGAIN_MS:
            self._told_ms = now_ms
            _log.warning("[%s] %s", self._task, self.fault)

    def _said(self, now_ms: int, trouble: str) -> str:
        silent_ms = now_ms - self._answered_ms
        if silent_ms >= TOLD_AFTER_MS:
            return f"{self._source} has not answered for {silent_ms // 1000} s: {trouble}"
        troubled_ms = now_ms - (self._troubled_ms or now_ms)
        return f"not all partitions of {self._source} could be read for {troubled_ms // 1000} s: {trouble}"

    def _is_over(self, now_ms: int) -> None:
        if self._told_ms is not None and self._troubled_ms is not None:
            _log.info("[%s] %s answers again, after %d s", self._task, self._source, (now_ms - self._troubled_ms) // 1000)
        self._troubled_ms = self._told_ms = self.fault = None
