"""The Produce requests of one producer: which version a broker gets, and what is in them.

From version 13 on topics go by their ids. A topic without an id (its cluster was upgraded and has
not given it one) keeps its request at version 12. Below transactions of the second version
(KIP-890) a transactional producer stays at version 11, which adds no partitions to a transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kmirror.clients.cluster_client import ClusterClient, Node
from kmirror.clients.produce_frames import FIRST_WITH_IDS, BatchOnWire, Key, ProduceBodies, least_answer_bytes
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.network.client_connection import ClientConnection
from kmirror.network.client_requests import PostedRequest
from kmirror.wire.messages.produce import ProduceRequest

LAST_PRODUCE_WITH_NAMES: Final = 12
LAST_PRODUCE_BELOW_V2: Final = 11
FIRST_PRODUCE_WITH_ZSTD: Final = 7
LEAST_ANSWER_TO_ONE: Final = least_answer_bytes(FIRST_WITH_IDS, 1)
_NO_ID: Final = Uuid.ZERO.raw


class ProduceInFlight(PostedRequest):
    """One request on its way: its batches, and the topic and partition that each has in it. A topic
    is a name, or the bytes of an id.
    """

    __slots__ = ("_ended", "batches", "connection", "keys", "node")

    api_key = ProduceRequest.API_KEY
    keys: list[Key]

    def __init__(self, node: Node, connection: ClientConnection, batches: list[ProducerBatch], ended: Ended) -> None:
        """`ended` is called once, with the answer or with the error that came instead of it."""
        self.node = node
        self.connection = connection
        self.batches = batches
        self._ended = ended

    def answered(self, frame: memoryview) -> None:
        self._ended(self, frame, None)

    def failed(self, error: Exception) -> None:
        self._ended(self, None, error)


Ended = Callable[[ProduceInFlight, memoryview | None, Exception | None], None]


class ProduceRequests:
    """Encodes requests; the version is remembered for each broker's connection."""

    def __init__(self, config: ProducerConfig, cluster: ClusterClient, manager: TransactionManager | None) -> None:
        self._cluster = cluster
        self._manager = manager
        self._bodies = ProduceBodies(config.transactional_id, config.acks, config.request_timeout_ms)
        self._versions: dict[int, tuple[ClientConnection, bool, int]] = {}

    def encode(self, request: ProduceInFlight) -> None:
        """Notes a request's version, its body and the keys. UnsupportedVersionError, or an
        ApiException, for what this broker cannot be sent.
        """
        version = self._version(request.node, request.connection)
        batches = request.batches
        if len(batches) == 1 and version > LAST_PRODUCE_WITH_NAMES:
            topic, number = batches[0].partition
            key: Key = (self._cluster.metadata.topic_id(topic).raw, number)
            if key[0] != _NO_ID:
                request.version, request.keys, request.least_answer_bytes = version, [key], LEAST_ANSWER_TO_ONE
                request.body, request.size = self._bodies.body_of_one(version, key, *batches[0].parts())
                return
        if version > LAST_PRODUCE_WITH_NAMES and not all(self._cluster.topic_id(batch.partition.topic) for batch in batches):
            version = LAST_PRODUCE_WITH_NAMES
        if version < FIRST_PRODUCE_WITH_ZSTD and any(batch.is_zstd for batch in batches):
            raise ApiException(
                Errors.UNSUPPORTED_COMPRESSION_TYPE, "Produce requests with version < 7 are not allowed to use ZStandard compression"
            )
        request.version = version
        request.least_answer_bytes = least_answer_bytes(version, len(batches))
        topics: dict[str | bytes, list[BatchOnWire]] = {}
        request.keys = []
        for batch in batches:
            key = self._key(version, batch.partition)
            topics.setdefault(key[0], []).append(BatchOnWire(key[1], *batch.parts()))
            request.keys.append(key)
        request.body, request.size = self._bodies.body(version, topics)

    def _key(self, version: int, partition: TopicPartition) -> Key:
        topic, number = partition
        return (topic if version <= LAST_PRODUCE_WITH_NAMES else self._cluster.topic_id(topic).raw), number

    def _version(self, node: Node, connection: ClientConnection) -> int:
        """The version of requests on this connection."""
        in_v1 = self._manager is not None and self._manager.is_transactional and not self._manager.transactions_v2
        known = self._versions.get(node.id)
        if known is not None and known[0] is connection and known[1] is in_v1:
            return known[2]
        version = connection.versions.choose(ProduceRequest.API_KEY, version=None, max_version=LAST_PRODUCE_BELOW_V2 if in_v1 else None)
        self._versions[node.id] = (connection, in_v1, version)
        return version
