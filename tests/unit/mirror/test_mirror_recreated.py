"""A mirror is deleted and created again under its name before a broker hears of either. Nothing of
the old mirror may carry over to the new one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.mirrors.mirror_machine import MIRROR, REFRESH_MS, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC, ConfigResource, MetadataImage, MetadataProvenance
from kmirror.mirror.coordination.mirror_coordinator_shard import StateWrite, StoredState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.mirror.mirrored_topics import MirroredTopics
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.wire.messages.config_record import ConfigRecord


async def stopped(machine: MirrorMachine) -> None:
    machine.source.create("t")
    machine.at_source(batch(0, b"a", epoch=3))
    machine.topic()
    await machine.reach("MIRRORING")
    await machine.advance(600)
    machine.name(f"{MIRROR}.removed")
    await machine.reach("STOPPED")


def recreation(machine: MirrorMachine, *, topic: bool) -> list[Any]:
    """Returns the records of DeleteMirror, CreateMirror and, with `topic`, AddTopicsToMirror."""
    configs = machine.cache.image.configs.mirror(MIRROR)
    records = [ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="mirror.name", value=None)]
    records += [ConfigRecord(resource_type=RESOURCE_MIRROR, resource_name=MIRROR, name=name, value=None) for name in configs]
    servers = configs["bootstrap.servers"]
    records.append(ConfigRecord(resource_type=RESOURCE_MIRROR, resource_name=MIRROR, name="bootstrap.servers", value=servers))
    if topic:
        records.append(ConfigRecord(resource_type=RESOURCE_TOPIC, resource_name="t", name="mirror.name", value=MIRROR))
    return records


async def test_its_states_and_epochs_are_not_those_of_the_deleted_one(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await stopped(machine)
    coordinator = machine.mirror.coordinator
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState(State.STOPPED, 3, True)
    machine.apply(*recreation(machine, topic=False))
    await machine.settle()
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    await machine.close()


@pytest.mark.parametrize("one_delta", [True, False])
async def test_it_belongs_to_the_source_that_answers_it_first_and_begins_from_nothing(tmp_path: Path, one_delta: bool) -> None:
    machine = MirrorMachine(str(tmp_path))
    await stopped(machine)
    before, driver = machine.mirror.mirror(MIRROR), machine.driver()
    records = recreation(machine, topic=True)
    machine.source.cluster_id = "another source"
    for part in [records] if one_delta else [records[:-2], records[-2:]]:
        machine.apply(*part)
    assert machine.mirror.mirror(MIRROR) is not before
    assert machine.driver() is not driver and machine.driver().status.last_mirror_epoch == -1
    await machine.reach("MIRRORING")
    await machine.advance(REFRESH_MS)
    assert machine.mirror.source_cluster_id(MIRROR) == "another source"
    assert not machine.mirror.mirror(MIRROR).is_suspended
    assert len(machine.headers()) == 1, "begun from nothing: the reset of the deleted mirror is gone"
    await machine.close()


async def test_its_sync_cycles_know_nothing_of_the_deleted_ones(tmp_path: Path) -> None:
    """Access rules that were seen at the old source must not be deleted because the new one lacks
    them (C15).
    """
    machine = MirrorMachine(str(tmp_path))
    await stopped(machine)
    manager = machine.mirror.metadata_manager
    forgotten: list[str] = []
    for step in manager._steps:
        step.forget = forgotten.append
    loop = manager._loops[MIRROR]
    machine.apply(*recreation(machine, topic=False))
    assert forgotten == [MIRROR] * len(manager._steps) and manager._loops[MIRROR] is not loop
    await machine.settle()
    assert loop.task is not None and loop.task.cancelled()
    await machine.close()


async def test_a_state_that_the_new_mirror_has_written_already_is_not_deleted(tmp_path: Path) -> None:
    """The leader of a topic that was not in the old mirror hears of the new one before the
    coordinator does.
    """
    machine = MirrorMachine(str(tmp_path))
    await stopped(machine)
    coordinator = machine.mirror.coordinator
    machine.topic("u", value=None)
    await coordinator.write_states(MIRROR, [StateWrite("u", 0, State.PREPARING)])
    machine.apply(*recreation(machine, topic=False))
    await machine.settle()
    assert (await coordinator.read_states(MIRROR, [("u", 0)]))["u", 0].state is State.PREPARING
    await machine.close()


def delta_of(image: MetadataImage, **configs: str | None) -> tuple[MetadataDelta, MetadataImage]:
    delta = MetadataDelta(image)
    for name, value in configs.items():
        delta.replay(ConfigRecord(resource_type=RESOURCE_MIRROR, resource_name=MIRROR, name=name.replace("_", "."), value=value))
    return delta, delta.apply(MetadataProvenance(1, 1, 0))


def test_which_changes_of_a_mirror_make_another_one() -> None:
    topics = MirroredTopics()
    delta, image = delta_of(MetadataImage.EMPTY, bootstrap_servers="a:1")
    assert topics.recreated(delta, image) == set(), "created"
    topics.apply(delta, image)
    assert topics.recreated(*delta_of(image, bootstrap_servers="b:1")) == set(), "altered"
    learned = delta_of(image, source_cluster_id="A")
    assert topics.recreated(*learned) == set(), "the source was reached"
    assert topics.recreated(*delta_of(learned[1], source_cluster_id=None, bootstrap_servers="a:1")) == {MIRROR}, "as after a snapshot"
    deleted, after = delta_of(image, bootstrap_servers=None)
    assert topics.recreated(deleted, after) == set(), "deleted"
    deleted.replay(ConfigRecord(resource_type=RESOURCE_MIRROR, resource_name=MIRROR, name="bootstrap.servers", value="a:1"))
    assert topics.recreated(deleted, deleted.apply(MetadataProvenance(1, 1, 0))) == {MIRROR}
    assert list(deleted.configs.emptied) == [ConfigResource(RESOURCE_MIRROR, MIRROR)]


async def to_be_recreated(machine: MirrorMachine) -> list[list[Any]]:
    """Makes a stopped mirror whose states are loaded.

    Returns the records that delete it, and those that create it again.
    """
    await stopped(machine)
    records = recreation(machine, topic=False)
    return [records[:-1], records[-1:]]


@pytest.mark.parametrize("one_delta", [True, False])
async def test_states_that_are_loaded_while_the_mirror_is_deleted_and_created_anew_were_the_new_ones(
    tmp_path: Path, one_delta: bool
) -> None:
    machine = MirrorMachine(str(tmp_path))
    deleted, created = await to_be_recreated(machine)
    coordinator = machine.mirror.coordinator
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    assert not coordinator._shards.active_partitions(), "it loads"
    for part in [[*deleted, *created]] if one_delta else [deleted, created]:
        machine.apply(*part)
    await machine.advance(100)
    assert coordinator._shards.active_partitions()
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING)])
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    await machine.advance(100)
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0].state is State.PREPARING, "deleted once"
    await machine.close()


async def test_states_of_a_deleted_mirror_are_not_told_while_they_cannot_be_deleted(tmp_path: Path) -> None:
    """The ISR is too small for a moment, so tombstones cannot be written; then the coordinator's
    partition gets a new leader epoch.
    """
    machine = MirrorMachine(str(tmp_path))
    deleted, created = await to_be_recreated(machine)
    coordinator = machine.mirror.coordinator
    write, is_small = coordinator._shards.write, True

    async def write_if_enough(*args: Any) -> Any:
        if is_small:
            raise ApiException(Errors.NOT_ENOUGH_REPLICAS)
        return await write(*args)

    coordinator._shards.write = write_if_enough
    machine.apply(*deleted)
    machine.apply(*created)
    await machine.settle()
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] is Errors.COORDINATOR_LOAD_IN_PROGRESS
    late = await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.PREPARING)])
    assert late["t", 0] is Errors.COORDINATOR_LOAD_IN_PROGRESS
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    is_small = False
    await machine.advance(100)
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    await machine.close()


async def away_while(machine: MirrorMachine, *records: Any) -> None:
    """Applies the records while the coordinator belongs to a dead broker; then it is ours again."""
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=2)
    await machine.advance(500)
    machine.apply(*records)
    await machine.advance(500)
    machine.change(topic=MIRROR_STATE_TOPIC_NAME, leader=1)
    await machine.advance(500)


async def test_a_mirror_that_was_recreated_while_its_coordinator_was_dead_saw_the_states_of_the_deleted_one(tmp_path: Path) -> None:
    """Removed again before it mirrored, it would have kept the last mirror epoch of another source
    (D4 step 4).
    """
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await stopped(machine)
    coordinator = machine.mirror.coordinator
    await away_while(machine, *recreation(machine, topic=False))
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    machine.refusing[MIRROR] = Errors.COORDINATOR_NOT_AVAILABLE
    machine.name(MIRROR)
    await machine.reach("PREPARING")
    assert machine.driver().status.last_mirror_epoch == -1
    machine.name(f"{MIRROR}.removed")
    await machine.reach("STOPPED")
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState(State.STOPPED)
    await machine.close()


async def test_a_topic_that_was_deleted_while_it_was_stopping_could_not_be_added_again_after_a_reload(tmp_path: Path) -> None:
    """The metadata listener deletes the state of a removed topic whatever the state was, and Add
    requires UNKNOWN or STOPPED (D6).
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    coordinator = machine.mirror.coordinator
    await coordinator.write_states(MIRROR, [StateWrite("t", 0, State.STOPPING)])
    machine.delete_topic("t")
    await machine.advance(500)
    machine.change(topic=MIRROR_STATE_TOPIC_NAME)
    await machine.advance(500)
    machine.topic(value=None)
    assert (await coordinator.read_states(MIRROR, [("t", 0)]))["t", 0] == StoredState()
    await machine.close()


@pytest.mark.parametrize("name", [f"{MIRROR}.removed", MIRROR, "other", "other.removed"])
async def test_a_coordinator_that_loads_forgets_no_topic_that_is_in_a_mirror(tmp_path: Path, name: str) -> None:
    """What is stored for a topic that moved to another mirror is kept (D6)."""
    machine = MirrorMachine(str(tmp_path), others=(2,))
    await stopped(machine)
    await away_while(machine, *machine.config_records("t", {"mirror.name": name}))
    epochs = [machine.mirror.coordinator._shards.shards()[0].read(MIRROR, [("t", 0)])["t", 0].last_mirror_epoch]
    assert epochs == [3]
    await machine.close()


async def test_leaders_begin_again_when_the_states_are_gone(tmp_path: Path) -> None:
    """A `__mirror_state` that was deleted and created again is empty (C38). Once, its coordinators
    refused a pause as an invalid transition.
    """
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"a"))
    machine.topic("u")
    await machine.reach("MIRRORING", "u")
    machine.name(f"{MIRROR}.removed", "u")
    await machine.reach("STOPPED", "u")
    assert machine.produce(batch(0, b"mine"), topic="u") is Errors.NONE
    end = machine.log("u").log_end_offset
    machine.delete_topic(MIRROR_STATE_TOPIC_NAME)
    await machine.advance(1_000)
    machine._make_state_topic(1, 1)
    await machine.advance(5_000)
    assert (machine.state(), machine.state("u")) == ("MIRRORING", "STOPPED")
    stored = await machine.mirror.coordinator.read_states(MIRROR, [("t", 0), ("u", 0)])
    assert [stored[key].state for key in stored] == [State.MIRRORING, State.STOPPED]
    assert machine.log("u").log_end_offset >= end
    machine.name(f"{MIRROR}.paused")
    await machine.reach("PAUSED")
    await machine.close()


@pytest.mark.parametrize("name", [f"{MIRROR}.removed", f"{MIRROR}.paused"])
async def test_a_failed_over_log_without_its_reset_was_cut_when_the_states_were_gone(tmp_path: Path, name: str) -> None:
    """Retention has deleted the reset, so nothing in the log tells that it was stopped, and stopping
    again would cut what was acknowledged behind the first open transaction.
    """
    machine = MirrorMachine(str(tmp_path))
    await stopped(machine)
    if name.endswith(".paused"):  # its source topic was deleted
        machine.name(name)
        await machine.advance(1_000)
    log, epoch = machine.log(), machine.registration().leader_epoch
    opened = batch(2, b"open", epoch=epoch, producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    machine.local(opened, batch(3, b"acknowledged", epoch=epoch))
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(2, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert (log.log_start_offset, log.last_stable_offset) == (2, 2)
    machine.delete_topic(MIRROR_STATE_TOPIC_NAME)
    await machine.advance(1_000)
    machine._make_state_topic(1, 1)
    await machine.advance(5_000)
    assert (machine.state(), log.log_end_offset) == ("STOPPED", 4)
    assert machine.produce(batch(0, b"mine")) is Errors.NONE
    await machine.close()
