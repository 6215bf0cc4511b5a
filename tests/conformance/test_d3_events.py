"""The events that move a mirrored partition from one state to another (D3), in action.

One broker's whole mirroring runs on real logs. Its source is scripted, and the tests fetch for its
followers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, REFRESH_MS, T0, MirrorMachine
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch
from support.mirrors.stored_states import BACKOFF_MS, LAG_MS, store

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.storage.log_append_info import AppendOrigin


@pytest.mark.parametrize("value", ["m", "m.paused"])
async def test_d3_1_no_state_begins_with_preparing(tmp_path: Path, value: str) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=value)
    await machine.reach("MIRRORING" if value == "m" else "PAUSED")
    assert machine.states_written()[:2] == ["PREPARING", "MIRRORING"]
    await machine.close()


@pytest.mark.item("ERR15")
async def test_d3_2_an_unavailable_coordinator_is_asked_again_in_longer_and_longer_pauses(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,), state_leader=2)
    machine.topic()
    await machine.advance(42_000)
    assert machine.state() == "UNKNOWN" and "COORDINATOR_NOT_AVAILABLE" in str(machine.driver().status.reason)
    assert 13 <= len(machine.peers.sent) <= 15, "after 100 ms, 200, 400 ... 5000, 5000"
    await machine.close()


@pytest.mark.parametrize(
    ("stored", "value", "expected"),
    [
        (State.MIRRORING, "m", "MIRRORING"), (State.MIRRORING, "m.paused", "PAUSED"), (State.MIRRORING, "m.removed", "STOPPED"),
        (State.PREPARING, "m", "MIRRORING"), (State.PREPARING, "m.removed", "STOPPED"), (State.PAUSING, "m.paused", "PAUSED"),
        (State.PAUSED, "m", "MIRRORING"), (State.PAUSED, "m.paused", "PAUSED"), (State.STOPPING, "m.removed", "STOPPED"),
        (State.STOPPED, "m", "MIRRORING"), (State.STOPPED, "m.removed", "STOPPED"), (State.FAILED, "m", "FAILED"),
        (State.FAILED, "m.removed", "STOPPED"),
    ],
)  # fmt: skip
async def test_d3_3_a_state_that_is_found_is_adopted_and_looked_at_again(tmp_path: Path, stored: State, value: str, expected: str) -> None:
    machine = MirrorMachine(str(tmp_path))
    await store(machine, stored)
    machine.name(value)
    await machine.reach(expected)
    await machine.advance(1_000)
    assert machine.state() == expected
    await machine.close()


ACTIVE = (State.PREPARING, State.MIRRORING, State.PAUSING, State.PAUSED, State.FAILED)
ROWS = [
    ("d3-4", State.STOPPED, "m", ["PREPARING", "MIRRORING"]),
    ("d3-6 d3-28", State.PREPARING, "m", ["PREPARING", "MIRRORING"]),
    ("d3-17 d3-18", State.MIRRORING, "m.paused", ["PAUSING", "PAUSED"]),
    ("d3-19", State.PAUSED, "m", ["MIRRORING"]),
    *(("d3-21", state, "m.removed", ["STOPPING", "STOPPED"]) for state in ACTIVE if state not in (State.PREPARING, State.PAUSING)),
    ("d3-28 d3-21", State.PREPARING, "m.removed", ["PREPARING", "STOPPING", "STOPPED"]),
    ("d3-30 d3-21", State.PAUSING, "m.removed", ["PAUSED", "STOPPING", "STOPPED"]),
    ("d3-23 d3-29", State.STOPPING, "m.removed", ["STOPPING", "STOPPED"]),
    ("d3-25", State.STOPPED, "m.removed", []),
    ("d3-27", State.MIRRORING, "m", []),
    ("d3-30 from PAUSING", State.PAUSING, "m.paused", ["PAUSED"]),
    ("d3-30 from PAUSED", State.PAUSED, "m.paused", []),
]


@pytest.mark.parametrize(("stored", "value", "written"), [row[1:] for row in ROWS], ids=[f"{row[0]}-{row[1].name}" for row in ROWS])
async def test_the_rows_of_the_table_are_what_a_partition_does(tmp_path: Path, stored: State, value: str, written: list[str]) -> None:
    """A new leader acts on the pair of stored state and `mirror.name` that it finds.

    The test checks the states that it commits, in order, whether it fetches, and whether clients
    may write.
    """
    machine = MirrorMachine(str(tmp_path))
    await store(machine, stored)
    machine.local(batch(0, b"a"))
    machine.at_source(batch(0, b"a"))
    before = len(machine.states_written())
    machine.name(value)
    last = written[-1] if written else stored.name
    await machine.reach(last)
    await machine.advance(1_000)
    assert machine.states_written()[before:] == written
    assert machine.mirror.fetchers.owns(T0) is (last == "MIRRORING")
    assert (machine.produce(batch(0, b"x")) is Errors.NONE) is (last == "STOPPED")
    assert len([header for header in machine.headers() if not header.is_control]) == (2 if last == "STOPPED" else 1)
    await machine.close()


async def test_d3_5_a_stopped_topic_whose_source_is_another_one_stays(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.STOPPED)
    machine.source.topic_ids["t"] = Uuid(b"\2" * 16)
    before = machine.states_written()
    machine.name(MIRROR)
    await machine.advance(2 * REFRESH_MS)
    assert machine.state() == "STOPPED" and machine.states_written() == before
    assert "missing or has another id" in str(machine.driver().status.reason)
    machine.source.topic_ids["t"] = machine.cache.image.topics.topic("t").id
    await machine.reach("MIRRORING", within_ms=2 * REFRESH_MS)
    await machine.close()


@pytest.mark.item("B29")
async def test_d3_9_d3_10_a_replica_outside_the_isr_is_waited_for_and_then_fails(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(replicas=(1, 2), mirror_support_unclean_leader_election="true")
    machine.change(isr=(1,), bump=0)
    await machine.advance(2 * LAG_MS - 2_000)
    assert machine.state() == "PREPARING" and "not in the ISR" in str(machine.driver().status.reason)
    await machine.reach("FAILED")
    assert "replicas [2] are not in the ISR" in str(machine.driver().status.reason)
    await machine.close()


async def test_d3_20b_a_lost_state_of_a_stopped_partition_is_known_from_the_log(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    reset = build_mirror_pid_reset("", timestamp=0)
    machine.partition("t").append_records_to_leader(bytearray(reset), origin=AppendOrigin.COORDINATOR, required_acks=1)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert machine.states_written() == ["STOPPED"], "no D4"
    assert machine.registration().leader_epoch == 1, "new records have an epoch above the log's"
    await machine.close()


async def test_d3_20a_without_a_reset_the_log_is_stopped_step_by_step(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(batch(0, b"a"))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert machine.states_written() == ["STOPPING", "STOPPED"]
    assert machine.headers()[-1].reset_source == ""
    await machine.close()


@pytest.mark.parametrize("state", [State.PREPARING, State.STOPPING])
async def test_d3_28_d3_29_a_new_leader_writes_the_state_again_before_it_acts(tmp_path: Path, state: State) -> None:
    """An isolated coordinator cannot commit that record, so its old answer has no effect (F19)."""
    machine = MirrorMachine(str(tmp_path))
    await store(machine, state)
    before = machine.states_written().count(state.name)
    machine.name(MIRROR if state is State.PREPARING else "m.removed")
    await machine.reach("MIRRORING" if state is State.PREPARING else "STOPPED")
    assert machine.states_written().count(state.name) == before + 1
    await machine.close()


async def test_d3_29b_a_lost_reset_is_written_again_before_anything_else(tmp_path: Path) -> None:
    """The log ends in the stored last mirror epoch, so the reset is lost, and a transaction that
    had been cut is open again (F18).
    """
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.STOPPED, epoch=3)
    machine.local(batch(0, b"a", epoch=3), batch(1, b"x", epoch=3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True))
    machine.name("m.removed")
    assert machine.produce(batch(0, b"early")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.advance(1_000)
    assert machine.state() == "STOPPED" and machine.headers()[-1].is_control
    assert [header.last_offset for header in machine.headers()] == [0, 1]
    assert machine.headers()[-1].leader_epoch == 4 == machine.registration().leader_epoch
    assert machine.produce(batch(0, b"late")) is Errors.NONE
    await machine.close()


async def test_d3_29b_clients_wait_while_the_reset_is_written_again(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.STOPPED, epoch=3)
    machine.local(batch(0, b"a", epoch=3))
    machine.mirror_controller.fail = lambda request: ApiException(Errors.REQUEST_TIMED_OUT, "no controller")
    machine.name("m.removed")
    await machine.advance(2 * BACKOFF_MS)
    assert machine.state() == "STOPPED" and machine.produce(batch(0, b"early")) is Errors.NOT_LEADER_OR_FOLLOWER
    machine.mirror_controller.fail = lambda request: None
    await machine.advance(BACKOFF_MS + 500)
    assert machine.produce(batch(0, b"late")) is Errors.NONE
    assert [header.is_control for header in machine.headers()] == [False, True, False]
    await machine.close()


@pytest.mark.parametrize("epoch", [3, -1], ids=["reset-in-the-log", "no-epoch-stored"])
async def test_d3_29c_clients_write_where_the_reset_is_there(tmp_path: Path, epoch: int) -> None:
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.STOPPED, epoch=epoch)
    machine.local(batch(0, b"a", epoch=3), batch(1, b"b", epoch=4))
    written = len(machine.states_written())
    machine.name("m.removed")
    assert machine.produce(batch(0, b"early")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.advance(1_000)
    assert machine.produce(batch(0, b"late")) is Errors.NONE
    assert (machine.state(), len(machine.states_written()), len(machine.headers())) == ("STOPPED", written, 3)
    await machine.close()


async def test_d5_1_a_source_topic_that_is_another_one_fails_the_partition(tmp_path: Path) -> None:
    """Waiting would not help, and nothing is cut."""
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.PREPARING)
    machine.local(batch(0, b"a"))
    machine.source.topic_ids["t"] = Uuid(b"\2" * 16)
    machine.name(MIRROR)
    await machine.reach("FAILED")
    assert len(machine.headers()) == 1 and "id" in str(machine.driver().status.reason)
    await machine.close()


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ApiException(Errors.KAFKA_STORAGE_ERROR, "the folder is offline")])
async def test_d3_24_d3_37_a_disk_that_fails_in_a_step_is_one_replicas_and_the_step_is_tried_again(
    tmp_path: Path, error: Exception, monkeypatch: Any
) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))

    def refuse(*arguments: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(machine.partition("t"), "append_records_to_leader", refuse)
    machine.name("m.removed")
    await machine.advance(200)
    assert machine.states_written()[-1] == "STOPPING", "FAILED would outlive this broker's leadership"
    assert ("Input/output" if isinstance(error, OSError) else "offline") in str(machine.driver().status.reason)
    monkeypatch.undo()
    await machine.reach("STOPPED")
    await machine.close()


async def test_d2_a_preparing_that_is_carried_out_late_does_not_throw_a_partition_back(tmp_path: Path) -> None:
    """A request to store PREPARING was given up and sent again.

    The first one arrives when the partition is MIRRORING, or has failed over and is in use. If it
    were carried out, the next leader would begin again and cut what clients had written.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=3))
    coordinator = machine.mirror.coordinator

    async def late() -> tuple[Errors, State]:
        errors = await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING, rewrite=True)])
        return errors["t", 0], (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0].state

    assert await late() == (Errors.INVALID_REQUEST, State.MIRRORING)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert machine.produce(batch(0, b"own")) is Errors.NONE
    assert await late() == (Errors.INVALID_REQUEST, State.STOPPED)
    end = machine.log().log_end_offset
    machine.change(leader=2)
    machine.change(leader=1)
    await machine.reach("STOPPED")
    assert machine.log().log_end_offset == end and machine.produce(batch(0, b"own")) is Errors.NONE
    await machine.close()


@pytest.mark.parametrize("flag", [True, False])
async def test_d3_31_an_unclean_election_here_prepares_again_where_that_is_supported(tmp_path: Path, flag: bool, caplog: Any) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.followers.add(2)
    await machine.mirroring(batch(0, b"a"), replicas=(1, 2), **({"mirror_support_unclean_leader_election": "true"} if flag else {}))
    machine.change(leader=2, isr=(2,))
    machine.change(leader=1, isr=(1, 2), recovering=True)
    await machine.advance(BACKOFF_MS + 1_000)
    assert machine.states_written().count("PREPARING") == (2 if flag else 1)
    assert "elected uncleanly" in caplog.text and machine.state() == "MIRRORING"
    await machine.close()


async def test_d3_31_a_bump_for_a_cut_is_no_unclean_election(tmp_path: Path) -> None:
    """RECOVERING stays set at replication factor 1, because no ISR grows there.

    Once, every cut of some records dropped the whole log, which was then copied again.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"), batch(1, b"b"), mirror_support_unclean_leader_election="true")
    machine.change(bump=1, recovering=True)
    await machine.reach("MIRRORING")
    await machine.advance(BACKOFF_MS)
    prepared = machine.states_written().count("PREPARING")
    log = machine.source.log("t")
    log.batches[:] = [*log.batches[:1], batch(1, b"other", b"records", epoch=1)]
    log.epoch = 1
    machine.source.notify()
    await machine.advance(BACKOFF_MS)
    assert [(header.base_offset, header.leader_epoch) for header in machine.headers()] == [(0, 0), (1, 1)]
    assert machine.states_written().count("PREPARING") == prepared == 2
    await machine.close()


async def test_d3_34_a_deleted_topic_is_forgotten_and_its_epoch_written_off(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=2))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.delete_topic("t")
    await machine.advance(1_000)
    assert machine.state_records()[-1] == LastMirrorEpochs(MIRROR, {("t", 0): -1})
    machine.source.create("t")
    machine.topic()
    await machine.reach("MIRRORING")
    await machine.close()


@pytest.mark.item("B36")
async def test_d3_35_another_source_suspends_and_the_known_one_resumes(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.source.cluster_id = "impostor"
    await machine.advance(REFRESH_MS + 1_000)
    assert not machine.mirror.fetchers.owns(T0)
    assert machine.state() == "MIRRORING" and "impostor" in str(machine.driver().status.reason)
    machine.at_source(batch(1, b"b"))
    await machine.advance(2_000)
    assert machine.log().log_end_offset == 1
    machine.source.cluster_id = SOURCE_CLUSTER_ID
    await machine.advance(REFRESH_MS + 1_000)
    assert machine.log().log_end_offset == 2 and machine.driver().status.reason is None
    await machine.close()
