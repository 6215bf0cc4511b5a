"""Which node a step belongs to: nodes as the loop sees them, their deaths, and the errors that
nobody awaited.

Each simulated node runs in a `contextvars` context that names it (`current_owner`); tasks and
callbacks inherit it. Code of a dead node gets `NodeKilledError` from whatever it uses, and nobody
is told of the errors that it raises then. `is_of_the_dead` tells these from errors that the node
had while it lived.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any, Protocol


class NodeKilledError(BaseException):
    """Raised into code of a node that is dead; not an Exception, so that no handler of the node
    survives its death.
    """


class Owner(Protocol):
    """A node, as the loop sees it."""

    name: str
    alive: bool
    died_us: int
    tasks: dict[asyncio.Task[Any], None]


current_owner: contextvars.ContextVar[Owner] = contextvars.ContextVar("kmirror_sim_owner")


class Failure:
    """An error nobody awaited."""

    __slots__ = ("error", "message", "node", "now_us")

    def __init__(self, node: str, message: str, error: BaseException | None, now_us: int) -> None:
        self.node = node
        self.message = message
        self.error = error
        self.now_us = now_us

    def __repr__(self) -> str:
        return f"Failure({self.node} at {self.now_us} us: {self.message}: {self.error!r})"


def is_of_the_dead(future: object) -> bool:
    """Returns whether an error that nobody has looked at belongs to a dead node. A task's error
    does so only if the task failed at the very moment in which the node died.
    """
    owner: Owner | None = getattr(future, "owner", None)
    if owner is None or owner.alive:
        return False
    return not isinstance(future, asyncio.Task) or getattr(future, "failed_us", None) == owner.died_us
