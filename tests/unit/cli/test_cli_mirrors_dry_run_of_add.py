"""`kafka-mirrors --add --dry-run`: what is said of topics that were mirrored from the source
before. Without clusters.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from support.mirrors.scripted_source import SOURCE_CLUSTER_ID, batch

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP
from kmirror.cli import mirrors_dry_run
from kmirror.cli.mirrors_dry_run import DroppedRecords
from kmirror.cli.mirrors_truncation import TruncationLimits
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run

T0 = TopicPartition("t", 0)
SIX = [batch(offset, b"a", epoch=1) for offset in range(6)]


def reset(offset: int) -> bytes:
    """Written here, in epoch 2; offset and epoch lie before what the CRC covers."""
    data = bytearray(build_mirror_pid_reset(SOURCE_CLUSTER_ID, timestamp=0))
    data[:8], data[12:16] = offset.to_bytes(8, "big"), (2).to_bytes(4, "big")
    return bytes(data)


class Cluster:
    """One partition, of these batches."""

    def __init__(self, cluster_id: str, batches: list[bytes], *, start: int = 0) -> None:
        self.cluster_id, self.batches, self.start = cluster_id, [(RecordBatch(data), data) for data in batches], start

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else self.start

    async def describe_cluster(self) -> Any:
        return SimpleNamespace(cluster_id=self.cluster_id)

    async def list_mirrors(self) -> list[Any]:
        raise ApiException(Errors.UNSUPPORTED_VERSION)

    async def describe_topics(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: SimpleNamespace(topic_id=Uuid.ZERO, partitions=[0]) for name in names}

    async def describe_configs(self, *_: object) -> list[Any]:
        return []

    async def list_offsets(self, names: Iterable[TopicPartition], *, timestamp: int = -1, **_: object) -> dict[TopicPartition, int]:
        return dict.fromkeys(names, self.start if timestamp == EARLIEST_TIMESTAMP else self.end)

    async def fetch_records(self, name: TopicPartition, offset: int, *, max_bytes: int) -> bytes:
        if not self.start <= offset <= self.end:
            raise ApiException(Errors.OFFSET_OUT_OF_RANGE)
        return next((data for header, data in self.batches if header.last_offset >= offset), b"")


def loss(monkeypatch: pytest.MonkeyPatch, local: list[bytes], source: Cluster, *, state: str, limit: int | None = 100) -> DroppedRecords:
    async def nothing(*_: object) -> None: ...

    monkeypatch.setattr(mirrors_dry_run, "add_groups", nothing)
    limits = None if limit is None else TruncationLimits(limit)

    async def main(runtime: Runtime) -> list[DroppedRecords]:
        here: Any = Cluster("here", local)
        there: Any = source
        return await mirrors_dry_run.failback_loss(here, there, "m", [T0], limits, {T0: state})

    (found,) = run(main)
    return found


def test_a_partition_that_failed_was_said_to_be_mirrored_from_scratch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is removed first; then its log has a reset, and is compared with the source's."""
    empty = Cluster(SOURCE_CLUSTER_ID, [])
    kept = loss(monkeypatch, SIX, empty, state="FAILED")
    assert (kept.cut_offset, kept.record_count) == (6, 0)
    assert kept.reason == "the source has lost 6 record(s) of it: it is FAILED and keeps them, unless --accept-truncation is given"
    accepted = loss(monkeypatch, SIX, empty, state="FAILED", limit=None)
    assert (accepted.cut_offset, accepted.record_count) == (0, 6)
    some = loss(monkeypatch, SIX, Cluster(SOURCE_CLUSTER_ID, SIX[:4]), state="FAILED", limit=None)
    assert (some.cut_offset, some.record_count, some.reason) == (4, 2, "the source has other batches from offset 4 on")
    none = loss(monkeypatch, SIX, Cluster(SOURCE_CLUSTER_ID, SIX), state="FAILED")
    assert (none.cut_offset, none.record_count) == (6, 0)


@pytest.mark.parametrize("state", ["MIRRORING", "PAUSING", "PAUSED"])
def test_a_partition_that_is_mirrored_was_said_to_lose_everything(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    found = loss(monkeypatch, SIX, Cluster(SOURCE_CLUSTER_ID, SIX), state=state)
    assert (found.record_count, found.reason) == (0, f"it is {state} in mirror m already, and stays as it is")


def test_retention_at_the_source_was_taken_for_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker follows the source's log start, so nothing is lost (D3-14)."""
    local = [*SIX, reset(6), batch(7, b"own", epoch=2)]
    source = Cluster(SOURCE_CLUSTER_ID, [batch(9, b"later", epoch=1)], start=9)
    found = loss(monkeypatch, local, source, state="STOPPED")
    assert (found.cut_offset, found.record_count, found.reason) == (0, 7, "the source begins at 9: mirrored from scratch")
