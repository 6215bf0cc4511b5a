"""DeleteTopics (20) and CreatePartitions (37) on a cluster with mirrors: refused unless every
partition is STOPPED (B30, D3-34).

The controller does not know the states of partitions. It refuses both requests for a topic whose
`mirror.name` is `X` or `X.paused`, and executes both for `X.removed`. The broker that takes the
request knows more, so it checks the states before it forwards:

    mirror.name      every partition STOPPED      else
    X[.paused]       done in the broker's name    READ_ONLY_TOPIC             (STOPPED: its source topic is gone)
    X….removed       forwarded                    NOT_LEADER_OR_FOLLOWER       (about to be STOPPED: retriable, as for Produce)

A topic that is not STOPPED is not forwarded, whatever its `mirror.name` is: a removal that
overtakes the request would let the controller execute it. What is done in the broker's name is
authorized here as the controller would do it. Requests of brokers go to the controller directly and
are exempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import Errors
from kmirror.metadata.mirror_names import association_of
from kmirror.mirror.coordination.mirror_coordinator_shard import StoredState
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.replica.partition import ReadOnlyReason
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.request import Request
from kmirror.wire.messages.create_partitions import CreatePartitionsTopicResult
from kmirror.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState


class _Way(Enum):
    """What happens to a topic of the request."""

    FORWARDED = "forwarded"
    OWN = "in the broker's name"


async def handle_delete_topics(apis: KafkaApis, request: Request) -> Any:
    message = request.message
    manager = _enabled_mirror(apis)
    if manager is None:
        return await apis.controller.forward(request)
    asked = [(state, _topic_name(manager, state)) for state in message.topics]
    asked += [(name, name) for name in message.topic_names]
    ways = await _ways(manager, {name for _, name in asked if name and _may_delete(apis, request, name)})
    refused: list[DeletableTopicResult] = []
    own: list[Any] = []
    forwarded: list[Any] = []
    for state, name in asked:
        way = ways.get(name, _Way.FORWARDED)
        topic = manager.image().topics.topic(name)
        if isinstance(way, _Way) or topic is None:  # (None: the topic was deleted while its states were asked for)
            (own if way is _Way.OWN else forwarded).append(state)
        else:
            refused.append(DeletableTopicResult(name=name, topic_id=topic.id, error_code=way, error_message=way.message))
    if not refused and not own:
        return await apis.controller.forward(request)
    names = [state for state in forwarded if isinstance(state, str)]
    states = [state for state in forwarded if not isinstance(state, str)]
    part = type(message)(topics=states, topic_names=names, timeout_ms=message.timeout_ms)
    response = await apis.controller.forward(replace(request, message=part))
    if own:
        states = [DeleteTopicState(name=state) if isinstance(state, str) else state for state in own]
        done = await apis.controller.send(DeleteTopicsRequest(topics=states, timeout_ms=message.timeout_ms))
        response.responses.extend(done.responses)
    response.responses.extend(refused)
    return response


async def handle_create_partitions(apis: KafkaApis, request: Request) -> Any:
    message = request.message
    manager = _enabled_mirror(apis)
    if manager is None:
        return await apis.controller.forward(request)
    allowed = {topic.name for topic in message.topics if _may(apis, request, AclOperation.ALTER, topic.name)}
    ways = await _ways(manager, allowed)
    by_way = {way: [topic for topic in message.topics if ways.get(topic.name, _Way.FORWARDED) is way] for way in _Way}
    refused = [
        CreatePartitionsTopicResult(name=name, error_code=error, error_message=error.message)
        for name, error in ways.items()
        if isinstance(error, Errors)
    ]
    if not refused and not by_way[_Way.OWN]:
        return await apis.controller.forward(request)
    parts = {
        way: type(message)(topics=topics, timeout_ms=message.timeout_ms, validate_only=message.validate_only)
        for way, topics in by_way.items()
    }
    response = await apis.controller.forward(replace(request, message=parts[_Way.FORWARDED]))
    if by_way[_Way.OWN]:
        response.results.extend((await apis.controller.send(parts[_Way.OWN])).results)
    response.results.extend(refused)
    return response


def _enabled_mirror(apis: KafkaApis) -> MirrorManager | None:
    manager = apis.mirror
    return manager if manager is not None and manager.is_enabled else None


def _topic_name(manager: MirrorManager, state: Any) -> str:
    """Returns the name of a topic to be deleted, given by name or id; "" for an unknown id."""
    if state.name:
        return str(state.name)
    topic = manager.image().topics.topic_by_id(state.topic_id)
    return "" if topic is None else topic.name


def _may_delete(apis: KafkaApis, request: Request, topic: str) -> bool:
    on_cluster = apis.auth.may_on_cluster(request, AclOperation.DELETE, log_if_denied=False)
    return on_cluster or _may(apis, request, AclOperation.DELETE, topic)


def _may(apis: KafkaApis, request: Request, operation: AclOperation, topic: str) -> bool:
    """Whether the client has the permission; if not, the controller refuses, and nothing is said
    here.
    """
    return apis.auth.authorize(request, operation, ResourceType.TOPIC, topic, log_if_denied=False)


async def _ways(manager: MirrorManager, topics: Iterable[str]) -> dict[str, _Way | Errors]:
    """Returns what happens to each topic of a mirror; others are left out, since they are
    forwarded.
    """
    image = manager.image()
    mirrors = image.configs.mirror_names()
    associations = {name: association_of(image.configs.topic(name)) for name in sorted(topics)}
    owners = {name: found for name, found in associations.items() if found is not None and found.mirror_name in mirrors}
    wanted = [partition for name, found in owners.items() for partition in manager.mirror_partitions(found.mirror_name, [name])]
    ways: dict[str, _Way | Errors] = {name: _Way.FORWARDED if found.removed else _Way.OWN for name, found in owners.items()}
    for (name, _), stored in (await manager.states.read(wanted) if wanted else {}).items():
        if not isinstance(stored, Errors) and stored.state is MirrorPartitionState.STOPPED:
            continue
        ways[name] = _refusal(stored) if owners[name].removed else Errors.READ_ONLY_TOPIC
    return ways


def _refusal(stored: StoredState | Errors) -> Errors:
    """What a topic is refused with that is about to be STOPPED: an error that may be retried."""
    return stored if isinstance(stored, Errors) else ReadOnlyReason.MIRROR_STOPPING.error
