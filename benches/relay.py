"""The raw relay: what a mirror could cost at best.

`python -m benches.relay PORT FILE` is measured as a process.

socket -> CRC-32C -> write, 1 MiB at a time, no protocol at all; the bytes come from `serve`, which
sends log files by sendfile.
"""

from __future__ import annotations

import os
import pathlib
import socket
import sys
import threading

from benches.harness import Usage, run_command
from kmirror.common.crc32c import crc32c

CHUNK_BYTES = 1 << 20


def relay(port: int, path: str) -> None:
    peer = socket.create_connection(("127.0.0.1", port))
    buffer = memoryview(bytearray(CHUNK_BYTES))
    descriptor = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    while True:
        filled = 0
        while filled < CHUNK_BYTES and (received := peer.recv_into(buffer[filled:])):
            filled += received
        if not filled:
            return
        crc32c(buffer[:filled])
        os.write(descriptor, buffer[:filled])


def serve(listening: socket.socket, files: list[pathlib.Path]) -> None:
    peer, _ = listening.accept()
    with peer:
        for path in files:
            with path.open("rb") as file:
                peer.sendfile(file)


def measure(folder: pathlib.Path, files: list[pathlib.Path]) -> Usage:
    """What a relay of these files uses, less what its interpreter needs to start."""
    return measure_copies(folder, files, 1)[0]


def measure_copies(folder: pathlib.Path, files: list[pathlib.Path], copies: int) -> list[Usage]:
    """As `measure`, of so many relays one after the other, whose files are removed at the end only.

    Memory that was never written since the machine had it costs several times as much to write
    (virtual machines give free memory back): who holds three copies at once cannot be held against
    who writes one three times.
    """
    targets = [folder / f"relayed-{number}" for number in range(copies)]
    usages = [_measure_one(target, files) for target in targets]
    for target in targets:
        assert target.stat().st_size == sum(path.stat().st_size for path in files), "the relay lost bytes"
        target.unlink()
    return usages


def _measure_one(target: pathlib.Path, files: list[pathlib.Path]) -> Usage:
    idle = run_command([sys.executable, "-c", "import benches.relay"])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = threading.Thread(target=serve, args=(listening, files))
        sender.start()
        usage = run_command([sys.executable, "-m", "benches.relay", str(listening.getsockname()[1]), str(target)])
        sender.join()
    return Usage(usage.wall - idle.wall, usage.cpu - idle.cpu)


if __name__ == "__main__":
    relay(int(sys.argv[1]), sys.argv[2])
