"""`Runtime`: time, randomness, disk, tasks and network, as everything above the log sees them.

There are two implementations: `runtime.asyncio_runtime.AsyncioRuntime` (this machine) and
`sim.runtime.SimRuntime` (a simulated node). Code above this room reaches the outside world only
through a `Runtime`. It may `await` asyncio futures, events and locks, which both loops run, but it
never sleeps, opens or connects by itself.

The network's interface. A `Connection` is one byte stream; its `ConnectionProtocol` is told what
happens on it:

    connection_made(connection)            first, once
    get_buffer(size_hint) -> memoryview    the buffer for the next bytes (at least one byte)
    buffer_updated(size)                   `size` bytes were received into that buffer
    pause_writing() / resume_writing()     the unsent bytes are above / below the water marks again
    connection_lost(error)                 last, once; None after an orderly close by either side

With `get_buffer` a large frame is received straight into its own buffer. `Connection.write(parts)`
takes buffers and `FileSlice`s in wire order and never blocks: what the socket does not take at once
waits in the connection. Parts are kept by reference until they are sent: do not change a buffer
after handing it over. A real socket sends file slices with sendfile; the simulator, and TLS, read
them. If a file is shorter than its slice says, or is closed by the time it is sent, the connection
is aborted, because the length has already been sent. TLS is a filter that is a `ConnectionProtocol`
below and a `Connection` above; nothing else changes.

All callbacks and all methods belong to the loop's thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from kmirror.common.ports import Buffer, Clock, FileSlice, FileSystem, Random

T = TypeVar("T")
ConnectionProtocolT = TypeVar("ConnectionProtocolT", bound="ConnectionProtocol")

WRITE_HIGH_WATER_BYTES = 1 << 20
WRITE_LOW_WATER_BYTES = 1 << 18


class Connection(Protocol):
    """One established byte stream, either side."""

    @property
    def peer_address(self) -> tuple[str, int]:
        """(host, port) of the other end, as numbers."""
        ...

    @property
    def local_address(self) -> tuple[str, int]: ...

    @property
    def unsent_bytes(self) -> int:
        """Bytes passed to `write` that have not been handed to the network yet."""
        ...

    @property
    def is_closing(self) -> bool:
        """Whether `close` or `abort` was called, or the connection is lost."""
        ...

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        """Sends `parts` in order. Ignored when the connection is closing."""
        ...

    def pause_reading(self) -> None:
        """Receives nothing until `resume_reading`; pausing twice is harmless."""
        ...

    def resume_reading(self) -> None: ...

    def wake_at(self, size: int) -> bool:
        """Asks to be told of received bytes only when at least `size` are there, from now on; the end
        of the stream is always told. A hint: returns False where it means nothing.
        """
        ...

    def close(self) -> None:
        """Sends what is unsent, then closes; nothing more is received."""
        ...

    def abort(self) -> None:
        """Closes now, dropping what is unsent."""
        ...


class ConnectionProtocol(Protocol):
    """What happens on one connection; the module's docstring describes the calls."""

    def connection_made(self, connection: Connection) -> None: ...

    def get_buffer(self, size_hint: int) -> memoryview: ...

    def buffer_updated(self, size: int) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None: ...


class ListeningSocket(Protocol):
    """A bound, listening address. `port` is the one the kernel chose when 0 was asked for."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...

    def close(self) -> None:
        """Accepts nothing more; connections that were already accepted live on."""
        ...


class TimerHandle(Protocol):
    def cancel(self) -> None: ...


class SocketBuffers(NamedTuple):
    """Buffer sizes in bytes that a connection requests, as Kafka's `send.buffer.bytes` and
    `receive.buffer.bytes`. With -1 the system chooses, and goes on adapting the size to the
    connection. A requested size is never changed."""

    send_bytes: int = -1
    receive_bytes: int = -1


SYSTEM_BUFFERS: Final = SocketBuffers()


class Runtime(Protocol):
    """Everything that one node sees of the outside world."""

    @property
    def clock(self) -> Clock: ...

    @property
    def random(self) -> Random: ...

    @property
    def files(self) -> FileSystem: ...

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the process's environment."""
        ...

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        """Starts a task. The caller owns it and must keep it, or use a `TaskScope`."""
        ...

    async def sleep_ms(self, delay_ms: float) -> None: ...

    def call_soon(self, function: Callable[[], object]) -> TimerHandle:
        """Runs `function` in the loop's next turn."""
        ...

    def call_later_ms(self, delay_ms: float, function: Callable[[], object]) -> TimerHandle: ...

    async def run_blocking(self, function: Callable[[], T]) -> T:
        """Runs `function` on a worker (fsync, recovery, cleaning); it must not touch what the loop
        may change meanwhile."""
        ...

    def create_future(self) -> asyncio.Future[Any]: ...

    @property
    def failure_count(self) -> int:
        """How often `report_failure` was called so far."""
        ...

    def report_failure(self, message: str, error: BaseException) -> None:
        """Reports an error that nobody awaits. It is logged and counted; the simulator records it
        as a finding."""
        ...

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocol], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> ListeningSocket:
        """Accepts connections on `host`:`port`; "" means every interface, and with port 0 the
        kernel chooses. Raises OSError if the address is taken."""
        ...

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocolT], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> tuple[Connection, ConnectionProtocolT]:
        """Connects to the first address of `host` that accepts; raises OSError if none does. It has
        no timeout of its own."""
        ...


class TaskScope:
    """Tasks that one owner starts and ends together. They are ended newest first, each awaited
    before the next is cancelled.

    A task that fails is reported to `on_failure` (default: the runtime's `report_failure`) and does
    not disturb the others. After `cancel` has begun nothing can be spawned.
    """

    def __init__(self, runtime: Runtime, name: str, *, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self._runtime = runtime
        self._name = name
        self._on_failure = on_failure or self._report
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        if self._closed:
            coroutine.close()
            raise RuntimeError(f"task scope {self._name} is closed, so {name} cannot start")
        task = self._runtime.spawn(coroutine, name=f"{self._name}/{name}")
        self._tasks[task] = None
        task.add_done_callback(self._on_done)
        return task

    async def cancel(self) -> None:
        """Cancels and awaits every task, newest first. It never raises what the tasks raise, and
        may be called again.

        The task that runs this (if it belongs to this scope) is left alone, because it cannot await
        itself. If the caller is cancelled while it waits, the rest is cancelled at once, so that
        nothing of the scope lives on.
        """
        self._closed = True
        current = asyncio.current_task()
        left = [task for task in self._tasks if task is not current]
        try:
            while left:
                task = left.pop()
                if not task.done():
                    task.cancel()
                    await self._wait_done(task)
        finally:
            for task in reversed(left):
                task.cancel()

    async def _wait_done(self, task: asyncio.Task[Any]) -> None:
        done = self._runtime.create_future()

        def wake(_: object) -> None:
            if not done.done():
                done.set_result(None)

        task.add_done_callback(wake)
        try:
            await done
        finally:
            task.remove_done_callback(wake)

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(task.get_name(), error)

    def _report(self, name: str, error: BaseException) -> None:
        self._runtime.report_failure(f"task {name} failed", error)


async def run_together(runtime: Runtime, name: str, coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs the coroutines at the same time and returns their results, in their order. If one fails,
    those that are not done are cancelled."""
    if len(coroutines) == 1:
        return [await coroutines[0]]
    scope = TaskScope(runtime, name, on_failure=lambda task, error: None)  # the caller, who awaits the tasks, gets the error
    try:
        tasks = [scope.spawn(coroutine, name=str(number)) for number, coroutine in enumerate(coroutines)]
        return [await task for task in tasks]
    finally:
        await scope.cancel()
        for coroutine in coroutines:
            coroutine.close()  # if the node was killed, some have never begun
