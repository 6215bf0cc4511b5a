"""A node's process sets the cycle collector for a heap that is large and stays."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kmirror import node_main
from kmirror.runtime import collector
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.server.kafka_config import KafkaConfig


@pytest.fixture(autouse=True)
def _collector_as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


class StartedServer:
    """A node without anything; what the collector was set to when it started."""

    thresholds_at_start: tuple[int, ...] = ()

    def __init__(self, config: KafkaConfig, runtime: AsyncioRuntime) -> None:
        self.fatal = runtime.create_future()

    async def start(self) -> None:
        StartedServer.thresholds_at_start = gc.get_threshold()

    async def stop(self) -> None: ...


def test_a_node_walks_neither_what_it_started_with_nor_each_quarter_of_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_main, "KafkaServer", StartedServer)
    frozen: list[int] = []

    def on_started(_: Any) -> None:
        frozen.append(gc.get_freeze_count())
        os.kill(os.getpid(), signal.SIGTERM)

    assert asyncio.run(node_main.serve(cast(KafkaConfig, SimpleNamespace(node_id=1)), on_started=on_started)) == 0
    assert StartedServer.thresholds_at_start == collector.THRESHOLDS
    assert frozen[0] > 1_000
    assert gc.get_threshold() == collector.THRESHOLDS


def test_cycles_made_later_are_still_freed() -> None:
    collector.collect_rarely()
    collector.leave_alone_what_is_there()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
