"""Whose a step is: nodes as the loop sees them, their deaths, and the errors that nobody awaited.

Each simulated node runs in a `contextvars` context that names it (`current_owner`); tasks and
callbacks inherit it. Code of a node that is dead gets `NodeKilledError` from whatever it uses, and
what it raises then is nobody's: `is_of_the_dead` tells that from an error that the node had while
it lived.
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
    """Whether an error that nobody has looked at is a dead node's; of a task's, only one of the
    very moment in which the node died.
    """
    owner: Owner | None = getattr(future, "owner", None)
    if owner is None or owner.alive:
        return False
    return not isinstance(future, asyncio.Task) or getattr(future, "failed_us", None) == owner.died_us
