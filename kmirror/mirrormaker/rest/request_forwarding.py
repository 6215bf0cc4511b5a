"""Asks the worker that can, when this one cannot (Connect's `HerderRequestHandler`).

A user's request may go on twice: to the worker that this one names, and from there, if that was wrong
by then, to another. `forward=true` marks the first such request, `forward=false` the last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote, urlencode

from kmirror.mirrormaker.herder.herder import CONFLICT, INTERNAL_SERVER_ERROR, HerderError, RequestTargetError
from kmirror.mirrormaker.rest.rest_messages import RestRequest

REQUEST_TIMEOUT_MS: Final = 90_000
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Asks(Protocol):
    """`rest_client.RestClient`."""

    async def exchange(self, url: str, method: str, body: Any = None, *, headers: Mapping[str, str] | None = None) -> tuple[int, Any]: ...


class Forwarded:
    """What the other worker answered."""

    def __init__(self, status: int, body: Any) -> None:
        self.status = status
        self.body = body


async def complete(answer: Awaitable[T]) -> T:
    """Returns what a herder answers. HerderError 500 if it does not in time."""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1000):
            return await answer
    except TimeoutError:
        raise HerderError(INTERNAL_SERVER_ERROR, "Request timed out") from None


async def complete_or_forward(
    answer: Awaitable[T],
    client: Asks,
    request: RestRequest,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Any = None,
) -> T | Forwarded:
    """Returns what the herder answers, or what the worker does that it names. `path` is not encoded."""
    try:
        return await complete(answer)
    except RequestTargetError as error:
        forward = request.flag("forward")
        if forward is False:
            _log.error("Request '%s %s' failed because it couldn't find the target worker within two hops.", request.method, path)
            raise HerderError(CONFLICT, "Cannot complete request because of a conflicting operation (e.g. worker rebalance)") from error
        if error.forward_url is None:
            raise HerderError(
                CONFLICT,
                "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway.",
            ) from error
        parameters = urlencode({"forward": "true" if forward is None else "false", **(query or {})})
        url = f"{error.forward_url.rstrip('/')}{quote(path)}?{parameters}"
        headers = {"Authorization": request.headers["authorization"]} if "authorization" in request.headers else None
        return Forwarded(*await client.exchange(url, request.method, body, headers=headers))
