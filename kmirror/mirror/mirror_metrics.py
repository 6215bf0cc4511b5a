"""The MBeans of mirroring on one broker (E7 of the KIP decisions), computed when they are read.

    kafka.server.mirror:type=MirrorFetcherManager     MaxLag, MaxLagAgeMs, MinFetchRate, DeadThreadCount, FailedPartitionsCount
                                                      (clientId=MirrorReplica)
    kafka.server.mirror:type=MirrorMetadataManager    partitions led here by state; errors of the metadata syncs
    kafka.server:type=FetcherLagMetrics,name=ConsumerLag           of each partition that is being mirrored; ConsumerLagAgeMs beside it
    kafka.server:type=FetcherStats,name={BytesPerSec,RequestsPerSec}   of each fetcher
    kafka.server:type=mirror-broker-D-fetcher-F-mirror-M-metrics   the connection of each fetcher

Ours, by mirror, state and partition (`led_partition_readings`):

    kmirror:type=Mirror,name=PartitionCount,mirror=M,state=S            FailingPartitionCount and UnknownLagCount without a state
    kmirror:type=MirrorPartition,name=State,mirror=M,topic=T,partition=P,state=S     Lag and LagAgeMs without a state

`kafka.server:type=MirrorReplication`, the bytes a second of throttled partitions, is registered by
the throttle itself.

One collector yields all of them: nothing is registered for a single partition or fetcher, so
nothing has to be removed when one ends. Counters are updated once a fetch (`FetcherStats`,
`ClientMetrics`), never once a record. A partition counts as failing while it is FAILED, and while
it has a reason why it cannot go on (a source that does not answer, a step that is retried).

A lag that is not known now is shown as it was last known, with its age beside it: while the source
is down, MaxLag and ConsumerLag stand still and the ages grow. -1 means that a lag, or its age, was
never known. The MBeans that are ours have no such number: Lag is absent while it is not known,
LagAgeMs while no lag was ever known, and UnknownLagCount counts the partitions of which it is not
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from kmirror.common.metrics import MetricName, MetricsRegistry, Value, sensor_metric
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetcher_stats import FetcherStats
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.partition.partition_description import MirroredPartitionLag, PartitionLag
from kmirror.mirror.source.source_cluster import SourceNode
from kmirror.network.client_metrics import ClientMetrics

Reading = tuple[MetricName, Value]
MIRROR_GROUP = "kafka.server.mirror"
OWN_GROUP = "kmirror"
FETCHER_MANAGER = "MirrorFetcherManager"
METADATA_MANAGER = "MirrorMetadataManager"
CLIENT_ID_TAG = (("clientId", "MirrorReplica"),)

STATE_GAUGES = {
    MirrorPartitionState.FAILED: "FailedPartitionState",
    MirrorPartitionState.STOPPED: "StoppedPartitionState",
    MirrorPartitionState.STOPPING: "StoppingPartitionState",
    MirrorPartitionState.MIRRORING: "MirroringPartitionState",
    MirrorPartitionState.PREPARING: "PreparingPartitionState",
    MirrorPartitionState.PAUSING: "PausingPartitionState",
    MirrorPartitionState.PAUSED: "PausedPartitionState",
}


class FetcherKeyView(Protocol):
    """Which fetcher: its number, its source broker (with id, host and port), its mirror."""

    @property
    def fetcher_id(self) -> int: ...
    @property
    def mirror_name(self) -> str: ...
    @property
    def source_broker(self) -> SourceNode: ...


class RunningFetcherView(Protocol):
    """What is shown of a fetcher that exists."""

    @property
    def key(self) -> FetcherKeyView: ...
    @property
    def fetcher(self) -> FetcherView: ...
    @property
    def is_dead(self) -> bool:
        """Whether its task ended though nobody ended it."""
        ...


class FetcherView(Protocol):
    """The fetcher itself."""

    name: str
    stats: FetcherStats

    @property
    def client_metrics(self) -> ClientMetrics: ...


class PartitionView(Protocol):
    """What is shown of a partition that this broker leads."""

    @property
    def state(self) -> MirrorPartitionState: ...
    @property
    def reason(self) -> str | None: ...


class SyncErrorsView(Protocol):
    """How many steps of the metadata syncs have failed so far."""

    @property
    def metadata_refresh(self) -> int: ...
    @property
    def topic_config(self) -> int: ...
    @property
    def group_offset(self) -> int: ...
    @property
    def acl(self) -> int: ...


def fetcher_readings(broker_id: int, fetchers: Iterable[RunningFetcherView]) -> Iterator[Reading]:
    """The metrics of fetchers: MinFetchRate (MET2), DeadThreadCount (MET4), bytes and requests a
    second (MET6, MET7), and those of each connection (MET11).
    """
    rates, dead = list[float](), 0
    for running in fetchers:
        key, fetcher = running.key, running.fetcher
        client_tag = ("clientId", fetcher.name)
        source = key.source_broker
        stats_tags = (client_tag, ("brokerHost", source.host), ("brokerPort", str(source.port)), ("mirror-name", key.mirror_name))
        for name, meter in (("BytesPerSec", fetcher.stats.bytes_rate), ("RequestsPerSec", fetcher.stats.request_rate)):
            for attribute, value in meter.attributes().items():
                yield MetricName("kafka.server", "FetcherStats", name, stats_tags, attribute), value
        group_type = f"mirror-broker-{broker_id}-fetcher-{key.fetcher_id}-mirror-{key.mirror_name}-metrics"
        connection_tags = (("broker-id", str(source.id)), ("fetcher-id", str(key.fetcher_id)))
        for attribute, value in fetcher.client_metrics.readings():
            yield sensor_metric(group_type, attribute, connection_tags), value
        rates.append(fetcher.stats.request_rate.one_minute_rate())
        dead += running.is_dead
    yield MetricName(MIRROR_GROUP, FETCHER_MANAGER, "MinFetchRate", CLIENT_ID_TAG), min(rates, default=0.0)
    yield MetricName(MIRROR_GROUP, FETCHER_MANAGER, "DeadThreadCount", CLIENT_ID_TAG), dead


def lag_readings(lags: Iterable[MirroredPartitionLag]) -> Iterator[Reading]:
    """MaxLag (MET1) and ConsumerLag (MET3), and the ages of both.

    Both maxima are 0 if nothing is mirrored. MaxLag is -1 if no lag was ever known. MaxLagAgeMs is
    the age of the oldest known lag, or -1 if none is known. A partition whose lag was never known
    does not count: it would hide an unreachable source from all others.
    """
    greatest: int | None = None
    oldest_ms: int | None = None
    for topic_partition, fetcher_name, lag in lags:
        greatest = lag.records if greatest is None else max(greatest, lag.records)
        oldest_ms = lag.age_ms if oldest_ms is None else max(oldest_ms, lag.age_ms)
        if fetcher_name is None:
            continue
        tags = (("clientId", fetcher_name), ("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
        yield MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLag", tags), lag.records
        yield MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLagAgeMs", tags), lag.age_ms
    yield MetricName(MIRROR_GROUP, FETCHER_MANAGER, "MaxLag", CLIENT_ID_TAG), 0 if greatest is None else greatest
    yield MetricName(MIRROR_GROUP, FETCHER_MANAGER, "MaxLagAgeMs", CLIENT_ID_TAG), 0 if oldest_ms is None else oldest_ms


def partition_readings(partitions: Iterable[PartitionView]) -> Iterator[Reading]:
    """FailedPartitionsCount (MET5) and the number of partitions in each state (MET17 to MET23), in
    one pass.
    """
    states: Counter[MirrorPartitionState] = Counter()
    failing = 0
    for partition in partitions:
        states[partition.state] += 1
        failing += partition.reason is not None or partition.state is MirrorPartitionState.FAILED
    yield MetricName(MIRROR_GROUP, FETCHER_MANAGER, "FailedPartitionsCount", CLIENT_ID_TAG), failing
    for state, name in STATE_GAUGES.items():
        yield MetricName(MIRROR_GROUP, METADATA_MANAGER, name), states[state]


class LedPartition(NamedTuple):
    """A mirror's partition that this broker leads."""

    mirror_name: str
    topic_partition: TopicPartition
    state: MirrorPartitionState
    is_failing: bool
    lag: PartitionLag


def led_partition_readings(partitions: Iterable[LedPartition]) -> Iterator[Reading]:
    """What our own MBeans say of mirrors and of their partitions.

    A partition that is stopped, or about to be, has no lag: its log is its own.
    """
    states: dict[str, Counter[MirrorPartitionState]] = {}
    failing, unknown = Counter[str](), Counter[str]()
    for mirror_name, topic_partition, state, is_failing, lag in partitions:
        states.setdefault(mirror_name, Counter())[state] += 1
        failing[mirror_name] += is_failing
        tags = (("mirror", mirror_name), ("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
        yield MetricName(OWN_GROUP, "MirrorPartition", "State", (*tags, ("state", state.name))), 1
        if state in (MirrorPartitionState.STOPPING, MirrorPartitionState.STOPPED):
            continue
        unknown[mirror_name] += not lag.is_known
        if lag.is_known:
            yield MetricName(OWN_GROUP, "MirrorPartition", "Lag", tags), lag.records
        if lag.age_ms >= 0:
            yield MetricName(OWN_GROUP, "MirrorPartition", "LagAgeMs", tags), lag.age_ms
    for mirror_name, counts in states.items():
        tag = ("mirror", mirror_name)
        for state in MirrorPartitionState:
            yield MetricName(OWN_GROUP, "Mirror", "PartitionCount", (tag, ("state", state.name))), counts[state]
        yield MetricName(OWN_GROUP, "Mirror", "FailingPartitionCount", (tag,)), failing[mirror_name]
        yield MetricName(OWN_GROUP, "Mirror", "UnknownLagCount", (tag,)), unknown[mirror_name]


def sync_readings(errors: SyncErrorsView) -> Iterator[Reading]:
    """The error counters of the metadata syncs (MET12 to MET15)."""
    for name, value in (
        ("MetadataRefreshError", errors.metadata_refresh),
        ("TopicConfigMetadataSyncError", errors.topic_config),
        ("ConsumerGroupOffsetSyncError", errors.group_offset),
        ("AclSyncError", errors.acl),
    ):
        yield MetricName(MIRROR_GROUP, METADATA_MANAGER, name), value


def register_mirror_metrics(
    registry: MetricsRegistry,
    broker_id: int,
    *,
    is_enabled: Callable[[], bool],
    fetchers: Callable[[], Iterable[RunningFetcherView]],
    lags: Callable[[], Iterable[MirroredPartitionLag]],
    partitions: Callable[[], Iterable[PartitionView]],
    led_partitions: Callable[[], Iterable[LedPartition]],
    sync_errors: SyncErrorsView,
) -> None:
    """Registers one collector for all of them in `registry`; it yields nothing while mirroring is
    off.
    """

    def collect() -> Iterator[Reading]:
        if not is_enabled():
            return
        yield from fetcher_readings(broker_id, fetchers())
        yield from lag_readings(lags())
        yield from partition_readings(partitions())
        yield from led_partition_readings(led_partitions())
        yield from sync_readings(sync_errors)

    registry.add_collector(collect)
