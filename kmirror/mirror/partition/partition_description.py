"""What DescribeMirrors and the metrics say about a partition that this broker leads.

The lag is the source's last known high watermark minus our log end (B25, B51). It is known while
the partition is fetched: the source answered within `LAG_KNOWN_FOR_MS`, and nothing keeps the
partition from going on. Otherwise it is -1, unknown, and the last known lag is given beside it with
its age: an unreachable source may have gained any number of records since. For a partition in
STOPPING or STOPPED, the lag is the difference from the source's last known end, which will not
change any more.

A partition that does not move has a reason. If the driver has none, the state has one: the
partition waits for another party, or for an operator. A partition that is fetched and gets nothing
waits for a quota, a throttle or a transaction (`healthy_waits`); its lag is known all the same.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.mirror_fetcher_manager import MirrorFetcherManager
from kmirror.mirror.logs.truncation_guard import WHAT_TO_DO
from kmirror.mirror.mirror_state_machine import MirrorPartitionState, WantedState
from kmirror.mirror.partition.mirror_partition import MirrorPartition

LAG_KNOWN_FOR_MS = 10_000
_S = MirrorPartitionState
_W = WantedState

STATE_REASONS: Final[dict[tuple[MirrorPartitionState, WantedState], str]] = {
    (_S.UNKNOWN, _W.RUN): "no state is stored yet",
    (_S.PREPARING, _W.RUN): "its log is being aligned with the source's",
    (_S.PREPARING, _W.PAUSE): "its log is aligned with the source's before it is paused",
    (_S.PAUSING, _W.PAUSE): "its fetcher is being removed",
    (_S.STOPPING, _W.RUN): "it is being stopped before it is mirrored again",
    (_S.STOPPING, _W.PAUSE): "it is being stopped: the source's topic was deleted",
    (_S.STOPPING, _W.STOP): "it is being stopped",
    (_S.STOPPED, _W.RUN): "it waits until the source says whether its topic is still the same one",
    (_S.STOPPED, _W.PAUSE): "the source's topic was deleted or replaced by another one; the local topic is writable",
    (_S.FAILED, _W.RUN): "the reason is not known here",
    (_S.FAILED, _W.PAUSE): "the reason is not known here",
    (_S.FAILED, _W.STOP): "it is being stopped",
}
"""The reasons shown if the driver has none of its own.

There is none where MIRRORING, PAUSED or STOPPED is what is wanted.
"""

REMEDIES: Final[dict[tuple[MirrorPartitionState, WantedState], str]] = {
    (_S.STOPPED, _W.RUN): "to mirror the topic that the source has now, delete this one and add it again",
    (_S.STOPPED, _W.PAUSE): "delete this one and add it again if the source has the topic, or remove it from the mirror",
    (_S.FAILED, _W.RUN): "remove the topic from the mirror and add it again",
    (_S.FAILED, _W.PAUSE): "remove the topic from the mirror and add it again",
}


class PartitionLag(NamedTuple):
    """A lag in records; -1: never known. `age_ms`: the time since the source reported it, -1 if it
    never did.
    """

    records: int
    age_ms: int
    is_known: bool
    """Whether the lag is current."""


NEVER_KNOWN = PartitionLag(-1, -1, False)


class MirroredPartitionLag(NamedTuple):
    """The lag of a partition that is being mirrored, for the metrics.

    `fetcher_name`: the fetcher that had the partition last; None if none had it yet.
    """

    topic_partition: TopicPartition
    fetcher_name: str | None
    lag: PartitionLag


class PartitionDescription(NamedTuple):
    """A row of DescribeMirrors; -1 is unknown.

    `last_lag` is the last known lag, whether or not `lag` is known.
    """

    topic: str
    partition: int
    source_offset: int
    destination_offset: int
    lag: int
    state: MirrorPartitionState
    last_mirror_epoch: int
    reason: str | None
    last_lag: PartitionLag = NEVER_KNOWN


def lag_of(driver: MirrorPartition, fetchers: MirrorFetcherManager, now_ms: int) -> PartitionLag:
    """The partition's lag at `now_ms` (monotonic clock)."""
    status, progress, log = driver.status, driver.progress, driver.partition.log
    if progress.source_offset < 0 or log is None:
        return NEVER_KNOWN
    records = max(0, progress.source_offset - log.log_end_offset)
    as_of_ms = fetchers.known_as_of_ms(driver)
    age_ms = max(0, now_ms - as_of_ms) if as_of_ms >= 0 else -1
    if status.state in (_S.STOPPING, _S.STOPPED):
        return PartitionLag(records, age_ms, True)
    is_known = 0 <= age_ms <= LAG_KNOWN_FOR_MS
    if status.state is _S.MIRRORING:
        is_known = is_known and status.reason is None and fetchers.owns(driver.id.topic_partition)
    return PartitionLag(records, age_ms, is_known)


def described(driver: MirrorPartition, fetchers: MirrorFetcherManager, now_ms: int) -> PartitionDescription:
    """The row of a partition whose state is loaded."""
    status, log = driver.status, driver.partition.log
    lag = lag_of(driver, fetchers, now_ms)
    return PartitionDescription(
        driver.id.topic,
        driver.id.partition,
        driver.progress.source_offset,
        -1 if log is None else log.log_end_offset,
        lag.records if lag.is_known else -1,
        status.state,
        status.last_mirror_epoch,
        _reason(driver, fetchers),
        lag,
    )


def _reason(driver: MirrorPartition, fetchers: MirrorFetcherManager) -> str | None:
    pair = (driver.status.state, driver.led.wanted)
    wait = fetchers.wait_of(driver) if driver.status.state in (_S.PREPARING, _S.MIRRORING) else None
    reason = driver.status.reason or wait or STATE_REASONS.get(pair)
    remedy = REMEDIES.get(pair)
    is_told = reason is None or remedy is None or reason.endswith(WHAT_TO_DO)
    return reason if is_told else f"{reason}; {remedy}"
