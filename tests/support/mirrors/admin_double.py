"""An `AdminClient` of a cluster that the test scripts: its logs, configs, mirrors, and what it does
not answer. For what tools say of two clusters, without either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP
from kmirror.admin.admin_requests import NoBrokerError
from kmirror.admin.results import MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.record_batch import RecordBatch

REFUSED = NoBrokerError("no broker could be reached: a:1: Connection refused")


@dataclass
class LogDouble:
    """One partition: whole batches, and where the log begins."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0

    @property
    def end(self) -> int:
        return max(RecordBatch(self.batches[-1]).next_offset if self.batches else 0, self.start)


@dataclass(eq=False)
class AdminDouble:
    """Answers from what it is given. `away` is raised instead, `silent_starts` hides log starts."""

    logs: dict[TopicPartition, LogDouble] = field(default_factory=dict)
    cluster_id: str = "cluster"
    configs: Mapping[str, str] = field(default_factory=dict)
    mirrors: dict[str, list[MirrorPartitionDescription]] | None = None
    source_cluster_ids: Mapping[str, str] = field(default_factory=dict)
    away: Exception | None = None
    silent_starts: bool = False
    internal: frozenset[str] = frozenset()

    def _check(self) -> None:
        if self.away is not None:
            raise self.away

    async def describe_cluster(self) -> Any:
        self._check()
        return SimpleNamespace(cluster_id=self.cluster_id, nodes=[])

    async def list_topics(self) -> list[str]:
        self._check()
        return sorted({name.topic for name in self.logs})

    async def list_groups(self) -> list[Any]:
        return []

    async def list_mirrors(self, options: object = None) -> list[MirrorListing]:
        self._check()
        if self.mirrors is None:
            raise ApiException(Errors.UNSUPPORTED_VERSION)
        return [
            MirrorListing(name, "a:1", self.source_cluster_ids.get(name, ""), len({row.topic for row in rows}))
            for name, rows in sorted(self.mirrors.items())
        ]

    async def describe_mirrors(self, names: Iterable[str] = (), options: object = None) -> dict[str, MirrorDescription]:
        self._check()
        if self.mirrors is None:
            raise ApiException(Errors.UNSUPPORTED_VERSION)
        wanted = list(names) or list(self.mirrors)
        if any(name not in self.mirrors for name in wanted):
            raise ApiException(Errors.UNKNOWN_MIRROR)
        return {name: MirrorDescription(name, self.mirrors[name]) for name in wanted}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        self._check()
        found: dict[str, Any] = {}
        for topic in names:
            numbers = sorted(name.partition for name in self.logs if name.topic == topic)
            if numbers:
                rows = [SimpleNamespace(partition=number, leader=1, replicas=[1]) for number in numbers]
                found[topic] = SimpleNamespace(name=topic, topic_id=Uuid.ZERO, partitions=rows)
        return found

    async def describe_configs(self, *_: object) -> list[Any]:
        self._check()
        return [SimpleNamespace(name=name, value=value, is_default=True) for name, value in self.configs.items()]

    async def describe_topic_configs(self, topics: Iterable[str]) -> dict[str, Any]:
        return {topic: await self.describe_configs(topic) for topic in topics}

    async def list_offsets(self, names: Iterable[TopicPartition], *, timestamp: int = -1, **_: object) -> dict[TopicPartition, int]:
        self._check()
        if timestamp == EARLIEST_TIMESTAMP and self.silent_starts:
            raise ApiException(Errors.TOPIC_AUTHORIZATION_FAILED)
        logs = {name: self.logs[name] for name in names}
        return {name: log.start if timestamp == EARLIEST_TIMESTAMP else log.end for name, log in logs.items()}

    async def fetch_records(self, name: TopicPartition, offset: int, *, max_bytes: int, **_: object) -> bytes:
        self._check()
        log = self.logs[name]
        if not log.start <= offset <= log.end:
            raise ApiException(Errors.OFFSET_OUT_OF_RANGE)
        return next((data for data in log.batches if RecordBatch(data).last_offset >= offset), b"")

    async def end_offset_of_epoch(self, name: TopicPartition, leader_epoch: int) -> int:
        self._check()
        above = (RecordBatch(data) for data in self.logs[name].batches)
        return next((one.base_offset for one in above if one.partition_leader_epoch > leader_epoch), self.logs[name].end)

    def close(self) -> None: ...
