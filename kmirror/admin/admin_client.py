"""AdminClient: what an operator asks of a cluster, as coroutines; the mirror calls are the KIP's eight (E6).

Requests go to any known broker, which forwards them to the controller where needed; calls about partitions that only their
leaders know (offsets, DescribeMirrors) go to the brokers concerned and are merged. Names and results are those of Kafka's
Admin in snake case. A failure of the whole request raises `ApiException`; per-topic failures are in the result. A broker
that cannot be reached is passed over for the next; when none is left: `NoBrokerError`.

`timeout_ms` bounds a whole call. Retriable errors of the cluster are retried until then, with a short pause: leaders that
move, coordinators that load.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kmirror.admin.results import (
    AddTopicsToMirrorOptions,
    AddTopicsToMirrorResult,
    ClusterDescription,
    ConfigEntry,
    ConfigOperation,
    ConfigResourceType,
    CreateMirrorOptions,
    DeleteMirrorOptions,
    DescribeMirrorsOptions,
    ListMirrorsOptions,
    MirrorDescription,
    MirrorListing,
    MirrorPartitionDescription,
    NewTopic,
    Node,
    PartitionDescription,
    PauseMirrorTopicsOptions,
    PauseMirrorTopicsResult,
    RemoveTopicsFromMirrorOptions,
    RemoveTopicsFromMirrorResult,
    RequestOptions,
    ResumeMirrorTopicsOptions,
    ResumeMirrorTopicsResult,
    TopicDescription,
    TopicResults,
)
from kmirror.common.errors import ApiException, Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import DisconnectError, NetworkClient, RequestTimeoutError, UnsupportedVersionError
from kmirror.runtime.api import Runtime
from kmirror.wire.messages import (
    add_topics_to_mirror,
    create_mirror,
    create_partitions,
    create_topics,
    delete_mirror,
    delete_topics,
    describe_configs,
    describe_mirrors,
    fetch,
    incremental_alter_configs,
    list_mirrors,
    list_offsets,
    metadata,
    pause_mirror_topics,
    remove_topics_from_mirror,
    resume_mirror_topics,
)

DEFAULT_TIMEOUT_MS = 60_000
RETRY_PAUSE_MS = 100
EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1

T = TypeVar("T")


class NoBrokerError(KmirrorError):
    """No broker of the cluster could be reached."""


def parse_bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """`host:port,...`; an empty host is localhost. KmirrorError for anything else."""
    servers = []
    for entry in (part.strip() for part in text.split(",")):
        host, separator, port = entry.rpartition(":")
        if not separator or not port.isdigit() or not 0 < int(port) < 65_536:
            raise KmirrorError(f"'{entry}' is not host:port")
        servers.append((host.strip("[]") or "localhost", int(port)))
    return servers


class AdminClient:
    """Talks to one cluster. `close` when done; also an async context manager."""

    def __init__(
        self,
        runtime: Runtime,
        bootstrap_servers: Sequence[tuple[str, int]],
        *,
        client_id: str = "adminclient",
        timeout_ms: int = DEFAULT_TIMEOUT_MS,
    ) -> None:
        self._runtime = runtime
        self._bootstrap = list(bootstrap_servers)
        self._client = NetworkClient(runtime, client_id)
        self._timeout_ms = timeout_ms
        self._nodes: dict[int, Node] = {}

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    # --- cluster and topics -------------------------------------------------------------------------------------------

    async def describe_cluster(self) -> ClusterDescription:
        response = await self._metadata([])
        return ClusterDescription(response.cluster_id, response.controller_id, [self._nodes[node_id] for node_id in sorted(self._nodes)])

    async def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Names, sorted."""
        response = await self._metadata(None)
        return sorted(topic.name for topic in response.topics if topic.name and (include_internal or not topic.is_internal))

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Those of `names` that exist."""
        wanted = sorted(names)
        response = await self._metadata(wanted) if wanted else metadata.MetadataResponse()
        result = {}
        for topic in response.topics:
            if topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION or topic.name is None:
                continue
            _raise(topic.error_code, f"topic {topic.name}")
            partitions = [
                PartitionDescription(p.partition_index, p.leader_id, p.leader_epoch, list(p.replica_nodes), list(p.isr_nodes))
                for p in sorted(topic.partitions, key=lambda partition: partition.partition_index)
            ]
            result[topic.name] = TopicDescription(topic.name, topic.topic_id, topic.is_internal, partitions)
        return result

    async def create_topics(self, topics: Iterable[NewTopic], options: RequestOptions | None = None) -> TopicResults:
        timeout_ms = self._timeout(options)
        request = create_topics.CreateTopicsRequest(topics=[_creatable(topic) for topic in topics], timeout_ms=timeout_ms)
        response = await self._ask_any(request, timeout_ms)
        return TopicResults({row.name: _error(row.error_code, row.error_message) for row in response.topics})

    async def delete_topics(self, names: Iterable[str], options: RequestOptions | None = None) -> TopicResults:
        timeout_ms = self._timeout(options)
        wanted = sorted(names)
        request = delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=name) for name in wanted], topic_names=wanted, timeout_ms=timeout_ms
        )
        response = await self._ask_any(request, timeout_ms)
        return TopicResults({row.name or "": _error(row.error_code, row.error_message) for row in response.responses})

    async def create_partitions(self, counts: Mapping[str, int], options: RequestOptions | None = None) -> TopicResults:
        timeout_ms = self._timeout(options)
        topics = [create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()]
        response = await self._ask_any(create_partitions.CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms), timeout_ms)
        return TopicResults({row.name: _error(row.error_code, row.error_message) for row in response.results})

    async def list_offsets(
        self, partitions: Iterable[TopicPartition], *, timestamp: int = LATEST_TIMESTAMP, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, int]:
        """The offset of each partition for `timestamp` (-1 latest: high watermark, or LSO when read_committed; -2 earliest)."""

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, int]:
            topics: dict[str, list[list_offsets.ListOffsetsPartition]] = {}
            for topic, partition in group:
                entry = list_offsets.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                topics.setdefault(topic, []).append(entry)
            request = list_offsets.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[list_offsets.ListOffsetsTopic(name=name, partitions=entries) for name, entries in topics.items()],
            )
            response = await self._send(node.host, node.port, request, self._timeout_ms)
            result = {}
            for topic in response.topics:
                for row in topic.partitions:
                    _raise(row.error_code, f"offsets of {topic.name}-{row.partition_index}")
                    result[TopicPartition(topic.name, row.partition_index)] = row.offset
            return result

        return await self._by_leader(sorted(partitions), ask)

    async def fetch_records(
        self, topic_partition: TopicPartition, offset: int, *, max_bytes: int = 1 << 20, isolation_level: int = READ_UNCOMMITTED
    ) -> bytes:
        """Raw batches of a partition from `offset` on, at least one if there is one; b"" at the end. Used for dry runs."""

        async def ask(node: Node, group: list[TopicPartition]) -> dict[TopicPartition, bytes]:
            described = (await self.describe_topics([topic_partition.topic]))[topic_partition.topic]
            partition = fetch.FetchPartition(partition=topic_partition.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
            topic = fetch.FetchTopic(topic=topic_partition.topic, topic_id=described.topic_id, partitions=[partition])
            request = fetch.FetchRequest(replica_id=-1, max_bytes=max_bytes, isolation_level=isolation_level, topics=[topic])
            response = await self._client.send(node.host, node.port, request, timeout_ms=self._timeout_ms, max_version=18)
            _raise(response.error_code, f"fetch of {topic_partition}")
            for answered in response.responses:
                for row in answered.partitions:
                    _raise(row.error_code, f"fetch of {topic_partition} at {offset}")
                    return {topic_partition: bytes(row.records or b"")}
            return {topic_partition: b""}

        return (await self._by_leader([topic_partition], ask))[topic_partition]

    # --- configs ------------------------------------------------------------------------------------------------------

    async def describe_configs(self, resource_type: ConfigResourceType, name: str) -> list[ConfigEntry]:
        resource = describe_configs.DescribeConfigsResource(resource_type=resource_type, resource_name=name, configuration_keys=None)
        response = await self._ask_any(describe_configs.DescribeConfigsRequest(resources=[resource]), self._timeout_ms)
        row = response.results[0]
        _raise(row.error_code, row.error_message)
        return [
            ConfigEntry(entry.name, entry.value, entry.config_source, entry.is_sensitive, entry.read_only, entry.config_source == 5)
            for entry in row.configs
        ]

    async def incremental_alter_configs(
        self, resource_type: ConfigResourceType, name: str, changes: Iterable[tuple[str, ConfigOperation, str | None]]
    ) -> None:
        configs = [
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in changes
        ]
        resource = incremental_alter_configs.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=configs)
        response = await self._ask_any(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource]), self._timeout_ms)
        for row in response.responses:
            _raise(row.error_code, row.error_message)

    # --- mirrors ------------------------------------------------------------------------------------------------------

    async def create_mirror(self, mirror_name: str, configs: Mapping[str, str], options: CreateMirrorOptions | None = None) -> None:
        """Create a cluster mirror with its configs (bootstrap.servers of the source at least)."""
        config = [create_mirror.MirrorConfig(name=name, value=value) for name, value in configs.items()]
        request = create_mirror.CreateMirrorRequest(mirror_name=mirror_name, config=config)
        response = await self._ask_any(request, self._timeout(options))
        _raise(response.error_code, response.error_message)

    async def add_topics_to_mirror(
        self, mirror_name: str, topics: Iterable[str], options: AddTopicsToMirrorOptions | None = None
    ) -> AddTopicsToMirrorResult:
        """Start mirroring topics: they become read-only. The broker creates those that only the source has."""
        data = [add_topics_to_mirror.TopicData(topic_name=name) for name in sorted(topics)]
        request = add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name=mirror_name, topics=data)
        return AddTopicsToMirrorResult(await self._topic_results(request, self._timeout(options)))

    async def remove_topics_from_mirror(
        self, mirror_name: str, topics: Iterable[str], options: RemoveTopicsFromMirrorOptions | None = None
    ) -> RemoveTopicsFromMirrorResult:
        """Stop mirroring topics: each partition is cut to a consistent end and then becomes writable (failover)."""
        data = [remove_topics_from_mirror.TopicData(topic_name=name) for name in sorted(topics)]
        request = remove_topics_from_mirror.RemoveTopicsFromMirrorRequest(mirror_name=mirror_name, topics=data)
        return RemoveTopicsFromMirrorResult(await self._topic_results(request, self._timeout(options)))

    async def pause_mirror_topics(
        self, mirror_name: str, topics: Iterable[str], options: PauseMirrorTopicsOptions | None = None
    ) -> PauseMirrorTopicsResult:
        """Stop fetching; the topics stay read-only."""
        data = [pause_mirror_topics.TopicData(topic_name=name) for name in sorted(topics)]
        request = pause_mirror_topics.PauseMirrorTopicsRequest(mirror_name=mirror_name, topics=data)
        return PauseMirrorTopicsResult(await self._topic_results(request, self._timeout(options)))

    async def resume_mirror_topics(
        self, mirror_name: str, topics: Iterable[str], options: ResumeMirrorTopicsOptions | None = None
    ) -> ResumeMirrorTopicsResult:
        """Fetch again from where the pause began."""
        data = [resume_mirror_topics.TopicData(topic_name=name) for name in sorted(topics)]
        request = resume_mirror_topics.ResumeMirrorTopicsRequest(mirror_name=mirror_name, topics=data)
        return ResumeMirrorTopicsResult(await self._topic_results(request, self._timeout(options)))

    async def delete_mirror(self, mirror_name: str, options: DeleteMirrorOptions | None = None) -> None:
        """Delete a mirror whose topics are all stopped; failback with it is not possible afterwards."""
        response = await self._ask_any(delete_mirror.DeleteMirrorRequest(mirror_name=mirror_name), self._timeout(options))
        _raise(response.error_code, response.error_message)

    async def list_mirrors(self, options: ListMirrorsOptions | None = None) -> list[MirrorListing]:
        """All mirrors, sorted by name."""
        response = await self._ask_any(list_mirrors.ListMirrorsRequest(), self._timeout(options))
        _raise(response.error_code, response.error_message)
        rows = [MirrorListing(row.mirror_name, row.source_bootstrap, row.source_cluster_id, row.topic_count) for row in response.mirrors]
        return sorted(rows, key=lambda row: row.mirror_name)

    async def describe_mirrors(
        self, mirror_names: Iterable[str] = (), options: DescribeMirrorsOptions | None = None
    ) -> dict[str, MirrorDescription]:
        """Mirrors (all when none is named) with their partitions, asked of every broker and merged; UNKNOWN_MIRROR for a name that none has."""
        timeout_ms = self._timeout(options)
        names = sorted(mirror_names)
        flag = options is not None and options.include_authorized_operations
        request = describe_mirrors.DescribeMirrorsRequest(mirror_names=names, include_authorized_operations=flag)

        async def ask() -> dict[str, MirrorDescription]:
            await self._metadata([])
            merged: dict[str, dict[tuple[str, int], MirrorPartitionDescription]] = {}
            for node_id in sorted(self._nodes):
                response = await self._send(self._nodes[node_id].host, self._nodes[node_id].port, request, timeout_ms)
                if response.error_code != Errors.UNKNOWN_MIRROR:
                    _raise(response.error_code, response.error_message)
                for mirror in response.mirrors:
                    if mirror.error_code == Errors.UNKNOWN_MIRROR:
                        continue
                    _raise(mirror.error_code, f"mirror {mirror.mirror_name}")
                    rows = merged.setdefault(mirror.mirror_name, {})
                    for topic in mirror.topics:
                        for row in topic.partitions:
                            rows[topic.topic_name, row.partition_index] = _mirror_partition(topic.topic_name, row)
            for name in names:
                if name not in merged:
                    raise ApiException(Errors.UNKNOWN_MIRROR, f"The mirror '{name}' does not exist.")
            return {name: MirrorDescription(name, [rows[key] for key in sorted(rows)]) for name, rows in sorted(merged.items())}

        return await self._retry(ask, timeout_ms)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _timeout(self, options: RequestOptions | None) -> int:
        return self._timeout_ms if options is None or options.timeout_ms is None else options.timeout_ms

    async def _topic_results(self, request: Any, timeout_ms: int) -> dict[str, ApiException | None]:
        response = await self._ask_any(request, timeout_ms)
        _raise(response.error_code, response.error_message)
        return {row.name: _error(row.error_code, None) for row in response.topics}

    async def _metadata(self, names: Sequence[str] | None) -> Any:
        topics = None if names is None else [metadata.MetadataRequestTopic(name=name) for name in names]
        response = await self._ask_any(metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False), self._timeout_ms)
        if response.brokers:
            self._nodes = {broker.node_id: Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers}
        return response

    async def _ask_any(self, request: Any, timeout_ms: int) -> Any:
        known = [(self._nodes[node_id].host, self._nodes[node_id].port) for node_id in sorted(self._nodes)]
        failures = []
        for host, port in dict.fromkeys(known + self._bootstrap):
            try:
                return await self._client.send(host, port, request, timeout_ms=timeout_ms)
            except DisconnectError as error:
                failures.append(str(error))
            except UnsupportedVersionError as error:
                raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
            except RequestTimeoutError as error:
                raise ApiException(Errors.REQUEST_TIMED_OUT, str(error)) from error
        raise NoBrokerError("no broker could be reached: " + "; ".join(failures))

    async def _send(self, host: str, port: int, request: Any, timeout_ms: int) -> Any:
        try:
            return await self._client.send(host, port, request, timeout_ms=timeout_ms)
        except UnsupportedVersionError as error:
            raise ApiException(Errors.UNSUPPORTED_VERSION, str(error)) from error
        except (DisconnectError, RequestTimeoutError) as error:
            raise NoBrokerError(str(error)) from error

    async def _by_leader(
        self, partitions: Sequence[TopicPartition], ask: Callable[[Node, list[TopicPartition]], Awaitable[dict[TopicPartition, T]]]
    ) -> dict[TopicPartition, T]:
        async def attempt() -> dict[TopicPartition, T]:
            topics = await self.describe_topics({partition.topic for partition in partitions})
            groups: dict[int, list[TopicPartition]] = {}
            for topic_partition in partitions:
                topic = topics.get(topic_partition.topic)
                found = [p for p in topic.partitions if p.partition == topic_partition.partition] if topic is not None else []
                if not found:
                    raise ApiException(Errors.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
                if found[0].leader not in self._nodes:
                    raise ApiException(Errors.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")
                groups.setdefault(found[0].leader, []).append(topic_partition)
            result: dict[TopicPartition, T] = {}
            for node_id, group in sorted(groups.items()):
                result |= await ask(self._nodes[node_id], group)
            return result

        return await self._retry(attempt, self._timeout_ms)

    async def _retry(self, attempt: Callable[[], Awaitable[T]], timeout_ms: int) -> T:
        deadline_ms = self._runtime.clock.monotonic_ms() + timeout_ms
        while True:
            try:
                return await attempt()
            except ApiException as error:
                if not error.error.retriable or self._runtime.clock.monotonic_ms() >= deadline_ms:
                    raise
            await self._runtime.sleep_ms(RETRY_PAUSE_MS)


def _creatable(topic: NewTopic) -> create_topics.CreatableTopic:
    assignments = [
        create_topics.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
        for partition, brokers in (topic.replicas_assignments or {}).items()
    ]
    return create_topics.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if assignments else topic.num_partitions,
        replication_factor=-1 if assignments else topic.replication_factor,
        assignments=assignments,
        configs=[create_topics.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
        mirror_info=create_topics.MirrorInfo(topic_id=topic.mirror_topic_id) if topic.mirror_topic_id else None,
    )


def _mirror_partition(topic: str, row: describe_mirrors.PartitionDetail) -> MirrorPartitionDescription:
    return MirrorPartitionDescription(
        topic, row.partition_index, row.source_offset, row.destination_offset, row.lag, row.state, row.last_mirror_epoch
    )


def _error(code: int, message: str | None) -> ApiException | None:
    return None if code == 0 else ApiException(Errors.for_code(code), message or None)


def _raise(code: int, message: str | None) -> None:
    error = _error(code, message)
    if error is not None:
        raise error
