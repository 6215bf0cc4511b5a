"""Watches a mirror while something happens to it: states and lag of every partition, several times a second."""

from __future__ import annotations

import asyncio
import threading
import time
from types import TracebackType
from typing import Self

from kmirror.admin.admin_client import AdminClient, parse_bootstrap_servers
from kmirror.admin.results import MirrorPartitionDescription
from kmirror.cli.demo_cluster import DemoCluster
from kmirror.cli.demo_report import DemoReport, Sample
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.runtime.asyncio_runtime import run

INTERVAL_S = 0.05


class MirrorWatch:
    """A thread that asks the cluster (DescribeMirrors) and appends what changed to the report's timeline."""

    def __init__(self, cluster: DemoCluster, report: DemoReport, began: float) -> None:
        self._cluster = cluster
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

    def is_caught_up(self, topic_count: int) -> bool:
        """Every partition of that many topics is MIRRORING with lag 0."""
        rows = self._rows
        return len({row.topic for row in rows}) >= topic_count and all(row.state == "MIRRORING" and row.lag == 0 for row in rows)

    def all_in_state(self, state: str) -> bool:
        rows = self._rows
        return bool(rows) and all(row.state == state for row in rows)

    def _run(self) -> None:
        async def watch(admin: AdminClient) -> None:
            while not self._stopping.is_set():
                try:
                    described = await admin.describe_mirrors()
                    self._take([row for mirror in described.values() for row in mirror.partitions])
                except (ApiException, KmirrorError):
                    self._rows = []
                await asyncio.sleep(INTERVAL_S)

        async def main(runtime: object) -> None:
            async with AdminClient(runtime, parse_bootstrap_servers(self._cluster.bootstrap_servers), client_id="kmirror-demo") as admin:  # type: ignore[arg-type]
                await watch(admin)

        run(main)

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
