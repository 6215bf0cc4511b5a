"""`Connection` over a non-blocking TCP socket, driven by the loop's readiness callbacks.

asyncio's transports are not used, for two reasons: they copy what they cannot send, and they cannot
send a file between two buffers. Here the write queue holds buffers and file slices by reference;
runs of buffers leave with one `sendmsg`, slices with `sendfile`. A buffer in front of a slice is
sent with MSG_MORE, so a response header does not travel in a packet of its own (TCP_NODELAY is on).
Small slices are read instead: one `pread` and one `sendmsg` cost less than a `sendfile` of their
own.

A flush sends at most FLUSH_BYTES, a wake-up receives at most RECEIVE_BYTES: one fast peer must not
starve the others.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from kmirror.common.ports import Buffer, FileSlice
from kmirror.runtime.api import SYSTEM_BUFFERS, WRITE_HIGH_WATER_BYTES, WRITE_LOW_WATER_BYTES, ConnectionProtocol, SocketBuffers
from kmirror.runtime.os_files import IOV_MAX

READ_SIZE_HINT = 1 << 16
RECEIVE_BYTES = 1 << 22
FLUSH_BYTES = 1 << 22
SMALL_SLICE_BYTES = 1 << 13
ACCEPTS_PER_WAKE_UP = 64
ACCEPT_PAUSE_S = 1.0
_MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _FileRun:
    """The part of a file slice that is not sent yet."""

    __slots__ = ("position", "remaining", "slice")

    def __init__(self, file_slice: FileSlice) -> None:
        self.slice = file_slice
        self.position = file_slice.position
        self.remaining = file_slice.size


class SocketConnection:
    """A connected socket; reading starts when it is made."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, protocol: ConnectionProtocol) -> None:
        self._loop = loop
        self._socket = sock
        self._descriptor = sock.fileno()
        self._protocol = protocol
        self._peer_address = plain_address(sock.getpeername())
        self._local_address = plain_address(sock.getsockname())
        self._queue: deque[memoryview | _FileRun] = deque()
        self._unsent_bytes = 0
        self._reading = False
        self._writer_registered = False
        self._writing_paused = False
        self._closing = False
        self._lost = False
        self.resume_reading()
        protocol.connection_made(self)

    @property
    def peer_address(self) -> tuple[str, int]:
        return self._peer_address

    @property
    def local_address(self) -> tuple[str, int]:
        return self._local_address

    @property
    def unsent_bytes(self) -> int:
        return self._unsent_bytes

    @property
    def is_closing(self) -> bool:
        return self._closing

    # Receiving

    def pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._loop.remove_reader(self._descriptor)

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._loop.add_reader(self._descriptor, self._on_readable)

    def wake_at(self, size: int) -> bool:
        if self._closing:
            return False
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
        except OSError:
            return False
        return True

    def _on_readable(self) -> None:
        finished = False
        try:
            self._receive()
            finished = True
        finally:
            if not finished:  # the protocol raised: its state is unknown, so the stream ends here
                self.abort()

    def _receive(self) -> None:
        protocol = self._protocol
        total = 0
        while total < RECEIVE_BYTES:
            buffer = protocol.get_buffer(READ_SIZE_HINT)
            try:
                size = self._socket.recv_into(buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._fail(error)
                return
            if size == 0:
                self._fail(None)
                return
            full = size == len(buffer)
            del buffer
            protocol.buffer_updated(size)
            if not full or not self._reading:
                return
            total += size

    # Sending

    def write(self, parts: Sequence[Buffer | FileSlice]) -> None:
        if self._closing or (not self._queue and self._sent_at_once(parts)):
            return
        for part in parts:
            self._enqueue(part)
        if self._writer_registered:
            self._check_water_marks()
        elif self._queue:
            self._flush()

    def _sent_at_once(self, parts: Sequence[Buffer | FileSlice]) -> bool:
        """Sends buffers that nothing stands before, without a queue. Returns False, with nothing
        sent, for what that does not suit; what the socket does not take is queued.
        """
        if not 0 < len(parts) <= IOV_MAX:
            return False
        size = 0
        for part in parts:
            if isinstance(part, (bytes, bytearray)):
                size += len(part)
            elif isinstance(part, memoryview):
                size += part.nbytes
            else:
                return False
        try:
            sent = self._socket.sendmsg(parts)  # type: ignore[arg-type]
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self._fail(error)
            return True
        if sent < size:
            for part in parts:
                self._enqueue(part)
            self._unsent_bytes -= sent
            self._drop_sent(sent)
            self._after_flush()
        return True

    def _enqueue(self, part: Buffer | FileSlice) -> None:
        if isinstance(part, (bytes, bytearray, memoryview)):
            view = memoryview(part)
            if view.nbytes:
                self._queue.append(view)
                self._unsent_bytes += view.nbytes
        elif part.size:
            self._queue.append(_FileRun(part))
            self._unsent_bytes += part.size

    def _flush(self) -> None:
        budget = FLUSH_BYTES
        queue = self._queue
        try:
            while queue and budget > 0:
                first = queue[0]
                sent = self._send_file(first) if isinstance(first, _FileRun) else self._send_buffers()
                self._unsent_bytes -= sent
                budget -= sent
        except (BlockingIOError, InterruptedError):
            pass
        except (OSError, EOFError, ValueError) as error:  # ValueError: the file of a slice was closed meanwhile
            self._fail(error)
            return
        self._after_flush()

    def _after_flush(self) -> None:
        if self._queue:
            if not self._writer_registered:
                self._writer_registered = True
                self._loop.add_writer(self._descriptor, self._flush)
        else:
            self._unregister_writer()
            if self._closing:
                self._fail(None)
                return
        self._check_water_marks()

    def _check_water_marks(self) -> None:
        if not self._writing_paused and self._unsent_bytes > WRITE_HIGH_WATER_BYTES:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif self._writing_paused and self._unsent_bytes <= WRITE_LOW_WATER_BYTES:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _send_file(self, run: _FileRun) -> int:
        if run.remaining <= SMALL_SLICE_BYTES:
            self._queue[0] = memoryview(self._read_slice(run))
            return self._send_buffers()
        sent = os.sendfile(self._descriptor, run.slice.file.fileno(), run.position, min(run.remaining, FLUSH_BYTES))
        if sent == 0:
            raise _slice_cut_short(run)
        run.position += sent
        run.remaining -= sent
        if run.remaining == 0:
            self._queue.popleft()
        return sent

    def _read_slice(self, run: _FileRun) -> bytes:
        data = run.slice.file.pread(run.remaining, run.position)
        if len(data) < run.remaining:
            raise _slice_cut_short(run)
        return data

    def _send_buffers(self) -> int:
        buffers, flags = self._next_buffers()
        sent = self._socket.send(buffers[0], flags) if len(buffers) == 1 else self._socket.sendmsg(buffers, (), flags)
        self._drop_sent(sent)
        return sent

    def _next_buffers(self) -> tuple[list[memoryview], int]:
        buffers: list[memoryview] = []
        queue = self._queue
        for index, part in enumerate(queue):
            if isinstance(part, _FileRun):
                if part.remaining > SMALL_SLICE_BYTES:
                    return buffers, _MSG_MORE
                part = queue[index] = memoryview(self._read_slice(part))
            buffers.append(part)
            if len(buffers) == IOV_MAX:
                break
        return buffers, 0

    def _drop_sent(self, sent: int) -> None:
        queue = self._queue
        while sent:
            first = queue[0]
            assert isinstance(first, memoryview), f"a file slice was sent as a buffer: {first!r}"
            if sent < first.nbytes:
                queue[0] = first.cast("B")[sent:]
                return
            sent -= first.nbytes
            queue.popleft()

    # Closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self.pause_reading()
        if not self._queue:
            self._fail(None)

    def abort(self) -> None:
        self._fail(None)

    def _unregister_writer(self) -> None:
        if self._writer_registered:
            self._writer_registered = False
            self._loop.remove_writer(self._descriptor)

    def _fail(self, error: Exception | None) -> None:
        """Ends the stream; the protocol is told in the loop's next turn, never from inside its own
        call."""
        if self._lost:
            return
        self._lost = True
        self._closing = True
        self.pause_reading()
        self._unregister_writer()
        self._queue.clear()
        self._unsent_bytes = 0
        self._loop.call_soon(self._finish, error)

    def _finish(self, error: Exception | None) -> None:
        self._socket.close()
        self._protocol.connection_lost(error)


class SocketListener:
    """A listening socket that makes a `SocketConnection` for each accepted connection."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        protocol_factory: Callable[[], ConnectionProtocol],
        buffers: SocketBuffers = SYSTEM_BUFFERS,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._protocol_factory = protocol_factory
        self._buffers = buffers
        self._host, self._port = plain_address(sock.getsockname())
        self._closed = False
        self._resume()

    @property
    def host(self) -> str:
        return self._host

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._on_acceptable)

    def _on_acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_WAKE_UP):
            try:
                sock, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_RESOURCES:
                    raise
                self._loop.remove_reader(self._socket.fileno())  # otherwise the loop would spin until a descriptor is free
                self._loop.call_later(ACCEPT_PAUSE_S, self._resume)
                return
            try:
                prepare_stream(sock, self._buffers)
                SocketConnection(self._loop, sock, self._protocol_factory())
            except OSError:  # the peer is already gone
                sock.close()


def prepare_stream(sock: socket.socket, buffers: SocketBuffers = SYSTEM_BUFFERS) -> None:
    """Sets the options that Kafka sets on every connection. Call it before connecting, because TCP
    agrees on the window scale then."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, size_bytes in ((socket.SO_SNDBUF, buffers.send_bytes), (socket.SO_RCVBUF, buffers.receive_bytes)):
        if size_bytes >= 0:
            sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)


def plain_address(address: tuple[str, int] | tuple[str, int, int, int]) -> tuple[str, int]:
    """Returns (host, port); an IPv4 address seen through an IPv6 socket is shown as IPv4."""
    host, port = address[0], address[1]
    return host.removeprefix("::ffff:") if "." in host else host, port


def _slice_cut_short(run: _FileRun) -> EOFError:
    return EOFError(f"{run.slice.file.path} ends before position {run.position + run.remaining}, which was promised to a peer")


def local_address() -> str:
    """Returns the address that this machine's own name stands for (Java's `getLocalHost`)."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
