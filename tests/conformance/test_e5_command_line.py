"""The command line (E5): each tool, against clusters of three brokers, prints what the KIP
prints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, call, create_topic, numbered, produce, wait_caught_up, wait_for, wait_state

from kmirror.admin.results import ConfigResourceType, MirrorDescription, MirrorListing, MirrorPartitionDescription
from kmirror.cli import acls, configs, dump_log, features, mirrors
from kmirror.cli.mirrors_tables import describe_table, list_table
from kmirror.embedded import EmbeddedCluster

THREE_BROKERS = FAST_MIRROR | {
    "mirror.topic.replication.factor": "3",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
KIP_OPTIONS = (
    "add", "alter", "bootstrap-server", "command-config", "create", "describe", "help", "list", "mirror", "mirror-config", "pause", "remove",
    "replication-factor", "resume", "topic", "version",
)  # fmt: skip

STATE_BATCHES = (
    "0000000000000000000000560000000002c594acc90000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff00000001"
    "480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000000000",
    "0000000000000001000000560000000002ec8e44a10000000000000000019c66135df30000019c66135df3ffffffffffffffffffffffffffff00000001"
    "480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000010000",
)
"""`my-mirror`, `my-topic` 0: PREPARING, then MIRRORING."""

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def source() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as cluster:
        for name in ("t", "u"):
            create_topic(cluster.bootstrap_servers, name, 2, replication_factor=3)
            produce(cluster.bootstrap_servers, name, numbered(name, 20))
        yield cluster


@pytest.fixture(scope="module")
def destination() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=THREE_BROKERS) as cluster:
        create_topic(cluster.bootstrap_servers, "local")
        yield cluster


@pytest.fixture
def to_source(source: EmbeddedCluster, tmp_path: Path) -> str:
    path = tmp_path / "source.properties"
    path.write_text(f"bootstrap.servers={source.bootstrap_servers}\n")
    return str(path)


@pytest.fixture
def tool(destination: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> Tool:
    """kafka-mirrors against the destination; its stdout, or with `code` the stderr."""

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        got = mirrors.main(["--bootstrap-server", destination.bootstrap_servers, *arguments])
        captured = capsys.readouterr()
        assert got == code, captured.out + captured.err
        return (captured.out if code == 0 else captured.err).rstrip("\n")

    return run


def test_cli1_help_has_the_kips_text_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert mirrors.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("This tool helps to create cluster mirrors and add topics to them.\nOption")
    options = re.findall(r"^--([a-z0-9-]+)", text, re.MULTILINE)
    assert set(KIP_OPTIONS) <= set(options) and "delete" in options and "json" in options
    assert options == sorted(options)
    assert "--replication-factor <Short:" in text


@pytest.mark.item("B40", "B43")
def test_cli2_cli3_cli9_cli6_cli7_cli11_cli4_cli5_a_mirrors_life(
    source: EmbeddedCluster, destination: EmbeddedCluster, tool: Tool, to_source: str
) -> None:
    """Create, add, describe, pause, resume, remove, delete.

    B43: `.*` at the destination is the mirror's topics, not `local` too.
    """
    assert tool("--create", "--mirror", "my-mirror", "--mirror-config", to_source) == "Created mirror my-mirror"
    assert (
        tool("--add", "--topic", "t", "--mirror", "my-mirror", "--replication-factor", "2") == "Added 1 topic(s) to mirror my-mirror: [t]"
    )
    assert tool("--add", "--topic", ".*", "--mirror", "my-mirror") == "Added 1 topic(s) to mirror my-mirror: [u]"
    described = call(destination.bootstrap_servers, lambda admin: admin.describe_topics(["t", "u"]))
    assert [len(described[name].partitions[0].replicas) for name in ("t", "u")] == [2, 1], "--replication-factor, else the broker's default"
    wait_caught_up(destination.bootstrap_servers, source.bootstrap_servers, "my-mirror")

    def rows() -> list[list[str]] | None:
        shown = [line.split() for line in tool("--describe", "--mirror", "my-mirror").splitlines()]
        return shown if all(row[5] == "0" for row in shown[1:]) else None

    header, *lines = wait_for("lag 0", rows)
    assert header == ["MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE"]
    assert lines == [
        ["my-mirror", topic, partition, offset, offset, "0", "MIRRORING"]
        for topic in ("t", "u")
        for partition, offset in (("0", "20"), ("1", "0"))
    ]
    for pattern, names in (("t", "1 topic(s) in mirror my-mirror: [t]"), (".*", "2 topic(s) in mirror my-mirror: [t, u]")):
        assert tool("--pause", "--topic", pattern, "--mirror", "my-mirror", "--wait") == f"Paused mirroring for {names}"
        assert tool("--resume", "--topic", pattern, "--mirror", "my-mirror", "--wait") == f"Resumed mirroring for {names}"
    assert tool("--remove", "--topic", ".*", "--mirror", "my-mirror") == "Removed 2 topic(s) from mirror my-mirror: [t, u]"
    wait_state(destination.bootstrap_servers, "my-mirror", "STOPPED")
    assert tool("--delete", "--mirror", "my-mirror") == "Deleted mirror my-mirror"
    wait_for("the mirror to go", lambda: "my-mirror" not in tool("--list"))


def test_cli8_list(source: EmbeddedCluster, tool: Tool, to_source: str) -> None:
    tool("--create", "--mirror", "listed", "--mirror-config", to_source)
    tool("--add", "--topic", "t", "--mirror", "listed", "--wait")
    wanted = ["listed", "1", source.cluster_id, source.bootstrap_servers]
    header, row = wait_for(
        "the cluster id", lambda: [line.split() for line in tool("--list").splitlines() if line.startswith(("MIRROR", "listed"))]
    )
    assert header == ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"] and row == wanted
    (shown,) = [row for row in json.loads(tool("--list", "--json")) if row["mirror"] == "listed"]
    assert shown.items() >= {"topics": 1, "clusterId": wanted[2], "bootstrapServers": wanted[3], "sourceAnswers": True}.items()
    assert [row["mirror"] for row in json.loads(tool("--list", "--mirror", "listed", "--json"))] == ["listed"]
    assert "The mirror 'listless' does not exist" in tool("--list", "--mirror", "listless", code=1)
    tool("--remove", "--topic", "t", "--mirror", "listed", "--wait")
    tool("--delete", "--mirror", "listed")


def test_cli10_alter(source: EmbeddedCluster, destination: EmbeddedCluster, tool: Tool, to_source: str, tmp_path: Path) -> None:
    tool("--create", "--mirror", "altered", "--mirror-config", to_source)
    first = source.bootstrap_servers.split(",")[0]
    (tmp_path / "altered.properties").write_text(f"bootstrap.servers={first}\nmirror.groups.include=app-.*\n")
    assert tool("--alter", "--mirror", "altered", "--mirror-config", str(tmp_path / "altered.properties")) == "Altered mirror altered"
    entries = call(destination.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "altered"))
    assert {entry.name: entry.value for entry in entries} == {"bootstrap.servers": first, "mirror.groups.include": "app-.*"}
    tool("--delete", "--mirror", "altered")


@pytest.mark.item("A13")
def test_cli12_errors_are_one_line_on_stderr_and_exit_code_1(tool: Tool, to_source: str) -> None:
    assert tool("--delete", "--mirror", "nosuch", code=1) == "kafka-mirrors: The mirror does not exist." or "nosuch" in tool(
        "--delete", "--mirror", "nosuch", code=1
    )
    tool("--create", "--mirror", "wrong", "--mirror-config", to_source)
    assert tool("--create", "--mirror", "wrong", "--mirror-config", to_source, code=1).count("\n") == 0
    assert "must not end with" in tool("--create", "--mirror", "m.paused", "--mirror-config", to_source, code=1)
    assert tool("--add", "--mirror", "wrong", "--topic", "nosuch.*", code=1) == "kafka-mirrors: No topics matching pattern 'nosuch.*' found"
    assert "not a regular expression" in tool("--add", "--mirror", "wrong", "--topic", "(", code=1)
    assert tool("--list", "--describe", code=1).startswith("Command must include exactly one action: --create, --alter, --add")
    tool("--delete", "--mirror", "wrong")


def test_cli12_errors_of_single_topics_are_not_swallowed(destination: EmbeddedCluster, tool: Tool, to_source: str) -> None:
    """The reference implementation's tool prints success and exits with 0."""
    tool("--create", "--mirror", "again", "--mirror-config", to_source)
    tool("--add", "--topic", "t", "--mirror", "again", "--wait")
    assert "already assigned to a mirror" in tool("--add", "--topic", "t", "--mirror", "again", code=1)
    assert "not paused" in tool("--resume", "--topic", "t", "--mirror", "again", code=1)
    tool("--pause", "--topic", "t", "--mirror", "again", "--wait")
    assert "already paused" in tool("--pause", "--topic", "t", "--mirror", "again", code=1)
    tool("--remove", "--topic", "t", "--mirror", "again", "--wait")
    assert "does not belong to" in tool("--remove", "--topic", "t", "--mirror", "again", code=1)
    tool("--delete", "--mirror", "again")


def test_cli13_kafka_configs_of_mirrors(
    source: EmbeddedCluster, destination: EmbeddedCluster, tool: Tool, to_source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Add, delete, describe; a password is told to nobody."""
    tool("--create", "--mirror", "m", "--mirror-config", to_source)
    of_mirror = ["--bootstrap-server", destination.bootstrap_servers, "--entity-type", "mirrors", "--entity-name", "m"]

    def run(*arguments: str) -> str:
        assert configs.main([*of_mirror, *arguments]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    added = f"bootstrap.servers=[{source.bootstrap_servers}],mirror.groups.include=app-.*,ssl.keystore.password=secret"
    assert run("--alter", "--add-config", added) == "Completed updating config for mirror m.\n"
    described = run("--describe")
    assert described.startswith("Dynamic configs for mirror m are:\n")
    assert f"  bootstrap.servers={source.bootstrap_servers} sensitive=false" in described
    assert "  ssl.keystore.password=null sensitive=true" in described and "secret" not in described
    assert run("--alter", "--delete-config", "mirror.groups.include,ssl.keystore.password") == "Completed updating config for mirror m.\n"
    assert "mirror.groups.include" not in run("--describe")
    shown = json.loads(run("--describe", "--json"))
    assert [(row["entityType"], row["entityName"], [entry["name"] for entry in row["configs"]]) for row in shown] == [
        ("mirrors", "m", ["bootstrap.servers"])
    ]
    assert configs.main([*of_mirror, "--alter", "--add-config", "nosuch=1"]) == 1
    assert "nosuch" in capsys.readouterr().err
    assert configs.main([*of_mirror[:-1], "nosuch", "--describe"]) == 0
    assert capsys.readouterr().out == "The mirror 'nosuch' doesn't exist and doesn't have dynamic config.\n"
    tool("--delete", "--mirror", "m")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(
            ["--entity-type", "brokers", "--entity-name", "1", "--add-config", "mirror.replication.throttled.rate=100000000"],
            "Completed updating config for broker 1.",
            id="cli14",
        ),
        pytest.param(
            ["--entity-type", "topics", "--entity-name", "t", "--add-config", "mirror.replication.throttled.replicas=[0:4]"],
            "Completed updating config for topic t.",
            id="cli15",
        ),
        pytest.param(
            ["--add-config", "consumer_byte_rate=1024", "--entity-type", "clients", "--entity-name", "broker-4-fetcher-0-mirror-my-mirror"],
            "Completed updating config for client broker-4-fetcher-0-mirror-my-mirror.",
            id="cli16",
        ),
    ],
)
def test_kafka_configs_for_throttles(
    source: EmbeddedCluster, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert configs.main(["--bootstrap-server", source.bootstrap_servers, "--alter", *arguments]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == f"{message}\n"
    name, _, value = arguments[arguments.index("--add-config") + 1].partition("=")
    entity = [word for word in arguments if word not in ("--add-config", f"{name}={value}")]
    assert configs.main(["--bootstrap-server", source.bootstrap_servers, "--describe", *entity]) == 0
    assert f"{name}={value.strip('[]')}" in capsys.readouterr().out.replace(".0", "")


OPERATIONS = ("Create", "Alter", "Describe", "Delete", "AlterConfigs", "DescribeConfigs")


@pytest.mark.parametrize("name", [pytest.param("my-mirror", id="cli17_cli18"), pytest.param("*", id="cli19")])
def test_kafka_acls_of_cluster_mirrors(destination: EmbeddedCluster, capsys: pytest.CaptureFixture[str], name: str) -> None:
    def run(*arguments: str) -> list[str]:
        assert acls.main(["--bootstrap-server", destination.bootstrap_servers, "--cluster-mirror", name, *arguments]) == 0
        return [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]

    operations = [word for operation in OPERATIONS for word in ("--operation", operation)]
    added = run("--add", *operations, "--allow-principal", "User:mirror-admin")
    pattern = f"ResourcePattern(resourceType=CLUSTER_MIRROR, name={name}, patternType=LITERAL)"
    names = ("CREATE", "ALTER", "DESCRIBE", "DELETE", "ALTER_CONFIGS", "DESCRIBE_CONFIGS")
    entries = {f"(principal=User:mirror-admin, host=*, operation={operation}, permissionType=ALLOW)" for operation in names}
    assert added[0] == f"Adding ACLs for resource `{pattern}`:" and set(added[1:]) >= entries

    def listed() -> bool:
        lines = run("--list")
        return lines[:1] == [f"Current ACLs for resource `{pattern}`:"] and set(lines[1:]) == entries

    wait_for("the rules", listed)
    assert run("--remove", "--force") == []
    wait_for("no rule", lambda: run("--list") == [])


@pytest.mark.item("B44")
def test_cli17_an_operation_that_mirrors_do_not_have_is_refused(destination: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--add", "--cluster-mirror", "m", "--operation", "Read", "--allow-principal", "User:a"]
    assert acls.main(["--bootstrap-server", destination.bootstrap_servers, *words]) == 1
    assert "ResourceType CLUSTER_MIRROR only supports operations [" in capsys.readouterr().err


@pytest.mark.item("A14", "B42")
def test_cli20_the_kips_dump_of_mirror_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The two batches that the KIP prints: the same CRCs, sizes and decoded records."""
    path = tmp_path / "__mirror_state-1" / "00000000000000000000.log"
    path.parent.mkdir()
    data = bytes.fromhex("".join(STATE_BATCHES))
    path.write_bytes(data)
    assert dump_log.main(["--mirror-state-decoder", "--files", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Dumping {path}" and lines[1] == "Log starting offset: 0"
    assert "position: 0 CreateTime: 1771239071191 size: 98 magic: 2 compresscodec: none crc: 3314855113 isvalid: true" in lines[2]
    key = 'keySize: 13 valueSize: 17 sequence: -1 headerKeys: [] key: {"type":"2","data":{"mirrorName":"my-mirror"}}'
    assert lines[3].endswith(f'{key} payload: {{"version":"0","data":{{"topicName":"my-topic","partition":0,"state":0}}}}')
    assert "position: 98 CreateTime: 1771239071219 size: 98 magic: 2 compresscodec: none crc: 3968746657 isvalid: true" in lines[4]
    assert lines[5].endswith(f'{key} payload: {{"version":"0","data":{{"topicName":"my-topic","partition":0,"state":1}}}}')


def test_cli21_kafka_features_switches_mirroring_on_and_off(capsys: pytest.CaptureFixture[str]) -> None:
    unstable = {"unstable.api.versions.enable": "true", "unstable.feature.versions.enable": "true"}
    with EmbeddedCluster(brokers=3, config=FAST_MIRROR | unstable) as cluster:
        server = ["--bootstrap-server", cluster.bootstrap_servers]
        assert mirrors.main([*server, "--list"]) == 1
        assert "version" in capsys.readouterr().err
        assert features.main([*server, "upgrade", "--feature", "mirror.version=1"]) == 0
        assert capsys.readouterr().out == "mirror.version was upgraded to 1.\n"
        wait_for("mirrors", lambda: mirrors.main([*server, "--list"]) == 0)
        assert features.main([*server, "describe"]) == 0
        assert re.search(r"Feature: mirror.version .*FinalizedVersionLevel: 1 ", capsys.readouterr().out)
        assert features.main([*server, "downgrade", "--feature", "mirror.version=0"]) == 0
        wait_for("no mirrors", lambda: mirrors.main([*server, "--list"]) == 1)


@pytest.mark.item("A13")
def test_s17_describe_example() -> None:
    rows = {
        "new-mirror": [("baz", 1, 859, 859, 0), ("baz", 0, 189, 189, 0)],
        "my-mirror": [("foo", 1, 94, 84, 10), ("foo", 0, 69, 66, 3), ("foo", 2, 94, 90, 4), ("bar", 0, 2324, 2324, 0)],
    }
    described = [
        MirrorDescription(name, [MirrorPartitionDescription(*row, "MIRRORING", -1) for row in listed]) for name, listed in rows.items()
    ]
    assert [line.split() for line in describe_table(described).splitlines()] == [
        ["MIRROR", "TOPIC", "PARTITION", "SOURCE-OFFSET", "DESTINATION-OFFSET", "LAG", "STATE"],
        ["my-mirror", "bar", "0", "2324", "2324", "0", "MIRRORING"],
        ["my-mirror", "foo", "0", "69", "66", "3", "MIRRORING"],
        ["my-mirror", "foo", "1", "94", "84", "10", "MIRRORING"],
        ["my-mirror", "foo", "2", "94", "90", "4", "MIRRORING"],
        ["new-mirror", "baz", "0", "189", "189", "0", "MIRRORING"],
        ["new-mirror", "baz", "1", "859", "859", "0", "MIRRORING"],
    ]
    unknown = MirrorDescription("m", [MirrorPartitionDescription("t", 0, -1, 5, -1, "PREPARING", -1)])
    assert describe_table([unknown]).splitlines()[1].split() == ["m", "t", "0", "-", "5", "-", "PREPARING"]
    assert describe_table([]) == "No mirror partitions found"


@pytest.mark.item("A13")
def test_s18_list_example() -> None:
    servers, cluster_id = "localhost:9091,localhost:9092", "lBq12jYZRp-9wF3M9MPopg"
    lines = list_table(
        [MirrorListing("new-mirror", servers, cluster_id, 1), MirrorListing("my-mirror", servers, cluster_id, 2)]
    ).splitlines()
    assert [line.split() for line in lines] == [
        ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"],
        ["my-mirror", "2", cluster_id, servers],
        ["new-mirror", "1", cluster_id, servers],
    ]
    assert [lines[0].index(word) for word in ("TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER")] == [31, 42, 69]
    assert list_table([MirrorListing("m", servers, "", 0)]).splitlines()[1].split() == ["m", "0", "-", servers]
    assert list_table([]) == "No mirrors found"
