"""`__mirror_state` grows or vanishes: states are still found in their partitions, and the records
that a failed-over topic has accepted are not cut.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord

OPEN: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
COUNTS = (2, 3, 5, 7)


def grow(machine: MirrorMachine, count: int) -> None:
    """Grows the state topic, as a controller without our rules would."""
    topic = machine.cache.image.topics.topic(MIRROR_STATE_TOPIC_NAME)
    assert topic is not None
    machine.apply(*(machine.partition_record(topic.id, n, (1,), (1,), 1) for n in range(len(topic.partitions), count)))


def replace_state_topic(machine: MirrorMachine) -> None:
    """Deletes the state topic and creates it again, empty."""
    topic = machine.cache.image.topics.topic(MIRROR_STATE_TOPIC_NAME)
    assert topic is not None
    machine.apply(RemoveTopicRecord(topic_id=topic.id))
    machine._make_state_topic(1, 1)


async def failed_over(machine: MirrorMachine) -> int:
    """Fails topic t over; then one client has an open transaction there, and the record of another
    is acknowledged. Returns the log end offset.
    """
    await machine.mirroring(batch(0, b"a", epoch=1))
    machine.name("m.removed")
    await machine.reach("STOPPED")
    epoch = machine.registration().leader_epoch
    machine.local(batch(machine.log().log_end_offset, b"t", epoch=epoch, **OPEN, base_sequence=0))
    assert machine.produce(batch(0, b"acknowledged")) is Errors.NONE
    end: int = machine.log().log_end_offset
    return end


async def test_a_topic_that_failed_over_keeps_what_was_acknowledged_when_the_state_topic_grows(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    before = await failed_over(machine)
    for count in COUNTS:
        grow(machine, count)
        await machine.settle()
        machine.change(bump=1)
        await machine.advance(1_000)
        assert machine.state() == "STOPPED"
    assert machine.log().log_end_offset == before
    assert machine.states_written() == ["PREPARING", "MIRRORING", "STOPPING", "STOPPED"]
    await machine.close()


async def test_a_mirror_whose_state_topic_grows_is_not_prepared_again(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(*[batch(n, b"a", epoch=1) for n in range(9)])
    machine.source.down.update(machine.source.addresses.values())
    await machine.advance(500)
    for count in COUNTS:
        grow(machine, count)
        await machine.settle()
        machine.change(bump=1)
        await machine.advance(1_000)
        assert machine.state() == "MIRRORING"
    assert machine.log().log_end_offset == 9
    await machine.close()


async def test_the_number_of_partitions_that_the_topic_was_born_with_outlives_the_broker(tmp_path: Path) -> None:
    """An older version created the topic. The leader of partition 0 has the number recorded, and a
    broker that starts later uses it.
    """
    machine = MirrorMachine(str(tmp_path), state_partitions=3)
    coordinator = machine.mirror.coordinator
    places = [coordinator.state_partition_of(f"key-{n}") for n in range(20)]
    assert coordinator.unrecorded_partition_count == 3
    await machine.mirroring(batch(0, b"a", epoch=1))
    await machine.advance(31_000, step_ms=1_000)
    assert machine.cache.image.configs.topic(MIRROR_STATE_TOPIC_NAME) == {"mirror.topic.num.partitions": "3"}
    assert coordinator.unrecorded_partition_count is None
    grow(machine, 8)
    coordinator._seen_first = None  # as in a broker that starts now
    assert [coordinator.state_partition_of(f"key-{n}") for n in range(20)] == places
    await machine.close()


async def test_a_state_topic_that_grew_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        machine = MirrorMachine(str(tmp_path), state_partitions=3)
        for count in (4, 5):
            grow(machine, count)
        await machine.close()
    told = [record.getMessage() for record in caplog.records if "was created with" in record.getMessage()]
    assert told == [
        "__mirror_state has 4 partitions but was created with 3. The states of mirrors stay in those; the other partitions are not used"
    ]


async def test_another_state_topic_has_a_number_of_its_own(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path), state_partitions=3)
    topic = machine.cache.image.topics.topic(MIRROR_STATE_TOPIC_NAME)
    machine.apply(RemoveTopicRecord(topic_id=topic.id))
    machine._make_state_topic(5, 1)
    assert machine.mirror.coordinator.unrecorded_partition_count == 5
    await machine.close()


async def test_a_topic_that_failed_over_keeps_what_was_acknowledged_when_its_state_is_lost(tmp_path: Path) -> None:
    """The log shows that the partition was stopped and that everything after the reset was written
    here, so it is not stopped again.
    """
    machine = MirrorMachine(str(tmp_path))
    before = await failed_over(machine)
    replace_state_topic(machine)
    await machine.reach("STOPPED")
    assert machine.log().log_end_offset == before
    assert machine.states_written() == ["STOPPED"]
    assert machine.produce(batch(0, b"more")) is Errors.NONE
    await machine.close()


async def test_a_mirror_of_which_the_source_failed_back_is_stopped_when_its_state_is_lost(tmp_path: Path) -> None:
    """Our own reset of an earlier failover lies below what was mirrored since, as the partner's
    later reset shows.
    """
    machine = MirrorMachine(str(tmp_path))
    before = await failed_over(machine)
    assert machine.mirror.mirror("m").source_cluster_id
    epoch = machine.registration().leader_epoch
    reset = bytearray(build_mirror_pid_reset("somebody else", timestamp=0))
    machine.local(_at(reset, before, epoch + 1), epoch=1 << 30)
    machine.driver().status.forget()  # its leader is a new one, which knows only the log
    replace_state_topic(machine)
    await machine.reach("STOPPED")
    assert machine.states_written() == ["STOPPING", "STOPPED"]
    await machine.close()


def _at(data: bytearray, offset: int, epoch: int) -> bytes:
    data[0:8] = offset.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)
