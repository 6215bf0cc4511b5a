"""What a leader's driver does when its leader epoch changes: by its own bump, by another's, or by
an unclean election.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite, StoredState
from kmirror.mirror.logs.local_log import cut
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State


async def test_a_leader_epoch_that_no_bump_of_ours_explains_makes_the_state_unknown_until_it_is_read_again(tmp_path: Path) -> None:
    """Another broker led in between and wrote a state, so this one must not act on what it
    remembers (D3-26, C38).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    states = machine.mirror.states
    answer: asyncio.Future[StoredState] = asyncio.get_running_loop().create_future()
    ask, asked = states.read_one, 0

    async def read_one(partition: Any) -> StoredState:
        nonlocal asked
        asked += 1
        await answer
        return await ask(partition)

    states.read_one = read_one  # type: ignore[method-assign]
    for state in (State.PAUSING, State.PAUSED):
        await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, state)])
    machine.change(bump=2)
    await machine.settle()
    assert asked == 1 and not machine.driver().status.loaded
    assert machine.produce(batch(1, b"x")) is Errors.NOT_LEADER_OR_FOLLOWER, "retriable, while nobody knows"
    machine.at_source(batch(1, b"b"))
    await machine.advance(1_000)
    written = machine.states_written()
    assert written[-2:] == ["PAUSING", "PAUSED"]
    answer.set_result(StoredState(State.PAUSED))
    await machine.advance(2_000)
    assert machine.states_written()[len(written) :] == ["MIRRORING"], "from PAUSED, as the topic's name wants it"
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 2
    await machine.close()


async def test_a_bump_of_ours_is_no_election(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    asked: list[Any] = []
    ask = machine.mirror.states.read_one

    async def read_one(partition: Any) -> StoredState:
        asked.append(partition)
        return await ask(partition)

    machine.mirror.states.read_one = read_one  # type: ignore[method-assign]
    epoch = machine.registration().leader_epoch
    bump = asyncio.ensure_future(machine.driver().led.bump(epoch))
    await machine.settle()
    await bump
    assert machine.registration().leader_epoch > epoch
    assert asked == [] and machine.driver().status.loaded and machine.state() == "MIRRORING"
    await machine.close()


async def test_the_restart_of_a_single_broker_told_of_an_unclean_election_for_every_partition(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller elects the only replica, uncleanly; no other one could have been elected.

    Once, this logged 2,000 lines for 1,000 topics.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    for _ in range(2):
        machine.change(recovering=True)
        await machine.advance(1_000)
    assert machine.state() == "MIRRORING" and machine.log().log_end_offset == 1
    assert "uncleanly" not in caplog.text
    await machine.close()


async def test_a_cut_leaves_no_epoch_of_this_cluster_without_a_batch(tmp_path: Path) -> None:
    """Before the topic was in a mirror, its leader noted its own epoch at the log end. The source's
    batches, of lower epochs, would come after it.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    partition = machine.partition("t")
    machine.change(bump=6)
    assert machine.log().latest_epoch == 6 and machine.log().latest_batch_epoch() is None
    assert cut(partition, partition.log.log_end_offset) == 0
    assert machine.log().latest_epoch is None, "also where no batch is cut"
    await machine.close()


async def test_what_a_fetcher_rejected_under_an_earlier_leadership_failed_the_partition(tmp_path: Path) -> None:
    """Other brokers led in between, and what they did may be the cause of the rejection."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.driver().on_rejected("malformed batch")
    machine.change(bump=2)
    await machine.advance(3_000)
    assert machine.states_written() == ["PREPARING", "MIRRORING"] and machine.driver().status.reason is None
    await machine.close()


async def test_replicas_that_are_missing_were_told_anew_at_each_try(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once, the text had the time that had passed, so it was new at each try."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source.create("t")
    machine.topic(replicas=(1, 2), mirror_support_unclean_leader_election="true")
    machine.change(isr=(1,))
    await machine.advance(50_000, step_ms=1000)
    assert machine.state() == "PREPARING"
    assert [record.getMessage() for record in caplog.records if "not in the ISR" in record.getMessage()] == [
        "mirror m, PREPARING: t-0: replicas [2] are not in the ISR, but mirror.support.unclean.leader.election=true requires all of them"
    ]
    await machine.close()
