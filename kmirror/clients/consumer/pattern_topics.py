"""Which topics match a pattern that a consumer subscribed to. Asked when the consumer subscribes,
and then every metadata.max.age.ms. Without a pattern there is nothing to ask, and the topics are
known.
"""

from __future__ import annotations

import asyncio
import re

from kmirror.clients.cluster_client import ClusterClient
from kmirror.clients.consumer.consumer_config import ConsumerConfig
from kmirror.clients.consumer.signal import Signal
from kmirror.clients.consumer.subscription_state import SubscriptionState
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised


class PatternTopics:
    """Keeps `SubscriptionState.topics` up to date for a pattern."""

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        cluster: ClusterClient,
        subscriptions: SubscriptionState,
        config: ConsumerConfig,
        signal: Signal,
        pattern: re.Pattern[str] | None,
    ) -> None:
        self.is_known = pattern is None
        self._runtime = runtime
        self._cluster = cluster
        self._subscriptions = subscriptions
        self._max_age_ms = config.get_int("metadata.max.age.ms")
        self._leaves_out_internal = config.get_bool("exclude.internal.topics")
        self._signal = signal
        self._error: KmirrorError | None = None
        self._failures = 0
        self._task: asyncio.Task[None] | None = None
        if pattern is not None:
            supervised = Supervised(runtime, lambda: self._run(pattern), name="pattern-topics")
            self._task = scope.spawn(supervised.run(), name="pattern-topics")

    def raise_error(self) -> None:
        """Raises, once, what no retry mends."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, pattern: re.Pattern[str]) -> None:
        while True:
            try:
                names = await self._cluster.topics(pattern)
            except KmirrorError as error:
                if not (isinstance(error, ApiException) and error.error.retriable):
                    self._error = error
                    self._signal.fire()
                await self._runtime.sleep_ms(self._cluster.backoff_ms(self._failures))
                self._failures = min(self._failures + 1, 10)
                continue
            self._failures = 0
            internal = self._cluster.metadata.is_internal
            self._subscriptions.subscribe_from_pattern(name for name in names if not (self._leaves_out_internal and internal(name)))
            self.is_known = True
            self._signal.fire()
            await self._runtime.sleep_ms(max(1, self._max_age_ms))
