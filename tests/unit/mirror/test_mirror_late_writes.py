"""State writes that are carried out late, twice or not at all: what is stored, and what the
partition's leader does about it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.mirror.coordination import mirror_state_client as client
from kmirror.mirror.coordination.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, StateWrite, StoredState
from kmirror.mirror.coordination.state_offset_tag import NOT_TOLD, NOTHING_STORED
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.network.client import DisconnectError
from kmirror.server.apis import mirror_states as handlers
from kmirror.wire.messages import read_mirror_states, write_mirror_states
from kmirror.wire.primitives import Writer

LATE = (Errors.INVALID_REQUEST, [])
DONE = (Errors.NONE, [])


async def stored(machine: MirrorMachine) -> StoredState:
    found = (await machine.mirror.coordinator.read_states(MIRROR, [("t", 0)]))["t", 0]
    assert isinstance(found, StoredState)
    return found


async def write(machine: MirrorMachine, state: State, follows: int, epoch: int = -1, *, rewrite: bool = False) -> tuple[Errors, list[Any]]:
    """Writes a state, and returns the error and the records that were appended."""
    before = len(machine.state_records())
    errors = await machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", 0, state, epoch, rewrite, follows)])
    return errors["t", 0], machine.state_records()[before:]


async def test_a_late_failed_shut_a_stopped_partition_and_a_late_stopping_stopped_one_that_mirrored_again(tmp_path: Path) -> None:
    """Both transitions are valid (D2); only the record that a request follows shows that it is
    late.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=3))
    first = (await stored(machine)).offset
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert await write(machine, State.FAILED, first) == LATE
    machine.name("m")
    await machine.reach("MIRRORING")
    assert await write(machine, State.STOPPING, first, 3) == LATE
    assert await write(machine, State.FAILED, first) == LATE
    assert (await stored(machine)).state is State.MIRRORING
    machine.driver().on_rejected("malformed batch")
    await machine.reach("FAILED")
    assert (await stored(machine)).state is State.FAILED, "one that is not late is stored"
    await machine.close()


async def test_a_leader_that_is_deposed_and_does_not_know_it_made_a_partition_fail_that_another_mirrors(tmp_path: Path) -> None:
    """The new leader found MIRRORING and wrote nothing, so the record that the old leader's write
    follows is still the newest.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    coordinator, old_epoch = machine.mirror.coordinator, machine.registration().leader_epoch
    machine.change()
    await machine.advance(1_000)
    newest = await stored(machine)
    assert newest.state is State.MIRRORING and newest.offset == machine.driver().status.stored_offset
    for state in (State.FAILED, State.PAUSING, State.STOPPING):
        late = StateWrite("t", 0, state, follows=newest.offset, leader_epoch=old_epoch)
        assert (await coordinator.write_states(MIRROR, [late]))["t", 0] is Errors.INVALID_REQUEST
    assert await stored(machine) == newest
    ours = StateWrite("t", 0, State.FAILED, follows=newest.offset, leader_epoch=machine.registration().leader_epoch)
    assert (await coordinator.write_states(MIRROR, [ours]))["t", 0] is Errors.NONE
    await machine.close()


async def test_a_leader_says_in_which_epoch_it_leads(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.change(bump=3)
    await machine.advance(1_000)
    written: list[StateWrite] = []
    real = machine.mirror.states.write_one

    async def write_one(partition: Any, what: StateWrite) -> int:
        written.append(what)
        return await real(partition, what)

    machine.mirror.states.write_one = write_one
    machine.name("m.paused")
    await machine.reach("PAUSED")
    assert [what.leader_epoch for what in written] == [3, 3]
    await machine.close()


async def test_a_leader_that_learns_that_its_partition_has_failed_went_on_copying(tmp_path: Path) -> None:
    """Its next write is refused, and it looks up what is stored."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    assert (await write(machine, State.FAILED, NOT_TOLD))[0] is Errors.NONE
    machine.name("m.paused")
    await machine.reach("FAILED")
    machine.at_source(batch(1, b"b"))
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 1
    assert not machine.mirror.fetchers.owns(machine.driver().id.topic_partition)
    await machine.close()


async def test_a_write_that_is_sent_again_finds_what_its_first_try_stored(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.settle()
    machine.topic(value=None)
    error, records = await write(machine, State.PREPARING, NOTHING_STORED)
    assert error is Errors.NONE and len(records) == 1
    assert await write(machine, State.PREPARING, NOTHING_STORED, rewrite=True) == DONE
    preparing = (await stored(machine)).offset
    error, records = await write(machine, State.STOPPING, preparing, 5)
    assert error is Errors.NONE and len(records) == 2, "an epoch and a state"
    assert await write(machine, State.STOPPING, preparing, 5) == DONE
    assert await write(machine, State.STOPPING, preparing, 4) == LATE, "not what its first try stored"
    stopping = (await stored(machine)).offset
    assert (await write(machine, State.UNKNOWN, stopping, 3))[0] is Errors.NONE
    assert await write(machine, State.UNKNOWN, stopping, 3) == DONE
    assert await write(machine, State.UNKNOWN, stopping, 5) == LATE, "an epoch that was computed before the cut"
    assert (await write(machine, State.UNKNOWN, NOT_TOLD, CLEAR_LAST_MIRROR_EPOCH))[0] is Errors.NONE
    assert await write(machine, State.UNKNOWN, stopping, CLEAR_LAST_MIRROR_EPOCH) == DONE
    await machine.close()


async def test_which_record_a_write_follows_on_is_told_by_a_coordinator_that_has_loaded_it_too(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=3))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    before = await stored(machine)
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    await machine.advance(100)
    after = await stored(machine)
    assert (after, after.offset) == (before, before.offset) and after.offset > 0
    assert after.offset == machine.driver().status.stored_offset
    await machine.close()


def test_between_brokers_it_is_a_tag_that_the_kip_does_not_define() -> None:
    writer = Writer()
    writes = [StateWrite("t", 0, State.FAILED, follows=7, leader_epoch=5), StateWrite("t", 1, State.FAILED)]
    client._write_request(MIRROR, writes).write(writer, 0)
    message = write_mirror_states.WriteMirrorStatesRequest.read(memoryview(writer.to_bytes()), 0, 0)[0]
    assert [handlers._state_write("t", data) for data in message.topics[0].partitions] == writes
    writer = Writer()
    rows = [handlers._read_result(number, StoredState(State.STOPPED, 3, offset=offset)) for number, offset in enumerate((9, NOT_TOLD))]
    read_mirror_states.ReadMirrorStatesResponse(topics=[read_mirror_states.TopicResult(name="t", partitions=rows)]).write(writer, 0)
    answer = client._read_response(read_mirror_states.ReadMirrorStatesResponse.read(memoryview(writer.to_bytes()), 0, 0)[0])
    found = [answer["t", number] for number in range(2)]
    assert [each.offset for each in found if isinstance(each, StoredState)] == [9, NOT_TOLD]
    results = [handlers._write_result(("t", number), {}, {("t", 0): 11}) for number in range(2)]
    offsets: dict[tuple[str, int], int] = {}
    response = write_mirror_states.WriteMirrorStatesResponse(topics=[write_mirror_states.TopicResult(name="t", partitions=results)])
    assert client._write_response(response, offsets) == {("t", 0): Errors.NONE, ("t", 1): Errors.NONE}
    assert offsets == {("t", 0): 11, ("t", 1): NOT_TOLD}


class Answers:
    """Lets the driver's first `times` writes of `state` end in `error`, stored or not."""

    def __init__(self, machine: MirrorMachine, state: State, error: Exception, *, times: int = 1, is_stored: bool = False) -> None:
        self.left = times
        self.tries = 0
        states = machine.mirror.states
        real = states.write_one

        async def write_one(partition: Any, what: StateWrite) -> int:
            if what.state is not state:
                return await real(partition, what)
            self.tries += 1
            if not self.left:
                return await real(partition, what)
            self.left -= 1
            if is_stored:
                await real(partition, what)
            await asyncio.sleep(0)
            raise error

        states.write_one = write_one


async def test_a_state_that_was_stored_though_its_leader_did_not_hear_it_is_looked_up_at_once(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    answers = Answers(machine, State.PAUSING, DisconnectError("the answer is lost"), is_stored=True)
    machine.name("m.paused")
    await machine.settle()
    assert (answers.left, machine.state()) == (0, "MIRRORING")
    machine.name("m.paused.removed")
    await machine.reach("STOPPED", within_ms=1_000)
    assert machine.states_written()[-3:] == ["PAUSING", "STOPPING", "STOPPED"]
    await machine.close()


@pytest.mark.parametrize(
    "error", [ApiException(Errors.REQUEST_TIMED_OUT), DisconnectError("the answer is lost")], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_pause_that_is_taken_back_while_nobody_knows_whether_it_was_stored_leaves_no_partition_pausing(
    tmp_path: Path, error: Exception, *, is_stored: bool
) -> None:
    """A replica of `__mirror_state` was away, so the write timed out but was stored, and nothing
    asked for another one (found by seed 67328).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    answers = Answers(machine, State.PAUSING, error, is_stored=is_stored)
    machine.name("m.paused")
    await machine.settle()
    assert answers.left == 0
    machine.name("m")
    await machine.advance(5_000)
    assert (machine.state(), (await stored(machine)).state) == ("MIRRORING", State.MIRRORING)
    machine.at_source(batch(1, b"b"))
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 2
    await machine.close()


async def test_a_coordinator_that_answers_and_cannot_write_is_not_asked_all_the_time(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    answers = Answers(machine, State.PAUSING, ApiException(Errors.NOT_ENOUGH_REPLICAS), times=1_000_000)
    machine.name("m.paused")
    await machine.advance(12_000)
    assert 2 <= answers.tries <= 4
    answers.left = 0
    await machine.reach("PAUSED")
    await machine.close()


async def test_a_leader_that_looks_up_its_state_while_it_stops_still_knows_that_it_mirrored(tmp_path: Path) -> None:
    """Another broker's coordinator answers the state and a last mirror epoch that a late removal of
    the topic's predecessor has reset (D3-34).
    """
    machine = MirrorMachine(str(tmp_path))
    is_open = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    await machine.mirroring(batch(0, b"a", epoch=3), batch(1, b"open", epoch=5, **is_open))
    states = machine.mirror.states
    read, real = states.read_one, states.write_one

    async def read_one(partition: Any) -> StoredState:
        return replace(await read(partition), has_mirrored=False)

    states.read_one = read_one
    late: list[StateWrite] = [StateWrite("t", 0, last_mirror_epoch=CLEAR_LAST_MIRROR_EPOCH)]

    async def write_one(partition: Any, what: StateWrite) -> int:
        if what.state is State.UNKNOWN and late:
            await machine.mirror.coordinator.write_states(MIRROR, [late.pop()])
        return await real(partition, what)

    states.write_one = write_one
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert not late and (await stored(machine)).last_mirror_epoch == 3
    await machine.close()


async def test_a_coordinator_that_had_not_read_yet_why_a_partition_prepares_cost_five_seconds(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    coordinator, behind = machine.mirror.coordinator, machine.cache.image
    now = coordinator._image
    coordinator._image = lambda: behind
    answers = Answers(machine, State.PREPARING, DisconnectError("none is lost"), times=0)
    machine.name("m")
    await machine.advance(1_000)
    assert machine.state() == "STOPPED" and 3 <= answers.tries <= 6, "soon, and then ever later"
    coordinator._image = now
    await machine.reach("MIRRORING", within_ms=1_000)
    await machine.close()


async def test_why_a_partition_fails_was_forgotten_when_failed_could_not_be_stored(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    answers = Answers(machine, State.FAILED, DisconnectError("the coordinator is away"), times=3)
    driver = machine.driver()
    driver.on_rejected("why")
    await machine.advance(5_100)
    assert answers.tries == 2 and machine.state() == "MIRRORING", "one try every mirror.truncation.backoff.ms"
    await machine.reach("FAILED")
    assert driver.status.reason == "why" and (await stored(machine)).state is State.FAILED
    machine.name("m.removed")
    await machine.reach("STOPPED", within_ms=12_000)
    assert machine.states_written()[-3:] == ["FAILED", "STOPPING", "STOPPED"], "it fails once"
    await machine.close()


async def test_the_reason_of_a_failure_that_was_stored_unheard_and_loaded_again_is_kept(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    Answers(machine, State.FAILED, DisconnectError("the answer is lost"), is_stored=True)
    machine.driver().on_rejected("malformed batch")
    await machine.settle()
    machine.change()
    await machine.reach("FAILED")
    await machine.settle()
    assert machine.driver().status.reason == "malformed batch"
    await machine.close()


@pytest.mark.parametrize("error", [ApiException(Errors.KAFKA_STORAGE_ERROR), OSError("a disk of the coordinator")])
async def test_a_coordinator_with_a_broken_disk_made_the_partitions_fail_whose_states_it_keeps(tmp_path: Path, error: Exception) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    answers = Answers(machine, State.PAUSING, error, times=2)
    machine.name("m.paused")
    await machine.reach("PAUSED")
    assert answers.tries == 3 and "FAILED" not in machine.states_written()
    await machine.close()
