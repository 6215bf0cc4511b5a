"""Queues of requests to other brokers: each broker has at most one request in flight.

Items that arrive meanwhile go into the next request. A key occurs at most once in a request,
because answers name the key.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

T = TypeVar("T")
R = TypeVar("R")


class BrokerQueues(Generic[T, R]):
    """`send(broker id, items)` returns the result of each item, in their order, and does not fail.
    `key_of` returns the key by which answers name an item."""

    def __init__(
        self, runtime: Runtime, name: str, send: Callable[[int, list[T]], Awaitable[list[R]]], *, key_of: Callable[[T], Hashable]
    ) -> None:
        self._runtime = runtime
        self._name = name
        self._send = send
        self._key_of = key_of
        self._scope = TaskScope(runtime, name)
        self._queues: dict[int, list[tuple[T, asyncio.Future[R]]]] = {}

    async def shutdown(self) -> None:
        await self._scope.cancel()
        for queue in self._queues.values():
            for _, result in queue:
                result.cancel()
        self._queues.clear()

    def enqueue(self, broker_id: int, item: T) -> asyncio.Future[R]:
        result: asyncio.Future[R] = self._runtime.create_future()
        queue = self._queues.get(broker_id)
        if queue is None:
            queue = self._queues[broker_id] = []
            name = f"to-{broker_id}"
            sending = Supervised(self._runtime, partial(self._send_queued, broker_id, queue), name=f"{self._name}/{name}", may_return=True)
            self._scope.spawn(sending.run(), name=name)
        queue.append((item, result))
        return result

    async def _send_queued(self, broker_id: int, queue: list[tuple[T, asyncio.Future[R]]]) -> None:
        while queue:
            batch: dict[Hashable, tuple[T, asyncio.Future[R]]] = {}
            later: list[tuple[T, asyncio.Future[R]]] = []
            for entry in queue:
                if batch.setdefault(self._key_of(entry[0]), entry) is not entry:
                    later.append(entry)
            queue[:] = later
            try:
                answers = await self._send(broker_id, [item for item, _ in batch.values()])
                for (_, result), answer in zip(batch.values(), answers, strict=True):
                    if not result.done():
                        result.set_result(answer)
            finally:  # if a bug ends this task, the next one sends the unanswered items again
                queue[:0] = [entry for entry in batch.values() if not entry[1].done()]
        del self._queues[broker_id]
