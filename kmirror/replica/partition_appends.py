"""Appends of clients and coordinators to the partitions that this broker leads.

Each partition is appended to separately, and has an error of its own. With acks=-1 the answer waits
in the purgatory of produces until the ISR has the appended records (`delayed_produce`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from kmirror.common.errors import ApiException, Errors
from kmirror.common.metrics import Meter
from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import INTERNAL_TOPICS, MIRROR_STATE_TOPIC_NAME, TopicPartition
from kmirror.record.validation import RecordValidationException
from kmirror.replica.broker_topic_stats import BrokerTopicStats
from kmirror.replica.delayed_produce import DelayedProduce, ProducePartitionStatus
from kmirror.replica.hosted_partitions import HostedPartitions
from kmirror.replica.partition import Partition
from kmirror.replica.purgatories import Purgatories
from kmirror.replica.replica_types import PartitionResponse
from kmirror.runtime.api import Runtime
from kmirror.storage.log_append_info import AppendOrigin
from kmirror.storage.producer_state_entry import VerificationGuard

_CLIENT_MISTAKES = frozenset(
    (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.MESSAGE_TOO_LARGE,
        Errors.RECORD_LIST_TOO_LARGE,
        Errors.CORRUPT_MESSAGE,
        Errors.KAFKA_STORAGE_ERROR,
        Errors.READ_ONLY_TOPIC,
    )
)
"""Errors that are expected: they log only at debug level, and the answer has no offsets (Kafka's
UNKNOWN_LOG_APPEND_INFO).
"""

_log = logging.getLogger(__name__)


class PartitionAppends:
    """Appends to hosted partitions; waiting produces belong to the purgatories. `expirations`
    counts produces that timed out before the ISR had them.
    """

    def __init__(
        self, runtime: Runtime, hosted: HostedPartitions, purgatories: Purgatories, stats: BrokerTopicStats, *, expirations: Meter
    ) -> None:
        self._runtime = runtime
        self._hosted = hosted
        self._purgatories = purgatories
        self._stats = stats
        self._expirations = expirations

    def append_records(
        self,
        *,
        timeout_ms: int,
        required_acks: int,
        origin: AppendOrigin,
        entries: Mapping[TopicPartition, Buffer],
        internal_topics_allowed: bool = False,
        verification_guards: Mapping[TopicPartition, VerificationGuard] | None = None,
        transaction_version: int = 0,
    ) -> asyncio.Future[dict[TopicPartition, PartitionResponse]]:
        """Appends now; the future is done at once unless `required_acks` is -1 and a follower still
        has to fetch the records.

        Every error is in its partition's response. A buffer of `entries` is patched in place and
        must not be used again. `verification_guards` are those of verified transactions;
        `transaction_version` is that of markers.
        """
        future: asyncio.Future[dict[TopicPartition, PartitionResponse]] = self._runtime.create_future()
        if required_acks not in (-1, 0, 1):
            future.set_result({topic_partition: PartitionResponse(Errors.INVALID_REQUIRED_ACKS) for topic_partition in entries})
            return future
        responses: dict[TopicPartition, PartitionResponse] = {}
        pending: dict[TopicPartition, ProducePartitionStatus] = {}
        for topic_partition, records in entries.items():
            response, partition = self._append(
                topic_partition,
                records,
                origin,
                required_acks=required_acks,
                internal_topics_allowed=internal_topics_allowed,
                verification_guard=None if verification_guards is None else verification_guards.get(topic_partition),
                transaction_version=transaction_version,
            )
            responses[topic_partition] = response
            if required_acks == -1 and partition is not None:
                done, error = partition.check_enough_replicas_reach_offset(response.last_offset + 1)
                if not done:
                    pending[topic_partition] = ProducePartitionStatus(response, partition, response.last_offset + 1)
                elif error is not Errors.NONE:
                    response.error = error
        for topic_partition, response in responses.items():
            if response.error is Errors.NONE:
                self._purgatories.complete_delayed(topic_partition)
        if pending:
            operation = DelayedProduce(timeout_ms, pending, responses, future, self._expirations)
            self._purgatories.produces.try_complete_else_watch(operation, pending)
        else:
            future.set_result(responses)
        return future

    def _append(
        self,
        topic_partition: TopicPartition,
        records: Buffer,
        origin: AppendOrigin,
        *,
        required_acks: int,
        internal_topics_allowed: bool,
        verification_guard: VerificationGuard | None,
        transaction_version: int,
    ) -> tuple[PartitionResponse, Partition | None]:
        is_allowed = internal_topics_allowed and topic_partition.topic != MIRROR_STATE_TOPIC_NAME  # the coordinator appends by itself
        if topic_partition.topic in INTERNAL_TOPICS and not is_allowed:
            return PartitionResponse(Errors.INVALID_TOPIC_EXCEPTION), None
        try:
            partition = self._hosted.get_or_exception(topic_partition)
            info = partition.append_records_to_leader(
                records,
                origin=origin,
                required_acks=required_acks,
                verification_guard=verification_guard,
                transaction_version=transaction_version,
            )
        except ApiException as error:
            return self._refused(topic_partition, error), None
        self._stats.appended(topic_partition.topic, size_in_bytes=len(records), messages=info.num_messages)
        response = PartitionResponse(
            Errors.NONE,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
            last_offset=info.last_offset,
        )
        return response, partition

    def _refused(self, topic_partition: TopicPartition, error: ApiException) -> PartitionResponse:
        """The response of a refused append. As in Kafka, the client gets a text only for record
        errors, and the log start offset if the partition was reached.
        """
        partition = self._hosted.online.get(topic_partition)
        log = None if partition is None or not partition.is_leader else partition.log
        if error.error in _CLIENT_MISTAKES:
            _log.debug("Append to %s refused: %s", topic_partition, error.message)
        else:
            _log.error("Error processing append operation on partition %s: %s: %s", topic_partition, error.error.name, error.message)
            self._stats.topic(topic_partition.topic).failed_produce_requests.mark()
            self._stats.all_topics.failed_produce_requests.mark()
        if not isinstance(error, RecordValidationException):
            log_start_offset = -1 if log is None or error.error in _CLIENT_MISTAKES else log.log_start_offset
            return PartitionResponse(error.error, log_start_offset=log_start_offset)
        return PartitionResponse(
            error.error,
            log_start_offset=-1 if log is None else log.log_start_offset,
            record_errors=error.record_errors,
            error_message=error.message,
        )
