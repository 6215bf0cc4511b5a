"""Whatever keeps a mirrored partition from its source's end, `--describe` has a reason while it lasts
and none afterwards, and the log has a few lines, not one for each try.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors

Undo = Callable[[], None]
UNLIMITED = (1 << 63) - 1
LASTS_MS = 8_000
MOST_LINES = 6


def open_transaction(machine: MirrorMachine) -> Undo:
    log = machine.source.log("t")
    log.last_stable_offset = log.end

    def undo() -> None:
        log.last_stable_offset = None

    return undo


def source_quota(machine: MirrorMachine) -> Undo:
    machine.source.throttle_time_ms = 1_000

    def undo() -> None:
        machine.source.throttle_time_ms = 0

    return undo


def own_throttle(machine: MirrorMachine) -> Undo:
    quota = machine.replica_manager.quotas.mirror
    quota.update_throttled_replicas("t", "*", 1)
    quota.update_quota(1)
    quota.record(100_000)

    def undo() -> None:
        quota.update_throttled_replicas("t", None, 1)
        quota.update_quota(UNLIMITED)
        quota.begin_anew()

    return undo


def dead_source(machine: MirrorMachine) -> Undo:
    address = machine.source.addresses[1]
    machine.source.down.add(address)
    return lambda: machine.source.down.discard(address)


def without_leader(machine: MirrorMachine) -> Undo:
    log = machine.source.log("t")
    log.leader = 7

    def undo() -> None:
        log.leader = 1

    return undo


def refusing(error: Errors) -> Callable[[MirrorMachine], Undo]:
    def apply(machine: MirrorMachine) -> Undo:
        log = machine.source.log("t")
        log.error = error

        def undo() -> None:
            log.error = Errors.NONE

        return undo

    apply.__name__ = error.name
    return apply


OBSTACLES = (
    open_transaction,
    source_quota,
    own_throttle,
    dead_source,
    without_leader,
    refusing(Errors.TOPIC_AUTHORIZATION_FAILED),
    refusing(Errors.UNKNOWN_SERVER_ERROR),
)


class Lines(logging.Handler):
    """What the mirror's rooms tell above INFO."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


async def play(log_dir: str, obstacles: list[Callable[[MirrorMachine], Undo]], lines: Lines) -> None:
    machine = MirrorMachine(log_dir)
    await machine.mirroring(batch(0, b"a", epoch=1))
    await machine.advance(1_000)
    for obstacle in obstacles:
        lines.texts.clear()
        undo = obstacle(machine)
        await machine.advance(1_000)  # the long poll that was under way is answered
        end = machine.source.log("t").end
        machine.at_source(batch(end, b"x", b"y", epoch=1))
        await machine.advance(LASTS_MS, step_ms=200)
        row = machine.mirror.describe(MIRROR)[0]
        assert row.destination_offset < end + 2, f"{obstacle.__name__} keeps nothing back"
        assert row.reason, f"{obstacle.__name__} is a wait without a reason: {row}"
        undo()
        machine.source.notify()
        await machine.advance(3 * LASTS_MS, step_ms=200)
        row = machine.mirror.describe(MIRROR)[0]
        assert (row.destination_offset, row.lag, row.reason) == (end + 2, 0, None), f"after {obstacle.__name__}: {row}"
        assert len(lines.texts) <= MOST_LINES, f"{obstacle.__name__}: {lines.texts}"
    await machine.close()


@pytest.mark.parametrize("obstacle", OBSTACLES, ids=lambda each: each.__name__)
def test_every_obstacle_has_a_reason(obstacle: Callable[[MirrorMachine], Undo]) -> None:
    run([obstacle])


@pytest.mark.soak
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(OBSTACLES), min_size=2, max_size=3))
def test_whatever_comes_after_whatever(obstacles: list[Any]) -> None:
    run(obstacles)


def run(obstacles: list[Callable[[MirrorMachine], Undo]]) -> None:
    lines, logger = Lines(), logging.getLogger("kmirror.mirror")
    logger.addHandler(lines)
    try:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(play(folder, obstacles, lines))
    finally:
        logger.removeHandler(lines)
