"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup (Kafka's
`ConsumerCoordinator` and `AbstractCoordinator`).

The states are in `member_states.CLASSIC`. A supervised task asks; `update`, inside of `poll`, does
what the application takes part in:

    PREPARING   commit (enable.auto.commit), then give up: everything (eager), or what is no longer
                subscribed (cooperative). If the member was fenced, everything is lost instead
    ASSIGNED    cooperative: commit and give up what was taken away, and join once more so that its
                next owner gets it; then take over what is new

An answer counts only if it belongs to the present attempt: whoever is fenced, or leaves, while a
request is out begins a new one (`_attempt`).

A member whose application does not poll for max.poll.interval.ms leaves by itself, is fenced, and
loses everything at the next poll. The leader watches the partitions of the group's topics and joins
again when their number changes.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kmirror.clients.cluster_client import GROUP, ClusterClient, Node
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_protocol import (
    PROTOCOL_TYPE,
    deserialize_assignment,
    deserialize_subscription,
    serialize_assignment,
    serialize_subscription,
)
from kmirror.clients.consumer.consumer_types import CommitFailedException, ConsumerGroupMetadata, RebalanceInProgressException
from kmirror.clients.consumer.member_states import ClassicEvent, ClassicState, classic_step
from kmirror.clients.consumer.membership import ListenerCalls
from kmirror.clients.consumer.offset_commits import OFFSETS_CONNECTION, MemberIdentity
from kmirror.clients.consumer.partition_assignor import ConsumerPartitionAssignor, RebalanceProtocol, Subscription
from kmirror.clients.consumer.pattern_topics import PatternTopics
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages.heartbeat import HeartbeatRequest
from kmirror.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kmirror.wire.messages.leave_group import LeaveGroupRequest
from kmirror.wire.messages.leave_group import MemberIdentity as LeavingMember
from kmirror.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kmirror.wire.primitives import ProtocolReadError

COORDINATOR_CONNECTION: Final = "coordinator"
JOIN_SLACK_MS: Final = 5_000
"""How much longer than the rebalance timeout a JoinGroup is waited for, as in Kafka."""
MOVED: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION)
GONE: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION)
AGAIN: Final = (*MOVED, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.REBALANCE_IN_PROGRESS)
NO_GENERATION: Final = -1
COMMITTING: Final = (ClassicState.PREPARING, ClassicState.ASSIGNED, ClassicState.STABLE)


class ClassicMembership:
    """Implements `Membership`."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        cluster: ClusterClient,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        signal: Signal,
        *,
        pattern: re.Pattern[str] | None,
        commit_before_revocation: Callable[[float], Awaitable[None]],
    ) -> None:
        assert config.group_id is not None
        self._runtime = runtime
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._config = config
        self._signal = signal
        self._commit_before_revocation = commit_before_revocation
        self._group_id: str = config.group_id
        self._rebalance_timeout_ms = config.get_int("max.poll.interval.ms")
        self._calls = ListenerCalls(subscriptions)
        self._state = ClassicState.UNJOINED
        self._generation = NO_GENERATION
        self._member_id = ""
        self._attempt = 0
        self._protocol_name = ""
        self._joined_topics: tuple[str, ...] = ()
        self._last_assigned: list[TopicPartition] = []
        self._assignment = b""
        self._leads = False
        self._join: JoinGroupResponse | None = None
        self._watched: dict[str, int] = {}
        self._rejoin_reason = ""
        self._refusal: KmirrorError | None = None
        self._failures = 0
        self._polled_ms = runtime.clock.monotonic_ms()
        self._heard_ms = self._polled_ms
        self._heartbeat_due_ms = 0.0
        self._work = Signal(runtime)
        self._topics = PatternTopics(runtime, scope, cluster, subscriptions, config, signal, pattern)
        supervised = Supervised(runtime, self._run, name=f"consumer-group-{self._group_id}")
        self._task = scope.spawn(supervised.run(), name="membership")

    # Membership

    def subscribed(self) -> None:
        """See `Membership`."""
        self._signal.fire()

    def polled(self) -> None:
        """See `Membership`."""
        self._polled_ms = self._runtime.clock.monotonic_ms()

    def identity(self) -> MemberIdentity:
        """See `Membership`."""
        if self._state in COMMITTING and self._generation != NO_GENERATION:
            return MemberIdentity(self._generation, self._member_id, self._config.group_instance_id)
        if self._state in (ClassicState.JOINING, ClassicState.SYNCING) and self._member_id:
            raise RebalanceInProgressException(
                "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition assignment. You can try "
                "completing the rebalance by calling poll() and then retry the operation."
            )
        raise CommitFailedException

    def fenced(self, identity: MemberIdentity) -> None:
        """See `Membership`."""
        if identity.member_id == self._member_id and identity.generation == self._generation:
            self._forget_identity(Errors.UNKNOWN_MEMBER_ID)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Membership`."""
        return ConsumerGroupMetadata(self._group_id, self._generation, self._member_id, self._config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        """See `Membership`."""
        self._rejoin(reason)

    async def update(self) -> None:
        """See `Membership`."""
        self._topics.raise_error()
        self._look_at_topics()
        for _ in range(4):  # at most: taken, prepared, and joined anew without a rest in between
            before = self._state
            if self._refusal is not None:
                raise self._refusal
            if self._state is ClassicState.PREPARING:
                await self._prepare()
            elif self._state is ClassicState.ASSIGNED:
                await self._take_assignment()
            self._calls.raise_error()
            if self._state is before:
                return

    def _look_at_topics(self) -> None:
        topics = self._subscriptions.topics
        if not self._topics.is_known:
            return
        if self._state is ClassicState.UNJOINED:
            self._rejoin("subscribed")
        elif self._state is ClassicState.STABLE and self._joined_topics != topics:
            self._rejoin("the subscription changed")
        elif self._state is ClassicState.STABLE and self._leads and self._has_grown():
            self._rejoin("cached metadata has changed since the last assignment")

    def _has_grown(self) -> bool:
        return any(self._cluster.partition_count(topic) != count for topic, count in self._watched.items())

    def _rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason
        self._step(ClassicEvent.REJOIN_NEEDED)

    def _step(self, event: ClassicEvent) -> None:
        self._state = classic_step(self._state, event)
        self._work.fire()
        self._signal.fire()

    def _forget_identity(self, error: Errors) -> None:
        """The coordinator does not know us: what we own may be somebody else's by now."""
        self._attempt += 1
        self._generation = NO_GENERATION
        if error is not Errors.ILLEGAL_GENERATION:
            self._member_id = ""
        self._step(ClassicEvent.FENCED)

    def _refuse(self, error: KmirrorError) -> None:
        self._refusal = error
        self._attempt += 1
        self._step(ClassicEvent.REFUSED)

    # What the application takes part in

    async def _prepare(self) -> None:
        owned = self._subscriptions.assigned_partitions()
        if self._generation == NO_GENERATION:
            if owned:
                self._subscriptions.mark_pending_revocation(owned)
                await self._calls.lost(sorted(owned))
                self._subscriptions.assign_from_subscribed([])
        else:
            await self._give_up_before_joining(owned)
            if self._generation == NO_GENERATION and self._subscriptions.assigned_partitions():
                return  # fenced meanwhile: the rest is lost, not revoked
        if self._state is ClassicState.PREPARING:
            self._step(ClassicEvent.PREPARED)

    async def _give_up_before_joining(self, owned: list[TopicPartition]) -> None:
        eager = self._config.rebalance_protocol is RebalanceProtocol.EAGER
        given_up = owned if eager else [partition for partition in owned if partition.topic not in self._subscriptions.topics]
        self._subscriptions.mark_pending_revocation(given_up)
        await self._commit_before_revocation(min(self._rebalance_timeout_ms, self._config.get_int("request.timeout.ms")))
        if self._generation == NO_GENERATION:
            return  # fenced while it committed: `update` comes back, and everything is lost
        if eager or given_up:
            await self._calls.revoked(sorted(given_up))
        self._subscriptions.assign_from_subscribed(partition for partition in owned if partition not in given_up)

    async def _take_assignment(self) -> None:
        try:
            assigned = sorted(deserialize_assignment(self._assignment))
        except ProtocolReadError as error:
            self._refuse(ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"the assignment cannot be read: {error}"))
            return
        if not self._subscriptions.matches_subscription(assigned):
            self._step(ClassicEvent.TAKEN)
            self._rejoin("received assignment does not match the current subscription")
            return
        owned = self._subscriptions.assigned_partitions()
        added = [partition for partition in assigned if partition not in owned]
        revoked = sorted(set(owned).difference(assigned))
        if revoked:
            self._subscriptions.mark_pending_revocation(revoked)
            await self._commit_before_revocation(self._config.get_int("request.timeout.ms"))
            if self._state is not ClassicState.ASSIGNED:
                return  # fenced meanwhile
            await self._calls.revoked(revoked)
        self._last_assigned = assigned
        self._subscriptions.assign_from_subscribed(assigned)
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=True)
        await self._calls.assigned(added)
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=False)
        if self._state is ClassicState.ASSIGNED:
            self._step(ClassicEvent.TAKEN)
            if revoked:
                self._rejoin("need to revoke partitions and re-join")

    # The task

    async def _run(self) -> None:
        while True:
            if self._state is ClassicState.JOINING:
                await self._send_join()
            elif self._state is ClassicState.SYNCING:
                await self._send_sync()
            elif self._state is ClassicState.FATAL or not self._member_id or self._generation == NO_GENERATION:
                await self._work.wait(None)
            else:
                await self._heartbeat_or_wait()

    async def _heartbeat_or_wait(self) -> None:
        now_ms = self._runtime.clock.monotonic_ms()
        if now_ms - self._polled_ms >= self._rebalance_timeout_ms:
            await self._leave_unpolled()
            return
        if now_ms < self._heartbeat_due_ms:
            poll_left_ms = self._polled_ms + self._rebalance_timeout_ms - now_ms
            await self._work.wait(max(1.0, min(self._heartbeat_due_ms - now_ms, poll_left_ms)))
            return
        self._heartbeat_due_ms = now_ms + self._config.get_int("heartbeat.interval.ms")
        await self._send_heartbeat()

    async def _leave_unpolled(self) -> None:
        """poll was not called in time: another member shall have the partitions."""
        member_id = self._member_id
        self._forget_identity(Errors.UNKNOWN_MEMBER_ID)
        if self._config.group_instance_id is None:
            await self._send_leave(
                member_id,
                timeout_ms=self._config.get_int("request.timeout.ms"),
                reason="consumer poll timeout has expired.",
            )

    async def _send_heartbeat(self) -> None:
        attempt = self._attempt

        def message(version: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=self._group_id,
                generation_id=self._generation,
                member_id=self._member_id,
                group_instance_id=self._config.group_instance_id if version >= 3 else None,
            )

        error, _ = await self._ask(HeartbeatRequest.API_KEY, message, self._config.get_int("request.timeout.ms"))
        now_ms = self._runtime.clock.monotonic_ms()
        if attempt != self._attempt:
            return
        if error is Errors.NONE:
            self._heard_ms = now_ms
            self._failures = 0
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._heard_ms = now_ms
            if self._state is ClassicState.STABLE:
                self._rejoin("group is already rebalancing")
        elif error in GONE:
            self._forget_identity(error)
        elif error in AGAIN:
            self._heartbeat_due_ms = now_ms + self._cluster.backoff_ms(self._failures)
            self._failures += 1
            if now_ms - self._heard_ms >= self._config.get_int("session.timeout.ms"):
                self._cluster.forget_coordinator(self._group_id, GROUP)
        else:
            self._refuse(self._told(error))

    async def _send_join(self) -> None:
        attempt = self._attempt
        topics = self._subscriptions.topics
        owned = self._subscriptions.assigned_partitions()

        def message(version: int) -> JoinGroupRequest:
            protocols = [
                JoinGroupRequestProtocol(name=assignor.name, metadata=self._metadata_of(assignor, topics, owned))
                for assignor in self._config.assignors
            ]
            return JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=self._config.get_int("session.timeout.ms"),
                rebalance_timeout_ms=self._rebalance_timeout_ms if version >= 1 else -1,
                member_id=self._member_id,
                group_instance_id=self._config.group_instance_id if version >= 5 else None,
                protocol_type=PROTOCOL_TYPE,
                protocols=protocols,
                reason=self._rejoin_reason[:255] if version >= 8 else None,
            )

        timeout_ms = max(self._config.get_int("request.timeout.ms"), self._rebalance_timeout_ms + JOIN_SLACK_MS)
        error, response = await self._ask(JoinGroupRequest.API_KEY, message, timeout_ms)
        if attempt != self._attempt or self._state is not ClassicState.JOINING:
            return
        if error is Errors.NONE:
            self._failures = 0
            self._joined_topics = topics
            self._member_id, self._generation = response.member_id, response.generation_id
            self._protocol_name = response.protocol_name or ""
            self._join = response
            self._leads = response.leader == response.member_id
            self._heard_ms = self._runtime.clock.monotonic_ms()
            self._step(ClassicEvent.JOINED)
        elif error is Errors.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self._step(ClassicEvent.RETRY)
        elif error in GONE:
            self._forget_identity(error)
        elif error in AGAIN:
            await self._retry_later()
        else:
            self._refuse(self._told(error))

    def _metadata_of(self, assignor: ConsumerPartitionAssignor, topics: tuple[str, ...], owned: list[TopicPartition]) -> bytes:
        data = assignor.subscription_user_data(self._last_assigned, self._generation)
        rack = self._config.get_string("client.rack") or None
        return serialize_subscription(Subscription(topics, owned, self._generation, data, rack, self._config.group_instance_id))

    async def _retry_later(self) -> None:
        pause_ms = self._cluster.backoff_ms(self._failures)
        self._failures += 1
        attempt = self._attempt
        await self._runtime.sleep_ms(pause_ms)
        if attempt == self._attempt and self._state in (ClassicState.JOINING, ClassicState.SYNCING):
            self._step(ClassicEvent.RETRY)

    async def _send_sync(self) -> None:
        attempt, join = self._attempt, self._join
        assert join is not None
        try:
            assignments = await self._assign(join) if self._leads and not join.skip_assignment else []
        except ApiException as failure:
            if failure.error.retriable:
                await self._retry_later()
            else:
                self._refuse(failure)
            return
        except (KmirrorError, ProtocolReadError) as failure:
            self._refuse(ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"the group cannot be assigned: {failure}"))
            return

        def message(version: int) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=self._group_id,
                generation_id=join.generation_id,
                member_id=self._member_id,
                group_instance_id=self._config.group_instance_id if version >= 3 else None,
                protocol_type=PROTOCOL_TYPE if version >= 5 else None,
                protocol_name=self._protocol_name if version >= 5 else None,
                assignments=assignments,
            )

        if attempt != self._attempt:
            return
        timeout_ms = max(self._config.get_int("request.timeout.ms"), self._rebalance_timeout_ms + JOIN_SLACK_MS)
        error, response = await self._ask(SyncGroupRequest.API_KEY, message, timeout_ms)
        if attempt != self._attempt or self._state is not ClassicState.SYNCING:
            return
        if error is Errors.NONE:
            self._failures = 0
            self._assignment = bytes(response.assignment)
            self._heartbeat_due_ms = self._runtime.clock.monotonic_ms() + self._config.get_int("heartbeat.interval.ms")
            self._step(ClassicEvent.SYNCED)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._step(ClassicEvent.RETRY)
        elif error in GONE:
            self._forget_identity(error)
        elif error in AGAIN:
            await self._retry_later()
        else:
            self._refuse(self._told(error))

    async def _assign(self, join: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """What the leader decides for all members."""
        assignor = next((one for one in self._config.assignors if one.name == self._protocol_name), None)
        if assignor is None:
            raise ApiException(
                Errors.INCONSISTENT_GROUP_PROTOCOL, f"Coordinator selected invalid assignment protocol: {self._protocol_name}"
            )
        subscriptions = {
            member.member_id: deserialize_subscription(bytes(member.metadata), group_instance_id=member.group_instance_id)
            for member in join.members
        }
        topics = sorted({topic for subscription in subscriptions.values() for topic in subscription.topics})
        if any(not self._cluster.partition_count(topic) for topic in topics):
            await self._cluster.request_update(topics)
        self._watched = {topic: self._cluster.partition_count(topic) for topic in topics}
        assigned = assignor.assign({topic: count for topic, count in self._watched.items() if count}, subscriptions)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=serialize_assignment(partitions))
            for member_id, partitions in assigned.items()
        ]

    # Requests

    async def _ask(self, api_key: int, message: Callable[[int], Any], timeout_ms: float) -> tuple[Errors, Any]:
        """(error, response); the response is None if there is none."""
        node: Node | None = None
        try:
            node = await self._cluster.coordinator(self._group_id, GROUP)
            version = await self._cluster.api_version(node, api_key, connection_key=COORDINATOR_CONNECTION)
            response = await self._cluster.ask(
                node, message(version), timeout_ms=int(timeout_ms), version=version, connection_key=COORDINATOR_CONNECTION
            )
            error = Errors.for_code(response.error_code)
        except ApiException as failure:
            response = None
            error = Errors.COORDINATOR_NOT_AVAILABLE if failure.error.retriable else failure.error
        except KmirrorError as failure:
            self._refuse(failure)  # the login was refused
            return Errors.UNKNOWN_SERVER_ERROR, None
        if error in MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP, node)
        return error, response

    def _told(self, error: Errors) -> ApiException:
        if error is Errors.GROUP_AUTHORIZATION_FAILED:
            return ApiException(error, f"Not authorized to access group: {self._group_id}")
        return ApiException(error)

    # End

    async def leave(self, *, timeout_ms: float, tell: bool) -> None:
        """See `Membership`."""
        owned = self._subscriptions.assigned_partitions()
        known = self._generation != NO_GENERATION and self._state in COMMITTING
        if owned:
            self._subscriptions.mark_pending_revocation(owned)
            if known:
                await self._commit_before_revocation(timeout_ms)
                await self._calls.revoked(sorted(owned))
            else:
                await self._calls.lost(sorted(owned))
            self._subscriptions.assign_from_subscribed([])
        member_id = self._member_id
        self._attempt += 1
        self._generation, self._member_id = NO_GENERATION, ""
        self._state = classic_step(self._state, ClassicEvent.LEFT)
        self._task.cancel()
        await self._topics.close()
        if member_id and tell and self._config.group_instance_id is None:
            await self._send_leave(member_id, timeout_ms=timeout_ms, reason="the consumer is being closed")
        self._calls.raise_error()

    async def _send_leave(self, member_id: str, *, timeout_ms: float, reason: str) -> None:
        """A failure is of no consequence: the session times out."""
        try:
            node = await self._cluster.coordinator(self._group_id, GROUP)
            version = await self._cluster.api_version(node, LeaveGroupRequest.API_KEY, connection_key=OFFSETS_CONNECTION)
            if version >= 3:
                member = LeavingMember(member_id=member_id, reason=reason if version >= 5 else None)
                request = LeaveGroupRequest(group_id=self._group_id, members=[member])
            else:
                request = LeaveGroupRequest(group_id=self._group_id, member_id=member_id)
            await self._cluster.ask(node, request, timeout_ms=int(timeout_ms), version=version, connection_key=OFFSETS_CONNECTION)
        except KmirrorError:
            return
