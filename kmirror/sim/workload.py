"""Clients of a storm: producers, readers and an operator.

They speak Kafka's protocol through `NetworkClient`, as any client does.

Producers, plain or idempotent, send batches of unique records (`cluster/client/number`, where the
cluster is the one written to) with acks=all, and record what they were told. A missing answer is
recorded as an unknown outcome. An idempotent producer then sends the same batch again, and takes a
new producer id if the broker no longer accepts the old one.

Readers fetch batches as they are in the log, and these must be bytes that the cluster's log has
held. `Operator` is an admin client for a person who does not give up: it repeats each operation
while the cluster is away.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kmirror.admin.admin_client import AdminClient, NoBrokerError
from kmirror.admin.features import UpgradeType
from kmirror.admin.results import ConfigOperation, ConfigResourceType, NewTopic
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.features import MIRROR_VERSION
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.cluster import PORT
from kmirror.sim.events import Acknowledged, History, LogKey, MirrorDeletionAsked, Refused, Served, Told, digest_of
from kmirror.sim.loop import SimLoop
from kmirror.sim.topic_events import ADD, CREATE_TOPIC, DELETE_TOPIC, asking
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 12
FETCH_VERSION = 12
CLIENT_TIMEOUT_MS = 1_500
UNKNOWN_FATE = "unknown"
SAME_BATCH_AGAIN = 3
MIRROR_PAUSE_MS = 200
_LOST = (DisconnectError, RequestTimeoutError)


@dataclass(slots=True)
class Target:
    """The cluster that clients believe they should write to, and whether they write at all."""

    cluster: str
    writing: bool = True


@dataclass(slots=True)
class Pace:
    """The time between two requests of a client, in ms, drawn from min_ms to max_ms."""

    min_ms: int = 20
    max_ms: int = 120

    def draw(self, random: Random) -> int:
        return self.min_ms + random.randrange(self.max_ms - self.min_ms + 1)


class Producer:
    """Writes to random partitions while the target says so, one request at a time."""

    def __init__(
        self,
        loop: SimLoop,
        runtime: Runtime,
        name: str,
        target: Target,
        partitions: list[TopicPartition],
        history: History,
        *,
        idempotent: bool = False,
        pace: Pace | None = None,
    ) -> None:
        self.name = name
        self._loop = loop
        self._runtime = runtime
        self._target = target
        self._partitions = partitions
        self._history = history
        self._idempotent = idempotent
        self._pace = pace or Pace()
        self._random = SeededRandom(f"{loop.seed}/{name}")
        self._client = NetworkClient(runtime, name)
        self._number = 0
        self._producer: tuple[str, int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._pace.draw(self._random))
            if self._target.writing:
                await self.write_once(self._partitions[self._random.randrange(len(self._partitions))])

    async def write_once(self, partition: TopicPartition, *, cluster: str | None = None, count: int | None = None) -> bool:
        """Writes one batch to `cluster`, by default the target, and returns whether it was
        acknowledged.
        """
        where = cluster or self._target.cluster
        if self._idempotent and not await self._ensure_producer_id(where):
            return False
        values = self._values(where, 1 + self._random.randrange(3) if count is None else count)
        log = LogKey(where, partition)
        for _ in range(SAME_BATCH_AGAIN if self._idempotent else 1):
            error, base_offset = await self._send(where, partition, values)
            if error == Errors.NONE.name:
                self._history.add(Acknowledged(self._loop.now_us, log, self.name, base_offset, values))
                self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
                return True
            self._history.add(Refused(self._loop.now_us, log, self.name, error))
            if error != UNKNOWN_FATE:
                break
        self._producer = None
        return False

    def _values(self, cluster: str, count: int) -> tuple[bytes, ...]:
        first = self._number
        self._number += count
        return tuple(f"{cluster}/{self.name}/{number}".encode() for number in range(first, first + count))

    async def _ensure_producer_id(self, cluster: str) -> bool:
        if self._producer is not None and self._producer[0] == cluster:
            return True
        try:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = await self._client.send(cluster, PORT, request, timeout_ms=CLIENT_TIMEOUT_MS)
        except _LOST:
            return False
        if response.error_code:
            return False
        self._producer = (cluster, response.producer_id, response.producer_epoch)
        self._sequences.clear()
        return True

    async def _send(self, cluster: str, partition: TopicPartition, values: tuple[bytes, ...]) -> tuple[str, int]:
        data = PartitionProduceData(index=partition.partition, records=self._batch(partition, values))
        topic = TopicProduceData(name=partition.topic, partition_data=[data])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=CLIENT_TIMEOUT_MS, topic_data=[topic])
        try:
            response = await self._client.send(cluster, PORT, request, timeout_ms=CLIENT_TIMEOUT_MS, max_version=PRODUCE_VERSION)
        except _LOST:
            return UNKNOWN_FATE, -1
        row = response.responses[0].partition_responses[0]
        return Errors.for_code(row.error_code).name, row.base_offset

    def _batch(self, partition: TopicPartition, values: tuple[bytes, ...]) -> bytearray:
        now_ms = self._runtime.clock.time_ms()
        records = [Record(offset, now_ms, None, value, []) for offset, value in enumerate(values)]
        if self._producer is None:
            return build_batch(records, base_offset=0)
        _, producer_id, producer_epoch = self._producer
        sequence = self._sequences.get(partition, 0)
        return build_batch(records, base_offset=0, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)


class Reader:
    """Reads one partition of one cluster from offset 0, and starts again there when its offset is
    out of range.
    """

    def __init__(self, loop: SimLoop, runtime: Runtime, name: str, log: LogKey, history: History, *, pace: Pace | None = None) -> None:
        self._loop = loop
        self._runtime = runtime
        self._name = name
        self._log = log
        self._history = history
        self._pace = pace or Pace(300, 900)
        self._random = SeededRandom(f"{loop.seed}/{name}")
        self._client = NetworkClient(runtime, name)
        self._offset = 0

    async def run(self) -> None:
        while True:
            await self._runtime.sleep_ms(self._pace.draw(self._random))
            await self.read_once()

    async def read_once(self) -> None:
        partition = FetchPartition(partition=self._log.partition.partition, fetch_offset=self._offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            topics=[FetchTopic(topic=self._log.partition.topic, partitions=[partition])],
            max_bytes=1 << 20,
            unknown_tagged_fields=log_reader_tag(FETCH_VERSION),
        )
        try:
            response = await self._client.send(self._log.cluster, PORT, request, timeout_ms=CLIENT_TIMEOUT_MS, version=FETCH_VERSION)
        except _LOST:
            return
        for topic in response.responses:
            for row in topic.partitions:
                if row.error_code == Errors.OFFSET_OUT_OF_RANGE:
                    self._offset = 0
                elif row.error_code == Errors.NONE and row.records is not None:
                    self._take(bytes(row.records))

    def _take(self, records: bytes) -> None:
        batches = []
        offset = self._offset
        for batch in iter_batches(records):
            batches.append((batch.base_offset, digest_of(bytes(batch.memory)), batch.is_valid()))
            self._offset = batch.last_offset + 1
        if batches:
            self._history.add(Served(self._loop.now_us, self._log, self._name, offset, batches))


Undone = Callable[[], bool]


def never_undone() -> bool:
    return False


@dataclass(slots=True)
class Operator:
    """Admin operations on the clusters. Each is tried until it succeeds, and raises KmirrorError
    after `timeout_ms`.
    """

    loop: SimLoop
    runtime: Runtime
    history: History
    bootstrap: Callable[[str], Sequence[tuple[str, int]]] = lambda cluster: [(cluster, PORT)]
    timeout_ms: int = 60_000
    mirror_configs: dict[str, str] = field(default_factory=dict)
    """The configs that mirrors are created with, besides bootstrap.servers."""
    _admins: dict[str, AdminClient] = field(default_factory=dict)
    _refusals: int = 0

    def admin(self, cluster: str) -> AdminClient:
        if cluster not in self._admins:
            servers = list(self.bootstrap(cluster))
            first = self._refusals % len(servers)
            self._admins[cluster] = AdminClient(self.runtime, servers[first:] + servers[:first], client_id="operator", timeout_ms=2_000)
        return self._admins[cluster]

    async def create_topic(
        self,
        cluster: str,
        name: str,
        partitions: int = 1,
        configs: dict[str, str] | None = None,
        *,
        replication_factor: int = 1,
        replicas: dict[int, list[int]] | None = None,
        mirror_topic_id: Uuid | None = None,
    ) -> None:
        async def attempt() -> None:
            topic = NewTopic(
                name,
                num_partitions=-1 if replicas else partitions,
                replication_factor=-1 if replicas else replication_factor,
                configs=configs or {},
                replicas_assignments=replicas,
                mirror_topic_id=mirror_topic_id,
            )
            with asking(self.history, self.loop, cluster, name, CREATE_TOPIC):
                (await self.admin(cluster).create_topics([topic])).all()

        await self._insist(f"create topic {name} at {cluster}", attempt, done=Errors.TOPIC_ALREADY_EXISTS)

    async def add_partitions(self, cluster: str, topic: str, count: int) -> None:
        """Makes them `count` in all."""

        async def attempt() -> None:
            (await self.admin(cluster).create_partitions({topic: count})).all()

        await self._insist(f"have {count} partitions of {topic} at {cluster}", attempt, done=Errors.INVALID_PARTITIONS)

    async def create_mirror(self, cluster: str, mirror: str, *, source: str) -> None:
        self.history.sources[cluster, mirror] = source

        async def attempt() -> None:
            await self.admin(cluster).create_mirror(
                mirror, {"bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self.bootstrap(source)), **self.mirror_configs}
            )

        await self._insist(f"create mirror {mirror} at {cluster} with source {source}", attempt, done=Errors.INVALID_MIRROR_NAME)

    async def add(self, cluster: str, mirror: str, topic: str) -> None:
        async def attempt() -> None:
            with asking(self.history, self.loop, cluster, topic, ADD):
                (await self.admin(cluster).add_topics_to_mirror(mirror, [topic])).all()

        await self._insist(f"add {topic} to mirror {mirror} at {cluster}", attempt, done=Errors.TOPIC_ALREADY_IN_MIRROR)

    async def remove(self, cluster: str, mirror: str, topic: str) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).remove_topics_from_mirror(mirror, [topic])).all()

        await self._insist(f"remove {topic} from mirror {mirror} at {cluster}", attempt, done=Errors.TOPIC_NOT_IN_MIRROR)

    async def pause(self, cluster: str, mirror: str, topic: str, *, undone: Undone = never_undone) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).pause_mirror_topics(mirror, [topic])).all()

        what = f"pause {topic} in mirror {mirror} at {cluster}"
        await self._insist(what, attempt, done=Errors.MIRROR_TOPIC_ALREADY_PAUSED, undone=undone)

    async def resume(self, cluster: str, mirror: str, topic: str, *, undone: Undone = never_undone) -> None:
        async def attempt() -> None:
            (await self.admin(cluster).resume_mirror_topics(mirror, [topic])).all()

        what = f"resume {topic} in mirror {mirror} at {cluster}"
        await self._insist(what, attempt, done=Errors.MIRROR_TOPIC_NOT_PAUSED, undone=undone)

    async def delete_mirror(self, cluster: str, mirror: str, *, undone: Undone = never_undone) -> None:
        self.history.add(MirrorDeletionAsked(self.loop.now_us, cluster, mirror))

        async def attempt() -> None:
            await self.admin(cluster).delete_mirror(mirror)

        await self._insist(f"delete mirror {mirror} at {cluster}", attempt, done=Errors.UNKNOWN_MIRROR, undone=undone)

    async def switch_off(self, cluster: str) -> None:
        """Lowers mirror.version to 0, which is refused while mirrors are left."""
        await self._set_mirror_version(cluster, 0, UpgradeType.SAFE_DOWNGRADE, "off")

    async def switch_on(self, cluster: str) -> None:
        """Raises mirror.version to 1."""
        await self._set_mirror_version(cluster, 1, UpgradeType.UPGRADE, "on")

    async def _set_mirror_version(self, cluster: str, level: int, upgrade_type: UpgradeType, what: str) -> None:
        async def attempt() -> None:
            found = await self.admin(cluster).update_features({MIRROR_VERSION: (level, upgrade_type)})
            for error in found.values():
                if error is not None:
                    raise error

        await self._insist(f"switch mirroring {what} at {cluster}", attempt, done=Errors.NONE)

    async def delete_topic(self, cluster: str, topic: str, topic_id: Uuid | None = None) -> None:
        """Deletes the topic, by its id if one is given.

        With an id, a request that was given up and is carried out late deletes no other topic of
        that name.
        """

        async def attempt() -> None:
            with asking(self.history, self.loop, cluster, topic, DELETE_TOPIC):
                admin = self.admin(cluster)
                (await (admin.delete_topics([topic]) if topic_id is None else admin.delete_topics_by_ids([topic_id]))).all()

        done = Errors.UNKNOWN_TOPIC_OR_PARTITION if topic_id is None else Errors.UNKNOWN_TOPIC_ID
        await self._insist(f"delete topic {topic} at {cluster}", attempt, done=done)

    async def set_topic_config(self, cluster: str, topic: str, name: str, value: str | None) -> None:
        """Sets a config of the topic, or deletes it if `value` is None."""
        operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET

        async def attempt() -> None:
            await self.admin(cluster).incremental_alter_configs(ConfigResourceType.TOPIC, topic, [(name, operation, value)])

        await self._insist(f"set {name}={value} of {topic} at {cluster}", attempt, done=Errors.NONE)

    def _ask_another_broker(self) -> None:
        """Makes new clients that try another broker first, since this one may not reach the nodes
        that it needs.
        """
        self._refusals += 1
        for admin in self._admins.values():
            admin.close()
        self._admins.clear()

    def tell(self, what: str) -> None:
        self.history.add(Told(self.loop.now_us, "operator", what))

    async def _insist(self, what: str, attempt: Callable[[], Awaitable[Any]], *, done: Errors, undone: Undone = never_undone) -> None:
        """Tries until the attempt succeeds.

        `done` is the error that a second attempt gets if the first was carried out but its answer
        was lost. A broker that has not heard of an earlier change may answer it too, although
        nothing was carried out, so a caller that must be sure checks the result (`MirrorStage`).
        Any error ends the operation if `undone` says that an earlier request, given up but carried
        out late, has undone what this one builds upon.
        """
        self.tell(what)
        deadline_ms = self.runtime.clock.monotonic_ms() + self.timeout_ms
        tries = 0
        while True:
            tries += 1
            try:
                await attempt()
                return
            except ApiException as error:
                if (error.error is done and tries > 1) or undone():
                    return
                problem = f"{error.error.name}: {error}"
            except (NoBrokerError, *_LOST) as error:
                problem = str(error)
            if self.runtime.clock.monotonic_ms() >= deadline_ms:
                raise KmirrorError(f"{what}: {problem}")
            self._ask_another_broker()
            await self.runtime.sleep_ms(MIRROR_PAUSE_MS)
