"""What is wrong with a connector's config, property by property (RE1). Apache's worker judges the
definitions in tests/interop/mirrormaker/test_connect_rest.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from kmirror.cli.properties import worker_references
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.connector_validation import ConfigInfos, class_named, require_valid, validate
from kmirror.mirrormaker.herder.herder import HerderError
from kmirror.network.config_providers import ConfigProviders
from kmirror.runtime.os_files import OsFileSystem

GOOD = {"connector.class": "MirrorSourceConnector", "name": "c", "source.cluster.alias": "A"}
JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"


def checked(config: Mapping[str, str | None], **converters: str) -> ConfigInfos:
    return validate(config, dict, lambda _: None, {name.replace("_", "."): value for name, value in converters.items()})


def errors(config: Mapping[str, str | None], **converters: str) -> dict[str, list[str]]:
    return {info.name: info.errors for info in checked(config, **converters).configs if info.errors}


def test_re1_a_good_config_has_no_errors() -> None:
    infos = checked(GOOD)
    require_valid(infos)
    assert (infos.errors, infos.to_json()["error_count"]) == ([], 0)


def test_re1_every_error_is_told_at_once() -> None:
    infos = checked({"connector.class": "MirrorSource", "tasks.max": "x", "errors.tolerance": "x", "y": None})
    with pytest.raises(HerderError) as refusal:
        require_valid(infos)
    assert refusal.value.status == 400
    assert str(refusal.value).splitlines() == [
        "Connector configuration is invalid and contains the following 6 error(s):",
        "Null value can not be supplied as the configuration value.",
        'Missing required configuration "name" which has no default value.',
        "Invalid value x for configuration tasks.max: Not a number of type INT",
        "Invalid value null for configuration tasks.max: Value must be non-null",
        "Invalid value x for configuration errors.tolerance: String must be one of: none, all",
        'Missing required configuration "source.cluster.alias" which has no default value.',
        "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`",
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key.converter", JSON_CONVERTER),
        ("topic.filter.class", "com.example.Filter"),
        ("replication.policy.class", "com.example.Policy"),
        ("forwarding.admin.class", "com.example.Admin"),
        ("offsets.storage.topic", "o"),
        ("name", "a\x00b"),
        ("offset-syncs.topic.location", "here"),
    ],
)
def test_re1_what_is_not_built_is_an_error_of_its_property(name: str, value: str) -> None:
    assert list(errors(GOOD | {name: value})) == [name]


def test_re1_simple_names_and_packages_of_known_classes_are_taken() -> None:
    for policy in ("IdentityReplicationPolicy", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"):
        assert errors(GOOD | {"replication.policy.class": policy}) == {}
    assert [class_named(name) for name in ("MirrorHeartbeat", "org.apache.kafka.connect.mirror.MirrorSourceConnector", "Mirror")] == [
        "MirrorHeartbeatConnector",
        "MirrorSourceConnector",
        None,
    ]


def test_re1_the_workers_converters_are_those_of_connectors_without_their_own() -> None:
    assert list(errors(GOOD, key_converter=JSON_CONVERTER)) == ["key.converter"]
    assert errors(GOOD | {"key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"}, key_converter=JSON_CONVERTER) == {}


def test_re1_secrets_and_what_references_stand_for_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a=hidden-one\n")
    reference = f"${{file:{tmp_path}/f:a}}"
    providers = ConfigProviders.from_props(
        {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"},
        OsFileSystem(),
        {},
    )
    given = GOOD | {"ssl.key.password": "hidden-two", "topics": reference, "tasks.max": reference}
    shown = validate(given, providers.resolve, lambda _: None).to_json()
    assert "hidden-" not in str(shown)
    values = {config["value"]["name"]: config["value"]["value"] for config in shown["configs"]}
    assert (values["topics"], values["ssl.key.password"]) == (reference, "[hidden]")


def test_re1_without_config_providers_no_reference_is_replaced(tmp_path: Path) -> None:
    """Whoever may use the REST interface could read any file."""
    (tmp_path / "f").write_text("a=hidden\n")
    given = {"topics": f"${{file:{tmp_path}/f:a}}"}
    assert worker_references({})(given) == given
    file = {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"}
    assert worker_references(file)(given) == {"topics": "hidden"}


def test_re1_what_only_the_plan_finds_is_an_error_too() -> None:
    def plan(_: Mapping[str, str]) -> None:
        raise ConfigError("the filter is no pattern")

    assert validate(GOOD, dict, plan).errors == ["the filter is no pattern"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"name": "c"}, "Connector config {name=c} contains no connector type"),
        (
            {"connector.class": "FileStreamSource"},
            "Failed to find any class that implements Connector and which name matches FileStreamSource",
        ),
    ],
)
def test_re1_a_config_without_a_class_that_there_is_has_no_validation(config: dict[str, str], message: str) -> None:
    with pytest.raises(HerderError) as refusal:
        checked(config)
    assert message in str(refusal.value) and refusal.value.status == 400
