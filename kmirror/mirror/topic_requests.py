"""What an administrative request may do to a topic, by its current `mirror.name` and its
partitions' states: the rules of D6 as data.

A request names mirror X. The name decides first, with one error code per topic (B52). If the name
allows the request, the states of all partitions must be among those listed; otherwise the error is
INVALID_REQUEST (for Delete: MIRROR_NOT_EMPTY). Remove needs no particular state: the state machine
stops a partition from any of them (B3), and a failover must not wait for a coordinator. The broker
that received the request checks both, and the controller checks the name again. A race between the
two is harmless, because the partition's state machine checks a third time (B10).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from kmirror.common.errors import Errors
from kmirror.metadata.mirror_names import MirrorAssociation
from kmirror.mirror.mirror_state_machine import MirrorPartitionState

_S = MirrorPartitionState
StateSet = frozenset[MirrorPartitionState]

ANY_STATE: Final[StateSet] = frozenset(_S)


class TopicRequest(Enum):
    """The requests about topics of a mirror."""

    ADD = "AddTopicsToMirror"
    REMOVE = "RemoveTopicsFromMirror"
    PAUSE = "PauseMirrorTopics"
    RESUME = "ResumeMirrorTopics"
    DELETE = "DeleteMirror"


class Association(Enum):
    """The rows of D6: a `mirror.name` as seen by a request that names X."""

    ABSENT = "absent"
    OWN = "X"
    OWN_PAUSED = "X.paused"
    OWN_REMOVED = "X.removed or X.paused.removed"
    OTHER = "Y or Y.paused"
    OTHER_REMOVED = "Y.removed or Y.paused.removed"


def association_kind(association: MirrorAssociation | None, mirror_name: str) -> Association:
    """The row for a parsed `mirror.name`."""
    if association is None:
        return Association.ABSENT
    if association.mirror_name != mirror_name:
        return Association.OTHER_REMOVED if association.removed else Association.OTHER
    if association.removed:
        return Association.OWN_REMOVED
    return Association.OWN_PAUSED if association.paused else Association.OWN


_NEW_OR_STOPPED: Final[StateSet] = frozenset({_S.UNKNOWN, _S.STOPPED})
_STOPPED: Final[StateSet] = frozenset({_S.STOPPED})
_MIRRORING: Final[StateSet] = frozenset({_S.MIRRORING})

D6: Final[dict[tuple[Association, TopicRequest], Errors | StateSet]] = {
    (Association.ABSENT, TopicRequest.ADD): _NEW_OR_STOPPED,
    (Association.ABSENT, TopicRequest.REMOVE): Errors.UNKNOWN_MIRROR,
    (Association.ABSENT, TopicRequest.PAUSE): Errors.UNKNOWN_MIRROR,
    (Association.ABSENT, TopicRequest.RESUME): Errors.UNKNOWN_MIRROR,
    (Association.ABSENT, TopicRequest.DELETE): ANY_STATE,
    (Association.OWN, TopicRequest.ADD): Errors.TOPIC_ALREADY_IN_MIRROR,
    (Association.OWN, TopicRequest.REMOVE): ANY_STATE,
    (Association.OWN, TopicRequest.PAUSE): _MIRRORING,
    (Association.OWN, TopicRequest.RESUME): Errors.MIRROR_TOPIC_NOT_PAUSED,
    (Association.OWN, TopicRequest.DELETE): Errors.MIRROR_NOT_EMPTY,
    (Association.OWN_PAUSED, TopicRequest.ADD): Errors.TOPIC_ALREADY_IN_MIRROR,
    (Association.OWN_PAUSED, TopicRequest.REMOVE): ANY_STATE,
    (Association.OWN_PAUSED, TopicRequest.PAUSE): Errors.MIRROR_TOPIC_ALREADY_PAUSED,
    (Association.OWN_PAUSED, TopicRequest.RESUME): ANY_STATE,
    (Association.OWN_PAUSED, TopicRequest.DELETE): Errors.MIRROR_NOT_EMPTY,
    (Association.OWN_REMOVED, TopicRequest.ADD): _STOPPED,
    (Association.OWN_REMOVED, TopicRequest.REMOVE): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OWN_REMOVED, TopicRequest.PAUSE): Errors.MIRROR_TOPIC_BEING_REMOVED,
    (Association.OWN_REMOVED, TopicRequest.RESUME): Errors.MIRROR_TOPIC_BEING_REMOVED,
    (Association.OWN_REMOVED, TopicRequest.DELETE): _STOPPED,
    (Association.OTHER, TopicRequest.ADD): Errors.TOPIC_ALREADY_IN_MIRROR,
    (Association.OTHER, TopicRequest.REMOVE): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER, TopicRequest.PAUSE): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER, TopicRequest.RESUME): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER, TopicRequest.DELETE): ANY_STATE,
    (Association.OTHER_REMOVED, TopicRequest.ADD): _STOPPED,
    (Association.OTHER_REMOVED, TopicRequest.REMOVE): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER_REMOVED, TopicRequest.PAUSE): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER_REMOVED, TopicRequest.RESUME): Errors.TOPIC_NOT_IN_MIRROR,
    (Association.OTHER_REMOVED, TopicRequest.DELETE): ANY_STATE,
}


def name_check(request: TopicRequest, association: MirrorAssociation | None, mirror_name: str) -> Errors | StateSet:
    """The topic's error, or the states that its partitions must be in."""
    return D6[association_kind(association, mirror_name), request]


def states_error(request: TopicRequest, allowed: StateSet, states: Iterable[MirrorPartitionState]) -> Errors:
    """NONE, or what a partition outside `allowed` means for this request."""
    if all(state in allowed for state in states):
        return Errors.NONE
    return Errors.MIRROR_NOT_EMPTY if request is TopicRequest.DELETE else Errors.INVALID_REQUEST
