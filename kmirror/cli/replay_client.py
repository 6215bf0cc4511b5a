"""A producer's requests, as the replay needs them.

The batches are already bytes, and the replay itself counts the sequences. Neither Kafka's own
producer nor librdkafka can do this: both compress records again, into batches of their own, and
number these themselves, so after a restart nobody could ask the destination what it has. This
client adds to `AdminClient` (leaders, coordinators, retries) the four requests of an idempotent and
transactional producer: Produce, InitProducerId, AddPartitionsToTxn, EndTxn.

Transactions follow the destination's `transaction.version` (KIP-890). From version 2 on, a batch
adds its partition to the transaction by itself, and EndTxn returns the producer's next epoch. Below
that, the partition is added first and the epoch stays.

Whatever can be retried is retried until `delivery_timeout_ms` is over, like `delivery.timeout.ms`
in Kafka's producer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from kmirror.admin.admin_client import DEFAULT_TIMEOUT_MS, AdminClient
from kmirror.admin.admin_requests import TRANSACTION_COORDINATOR, NoBrokerError, raise_for
from kmirror.admin.results import Node
from kmirror.common.errors import ApiException, Errors
from kmirror.common.exponential_backoff import ExponentialBackoff
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import AuthenticationError, DisconnectError, RequestTimeoutError
from kmirror.network.client_security import ClientSecurity
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import add_partitions_to_txn, end_txn, init_producer_id, produce

T = TypeVar("T")

DELIVERY_TIMEOUT_MS: Final = 120_000
REQUEST_TIMEOUT_MS: Final = 30_000
TRANSACTION_TIMEOUT_MS: Final = 900_000
"""The longest timeout that brokers allow by default (`transaction.max.timeout.ms`)."""
BACKOFF: Final = ExponentialBackoff(initial_ms=20, max_ms=1_000, jitter=0.2)
CONNECTION: Final = "replay"
ACKS_ALL: Final = -1
LAST_PRODUCE_WITH_NAMES: Final = 12
LAST_PRODUCE_BELOW_V2: Final = 11
LAST_END_BELOW_V2: Final = 4
LAST_ADD_OF_CLIENTS: Final = 3
TRANSACTION_VERSION: Final = "transaction.version"
OTHER_COORDINATOR: Final = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE, Errors.NETWORK_EXCEPTION)


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ProduceAnswer:
    """The result for a batch."""

    error: Errors
    message: str | None = None

    @property
    def is_written(self) -> bool:
        return self.error in (Errors.NONE, Errors.DUPLICATE_SEQUENCE_NUMBER)


class ReplayClient(AdminClient):
    """Call `open` first: it learns the destination's transaction version."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap_servers: Sequence[tuple[str, int]],
        *,
        client_id: str,
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
        security: ClientSecurity = ClientSecurity.PLAINTEXT,
        delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS,
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
    ) -> None:
        super().__init__(runtime, bootstrap_servers, client_id=client_id, timeout_ms=timeout_ms, security=security)
        self.runtime = runtime
        self.delivery_timeout_ms = delivery_timeout_ms
        self.transaction_timeout_ms = transaction_timeout_ms
        self.transactions_v2 = False
        self._leaders: dict[TopicPartition, Node] = {}
        self._coordinator_of: dict[str, Node] = {}

    async def open(self) -> str:
        """Returns the destination's cluster id. NoBrokerError if no broker answers."""
        described = await self.describe_cluster()
        versions = await self.broker_api_versions(described.nodes[0])
        levels = {feature.name: feature.max_version_level for feature in versions.finalized_features}
        self.transactions_v2 = levels.get(TRANSACTION_VERSION, 0) >= 2
        return described.cluster_id or ""

    # -- batches
    # ------------------------------------------------------------------------------------------------------------

    async def produce(self, target: TopicPartition, batch: bytearray, transactional_id: str | None) -> ProduceAnswer:
        """Send one batch to its leader, once.

        As long as nothing fails, batches of one partition arrive in the order of the calls.
        """
        leader = self._leaders.get(target)
        if leader is None:
            leader = await self._leader(target)
            if leader is None:
                return ProduceAnswer(Errors.LEADER_NOT_AVAILABLE, f"{target} has no leader")
        request = produce.ProduceRequest(
            transactional_id=transactional_id,
            acks=ACKS_ALL,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[
                produce.TopicProduceData(
                    name=target.topic, partition_data=[produce.PartitionProduceData(index=target.partition, records=batch)]
                )
            ],
        )
        is_below_v2 = transactional_id is not None and not self.transactions_v2
        version = LAST_PRODUCE_BELOW_V2 if is_below_v2 else LAST_PRODUCE_WITH_NAMES
        try:
            response = await self._client.send(
                leader.host, leader.port, request, timeout_ms=REQUEST_TIMEOUT_MS, max_version=version, connection_key=CONNECTION
            )
        except AuthenticationError:
            raise
        except (DisconnectError, RequestTimeoutError) as lost:
            self._leaders.pop(target, None)
            return ProduceAnswer(Errors.NETWORK_EXCEPTION, str(lost))
        row = response.responses[0].partition_responses[0]
        error = Errors.for_code(row.error_code)
        if error is not Errors.NONE and error.retriable:
            self._leaders.pop(target, None)
        return ProduceAnswer(error, next((one.batch_index_error_message for one in row.record_errors), None) or row.error_message)

    async def _leader(self, target: TopicPartition) -> Node | None:
        try:
            found = await self.describe_topics([target.topic])
        except NoBrokerError:
            return None
        rows = found[target.topic].partitions if target.topic in found else []
        leader_id = next((row.leader for row in rows if row.partition == target.partition), -1)
        if leader_id in self._requests.nodes:
            self._leaders[target] = self._requests.nodes[leader_id]
        return self._leaders.get(target)

    # -- producers and their transactions
    # -------------------------------------------------------------------------------------

    async def init_producer_id(self, transactional_id: str | None) -> ProducerIdAndEpoch:
        """Returns a producer's id and epoch; first aborts a transaction open under the id."""

        async def attempt() -> ProducerIdAndEpoch:
            request = init_producer_id.InitProducerIdRequest(
                transactional_id=transactional_id, transaction_timeout_ms=self.transaction_timeout_ms
            )
            if transactional_id is None:
                response = await self._requests.ask_any(request)
                raise_for(response.error_code, None)
            else:
                response = await self._ask_coordinator(transactional_id, request)
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)

        return await self.until_delivered(attempt)

    async def add_partition(self, transactional_id: str, producer: ProducerIdAndEpoch, target: TopicPartition) -> None:
        """Add a partition to a transaction. Nothing is sent from transaction version 2 on."""
        if self.transactions_v2:
            return

        async def attempt() -> None:
            topic = add_partitions_to_txn.AddPartitionsToTxnTopic(name=target.topic, partitions=[target.partition])
            request = add_partitions_to_txn.AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[topic],
            )
            response = await self._ask_coordinator(transactional_id, request, max_version=LAST_ADD_OF_CLIENTS)
            for row in response.results_by_topic_v3_and_below:
                for partition in row.results_by_partition:
                    self._raise_of_coordinator(transactional_id, partition.partition_error_code)

        await self.until_delivered(attempt)

    async def end_transaction(self, transactional_id: str, producer: ProducerIdAndEpoch, *, committed: bool) -> ProducerIdAndEpoch:
        """Commit or abort; returns the producer's id and epoch for what comes next.

        With transaction version 2 the epoch is new, and sequences start from 0.
        """

        async def attempt() -> ProducerIdAndEpoch:
            request = end_txn.EndTxnRequest(
                transactional_id=transactional_id, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=committed
            )
            response = await self._ask_coordinator(
                transactional_id, request, max_version=None if self.transactions_v2 else LAST_END_BELOW_V2
            )
            has_next = response.producer_id >= 0
            return ProducerIdAndEpoch(response.producer_id, response.producer_epoch) if has_next else producer

        return await self.until_delivered(attempt)

    async def _ask_coordinator(self, transactional_id: str, request: Any, *, max_version: int | None = None) -> Any:
        """Send a request to the coordinator; returns the response.

        ApiException for what the coordinator refuses; a retriable one if it cannot be reached.
        """
        node = self._coordinator_of.get(transactional_id)
        if node is None:
            node = (await self._requests.coordinators([transactional_id], TRANSACTION_COORDINATOR))[transactional_id]
            self._coordinator_of[transactional_id] = node
        try:
            response = await self._requests.send(node, request, REQUEST_TIMEOUT_MS, max_version=max_version)
        except NoBrokerError as error:
            self._coordinator_of.pop(transactional_id, None)
            raise ApiException(Errors.NETWORK_EXCEPTION, str(error)) from error
        self._raise_of_coordinator(transactional_id, getattr(response, "error_code", 0))
        return response

    def _raise_of_coordinator(self, transactional_id: str, code: int) -> None:
        error = Errors.for_code(code)
        if error in OTHER_COORDINATOR:
            self._coordinator_of.pop(transactional_id, None)
        raise_for(code, f"transactional id {transactional_id}: {error.message}" if code else None)

    async def until_delivered(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeat `attempt` after errors that may pass, with growing pauses.

        Raises the last error when the time is up.
        """
        clock = self.runtime.clock
        deadline_ms = clock.monotonic_ms() + self.delivery_timeout_ms
        failures = 0
        while True:
            try:
                return await attempt()
            except ApiException as error:
                if not error.error.retriable or clock.monotonic_ms() >= deadline_ms:
                    raise
            except NoBrokerError:
                if clock.monotonic_ms() >= deadline_ms:
                    raise
            await self.pause(failures)
            failures += 1

    async def pause(self, failures: int) -> None:
        """Wait for the backoff after a failure that had this many failures in a row before it."""
        await self.runtime.sleep_ms(BACKOFF.backoff_ms(failures, self.runtime.random))
