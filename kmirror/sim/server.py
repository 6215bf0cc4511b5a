"""SimServer: one node's program on one simulated machine.

The program is the one that `kmirror start` runs, `KafkaServer`, with the properties it is given. `start` boots the machine on
whatever its disk holds, formatting an empty one as an operator would; `crash`, `lose_power` and `stop` (a controlled
shutdown) end that life. `watch` sees the logs on its disk.

A node that does not start again is a finding: `start_failed` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.sim.history import History, Told
from kmirror.sim.log_watch import KnownChains, LogWatch
from kmirror.sim.runtime import SimRuntime, SimWorld

DATA_DIR = "/data"


class SimServer:
    """One node, named like its host; `features` are those it is formatted with."""

    def __init__(
        self,
        world: SimWorld,
        name: str,
        history: History,
        known: KnownChains,
        *,
        cluster_id: str,
        properties: Mapping[str, str],
        features: Mapping[str, int],
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
    ) -> None:
        self.name = name
        self.node = world.node(name)
        self.cluster_id = cluster_id
        self.server: KafkaServer | None = None
        self.start_failed: str | None = None
        self._history = history
        self._loop = world.loop
        self._safeguards = safeguards
        self._features = dict(features)
        self._config = KafkaConfig.from_props(properties)
        self._started: asyncio.Future[None] = world.loop.create_future()
        self._life: asyncio.Task[None] | None = None
        self.watch = LogWatch(name, DATA_DIR, self.node.disk, history, known, lambda: world.loop.now_us)
        self.node.disk.watcher = self.watch

    @property
    def alive(self) -> bool:
        return self.node.alive

    @property
    def is_serving(self) -> bool:
        return self._started.done()

    def start(self) -> None:
        """Boot; `wait_started` says when it serves."""
        runtime = self.node.boot()
        self._tell("starts")
        self._started = self._loop.create_future()
        self.watch.is_starting = True
        self._life = runtime.spawn(self._run(runtime), name="kafka-server")

    async def wait_started(self) -> None:
        """Until this life, or a later one, serves. KmirrorError when it does not start."""
        while not self._started.done():
            if self.start_failed is not None:
                raise KmirrorError(self.start_failed)
            if self._life is not None and self._life.done() and not self._started.done() and not self._life.cancelled():
                raise KmirrorError(f"{self.name} does not start: {self._life.exception()!r}")
            await asyncio.sleep(0.01)

    async def _run(self, runtime: SimRuntime) -> None:
        started = self._started
        try:
            if not runtime.files.exists(f"{DATA_DIR}/meta.properties"):
                self._format(runtime)
            server = KafkaServer(self._config, runtime, safeguards=self._safeguards)
            await server.start()
        except (KmirrorError, OSError) as error:
            self.start_failed = f"{self.name} does not start: {type(error).__name__}: {error}"
            return
        self.server = server
        self.watch.after_start()
        self._tell("serves")
        started.set_result(None)

    def _format(self, runtime: SimRuntime) -> None:
        """As an operator does before the first start; a power loss in the middle of it is not what is simulated."""
        runtime.files.make_dirs(DATA_DIR)
        runtime.files.fsync_path("/")
        format_node(self._config, FormatOptions(cluster_id=self.cluster_id, features=self._features), runtime)
        runtime.files.fsync_path(f"{DATA_DIR}/meta.properties")
        runtime.files.fsync_path(DATA_DIR)

    def crash(self) -> None:
        """SIGKILL: the page cache survives."""
        self._end(power_loss=False)
        self._tell("crashes")

    def lose_power(self) -> None:
        """What was not synced may be gone or torn."""
        self._end(power_loss=True)
        self._tell("loses its power")
        self.watch.after_power_loss()

    def _end(self, *, power_loss: bool) -> None:
        self.server = None
        self._started = self._loop.create_future()
        self.node.kill(power_loss=power_loss)

    async def stop(self) -> None:
        """Controlled shutdown, then the machine is off."""
        server = self.server
        if server is not None and self.node.runtime is not None:
            await self.node.runtime.spawn(server.stop(), name="stop")
            self._tell("was shut down")
        if self.node.alive:
            self._end(power_loss=False)

    def _tell(self, what: str) -> None:
        self._history.add(Told(self._loop.now_us, self.name, what))
