"""Watches a mirror during the demonstration: the state and lag of every partition.

It looks several times a second. The lag that DescribeMirrors reports is what the destination knows
from its last fetch. The lag drawn in the report is the true one: the source's own log end minus
what the destination was last seen to have.
"""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Self

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import MirrorPartitionDescription
from kmirror.cli.demo_cluster import DemoCluster
from kmirror.cli.demo_report import UNSEEN, DemoReport, LagSample, Sample
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

INTERVAL_S = 0.05


class DemoWatch:
    """A thread that asks the cluster (DescribeMirrors) and adds changes to the timeline."""

    def __init__(self, cluster: DemoCluster, report: DemoReport, began: float, *, source: DemoCluster | None = None) -> None:
        self._cluster = cluster
        self._source = source
        self._report = report
        self._began = began
        self._stopping = threading.Event()
        self._rows: list[MirrorPartitionDescription] = []
        self._seen: dict[tuple[str, int], tuple[str, int]] = {}
        self._thread = threading.Thread(target=self._run, name="kmirror-demo-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()
        self._look_away()

    def is_caught_up(self, topic_count: int) -> bool:
        """Whether that many topics are there, and every partition is MIRRORING with lag 0."""
        rows = self._rows
        return len({row.topic for row in rows}) >= topic_count and all(row.state == "MIRRORING" and row.lag == 0 for row in rows)

    def all_in_state(self, state: str) -> bool:
        rows = self._rows
        return bool(rows) and all(row.state == state for row in rows)

    def _run(self) -> None:
        run(self._watch)

    async def _watch(self, runtime: Runtime) -> None:
        """Run the loops until the block is left, then cancel them."""
        loops = [asyncio.ensure_future(self._watch_states(runtime))]
        if self._source is not None:
            loops.append(asyncio.ensure_future(self._watch_source(runtime, self._source)))
        await asyncio.to_thread(self._stopping.wait)
        for loop in loops:
            loop.cancel()

    async def _watch_states(self, runtime: Runtime) -> None:
        async with self._admin(runtime, self._cluster) as admin:
            while True:
                try:
                    described = await admin.describe_mirrors()
                    self._take([row for mirror in described.values() for row in mirror.partitions])
                except KmirrorError:
                    self._rows = []
                    self._look_away()
                await asyncio.sleep(INTERVAL_S)

    async def _watch_source(self, runtime: Runtime, source: DemoCluster) -> None:
        async with self._admin(runtime, source) as admin:
            while True:
                ours = {TopicPartition(row.topic, row.partition): row.destination_offset for row in self._rows}
                try:
                    ends = await admin.list_offsets(list(ours)) if ours else {}
                except KmirrorError:
                    ends = {}
                behind = [end - ours[topic_partition] for topic_partition, end in ends.items()]
                if behind:
                    self._report.lag.append(LagSample(time.monotonic() - self._began, sum(max(lag, 0) for lag in behind)))
                await asyncio.sleep(INTERVAL_S)

    def _look_away(self) -> None:
        """Ends the timeline of each partition: from now on nobody knows its state."""
        at_s = time.monotonic() - self._began
        self._report.timeline += [Sample(at_s, self._cluster.name, topic, partition, UNSEEN, -1, -1, -1) for topic, partition in self._seen]
        self._seen.clear()

    @staticmethod
    def _admin(runtime: Runtime, cluster: DemoCluster) -> AdminClient:
        return AdminClient(runtime, parse_bootstrap_servers(cluster.bootstrap_servers), client_id="kmirror-demo", timeout_ms=1000)

    def _take(self, rows: list[MirrorPartitionDescription]) -> None:
        self._rows = rows
        at_s = time.monotonic() - self._began
        for row in rows:
            key, now = (row.topic, row.partition), (row.state, row.lag)
            if self._seen.get(key) != now:
                self._seen[key] = now
                self._report.timeline.append(
                    Sample(
                        at_s, self._cluster.name, row.topic, row.partition, row.state, row.source_offset, row.destination_offset, row.lag
                    )
                )
