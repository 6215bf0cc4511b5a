"""When pairs of offsets are recorded."""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_syncs import MAX_OUTSTANDING_OFFSET_SYNCS, OffsetSyncWriter, PartitionState

T0 = TopicPartition("t", 0)


def due(pairs: list[tuple[int, int]], lag: int = 100) -> list[tuple[int, int]]:
    state = PartitionState(lag)
    return [pair for pair in pairs if state.update(*pair)]


def test_os1_the_first_record_of_a_tasks_life_is_synced() -> None:
    assert due([(7, 3), (8, 4), (9, 5)]) == [(7, 3)]


def test_os1_a_sync_is_due_when_the_translation_would_lag_by_offset_lag_max() -> None:
    assert due([(n, n) for n in range(400)]) == [(0, 0), (101, 101), (202, 202), (303, 303)]
    assert due([(n, n) for n in range(4)], lag=0) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_os1_a_gap_at_the_source_is_synced_at_once() -> None:
    assert due([(0, 0), (1, 1), (5, 2), (6, 3)]) == [(0, 0), (5, 2)]


def test_os1_an_upstream_offset_that_goes_back_is_synced_at_once() -> None:
    assert due([(10, 0), (11, 1), (3, 2)]) == [(10, 0), (3, 2)]


def test_os1_a_downstream_offset_that_goes_back_is_synced_at_once() -> None:
    assert due([(10, 50), (11, 51), (12, 2)]) == [(10, 50), (12, 2)]


def test_os2_the_newest_pair_is_sent_at_the_next_commit() -> None:
    writer = OffsetSyncWriter()
    assert writer.record_acknowledged(T0, 0, 0) == [OffsetSync(T0, 0, 0)]
    assert writer.record_acknowledged(T0, 1, 1) == writer.record_acknowledged(T0, 2, 2) == []
    assert writer.delayed == (OffsetSync(T0, 2, 2),)
    assert writer.commit() == [OffsetSync(T0, 2, 2)] and writer.commit() == []


def test_os2_a_due_pair_replaces_the_one_that_waits_for_the_commit() -> None:
    writer = OffsetSyncWriter()
    writer.record_acknowledged(T0, 0, 0)
    writer.record_acknowledged(T0, 1, 1)
    assert writer.record_acknowledged(T0, 9, 2) == [OffsetSync(T0, 9, 2)]
    assert writer.commit() == []


def test_os2_at_most_ten_syncs_are_in_flight_and_the_rest_goes_in_order_with_its_newest_pair() -> None:
    writer = OffsetSyncWriter()
    partitions = [TopicPartition("t", number) for number in range(13)]
    sent = [sync for partition in partitions for sync in writer.record_acknowledged(partition, 5, 5)]
    assert len(sent) == writer.outstanding == MAX_OUTSTANDING_OFFSET_SYNCS
    assert [sync.topic_partition.partition for sync in writer.pending] == [10, 11, 12]
    assert writer.record_acknowledged(partitions[10], 50, 6) == []
    writer.sync_acknowledged()
    assert writer.pending[0] == OffsetSync(partitions[10], 50, 6), "an acknowledgement alone sends nothing"
    assert writer.commit() == [OffsetSync(partitions[10], 50, 6)]
    writer.sync_acknowledged()
    assert writer.record_acknowledged(partitions[0], 6, 6) == [OffsetSync(partitions[11], 5, 5)]
    assert writer.send_pending() == [], "there is no place"
    writer.sync_acknowledged()
    assert writer.send_pending() == [OffsetSync(partitions[12], 5, 5)]
