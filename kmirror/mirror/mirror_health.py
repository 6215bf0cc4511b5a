"""How well a mirror is, as far as the partitions tell that one broker leads.

A partition is well while nothing keeps it from going on: it is MIRRORING with a lag that the source
has confirmed lately, or in the state that its operator wants. A mirror whose source is gone is not
well, and neither is one whose states are not loaded. Other brokers know of the partitions that they
lead; a mirror of which this broker leads nothing is named as not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kmirror.common.health import Health
from kmirror.mirror.fetch.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.mirror.partition.partition_description import PartitionDescription, described

MOST_REASONS: Final = 20
"""So many partitions are named; the others are counted."""
ELSEWHERE: Final = "partitions that other brokers lead"
CONTENT: Final = "whether the records are those of the source (kafka-mirrors --verify)"


def mirror_health(partitions: Iterable[MirrorPartition], fetchers: MirrorFetcherManager, now_ms: int) -> Health:
    """`partitions` are those of one mirror that this broker leads."""
    wrong: list[str] = []
    count = 0
    for driver in partitions:
        count += 1
        reason = _reason(driver, fetchers, now_ms)
        if reason is not None:
            wrong.append(f"{driver.id.topic_partition}: {reason}")
    if not count:
        return Health(looked_at=["no partition of it is led here"], not_looked_at=[ELSEWHERE, CONTENT])
    return Health(_at_most(wrong), [f"{count} partitions that are led here, {count - len(wrong)} of them well"], [ELSEWHERE, CONTENT])


def _reason(driver: MirrorPartition, fetchers: MirrorFetcherManager, now_ms: int) -> str | None:
    if not driver.status.loaded:
        return "its state is not loaded"
    row = described(driver, fetchers, now_ms)
    if row.reason is not None:
        return f"{row.state.name}: {row.reason}"
    if row.state is MirrorPartitionState.MIRRORING and row.lag < 0:
        return f"MIRRORING: its lag is unknown, {_last(row)}"
    return f"{row.state.name}" if row.state is MirrorPartitionState.FAILED else None


def _last(row: PartitionDescription) -> str:
    if row.last_lag.age_ms < 0:
        return "the source has not told its end yet"
    return f"last known {row.last_lag.age_ms // 1000} s ago as {row.last_lag.records} records"


def _at_most(wrong: list[str]) -> list[str]:
    left = len(wrong) - MOST_REASONS
    return wrong if left <= 0 else [*wrong[:MOST_REASONS], f"{left} more partitions"]
