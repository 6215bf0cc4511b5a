"""A destination broker that mirrors from a `ScriptedSource`. There are no sockets, and time passes only
when the test advances it.

`MirrorWorld` is one broker with real logs and the real fetchers. `Driver` stands in for
`MirrorPartition`: it adds its partition to a fetcher, adds it again after the backoff when the
fetcher gives it back, and records what it was told. It has no states, so use `MirrorMachine` for
tests of the state machine.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.coordination.mirror_partition_id import MirrorPartitionId
from kmirror.mirror.fetch.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.fetch.source_progress import SourceProgress
from kmirror.mirror.mirror_safeguards import ALL_SAFEGUARDS
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.mirror import Mirror
from kmirror.network.client import DisconnectError, UnsupportedVersionError
from kmirror.network.client_metrics import ClientMetrics
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_request, read_request_header, read_response
from support.brokers.broker_doubles import BrokerWorld, FakeController
from support.mirrors.scripted_source import FIRST_METADATA_WITH_IDS, SOURCE_CLUSTER_ID, ScriptedSource, frame_of, read_log


class ScriptedClient:
    """A `NetworkClient` whose brokers are those of a `ScriptedSource`."""

    def __init__(self, source: ScriptedSource, client_id: str, configs: dict[str, str]) -> None:
        self.client_id = client_id
        self.configs = configs
        self.closed = False
        self.metrics = ClientMetrics(source.runtime.clock)
        self._source = source

    def _check(self, address: tuple[str, int]) -> None:
        if self.closed:
            raise DisconnectError("the client is closed")
        if address in self._source.down or address not in self._source.addresses.values():
            raise DisconnectError(f"cannot connect to {address[0]}:{address[1]}")

    async def api_version(self, host: str, port: int, api_key: int, *, timeout_ms: int, max_version: int | None = None) -> int:
        self._check((host, port))
        offered = self._source.versions.get(ApiKeys(api_key))
        if offered is None:
            raise UnsupportedVersionError(f"{host}:{port} does not support {ApiKeys(api_key).name}")
        return min(offered, API_TABLE[ApiKeys(api_key)].highest, offered if max_version is None else max_version)

    async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        address = (host, port)
        if version is None:
            version = await self.api_version(host, port, request.API_KEY, timeout_ms=timeout_ms)
        self._check(address)
        frame = frame_of(encode_request(RequestHeader(request.API_KEY, version, 7, self.client_id), request))
        header, position = read_request_header(frame)
        received = read_request(header, frame, position)
        self._source.requests.append((address, self.client_id, version, received))
        await asyncio.sleep(0)
        response = await self._source.answer(address, received, version)
        self._check(address)
        return read_response(request.API_KEY, version, frame_of(encode_response(request.API_KEY, version, 7, response)))[1]

    def close(self) -> None:
        self.closed = True


class Driver:
    """A stand-in for `MirrorPartition` that keeps its partition with a fetcher."""

    def __init__(self, world: MirrorWorld, partition_id: MirrorPartitionId, partition: Any) -> None:
        self.id = partition_id
        self.partition = partition
        self.progress = SourceProgress()
        self.status = SimpleNamespace(reason=None)
        self.mirror = world.mirror
        self.max_truncation_records = 100_000
        self.cuts = 0
        self.given_back: list[str | None] = []
        self.rejected: str | None = None
        self.storage_error: str | None = None
        self.failures: list[str] = []
        self._world = world

    @property
    def log(self) -> Any:
        return self.partition.leader_log

    def cleaned_until(self) -> int:
        return int(self._world.broker.replica_manager.log_manager.cleaned_until(self.log))

    def note_cut(self) -> None:
        self.cuts += 1

    def on_progress(self) -> None:
        self.status.reason = None

    def on_delay(self, reason: str) -> None:
        self.status.reason = reason

    def on_fetcher_gone(self, reason: str | None) -> None:
        self.given_back.append(reason)
        self.status.reason = reason
        self._again(0 if reason is None else self._world.config.mirror_fetch_backoff_ms)

    def on_rejected(self, reason: str) -> None:
        self.rejected = reason

    def on_storage_error(self, reason: str) -> None:
        self.storage_error = reason

    def start(self) -> None:
        self._world.runtime.spawn(self._add(), name=f"driver-{self.id.topic}-{self.id.partition}")

    def _again(self, delay_ms: int) -> None:
        self._world.runtime.call_later_ms(delay_ms, self.start)

    async def _add(self) -> None:
        if self.rejected is not None or self.storage_error is not None:
            return
        try:
            await self._world.fetchers.add_partition(self)
        except KmirrorError as error:
            self.failures.append(str(error))
            self.status.reason = str(error)
            self._again(self._world.config.mirror_fetch_backoff_ms)


class MirrorWorld:
    """Broker 1 of the destination, with one mirror of `source`."""

    def __init__(
        self, log_dir: str, versions: dict[ApiKeys, int] | None = None, *, brokers: int = 1, sessions: int = 1000, **config: Any
    ) -> None:
        self.broker = BrokerWorld(log_dir)
        self.runtime = self.broker.runtime
        self.source = ScriptedSource(self.runtime, versions, brokers=brokers, sessions=sessions)
        self.config = MirrorConfig(broker_id=1, **config)
        self.clients: list[ScriptedClient] = []
        bootstrap = ",".join(f"{host}:{port}" for host, port in self.source.addresses.values())
        self.mirror = Mirror(
            self.runtime,
            self.config,
            "m",
            {"bootstrap.servers": bootstrap, "source.cluster.id": SOURCE_CLUSTER_ID},
            client_factory=self.make_client,
            controller=FakeController(),
        )
        self.fetchers = MirrorFetcherManager(
            self.runtime,
            self.config,
            self.make_client,
            safeguards=ALL_SAFEGUARDS,
            quota=self.broker.replica_manager.quotas.mirror,
            complete_delayed=self.broker.replica_manager.complete_delayed_together,
        )
        self.drivers: dict[TopicPartition, Driver] = {}

    def make_client(self, client_id: str, mirror_configs: dict[str, str]) -> Any:
        client = ScriptedClient(self.source, client_id, mirror_configs)
        self.clients.append(client)
        return client

    async def mirror_topic(self, topic: str, *, partitions: int = 1, configs: dict[str, str] | None = None) -> list[Driver]:
        """Creates the topic at the destination and fetches it.

        Both sides get the same topic id if the source's version has ids.
        """
        self.broker.create_topic(topic, partitions=partitions, configs=configs)
        self.broker.cache.topic_id(topic)
        if topic in self.source.topic_ids and self.source.versions[ApiKeys.METADATA] >= FIRST_METADATA_WITH_IDS:
            self.source.topic_ids[topic] = self.broker.cache.topic_id(topic)
        return [self.fetch(topic, number) for number in range(partitions)]

    def fetch(self, topic: str, number: int = 0) -> Driver:
        partition_id = MirrorPartitionId("m", topic, self.broker.cache.topic_id(topic), number)
        driver = self.drivers[TopicPartition(topic, number)] = Driver(self, partition_id, self.broker.partition(topic, number))
        driver.start()
        return driver

    async def settle(self) -> None:
        """Runs everything that can run without time passing."""
        for _ in range(60):
            await asyncio.sleep(0)

    async def advance(self, ms: int, *, step_ms: int = 50) -> None:
        await self.settle()
        for _ in range(0, ms, step_ms):
            self.runtime.advance(min(step_ms, ms))
            await self.settle()

    def log_bytes(self, topic: str, number: int = 0) -> bytes:
        return read_log(self.broker.partition(topic, number).leader_log)

    def source_bytes(self, topic: str, number: int = 0) -> bytes:
        return b"".join(self.source.log(topic, number).batches)
