"""A source cluster as one mirror sees it: its brokers, topics and answers, over the mirror's own
connections.

Everything asked of the source is a client's request (consumer Fetch, Metadata, ListOffsets,
OffsetForLeaderEpoch, DescribeMirrors, ListMirrors, and those in `source_metadata`), in the highest
version that both sides speak, down to brokers of Kafka 2.1. What a source cannot do (topic ids
before Metadata v10, API 99 before this KIP) shows as a zero id or as UnsupportedVersionError;
nothing here decides what that means.

Errors: `SourceError` for whatever prevented an answer (no connection, a timeout, an error code),
with a text for operators.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kmirror.common.addresses import address_text
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.network.client import (
    AuthenticationError,
    DisconnectError,
    NetworkClient,
    NotConnectedError,
    RequestTimeoutError,
    UnsupportedVersionError,
)
from kmirror.wire.messages import describe_mirrors, list_mirrors, metadata
from kmirror.wire.primitives import ProtocolReadError


class SourceError(KmirrorError):
    """The source gave no usable answer; `error` is its code where it sent one."""

    def __init__(self, text: str, error: Errors = Errors.NONE) -> None:
        self.error = error
        super().__init__(text)


class SourceAuthenticationError(SourceError):
    """A source broker refused our login, or we refused its certificate."""


class SourceUnreachableError(SourceError):
    """There is no connection to a source broker."""


class SourceNode(NamedTuple):
    """A broker of the source."""

    id: int
    host: str
    port: int


class SourcePartition(NamedTuple):
    """A partition of the source as its Metadata has it; leader -1 while there is none, epoch -1
    below Metadata v7.
    """

    leader: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A topic of the source as its Metadata has it. The id is zero where the source has no ids."""

    error: Errors
    topic_id: Uuid = Uuid.ZERO
    partitions: dict[int, SourcePartition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceMetadata:
    """One answer to Metadata."""

    cluster_id: str | None
    nodes: dict[int, SourceNode]
    topics: dict[str, SourceTopic]
    controller_id: int = -1
    """-1 while the source has no controller."""


class SourceMirrorPartition(NamedTuple):
    """A row of the source's DescribeMirrors."""

    state: str
    last_mirror_epoch: int


@dataclass(frozen=True, slots=True)
class SourceMirror:
    """A mirror at the source, as one of its brokers describes it."""

    error: Errors
    partitions: dict[TopicPartition, SourceMirrorPartition] = field(default_factory=dict)


class SourceCluster:
    """Owns the metadata connections of one mirror (client id `broker-N-mirror-metadata-manager-X`)
    and the source's known brokers.
    """

    def __init__(self, client: NetworkClient, bootstrap_servers: Sequence[tuple[str, int]], *, request_timeout_ms: int) -> None:
        self._client = client
        self._bootstrap = list(bootstrap_servers)
        self._timeout_ms = request_timeout_ms
        self._nodes: dict[int, SourceNode] = {}
        self.cached: SourceMetadata | None = None
        """The last answer to `refresh`, for those who may act on an older one."""

    async def refresh(self, topics: Iterable[str] | None) -> SourceMetadata:
        """Ask any broker for Metadata of `topics` (None: all)."""
        result = _source_metadata(await self.ask_any(_metadata_request(topics)))
        self._nodes = result.nodes or self._nodes
        self.cached = result
        return result

    async def metadata_of(self, node: SourceNode, topics: Iterable[str]) -> SourceMetadata:
        """What this broker itself knows about `topics`, which may be older than what another broker
        knows.
        """
        return _source_metadata(await self.send(node, _metadata_request(topics)))

    def node(self, node_id: int) -> SourceNode | None:
        return self._nodes.get(node_id)

    def nodes(self) -> list[SourceNode]:
        """Known brokers by id; empty before the first refresh."""
        return [self._nodes[node_id] for node_id in sorted(self._nodes)]

    async def send(self, node: SourceNode, request: Any, *, version: int | None = None) -> Any:
        """Asks one broker; SourceError if it does not answer, UnsupportedVersionError if it does
        not support the request.
        """
        try:
            return await self._send(node.host, node.port, request, version)
        except SourceUnreachableError as error:
            if (node.host, node.port) in self._bootstrap:
                raise
            raise SourceUnreachableError(f"{error}; this is the address that the source advertises for its broker {node.id}") from error

    async def api_version(self, node: SourceNode, api_key: int, *, max_version: int) -> int:
        """The version in which this broker can be asked; errors as in `send`."""
        asked = self._client.api_version(node.host, node.port, api_key, timeout_ms=self._timeout_ms, max_version=max_version)
        chosen: int = await _answer(node.host, node.port, asked)
        return chosen

    async def describe_mirror(self, node: SourceNode, mirror_name: str) -> SourceMirror | None:
        """DescribeMirrors of one named mirror at one broker: only partitions that it leads (RS5).

        None: the answer leaves it out, as the reference implementation does with mirrors that it
        does not know or may not show. (A kmirror broker answers 136 for the whole request.)
        """
        response = await self.send(node, describe_mirrors.DescribeMirrorsRequest(mirror_names=[mirror_name]))
        if response.error_code == Errors.UNKNOWN_MIRROR:
            return SourceMirror(Errors.UNKNOWN_MIRROR)
        if response.error_code:
            raise _source_error(node, "DescribeMirrors", response.error_code, response.error_message)
        for mirror in response.mirrors:
            if mirror.mirror_name == mirror_name:
                partitions = {
                    TopicPartition(topic.topic_name, row.partition_index): SourceMirrorPartition(row.state, row.last_mirror_epoch)
                    for topic in mirror.topics
                    for row in topic.partitions
                }
                return SourceMirror(Errors.for_code(mirror.error_code), partitions)
        return None

    async def list_mirrors(self, node: SourceNode) -> dict[str, str]:
        """The source's own mirrors: name -> cluster id of that mirror's source ("" if not known
        yet).
        """
        response = await self.send(node, list_mirrors.ListMirrorsRequest())
        if response.error_code:
            raise _source_error(node, "ListMirrors", response.error_code, response.error_message)
        return {mirror.mirror_name: mirror.source_cluster_id for mirror in response.mirrors}

    def close(self) -> None:
        self._client.close()

    async def ask_any(self, request: Any) -> Any:
        """Ask the brokers in turn until one answers; errors as in `send`."""
        failure: SourceError | None = None
        addresses = [(node.host, node.port) for node in self.nodes()] + self._bootstrap
        for host, port in dict.fromkeys(addresses):
            try:
                return await self._send(host, port, request)
            except SourceError as error:
                failure = error
        raise failure or SourceError("the mirror has no bootstrap.servers")

    async def _send(self, host: str, port: int, request: Any, version: int | None = None) -> Any:
        return await _answer(host, port, self._client.send(host, port, request, timeout_ms=self._timeout_ms, version=version))


async def _answer(host: str, port: int, asked: Awaitable[Any]) -> Any:
    try:
        return await asked
    except UnsupportedVersionError:
        raise
    except AuthenticationError as error:
        raise SourceAuthenticationError(f"source broker {address_text(host, port)}: {error}") from error
    except (DisconnectError, NotConnectedError) as error:
        raise SourceUnreachableError(f"source broker {address_text(host, port)}: {error or type(error).__name__}") from error
    except (RequestTimeoutError, ProtocolReadError) as error:
        raise SourceError(f"source broker {address_text(host, port)}: {error or type(error).__name__}") from error
    except ApiException as error:
        raise SourceError(f"source broker {address_text(host, port)}: {error}", error.error) from error


def _metadata_request(topics: Iterable[str] | None) -> metadata.MetadataRequest:
    wanted = None if topics is None else [metadata.MetadataRequestTopic(name=name) for name in sorted(topics)]
    return metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


def _source_metadata(response: metadata.MetadataResponse) -> SourceMetadata:
    nodes = {broker.node_id: SourceNode(broker.node_id, broker.host, broker.port) for broker in response.brokers}
    found = {}
    for topic in response.topics:
        if topic.name is not None:
            partitions = {p.partition_index: SourcePartition(p.leader_id, p.leader_epoch) for p in topic.partitions}
            found[topic.name] = SourceTopic(Errors.for_code(topic.error_code), topic.topic_id, partitions)
    return SourceMetadata(response.cluster_id, nodes, found, response.controller_id)


def _source_error(node: SourceNode, api: str, code: int, message: str | None) -> SourceError:
    error = Errors.for_code(code)
    return SourceError(f"{api} at source broker {node.id} ({address_text(node.host, node.port)}): {message or error.message}", error)
