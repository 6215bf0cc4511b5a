"""The order of a consumer's commits: one after the other, each in the place that it took when it was
begun, so that an older one never undoes a newer one. A place is taken at once, before any task runs.
"""

from __future__ import annotations

import asyncio
from collections import deque

from kmirror.common.errors import ApiException, Errors
from kmirror.runtime.api import Runtime

Place = asyncio.Future[None]


class CommitTurns:
    """Whoever took a place must `leave` it, whether its turn came or not."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._line: deque[Place] = deque()

    def take_place(self) -> Place:
        place = self._runtime.create_future()
        self._line.append(place)
        self._call_first()
        return place

    async def wait(self, place: Place, timeout_ms: float) -> None:
        """Returns when it is this one's turn. ApiException with REQUEST_TIMED_OUT."""
        if place.done():
            return
        try:
            async with asyncio.timeout(max(0.0, timeout_ms / 1000)):
                await place
        except TimeoutError as error:
            raise ApiException(Errors.REQUEST_TIMED_OUT, "an earlier commit has not ended in time") from error

    def leave(self, place: Place) -> None:
        """Its turn is over, or it waits no more."""
        self._line.remove(place)
        self._call_first()

    def _call_first(self) -> None:
        if self._line and not self._line[0].done():
            self._line[0].set_result(None)
