"""Changing configs and feature levels, and handing out producer ids."""

from __future__ import annotations

import pytest
from metadata_doubles import ControllerDouble

from kmirror.common.errors import ApiException, Errors
from kmirror.metadata.image import ConfigResource
from kmirror.wire.messages import alter_configs as legacy
from kmirror.wire.messages import incremental_alter_configs as inc
from kmirror.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from kmirror.wire.messages.clear_elr_record import ClearElrRecord
from kmirror.wire.messages.create_mirror import CreateMirrorRequest, MirrorConfig
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, METRICS, GROUP, MIRROR = 2, 4, 16, 32, 64
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def alter(
    controller: ControllerDouble, kind: int, name: str, *changes: tuple[str, int, str | None], by_broker: bool = False
) -> tuple[Errors, str | None]:
    configs = [inc.AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    request = inc.IncrementalAlterConfigsRequest(
        resources=[inc.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)]
    )
    result = controller.run(controller.configuration.incremental_alter_configs(request, by_broker=by_broker)).responses[0]
    return Errors(result.error_code), result.error_message


@pytest.fixture
def controller() -> ControllerDouble:
    double = ControllerDouble(mirroring=True, mirror_topic_num_partitions=1, mirror_topic_replication_factor=1)
    double.start_brokers(1)
    double.create_topic("t", [[1]])
    return double


def test_set_append_subtract_delete(controller: ControllerDouble) -> None:
    assert alter(controller, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))[0] is Errors.NONE
    assert controller.state.image.configs.topic("t") == {"cleanup.policy": "delete,compact"}, "appended to the default"
    alter(controller, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", SET, "5"))
    assert controller.state.image.configs.topic("t") == {"cleanup.policy": "compact", "retention.ms": "5"}
    alter(controller, TOPIC, "t", ("cleanup.policy", DELETE, None), ("retention.ms", DELETE, None))
    assert controller.state.image.configs.topic("t") == {}


def test_only_what_changes_is_written(controller: ControllerDouble) -> None:
    alter(controller, TOPIC, "t", ("retention.ms", SET, "5"))
    alter(controller, TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", DELETE, None))
    assert controller.records == []


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "text"),
    [
        (TOPIC, "nope", [("retention.ms", SET, "1")], Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (TOPIC, "t", [("retention.ms", SET, None)], Errors.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], Errors.INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "t", [("x", SET, "1")], Errors.INVALID_CONFIG, "Unknown topic config name: x"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], Errors.INVALID_REQUEST, "Error due to duplicate config keys: retention.ms"),
        (TOPIC, "t", [("retention.ms", 9, "1")], Errors.INVALID_REQUEST, "Unknown operation type 9"),
        (BROKER, "abc", [("log.cleaner.threads", SET, "1")], Errors.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."),
        (BROKER, "9", [("log.cleaner.threads", SET, "1")], Errors.BROKER_ID_NOT_REGISTERED, "Broker with id 9 not found."),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "1")], Errors.INVALID_REQUEST, "Default group resources are not allowed."),
        (8, "1", [("x", SET, "1")], Errors.INVALID_REQUEST, "Unexpected resource type BROKER_LOGGER."),
        (99, "1", [("x", SET, "1")], Errors.INVALID_REQUEST, "Unexpected resource type UNKNOWN."),
        (MIRROR, "m", [("mirror.groups.include", SET, "x")], Errors.UNKNOWN_MIRROR, "The mirror 'm' does not exist."),
        (
            TOPIC, "t", [("mirror.name", SET, "X")], Errors.INVALID_REQUEST,
            "Config mirror.name is internal: it is set by the requests of cluster mirroring only.",
        ),
    ],
)  # fmt: skip
def test_changes_that_are_refused(
    controller: ControllerDouble, kind: int, name: str, changes: list[tuple[str, int, str | None]], code: Errors, text: str
) -> None:
    before = controller.state.image.configs
    assert alter(controller, kind, name, *changes) == (code, text)
    assert controller.state.image.configs is before


def test_a_resource_given_twice(controller: ControllerDouble) -> None:
    resource = inc.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    response = controller.run(
        controller.configuration.incremental_alter_configs(inc.IncrementalAlterConfigsRequest(resources=[resource, resource]))
    )
    assert [result.error_code for result in response.responses] == [Errors.INVALID_REQUEST] * 2


def test_the_legacy_form_replaces_everything_but_the_mirror(controller: ControllerDouble) -> None:
    alter(controller, TOPIC, "t", ("retention.ms", SET, "5"), ("mirror.name", SET, "X"), by_broker=True)
    config = legacy.AlterableConfig(name="segment.ms", value="9")
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
    response = controller.run(controller.configuration.alter_configs(legacy.AlterConfigsRequest(resources=[resource])))
    assert response.responses[0].error_code == 0
    assert controller.state.image.configs.topic("t") == {"segment.ms": "9", "mirror.name": "X"}


def test_a_mirrors_configs_are_judged_as_a_whole(controller: ControllerDouble) -> None:
    create = CreateMirrorRequest(mirror_name="m", config=[MirrorConfig(name="bootstrap.servers", value="a:1")])
    assert controller.run(controller.mirrors.create_mirror(create)).error_code == 0
    code, text = alter(controller, MIRROR, "m", ("bootstrap.servers", DELETE, None))
    assert code is Errors.INVALID_CONFIG
    assert "bootstrap.servers" in str(text)
    assert alter(controller, MIRROR, "m", ("bootstrap.servers", APPEND, "b:2"))[0] is Errors.NONE
    assert controller.state.image.configs.mirror("m")["bootstrap.servers"] == "a:1,b:2"
    assert alter(controller, MIRROR, "m", ("source.cluster.id", SET, "x"))[0] is Errors.INVALID_REQUEST
    assert alter(controller, MIRROR, "m", ("source.cluster.id", SET, "dc-east"), by_broker=True)[0] is Errors.NONE
    assert controller.state.image.configs.mirror("m")["source.cluster.id"] == "dc-east"


def test_min_isr_clears_the_elr() -> None:
    controller = ControllerDouble(levels={"eligible.leader.replicas.version": 1})
    controller.start_brokers(1)
    controller.create_topic("t", [[1]])
    alter(controller, TOPIC, "t", ("min.insync.replicas", SET, "2"))
    assert ClearElrRecord(topic_name="t") in controller.records
    alter(controller, BROKER, "", ("min.insync.replicas", SET, "2"))
    assert ClearElrRecord(topic_name="") in controller.records
    code, _ = alter(controller, BROKER, "", ("min.insync.replicas", DELETE, None))
    assert code is Errors.INVALID_CONFIG


def test_producer_ids_come_in_blocks_of_a_thousand(controller: ControllerDouble) -> None:
    epoch = controller.state.image.cluster.brokers[1].epoch
    for first in (0, 1000, 2000):
        response = controller.run(controller.producer_ids.allocate(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)))
        assert (response.producer_id_start, response.producer_id_len) == (first, 1000)
    with pytest.raises(ApiException) as error:
        controller.producer_ids.allocate(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch + 1))
    assert error.value.error is Errors.STALE_BROKER_EPOCH


def update(controller: ControllerDouble, *updates: tuple[str, int, int], version: int = 2) -> tuple[Errors, str | None]:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind) for name, level, kind in updates]
    response = controller.run(controller.features.update_features(UpdateFeaturesRequest(feature_updates=keys), version))
    return Errors(response.error_code), response.error_message


def test_features_up_and_down() -> None:
    controller = ControllerDouble()
    assert update(controller, ("transaction.version", 2, 1), ("group.version", 1, 1)) == (Errors.NONE, None)
    assert controller.state.image.features.level("transaction.version") == 2
    code, text = update(controller, ("transaction.version", 1, 1))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert str(text).endswith(
        "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    )
    assert update(controller, ("transaction.version", 1, 2))[0] is Errors.NONE
    assert update(controller, ("group.version", 0, 2))[0] is Errors.NONE
    assert "group.version" not in controller.state.image.features.finalized_levels


def test_feature_updates_are_all_or_nothing() -> None:
    controller = ControllerDouble()
    code, text = update(controller, ("group.version", 1, 1), ("share.version", 9, 1))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert str(text).startswith("The update failed for all features since the following feature had an error: Invalid update version 9")
    assert controller.state.image.features.level("group.version") == 0


@pytest.mark.parametrize(
    "update_key", [("no.such", 1, 1), ("metadata.version", 29, 2), ("metadata.version", 31, 1), ("kraft.version", 1, 1)]
)
def test_features_that_cannot_be_chosen(update_key: tuple[str, int, int]) -> None:
    assert update(ControllerDouble(), update_key)[0] is Errors.INVALID_UPDATE_VERSION


def test_mirror_version_needs_the_unstable_switch_and_the_metadata_version() -> None:
    off = ControllerDouble()
    assert update(off, ("mirror.version", 1, 1))[0] is Errors.INVALID_UPDATE_VERSION
    old = ControllerDouble(mirroring=True, levels={"metadata.version": 29})
    update(old, ("mirror.version", 0, 2))
    code, text = update(old, ("mirror.version", 1, 1))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert "mirror.version=1 depends on metadata.version level 30" in str(text)


def test_mirroring_cannot_be_turned_off_while_mirrors_exist(controller: ControllerDouble) -> None:
    create = CreateMirrorRequest(mirror_name="m", config=[MirrorConfig(name="bootstrap.servers", value="a:1")])
    controller.run(controller.mirrors.create_mirror(create))
    code, text = update(controller, ("mirror.version", 0, 2))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert "mirrors exist (m)" in str(text)
    assert ConfigResource(MIRROR, "m") in controller.state.image.configs.resources
