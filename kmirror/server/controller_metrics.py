"""Metrics of the active controller (Kafka's `QuorumControllerMetrics`, `ControllerMetadataMetrics`,
`KafkaRaftMetrics`).

Counts of topics, partitions and brokers are taken from the newest image when somebody reads them.
Elections are counted as the metadata changes: a new leader that was in the ISR was elected cleanly,
one from the ELR is counted separately, and any other election is unclean.
"""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.metrics import MetricName, MetricsRegistry, Value, sensor_metric
from kmirror.common.ports import Clock
from kmirror.common.sentinels import NO_LEADER
from kmirror.controller.broker_heartbeat_manager import BrokerControlState
from kmirror.controller.quorum_controller import QuorumController
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.loader import LoaderManifest
from kmirror.metadata.registrations import PartitionRegistration

Reading = tuple[MetricName, Value]
_REGISTRATION_STATES = {BrokerControlState.FENCED: 10, BrokerControlState.UNFENCED: 30, BrokerControlState.CONTROLLED_SHUTDOWN: 20}


def _controller(name: str, *tags: tuple[str, str]) -> MetricName:
    return MetricName("kafka.controller", "KafkaController", name, tags)


class ControllerMetrics:
    """Owns the metrics of one controller: a collector and a `MetadataPublisher`."""

    name = "ControllerMetrics"

    def __init__(self, controller: QuorumController, registry: MetricsRegistry, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock
        self._unclean = registry.meter(MetricName("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec"))
        self._from_elr = registry.meter(MetricName("kafka.controller", "ControllerStats", "ElectionFromEligibleLeaderReplicasPerSec"))
        self._queue_time = registry.histogram(MetricName("kafka.controller", "ControllerEventManager", "EventQueueTimeMs"))
        self._processing_time = registry.histogram(MetricName("kafka.controller", "ControllerEventManager", "EventQueueProcessingTimeMs"))
        controller.on_event = self._on_event
        registry.add_collector(self.collect)

    def _on_event(self, queued_ms: int, processing_ns: int) -> None:
        self._queue_time.update(queued_ms)
        self._processing_time.update(processing_ns / 1_000_000)

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        for topic_id, change in delta.topics.changed.items():
            before = delta.image.topics.by_id.get(topic_id)
            if before is None:
                continue
            for number, after in change.partition_changes.items():
                previous = before.partitions.get(number)
                if previous is not None:
                    self._count_election(previous, after)

    def _count_election(self, before: PartitionRegistration, after: PartitionRegistration) -> None:
        if after.leader in (NO_LEADER, before.leader) or after.leader in before.isr:
            return
        (self._from_elr if after.leader in before.elr else self._unclean).mark()

    # --- readings
    # ---------------------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Reading]:
        if not self._controller.is_active:
            yield _controller("ActiveControllerCount"), 0
            return
        yield _controller("ActiveControllerCount"), 1
        yield from self._brokers()
        yield from self._topics()
        yield from self._log()

    def _brokers(self) -> Iterator[Reading]:
        controller = self._controller
        brokers = list(controller.image.cluster.brokers.values())
        yield _controller("ActiveBrokerCount"), sum(not broker.fenced for broker in brokers)
        yield _controller("FencedBrokerCount"), sum(broker.fenced for broker in brokers)
        yield _controller("ControlledShutdownBrokerCount"), sum(broker.in_controlled_shutdown for broker in brokers)
        now_ms = self._clock.monotonic_ms()
        for broker in list(controller.state.heartbeats.brokers.values()):
            tag = ("broker", str(broker.broker_id))
            state = controller.state.heartbeats.current_state(broker.broker_id)
            if broker.contacted:  # otherwise nobody knows: 0 would say that it was heard of just now
                yield _controller("TimeSinceLastHeartbeatReceivedMs", tag), now_ms - broker.last_contact_ms
            yield _controller("BrokerRegistrationState", tag), _REGISTRATION_STATES.get(state, 10)

    def _topics(self) -> Iterator[Reading]:
        topics = list(self._controller.image.topics.by_id.values())
        partitions = [partition for topic in topics for partition in topic.partitions.values()]
        yield _controller("GlobalTopicCount"), len(topics)
        yield _controller("GlobalPartitionCount"), len(partitions)
        yield _controller("OfflinePartitionsCount"), sum(partition.leader == NO_LEADER for partition in partitions)
        imbalanced = sum(bool(partition.replicas) and partition.leader != partition.replicas[0] for partition in partitions)
        yield _controller("PreferredReplicaImbalanceCount"), imbalanced

    def _log(self) -> Iterator[Reading]:
        controller = self._controller
        provenance = controller.image.provenance
        lag_ms = max(0, self._clock.time_ms() - provenance.last_contained_log_time_ms)
        yield _controller("LastAppliedRecordOffset"), provenance.last_contained_offset
        yield _controller("LastAppliedRecordTimestamp"), provenance.last_contained_log_time_ms
        yield _controller("LastAppliedRecordLagMs"), lag_ms
        yield _controller("LastCommittedRecordOffset"), controller.high_watermark - 1
        yield _controller("MetadataErrorCount"), controller.fault_count
        yield _controller("NewActiveControllersCount"), 1
        yield _controller("IgnoredStaticVoters"), 0
        yield _controller("TimedOutBrokerHeartbeatCount"), controller.periodic.timed_out_brokers
        yield _controller("EventQueueOperationsStartedCount"), controller.events_started
        yield _controller("EventQueueOperationsTimedOutCount"), 0
        node_id = controller.config.node_id
        raft: tuple[tuple[str, Value], ...] = (
            ("current-state", "leader"),
            ("current-leader", node_id),
            ("current-vote", node_id),
            ("current-epoch", controller.epoch),
            ("high-watermark", controller.high_watermark),
            ("log-end-offset", controller.log.log_end_offset),
            ("log-end-epoch", controller.image.provenance.last_contained_epoch),
            ("number-of-voters", 1),
            ("number-of-observers", len(controller.image.cluster.brokers)),
            ("uncommitted-voter-change", 0),
            ("number-unknown-voter-connections", 0),
        )
        for attribute, value in raft:
            yield sensor_metric("raft-metrics", attribute), value
        age_ms = self._clock.monotonic_ms() - controller.snapshots.generated_at_ms
        yield MetricName("kafka.server", "SnapshotEmitter", "LatestSnapshotGeneratedAgeMs"), age_ms
        yield MetricName("kafka.server", "SnapshotEmitter", "LatestSnapshotGeneratedBytes"), controller.snapshots.size_bytes
