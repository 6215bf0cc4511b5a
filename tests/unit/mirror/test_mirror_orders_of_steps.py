"""What must hold before the next step is taken: a leader knows of its bump, bytes are on disk, a
source need not answer, a rule covers every kind of batch, tombstones are in the log.

Each of these was once switched off, and no test failed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, PartitionStateTombstone
from kmirror.wire.messages import bump_leader_epochs
from kmirror.wire.messages.config_record import ConfigRecord

IDEMPOTENT: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
KINDS: dict[str, dict[str, Any]] = {"plain": {}, "idempotent": IDEMPOTENT, "transactional": {**IDEMPOTENT, "is_transactional": True}}


class LateBumps:
    """Lets the controller answer bumps, but changes the metadata only when `tell` is called."""

    def __init__(self, machine: MirrorMachine) -> None:
        self._machine = machine
        self._controller = machine.mirror_controller
        self._bump = self._controller._bump
        self.waiting: list[Any] = []
        self._controller._bump = self._answer  # type: ignore[method-assign]

    def _answer(self, message: Any) -> Any:
        self.waiting.append(message)
        response = bump_leader_epochs.BumpLeaderEpochsResponse()
        for topic in message.topics:
            rows = [bump_leader_epochs.PartitionDetail(partition_index=state.partition_index) for state in topic.partitions]
            response.topics.append(bump_leader_epochs.TopicPartitions(partitions=rows))
        return response

    def tell(self) -> None:
        waiting, self.waiting = self.waiting, []
        for message in waiting:
            self._bump(message)


def controls(machine: MirrorMachine) -> int:
    return sum(header.is_control for header in machine.headers())


# --- bumps that are awaited
# ---------------------------------------------------------------------------------------------


async def test_the_reset_waits_until_this_broker_leads_in_the_new_epoch(tmp_path: Path) -> None:
    """In the old epoch the reset would have the epoch of the source's next batch, which a follower
    may have (D4).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=5))
    bumps = LateBumps(machine)
    machine.name("m.removed")
    await machine.advance(3_000)
    assert machine.state() == "STOPPING" and bumps.waiting, "the controller has answered"
    assert controls(machine) == 0 and "STOPPED" not in machine.states_written()
    bumps.tell()
    await machine.reach("STOPPED")
    reset = machine.headers()[-1]
    assert reset.is_control and reset.leader_epoch == machine.registration().leader_epoch > 5
    await machine.close()


async def test_nothing_is_appended_behind_a_cut_until_this_broker_leads_in_the_new_epoch(tmp_path: Path) -> None:
    """A slow follower would keep its own batches beside the source's of the same epoch (D5, F1)."""
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(batch(0, b"the source's", epoch=1))
    machine.topic(value=None)
    machine.local(batch(0, b"mine", epoch=0))
    bumps = LateBumps(machine)
    machine.name(MIRROR)
    await machine.advance(3_000)
    assert bumps.waiting and machine.log().log_end_offset == 0 and machine.state() == "PREPARING"
    bumps.tell()
    await machine.reach("MIRRORING")
    await machine.advance(1_000)
    assert [header.leader_epoch for header in machine.headers()] == [1]
    await machine.close()


# --- a source that need not answer
# --------------------------------------------------------------------------------------


async def test_a_failover_does_not_wait_for_a_source_that_is_silent(tmp_path: Path) -> None:
    """PREPARING waits for an answer that never comes, and no time passes, so no timeout helps."""
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    asked: list[Any] = []

    async def never(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        await asyncio.get_running_loop().create_future()

    make = machine.make_client

    def make_silent(client_id: str, configs: dict[str, str]) -> Any:
        client = make(client_id, configs)
        client.send = never
        return client

    machine.mirror._client_factory = make_silent  # type: ignore[union-attr]
    machine.topic()
    await machine.settle()
    assert machine.state() == "PREPARING" and asked
    machine.name("m.removed")
    for _ in range(5):
        await machine.settle()
    assert machine.state() == "STOPPED"
    assert machine.produce(batch(0, b"own")) is Errors.NONE
    await machine.close()


async def test_a_failover_waited_for_a_source_that_does_not_say_who_leads(tmp_path: Path) -> None:
    """While MIRRORING the fetcher lost its connection, and asks who leads at the source; no answer
    ever comes.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    asked: list[Any] = []

    async def never(*arguments: Any) -> Any:
        asked.append(arguments)
        await asyncio.get_running_loop().create_future()

    machine.source.answer = never  # type: ignore[method-assign]
    machine.mirror.fetchers.remove_partition(machine.driver().id.topic_partition)
    machine.driver().wake()
    await machine.settle()
    assert machine.state() == "MIRRORING" and asked
    machine.name("m.removed")
    for _ in range(5):
        await machine.settle()
    assert machine.state() == "STOPPED"
    await machine.close()


# --- what is on disk before it is acted on
# ------------------------------------------------------------------------------


async def test_stopped_is_on_disk_before_clients_may_write(tmp_path: Path, monkeypatch: Any) -> None:
    """If the only replica lost STOPPED with its power, it would stop the topic again and cut
    records that were acknowledged (D2, F9).

    The state topic of this test has no flush.messages, so the coordinator itself must flush.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    partition, opened = machine.partition("t"), []
    set_read_only = type(partition).set_read_only

    def watched(self: Any, reason: Any) -> None:
        if self is partition and reason is None:
            states = machine.partition(MIRROR_STATE_TOPIC_NAME).leader_log
            opened.append((machine.states_written()[-1], states.recovery_point, states.log_end_offset))
        set_read_only(self, reason)

    monkeypatch.setattr(type(partition), "set_read_only", watched)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert opened and all(state == "STOPPED" and flushed == end for state, flushed, end in opened)
    await machine.close()


async def test_every_state_is_on_disk_before_it_is_acted_on(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    log = machine.partition(MIRROR_STATE_TOPIC_NAME).leader_log
    for name, state in (("m.paused", "PAUSED"), ("m", "MIRRORING"), ("m.removed", "STOPPED")):
        machine.name(name)
        await machine.reach(state)
        assert log.recovery_point == log.log_end_offset
    await machine.close()


async def test_the_reset_is_on_disk_before_stopped_is_stored(tmp_path: Path, monkeypatch: Any) -> None:
    """Otherwise a power loss could keep STOPPED but lose the reset, and nothing would end the
    source's producers and transactions.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    states, stored = machine.mirror.states, []
    write_one = states.write_one

    async def watched(partition: Any, write: Any) -> int:
        if write.state.name == "STOPPED":
            stored.append((machine.log().recovery_point, machine.log().log_end_offset, controls(machine)))
        return await write_one(partition, write)

    monkeypatch.setattr(states, "write_one", watched)
    machine.name("m.removed")
    await machine.reach("STOPPED")
    assert stored == [(2, 2, 1)], "recovery point, log end, resets"
    await machine.close()


# --- read-only for every kind of batch
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_no_kind_of_batch_is_written_to_a_mirror(tmp_path: Path, kind: str) -> None:
    """This includes an idempotent producer's next batch, which the source does not have (D1)."""
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a", epoch=1))
    own = batch(0, b"own", **KINDS[kind])
    assert machine.produce(own) is Errors.READ_ONLY_TOPIC
    machine.name("m.paused")
    await machine.reach("PAUSED")
    assert machine.produce(own) is Errors.READ_ONLY_TOPIC
    machine.driver().on_rejected("malformed batch")
    machine.name("m")
    await machine.settle()
    assert machine.produce(own) is Errors.READ_ONLY_TOPIC
    machine.driver().partition.set_read_only(None)
    machine.driver().status.forget()
    machine.driver()._apply_read_only()
    assert machine.produce(own) is Errors.NOT_LEADER_OR_FOLLOWER, "its state is not known"
    assert machine.log().log_end_offset == 1
    await machine.close()


# --- tombstones
# ---------------------------------------------------------------------------------------------------------


def delete_mirror(machine: MirrorMachine, *topics: str) -> None:
    """Applies the metadata records that DeleteMirror writes."""
    for topic in topics:
        machine.name(None, topic)
    names = list(machine.cache.image.configs.mirror(MIRROR))
    machine.apply(*(ConfigRecord(resource_type=64, resource_name=MIRROR, name=name, value=None) for name in names))


async def test_a_deleted_mirror_leaves_tombstones_of_both_keys(tmp_path: Path) -> None:
    """Without them a new mirror of the same name would find states of the old one (D3-33)."""
    machine = MirrorMachine(str(tmp_path), state_partitions=2)
    machine.source.create("t", partitions=4)
    machine.topic(partitions=4)
    for number in range(4):
        await machine.reach("MIRRORING", number=number)
    machine.name("m.removed")
    for number in range(4):
        await machine.reach("STOPPED", number=number)
    assert all(machine.states_written(number) for number in (0, 1)), "both partitions have states"
    delete_mirror(machine, "t")
    await machine.advance(1_000)
    for number in (0, 1):
        records = machine.state_records(number)
        assert LastMirrorEpochs(MIRROR, None) in records[-2:] and PartitionStateTombstone(MIRROR) in records[-2:]
    found = await machine.mirror.coordinator.read_states(MIRROR, [("t", 0)])  # type: ignore[union-attr]
    assert found["t", 0].state.name == "UNKNOWN" and found["t", 0].last_mirror_epoch == -1
    await machine.close()


async def test_tombstones_on_a_disk_that_fails_are_left_to_the_next_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, a full disk under `__mirror_state` was reported as a bug (found by seed 211591)."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    shards = machine.mirror.coordinator._shards  # type: ignore[union-attr]
    with monkeypatch.context() as patch:

        async def fail(*arguments: object, **named: object) -> None:
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, "the disk is full")

        patch.setattr(shards, "write", fail)
        delete_mirror(machine, "t")
        await machine.settle()
    assert machine.runtime.failure_count == 0 and PartitionStateTombstone(MIRROR) not in machine.state_records()
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=-1)
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=1)
    await machine.advance(1_000)
    assert LastMirrorEpochs(MIRROR, None) in machine.state_records() and PartitionStateTombstone(MIRROR) in machine.state_records()
    await machine.close()


async def test_a_mirror_that_was_deleted_while_nobody_led_its_states_leaves_tombstones(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=-1)
    delete_mirror(machine, "t")
    await machine.settle()
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=1)
    await machine.advance(1_000)
    assert LastMirrorEpochs(MIRROR, None) in machine.state_records() and PartitionStateTombstone(MIRROR) in machine.state_records()
    await machine.close()
