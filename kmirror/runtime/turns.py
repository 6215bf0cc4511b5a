"""How work on the loop lets others have their turn.

One loop serves all connections. A request with tens of thousands of elements, or a client that
sends thousands of requests at once, must not hold it for long. Whoever works through many things
asks `Turns` between two of them: when a slice of time or a number of things is over, everybody else
runs once, and then the work goes on. The number makes the rule hold where time stands still while
code runs, as it does in the simulator.

What is read across a turn must not change meanwhile: take the image first.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Final, TypeVar

from kmirror.runtime.api import Runtime

T = TypeVar("T")
SLICE_NS: Final = 5_000_000
THINGS_A_SLICE: Final = 512


class Turns:
    """One piece of work, and when it began its slice."""

    __slots__ = ("_began_ns", "_clock", "_count", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self.begin()

    def begin(self) -> None:
        """Begins a slice: the work has just waited for something."""
        self._began_ns = self._clock.monotonic_ns()
        self._count = 0

    @property
    def is_over(self) -> bool:
        """Counts one thing, and says whether the slice is used up."""
        self._count += 1
        return self._count >= THINGS_A_SLICE or self._clock.monotonic_ns() - self._began_ns >= SLICE_NS

    async def give(self) -> None:
        """Lets everybody else run once."""
        await self._runtime.sleep_ms(0)
        self.begin()


async def in_turns(runtime: Runtime, things: Iterable[T]) -> AsyncIterator[T]:
    """The things, with turns of others in between."""
    turns = Turns(runtime)
    for thing in things:
        yield thing
        if turns.is_over:
            await turns.give()
