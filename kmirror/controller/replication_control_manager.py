"""Topics and partitions: creation, deletion, growth (Kafka's `ReplicationControlManager`).

Its parts decide about partitions that exist: `partition_reassignments`, `replica_reports` (ISRs and
directories), `leader_elections`.
"""

from __future__ import annotations

from collections import Counter

from kmirror.common.config import to_text
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.cluster_control_manager import ClusterControlManager
from kmirror.controller.configuration_control_manager import ConfigurationControlManager
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.leader_elections import LeaderElections
from kmirror.controller.mirror_state_topic import (
    check_deletion,
    check_no_new_partitions,
    is_mirror_state_topic,
    new_topic_configs,
)
from kmirror.controller.mutation_quota import UNBOUNDED, ControllerMutationQuota
from kmirror.controller.partition_reassignments import PartitionReassignments
from kmirror.controller.replica_assignments import ReplicaAssignments
from kmirror.controller.replica_reports import ReplicaReports
from kmirror.metadata.image import RESOURCE_TOPIC, ConfigResource, TopicImage
from kmirror.metadata.mirror_names import association_of, validate_topic_name
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, inherited_topic_configs
from kmirror.wire.messages import create_topics as ct
from kmirror.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kmirror.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord

SOURCE_DYNAMIC_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
MAX_PARTITIONS_PER_BATCH = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class ReplicationControlManager:
    """Decides about topics and partitions. `reassignments`, `reports` and `elections` are called
    directly.
    """

    def __init__(self, state: ControllerState, cluster: ClusterControlManager, configuration: ConfigurationControlManager) -> None:
        self._state = state
        self._configuration = configuration
        self._assignments = ReplicaAssignments(state)
        self.reassignments = PartitionReassignments(state, lambda replicas: self._assignments.check_replicas(replicas, None))
        self.reports = ReplicaReports(state, cluster)
        self.elections = LeaderElections(state)

    # ---- creating topics

    def create_topics(
        self, request: ct.CreateTopicsRequest, *, quota: ControllerMutationQuota = UNBOUNDED
    ) -> ControllerResult[ct.CreateTopicsResponse]:
        """Returns one result per topic, and the records of those that succeed. Names given twice
        are refused, and so is the metadata topic."""
        self._check_total_number_of_partitions(request)
        counts = Counter(topic.name for topic in request.topics)
        ids = Counter(
            topic.mirror_info.topic_id for topic in request.topics if topic.mirror_info is not None and topic.mirror_info.topic_id
        )
        records: list[ApiMessageAndVersion] = []
        response = ct.CreateTopicsResponse()
        for name in [name for name, count in counts.items() if count > 1]:
            response.topics.append(_topic_error(name, Errors.INVALID_REQUEST, "Duplicate topic name."))
        for topic in request.topics:
            if counts[topic.name] > 1:
                continue
            if topic.mirror_info is not None and ids[topic.mirror_info.topic_id] > 1:
                response.topics.append(_topic_error(topic.name, Errors.INVALID_REQUEST, "Duplicate topic id."))
                continue
            try:
                topic_records, result = self.create_topic(topic, quota=quota)
                records += topic_records
                response.topics.append(result)
            except ApiException as error:
                response.topics.append(_topic_error(topic.name, error.error, _own_message(error)))
        return ControllerResult([] if request.validate_only else records, response)

    def _check_total_number_of_partitions(self, request: ct.CreateTopicsRequest) -> None:
        total = 0
        for topic in request.topics:
            if topic.assignments:
                total += len(topic.assignments)
            else:
                total += self._state.config.num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0)
        if total > MAX_PARTITIONS_PER_BATCH:
            raise ApiException(Errors.POLICY_VIOLATION, TOO_MANY_PARTITIONS)

    def create_topic(
        self, topic: ct.CreatableTopic, *, quota: ControllerMutationQuota = UNBOUNDED
    ) -> tuple[list[ApiMessageAndVersion], ct.CreatableTopicResult]:
        """Returns the records and the result of one new topic; raises ApiException if it cannot be
        created."""
        if topic.name == "__cluster_metadata":
            raise ApiException(Errors.INVALID_REQUEST, f"Creation of internal topic {topic.name} is prohibited.")
        validate_topic_name(topic.name)
        self._check_collision(topic.name)
        if topic.name in self._state.image.topics.by_name:
            raise ApiException(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic.name}' already exists.")
        configs = self._creation_configs(topic)
        mirror_id = None if topic.mirror_info is None else topic.mirror_info.topic_id
        topic_id = self._topic_id(mirror_id)
        partitions = self._assignments.of_new_topic(topic)
        if mirror_id:
            self._assignments.check_all_active(topic, partitions)
        if is_mirror_state_topic(topic.name):
            configs = new_topic_configs(configs, len(partitions))
        quota.record(len(partitions))
        metadata_version = self._state.metadata_version
        records = [ApiMessageAndVersion(TopicRecord(name=topic.name, topic_id=topic_id), 0)]
        records += self._configuration.set_records(ConfigResource(RESOURCE_TOPIC, topic.name), configs)
        records += [partition.to_record(topic_id, number, metadata_version) for number, partition in enumerate(partitions)]
        result = ct.CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._described_configs(configs),
        )
        return records, result

    def _check_collision(self, name: str) -> None:
        other = self._state.name_collisions.other_than(name)
        if other is not None:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")

    def _creation_configs(self, topic: ct.CreatableTopic) -> dict[str, str]:
        missing = [config.name for config in topic.configs if config.value is None]
        if missing:
            raise ApiException(Errors.INVALID_CONFIG, f"Null value not supported for topic configs: {','.join(missing)}")
        configs = {config.name: config.value for config in topic.configs if config.value is not None}
        self._configuration.check_topic_configs(topic.name, configs, changed=configs)
        return configs

    def _topic_id(self, mirror_id: Uuid | None) -> Uuid:
        """Returns the id that a mirror asks for, or a new one if it asks for none (null or
        zero)."""
        if not mirror_id:
            while True:
                topic_id = Uuid.random(self._state.random)
                if topic_id not in self._state.image.topics.by_id:
                    return topic_id
        if not self._state.mirroring_enabled:
            raise ApiException(
                Errors.UNSUPPORTED_VERSION, "Cluster mirroring is not enabled: a topic id cannot be given while mirror.version is 0."
            )
        other = self._state.image.topics.by_id.get(mirror_id)
        if other is not None:
            raise ApiException(Errors.INVALID_REQUEST, f"Topic id {mirror_id} is already used by topic '{other.name}'.")
        if mirror_id == Uuid.METADATA_TOPIC_ID:
            raise ApiException(Errors.INVALID_REQUEST, f"Topic id {mirror_id} is already used by topic '{CLUSTER_METADATA_TOPIC_NAME}'.")
        return mirror_id

    def _described_configs(self, overrides: dict[str, str]) -> list[ct.CreatableTopicConfigs]:
        dynamic_default = inherited_topic_configs(self._state.image.configs.cluster_default())
        dynamic_broker = inherited_topic_configs(self._state.image.configs.broker(self._state.config.node_id))
        static = inherited_topic_configs(self._state.config.static_topic_configs)
        layers = (
            (overrides, SOURCE_DYNAMIC_TOPIC), (dynamic_broker, SOURCE_DYNAMIC_BROKER), (dynamic_default, SOURCE_DYNAMIC_DEFAULT), (static, SOURCE_STATIC),
        )  # fmt: skip
        result = []
        for key in sorted(TOPIC_CONFIGS, key=lambda key: key.name):
            if key.internal and key.name not in overrides:
                continue
            value, source = next(
                ((layer[key.name], s) for layer, s in layers if key.name in layer), (to_text(key.default, key.type), SOURCE_DEFAULT)
            )
            result.append(ct.CreatableTopicConfigs(name=key.name, value=value, read_only=False, config_source=source, is_sensitive=False))
        return result

    # ---- deleting topics, adding partitions

    def _check_writable(self, topic: TopicImage, *, by_broker: bool) -> None:
        """Raises READ_ONLY_TOPIC for a topic that a mirror owns, unless a broker asks
        (KIP-1279)."""
        association = association_of(self._state.image.configs.topic(topic.name))
        if association is not None and not association.removed and not by_broker:
            raise ApiException(Errors.READ_ONLY_TOPIC, Errors.READ_ONLY_TOPIC.message)

    def delete_topics(
        self, request: DeleteTopicsRequest, *, by_broker: bool = False, quota: ControllerMutationQuota = UNBOUNDED
    ) -> ControllerResult[DeleteTopicsResponse]:
        """Deletes topics by name or by id; one that is named more than once is refused, with one
        result, and not deleted."""
        wanted = [(state.name, state.topic_id) for state in request.topics] or [(name, Uuid.ZERO) for name in request.topic_names]
        counts = Counter(wanted)
        records: list[ApiMessageAndVersion] = []
        response = DeleteTopicsResponse()
        for (name, topic_id), count in counts.items():
            by_id = self._state.image.topics.by_id.get(topic_id)
            if name is None and by_id is not None and (by_id.name, Uuid.ZERO) in counts:
                continue
            result = DeletableTopicResult(name=name, topic_id=topic_id)
            try:
                if count > 1 and bool(topic_id) != (name is not None):
                    raise ApiException(Errors.INVALID_REQUEST, f"Duplicate topic {'id' if name is None else 'name'}.")
                topic = self._find(name, topic_id)
                result = DeletableTopicResult(name=topic.name, topic_id=topic.id)
                if name is not None and (None, topic.id) in counts:
                    raise ApiException(Errors.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
                self._check_writable(topic, by_broker=by_broker)
                if is_mirror_state_topic(topic.name):
                    check_deletion(self._state.image)
                quota.record(len(topic.partitions))
                records.append(ApiMessageAndVersion(RemoveTopicRecord(topic_id=topic.id), 0))
            except ApiException as error:
                result.error_code, result.error_message = error.error, _own_message(error)
            is_malformed = bool(topic_id) == (name is not None)  # answered as often as it was named
            response.responses += [result] * (count if is_malformed else 1)
        return ControllerResult(records, response)

    def _find(self, name: str | None, topic_id: Uuid) -> TopicImage:
        if name is not None and topic_id:
            raise ApiException(Errors.INVALID_REQUEST, "You may not specify both topic name and topic id.")
        if name is None and not topic_id:
            raise ApiException(Errors.INVALID_REQUEST, "Neither topic name nor id were specified.")
        topics = self._state.image.topics
        topic = topics.by_id.get(topic_id) if name is None else topics.by_name.get(name)
        if topic is None:
            code = Errors.UNKNOWN_TOPIC_ID if name is None else Errors.UNKNOWN_TOPIC_OR_PARTITION
            raise ApiException(code, code.message)
        return topic

    def create_partitions(
        self, request: CreatePartitionsRequest, *, by_broker: bool = False, quota: ControllerMutationQuota = UNBOUNDED
    ) -> ControllerResult[CreatePartitionsResponse]:
        records: list[ApiMessageAndVersion] = []
        response = CreatePartitionsResponse()
        counts = Counter(topic.name for topic in request.topics)
        for topic in {topic.name: topic for topic in request.topics}.values():
            result = CreatePartitionsTopicResult(name=topic.name)
            try:
                if counts[topic.name] > 1:
                    raise ApiException(Errors.INVALID_REQUEST, "Duplicate topic name.")
                added = self._new_partitions(topic, by_broker=by_broker, room=MAX_PARTITIONS_PER_BATCH - len(records))
                quota.record(len(added))
                records += added
            except ApiException as error:
                is_unknown = error.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
                result.error_code, result.error_message = error.error, None if is_unknown else _own_message(error)
            response.results.append(result)
        return ControllerResult([] if request.validate_only else records, response)

    def _new_partitions(self, request: CreatePartitionsTopic, *, by_broker: bool, room: int) -> list[ApiMessageAndVersion]:
        """Refuses more than `room` partitions with the reason; Kafka answers
        UNKNOWN_SERVER_ERROR."""
        topic = self._find(request.name, Uuid.ZERO)
        self._check_writable(topic, by_broker=by_broker)
        present = len(topic.partitions)
        if request.count == present:
            raise ApiException(Errors.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
        if request.count < present:
            text = f"The topic {topic.name} currently has {present} partition(s); {request.count} would not be an increase."
            raise ApiException(Errors.INVALID_PARTITIONS, text)
        if is_mirror_state_topic(topic.name):
            check_no_new_partitions()
        additional = request.count - present
        if additional > room:
            raise ApiException(Errors.POLICY_VIOLATION, TOO_MANY_PARTITIONS)
        factor = len(topic.partitions[0].replicas)
        if request.assignments is not None:
            if len(request.assignments) != additional:
                text = f"Attempted to add {additional} additional partition(s), but only {len(request.assignments)} assignment(s) were specified."
                raise ApiException(Errors.INVALID_REPLICA_ASSIGNMENT, text)
            partitions = []
            for number, assignment in enumerate(request.assignments, present):
                self._assignments.check_replicas(assignment.broker_ids, factor)
                partitions.append(self._assignments.manual_partition(number, list(assignment.broker_ids)))
        else:
            partitions = self._assignments.placed(additional, factor)
        version = self._state.metadata_version
        return [partition.to_record(topic.id, number, version) for number, partition in enumerate(partitions, present)]


def _own_message(error: ApiException) -> str | None:
    """Returns the text of an error; None for a quota, where Kafka's text adds nothing to the
    code."""
    return None if error.error is Errors.THROTTLING_QUOTA_EXCEEDED else error.message


def _topic_error(name: str, error: Errors, message: str | None) -> ct.CreatableTopicResult:
    return ct.CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])
