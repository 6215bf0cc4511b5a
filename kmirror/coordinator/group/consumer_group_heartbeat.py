"""What one ConsumerGroupHeartbeat says of its member, and what the answer says of the assignment, as
functions of the member's state.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.group.consumer_group_member import JOIN_GROUP_MEMBER_EPOCH, ConsumerGroupMember
from kmirror.coordinator.group.consumer_group_patterns import Requester
from kmirror.coordinator.group.current_assignment_builder import OwnedTopicPartitions
from kmirror.wire.messages import consumer_group_heartbeat as wire
from kmirror.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def throw_if_heartbeat_is_invalid(request: ConsumerGroupHeartbeatRequest, api_version: int, assignors: Sequence[str]) -> None:
    """Raises INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that is invalid for any group.
    `assignors` are those that the broker has, in their order.
    """
    if api_version >= 1 or request.member_epoch > 0 or request.member_epoch == -1:
        _throw_if_empty(request.member_id, "MemberId can't be empty.")
    _throw_if_empty(request.group_id, "GroupId can't be empty.")
    _throw_if_empty(request.instance_id, "InstanceId can't be empty.")
    _throw_if_empty(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == 0:
        _throw_if(request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request.")
        _throw_if(request.topic_partitions is None or bool(request.topic_partitions), "TopicPartitions must be empty when (re-)joining.")
        _throw_if(
            request.subscribed_topic_names is None and request.subscribed_topic_regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )
    elif request.member_epoch == -2:
        _throw_if(request.instance_id is None, "InstanceId can't be null.")
    else:
        _throw_if(request.member_epoch < -2, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise ApiException(
            Errors.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def throw_if_instance_id_is_fenced(member: ConsumerGroupMember, member_id: str, instance_id: str) -> None:
    if member.member_id != member_id:
        raise ApiException(
            Errors.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )


def throw_if_member_epoch_is_invalid(member: ConsumerGroupMember, epoch: int, owned: Sequence[OwnedTopicPartitions] | None) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the epoch is the member's, or the one before it because the
    answer with the new one got lost."""
    if epoch in (JOIN_GROUP_MEMBER_EPOCH, member.member_epoch):
        return
    owns_what_it_has = owned is not None and all(
        partition in member.assigned_partitions.get(topic.topic_id, {}) for topic in owned for partition in topic.partitions
    )
    if epoch < member.member_epoch and epoch == member.previous_member_epoch and owns_what_it_has:
        return
    how = "greater" if epoch > member.member_epoch else "smaller"
    raise ApiException(
        Errors.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {how} member epoch ({epoch}) than the one known by the group coordinator "
        f"({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def with_request(member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, requester: Requester) -> ConsumerGroupMember:
    """Returns the member, updated from a request; null fields mean unchanged."""
    names, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return structs.replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=member.subscribed_topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        client_id=requester.client_id,
        client_host=requester.client_host,
        classic=None,
    )


def is_full_request(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Whether the request has all fields, as after an error; the answer then has all fields,
    too."""
    has_subscription = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_subscription and request.topic_partitions is not None


def assignment_of(member: ConsumerGroupMember) -> wire.Assignment:
    partitions = member.assigned_partitions
    return wire.Assignment(
        topic_partitions=[
            wire.ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(partitions, key=lambda topic_id: topic_id.raw)
        ]
    )


def _throw_if(condition: bool, message: str) -> None:
    if condition:
        raise ApiException(Errors.INVALID_REQUEST, message)


def _throw_if_empty(text: str | None, message: str) -> None:
    _throw_if(text is not None and not text.strip(), message)
