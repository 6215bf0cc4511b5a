"""What must hold of a fleet's topics that are deleted and made anew, whatever mirrors they are in
(rule "topics").

    gone      if a DeleteTopics was acknowledged, the topic was deleted between question and answer
    asked     a topic goes only while someone asks for its deletion, and is made only while someone
              creates it or adds it to a mirror: no mirror brings it back by itself (B17)
    kept      no loss of power takes back what was acknowledged, neither a creation nor a deletion
    stopped   a mirror's topic goes only if its partitions are STOPPED, or were at some time while
              its deletion was asked for (B30, D3-34)
    empty     a topic that is made anew begins empty, whatever its id: in the end no replica in sync
              has a batch that it had before and that nobody got since (a mirror gets the same
              batches from its source again, and a host that was away may still have them)

Someone who hears nothing, or hears that somebody was not reached, does not know the outcome: such a
request may be carried out at any later time. A partition's state counts from the moment when it is
in force (`sim.replay`). That the coordinators forget the states (D3-34) does not show in their log
until the next coordinator reads it, so the named history `topic_deleted_at_the_mirror` looks at the
last mirror epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kmirror.common.errors import Errors
from kmirror.mirror.mirror_state_machine import MirrorPartitionState as State
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Appended, Event, History, LogKey, Recovered, Reloaded, Removed, StateWritten
from kmirror.sim.fleet_events import Healed
from kmirror.sim.replay import Place, Replay
from kmirror.sim.topic_events import ADD, CREATE_TOPIC, DELETE_TOPIC, UNANSWERED, TopicAnswered, TopicAsked, TopicGone, TopicMade

OPEN = frozenset(
    {
        UNANSWERED,
        *(
            error.name
            for error in (
                Errors.REQUEST_TIMED_OUT,
                Errors.NOT_CONTROLLER,
                Errors.NETWORK_EXCEPTION,
                Errors.COORDINATOR_NOT_AVAILABLE,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.NOT_COORDINATOR,
            )
        ),
    }
)
"""After these a request may still be carried out."""

Topic = tuple[str, str]
"""Cluster and topic name."""


@dataclass(slots=True)
class TopicsInTime:
    """Owns what is known of each topic at a moment of the history.

    `open`: requests that are, or may be, under way. `changes`: the controller's records that the
    topic is there or that it went; those up to `kept` (in us) were acknowledged. `gone`: when it
    went last. `anew`: since when a topic is there again. `states`: the state of each partition and
    its time. `since`: since when a log has each of its batches.
    """

    open: dict[Topic, dict[int, TopicAsked]] = field(default_factory=dict)
    changes: dict[Topic, list[TopicMade | TopicGone]] = field(default_factory=dict)
    kept: dict[Topic, int] = field(default_factory=dict)
    gone: dict[Topic, int] = field(default_factory=dict)
    anew: dict[Topic, int] = field(default_factory=dict)
    states: dict[Place, tuple[State, int]] = field(default_factory=dict)
    since: dict[LogKey, dict[tuple[int, bytes], int]] = field(default_factory=dict)

    def see(self, event: Event, replay: Replay) -> Iterator[str]:
        if isinstance(event, Appended):
            self.since.setdefault(event.log, {})[event.batch.key] = event.now_us
        elif isinstance(event, Removed):
            for batch in event.batches:
                self.since.get(event.log, {}).pop(batch.key, None)
        elif isinstance(event, (Recovered, Reloaded)):
            known = self.since.get(event.log, {})
            self.since[event.log] = {batch.key: known.get(batch.key, event.now_us) for batch in event.batches}
        elif isinstance(event, StateWritten):
            if replay.takes_effect:
                self._set_state(replay.place(event.log), event)
        elif isinstance(event, TopicAsked):
            self.open.setdefault((event.cluster, event.topic), {})[event.number] = event
        elif isinstance(event, TopicAnswered):
            yield from self._answered(event)
        elif isinstance(event, (TopicMade, TopicGone)) and event.by_power_loss:
            yield from self._taken_back(event)
        elif isinstance(event, TopicMade):
            yield from self._made(event)
        elif isinstance(event, TopicGone):
            yield from self._gone(event)
        elif isinstance(event, Healed):
            yield from self._healed(event)

    def _set_state(self, place: Place, event: StateWritten) -> None:
        if event.state is None:
            self.states.pop(place, None)
        else:
            self.states[place] = (event.state, event.now_us)

    def _answered(self, event: TopicAnswered) -> Iterator[str]:
        topic = (event.cluster, event.topic)
        asked = self.open[topic][event.number]
        if event.error not in OPEN:
            del self.open[topic][event.number]
        if event.error == Errors.NONE.name:
            self._keep(topic, asked)
        if event.operation == DELETE_TOPIC and event.error == Errors.NONE.name and self.gone.get(topic, -1) < asked.now_us:
            yield f"the deletion of {event.topic} at {event.cluster} was acknowledged, and it was not deleted"

    def _keep(self, topic: Topic, asked: TopicAsked) -> None:
        """Notes that an acknowledged change is on the disk, with all that was written before it."""
        kind = TopicGone if asked.operation == DELETE_TOPIC else TopicMade
        carried_out = (
            change.now_us for change in self.changes.get(topic, ()) if isinstance(change, kind) and change.now_us >= asked.now_us
        )
        self.kept[topic] = max(self.kept.get(topic, -1), next(carried_out, asked.now_us))

    def _taken_back(self, event: TopicMade | TopicGone) -> Iterator[str]:
        """Takes back the last change, which was lost with the power.

        Only the controller has heard of it, since brokers are told what is on the disk.
        """
        topic = (event.cluster, event.topic)
        changes = self.changes.get(topic)
        if not changes or changes.pop().now_us <= self.kept.get(topic, -1):
            what = "is made" if isinstance(event, TopicMade) else "goes"
            yield f"{event.topic} {what} at {event.cluster} by a loss of power, and what it takes back was acknowledged"
        if isinstance(event, TopicMade):
            self.gone.pop(topic, None)

    def _asked(self, topic: Topic, *operations: str) -> list[TopicAsked]:
        return [asked for asked in self.open.get(topic, {}).values() if asked.operation in operations]

    def _made(self, event: TopicMade) -> Iterator[str]:
        topic = (event.cluster, event.topic)
        self.changes.setdefault(topic, []).append(event)
        if not self._asked(topic, CREATE_TOPIC, ADD):
            yield f"{event.topic} is made at {event.cluster}, and nobody asked for it"
        if topic in self.gone:
            self.anew[topic] = event.now_us

    def _gone(self, event: TopicGone) -> Iterator[str]:
        topic = (event.cluster, event.topic)
        self.changes.setdefault(topic, []).append(event)
        asked = self._asked(topic, DELETE_TOPIC)
        if not asked:
            yield f"{event.topic} goes at {event.cluster}, and nobody asked for it"
        self.gone[topic] = event.now_us
        for place in [place for place in self.states if (place[0], place[1].topic) == topic]:
            state, at_us = self.states.pop(place)
            if asked and state is not State.STOPPED and at_us < min(question.now_us for question in asked):
                yield f"{event.topic} goes at {event.cluster}, and {place[1]} is {state.name}"

    def _healed(self, event: Healed) -> Iterator[str]:
        for partition, hosts in event.isr.items():
            anew_us = self.anew.get((event.cluster, partition.topic))
            if anew_us is not None:
                yield from self._former([LogKey(host, partition) for host in hosts], anew_us)

    def _former(self, logs: list[LogKey], anew_us: int) -> Iterator[str]:
        fresh = {key for log in logs for key, at_us in self.since.get(log, {}).items() if at_us >= anew_us}
        for log in logs:
            former = [key[0] for key, at_us in self.since.get(log, {}).items() if at_us < anew_us and key not in fresh]
            if former:
                yield f"{log} has a batch at {min(former)} of the topic that was deleted before this one was made"


def check_topics(history: History) -> list[Violation]:
    """Returns the violations of the rule "topics"; none where nobody deletes a topic."""
    if not any(
        isinstance(event, TopicGone) or (isinstance(event, TopicAsked) and event.operation == DELETE_TOPIC) for event in history.events
    ):
        return []
    topics, replay = TopicsInTime(), Replay(history)
    return [Violation("topics", event.now_us, text) for event in replay.walk() for text in topics.see(event, replay)]
