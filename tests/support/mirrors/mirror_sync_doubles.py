"""A mirror's metadata sync without a broker: a scripted source (`source_double`), a controller that
applies every request, and one shard of a group coordinator.

`SyncBench` is one broker of a destination with its `MirrorMetadataManager` and the real sync steps,
on the simulator's clock. Time passes only in `run_for_ms`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping, Sequence
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
from kmirror.mirror.sync.destination_defaults import DestinationDefaults
from kmirror.mirror.sync.destination_groups import DestinationGroups
from kmirror.mirror.sync.destination_share_groups import DestinationShareGroups
from kmirror.mirror.sync.group_offset_sync import GroupOffsetSync
from kmirror.mirror.sync.mirror_metadata_manager import MirrorMetadataManager
from kmirror.mirror.sync.share_group_sync import ShareGroupSync
from kmirror.mirror.sync.topic_sync import TopicSync
from kmirror.sim.loop import SimLoop
from kmirror.sim.runtime import SimWorld
from kmirror.wire.messages import (
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    incremental_alter_configs,
)
from support.coordinators.group_doubles import ShardHarness
from support.coordinators.share_doubles import ShareOffsetsBench
from support.mirrors.source_double import SourceDouble, topic_id

T = TypeVar("T")
BROKER_ID = 1
INTERVAL_MS = 30_000
MIRRORING = MirrorPartitionState.MIRRORING


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

    def __init__(
        self,
        *,
        interval_ms: int = INTERVAL_MS,
        has_authorizer: bool = True,
        retention_ms: int = 604_800_000,
        static_topic_configs: Mapping[str, str] | None = None,
    ) -> None:
        self.world = SimWorld(SimLoop(1))
        self.runtime = self.world.node("destination").boot()
        self.config = MirrorConfig(
            BROKER_ID,
            mirror_metadata_refresh_interval_ms=interval_ms,
            offsets_retention_ms=retention_ms,
            has_authorizer=has_authorizer,
            request_timeout_ms=1_000,
            static_topic_configs=static_topic_configs or {},
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
        self.topic_configs = ConfigSync(self, self, self.image, DestinationDefaults(itself, self.image, self.config))
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
                self.topic_configs,
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
        """A topic's configs without `mirror.name` and what the cleaner goes by (`cleaning`)."""
        values = self._configs[ConfigResource(RESOURCE_TOPIC, topic)]
        return {name: value for name, value in values.items() if name not in ("mirror.name", "mirror.source.cleaning")}

    def cleaning(self, topic: str) -> str | None:
        return self._configs[ConfigResource(RESOURCE_TOPIC, topic)].get("mirror.source.cleaning")

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
            altered = [key.replace("_", ".") for key in configs]
            self.mirrors[name].reconfigure(self.image().configs.mirror(name), altered=altered)

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
