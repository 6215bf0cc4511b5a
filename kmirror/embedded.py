"""`EmbeddedCluster`: a Kafka cluster inside a test or a notebook, as a sync and as an async context
manager.

    with EmbeddedCluster() as cluster:                     # one node, ready in a fraction of a second
        Producer({"bootstrap.servers": cluster.bootstrap_servers})

The nodes are the same `KafkaServer`s that `kmirror start` runs, on one event loop in a background
thread. The kernel chooses the ports. The folder is removed at the end unless one is given; a
temporary folder is not fsynced. `mirroring=True` formats with `mirror.version=1`, sets both
unstable flags, and sets the internal topics' replication factors to min(3, brokers).

`processes=True` gives each broker a process of its own (`kmirror.node_main`, with its properties
and its log in its folder). The controller is then a node of its own and stays in this process. No
child outlives this process, however it ends.

`security=Security.sasl_ssl(users={"alice": "alice-secret"})` secures every listener
(`kmirror.embedded_security`). `cluster.client_properties("alice")` then returns what a client
needs.

`stop_node` shuts a node down in good order. `kill_node` drops it as SIGKILL would: nothing is
flushed and no checkpoint is written (with processes it *is* SIGKILL). `start_node` starts it again
on the same folder and ports, so that clients find it again. A cluster that fails to start leaves
nothing running.

Whatever waits for a peer has an end and says why. The start of a broker is over after
`initial.broker.registration.timeout.ms` and `server.max.startup.time.ms`, which are shorter here
than in production, and its KmirrorError names what it waited for; a node that does not stop within
STOP_TIMEOUT_S is dropped with a warning. A broker that ends by itself is told in the log, with its
last lines if it is a process.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kmirror.common.errors import KmirrorError
from kmirror.common.metrics import Value
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.embedded_options import (
    SEPARATE_CONTROLLER_ID,
    ensure_in_force,
    ensure_known,
    flag,
    node_properties,
    number_of_brokers,
    security_of,
    strings,
    with_own_super_user,
)
from kmirror.embedded_security import Security, Style
from kmirror.metadata.authorizer.standard_authorizer import AUTHORIZER_CONFIGS
from kmirror.node_process import NodeProcess
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.runtime.loop_thread import LoopThread
from kmirror.runtime.os_files import VolatileOsFileSystem
from kmirror.server.broker_configs import broker_configs
from kmirror.server.kafka_config import KafkaConfig, unknown_names
from kmirror.server.kafka_server import KafkaServer
from kmirror.storage.meta_properties import read_meta_properties

T = TypeVar("T")
HOST = "127.0.0.1"
REGISTRATION_GRACE_MS = 15_000
"""How long a broker may try to register after the session of an earlier incarnation can have ended."""
STARTUP_TIMEOUT_MS = 120_000
PROCESS_START_TIMEOUT_S = 150
STOP_TIMEOUT_S = 60
_ANONYMOUS = "User:ANONYMOUS"
_log = logging.getLogger(__name__)


class EmbeddedNode:
    """Owns one node: its folder, its ports, and its server or process while it runs."""

    def __init__(self, node_id: int, folder: Path) -> None:
        self.node_id = node_id
        self.folder = folder
        self.port = 0
        self.controller_port = 0
        self.server: KafkaServer | None = None
        self.process: NodeProcess | None = None

    def __repr__(self) -> str:
        state = f"started on {HOST}:{self.port}" if self.is_running else "not running"
        return f"<EmbeddedNode {self.node_id}: {state}>"

    @property
    def log_dir(self) -> Path:
        return self.folder / "data"

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has neither been ended nor ended by itself."""
        return (self.server is not None or self.process is not None) and self.death is None

    @property
    def death(self) -> str | None:
        """How the node ended, if it did by itself: a process with its last lines."""
        if self.server is not None:
            return f"node {self.node_id} ended by itself: {self.server.fatal.result()}" if self.server.fatal.done() else None
        return None if self.process is None else self.process.death

    async def stop(self) -> None:
        """Shuts down in a controlled way; does nothing if the node does not run."""
        server, self.server = self.server, None
        process, self.process = self.process, None
        if server is not None:
            await self._stop_server(server)
        if process is not None:
            await process.stop()

    async def _stop_server(self, server: KafkaServer) -> None:
        """Stops in good order, or drops the node if that takes for ever."""
        stopping = asyncio.ensure_future(server.stop())
        done, _ = await asyncio.wait([stopping], timeout=STOP_TIMEOUT_S)
        if done:
            await stopping
            return
        _log.warning("node %d did not stop within %s s and is dropped", self.node_id, STOP_TIMEOUT_S)
        stopping.cancel()
        await asyncio.wait([asyncio.ensure_future(server.kill())], timeout=STOP_TIMEOUT_S)

    async def kill(self) -> None:
        """Ends the node at once; does nothing if it does not run."""
        server, self.server = self.server, None
        process, self.process = self.process, None
        if server is not None:
            await server.kill()
        if process is not None:
            await process.kill()


class EmbeddedCluster:
    """A cluster of `brokers` nodes, the first of which is also the controller (with `processes` the
    controller is a node beside them).

        with EmbeddedCluster(brokers=3, config={"min.insync.replicas": "2"}) as cluster:
            producer = Producer(cluster.client_properties())
            cluster.kill_node(2)

    `async with` does the same on a running loop. `mirroring` switches cluster mirroring (KIP-1279)
    on, `processes` gives each broker a process of its own.
    `config` adds Kafka broker properties, which override the defaults; `node_config` adds those of
    single nodes by their index, which override `config`. A property that no broker knows is
    refused. `super.users` is added to the cluster's own user. `folder` keeps the data, and a restart
    on the same folder finds it. `cluster_id` defaults to the folder's, or to a random one. `security` secures the
    listeners (default: PLAINTEXT): a `Security`, or the word of a protocol ("sasl_ssl"), with the
    user alice. Raises `KmirrorError` for wrong settings.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        mirroring: bool = False,
        processes: bool = False,
        config: Mapping[str, object] | None = None,
        node_config: Mapping[int, Mapping[str, object]] | None = None,
        folder: str | Path | None = None,
        cluster_id: str | None = None,
        security: Security | str | None = None,
    ) -> None:
        brokers = number_of_brokers(brokers)
        self.mirroring = flag("mirroring", mirroring)
        self.processes = flag("processes", processes)
        self._config = strings("config", config or {})
        self._node_config = node_properties(node_config or {}, brokers, processes=self.processes)
        for given in (self._config, *self._node_config.values()):
            ensure_known(given, unknown_names(given), [*broker_configs().names(), *AUTHORIZER_CONFIGS])
            ensure_in_force(given)
        self._keep = folder is not None
        self._given_folder = Path(folder) if folder is not None else None
        self._cluster_id = cluster_id
        self._security = security_of(security)
        self._loop: LoopThread | None = None
        self._runtime: AsyncioRuntime | None = None
        self._brokers = brokers
        self.nodes: list[EmbeddedNode] = []
        self._controller = EmbeddedNode(0, Path())
        self.folder = Path()

    def __repr__(self) -> str:
        count = f"{self._brokers} broker{'s' * (self._brokers != 1)}"
        if self._loop is None:
            return f"<EmbeddedCluster of {count}, not running>"
        stopped = [str(node.node_id) for node in self.nodes if not node.is_running]
        missing = f", without {', '.join(stopped)}" if stopped else ""
        return f"<EmbeddedCluster of {count} on {self.bootstrap_servers}{missing}>"

    # -- what a user asks
    # -------------------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """`host:port` of every node, comma separated; does not change when nodes restart."""
        return ",".join(f"{HOST}:{node.port}" for node in self.nodes)

    def client_properties(self, user: str | None = None, *, style: Style = "librdkafka") -> dict[str, str]:
        """Returns the configuration for a client of `user`, including `bootstrap.servers`.

        `style="java"` uses the names of Kafka's own clients.
        """
        servers = {"bootstrap.servers": self.bootstrap_servers}
        return servers | self._security.client_properties(self._tls_folder, user, style=style)

    @property
    def _tls_folder(self) -> Path:
        return self.folder / "tls"

    @property
    def cluster_id(self) -> str:
        """The id that the cluster was formatted with."""
        assert self._cluster_id is not None, "the cluster has not been started"
        return self._cluster_id

    def log_dir(self, node: int = 0) -> Path:
        """The data dir of a node, by its index: the first of `log.dirs`, if that was given."""
        given = (self._config | self._node_config.get(node, {})).get("log.dirs")
        return Path(given.split(",")[0].strip()) if given else self._node(node).log_dir

    def stop_node(self, node: int = 0) -> None:
        """Shuts down one node in a controlled way."""
        self._call(self._node(node).stop())

    def kill_node(self, node: int = 0) -> None:
        """Drops one node at once, as by SIGKILL (with processes: by SIGKILL).

        Only the page cache survives.
        """
        self._call(self._node(node).kill())

    def start_node(self, node: int = 0) -> None:
        """Starts a stopped or killed node again on its folder and its ports."""
        self._call(self._start_node(self._node(node)))

    # -- both kinds of context manager
    # ------------------------------------------------------------------------------

    def start(self) -> Self:
        """Starts all nodes and returns when they serve.

        A cluster that fails to start leaves nothing running.
        """
        self._open()
        try:
            self._call(self._start_all())
        except BaseException:
            self._close()
            raise
        return self

    def stop(self) -> None:
        """Stops every node and removes the folder (unless it was given)."""
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

    # -- inside
    # -----------------------------------------------------------------------------------------------------

    def _node(self, index: int) -> EmbeddedNode:
        """Returns a node by its index, from 0."""
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
        """Runs `function(server)` on the cluster's loop, for tests that look inside a node."""

        async def run() -> T:
            server = self._node(node).server
            if server is None and self._node(node).process is not None:
                raise KmirrorError(f"node {self._node(node).node_id} runs in another process")
            if server is None:
                raise KmirrorError(f"node {self._node(node).node_id} is not running")
            return function(server)

        return self._call(run())

    def metrics(self, node: int = 0) -> dict[str, dict[str, Value]]:
        """Returns what a JMX client would see of a node in this process: attributes by MBean
        name.
        """
        return self.call(lambda server: server.metrics.mbeans(), node)

    def _open(self) -> None:
        if self._loop is not None:
            raise KmirrorError("the cluster is already running")
        self.folder = self._given_folder or Path(tempfile.mkdtemp(prefix="kmirror-"))
        self.nodes = [EmbeddedNode(1 + index, self.folder / f"node-{1 + index}") for index in range(self._brokers)]
        self._controller = EmbeddedNode(SEPARATE_CONTROLLER_ID, self.folder / "controller") if self.processes else self.nodes[0]
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
        controller = self._controller
        is_broker, is_controller = node in self.nodes, node is controller
        protocol = self._security.protocol
        listeners = [f"{protocol}://{HOST}:{node.port}"] if is_broker else []
        if is_controller:
            listeners.append(f"CONTROLLER://{HOST}:{node.controller_port}")
        values = {
            "process.roles": ",".join(["broker"] * is_broker + ["controller"] * is_controller),
            "node.id": str(node.node_id),
            "controller.quorum.voters": f"{controller.node_id}@{HOST}:{controller.controller_port}",
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
            "inter.broker.listener.name": protocol,
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
        if protocol != "PLAINTEXT":
            values |= self._security.broker_properties(self._tls_folder, (protocol, "CONTROLLER"))
        given = self._config | self._node_config.get(node.node_id - 1, {})
        return _with_deadlines(values | with_own_super_user(given, values))

    def _ensure_may_register(self, config: KafkaConfig) -> None:
        """KmirrorError if the brokers could never register in a new cluster: nobody who has no name
        is a super user, and there is no ACL yet.
        """
        props = config.props
        allows_all = props.get("allow.everyone.if.no.acl.found", "").lower() == "true"
        users = [user.strip() for user in props.get("super.users", "").split(";")]
        if (
            self._security.protocol == "PLAINTEXT"
            and config.get_string("authorizer.class.name")
            and not allows_all
            and _ANONYMOUS not in users
        ):
            raise KmirrorError(
                f"with authorizer.class.name and security='plaintext' the brokers themselves are {_ANONYMOUS}, which super.users does "
                f"not name: they could not register. Use security='sasl_plaintext', or add {_ANONYMOUS} to super.users"
            )

    async def _start_all(self) -> None:
        self._runtime = AsyncioRuntime(files=None if self._keep else VolatileOsFileSystem())
        stored = self._stored_cluster_id(self._runtime)
        if None not in (stored, self._cluster_id) and stored != self._cluster_id:
            raise KmirrorError(f"the cluster in {self.folder} has the id {stored}, not {self._cluster_id}")
        self._cluster_id = stored or self._cluster_id or str(Uuid.random(self._runtime.random))
        self._security.prepare(self._tls_folder)
        try:
            if self.processes:
                await self._start_processes(self.nodes)
            else:
                for node in self.nodes:
                    await self._start_node(node)
        except BaseException:
            for node in reversed([self._controller, *self.nodes]):
                await node.kill()
            raise

    def _stored_cluster_id(self, runtime: AsyncioRuntime) -> str | None:
        """Returns the id that a former cluster in this folder was formatted with."""
        for node in [self._controller, *self.nodes]:
            for directory in self._properties(node)["log.dirs"].split(","):
                found = read_meta_properties(runtime.files, directory.strip())
                if found is not None and found.cluster_id is not None:
                    return found.cluster_id
        return None

    async def _start_processes(self, nodes: list[EmbeddedNode]) -> None:
        """Starts the controller here while the children load their code, then all children
        together.
        """
        for node in nodes:
            node.process = NodeProcess(node.node_id, node.folder / "server.properties", node.folder / "server.log", volatile=not self._keep)
        if self._controller.server is None:
            await self._start_server(self._controller)
        for node in nodes:
            self._format(node)
            assert node.process is not None
            node.process.begin(self._properties(node), time_ms=self._runtime_in_use.clock.time_ms())
        for node in nodes:
            assert node.process is not None
            node.port = (await self._ports_of(node.process))[self._security.protocol]

    async def _ports_of(self, process: NodeProcess) -> dict[str, int]:
        try:
            return await asyncio.wait_for(process.wait_ready(), PROCESS_START_TIMEOUT_S)
        except TimeoutError:
            said = process.last_log_lines(1)
            raise KmirrorError(f"node {process.node_id} did not start within {PROCESS_START_TIMEOUT_S} s: {said}") from None

    async def _start_node(self, node: EmbeddedNode) -> None:
        if node.is_running:
            raise KmirrorError(f"node {node.node_id} is already running")
        if not self.processes:
            await self._start_server(node)
            return
        try:
            await self._start_processes([node])
        except BaseException:
            await node.kill()
            raise

    async def _start_server(self, node: EmbeddedNode) -> None:
        config = self._format(node)
        server = KafkaServer(config, self._runtime_in_use)
        await server.start()
        node.server = server
        if node in self.nodes:
            node.port = server.bound_port(self._security.protocol)
        if node is self._controller:
            node.controller_port = server.bound_port("CONTROLLER")

    def _format(self, node: EmbeddedNode) -> KafkaConfig:
        """Returns the node's settings; formats its log dirs if all of them are new.

        A node that has lost its data is refused when it starts.
        """
        assert self._cluster_id is not None, "formatted a node before the cluster had an id"
        config = KafkaConfig.from_props(self._properties(node))
        if not any((Path(directory) / "meta.properties").exists() for directory in (config.metadata_log_dir, *config.log_dirs)):
            self._ensure_may_register(config)
            features = {"mirror.version": 1} if self.mirroring else {}
            options = FormatOptions(cluster_id=self._cluster_id, features=features, add_scram=self._security.scram_arguments())
            format_node(config, options, self._runtime_in_use)
        return config

    @property
    def _runtime_in_use(self) -> AsyncioRuntime:
        assert self._runtime is not None, "started nodes before the cluster"
        return self._runtime

    async def _stop_all(self) -> None:
        for node in reversed(self.nodes):
            await node.stop()
        await self._controller.stop()


def _with_deadlines(values: dict[str, str]) -> dict[str, str]:
    """Returns the properties with ends for what a node waits for while it starts, unless they have
    them: a cluster inside a test has to fail while somebody is still looking.
    """
    session_ms = values.get("broker.session.timeout.ms", "9000")
    registration_ms = int(session_ms) + REGISTRATION_GRACE_MS if session_ms.isdecimal() else REGISTRATION_GRACE_MS
    ends = {"initial.broker.registration.timeout.ms": str(registration_ms), "server.max.startup.time.ms": str(STARTUP_TIMEOUT_MS)}
    return ends | values
