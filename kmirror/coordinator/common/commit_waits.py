"""Callers of one coordinator partition that wait until what they wrote or saw is committed."""

from __future__ import annotations

import asyncio

from kmirror.common.errors import ApiException, Errors
from kmirror.runtime.api import Runtime


class _Waiting:
    """A caller that waits for the high watermark to reach `offset`."""

    __slots__ = ("future", "offset")

    def __init__(self, offset: int, future: asyncio.Future[None]) -> None:
        self.offset = offset
        self.future = future


class CommitWaits:
    """Owns the callers that wait for the partition's high watermark."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting: dict[_Waiting, None] = {}

    async def wait(self, offset: int, timeout_ms: int) -> None:
        """Returns once the high watermark is at `offset` or above; REQUEST_TIMED_OUT after
        `timeout_ms`, or the error of `fail_all`.
        """
        waiting = _Waiting(offset, self._runtime.create_future())
        self._waiting[waiting] = None
        timer = self._runtime.call_later_ms(timeout_ms, lambda: _fail(waiting.future, ApiException(Errors.REQUEST_TIMED_OUT)))
        try:
            await waiting.future
        finally:
            timer.cancel()
            self._waiting.pop(waiting, None)

    def on_high_watermark(self, high_watermark: int) -> None:
        for waiting in list(self._waiting):
            if waiting.offset <= high_watermark and not waiting.future.done():
                waiting.future.set_result(None)

    def fail_all(self, error: ApiException) -> None:
        for waiting in list(self._waiting):
            _fail(waiting.future, error)


def _fail(future: asyncio.Future[None], error: ApiException) -> None:
    if not future.done():
        future.set_exception(error)
