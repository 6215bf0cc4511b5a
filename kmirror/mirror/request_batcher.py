"""Requests of many partitions, sent together (RS10): ten thousand partitions that ask at once must
not cause ten thousand requests.

    batcher = RequestBatcher(runtime, "states", send)
    answer = await batcher.submit(key, item)        send(key, items) -> one answer an item, in their order

Items with the same key (for example a mirror and its coordinator's broker) that arrive in one turn
of the loop, or while `max_in_flight` requests for that key are under way, go into the next request.
So a lone item is sent at once, and requests grow under load. Keys do not wait for each other, so a
slow broker or source delays only its own items. An error of `send` is the answer to all its items;
an answer that is an exception is raised for its item. An item whose caller was cancelled is not
sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from kmirror.common.errors import KmirrorError
from kmirror.runtime.api import Runtime, TaskScope

K = TypeVar("K", bound=Hashable)
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

MAX_IN_FLIGHT = 2
MAX_ITEMS = 2_000


class BatcherClosedError(KmirrorError):
    """The broker is shutting down."""


class UnansweredError(KmirrorError):
    """A program error, which is reported, ended the request, so its callers must not wait any
    longer.
    """


class _Lane(Generic[I, R]):
    """The pending items and the number of requests under way for one key."""

    __slots__ = ("in_flight", "pending")

    def __init__(self) -> None:
        self.pending: deque[tuple[I, asyncio.Future[R]]] = deque()
        self.in_flight = 0


class RequestBatcher(Generic[K, I, R]):
    """One kind of request; owns the items that wait for it, by key."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        send: Callable[[K, list[I]], Awaitable[Sequence[R | Exception]]],
        *,
        max_in_flight: int = MAX_IN_FLIGHT,
        max_items: int = MAX_ITEMS,
    ) -> None:
        self.request_count = 0
        self.item_count = 0
        self._runtime = runtime
        self._name = name
        self._send = send
        self._max_in_flight = max_in_flight
        self._max_items = max_items
        self._lanes: dict[K, _Lane[I, R]] = {}
        self._scope = TaskScope(runtime, name)

    async def submit(self, key: K, item: I) -> R:
        """Returns the answer for `item`, or raises what `send` raised."""
        if self._scope.closed:
            raise BatcherClosedError(f"{self._name} is closed")
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane()
        future: asyncio.Future[R] = self._runtime.create_future()
        lane.pending.append((item, future))
        if lane.in_flight == 0 or (lane.in_flight < self._max_in_flight and len(lane.pending) == 1):
            lane.in_flight += 1
            self._scope.spawn(self._drain(key, lane), name=f"{self._name}-{key}")
        return await future

    async def close(self) -> None:
        """Ends all requests; every waiting caller gets BatcherClosedError."""
        await self._scope.cancel()
        for lane in self._lanes.values():
            for _, future in lane.pending:
                _set_exception(future, BatcherClosedError(f"{self._name} is closed"))
        self._lanes.clear()

    async def _drain(self, key: K, lane: _Lane[I, R]) -> None:
        """Sends pending items until there are none left."""
        try:
            while lane.pending:
                batch: list[tuple[I, asyncio.Future[R]]] = []
                while lane.pending and len(batch) < self._max_items:
                    item, future = lane.pending.popleft()
                    if not future.done():
                        batch.append((item, future))
                if batch:
                    await self._send_batch(key, batch)
        finally:
            lane.in_flight -= 1
            if lane.in_flight == 0 and not lane.pending and self._lanes.get(key) is lane:
                del self._lanes[key]

    async def _send_batch(self, key: K, batch: list[tuple[I, asyncio.Future[R]]]) -> None:
        self.request_count += 1
        self.item_count += len(batch)
        try:
            answers = await self._send(key, [item for item, _ in batch])
            for (_, future), answer in zip(batch, answers, strict=True):
                if isinstance(answer, Exception):
                    _set_exception(future, answer)
                elif not future.done():
                    future.set_result(answer)
        except asyncio.CancelledError:
            for _, future in batch:
                _set_exception(future, BatcherClosedError(f"{self._name} is closed"))
            raise
        except (KmirrorError, OSError) as error:
            for _, future in batch:
                _set_exception(future, error)
        except Exception as error:  # noqa: BLE001 - a mistake; reported, and what waits in the lane is sent all the same
            self._runtime.report_failure(f"{self._name}: a request failed", error)
        finally:
            for _, future in batch:
                _set_exception(future, UnansweredError(f"{self._name}: a bug in kmirror prevented the response"))


def _set_exception(future: asyncio.Future[R], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
