"""Changing configs and feature levels, and handing out producer ids."""

from __future__ import annotations

import pytest
from support.brokers.metadata_doubles import ControllerDouble

from kmirror.common.errors import ApiException, Errors
from kmirror.controller.controller_result import ControllerResult
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


def test_a_list_of_a_broker_is_appended_to_its_default(controller: ControllerDouble) -> None:
    assert alter(controller, BROKER, "1", ("log.cleanup.policy", APPEND, "compact"))[0] is Errors.NONE
    assert controller.state.image.configs.broker(1)["log.cleanup.policy"] == "delete,compact"
    assert alter(controller, BROKER, "1", ("log.cleanup.policy", SUBTRACT, "compact"))[0] is Errors.NONE
    assert controller.state.image.configs.broker(1)["log.cleanup.policy"] == "delete"


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "text"),
    [
        (TOPIC, "nope", [("retention.ms", SET, "1")], Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nope' does not exist."),
        (TOPIC, "t", [("retention.ms", SET, None)], Errors.INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], Errors.INVALID_CONFIG, "Can't APPEND to key retention.ms because its type is not LIST."),
        (TOPIC, "t", [("x", SET, "1")], Errors.INVALID_CONFIG, "Unknown topic config name: x"),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], Errors.INVALID_REQUEST, "Error due to duplicate config keys: retention.ms"),
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


def test_an_unknown_operation_fails_the_whole_request(controller: ControllerDouble) -> None:
    """Kafka's controller answers UNKNOWN_SERVER_ERROR for every resource."""
    with pytest.raises(ApiException, match="Unknown operation type 9") as refused:
        alter(controller, TOPIC, "t", ("retention.ms", 9, "1"))
    assert refused.value.error is Errors.UNKNOWN_SERVER_ERROR


def test_a_resource_given_twice(controller: ControllerDouble) -> None:
    resource = inc.AlterConfigsResource(resource_type=TOPIC, resource_name="t")
    response = controller.run(
        controller.configuration.incremental_alter_configs(inc.IncrementalAlterConfigsRequest(resources=[resource, resource]))
    )
    assert [result.error_code for result in response.responses] == [Errors.INVALID_REQUEST] * 2


def named(controller: ControllerDouble, value: str | None) -> None:
    """What an operator's request leaves as `mirror.name`."""
    controller.run(ControllerResult(controller.configuration.set_records(ConfigResource(TOPIC, "t"), {"mirror.name": value}), None))


def test_the_legacy_form_replaces_everything_but_the_mirror(controller: ControllerDouble) -> None:
    named(controller, "X")
    alter(controller, TOPIC, "t", ("retention.ms", SET, "5"))
    config = legacy.AlterableConfig(name="segment.ms", value="9")
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[config])
    response = controller.run(controller.configuration.alter_configs(legacy.AlterConfigsRequest(resources=[resource])))
    assert response.responses[0].error_code == 0
    assert controller.state.image.configs.topic("t") == {"segment.ms": "9", "mirror.name": "X"}


@pytest.mark.parametrize("name", [None, "X.removed", "X.paused.removed", "Y", "Y.paused", "Y.removed"])
def test_a_brokers_pause_that_comes_after_an_operators_request_undoes_none(controller: ControllerDouble, name: str | None) -> None:
    """The leader saw the name `X` and that the source's topic is gone, but by now the topic is
    removed, or in another mirror (D3-22).
    """
    named(controller, name)
    code, text = alter(controller, TOPIC, "t", ("mirror.name", SET, "X.paused"), by_broker=True)
    assert code is Errors.INVALID_REQUEST and str(text).startswith(f"mirror.name is {name or 'not set'} now")
    assert controller.state.image.configs.topic("t").get("mirror.name") == name


@pytest.mark.parametrize("name", ["X", "X.paused"])
def test_brokers_pause_a_topic_once_or_more_often(controller: ControllerDouble, name: str) -> None:
    named(controller, name)
    assert alter(controller, TOPIC, "t", ("mirror.name", SET, "X.paused"), by_broker=True)[0] is Errors.NONE
    assert controller.state.image.configs.topic("t")["mirror.name"] == "X.paused"


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


UPGRADE_NEEDED = "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."


@pytest.mark.parametrize(
    ("update_key", "text"),
    [
        (("no.such", 1, 1), "Invalid update version 1 for feature no.such. Local controller 0 does not support this feature."),
        (("no.such", 0, 1), "Invalid update version 0 for feature no.such. Feature no.such not found."),
        (("metadata.version", 31, 1), "Invalid update version 31 for feature metadata.version. Local controller 0 only supports versions 7-30"),
        (("metadata.version", 29, 1), f"Invalid update version 29 for feature metadata.version. {UPGRADE_NEEDED}"),
        (("metadata.version", 29, 2), "Unsupported metadata.version downgrade from 30 to 29. Refusing to perform the requested downgrade because "
         "it might delete metadata information."),
        (("metadata.version", 7, 3), "Unsupported metadata.version downgrade from 30 to 7. Unsafe metadata downgrade is not supported in this version."),
        (("kraft.version", 2, 1), "Invalid update version 2 for feature kraft.version. Local controller 0 only supports versions 0-1"),
        (("group.version", 1, 2), "Invalid update version 1 for feature group.version. Can't downgrade to a newer version."),
        (("group.version", -1, 1), "Invalid update version -1 for feature group.version. A feature version cannot be less than 0."),
        (("group.version", 1, 0), "Invalid update version 1 for feature group.version. The controller does not support the given upgrade type."),
    ],
)  # fmt: skip
def test_features_that_cannot_be_chosen(update_key: tuple[str, int, int], text: str) -> None:
    prefix = "The update failed for all features since the following feature had an error: "
    assert update(ControllerDouble(), update_key) == (Errors.INVALID_UPDATE_VERSION, prefix + text)


def test_the_metadata_version_goes_down_where_nothing_is_lost() -> None:
    controller = ControllerDouble(levels={"metadata.version": 29})
    assert update(controller, ("metadata.version", 24, 2)) == (Errors.NONE, None)
    assert controller.state.image.features.metadata_version == 24
    code, text = update(controller, ("metadata.version", 22, 2))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert "Unsupported metadata.version downgrade from 24 to 22." in str(text), "4.0-IV1 brought the eligible leader replicas"
    assert update(controller, ("metadata.version", 30, 1)) == (Errors.NONE, None)


def test_a_dry_run_changes_nothing() -> None:
    controller = ControllerDouble()
    key = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=1)
    result = controller.features.update_features(UpdateFeaturesRequest(feature_updates=[key], validate_only=True), 2)
    assert (result.records, result.kraft_version) == ([], None)
    assert result.response is not None
    assert result.response.error_code == 0


def test_the_kraft_version_only_rises() -> None:
    controller = ControllerDouble()
    keys = [FeatureUpdateKey(feature="kraft.version", max_version_level=level, upgrade_type=kind) for level, kind in ((1, 1), (0, 2))]
    result = controller.features.update_features(UpdateFeaturesRequest(feature_updates=keys[:1]), 2)
    assert (result.kraft_version, [type(record.message).__name__ for record in result.records]) == (1, ["NoOpRecord"])
    controller.state.kraft_version = 1
    assert controller.features.finalized()["kraft.version"] == 1
    code, text = update(controller, ("kraft.version", 0, 2))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert str(text).endswith("Invalid update version 0 for feature kraft.version. Can't downgrade the version of this feature.")


def test_switching_elr_on_pins_min_isr_for_the_cluster() -> None:
    controller = ControllerDouble(static_topic_configs={"min.insync.replicas": "2"})
    controller.start_brokers(1, 2)
    alter(controller, BROKER, "1", ("min.insync.replicas", SET, "3"))
    assert update(controller, ("eligible.leader.replicas.version", 1, 1)) == (Errors.NONE, None)
    configs = controller.state.image.configs
    assert configs.cluster_default() == {"min.insync.replicas": "2"}
    assert configs.broker(1) == {}
    code, text = alter(controller, BROKER, "1", ("min.insync.replicas", SET, "3"))
    assert (code, text) == (Errors.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")


def test_mirror_version_needs_the_unstable_switch_and_the_metadata_version() -> None:
    off = ControllerDouble()
    assert update(off, ("mirror.version", 1, 1))[0] is Errors.INVALID_UPDATE_VERSION
    old = ControllerDouble(mirroring=True, levels={"metadata.version": 29})
    update(old, ("mirror.version", 0, 2))
    code, text = update(old, ("mirror.version", 1, 1))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert str(text).endswith("mirror.version could not be set to 1 because it depends on metadata.version level 30")


def test_mirroring_cannot_be_turned_off_while_mirrors_exist(controller: ControllerDouble) -> None:
    create = CreateMirrorRequest(mirror_name="m", config=[MirrorConfig(name="bootstrap.servers", value="a:1")])
    controller.run(controller.mirrors.create_mirror(create))
    code, text = update(controller, ("mirror.version", 0, 2))
    assert code is Errors.INVALID_UPDATE_VERSION
    assert "mirrors exist (m)" in str(text)
    assert ConfigResource(MIRROR, "m") in controller.state.image.configs.resources
