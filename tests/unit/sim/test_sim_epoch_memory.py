"""Leader epochs as Java's clients remember them."""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.sim.epoch_memory import EpochMemory

T0 = TopicPartition("t", 0)
ID, OTHER = Uuid(b"1" * 16), Uuid(b"2" * 16)


def test_metadata_of_a_lower_epoch_are_dropped_unless_the_topic_is_another() -> None:
    memory = EpochMemory()
    assert [memory.takes(T0, ID, epoch) for epoch in (3, 3, 2, 4)] == [True, True, False, True]
    assert memory.takes(T0, OTHER, 0)


def test_a_topic_that_was_away_begins_anew_also_under_its_old_id() -> None:
    memory = EpochMemory()
    assert memory.takes(T0, ID, 3)
    memory.forgets("u")
    assert not memory.takes(T0, ID, 0)
    memory.forgets("t")
    assert memory.takes(T0, ID, 0)


def test_an_epoch_that_metadata_do_not_have_is_waited_for() -> None:
    memory = EpochMemory()
    assert not memory.hears(T0, 7), "nothing was seen before"
    assert memory.takes(T0, ID, 3)
    assert [memory.hears(T0, epoch) for epoch in (-1, 3, 7, 7)] == [False, False, True, False]
    assert [memory.takes(T0, ID, epoch) for epoch in (3, 6, 7)] == [False, False, True]
