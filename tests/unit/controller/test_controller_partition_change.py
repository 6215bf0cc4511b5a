"""PartitionChangeBuilder by itself: when a leader epoch rises, and how a reassignment ends."""

from __future__ import annotations

from typing import Any

from kmirror.common.uuid import Uuid
from kmirror.controller.partition_change_builder import Election, PartitionChangeBuilder
from kmirror.metadata.registrations import PartitionRegistration

A, B, C, D = (Uuid(bytes([n]) * 16) for n in range(10, 14))
PARTITION = PartitionRegistration(replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=5, partition_epoch=9, directories=(A, B, C))


def change(
    partition: PartitionRegistration = PARTITION, *, alive: tuple[int, ...] = (1, 2, 3, 4), metadata_version: int = 30, **wanted: Any
) -> Any:
    builder = PartitionChangeBuilder(
        partition=partition,
        topic_id=A,
        partition_id=0,
        acceptable=lambda replica: replica in alive,
        metadata_version=metadata_version,
        min_isr=1,
    )
    for name, value in wanted.items():
        setattr(builder, name, value)
    record = builder.build()
    return None if record is None else record.message


def test_nothing_wanted_nothing_said() -> None:
    assert change() is None


def test_an_isr_shrink_raises_the_epoch_only_before_3_6() -> None:
    assert change(target_isr=[1, 2]).leader == -2
    assert change(target_isr=[1, 2], metadata_version=11).leader == 1
    assert change(target_isr=[1, 2], metadata_version=12).leader == -2


def test_record_versions_follow_the_metadata_version() -> None:
    builder = PartitionChangeBuilder(
        partition=PARTITION, topic_id=A, partition_id=0, acceptable=lambda replica: True, metadata_version=16, min_isr=1, target_isr=[1]
    )
    versions = []
    for builder.metadata_version in (16, 17, 23, 30):
        record = builder.build()
        assert record is not None
        versions.append(record.version)
    assert versions == [0, 1, 2, 2]


def test_a_preferred_election_goes_to_the_first_replica() -> None:
    moved = PartitionRegistration(replicas=(1, 2), isr=(2, 1), leader=2, directories=(A, B))
    assert change(moved) is None
    assert change(moved, election=Election.PREFERRED).leader == 1
    assert change(moved, election=Election.PREFERRED, alive=(2,)) is None


def test_a_reassignment_ends_when_all_added_replicas_are_in_sync() -> None:
    moving = PartitionRegistration(
        replicas=(4, 1, 2), isr=(1, 2), leader=1, directories=(D, A, B), removing_replicas=(1,), adding_replicas=(4,), leader_epoch=5
    )  # fmt: skip
    assert change(moving, target_isr=[1]).replicas is None, "4 is not there yet"
    record = change(moving, target_isr=[1, 2, 4])
    assert (record.replicas, record.isr, record.removing_replicas, record.adding_replicas) == ([4, 2], [2, 4], [], [])
    assert (record.leader, record.directories) == (4, [D, B]), "the leader was removed; the first replica in order takes over"
    merged = moving.merge(record)
    assert (merged.leader_epoch, merged.is_reassigning, merged.directories) == (6, False, (D, B))


def test_without_elr_the_last_in_sync_replica_stays() -> None:
    lone = PartitionRegistration(replicas=(1,), isr=(1,), leader=1, directories=(A,))
    record = change(lone, alive=(), target_isr=[])
    assert (record.leader, record.isr) == (-1, None)


def test_with_elr_it_becomes_eligible() -> None:
    lone = PartitionRegistration(replicas=(1,), isr=(1,), leader=1, directories=(A,))
    record = change(lone, alive=(), target_isr=[], elr_enabled=True)
    assert (record.leader, record.isr, record.eligible_leader_replicas, record.last_known_elr) == (-1, [], [1], [1])
    back = change(lone.merge(record), elr_enabled=True)
    assert (back.leader, back.isr, back.eligible_leader_replicas, back.last_known_elr) == (1, [1], [], [])


def test_after_an_unclean_shutdown_only_the_last_known_leader_may_come_back() -> None:
    lone = PartitionRegistration(replicas=(1, 2), isr=(1,), leader=1, directories=(A, B))
    record = change(lone, alive=(2,), target_isr=[], elr_enabled=True, unclean_shutdown_replicas=(1,))
    gone = lone.merge(record)
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (-1, (), (), (1,))
    assert change(gone, alive=(2,), elr_enabled=True) is None
    back = change(gone, alive=(1, 2), elr_enabled=True)
    assert (back.leader, back.isr, back.leader_recovery_state) == (1, [1], 1)
