"""The parent's handle on a node that runs as a process of its own (`kmirror.node_main`).

    spawn ──> (the child loads its code) ── begin ──> (it starts) ── wait_ready ──> stop, or kill

All coroutines belong to one loop. `spawn` returns at once, so that several children load at the
same time.

A child that ends by itself (killed by somebody else, out of memory, a failed disk) is told in the
log with how it ended and its last lines, and in `death`. A child that does not end when it is asked
to is killed after STOP_TIMEOUT_S.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import subprocess
import sys
from pathlib import Path

from kmirror.common.errors import KmirrorError
from kmirror.storage.java_properties import encode_properties

TAIL_BYTES = 4096
TAIL_LINES = 5
STOP_TIMEOUT_S = 60
_log = logging.getLogger(__name__)


class NodeProcess:
    """Owns one run of a node: its child process and its streams.

    The child reads `properties_path` after `begin`; its log is appended to `log_path`.
    """

    def __init__(self, node_id: int, properties_path: Path, log_path: Path, *, volatile: bool) -> None:
        self.node_id = node_id
        self.log_path = log_path
        self._properties_path = properties_path
        command = [sys.executable, "-m", "kmirror.node_main", str(properties_path), *(["--volatile"] if volatile else [])]
        properties_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True)
        self._output: asyncio.StreamReader | None = None
        self._end: asyncio.Task[None] | None = None
        self._is_asked_to_end = False
        self.death: str | None = None
        """How it ended, with the last lines of its log, if nobody here asked it to."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, properties: dict[str, str], *, time_ms: int) -> None:
        """Writes the properties file and lets the child go on."""
        self._properties_path.touch(mode=0o600)  # listeners' logins and passwords of key stores may be in it
        self._properties_path.write_bytes(encode_properties(properties, time_ms=time_ms))
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the child is dead already; `wait_ready` reports it

    async def wait_ready(self) -> dict[str, int]:
        """Returns the bound port by listener name.

        KmirrorError with the last lines of the node's log if the node ended instead.
        """
        line = await (await self._reader()).readline()
        if not line:
            self._is_asked_to_end = True
            await self._reap()
            raise KmirrorError(f"node {self.node_id} did not start: {self.last_log_lines(1)} (the whole log: {self.log_path})")
        ports: dict[str, int] = json.loads(line)
        self._end = asyncio.ensure_future(self._watch())
        return ports

    async def stop(self) -> None:
        """Shuts down in a controlled way; returns when the process has ended."""
        self._is_asked_to_end = True
        self._process.send_signal(signal.SIGTERM)
        reaping = asyncio.ensure_future(self._reap())
        done, _ = await asyncio.wait([reaping], timeout=STOP_TIMEOUT_S)
        if not done:
            _log.warning("node %d did not stop within %s s and is killed; %s", self.node_id, STOP_TIMEOUT_S, self._last_words())
            self._process.kill()
        await reaping

    async def kill(self) -> None:
        """Sends SIGKILL; returns when the process has ended."""
        self._is_asked_to_end = True
        self._process.kill()
        await self._reap()

    async def _reader(self) -> asyncio.StreamReader:
        if self._output is None:
            reader = asyncio.StreamReader()
            await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._process.stdout)
            self._output = reader
        return self._output

    async def _reap(self) -> None:
        """Waits for the end of the child's stdout, which is the end of the child: nothing has to
        poll.
        """
        if self._end is None:
            self._end = asyncio.ensure_future(self._watch())
        await self._end
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

    async def _watch(self) -> None:
        await (await self._reader()).read()
        status = self._process.wait()
        if not self._is_asked_to_end:
            end = f"node {self.node_id} (process {self.pid}) ended by itself, {_end_text(status)}"
            self.death = f"{end}; {self._last_words()}"
            _log.error("%s", self.death)

    def _last_words(self) -> str:
        return f"the last lines of its log ({self.log_path}):\n{self.last_log_lines(TAIL_LINES)}"

    def last_log_lines(self, count: int) -> str:
        lines = self.log_path.read_bytes()[-TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-count:]) if lines else "its log is empty"


def _end_text(status: int) -> str:
    """How a process ended, by what `wait` says of it."""
    if status >= 0:
        return f"with exit code {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
