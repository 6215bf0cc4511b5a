"""The rule of groups at a failover, on histories written by hand: what it notices, and what it
takes for the KIP's own doing.
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.events import Appended, Batch, Event, History, LogKey, Removed, StateWritten
from kmirror.sim.fleet_events import Consumed, GroupSynced, OffsetCommitted, OffsetFetched
from kmirror.sim.mirror_group_checker import follow_groups

P = TopicPartition("orders", 0)
G = "readers"


def value(cluster: str, offset: int) -> bytes:
    return f"{cluster}/x/{offset}".encode()


class Story:
    """Clusters a and b of one node each; a record is its cluster and offset."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def log(self, cluster: str, written_at: str, *offsets: int) -> Story:
        for offset in offsets:
            digest = value(written_at, offset)
            batch = Batch(offset, offset, 0, -1, False, False, None, (digest,), digest, digest, "", 0, 1)
            self._add(Appended(0, LogKey(cluster, P), batch))
        return self

    def remove(self, cluster: str, written_at: str, *offsets: int) -> Story:
        gone = [event.batch for event in self.events if isinstance(event, Appended) and event.log.cluster == cluster]
        batches = [batch for batch in gone if batch.values[0] in {value(written_at, offset) for offset in offsets}]
        return self._add(Removed(0, LogKey(cluster, P), batches, "truncate"))

    def told(self, cluster: str, offset: int) -> Story:
        return self._add(OffsetFetched(0, cluster, G, f"member-{len(self.events)}", P, 0, offset))

    def read(self, cluster: str, written_at: str, first: int, end: int) -> Story:
        records = tuple((offset, value(written_at, offset)) for offset in range(first, end))
        self._add(Consumed(0, cluster, P, "client", True, first, end, records, 0, G))
        return self._add(OffsetCommitted(0, cluster, G, "member", P, 0, end))

    def passed(self, cluster: str, first: int, end: int) -> Story:
        """Nothing but control records."""
        self._add(Consumed(0, cluster, P, "client", True, first, end, (), 0, G))
        return self._add(OffsetCommitted(0, cluster, G, "member", P, 0, end))

    def state(self, cluster: str, state: State) -> Story:
        return self._add(StateWritten(0, LogKey(cluster, P), "m", state))

    def _add(self, event: Event) -> Story:
        event.now_us = len(self.events)
        if isinstance(event, OffsetFetched):
            event.asked_us = event.now_us
        self.events.append(event)
        return self

    def broken(self) -> list[str]:
        return [violation.text for violation in follow_groups(History(self.events))[1]]

    def counts(self) -> dict[str, int]:
        return {kind: count for kind, count in follow_groups(History(self.events))[0].counts.items() if count}


def mirrored() -> Story:
    """a has 0..5, b mirrors 0..4 of it; the group has read up to 3 at a; b takes over and writes
    from 5 on.
    """
    story = Story().log("a", "a", *range(6)).log("b", "a", *range(5))
    story.told("a", -1).read("a", "a", 0, 3)
    return story.log("b", "b", *range(5, 9))


def test_a_group_that_goes_on_where_it_was_skips_nothing() -> None:
    story = mirrored().told("b", 3).read("b", "a", 3, 5)
    assert story.broken() == [] and story.counts() == {}


def test_what_was_read_and_not_synced_is_read_twice() -> None:
    story = mirrored().read("a", "a", 3, 5).told("b", 3).read("b", "a", 3, 5)
    assert story.broken() == [] and story.counts() == {"twice": 2}


def test_a_position_that_nobody_had_is_noticed() -> None:
    assert "where nobody of group readers ever was" in mirrored().told("b", 4).broken()[0]


def test_a_skipped_record_of_the_source_is_noticed() -> None:
    """The position is one that a member had, but what lies below was not all read."""
    story = Story().log("a", "a", *range(6)).log("b", "a", *range(6))
    story.told("a", 0).read("a", "a", 0, 2).read("a", "a", 3, 5).told("b", 5).read("b", "a", 5, 6)
    assert story.broken() == ["group readers begins orders-0 at b at 5 and skips a/x/2 at 2"]


def test_what_the_group_committed_after_the_failover_is_not_set_back() -> None:
    story = mirrored().told("b", 3).read("b", "a", 3, 5).told("b", 3)
    assert story.broken() == ["a member at b is told to begin orders-0 at 3, after group readers had 5 there"]


def test_a_synced_offset_is_not_lost() -> None:
    story = mirrored()
    story.events.append(GroupSynced(len(story.events), "b", G, ((P, 3),)))
    assert "after group readers had 3 there" in story.told("b", 0).broken()[0]


def test_a_synced_offset_that_the_group_has_left_itself_is_none() -> None:
    """Seed 117352: it was beyond the end of a's log, so a's member began again below it, and that
    was synced.
    """
    story = mirrored().read("a", "a", 3, 6)
    story.events.append(GroupSynced(len(story.events), "b", G, ((P, 6),)))
    assert "after group readers had 6 there" in story.told("b", 3).broken()[0]
    story.events.pop()
    assert story.read("a", "a", 3, 5).told("b", 5).broken() == []


def test_an_offset_beyond_the_mirrored_end_skips_what_is_written_after_the_failover() -> None:
    """Offsets are synced as they are (C32)."""
    story = mirrored().read("a", "a", 3, 6).told("b", 6).read("b", "b", 6, 9)
    assert story.broken() == [] and story.counts() == {"beyond": 1}


def test_an_offset_of_a_former_life_of_the_log_skips_what_replaced_it() -> None:
    """The group read b's own 5 and 6 there; b was cut and mirrors a again, and no newer offset was
    synced before the next failover.
    """
    story = mirrored().told("b", 3).read("b", "a", 3, 5).read("b", "b", 5, 7).state("b", State.PREPARING)
    story.remove("b", "b", *range(5, 9)).log("b", "a", *range(5, 9)).state("b", State.STOPPED)
    story.told("b", 7).read("b", "a", 7, 9)
    assert story.broken() == [] and story.counts() == {"stale": 2}


def test_a_position_of_a_former_life_stays_one_until_a_record_is_read() -> None:
    """Seed 222192: the member that began there passed a marker only, and what it committed was
    synced back.
    """
    story = mirrored().told("b", 3).read("b", "a", 3, 5).read("b", "b", 5, 7).state("b", State.PREPARING)
    story.remove("b", "b", *range(5, 9)).log("b", "a", *range(5, 9)).state("b", State.STOPPED)
    story.told("b", 7).passed("b", 7, 8).log("a", "a", *range(6, 9)).told("a", 8).read("a", "a", 8, 9)
    assert story.broken() == [] and story.counts() == {"stale": 3}


def test_a_position_behind_a_marker_alone_excuses_nothing() -> None:
    story = Story().log("a", "a", *range(6)).log("b", "a", *range(6))
    story.told("a", 0).read("a", "a", 0, 2).read("a", "a", 3, 4).told("a", 4).passed("a", 4, 5).told("b", 5).read("b", "a", 5, 6)
    assert story.broken() == ["group readers begins orders-0 at b at 5 and skips a/x/2 at 2"]
