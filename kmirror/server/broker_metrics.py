"""Metrics about a broker's state, computed when somebody reads them: partitions, logs, listeners,
fetchers, metadata, coordinators.

The readings are collectors: nothing is registered for a partition or a log, and nothing is counted
while the broker works. Names and meanings are Kafka's; a partition that this broker does not lead
reads 0 where Kafka has 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from kmirror.common.metrics import MetricName, MetricsRegistry, Value, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import CumulativeSum, MetricConfig, Rate
from kmirror.metadata.features import supported_features
from kmirror.metadata.image import METADATA_VERSION_FEATURE, MetadataImage
from kmirror.network.socket_server import SocketServer
from kmirror.replica.alter_log_dirs import ReplicaAlterLogDirs
from kmirror.replica.replica_fetcher_manager import ReplicaFetcherManager
from kmirror.replica.replica_manager import ReplicaManager
from kmirror.storage.log_cleaner import LogCleaner
from kmirror.storage.log_manager import LogManager

Reading = tuple[MetricName, Value]
KAFKA_VERSION = "4.3.0"
UNEXPECTED_FAILURES = MetricName("kmirror", "Runtime", "UnexpectedFailureCount")
"""Failures that nobody awaited (a task that ended, a partition that failed).

Each is logged once, with its reason. Kafka has no such metric.
"""
EXPIRED_KILLED = "expired-connections-killed-count"
_RAW_SOCKET_COUNTERS = {
    "connection-creation": "connections_created",
    "connection-close": "connections_closed",
    "request": "requests",
    "response": "responses",
    "incoming-byte": "incoming_bytes",
    "outgoing-byte": "outgoing_bytes",
}


def partition_readings(replica_manager: ReplicaManager) -> Iterator[Reading]:
    """Reads `kafka.cluster:type=Partition` for every partition of this broker."""
    for topic_partition, partition in list(replica_manager.partitions.items()):
        tags = (("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
        leads = partition.is_leader
        log = partition.log
        values: dict[str, int] = {
            "UnderReplicated": partition.is_under_replicated,
            "UnderMinIsr": partition.is_under_min_isr,
            "AtMinIsr": partition.is_at_min_isr,
            "InSyncReplicasCount": len(partition.in_sync_replicas) if leads else 0,
            "ReplicasCount": len(partition.assigned_replicas) if leads else 0,
            "LastStableOffsetLag": 0 if log is None else log.high_watermark - log.last_stable_offset,
        }
        for name, value in values.items():
            yield MetricName("kafka.cluster", "Partition", name, tags), int(value)


def log_readings(log_manager: LogManager) -> Iterator[Reading]:
    """Reads `kafka.log:type=Log` for every log, and the state of the log directories."""
    for log in log_manager.current_logs():
        topic_partition = log.topic_partition
        tags = (("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
        retention = log.config.retention_size
        values = {
            "LogEndOffset": log.log_end_offset,
            "LogStartOffset": log.log_start_offset,
            "NumLogSegments": log.segments.number_of_segments,
            "Size": log.size,
            "RetentionSizeInPercent": log.size * 100 // retention if retention > 0 else 0,
        }
        for name, value in values.items():
            yield MetricName("kafka.log", "Log", name, tags), value
    for log_dir in (*log_manager.live_log_dirs, *log_manager.offline_log_dirs):
        dir_tags = (("logDirectory", f'"{log_dir}"'),)
        yield MetricName("kafka.log", "LogManager", "LogDirectoryOffline", dir_tags), int(not log_manager.is_log_dir_online(log_dir))
    yield MetricName("kafka.log", "LogManager", "OfflineLogDirectoryCount"), len(log_manager.offline_log_dirs)


def producer_readings(log_manager: LogManager, clock: Clock) -> Iterator[Reading]:
    """Reads the number of remembered producers, and partitions with a transaction that is
    overdue.
    """
    logs, now_ms = log_manager.current_logs(), clock.time_ms()
    yield MetricName("kafka.server", "ReplicaManager", "ProducerIdCount"), sum(log.producer_state_manager.producer_id_count for log in logs)
    late = sum(log.producer_state_manager.has_late_transaction(now_ms) for log in logs)
    yield MetricName("kafka.server", "ReplicaManager", "PartitionsWithLateTransactionsCount"), late


def flush_listener(registry: MetricsRegistry) -> Callable[[int], None]:
    """Returns the function that logs call after a flush, with its duration in nanoseconds.

    Workers call it, too; if two flushes end at the same time, one may not be counted.
    """
    timer = registry.timer(MetricName("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs"))
    return lambda duration_ns: timer.update(duration_ns / 1_000_000)


def metadata_batch_listener(registry: MetricsRegistry) -> Callable[[int, int], None]:
    """Returns the function that the metadata fetcher calls after it has loaded a batch.

    Its arguments are the number of records that took effect together and the time in nanoseconds.
    """
    sizes = registry.histogram(MetricName("kafka.server", "BrokerMetadataListener", "MetadataBatchSizes"))
    times = registry.histogram(MetricName("kafka.server", "BrokerMetadataListener", "MetadataBatchProcessingTimeUs"))

    def on_batch(records: int, duration_ns: int) -> None:
        sizes.update(records)
        times.update(duration_ns / 1_000)

    return on_batch


def cleaner_readings(cleaner: LogCleaner, log_manager: LogManager, clock: Clock) -> Iterator[Reading]:
    """Reads `kafka.log:type=LogCleaner` and `LogCleanerManager`, for the last pass."""
    stats, uncleanable = cleaner.last_stats, cleaner.manager.uncleanable_partitions()
    recopied = 100 * stats.bytes_written // stats.bytes_read if stats.bytes_read else 0
    yield MetricName("kafka.log", "LogCleaner", "cleaner-recopy-percent"), recopied
    yield MetricName("kafka.log", "LogCleaner", "DeadThreadCount"), cleaner.dead_threads()
    yield MetricName("kafka.log", "LogCleaner", "max-buffer-utilization-percent"), int(100 * stats.buffer_utilization)
    yield MetricName("kafka.log", "LogCleaner", "max-clean-time-secs"), cleaner.last_clean_time_ms // 1_000
    yield MetricName("kafka.log", "LogCleaner", "max-compaction-delay-secs"), cleaner.last_max_compaction_delay_ms // 1_000
    since_ms = 0 if cleaner.last_run_ms is None else clock.monotonic_ms() - cleaner.last_run_ms
    yield MetricName("kafka.log", "LogCleanerManager", "time-since-last-run-ms"), since_ms
    yield MetricName("kafka.log", "LogCleanerManager", "max-dirty-percent"), int(100 * cleaner.manager.dirtiest_log_cleanable_ratio)
    for log_dir in log_manager.live_log_dirs:
        logs = log_manager.logs_in_dir(log_dir)
        count = sum(topic_partition in uncleanable for topic_partition in logs)
        tags = (("logDirectory", f'"{log_dir}"'),)
        yield MetricName("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", tags), count
        dirty_bytes = cleaner.manager.uncleanable_bytes(log_dir, clock.time_ms())
        yield MetricName("kafka.log", "LogCleanerManager", "uncleanable-bytes", tags), dirty_bytes


def move_readings(moves: ReplicaAlterLogDirs) -> Iterator[Reading]:
    """Reads `kafka.server:type=ReplicaAlterLogDirsManager`."""
    tags = (("clientId", "ReplicaAlterLogDirs"),)
    yield MetricName("kafka.server", "ReplicaAlterLogDirsManager", "MaxLag", tags), max(moves.lags(), default=0)
    yield MetricName("kafka.server", "ReplicaAlterLogDirsManager", "FailedPartitionsCount", tags), len(moves.failed)
    yield MetricName("kafka.server", "ReplicaAlterLogDirsManager", "DeadThreadCount", tags), moves.dead_fetcher_count


def fetcher_readings(fetchers: ReplicaFetcherManager) -> Iterator[Reading]:
    """Reads `kafka.server:type=ReplicaFetcherManager`, and the lag of every partition that is
    fetched (`FetcherLagMetrics`).
    """
    lags = fetchers.lags()
    tags = (("clientId", "Replica"),)
    yield MetricName("kafka.server", "ReplicaFetcherManager", "MaxLag", tags), max((lag for _, _, lag in lags), default=0)
    yield MetricName("kafka.server", "ReplicaFetcherManager", "FailedPartitionsCount", tags), fetchers.failed_partition_count
    yield MetricName("kafka.server", "ReplicaFetcherManager", "DeadThreadCount", tags), fetchers.dead_fetcher_count
    for fetcher, topic_partition, lag in lags:
        lag_tags = (("clientId", fetcher), ("topic", topic_partition.topic), ("partition", str(topic_partition.partition)))
        yield MetricName("kafka.server", "FetcherLagMetrics", "ConsumerLag", lag_tags), lag


class MetadataState(Protocol):
    """The source of `broker-metadata-metrics`."""

    @property
    def image(self) -> MetadataImage: ...


def metadata_readings(loader: MetadataState, clock: Clock, errors: Mapping[str, int], *, unstable: bool) -> Iterator[Reading]:
    """Reads the metadata of this node: the newest offset, errors by the names of their metrics, and
    the finalized and supported feature levels.
    """
    image = loader.image
    provenance = image.provenance
    lag_ms = max(0, clock.time_ms() - provenance.last_contained_log_time_ms) if provenance.last_contained_log_time_ms >= 0 else 0
    for name, value in (
        ("last-applied-record-offset", provenance.last_contained_offset),
        ("last-applied-record-timestamp", provenance.last_contained_log_time_ms),
        ("last-applied-record-lag-ms", lag_ms),
        *errors.items(),
        ("ignored-static-voters", 0),
    ):
        yield sensor_metric("broker-metadata-metrics", name), value
    yield MetricName("kafka.server", "MetadataLoader", "CurrentMetadataVersion"), image.features.metadata_version
    levels = {METADATA_VERSION_FEATURE: image.features.metadata_version, **image.features.finalized_levels}
    for feature, level in levels.items():
        yield MetricName("kafka.server", "MetadataLoader", "FinalizedLevel", (("featureName", _camel(feature)),)), level
    for feature, supported in supported_features(unstable=unstable).items():
        feature_tags = (("feature-name", feature.replace(".", "-")),)
        yield sensor_metric("node-metrics", "minimum-supported-level", feature_tags), supported.min
        yield sensor_metric("node-metrics", "maximum-supported-level", feature_tags), supported.max


def _camel(feature: str) -> str:
    first, *rest = feature.split(".")
    return first + "".join(part.capitalize() for part in rest)


class ListenerReadings:
    """Reads `kafka.server:type=socket-server-metrics` for one listener.

    Rates cover the last windows before the reading.
    """

    def __init__(self, socket: SocketServer, registry: MetricsRegistry) -> None:
        self._socket = socket
        self._registry = registry
        self._clock = registry.clock
        self._config = MetricConfig()
        self._rates = {name: Rate() for name in _RAW_SOCKET_COUNTERS}
        self._seen = {name: CumulativeSum() for name in _RAW_SOCKET_COUNTERS}

    def __call__(self) -> Iterator[Reading]:
        socket, stats = self._socket, self._socket.stats

        def named(attribute: str) -> MetricName:
            return _of_listener(socket, attribute)

        yield named("connection-count"), socket.connection_count
        if self._registry.get(named(EXPIRED_KILLED)) is None:
            yield named(EXPIRED_KILLED), 0
        for name, field in _RAW_SOCKET_COUNTERS.items():
            total: int = getattr(stats, field)
            yield named(f"{name}-total"), total
            yield named(f"{name}-rate"), self._rate(name, total)
        for (software, version), count in socket.clients().items():
            client_tags = (("clientSoftwareName", software), ("clientSoftwareVersion", version), *named("").tags)
            yield sensor_metric("socket-server-metrics", "connections", client_tags), count

    def _rate(self, name: str, total: int) -> float:
        now_ms = self._clock.monotonic_ms()
        seen, rate = self._seen[name], self._rates[name]
        new = total - seen.measure(self._config, now_ms)
        seen.record(self._config, new, now_ms)
        rate.record(self._config, new, now_ms)
        return rate.measure(self._config, now_ms)


def register_network(registry: MetricsRegistry, sockets: list[SocketServer]) -> None:
    """Registers the metrics of all listeners of one role."""
    for socket in sockets:
        registry.add_collector(ListenerReadings(socket, registry))


def register_replication(
    registry: MetricsRegistry, clock: Clock, replica_manager: ReplicaManager, log_manager: LogManager, fetchers: ReplicaFetcherManager
) -> None:
    """Registers partitions, their logs and producers, the fetchers, and moves between log
    directories.
    """
    registry.add_collector(lambda: partition_readings(replica_manager))
    registry.add_collector(lambda: log_readings(log_manager))
    registry.add_collector(lambda: producer_readings(log_manager, clock))
    registry.add_collector(lambda: fetcher_readings(fetchers))
    registry.add_collector(lambda: move_readings(replica_manager.alter_log_dirs))


def register_metadata(registry: MetricsRegistry, clock: Clock, loader: MetadataState, errors: Mapping[str, int], *, unstable: bool) -> None:
    registry.add_collector(lambda: metadata_readings(loader, clock, errors, unstable=unstable))


def register_cleaner(registry: MetricsRegistry, clock: Clock, log_manager: LogManager) -> None:
    """Registers the cleaner's metrics; does nothing if `log.cleaner.enable` is false."""
    cleaner = log_manager.cleaner
    if cleaner is not None:
        cleaner.throttler.on_observed = registry.meter(MetricName("kafka.utils", "Throttler", "cleaner-io")).mark
        registry.add_collector(lambda: cleaner_readings(cleaner, log_manager, clock))


def register_request_queues(registry: MetricsRegistry, sockets: list[SocketServer]) -> None:
    """Registers the queues of a broker's listeners, and the connections closed because their login
    expired.
    """
    queue_size = MetricName("kafka.network", "RequestChannel", "RequestQueueSize")
    registry.gauge(queue_size, lambda: sum(socket.waiting_requests for socket in sockets))
    expired = MetricName("kafka.network", "SocketServer", "ExpiredConnectionsKilledCount")
    registry.gauge(expired, lambda: expired_connections(registry, sockets))


def expired_connections(registry: MetricsRegistry, sockets: list[SocketServer]) -> float:
    """Returns how many connections were closed because the client did not log in again in time.

    Only listeners with logins count.
    """
    names = [_of_listener(socket, EXPIRED_KILLED) for socket in sockets]
    return sum(float(counted.value()) for counted in map(registry.get, names) if counted is not None)


def _of_listener(socket: SocketServer, attribute: str) -> MetricName:
    return sensor_metric("socket-server-metrics", attribute, (("listener", socket.listener_name), ("networkProcessor", "0")))


def register_node(registry: MetricsRegistry, node_id: int, cluster_id: str, roles: list[str]) -> None:
    """Registers what does not change while the node runs (`app-info`, cluster ids)."""
    started_ms = registry.clock.time_ms()
    facts: dict[str, Value] = {"version": KAFKA_VERSION, "commit-id": "kmirror", "start-time-ms": started_ms}
    for attribute, value in facts.items():
        registry.gauge(sensor_metric("app-info", attribute), _constant(value))
        registry.gauge(sensor_metric("app-info", attribute, (("client-id", str(node_id)),)), _constant(value))
    by_id: dict[str, Value] = {"Version": KAFKA_VERSION, "CommitId": "kmirror", "StartTimeMs": started_ms}
    for attribute, value in by_id.items():
        registry.gauge(sensor_metric("app-info", attribute, (("id", str(node_id)),)), _constant(value))
    for role in roles:
        kind = "KafkaServer" if role == "broker" else "ControllerServer"
        registry.gauge(MetricName("kafka.server", kind, "ClusterId"), _constant(cluster_id))
    registry.gauge(sensor_metric("kafka-metrics-count", "count"), lambda: len(registry))


def _constant(value: Value) -> Callable[[], Value]:
    return lambda: value
