"""`kafka-mirrors --from-mm2`: configurations of MirrorMaker 2 as they are found in its documents,
rewritten here, and what becomes of each property.
"""

from __future__ import annotations

import json
import re
import stat
import subprocess
from pathlib import Path

import pytest

from kmirror.cli.mirrors import main
from kmirror.cli.mirrors_from_mm2 import commands
from kmirror.cli.mm2_converter import convert
from kmirror.cli.properties import read_properties
from kmirror.common.errors import ConfigError
from kmirror.metadata.resource_configs import validate_mirror_configs

KIP_DRIVER_FILE = {
    "clusters": "us-west, us-east",
    "us-west.bootstrap.servers": "host1:9092",
    "us-east.bootstrap.servers": "host2:9092",
    "topics": ".*",
    "groups": ".*",
    "emit.checkpoints.interval.seconds": "10",
    "us-west.offset.storage.topic": "mm2-offsets",
    "us-west->us-east.emit.heartbeats.enabled": "false",
}
"""The shape of KIP-382's walk-through: no flow says `enabled`, one has settings of its own."""

OLD_NAMES = {
    "clusters": "primary, backup",
    "cluster.primary.bootstrap.servers": "localhost:9091",
    "cluster.backup.broker.list": "localhost:9092",
    "primary->backup.enabled": "true",
    "primary->backup.topics.whitelist": "a.*",
    "primary->backup.topics.blacklist": "ab.*",
    "primary->backup.groups.blacklist": "g1",
    "primary->backup.sync.topic.acls": "false",
    "sync.topic.configs": "false",
    "sync.group.offsets.enabled": "true",
    "replication.policy.class": "org.apache.kafka.mirror.LegacyReplicationPolicy",
}

TO_A_CLOUD = {
    "clusters": "source, target",
    "source.bootstrap.servers": "broker-1:9092,broker-2:9092",
    "target.bootstrap.servers": "cloud:9093",
    "target.security.protocol": "SASL_SSL",
    "target.ssl.protocol": "TLSv1.2",
    "target.ssl.endpoint.identification.algorithm": "https",
    "target.sasl.mechanism": "PLAIN",
    "target.sasl.jaas.config": 'org.example.PlainLoginModule required username="token" password="${KEY}";',
    "source->target.enabled": "true",
    "source->target.topics": "products",
    "tasks.max": "10",
}

CONNECTOR_FILE = {
    "name": "local-mirror-source",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "tasks.max": "1",
    "topics": "t.*",
    "source.cluster.alias": "upstream",
    "source.cluster.bootstrap.servers": "host1:9092",
    "source.consumer.security.protocol": "SSL",
    "target.cluster.bootstrap.servers": "host2:9092",
    "target.producer.linger.ms": "5",
    "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
}


def test_the_kips_walk_through_is_one_flow() -> None:
    (flow,) = convert(KIP_DRIVER_FILE)
    assert (flow.source, flow.target, flow.mirror_name) == ("us-west", "us-east", "us-west-to-us-east")
    assert (flow.source_bootstrap, flow.target_bootstrap) == ("host1:9092", "host2:9092")
    assert flow.not_converted["us-west.offset.storage.topic"] == "there is no Connect worker"
    assert "no heartbeats" in flow.not_converted["emit.heartbeats.enabled"]


def test_old_names_mean_what_the_new_ones_mean() -> None:
    (flow,) = convert(OLD_NAMES)
    assert (flow.source_bootstrap, flow.target_bootstrap) == ("localhost:9091", "localhost:9092")
    pattern = re.compile(flow.topic_pattern)
    assert [name for name in ("a", "abc", "axe", "b") if pattern.fullmatch(name)] == ["a", "axe"]
    groups = re.compile(flow.mirror_configs["mirror.groups.include"])
    assert [name for name in ("g", "g1", "g12") if groups.fullmatch(name)] == ["g", "g12"]
    assert flow.mirror_configs["mirror.topic.properties.exclude"] == ".*"
    assert any("mirrored topics have the target's defaults" in note for note in flow.notes)
    assert flow.mirror_configs["mirror.acl.include"] == "TOPIC;(?!)", "no access rule is copied"
    assert "replication.policy.class" not in flow.not_converted, "names are kept by both"


def test_a_secured_target_is_reached_with_a_command_config_and_expressions_are_pointed_at() -> None:
    (flow,) = convert(TO_A_CLOUD)
    assert flow.command_configs["sasl.mechanism"] == "PLAIN" and "security.protocol" not in flow.mirror_configs
    create, dry_run, added, describe = commands(flow)
    assert create.startswith(
        "kafka-mirrors --bootstrap-server cloud:9093 --command-config source-to-target.command.properties --mirror source-to-target --create"
    )
    assert dry_run.endswith("--dry-run") and describe.endswith("--describe")
    assert "--replication-factor" not in added
    assert "tasks.max" in flow.not_converted


def test_a_connectors_own_file_is_a_flow() -> None:
    (flow,) = convert(CONNECTOR_FILE)
    assert (flow.source, flow.target) == ("upstream", "target")
    assert flow.mirror_configs["security.protocol"] == "SSL" and flow.command_configs == {}
    assert flow.not_converted["key.converter"] == "records are never decoded"
    assert flow.not_converted["target.producer.linger.ms"].startswith("the target's brokers write")


@pytest.mark.parametrize("settings", [KIP_DRIVER_FILE, OLD_NAMES, TO_A_CLOUD, CONNECTOR_FILE], ids=["kip", "old", "cloud", "connector"])
def test_the_mirrors_config_is_one_that_brokers_take(settings: dict[str, str]) -> None:
    for flow in convert(settings):
        validate_mirror_configs(flow.mirror_configs)


def test_what_a_flow_says_beats_the_top_level() -> None:
    settings = OLD_NAMES | {"topics": "other", "replication.factor": "2", "primary->backup.replication.factor": "3"}
    (flow,) = convert(settings)
    assert "other" not in flow.topic_pattern and flow.replication_factor == 3


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("source->target.ssl.protocol", "TLSv1.2"),
        ("source->target.target.cluster.ssl.protocol", "TLSv1.2"),
        ("source->target.target.admin.ssl.protocol", "TLSv1.3"),
    ],
)
def test_a_clusters_security_beats_a_flows_as_in_apache_kafka_dg7(setting: str, expected: str) -> None:
    (flow,) = convert(TO_A_CLOUD | {setting: "TLSv1.3"})
    assert flow.command_configs["ssl.protocol"] == expected
    assert not any("ssl.protocol" in name for name in flow.not_converted)


def test_default_excludes_keep_internal_topics_out() -> None:
    pattern = re.compile(convert(TO_A_CLOUD | {"source->target.topics": ".*"})[0].topic_pattern)
    names = ("orders", "__consumer_offsets", "mm2-offsets.a.internal", "x.replica")
    assert [name for name in names if pattern.fullmatch(name)] == ["orders"]


def test_flags_of_an_entry_were_refused() -> None:
    """Java takes them anywhere: they hold for the entries behind, not for those before, and a list
    without the other.
    """
    change = {
        "source->target.topics": "logs,(?i)orders.*, pay",
        "source->target.topics.exclude": "(?i)orders-tmp",
        "sync.group.offsets.enabled": "true",
    }
    (flow,) = convert(TO_A_CLOUD | change | {"groups": "(?i)App-.*"})
    pattern, groups = re.compile(flow.topic_pattern), re.compile(flow.mirror_configs["mirror.groups.include"])
    names = ("logs", "LOGS", "ORDERS-1", "Pay", "orders-TMP")
    assert [name for name in names if pattern.fullmatch(name)] == ["logs", "ORDERS-1", "Pay"]
    assert groups.fullmatch("aPP-x") and not groups.fullmatch("b")
    validate_mirror_configs(flow.mirror_configs)


def test_blank_topics_mirrored_everything() -> None:
    """A blank list matches nothing (MirrorUtils.compilePatternList)."""
    (flow,) = convert(TO_A_CLOUD | {"source->target.topics": "", "source->target.topics.exclude": ""})
    assert re.fullmatch(flow.topic_pattern, "orders") is None


def test_an_alias_with_dots_was_no_cluster() -> None:
    settings = {
        "clusters": "dc.1, dc.2, dc.1",
        "dc.1.bootstrap.servers": "a:9092",
        "cluster.dc.2.bootstrap.servers": "b:9092",
        "dc.1.offset.storage.topic": "x",
        "dc.1->dc.2.enabled": "true",
        "dc.1->dc.2.topics.whitelist": "orders",
    }
    (flow,) = convert(settings)
    assert (flow.mirror_name, flow.source_bootstrap, flow.target_bootstrap) == ("dc.1-to-dc.2", "a:9092", "b:9092")
    assert re.fullmatch(flow.topic_pattern, "orders") and not re.fullmatch(flow.topic_pattern, "pay")
    assert flow.not_converted["dc.1.offset.storage.topic"] == "there is no Connect worker"


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"target.bootstrap.servers": "${file:/s:servers}"}, "put the value of target.bootstrap.servers into the commands"),
        ({"source.bootstrap.servers": "${file:/s:servers}"}, "put the value of bootstrap.servers into the mirror's config file"),
        ({"source->target.topics": "${env:TOPICS}"}, "put the value of topics or topics.exclude into the commands"),
        ({"target.sasl.jaas.config": "${KEY}"}, "put the value of sasl.jaas.config into source-to-target.command.properties"),
        ({"source.sasl.jaas.config": "${KEY}"}, "put the value of sasl.jaas.config into the mirror's config file"),
    ],
)
def test_expressions_were_pointed_at_in_the_sources_security_only(change: dict[str, str], note: str) -> None:
    plain = {name: value for name, value in TO_A_CLOUD.items() if name != "target.sasl.jaas.config"}
    assert not any("expression" in text for text in convert(plain)[0].notes)
    assert f"{note}: it holds an expression" in convert(plain | change)[0].notes


def test_references_to_config_providers_are_kept_for_the_brokers_of_the_target() -> None:
    (flow,) = convert(
        TO_A_CLOUD
        | {"source.sasl.jaas.config": "${file:/s:jaas}", "target.sasl.jaas.config": "${file:/s:jaas}"}
        | {"config.providers": "file", "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider"}
    )
    assert flow.mirror_configs["sasl.jaas.config"] == flow.command_configs["sasl.jaas.config"] == "${file:/s:jaas}"
    notes = [note for note in flow.notes if "reference to a config provider" in note]
    assert "the brokers of target resolve it, by config.providers in their properties" in notes[0] and "the commands resolve it" in notes[1]
    assert "put these lines into their properties" in flow.not_converted["config.providers.file.class"]
    assert not any("put the value of" in note for note in flow.notes)


@pytest.mark.parametrize(("text", "factor", "listed"), [("3", 3, False), ("-1", None, False), ("0", None, True), ("three", None, True)])
def test_a_replication_factor_that_is_none_was_dropped_in_silence(text: str, factor: int | None, *, listed: bool) -> None:
    (flow,) = convert(TO_A_CLOUD | {"replication.factor": text})
    assert flow.replication_factor == factor and ("replication.factor" in flow.not_converted) == listed


def test_groups_are_copied_only_where_mm2_would_write_their_offsets() -> None:
    assert convert(TO_A_CLOUD)[0].mirror_configs["mirror.groups.include"] == "(?!)"
    on = TO_A_CLOUD | {"sync.group.offsets.enabled": "true", "groups": "app-.*"}
    assert "app-.*" in convert(on)[0].mirror_configs["mirror.groups.include"]
    off = on | {"emit.checkpoints.enabled": "false"}
    assert convert(off)[0].mirror_configs["mirror.groups.include"] == "(?!)"


def test_both_directions_are_two_mirrors_that_must_not_overlap() -> None:
    first, second = convert(TO_A_CLOUD | {"target->source.enabled": "true"})
    assert {first.mirror_name, second.mirror_name} == {"source-to-target", "target-to-source"}
    assert all(any("in one direction only" in note for note in flow.notes) for flow in (first, second))
    assert second.not_converted["target.sasl.jaas.config"].endswith("resolve this expression first")


PROPERTIES_OF_MM2 = [
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "offset-syncs.topic.location",
    "offset-syncs.topic.replication.factor",
    "emit.offset-syncs.enabled",
    "offset.lag.max",
    "emit.heartbeats.enabled",
    "emit.heartbeats.interval.seconds",
    "heartbeats.topic.replication.factor",
    "heartbeats.replication.enabled",
    "emit.checkpoints.enabled",
    "emit.checkpoints.interval.seconds",
    "checkpoints.topic.replication.factor",
    "refresh.topics.enabled",
    "refresh.topics.interval.seconds",
    "refresh.groups.enabled",
    "refresh.groups.interval.seconds",
    "sync.topic.configs.interval.seconds",
    "sync.topic.acls.interval.seconds",
    "sync.group.offsets.interval.seconds",
    "use.defaults.from",
    "topic.filter.class",
    "group.filter.class",
    "config.property.filter.class",
    "consumer.poll.timeout.ms",
    "admin.timeout.ms",
    "forwarding.admin.class",
    "tasks.max",
    "transforms",
    "transforms.x.type",
    "predicates",
    "key.converter",
    "value.converter",
    "header.converter",
    "exactly.once.support",
    "config.providers",
    "metric.reporters",
    "readahead.queue.capacity",
    "heartbeats.topic.retention.ms",
    "checkpoints.topic.retention.ms",
    "offset.syncs.topic.retention.ms",
    "dedicated.mode.enable.internal.rest",
    "errors.tolerance",
    "nonsense.of.ours",
]


@pytest.mark.parametrize("name", [name for name in PROPERTIES_OF_MM2 if name not in ("emit.checkpoints.enabled",)])
def test_every_property_without_counterpart_is_listed_with_a_reason(name: str) -> None:
    (flow,) = convert(TO_A_CLOUD | {name: "x"})
    assert len(flow.not_converted[name]) > 15, name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusters": ""}, "not a configuration of MirrorMaker 2"),
        ({"source->target.enabled": "false"}, "no flow is enabled: one needs source->target.enabled = true"),
        ({"target.bootstrap.servers": ""}, "flow source->target needs target.bootstrap.servers"),
        ({"source->elsewhere.enabled": "true"}, "flow source->elsewhere is between clusters that 'clusters' does not name"),
        ({"clusters": "a b, target", "a b.bootstrap.servers": "h:1", "a b->target.enabled": "true", "source->target.enabled": "false",
          "source->target.topics": "x"}, "'clusters' does not name"),
        ({"source->target.topics": "orders,pay("}, "topics = orders,pay( without topics.exclude"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_be_converted_says_why(change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        convert(TO_A_CLOUD | change)


def write(path: Path, settings: dict[str, str]) -> Path:
    path.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    return path


def test_the_tool_prints_no_password_and_writes_files_that_only_their_owner_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = OLD_NAMES | {"primary.sasl.jaas.config": 'X required password="s3cret";', "primary.security.protocol": "SASL_PLAINTEXT"}
    path = write(tmp_path / "mm2.properties", settings)
    assert main(["--from-mm2", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "s3cret" not in printed and "(hidden; --output writes it)" in printed
    assert main(["--from-mm2", str(path), "--json"]) == 0
    (flow,) = json.loads(capsys.readouterr().out)
    assert flow["mirror"] == "primary-to-backup" and "s3cret" not in json.dumps(flow)
    output = tmp_path / "out"
    assert main(["--from-mm2", str(path), "--output", str(output)]) == 0
    config = output / "primary-to-backup.properties"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    written = read_properties(config)
    assert written["sasl.jaas.config"] == 'X required password="s3cret";'
    assert written["mirror.groups.include"] == convert(settings)[0].mirror_configs["mirror.groups.include"]
    assert subprocess.run(["sh", "-n", str(output / "commands.sh")], check=False).returncode == 0
    assert "s3cret" not in (output / "notes.txt").read_text() + (output / "commands.sh").read_text()


def test_what_lay_in_the_folder_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Files of others were named as written, and one that others could read kept its mode.

    Passphrases were shown.
    """
    settings = TO_A_CLOUD | {"target.sasl.oauthbearer.assertion.private.key.passphrase": "hush"}
    (tmp_path / "mm2.properties").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    for name in ("others", "source-to-target.properties"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o644)
    assert main(["--from-mm2", str(tmp_path / "mm2.properties"), "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert (
        "hush" not in shown + (tmp_path / "notes.txt").read_text()
        and "hush" in (tmp_path / "source-to-target.command.properties").read_text()
    )
    names = "commands.sh, notes.txt, source-to-target.command.properties, source-to-target.properties"
    assert shown.endswith(f"Written to {tmp_path}: {names}\n")
    assert (tmp_path / "source-to-target.properties").stat().st_mode & 0o777 == 0o600


def test_flows_that_reach_one_target_in_different_ways_wrote_one_file(tmp_path: Path) -> None:
    settings = TO_A_CLOUD | {
        "clusters": "source, second, target",
        "second.bootstrap.servers": "broker-3:9092",
        "second->target.enabled": "true",
    }
    settings |= {"second->target.ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}
    flows = convert(settings)
    assert [flow.command_configs.get("ssl.cipher.suites") for flow in flows] == [None, "TLS_AES_128_GCM_SHA256"]
    output = tmp_path / "out"
    assert main(["--from-mm2", str(write(tmp_path / "mm2.properties", settings)), "--output", str(output)]) == 0
    for flow in flows:
        assert read_properties(output / f"{flow.mirror_name}.command.properties") == flow.command_configs
        assert (
            f"--command-config {flow.mirror_name}.command.properties --mirror {flow.mirror_name} " in (output / "commands.sh").read_text()
        )


def test_values_of_many_lines_and_letters_were_written_as_something_else(tmp_path: Path) -> None:
    """A PEM certificate ended after its first line, and the letters of a password were read again
    as others.
    """
    values = {"ssl.truststore.certificates": "-----BEGIN\nabc=\n-----END", "ssl.truststore.password": "p\u00e4ss\\\u20ac\U0001f511#!"}
    path = tmp_path / "mm2.properties"
    lines = [f"{name} = {value}" for name, value in TO_A_CLOUD.items()]
    lines += [f"source.{name} = {_as_java(value)}" for name, value in values.items()]
    path.write_text("\n".join(lines))
    assert main(["--from-mm2", str(path), "--output", str(tmp_path / "out")]) == 0
    written = read_properties(tmp_path / "out" / "source-to-target.properties")
    assert {name: written.get(name) for name in values} == values


def _as_java(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def test_the_tool_names_the_file_in_its_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "mm2.properties", {"topics": "t"})
    assert main(["--from-mm2", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"kafka-mirrors: {path}: no 'clusters'")
    assert main(["--from-mm2", str(tmp_path / "nosuch")]) == 1
    assert "cannot read" in capsys.readouterr().err
