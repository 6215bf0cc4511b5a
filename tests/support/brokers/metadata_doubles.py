"""A controller's managers without log and loop: decisions are replayed into the image at once.

Not for tests of durability or timing.
"""

from __future__ import annotations

from typing import Any

from kmirror.common.errors import Errors
from kmirror.common.uuid import Uuid
from kmirror.controller.broker_heartbeat_manager import BrokerHeartbeatManager
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.configuration_control_manager import ConfigurationControlManager
from kmirror.controller.controller_config import ControllerConfig
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.feature_control_manager import FeatureControlManager
from kmirror.controller.mirror_control_manager import MirrorControlManager
from kmirror.controller.producer_id_control_manager import ProducerIdControlManager
from kmirror.controller.replication_control_manager import ReplicationControlManager
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.features import supported_features
from kmirror.metadata.image import MetadataProvenance, TopicImage
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.wire.messages import alter_partition as ap
from kmirror.wire.messages import broker_registration as br
from kmirror.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kmirror.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.records import read_metadata_record, write_metadata_record
from support.logs.storage_doubles import ManualClock, SeededRandom

CLUSTER_ID = "test-cluster"


class ScriptedClock:
    """Returns the times it was made with, one after the other; fails when there are no more."""

    def __init__(self, *times_ms: int) -> None:
        self._times_ms = list(times_ms)

    def time_ms(self) -> int:
        return self._times_ms.pop(0)

    def monotonic_ms(self) -> int:
        return self.time_ms()

    def monotonic_ns(self) -> int:
        return self.time_ms() * 1_000_000


class ControllerDouble:
    """`run` takes the effect of a decision and gives its response; every record goes through its
    bytes first.
    """

    def __init__(self, *, mirroring: bool = False, levels: dict[str, int] | None = None, **config: Any) -> None:
        self.clock = ManualClock()
        settings = ControllerConfig(
            node_id=0, cluster_id=CLUSTER_ID, metadata_log_dir="", unstable_feature_versions_enable=mirroring, **config
        )
        heartbeats = BrokerHeartbeatManager(settings.broker_session_timeout_ms)
        self.state = ControllerState(settings, self.clock, SeededRandom(7), heartbeats)
        self.cluster = ClusterControlManager(self.state)
        self.configuration = ConfigurationControlManager(self.state)
        self.replication = ReplicationControlManager(self.state, self.cluster, self.configuration)
        self.features = FeatureControlManager(self.state, self.configuration)
        self.producer_ids = ProducerIdControlManager(self.state, self.cluster)
        self.mirrors = MirrorControlManager(self.state, self.configuration, self.replication)
        self.records: list[Any] = []
        chosen = {"metadata.version": 30} | (levels or {}) | ({"mirror.version": 1} if mirroring else {})
        self._replay([FeatureLevelRecord(name=name, feature_level=level) for name, level in chosen.items()])

    def run(self, result: ControllerResult[Any]) -> Any:
        decoded = [read_metadata_record(write_metadata_record(record.message, record.version)) for record in result.records]
        self._replay(decoded)
        return result.response

    def _replay(self, records: list[Any]) -> None:
        delta = MetadataDelta(self.state.image)
        for record in records:
            delta.replay(record)
        self.records = records
        self.state.log_end_offset += len(records)
        self.state.name_collisions.on_metadata_update(delta, self.state.image, None)
        self.state.lookups.on_metadata_update(delta, self.state.image, None)
        self.state.image = delta.apply(MetadataProvenance(self.state.log_end_offset - 1, 1, self.clock.time_ms()))

    def register(
        self, broker_id: int, *, rack: str | None = None, incarnation: int = 1, previous_epoch: int = -1, directory: Uuid | None = None
    ) -> int:
        """Register a broker with one directory; its epoch."""
        request = br.BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(broker_id.to_bytes(8, "big") + incarnation.to_bytes(8, "big")),
            rack=rack,
            log_dirs=[directory or directory_of(broker_id)],
            previous_broker_epoch=previous_epoch,
            features=[
                br.Feature(name=name, min_supported_version=levels.min, max_supported_version=levels.max)
                for name, levels in supported_features(unstable=True).items()
            ],
            listeners=[br.Listener(name="PLAINTEXT", host="localhost", port=9092 + broker_id)],
        )
        epoch: int = self.run(self.cluster.register_broker(request)).broker_epoch
        return epoch

    def heartbeat(
        self, broker_id: int, *, want_fence: bool = False, want_shut_down: bool = False, offset: int | None = None
    ) -> BrokerHeartbeatResponse:
        registration = self.state.image.cluster.brokers[broker_id]
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=registration.epoch,
            current_metadata_offset=self.state.log_end_offset - 1 if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        response: BrokerHeartbeatResponse = self.run(self.cluster.heartbeat(request))
        return response

    def start_brokers(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.register(broker_id)
            assert not self.heartbeat(broker_id).is_fenced

    def create_topic(self, name: str, replicas: list[list[int]] | None = None, configs: dict[str, str] | None = None) -> TopicImage:
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        topic.assignments = [CreatableReplicaAssignment(partition_index=i, broker_ids=r) for i, r in enumerate(replicas or [])]
        topic.configs = [CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()]
        result = self.run(self.replication.create_topics(CreateTopicsRequest(topics=[topic]))).topics[0]
        assert result.error_code == 0, result
        return self.state.image.topics.by_name[name]

    def alter_isr(self, topic: str, isr: list[int], partition: int = 0) -> Errors:
        """The present leader asks for `isr` in the present epochs."""
        present = self.partition(topic, partition)
        brokers = self.state.image.cluster.brokers
        data = ap.AlterPartitionRequestPartitionData(
            partition_index=partition,
            leader_epoch=present.leader_epoch,
            partition_epoch=present.partition_epoch,
            new_isr_with_epochs=[ap.BrokerState(broker_id=replica, broker_epoch=brokers[replica].epoch) for replica in isr],
        )
        topic_data = ap.AlterPartitionRequestTopicData(topic_id=self.state.image.topics.by_name[topic].id, partitions=[data])
        request = ap.AlterPartitionRequest(broker_id=present.leader, broker_epoch=brokers[present.leader].epoch, topics=[topic_data])
        result = self.run(self.replication.reports.alter_partition(request, 3)).topics[0].partitions[0]
        return Errors(result.error_code)

    def partition(self, topic: str, partition: int = 0) -> PartitionRegistration:
        return self.state.image.topics.by_name[topic].partitions[partition]


def directory_of(broker_id: int) -> Uuid:
    return Uuid(b"directory" + broker_id.to_bytes(7, "big"))
