"""The Produce requests of one producer: which version a broker gets, and what is in them.

From version 13 on topics go by their ids. A topic without an id (its cluster was upgraded and has
not given it one) keeps its request at version 12. Below transactions of the second version
(KIP-890) a transactional producer stays at version 11, which adds no partitions to a transaction.
"""

from __future__ import annotations

from typing import Final

from kmirror.clients.cluster_client import ClusterClient, Node
from kmirror.clients.produce_frames import BatchOnWire, ProduceBodies
from kmirror.clients.producer_batch import ProducerBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.clients.transaction_manager import TransactionManager
from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import Buffer
from kmirror.network.client_connection import ClientConnection
from kmirror.wire.messages.produce import ProduceRequest

LAST_PRODUCE_WITH_NAMES: Final = 12
LAST_PRODUCE_BELOW_V2: Final = 11
FIRST_PRODUCE_WITH_ZSTD: Final = 7


class ProduceInFlight:
    """One request on its way: its batches, and the topic and partition that each has in it. A topic
    is a name, or the bytes of an id.
    """

    __slots__ = ("batches", "keys", "node", "version")

    def __init__(self, node: Node, batches: list[ProducerBatch]) -> None:
        self.node = node
        self.batches = batches
        self.version = -1
        self.keys: list[tuple[str | bytes, int]] = []


class ProduceRequests:
    """Encodes requests; `version` is remembered for each broker's connection."""

    def __init__(self, config: ProducerConfig, cluster: ClusterClient, manager: TransactionManager | None) -> None:
        self._cluster = cluster
        self._manager = manager
        self._bodies = ProduceBodies(config.transactional_id, config.acks, config.request_timeout_ms)
        self._versions: dict[int, tuple[ClientConnection, bool, int]] = {}

    def encoded(self, request: ProduceInFlight, connection: ClientConnection) -> tuple[list[Buffer], int]:
        """Returns the body's parts and its size, and notes the version and the keys.
        UnsupportedVersionError, or an ApiException, for what this broker cannot be sent.
        """
        version = self._version(request.node, connection)
        batches = request.batches
        if version > LAST_PRODUCE_WITH_NAMES and not all(self._cluster.topic_id(batch.partition.topic) for batch in batches):
            version = LAST_PRODUCE_WITH_NAMES
        topics: dict[str | bytes, list[BatchOnWire]] = {}
        for batch in batches:
            if version < FIRST_PRODUCE_WITH_ZSTD and batch.is_zstd:
                raise ApiException(
                    Errors.UNSUPPORTED_COMPRESSION_TYPE, "Produce requests with version < 7 are not allowed to use ZStandard compression"
                )
            topic, partition = batch.partition
            key = topic if version <= LAST_PRODUCE_WITH_NAMES else self._cluster.topic_id(topic).raw
            topics.setdefault(key, []).append(batch.on_wire_as(partition))
            request.keys.append((key, partition))
        request.version = version
        return self._bodies.body(version, topics)

    def _version(self, node: Node, connection: ClientConnection) -> int:
        """The version of requests on this connection."""
        in_v1 = self._manager is not None and self._manager.is_transactional and not self._manager.transactions_v2
        known = self._versions.get(node.id)
        if known is not None and known[0] is connection and known[1] is in_v1:
            return known[2]
        version = connection.choose_version(ProduceRequest.API_KEY, version=None, max_version=LAST_PRODUCE_BELOW_V2 if in_v1 else None)
        self._versions[node.id] = (connection, in_v1, version)
        return version
