"""The demonstration's writers, while a topic cannot be written to yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kmirror.cli.demo_workload import TOPICS, Workload


class RefusedOnce:
    """A producer whose first record of each partition is refused."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._reports: list[Callable[[], object]] = []

    def produce(self, topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], object]) -> None:
        error = None if (topic, partition) in self._seen else KafkaError(KafkaError._MSG_TIMED_OUT)
        self._seen.add((topic, partition))
        self._reports.append(lambda: on_delivery(error, None))

    def flush(self, timeout_s: float) -> int:
        while self._reports:
            self._reports.pop()()
        return 0


def test_a_refused_probe_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's KafkaError compared with None leaves an exception behind, which surfaces wherever C code runs next."""
    workload = Workload("127.0.0.1:1")
    monkeypatch.setattr(workload, "_producers", {name: RefusedOnce() for name in TOPICS})
    workload.wait_until_writable(5)
    assert workload.probes == sum(partitions for partitions, _ in TOPICS.values())
    assert time.monotonic() > 0
