"""SimCluster: a Kafka cluster of one node on a simulated machine.

The program is the one that `kmirror start` runs, `KafkaServer`, formatted with mirroring on. `start` boots the machine on
whatever its disk holds; `crash`, `lose_power` and `stop` (a controlled shutdown) end that life. The settings differ from
Kafka's defaults only where idle polling would fill the simulation with nothing (`QUIET`), where waiting would (`QUICK`), and
in sizes of files and internal topics (`SMALL`).

A node that does not start again is a finding: `start_failed` says why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.controller.storage_tool import FormatOptions, format_node
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.record.append_origin import AppendOrigin
from kmirror.replica.partition import Partition
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.kafka_server import KafkaServer
from kmirror.sim.history import History, Told
from kmirror.sim.log_watch import KnownChains, LogWatch
from kmirror.sim.runtime import SimRuntime, SimWorld

DATA_DIR = "/data"
PORT = 9092
CONTROLLER_PORT = 9093
QUIET = {
    "metadata.max.idle.interval.ms": "0",
    "broker.heartbeat.interval.ms": "20000",
    "broker.session.timeout.ms": "90000",
    "replica.fetch.wait.max.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "60000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
}
QUICK = {
    "mirror.fetch.backoff.ms": "100",
    "mirror.truncation.backoff.ms": "200",
    "mirror.metadata.refresh.interval.ms": "1000",
    "request.timeout.ms": "3000",
}
SMALL = {
    "log.index.size.max.bytes": "4096",
    "offsets.topic.num.partitions": "1",
    "mirror.topic.num.partitions": "1",
    "transaction.partition.verification.enable": "false",
}


class SimCluster:
    """One node, named like its host. `watch` sees its logs."""

    def __init__(
        self,
        world: SimWorld,
        name: str,
        history: History,
        known: KnownChains,
        *,
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.node = world.node(name)
        self.cluster_id = str(Uuid(name.encode().ljust(16, b"-")))
        self.server: KafkaServer | None = None
        self.start_failed: str | None = None
        self._history = history
        self._loop = world.loop
        self._safeguards = safeguards
        self._config = KafkaConfig.from_props(properties(name) | dict(config or {}))
        self._started: asyncio.Future[None] = world.loop.create_future()
        self.watch = LogWatch(name, DATA_DIR, self.node.disk, history, known, lambda: world.loop.now_us)
        self.node.disk.watcher = self.watch

    @property
    def bootstrap(self) -> tuple[str, int]:
        return self.name, PORT

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
        runtime.spawn(self._run(runtime), name="kafka-server")

    async def wait_started(self) -> None:
        """Until this life, or a later one, serves. KmirrorError when it does not start."""
        while not self._started.done():
            if self.start_failed is not None:
                raise KmirrorError(self.start_failed)
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
        format_node(self._config, FormatOptions(cluster_id=self.cluster_id, features={"mirror.version": 1}), runtime)
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

    def partition(self, partition: TopicPartition) -> Partition:
        """The running broker's partition; KmirrorError when there is none."""
        if self.server is None or self.server.broker is None:
            raise KmirrorError(f"{self.name} is not serving")
        return self.server.broker.replica_manager.get_partition_or_exception(partition)

    def append(self, partition: TopicPartition, records: Buffer, *, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        """What no client can write yet: transactional batches and their markers, put into the leader's log as a coordinator does."""
        assert self.server is not None and self.server.broker is not None and self.node.runtime is not None, f"{self.name} is not serving"
        manager = self.server.broker.replica_manager
        leader = self.partition(partition)

        def run() -> None:
            leader.check_writable()
            leader.append_records_to_leader(bytearray(records), origin=origin, required_acks=1)
            manager.complete_delayed(partition)

        self.node.runtime.context.run(run)

    def _tell(self, what: str) -> None:
        self._history.add(Told(self._loop.now_us, self.name, what))


def properties(name: str) -> dict[str, str]:
    """The node's `server.properties`."""
    return {
        "node.id": "1",
        "process.roles": "broker,controller",
        "listeners": f"PLAINTEXT://{name}:{PORT},CONTROLLER://{name}:{CONTROLLER_PORT}",
        "advertised.listeners": f"PLAINTEXT://{name}:{PORT}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@{name}:{CONTROLLER_PORT}",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": DATA_DIR,
        "unstable.api.versions.enable": "true",
        "unstable.feature.versions.enable": "true",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "mirror.topic.replication.factor": "1",
        **QUIET,
        **QUICK,
        **SMALL,
    }
