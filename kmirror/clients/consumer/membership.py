"""What a consumer needs of its membership in a group, whichever protocol the group speaks, and the
calls of the application's listener that both share.

A membership's task sends the requests; it never calls the application. `update` does, inside of
`poll`: it commits, gives partitions up and takes new ones over.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from kmirror.clients.consumer.consumer_types import ConsumerGroupMetadata
from kmirror.clients.consumer.offset_commits import MemberIdentity
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition


class Membership(Protocol):
    """One member. All methods run on the loop's thread.

    `trouble` is why the last try to join failed, until one succeeds; another one is to come.
    """

    trouble: str | None

    def subscribed(self, pattern: re.Pattern[str] | None) -> None:
        """The subscription changed, or exists for the first time."""
        ...

    def polled(self) -> None:
        """The application called `poll`: max.poll.interval.ms begins again."""
        ...

    async def update(self) -> None:
        """Does what the state asks for and the application must see. Raises what the coordinator
        refused, for good or for now, and what the listener raised."""
        ...

    def identity(self) -> MemberIdentity:
        """Who commits now. CommitFailedException or RebalanceInProgressException if nobody may."""
        ...

    def fenced(self, identity: MemberIdentity) -> None:
        """A commit was refused: the coordinator does not know this member any more."""
        ...

    def group_metadata(self) -> ConsumerGroupMetadata: ...

    def enforce_rebalance(self, reason: str) -> None:
        """Joins again at the next `poll` (classic protocol only)."""
        ...

    async def leave(self, *, timeout_ms: float, tell: bool) -> None:
        """Gives everything up, calls the listener, and leaves the group; `tell` False: without
        saying so."""
        ...


def join_failed(group_id: str, reason: str) -> str:
    """A `trouble` of a membership."""
    return f"joining the group {group_id} failed at the last try: {reason}"


class RebalanceCallbackError(KmirrorError):
    """The application's rebalance listener raised; the cause is what it raised."""

    def __init__(self) -> None:
        super().__init__("User rebalance callback throws an error")


class ListenerCalls:
    """Calls the listener, and keeps the first thing that it raises until `raise_error`."""

    def __init__(self, subscriptions: SubscriptionState) -> None:
        self._subscriptions = subscriptions
        self._error: Exception | None = None

    async def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        listener = self._subscriptions.listener
        if listener is not None:
            await self._call(listener.on_partitions_revoked, partitions)

    async def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        listener = self._subscriptions.listener
        if listener is not None:
            await self._call(listener.on_partitions_assigned, partitions)

    async def lost(self, partitions: Sequence[TopicPartition]) -> None:
        listener = self._subscriptions.listener
        if listener is not None:
            await self._call(listener.on_partitions_lost, partitions)

    async def _call(self, method: Callable[[Sequence[TopicPartition]], Awaitable[None]], partitions: Sequence[TopicPartition]) -> None:
        try:
            await method(list(partitions))
        except Exception as error:  # noqa: BLE001 - whatever the application raises goes back to it
            self._error = self._error or error

    def raise_error(self) -> None:
        """Raises, once, what the listener raised; errors of ours as they are."""
        error, self._error = self._error, None
        if isinstance(error, KmirrorError):
            raise error
        if error is not None:
            raise RebalanceCallbackError from error
