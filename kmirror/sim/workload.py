"""Clients of a storm: producers and readers.

They speak Kafka's protocol through `NetworkClient`, as any client does.

Producers, plain or idempotent, send batches of unique records (`cluster/client/number`, where the
cluster is the one written to) with acks=all, and record what they were told. A missing answer is
recorded as an unknown outcome. An idempotent producer then sends the same batch again, and takes a
new producer id if the broker no longer accepts the old one.

Readers fetch batches as they are in the log, and these must be bytes that the cluster's log has
held.
"""

from __future__ import annotations

from dataclasses import dataclass

from kmirror.common.errors import Errors
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.cluster import PORT
from kmirror.sim.events import Acknowledged, History, LogKey, Refused, Served, digest_of
from kmirror.sim.loop import SimLoop
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE_VERSION = 12
FETCH_VERSION = 12
CLIENT_TIMEOUT_MS = 1_500
UNKNOWN_FATE = "unknown"
SAME_BATCH_AGAIN = 3
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
