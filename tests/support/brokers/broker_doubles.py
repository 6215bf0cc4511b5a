"""A broker without sockets: real logs in a temporary folder, a clock that is moved by hand,
metadata by records.

Not for concurrency and not for time: timers run only in `ManualRuntime.advance`, and whatever is
awaited must be complete by then.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kmirror.common.metrics import MetricsRegistry
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage, MetadataProvenance
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.kafka_apis import KafkaApis
from kmirror.server.kafka_config import KafkaConfig
from kmirror.server.metadata_cache import MetadataCache
from kmirror.server.request import Request
from kmirror.storage.log_manager import LogManager
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from support.logs.storage_doubles import ManualClock, ManualScheduler, SeededRandom

T = TypeVar("T")
NOW_MS = 1_750_000_000_000


class ManualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualRuntime:
    """A `Runtime` whose timers run in `advance`, without network."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW_MS)
        self.random = SeededRandom()
        self.files: FileSystem = OsFileSystem()
        self.environment: dict[str, str] = {}
        self.failure_count = 0
        self.expected_failures: list[str] | None = None
        """Reported failures; a test that expects some sets a list."""
        self._timers: list[tuple[float, int, ManualTimer, Callable[[], object]]] = []
        self._count = 0

    def call_soon(self, function: Callable[[], object]) -> ManualTimer:
        return self.call_later_ms(0, function)

    def call_later_ms(self, delay_ms: float, function: Callable[[], object]) -> ManualTimer:
        timer = ManualTimer()
        self._count += 1
        heapq.heappush(self._timers, (self.clock.now_ms + delay_ms, self._count, timer, function))
        return timer

    def advance(self, ms: int) -> None:
        end = self.clock.now_ms + ms
        while self._timers and self._timers[0][0] <= end:
            due, _, timer, function = heapq.heappop(self._timers)
            self.clock.now_ms = max(self.clock.now_ms, int(due))
            if not timer.cancelled:
                function()
        self.clock.now_ms = end

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    def spawn(self, coroutine: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        return asyncio.get_running_loop().create_task(coroutine, name=name)

    async def sleep_ms(self, delay_ms: float) -> None:
        future = self.create_future()
        self.call_later_ms(delay_ms, lambda: None if future.done() else future.set_result(None))
        await future

    async def run_blocking(self, function: Callable[[], T]) -> T:
        return function()

    def report_failure(self, message: str, error: BaseException) -> None:
        if self.expected_failures is None:
            raise error
        self.expected_failures.append(message)

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], Any], **options: Any) -> Any:
        raise AssertionError("no sockets here")

    async def connect(self, host: str, port: int, protocol_factory: Callable[[], Any], **options: Any) -> Any:
        raise AssertionError("no sockets here")


class FakeController:
    """A `ForwardingChannel` that answers from `answers` and keeps the requests."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.forwarded: list[Request] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    async def send(self, message: Any) -> Any:
        self.sent.append(message)
        return self.answers[type(message).__name__](message)

    async def forward(self, request: Request) -> Any:
        self.forwarded.append(request)
        return self.answers[type(request.message).__name__](request.message)


class BrokerWorld:
    """Owns broker 1 of a cluster; `others` are brokers that exist only in the metadata."""

    def __init__(
        self, log_dir: str, *, props: dict[str, str] | None = None, others: tuple[int, ...] = (), files: FileSystem | None = None
    ) -> None:
        self.runtime = ManualRuntime()
        if files is not None:
            self.runtime.files = files
        self.metrics = MetricsRegistry(self.runtime.clock)
        self.config = KafkaConfig.from_props(
            {
                "process.roles": "broker",
                "node.id": "1",
                "controller.quorum.bootstrap.servers": "localhost:9093",
                "controller.listener.names": "CONTROLLER",
                "listeners": "PLAINTEXT://localhost:9092",
                "log.dirs": log_dir,
                "log.cleaner.enable": "false",
                **(props or {}),
            }
        )
        self.cache = MetadataCache()
        self.scheduler = ManualScheduler(self.runtime.clock)
        self.log_manager = LogManager(
            self.config.log_manager_config(),
            files=self.runtime.files,
            clock=self.runtime.clock,
            random=self.runtime.random,
            scheduler=self.scheduler,
            default_log_config=self.config.default_log_config(),
            topic_config=lambda topic: self.cache.image.configs.topic(topic),
        )
        self.log_manager.startup()
        self.replica_manager = ReplicaManager(self.config.replica_config(), self.runtime, self.log_manager, self.metrics)
        self.controller = FakeController()
        self.apis = KafkaApis(
            runtime=self.runtime,
            config=self.config,
            cluster_id="test-cluster",
            replica_manager=self.replica_manager,
            metadata_cache=self.cache,
            controller=self.controller,
            metrics=self.metrics,
        )
        self._offset = 0
        self.apply(*(self.broker_record(broker_id) for broker_id in (1, *others)))

    @staticmethod
    def broker_record(broker_id: int) -> RegisterBrokerRecord:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host=f"host-{broker_id}", port=9092, security_protocol=0)
        return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=10, end_points=[endpoint], fenced=False, rack=f"r{broker_id}")

    def apply(self, *records: Any) -> None:
        """Replays metadata records and tells cache and replica manager, as the broker's publisher
        does.
        """
        delta = MetadataDelta(self.cache.image)
        for record in records:
            delta.replay(record)
        self._offset += len(records)
        image: MetadataImage = delta.apply(MetadataProvenance(self._offset, 1, NOW_MS))
        self.cache.set_image(image)
        self.replica_manager.apply_delta(delta, image)

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: tuple[int, ...] = (1,),
        configs: dict[str, str] | None = None,
        leader: int | None = None,
    ) -> Uuid:
        topic_id = Uuid.random(self.runtime.random)
        records: list[Any] = [TopicRecord(name=name, topic_id=topic_id)]
        records += [
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=list(replicas),
                leader=replicas[0] if leader is None else leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(partitions)
        ]
        records += self.config_records(name, configs or {})
        self.apply(*records)
        return topic_id

    @staticmethod
    def config_records(topic: str, configs: dict[str, str | None]) -> list[Any]:
        return [ConfigRecord(resource_type=2, resource_name=topic, name=key, value=value) for key, value in configs.items()]

    def set_configs(self, topic: str, configs: dict[str, str | None]) -> None:
        self.apply(*self.config_records(topic, configs))

    def elect(self, topic: str, partition: int, leader: int) -> None:
        """A new leader epoch under `leader`."""
        topic_id = self.cache.topic_id(topic)
        self.apply(PartitionChangeRecord(topic_id=topic_id, partition_id=partition, leader=leader))

    def delete_topic(self, topic: str) -> None:
        self.apply(RemoveTopicRecord(topic_id=self.cache.topic_id(topic)))

    def partition(self, topic: str, number: int = 0) -> Any:
        return self.replica_manager.partitions[TopicPartition(topic, number)]

    async def ask(self, api_key: ApiKeys, message: Any, version: int, *, client_id: str = "test") -> Any:
        """Returns the handler's answer to a message, without bytes in between."""
        request = Request(
            api_key=api_key, api_version=version, correlation_id=1, client_id=client_id, message=message, listener_name="PLAINTEXT"
        )
        return await self.apis.respond(request)


def batch_of(*values: bytes, **options: Any) -> bytearray:
    """A record batch with these values, at the world's time."""
    base_offset = options.get("base_offset", 0)
    records = [Record(offset=base_offset + index, timestamp=NOW_MS, key=None, value=value) for index, value in enumerate(values)]
    return bytearray(build_batch(records, **options))
