"""Clients of a fleet. They find leaders and coordinators as Kafka's clients do, and record in the
history what they did and what they were told.

`FleetClient` finds the way: it asks any broker for metadata, learns leaders and coordinators, and
forgets them after an error that says that they have changed. It treats leader epochs as Java's
clients do (`epoch_memory`). A producer (plain or idempotent, acks=all) and a reader
(read_uncommitted or read_committed) use it. Transactions are in `fleet_transactions`, groups in
`fleet_groups`.

An idempotent producer that does not learn whether its batch was appended sends it again, and no
value of it may be in the log twice. A producer that gives up a batch, or gets a new producer id,
never sends an old value again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.sentinels import READ_COMMITTED, READ_UNCOMMITTED
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.system_ports import SeededRandom
from kmirror.sim.epoch_memory import EpochMemory
from kmirror.sim.events import Acknowledged, History, LogKey
from kmirror.sim.fleet_events import ReadTo
from kmirror.sim.loop import SimLoop
from kmirror.sim.workload import Pace
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kmirror.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TIMEOUT_MS = 2_500
PRODUCE_TIMEOUT_MS = 2_000
NAMES_ONLY_VERSION = 12
TRIES = 6
RETRY_PAUSE_MS = 60
FETCH_WAIT_MS = 100
GROUP_COORDINATOR, TRANSACTION_COORDINATOR = 0, 1
LOST = (DisconnectError, RequestTimeoutError, UnsupportedVersionError)
UNKNOWN_FATE = (Errors.REQUEST_TIMED_OUT, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
NOT_TAKEN = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.LEADER_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.FENCED_LEADER_EPOCH,
    Errors.UNKNOWN_LEADER_EPOCH,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_COORDINATOR,
    Errors.CONCURRENT_TRANSACTIONS,
    Errors.BROKER_NOT_AVAILABLE,
    Errors.KAFKA_STORAGE_ERROR,
    Errors.NETWORK_EXCEPTION,
)


class FleetClient:
    """One client's view of the fleet `cluster`."""

    def __init__(
        self, loop: SimLoop, runtime: Runtime, name: str, cluster: str, bootstrap: Sequence[tuple[str, int]], *, slowness: int = 1
    ) -> None:
        self.name = name
        self.cluster = cluster
        self.loop = loop
        self.runtime = runtime
        self.random = SeededRandom(f"{loop.seed}/{name}")
        self.marks_odd = False
        self.topic_ids: dict[str, Uuid] = {}
        self._epochs = EpochMemory()
        self._client = NetworkClient(runtime, name)
        self._slowness = slowness
        self._bootstrap = list(bootstrap)
        self._nodes: dict[int, tuple[str, int]] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._leader_epochs: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[int, str], tuple[str, int]] = {}

    async def ask(self, address: tuple[str, int], request: Any, *, max_version: int | None = None, timeout_ms: int = TIMEOUT_MS) -> Any:
        """Returns the response, or None if there was none."""
        try:
            return await self._client.send(*address, request, timeout_ms=timeout_ms, max_version=max_version)
        except LOST:
            return None

    async def ask_any(self, request: Any) -> Any:
        """Returns the response of a random broker, or None."""
        return await self.ask(self._bootstrap[self.random.randrange(len(self._bootstrap))], request)

    async def ask_leader(
        self, partition: TopicPartition, request: Any, *, max_version: int | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> Any:
        """Returns the leader's response, or None. A caller that gets an error calls `forget`."""
        if partition not in self._leaders:
            await self._find_leaders(partition.topic)
        address = self._nodes.get(self._leaders.get(partition, -1))
        response = None if address is None else await self.ask(address, request, max_version=max_version, timeout_ms=timeout_ms)
        if response is None:
            self.forget(partition)
        return response

    async def leader_epoch(self, partition: TopicPartition) -> int:
        """Returns the epoch of the leader that will be asked next, or -1 if it is unknown."""
        if partition not in self._leaders:
            await self._find_leaders(partition.topic)
        return self._leader_epochs.get(partition, -1)

    async def ask_coordinator(self, key: str, kind: int, request: Any, *, max_version: int | None = None) -> Any:
        """Returns the coordinator's response, or None.

        A caller that learns that the coordinator is another broker calls `forget_coordinator`.
        """
        address = self._coordinators.get((kind, key))
        if address is None:
            address = await self._find_coordinator(key, kind)
        response = None if address is None else await self.ask(address, request, max_version=max_version)
        if response is None:
            self.forget_coordinator(key, kind)
        return response

    async def learn(self, topic: str) -> None:
        """Asks for the topic until its id is known."""
        while topic not in self.topic_ids:
            await self._find_leaders(topic)
            await self.retry_pause()

    def forget(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    def hear_epoch(self, partition: TopicPartition, epoch: int) -> None:
        """Takes a leader epoch from any response but Metadata.

        If it is larger than that of the metadata, the metadata are outdated and the leader is
        forgotten.
        """
        if self._epochs.hears(partition, epoch):
            self.forget(partition)

    def forget_coordinator(self, key: str, kind: int) -> None:
        self._coordinators.pop((kind, key), None)

    async def pause(self, pace: Pace) -> None:
        await self.runtime.sleep_ms(self._slowness * pace.draw(self.random))

    async def retry_pause(self) -> None:
        await self.runtime.sleep_ms(RETRY_PAUSE_MS + self.random.randrange(RETRY_PAUSE_MS))

    async def _find_leaders(self, topic: str) -> None:
        addresses = list(self._nodes.values()) or self._bootstrap
        address = addresses[self.random.randrange(len(addresses))]
        response = await self.ask(address, MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False))
        if response is None:
            self._nodes.clear()
            return
        self._nodes = {broker.node_id: (broker.host, broker.port) for broker in response.brokers}
        for row in response.topics:
            if row.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION:
                self._epochs.forgets(topic)
            if row.error_code == Errors.NONE:
                self.topic_ids[topic] = row.topic_id
                for partition in row.partitions:
                    key = TopicPartition(topic, partition.partition_index)
                    if self._epochs.takes(key, row.topic_id, partition.leader_epoch):
                        self._leaders[key], self._leader_epochs[key] = partition.leader_id, partition.leader_epoch

    async def _find_coordinator(self, key: str, kind: int) -> tuple[str, int] | None:
        response = await self.ask_any(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]))
        row = None if response is None else response.coordinators[0]
        if row is None or row.error_code:
            return None
        self._coordinators[kind, key] = (row.host, row.port)
        return row.host, row.port


def produce_request(partition: TopicPartition, records: bytearray, *, transactional_id: str | None = None) -> ProduceRequest:
    data = PartitionProduceData(index=partition.partition, records=records)
    topic = TopicProduceData(name=partition.topic, partition_data=[data])
    return ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=[topic])


class FleetProducer:
    """Writes to random partitions while `writing` is true."""

    def __init__(
        self, client: FleetClient, partitions: Sequence[TopicPartition], history: History, *, idempotent: bool, records_age_ms: int = 0
    ) -> None:
        self.writing = True
        self.last_sent: tuple[TopicPartition, bytes] | None = None
        """The newest batch."""
        self._client = client
        self._partitions = list(partitions)
        self._history = history
        self._idempotent = idempotent
        self._records_age_ms = records_age_ms
        self._pace = Pace(15, 90)
        self._number = 0
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        while True:
            await self._client.pause(self._pace)
            if self.writing:
                await self.write_once(self._partitions[self._client.random.randrange(len(self._partitions))])

    async def write_once(self, partition: TopicPartition) -> bool:
        """Writes one batch, and returns whether it was acknowledged.

        If that stays unknown, the next batch has a new producer id.
        """
        if self._idempotent and self._producer is None and not await self._init_producer_id():
            return False
        values = self._values()
        records = self._batch(partition, values)
        self.last_sent = (partition, bytes(records))
        for _ in range(TRIES):
            error, base_offset = await self._send(partition, bytearray(records))
            if error is Errors.NONE or error is Errors.DUPLICATE_SEQUENCE_NUMBER:
                self._sequences[partition] = self._sequences.get(partition, 0) + len(values)
                if error is Errors.NONE:
                    log = LogKey(self._client.cluster, partition)
                    self._history.add(Acknowledged(self._client.loop.now_us, log, self._client.name, base_offset, values))
                return True
            self._client.forget(partition)
            if error is not None and error not in NOT_TAKEN and error not in UNKNOWN_FATE:
                break
            if not self._idempotent and (error is None or error in UNKNOWN_FATE):
                break
            await self._client.retry_pause()
        self._producer = None
        return False

    async def send_again(self) -> None:
        """Sends the newest batch again until a broker takes it, as if its answer had been lost."""
        assert self.last_sent is not None, "nothing was sent"
        partition, records = self.last_sent
        while (await self._send(partition, bytearray(records)))[0] not in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER):
            self._client.forget(partition)
            await self._client.retry_pause()

    async def _send(self, partition: TopicPartition, records: bytearray) -> tuple[Errors | None, int]:
        """Returns the error, or None if there was no answer, and the base offset."""
        response = await self._client.ask_leader(partition, produce_request(partition, records), max_version=NAMES_ONLY_VERSION)
        if response is None:
            return None, -1
        row = response.responses[0].partition_responses[0]
        return Errors.for_code(row.error_code), row.base_offset

    async def _init_producer_id(self) -> bool:
        response = await self._client.ask_any(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
        if response is None or response.error_code:
            return False
        self._producer = (response.producer_id, response.producer_epoch)
        self._sequences.clear()
        return True

    def _values(self) -> tuple[bytes, ...]:
        first = self._number
        self._number += 1 + self._client.random.randrange(3)
        return tuple(f"{self._client.name}/{number}".encode() for number in range(first, self._number))

    def _batch(self, partition: TopicPartition, values: tuple[bytes, ...]) -> bytearray:
        records = records_of(values, self._client.runtime.clock.time_ms() - self._records_age_ms, marks_odd=self._client.marks_odd)
        if self._producer is None:
            return build_batch(records, base_offset=0)
        producer_id, producer_epoch = self._producer
        sequence = self._sequences.get(partition, 0)
        return build_batch(records, base_offset=0, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence)


def records_of(values: Sequence[bytes], now_ms: int, *, marks_odd: bool = False) -> list[Record]:
    return [Record(offset, now_ms, None, value, [MARK] if marks_odd and is_odd(value) else []) for offset, value in enumerate(values)]


MARK = ("odd", b"")
"""The header of records whose value ends with an odd digit, if a client marks them."""


def is_odd(value: bytes) -> bool:
    return value[-1:] in b"13579"


class FleetReader:
    """Reads one partition from its beginning, and now and then starts again there, because what was
    read once must be read again.
    """

    def __init__(self, client: FleetClient, partition: TopicPartition, history: History, *, committed: bool) -> None:
        self._client = client
        self._partition = partition
        self._history = history
        self._committed = committed
        self._pace = Pace(150, 500)
        self._offset = 0

    async def run(self) -> None:
        while True:
            await self._client.pause(self._pace)
            if self._client.random.randrange(12) == 0:
                self._offset = 0
            await self.read_once()

    async def read_once(self) -> None:
        asked_us = self._client.loop.now_us
        row = await fetch(self._client, self._partition, self._offset, committed=self._committed)
        if row is None:
            return
        if row.error_code == Errors.OFFSET_OUT_OF_RANGE:
            self._offset = 0
        elif row.error_code != Errors.NONE:
            self._client.forget(self._partition)
        else:
            records, next_offset = visible_records(row, self._offset, committed=self._committed)
            if next_offset > self._offset:
                read = ReadTo(
                    self._client.loop.now_us,
                    self._client.cluster,
                    self._partition,
                    self._client.name,
                    self._committed,
                    self._offset,
                    next_offset,
                    tuple(records),
                    asked_us,
                )
                self._history.add(read)
                self._offset = next_offset


async def fetch(client: FleetClient, partition: TopicPartition, offset: int, *, committed: bool) -> Any:
    """Returns the partition's row of a Fetch response, or None if there was no answer.

    The request has the leader's epoch, as in Kafka's clients. Without it a follower would serve it
    too (KIP-392), and while it catches up its log may end below what the client has read.
    """
    wanted = FetchPartition(
        partition=partition.partition,
        current_leader_epoch=await client.leader_epoch(partition),
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
    )
    request = FetchRequest(
        topics=[FetchTopic(topic=partition.topic, partitions=[wanted])],
        max_bytes=1 << 20,
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        isolation_level=READ_COMMITTED if committed else READ_UNCOMMITTED,
    )
    response = await client.ask_leader(partition, request, max_version=NAMES_ONLY_VERSION)
    if response is None or not response.responses:
        return None
    return response.responses[0].partitions[0]


def visible_records(row: Any, offset: int, *, committed: bool) -> tuple[list[tuple[int, bytes]], int]:
    """Returns the (offset, value) pairs that an application sees from `offset` on, and the next
    offset to fetch, as Kafka's CompletedFetch does.
    """
    found: list[tuple[int, bytes]] = []
    next_offset = offset
    aborted = sorted((entry.first_offset, entry.producer_id) for entry in row.aborted_transactions or ())
    ongoing: set[int] = set()
    for batch in _batches(row):
        while committed and aborted and aborted[0][0] <= batch.last_offset:
            ongoing.add(aborted.pop(0)[1])
        next_offset = max(next_offset, batch.last_offset + 1)
        if batch.is_control:
            if _is_abort(batch):
                ongoing.discard(batch.producer_id)
            continue
        if committed and batch.is_transactional and batch.producer_id in ongoing:
            continue
        found += [(record.offset, bytes(record.value or b"")) for record in batch.records() if record.offset >= offset]
    return found, next_offset


def last_epoch(row: Any) -> int:
    """Returns the leader epoch of the last batch in a row of a Fetch response, or -1 if empty."""
    return max((batch.partition_leader_epoch for batch in _batches(row)), default=-1)


def _batches(row: Any) -> Iterator[RecordBatch]:
    return iter_batches(bytes(row.records)) if row.records else iter(())


def _is_abort(batch: RecordBatch) -> bool:
    return any(ControlRecordType.parse(record.key) is ControlRecordType.ABORT for record in batch.records())
