"""A mirror's metadata sync without a broker: a scripted source, a controller that applies every
request, and one shard of a group coordinator.

`SyncBench` is one broker of a destination with its `MirrorMetadataManager` and the real sync steps,
on the simulator's clock. The source takes and answers messages, in the versions that it is given.
There are no connections, so nothing about them is tested here. Time passes only in `run_for_ms`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from kmirror.common.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import GROUP_METADATA_TOPIC_NAME, TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.metadata.authorizer.acl_filter import AclBindingFilter
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import (
    RESOURCE_MIRROR,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigurationsImage,
    FeaturesImage,
    MetadataImage,
    StandardAcl,
    TopicImage,
    TopicsImage,
)
from kmirror.metadata.mirror_names import association_of
from kmirror.metadata.registrations import PartitionRegistration
from kmirror.mirror.coordination.mirror_coordinator_shard import StoredState
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.sync.acl_sync import AclSync
from kmirror.mirror.sync.config_sync import ConfigSync
from kmirror.mirror.sync.destination_groups import DestinationGroups
from kmirror.mirror.sync.destination_share_groups import DestinationShareGroups
from kmirror.mirror.sync.group_offset_sync import GroupOffsetSync
from kmirror.mirror.sync.mirror_metadata_manager import MirrorMetadataManager
from kmirror.mirror.sync.share_group_sync import ShareGroupSync
from kmirror.mirror.sync.topic_sync import TopicSync
from kmirror.network.client import AuthenticationError, DisconnectError, UnsupportedVersionError
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, encode_response, read_request, read_request_header, read_response
from kmirror.wire.messages import (
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    describe_acls,
    describe_configs,
    describe_share_group_offsets,
    incremental_alter_configs,
    list_groups,
    metadata,
    offset_fetch,
)
from support.coordinators.group_doubles import ShardHarness
from support.coordinators.share_doubles import ShareOffsetsBench

T = TypeVar("T")
BROKER_ID = 1
INTERVAL_MS = 30_000
MIRRORING = MirrorPartitionState.MIRRORING


def topic_id(name: str) -> Uuid:
    return Uuid(name.encode().rjust(16, b"\x01")[:16])


@dataclass
class SourceTopicDouble:
    """A topic of the source. `leader` is -1 for none; `error` is its error in Metadata answers."""

    partitions: int = 1
    configs: dict[str, str] = field(default_factory=dict)
    id: Uuid = Uuid.ZERO
    leader: int = 10
    error: Errors = Errors.NONE
    config_error: Errors = Errors.NONE


@dataclass
class SourceGroupDouble:
    """A group of the source, whose coordinator is the broker `coordinator`."""

    offsets: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    type: str = "Classic"
    state: str = "Stable"
    coordinator: int = 10
    error: Errors = Errors.NONE


class SourceDouble:
    """The source cluster, and the `NetworkClient` to it: `send` answers from its fields."""

    def __init__(self, cluster_id: str = "SRC") -> None:
        self.cluster_id = cluster_id
        self.nodes = {10: ("a", 1), 11: ("b", 2)}
        self.controller_id = 10
        self.topics: dict[str, SourceTopicDouble] = {}
        self.acls: set[StandardAcl] = set()
        self.groups: dict[str, SourceGroupDouble] = {}
        self.acl_error = Errors.NONE
        self.down: set[int] = set()
        self.refuses_login = False
        self.highest: dict[ApiKeys, int] = {}
        """The highest version of APIs that are old at this source; -1 for an API that it lacks."""
        self.asked: list[tuple[int, ApiKeys, int]] = []
        """The broker, API and version of every request."""
        self.closed = 0

    def topic(self, name: str, partitions: int = 1, **configs: str) -> SourceTopicDouble:
        made = SourceTopicDouble(partitions, {key.replace("_", "."): value for key, value in configs.items()}, topic_id(name))
        self.topics[name] = made
        return made

    def asked_for(self, api_key: ApiKeys) -> list[int]:
        """Returns the brokers that got requests of this API."""
        return [node for node, key, _ in self.asked if key is api_key]

    # --- NetworkClient

    def close(self) -> None:
        self.closed += 1

    async def api_version(self, host: str, port: int, api_key: int, *, timeout_ms: int, max_version: int | None = None) -> int:
        self._connect(host, port)
        return self._version(ApiKeys(api_key), 99 if max_version is None else max_version)

    async def send(self, host: str, port: int, request: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        node = self._connect(host, port)
        api_key = ApiKeys(request.API_KEY)
        chosen = self._version(api_key, request.HIGHEST_VERSION) if version is None else version
        self.asked.append((node, api_key, chosen))
        answers: dict[ApiKeys, Callable[[int, Any, int], Any]] = {
            ApiKeys.METADATA: self._metadata,
            ApiKeys.DESCRIBE_CONFIGS: self._configs,
            ApiKeys.DESCRIBE_ACLS: self._acls,
            ApiKeys.LIST_GROUPS: self._list_groups,
            ApiKeys.OFFSET_FETCH: self._offset_fetch,
            ApiKeys.DESCRIBE_SHARE_GROUP_OFFSETS: self._share_group_offsets,
        }
        return _response_as_read(api_key, chosen, answers[api_key](node, _request_as_read(api_key, chosen, request), chosen))

    def _connect(self, host: str, port: int) -> int:
        node = next(number for number, address in self.nodes.items() if address == (host, port))
        if self.refuses_login:
            raise AuthenticationError("Authentication failed: Invalid username or password")
        if node in self.down:
            raise DisconnectError(f"cannot connect to {host}:{port}: Connection refused")
        return node

    def _version(self, api_key: ApiKeys, ours: int) -> int:
        highest = self.highest.get(api_key, 99)
        if highest < 0:
            raise UnsupportedVersionError(f"the source does not support {api_key.name}")
        return min(highest, ours)

    def _metadata(self, node: int, request: Any, version: int) -> metadata.MetadataResponse:
        rows = []
        for asked in request.topics:
            found = self.topics.get(asked.name)
            if found is None:
                rows.append(metadata.MetadataResponseTopic(error_code=Errors.UNKNOWN_TOPIC_OR_PARTITION, name=asked.name))
                continue
            partitions = [
                metadata.MetadataResponsePartition(partition_index=number, leader_id=found.leader, leader_epoch=3)
                for number in range(0 if found.error else found.partitions)
            ]
            rows.append(metadata.MetadataResponseTopic(error_code=found.error, name=asked.name, topic_id=found.id, partitions=partitions))
        brokers = [
            metadata.MetadataResponseBroker(node_id=number, host=host, port=port)
            for number, (host, port) in self.nodes.items()
            if number not in self.down
        ]
        return metadata.MetadataResponse(cluster_id=self.cluster_id, controller_id=self.controller_id, brokers=brokers, topics=rows)

    def _configs(self, node: int, request: Any, version: int) -> describe_configs.DescribeConfigsResponse:
        rows = []
        for resource in request.resources:
            topic = self.topics[resource.resource_name]
            configs = [
                describe_configs.DescribeConfigsResourceResult(name=name, value=value, config_source=1)
                for name, value in topic.configs.items()
            ]
            configs += [
                describe_configs.DescribeConfigsResourceResult(name="segment.ms", value="77", config_source=4),
                describe_configs.DescribeConfigsResourceResult(name="retention.bytes", value="88", config_source=5),
            ]
            rows.append(
                describe_configs.DescribeConfigsResult(
                    error_code=topic.config_error,
                    error_message=topic.config_error.message if topic.config_error else None,
                    resource_type=RESOURCE_TOPIC,
                    resource_name=resource.resource_name,
                    configs=[] if topic.config_error else configs,
                )
            )
        return describe_configs.DescribeConfigsResponse(results=rows)

    def _acls(self, node: int, request: Any, version: int) -> describe_acls.DescribeAclsResponse:
        if self.acl_error:
            return describe_acls.DescribeAclsResponse(error_code=self.acl_error, error_message=self.acl_error.message)
        rows = [
            describe_acls.DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                acls=[
                    describe_acls.AclDescription(
                        principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission_type
                    )
                ],
            )
            for acl in sorted(self.acls)
        ]
        return describe_acls.DescribeAclsResponse(error_message=None, resources=rows)

    def _list_groups(self, node: int, request: Any, version: int) -> list_groups.ListGroupsResponse:
        rows = [
            list_groups.ListedGroup(
                group_id=name,
                protocol_type="consumer",
                group_state=group.state if version >= 4 else "",
                group_type=group.type if version >= 5 else "",
            )
            for name, group in self.groups.items()
            if group.coordinator == node and (not request.types_filter or group.type.lower() in request.types_filter)
        ]
        return list_groups.ListGroupsResponse(groups=rows)

    def _share_group_offsets(self, node: int, request: Any, version: int) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse:
        module = describe_share_group_offsets
        return module.DescribeShareGroupOffsetsResponse(
            groups=[
                self._offsets_of(row.group_id, node, partial(module.DescribeShareGroupOffsetsResponseGroup, group_id=row.group_id),
                                 lambda name, partitions: module.DescribeShareGroupOffsetsResponseTopic(name, partitions=partitions),
                                 lambda partition_index, committed_offset, **_: module.DescribeShareGroupOffsetsResponsePartition(
                                     partition_index, committed_offset))
                for row in request.groups
            ]
        )  # fmt: skip

    def _offset_fetch(self, node: int, request: Any, version: int) -> offset_fetch.OffsetFetchResponse:
        assert version <= 9, "version 10 names topics by id"
        if version < 8:
            assert request.topics is None and not request.groups
            return self._offsets_of(request.group_id, node, offset_fetch.OffsetFetchResponse, offset_fetch.OffsetFetchResponseTopic,
                                    offset_fetch.OffsetFetchResponsePartition)  # fmt: skip
        groups = [
            self._offsets_of(row.group_id, node, offset_fetch.OffsetFetchResponseGroup, offset_fetch.OffsetFetchResponseTopics,
                             offset_fetch.OffsetFetchResponsePartitions)
            for row in request.groups
        ]  # fmt: skip
        for row, answer in zip(request.groups, groups, strict=True):
            answer.group_id = row.group_id
        return offset_fetch.OffsetFetchResponse(groups=groups)

    def _offsets_of(self, name: str, node: int, answer: Any, topic_row: Any, partition_row: Any) -> Any:
        group = self.groups[name]
        if group.coordinator != node:
            return answer(error_code=Errors.NOT_COORDINATOR)
        if group.error:
            return answer(error_code=group.error)
        by_topic: dict[str, list[Any]] = {}
        for tp, (offset, text) in group.offsets.items():
            row = partition_row(partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=9, metadata=text)
            by_topic.setdefault(tp.topic, []).append(row)
        return answer(topics=[topic_row(name=topic, partitions=rows) for topic, rows in by_topic.items()])


def _request_as_read(api_key: ApiKeys, version: int, request: Any) -> Any:
    """Encodes and decodes a request in this version, and fails if the version cannot carry it."""
    frame = memoryview(b"".join(bytes(part) for part in encode_request(RequestHeader(api_key, version, 1, "mirror"), request)))[4:]
    header, position = read_request_header(frame)
    return read_request(header, frame, position)


def _response_as_read(api_key: ApiKeys, version: int, response: Any) -> Any:
    frame = memoryview(b"".join(bytes(part) for part in encode_response(api_key, version, 1, response)))[4:]
    return read_response(api_key, version, frame)[1]


class GroupsDouble:
    """The group coordinator of the broker, with one shard for all groups."""

    def __init__(self) -> None:
        self.harness = ShardHarness().load()
        self.commits: list[tuple[str, dict[TopicPartition, tuple[int, int, str]]]] = []
        """Every commit that was asked for: the group, and by partition the offset, leader epoch and
        metadata.
        """
        self.refuse: list[Errors] = []
        """The errors with which the next commits fail, in order."""
        self.taken: set[str] = set()
        """Group ids that belong to a group of another type."""

    async def commit_offsets(self, request: Any, api_version: int) -> Any:
        rows = {
            TopicPartition(topic.name, p.partition_index): (p.committed_offset, p.committed_leader_epoch, p.committed_metadata)
            for topic in request.topics
            for p in topic.partitions
        }
        self.commits.append((request.group_id, rows))
        if request.group_id in self.taken:
            raise ApiException(Errors.GROUP_ID_NOT_FOUND)
        if self.refuse:
            raise ApiException(self.refuse.pop(0))
        shard = self.harness.shard
        return self.harness.run(shard.offsets.commit(request, api_version, self.harness.clock.time_ms()))

    async def fetch_offsets(self, group_id: str, wanted: Mapping[str, Sequence[int]] | None) -> Any:
        return self.harness.shard.offsets.fetch(group_id, wanted, member_id=None, member_epoch=-1, require_stable=False)

    def offset(self, group: str, topic: str, partition: int = 0) -> tuple[int, int, str] | None:
        found = self.harness.shard.offsets.offset(group, topic, partition)
        return None if found is None else (found.offset, found.leader_epoch, found.metadata)


class SyncBench:
    """One broker, which owns the sync of every mirror, and the controller of its cluster."""

    def __init__(self, *, interval_ms: int = INTERVAL_MS, has_authorizer: bool = True, retention_ms: int = 604_800_000) -> None:
        self.world = SimWorld(SimLoop(1))
        self.runtime = self.world.node("destination").boot()
        self.config = MirrorConfig(
            BROKER_ID,
            mirror_metadata_refresh_interval_ms=interval_ms,
            offsets_retention_ms=retention_ms,
            has_authorizer=has_authorizer,
            request_timeout_ms=1_000,
        )
        self.sources: dict[str, SourceDouble] = {}
        self.clients: list[tuple[str, dict[str, str]]] = []
        """The client id and mirror configs of every client that was made for a source."""
        self.mirrors: dict[str, Mirror] = {}
        self.groups = GroupsDouble()
        self.share = ShareOffsetsBench(self.groups.harness)
        self.share_version = 0
        self.states: dict[TopicPartition, MirrorPartitionState | Errors] = {}
        self.led: dict[str, list[Any]] = {}
        self.owner = BROKER_ID
        self.requests: list[Any] = []
        """Every request to the controller."""
        self.refuse: dict[str, Errors] = {}
        """The controller's errors, by the name of a topic or of an ACL's resource."""
        self._topics: dict[str, TopicImage] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._acls: dict[Uuid, StandardAcl] = {}
        self._acl_count = 0
        itself: Any = self
        groups = DestinationGroups(
            self.runtime,
            self.groups,
            itself,
            image=self.image,
            broker_id=BROKER_ID,
            create_group_metadata_topic=lambda: self.topic(GROUP_METADATA_TOPIC_NAME, 4),
            timeout_ms=1_000,
        )
        self.manager = MirrorMetadataManager(
            self.runtime,
            self.config,
            coordinator=itself,
            image=self.image,
            mirror=self.mirror,
            topics_of=self.topics_of,
            led_partitions=lambda name: self.led.get(name, []),
            steps=[
                TopicSync(self, self.image, self.config),
                ConfigSync(self, self, self.image, self.config),
                AclSync(self.runtime, self, self.image, enabled=has_authorizer),
                GroupOffsetSync(self.runtime, groups, self, self.image, retention_ms=retention_ms),
                ShareGroupSync(
                    self.runtime,
                    DestinationShareGroups(groups, self.share.offsets, itself, broker_id=BROKER_ID),
                    self,
                    self.image,
                ),
            ],
            create_state_topic=lambda: None,
        )

    def close(self) -> None:
        failures = self.world.loop.failures
        self.world.close()
        assert failures == [], failures

    # --- the cluster

    def image(self) -> MetadataImage:
        by_id = {topic.id: topic for topic in self._topics.values()}
        return MetadataImage(
            features=FeaturesImage({"share.version": self.share_version}),
            topics=TopicsImage(by_id, dict(self._topics)),
            configs=ConfigurationsImage(dict(self._configs)),
            acls=dict(self._acls),
        )

    def topic(self, name: str, partitions: int = 1, *, mirror: str = "", leader: int = BROKER_ID, **configs: str) -> None:
        """Creates or changes a topic of this cluster; its new partitions are MIRRORING.

        `mirror` is the value of `mirror.name`, suffix included.
        """
        registration = PartitionRegistration(replicas=(leader,), isr=(leader,), leader=leader)
        self._topics[name] = TopicImage(name, topic_id(name), dict.fromkeys(range(partitions), registration))
        values = {key.replace("_", "."): value for key, value in configs.items()} | ({"mirror.name": mirror} if mirror else {})
        self._configs[ConfigResource(RESOURCE_TOPIC, name)] = values
        counts = {each.name: len(each.partitions) for each in self._topics.values()}
        self.groups.harness.set_topics(len(counts), **counts)
        for number in range(partitions):
            self.states.setdefault(TopicPartition(name, number), MIRRORING)

    def topics_of(self, mirror: str) -> list[str]:
        associations = {topic: association_of(self._configs.get(ConfigResource(RESOURCE_TOPIC, topic), {})) for topic in self._topics}
        return sorted(topic for topic, association in associations.items() if association is not None and association.mirror_name == mirror)

    def configs(self, topic: str) -> dict[str, str]:
        return {name: value for name, value in self._configs[ConfigResource(RESOURCE_TOPIC, topic)].items() if name != "mirror.name"}

    def set_config(self, topic: str, name: str, value: str) -> None:
        self._configs[ConfigResource(RESOURCE_TOPIC, topic)][name] = value

    def add_acls(self, *acls: StandardAcl) -> None:
        for acl in acls:
            self._acl_count += 1
            self._acls[Uuid(self._acl_count.to_bytes(16, "big"))] = acl

    @property
    def acls(self) -> set[StandardAcl]:
        return set(self._acls.values())

    def make_mirror(self, name: str, source: SourceDouble, **configs: str) -> SourceDouble:
        """Creates a mirror of `source`. `configs` have underscores for dots."""
        self.sources[name] = source
        values = {"bootstrap.servers": "a:1,b:2"} | {key.replace("_", "."): value for key, value in configs.items()}
        self._configs[ConfigResource(RESOURCE_MIRROR, name)] = values
        return source

    def alter_mirror(self, name: str, **configs: str) -> None:
        self._configs[ConfigResource(RESOURCE_MIRROR, name)] |= {key.replace("_", "."): value for key, value in configs.items()}
        if name in self.mirrors:
            self.mirrors[name].reconfigure(self.image().configs.mirror(name))

    def mirror(self, name: str) -> Mirror:
        if name not in self.mirrors:
            self.mirrors[name] = Mirror(
                self.runtime, self.config, name, self.image().configs.mirror(name), client_factory=self._client(name), controller=self
            )
        return self.mirrors[name]

    def _client(self, name: str) -> Any:
        def make(client_id: str, configs: dict[str, str]) -> SourceDouble:
            self.clients.append((client_id, configs))
            return self.sources[name]

        return make

    # --- what the manager talks to

    unrecorded_partition_count = None

    def sync_owner(self, mirror_name: str) -> int:
        return self.owner

    async def read(self, partitions: Iterable[Any]) -> dict[tuple[str, int], StoredState | Errors]:
        found: dict[tuple[str, int], StoredState | Errors] = {}
        for each in partitions:
            state = self.states[each.topic_partition]
            found[each.key] = state if isinstance(state, Errors) else StoredState(state)
        return found

    async def send(self, *arguments: Any) -> Any:
        """Answers as the controller. There is no other broker."""
        (request,) = arguments
        self.requests.append(request)
        if isinstance(request, create_partitions.CreatePartitionsRequest):
            return self._grow(request)
        if isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest):
            return self._alter(request)
        if isinstance(request, create_acls.CreateAclsRequest):
            return self._create_acls(request)
        if isinstance(request, create_topics.CreateTopicsRequest):
            return self._create_topics(request)
        assert isinstance(request, delete_acls.DeleteAclsRequest), request
        return self._delete_acls(request)

    def _create_topics(self, request: create_topics.CreateTopicsRequest) -> create_topics.CreateTopicsResponse:
        rows = []
        for topic in request.topics:
            error = self.refuse.get(topic.name, Errors.NONE)
            if not error:
                self.topic(topic.name, topic.num_partitions, **{each.name.replace(".", "_"): each.value or "" for each in topic.configs})
            rows.append(create_topics.CreatableTopicResult(name=topic.name, error_code=error))
        return create_topics.CreateTopicsResponse(topics=rows)

    def _grow(self, request: create_partitions.CreatePartitionsRequest) -> create_partitions.CreatePartitionsResponse:
        rows = []
        for topic in request.topics:
            error = self.refuse.get(topic.name, Errors.NONE)
            if not error:
                mirror = self._configs[ConfigResource(RESOURCE_TOPIC, topic.name)]["mirror.name"]
                configs = {key.replace(".", "_"): value for key, value in self.configs(topic.name).items()}
                self.topic(topic.name, topic.count, mirror=mirror, **configs)
            rows.append(create_partitions.CreatePartitionsTopicResult(name=topic.name, error_code=error))
        return create_partitions.CreatePartitionsResponse(results=rows)

    def _alter(self, request: Any) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
        rows = []
        for resource in request.resources:
            error = self.refuse.get(resource.resource_name, Errors.NONE)
            values = self._configs.setdefault(ConfigResource(resource.resource_type, resource.resource_name), {})
            for config in () if error else resource.configs:
                if config.value is None:
                    values.pop(config.name, None)
                else:
                    values[config.name] = config.value
            rows.append(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    error_code=error, resource_type=resource.resource_type, resource_name=resource.resource_name
                )
            )
        return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=rows)

    def _create_acls(self, request: create_acls.CreateAclsRequest) -> create_acls.CreateAclsResponse:
        rows = []
        for each in request.creations:
            error = self.refuse.get(each.resource_name, Errors.NONE)
            if not error:
                self.add_acls(
                    StandardAcl(
                        each.resource_type,
                        each.resource_name,
                        each.resource_pattern_type,
                        each.principal,
                        each.host,
                        each.operation,
                        each.permission_type,
                    )
                )
            rows.append(create_acls.AclCreationResult(error_code=error))
        return create_acls.CreateAclsResponse(results=rows)

    def _delete_acls(self, request: delete_acls.DeleteAclsRequest) -> delete_acls.DeleteAclsResponse:
        rows = []
        for each in request.filters:
            error = self.refuse.get(each.resource_name_filter or "", Errors.NONE)
            wanted = AclBindingFilter(
                ResourceType(each.resource_type_filter),
                each.resource_name_filter,
                PatternType(each.pattern_type_filter),
                each.principal_filter,
                each.host_filter,
                AclOperation(each.operation),
                AclPermissionType(each.permission_type),
            )
            if not error:
                self._acls = {acl_id: acl for acl_id, acl in self._acls.items() if not wanted.matches(acl)}
            rows.append(delete_acls.DeleteAclsFilterResult(error_code=error, matching_acls=[]))
        return delete_acls.DeleteAclsResponse(filter_results=rows)

    # --- time

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.world.loop.run_until_complete(self.runtime.spawn(coroutine, name="test"))

    def cycle(self, mirror: str = "m", times: int = 1) -> dict[str, int]:
        """Runs sync cycles of one mirror.

        Returns by how much each of the four error gauges grew, without those that did not.
        """
        names = ("metadata_refresh", "topic_config", "group_offset", "acl")
        before = {name: getattr(self.manager.errors, name) for name in names}
        for _ in range(times):
            self.run(self.manager.refresh(mirror))
        grown = {name: getattr(self.manager.errors, name) - before[name] for name in names}
        return {name: count for name, count in grown.items() if count}

    def start(self) -> None:
        """Starts the loops, as the first metadata update does."""
        self.manager.on_metadata_update(MetadataDelta(MetadataImage.EMPTY), sorted(self.sources))

    def run_for_ms(self, duration_ms: int) -> None:
        self.world.loop.run_for_us(duration_ms * 1_000)
