"""One running controller over a real metadata log, and the requests that its tests make."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Awaitable, Callable
from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.controller_apis import ControllerApis
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.quorum_controller import QuorumController
from kmirror.controller.request_context import ControllerRequestContext
from kmirror.metadata.registrations import Endpoint
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader
from kmirror.wire.messages import fetch as fe
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from kmirror.wire.messages.broker_registration import BrokerRegistrationRequest, Feature
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from support.brokers.metadata_doubles import CLUSTER_ID, directory_of
from support.logs.failing_files import FailingFiles

BROKER = ControllerRequestContext(is_broker=True)


class Node:
    """One controller on one directory; `restart` gives it a new life on the same files."""

    def __init__(self, directory: pathlib.Path, **settings: Any) -> None:
        self.directory = directory
        self.settings = {"metadata_max_idle_interval_ms": 0} | settings
        self.runtime = AsyncioRuntime()
        self.files = FailingFiles(self.runtime.files)
        self.runtime.files = self.files

    async def start(self) -> None:
        config = ControllerConfig(
            node_id=1,
            cluster_id=CLUSTER_ID,
            metadata_log_dir=str(self.directory),
            listeners=(Endpoint("CONTROLLER", "localhost", 9093),),
            **self.settings,
        )
        self.controller = QuorumController(config, self.runtime)
        await self.controller.start()
        self.apis = ControllerApis(self.controller)

    async def restart(self, *, kill: bool = False) -> None:
        await (self.controller.kill() if kill else self.controller.stop())
        await self.start()

    async def ask(self, key: ApiKeys, request: Any, version: int = 0, context: ControllerRequestContext = BROKER) -> Any:
        return await self.apis.handle(RequestHeader(key, version, 7, "test"), request, context)

    async def snapshots_done(self) -> None:
        """Wait for the snapshot that is being written, and for what the pump removes after it."""
        while self.controller.snapshots.is_busy and self.controller.is_active:
            await asyncio.sleep(0.001)

    async def start_broker(self) -> int:
        features = [
            Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
            for name, levels in self.controller.features.supported().items()
        ]
        registration = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid.random(self.runtime.random),
            log_dirs=[directory_of(1)],
            features=features,
        )
        epoch: int = (await self.ask(ApiKeys.BROKER_REGISTRATION, registration)).broker_epoch
        await self.ask(ApiKeys.BROKER_HEARTBEAT, BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch))
        return epoch

    async def create_topic(self, name: str, context: ControllerRequestContext = BROKER) -> Errors:
        request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
        return Errors((await self.ask(ApiKeys.CREATE_TOPICS, request, 7, context)).topics[0].error_code)

    async def fetch(self, offset: int, *, epoch: int = -1, last_epoch: int = -1, max_wait_ms: int = 0) -> fe.PartitionData:
        partition = fe.FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, last_fetched_epoch=last_epoch, partition_max_bytes=1 << 20
        )
        topic = fe.FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
        request = fe.FetchRequest(
            cluster_id=CLUSTER_ID, replica_state=fe.ReplicaState(replica_id=5), max_wait_ms=max_wait_ms, topics=[topic]
        )
        answer = await self.ask(ApiKeys.FETCH, request, 17)
        assert answer.error_code == 0
        data: fe.PartitionData = answer.responses[0].partitions[0]
        return data


def records_of(data: fe.PartitionData) -> bytes:
    records: Any = data.records
    return bytes(records.to_bytes() if hasattr(records, "to_bytes") else records)


def scenario(test: Callable[[Node], Awaitable[None]], directory: pathlib.Path, **settings: Any) -> None:
    async def run() -> None:
        node = Node(directory, **settings)
        await node.start()
        try:
            await test(node)
        finally:
            await node.controller.kill()

    asyncio.run(run())
