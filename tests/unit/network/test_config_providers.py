"""References in configs: what each provider gives, what it refuses, and that no text of an error
holds a value.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kmirror.common.errors import ConfigError
from kmirror.network.config_providers import ConfigProviders, has_references, provider_props, resolve_own
from kmirror.runtime.os_files import OsFileSystem
from kmirror.server.kafka_config import KafkaConfig

PACKAGE = "org.apache.kafka.common.config.provider."
CLASSES = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}


def providers(environment: dict[str, str] | None = None, **params: str) -> ConfigProviders:
    """All three; `file_allowed_paths="..."` sets a parameter of one."""
    props = {"config.providers": "file, dir,env"} | {f"config.providers.{name}.class": PACKAGE + kind for name, kind in CLASSES.items()}
    for key, value in params.items():
        name, _, parameter = key.partition("_")
        props[f"config.providers.{name}.param.{parameter.replace('_', '.')}"] = value
    return ConfigProviders.from_props(props, OsFileSystem(), environment or {})


def secrets(folder: Path) -> Path:
    path = folder / "east.properties"
    path.write_text("password=hush\nuser=bob\n")
    return path


def test_values_come_from_files_folders_and_the_environment(tmp_path: Path) -> None:
    path = secrets(tmp_path)
    (tmp_path / "token").write_text("opaque:1\n")
    jaas = f'L required username="${{file:{path}:user}}" password="${{file:{path}:password}}";'
    props = {"a": jaas, "b": f"${{dir:{tmp_path}:token}}", "c": "x-${env:EAST}-y", "d": "plain ${", "e": "${}"}
    assert providers({"EAST": "${env:EAST}"}).resolve(props) == {
        "a": 'L required username="bob" password="hush";', "b": "opaque:1\n", "c": "x-${env:EAST}-y", "d": "plain ${", "e": "${}",
    }  # fmt: skip
    assert has_references({"a": jaas}) and not has_references({"d": "plain ${", "e": "${}", "f": "${KEY}"})


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path, resolver = secrets(tmp_path), providers()
    value = {"a": f"${{file:{path}:password}}"}
    assert resolver.resolve(value) == {"a": "hush"}
    path.write_text("password=new")
    assert resolver.resolve(value) == {"a": "new"}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${vault:/s:password}", "there is no config provider vault (config.providers)"),
        ("${file:FOLDER/east.properties:key}", "FOLDER/east.properties has no key key"),
        ("${file:FOLDER/west.properties:key}", "cannot read FOLDER/west.properties: No such file or directory"),
        ("${file:FOLDER/bad.properties:key}", "FOLDER/bad.properties is not a valid properties file: it is malformed at byte 0"),
        ("${file:FOLDER/../other:key}", "OUTSIDE/other is not allowed by allowed.paths"),
        ("${file:relative:key}", "relative is not an absolute path"),
        ("${dir:FOLDER:../other}", "'../other' is not the name of a file in FOLDER"),
        ("${dir:FOLDER:binary}", "FOLDER/binary is not UTF-8"),
        ("${env:EAST}", "there is no environment variable EAST"),
        ("${env:WEST}", "WEST does not match allowlist.pattern"),
        ("${env:path:EAST}", "Path is not supported for EnvVarConfigProvider"),
    ],
)
def test_an_error_names_the_config_and_the_reference_and_no_value(reference: str, reason: str, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    secrets(folder)
    (folder / "bad.properties").write_text("hush=\\uhush\n")
    (folder / "binary").write_bytes(b"hush\xff")
    (tmp_path / "other").write_text("key=hush")
    resolver = providers(
        {"WEST": "hush"}, file_allowed_paths=str(folder), dir_allowed_paths=f"/x,{folder}/", env_allowlist_pattern="EAST.*"
    )
    reference, reason = (text.replace("FOLDER", str(folder)).replace("OUTSIDE", str(tmp_path)) for text in (reference, reason))
    with pytest.raises(ConfigError) as raised:
        resolver.resolve({"sasl.jaas.config": f'password="{reference}" and hush;'})
    assert str(raised.value) == f"sasl.jaas.config: {reference} cannot be resolved: {reason}"


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({"config.providers": "file"}, "config.providers.file.class is not set"),
        ({"config.providers": "x", "config.providers.x.class": "org.example.Vault"}, "Invalid value org.example.Vault for configuration"),
        ({"config.providers": "env", "config.providers.env.class": PACKAGE + "EnvVarConfigProvider",
          "config.providers.env.param.allowlist.pattern": "("}, "Invalid allowlist.pattern ("),
        ({"config.providers": "file", "config.providers.file.class": PACKAGE + "FileConfigProvider",
          "config.providers.file.param.allowed.paths": "etc"}, "Path etc is not absolute"),
    ],
)  # fmt: skip
def test_a_provider_that_is_defined_wrongly_is_refused(props: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ConfigProviders.from_props(props, OsFileSystem(), os.environ)
    assert text in str(raised.value)


def test_a_broker_without_providers_reads_nothing_and_a_tool_has_the_usual_ones(tmp_path: Path) -> None:
    value = {"a": f"${{file:{secrets(tmp_path)}:password}}"}
    with pytest.raises(ConfigError, match="there is no config provider file"):
        ConfigProviders.from_props({}, OsFileSystem(), {}).resolve(value)
    assert ConfigProviders.of_a_tool(value, OsFileSystem(), {}).resolve(value) == {"a": "hush"}
    assert resolve_own(value, OsFileSystem(), {}) == value
    own = value | {"config.providers": "file", "config.providers.file.class": PACKAGE + "FileConfigProvider"}
    assert resolve_own(own, OsFileSystem(), {})["a"] == "hush"
    assert provider_props(own) == {name: text for name, text in own.items() if name != "a"}


def test_texts_have_references_for_the_values_that_they_were_replaced_by() -> None:
    values = {"PATH": "/a/b", "LIST": "hush-1, hush-2", "SHORT": "ab", "QUOTED": "it's\n\thush", "EMPTY": "", "LONGER": "/a/b/c"}
    resolved = providers(values).resolve({name: f"${{env:{name}}}" for name in values})
    for text, told in (
        ("cannot read /a/b.", "cannot read ${env:PATH}."),
        ("cannot read /a/b/c", "cannot read ${env:LONGER}"),
        ("hush-1,hush-2: no", "${env:LIST},${env:LIST}: no"),
        ("table of ab", "table of ${env:SHORT}"),
        (f"of {values['QUOTED']!r}", 'of "${env:QUOTED}"'),
        ("nothing of theirs", "nothing of theirs"),
    ):
        assert resolved.as_written(text) == told


def test_an_error_of_a_nodes_config_has_no_value_of_a_reference(tmp_path: Path) -> None:
    own = {"process.roles": "broker", "node.id": "1", "controller.listener.names": "CONTROLLER"}
    own |= {"controller.quorum.voters": "2@localhost:9093", "listeners": "PLAINTEXT://localhost:9092"}
    own |= {"config.providers": "env", "config.providers.env.class": PACKAGE + "EnvVarConfigProvider"}
    for name, text in (("num.io.threads", "Invalid value ${env:EAST} for configuration num.io.threads"), ("listeners", "${env:EAST}")):
        with pytest.raises(ConfigError) as raised:
            KafkaConfig.from_props(resolve_own(own | {name: "${env:EAST}"}, OsFileSystem(), {"EAST": "hush"}))
        assert text in str(raised.value) and "hush" not in str(raised.value) and raised.value.__cause__ is None
