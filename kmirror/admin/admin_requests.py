"""Requests of `AdminClient`: whom to ask, what to try again, and when to give up.

Requests go to any known broker, which forwards them to the controller where needed; what only the
leader of a partition, the coordinator of a group or one broker knows is asked of it. A broker that
cannot be reached is passed over for the next; when none is left: `NoBrokerError`. Retriable errors
of the cluster are retried until the time is up, with a short pause: leaders that move, coordinators
that load.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from kmirror.admin.results import Node, RequestOptions
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import (
    AuthenticationError,
    DisconnectError,
    NetworkClient,
    NotConnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import find_coordinator, metadata

DEFAULT_TIMEOUT_MS = 60_000
RETRY_PAUSE_MS = 100
GROUP_COORDINATOR = 0
TRANSACTION_COORDINATOR = 1

T = TypeVar("T")


class NoBrokerError(KmirrorError):
    """No broker of the cluster could be reached."""


class AdminRequests:
    """One cluster's brokers and the ways to ask them.

    Every call of `AdminClient` is a function on this.

    `nodes` are the brokers that the cluster named last. `timeout_ms` bounds a call that has no time
    of its own. `controllers`: the bootstrap servers are controllers (Kafka's
    bootstrap.controllers). They answer what is theirs: configurations, features, the quorum, rules,
    reassignments; what brokers know is not to be had from them.
    """

    def __init__(
        self, runtime: Runtime, client: NetworkClient, bootstrap_servers: Sequence[tuple[str, int]], *, timeout_ms: int, controllers: bool
    ) -> None:
        self.runtime = runtime
        self.client = client
        self.timeout_ms = timeout_ms
        self.controllers = controllers
        self.nodes: dict[int, Node] = {}
        self._bootstrap = list(bootstrap_servers)

    def timeout(self, options: RequestOptions | None) -> int:
        return self._or_default(None if options is None else options.timeout_ms)

    def _or_default(self, timeout_ms: int | None) -> int:
        return self.timeout_ms if timeout_ms is None else timeout_ms

    async def metadata(self, names: Sequence[str] | None) -> Any:
        """Metadata of `names` (None: all topics); it refreshes the list of brokers."""
        topics = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
        response = await self.ask_any(metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        if response.brokers:
            self.nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers}
        return response

    async def ask_any(self, request: Any, timeout_ms: int | None = None) -> Any:
        """Ask the first broker that can be reached."""
        known = [(self.nodes[node_id].host, self.nodes[node_id].port) for node_id in sorted(self.nodes)]
        failures = []
        late: NotConnectedError | None = None
        for host, port in dict.fromkeys(known + self._bootstrap):
            try:
                return await self.client.send(host, port, request, timeout_ms=self._or_default(timeout_ms))
            except AuthenticationError:
                raise
            except DisconnectError as error:
                failures.append(str(error))
            except UnsupportedVersionError as error:
                raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
            except NotConnectedError as error:  # a host that is switched off answers nothing at all
                failures.append(str(error))
                late = error
            except RequestTimeoutError as error:
                raise ApiException(Errors.REQUEST_TIMED_OUT, str(error)) from error
        if late is not None:
            raise ApiException(Errors.REQUEST_TIMED_OUT, "; ".join(failures)) from late
        raise NoBrokerError("no broker could be reached: " + "; ".join(failures))

    async def ask_node(self, node_id: int | None, request: Any) -> Any:
        """Ask this broker and no other; any where it is None."""
        return await self.ask_any(request) if node_id is None else await self.send(await self.node(node_id), request)

    async def node(self, node_id: int) -> Node:
        """Where the broker is; NoBrokerError when the cluster has none of this id."""
        if node_id not in self.nodes:
            await self.metadata([])
        if node_id not in self.nodes:
            raise NoBrokerError(f"there is no broker {node_id} in the cluster")
        return self.nodes[node_id]

    async def send(self, node: Node, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        """Ask the broker at an address that is known."""
        try:
            timeout_ms = self._or_default(timeout_ms)
            return await self.client.send(node.host, node.port, request, timeout_ms=timeout_ms, max_version=max_version)
        except UnsupportedVersionError as error:
            raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
        except (DisconnectError, RequestTimeoutError) as error:
            raise NoBrokerError(str(error)) from error

    async def by_leader(
        self, partitions: Sequence[TopicPartition], ask: Callable[[Node, list[TopicPartition]], Awaitable[dict[TopicPartition, T]]]
    ) -> dict[TopicPartition, T]:
        """`ask` each leader about its share of `partitions`; again, all of them, after a retriable
        error. What is refused of a topic is raised.
        """

        async def attempt() -> dict[TopicPartition, T]:
            response = await self.metadata(sorted({partition.topic for partition in partitions}))
            for topic in response.topics:
                if not Errors.for_code(topic.error_code).retriable:
                    raise_about(topic.error_code, f"topic {topic.name}")
            leaders = {
                TopicPartition(topic.name, row.partition_index): row.leader_id
                for topic in response.topics
                if topic.name is not None and topic.error_code == Errors.NONE
                for row in topic.partitions
            }
            groups: dict[int, list[TopicPartition]] = {}
            for topic_partition in partitions:
                leader = leaders.get(topic_partition)
                if leader is None:
                    raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
                if leader not in self.nodes:
                    raise ApiException(Errors.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
                groups.setdefault(leader, []).append(topic_partition)
            result: dict[TopicPartition, T] = {}
            for node_id, group in sorted(groups.items()):
                result |= await ask(self.nodes[node_id], group)
            return result

        return await self.retry(attempt)

    async def coordinators(self, keys: Iterable[str], key_type: int) -> dict[str, Node]:
        """The coordinator of each group or transactional id; a retriable ApiException while one is
        not available.
        """
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=sorted(keys))
        response = await self.ask_any(request)
        found = {}
        for row in response.coordinators:
            raise_for(row.error_code, row.error_message)
            found[row.key] = Node(row.node_id, row.host, row.port)
        return found

    async def by_coordinator(
        self,
        keys: Iterable[str],
        key_type: int,
        ask: Callable[[Node, list[str]], Awaitable[dict[str, T]]],
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, T]:
        """`ask` each coordinator about its share of `keys`; again after a retriable error."""
        wanted = sorted(set(keys))

        async def attempt() -> dict[str, T]:
            groups: dict[int, list[str]] = {}
            nodes: dict[int, Node] = {}
            for key, node in (await self.coordinators(wanted, key_type)).items():
                nodes[node.id] = node
                groups.setdefault(node.id, []).append(key)
            result: dict[str, T] = {}
            for node_id, group in sorted(groups.items()):
                result |= await ask(nodes[node_id], group)
            return result

        return await self.retry(attempt, timeout_ms) if wanted else {}

    async def retry(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int | None = None) -> T:
        """`attempt` until it succeeds, fails for good, or the time is up."""
        deadline_ms = self.runtime.clock.monotonic_ms() + self._or_default(timeout_ms)
        while True:
            try:
                return await attempt()
            except ApiException as error:
                if not error.error.retriable or self.runtime.clock.monotonic_ms() >= deadline_ms:
                    raise
            await self.runtime.sleep_ms(RETRY_PAUSE_MS)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The numbers of the partitions by topic, as most requests have them."""
    topics: dict[str, list[int]] = {}
    for name in partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    return topics


def error_of(code: int, message: str | None) -> ApiException | None:
    """The exception of an error code in a response; None for success."""
    return None if code == 0 else ApiException(Errors.for_code(code), message or None)


def raise_for(code: int, message: str | None) -> None:
    """Raise the exception of an error code in a response, if it is one."""
    error = error_of(code, message)
    if error is not None:
        raise error


def raise_about(code: int, what: str) -> None:
    """The same of a response that has no message: `what` it is about and the error's own."""
    raise_for(code, f"{what}: {Errors.for_code(code).message}")
