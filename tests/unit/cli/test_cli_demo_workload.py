"""The demonstration's writers, while a topic cannot be written to yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kmirror.cli.demo_workload import TOPICS, Workload


class Refusal:
    """As librdkafka's KafkaError, which leaves an exception behind when it is compared with None;
    it surfaces wherever C code runs next.
    """

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise TypeError("'NoneType' object cannot be interpreted as an integer")


class RefusedOnce:
    """A producer whose first record of each partition is refused."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._reports: list[Callable[[], object]] = []

    def produce(self, topic: str, *, value: bytes, partition: int, on_delivery: Callable[[Any, Any], object]) -> None:
        error = None if (topic, partition) in self._seen else Refusal()
        self._seen.add((topic, partition))
        self._reports.append(lambda: on_delivery(error, None))

    def flush(self, timeout_s: float) -> int:
        while self._reports:
            self._reports.pop()()
        return 0


def test_a_refused_probe_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = Workload("127.0.0.1:1")
    monkeypatch.setattr(workload, "_producers", {name: RefusedOnce() for name in TOPICS})
    workload.wait_until_writable(5)
    assert workload.probes == sum(partitions for partitions, _ in TOPICS.values())
