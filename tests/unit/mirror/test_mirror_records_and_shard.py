"""The bytes of `__mirror_state` as in the KIP (A7), and the state that a coordinator's shard builds
from them (C1, C25, D2, D3-33, D3-34).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.mirrors.mirror_machine import MirrorMachine

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.topic_partition import MIRROR_STATE_TOPIC_NAME
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord, CoordinatorResult
from kmirror.mirror.coordination.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, MirrorCoordinatorShard, StateWrite, StoredState
from kmirror.mirror.coordination.mirror_records import last_mirror_epochs_record, partition_state_record, read_record, tombstones
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.record_batch import iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation

S = MirrorPartitionState


def test_a7_keys_and_values() -> None:
    preparing = partition_state_record("my-mirror", "my-topic", 0, S.PREPARING)
    assert preparing.key.hex() == "000200096d792d6d6972726f72"
    assert preparing.value is not None
    assert preparing.value.hex() == "0000096d792d746f706963000000000000"
    epochs = last_mirror_epochs_record("my-mirror", {("my-topic", 1): 3, ("my-topic", 0): 1})
    assert epochs.key.hex() == "000100096d792d6d6972726f72"
    assert epochs.value is not None
    assert epochs.value.hex() == "000002096d792d746f706963030000000000000001000000000100000003000000"


def test_records_survive_a_round_trip() -> None:
    record = partition_state_record("m", "t", 7, S.STOPPED)
    assert read_record(record) == ("m", "t", 7, S.STOPPED)
    assert read_record(last_mirror_epochs_record("m", {("t", 7): 2})) == ("m", {("t", 7): 2})
    assert [read_record(tombstone)[0] for tombstone in tombstones("m")] == ["m", "m"]


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(b"", b""),
        CoordinatorRecord(b"\0\x09\0\x01m", b"\0\0"),
        CoordinatorRecord(b"\0\x02\0\x05m", b"\0\0"),
        CoordinatorRecord(b"\0\x02\0\x01m", b"\0\x01"),
        CoordinatorRecord(b"\0\x02\0\x01m", b"\0\0\x02t\0\0\0\0\x09\0"),
    ],
)
def test_damaged_records_are_named(record: CoordinatorRecord) -> None:
    with pytest.raises(KmirrorError, match="__mirror_state"):
        read_record(record)


def test_unknown_is_never_stored() -> None:
    with pytest.raises(ValueError, match="UNKNOWN"):
        partition_state_record("m", "t", 0, S.UNKNOWN)


def apply(shard: MirrorCoordinatorShard, result: CoordinatorResult[dict[tuple[str, int], Errors]]) -> dict[tuple[str, int], Errors]:
    for record in result.records:
        shard.replay(0, record)
    if result.on_appended is not None:
        result.on_appended()
    return result.response


def test_invalid_transition_writes_nothing_for_its_partition_alone() -> None:
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, S.PREPARING), StateWrite("t", 1, S.PREPARING)]))
    result = shard.write("m", [StateWrite("t", 0, S.MIRRORING), StateWrite("t", 1, S.PAUSED)])
    assert len(result.records) == 1
    assert apply(shard, result) == {("t", 0): Errors.NONE, ("t", 1): Errors.INVALID_REQUEST}
    assert shard.read("m", [("t", 0), ("t", 1)]) == {("t", 0): StoredState(S.MIRRORING, -1, True), ("t", 1): StoredState(S.PREPARING)}


def test_a_late_preparing_needs_a_reason_to_throw_a_partition_back() -> None:
    shard = MirrorCoordinatorShard()
    asked: list[tuple[str, S]] = []

    def no_reason(topic: str, current: S) -> bool:
        asked.append((topic, current))
        return False

    late = [StateWrite("t", 0, S.PREPARING, rewrite=True)]
    for state, error in (
        (S.PREPARING, Errors.NONE),
        (S.MIRRORING, Errors.INVALID_REQUEST),
        (S.STOPPING, Errors.INVALID_REQUEST),
        (S.STOPPED, Errors.INVALID_REQUEST),
    ):
        apply(shard, shard.write("m", [StateWrite("t", 0, state)]))
        result = shard.write("m", late, may_prepare=no_reason)
        assert result.response == {("t", 0): error} and bool(result.records) is (error is Errors.NONE), state
    assert asked == [("t", S.MIRRORING), ("t", S.STOPPED)]
    assert apply(shard, shard.write("m", late))["t", 0] is Errors.NONE


def test_a_late_epoch_never_raises_that_of_a_stopped_partition() -> None:
    shard = MirrorCoordinatorShard()
    for write in (StateWrite("t", 0, S.PREPARING), StateWrite("t", 0, S.STOPPING, 5), StateWrite("t", 0, last_mirror_epoch=3)):
        assert apply(shard, shard.write("m", [write])) == {("t", 0): Errors.NONE}
    apply(shard, shard.write("m", [StateWrite("t", 0, S.STOPPED)]))
    for epoch, error, stored in ((5, Errors.INVALID_REQUEST, 3), (3, Errors.NONE, 3), (2, Errors.NONE, 2), (-2, Errors.NONE, -1)):
        assert apply(shard, shard.write("m", [StateWrite("t", 0, last_mirror_epoch=epoch)])) == {("t", 0): error}
        assert shard.read("m", [("t", 0)])["t", 0].last_mirror_epoch == stored


def test_same_state_writes_only_when_rewritten() -> None:
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, S.PREPARING)]))
    assert shard.write("m", [StateWrite("t", 0, S.PREPARING)]).records == []
    assert len(shard.write("m", [StateWrite("t", 0, S.PREPARING, rewrite=True)]).records) == 1


def test_c25_epoch_record_carries_the_whole_map_of_its_mirror_only() -> None:
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, last_mirror_epoch=3)]))
    apply(shard, shard.write("other", [StateWrite("u", 0, last_mirror_epoch=9)]))
    (record,) = shard.write("m", [StateWrite("t", 1, last_mirror_epoch=4)]).records
    assert read_record(record) == ("m", {("t", 0): 3, ("t", 1): 4})


def test_minus_one_leaves_the_epoch_and_clear_stores_minus_one() -> None:
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, last_mirror_epoch=3)]))
    assert shard.write("m", [StateWrite("t", 0)]).records == []
    apply(shard, shard.write("m", [StateWrite("t", 0, last_mirror_epoch=CLEAR_LAST_MIRROR_EPOCH)]))
    assert shard.read("m", [("t", 0)])["t", 0].last_mirror_epoch == -1


def test_c1_replay_takes_the_newest_of_each_partition_and_tombstones_clear_a_mirror() -> None:
    shard = MirrorCoordinatorShard()
    for record in (
        partition_state_record("m", "t", 0, S.PREPARING),
        partition_state_record("m", "t", 1, S.STOPPED),
        partition_state_record("n", "t", 0, S.PAUSED),
        partition_state_record("m", "t", 0, S.MIRRORING),
    ):
        shard.replay(0, record)
    assert [stored.state for stored in shard.read("m", [("t", 0), ("t", 1)]).values()] == [S.MIRRORING, S.STOPPED]
    for record in shard.delete_mirror("m").records:
        shard.replay(0, record)
    assert shard.mirror_names() == ["n"]
    assert shard.read("m", [("t", 0)]) == {("t", 0): StoredState()}
    assert shard.delete_mirror("m").records == []


def test_removed_topics_lose_their_epoch() -> None:
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, S.PREPARING, 5), StateWrite("u", 0, S.PREPARING, 6)]))
    apply(shard, shard.write("m", [], ["t"]))
    assert shard.read("m", [("t", 0), ("u", 0)]) == {("t", 0): StoredState(), ("u", 0): StoredState(S.PREPARING, 6)}


def test_a_removal_that_comes_late_leaves_what_the_new_topic_of_that_name_has() -> None:
    """The coordinator's broker heard of the removal two seconds later, when the topic had been
    created again (found by `mirrors`, seed 12462).
    """
    shard = MirrorCoordinatorShard()
    apply(shard, shard.write("m", [StateWrite("t", 0, S.PREPARING, 5), StateWrite("t", 1, S.STOPPED, 6)]))
    apply(shard, shard.write("m", [StateWrite("t", 0, S.MIRRORING)]))
    apply(shard, shard.write("m", [], ["t"], is_in_mirror=lambda topic: topic == "t"))
    assert shard.read("m", [("t", 0), ("t", 1)]) == {("t", 0): StoredState(S.MIRRORING, 5, True), ("t", 1): StoredState()}


async def test_a7_states_that_are_written_together_share_a_batch(tmp_path: Path) -> None:
    """The KIP's dump, of a topic with one partition, shows one record per batch. Readers accept any
    number, and each batch costs a write.
    """
    machine = MirrorMachine(str(tmp_path), state_partitions=2)
    machine.topic(partitions=40)
    for number in range(40):
        await machine.reach("MIRRORING", number=number)
    for where in range(2):
        log = machine.partition(MIRROR_STATE_TOPIC_NAME, where).leader_log
        data = log.read(0, 1 << 24, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes()
        batches = list(iter_batches(memoryview(data)))
        records = sum(batch.last_offset - batch.base_offset + 1 for batch in batches)
        assert records == len(machine.states_written(where)) > 30 and len(batches) <= records / 5
        assert {batch.compression.name for batch in batches} == {"NONE"} and all(batch.producer_id == -1 for batch in batches)
    assert len(machine.states_written(0)) + len(machine.states_written(1)) == 2 * 40
    await machine.close()
