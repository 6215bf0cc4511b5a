"""Topics that come and go: what operators ask for and hear (`asking`), and what controllers write
(`sim.topic_watch`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.sim.events import Event, History
from kmirror.sim.loop import SimLoop

CREATE_TOPIC, ADD, DELETE_TOPIC = "create topic", "add", "delete topic"
UNANSWERED = "no answer"


@dataclass(slots=True)
class TopicEvent(Event):
    """Something about a topic of a cluster."""

    cluster: str
    topic: str


@dataclass(slots=True)
class TopicMade(TopicEvent):
    """The controller wrote that the topic exists, or its record of the deletion was lost with the
    power.
    """

    topic_id: Uuid
    by_power_loss: bool = False


@dataclass(slots=True)
class PartitionMade(TopicEvent):
    """The controller wrote which hosts hold a partition of the topic, whether or not anything is
    ever appended there.
    """

    partition: int
    hosts: tuple[str, ...]


@dataclass(slots=True)
class TopicGone(TopicEvent):
    """The controller wrote that the topic no longer exists, or its record of the creation was lost
    with the power.
    """

    by_power_loss: bool = False


@dataclass(slots=True)
class TopicAsked(TopicEvent):
    """Someone begins to ask for something; `number` is unique in the history."""

    operation: str
    number: int


@dataclass(slots=True)
class TopicAnswered(TopicEvent):
    """The answer to a `TopicAsked`: `error` is Kafka's name of the error, or UNANSWERED."""

    operation: str
    number: int
    error: str


@contextlib.contextmanager
def asking(history: History, loop: SimLoop, cluster: str, topic: str, operation: str) -> Iterator[None]:
    """Notes a request that is made within the block. An ApiException is its answer; after any other
    error it is unanswered.
    """
    number, error = len(history.events), UNANSWERED
    history.add(TopicAsked(loop.now_us, cluster, topic, operation, number))
    try:
        yield
        error = Errors.NONE.name
    except ApiException as refusal:
        error = refusal.error.name
        raise
    finally:
        history.add(TopicAnswered(loop.now_us, cluster, topic, operation, number, error))


def was_deletion_asked(history: History, cluster: str, topic: str) -> bool:
    """Returns whether somebody has asked for the topic's deletion up to now, whatever the answer
    was.
    """
    asked = (event for event in history.events if isinstance(event, TopicAsked) and event.operation == DELETE_TOPIC)
    return any((event.cluster, event.topic) == (cluster, topic) for event in asked)
