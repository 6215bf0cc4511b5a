"""When a consumer commits: when it is asked, every auto.commit.interval.ms, and before partitions go to
somebody else (the part of Kafka's `ConsumerCoordinator` that does this). `offset_commits` sends.

One commit goes after the other (`commit_turns`): an older one that is tried again must not undo a newer
one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from kmirror.clients.consumer.commit_turns import CommitTurns, Place
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.consumer_types import OffsetAndMetadata
from kmirror.clients.consumer.offset_commits import OffsetCommits
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.lasting_conditions import LastingConditions
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime, TaskScope

RETRY_MS: Final = 100
_AUTO_COMMIT = "automatic commit"
_log = logging.getLogger(__name__)


class ConsumerCommits:
    """`offset_commits` raises for a consumer that has no group or is closed."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        config: ConsumerConfig,
        subscriptions: SubscriptionState,
        offset_commits: Callable[[], OffsetCommits],
    ) -> None:
        self._clock = runtime.clock
        self._scope = scope
        self._config = config
        self._subscriptions = subscriptions
        self._offset_commits = offset_commits
        self._turns = CommitTurns(runtime)
        self._interval_ms = config.get_int("auto.commit.interval.ms")
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms
        self._is_committing = False
        self._conditions = LastingConditions(_log, self._clock.monotonic_ms)

    async def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None,
        timeout_ms: int,
        *,
        place: Place | None = None,
        topics_may_be_gone: bool = False,
    ) -> None:
        """Commits when it is this commit's turn. None: the positions of that moment."""
        place = place or self._turns.take_place()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        try:
            await self._turns.wait(place, timeout_ms)
            left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
            consumed = self._subscriptions.all_consumed() if offsets is None else offsets
            await self._offset_commits().commit(consumed, left_ms, topics_may_be_gone=topics_may_be_gone)
        finally:
            self._turns.leave(place)

    @property
    def wait_ms(self) -> float | None:
        """Until the next automatic commit; None for a consumer that makes none."""
        return max(1.0, self._due_ms - self._clock.monotonic_ms()) if self._config.enable_auto_commit else None

    def auto_commit(self) -> None:
        """Starts a commit of what earlier polls handed out, if it is due."""
        now_ms = self._clock.monotonic_ms()
        if not self._config.enable_auto_commit or self._is_committing or now_ms < self._due_ms:
            return
        self._due_ms = now_ms + self._interval_ms
        consumed = self._subscriptions.all_consumed()
        if consumed:
            self._is_committing = True
            self._scope.spawn(self._commit_in_background(consumed, self._turns.take_place()), name="auto-commit")

    async def _commit_in_background(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], place: Place) -> None:
        try:
            await self.commit(offsets, self._config.get_int("request.timeout.ms"), place=place, topics_may_be_gone=True)
            self._conditions.end(_AUTO_COMMIT)
        except ApiException as error:
            self._conditions.tell(_AUTO_COMMIT, f"An automatic commit failed: {error}")
            if error.error.retriable:
                self._due_ms = min(self._due_ms, self._clock.monotonic_ms() + RETRY_MS)
        except KmirrorError as error:
            _log.debug("An automatic commit was not made: %s", error)  # the next one is made after the rebalance
        finally:
            self._is_committing = False

    async def before_revocation(self, timeout_ms: float) -> None:
        """What was handed out is committed before its partitions go to somebody else. A failure
        does not stop the rebalance."""
        if not self._config.enable_auto_commit:
            return
        try:
            await self.commit(None, int(timeout_ms), topics_may_be_gone=True)
        except KmirrorError as error:
            _log.warning("The commit before a rebalance or the end failed, so some records are read again: %s", error)
