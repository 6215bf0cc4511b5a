"""One client's view of one cluster: metadata, coordinators, requests and retries, for the producer
and the consumer (Kafka's `Metadata`, `NetworkClient` and `ConsumerNetworkClient` together).

Public API of `ClusterClient`:

    leader, known_leader, forget_leader, hear_leader      who leads a partition
    partitions_for, partition_count, topics, topic_id, topic_name, topic_error, node, nodes
    request_update                                        metadata that is asked for after the call
    coordinator, forget_coordinator                       who coordinates a group or a transaction
    ask, ask_any, api_version                             requests to one broker, or to any
    connection_for_posts, prepare                         requests that are encoded already
    retry                                                 an attempt, repeated with backoff
    close

Errors. `request_errors` has the table of requests that fail. Error codes inside responses are the
caller's, except those of Metadata and FindCoordinator.

Metadata. One request is in flight at a time, for all that wait (`metadata_rounds`). Topics that are
older than metadata.max.age.ms are refreshed in the background, with all others that are in use
(`topics_in_use`), while what is known stays in use.

Rebootstrap (KIP-899, KIP-1102). The bootstrap servers are used until a broker has answered. Then the
brokers that it named are used alone. If none of them can be reached, or none has answered for
metadata.recovery.rebootstrap.trigger.ms, or one answers REBOOTSTRAP_REQUIRED, the client begins
again with the bootstrap servers, unless metadata.recovery.strategy=none.

Brokers. From Apache Kafka 2.1 on. Each request goes out in the highest version that both sides know.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from kmirror.admin.results import Node
from kmirror.clients.client_config import ClientConfig
from kmirror.clients.cluster_metadata import ClusterMetadata, LeaderAndEpoch, PartitionInfo
from kmirror.clients.coordinator_finder import CoordinatorFinder
from kmirror.clients.metadata_rounds import MetadataRounds, closed_error
from kmirror.clients.request_errors import answer, unreachable
from kmirror.clients.topics_in_use import TopicsInUse
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.network.client import NetworkClient
from kmirror.network.client_connection import ClientConnection
from kmirror.network.client_requests import RequestMessage
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

__all__ = [
    "GROUP",
    "TRANSACTION",
    "ClusterClient",
    "LeaderAndEpoch",
    "Node",
    "PartitionInfo",
]

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
"""Kinds of keys that have a coordinator (FindCoordinator's key types)."""
METADATA_CONNECTION: Final = ""
LONGEST_STRING_BYTES: Final = 32_767
LONGEST_SHOWN: Final = 260
"""A bit more than the longest name of a topic."""
_ERRORS_OF_TOPICS: Final = {
    Errors.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access topics",
    Errors.INVALID_TOPIC_EXCEPTION: "Invalid topics",
}
_GONE: Final = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID)


class ClusterClient:
    """Owns the connections to one cluster. All methods run on the loop's thread."""

    def __init__(
        self, runtime: Runtime, config: ClientConfig, *, allow_auto_topic_creation: bool = False, client_id: str | None = None
    ) -> None:
        """ConfigError when a key or trust store of the security settings cannot be read."""
        self.runtime = runtime
        self.metadata = ClusterMetadata()
        self._config = config
        self._client = NetworkClient(
            runtime,
            config.client_id if client_id is None else client_id,
            settings=config.network_settings,
            security=config.security,
        )
        self.allow_auto_topic_creation = allow_auto_topic_creation
        """Whether brokers may create topics that are asked for by name and that they do not know."""
        self._timeout_ms = config.get_int("request.timeout.ms")
        self._backoff = config.retry_backoff
        self._scope = TaskScope(runtime, f"clients/{self._client.client_id or 'client'}")
        self._rounds = MetadataRounds(runtime, self._scope, config, self._ask_metadata, rebootstrap=self._rebootstrap)
        self._coordinators = CoordinatorFinder(runtime, self.ask_any)
        self._in_use = TopicsInUse(
            runtime.clock,
            self.metadata,
            max_age_ms=config.get_int("metadata.max.age.ms"),
            max_idle_ms=config.metadata_max_idle_ms,
        )
        self._closed = False

    @property
    def client_id(self) -> str:
        return self._client.client_id

    def readings(self) -> Iterator[tuple[str, float]]:
        """Yields what the connections have counted, by Kafka's names (`network.client_metrics`)."""
        yield from self._client.metrics.readings()

    @property
    def requests_in_flight(self) -> int:
        return self._client.in_flight

    @property
    def metadata_age_s(self) -> float:
        """Seconds since the last answer to a request for metadata; NaN before there was one."""
        answered_ms = self._rounds.answered_ms
        return math.nan if answered_ms is None else (self.runtime.clock.monotonic_ms() - answered_ms) / 1000

    # Partitions and topics

    def known_leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """What `leader` would return without asking. Starts a refresh of knowledge that is old."""
        self._keep_fresh(partition.topic)
        return self.metadata.leader(partition)

    async def leader(self, partition: TopicPartition) -> LeaderAndEpoch | None:
        """The partition's leader, None while it has none or the topic is not known.

        ApiException for what the cluster says about the topic, unless that is retriable, and with
        NETWORK_EXCEPTION if no broker answers; AuthenticationError.
        """
        found = self.known_leader(partition)
        if found is None:
            await self._updated([partition.topic])
            found = self.metadata.leader(partition)
            self._raise_topic_error(partition.topic)
        return found

    def forget_leader(self, partition: TopicPartition, failed: LeaderAndEpoch | None = None) -> None:
        """The next `leader` asks again. With `failed`, only if that one is still the known one."""
        if failed is None or self.metadata.leader(partition) == failed:
            self.metadata.forget_leader(partition)

    def hear_leader(self, partition: TopicPartition, node: Node, epoch: int) -> bool:
        """Takes over the leader that a Produce or Fetch response names; returns whether it was
        news (KIP-951).
        """
        return self.metadata.hear_leader(partition, node, epoch)

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, [] if the cluster does not know it; errors as in `leader`."""
        self._keep_fresh(topic)
        found = self.metadata.partitions_for(topic)
        if found is None:
            await self._updated([topic])
            self._raise_topic_error(topic)
            found = self.metadata.partitions_for(topic)
        return found or []

    def partition_count(self, topic: str) -> int:
        """0 if nothing is known of the topic; asks nobody, but keeps the topic fresh."""
        self._keep_fresh(topic)
        return self.metadata.partition_count(topic)

    async def topics(self, pattern: re.Pattern[str] | None = None) -> list[str]:
        """Names of the cluster's topics that match `pattern` from their beginning to their end,
        sorted. Asks each time.
        """
        await self._updated(None)
        return [name for name in self.metadata.topic_names() if pattern is None or pattern.fullmatch(name)]

    def topic_id(self, topic: str) -> Uuid:
        """`Uuid.ZERO` if it is not known, or the cluster has no topic ids."""
        return self.metadata.topic_id(topic)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return self.metadata.topic_name(topic_id)

    def topic_error(self, topic: str) -> Errors:
        """What the cluster said last about the topic."""
        return self.metadata.error(topic)

    def node(self, node_id: int) -> Node | None:
        return self.metadata.nodes.get(node_id)

    def nodes(self) -> list[Node]:
        """Known brokers by id; empty before the first answer."""
        return [self.metadata.nodes[node_id] for node_id in sorted(self.metadata.nodes)]

    async def request_update(self, topics: Iterable[str] | None = ()) -> None:
        """Waits for metadata that is asked for after this call; None means all topics.

        A failure is raised as ApiException, or AuthenticationError.
        """
        await self._updated(topics)

    # Coordinators

    async def coordinator(self, key: str, key_type: int) -> Node:
        """Who coordinates the group or transactional id `key`; a retriable ApiException while
        nobody does, another one if the cluster refuses.
        """
        return await self._coordinators.find(key, key_type)

    def forget_coordinator(self, key: str, key_type: int, failed: Node | None = None) -> None:
        """The next `coordinator` asks again. With `failed`, only if that one is still the known
        one.
        """
        self._coordinators.forget(key, key_type, failed)

    # Requests

    async def ask(
        self,
        node: Node,
        request: RequestMessage,
        *,
        timeout_ms: int | None = None,
        max_version: int | None = None,
        version: int | None = None,
        connection_key: str = "",
    ) -> Any:
        """Asks one broker and returns its response; `timeout_ms` defaults to request.timeout.ms.

        The module's docstring lists the errors.
        """
        timeout_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return await answer(
            self._client.send(
                node.host,
                node.port,
                request,
                timeout_ms=timeout_ms,
                version=version,
                max_version=max_version,
                connection_key=connection_key,
            )
        )

    def connection_for_posts(self, node: Node, *, connection_key: str = "") -> ClientConnection | None:
        """The connection to a broker if requests can be posted on it at once; None means that
        `prepare` has to be awaited first.
        """
        return self._client.connection_for_posts(node.host, node.port, connection_key=connection_key)

    async def prepare(self, node: Node, *, connection_key: str = "") -> None:
        """Waits until requests can be posted to a broker; errors as in `ask`."""
        await answer(self._client.prepare(node.host, node.port, timeout_ms=self._timeout_ms, connection_key=connection_key))

    async def api_version(self, node: Node, api_key: int, *, max_version: int | None = None, connection_key: str = "") -> int:
        """The version in which `ask` would make this request, for requests whose content depends
        on it.
        """
        version: int = await answer(
            self._client.api_version(
                node.host, node.port, api_key, timeout_ms=self._timeout_ms, max_version=max_version, connection_key=connection_key
            )
        )
        return version

    async def finalized_features(self, node: Node) -> dict[str, int]:
        """Features of the cluster by their level, as this broker told when it was connected to;
        empty below Kafka 2.7.
        """
        response = await answer(self._client.api_versions(node.host, node.port, timeout_ms=self._timeout_ms))
        return {feature.name: feature.max_version_level for feature in response.finalized_features}

    async def ask_any(self, request: RequestMessage | Callable[[int], RequestMessage], *, api_key: int | None = None) -> Any:
        """Asks the first broker that can be reached, beginning with a random one.

        If `request` is a function, it makes the request for the version that this broker knows of
        `api_key`. ApiException with NETWORK_EXCEPTION if no broker answers.
        """
        failures: list[str] = []
        known = self.nodes()
        if known:
            answered, response = await self._ask_first(
                self._shuffled([(node.host, node.port) for node in known]), request, api_key, failures
            )
            if answered:
                return response
            if not self._config.rebootstraps:
                raise unreachable(failures)
            self._rebootstrap()
        answered, response = await self._ask_first(self._shuffled(self._config.bootstrap_servers), request, api_key, failures)
        if answered:
            return response
        raise unreachable(failures)

    async def retry(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int) -> T:
        """Calls `attempt` until it succeeds, fails for good, or the time is up.

        It is repeated after retriable errors, with the client's backoff. When the time is up, the
        last error is raised; REQUEST_TIMED_OUT if the first attempt is still running.
        """
        clock = self.runtime.clock
        deadline_ms = clock.monotonic_ms() + timeout_ms
        last: ApiException | None = None
        failures = 0
        while True:
            try:
                async with asyncio.timeout(max(0.001, (deadline_ms - clock.monotonic_ms()) / 1000)):
                    return await attempt()
            except TimeoutError as error:
                raise (last or ApiException(Errors.REQUEST_TIMED_OUT)) from error
            except ApiException as error:
                last = error
                pause_ms = self._backoff.backoff_ms(failures, self.runtime.random)
                if not error.error.retriable or clock.monotonic_ms() + pause_ms >= deadline_ms:
                    raise
            failures += 1
            await self.runtime.sleep_ms(pause_ms)

    def backoff_ms(self, failures: int) -> float:
        """The pause after an attempt that had this many failures in a row before it."""
        return self._backoff.backoff_ms(failures, self.runtime.random)

    def disconnect(self, node: Node, *, connection_key: str = "") -> None:
        """Drops the connection to a broker and fails the requests that wait on it."""
        self._client.disconnect(node.host, node.port, connection_key=connection_key)

    async def close(self) -> None:
        """Drops all connections. What still waits fails with NETWORK_EXCEPTION."""
        self._closed = True
        self._client.close()
        try:
            await self._scope.cancel()
        finally:
            self._rounds.close()

    # Inside: metadata

    def _keep_fresh(self, topic: str) -> None:
        if self._in_use.is_stale(topic) and not self._closed:
            self._rounds.refresh(self._in_use.names)

    def _raise_topic_error(self, topic: str) -> None:
        error = self.metadata.error(topic)
        if error is not Errors.NONE and not error.retriable:
            named = _ERRORS_OF_TOPICS.get(error)
            raise ApiException(error, f"{named}: [{topic}]" if named else f"{topic}: {error.message}")

    async def _updated(self, topics: Iterable[str] | None) -> None:
        if self._closed:
            raise closed_error()
        topics = None if topics is None else list(topics)
        for name in topics or ():
            _check_name(name)
        failure = await asyncio.shield(self._rounds.join(topics))
        if failure is not None:
            raise failure

    async def _ask_metadata(self, asked: list[str] | None, may_create: bool) -> None:
        rows = None if asked is None else [MetadataRequestTopic(name=name) for name in asked]
        may_create = may_create and self.allow_auto_topic_creation and asked is not None
        request = MetadataRequest(topics=rows, allow_auto_topic_creation=may_create)
        response = await self.ask_any(request)
        if response.error_code == Errors.REBOOTSTRAP_REQUIRED and self._config.rebootstraps:
            self._rebootstrap()
            response = await self.ask_any(request)
        if response.error_code:
            raise ApiException(Errors.for_code(response.error_code))
        self.metadata.apply(response, asked, self.runtime.clock.monotonic_ms())

    def _rebootstrap(self) -> None:
        for node in self.nodes():
            self._client.disconnect(node.host, node.port, connection_key=METADATA_CONNECTION)
        self.metadata.clear()
        self._coordinators.clear()

    # Inside: requests

    def _shuffled(self, addresses: list[tuple[str, int]]) -> list[tuple[str, int]]:
        start = self.runtime.random.randrange(len(addresses))
        return addresses[start:] + addresses[:start]

    async def _ask_first(
        self,
        addresses: list[tuple[str, int]],
        request: RequestMessage | Callable[[int], RequestMessage],
        api_key: int | None,
        failures: list[str],
    ) -> tuple[bool, Any]:
        """(True, response) of the first broker that answers, (False, None) if none does."""
        for host, port in addresses:
            node = Node(-1, host, port)
            try:
                if api_key is None:
                    return True, await self.ask(node, request)  # type: ignore[arg-type]
                version = await self.api_version(node, api_key)
                return True, await self.ask(node, request(version), version=version)  # type: ignore[operator]
            except ApiException as error:
                if error.error is not Errors.NETWORK_EXCEPTION:
                    raise
                failures.append(error.message)
        return False, None


def _check_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that no request can hold. It would fail the requests for the
    other topics too.
    """
    try:
        is_writable = len(name.encode()) <= LONGEST_STRING_BYTES
    except UnicodeEncodeError:
        is_writable = False
    if not is_writable:
        raise ApiException(Errors.INVALID_TOPIC_EXCEPTION, f"Invalid topics: [{name[:LONGEST_SHOWN]!r}]")
