"""The states of a mirrored partition, and the steps between them, in action: what clients may do in
each state (D1), the events (D3), and the steps of STOPPING (D4) and PREPARING (D5).

One broker's whole mirroring runs on real logs. Its source is scripted, and the tests fetch for its
followers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, REFRESH_MS, T0, MirrorMachine
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.mirror.coordination.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, StateWrite
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, PartitionStateRecord
from kmirror.mirror.logs.local_log import cut, cut_fully
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.replica.partition_reader import fetch_offset_for_timestamp, last_offset_for_leader_epoch
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.wire.messages import bump_leader_epochs, read_mirror_states, write_mirror_states
from kmirror.wire.messages.write_mirror_states import WriteMirrorStatesRequest

BACKOFF_MS = 5_000
OPEN: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
LAG_MS = 30_000


def refuse_bumps(request: Any) -> ApiException | None:
    return ApiException(Errors.REQUEST_TIMED_OUT, "cut off") if isinstance(request, bump_leader_epochs.BumpLeaderEpochsRequest) else None


async def store(machine: MirrorMachine, state: State, *, epoch: int = -1, topic: str = "t", **options: Any) -> None:
    """Writes a state to `__mirror_state` before this broker leads the topic."""
    await machine.settle()
    machine.topic(topic, value=None, **options)
    written = await machine.mirror.coordinator.write_states(MIRROR, [StateWrite(topic, 0, State.UNKNOWN, epoch)])
    way = {
        State.PREPARING: ["PREPARING"],
        State.MIRRORING: ["PREPARING", "MIRRORING"],
        State.PAUSING: ["PREPARING", "MIRRORING", "PAUSING"],
        State.PAUSED: ["PREPARING", "MIRRORING", "PAUSING", "PAUSED"],
        State.STOPPING: ["PREPARING", "STOPPING"],
        State.STOPPED: ["PREPARING", "STOPPING", "STOPPED"],
        State.FAILED: ["FAILED"],
        State.UNKNOWN: [],
    }[state]
    for name in way:
        written = await machine.mirror.coordinator.write_states(MIRROR, [StateWrite(topic, 0, State[name])])
    assert set(written.values()) == {Errors.NONE}


# --- what clients may do in each state (D1)
# ---------------------------------------------------------------------------------------------------------------

WRITES = {
    State.PREPARING: Errors.READ_ONLY_TOPIC, State.MIRRORING: Errors.READ_ONLY_TOPIC, State.PAUSED: Errors.READ_ONLY_TOPIC,
    State.STOPPING: Errors.READ_ONLY_TOPIC, State.STOPPED: Errors.NONE, State.FAILED: Errors.READ_ONLY_TOPIC,
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


async def test_d1_unknown_is_retriable(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,), state_leader=2)
    machine.topic()
    await machine.advance(1_000)
    assert machine.state() == "UNKNOWN" and machine.produce(batch(0, b"x")) is Errors.NOT_LEADER_OR_FOLLOWER
    await machine.close()


# --- events (D3)
# ---------------------------------------------------------------------------------------------------------------


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


# --- the steps of STOPPING (D4)
# ---------------------------------------------------------------------------------------------------------------


@pytest.mark.item("B6")
async def test_d4_the_steps_come_in_their_order(tmp_path: Path) -> None:
    """The steps: 1 remove the fetcher, 2 await the bump, 3 cut the leader and its followers, 4 and
    5 store the last mirror epoch, 6 write the reset in the new epoch to every replica, 7 STOPPED.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.followers.add(2)
    await machine.mirroring(
        batch(0, b"a", epoch=3), batch(1, b"x", epoch=3, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        replicas=(1, 2),
    )  # fmt: skip
    machine.followers.clear()
    machine.name("m.removed")
    await machine.advance(200)
    assert not machine.mirror.fetchers.owns(T0)
    assert machine.registration().leader_epoch == 4, "bumped above every epoch of the log first"
    assert machine.log().log_end_offset == 1, "then cut"
    assert [record for record in machine.state_records() if isinstance(record, LastMirrorEpochs)] == [
        LastMirrorEpochs(MIRROR, {("t", 0): 3})
    ]
    assert machine.headers()[-1].reset_source is None, "no reset before the follower is known to be cut"
    await machine.follow(2, 1)
    await machine.advance(BACKOFF_MS)
    assert machine.headers()[-1].reset_source == SOURCE_CLUSTER_ID and machine.headers()[-1].leader_epoch == 4
    assert machine.state() == "STOPPING", "the reset is not on every replica yet"
    await machine.follow(2, 2)
    await machine.reach("STOPPED")
    last = machine.state_records()[-1]
    assert isinstance(last, PartitionStateRecord) and last.state is State.STOPPED
    await machine.close()


async def test_d4_a_run_that_was_cut_off_is_made_again_and_a_finished_one_is_not(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=3))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    records, end = len(machine.state_records()), machine.log().log_end_offset
    machine.change(leader=2)
    machine.change(leader=1)
    await machine.advance(1_000)
    assert machine.state() == "STOPPED" and (len(machine.state_records()), machine.log().log_end_offset) == (records, end)
    await machine.close()


@pytest.mark.item("B47", "B53")
async def test_d4_a_new_leader_in_stopping_knows_the_last_mirror_epoch_from_a_remote_coordinator(tmp_path: Path) -> None:
    """ReadMirrorStates does not say that the partition has mirrored, but the last mirror epoch that
    was stored on entry does.

    A partition that did not mirror still stores no epoch of its own (F6), as a test below shows.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=3))
    machine.mirror_controller.fail = refuse_bumps
    machine.name("m.removed")
    await machine.advance(500)
    assert machine.state() == "STOPPING"
    assert LastMirrorEpochs(MIRROR, {("t", 0): 3}) in machine.state_records()
    await machine.close()


@pytest.mark.parametrize("stored", [State.MIRRORING, State.PAUSING, State.PAUSED])
async def test_d4_a_state_that_only_mirrored_partitions_have_says_so_where_the_coordinator_is_remote(tmp_path: Path, stored: State) -> None:
    """Step 4, for a leader that finds the partition running or paused, and whose first request is
    the failover.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,), state_leader=2)
    machine.peers.answer = lambda broker_id, message: answer_states(message, stored)
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=3))
    machine.source.down.update(machine.source.addresses.values())
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    assert driver.status.last_mirror_epoch == 3
    rows = [
        row for _, message in machine.peers.sent if isinstance(message, WriteMirrorStatesRequest) for row in message.topics[0].partitions
    ]
    assert [(row.state, row.last_mirror_epoch) for row in rows if row.state == State.STOPPING] == [(State.STOPPING, 3)]
    await machine.close()


def answer_states(message: Any, stored: State) -> Any:
    """Answers as a coordinator that has `stored` for partition t-0 and accepts every write."""
    if isinstance(message, WriteMirrorStatesRequest):
        written = write_mirror_states.TopicResult(name="t", partitions=[write_mirror_states.PartitionResult(partition_index=0)])
        return write_mirror_states.WriteMirrorStatesResponse(topics=[written])
    found = read_mirror_states.TopicResult(name="t", partitions=[read_mirror_states.PartitionResult(partition_index=0, state=stored)])
    return read_mirror_states.ReadMirrorStatesResponse(topics=[found])


async def test_d4_the_epoch_is_stored_though_the_leader_believes_that_it_is(tmp_path: Path) -> None:
    """The leader reads the stored epoch when it begins. A late removal of the topic that had the
    name before may then overwrite it by -1 (D3-34).

    Found by `mirrors`, seed 11086: the next failback was told that nothing had been mirrored.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=3))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.name("m")
    await machine.reach("MIRRORING")
    await machine.advance(600)
    late = StateWrite("t", 0, last_mirror_epoch=CLEAR_LAST_MIRROR_EPOCH)
    await machine.mirror.coordinator.write_states(MIRROR, [late])
    assert machine.state_records()[-1] == LastMirrorEpochs(MIRROR, {("t", 0): -1})
    machine.name("m.removed")
    await machine.reach("STOPPED")
    stored = [record for record in machine.state_records() if isinstance(record, LastMirrorEpochs)]
    assert stored[-1] == LastMirrorEpochs(MIRROR, {("t", 0): 3})
    await machine.close()


async def test_d4_the_own_epoch_of_a_partition_that_never_mirrored_is_not_stored(tmp_path: Path) -> None:
    """A topic with records of its own is added, and removed before it mirrors anything (F6)."""
    machine = MirrorMachine(str(tmp_path))
    machine.source.down.update(machine.source.addresses.values())
    machine.topic(value=None)
    machine.local(batch(0, b"mine", epoch=5))
    machine.name(MIRROR)
    await machine.advance(500)
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    assert driver.status.last_mirror_epoch == -1
    assert not [record for record in machine.state_records() if isinstance(record, LastMirrorEpochs)]
    await machine.close()


@pytest.mark.item("B9")
async def test_d4_the_bump_is_above_the_sources_leader_epoch_also_where_no_batch_has_it(tmp_path: Path) -> None:
    """Step 2: the source elects a leader in epoch 7 and is lost before anything is written in it.

    Its next batch would have epoch 7.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=3))
    machine.source.log("t").epoch = 7
    machine.topic()
    await machine.reach("MIRRORING")
    await machine.advance(600)
    machine.source.down.update(machine.source.addresses.values())
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    assert (machine.registration().leader_epoch, machine.headers()[-1].leader_epoch) == (8, 8)
    assert driver.status.last_mirror_epoch == 3, "which only batches say (C5)"
    await machine.close()


@pytest.mark.parametrize(("kept", "expected"), [(True, 1), (False, -1)])
async def test_d4_what_the_cut_takes_away_does_not_count(tmp_path: Path, kept: bool, expected: int) -> None:
    """Steps 3 to 5: the epoch stored on entry is that of a batch in an open transaction.

    The cut removes that batch, so the stored epoch is lowered, to -1 if nothing is left.
    """
    machine = MirrorMachine(str(tmp_path))
    start = batch(0, b"a", epoch=1, **({} if kept else OPEN | {"base_sequence": 0}))
    await machine.mirroring(start, batch(1, b"x", epoch=3, **OPEN, base_sequence=0 if kept else 1))
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    stored = [record.epochs for record in machine.state_records() if isinstance(record, LastMirrorEpochs)]
    assert stored == [{("t", 0): 3}, {("t", 0): expected}] and driver.status.last_mirror_epoch == expected
    assert machine.headers()[-1].is_control and machine.headers()[-1].base_offset == int(kept)
    await machine.close()


async def test_d4_a_stored_epoch_above_what_is_left_is_lowered_where_nothing_was_mirrored_since(tmp_path: Path) -> None:
    """Step 4, from PREPARING: the log has lost its batches of the epoch that an earlier failover
    stored.
    """
    machine = MirrorMachine(str(tmp_path))
    await store(machine, State.PREPARING, epoch=5)
    machine.local(batch(0, b"a", epoch=2))
    machine.source.down.update(machine.source.addresses.values())
    machine.name(MIRROR)
    await machine.advance(500)
    assert machine.state() == "PREPARING"
    machine.name("m.removed")
    driver = await machine.reach("STOPPED")
    stored = [record for record in machine.state_records() if isinstance(record, LastMirrorEpochs)]
    assert stored[-1] == LastMirrorEpochs(MIRROR, {("t", 0): 2}) and driver.status.last_mirror_epoch == 2
    assert machine.registration().leader_epoch == 6, "step 2 counts the stored one"
    await machine.close()


async def test_d4_a_step_that_is_tried_again_adds_no_second_reset(tmp_path: Path) -> None:
    """The partition never mirrored, so there is no stored epoch by which step 0 would recognise the
    reset, and a follower is slow to fetch it.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source.down.update(machine.source.addresses.values())
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"mine", epoch=5))
    await machine.follow(2, 1)
    machine.name(MIRROR)
    await machine.advance(500)
    machine.name("m.removed")
    await machine.advance(500)
    await machine.follow(2, 1)
    await machine.advance(4 * BACKOFF_MS)
    assert machine.state() == "STOPPING" and [header.reset_source for header in machine.headers()] == [None, ""]
    epoch = machine.registration().leader_epoch
    await machine.follow(2, 2)
    await machine.reach("STOPPED")
    assert len(machine.headers()) == 2 and machine.registration().leader_epoch == epoch, "nor a second bump"
    await machine.close()


# --- the steps of PREPARING (D5)
# ---------------------------------------------------------------------------------------------------------------


async def test_d5_cut_bump_and_every_replica_before_the_first_fetch(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1), batch(1, b"new", epoch=3))
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.name(MIRROR)
    await machine.settle()
    await machine.follow(2, 2)
    await machine.advance(BACKOFF_MS + 500)
    assert [header.last_offset for header in machine.headers()] == [0]
    assert machine.registration().leader_epoch == 1, "what was cut is followed by a bump"
    assert machine.state() == "PREPARING", "follower 2 has not said in the new epoch what it has"
    assert not machine.source.fetches()
    await machine.follow(2, 1)
    await machine.reach("MIRRORING")
    await machine.advance(600)
    assert machine.log().log_end_offset == 2
    await machine.close()


async def test_d5_a_bump_that_is_owed_for_a_cut_is_made_by_a_stop_that_comes_first(tmp_path: Path) -> None:
    """The leader's epoch is above every batch's, so STOPPING alone (D4) would not bump it, and a
    slow follower would keep what was cut (F1, step 4).
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None, epoch=10)
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.mirror_controller.fail = refuse_bumps
    machine.name(MIRROR)
    await machine.advance(500)
    assert (machine.state(), machine.log().log_end_offset, machine.registration().leader_epoch) == ("PREPARING", 1, 10)
    machine.mirror_controller.fail = lambda request: None
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert (machine.registration().leader_epoch, machine.headers()[-1].leader_epoch) == (11, 11)
    await machine.close()


async def test_d5_d4_a_bump_that_is_owed_for_a_cut_is_made_also_where_the_cut_left_the_reset_last(tmp_path: Path) -> None:
    """A failback is taken back at once.

    By step 0 of STOPPING nothing is left to do. But the follower still has what the leader cut, and
    without a bump it would keep that beside what clients now write in the same epoch (F1).
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await store(machine, State.STOPPED, epoch=1, replicas=(1, 2))
    machine.change(bump=3)
    reset = build_mirror_pid_reset(SOURCE_CLUSTER_ID, timestamp=0, base_offset=1, partition_leader_epoch=2)
    machine.local(batch(0, b"a", epoch=1), bytes(reset), batch(2, b"own", epoch=3))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 2)})}
    machine.at_source(batch(0, b"a", epoch=1), bytes(reset))
    machine.mirror_controller.fail = refuse_bumps
    machine.name(MIRROR)
    await machine.settle()
    await machine.follow(2, 3)
    await machine.advance(500)
    assert (machine.state(), machine.log().log_end_offset, machine.registration().leader_epoch) == ("PREPARING", 2, 3)
    machine.mirror_controller.fail = lambda request: None
    machine.name("m.removed")
    await machine.advance(500)
    assert (machine.state(), machine.registration().leader_epoch) == ("STOPPING", 4), "nobody knows yet what follower 2 has"
    await machine.follow(2, 2)
    await machine.reach("STOPPED")
    assert machine.produce(batch(0, b"new")) is Errors.NONE
    assert machine.log().high_watermark == 2, "not acknowledged for a follower that has another record there"
    assert [header.leader_epoch for header in machine.headers()] == [1, 2, 4], "no second reset"
    await machine.close()


async def test_d5_an_empty_epoch_entry_is_cut_also_where_no_batch_is(tmp_path: Path) -> None:
    """A leader of a plain topic noted its epoch in the cache but wrote nothing in it.

    Asked for that epoch later, it would answer with offsets of the source's data.
    """
    machine = MirrorMachine(str(tmp_path))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1))
    machine.change(bump=5)
    assert machine.log().latest_epoch == 5
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert (machine.log().latest_epoch, machine.log().log_end_offset) == (1, 1)
    await machine.close()


async def test_d5_a_mirror_there_whose_source_is_not_known_is_not_another_clusters(tmp_path: Path) -> None:
    """Step 1: there is no last mirror epoch only if the SourceClusterId is known and not ours."""
    machine = MirrorMachine(str(tmp_path), safeguards=MirrorSafeguards(kept_when_added_again=False, first_fetch_verified=False))
    machine.source_mirrors = {MIRROR: ("", {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"a", epoch=1), batch(1, b"own", epoch=2))
    machine.source.log("t").high_watermark = 0
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    assert [header.last_offset for header in machine.headers()] == [0]
    await machine.close()


async def test_d5_a_partition_that_the_source_does_not_have_waits_for_it(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t", partitions=1)
    machine.topic(value=None, partitions=2)
    machine.local(batch(0, b"mine"), number=1)
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    await machine.advance(2 * BACKOFF_MS)
    assert machine.state(number=1) == "PREPARING" and machine.log(number=1).log_end_offset == 1
    assert "no partition t-1" in str(machine.driver(number=1).status.reason)
    await machine.close()


async def test_d5_where_nothing_is_cut_no_follower_is_waited_for(tmp_path: Path) -> None:
    """Step 3 waits only for followers that would be stuck inside a cut batch."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.source_mirrors = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=1))
    machine.topic(value=None, replicas=(1, 2))
    machine.local(batch(0, b"a", epoch=1))
    await machine.follow(2, 0)
    machine.name(MIRROR)
    await machine.reach("MIRRORING", within_ms=1_000)
    await machine.close()


async def test_d5_no_more_replicas_are_needed_in_sync_than_there_are(tmp_path: Path) -> None:
    """Step 4 wants the smaller of min.insync.replicas and the replication factor."""
    machine = MirrorMachine(str(tmp_path))
    machine.topic(min_insync_replicas="3")
    await machine.reach("MIRRORING", within_ms=1_000)
    await machine.close()


async def test_d5_another_topic_of_the_name_fails_and_nothing_is_cut(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.topic(value=None)
    machine.local(batch(0, b"mine"))
    machine.source.topic_ids["t"] = Uuid.random(machine.runtime.random)
    machine.name(MIRROR)
    await machine.reach("FAILED")
    assert machine.log().log_end_offset == 1 and "has the id" in str(machine.driver().status.reason)
    await machine.close()


async def test_d5_many_partitions_ask_together(tmp_path: Path) -> None:
    """Each broker of the source is asked once for all partitions that prepare at a time, not once
    per partition.
    """
    machine = MirrorMachine(str(tmp_path), source_brokers=2)
    machine.source.create("t", partitions=40)
    machine.topic(partitions=40)
    for number in range(40):
        await machine.reach("MIRRORING", number=number)
    kinds = [type(request).__name__ for _, _, _, request in machine.source.requests]
    assert kinds.count("DescribeMirrorsRequest") == kinds.count("ListMirrorsRequest") == 2
    assert kinds.count("MetadataRequest") <= 5, "before and after, each broker for itself, and where the leaders are"
    assert len(machine.state_records()) == 80
    log = machine.partition(MIRROR_STATE_TOPIC_NAME).leader_log
    assert sum(1 for _ in log.batch_headers(0)) <= 6
    await machine.close()
