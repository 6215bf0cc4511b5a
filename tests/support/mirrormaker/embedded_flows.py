"""MirrorMaker 2 in the test's own process, between two embedded clusters A and B."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kmirror import EmbeddedCluster
from kmirror.embedded import Security
from kmirror.mirrormaker.driver import MirrorMaker
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from support.waiting import REACHED_S

BROKER = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}
SETTINGS = {
    "clusters": "A, B",
    "A->B.enabled": "true",
    "B->A.enabled": "true",
    "tasks.max": "2",
    "replication.factor": "1",
    **{f"{name}.storage.replication.factor": "1" for name in ("offset", "config", "status")},
    "offset.storage.partitions": "3",
    "A.offset.flush.interval.ms": "300",
    "B.offset.flush.interval.ms": "300",
    "consumer.poll.timeout.ms": "200",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "offset.lag.max": "10",
    **{f"{name}.topic.replication.factor": "1" for name in ("checkpoints", "heartbeats", "offset-syncs")},
}


class Clusters:
    """Two clusters, A and B, and what flows of theirs are configured with."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, settings: Mapping[str, str]) -> None:
        self.source, self.target = source, target
        self.a, self.b = source.bootstrap_servers, target.bootstrap_servers
        self.settings = {"A.bootstrap.servers": self.a, "B.bootstrap.servers": self.b, **SETTINGS, **settings}
        self.runtime = AsyncioRuntime()

    @asynccontextmanager
    async def mirrored(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[MirrorMaker]:
        """MirrorMaker, with some settings of its own."""
        maker = MirrorMaker(self.runtime, {**self.settings, **(settings or {})})
        maker.start()
        try:
            yield maker
        finally:
            await asyncio.wait_for(maker.stop(), REACHED_S)


@contextmanager
def clusters(
    settings: Mapping[str, str] | None = None,
    *,
    source: Mapping[str, str] | None = None,
    target: Mapping[str, str] | None = None,
    source_security: Security | None = None,
) -> Iterator[Clusters]:
    """`source` and `target` are added to the brokers' properties."""
    with (
        EmbeddedCluster(config={**BROKER, **(source or {})}, security=source_security) as a,
        EmbeddedCluster(config={**BROKER, **(target or {})}) as b,
    ):
        yield Clusters(a, b, settings or {})


async def until(what: str, found: Callable[[], Any]) -> Any:
    """Asks in a thread until the answer is true, and returns it."""
    return await _until(what, lambda: asyncio.to_thread(found))


async def until_it_says(what: str, found: Callable[[], Any]) -> Any:
    """As `until`, but asks on the loop: it alone may look at what MirrorMaker has there, its statuses."""

    async def asked() -> Any:
        return found()

    return await _until(what, asked)


async def _until(what: str, asked: Callable[[], Awaitable[Any]]) -> Any:
    deadline = time.monotonic() + REACHED_S
    while not (value := await asked()):
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.2)
    return value


def config_of(servers: str, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    (future,) = admin.describe_configs([resource]).values()
    return str(future.result(REACHED_S)[name].value)


def set_topic_config(servers: str, topic: str, name: str, value: str) -> None:
    client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    change = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(REACHED_S)
