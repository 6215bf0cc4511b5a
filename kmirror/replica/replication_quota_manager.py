"""Throttles of replication (Kafka's `ReplicationQuotaManager`; KIP-73): a rate, and the partitions
that it applies to.

A broker has four of them: what it sends to followers, what it fetches from leaders, what it moves
between log directories, and what it mirrors from other clusters (KIP-1279).

    rates       leader.replication.throttled.rate, follower.replication.throttled.rate, mirror.replication.throttled.rate,
                replica.alter.log.dirs.io.max.bytes.per.second: dynamic broker configs, bytes a second
    partitions  {leader,follower,mirror}.replication.throttled.replicas: topic configs,
                `*` or a list of partition:broker, of which those with this broker's id count

Only replicas that are not in sync are held back, so a throttle never pushes a replica out of the
ISR; what in-sync replicas transfer of throttled partitions counts too. Mirrors have no ISR with
their source, so all their throttled partitions are held back. Nothing is delayed: a leader answers
a throttled partition without records, a follower leaves it out of its request, until the rate (over
`window_count` windows) is below the bound again.
"""

from __future__ import annotations

import math

from kmirror.common.metrics import MetricsRegistry, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sensors import MetricConfig, Rate, Sensor
from kmirror.common.topic_partition import TopicPartition

UNLIMITED = (1 << 63) - 1
ALL_PARTITIONS = "*"
LEADER_RATE_CONFIG = "leader.replication.throttled.rate"
FOLLOWER_RATE_CONFIG = "follower.replication.throttled.rate"
MIRROR_RATE_CONFIG = "mirror.replication.throttled.rate"
MIRROR_REPLICAS_CONFIG = "mirror.replication.throttled.replicas"
ALTER_LOG_DIRS_RATE_CONFIG = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS_CONFIG = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS_CONFIG = "follower.replication.throttled.replicas"


class SimpleRate(Rate):
    """A rate over the time since the oldest window began, but at least one window: windows that
    have not begun give no credit.
    """

    def window_size_ms(self, config: MetricConfig, now_ms: int) -> int:
        self._stat.purge(config, now_ms)
        return max(now_ms - self._stat.oldest_start_ms(now_ms), config.time_window_ms)

    def ahead_ms(self, config: MetricConfig, now_ms: int, bound: float) -> int:
        """By how many ms the recorded amount is ahead of `bound` a second; 0 if it is not. The
        first window gives no credit here either.
        """
        total = self._stat.measure(config, now_ms)
        return max(0, math.ceil(total * 1000 / bound) - (now_ms - self._stat.oldest_start_ms(now_ms)))


class ReplicationQuotaManager:
    """Owns one throttle: its rate, and the throttled partitions by topic. `kind` is the name of the
    metric's type: LeaderReplication, FollowerReplication, AlterLogDirsReplication,
    MirrorReplication.
    """

    def __init__(self, kind: str, metrics: MetricsRegistry, clock: Clock, *, window_count: int, window_size_seconds: int) -> None:
        self._clock = clock
        self._config = MetricConfig(time_window_ms=window_size_seconds * 1000, samples=window_count)
        self._sensor = Sensor(metrics, clock)
        self._rate = SimpleRate()
        self._sensor.add(sensor_metric(kind, "byte-rate"), self._rate, self._config)
        self._throttled: dict[str, frozenset[int] | None] = {}

    @property
    def upper_bound(self) -> int:
        return UNLIMITED if self._config.quota is None else int(self._config.quota)

    def update_quota(self, bytes_per_second: int) -> None:
        """Sets the rate from now on; `UNLIMITED` ends the throttling."""
        self._config.quota = None if bytes_per_second >= UNLIMITED else float(bytes_per_second)

    def begin_anew(self) -> None:
        """Forgets what was transferred, so that a new bound starts without credit or debt from
        before.
        """
        self._rate.clear()

    def update_throttled_replicas(self, topic: str, value: str | None, broker_id: int) -> None:
        """The topic config changed: `*`, a list of partition:broker, or nothing."""
        text = (value or "").strip()
        if not text:
            self._throttled.pop(topic, None)
        elif text == ALL_PARTITIONS:
            self._throttled[topic] = None
        else:
            pairs = [entry.strip().split(":") for entry in text.split(",")]
            self._throttled[topic] = frozenset(int(partition) for partition, broker in pairs if int(broker) == broker_id)

    def is_throttled(self, topic_partition: TopicPartition) -> bool:
        """Whether the rate applies to this partition."""
        if topic_partition.topic not in self._throttled:
            return False
        partitions = self._throttled[topic_partition.topic]
        return partitions is None or topic_partition.partition in partitions

    def has_throttle(self, topic: str) -> bool:
        """Whether the topic names throttled replicas, of this broker or of others."""
        return topic in self._throttled

    @property
    def is_unused(self) -> bool:
        """Whether no partition is throttled."""
        return not self._throttled

    @property
    def is_quota_exceeded(self) -> bool:
        return self._config.quota is not None and self._sensor.check_quotas(self._clock.monotonic_ms()) is not None

    def must_wait(self, topic_partition: TopicPartition) -> bool:
        """Whether a replica of this partition that is not in sync has to wait now."""
        return bool(self._throttled) and self.is_throttled(topic_partition) and self.is_quota_exceeded

    def pause_ms(self) -> int:
        """How long to transfer nothing until the rate is down to the bound, at most one window; 0
        if it is below.
        """
        bound = self._config.quota
        if bound is None:
            return 0
        if bound <= 0:
            return self._config.time_window_ms
        return min(self._config.time_window_ms, self.debt_ms())

    def debt_ms(self) -> int:
        """By how many ms what was transferred is ahead of the bound; 0 if it is not."""
        bound = self._config.quota
        return 0 if not bound else self._rate.ahead_ms(self._config, self._clock.monotonic_ms(), bound)

    def record(self, size_in_bytes: int) -> None:
        """Records bytes that were transferred of throttled partitions."""
        self._sensor.record(size_in_bytes)


class ReplicationQuotaManagers:
    """Owns the four throttles of a broker."""

    def __init__(
        self,
        metrics: MetricsRegistry,
        clock: Clock,
        *,
        window_count: int = 11,
        window_size_seconds: int = 1,
        alter_log_dirs_window_count: int = 11,
        alter_log_dirs_window_size_seconds: int = 1,
    ) -> None:
        def manager(kind: str, count: int, seconds: int) -> ReplicationQuotaManager:
            return ReplicationQuotaManager(kind, metrics, clock, window_count=count, window_size_seconds=seconds)

        self.leader = manager("LeaderReplication", window_count, window_size_seconds)
        self.follower = manager("FollowerReplication", window_count, window_size_seconds)
        self.mirror = manager("MirrorReplication", window_count, window_size_seconds)
        self.alter_log_dirs = manager("AlterLogDirsReplication", alter_log_dirs_window_count, alter_log_dirs_window_size_seconds)

    def update_rates(self, broker_configs: dict[str, str]) -> None:
        """Takes the rates from the broker's dynamic configs, its own over the cluster's."""
        for quota, name in (
            (self.leader, LEADER_RATE_CONFIG),
            (self.follower, FOLLOWER_RATE_CONFIG),
            (self.mirror, MIRROR_RATE_CONFIG),
            (self.alter_log_dirs, ALTER_LOG_DIRS_RATE_CONFIG),
        ):
            bound = int(broker_configs.get(name, UNLIMITED))
            if quota is self.mirror and bound != quota.upper_bound:
                quota.begin_anew()
            quota.update_quota(bound)

    def update_topic(self, topic: str, topic_configs: dict[str, str], broker_id: int) -> None:
        """Takes the throttled replicas from a topic's own configs."""
        self.leader.update_throttled_replicas(topic, topic_configs.get(LEADER_REPLICAS_CONFIG), broker_id)
        self.follower.update_throttled_replicas(topic, topic_configs.get(FOLLOWER_REPLICAS_CONFIG), broker_id)
        self.mirror.update_throttled_replicas(topic, topic_configs.get(MIRROR_REPLICAS_CONFIG), broker_id)
