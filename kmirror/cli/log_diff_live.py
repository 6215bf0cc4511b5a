"""A live cluster as an input of `kafka-log-diff`, read over the wire like a consumer.

Metadata gives the partitions, ListOffsets the log start and the high watermark, DescribeConfigs
whether a topic is compacted now and since which age, and Fetch (read_uncommitted) whole, unchanged batches. `verify` is
synchronous, so each question runs the input's own event loop until it is answered. The high
watermark is asked once for each partition; what is written later is not compared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient, parse_bootstrap_servers
from kmirror.admin.results import ConfigResourceType
from kmirror.cli.live_inventory import look
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.asyncio_runtime import AsyncioRuntime
from kmirror.verify.cleaner_facts import ANY_TIME, POLICY_BEFORE_UNKNOWN, CleanerFacts
from kmirror.verify.fetched_log import FetchedLog
from kmirror.verify.replay.findings import Finding

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
        self._cleaners: dict[str, CleanerFacts] = {}
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

    def inventory(self) -> tuple[list[Finding], list[str]]:
        found = self._ask(look(self._admin))
        return found.findings, found.unseen

    def is_chosen(self, name: TopicPartition, log: str) -> bool:
        """Always False: what is compared comes from the partition's leader, which is a replica."""
        return False

    def log(self, name: TopicPartition) -> FetchedLog:
        earliest, latest, cleaner = self._ask(self._facts(name))
        return FetchedLog(
            f"{self.name}/{name}",
            name,
            lambda offset: self._ask(self._admin.fetch_records(name, offset, max_bytes=FETCH_SIZE_BYTES)),
            log_start_offset=earliest,
            high_watermark=latest,
            cleaner=cleaner,
        )

    async def _facts(self, name: TopicPartition) -> tuple[int, int, CleanerFacts]:
        earliest = (await self._admin.list_offsets([name], timestamp=EARLIEST_TIMESTAMP))[name]
        latest = (await self._admin.list_offsets([name]))[name]
        if name.topic not in self._cleaners:
            self._cleaners[name.topic] = await self._cleaner(name.topic)
        return earliest, latest, self._cleaners[name.topic]

    async def _cleaner(self, topic: str) -> CleanerFacts:
        """Returns what the configs in effect say. They are those of now, which proves nothing about
        what they were before."""
        try:
            entries = await self._admin.describe_configs(ConfigResourceType.TOPIC, topic)
        except KmirrorError as error:
            return CleanerFacts(unknown=f"their keys came again, and the topic's configs cannot be seen: {error}")
        values = {entry.name: entry.value or "" for entry in entries}
        if "compact" not in values.get("cleanup.policy", ""):
            return CleanerFacts(unknown=POLICY_BEFORE_UNKNOWN)
        lag_ms = int(values.get("min.compaction.lag.ms") or 0)
        newest_ms = time.time_ns() // 1_000_000 - lag_ms if lag_ms > 0 else ANY_TIME
        return CleanerFacts(is_compacted=True, newest_ms=newest_ms)
