"""`EmbeddedCluster`: a Kafka cluster inside a test or a notebook, as a sync and as an async context manager.

    with EmbeddedCluster() as cluster:                     # one node, ready in a fraction of a second
        Producer({"bootstrap.servers": cluster.bootstrap_servers})

The nodes are the same `KafkaServer`s that `kmirror start` runs, on one event loop in a background thread, with ports
chosen by the kernel and a folder that is removed at the end (unless one is given; a temporary folder is not fsynced).
`mirroring=True` formats with `mirror.version=1`, sets both unstable flags, and sets the internal topics' replication
factors to min(3, brokers).

`stop_node` shuts a node down in good order, `kill_node` drops it as SIGKILL would (nothing is flushed, no checkpoint is
written), `start_node` starts it again on the same folder and ports, so that clients find it again.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.os_files import VolatileOsFileSystem
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer

T = TypeVar("T")
HOST = "127.0.0.1"


class LoopThread:
    """One event loop in one daemon thread; coroutines are handed in from outside."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` to its end on the loop and give its result to this thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The same for a caller that lives on another loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class EmbeddedNode:
    """One node of the cluster: its folder, its ports, and its server while it runs."""

    def __init__(self, node_id: int, folder: Path) -> None:
        self.node_id = node_id
        self.folder = folder
        self.port = 0
        self.controller_port = 0
        self.server: KafkaServer | None = None

    @property
    def log_dir(self) -> Path:
        return self.folder / "data"


class EmbeddedCluster:
    """A cluster of `brokers` nodes; the first is controller, too.

    `config` adds Kafka broker properties (they win over the defaults); `folder` keeps the data (a restart on the same
    folder finds it); `cluster_id` defaults to a random one. Raises `KmirrorError` for wrong settings.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        mirroring: bool = False,
        config: Mapping[str, str] | None = None,
        folder: str | Path | None = None,
        cluster_id: str | None = None,
    ) -> None:
        if brokers < 1:
            raise KmirrorError(f"a cluster has at least one broker, not {brokers}")
        self.mirroring = mirroring
        self._config = dict(config or {})
        self._keep = folder is not None
        self._given_folder = Path(folder) if folder is not None else None
        self._cluster_id = cluster_id
        self._loop: LoopThread | None = None
        self._runtime: AsyncioRuntime | None = None
        self._brokers = brokers
        self.nodes: list[EmbeddedNode] = []
        self.folder = Path()

    # -- what a user asks -------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, comma separated; stays the same over restarts of nodes."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    @property
    def cluster_id(self) -> str:
        assert self._cluster_id is not None, "the cluster has not been started"
        return self._cluster_id

    def log_dir(self, node: int = 0) -> Path:
        """The data dir (`log.dirs`) of a node, by its index."""
        return self._node(node).log_dir

    def stop_node(self, node: int = 0) -> None:
        """Controlled shutdown of one node."""
        self._call(self._stop_node(self._node(node)))

    def kill_node(self, node: int = 0) -> None:
        """Drop one node at once, as SIGKILL does: the page cache survives, nothing else."""
        self._call(self._kill_node(self._node(node)))

    def start_node(self, node: int = 0) -> None:
        """Start a stopped or killed node again on its folder and its ports."""
        self._call(self._start_node(self._node(node)))

    # -- both kinds of context manager ------------------------------------------------------------------------------

    def start(self) -> Self:
        self._open()
        try:
            self._call(self._start_all())
        except BaseException:
            self._close()
            raise
        return self

    def stop(self) -> None:
        """Stop every node and remove the folder (unless it was given)."""
        if self._loop is not None:
            try:
                self._call(self._stop_all())
            finally:
                self._close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._open()
        try:
            await self._loop_thread.run_async(self._start_all())
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self._loop_thread.run_async(self._stop_all())
        finally:
            self._close()

    # -- inside -----------------------------------------------------------------------------------------------------

    def _node(self, index: int) -> EmbeddedNode:
        """A node by its index, from 0."""
        if not self.nodes:
            raise KmirrorError("the cluster is not running: use `with EmbeddedCluster() as cluster`")
        if not 0 <= index < len(self.nodes):
            raise KmirrorError(f"there is no node {index}; the cluster has nodes 0 to {len(self.nodes) - 1}")
        return self.nodes[index]

    @property
    def _loop_thread(self) -> LoopThread:
        if self._loop is None:
            raise KmirrorError("the cluster is not running: use `with EmbeddedCluster() as cluster`")
        return self._loop

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            loop = self._loop_thread
        except KmirrorError:
            coroutine.close()
            raise
        return loop.run(coroutine)

    def call(self, function: Callable[[KafkaServer], T], node: int = 0) -> T:
        """Run `function(server)` on the cluster's loop: for tests that look at a node's inside."""

        async def run() -> T:
            server = self._node(node).server
            if server is None:
                raise KmirrorError(f"node {self._node(node).node_id} is not running")
            return function(server)

        return self._call(run())

    def _open(self) -> None:
        if self._loop is not None:
            raise KmirrorError("the cluster is already running")
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix="kmirror-"))
        self.nodes = [EmbeddedNode(1 + index, self.folder / f"node-{1 + index}") for index in range(self._brokers)]
        self._loop = LoopThread("kmirror-embedded")

    def _close(self) -> None:
        if self._runtime is not None:
            self._runtime.close()
        self._loop_thread.close()
        self._loop = None
        self._runtime = None
        if not self._keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _properties(self, node: EmbeddedNode) -> dict[str, str]:
        controller = self.nodes[0]
        listeners = f"PLAINTEXT://{HOST}:{node.port}"
        values = {
            "process.roles": "broker,controller" if node is controller else "broker",
            "node.id": str(node.node_id),
            "controller.quorum.voters": f"{controller.node_id}@{HOST}:{controller.controller_port}",
            "listeners": f"{listeners},CONTROLLER://{HOST}:{node.controller_port}" if node is controller else listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(node.log_dir),
            "group.initial.rebalance.delay.ms": "0",
        }
        replication = str(min(3, self._brokers))
        for name in ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic"):
            values[f"{name}.replication.factor"] = replication
        values["transaction.state.log.min.isr"] = "1"
        values["share.coordinator.state.topic.min.isr"] = "1"
        if self.mirroring:
            values["unstable.api.versions.enable"] = "true"
            values["unstable.feature.versions.enable"] = "true"
            values["mirror.topic.replication.factor"] = replication
        return values | self._config

    async def _start_all(self) -> None:
        self._runtime = AsyncioRuntime(files=None if self._keep else VolatileOsFileSystem())
        if self._cluster_id is None:
            self._cluster_id = str(Uuid.random(self._runtime.random))
        for node in self.nodes:
            await self._start_node(node)

    async def _start_node(self, node: EmbeddedNode) -> None:
        assert self._runtime is not None and self._cluster_id is not None, "started nodes before the cluster"
        if node.server is not None:
            raise KmirrorError(f"node {node.node_id} is already running")
        config = KafkaConfig.from_props(self._properties(node))
        if not (node.log_dir / "meta.properties").exists():
            features = {"mirror.version": 1} if self.mirroring else {}
            format_node(config, FormatOptions(cluster_id=self._cluster_id, features=features), self._runtime)
        server = KafkaServer(config, self._runtime)
        await server.start()
        node.server = server
        node.port = server.bound_port("PLAINTEXT")
        if node is self.nodes[0]:
            node.controller_port = server.bound_port("CONTROLLER")

    async def _stop_node(self, node: EmbeddedNode) -> None:
        server, node.server = node.server, None
        if server is not None:
            await server.stop()

    async def _kill_node(self, node: EmbeddedNode) -> None:
        server, node.server = node.server, None
        if server is not None:
            await server.kill()

    async def _stop_all(self) -> None:
        for node in reversed(self.nodes):
            await self._stop_node(node)
