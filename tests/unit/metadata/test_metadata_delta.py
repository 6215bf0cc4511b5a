"""Replay of every record type, what a delta says it changed, and the loader's transactions and
snapshots.
"""

from __future__ import annotations

import pytest

from kmirror.common.uuid import Uuid
from kmirror.metadata.delta import MetadataDelta
from kmirror.metadata.image import ClientQuotaEntity, MetadataImage, MetadataProvenance
from kmirror.metadata.loader import LoaderManifest, LoaderManifestType, MetadataLoader, delta_from_empty, replay_all
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.registrations import DIRECTORY_MIGRATING, DIRECTORY_UNASSIGNED, PartitionRegistration
from kmirror.metadata.replay_error import MetadataReplayError
from kmirror.metadata.snapshot import build_data_batch
from kmirror.wire.messages import client_quota_record as cq
from kmirror.wire.messages import register_broker_record as rb
from kmirror.wire.messages.abort_transaction_record import AbortTransactionRecord
from kmirror.wire.messages.access_control_entry_record import AccessControlEntryRecord
from kmirror.wire.messages.begin_transaction_record import BeginTransactionRecord
from kmirror.wire.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from kmirror.wire.messages.config_record import ConfigRecord
from kmirror.wire.messages.delegation_token_record import DelegationTokenRecord
from kmirror.wire.messages.end_transaction_record import EndTransactionRecord
from kmirror.wire.messages.feature_level_record import FeatureLevelRecord
from kmirror.wire.messages.fence_broker_record import FenceBrokerRecord
from kmirror.wire.messages.no_op_record import NoOpRecord
from kmirror.wire.messages.partition_change_record import PartitionChangeRecord
from kmirror.wire.messages.partition_record import PartitionRecord
from kmirror.wire.messages.producer_ids_record import ProducerIdsRecord
from kmirror.wire.messages.register_controller_record import RegisterControllerRecord
from kmirror.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kmirror.wire.messages.remove_delegation_token_record import RemoveDelegationTokenRecord
from kmirror.wire.messages.remove_topic_record import RemoveTopicRecord
from kmirror.wire.messages.topic_record import TopicRecord
from kmirror.wire.messages.unfence_broker_record import UnfenceBrokerRecord
from kmirror.wire.messages.unregister_broker_record import UnregisterBrokerRecord
from kmirror.wire.messages.user_scram_credential_record import UserScramCredentialRecord

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
NOWHERE = MetadataProvenance()


def topic(topic_id: Uuid = A, name: str = "t", replicas: tuple[int, ...] = (1, 2), leader: int = 1) -> list[object]:
    partition = PartitionRecord(topic_id=topic_id, partition_id=0, replicas=list(replicas), isr=list(replicas), leader=leader)
    partition.leader_epoch = partition.partition_epoch = 0
    return [TopicRecord(name=name, topic_id=topic_id), partition]


def after(image: MetadataImage, *records: object) -> MetadataImage:
    return replay_all(list(records), NOWHERE, image)


def test_a_partition_change_leaves_alone_what_it_does_not_name() -> None:
    image = after(MetadataImage.EMPTY, *topic())
    before = image.topics.by_name["t"].partitions[0]
    changed = after(image, PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1])).topics.by_name["t"].partitions[0]
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ((1,), 1, 0, 1)
    moved = before.merge(PartitionChangeRecord(leader=1))
    assert (moved.leader, moved.leader_epoch) == (1, 1), "naming the same leader raises its epoch"


def test_new_replicas_get_the_unassigned_directory() -> None:
    partition = PartitionRegistration(replicas=(1,), isr=(1,), directories=(A,))
    moved = partition.merge(PartitionChangeRecord(replicas=[2, 1]))
    assert moved.directories == (DIRECTORY_UNASSIGNED, A)
    assert after(MetadataImage.EMPTY, *topic()).topics.by_name["t"].partitions[0].directories == (DIRECTORY_MIGRATING,) * 2


def test_parts_that_no_record_touched_are_shared() -> None:
    image = after(MetadataImage.EMPTY, *topic(), *topic(B, "u"))
    changed = after(image, PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1]))
    assert changed.topics.by_name["u"] is image.topics.by_name["u"]
    assert changed.configs is image.configs
    assert image.topics.by_name["t"].partitions[0].isr == (1, 2), "the old image is as it was"


def test_removing_a_topic_forgets_its_configs() -> None:
    image = after(MetadataImage.EMPTY, *topic(), ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"))
    delta = MetadataDelta(image)
    delta.replay(RemoveTopicRecord(topic_id=A))
    assert delta.topics.topic_was_deleted("t")
    assert delta.topics.deleted_ids == {A: "t"}
    left = delta.apply(NOWHERE)
    assert (left.topics.by_name, left.topics.by_id, left.configs.resources) == ({}, {}, {})


def test_a_topic_deleted_and_made_again_in_one_delta() -> None:
    image = after(MetadataImage.EMPTY, *topic(), ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"))
    config = ConfigRecord(resource_type=2, resource_name="t", name="segment.ms", value="9")
    again = after(image, RemoveTopicRecord(topic_id=A), *topic(B, "t"), config)
    assert list(again.topics.by_id) == [B]
    assert again.configs.topic("t") == {"segment.ms": "9"}


def test_what_changed_for_one_broker() -> None:
    image = after(MetadataImage.EMPTY, *topic(A, "led"), *topic(B, "followed", leader=2))
    delta = MetadataDelta(MetadataImage.EMPTY)
    for record in (*topic(A, "led"), *topic(B, "followed", leader=2)):
        delta.replay(record)
    changes = delta.topics.local_changes(1)
    assert list(changes.elected_leaders) == list(changes.leaders) == [("led", 0)]
    assert list(changes.followers) == [("followed", 0)]
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1]))
    changes = delta.topics.local_changes(1)
    assert list(changes.leaders) == [("led", 0)]
    assert changes.elected_leaders == {}, "the leader epoch is the same"
    delta = MetadataDelta(image)
    delta.replay(PartitionChangeRecord(topic_id=A, partition_id=0, replicas=[2], isr=[2], leader=2))
    delta.replay(RemoveTopicRecord(topic_id=B))
    assert sorted(delta.topics.local_changes(1).deletes) == [("followed", 0, B), ("led", 0, A)]


def test_a_whole_partition_record_replaces_and_elects() -> None:
    """How BumpLeaderEpochs writes: every 4.x reader takes it for a new leader epoch of the same
    partition.
    """
    image = after(MetadataImage.EMPTY, *topic())
    delta = MetadataDelta(image)
    delta.replay(PartitionRecord(topic_id=A, partition_id=0, replicas=[1, 2], isr=[1, 2], leader=1, leader_epoch=7, partition_epoch=1))
    assert delta.topics.local_changes(1).elected_leaders[("t", 0)][1].leader_epoch == 7
    assert list(delta.topics.local_changes(2).followers) == [("t", 0)]


def test_life_of_a_broker() -> None:
    image = after(MetadataImage.EMPTY, rb.RegisterBrokerRecord(broker_id=1, broker_epoch=5, fenced=True, log_dirs=[B, A]))
    assert image.cluster.brokers[1].directories == (A, B)
    image = after(image, UnfenceBrokerRecord(id=1, epoch=5))
    assert image.cluster.is_active(1)
    image = after(image, BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1))
    assert not image.cluster.is_active(1)
    image = after(image, FenceBrokerRecord(id=1, epoch=5))
    assert image.cluster.brokers[1].fenced
    assert image.cluster.unfenced_brokers() == []
    with pytest.raises(MetadataReplayError, match="did not match the current broker epoch, 5"):
        after(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=4))
    assert after(image, UnregisterBrokerRecord(broker_id=1, broker_epoch=5)).cluster.brokers == {}


def test_quotas_tokens_and_features_come_and_go() -> None:
    def quota(value: float, *, remove: bool) -> cq.ClientQuotaRecord:
        entity = [cq.EntityData(entity_type="user", entity_name=None), cq.EntityData(entity_type="client-id", entity_name="c")]
        return cq.ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=value, remove=remove)

    image = after(
        MetadataImage.EMPTY, quota(2.5, remove=False), DelegationTokenRecord(token_id="x"), FeatureLevelRecord(name="f", feature_level=2)
    )
    assert image.client_quotas == {ClientQuotaEntity((("client-id", "c"), ("user", None))): {"producer_byte_rate": 2.5}}
    assert image.features.level("f") == 2
    image = after(image, quota(0, remove=True), RemoveDelegationTokenRecord(token_id="x"), FeatureLevelRecord(name="f", feature_level=0))
    assert image.is_empty()


@pytest.mark.parametrize(
    "record",
    [RemoveTopicRecord(topic_id=B), PartitionRecord(topic_id=B), PartitionChangeRecord(topic_id=B), RemoveAccessControlEntryRecord(id=B),
     BrokerRegistrationChangeRecord(broker_id=9)],
)  # fmt: skip
def test_records_about_nothing_are_refused(record: object) -> None:
    with pytest.raises(MetadataReplayError):
        after(MetadataImage.EMPTY, record)


class Recorder:
    name = "recorder"

    def __init__(self) -> None:
        self.seen: list[tuple[MetadataDelta, MetadataImage, LoaderManifest]] = []

    def on_metadata_update(self, delta: MetadataDelta, image: MetadataImage, manifest: LoaderManifest) -> None:
        self.seen.append((delta, image, manifest))


def batch(base_offset: int, *records: object) -> bytes:
    versioned = [ApiMessageAndVersion(record, 0) for record in records]
    return bytes(build_data_batch(versioned, base_offset=base_offset, leader_epoch=1, time_ms=5))


def test_a_transaction_takes_effect_at_its_end() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.install_publisher(recorder)
    loader.handle_commit(batch(0, BeginTransactionRecord(name="x"), *topic()))
    assert (loader.image, recorder.seen, loader.next_offset) == (MetadataImage.EMPTY, [], 3)
    loader.handle_commit(batch(3, EndTransactionRecord()))
    assert list(loader.image.topics.by_name) == ["t"]
    assert loader.image.provenance == MetadataProvenance(3, 1, 5)
    assert len(recorder.seen) == 1


def test_an_aborted_transaction_leaves_nothing() -> None:
    loader = MetadataLoader()
    loader.handle_commit(batch(0, BeginTransactionRecord(), *topic(), AbortTransactionRecord(), NoOpRecord()))
    assert loader.image.is_empty()
    assert loader.next_offset == 5


def test_batches_that_are_known_already_are_skipped() -> None:
    loader = MetadataLoader()
    loader.handle_commit(batch(0, *topic()))
    loader.handle_commit(batch(0, *topic()) + batch(2, RemoveTopicRecord(topic_id=A)))
    assert loader.image.topics.by_name == {}


def test_a_late_publisher_gets_everything_at_once() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.handle_commit(batch(0, *topic()))
    loader.install_publisher(recorder)
    delta, image, manifest = recorder.seen[0]
    assert manifest.type is LoaderManifestType.SNAPSHOT
    assert image is loader.image
    assert list(delta.topics.changed) == [A]


def test_a_snapshot_drops_what_it_does_not_mention() -> None:
    loader, recorder = MetadataLoader(), Recorder()
    loader.handle_commit(batch(0, *topic(), ConfigRecord(resource_type=4, resource_name="", name="x", value="1")))
    loader.install_publisher(recorder)
    loader.handle_load_snapshot(topic(B, "u"), MetadataProvenance(9, 2, 7))
    assert list(loader.image.topics.by_name) == ["u"]
    assert loader.image.configs.resources == {}
    assert recorder.seen[-1][0].topics.deleted_ids == {A: "t"}
    assert loader.next_offset == 10


def full_image() -> MetadataImage:
    records = [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        rb.RegisterBrokerRecord(broker_id=1, incarnation_id=A, broker_epoch=5, log_dirs=[B]),
        RegisterControllerRecord(controller_id=9, incarnation_id=B),
        *topic(),
        *topic(B, "u"),
        PartitionChangeRecord(topic_id=A, partition_id=0, isr=[1]),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
        cq.ClientQuotaRecord(entity=[cq.EntityData(entity_type="user", entity_name="eve")], key="producer_byte_rate", value=1.0),
        DelegationTokenRecord(owner="User:a", requester="User:a", token_id="id"),
        UserScramCredentialRecord(name="eve", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
        AccessControlEntryRecord(id=A, resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3),
        ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=1000),
    ]
    return replay_all(records, MetadataProvenance(11, 1, 5))


def test_a_delta_from_nothing_is_what_replaying_the_images_records_gives() -> None:
    image = full_image()
    replayed = MetadataDelta(MetadataImage.EMPTY)
    for record in image.records():
        replayed.replay(record.message)
    delta = delta_from_empty(image)
    assert delta.topics.changed == replayed.topics.changed
    assert delta.topics.created == replayed.topics.created
    assert delta.configs.changed == replayed.configs.changed
    assert delta.cluster.changed_brokers == replayed.cluster.changed_brokers
    assert delta.cluster.changed_controllers == replayed.cluster.changed_controllers
    for name in ("features", "acls", "scram", "quotas", "tokens"):
        assert getattr(delta, f"changed_{name}") == getattr(replayed, f"changed_{name}"), name
        assert getattr(delta, f"changed_{name}"), f"the image has no {name}"
    assert delta.next_producer_id == replayed.next_producer_id
    assert delta.apply(image.provenance) == image
