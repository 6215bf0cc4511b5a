"""DescribeTransactions (key 65, v0) and ListTransactions (key 66, v0-v2), for administrators
(KIP-664).

    ListTransactions   v1   longer open than a duration (KIP-994)      v2   ids by an RE2 pattern (KIP-1152)

DescribeTransactions answers for ids that this broker coordinates. ListTransactions lists those of
all partitions of `__transaction_state` that the broker leads. It returns unknown names of states as
unknown, and leaves out what the client may not describe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kmirror.common.acl import AclOperation, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.coordinator.transaction.transaction_coordinator_shard import TransactionFilter
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TransactionState
from kmirror.runtime.api import run_together
from kmirror.server.apis.transactions import transaction_coordinator
from kmirror.server.request import Request
from kmirror.wire.messages import describe_transactions, list_transactions

if TYPE_CHECKING:
    from kmirror.server.kafka_apis import KafkaApis


async def handle_describe_transactions(apis: KafkaApis, request: Request) -> describe_transactions.DescribeTransactionsResponse:
    message: describe_transactions.DescribeTransactionsRequest = request.message
    states = [_state_of(apis, request, transactional_id) for transactional_id in message.transactional_ids]
    return describe_transactions.DescribeTransactionsResponse(
        transaction_states=await run_together(apis.runtime, "describe-transactions", states)
    )


async def _state_of(apis: KafkaApis, request: Request, transactional_id: str) -> describe_transactions.TransactionState:
    try:
        if not apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            raise ApiException(Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        found = await transaction_coordinator(apis).describe_transaction(transactional_id)
    except ApiException as error:
        return describe_transactions.TransactionState(transactional_id=transactional_id, error_code=error.error)
    return _described(apis, request, found)


def _described(apis: KafkaApis, request: Request, found: TransactionMetadata) -> describe_transactions.TransactionState:
    topics: dict[str, list[int]] = {}
    for partition in found.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    allowed = apis.auth.filter_by_authorized(request, AclOperation.DESCRIBE, ResourceType.TOPIC, topics)
    return describe_transactions.TransactionState(
        transactional_id=found.transactional_id,
        transaction_state=found.state.label,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.start_timestamp_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            describe_transactions.TopicData(topic=name, partitions=partitions) for name, partitions in topics.items() if name in allowed
        ],
    )


async def handle_list_transactions(apis: KafkaApis, request: Request) -> list_transactions.ListTransactionsResponse:
    message: list_transactions.ListTransactionsRequest = request.message
    states = {name: TransactionState.from_label(name) for name in message.state_filters}
    wanted = TransactionFilter(
        producer_ids=frozenset(message.producer_id_filters),
        states=frozenset(state for state in states.values() if state is not None) if states else None,
        duration_ms=message.duration_filter,
        matches_id=_matcher(message.transactional_id_pattern),
    )
    found = await transaction_coordinator(apis).list_transactions(wanted)
    return list_transactions.ListTransactionsResponse(
        unknown_state_filters=[name for name, state in states.items() if state is None],
        transaction_states=[
            list_transactions.TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.label,
            )
            for metadata in found
            if apis.authorize(request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, metadata.transactional_id)
        ],
    )


def _matcher(pattern: str | None) -> Callable[[str], bool] | None:
    """Returns a function that matches a whole id; INVALID_REGULAR_EXPRESSION for a pattern that RE2
    cannot read.
    """
    if not pattern:
        return None
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise ApiException(Errors.INVALID_REGULAR_EXPRESSION) from error
    return lambda transactional_id: compiled.fullmatch(transactional_id) is not None
