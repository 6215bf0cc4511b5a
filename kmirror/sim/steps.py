"""Steps of the simulated loop: the handle that waits for its turn or its time, and its label in the
trace.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Coroutine
from typing import Any


class SimHandle:
    """A callback that waits for its turn or its time.

    `task` is the task whose step it is, if it is one; `callback` is None once it is cancelled.
    """

    __slots__ = ("args", "callback", "context", "task")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context
        owner = getattr(callback, "__self__", None)
        self.task: asyncio.Task[Any] | None = owner if type(owner) is asyncio.Task else None

    def cancel(self) -> None:
        self.callback = self.task = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def close_if_new(self) -> None:
        """Closes the task's coroutine if it has not begun, which runs none of its code."""
        coroutine = None if self.task is None else self.task.get_coro()
        if isinstance(coroutine, Coroutine) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
            coroutine.close()


class StepLabels:
    """`describe`, computed once for each task and each method."""

    def __init__(self) -> None:
        self._of_functions: dict[object, str] = {}

    def of(self, task: asyncio.Task[Any] | None, callback: Callable[..., object]) -> str:
        if task is not None:
            return task.label  # type: ignore[attr-defined, no-any-return]
        function = getattr(callback, "__func__", None)
        if function is None:
            return describe(callback)
        label = self._of_functions.get(function)
        if label is None:
            label = self._of_functions[function] = describe(callback)
        return label


def describe(callback: object) -> str:
    """A label that is the same in every process."""
    owner = callback if isinstance(callback, asyncio.Task) else getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {owner.get_name()}"
    inner = getattr(callback, "func", None)  # functools.partial
    if inner is not None:
        return describe(inner)
    module = getattr(callback, "__module__", None) or type(callback).__module__
    name = getattr(callback, "__qualname__", None) or type(callback).__qualname__
    return f"{module}.{name}"
