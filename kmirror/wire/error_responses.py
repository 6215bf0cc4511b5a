"""An API's response to an error of the whole request (Kafka's `AbstractRequest.getErrorResponse`).

Most responses have a top-level error code. Those without one repeat the error for every topic,
resource or entry of the request. An API whose response cannot carry an error at all is not in the
table; its error is raised again, which closes the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kmirror.common.errors import ApiException
from kmirror.wire.api_keys import API_TABLE, ApiKeys, message_class

Builder = Callable[[Any, "ErrorFields"], Any]


class ErrorFields:
    """The error's code and text, and factories for nested structs of the API's module."""

    def __init__(self, api_key: ApiKeys, error: ApiException) -> None:
        self._module = API_TABLE[api_key].module
        self.code = int(error.error)
        self.message: str | None = error.told_message and (error.message or error.error.message)
        self.default_message = error.error.message

    def plain(self, struct_name: str, /, **fields: Any) -> Any:
        """Returns a struct without the error."""
        cls: Any = message_class(self._module, struct_name)
        return cls(**fields)

    def struct(self, struct_name: str, /, **fields: Any) -> Any:
        """Returns a struct with the error's code, and with its text if the struct has a field for
        it."""
        cls: Any = message_class(self._module, struct_name)
        value = cls(**fields, error_code=self.code)
        if hasattr(value, "error_message") and "error_message" not in fields:
            value.error_message = self.message
        return value


def _per_topic(response_struct: str) -> Builder:
    return lambda request, error: [error.struct(response_struct, name=topic.name) for topic in request.topics]


def _produce(request: Any, error: ErrorFields) -> list[Any]:
    """Each partition once, and no topic without partitions, as in Kafka."""
    topics: dict[Any, dict[int, None]] = {}
    for topic in request.topic_data:
        if topic.partition_data:
            topics.setdefault((topic.name, topic.topic_id), {}).update((data.index, None) for data in topic.partition_data)
    return [
        error.plain(
            "TopicProduceResponse",
            name=name,
            topic_id=topic_id,
            partition_responses=[
                error.struct("PartitionProduceResponse", index=index, base_offset=-1, log_append_time_ms=-1, log_start_offset=-1)
                for index in indexes
            ],
        )
        for (name, topic_id), indexes in topics.items()
    ]


def _fetch(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "FetchableTopicResponse",
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[
                error.struct(
                    "PartitionData",
                    partition_index=partition.partition,
                    high_watermark=-1,
                    last_stable_offset=-1,
                    log_start_offset=-1,
                    aborted_transactions=[],
                    preferred_read_replica=-1,
                    records=b"",
                )
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _list_offsets(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "ListOffsetsTopicResponse",
            name=topic.name,
            partitions=[
                error.struct("ListOffsetsPartitionResponse", partition_index=partition.partition_index, timestamp=-1, offset=-1)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _delete_topics(request: Any, error: ErrorFields) -> list[Any]:
    by_state = [error.struct("DeletableTopicResult", name=state.name, topic_id=state.topic_id) for state in request.topics]
    return by_state or [error.struct("DeletableTopicResult", name=name) for name in request.topic_names]


def _per_resource(response_struct: str) -> Builder:
    return lambda request, error: [
        error.struct(response_struct, resource_type=resource.resource_type, resource_name=resource.resource_name)
        for resource in request.resources
    ]


def _metadata(request: Any, error: ErrorFields) -> list[Any]:
    return [error.struct("MetadataResponseTopic", name=topic.name or "", topic_id=topic.topic_id) for topic in request.topics or []]


def _describe_topic_partitions(request: Any, error: ErrorFields) -> list[Any]:
    return [error.struct("DescribeTopicPartitionsResponseTopic", name=topic.name) for topic in request.topics]


def _scram(request: Any, error: ErrorFields) -> list[Any]:
    users = dict.fromkeys([entry.name for entry in request.deletions] + [entry.name for entry in request.upsertions])
    return [error.struct("AlterUserScramCredentialsResult", user=user) for user in users]


def _client_quotas(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.struct(
            "AlterClientQuotasResponseEntryData",
            error_message=error.default_message,
            entity=[
                error.plain("AlterClientQuotasResponseEntityData", entity_type=data.entity_type, entity_name=data.entity_name)
                for data in entry.entity
            ],
        )
        for entry in request.entries
    ]


def _elect_leaders(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "ReplicaElectionResult",
            topic=topic.topic,
            partition_result=[error.struct("PartitionResult", partition_id=number) for number in topic.partitions],
        )
        for topic in request.topic_partitions or []
    ]


def _alter_replica_log_dirs(request: Any, error: ErrorFields) -> list[Any]:
    wanted: dict[str, list[int]] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            wanted.setdefault(topic.name, []).extend(topic.partitions)
    return [
        error.plain(
            "AlterReplicaLogDirTopicResult",
            topic_name=name,
            partitions=[error.struct("AlterReplicaLogDirPartitionResult", partition_index=number) for number in numbers],
        )
        for name, numbers in wanted.items()
    ]


def _add_partitions_to_txn(request: Any, error: ErrorFields) -> list[Any]:
    """For clients' requests, up to v3; from v4 on (brokers) the whole request has an error."""
    return [
        error.plain(
            "AddPartitionsToTxnTopicResult",
            name=topic.name,
            results_by_partition=[
                error.plain("AddPartitionsToTxnPartitionResult", partition_index=number, partition_error_code=error.code)
                for number in topic.partitions
            ],
        )
        for topic in request.v3_and_below_topics
    ]


def _txn_offset_commit(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "TxnOffsetCommitResponseTopic",
            name=topic.name,
            partitions=[
                error.struct("TxnOffsetCommitResponsePartition", partition_index=partition.partition_index)
                for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _write_txn_markers(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "WritableTxnMarkerResult",
            producer_id=marker.producer_id,
            topics=[
                error.plain(
                    "WritableTxnMarkerTopicResult",
                    name=topic.name,
                    partitions=[
                        error.struct("WritableTxnMarkerPartitionResult", partition_index=number) for number in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]


def _reassignments(request: Any, error: ErrorFields) -> list[Any]:
    return [
        error.plain(
            "ReassignableTopicResponse",
            name=topic.name,
            partitions=[
                error.struct("ReassignablePartitionResponse", partition_index=partition.partition_index) for partition in topic.partitions
            ],
        )
        for topic in request.topics
    ]


def _described_scram(request: Any, error: ErrorFields) -> list[Any]:
    """As in Kafka, without the users' names and without a text."""
    return [error.plain("DescribeUserScramCredentialsResult", error_code=error.code, error_message=None) for _ in request.users or []]


def _share_state(result_struct: str) -> Builder:
    return lambda request, error: [
        error.plain(
            result_struct,
            topic_id=topic.topic_id,
            partitions=[error.struct("PartitionResult", partition=data.partition) for data in topic.partitions],
        )
        for topic in request.topics
    ]


def _described_groups(request: Any, error: ErrorFields) -> list[Any]:
    """Without a text, as in Kafka."""
    return [error.struct("DescribedGroup", group_id=group_id, error_message=None) for group_id in request.group_ids]


def _described_share_group_offsets(request: Any, error: ErrorFields) -> list[Any]:
    """Without a text, as in Kafka."""
    return [error.struct("DescribeShareGroupOffsetsResponseGroup", group_id=group.group_id, error_message=None) for group in request.groups]


_BUILDERS: dict[ApiKeys, tuple[str, Builder]] = {
    ApiKeys.PRODUCE: ("responses", _produce),
    ApiKeys.LIST_OFFSETS: ("topics", _list_offsets),
    ApiKeys.CREATE_TOPICS: ("topics", _per_topic("CreatableTopicResult")),
    ApiKeys.DELETE_TOPICS: ("responses", _delete_topics),
    ApiKeys.CREATE_PARTITIONS: ("results", _per_topic("CreatePartitionsTopicResult")),
    ApiKeys.ALTER_CONFIGS: ("responses", _per_resource("AlterConfigsResourceResponse")),
    ApiKeys.INCREMENTAL_ALTER_CONFIGS: ("responses", _per_resource("AlterConfigsResourceResponse")),
    ApiKeys.DESCRIBE_CONFIGS: ("results", _per_resource("DescribeConfigsResult")),
    ApiKeys.METADATA: ("topics", _metadata),
    ApiKeys.DESCRIBE_TOPIC_PARTITIONS: ("topics", _describe_topic_partitions),
    ApiKeys.ELECT_LEADERS: ("replica_election_results", _elect_leaders),
    ApiKeys.ALTER_REPLICA_LOG_DIRS: ("results", _alter_replica_log_dirs),
    ApiKeys.CREATE_ACLS: ("results", lambda request, error: [error.struct("AclCreationResult") for _ in request.creations]),
    ApiKeys.DELETE_ACLS: ("filter_results", lambda request, error: [error.struct("DeleteAclsFilterResult") for _ in request.filters]),
    ApiKeys.ALTER_USER_SCRAM_CREDENTIALS: ("results", _scram),
    ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS: ("results", _described_scram),
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: ("responses", _reassignments),
    ApiKeys.ALTER_CLIENT_QUOTAS: ("entries", _client_quotas),
    ApiKeys.ADD_PARTITIONS_TO_TXN: ("results_by_topic_v3_and_below", _add_partitions_to_txn),
    ApiKeys.TXN_OFFSET_COMMIT: ("topics", _txn_offset_commit),
    ApiKeys.WRITE_TXN_MARKERS: ("markers", _write_txn_markers),
    ApiKeys.INITIALIZE_SHARE_GROUP_STATE: ("results", _share_state("InitializeStateResult")),
    ApiKeys.READ_SHARE_GROUP_STATE: ("results", _share_state("ReadStateResult")),
    ApiKeys.WRITE_SHARE_GROUP_STATE: ("results", _share_state("WriteStateResult")),
    ApiKeys.DELETE_SHARE_GROUP_STATE: ("results", _share_state("DeleteStateResult")),
    ApiKeys.READ_SHARE_GROUP_STATE_SUMMARY: ("results", _share_state("ReadStateSummaryResult")),
    ApiKeys.CONSUMER_GROUP_DESCRIBE: ("groups", _described_groups),
    ApiKeys.SHARE_GROUP_DESCRIBE: ("groups", _described_groups),
    ApiKeys.STREAMS_GROUP_DESCRIBE: ("groups", _described_groups),
    ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: ("groups", _described_share_group_offsets),
    ApiKeys.DESCRIBE_TRANSACTIONS: (
        "transaction_states",
        lambda request, error: [error.struct("TransactionState", transactional_id=name) for name in request.transactional_ids],
    ),
}

FIRST_FETCH_VERSION_WITHOUT_TOPICS_IN_ERRORS = 13
_FIRST_VERSION_WITH_ERROR_OF_ALL = {
    ApiKeys.FETCH: 0,
    ApiKeys.ELECT_LEADERS: 1,
    ApiKeys.ADD_PARTITIONS_TO_TXN: 4,
    ApiKeys.ALTER_PARTITION_REASSIGNMENTS: 0,
    ApiKeys.DESCRIBE_USER_SCRAM_CREDENTIALS: 0,
}
"""Those of the APIs above that also have a top-level error, with the first version that has it."""


def error_response(api_key: ApiKeys, api_version: int, request: Any, error: ApiException) -> Any:
    """Returns the response message to `request`. Raises `error` again if the API has no place for
    it, or if the client wants no answer."""
    if api_key is ApiKeys.PRODUCE and request.acks == 0:
        raise error
    response: Any = API_TABLE[api_key].response()
    builder = _BUILDERS.get(api_key)
    if api_key is ApiKeys.FETCH and api_version < FIRST_FETCH_VERSION_WITHOUT_TOPICS_IN_ERRORS:
        builder = ("responses", _fetch)
    if builder is not None:
        field_name, build = builder
        setattr(response, field_name, build(request, ErrorFields(api_key, error)))
        if api_key is ApiKeys.FETCH:
            response.session_id = request.session_id
        if api_version >= _FIRST_VERSION_WITH_ERROR_OF_ALL.get(api_key, api_version + 1):
            response.error_code = int(error.error)
            if api_key is ApiKeys.ALTER_PARTITION_REASSIGNMENTS:
                response.error_message = error.message
        return response
    if not hasattr(response, "error_code"):
        raise error
    response.error_code = int(error.error)
    if api_key is ApiKeys.FETCH:
        response.session_id = request.session_id
    if hasattr(response, "error_message") and api_key is not ApiKeys.CONSUMER_GROUP_HEARTBEAT:  # whose error has no text, as in Kafka
        response.error_message = error.message or error.error.message
    if hasattr(response, "mirror_name"):
        response.mirror_name = request.mirror_name
    return response
