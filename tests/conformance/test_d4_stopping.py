"""The steps of STOPPING (D4), in action.

One broker's whole mirroring runs on real logs. Its source is scripted, and the tests fetch for its
followers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, T0, MirrorMachine
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch
from support.mirrors.stored_states import BACKOFF_MS, OPEN, refuse_bumps, store

from kmirror.mirror.coordination.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, StateWrite
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, PartitionStateRecord
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.wire.messages import read_mirror_states, write_mirror_states
from kmirror.wire.messages.write_mirror_states import WriteMirrorStatesRequest


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
