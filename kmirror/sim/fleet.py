"""SimFleet: a Kafka cluster of several brokers and a controller, each on a simulated machine of its
own.

The brokers of fleet "b" are on the hosts b1, b2, ...; its controller on bk has node id 100.
Sessions, lags and waits are short (`BRISK`), so that a few virtual seconds hold many elections.
Internal topics have three replicas and one partition each.

A fleet survives whatever its brokers do one at a time, also the loss of unsynced data
(min.insync.replicas is 2). One that loses its power while another one is down may lose acknowledged
records, in Kafka as here, since the leader that was last may be the one without them: `way_to_die`
keeps the faults on this side of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS, MirrorSafeguards
from kmirror.sim.cluster import CONTROLLER_PORT, PORT, SMALL, cluster_id_of
from kmirror.sim.events import History
from kmirror.sim.log_watch import KnownChains
from kmirror.sim.runtime import SimWorld
from kmirror.sim.server import DATA_DIR, SECOND_DATA_DIR, SimServer
from kmirror.sim.topic_watch import TopicWatch

CONTROLLER_ID = 100
MIN_ISR = 2
BRISK = {
    "metadata.max.idle.interval.ms": "0",
    "broker.heartbeat.interval.ms": "400",
    "broker.session.timeout.ms": "1800",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "2000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "400",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "500",
    "log.cleaner.enable": "false",
    "request.timeout.ms": "2000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


class SimFleet:
    """One cluster: owns its `brokers`, by name, and its `controller`."""

    def __init__(
        self,
        world: SimWorld,
        history: History,
        known: KnownChains,
        *,
        name: str = "b",
        brokers: int = 3,
        features: Mapping[str, int] | None = None,
        safeguards: MirrorSafeguards = ALL_SAFEGUARDS,
        config: Mapping[str, str] | None = None,
        log_dirs: int = 1,
        dialect: str | None = None,
    ) -> None:
        """Each broker has that many log directories (1 or 2), each on a volume of its own, and
        answers mirrors in `dialect`.
        """
        self.name = name
        self._lost_power = False
        self._names = [f"{name}{number}" for number in range(1, brokers + 1)]
        controller = f"{name}k"
        if dialect is not None:
            history.old.add(name)

        def server(host: str, node: Mapping[str, str]) -> SimServer:
            history.hosts[host] = name
            return SimServer(
                world,
                host,
                history,
                known,
                cluster_id=cluster_id_of(name),
                properties=_shared(controller, len(self._names)) | dict(node) | dict(config or {}),
                features=features or {},
                safeguards=safeguards,
                dialect=dialect,
            )

        self.controller = server(controller, _controller(controller))
        self.controller.watch.topics = TopicWatch(name)
        self.brokers = {name: server(name, _broker(number, name, log_dirs)) for number, name in enumerate(self._names, 1)}

    @property
    def servers(self) -> list[SimServer]:
        return [self.controller, *self.brokers.values()]

    @property
    def bootstrap(self) -> list[tuple[str, int]]:
        return [(name, PORT) for name in self._names]

    def image(self) -> MetadataImage:
        """What the controller knows; KmirrorError when it does not run."""
        server = self.controller.server
        if server is None or server.controller is None or server.controller.controller is None:
            raise KmirrorError("the controller is not serving")
        return server.controller.controller.image

    def registrations(self) -> dict[TopicPartition, PartitionRegistration]:
        """Every partition that is not internal, as the controller knows it."""
        topics = self.image().topics
        found: dict[TopicPartition, PartitionRegistration] = {}
        for name in sorted(topics.by_name):
            if not name.startswith("__"):
                for number, registration in sorted(topics.by_name[name].partitions.items()):
                    found[TopicPartition(name, number)] = registration
        return found

    def broker_named(self, broker_id: int) -> SimServer:
        return self.brokers[f"{self.name}{broker_id}"]

    def leader(self, partition: TopicPartition) -> SimServer | None:
        """Returns the broker that leads the partition, as the controller knows it; None while there
        is none.
        """
        if not self.controller.is_serving:
            return None
        registration = self.image().topics.partition(partition.topic, partition.partition)
        return self.broker_named(registration.leader) if registration is not None and registration.leader >= 0 else None

    def is_whole(self) -> bool:
        """Everything runs, every replica of every partition (internal ones, too) is in sync and has
        a leader.
        """
        if not all(server.is_serving for server in self.servers):
            return False
        image = self.image()
        if any(broker.fenced for broker in image.cluster.brokers.values()):
            return False
        partitions = [partition for topic in image.topics.by_name.values() for partition in topic.partitions.values()]
        return all(partition.leader >= 0 and sorted(partition.isr) == sorted(partition.replicas) for partition in partitions)

    def replicas_are_equal(self) -> bool:
        """Returns whether the replicas in sync have equal logs. A follower that does not fetch falls
        out of the ISR, and one in sync has everything a moment after the last write.
        """
        for partition, registration in self.registrations().items():
            logs = [self.broker_named(broker_id).watch.logs.get(partition, []) for broker_id in registration.isr]
            if len({tuple(batch.key for batch in log) for log in logs}) > 1:
                return False
        return True

    def may_die(self) -> bool:
        """Returns whether a broker may die now. None may while another one lost its power and has
        not recovered what it lost, or has a bad disk, which it may not have noticed yet.
        """
        if self._lost_power and self.is_whole() and not any(server.needs_restart for server in self.brokers.values()):
            self._lost_power = False
        return not self._lost_power

    def way_to_die(self, server: SimServer, power_loss: bool) -> bool | None:
        """Decides for `FaultInjector` how a broker dies: power is lost only while all is whole, and
        then no other broker dies until all is whole again.
        """
        may_die = self.may_die()
        if server is self.controller:
            return power_loss
        if not may_die:
            return None
        self._lost_power = power_loss and self.is_whole()
        return self._lost_power


def _shared(controller: str, brokers: int) -> dict[str, str]:
    replication = str(min(3, brokers))
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{CONTROLLER_ID}@{controller}:{CONTROLLER_PORT}",
        "log.dirs": DATA_DIR,
        "default.replication.factor": replication,
        "min.insync.replicas": str(min(MIN_ISR, brokers)),
        "offsets.topic.replication.factor": replication,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": str(min(MIN_ISR, brokers)),
        "transaction.state.log.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": str(min(MIN_ISR, brokers)),
        **SMALL,
        "transaction.partition.verification.enable": "true",
        "producer.id.expiration.check.interval.ms": "30000",
        **BRISK,
    }


def _controller(name: str) -> dict[str, str]:
    return {
        "node.id": str(CONTROLLER_ID),
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{name}:{CONTROLLER_PORT}",
    }


def _broker(number: int, name: str, log_dirs: int) -> dict[str, str]:
    return {
        "log.dirs": ",".join((DATA_DIR, SECOND_DATA_DIR)[:log_dirs]),
        "node.id": str(number),
        "process.roles": "broker",
        "listeners": f"PLAINTEXT://{name}:{PORT}",
        "advertised.listeners": f"PLAINTEXT://{name}:{PORT}",
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.rack": f"rack-{number}",
    }
