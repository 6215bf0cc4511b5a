"""What a run of metadata records changes (Kafka's `MetadataDelta`): replay records, then `apply`
makes the next image.

A delta knows what it changed, so publishers need not compare images: `topics.changed`,
`configs.changed`, `cluster.changed_brokers` and so on. The base image is never changed. The cost of
`apply` depends only on the changes, because the large maps share the rest (`SharedMap`). The
records of a snapshot are replayed over the existing image; `finish_snapshot` then drops everything
that the snapshot did not mention.

Records take effect only through `replay`, both in the controller that wrote them and in brokers
that fetched them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from kmirror.common.uuid import Uuid
from kmirror.metadata.cluster_delta import ClusterDelta
from kmirror.metadata.image import (
    ClientQuotaEntity,
    ConfigResource,
    ConfigurationsImage,
    DelegationToken,
    FeaturesImage,
    MetadataImage,
    MetadataProvenance,
    ScramCredentialData,
    StandardAcl,
)
from kmirror.metadata.replay_error import MetadataReplayError
from kmirror.metadata.shared_map import changed_map, shared
from kmirror.metadata.topics_delta import TopicsDelta

if TYPE_CHECKING:
    from kmirror.wire.messages.access_control_entry_record import AccessControlEntryRecord
    from kmirror.wire.messages.client_quota_record import ClientQuotaRecord
    from kmirror.wire.messages.config_record import ConfigRecord
    from kmirror.wire.messages.delegation_token_record import DelegationTokenRecord
    from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
    from kmirror.wire.messages.producer_ids_record import ProducerIdsRecord
    from kmirror.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
    from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

K = TypeVar("K")
V = TypeVar("V")


class ConfigurationsDelta:
    """Changed configs: `changed[resource][name]` is the new value, or None if it was removed.
    `emptied` holds resources that had no config left at some moment, even if they have some now.
    That is a mirror which was deleted and created again, because a mirror exists only as its
    configs."""

    def __init__(self, image: ConfigurationsImage) -> None:
        self.image = image
        self.changed: dict[ConfigResource, dict[str, str | None]] = {}
        self.emptied: dict[ConfigResource, None] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        changes = self.changed.setdefault(resource, {})
        changes[record.name] = record.value
        if record.value is None and not _without_none(self.image.props(resource), changes):
            self.emptied[resource] = None

    def remove_resource(self, resource: ConfigResource) -> None:
        """Removes every config of `resource` (its topic was deleted)."""
        changes = dict.fromkeys(self.image.props(resource)) | dict.fromkeys(self.changed.get(resource, {}))
        if changes:
            self.changed[resource] = dict(changes)

    def finish_snapshot(self) -> None:
        for resource, props in self.image.resources.items():
            changes = self.changed.setdefault(resource, {})
            for name in props:
                changes.setdefault(name, None)

    def apply(self) -> ConfigurationsImage:
        if not self.changed:
            return self.image
        changed: dict[ConfigResource, dict[str, str]] = {}
        for resource, changes in self.changed.items():
            changed[resource] = _without_none(self.image.props(resource), changes)
        emptied = [resource for resource, props in changed.items() if not props]
        kept = {resource: props for resource, props in changed.items() if props}
        return ConfigurationsImage(shared(self.image.resources).updated(kept, emptied))


class MetadataDelta:
    """Collects the effect of records over `image`. Sub-deltas: `topics`, `configs`, `cluster`;
    smaller parts are `changed_*` dicts."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics = TopicsDelta(image.topics)
        self.configs = ConfigurationsDelta(image.configs)
        self.cluster = ClusterDelta(image.cluster)
        self.changed_features: dict[str, int] = {}
        self.changed_acls: dict[Uuid, StandardAcl | None] = {}
        self.changed_scram: dict[tuple[int, str], ScramCredentialData | None] = {}
        self.changed_quotas: dict[ClientQuotaEntity, dict[str, float | None]] = {}
        self.changed_tokens: dict[str, DelegationToken | None] = {}
        self.next_producer_id = image.next_producer_id

    def replay(self, record: Any) -> None:
        """Takes the effect of one data record; raises MetadataReplayError if the record cannot
        follow its predecessors."""
        handler = _REPLAY.get(getattr(type(record), "API_KEY", -1))
        if handler is None:
            raise MetadataReplayError(f"Unknown metadata record type {type(record).__name__}")
        handler(self, record)

    def take_all(self, image: MetadataImage) -> None:
        """Takes the effect of all of `image`'s records, over an empty base."""
        assert self.image is MetadataImage.EMPTY, "take_all is for a delta from nothing"
        self.topics.take_all(image.topics)
        self.configs.changed = {resource: {**props} for resource, props in image.configs.resources.items()}
        self.cluster.changed_brokers = dict(image.cluster.brokers)
        self.cluster.changed_controllers = dict(image.cluster.controllers)
        self.changed_features = dict(image.features.finalized_levels)
        self.changed_acls = dict(image.acls)
        self.changed_scram = dict(image.scram)
        self.changed_quotas = {entity: {**quotas} for entity, quotas in image.client_quotas.items()}
        self.changed_tokens = dict(image.delegation_tokens)
        self.next_producer_id = image.next_producer_id

    def finish_snapshot(self) -> None:
        """Drops everything of the base image that the replayed snapshot did not mention."""
        self.topics.finish_snapshot()
        self.configs.finish_snapshot()
        self.cluster.finish_snapshot()
        for feature in self.image.features.finalized_levels:
            self.changed_features.setdefault(feature, 0)
        for acl_id in self.image.acls:
            self.changed_acls.setdefault(acl_id, None)
        for user in self.image.scram:
            self.changed_scram.setdefault(user, None)
        for token in self.image.delegation_tokens:
            self.changed_tokens.setdefault(token, None)
        for entity, quotas in self.image.client_quotas.items():
            changes = self.changed_quotas.setdefault(entity, {})
            for key in quotas:
                changes.setdefault(key, None)

    def apply(self, provenance: MetadataProvenance) -> MetadataImage:
        """Returns the image after the replayed records; unchanged parts are shared with the base
        image."""
        base = self.image
        return MetadataImage(
            provenance=provenance,
            features=FeaturesImage(_without_zero({**base.features.finalized_levels, **self.changed_features}))
            if self.changed_features
            else base.features,
            cluster=self.cluster.apply(),
            topics=self.topics.apply(),
            configs=self.configs.apply(),
            client_quotas=self._apply_quotas() if self.changed_quotas else base.client_quotas,
            next_producer_id=self.next_producer_id,
            acls=changed_map(base.acls, self.changed_acls),
            scram=changed_map(base.scram, self.changed_scram),
            delegation_tokens=changed_map(base.delegation_tokens, self.changed_tokens),
        )

    def _apply_quotas(self) -> dict[ClientQuotaEntity, dict[str, float]]:
        result = dict(self.image.client_quotas)
        for entity, changes in self.changed_quotas.items():
            quotas = _without_none(result.get(entity, {}), changes)
            if quotas:
                result[entity] = quotas
            else:
                result.pop(entity, None)
        return result

    def _replay_remove_topic(self, record: RemoveTopicRecord) -> None:
        name = self.topics.replay_remove(record)
        self.configs.remove_resource(ConfigResource(2, name))

    def _replay_quota(self, record: ClientQuotaRecord) -> None:
        entity = ClientQuotaEntity(tuple(sorted(((e.entity_type, e.entity_name) for e in record.entity), key=lambda pair: pair[0])))
        self.changed_quotas.setdefault(entity, {})[record.key] = None if record.remove else record.value

    def _replay_acl(self, record: AccessControlEntryRecord) -> None:
        self.changed_acls[record.id] = StandardAcl(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def _replay_remove_acl(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.changed_acls.get(record.id, self.image.acls.get(record.id)) is None:
            raise MetadataReplayError(f"Failed to find existing ACL with ID {record.id} in either image or changes")
        self.changed_acls[record.id] = None

    def _replay_scram(self, record: UserScramCredentialRecord) -> None:
        data = ScramCredentialData(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        self.changed_scram[record.mechanism, record.name] = data

    def _replay_token(self, record: DelegationTokenRecord) -> None:
        self.changed_tokens[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
            record.token_id,
        )

    def _replay_feature(self, record: FeatureLevelRecord) -> None:
        self.changed_features[record.name] = record.feature_level

    def _replay_producer_ids(self, record: ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id


def _without_zero(levels: dict[str, int]) -> dict[str, int]:
    return {name: level for name, level in levels.items() if level != 0}


def _without_none(base: dict[K, V], changes: dict[K, V | None]) -> dict[K, V]:
    result = dict(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def _ignore(delta: MetadataDelta, record: Any) -> None:
    """NoOpRecord and the ZooKeeper migration's state say nothing about the cluster."""


# By record type, so that loading this file does not load every record's module.
_REPLAY: dict[int, Callable[[MetadataDelta, Any], None]] = {
    0: lambda delta, record: delta.cluster.replay_register_broker(record),  # RegisterBrokerRecord
    1: lambda delta, record: delta.cluster.replay_unregister_broker(record),  # UnregisterBrokerRecord
    2: lambda delta, record: delta.topics.replay_topic(record),  # TopicRecord
    3: lambda delta, record: delta.topics.replay_partition(record),  # PartitionRecord
    4: lambda delta, record: delta.configs.replay(record),  # ConfigRecord
    5: lambda delta, record: delta.topics.replay_partition_change(record),  # PartitionChangeRecord
    7: lambda delta, record: delta.cluster.replay_fence(record.id, record.epoch, fenced=True),  # FenceBrokerRecord
    8: lambda delta, record: delta.cluster.replay_fence(record.id, record.epoch, fenced=False),  # UnfenceBrokerRecord
    9: MetadataDelta._replay_remove_topic,  # RemoveTopicRecord
    10: MetadataDelta._replay_token,  # DelegationTokenRecord
    11: MetadataDelta._replay_scram,  # UserScramCredentialRecord
    12: MetadataDelta._replay_feature,  # FeatureLevelRecord
    14: MetadataDelta._replay_quota,  # ClientQuotaRecord
    15: MetadataDelta._replay_producer_ids,  # ProducerIdsRecord
    17: lambda delta, record: delta.cluster.replay_registration_change(record),  # BrokerRegistrationChangeRecord
    18: MetadataDelta._replay_acl,  # AccessControlEntryRecord
    19: MetadataDelta._replay_remove_acl,  # RemoveAccessControlEntryRecord
    20: _ignore,  # NoOpRecord
    21: _ignore,  # ZkMigrationStateRecord
    22: lambda delta, record: delta.changed_scram.__setitem__((record.mechanism, record.name), None),  # RemoveUserScramCredentialRecord
    26: lambda delta, record: delta.changed_tokens.__setitem__(record.token_id, None),  # RemoveDelegationTokenRecord
    27: lambda delta, record: delta.cluster.replay_register_controller(record),  # RegisterControllerRecord
    28: lambda delta, record: delta.topics.replay_clear_elr(record),  # ClearElrRecord
}
