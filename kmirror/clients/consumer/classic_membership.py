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
from typing import Final

from kmirror.clients.cluster_client import GROUP, ClusterClient
from kmirror.clients.consumer.classic_requests import AGAIN, GONE, NO_GENERATION, ClassicMemberIdentity, ClassicRequests
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_protocol import (
    PROTOCOL_TYPE,
    deserialize_assignment,
    serialize_subscription,
)
from kmirror.clients.consumer.consumer_types import CommitFailedException, ConsumerGroupMetadata, RebalanceInProgressException
from kmirror.clients.consumer.group_leader import GroupLeader
from kmirror.clients.consumer.member_states import ClassicEvent, ClassicState, classic_step
from kmirror.clients.consumer.membership import ListenerCalls, join_failed
from kmirror.clients.consumer.offset_commits import MemberIdentity
from kmirror.clients.consumer.partition_assignor import ConsumerPartitionAssignor, RebalanceProtocol, Subscription
from kmirror.clients.consumer.pattern_topics import PatternTopics
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages.join_group import JoinGroupResponse
from kmirror.wire.primitives import ProtocolReadError

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
        self._member = member = ClassicMemberIdentity()
        self._requests = ClassicRequests(
            cluster,
            config,
            member,
            protocol_type=PROTOCOL_TYPE,
            group_id=config.group_id,
            group_instance_id=config.group_instance_id,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            on_refused=self._refuse,
        )
        self._attempt = 0
        self._joined_topics: tuple[str, ...] = ()
        self._last_assigned: list[TopicPartition] = []
        self._assignment = b""
        self._gave_up = False
        self._leads = False
        self._join: JoinGroupResponse | None = None
        self._leader = GroupLeader(cluster, config)
        self.trouble: str | None = None
        self._refusal: KmirrorError | None = None
        self._told: KmirrorError | None = None
        self._failures = 0
        self._polled_ms = runtime.clock.monotonic_ms()
        self._heard_ms = self._polled_ms
        self._heartbeat_due_ms = 0.0
        self._work = Signal(runtime)
        self._topics = PatternTopics(runtime, scope, cluster, subscriptions, config, signal)
        supervised = Supervised(runtime, self._run, name=f"consumer-group-{self._group_id}")
        self._task = scope.spawn(supervised.run(), name="membership")

    # Membership

    def subscribed(self, pattern: re.Pattern[str] | None) -> None:
        """See `Membership`."""
        self._topics.watch(pattern)
        self._signal.fire()

    def polled(self) -> None:
        """See `Membership`."""
        self._polled_ms = self._runtime.clock.monotonic_ms()

    def identity(self) -> MemberIdentity:
        """See `Membership`."""
        if self._state in COMMITTING and self._member.generation != NO_GENERATION:
            return MemberIdentity(self._member.generation, self._member.id, self._config.group_instance_id, (self, self._attempt))
        if self._state in (ClassicState.JOINING, ClassicState.SYNCING) and self._member.id:
            raise RebalanceInProgressException(
                "Offset commit cannot be completed since the consumer is undergoing a rebalance for auto partition assignment. You can try "
                "completing the rebalance by calling poll() and then retry the operation."
            )
        raise CommitFailedException

    def fenced(self, identity: MemberIdentity) -> None:
        """See `Membership`."""
        if identity.member_id == self._member.id and identity.generation == self._member.generation:
            self._forget_identity(Errors.UNKNOWN_MEMBER_ID)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Membership`."""
        return ConsumerGroupMetadata(self._group_id, self._member.generation, self._member.id, self._config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        """See `Membership`."""
        self._rejoin(reason)

    async def update(self) -> None:
        """See `Membership`."""
        self._topics.raise_error()
        told, self._told = self._told, None
        if told is not None:
            raise told
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
        elif self._state is ClassicState.STABLE and self._leads and self._leader.has_grown():
            self._rejoin("cached metadata has changed since the last assignment")

    def _rejoin(self, reason: str) -> None:
        self._gave_up = False
        self._member.rejoin_reason = reason
        self._step(ClassicEvent.REJOIN_NEEDED)

    def _step(self, event: ClassicEvent) -> None:
        self._state = classic_step(self._state, event)
        self._work.fire()
        self._signal.fire()

    def _forget_identity(self, error: Errors) -> None:
        """The coordinator does not know us: what we own may be somebody else's by now."""
        self._attempt += 1
        self._gave_up = False
        self._member.generation = NO_GENERATION
        if error is not Errors.ILLEGAL_GENERATION:
            self._member.id = ""
        self._step(ClassicEvent.FENCED)

    def _tell(self, error: KmirrorError) -> None:
        """The next `poll` raises it. The member stays as it is: rights may still be granted."""
        self._told = error
        self._signal.fire()

    def _refuse(self, error: KmirrorError) -> None:
        self._refusal = error
        self._attempt += 1
        self._step(ClassicEvent.REFUSED)

    # What the application takes part in

    async def _prepare(self) -> None:
        owned, attempt = self._subscriptions.assigned_partitions(), self._attempt
        if self._member.generation == NO_GENERATION:
            if owned:
                self._subscriptions.mark_pending_revocation(owned)
                await self._calls.lost(sorted(owned))
                if attempt != self._attempt:
                    return  # the listener has unsubscribed
                self._subscriptions.assign_from_subscribed([])
        else:
            await self._give_up_before_joining(owned)
            if self._member.generation == NO_GENERATION and self._subscriptions.assigned_partitions():
                return  # fenced meanwhile: the rest is lost, not revoked
        if self._state is ClassicState.PREPARING:
            self._step(ClassicEvent.PREPARED)

    async def _give_up_before_joining(self, owned: list[TopicPartition]) -> None:
        eager = self._config.rebalance_protocol is RebalanceProtocol.EAGER
        given_up = owned if eager else [partition for partition in owned if partition.topic not in self._subscriptions.topics]
        self._subscriptions.mark_pending_revocation(given_up)
        await self._commit_before_revocation(min(self._rebalance_timeout_ms, self._config.get_int("request.timeout.ms")))
        if self._member.generation == NO_GENERATION:
            return  # fenced while it committed: `update` comes back, and everything is lost
        if eager or given_up:
            await self._calls.revoked(sorted(given_up))
            if self._state is not ClassicState.PREPARING:
                return  # the listener has unsubscribed
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
        owned, attempt = self._subscriptions.assigned_partitions(), self._attempt
        added = self._subscriptions.not_taken_over(assigned)
        revoked = sorted(set(owned).difference(assigned))
        if revoked:
            self._subscriptions.mark_pending_revocation(revoked)
            await self._commit_before_revocation(self._config.get_int("request.timeout.ms"))
            if self._state is not ClassicState.ASSIGNED:
                return  # fenced meanwhile
            await self._calls.revoked(revoked)
            if attempt != self._attempt:
                return  # the listener has unsubscribed, or it was fenced
            self._gave_up = True
        self._last_assigned = assigned
        self._subscriptions.assign_from_subscribed(assigned)
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=True)
        await self._calls.assigned(added)
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=False)
        if self._state is ClassicState.ASSIGNED:
            self._step(ClassicEvent.TAKEN)
            if self._gave_up:
                self._rejoin("need to revoke partitions and re-join")

    # The task

    async def _run(self) -> None:
        while True:
            if self._state is ClassicState.JOINING:
                await self._send_join()
            elif self._state is ClassicState.SYNCING:
                await self._send_sync()
            elif self._state is ClassicState.FATAL or not self._member.id or self._member.generation == NO_GENERATION:
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
        member_id = self._member.id
        self._forget_identity(Errors.UNKNOWN_MEMBER_ID)
        if self._config.group_instance_id is None:
            await self._requests.leave(
                member_id,
                timeout_ms=self._config.get_int("request.timeout.ms"),
                reason="consumer poll timeout has expired.",
            )

    async def _send_heartbeat(self) -> None:
        attempt = self._attempt

        error = await self._requests.heartbeat()
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
        elif error in AGAIN or error is Errors.GROUP_AUTHORIZATION_FAILED:
            self._heartbeat_due_ms = now_ms + self._cluster.backoff_ms(self._failures)
            self._failures += 1
            if now_ms - self._heard_ms >= self._config.get_int("session.timeout.ms"):
                self._cluster.forget_coordinator(self._group_id, GROUP)
        else:
            self._refuse(self._requests.told(error))

    async def _send_join(self) -> None:
        attempt = self._attempt
        topics = self._subscriptions.topics
        owned = self._subscriptions.assigned_partitions()

        error, response = await self._requests.join(
            lambda: [(assignor.name, self._metadata_of(assignor, topics, owned)) for assignor in self._config.assignors]
        )
        if attempt != self._attempt or self._state is not ClassicState.JOINING:
            return
        if error is Errors.NONE:
            self._failures = 0
            self._joined_topics = topics
            self._member.id, self._member.generation = response.member_id, response.generation_id
            self._member.protocol_name = response.protocol_name or ""
            self._join = response
            self._leads = response.leader == response.member_id
            self._heard_ms = self._runtime.clock.monotonic_ms()
            self._step(ClassicEvent.JOINED)
        elif error is Errors.MEMBER_ID_REQUIRED:
            self._member.id = response.member_id
            self._step(ClassicEvent.RETRY)
        elif error in GONE:
            self._forget_identity(error)
        elif error in AGAIN:
            await self._retry_later(error.name)
        elif error is Errors.GROUP_AUTHORIZATION_FAILED:
            self._tell(self._requests.told(error))
            await self._retry_later(error.name)
        else:
            self._refuse(self._requests.told(error))

    def _metadata_of(self, assignor: ConsumerPartitionAssignor, topics: tuple[str, ...], owned: list[TopicPartition]) -> bytes:
        data = assignor.subscription_user_data(self._last_assigned, self._member.generation)
        rack = self._config.get_string("client.rack") or None
        return serialize_subscription(Subscription(topics, owned, self._member.generation, data, rack, self._config.group_instance_id))

    async def _retry_later(self, reason: str) -> None:
        self.trouble = join_failed(self._group_id, reason)
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
            assignments = await self._leader.assign(join, self._member.protocol_name) if self._leads and not join.skip_assignment else []
        except ApiException as failure:
            if failure.error.retriable:
                await self._retry_later(str(failure))
            else:
                self._refuse(failure)
            return
        except (KmirrorError, ProtocolReadError) as failure:
            self._refuse(ApiException(Errors.INCONSISTENT_GROUP_PROTOCOL, f"the group cannot be assigned: {failure}"))
            return

        if attempt != self._attempt:
            return
        error, response = await self._requests.sync(join.generation_id, assignments)
        if attempt != self._attempt or self._state is not ClassicState.SYNCING:
            return
        if error is Errors.NONE:
            self._failures = 0
            self.trouble = None
            self._assignment = bytes(response.assignment)
            self._heartbeat_due_ms = self._runtime.clock.monotonic_ms() + self._config.get_int("heartbeat.interval.ms")
            self._step(ClassicEvent.SYNCED)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._step(ClassicEvent.RETRY)
        elif error in GONE:
            self._forget_identity(error)
        elif error in AGAIN:
            await self._retry_later(error.name)
        elif error is Errors.GROUP_AUTHORIZATION_FAILED:
            self._tell(self._requests.told(error))
            await self._retry_later(error.name)
        else:
            self._refuse(self._requests.told(error))

    # End

    async def leave(self, *, timeout_ms: float, tell: bool) -> None:
        """See `Membership`."""
        member_id = ""
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        try:
            await self._give_up_everything(timeout_ms)
        finally:
            member_id = self._end()
        if member_id and tell and self._config.group_instance_id is None:
            left_ms = max(0, deadline_ms - self._runtime.clock.monotonic_ms())
            await self._requests.leave(member_id, timeout_ms=left_ms, reason="the consumer is being closed")
        self._calls.raise_error()

    async def _give_up_everything(self, timeout_ms: float) -> None:
        owned = self._subscriptions.assigned_partitions()
        known = self._member.generation != NO_GENERATION and self._state in COMMITTING
        if owned:
            self._subscriptions.mark_pending_revocation(owned)
            if known:
                await self._commit_before_revocation(timeout_ms)
                await self._calls.revoked(sorted(owned))
            else:
                await self._calls.lost(sorted(owned))
            self._subscriptions.assign_from_subscribed([])

    def _end(self) -> str:
        """No heartbeat is sent from now on. Returns the member id."""
        member_id = self._member.id
        self._attempt += 1
        self._member.generation, self._member.id = NO_GENERATION, ""
        self._state = classic_step(self._state, ClassicEvent.LEFT)
        self._task.cancel()
        self._topics.close()
        return member_id
