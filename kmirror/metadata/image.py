"""The cluster's metadata at one offset of `__cluster_metadata`, immutable (Kafka's
`MetadataImage`).

An image is never changed: `MetadataDelta` collects the effect of records and makes the next image,
which shares every part that no record touched. So the holder of an image sees one consistent offset
for as long as it keeps the image. `records` writes an image as the records of a snapshot, in
Kafka's order; replaying them into `MetadataImage.EMPTY` gives an equal image.

Do not change the mappings inside. Those that grow with the cluster (topics, partitions, configs,
ACLs) are `SharedMap`s, so the cost of a change depends on its size, not on the size of the map.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from kmirror.common.uuid import Uuid
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import BrokerRegistration, ControllerRegistration, PartitionRegistration
from kmirror.metadata.shared_map import SharedMap
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.producer_ids_record import ProducerIdsRecord
from kmirror.wire.messages.topic_record import TopicRecord

METADATA_VERSION_FEATURE = "metadata.version"

RESOURCE_TOPIC = 2
RESOURCE_BROKER = 4
RESOURCE_BROKER_LOGGER = 8
RESOURCE_CLIENT_METRICS = 16
RESOURCE_GROUP = 32
RESOURCE_MIRROR = 64


class MetadataProvenance(NamedTuple):
    """How far the log had been read when an image was made: offset and epoch of its last record,
    and its timestamp."""

    last_contained_offset: int = -1
    last_contained_epoch: int = -1
    last_contained_log_time_ms: int = -1


class ConfigResource(NamedTuple):
    """Type (RESOURCE_*) and name of the resource that a config belongs to; a broker is named by its
    id as text, "" is the cluster default."""

    type: int
    name: str


class FeaturesImage(Struct, frozen=True):
    """Finalized feature levels, metadata.version among them. A feature at level 0 is absent."""

    finalized_levels: dict[str, int] = field(default_factory=dict)

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version; 7 (3.3-IV3, Kafka's minimum) before any record."""
        return self.finalized_levels.get(METADATA_VERSION_FEATURE, 7)

    def level(self, feature: str) -> int:
        return self.finalized_levels.get(feature, 0)

    def records(self) -> Iterator[ApiMessageAndVersion]:
        if METADATA_VERSION_FEATURE in self.finalized_levels:
            level = self.finalized_levels[METADATA_VERSION_FEATURE]
            yield ApiMessageAndVersion(FeatureLevelRecord(name=METADATA_VERSION_FEATURE, feature_level=level), 0)
        for name, level in self.finalized_levels.items():
            if name != METADATA_VERSION_FEATURE:
                yield ApiMessageAndVersion(FeatureLevelRecord(name=name, feature_level=level), 0)


class ClusterImage(Struct, frozen=True):
    """Registered brokers and controllers by id."""

    brokers: dict[int, BrokerRegistration] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        return self.brokers.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        registration = self.brokers.get(broker_id)
        return registration is not None and registration.active

    def unfenced_brokers(self) -> list[BrokerRegistration]:
        """Returns them in the order of their ids."""
        return [self.brokers[broker_id] for broker_id in sorted(self.brokers) if not self.brokers[broker_id].fenced]


class TopicImage(Struct, frozen=True):
    """A topic's name, id and partitions by number."""

    name: str
    id: Uuid
    partitions: Mapping[int, PartitionRegistration] = field(default_factory=SharedMap)


class TopicsImage(Struct, frozen=True):
    """Topics by id and by name; both hold the same `TopicImage` objects."""

    by_id: Mapping[Uuid, TopicImage] = field(default_factory=SharedMap)
    by_name: Mapping[str, TopicImage] = field(default_factory=SharedMap)

    def topic(self, name: str) -> TopicImage | None:
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: Uuid) -> TopicImage | None:
        return self.by_id.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        image = self.by_name.get(topic)
        return None if image is None else image.partitions.get(partition)


class ConfigurationsImage(Struct, frozen=True):
    """Dynamic configs by resource. Resources without a config are absent."""

    resources: Mapping[ConfigResource, dict[str, str]] = field(default_factory=SharedMap)

    def props(self, resource: ConfigResource) -> dict[str, str]:
        """Returns all configs of a resource; an empty dict if it has none."""
        return self.resources.get(resource, {})

    def topic(self, name: str) -> dict[str, str]:
        return self.props(ConfigResource(RESOURCE_TOPIC, name))

    def broker(self, broker_id: int) -> dict[str, str]:
        return self.props(ConfigResource(RESOURCE_BROKER, str(broker_id)))

    def cluster_default(self) -> dict[str, str]:
        return self.props(ConfigResource(RESOURCE_BROKER, ""))

    def mirror(self, name: str) -> dict[str, str]:
        return self.props(ConfigResource(RESOURCE_MIRROR, name))

    def mirror_names(self) -> list[str]:
        """Returns the names of all mirrors, sorted."""
        return sorted(resource.name for resource in self.resources if resource.type == RESOURCE_MIRROR)


class ClientQuotaEntity(NamedTuple):
    """A quota entity: (type, name) pairs sorted by type; the name None stands for the type's
    default."""

    entries: tuple[tuple[str, str | None], ...]


class StandardAcl(NamedTuple):
    """One ACL binding, with Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class ScramCredentialData(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class DelegationToken(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


class MetadataImage(Struct, frozen=True):
    """All metadata of the log up to `provenance`."""

    EMPTY: ClassVar[MetadataImage]

    provenance: MetadataProvenance = MetadataProvenance()
    features: FeaturesImage = field(default_factory=FeaturesImage)
    cluster: ClusterImage = field(default_factory=ClusterImage)
    topics: TopicsImage = field(default_factory=TopicsImage)
    configs: ConfigurationsImage = field(default_factory=ConfigurationsImage)
    client_quotas: dict[ClientQuotaEntity, dict[str, float]] = field(default_factory=dict)
    next_producer_id: int = -1
    acls: Mapping[Uuid, StandardAcl] = field(default_factory=SharedMap)
    scram: Mapping[tuple[int, str], ScramCredentialData] = field(default_factory=SharedMap)
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=SharedMap)

    @property
    def highest_offset(self) -> int:
        return self.provenance.last_contained_offset

    def is_empty(self) -> bool:
        """Whether the image has no content; provenance does not count."""
        return next(self.records(), None) is None

    def records(self) -> Iterator[ApiMessageAndVersion]:
        """Yields the data records of a snapshot of this image, in Kafka's order."""
        metadata_version = self.features.metadata_version
        yield from self.features.records()
        for broker in self.cluster.brokers.values():
            yield broker.to_record(metadata_version)
        for controller in self.cluster.controllers.values():
            yield controller.to_record()
        for topic in self.topics.by_id.values():
            yield ApiMessageAndVersion(TopicRecord(name=topic.name, topic_id=topic.id), 0)
            for partition_id in sorted(topic.partitions):
                yield topic.partitions[partition_id].to_record(topic.id, partition_id, metadata_version)
        yield from self._config_records()
        yield from self._quota_records()
        if self.next_producer_id >= 0:
            yield ApiMessageAndVersion(ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id), 0)
        yield from self._security_records()

    def _config_records(self) -> Iterator[ApiMessageAndVersion]:
        for resource, props in self.configs.resources.items():
            for name, value in props.items():
                record = ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
                yield ApiMessageAndVersion(record, 0)

    def _quota_records(self) -> Iterator[ApiMessageAndVersion]:
        if not self.client_quotas:
            return
        from kmirror.wire.messages import client_quota_record

        for entity, quotas in self.client_quotas.items():
            for key, value in quotas.items():
                data = [client_quota_record.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.entries]
                yield ApiMessageAndVersion(client_quota_record.ClientQuotaRecord(entity=data, key=key, value=value, remove=False), 0)

    def _security_records(self) -> Iterator[ApiMessageAndVersion]:
        if not (self.acls or self.scram or self.delegation_tokens):
            return
        from kmirror.wire.messages.access_control_entry_record import AccessControlEntryRecord
        from kmirror.wire.messages.delegation_token_record import DelegationTokenRecord
        from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

        for acl_id, acl in self.acls.items():
            yield ApiMessageAndVersion(AccessControlEntryRecord(id=acl_id, **acl._asdict()), 0)
        for (mechanism, user), data in self.scram.items():
            yield ApiMessageAndVersion(UserScramCredentialRecord(name=user, mechanism=mechanism, **data._asdict()), 0)
        for token in self.delegation_tokens.values():
            fields = token._asdict() | {"renewers": list(token.renewers)}
            yield ApiMessageAndVersion(DelegationTokenRecord(**fields), 0)


MetadataImage.EMPTY = MetadataImage()
