"""Requests of `AdminClient`: whom to ask, what to try again, and when to give up.

Requests go to any known broker, which forwards them to the controller where needed. A question that
only a partition's leader, a group's coordinator or one broker can answer goes there. If a broker
cannot be reached, the next one is asked; `NoBrokerError` means that none is left. Retriable errors
(leaders that move, coordinators that load) are retried with a short pause until the time is up, at
the next broker: the one that answered may be cut off from the nodes that it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

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
LAST_FIND_OF_ONE = 3
"""A FindCoordinator request of Kafka before 3.0 names one key."""

T = TypeVar("T")


class NoBrokerError(KmirrorError):
    """No broker of the cluster could be reached."""


class FirstContact(NamedTuple):
    """How long a cluster that nobody has reached yet is waited for, and who is told that once."""

    wait_ms: int
    tell: Callable[[NoBrokerError], None]


class AdminRequests:
    """Owns the network client and the list of one cluster's brokers, and knows how to ask them.

    Every call of `AdminClient` is a function on this.

    `nodes` are the brokers that the cluster named last. `timeout_ms` bounds a call without a
    timeout of its own. `controllers` says that the bootstrap servers are controllers (Kafka's
    bootstrap.controllers). Controllers answer only about configurations, features, the quorum,
    rules and reassignments, not about what brokers know.
    """

    def __init__(
        self,
        runtime: Runtime,
        client: NetworkClient,
        bootstrap_servers: Sequence[tuple[str, int]],
        *,
        timeout_ms: int,
        controllers: bool,
        first_contact: FirstContact | None = None,
    ) -> None:
        self.runtime = runtime
        self.client = client
        self.timeout_ms = timeout_ms
        self.controllers = controllers
        self.nodes: dict[int, Node] = {}
        self._bootstrap = list(bootstrap_servers)
        self._first_contact = first_contact
        self._first: tuple[str, int] | None = None
        """The broker that was asked last. It is asked first."""

    def timeout(self, options: RequestOptions | None) -> int:
        return self._or_default(None if options is None else options.timeout_ms)

    def _or_default(self, timeout_ms: int | None) -> int:
        return self.timeout_ms if timeout_ms is None else timeout_ms

    async def metadata(self, names: Sequence[str] | None) -> Any:
        """Returns the metadata of `names` (None: all topics), and refreshes the list of brokers."""
        topics = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
        response = await self.ask_any(metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False))
        if response.brokers:
            self.nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers}
        return response

    async def ask_any(self, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        """Asks the first broker that can be reached."""
        try:
            return await self._ask_each(request, timeout_ms, max_version)
        except NoBrokerError as error:
            contact, self._first_contact = self._first_contact, None
            if contact is None or self._first is not None:
                raise
            contact.tell(error)
            deadline_ms = self.runtime.clock.monotonic_ms() + contact.wait_ms
        while True:
            await self.runtime.sleep_ms(RETRY_PAUSE_MS)
            try:
                return await self._ask_each(request, timeout_ms, max_version)
            except NoBrokerError:
                if self.runtime.clock.monotonic_ms() >= deadline_ms:
                    raise

    async def _ask_each(self, request: Any, timeout_ms: int | None, max_version: int | None) -> Any:
        failures = []
        late: NotConnectedError | None = None
        for host, port in self._in_order():
            try:
                answer = await self.client.send(host, port, request, timeout_ms=self._or_default(timeout_ms), max_version=max_version)
                self._first = host, port
                return answer
            except AuthenticationError:
                raise
            except DisconnectError as error:
                failures.append(str(error))
            except UnsupportedVersionError as error:
                raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
            except NotConnectedError as error:  # a host that is switched off does not answer at all
                failures.append(str(error))
                late = error
            except RequestTimeoutError as error:
                self._first = host, port
                raise ApiException(Errors.REQUEST_TIMED_OUT, str(error)) from error
        if late is not None:
            raise ApiException(Errors.REQUEST_TIMED_OUT, "; ".join(failures)) from late
        raise NoBrokerError("no broker could be reached: " + "; ".join(failures))

    def _in_order(self) -> list[tuple[str, int]]:
        """Returns the brokers, from the one that was asked last, and then the bootstrap servers."""
        known = [(self.nodes[node_id].host, self.nodes[node_id].port) for node_id in sorted(self.nodes)]
        if self._first in known:
            at = known.index(self._first)
            known = known[at:] + known[:at]
        return list(dict.fromkeys(known + self._bootstrap))

    def _pass_on(self) -> None:
        """Lets the broker after the one that was asked last be asked first."""
        order = self._in_order()
        if len(self.nodes) > 1:
            self._first = order[1]

    async def ask_node(self, node_id: int | None, request: Any) -> Any:
        """Asks this broker and no other; any broker if `node_id` is None."""
        return await self.ask_any(request) if node_id is None else await self.send(await self.node(node_id), request)

    async def node(self, node_id: int) -> Node:
        """Returns a broker's address; NoBrokerError when the cluster has no broker with this id."""
        if node_id not in self.nodes:
            await self.metadata([])
        if node_id not in self.nodes:
            raise NoBrokerError(f"there is no broker {node_id} in the cluster")
        return self.nodes[node_id]

    async def send(self, node: Node, request: Any, timeout_ms: int | None = None, *, max_version: int | None = None) -> Any:
        """Asks the broker at a known address."""
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
        """Calls `ask` for each leader with its share of `partitions`.

        After a retriable error all of them are asked again. An error about a topic is raised.
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
        """Returns the coordinator of each group or transactional id.

        Raises a retriable ApiException while one is not available.
        """
        wanted = sorted(keys)
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted)
        try:
            rows = {row.key: row for row in (await self.ask_any(request)).coordinators}
        except ApiException as error:
            if error.error is not Errors.UNSUPPORTED_VERSION:
                raise
            ones = [find_coordinator.FindCoordinatorRequest(key=key, key_type=key_type) for key in wanted]
            rows = {one.key: await self.ask_any(one, max_version=LAST_FIND_OF_ONE) for one in ones}
        for row in rows.values():
            raise_for(row.error_code, row.error_message)
        return {key: Node(row.node_id, row.host, row.port) for key, row in rows.items()}

    async def by_coordinator(
        self,
        keys: Iterable[str],
        key_type: int,
        ask: Callable[[Node, list[str]], Awaitable[dict[str, T]]],
        *,
        timeout_ms: int | None = None,
    ) -> dict[str, T]:
        """Calls `ask` for each coordinator with its share of `keys`; repeats it after a retriable
        error.
        """
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
        """Calls `attempt` until it succeeds, fails for good, or the time is up.

        Each attempt asks another broker first.
        """
        deadline_ms = self.runtime.clock.monotonic_ms() + self._or_default(timeout_ms)
        while True:
            try:
                return await attempt()
            except ApiException as error:
                if not error.error.retriable:
                    raise
                self._pass_on()
                if self.runtime.clock.monotonic_ms() >= deadline_ms:
                    raise
            await self.runtime.sleep_ms(RETRY_PAUSE_MS)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Returns the partition numbers by topic, as most requests have them."""
    topics: dict[str, list[int]] = {}
    for name in partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    return topics


def error_of(code: int, message: str | None) -> ApiException | None:
    """Returns the exception for an error code in a response; None for success."""
    return None if code == 0 else ApiException(Errors.for_code(code), message or None)


def raise_for(code: int, message: str | None) -> None:
    """Raises the exception for an error code in a response; does nothing for success."""
    error = error_of(code, message)
    if error is not None:
        raise error


def raise_about(code: int, what: str) -> None:
    """Raises the exception for a response without a message; its text is `what` and the error's
    own.
    """
    raise_for(code, f"{what}: {Errors.for_code(code).message}")
