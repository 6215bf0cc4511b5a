"""What happens to leaders, coordinators, replicas and open transactions (E9, and the RPC semantics
of coordination).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, T0, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite, StoredState
from kmirror.mirror.coordination.mirror_partition_id import coordinator_key
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, PartitionStateRecord
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages import find_coordinator, read_mirror_states, write_mirror_states

BACKOFF_MS = 5_000
LAG_MS = 30_000


def move_coordinator(machine: MirrorMachine, leader: int) -> None:
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=leader, replicas=(1, 2), isr=(1, 2))


# --- reading and writing states (RS8, RS10)
# --------------------------------------------------------------------------------------------------------


async def test_rs8_each_partition_is_answered_by_what_the_coordinator_knows(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(value=None, partitions=2)
    coordinator = machine.mirror.coordinator
    assert set((await coordinator.read_states(MIRROR, [("t", 0)])).values()) == {Errors.COORDINATOR_LOAD_IN_PROGRESS}
    await machine.settle()
    await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING, 7)])
    found = await coordinator.read_states(MIRROR, [("t", 0), ("t", 1), ("nosuch", 0)])
    assert found["t", 0] == StoredState(State.PREPARING, 7)
    assert found["t", 1] == StoredState(State.UNKNOWN, -1) and int(State.UNKNOWN) == 16
    assert found["nosuch", 0] is Errors.UNKNOWN_TOPIC_OR_PARTITION
    move_coordinator(machine, 2)
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] is Errors.NOT_COORDINATOR
    assert (await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.MIRRORING)]))["t", 0] is Errors.NOT_COORDINATOR
    await machine.close()


@pytest.mark.parametrize(
    ("key", "broker"),
    [("my-mirror:AAAAAAAAAAAAAAAAAAAAAQ:1", 1), ("my-mirror:lBq12jYZRp-9wF3M9MPopg:0", 2), ("my-mirror:AAAAAAAAAAAAAAAAAAAAAQ:0", 3)],
)
@pytest.mark.item("B1")
async def test_rs8_a6_the_coordinator_that_is_told_leads_the_keys_partition(tmp_path: Path, key: str, broker: int) -> None:
    """The keys of A6, whose partitions are 0, 1 and 2 of three."""
    machine = MirrorMachine(str(tmp_path), others=(2, 3), state_partitions=3)
    for number in (1, 2):
        machine.change(number, topic=MIRROR_STATE_TOPIC_NAME, leader=number + 1, replicas=(number + 1,), isr=(number + 1,))
    request = find_coordinator.FindCoordinatorRequest(key_type=3, coordinator_keys=[key])
    (found,) = (await machine.ask(ApiKeys.FIND_COORDINATOR, request, 7)).coordinators
    assert (found.error_code, found.key, found.node_id) == (0, key, broker)
    await machine.close()


async def test_rs6_b25_the_destination_offset_is_the_log_end_whatever_our_own_replicas_have(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.followers.add(2)
    await machine.mirroring(batch(0, b"a"), replicas=(1, 2))
    machine.followers.clear()
    machine.at_source(batch(1, b"b"))
    await machine.advance(600)
    assert machine.log().high_watermark == 1
    (row,) = machine.mirror.describe(MIRROR)
    assert (row.source_offset, row.destination_offset, row.lag) == (2, 2, 0)
    await machine.close()


async def test_rs10_one_request_for_all_that_one_broker_coordinates_of_a_mirror(tmp_path: Path) -> None:
    """60 partitions whose states are kept at broker 2: not 60 requests, but some that grow with
    what is waiting.
    """
    machine = MirrorMachine(str(tmp_path), others=(2,), state_leader=2)
    machine.peers.answer = _answer_states
    machine.source.create("t", partitions=60)
    machine.topic(partitions=60)
    for number in range(60):
        await machine.reach("MIRRORING", number=number)
    reads = [message for _, message in machine.peers.sent if isinstance(message, read_mirror_states.ReadMirrorStatesRequest)]
    writes = [message for _, message in machine.peers.sent if isinstance(message, write_mirror_states.WriteMirrorStatesRequest)]
    assert {broker for broker, _ in machine.peers.sent} == {2}
    assert sum(len(topic.partitions) for message in reads for topic in message.topics) == 60 and len(reads) <= 3
    assert sum(len(topic.partitions) for message in writes for topic in message.topics) == 120 and len(writes) <= 8
    await machine.close()


def _answer_states(broker_id: int, message: Any) -> Any:
    if isinstance(message, read_mirror_states.ReadMirrorStatesRequest):
        rows = [
            read_mirror_states.TopicResult(
                name=topic.name,
                partitions=[read_mirror_states.PartitionResult(partition_index=row.partition_index, state=16) for row in topic.partitions],
            )
            for topic in message.topics
        ]
        return read_mirror_states.ReadMirrorStatesResponse(topics=rows)
    written = [
        write_mirror_states.TopicResult(
            name=topic.name,
            partitions=[write_mirror_states.PartitionResult(partition_index=row.partition_index) for row in topic.partitions],
        )
        for topic in message.topics
    ]
    return write_mirror_states.WriteMirrorStatesResponse(topics=written)


async def test_rs10_partitions_of_the_state_topic_commit_side_by_side(tmp_path: Path) -> None:
    """One that cannot commit delays what it keeps, not what the others keep."""
    machine = MirrorMachine(str(tmp_path), others=(2,), state_partitions=2)
    await machine.settle()
    topic_id = machine.topic(value=None, partitions=8)
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, number=0, replicas=(1, 2), isr=(1, 2))
    await machine.settle()
    homes = {number: machine.mirror.coordinator.state_partition(MIRROR, topic_id, number).partition for number in range(8)}
    assert set(homes.values()) == {0, 1}, coordinator_key(MIRROR, topic_id, 0)
    write = machine.runtime.spawn(
        machine.mirror.coordinator.write_states(MIRROR, [StateWrite("t", number, State.PREPARING) for number in range(8)]), name="write"
    )
    await machine.settle()
    stored = {number for number in range(8) if homes[number] == 1}
    assert {record.partition for record in machine.state_records(1) if isinstance(record, PartitionStateRecord)} == stored
    assert not write.done()
    machine.followers.add(2)
    await machine.advance(200)
    assert set((await write).values()) == {Errors.NONE}
    await machine.close()


# --- brokers that fail (FM3 to FM7)
# -------------------------------------------------------------------------------------------------------


async def test_fm3_a_new_leader_here_loads_the_state_and_goes_on_from_its_end(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.followers.add(2)
    await machine.mirroring(batch(0, b"a"), replicas=(1, 2))
    machine.change(leader=2)
    await machine.settle()
    assert machine.mirror.driver(T0) is None and not machine.mirror.fetchers.owns(T0)
    machine.at_source(batch(1, b"b"))
    await machine.advance(2_000)
    written = len(machine.state_records())
    machine.partition("t").append_records_to_follower(bytearray(batch(1, b"b")), leader_epoch=0)  # by the other leader
    machine.at_source(batch(2, b"c"))
    machine.change(leader=1)
    await machine.advance(BACKOFF_MS)
    assert machine.state() == "MIRRORING" and machine.log().log_end_offset == 3
    assert len(machine.state_records()) == written, "no record (D3-27)"
    await machine.close()


async def test_fm4_a_coordinator_that_comes_back_loads_everything_and_one_that_goes_clears_its_memory(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=3))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    coordinator = machine.mirror.coordinator
    move_coordinator(machine, 2)
    await machine.settle()
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] is Errors.NOT_COORDINATOR
    machine.followers.add(2)
    move_coordinator(machine, 1)
    await machine.advance(500)
    found = (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0]
    assert isinstance(found, StoredState) and (found.state, found.last_mirror_epoch) == (State.STOPPED, 3)
    await machine.close()


async def test_fm4_a_write_that_a_coordinator_loses_is_made_again_at_the_next_one(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a"))
    move_coordinator(machine, 2)
    machine.name("m.paused")
    await machine.advance(2 * BACKOFF_MS)
    assert machine.state() == "MIRRORING" and machine.mirror.fetchers.owns(T0), "persist, then act"
    machine.followers.add(2)
    move_coordinator(machine, 1)
    await machine.reach("PAUSED")
    await machine.close()


async def test_fm6_below_min_isr_preparing_waits(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(value=None, replicas=(1, 2), min_insync_replicas="2")
    machine.change(isr=(1,), bump=0)
    machine.name(MIRROR)
    await machine.advance(3 * BACKOFF_MS)
    assert machine.state() == "PREPARING" and "below min.insync.replicas 2" in str(machine.driver().status.reason)
    machine.followers.add(2)
    machine.change(isr=(1, 2), bump=0)
    await machine.reach("MIRRORING")
    await machine.close()


async def test_fm6_a_failover_needs_no_min_isr(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.followers.add(2)
    await machine.mirroring(batch(0, b"a"), replicas=(1, 2), min_insync_replicas="2")
    machine.followers.clear()
    machine.change(isr=(1,), bump=0)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    await machine.close()


async def test_fm7_with_the_unclean_flag_every_replica_must_catch_up(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2, 3))
    machine.topic(replicas=(1, 2, 3), mirror_support_unclean_leader_election="true")
    machine.change(isr=(1, 2), bump=0)
    machine.followers.add(2)
    await machine.advance(LAG_MS)
    assert machine.state() == "PREPARING", "pending"
    machine.followers.add(3)
    machine.change(isr=(1, 2, 3), bump=0)
    await machine.reach("MIRRORING")
    machine.change(isr=(1, 2), bump=0)
    await machine.advance(1_000)
    assert machine.state() == "MIRRORING", "only PREPARING asks for all of them"
    await machine.close()


@pytest.mark.parametrize("comes_back", [True, False])
async def test_fm7_one_that_never_does_fails_the_partition(tmp_path: Path, comes_back: bool) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    machine.topic(replicas=(1, 2), mirror_support_unclean_leader_election="true")
    machine.change(isr=(1,), bump=0)
    await machine.advance(2 * LAG_MS - BACKOFF_MS - 1_000)
    if comes_back:
        machine.followers.add(2)
        machine.change(isr=(1, 2), bump=0)
    await machine.reach("MIRRORING" if comes_back else "FAILED")
    await machine.close()


# --- failovers with open transactions or a lag (FM17, FM18)
# -------------------------------------------------------------------------------------------------------


async def test_fm17_transactions_in_flight_are_cut_and_so_is_one_whose_marker_was_not_delivered(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    settings = {"producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    commit = build_end_transaction_marker(
        ControlRecordType.COMMIT,
        coordinator_epoch=0,
        producer_id=7,
        producer_epoch=0,
        timestamp=0,
        base_offset=1,
        partition_leader_epoch=0,
    )
    await machine.mirroring(
        batch(0, b"committed", producer_id=7, **settings),
        bytes(commit),
        batch(2, b"plain"),
        batch(3, b"its marker is under way", producer_id=8, **settings),
        batch(4, b"plain, behind it"),
    )
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert [header.last_offset for header in machine.headers()] == [0, 1, 2, 3]
    assert machine.headers()[-1].is_control and machine.log().last_stable_offset == 4
    await machine.close()


async def test_fm18_what_was_not_mirrored_at_failover_is_lost_and_counted_as_lag(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"), batch(1, b"b"))
    machine.source.down.update(machine.source.addresses.values())
    machine.source.log("t").batches.append(batch(2, b"too late"))
    machine.driver().progress.source_offset = 3
    assert machine.mirror.describe(MIRROR)[0].lag == 1
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert [header.last_offset for header in machine.headers()] == [0, 1, 2] and machine.headers()[-1].is_control
    assert [record for record in machine.state_records() if isinstance(record, LastMirrorEpochs)] == [
        LastMirrorEpochs(MIRROR, {("t", 0): 0})
    ]
    await machine.close()
