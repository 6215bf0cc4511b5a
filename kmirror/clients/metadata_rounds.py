"""When a client asks for metadata, and who waits for which answer.

    join, refresh -> the next round -> (pause) -> one request -> everybody in the round is told

One request is in flight at a time, for all that wait. Attempts are retry.backoff.ms apart, doubling
up to retry.backoff.max.ms while they fail, except the first request for a topic that nobody has
asked for yet. Whoever asks during a request is served by the next one. If requests have failed for
metadata.recovery.rebootstrap.trigger.ms, the client begins again with its bootstrap servers
(KIP-1102).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kmirror.clients.client_config import ClientConfig
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.runtime.api import Runtime, TaskScope


class _Round:
    """A request for metadata that is still to be made, and who waits for it. The future's result
    is the error that ended it, or None.
    """

    def __init__(self, done: asyncio.Future[BaseException | None]) -> None:
        self.done = done
        self.topics: dict[str, None] = {}
        self.all_topics = False
        self.only_refreshes = False


class MetadataRounds:
    """Owns the rounds. `ask(topics, may_create)` makes one request and takes over its answer (None:
    all topics); a broker may create those that it does not know only if `may_create`.
    `rebootstrap` makes the client forget its brokers.
    """

    def __init__(
        self,
        runtime: Runtime,
        scope: TaskScope,
        config: ClientConfig,
        ask: Callable[[list[str] | None, bool], Awaitable[None]],
        *,
        rebootstrap: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._scope = scope
        self._backoff = config.retry_backoff
        self._rebootstraps = config.rebootstraps
        self._rebootstrap_ms = config.get_int("metadata.recovery.rebootstrap.trigger.ms")
        self._ask = ask
        self._rebootstrap = rebootstrap
        self._next: _Round | None = None
        self._is_running = False
        self._last_ms: int | None = None
        self.answered_ms: int | None = None
        """When a request was answered last."""
        self._failures = 0
        self._failing_since_ms: int | None = None
        self._asked_topics: dict[str, None] = {}

    def refresh(self, topics: Callable[[], Iterable[str]]) -> None:
        """Asks for topics again, unless a round is due. One that was deleted meanwhile is not created:
        whoever wants it asks for it by itself.
        """
        if self._next is None:
            self.join(topics())
            assert self._next is not None
            self._next.only_refreshes = True

    def join(self, topics: Iterable[str] | None) -> asyncio.Future[BaseException | None]:
        """Adds topics (None: all) to the next round; the future's result is its error, or None."""
        if self._next is None:
            self._next = _Round(self._runtime.create_future())
        joined = self._next
        joined.only_refreshes = False
        if topics is None:
            joined.all_topics = True
        else:
            joined.topics.update(dict.fromkeys(topics))
        if not self._is_running:
            self._is_running = True
            self._scope.spawn(self._run(), name="metadata")
        return joined.done

    def close(self) -> None:
        """Tells those who wait that the client is closed; the scope's owner has ended the task."""
        if self._next is not None:
            self._next.done.set_result(closed_error())
            self._next = None

    async def _run(self) -> None:
        """Makes one request after the other, until nobody waits."""
        current: _Round | None = None
        failure: BaseException | None = closed_error()
        try:
            while self._next is not None:
                await self._pause_before(self._next)
                current, self._next = self._next, None
                failure = closed_error()
                failure = await self._run_round(current)
                current.done.set_result(failure)
                current = None
        finally:
            self._is_running = False
            for left in (current, self._next):
                if left is not None:
                    left.done.set_result(failure)
            self._next = None

    async def _pause_before(self, wanted: _Round) -> None:
        is_first = any(topic not in self._asked_topics for topic in wanted.topics)
        if self._last_ms is None or (is_first and not self._failures):
            return
        pause_ms = self._backoff.backoff_ms(max(0, self._failures - 1), self._runtime.random)
        wait_ms = self._last_ms + pause_ms - self._runtime.clock.monotonic_ms()
        if wait_ms > 0:
            await self._runtime.sleep_ms(wait_ms)

    async def _run_round(self, wanted: _Round) -> BaseException | None:
        clock = self._runtime.clock
        began_ms = clock.monotonic_ms()
        if self._failing_since_ms is None:
            self._failing_since_ms = began_ms
        elif self._rebootstraps and began_ms - self._failing_since_ms >= self._rebootstrap_ms:
            self._rebootstrap()
            self._failing_since_ms = began_ms
        self._asked_topics.update(wanted.topics)
        asked = None if wanted.all_topics else sorted(wanted.topics)
        try:
            await self._ask(asked, not wanted.only_refreshes)
        except KmirrorError as error:
            self._failures += 1
            return error
        else:
            self.answered_ms = clock.monotonic_ms()
            self._failures = 0
            self._failing_since_ms = None
            return None
        finally:
            self._last_ms = clock.monotonic_ms()


def closed_error() -> ApiException:
    """What callers of a closed client get."""
    return ApiException(Errors.NETWORK_EXCEPTION, "the client is closed")
