"""A live cluster as an input of `kafka-log-diff`, read over the wire like a consumer.

Metadata gives the partitions, ListOffsets the log start and the high watermark, DescribeConfigs
whether a topic is compacted, and Fetch (read_uncommitted) whole, unchanged batches. `verify` is
synchronous, so each question runs the input's own event loop until it is answered. The high
watermark is asked once for each partition; what is written later is not compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient, parse_bootstrap_servers
from kmirror.admin.results import ConfigResourceType
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.verify.compared_log import ALL_MAY_BE_CLEANED
from kmirror.verify.fetched_log import FetchedLog

LIVE_PREFIX: Final = "bootstrap:"
FETCH_SIZE_BYTES: Final = 8 << 20
CLIENT_ID: Final = "kafka-log-diff"

T = TypeVar("T")


class LiveInput:
    """A running cluster."""

    is_single = False

    def __init__(self, text: str, *, include_internal: bool) -> None:
        self.name = text
        servers = parse_bootstrap_servers(text.removeprefix(LIVE_PREFIX))
        self._runner = asyncio.Runner()
        self._runtime = AsyncioRuntime(loop=self._runner.get_loop(), worker_count=1)
        self._admin = AdminClient(self._runtime, servers, client_id=CLIENT_ID)
        self._compacted: dict[str, bool] = {}
        self.names = self._ask(self._list(include_internal=include_internal))

    def close(self) -> None:
        self._admin.close()
        self._runtime.close()
        self._runner.close()

    def _ask(self, question: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(question)

    async def _list(self, *, include_internal: bool) -> list[TopicPartition]:
        topics = await self._admin.list_topics(include_internal=include_internal)
        described = await self._admin.describe_topics(topics)
        return sorted(TopicPartition(topic, row.partition) for topic, facts in described.items() for row in facts.partitions)

    def log(self, name: TopicPartition) -> FetchedLog:
        earliest, latest, is_compacted = self._ask(self._facts(name))
        return FetchedLog(
            f"{self.name}/{name}",
            name,
            lambda offset: self._ask(self._admin.fetch_records(name, offset, max_bytes=FETCH_SIZE_BYTES)),
            log_start_offset=earliest,
            high_watermark=latest,
            cleaned_offset=ALL_MAY_BE_CLEANED if is_compacted else 0,
        )

    async def _facts(self, name: TopicPartition) -> tuple[int, int, bool]:
        earliest = (await self._admin.list_offsets([name], timestamp=EARLIEST_TIMESTAMP))[name]
        latest = (await self._admin.list_offsets([name]))[name]
        if name.topic not in self._compacted:
            self._compacted[name.topic] = await self._is_compacted(name.topic)
        return earliest, latest, self._compacted[name.topic]

    async def _is_compacted(self, topic: str) -> bool:
        try:
            configs = await self._admin.describe_configs(ConfigResourceType.TOPIC, topic)
        except KmirrorError:
            return False  # not permitted or not served: then only holes and keys show compaction
        return any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in configs)
