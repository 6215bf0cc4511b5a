"""Calls of users' code: message handlers and rebalance listeners.

Kafka's stream ends with whatever they throw (`Throwable`), and the tool with it. In Python not all
of that is an `Exception`: SystemExit and KeyboardInterrupt end the loop, and CancelledError ends a
task as if its owner had asked. So `called` turns everything into a UserCodeError, apart from a
cancellation that the task's owner did ask for.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from kmirror.common.errors import KmirrorError


class UserCodeError(KmirrorError):
    """A handler or listener raised; the text has the type and the text of what it raised."""

    def __init__(self, raised: BaseException) -> None:
        super().__init__(f"{type(raised).__name__}: {raised}")


async def called(function: Callable[..., Any], *arguments: object) -> Any:
    """Returns what a function or coroutine function of a user's returns."""
    try:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise UserCodeError(error) from error
    except BaseException as error:
        raise UserCodeError(error) from error
