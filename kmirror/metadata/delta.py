"""What a run of metadata records changes (Kafka's `MetadataDelta`): replay records, then `apply` makes the next image.

A delta knows what it changed, so that publishers need not compare images: `topics.changed`, `configs.changed`,
`cluster.changed_brokers` and so on. The base image is never changed: `apply` costs what changed, because the large maps share the rest
(`SharedMap`). Records that a snapshot brings are replayed over the image that was there: `finish_snapshot` then drops
everything the snapshot did not mention.

`replay` is the only way a record takes effect, in the controller that wrote it as in a broker that fetched it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace as replace_struct

from kmirror.common.errors import KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.metadata.image import (
    ClientQuotaEntity,
    ClusterImage,
    ConfigResource,
    ConfigurationsImage,
    DelegationToken,
    FeaturesImage,
    MetadataImage,
    MetadataProvenance,
    ScramCredentialData,
    StandardAcl,
    TopicImage,
    TopicsImage,
)
from kmirror.metadata.registrations import BrokerRegistration, ControllerRegistration, PartitionRegistration
from kmirror.metadata.shared_map import SharedMap

if TYPE_CHECKING:
    from kmirror.wire.messages.access_control_entry_record import AccessControlEntryRecord
    from kmirror.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
    from kmirror.wire.messages.clear_elr_record import ClearElrRecord
    from kmirror.wire.messages.client_quota_record import ClientQuotaRecord
    from kmirror.wire.messages.config_record import ConfigRecord
    from kmirror.wire.messages.delegation_token_record import DelegationTokenRecord
    from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
    from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
    from kmirror.wire.messages.partition_record import PartitionRecord
    from kmirror.wire.messages.producer_ids_record import ProducerIdsRecord
    from kmirror.wire.messages.register_broker_record import RegisterBrokerRecord
    from kmirror.wire.messages.register_controller_record import RegisterControllerRecord
    from kmirror.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
    from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
    from kmirror.wire.messages.topic_record import TopicRecord
    from kmirror.wire.messages.unregister_broker_record import UnregisterBrokerRecord
    from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

K = TypeVar("K")
V = TypeVar("V")


class MetadataReplayError(KmirrorError):
    """A record of the metadata log that cannot follow what came before it."""


@dataclass(slots=True)
class TopicDelta:
    """The change of one topic: `image` is the topic before, `partition_changes` the new partitions by number."""

    image: TopicImage
    partition_changes: dict[int, PartitionRegistration] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.image.name

    @property
    def id(self) -> Uuid:
        return self.image.id

    def partition(self, partition_id: int) -> PartitionRegistration | None:
        changed = self.partition_changes.get(partition_id)
        return self.image.partitions.get(partition_id) if changed is None else changed

    def apply(self) -> TopicImage:
        if not self.partition_changes:
            return self.image
        return TopicImage(self.image.name, self.image.id, _shared(self.image.partitions).updated(self.partition_changes))


@dataclass(slots=True)
class LocalReplicaChanges:
    """What a topics delta means for one broker. Values: (topic id, partition after the change).

    `deletes`: replicas this broker no longer has. `elected_leaders`: partitions it leads under a new leader epoch.
    `leaders`: all that it leads and whose partition changed. `followers`: the same for following.
    """

    deletes: list[tuple[str, int, Uuid]] = field(default_factory=list)
    elected_leaders: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    followers: dict[tuple[str, int], tuple[Uuid, PartitionRegistration]] = field(default_factory=dict)
    directory_changes: dict[tuple[str, int], Uuid] = field(default_factory=dict)


class TopicsDelta:
    """Created, changed and deleted topics. `changed` holds created topics too; a topic both deleted and created anew
    (another id) is in `deleted_ids` under the old id and in `changed` under the new one."""

    def __init__(self, image: TopicsImage) -> None:
        self.image = image
        self.changed: dict[Uuid, TopicDelta] = {}
        self.deleted_ids: dict[Uuid, str] = {}
        self._deleted_names: set[str] = set()
        self.created: dict[str, Uuid] = {}

    @property
    def is_changed(self) -> bool:
        return bool(self.changed or self.deleted_ids)

    def topic_was_deleted(self, name: str) -> bool:
        """True when the topic of this name before the delta is gone (a new one of the same name may exist)."""
        return name in self._deleted_names

    def topic_name(self, topic_id: Uuid) -> str | None:
        if topic_id in self.deleted_ids:
            return None
        if topic_id in self.changed:
            return self.changed[topic_id].name
        topic = self.image.by_id.get(topic_id)
        return None if topic is None else topic.name

    def _delta_of(self, topic_id: Uuid, what: str) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            image = None if topic_id in self.deleted_ids else self.image.by_id.get(topic_id)
            if image is None:
                raise MetadataReplayError(f"Tried to {what} of topic id {topic_id}, but no topic with that id was found.")
            delta = self.changed[topic_id] = TopicDelta(image)
        return delta

    def replay_topic(self, record: TopicRecord) -> None:
        self.changed[record.topic_id] = TopicDelta(TopicImage(record.name, record.topic_id))
        self.created[record.name] = record.topic_id

    def replay_remove(self, record: RemoveTopicRecord) -> str:
        name = self._delta_of(record.topic_id, "remove the topic").name
        del self.changed[record.topic_id]
        if self.created.get(name) == record.topic_id:
            del self.created[name]
        if record.topic_id in self.image.by_id:
            self.deleted_ids[record.topic_id] = name
            self._deleted_names.add(name)
        return name

    def replay_partition(self, record: PartitionRecord) -> None:
        delta = self._delta_of(record.topic_id, "add a partition")
        delta.partition_changes[record.partition_id] = PartitionRegistration.from_record(record)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        delta = self._delta_of(record.topic_id, f"change partition {record.partition_id}")
        partition = delta.partition(record.partition_id)
        if partition is None:
            raise MetadataReplayError(f"Unable to find partition {record.topic_id}:{record.partition_id}")
        delta.partition_changes[record.partition_id] = partition.merge(record)

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        topics = self.apply().by_name
        for name in [record.topic_name] if record.topic_name else list(topics):
            topic = topics.get(name)
            if topic is None:
                raise MetadataReplayError(f"Unable to clear elr for topic with name {name}.")
            for partition_id, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    cleared = replace_struct(partition, elr=(), last_known_elr=())
                    self._delta_of(topic.id, "clear the elr").partition_changes[partition_id] = cleared

    def take_all(self, topics: TopicsImage) -> None:
        for topic_id, topic in topics.by_id.items():
            self.changed[topic_id] = TopicDelta(TopicImage(topic.name, topic_id), dict(topic.partitions))
            self.created[topic.name] = topic_id

    def finish_snapshot(self) -> None:
        for topic_id, topic in self.image.by_id.items():
            if topic_id not in self.changed:
                self.deleted_ids[topic_id] = topic.name
                self._deleted_names.add(topic.name)

    def apply(self) -> TopicsImage:
        if not self.is_changed:
            return self.image
        changed = [delta.apply() for delta in self.changed.values()]
        return TopicsImage(
            _shared(self.image.by_id).updated({topic.id: topic for topic in changed}, self.deleted_ids),
            _shared(self.image.by_name).updated({topic.name: topic for topic in changed}, dict.fromkeys(self.deleted_ids.values())),
        )

    def local_changes(self, broker_id: int) -> LocalReplicaChanges:
        """What changed for the replicas of `broker_id` (Kafka's `TopicsDelta.localChanges`)."""
        changes = LocalReplicaChanges()
        for topic_id, name in self.deleted_ids.items():
            for number, partition in self.image.by_id[topic_id].partitions.items():
                if broker_id in partition.replicas:
                    changes.deletes.append((name, number, topic_id))
        for delta in self.changed.values():
            before_topic = self.image.by_id.get(delta.id)
            for number, partition in delta.partition_changes.items():
                before = None if before_topic is None else before_topic.partitions.get(number)
                self._classify(changes, broker_id, delta, number, before, partition)
        return changes

    @staticmethod
    def _classify(
        changes: LocalReplicaChanges,
        broker_id: int,
        delta: TopicDelta,
        number: int,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        key, value = (delta.name, number), (delta.id, after)
        if broker_id not in after.replicas:
            if before is not None and broker_id in before.replicas:
                changes.deletes.append((delta.name, number, delta.id))
            return
        if after.leader == broker_id:
            if before is None or before.partition_epoch != after.partition_epoch:
                changes.leaders[key] = value
            if before is None or before.leader_epoch != after.leader_epoch:
                changes.elected_leaders[key] = value
        elif before is None or before.partition_epoch != after.partition_epoch:
            changes.followers[key] = value
        directory = after.directory(broker_id)
        if before is None or before.directory(broker_id) != directory:
            changes.directory_changes[key] = directory


class ConfigurationsDelta:
    """Changed configs: `changed[resource][name]` is the new value, None when it was removed."""

    def __init__(self, image: ConfigurationsImage) -> None:
        self.image = image
        self.changed: dict[ConfigResource, dict[str, str | None]] = {}

    def replay(self, record: ConfigRecord) -> None:
        resource = ConfigResource(record.resource_type, record.resource_name)
        self.changed.setdefault(resource, {})[record.name] = record.value

    def remove_resource(self, resource: ConfigResource) -> None:
        """Forget every config of `resource` (its topic was deleted)."""
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
        return ConfigurationsImage(_shared(self.image.resources).updated(kept, emptied))


class ClusterDelta:
    """Changed brokers and controllers; None when one was unregistered."""

    def __init__(self, image: ClusterImage) -> None:
        self.image = image
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        self.changed_controllers: dict[int, ControllerRegistration | None] = {}

    def broker(self, broker_id: int) -> BrokerRegistration | None:
        if broker_id in self.changed_brokers:
            return self.changed_brokers[broker_id]
        return self.image.brokers.get(broker_id)

    def _existing(self, broker_id: int, epoch: int, what: str) -> BrokerRegistration:
        broker = self.broker(broker_id)
        if broker is None:
            raise MetadataReplayError(f"Tried to {what} broker {broker_id}, but that broker was not registered.")
        if broker.epoch != epoch:
            raise MetadataReplayError(
                f"Tried to {what} broker {broker_id}, but the given epoch, {epoch}, did not match the current broker epoch, {broker.epoch}."
            )
        return broker

    def replay_register_broker(self, record: RegisterBrokerRecord) -> None:
        self.changed_brokers[record.broker_id] = BrokerRegistration.from_record(record)

    def replay_unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self._existing(record.broker_id, record.broker_epoch, "unregister")
        self.changed_brokers[record.broker_id] = None

    def replay_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._existing(record.broker_id, record.broker_epoch, "change the registration of")
        if record.fenced:
            broker = replace(broker, fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = replace(broker, in_controlled_shutdown=record.in_controlled_shutdown > 0)
        if record.log_dirs:
            broker = replace(broker, directories=tuple(sorted(record.log_dirs)))
        if record.cordoned_log_dirs is not None:
            broker = replace(broker, cordoned_directories=tuple(record.cordoned_log_dirs))
        self.changed_brokers[record.broker_id] = broker

    def replay_fence(self, broker_id: int, epoch: int, *, fenced: bool) -> None:
        self.changed_brokers[broker_id] = replace(self._existing(broker_id, epoch, "fence" if fenced else "unfence"), fenced=fenced)

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.changed_controllers[record.controller_id] = ControllerRegistration.from_record(record)

    def finish_snapshot(self) -> None:
        for broker_id in self.image.brokers:
            self.changed_brokers.setdefault(broker_id, None)
        for controller_id in self.image.controllers:
            self.changed_controllers.setdefault(controller_id, None)

    def apply(self) -> ClusterImage:
        if not self.changed_brokers and not self.changed_controllers:
            return self.image
        brokers = {**self.image.brokers, **self.changed_brokers}
        controllers = {**self.image.controllers, **self.changed_controllers}
        return ClusterImage(
            {broker_id: broker for broker_id, broker in brokers.items() if broker is not None},
            {controller_id: controller for controller_id, controller in controllers.items() if controller is not None},
        )


class MetadataDelta:
    """Collects records over `image`. Sub-deltas: `topics`, `configs`, `cluster`; smaller parts are `changed_*` dicts."""

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
        """Take the effect of one data record; MetadataReplayError when it cannot follow its predecessors."""
        handler = _REPLAY.get(getattr(type(record), "API_KEY", -1))
        if handler is None:
            raise MetadataReplayError(f"Unknown metadata record type {type(record).__name__}")
        handler(self, record)

    def take_all(self, image: MetadataImage) -> None:
        """The effect of all of `image`'s records over an empty base."""
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
        """Drop everything of the base image that the replayed snapshot did not mention."""
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
        """The image after the replayed records; unchanged parts are shared with the base image."""
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
            acls=_updated(base.acls, self.changed_acls),
            scram=_updated(base.scram, self.changed_scram),
            delegation_tokens=_updated(base.delegation_tokens, self.changed_tokens),
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


def _shared(items: Mapping[K, V]) -> SharedMap[K, V]:
    return items if isinstance(items, SharedMap) else SharedMap(items)


def _updated(items: Mapping[K, V], changes: dict[K, V | None]) -> Mapping[K, V]:
    """None removes; the same object where nothing changes."""
    if not changes:
        return items
    kept = {key: value for key, value in changes.items() if value is not None}
    return _shared(items).updated(kept, [key for key, value in changes.items() if value is None])


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
