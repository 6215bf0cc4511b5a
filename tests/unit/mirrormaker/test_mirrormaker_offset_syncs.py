"""When pairs of offsets are recorded."""

from __future__ import annotations

from collections.abc import Sequence

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


def test_os1_another_record_at_the_same_downstream_offset_is_synced_at_once() -> None:
    assert due([(10, 0), (11, 0), (12, 1)]) == [(10, 0), (11, 0)], "the target's topic was made anew"


def busy_writer(partitions: Sequence[TopicPartition]) -> OffsetSyncWriter:
    """Ten syncs are in flight. Of each of `partitions` the first sync is written: offset 5 in both clusters."""
    writer = OffsetSyncWriter()
    for partition in partitions:
        writer.sync_done(*writer.record_acknowledged(partition, 5, 5))
    for number in range(MAX_OUTSTANDING_OFFSET_SYNCS):
        writer.record_acknowledged(other(number).topic_partition, 0, 0)
    assert writer.outstanding == MAX_OUTSTANDING_OFFSET_SYNCS
    return writer


def other(number: int) -> OffsetSync:
    return OffsetSync(TopicPartition("other", number), 0, 0)


def test_os2_at_most_ten_syncs_are_in_flight_and_the_rest_goes_in_order_with_its_newest_pair() -> None:
    partitions = [TopicPartition("t", number) for number in range(3)]
    writer = busy_writer(partitions)
    for partition in partitions:
        assert writer.record_acknowledged(partition, 8, 6) == []
    assert writer.record_acknowledged(partitions[0], 50, 7) == []
    writer.sync_done(other(0))
    assert writer.pending[0] == OffsetSync(partitions[0], 50, 7), "an acknowledgement alone sends nothing"
    assert writer.commit() == [OffsetSync(partitions[0], 50, 7)]
    writer.sync_done(other(1))
    assert writer.record_acknowledged(other(0).topic_partition, 1, 1) == [OffsetSync(partitions[1], 8, 6)]
    assert writer.send_pending() == [], "there is no place"
    writer.sync_done(other(2))
    assert writer.send_pending() == [OffsetSync(partitions[2], 8, 6)]


def test_os2_the_first_pair_of_a_log_is_not_replaced_while_it_waits() -> None:
    writer = busy_writer([T0])
    for pair in ((6, 0), (9, 1), (20, 2)):  # made anew; two gaps
        assert writer.record_acknowledged(T0, *pair) == []
    for number in range(2):
        writer.sync_done(other(number))
    assert writer.commit() == [OffsetSync(T0, 6, 0), OffsetSync(T0, 20, 2)]


def test_os2_the_first_pair_of_a_tasks_life_is_not_replaced_while_it_waits() -> None:
    """The topic may have been made anew while the task was elsewhere."""
    writer = busy_writer([])
    for pair in ((6, 0), (9, 1), (20, 2)):
        assert writer.record_acknowledged(T0, *pair) == []
    assert writer.pending == (OffsetSync(T0, 6, 0), OffsetSync(T0, 20, 2))


def test_os2_the_first_pair_of_a_log_that_failed_goes_again_at_the_next_commit() -> None:
    writer = OffsetSyncWriter()
    (first,) = writer.record_acknowledged(T0, 6, 0)
    (later,) = writer.record_acknowledged(T0, 9, 1)
    writer.sync_done(later, failed=True)
    writer.sync_done(first, failed=True)
    assert writer.send_pending() == [], "a topic that refuses syncs is not asked all the time"
    assert writer.commit() == [first], "a later pair says more than the other one"
    writer.sync_done(first)
    assert writer.commit() == []


def test_os2_of_two_logs_that_began_the_later_one_counts() -> None:
    writer = busy_writer([T0])
    for pair in ((6, 0), (7, 1), (8, 0), (9, 1)):
        writer.record_acknowledged(T0, *pair)
    assert writer.pending == (OffsetSync(T0, 8, 0),)
