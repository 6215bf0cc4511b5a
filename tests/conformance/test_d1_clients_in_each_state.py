"""What clients may do with a mirrored partition in each of its states (D1).

One broker's whole mirroring runs on real logs. Its source is scripted, and the tests fetch for its
followers.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mirrors.mirror_machine import MIRROR, T0, MirrorMachine
from support.mirrors.scripted_source import batch
from support.mirrors.stored_states import store

from kmirror.common.errors import ApiException, Errors
from kmirror.mirror.logs.local_log import cut, cut_fully
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.replica.partition_reader import fetch_offset_for_timestamp, last_offset_for_leader_epoch
from kmirror.storage.log_append_info import AppendOrigin

WRITES = {
    State.PREPARING: Errors.READ_ONLY_TOPIC, State.MIRRORING: Errors.READ_ONLY_TOPIC, State.PAUSED: Errors.READ_ONLY_TOPIC,
    State.STOPPING: Errors.NOT_LEADER_OR_FOLLOWER, State.STOPPED: Errors.NONE, State.FAILED: Errors.READ_ONLY_TOPIC,
}  # fmt: skip


@pytest.mark.parametrize("state", list(WRITES))
async def test_d1_what_a_state_lets_clients_write_and_read(tmp_path: Path, state: State) -> None:
    machine = MirrorMachine(str(tmp_path))
    await store(machine, state)
    machine.local(batch(0, b"a"))
    machine.at_source(batch(0, b"a"))
    machine.log().update_high_watermark(1)
    if state in (State.PREPARING, State.STOPPING):  # nobody answers, so that it stays in it
        machine.source.down.update(machine.source.addresses.values())
        machine.mirror_controller.fail = lambda request: ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
    removed = state in (State.STOPPING, State.STOPPED)
    machine.name("m.removed" if removed else "m.paused" if state is State.PAUSED else MIRROR)
    await machine.settle()
    assert machine.state() == state.name
    assert machine.produce(batch(0, b"x")) is WRITES[state]
    partition = machine.partition("t")
    assert await machine.follow(99) == b""
    assert fetch_offset_for_timestamp(partition, timestamp=-2, isolation_level=0, current_leader_epoch=None).error is Errors.NONE
    assert last_offset_for_leader_epoch(partition, current_leader_epoch=None, leader_epoch=0).error is Errors.NONE
    assert machine.mirror.fetchers.owns(T0) is (state is State.MIRRORING)
    await machine.close()


@pytest.mark.parametrize("state", list(WRITES))
async def test_d1_what_a_state_lets_retention_delete(tmp_path: Path, state: State) -> None:
    """The broker keeps nothing by its default. While the topic is a copy its records stay (FEA3)."""
    machine = MirrorMachine(str(tmp_path), props={"log.retention.bytes": "0"})
    await store(machine, state)
    machine.local(batch(0, b"a"))
    machine.at_source(batch(0, b"a"))
    machine.log().update_high_watermark(1)
    if state in (State.PREPARING, State.STOPPING):
        machine.source.down.update(machine.source.addresses.values())
        machine.mirror_controller.fail = lambda request: ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
    removed = state in (State.STOPPING, State.STOPPED)
    machine.name("m.removed" if removed else "m.paused" if state is State.PAUSED else MIRROR)
    machine.log_manager.tasks.cleanup_logs()
    assert machine.log().log_start_offset == 0, "the state is not loaded yet"
    await machine.settle()
    assert machine.state() == state.name
    machine.log_manager.tasks.cleanup_logs()
    assert machine.log().log_start_offset == (machine.log().log_end_offset if state is State.STOPPED else 0)
    if state is State.STOPPED:
        machine.produce(batch(0, b"b"))
        machine.change(leader=2, replicas=(1, 2))  # a follower waits for its leader's log start
        end = machine.partition("t").local_log.log_end_offset
        machine.log_manager.tasks.cleanup_logs()
        assert machine.partition("t").local_log.log_start_offset == end - 1
    await machine.close()


async def test_d1_a_produce_that_waits_fails_when_the_partition_becomes_read_only(tmp_path: Path) -> None:
    """Otherwise it would be acknowledged when the source's records pass its offset (F3)."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source.down.update(machine.source.addresses.values())
    machine.topic(value=None, replicas=(1, 2))
    waiting = machine.replica_manager.append_records(
        timeout_ms=60_000, required_acks=-1, origin=AppendOrigin.CLIENT, entries={T0: bytearray(batch(0, b"a"))}
    )
    assert not waiting.done()
    machine.name(MIRROR)
    await machine.settle()
    assert (await waiting)[T0].error is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.close()


@pytest.mark.parametrize("to_nothing", [False, True])
async def test_d1_a_produce_that_waits_fails_before_a_cut(tmp_path: Path, to_nothing: bool) -> None:
    """The same holds for a produce that came to wait although the partition is read-only (F3)."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(value=None, replicas=(1, 2))
    waiting = machine.replica_manager.append_records(
        timeout_ms=60_000, required_acks=-1, origin=AppendOrigin.CLIENT, entries={T0: bytearray(batch(0, b"a"))}
    )
    partition = machine.partition("t", 0)
    removed = cut_fully(partition, 0) if to_nothing else cut(partition, 0)
    assert (removed, waiting.done()) == (1, True)
    assert (await waiting)[T0].error is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.close()


@pytest.mark.parametrize("state", [State.MIRRORING, State.PAUSED, State.FAILED])
async def test_c38_a_removed_topic_is_refused_with_an_error_that_is_tried_again(tmp_path: Path, state: State) -> None:
    """The question is whether the partition is about to be writable, whatever its state is called."""
    machine = MirrorMachine(str(tmp_path))
    await store(machine, state)
    machine.name("m.paused" if state is State.PAUSED else MIRROR)
    await machine.settle()
    assert machine.produce(batch(0, b"x")) is Errors.READ_ONLY_TOPIC
    machine.mirror.states.write_one = never  # the next state cannot be written yet
    machine.name("m.removed")
    assert machine.state() == state.name and machine.produce(batch(0, b"x")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.close()


async def test_c38_a_failed_over_partition_whose_state_is_lost_is_refused_with_such_an_error_too(tmp_path: Path) -> None:
    """`__mirror_state` was made anew, or the partition is new: it is stopped (again), to be written
    to.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(value="m.removed", replicas=(1, 2))
    await machine.settle()
    assert machine.state() == "STOPPING" and machine.produce(batch(0, b"x")) is Errors.NOT_LEADER_OR_FOLLOWER
    machine.followers.add(2)
    await machine.reach("STOPPED")
    assert machine.produce(batch(0, b"x")) is Errors.NONE
    await machine.close()


async def never(*arguments: object) -> int:
    raise ApiException(Errors.COORDINATOR_NOT_AVAILABLE)


async def test_d1_unknown_is_retriable(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,), state_leader=2)
    machine.topic()
    await machine.advance(1_000)
    assert machine.state() == "UNKNOWN" and machine.produce(batch(0, b"x")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.close()
