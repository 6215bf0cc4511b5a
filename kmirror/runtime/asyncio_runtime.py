"""The `Runtime` of a real machine: asyncio's loop (or uvloop's), its clock, its sockets, a few
worker threads.

One `AsyncioRuntime` belongs to one loop; several nodes may share it. Create it on the loop's
thread, or pass it the loop.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from kmirror.common.ports import Clock, FileSystem, Random
from kmirror.runtime.api import SYSTEM_BUFFERS, ConnectionProtocol, ConnectionProtocolT, SocketBuffers, TimerHandle
from kmirror.runtime.os_files import OsFileSystem
from kmirror.runtime.sockets import SocketConnection, SocketListener, prepare_stream
from kmirror.runtime.system_ports import SystemClock, SystemRandom

T = TypeVar("T")
AddressInfo = tuple[socket.AddressFamily, tuple[Any, ...]]
WORKER_COUNT = 4
LISTEN_BACKLOG = 128
_log = logging.getLogger(__name__)


class AsyncioRuntime:
    """`Runtime` on a real loop. Call `close` at the end: it ends the worker threads."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        random: Random | None = None,
        files: FileSystem | None = None,
        clock: Clock | None = None,
        worker_count: int = WORKER_COUNT,
    ) -> None:
        self._loop = loop or asyncio.get_running_loop()
        self.random: Random = random or SystemRandom()
        self.files: FileSystem = files or OsFileSystem()
        self.clock: Clock = clock or SystemClock()
        self.environment: Mapping[str, str] = os.environ
        self.failure_count = 0
        self._workers = ThreadPoolExecutor(worker_count, thread_name_prefix="kmirror-worker")

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        return self._loop.create_task(coroutine, name=name)

    async def sleep_ms(self, delay_ms: float) -> None:
        await asyncio.sleep(delay_ms / 1000)

    def call_soon(self, function: Callable[[], object]) -> TimerHandle:
        return self._loop.call_soon(function)

    def call_later_ms(self, delay_ms: float, function: Callable[[], object]) -> TimerHandle:
        if asyncio._get_running_loop() is self._loop:
            return self._loop.call_later(delay_ms / 1000, function)
        return _TimerFromOutside(self._loop, delay_ms / 1000, function)

    async def run_blocking(self, function: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._workers, function)

    def create_future(self) -> asyncio.Future[Any]:
        return self._loop.create_future()

    def report_failure(self, message: str, error: BaseException) -> None:
        self.failure_count += 1
        _log.error("%s: %s: %s", message, type(error).__name__, error, exc_info=error)

    async def listen(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocol], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> SocketListener:
        try:
            addresses = [_wildcard(port)] if host == "" else await self._resolve(host, port)
            sock = _bound(*addresses[0], every_interface=host == "", receive_buffer_bytes=buffers.receive_bytes)
            return SocketListener(self._loop, sock, protocol_factory, SocketBuffers(buffers.send_bytes))
        except OSError as error:
            raise OSError(error.errno, f"cannot listen on {host or 'every interface'} port {port}: {error.strerror}") from error

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], ConnectionProtocolT], *, buffers: SocketBuffers = SYSTEM_BUFFERS
    ) -> tuple[SocketConnection, ConnectionProtocolT]:
        first_error: OSError | None = None
        for family, address in await self._resolve(host, port):
            try:
                sock = await self._connect_one(family, address, buffers)
            except OverflowError as error:  # a peer's metadata may name port -1, or 70000
                raise OSError(errno.EINVAL, f"{port} is not a port") from error
            except OSError as error:
                first_error = first_error or error
                continue
            protocol = protocol_factory()
            return SocketConnection(self._loop, sock, protocol), protocol
        raise first_error or OSError(f"{host} has no address")

    async def _connect_one(self, family: socket.AddressFamily, address: tuple[Any, ...], buffers: SocketBuffers) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_STREAM)
        connected = False
        try:
            prepare_stream(sock, buffers)
            await self._loop.sock_connect(sock, address)
            connected = sock.getsockname() != sock.getpeername()
            if not connected:  # TCP lets a socket connect to itself on an ephemeral port where nobody listens
                raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            return sock
        except OSError as error:
            if error.errno is None:
                raise
            # asyncio's text is "Connect call failed"; people search for the system's
            raise OSError(error.errno, os.strerror(error.errno)) from error
        finally:
            if not connected:
                sock.close()

    async def _resolve(self, host: str, port: int) -> list[AddressInfo]:
        """Returns the addresses of a name, IPv4 first (as Java does, so that a name means the same
        listener to both)."""
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            try:
                found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except ValueError as error:  # Python's IDNA encoding refuses a malformed name before the resolver sees it
                raise OSError(errno.EINVAL, f"{host!r} is not the name of a host") from error
            found.sort(key=lambda entry: entry[0] != socket.AF_INET)
            return [(entry[0], entry[4]) for entry in found]
        return [(socket.AF_INET, (host, port)) if version == 4 else (socket.AF_INET6, (host, port, 0, 0))]

    def close(self) -> None:
        """Ends the worker threads; work that has begun is finished first."""
        self._workers.shutdown(wait=True)


class _TimerFromOutside:
    """A timer that a worker asked for. The heap of timers belongs to the loop's thread, so it is
    set there."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float, function: Callable[[], object]) -> None:
        self._loop = loop
        self._delay_s = delay_s
        self._function = function
        self._handle: asyncio.TimerHandle | None = None
        self._is_cancelled = False
        loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        if not self._is_cancelled:
            self._handle = self._loop.call_later(self._delay_s, self._function)

    def cancel(self) -> None:
        """Runs on the loop's thread."""
        self._is_cancelled = True
        if self._handle is not None:
            self._handle.cancel()


def _bound(
    family: socket.AddressFamily, address: tuple[Any, ...], *, every_interface: bool, receive_buffer_bytes: int = -1
) -> socket.socket:
    """Returns a listening socket; raises OSError if the address is taken, not ours, or not an
    address. Accepted connections inherit its receive buffer, because TCP agrees on the window scale
    before anyone could set the buffer on them."""
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if every_interface else 1)
        if receive_buffer_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.bind(address)
        sock.listen(LISTEN_BACKLOG)
    except OverflowError as error:
        sock.close()
        raise OSError(errno.EINVAL, "a port is a number from 0 to 65535") from error
    except OSError:
        sock.close()
        raise
    return sock


def _wildcard(port: int) -> AddressInfo:
    if socket.has_dualstack_ipv6():
        return socket.AF_INET6, ("::", port, 0, 0)
    return socket.AF_INET, ("0.0.0.0", port)


def new_event_loop(*, prefer_uvloop: bool = False) -> asyncio.AbstractEventLoop:
    """Returns a loop for `AsyncioRuntime`: uvloop's if it is asked for and installed."""
    if prefer_uvloop:
        try:
            import uvloop
        except ImportError:
            _log.info("uvloop is not installed; using asyncio's loop")
        else:
            loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
            return loop
    return asyncio.new_event_loop()


def run(main: Callable[[AsyncioRuntime], Coroutine[Any, Any, T]], *, prefer_uvloop: bool = False) -> T:
    """Runs `main(runtime)` on a new loop to its end, then closes both."""
    with asyncio.Runner(loop_factory=lambda: new_event_loop(prefer_uvloop=prefer_uvloop)) as runner:
        runtime = AsyncioRuntime(loop=runner.get_loop())
        try:
            return runner.run(main(runtime))
        finally:
            runtime.close()
