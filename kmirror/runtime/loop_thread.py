"""An event loop in a thread of its own, for callers that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """Owns an event loop and its daemon thread; coroutines are handed in from other threads."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs `coroutine` to its end on the loop; returns its result to the calling thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs `coroutine` like `run`, for a caller on another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
