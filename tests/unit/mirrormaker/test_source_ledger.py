"""What a task can never read of its source (`kmirror.mirrormaker.source_ledger`)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirrormaker.source_ledger import UNKNOWN, SourceLedger, Why

P0 = TopicPartition("t", 0)
OLD, NEW = Uuid(b"o" * 16), Uuid(b"n" * 16)


def ledger(next_offset: int = 50, topic_id: Uuid = OLD) -> SourceLedger:
    made = SourceLedger()
    made.begin(P0, next_offset, topic_id)
    return made


def test_a_partition_that_goes_on_where_it_was_has_no_finding() -> None:
    made = ledger()
    assert made.is_as_known(P0, OLD, 50) and made.look(P0, OLD, 50, 0) is None
    made.read(P0, 60, 75)
    assert made.is_as_known(P0, OLD, 60) and made.is_as_known(P0, Uuid.ZERO, 60)


def test_a_topic_made_anew_with_more_records_loses_those_before_the_position() -> None:
    made = ledger()
    made.read(P0, 50, 53)
    found = made.look(P0, NEW, 50, 0)
    assert found is not None and (found.why, found.start, found.end, found.count) == (Why.MADE_ANEW, 0, 50, 50)
    assert found.uncopied == 3, "what the former topic is known to have had"
    assert made.look(P0, NEW, 50, 0) is None, "it is told once"


def test_a_topic_made_anew_and_read_from_its_beginning_loses_nothing_of_it() -> None:
    found = ledger().look(P0, NEW, 0, 0)
    assert found is not None and found.count == 0 and not found.loses


def test_a_log_that_begins_behind_the_next_offset_has_lost_what_is_between() -> None:
    found = ledger().look(P0, OLD, 70, 70)
    assert found is not None and (found.why, found.start, found.end) == (Why.OVERTAKEN, 50, 70)


def test_the_first_place_is_no_loss_and_the_first_id_no_change() -> None:
    made = ledger(UNKNOWN, Uuid.ZERO)
    assert made.look(P0, OLD, 100, 0) is None and made.topic_id(P0) == OLD and made.next_offset(P0) == 100


@given(st.lists(st.tuples(st.sampled_from(["append", "copy", "anew", "delete"]), st.integers(1, 20)), max_size=40))
def test_each_record_is_copied_or_counted_as_lost(steps: list[tuple[str, int]]) -> None:
    """A source that grows, loses its front and is made anew, and a task that reads on at its offset, or at the
    log's start if there is no such offset. What is counted is exactly what was not copied of each topic, but for
    what a former topic had behind its last answer.
    """
    made = ledger(0)
    ids = iter(Uuid(bytes([number]) * 16) for number in range(1, 60))
    topic_id, start, end, position = OLD, 0, 0, 0
    copied = lost = unheard = written = 0
    for what, count in steps:
        if what == "append":
            end, written = end + count, written + count
        elif what == "delete":
            start = min(end, start + count)
        elif what == "anew":
            unheard += end - max(position, start) if position <= end else 0
            unheard += start - position if position < start else 0
            topic_id, start, end = next(ids), 0, 0
        else:
            if not start <= position <= end:
                position = start
            found = made.look(P0, topic_id, position, start)
            lost += 0 if found is None else found.count
            taken = min(count, end - position)
            copied, position = copied + taken, position + taken
            made.read(P0, position)
    assert lost <= written, "nothing is counted twice"
    if not any(what in ("anew",) for what, _ in steps):
        position = max(position, start)
        found = made.look(P0, topic_id, position, start)
        lost += 0 if found is None else found.count
        assert copied + lost + (end - position) == written and unheard == 0
