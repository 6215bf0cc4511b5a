"""The requests of a producer with an id: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
TxnOffsetCommit, EndTxn; and what each error means (the handlers of Kafka's `TransactionManager`).

An error is one of four things: the coordinator moved (OTHER_COORDINATOR: it is looked for again), it
passes (retriable: the request is repeated), the transaction can only be aborted (ABORTABLE), or the
producer is over (all others, as in Kafka). Adding partitions has it the other way round: what is not
in `_FATAL` is abortable.

A request is repeated until it has an outcome or its task is cancelled. The caller bounds its own
wait: a call that it gave up goes on in the background, and may be awaited again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kmirror.clients.cluster_client import GROUP, TRANSACTION, ClusterClient, Node
from kmirror.clients.consumer.consumer_types import CommitFailedException, ConsumerGroupMetadata
from kmirror.clients.producer_batch import ProducerIdAndEpoch
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client_requests import RequestMessage
from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kmirror.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kmirror.wire.messages.end_txn import EndTxnRequest
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

LAST_ADD_OF_CLIENTS: Final = 3
LAST_END_BELOW_V2: Final = 4
LAST_OFFSET_COMMIT_BELOW_V2: Final = 4
FIRST_INIT_WITH_EPOCH: Final = 3
FIRST_OFFSET_COMMIT_WITH_MEMBER: Final = 3
TRANSACTION_VERSION: Final = "transaction.version"
CONCURRENT_BACKOFF_MS: Final = 20
"""The pause of the first AddPartitionsToTxn while the last transaction is still being ended."""

OTHER_COORDINATOR: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION)
FENCED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED)
ABORTABLE: Final = (
    Errors.UNKNOWN_PRODUCER_ID,
    Errors.INVALID_PRODUCER_ID_MAPPING,
    Errors.TRANSACTION_ABORTABLE,
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.GROUP_AUTHORIZATION_FAILED,
    Errors.OPERATION_NOT_ATTEMPTED,
    Errors.FENCED_INSTANCE_ID,
)
OF_ANOTHER_MEMBER: Final = (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION, Errors.STALE_MEMBER_EPOCH)
"""The offsets were consumed by somebody who is not in the group any more: CommitFailedException, after
which the transaction can only be aborted."""


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """Kafka's `OffsetAndMetadata`; `leader_epoch` -1 if unknown."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class TransactionalRequests:
    """Every method repeats its request until it has an outcome, which it gives to the manager; an
    error that cannot pass is raised after that.
    """

    def __init__(self, cluster: ClusterClient, manager: TransactionManager, *, transaction_timeout_ms: int) -> None:
        self._cluster = cluster
        self._manager = manager
        self._timeout_ms = transaction_timeout_ms

    async def init_producer_id(self, *, bump: bool = False) -> None:
        """Gets an id and epoch; of a transactional producer, fences its older instances and aborts
        their transaction. With `bump`, asks for the next epoch of the id that it has (KIP-360).
        """
        manager = self._manager

        async def attempt() -> ProducerIdAndEpoch:
            request = InitProducerIdRequest(
                transactional_id=manager.transactional_id,
                transaction_timeout_ms=self._timeout_ms if manager.is_transactional else 2**31 - 1,
            )
            if not manager.is_transactional:
                response = await self._cluster.ask_any(request)
                _raise_for(response.error_code)
            else:
                node = await self._coordinator()
                with self._looking_again(self._key, TRANSACTION, node):
                    version = await self._cluster.api_version(node, request.API_KEY)
                if bump and version >= FIRST_INIT_WITH_EPOCH and manager.producer.is_valid:
                    request.producer_id, request.producer_epoch = manager.producer
                response = await self._ask_coordinator(request)
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        producer = await self._decided(attempt)
        if manager.is_transactional:
            await self.learn_version()
        manager.initialized(producer)

    async def learn_version(self) -> None:
        """Notes whether the cluster runs transactions of version 2 (KIP-890)."""
        try:
            features = await self._cluster.finalized_features(await self._coordinator())
        except ApiException:
            return  # the next transaction asks again
        self._manager.transactions_v2 = features.get(TRANSACTION_VERSION, 0) >= 2

    async def add_partitions(self) -> None:
        """Adds the partitions that the manager has noted to the transaction (below version 2)."""
        manager = self._manager
        adding = dict(manager.new_partitions)
        manager.pending_partitions.update(adding)
        manager.new_partitions.clear()

        async def attempt() -> None:
            topics: dict[str, list[int]] = {}
            for partition in adding:
                topics.setdefault(partition.topic, []).append(partition.partition)
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=manager.transactional_id or "",
                v3_and_below_producer_id=manager.producer.producer_id,
                v3_and_below_producer_epoch=manager.producer.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()],
            )
            response = await self._ask_coordinator(request, max_version=LAST_ADD_OF_CLIENTS)
            refused = [
                (topic.name, Errors.for_code(row.partition_error_code))
                for topic in response.results_by_topic_v3_and_below
                for row in topic.results_by_partition
                if row.partition_error_code
            ]
            self._raise_worst(refused)

        await self._decided(
            attempt,
            is_abortable_by_default=True,
            retried=(Errors.UNKNOWN_TOPIC_OR_PARTITION,),
            ends_when=lambda: manager.wants_no_more,
        )
        manager.partitions_added(adding)

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        """Commits offsets of a group as a part of the transaction."""
        manager = self._manager
        if not manager.transactions_v2:

            async def add_offsets() -> None:
                await self._ask_coordinator(
                    AddOffsetsToTxnRequest(
                        transactional_id=manager.transactional_id or "",
                        producer_id=manager.producer.producer_id,
                        producer_epoch=manager.producer.epoch,
                        group_id=group.group_id,
                    )
                )

            await self._decided(add_offsets)
        manager.has_begun = True
        await self._decided(lambda: self._commit_offsets(offsets, group), retried=(Errors.UNKNOWN_TOPIC_OR_PARTITION,))

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata) -> None:
        manager = self._manager
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for partition, entry in offsets.items():
            row = TxnOffsetCommitRequestPartition(
                partition_index=partition.partition,
                committed_offset=entry.offset,
                committed_leader_epoch=entry.leader_epoch,
                committed_metadata=entry.metadata,
            )
            topics.setdefault(partition.topic, []).append(row)
        request = TxnOffsetCommitRequest(
            transactional_id=manager.transactional_id or "",
            group_id=group.group_id,
            producer_id=manager.producer.producer_id,
            producer_epoch=manager.producer.epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=rows) for name, rows in topics.items()],
        )
        node = await self._cluster.coordinator(group.group_id, GROUP)
        highest = None if manager.transactions_v2 else LAST_OFFSET_COMMIT_BELOW_V2
        with self._looking_again(group.group_id, GROUP, node):
            version = await self._cluster.api_version(node, request.API_KEY, max_version=highest)
        if version < FIRST_OFFSET_COMMIT_WITH_MEMBER and (
            group.member_id or group.generation_id >= 0 or group.group_instance_id is not None
        ):
            raise ApiException(
                Errors.UNSUPPORTED_VERSION,
                "Broker doesn't support group metadata commit API on version "
                f"{version}, minimum supported request version is 3 which requires brokers to be on version 2.5 or above.",
            )
        with self._looking_again(group.group_id, GROUP, node):
            response = await self._cluster.ask(node, request, version=version)
        refused = [(topic.name, Errors.for_code(row.error_code)) for topic in response.topics for row in topic.partitions if row.error_code]
        if any(error in OTHER_COORDINATOR for _, error in refused):
            self._cluster.forget_coordinator(group.group_id, GROUP, node)
        self._raise_worst(refused)

    async def end(self, *, committed: bool) -> None:
        """Commits or aborts the transaction; nothing is sent if the coordinator cannot know of it."""
        manager = self._manager
        following: ProducerIdAndEpoch | None = None
        if manager.has_begun:

            async def attempt() -> ProducerIdAndEpoch | None:
                request = EndTxnRequest(
                    transactional_id=manager.transactional_id or "",
                    producer_id=manager.producer.producer_id,
                    producer_epoch=manager.producer.epoch,
                    committed=committed,
                )
                response = await self._ask_coordinator(request, max_version=None if manager.transactions_v2 else LAST_END_BELOW_V2)
                if response.producer_id < 0:
                    return None
                return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

            following = await self._decided(attempt)
        needs_bump = manager.epoch_bump_required and following is None
        manager.transaction_over(following, needs_bump=needs_bump)
        if needs_bump:
            await self.init_producer_id(bump=True)

    # Inside

    @property
    def _key(self) -> str:
        return self._manager.transactional_id or ""

    async def _coordinator(self) -> Node:
        return await self._cluster.coordinator(self._key, TRANSACTION)

    async def _ask_coordinator(self, request: RequestMessage, *, max_version: int | None = None) -> Any:
        node = await self._coordinator()
        with self._looking_again(self._key, TRANSACTION, node):
            response = await self._cluster.ask(node, request, max_version=max_version)
            _raise_for(getattr(response, "error_code", 0))
        return response

    @contextmanager
    def _looking_again(self, key: str, key_type: int, node: Node) -> Iterator[None]:
        """Forgets a coordinator that is none any more, or cannot be reached: the next attempt looks for
        the right one.
        """
        try:
            yield
        except ApiException as error:
            if error.error in OTHER_COORDINATOR:
                self._cluster.forget_coordinator(key, key_type, node)
            raise

    def _raise_worst(self, refused: list[tuple[str, Errors]]) -> None:
        """Raises the error of several that decides: one that is over before one that passes, and that
        before OPERATION_NOT_ATTEMPTED, which only says that another one decides.
        """
        for is_wanted in (_is_final, _passes, lambda error: True):
            for name, error in refused:
                if is_wanted(error):
                    if error in OTHER_COORDINATOR and self._manager.transactional_id is not None:
                        self._cluster.forget_coordinator(self._manager.transactional_id, TRANSACTION)
                    text = f"Not authorized to access topics: [{name}]" if error is Errors.TOPIC_AUTHORIZATION_FAILED else None
                    raise ApiException(error, text)

    async def _decided(
        self,
        attempt: Callable[[], Awaitable[Any]],
        *,
        is_abortable_by_default: bool = False,
        retried: tuple[Errors, ...] = (),
        ends_when: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Repeats `attempt` while its errors pass; tells the manager about one that does not. One of
        `retried` may never pass, so it is raised once `ends_when` says so.
        """
        failures = 0
        while True:
            try:
                return await attempt()
            except ApiException as error:
                if error.error in retried and ends_when():
                    raise
                if error.error.retriable or error.error in retried:
                    pause_ms = self._cluster.backoff_ms(failures)
                    if error.error is Errors.CONCURRENT_TRANSACTIONS and is_abortable_by_default:
                        pause_ms = CONCURRENT_BACKOFF_MS
                elif error.error in OF_ANOTHER_MEMBER:
                    failed = CommitFailedException(
                        f"Transaction offset Commit failed due to consumer group metadata mismatch: {error.message}"
                    )
                    self._manager.must_abort(failed)
                    raise failed from error
                else:
                    self._give_up(error, is_abortable_by_default=is_abortable_by_default)
                    raise
            except KmirrorError as error:  # the login was refused
                self._manager.fail_for_good(error)
                raise
            failures += 1
            await self._cluster.runtime.sleep_ms(pause_ms)

    def _give_up(self, error: ApiException, *, is_abortable_by_default: bool) -> None:
        manager = self._manager
        if error.error in FENCED:
            manager.fail_for_good(ApiException(Errors.PRODUCER_FENCED))
        elif error.error in ABORTABLE or (is_abortable_by_default and error.error not in _FATAL):
            if error.error in (Errors.UNKNOWN_PRODUCER_ID, Errors.INVALID_PRODUCER_ID_MAPPING):
                manager.epoch_bump_required = True
            manager.must_abort(error)
        else:
            manager.fail_for_good(error)


_FATAL: Final = (Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, Errors.INVALID_TXN_STATE, Errors.UNSUPPORTED_VERSION)


def _is_final(error: Errors) -> bool:
    return not error.retriable and error is not Errors.OPERATION_NOT_ATTEMPTED


def _passes(error: Errors) -> bool:
    return error.retriable


def _raise_for(code: int) -> None:
    if code:
        raise ApiException(Errors.for_code(code))


def check_group_metadata(group: ConsumerGroupMetadata) -> None:
    """ValueError, with Kafka's text, for a member of a generation whose member id is missing."""
    if group.generation_id > 0 and not group.member_id:
        shown = (
            f"GroupMetadata(groupId = {group.group_id}, generationId = {group.generation_id}, memberId = {group.member_id}, "
            f"groupInstanceId = {group.group_instance_id or ''})"
        )
        raise ValueError(f"Passed in group metadata {shown} has generationId > 0 but the member.id is unknown")
