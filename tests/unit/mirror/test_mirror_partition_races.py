"""What a partition's driver must notice while it waits: a change of leader, a failing disk, an
answer that cannot be read.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from support.mirrors.mirror_machine import MIRROR, REFRESH_MS, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite, StoredState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.mirror.partition.stopping import Stopping
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.primitives import ProtocolReadError


async def test_a_state_that_was_read_before_the_leader_changed_was_taken_for_the_newest(tmp_path: Path) -> None:
    """The broker loses and regains the leadership while the answer to its first question is under
    way, so that answer is outdated.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    states = machine.mirror.states
    answer: asyncio.Future[StoredState] = asyncio.get_running_loop().create_future()
    ask, asked = states.read_one, 0

    async def read_one(partition: Any) -> StoredState:
        nonlocal asked
        asked += 1
        return await (answer if asked == 1 else ask(partition))

    states.read_one = read_one
    machine.name(MIRROR)
    await machine.settle()
    machine.change(bump=2)
    for state in (State.PREPARING, State.MIRRORING):
        await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, state)])
    answer.set_result(StoredState(State.STOPPED, 3))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert machine.produce(batch(0, b"x")) is not Errors.NONE
    await machine.settle()
    assert asked >= 2 and machine.state() == "MIRRORING"
    assert machine.produce(batch(0, b"x")) is Errors.READ_ONLY_TOPIC
    await machine.close()


async def test_a_leader_change_while_the_new_leader_wrote_its_state_again_was_forgotten(tmp_path: Path) -> None:
    """After the second election the leader must again do what a new leader does (D3-28), although
    it was still doing so for the first one.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING)])
    states, written = machine.mirror.states, 0
    write = states.write_one

    async def write_one(partition: Any, what: StateWrite) -> int:
        nonlocal written
        if what.rewrite:
            written += 1
            if written == 1:
                machine.change(bump=2)
        return await write(partition, what)

    states.write_one = write_one
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert written == 2
    await machine.close()


async def test_a_disk_that_cannot_be_read_made_the_removal_of_a_failed_partition_spin(tmp_path: Path, monkeypatch: Any) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.driver().on_rejected("malformed batch")
    await machine.reach("FAILED")
    tries = 0

    async def unreadable(stopping: Stopping) -> int:
        nonlocal tries
        tries += 1
        await asyncio.sleep(0)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Stopping, "last_mirror_epoch_on_entry", unreadable)
    machine.name("m.removed")
    await machine.advance(10_000)
    assert 1 <= tries <= 4, "one try every mirror.truncation.backoff.ms"
    assert machine.state() == "FAILED" and machine.driver().status.reason == "malformed batch"
    await machine.close()


async def test_a_topic_that_came_back_at_the_source_was_paused_again_when_it_was_resumed(tmp_path: Path) -> None:
    """The last refresh of the source's topics is older than the answer with which PREPARING begins
    (D3-4).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    topic_id = machine.source.topic_ids.pop("t")
    await machine.advance(3 * REFRESH_MS, step_ms=1_000)
    await machine.reach("STOPPED")
    machine.source.topic_ids["t"] = topic_id
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert machine.cache.image.configs.topic("t")["mirror.name"] == MIRROR
    await machine.close()


async def test_bytes_that_are_no_answer_ended_the_fetcher_for_good(tmp_path: Path) -> None:
    """Another program listens at that port for a moment, and its answer cannot be read."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    fetching = [client for client in machine.clients if "fetcher" in client.client_id]
    ask = fetching[0].api_version

    async def api_version(*args: Any, **options: Any) -> int:
        raise ProtocolReadError("not enough bytes")

    fetching[0].api_version = api_version
    machine.at_source(batch(1, b"b"))
    await machine.settle()
    machine.at_source(batch(2, b"c"))
    await machine.settle()
    assert (machine.log().log_end_offset, machine.driver().status.reason) == (2, "source broker source-1:9092: not enough bytes")
    fetching[0].api_version = ask
    await machine.advance(3_000)
    assert machine.log().log_end_offset == 3
    await machine.close()


async def test_what_was_known_of_a_deleted_topic_was_taken_for_its_successor(tmp_path: Path) -> None:
    """The successor has its own records and never mirrored, so its epochs are not the source's
    (F6).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    coordinator = machine.mirror.coordinator
    for state in (State.PREPARING, State.MIRRORING, State.STOPPING, State.STOPPED):
        await coordinator.write_states(MIRROR, [StateWrite("t", 0, state)])
    await coordinator.write_states(MIRROR, [], ["t"])
    stored = (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0]
    assert stored == StoredState()
    await machine.close()


async def test_an_error_of_the_sender_that_nobody_expected_left_the_askers_waiting(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    writes = machine.mirror.states.writes
    send = writes._send

    async def broken(key: Any, items: Any) -> Any:
        raise AssertionError("a bug")

    writes._send = broken
    machine.runtime.report_failure = lambda message, error=None: None
    waiting = [asyncio.ensure_future(writes.submit(("m", 1), StateWrite("t", 0))) for _ in range(2)]
    done = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
    assert all(isinstance(each, Exception) for each in done)
    writes._send = send
    await asyncio.wait_for(machine.mirror.states.write_one(machine.driver().id, StateWrite("t", 0)), 5)
    await machine.close()


async def test_a_mirror_that_was_created_anew_at_once_found_what_was_stored_of_the_deleted_one(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    coordinator = machine.mirror.coordinator
    await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING, 7)])
    read = coordinator._shards.read

    async def read_late(*args: Any) -> Any:
        answer = await read(*args)
        await asyncio.sleep(0)
        return answer

    coordinator._shards.read = read_late
    servers = machine.cache.image.configs.mirror(MIRROR)["bootstrap.servers"]
    for value in (None, servers):
        machine.apply(ConfigRecord(resource_type=64, resource_name=MIRROR, name="bootstrap.servers", value=value))
        await asyncio.sleep(0)
    await machine.settle()
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    await machine.close()


async def test_a_removal_that_comes_before_the_pause_of_a_deleted_sources_topic_was_undone_by_it(tmp_path: Path) -> None:
    """The controller refuses the pause, and the partition stops as the operator said (D3-22)."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))

    def removed_first(request: Any) -> Exception | None:
        if machine.cache.image.configs.topic("t")["mirror.name"] != MIRROR:
            return None
        machine.name("m.removed")
        return ApiException(Errors.INVALID_REQUEST)

    machine.mirror_controller.fail = removed_first
    machine.driver().on_source_deleted()
    await machine.reach("STOPPED", within_ms=1_000)
    assert machine.cache.image.configs.topic("t")["mirror.name"] == "m.removed"
    assert machine.states_written()[-2:] == ["STOPPING", "STOPPED"]
    await machine.close()


async def test_a_refresh_that_missed_a_topic_before_its_removal_counted_after_it_was_added_again(tmp_path: Path) -> None:
    """Two refreshes in a row must miss the topic, and the first one belonged to an earlier
    association. Once, a single answer paused the topic as deleted at its source (D3-22).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    source_id = machine.source.topic_ids["t"]

    async def missed_once() -> None:
        del machine.source.topic_ids["t"]
        await machine.mirror.metadata_manager.refresh(MIRROR)
        machine.source.topic_ids["t"] = source_id
        await machine.settle()

    await missed_once()
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.name("m")
    await machine.reach("MIRRORING")
    await missed_once()
    assert (machine.cache.image.configs.topic("t")["mirror.name"], machine.state()) == (MIRROR, "MIRRORING")
    await missed_once()
    assert machine.cache.image.configs.topic("t")["mirror.name"] == "m.paused", "which are two in a row"
    await machine.close()
