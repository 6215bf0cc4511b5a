"""AddTopicsToMirror for a topic that this cluster lacks: what a broker awaits after creating it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.mirrors.mirror_machine import MIRROR, MirrorMachine

from kmirror.common.errors import Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import StoredState
from kmirror.mirror.topic_creation import create_missing_topics
from kmirror.wire.messages import create_topics


class Controller:
    """A controller that creates topics at once."""

    def __init__(self, machine: MirrorMachine) -> None:
        self._machine = machine

    async def send(self, message: Any) -> create_topics.CreateTopicsResponse:
        rows = []
        for topic in message.topics:
            self._machine.topic(topic.name, None)
            rows.append(create_topics.CreatableTopicResult(name=topic.name, error_code=0))
        return create_topics.CreateTopicsResponse(topics=rows)


async def begin_creation(tmp_path: Path, *, timeout_ms: int) -> tuple[MirrorMachine, asyncio.Future[dict[str, Errors]], Callable[[], None]]:
    """Begins to create `u` while the coordinator does not hear of it.

    Returns the machine, the task, and a function that lets the coordinator hear.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.source.create("u")
    coordinator, behind = machine.mirror.coordinator, machine.cache.image
    now = coordinator._image
    coordinator._image = lambda: behind

    def hear() -> None:
        coordinator._image = now

    creation = create_missing_topics(machine.mirror, machine.runtime, Controller(machine), MIRROR, ["u"], timeout_ms=timeout_ms)
    return machine, asyncio.ensure_future(creation), hear


async def test_a_coordinator_that_had_not_heard_of_the_new_topic_had_it_refused_as_unknown(tmp_path: Path) -> None:
    machine, task, hear = await begin_creation(tmp_path, timeout_ms=5_000)
    await machine.advance(1_000)
    assert machine.cache.image.topics.topic("u") is not None and not task.done()
    hear()
    await machine.advance(100)
    assert task.result() == {}
    states = await machine.mirror.states.read(machine.mirror.mirror_partitions(MIRROR, ["u"]))
    assert states == {("u", 0): StoredState()}
    await machine.close()


async def test_a_topic_that_its_coordinator_does_not_hear_of_in_time_is_the_requests_error(tmp_path: Path) -> None:
    machine, task, _ = await begin_creation(tmp_path, timeout_ms=500)
    await machine.advance(700)
    error = task.exception()
    assert getattr(error, "error", None) is Errors.REQUEST_TIMED_OUT
    await machine.close()
