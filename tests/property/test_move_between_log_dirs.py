"""A replica is moved between log directories while its log is appended to, cut, started later,
restarted, in any order: what is there after the move is what the current log had (a cut did not
reach the future log, which put foreign batches back).
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.brokers.move_machine import MoveMachine

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.sampled_from(("cut", "start", "cut_fully")), st.integers(0, 30)),
    st.tuples(st.just("cut"), st.integers(0, 30)),
    st.tuples(st.just("copy"), st.integers(1, 12)),
    st.tuples(st.sampled_from(("accept", "epoch", "restart", "restart_old", "remember", "move", "roll")), st.just(0)),
)
Steps = list[tuple[str, int]]


async def step(machine: MoveMachine, name: str, number: int) -> None:
    match name:
        case "append":
            machine.append(number)
        case "cut":
            machine.cut(min(number, machine.log.log_end_offset))
        case "cut_fully":
            machine.cut_fully(number)
        case "start":
            machine.move_log_start(number)
        case "copy":
            await machine.advance(25 * number)
        case "accept":
            machine.accept()
        case "epoch":
            machine.new_epoch()
        case "remember":
            machine.remember_future()
        case "restart":
            machine.restart()
        case "restart_old":
            machine.restart(old_future=True)
        case "roll":
            machine.log.roll()
        case "move":
            machine.begin_move()


A_CUT_AFTER_THE_COPY: Steps = [("append", 1)] * 10 + [("copy", 12), ("cut", 3)] + [("append", 1)] * 7 + [("accept", 0), ("copy", 12)]
A_CUT_THAT_THE_POWER_TOOK_BACK: Steps = (
    [("append", 1)] * 8 + [("copy", 12), ("remember", 0), ("cut", 2)] + [("append", 1)] * 6 + [("restart_old", 0), ("copy", 4)]
)
A_START_IN_A_BATCH: Steps = [("append", 3), ("append", 3), ("start", 4), ("move", 0), ("copy", 9)]


@pytest.mark.parametrize("leader", [1, 2])
@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
@example(steps=A_CUT_AFTER_THE_COPY)
@example(steps=A_CUT_THAT_THE_POWER_TOOK_BACK)
@example(steps=A_START_IN_A_BATCH)
def test_the_log_behind_a_move_is_the_log_before_it(leader: int, steps: Steps) -> None:
    async def scenario(root: Path) -> None:
        machine = MoveMachine(root, leader=leader)
        machine.append()
        machine.begin_move()
        for name, number in steps:
            await step(machine, name, number)
            machine.check()
        await machine.finish()
        machine.check()
        assert not machine.moves.failed
        machine.append()
        machine.restart()
        machine.check()
        machine.stop()

    with tempfile.TemporaryDirectory() as root:
        asyncio.run(scenario(Path(root)))
