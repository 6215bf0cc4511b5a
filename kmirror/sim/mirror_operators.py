"""Operators who do not insist: each tries an operation on a cluster's mirror once, and must hear
something that the rules allow (table D6).

Two of them at once contradict each other: one pauses while another removes, or a topic is added
while it is removed or while its mirror is deleted. Every answer must be legal (rule "operators"):
the operation may give it in some state of the topic. The answer must fit the topic's actual state,
or one that a broker which is behind may believe in, if nothing but this operation was under way and
the association at the controller was the same before and after. Two answers are legal at any time:
that the operation does not reach whom it needs, and that the mirror or the topic is unknown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kmirror.admin.admin_client import AdminClient, NoBrokerError
from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Random
from kmirror.sim.checkers import Violation
from kmirror.sim.events import Event, History, MirrorDeletionAsked, Told
from kmirror.sim.fleet_clients import LOST
from kmirror.sim.loop import SimLoop
from kmirror.sim.topic_events import UNANSWERED, asking

OPERATIONS = (
    "pause",
    "pause",
    "resume",
    "resume",
    "remove",
    "remove",
    "add",
    "add",
    "add",
    "delete mirror",
    "create mirror",
    "delete topic",
)
_ANYTIME = frozenset(
    {
        UNANSWERED,
        *(
            error.name
            for error in (
                Errors.REQUEST_TIMED_OUT,
                Errors.NOT_CONTROLLER,
                Errors.COORDINATOR_NOT_AVAILABLE,
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.NOT_COORDINATOR,
                Errors.NETWORK_EXCEPTION,
                Errors.UNKNOWN_MIRROR,
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
            )
        ),
    }
)


@dataclass(slots=True)
class OperatorHeard(Event):
    """An operator's operation and its answer. `error`: Kafka's name, "NONE" or "no answer".

    `before`, `after`: the topic's association at the controller when it was asked and answered (""
    for none, None if nobody could tell). `alone`: since the last answered operation no other one
    was under way, and every association was seen. `earlier`: associations that a broker which is
    behind may still believe in.
    """

    cluster: str
    who: str
    operation: str
    error: str
    before: str | None
    after: str | None
    alone: bool
    earlier: frozenset[str] = frozenset()


@dataclass(slots=True)
class Controls:
    """What the operators of one cluster share: how to see the association, what it was ("" for
    none, None: not seen), and how many operations are, or may still be, under way.
    """

    cluster: str
    mirror: str
    topic: str
    source_configs: Mapping[str, str]
    association: Callable[[], str | None]
    begun: int = 0
    under_way: int = 0
    lost: int = 0
    seen: set[str | None] = field(default_factory=set)


class MirrorOperator:
    """One person with an admin client."""

    def __init__(self, loop: SimLoop, name: str, admin: AdminClient, controls: Controls, history: History) -> None:
        self._loop = loop
        self._name = name
        self._admin = admin
        self._controls = controls
        self._history = history

    async def quarrel(self, random: Random, times: int, pause: Callable[[], Awaitable[None]]) -> None:
        """Tries that many operations, drawn at random, with a pause before each."""
        for _ in range(times):
            await pause()
            await self.attempt(OPERATIONS[random.randrange(len(OPERATIONS))])

    async def attempt(self, operation: str) -> str:
        """Tries the operation once; returns the name of the error."""
        controls = self._controls
        self._history.add(Told(self._loop.now_us, self._name, f"{operation} at {controls.cluster}"))
        before, alone = controls.association(), controls.under_way == controls.lost == 0
        earlier = frozenset(association for association in controls.seen if association is not None)
        controls.under_way += 1
        controls.begun += 1
        begun = controls.begun
        error = await self._ask(operation)
        controls.under_way -= 1
        controls.lost += error == UNANSWERED
        after, alone = controls.association(), alone and controls.begun == begun
        controls.seen.update((before, after))
        alone = alone and None not in controls.seen
        heard = OperatorHeard(self._loop.now_us, controls.cluster, self._name, operation, error, before, after, alone, earlier)
        self._history.add(heard)
        self._history.add(Told(self._loop.now_us, self._name, f"{operation} at {controls.cluster}: {error}"))
        return error

    async def _ask(self, operation: str) -> str:
        admin, mirror, topics = self._admin, self._controls.mirror, [self._controls.topic]
        try:
            if operation == "create mirror":
                await admin.create_mirror(mirror, dict(self._controls.source_configs))
            elif operation == "delete mirror":
                self._history.add(MirrorDeletionAsked(self._loop.now_us, self._controls.cluster, mirror))
                await admin.delete_mirror(mirror)
            else:
                ask = _TOPIC_OPERATIONS[operation]
                with asking(self._history, self._loop, self._controls.cluster, self._controls.topic, operation):
                    result: Any = await ask(admin, mirror, topics)
                    result.all()
        except ApiException as error:
            return error.error.name
        except (NoBrokerError, *LOST):
            return UNANSWERED
        return Errors.NONE.name


_TOPIC_OPERATIONS: Mapping[str, Callable[[AdminClient, str, list[str]], Awaitable[Any]]] = {
    "add": lambda admin, mirror, topics: admin.add_topics_to_mirror(mirror, topics),
    "remove": lambda admin, mirror, topics: admin.remove_topics_from_mirror(mirror, topics),
    "pause": lambda admin, mirror, topics: admin.pause_mirror_topics(mirror, topics),
    "resume": lambda admin, mirror, topics: admin.resume_mirror_topics(mirror, topics),
    "delete topic": lambda admin, mirror, topics: admin.delete_topics(topics),
}

_IN, _PAUSED, _REMOVED, _NONE = "in", "paused", "removed", "none"
_LEGAL: Mapping[str, Mapping[str, tuple[Errors, ...]]] = {
    "add": {
        _IN: (Errors.TOPIC_ALREADY_IN_MIRROR,),
        _PAUSED: (Errors.TOPIC_ALREADY_IN_MIRROR,),
        _REMOVED: (Errors.NONE, Errors.INVALID_REQUEST),
        _NONE: (Errors.NONE, Errors.INVALID_REQUEST, Errors.INVALID_REPLICATION_FACTOR),
    },
    "remove": {
        _IN: (Errors.NONE, Errors.INVALID_REQUEST),
        _PAUSED: (Errors.NONE, Errors.INVALID_REQUEST),
        _REMOVED: (Errors.TOPIC_NOT_IN_MIRROR,),
        _NONE: (Errors.UNKNOWN_MIRROR,),
    },
    "pause": {
        _IN: (Errors.NONE, Errors.INVALID_REQUEST),
        _PAUSED: (Errors.MIRROR_TOPIC_ALREADY_PAUSED,),
        _REMOVED: (Errors.MIRROR_TOPIC_BEING_REMOVED,),
        _NONE: (Errors.UNKNOWN_MIRROR,),
    },
    "resume": {
        _IN: (Errors.MIRROR_TOPIC_NOT_PAUSED,),
        _PAUSED: (Errors.NONE,),
        _REMOVED: (Errors.MIRROR_TOPIC_BEING_REMOVED,),
        _NONE: (Errors.UNKNOWN_MIRROR,),
    },
    "delete mirror": {
        _IN: (Errors.MIRROR_NOT_EMPTY,),
        _PAUSED: (Errors.MIRROR_NOT_EMPTY,),
        _REMOVED: (Errors.NONE, Errors.MIRROR_NOT_EMPTY),
        _NONE: (Errors.NONE,),
    },
    "create mirror": {
        _IN: (Errors.INVALID_MIRROR_NAME,),
        _PAUSED: (Errors.INVALID_MIRROR_NAME,),
        _REMOVED: (Errors.INVALID_MIRROR_NAME,),
        _NONE: (Errors.NONE, Errors.INVALID_MIRROR_NAME),
    },
    "delete topic": {
        _IN: (Errors.READ_ONLY_TOPIC, Errors.NONE),
        _PAUSED: (Errors.READ_ONLY_TOPIC, Errors.NONE),
        _REMOVED: (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NONE),
        _NONE: (Errors.READ_ONLY_TOPIC, Errors.NONE),
    },
}
"""By operation and association (of a topic that is in this mirror, paused in it, removed from it,
in none).
"""


def check_operators(history: History) -> Iterator[Violation]:
    """Yields a violation for each answer that no state of the topic explains, or not its actual
    state.
    """
    for event in history.events:
        if isinstance(event, OperatorHeard) and event.error not in _ANYTIME:
            rows = _LEGAL[event.operation]
            known = event.before if event.alone and event.before == event.after else None
            states = list(rows) if known is None else [_kind(known), *map(_kind, sorted(event.earlier))]
            if event.error not in {error.name for state in states for error in rows[state]}:
                was = "" if known is None else f", which is {known or 'in no mirror'!r}"
                yield Violation("operators", event.now_us, f"{event.who} hears {event.error} of {event.operation} at {event.cluster}{was}")


def _kind(association: str) -> str:
    if not association:
        return _NONE
    return _REMOVED if association.endswith(".removed") else _PAUSED if association.endswith(".paused") else _IN
