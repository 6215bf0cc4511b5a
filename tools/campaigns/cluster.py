"""`EmbeddedCluster` whose controller can also be killed and stalled: it is a process of its own, or
part of broker 1's process.

kmirror's quorum has one voter, so nobody can take over: while the controller is away nothing
changes, and afterwards everything goes on.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kmirror import EmbeddedCluster
from kmirror.cli.demo_cluster import free_ports
from kmirror.common.errors import KmirrorError
from kmirror.embedded import EmbeddedNode
from kmirror.node_process import NodeProcess

START_LIMIT_S = 60
POLL_S = 0.05


class Cluster(EmbeddedCluster):
    """Its nodes are processes in `folder`. `combined`: broker 1 is the controller."""

    def __init__(
        self,
        brokers: int,
        *,
        folder: Path,
        combined: bool = False,
        config: Mapping[str, str] | None = None,
        node_config: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(brokers, mirroring=True, processes=True, folder=folder, config=config, node_config=node_config)
        self.combined = combined

    @property
    def controller(self) -> EmbeddedNode:
        return self._controller

    @property
    def controller_log(self) -> Path:
        return self.controller.folder / "server.log"

    def kill_controller(self) -> None:
        """Sends SIGKILL; also handles a controller that has ended by itself."""
        self._call(self.controller.kill())

    def start_controller(self) -> None:
        """Starts the controller; KmirrorError with the last line of its log if it refuses."""
        self._call(self._start_node(self.controller) if self.combined else self._start_controller())

    def stall(self, node: EmbeddedNode, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after a while."""
        with self.stalled(node, seconds):
            time.sleep(seconds)

    @contextmanager
    def stalled(self, node: EmbeddedNode, limit_s: float) -> Iterator[None]:
        """The node stands still in the block, but for `limit_s` at most.

        What the block waits for may need the node.
        """
        pid = _process(node).pid
        goes_on = threading.Timer(limit_s, os.kill, (pid, signal.SIGCONT))
        os.kill(pid, signal.SIGSTOP)
        goes_on.start()
        try:
            yield
        finally:
            goes_on.cancel()
            goes_on.join()
            os.kill(pid, signal.SIGCONT)

    def controller_ends(self, limit_s: float) -> bool:
        """Whether the controller's process ends by itself within `limit_s`."""
        process = _process(self.controller)
        deadline = time.monotonic() + limit_s
        while process.death is None:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_S)
        return True

    # -- inside
    # -----------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        super()._open()
        if self.combined:
            self._controller = self.nodes[0]

    async def _start_server(self, node: EmbeddedNode) -> None:
        """Called for the controller before the brokers, which must know its port.

        The controller's first start happens here.
        """
        if node.controller_port:
            return
        node.controller_port = free_ports(1)[0]
        if not self.combined:
            await self._start_controller()

    async def _start_controller(self) -> None:
        node = self.controller
        if node.is_running:
            raise KmirrorError("the controller is already running")
        node.process = NodeProcess(node.node_id, node.folder / "server.properties", self.controller_log, volatile=False)
        try:
            self._format(node)
            node.process.begin(self._properties(node), time_ms=int(time.time() * 1000))
            await asyncio.wait_for(node.process.wait_ready(), START_LIMIT_S)
        except TimeoutError:
            await node.kill()
            raise KmirrorError(f"the controller did not start within {START_LIMIT_S} s, nor did it say why not") from None
        except BaseException:
            await node.kill()
            raise


def _process(node: EmbeddedNode) -> NodeProcess:
    assert node.process is not None, f"node {node.node_id} is not running"
    return node.process
