"""SimCluster: a Kafka cluster of one node, formatted with mirroring on.

Its settings differ from Kafka's defaults only to avoid idle polling (`QUIET`) and long waits
(`QUICK`), and to keep files and internal topics small (`SMALL`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.record.append_origin import AppendOrigin
from kmirror.replica.partition import Partition
from kmirror.sim.events import History
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import DATA_DIR, SimServer

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


class SimCluster(SimServer):
    """One node that is the whole cluster."""

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
        super().__init__(
            world,
            name,
            history,
            known,
            cluster_id=cluster_id_of(name),
            properties=properties(name) | dict(config or {}),
            features={"mirror.version": 1},
            safeguards=safeguards,
        )

    @property
    def bootstrap(self) -> tuple[str, int]:
        return self.name, PORT

    def partition(self, partition: TopicPartition) -> Partition:
        """Returns the running broker's partition; KmirrorError if there is none."""
        if self.server is None or self.server.broker is None:
            raise KmirrorError(f"{self.name} is not serving")
        return self.server.broker.replica_manager.get_partition_or_exception(partition)

    def leads(self, partition: TopicPartition) -> bool:
        """Whether the node serves and has heard that it leads the partition."""
        if self.server is None or self.server.broker is None:
            return False
        found = self.server.broker.replica_manager.get_partition(partition)
        return found is not None and found.is_leader

    def append(self, partition: TopicPartition, records: Buffer, *, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
        """Appends to the leader's log what the simulated clients cannot write: transactional
        batches and their markers, as a coordinator does.
        """
        assert self.server is not None and self.server.broker is not None and self.node.runtime is not None, f"{self.name} is not serving"
        manager = self.server.broker.replica_manager
        leader = self.partition(partition)

        def run() -> None:
            leader.check_writable()
            leader.append_records_to_leader(bytearray(records), origin=origin, required_acks=1)
            manager.complete_delayed(partition)

        self.node.runtime.context.run(run)


def cluster_id_of(name: str) -> str:
    """Returns a cluster id that is derived from a name, so that a seed does not draw it."""
    return str(Uuid(name.encode().ljust(16, b"-")))


def properties(name: str) -> dict[str, str]:
    """Returns the node's `server.properties`."""
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
