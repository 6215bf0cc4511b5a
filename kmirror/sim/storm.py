"""A storm: a history of two clusters with a mirror, a failover and a failback, under faults. One
seed decides all of it.

    A is written to, B mirrors it ─> B takes over (A is dead, or alive and still written to by clients that have not heard)
    ─> A comes back and mirrors B ─> everything heals ─> lag 0: both logs are equal ─> (in half of the runs) A takes over again

`Stage` has what a history plays with: the world, the clusters, the clients and the operator.
`storm` is one history on it; `sim.histories.alignment` has the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kmirror.common.errors import ApiException, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.sim.ablations import Ablations
from kmirror.sim.checkers import check
from kmirror.sim.cluster import SimCluster
from kmirror.sim.events import Batch, Converged, History, LogKey
from kmirror.sim.faults import FaultRates
from kmirror.sim.open_transactions import open_transactions
from kmirror.sim.operator import Operator
from kmirror.sim.run import Setting
from kmirror.sim.runtime import EPOCH_MS, SimWorld
from kmirror.sim.server import SimServer
from kmirror.sim.stage import MIRROR, TOPIC, SimStage
from kmirror.sim.workload import Producer, Reader, Target

WRITE_TRIES = 20
WRITE_PAUSE_MS = 100


class Stage(SimStage):
    """Everything that a history of two clusters plays with.

    `open` makes, formats and starts the clusters; `stage.cluster("a")` is one of them.
    """

    def __init__(self, world: SimWorld, history: History, rates: FaultRates, ablations: Ablations) -> None:
        super().__init__(world, history, rates, ablations)
        self.operator = Operator(world.loop, self.clients, history, timeout_ms=self.patience_ms)
        # with one broker each, a mirror has to follow a source that lost records with its power
        self.operator.mirror_configs["mirror.max.truncation.records"] = "-1"
        self.clusters: dict[str, SimCluster] = {}
        self.target = Target("a")
        self._transactions = 0

    def servers(self) -> list[SimServer]:
        return list(self.clusters.values())

    async def open(self, names: Sequence[str] = ("a", "b"), *, config: Mapping[str, str] | None = None) -> None:
        """Makes and starts the clusters. `config` adds broker properties to each."""
        for name in names:
            self.clusters[name] = SimCluster(
                self.world, name, self.history, self.known, safeguards=self.ablations.safeguards, config=config
            )
        await self.start_servers()

    def cluster(self, name: str) -> SimCluster:
        return self.clusters[name]

    # clients

    def producer(self, name: str, partitions: list[TopicPartition], *, idempotent: bool = False, target: Target | None = None) -> Producer:
        return Producer(self.world.loop, self.clients, name, target or self.target, partitions, self.history, idempotent=idempotent)

    def start_clients(self, partitions: list[TopicPartition]) -> None:
        """Starts a plain and an idempotent producer, and a reader for each log."""
        for name, idempotent in (("plain", False), ("idempotent", True)):
            self.clients.spawn(self.producer(name, partitions, idempotent=idempotent).run(), name=name)
        for cluster in self.clusters:
            for partition in partitions:
                name = f"reader-{cluster}-{partition.partition}"
                reader = Reader(self.world.loop, self.clients, name, LogKey(cluster, partition), self.history)
                self.clients.spawn(reader.run(), name=name)

    async def write(self, producer: Producer, partition: TopicPartition, *, cluster: str, batches: int, count: int | None = None) -> None:
        """Writes that many batches until they are acknowledged.

        Raises KmirrorError if the cluster takes none for too long.
        """
        for _ in range(batches):
            tries = 0
            while not await producer.write_once(partition, cluster=cluster, count=count):
                tries += 1
                if tries == WRITE_TRIES:
                    raise KmirrorError(f"{cluster} takes no batch of {producer.name} for {partition}")
                await self.sleep_ms(WRITE_PAUSE_MS)

    def transaction(self, cluster: str, partition: TopicPartition, *, producer_id: int, count: int = 1) -> None:
        """Appends a transactional batch, as its producer would write it."""
        self._transactions += 1
        now_ms = EPOCH_MS + self.world.loop.now_us // 1000
        values = [f"{cluster}/transaction-{producer_id}/{self._transactions}.{index}".encode() for index in range(count)]
        records = [Record(offset, now_ms, None, value, []) for offset, value in enumerate(values)]
        sequence = self._sequence(cluster, partition, producer_id)
        batch = build_batch(
            records, base_offset=0, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
        )
        self.cluster(cluster).append(partition, batch, origin=AppendOrigin.COORDINATOR)

    def _sequence(self, cluster: str, partition: TopicPartition, producer_id: int) -> int:
        """Returns the producer's next sequence by the log. A reset sets it back to 0."""
        sequence = 0
        for batch in self.cluster(cluster).watch.logs.get(partition, ()):
            if batch.reset_source is not None:
                sequence = 0
            elif batch.producer_id == producer_id and not batch.is_control:
                sequence += len(batch.values)
        return sequence

    def open_transactions(self, cluster: str, partition: TopicPartition) -> list[int]:
        """Returns the producer ids that have an open transaction in the log, sorted."""
        return sorted(open_transactions(self.log(cluster, partition)))

    def end_transaction(self, cluster: str, partition: TopicPartition, *, producer_id: int, commit: bool) -> None:
        kind = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
        now_ms = EPOCH_MS + self.world.loop.now_us // 1000
        marker = build_end_transaction_marker(kind, coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=now_ms)
        self.cluster(cluster).append(partition, marker, origin=AppendOrigin.COORDINATOR)

    # waiting

    def state(self, cluster: str, partition: TopicPartition) -> MirrorPartitionState | None:
        found = self.cluster(cluster).watch.states.get(partition)
        return found[1] if found is not None else None

    async def until_state(self, cluster: str, partitions: list[TopicPartition], *states: MirrorPartitionState) -> None:
        wanted = " or ".join(state.name for state in states)
        await self.until(
            f"{', '.join(map(str, partitions))} {wanted} at {cluster}",
            lambda: all(self.state(cluster, partition) in states for partition in partitions),
        )

    def log(self, cluster: str, partition: TopicPartition) -> list[Batch]:
        return self.cluster(cluster).watch.logs.get(partition, [])

    def equal(self, source: str, destination: str, partition: TopicPartition) -> bool:
        theirs, ours = self.log(source, partition), self.log(destination, partition)
        if not theirs or not ours:
            return not theirs and not ours
        return theirs[-1].chain == ours[-1].chain

    async def until_equal(self, source: str, destination: str, partitions: list[TopicPartition]) -> None:
        """Waits for lag 0 while nobody writes, and records it: from then on checkers compare both
        logs.
        """
        await self.until(
            f"{destination} equals {source}", lambda: all(self.equal(source, destination, partition) for partition in partitions)
        )
        for partition in partitions:
            self.history.add(Converged(self.world.loop.now_us, LogKey(source, partition), LogKey(destination, partition)))

    # the operator's procedures

    async def mirror(self, source: str, destination: str, partitions: list[TopicPartition], *, name: str = MIRROR) -> None:
        """Creates the mirror, adds the topics, and waits until they are MIRRORING."""
        await self.operator.create_mirror(destination, name, source=source)
        for topic in dict.fromkeys(partition.topic for partition in partitions):
            await self.operator.add(destination, name, topic)
        await self.until_state(destination, partitions, MirrorPartitionState.MIRRORING)

    async def fail_over(self, destination: str, partitions: list[TopicPartition], *, name: str = MIRROR) -> None:
        """Removes the topics and waits until they are writable."""
        for topic in dict.fromkeys(partition.topic for partition in partitions):
            await self.operator.remove(destination, name, topic)
        await self.until_state(destination, partitions, MirrorPartitionState.STOPPED)


async def storm(stage: Stage) -> None:
    """Two clusters with a mirror, a failover and a failback, under faults (see the file's top)."""
    partitions = [TopicPartition(TOPIC, number) for number in range(stage.between(1, 2))]
    await stage.open()
    await stage.operator.create_topic("a", TOPIC, len(partitions))
    stage.start_clients(partitions)
    if stage.chance(40):
        stage.world.loop.create_task(_transactions(stage, partitions), name="transactions")
    stage.faults.active = True
    await stage.sleep_ms(stage.between(100, 600))
    await stage.mirror("a", "b", partitions)
    await stage.sleep_ms(stage.between(300, 1_500))
    if stage.chance(20):
        await _pause_and_resume(stage)
    await _fail_over(stage, partitions)
    await stage.sleep_ms(stage.between(200, 1_200))
    await stage.until("a serves", lambda: stage.cluster("a").is_serving)
    await stage.mirror("b", "a", partitions)
    await stage.sleep_ms(stage.between(200, 1_200))
    await _settle(stage, partitions)
    await stage.until_equal("b", "a", partitions)
    if stage.chance(50):
        await stage.fail_over("a", partitions)
        stage.target.cluster = "a"
        stage.target.writing = True
        await stage.sleep_ms(300)
        stage.target.writing = False
        await stage.sleep_ms(2_000)


async def _settle(stage: Stage, partitions: list[TopicPartition]) -> None:
    """Stops writers and faults, waits for what is under way, and aborts open transactions, because
    a mirror gets nothing above the source's LSO.
    """
    stage.target.writing = False
    await stage.faults.mend()
    await stage.sleep_ms(2_000)
    for partition in partitions:
        for producer_id in stage.open_transactions(stage.target.cluster, partition):
            stage.end_transaction(stage.target.cluster, partition, producer_id=producer_id, commit=False)


async def _transactions(stage: Stage, partitions: list[TopicPartition]) -> None:
    """Runs three transactional producers, whose transactions interleave, at the cluster that is
    written to.
    """
    while True:
        await stage.sleep_ms(stage.between(20, 150))
        cluster, partition = stage.cluster(stage.target.cluster), partitions[stage.random.randrange(len(partitions))]
        if not stage.target.writing or not cluster.is_serving:
            continue
        producer_id = 900_001 + stage.random.randrange(3)
        try:
            if producer_id in stage.open_transactions(cluster.name, partition) and stage.chance(50):
                stage.end_transaction(cluster.name, partition, producer_id=producer_id, commit=stage.chance(70))
            else:
                stage.transaction(cluster.name, partition, producer_id=producer_id, count=stage.between(1, 2))
        except ApiException:
            continue


async def _pause_and_resume(stage: Stage) -> None:
    await stage.operator.pause("b", MIRROR, TOPIC)
    await stage.sleep_ms(stage.between(50, 500))
    await stage.operator.resume("b", MIRROR, TOPIC)


async def _fail_over(stage: Stage, partitions: list[TopicPartition]) -> None:
    """Fails over to B while A is dead, shut down, or alive and perhaps still written to."""
    source = stage.cluster("a")
    dies = stage.chance(60)
    if dies:
        stage.faults.hold(source)
        if source.alive:
            await _end(stage, source)
        stage.target.cluster = "b"
    elif stage.chance(50):
        stage.target.cluster = "b"
    await stage.fail_over("b", partitions)
    stage.tell("b is writable")
    await stage.sleep_ms(stage.between(0, 400))
    stage.target.cluster = "b"
    if dies:
        stage.faults.release(source)
        source.start()


async def _end(stage: Stage, cluster: SimCluster) -> None:
    way = stage.random.randrange(3)
    if way == 0 and cluster.is_serving:
        await cluster.stop()
    elif way == 1:
        cluster.lose_power()
    else:
        cluster.crash()


STORM = Setting(Stage, check, FaultRates.storm())
CALM = Setting(Stage, check)
