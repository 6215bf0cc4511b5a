"""The rule of topics that are deleted and made anew: each part of it has a history that it must
find fault with, and the same without the fault.
"""

from __future__ import annotations

from typing import Self

import pytest

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.sim.events import Appended, Batch, Event, History, LogKey, MirrorStatesRead, Recovered, Removed, StateWritten
from kmirror.sim.fleet_events import Healed
from kmirror.sim.topic_checker import check_topics
from kmirror.sim.topic_events import (
    ADD,
    CREATE_TOPIC,
    DELETE_TOPIC,
    UNANSWERED,
    PartitionMade,
    TopicAnswered,
    TopicAsked,
    TopicGone,
    TopicMade,
)
from kmirror.sim.topic_watch import TopicWatch
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.records import write_metadata_record

P = TopicPartition("orders", 0)
LOGS = (LogKey("b1", P), LogKey("b2", P))
ONE, OTHER = (Uuid(bytes([number]) * 16) for number in (1, 2))


class Story:
    """Fleet b of two brokers, where the topic was created, has one batch on both, and was stopped."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.states: list[StateWritten] = []
        self.number = 0
        self.ask(CREATE_TOPIC, lambda: self.made()).append(0).state(State.MIRRORING).state(State.STOPPED)

    def add(self, event: Event) -> Self:
        event.now_us = len(self.events)
        self.events.append(event)
        return self

    def ask(self, operation: str, carried_out=lambda: None, *, error: str = "NONE") -> Self:
        """Someone asks; it is carried out, and they hear of it."""
        self.number += 1
        number = self.number
        self.add(TopicAsked(0, "b", "orders", operation, number))
        carried_out()
        return self.add(TopicAnswered(0, "b", "orders", operation, number, error))

    def made(self, *, by_power_loss: bool = False) -> Self:
        return self.add(TopicMade(0, "b", "orders", ONE, by_power_loss))

    def gone(self, *, by_power_loss: bool = False) -> Self:
        return self.add(TopicGone(0, "b", "orders", by_power_loss))

    def append(self, offset: int) -> Self:
        for log in LOGS:
            self.add(Appended(0, log, self.batch(offset)))
        return self

    def batch(self, offset: int) -> Batch:
        digest = f"{offset}".encode()
        return Batch(offset, offset, 0, -1, False, False, None, (digest,), digest, digest, "", 0, 1)

    def deleted(self, *logs: LogKey) -> Self:
        for log in logs:
            self.add(Removed(0, log, [self.batch(0)], "topic deleted"))
        return self

    def state(self, state: State) -> Self:
        order = (0, len(self.events))
        for log in LOGS:
            self.add(StateWritten(0, log, "m", state, order))
        self.states.append(self.events[-1])
        return self

    def broken(self) -> list[str]:
        self.add(Healed(0, "b", {P: ("b1", "b2")})).add(MirrorStatesRead(0, "b", self.states))
        return [violation.text for violation in check_topics(History(self.events, hosts={"b1": "b", "b2": "b"}))]


def test_a_topic_that_is_deleted_and_added_again_breaks_no_rule():
    story = Story()
    story.ask(DELETE_TOPIC, story.gone).deleted(*LOGS).ask(ADD, story.made).append(0)
    assert story.broken() == []


def test_what_was_acknowledged_and_not_carried_out_is_noticed():
    assert Story().ask(DELETE_TOPIC).broken() == ["the deletion of orders at b was acknowledged, and it was not deleted"]


def test_a_deletion_that_was_refused_need_not_be_carried_out():
    assert Story().ask(DELETE_TOPIC, error="READ_ONLY_TOPIC").broken() == []


@pytest.mark.parametrize("error", ["NONE", UNANSWERED, "REQUEST_TIMED_OUT"])
def test_a_topic_that_comes_back_by_itself_is_noticed(error):
    """After an add of which nobody knows whether it will be carried out it is no surprise."""
    story = Story().ask(ADD, error=error)
    story.ask(DELETE_TOPIC, story.gone).deleted(*LOGS).made()
    assert story.broken() == (["orders is made at b, and nobody asked for it"] if error == "NONE" else [])


@pytest.mark.parametrize("error", ["READ_ONLY_TOPIC", UNANSWERED])
def test_a_topic_that_goes_by_itself_is_noticed(error):
    story = Story().ask(DELETE_TOPIC, error=error).gone()
    assert story.broken() == (["orders goes at b, and nobody asked for it"] if error == "READ_ONLY_TOPIC" else [])


def test_a_loss_of_power_may_take_back_a_creation_that_nobody_heard_of():
    """Seed 61616: the controller lost its power between the write and the sync; the add that hears
    nothing is carried out once more.
    """
    story = Story()
    story.ask(DELETE_TOPIC, story.gone).deleted(*LOGS)
    story.ask(ADD, lambda: story.made().gone(by_power_loss=True).made()).append(0)
    assert story.broken() == []


def test_a_loss_of_power_may_take_back_a_deletion_that_nobody_heard_of():
    story = Story()
    story.ask(DELETE_TOPIC, lambda: story.gone().made(by_power_loss=True), error=UNANSWERED).append(1)
    assert story.broken() == []


def test_a_loss_of_power_that_takes_back_what_was_acknowledged_is_noticed():
    story = Story().gone(by_power_loss=True)
    assert story.broken() == ["orders goes at b by a loss of power, and what it takes back was acknowledged"]
    story = Story()
    story.ask(DELETE_TOPIC, story.gone).made(by_power_loss=True)
    assert story.broken() == ["orders is made at b by a loss of power, and what it takes back was acknowledged"]


def test_an_add_that_found_the_topic_there_acknowledges_it():
    story = Story()
    story.ask(DELETE_TOPIC, story.gone).deleted(*LOGS).ask(ADD, story.made, error=UNANSWERED).ask(ADD).gone(by_power_loss=True)
    assert story.broken() == ["orders goes at b by a loss of power, and what it takes back was acknowledged"]


def test_a_deletion_that_was_taken_back_and_then_acknowledged_is_noticed():
    story = Story()
    story.ask(DELETE_TOPIC, lambda: story.gone().made(by_power_loss=True))
    assert story.broken() == ["the deletion of orders at b was acknowledged, and it was not deleted"]


def test_a_topic_that_is_deleted_while_it_mirrors_is_noticed():
    story = Story().state(State.PREPARING).state(State.MIRRORING)
    story.ask(DELETE_TOPIC, story.gone)
    assert story.broken() == ["orders goes at b, and orders-0 is MIRRORING"]


def test_a_state_that_came_after_the_question_is_no_fault():
    """The broker checks the states first, and the controller deletes later (B10)."""
    story = Story()
    story.ask(DELETE_TOPIC, lambda: story.state(State.PREPARING).gone())
    assert story.broken() == []


def test_a_state_of_the_former_topic_says_nothing_of_the_new_one():
    story = Story()
    story.ask(DELETE_TOPIC, lambda: story.state(State.PREPARING).gone()).deleted(*LOGS)
    story.ask(ADD, story.made).ask(DELETE_TOPIC, story.gone)
    assert story.broken() == []


@pytest.mark.parametrize("restarted", [False, True])
def test_a_replica_that_kept_its_log_is_noticed(restarted):
    story = Story()
    story.ask(DELETE_TOPIC, story.gone).deleted(LOGS[0]).ask(ADD, story.made)
    if restarted:
        story.add(Recovered(0, LOGS[1], [story.batch(0)], None))
    assert story.broken() == ["orders-0@b2 has a batch at 0 of the topic that was deleted before this one was made"]


class TestWatch:
    def batch(self, *messages: TopicRecord | PartitionRecord | RemoveTopicRecord) -> RecordBatch:
        values = [write_metadata_record(message, 0) for message in messages]
        return RecordBatch(bytes(build_batch([Record(n, 0, None, value, []) for n, value in enumerate(values)], base_offset=0)))

    def test_it_reads_what_the_controller_writes(self):
        watch = TopicWatch("b")
        events = list(watch.read(7, self.batch(TopicRecord("orders", ONE), TopicRecord("__mirror_state", OTHER))))
        events += watch.read(8, self.batch(RemoveTopicRecord(ONE), RemoveTopicRecord(OTHER)))
        assert events == [TopicMade(7, "b", "orders", ONE), TopicGone(8, "b", "orders")]

    def test_what_a_power_loss_takes_back_is_told(self):
        watch = TopicWatch("b")
        first, second = self.batch(TopicRecord("orders", ONE)), self.batch(RemoveTopicRecord(ONE), TopicRecord("other", OTHER))
        told = [*watch.read(1, first), *watch.read(2, second)]
        assert [type(event) for event in told] == [TopicMade, TopicGone, TopicMade]
        assert list(watch.read_again(3, [first, second])) == []
        assert list(watch.read_again(4, [first])) == [
            TopicGone(4, "b", "other", by_power_loss=True),
            TopicMade(4, "b", "orders", ONE, by_power_loss=True),
        ]

    def test_it_reads_who_holds_a_partition(self):
        watch = TopicWatch("b")
        made = self.batch(TopicRecord("orders", ONE), PartitionRecord(1, ONE, [3, 1]), PartitionRecord(0, OTHER, [2]))
        gone = self.batch(RemoveTopicRecord(ONE))
        assigned = PartitionMade(7, "b", "orders", 1, ("b3", "b1"))
        assert list(watch.read(7, made)) == [TopicMade(7, "b", "orders", ONE), assigned]
        assert list(watch.read_again(8, [made])) == []
        list(watch.read(9, gone))
        assert list(watch.read_again(7, [made])) == [TopicMade(7, "b", "orders", ONE, by_power_loss=True), assigned]
