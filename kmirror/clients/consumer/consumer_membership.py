"""A member of a KIP-848 group: one heartbeat does everything (Kafka's `ConsumerMembershipManager`
and `ConsumerHeartbeatRequestManager`).

The states are in `member_states.CONSUMER`. A supervised task sends heartbeats: at the interval that
the coordinator names, and at once to join, to acknowledge and to leave. `update`, inside of `poll`,
takes a new assignment over: what was taken away is committed, revoked and dropped, then what is new
is taken, and the next heartbeat tells what is owned. The coordinator gives a partition to its next
owner only after that.

What is sent: everything when joining and after a lost answer; else only what changed, and what is
owned when that is to be acknowledged. A partition of a topic whose name is not known yet waits for
metadata; the rest is taken over meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Final

from kmirror.clients.cluster_client import GROUP, ClusterClient, Node
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_types import CommitFailedException, ConsumerGroupMetadata
from kmirror.clients.consumer.member_states import ConsumerEvent, ConsumerState, consumer_step
from kmirror.clients.consumer.membership import ListenerCalls, join_failed
from kmirror.clients.consumer.offset_commits import MemberIdentity
from kmirror.clients.consumer.pattern_topics import PatternTopics
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised
from kmirror.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

COORDINATOR_CONNECTION: Final = "coordinator"
JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
MOVED: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION)
AGAIN: Final = (*MOVED, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.REQUEST_TIMED_OUT)
FENCED: Final = (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID)
MEMBER: Final = (ConsumerState.JOINING, ConsumerState.RECONCILING, ConsumerState.ACKNOWLEDGING, ConsumerState.STABLE)
FIRST_INTERVAL_MS: Final = 0

Target = dict[Uuid, tuple[int, ...]]


class ConsumerMembership:
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
        self._request_timeout_ms = config.get_int("request.timeout.ms")
        self._rebalance_timeout_ms = config.get_int("max.poll.interval.ms")
        self._calls = ListenerCalls(subscriptions)
        self._state = ConsumerState.UNSUBSCRIBED
        self._member_id = str(Uuid.random(runtime.random))
        self._epoch = JOIN_EPOCH
        self._attempt = 0
        self._target: Target | None = None
        self._taken: Target | None = None
        self._sent_topics: tuple[str, ...] | None = None
        self._tell_everything = True
        self._refusal: KmirrorError | None = None
        self._topics_refused: KmirrorError | None = None
        self._failures = 0
        self.trouble: str | None = None
        self._polled_ms = runtime.clock.monotonic_ms()
        self._interval_ms = FIRST_INTERVAL_MS
        self._due_ms = 0.0
        self._work = Signal(runtime)
        self._finding_names = False
        self._scope = scope
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
        if self._state in MEMBER and self._epoch > 0:
            return MemberIdentity(self._epoch, self._member_id, self._config.group_instance_id, (self, self._attempt))
        raise CommitFailedException

    def fenced(self, identity: MemberIdentity) -> None:
        """See `Membership`."""
        if identity.member_id == self._member_id and identity.generation == self._epoch:
            self._lose()

    def group_metadata(self) -> ConsumerGroupMetadata:
        """See `Membership`."""
        epoch = self._epoch if self._epoch > 0 else -1
        return ConsumerGroupMetadata(self._group_id, epoch, self._member_id, self._config.group_instance_id)

    def enforce_rebalance(self, reason: str) -> None:
        """No effect: the coordinator decides about rebalances (as in Kafka)."""

    async def update(self) -> None:
        """See `Membership`."""
        self._topics.raise_error()
        if self._refusal is not None:
            raise self._refusal
        refused, self._topics_refused = self._topics_refused, None
        if refused is not None:
            raise refused
        if self._topics.is_known and self._state is ConsumerState.UNSUBSCRIBED:
            self._step(ConsumerEvent.SUBSCRIBED)
        if self._state in MEMBER and self._sent_topics is not None and self._sent_topics != self._subscriptions.topics:
            self._due_ms = 0.0  # the coordinator shall know at once
            self._work.fire()
        if self._state in (ConsumerState.FENCED, ConsumerState.STALE):
            await self._give_up_as_lost()
        if self._state is ConsumerState.RECONCILING:
            await self._reconcile()
        self._calls.raise_error()

    def _step(self, event: ConsumerEvent) -> None:
        self._state = consumer_step(self._state, event)
        self._work.fire()
        self._signal.fire()

    def _lose(self) -> None:
        self._attempt += 1
        self._epoch = JOIN_EPOCH
        self._target = self._taken = None
        self._step(ConsumerEvent.FENCED)

    # What the application takes part in

    async def _give_up_as_lost(self) -> None:
        owned = self._subscriptions.assigned_partitions()
        if owned:
            self._subscriptions.mark_pending_revocation(owned)
            await self._calls.lost(sorted(owned))
            if self._state not in (ConsumerState.FENCED, ConsumerState.STALE):
                return  # the listener has unsubscribed
            self._subscriptions.assign_from_subscribed([])
        self._tell_everything = True
        self._due_ms = 0.0
        self._step(ConsumerEvent.GIVEN_UP)

    async def _reconcile(self) -> None:
        """Takes over as much of the target as has names."""
        target = self._target
        assert target is not None, "nothing to reconcile"
        wanted, taken = [], Target()
        for topic_id, numbers in target.items():
            name = self._cluster.topic_name(topic_id)
            if name is not None:
                wanted += [TopicPartition(name, number) for number in numbers]
                taken[topic_id] = numbers
        complete = taken.keys() == target.keys()
        if not complete:
            self._find_names()
        owned = self._subscriptions.assigned_partitions()
        added = sorted(self._subscriptions.not_taken_over(wanted))
        revoked = sorted(set(owned).difference(wanted))
        if not complete and not added and not revoked:
            return  # `_find_names` fires the signal
        attempt = self._attempt
        if revoked:
            self._subscriptions.mark_pending_revocation(revoked)
            await self._commit_before_revocation(min(self._rebalance_timeout_ms, self._request_timeout_ms))
            if attempt != self._attempt:
                return  # fenced while it committed: all is lost at the next `update`
            await self._calls.revoked(revoked)
        if attempt != self._attempt:
            return
        self._subscriptions.assign_from_subscribed(sorted(wanted))
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=True)
        await self._calls.assigned(added)
        self._subscriptions.mark_pending_on_assigned_callback(added, pending=False)
        if attempt == self._attempt and self._state is ConsumerState.RECONCILING:
            self._taken = taken
            self._due_ms = 0.0
            self._step(ConsumerEvent.RECONCILED)

    def _find_names(self) -> None:
        if not self._finding_names:
            self._finding_names = True
            self._scope.spawn(self._ask_names(), name="topic-names")

    async def _ask_names(self) -> None:
        try:
            await self._cluster.request_update(self._subscriptions.topics or None)
        except KmirrorError:
            await self._runtime.sleep_ms(self._cluster.backoff_ms(0))
        finally:
            self._finding_names = False
            self._signal.fire()

    # The task

    async def _run(self) -> None:
        while True:
            if self._state not in MEMBER:
                await self._work.wait(None)
                continue
            now_ms = self._runtime.clock.monotonic_ms()
            expires_ms = self._polled_ms + self._rebalance_timeout_ms
            if now_ms >= expires_ms:
                await self._leave_unpolled()
            elif now_ms >= self._due_ms:
                await self._heartbeat()
            else:
                await self._work.wait(max(1.0, min(self._due_ms, expires_ms) - now_ms))

    async def _leave_unpolled(self) -> None:
        self._attempt += 1
        epoch = self._leave_epoch()
        self._epoch = JOIN_EPOCH
        self._target = self._taken = None
        self._step(ConsumerEvent.POLL_EXPIRED)
        await self._say_good_bye(epoch, self._request_timeout_ms)

    def _leave_epoch(self) -> int:
        return LEAVE_EPOCH if self._config.group_instance_id is None else LEAVE_STATIC_EPOCH

    async def _heartbeat(self) -> None:
        attempt = self._attempt
        topics = self._subscriptions.topics
        everything = self._tell_everything or self._epoch == JOIN_EPOCH
        acknowledges = self._state is ConsumerState.ACKNOWLEDGING
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch, instance_id=self._config.group_instance_id
        )
        if everything:
            request.rack_id = self._config.get_string("client.rack") or None
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.server_assignor = self._config.get_string("group.remote.assignor")
        if everything or self._sent_topics != topics:
            request.subscribed_topic_names = list(topics)
        if self._epoch == JOIN_EPOCH:
            request.topic_partitions = []
        elif everything or acknowledges:
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=list(numbers))
                for topic_id, numbers in (self._taken or {}).items()
            ]
        if acknowledges:
            self._step(ConsumerEvent.ACKNOWLEDGED)
        self._due_ms = self._runtime.clock.monotonic_ms() + max(self._interval_ms, 1)
        error, response = await self._ask(request, self._request_timeout_ms)
        if attempt != self._attempt:
            return
        if error is Errors.NONE and response is not None:
            self._tell_everything = False
            self._sent_topics = topics
            self._failures = 0
            self.trouble = None
            self._take(response)
            return
        self._tell_everything = True  # what the coordinator knows of us is uncertain
        if error in FENCED:
            self._lose()
        elif error in AGAIN or error is Errors.TOPIC_AUTHORIZATION_FAILED:
            if error is Errors.TOPIC_AUTHORIZATION_FAILED:
                self._topics_refused = self._told(error, response)  # the member stays: rights may still be granted
                self._signal.fire()
            self._due_ms = self._runtime.clock.monotonic_ms() + self._cluster.backoff_ms(self._failures)
            self._failures += 1
            if self._epoch == JOIN_EPOCH:
                self.trouble = join_failed(self._group_id, error.name)
        else:
            self._refuse(self._told(error, response))

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.member_id:
            self._member_id = response.member_id
        self._epoch = response.member_epoch
        self._interval_ms = response.heartbeat_interval_ms
        if self._due_ms:  # 0: something is to be said at once
            self._due_ms = self._runtime.clock.monotonic_ms() + self._interval_ms
        target = None if response.assignment is None else _target_of(response.assignment)
        if target is not None:
            self._target = target
        if self._target is not None and self._target != self._taken:
            self._step(ConsumerEvent.ASSIGNED)
        else:
            self._step(ConsumerEvent.ANSWERED)

    async def _ask(self, request: ConsumerGroupHeartbeatRequest, timeout_ms: float) -> tuple[Errors, ConsumerGroupHeartbeatResponse | None]:
        node: Node | None = None
        response: ConsumerGroupHeartbeatResponse | None = None
        try:
            node = await self._cluster.coordinator(self._group_id, GROUP)
            response = await self._cluster.ask(node, request, timeout_ms=int(timeout_ms), connection_key=COORDINATOR_CONNECTION)
            assert response is not None
            error = Errors.for_code(response.error_code)
        except ApiException as failure:
            error = Errors.COORDINATOR_NOT_AVAILABLE if failure.error.retriable else failure.error
        except KmirrorError as failure:
            self._refuse(failure)
            return Errors.UNKNOWN_SERVER_ERROR, None
        if error in MOVED:
            self._cluster.forget_coordinator(self._group_id, GROUP, node)
        return error, response

    def _refuse(self, error: KmirrorError) -> None:
        self._refusal = self._refusal or error
        self._attempt += 1
        self._step(ConsumerEvent.REFUSED)

    def _told(self, error: Errors, response: ConsumerGroupHeartbeatResponse | None) -> ApiException:
        if error is Errors.GROUP_AUTHORIZATION_FAILED:
            return ApiException(error, f"Not authorized to access group: {self._group_id}")
        if error is Errors.UNSUPPORTED_VERSION:
            return ApiException(
                error,
                "The cluster does not support the new CONSUMER group protocol. Set group.protocol=classic on the consumer configs to revert to "
                "the CLASSIC protocol until the cluster is upgraded.",
            )
        return ApiException(error, response.error_message if response is not None and response.error_message else None)

    # End

    async def leave(self, *, timeout_ms: float, tell: bool) -> None:
        """See `Membership`."""
        joined = False
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        try:
            await self._give_up_everything(timeout_ms)
        finally:
            joined = self._state in MEMBER
            self._attempt += 1
            self._state = consumer_step(self._state, ConsumerEvent.LEAVE)
            self._task.cancel()
            self._topics.close()
        if joined and tell:
            await self._say_good_bye(self._leave_epoch(), max(0, deadline_ms - self._runtime.clock.monotonic_ms()))
        if self._state is ConsumerState.LEAVING:
            self._state = consumer_step(self._state, ConsumerEvent.LEFT)
        self._calls.raise_error()

    async def _give_up_everything(self, timeout_ms: float) -> None:
        owned = self._subscriptions.assigned_partitions()
        if owned:
            self._subscriptions.mark_pending_revocation(owned)
            if self._state in MEMBER and self._epoch > 0:
                await self._commit_before_revocation(timeout_ms)
                await self._calls.revoked(sorted(owned))
            else:
                await self._calls.lost(sorted(owned))
            self._subscriptions.assign_from_subscribed([])

    async def _say_good_bye(self, epoch: int, timeout_ms: float) -> None:
        """A failure is of no consequence: the session times out."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=epoch, instance_id=self._config.group_instance_id
        )
        try:
            async with asyncio.timeout(max(1.0, timeout_ms) / 1000):
                node = await self._cluster.coordinator(self._group_id, GROUP)
                await self._cluster.ask(node, request, timeout_ms=int(timeout_ms), connection_key=COORDINATOR_CONNECTION)
        except (KmirrorError, TimeoutError):
            return


def _target_of(assignment: Assignment) -> Target:
    return {row.topic_id: tuple(row.partitions) for row in sorted(assignment.topic_partitions, key=lambda row: row.topic_id.raw)}
