"""Cluster mirrors (KIP-1279): their configs, which topics belong to them, and leader epochs raised
above a source's.

A mirror is a MIRROR resource with configs; a topic belongs to it by its config `mirror.name` (see
`metadata.mirror_names`). The result of a request follows from that config alone (rows: present
value, columns: request for mirror X; numbers are error codes, each topic has its own result):

    present value             add      remove            pause      resume
    none                      X        136               136        136
    X                         137      X.removed         X.paused   140
    X.paused                  137      X.paused.removed  139        X
    X[.paused].removed        X        138               141        141
    Y, Y.paused               137      138               138        138
    Y[.paused].removed        X        138               138        138

The controller does not know partition states: the broker that gets a request checks them before it
forwards it, and the state machine of each partition checks again. The records of one request are
one atomic batch. While mirror.version is 0, all these requests are answered with
UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec.structs import replace

from kmirror.common.errors import ApiException, Errors, unknown_mirror
from kmirror.common.topic_partition import INTERNAL_TOPICS, MIRROR_STATE_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.configuration_control_manager import ConfigurationControlManager
from kmirror.controller.controller_result import ControllerResult
from kmirror.controller.controller_state import ControllerState
from kmirror.controller.mutation_quota import UNBOUNDED, ControllerMutationQuota
from kmirror.controller.replication_control_manager import ReplicationControlManager
from kmirror.metadata.image import RESOURCE_MIRROR, RESOURCE_TOPIC, ConfigResource, TopicImage
from kmirror.metadata.mirror_filters import log_overlaps
from kmirror.metadata.mirror_names import (
    MIRROR_NAME_CONFIG,
    MIRROR_SOURCE_CLEANING_CONFIG,
    MirrorAssociation,
    association_of,
    validate_mirror_name,
)
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.metadata.resource_configs import SOURCE_CLUSTER_ID_CONFIG, validate_mirror_configs
from kmirror.wire.messages import add_topics_to_mirror as add
from kmirror.wire.messages import bump_leader_epochs as bump
from kmirror.wire.messages import pause_mirror_topics as pause
from kmirror.wire.messages import remove_topics_from_mirror as remove
from kmirror.wire.messages import resume_mirror_topics as resume
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, CreateMirrorResponse
from kmirror.wire.messages.create_topics import CreatableTopic
from kmirror.wire.messages.delete_mirror import DeleteMirrorRequest, DeleteMirrorResponse

LARGEST_LEADER_EPOCH = 2**31 - 1
Transition = Callable[[MirrorAssociation | None, str], MirrorAssociation]


class MirrorControlManager:
    """Decides about mirrors."""

    def __init__(self, state: ControllerState, configuration: ConfigurationControlManager, replication: ReplicationControlManager) -> None:
        self._state = state
        self._configuration = configuration
        self._replication = replication

    def _check_enabled(self) -> None:
        if not self._state.mirroring_enabled:
            raise ApiException(Errors.UNSUPPORTED_VERSION, "Cluster mirroring is not enabled: the feature mirror.version is at level 0.")

    def _check_exists(self, mirror_name: str) -> None:
        if ConfigResource(RESOURCE_MIRROR, mirror_name) not in self._state.image.configs.resources:
            raise unknown_mirror(mirror_name)

    # ---- mirrors

    def create_mirror(
        self, request: CreateMirrorRequest, *, quota: ControllerMutationQuota = UNBOUNDED
    ) -> ControllerResult[CreateMirrorResponse]:
        """Writes the mirror's configs and, with the first mirror, the topic `__mirror_state`, whose
        partitions count towards the client's quota."""
        try:
            self._check_enabled()
            validate_mirror_name(request.mirror_name)
            resource = ConfigResource(RESOURCE_MIRROR, request.mirror_name)
            if len({config.name for config in request.config}) < len(request.config):
                raise ApiException(Errors.INVALID_REQUEST, "Error due to duplicate config keys")
            configs = {config.name: config.value for config in request.config if config.value is not None}
            if SOURCE_CLUSTER_ID_CONFIG in configs:
                raise ApiException(Errors.INVALID_CONFIG, f"Unknown mirror config name: {SOURCE_CLUSTER_ID_CONFIG}")
            validate_mirror_configs(configs)
            if resource in self._state.image.configs.resources:
                raise ApiException(Errors.INVALID_MIRROR_NAME, f"Mirror '{request.mirror_name}' already exists")
            log_overlaps(self._state.image, request.mirror_name, configs)
            records = self._state_topic_records(quota) + self._configuration.set_records(resource, configs)
        except ApiException as error:
            return ControllerResult([], CreateMirrorResponse(error_code=error.error, error_message=error.message))
        return ControllerResult(records, CreateMirrorResponse(error_message=None))

    def _state_topic_records(self, quota: ControllerMutationQuota) -> list[ApiMessageAndVersion]:
        if MIRROR_STATE_TOPIC_NAME in self._state.image.topics.by_name:
            return []
        topic = CreatableTopic(
            name=MIRROR_STATE_TOPIC_NAME,
            num_partitions=self._state.config.mirror_topic_num_partitions,
            replication_factor=self._state.config.mirror_topic_replication_factor,
        )
        return self._replication.create_topic(topic, quota=quota)[0]

    def delete_mirror(self, request: DeleteMirrorRequest) -> ControllerResult[DeleteMirrorResponse]:
        """Removes the mirror's configs and the association of its removed topics; the response is
        MIRROR_NOT_EMPTY while any topic is not removed."""
        try:
            self._check_enabled()
            self._check_exists(request.mirror_name)
            records = self._delete_records(request.mirror_name)
        except ApiException as error:
            return ControllerResult([], DeleteMirrorResponse(error_code=error.error, error_message=error.message))
        return ControllerResult(records, DeleteMirrorResponse(error_message=None))

    def _delete_records(self, mirror_name: str) -> list[ApiMessageAndVersion]:
        records: list[ApiMessageAndVersion] = []
        for topic in self._state.image.topics.by_name:
            association = association_of(self._state.image.configs.topic(topic))
            if association is None or association.mirror_name != mirror_name:
                continue
            if not association.removed:
                raise ApiException(Errors.MIRROR_NOT_EMPTY, Errors.MIRROR_NOT_EMPTY.message)
            records += self._configuration.set_records(ConfigResource(RESOURCE_TOPIC, topic), {MIRROR_NAME_CONFIG: None})
        resource = ConfigResource(RESOURCE_MIRROR, mirror_name)
        configs: dict[str, str | None] = dict.fromkeys(self._state.image.configs.props(resource))
        return records + self._configuration.set_records(resource, configs)

    # ---- topics of a mirror

    def add_topics(self, request: add.AddTopicsToMirrorRequest) -> ControllerResult[add.AddTopicsToMirrorResponse]:
        records, results, error = self._change_topics(request.mirror_name, request.topics, _added)
        topics = [add.TopicResult(name=name, error_code=code) for name, code in results]
        response = add.AddTopicsToMirrorResponse(mirror_name=request.mirror_name, topics=topics)
        return ControllerResult(records, _with_error(response, error))

    def remove_topics(self, request: remove.RemoveTopicsFromMirrorRequest) -> ControllerResult[remove.RemoveTopicsFromMirrorResponse]:
        records, results, error = self._change_topics(request.mirror_name, request.topics, _removed)
        topics = [remove.TopicResult(name=name, error_code=code) for name, code in results]
        response = remove.RemoveTopicsFromMirrorResponse(mirror_name=request.mirror_name, topics=topics)
        return ControllerResult(records, _with_error(response, error))

    def pause_topics(self, request: pause.PauseMirrorTopicsRequest) -> ControllerResult[pause.PauseMirrorTopicsResponse]:
        records, results, error = self._change_topics(request.mirror_name, request.topics, _paused)
        topics = [pause.TopicResult(name=name, error_code=code) for name, code in results]
        response = pause.PauseMirrorTopicsResponse(mirror_name=request.mirror_name, topics=topics)
        return ControllerResult(records, _with_error(response, error))

    def resume_topics(self, request: resume.ResumeMirrorTopicsRequest) -> ControllerResult[resume.ResumeMirrorTopicsResponse]:
        records, results, error = self._change_topics(request.mirror_name, request.topics, _resumed)
        topics = [resume.TopicResult(name=name, error_code=code) for name, code in results]
        response = resume.ResumeMirrorTopicsResponse(mirror_name=request.mirror_name, topics=topics)
        return ControllerResult(records, _with_error(response, error))

    def _change_topics(
        self, mirror_name: str, topics: Iterable[Any], transition: Transition
    ) -> tuple[list[ApiMessageAndVersion], list[tuple[str, Errors]], ApiException | None]:
        """Returns records, one (topic, code) pair per topic, and the error that refuses the request
        as a whole."""
        try:
            self._check_enabled()
            self._check_exists(mirror_name)
        except ApiException as error:
            return [], [], error
        records: list[ApiMessageAndVersion] = []
        results: dict[str, Errors] = {}
        for wanted in topics:
            name = wanted.topic_name
            try:
                topic = self._find(wanted.topic_name, wanted.topic_id)
                name = topic.name
                if name in results:
                    continue
                resource = ConfigResource(RESOURCE_TOPIC, name)
                props = self._state.image.configs.props(resource)
                value = transition(association_of(props), mirror_name)
                changes: dict[str, str | None] = {MIRROR_NAME_CONFIG: str(value)}
                if value.removed and MIRROR_SOURCE_CLEANING_CONFIG in props:
                    changes[MIRROR_SOURCE_CLEANING_CONFIG] = None
                records += self._configuration.set_records(resource, changes)
                results[name] = Errors.NONE
            except ApiException as error:
                results[name] = error.error
        return records, list(results.items()), None

    def _find(self, name: str, topic_id: Uuid) -> TopicImage:
        topics = self._state.image.topics
        if not name:
            topic = topics.by_id.get(topic_id)
        else:
            topic = topics.by_name.get(name)
        if topic is None:
            raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name or topic_id}' does not exist.")
        if topic.name in INTERNAL_TOPICS:
            raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"The internal topic '{topic.name}' cannot be mirrored.")
        if topic_id and topic.id != topic_id:
            raise ApiException(Errors.INCONSISTENT_TOPIC_ID, f"The topic '{topic.name}' has id {topic.id}, not {topic_id}.")
        return topic

    # ---- leader epochs

    def bump_leader_epochs(self, request: bump.BumpLeaderEpochsRequest) -> ControllerResult[bump.BumpLeaderEpochsResponse]:
        """Raises each partition's leader epoch above its `min_leader_epoch`, unless it is above
        already. INVALID_REQUEST if no int32 is above that epoch.

        The record is a whole PartitionRecord, which every 4.x reader takes as a replacement, so the
        format stays Kafka's.
        """
        self._check_enabled()
        records: list[ApiMessageAndVersion] = []
        raised: dict[tuple[Uuid, int], PartitionRegistration] = {}
        response = bump.BumpLeaderEpochsResponse()
        for wanted in request.topics:
            topic = self._state.image.topics.by_id.get(wanted.topic_id)
            details = []
            for entry in wanted.partitions:
                key = (wanted.topic_id, entry.partition_index)
                partition = raised.get(key) or (None if topic is None else topic.partitions.get(entry.partition_index))
                code = Errors.UNKNOWN_TOPIC_ID if topic is None else Errors.UNKNOWN_TOPIC_OR_PARTITION if partition is None else Errors.NONE
                if entry.min_leader_epoch >= LARGEST_LEADER_EPOCH and partition is not None:
                    code = Errors.INVALID_REQUEST
                elif topic is not None and partition is not None and partition.leader_epoch <= entry.min_leader_epoch:
                    raised[key] = replace(partition, leader_epoch=entry.min_leader_epoch + 1, partition_epoch=partition.partition_epoch + 1)
                    records.append(raised[key].to_record(topic.id, entry.partition_index, self._state.metadata_version))
                details.append(bump.PartitionDetail(partition_index=entry.partition_index, error_code=code))
            response.topics.append(bump.TopicPartitions(topic_name="" if topic is None else topic.name, partitions=details))
        return ControllerResult(records, response)


def _with_error(response: Any, error: ApiException | None) -> Any:
    if error is not None:
        response.error_code, response.error_message = error.error, error.message
    return response


def _added(present: MirrorAssociation | None, mirror_name: str) -> MirrorAssociation:
    if present is not None and not present.removed:
        raise ApiException(Errors.TOPIC_ALREADY_IN_MIRROR, Errors.TOPIC_ALREADY_IN_MIRROR.message)
    return MirrorAssociation(mirror_name)


def _own(present: MirrorAssociation | None, mirror_name: str) -> MirrorAssociation:
    """Returns the association; raises ApiException unless it is with this mirror."""
    if present is None:
        raise ApiException(Errors.UNKNOWN_MIRROR, Errors.UNKNOWN_MIRROR.message)
    if present.mirror_name != mirror_name:
        raise ApiException(Errors.TOPIC_NOT_IN_MIRROR, Errors.TOPIC_NOT_IN_MIRROR.message)
    return present


def _removed(present: MirrorAssociation | None, mirror_name: str) -> MirrorAssociation:
    own = _own(present, mirror_name)
    if own.removed:
        raise ApiException(Errors.TOPIC_NOT_IN_MIRROR, Errors.TOPIC_NOT_IN_MIRROR.message)
    return own._replace(removed=True)


def _paused(present: MirrorAssociation | None, mirror_name: str) -> MirrorAssociation:
    own = _own(present, mirror_name)
    if own.removed:
        raise ApiException(Errors.MIRROR_TOPIC_BEING_REMOVED, Errors.MIRROR_TOPIC_BEING_REMOVED.message)
    if own.paused:
        raise ApiException(Errors.MIRROR_TOPIC_ALREADY_PAUSED, Errors.MIRROR_TOPIC_ALREADY_PAUSED.message)
    return own._replace(paused=True)


def _resumed(present: MirrorAssociation | None, mirror_name: str) -> MirrorAssociation:
    own = _own(present, mirror_name)
    if own.removed:
        raise ApiException(Errors.MIRROR_TOPIC_BEING_REMOVED, Errors.MIRROR_TOPIC_BEING_REMOVED.message)
    if not own.paused:
        raise ApiException(Errors.MIRROR_TOPIC_NOT_PAUSED, Errors.MIRROR_TOPIC_NOT_PAUSED.message)
    return own._replace(paused=False)
