"""Requests in flight on a `ClientConnection`: those whose response a caller awaits, and those that
were posted, whose answer is given to the request itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, Protocol

from kmirror.common.ports import Buffer
from kmirror.runtime.api import TimerHandle
from kmirror.wire.api_keys import Message


class RequestMessage(Message, Protocol):
    """A generated request class."""

    API_KEY: ClassVar[int]


class AwaitedRequest:
    """A request whose response is awaited; `response` is done early if its caller gave up."""

    __slots__ = ("api_key", "correlation_id", "response", "timer")

    def __init__(self, correlation_id: int, api_key: int, response: asyncio.Future[memoryview], timer: TimerHandle) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.response = response
        self.timer = timer

    def answered(self, frame: memoryview) -> None:
        self.timer.cancel()
        if not self.response.done():
            self.response.set_result(frame)

    def failed(self, error: Exception) -> None:
        self.timer.cancel()
        if not self.response.done():
            self.response.set_exception(error)


class PostedRequest:
    """A request that is encoded already, for `ClientConnection.post`. One of `answered` and
    `failed` is called in the end, with the response frame or with the error that `exchange` would
    raise; neither may raise. `deadline_ms` is watched by one timer of the connection.
    """

    __slots__ = ("body", "correlation_id", "deadline_ms", "least_answer_bytes", "size", "version")

    api_key: ClassVar[int]
    version: int
    body: Sequence[Buffer]
    size: int
    """Bytes of the body."""
    least_answer_bytes: int
    """What the shortest answer takes, with its size; 0 if that is not known."""
    correlation_id: int
    """This and `deadline_ms` are the connection's."""
    deadline_ms: int

    def answered(self, frame: memoryview) -> None:
        raise NotImplementedError

    def failed(self, error: Exception) -> None:
        raise NotImplementedError
