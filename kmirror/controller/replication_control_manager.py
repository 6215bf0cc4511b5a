"""Topics and partitions: creation, deletion, growth, ISR changes, elections (Kafka's
`ReplicationControlManager`)."""

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
from kmirror.controller.leader_updates import builder_for, leader_and_isr_updates, partitions
from kmirror.controller.mirror_state_topic import (
    check_deletion,
    check_election,
    check_no_new_partitions,
    is_mirror_state_topic,
    new_topic_configs,
)
from kmirror.controller.mutation_quota import UNBOUNDED, ControllerMutationQuota
from kmirror.controller.partition_change_builder import Election
from kmirror.controller.partition_reassignments import PartitionReassignments
from kmirror.controller.replica_assignments import ReplicaAssignments
from kmirror.metadata.image import RESOURCE_TOPIC, ConfigResource, TopicImage
from kmirror.metadata.mirror_names import association_of, validate_topic_name
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import RECOVERED, RECOVERING, PartitionRegistration
from kmirror.metadata.topic_configs import TOPIC_CONFIGS, inherited_topic_configs
from kmirror.wire.messages import alter_partition as ap
from kmirror.wire.messages import assign_replicas_to_dirs as ad
from kmirror.wire.messages import create_topics as ct
from kmirror.wire.messages import elect_leaders as el
from kmirror.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kmirror.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord

SOURCE_DYNAMIC_TOPIC, SOURCE_DYNAMIC_BROKER, SOURCE_DYNAMIC_DEFAULT, SOURCE_STATIC, SOURCE_DEFAULT = 1, 2, 3, 4, 5
ELECTION_PREFERRED, ELECTION_UNCLEAN = 0, 1
MAX_PARTITIONS_PER_BATCH = 10_000
TOO_MANY_PARTITIONS = "Excessively large number of partitions per request."


class ReplicationControlManager:
    """Decides about topics and partitions."""

    def __init__(self, state: ControllerState, cluster: ClusterControlManager, configuration: ConfigurationControlManager) -> None:
        self._state = state
        self._cluster = cluster
        self._configuration = configuration
        self._assignments = ReplicaAssignments(state)
        self.reassignments = PartitionReassignments(state, lambda replicas: self._assignments.check_replicas(replicas, None))

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
            response.responses.append(result)
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

    # ---- ISR changes

    def alter_partition(self, request: ap.AlterPartitionRequest, version: int) -> ControllerResult[ap.AlterPartitionResponse]:
        """Handles what a partition's leader requests for its ISR."""
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        records: list[ApiMessageAndVersion] = []
        response = ap.AlterPartitionResponse()
        for topic_data in request.topics:
            topic = self._state.image.topics.by_id.get(topic_data.topic_id)
            results = []
            for data in topic_data.partitions:
                if topic is None:
                    results.append(_alter_error(data.partition_index, Errors.UNKNOWN_TOPIC_ID))
                    continue
                isr = [state.broker_id for state in data.new_isr_with_epochs] if version >= 3 else list(data.new_isr)
                record, result = self._alter_one(request.broker_id, topic, data, isr)
                records += record
                results.append(result)
            response.topics.append(ap.AlterPartitionResponseTopicData(topic_id=topic_data.topic_id, partitions=results))
        return ControllerResult(records, response)

    def _alter_one(
        self, broker_id: int, topic: TopicImage, data: ap.AlterPartitionRequestPartitionData, isr: list[int]
    ) -> tuple[list[ApiMessageAndVersion], ap.AlterPartitionResponsePartitionData]:
        partition = topic.partitions.get(data.partition_index)
        if partition is None:
            return [], _alter_error(data.partition_index, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        error = self._alter_problem(broker_id, partition, data, isr)
        if error is not Errors.NONE:
            return [], _alter_error(data.partition_index, error)
        builder = builder_for(self._state, topic.name, topic.id, data.partition_index, partition)
        builder.target_isr = isr
        builder.target_recovery_state = data.leader_recovery_state
        record = builder.build()
        if record is not None:
            change: PartitionChangeRecord = record.message
            partition = partition.merge(change)
            if change.leader not in (-2, broker_id):
                return [record], _alter_error(data.partition_index, Errors.NEW_LEADER_ELECTED)
        result = ap.AlterPartitionResponsePartitionData(
            partition_index=data.partition_index,
            leader_id=partition.leader,
            isr=list(partition.isr),
            leader_recovery_state=partition.leader_recovery_state,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
        )
        return [] if record is None else [record], result

    def _alter_problem(
        self, broker_id: int, partition: PartitionRegistration, data: ap.AlterPartitionRequestPartitionData, isr: list[int]
    ) -> Errors:
        """Makes Kafka's checks in Kafka's order; returns NONE if the change is allowed."""
        if data.leader_epoch > partition.leader_epoch or data.partition_epoch > partition.partition_epoch:
            return Errors.NOT_CONTROLLER
        if data.leader_epoch < partition.leader_epoch:
            return Errors.FENCED_LEADER_EPOCH
        if broker_id != partition.leader:
            return Errors.INVALID_REQUEST
        if data.partition_epoch < partition.partition_epoch:
            return Errors.INVALID_UPDATE_VERSION
        if not isr or len(set(isr)) != len(isr) or any(replica not in partition.replicas for replica in isr) or partition.leader not in isr:
            return Errors.INVALID_REQUEST
        if data.leader_recovery_state == RECOVERING and (len(isr) > 1 or partition.leader_recovery_state == RECOVERED):
            return Errors.INVALID_REQUEST
        epochs = {state.broker_id: state.broker_epoch for state in data.new_isr_with_epochs}
        for replica in isr:
            broker = self._state.image.cluster.broker(replica)
            if broker is None or not broker.active or epochs.get(replica, -1) not in (-1, broker.epoch):
                return Errors.INELIGIBLE_REPLICA
        return Errors.NONE

    def assign_replicas_to_dirs(self, request: ad.AssignReplicasToDirsRequest) -> ControllerResult[ad.AssignReplicasToDirsResponse]:
        """Takes a broker's report of which of its directories hold its replicas (KIP-858)."""
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        records: list[ApiMessageAndVersion] = []
        response = ad.AssignReplicasToDirsResponse()
        for directory in request.directories:
            topics = []
            for topic_data in directory.topics:
                partitions = []
                for data in topic_data.partitions:
                    code, change = self._assign_directory(request.broker_id, topic_data.topic_id, data.partition_index, directory.id)
                    records += change
                    partitions.append(ad.AssignReplicasToDirsResponsePartitionData(partition_index=data.partition_index, error_code=code))
                topics.append(ad.AssignReplicasToDirsResponseTopicData(topic_id=topic_data.topic_id, partitions=partitions))
            response.directories.append(ad.AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
        return ControllerResult(records, response)

    def _assign_directory(
        self, broker_id: int, topic_id: Uuid, partition_id: int, directory: Uuid
    ) -> tuple[Errors, list[ApiMessageAndVersion]]:
        topic = self._state.image.topics.by_id.get(topic_id)
        if topic is None:
            return Errors.UNKNOWN_TOPIC_ID, []
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, []
        if broker_id not in partition.replicas:
            return Errors.NOT_LEADER_OR_FOLLOWER, []
        builder = builder_for(self._state, topic.name, topic_id, partition_id, partition)
        builder.directories = {broker_id: directory}
        record = builder.build()
        return Errors.NONE, [] if record is None else [record]

    # ---- elections

    def elect_leaders(self, request: el.ElectLeadersRequest) -> ControllerResult[el.ElectLeadersResponse]:
        if request.election_type not in (ELECTION_PREFERRED, ELECTION_UNCLEAN):
            raise ApiException(Errors.INVALID_REQUEST, f"Unknown election type {request.election_type}")
        records: list[ApiMessageAndVersion] = []
        response = el.ElectLeadersResponse()
        everything = request.topic_partitions is None
        wanted = request.topic_partitions or [
            el.TopicPartitions(topic=topic.name, partitions=sorted(topic.partitions))
            for topic in self._state.image.topics.by_name.values()
            if everything
        ]
        for topic in wanted:
            results = []
            for partition_id in topic.partitions:
                result = el.PartitionResult(partition_id=partition_id, error_message=None)
                try:
                    records += self._elect(topic.topic, partition_id, request.election_type)
                except ApiException as error:
                    result.error_code, result.error_message = error.error, error.message
                if not (everything and result.error_code == Errors.ELECTION_NOT_NEEDED):
                    results.append(result)
            response.replica_election_results.append(el.ReplicaElectionResult(topic=topic.topic, partition_result=results))
        return ControllerResult(records, response)

    def _elect(self, name: str, partition_id: int, election_type: int) -> list[ApiMessageAndVersion]:
        topic = self._state.image.topics.by_name.get(name)
        if topic is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
        partition = topic.partitions.get(partition_id)
        if partition is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{partition_id}")
        preferred = election_type == ELECTION_PREFERRED
        if partition.leader == partition.preferred_replica if preferred else partition.has_leader:
            raise ApiException(Errors.ELECTION_NOT_NEEDED, Errors.ELECTION_NOT_NEEDED.message)
        if is_mirror_state_topic(name) and not preferred:
            check_election()
        builder = builder_for(self._state, name, topic.id, partition_id, partition)
        builder.election = Election.PREFERRED if preferred else Election.UNCLEAN
        record = builder.build()
        if record is None or (preferred and record.message.leader != partition.preferred_replica):
            code = Errors.PREFERRED_LEADER_NOT_AVAILABLE if preferred else Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
            raise ApiException(code, code.message)
        return [record]

    def elect_unclean(self) -> ControllerResult[int]:
        """Elects a leader for every leaderless partition whose topic allows unclean elections and
        that has a replica alive; the response is how many."""
        leaderless = partitions(self._state, lambda partition: not partition.has_leader)
        enabled = (ref for ref in leaderless if self._state.unclean_election_enabled(ref[0]))
        records = leader_and_isr_updates(self._state, enabled)
        return ControllerResult(records, len(records))

    def balance_leaders(self) -> ControllerResult[int]:
        """Gives partitions back to their preferred replicas if those may lead; the response is how
        many."""
        records = []
        for topic in self._state.image.topics.by_name.values():
            for partition_id, partition in topic.partitions.items():
                if partition.leader != partition.preferred_replica:
                    builder = builder_for(self._state, topic.name, topic.id, partition_id, partition)
                    builder.election = Election.PREFERRED
                    record = builder.build()
                    if record is not None:
                        records.append(record)
        return ControllerResult(records, len(records))


def _own_message(error: ApiException) -> str | None:
    """Returns the text of an error; None for a quota, where Kafka's text adds nothing to the
    code."""
    return None if error.error is Errors.THROTTLING_QUOTA_EXCEEDED else error.message


def _topic_error(name: str, error: Errors, message: str | None) -> ct.CreatableTopicResult:
    return ct.CreatableTopicResult(name=name, error_code=error, error_message=message, configs=[])


def _alter_error(partition_index: int, error: Errors) -> ap.AlterPartitionResponsePartitionData:
    return ap.AlterPartitionResponsePartitionData(partition_index=partition_index, error_code=error)
