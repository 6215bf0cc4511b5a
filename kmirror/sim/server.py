"""SimServer: one node's program on one simulated machine.

The program is `KafkaServer`, the one that `kmirror start` runs, with the properties that it is
given. `start` boots the machine on whatever its disk holds, and formats an empty disk as an
operator would. `crash`, `lose_power` and `stop` (a controlled shutdown) end that life. `watch` sees
the logs on its disk.

A node that does not start again, or that ends by itself, is a finding: `start_failed` says why. It
is none if its disks are to blame (`is_disk_bad`). A node may refuse to start, or end, because a
volume of its log directories fails, is full, came back empty and is not formatted, or lied. Then
`refused` says why, and the operator of the story mends the disk (`mend_disks`) and starts the node
again.

The operator replaces a disk that lied if the node refuses to start or to use it, or if a log on it
is torn below its recovery point, where no recovery looks. A replica may lie in two directories,
because one failed while it took the place of the other; then the operator removes the one that is
no longer the log, as Kafka says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.sim.events import History, Told
from kmirror.sim.log_watch import KnownChains, LogWatch
from kmirror.sim.old_dialects import refuse, speak
from kmirror.sim.runtime import SimRuntime, SimWorld
from kmirror.storage.log_file_names import log_dir_name

DATA_DIR = "/data"
SECOND_DATA_DIR = "/data2"


class SimServer:
    """One node, named like its host. It owns the machine, the program's current life, and the
    volumes of its log directories; `features` are those it is formatted with.
    """

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
        dialect: str | None = None,
    ) -> None:
        """`dialect`: the Kafka version as which it answers mirrors (`sim.old_dialects`); today's by
        default.
        """
        self.name = name
        self._dialect = dialect
        self.node = world.node(name)
        self.cluster_id = cluster_id
        self.server: KafkaServer | None = None
        self.start_failed: str | None = None
        self._history = history
        self._loop = world.loop
        self._safeguards = safeguards
        self._features = dict(features)
        self._config = KafkaConfig.from_props(properties)
        self._is_formatted = False
        self._empty: dict[str, None] = {}
        self._needs_restart = False
        self._unused: list[str] = []
        self._torn: list[str] = []
        self.refused: str | None = None
        self.refuses_mirrors: Callable[[], bool] | None = None
        self.volumes = [self.node.disk.mount(path) for path in self._config.log_dirs]
        self._started: asyncio.Future[None] = world.loop.create_future()
        self._life: asyncio.Task[None] | None = None
        self.watch = LogWatch(name, self._config.log_dirs, self.node.disk, history, known, lambda: world.loop.now_us)
        self.node.disk.watcher = self.watch

    @property
    def alive(self) -> bool:
        return self.node.alive

    @property
    def is_serving(self) -> bool:
        return self._started.done()

    @property
    def is_disk_bad(self) -> bool:
        """Returns whether a volume fails or is full, or was replaced and is not formatted yet."""
        return bool(self._empty) or any(volume.is_broken for volume in self.volumes)

    @property
    def needs_restart(self) -> bool:
        """Returns whether its disks were bad in this life: a directory that went offline comes back
        only with the next start.
        """
        return self._needs_restart or self.is_disk_bad or self.refused is not None or bool(self._torn or self._unused_dirs())

    def _unused_dirs(self) -> list[str]:
        """Returns the directories that the running node does not use, or no longer uses. A
        directory that failed under a log is refused at once and goes offline a little later.
        """
        broker = self.server.broker if self.server is not None else None
        return broker.replica_manager.log_manager.failed_log_dirs if broker is not None else []

    def note_bad_disk(self) -> None:
        """Notes that a volume is bad; called by whoever broke it."""
        self._needs_restart = True

    def replace_disk(self, path: str) -> None:
        """Replaces the disk of that log directory while the node is off. The directory stays empty
        until the operator formats it.
        """
        assert not self.alive, f"{self.name} is running"
        self.node.disk.lose(path)
        self._empty[path] = None
        self.note_bad_disk()
        self.watch.after_disk_loss(path)
        self._tell(f"has another disk at {path}, which is empty")

    def lose_log(self, partition: TopicPartition) -> None:
        """Removes the partition's directory while the node is off; does nothing if the node has
        none.
        """
        assert not self.alive, f"{self.name} is running"
        data_dir = self.watch.data_dir_of(partition)
        if data_dir is not None:
            self.node.disk.lose_tree(f"{data_dir}/{log_dir_name(partition)}")
            self.watch.after_log_loss(partition)
            self._tell(f"has the log of {partition} removed")

    def mend_disks(self) -> None:
        """Frees space, repairs the disks and formats what came back empty; the node is off."""
        assert not self.alive, f"{self.name} is running"
        for volume in self.volumes:
            if volume.has_lied and (self.refused is not None or volume.path in self._unused or volume.path in self._torn):
                self.replace_disk(volume.path)
            volume.mend()
        for folder in self.watch.former_folders():
            self.node.disk.lose_tree(folder)
            self._tell(f"has {folder} removed, for its log is in another directory")
        if self._empty:
            runtime = self.node.boot()
            self._format(runtime)
            self.node.kill()
            self._empty.clear()
        self._torn.clear()
        self._tell("has its disks mended")

    def start(self) -> None:
        """Boots the machine; `wait_started` says when it serves."""
        runtime = self.node.boot()
        self._needs_restart = self.is_disk_bad
        self.refused = None
        self._tell("starts")
        self._started = self._loop.create_future()
        self.watch.is_starting = True
        self._life = runtime.spawn(self._run(runtime), name="kafka-server")

    async def wait_started(self) -> None:
        """Waits until this life, or a later one, serves; KmirrorError if it does not start. A life that was
        refused has another one behind it, once its disk is mended.
        """
        while not self._started.done():
            if self.start_failed is not None:
                raise KmirrorError(self.start_failed)
            if (
                self.refused is None
                and self._life is not None
                and self._life.done()
                and not self._started.done()
                and not self._life.cancelled()
            ):
                raise KmirrorError(f"{self.name} does not start: {self._life.exception()!r}")
            await asyncio.sleep(0.01)

    async def _run(self, runtime: SimRuntime) -> None:
        started = self._started
        try:
            if not self._is_formatted:
                self._format(runtime)
                self._is_formatted = True
            server = KafkaServer(self._config, runtime, safeguards=self._safeguards)
            await server.start()
        except (KmirrorError, OSError) as error:
            self._does_not_run(f"does not start: {type(error).__name__}: {error}")
            return
        server.fatal.add_done_callback(lambda fatal: self._halted(runtime, fatal.result()))
        self.server = server
        if self._dialect is not None and server.broker is not None:
            speak(server.broker.apis, self._dialect)
        if self.refuses_mirrors is not None and server.broker is not None:
            refuse(server.broker.apis, self.refuses_mirrors)
        self._torn = [volume.path for volume in self.volumes if volume.has_lied and self.watch.is_torn(volume.path)]
        self.watch.after_start([*self._unused_dirs(), *self._torn])
        self._tell("serves")
        started.set_result(None)

    def _does_not_run(self, why: str) -> None:
        """Ends the process because of `why`."""
        if not self._needs_restart and not any(volume.has_lied for volume in self.volumes):
            self.start_failed = f"{self.name} {why}"
            return
        self.refused = why
        self._tell(why)
        self._loop.call_soon(self._end_refused, self.node.runtime)

    def _end_refused(self, runtime: SimRuntime) -> None:
        if self.node.runtime is runtime:
            self._end(power_loss=False)

    def _halted(self, runtime: SimRuntime, reason: str) -> None:
        if self.node.runtime is runtime and runtime.alive:
            self._does_not_run(f"ends: {reason}")

    def _format(self, runtime: SimRuntime) -> None:
        """Formats the disk as an operator does before the first start. A power loss in the middle
        of it is not simulated.
        """
        options = FormatOptions(cluster_id=self.cluster_id, features=self._features, ignore_formatted=True)
        format_node(self._config, options, runtime)
        for path in self._config.log_dirs:
            runtime.files.fsync_path(f"{path}/meta.properties")
            runtime.files.fsync_path(path)

    def crash(self) -> None:
        """Kills the process (SIGKILL); the page cache survives."""
        self._end(power_loss=False)
        self._tell("crashes")

    def lose_power(self) -> None:
        """Cuts the power; what was not synced may be gone or torn."""
        self._end(power_loss=True)
        self._tell("loses its power")
        self.watch.after_power_loss()

    def _end(self, *, power_loss: bool) -> None:
        self._unused = self._unused_dirs()
        self.server = None
        self._started = self._loop.create_future()
        self.node.kill(power_loss=power_loss)

    async def stop(self) -> None:
        """Shuts the node down in a controlled way, and then the machine."""
        server = self.server
        if server is not None and self.node.runtime is not None:
            await self.node.runtime.spawn(server.stop(), name="stop")
            self._tell("was shut down")
        if self.node.alive:
            self._end(power_loss=False)

    def _tell(self, what: str) -> None:
        self._history.add(Told(self._loop.now_us, self.name, what))
