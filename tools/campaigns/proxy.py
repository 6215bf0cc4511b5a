"""A TCP proxy that can be told to be a bad link: late, cut, silent, or gone.

Threads, for it stands outside of everything it tests.

delay_s, jitter_s     bytes come later; in order, both ways
reset()               every connection ends with RST, whatever was under way
silent = True         half-open: connections stand, new ones are accepted, nothing gets through and nobody is told
refuse()/listen()     nobody listens at the address; then somebody does again
trickle = True        a few bytes at a time
"""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time

CHUNK_BYTES = 64 * 1024
TRICKLE_BYTES = 37
POLL_S = 0.1
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, 0 seconds: close sends RST."""


class Proxy:
    """Owns the connections through it; forwards `127.0.0.1:port` to `target_port`, from `listen`
    on.
    """

    def __init__(self, target_port: int, *, seed: int, port: int = 0) -> None:
        self.port = port
        self.delay_s = 0.0
        self.jitter_s = 0.0
        self.silent = False
        self.trickle = False
        self.forwarded_bytes = 0
        self._target_port = target_port
        self._chance = random.Random(seed)
        self._listening: socket.socket | None = None
        self._links: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        self.listen()

    def listen(self) -> None:
        """Listens (again) at the port that it had."""
        if self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self.port))
            self.port = self._listening.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def refuse(self) -> None:
        """Refuses new connections; existing ones go on."""
        listening, self._listening = self._listening, None
        if listening is not None:
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()

    def reset(self) -> int:
        """Ends every connection with RST; returns how many there were."""
        with self._lock:
            links, self._links = self._links, set()
        for link in links:
            with contextlib.suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                link.shutdown(socket.SHUT_RD)  # wakes the thread that reads it; the other end learns nothing of it
            link.close()
        return len(links) // 2

    def heal(self) -> None:
        """Makes the link good again.

        Connections that stood silent are reset: bytes that were swallowed do not come back.
        """
        was_silent = self.silent
        self.delay_s = self.jitter_s = 0.0
        self.silent = self.trickle = False
        if was_silent:
            self.reset()
        self.listen()

    def close(self) -> None:
        self._closed = True
        self.refuse()
        self.reset()

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target_port), 5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            with self._lock:
                self._links |= {client, server}
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(TRICKLE_BYTES if self.trickle else CHUNK_BYTES):
                late_s = self.delay_s + self._chance.random() * self.jitter_s
                if late_s:
                    time.sleep(late_s)
                if self.silent:
                    while self.silent and not self._closed:
                        time.sleep(POLL_S)
                    break  # the bytes are lost, and with them the connection
                target.sendall(data)
                self.forwarded_bytes += len(data)  # of several threads: about so many
        with self._lock:
            self._links -= {source, target}
        for link in (source, target):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
            link.close()
