"""What the network costs beside the kernel: 1 GiB in 1 MiB frames, received into frames and sent
from a file.

Rooflines: `recv_into` of one buffer again and again, and a bare loop of `os.sendfile`, against the
same peer process. Run: python benches/network_relay.py
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from kmirror.common.ports import File
from kmirror.network.frames import FrameReader, new_scratch
from kmirror.runtime.api import Connection
from kmirror.runtime.asyncio_runtime import AsyncioRuntime, run
from kmirror.runtime.os_files import OsFileSystem

FRAME_BYTES = 1 << 20
FRAME_COUNT = 1024


@dataclass
class Slice:
    file: File
    position: int
    size: int

    def to_bytes(self) -> bytes:
        return self.file.pread(self.size, self.position)


class Sink:
    """Counts frames."""

    def __init__(self, done: asyncio.Future[float]) -> None:
        self._reader = FrameReader(lambda _frame: None, max_size=1 << 27, scratch=new_scratch())
        self.get_buffer = self._reader.get_buffer
        self.buffer_updated = self._reader.buffer_updated
        self._done = done
        self._started = 0.0

    def connection_made(self, connection: Connection) -> None:
        self._started = time.process_time()

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def connection_lost(self, error: Exception | None) -> None:
        self._done.set_result(time.process_time() - self._started)


class Source(Sink):
    """Sends the file FRAME_COUNT times."""

    def __init__(self, done: asyncio.Future[float], file: File) -> None:
        super().__init__(done)
        self._file = file

    def connection_made(self, connection: Connection) -> None:
        super().connection_made(connection)
        size = FRAME_BYTES.to_bytes(4, "big")
        for _ in range(FRAME_COUNT):
            connection.write([size, Slice(self._file, 0, FRAME_BYTES)])
        connection.close()


def in_child(work: Callable[[], None]) -> None:
    if os.fork() == 0:
        work()
        os._exit(0)


def feed(port: int) -> None:
    peer = socket.create_connection(("127.0.0.1", port))
    data = FRAME_BYTES.to_bytes(4, "big") + bytes(FRAME_BYTES)
    for _ in range(FRAME_COUNT):
        peer.sendall(data)


def drain(port: int) -> None:
    peer = socket.create_connection(("127.0.0.1", port))
    buffer = bytearray(FRAME_BYTES)
    while peer.recv_into(buffer):
        pass


def accepted(work: Callable[[int], None]) -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0))
    in_child(lambda: work(listening.getsockname()[1]))
    return listening.accept()[0]


def bare_receive() -> float:
    peer, buffer, started = accepted(feed), bytearray(FRAME_BYTES + 4), time.process_time()
    while peer.recv_into(buffer):
        pass
    os.wait()
    return time.process_time() - started


def bare_send(file: File) -> float:
    peer, started = accepted(drain), time.process_time()
    for _ in range(FRAME_COUNT):
        peer.send(FRAME_BYTES.to_bytes(4, "big"), socket.MSG_MORE)
        position = 0
        while position < FRAME_BYTES:
            position += os.sendfile(peer.fileno(), file.fileno(), position, FRAME_BYTES - position)
    peer.close()
    os.wait()
    return time.process_time() - started


def through_kmirror(make: Callable[[asyncio.Future[float]], Sink], work: Callable[[int], None], *, uvloop: bool) -> float:
    async def main(runtime: AsyncioRuntime) -> float:
        done = runtime.create_future()
        listening = await runtime.listen("127.0.0.1", 0, lambda: make(done))
        in_child(lambda: work(listening.port))
        seconds: float = await done
        listening.close()
        return seconds

    seconds = run(main, prefer_uvloop=uvloop)
    os.wait()
    return seconds


def main() -> None:
    with tempfile.NamedTemporaryFile() as name:
        name.write(os.urandom(FRAME_BYTES))
        name.flush()
        file = OsFileSystem().open(name.name, write=False)
        roofline = {"receive": bare_receive(), "send": bare_send(file)}
        for uvloop in (False, True):
            measured = {
                "receive": through_kmirror(Sink, feed, uvloop=uvloop),
                "send": through_kmirror(lambda done: Source(done, file), drain, uvloop=uvloop),
            }
            for what, seconds in measured.items():
                loop = "uvloop " if uvloop else "asyncio"
                ratio = seconds / roofline[what]
                sys.stdout.write(f"{what:8}{loop}  {seconds:.3f} s of CPU for 1 GiB, {ratio:.2f} x the bare system calls\n")


if __name__ == "__main__":
    main()
