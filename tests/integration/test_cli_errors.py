"""What a user can get wrong on a command line is one clear line and an exit code, never a traceback
(each main runs in this process).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from kmirror.cli import dump_log, kmirror, log_diff, mirrors
from kmirror.runtime.os_files import OsFileSystem

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
Line = Callable[..., str]


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The properties of a node with two ports that are free, in the current folder; its data dir is
    `data`.
    """
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as broker, socket.create_server(("127.0.0.1", 0)) as controller:
        ports = broker.getsockname()[1], controller.getsockname()[1]
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\nlog.dirs=data\n"
        f"controller.quorum.voters=1@127.0.0.1:{ports[1]}\nlisteners=PLAINTEXT://127.0.0.1:{ports[0]},CONTROLLER://127.0.0.1:{ports[1]}\n"
    )
    return path


@pytest.fixture
def last_line(capfd: pytest.CaptureFixture[str]) -> Line:
    """Runs a main that must fail; its one line of error (a server may have logged before it)."""

    def run(main: Callable[[list[str]], int], *arguments: str, code: int = 1) -> str:
        capfd.readouterr()
        assert main(list(arguments)) == code
        lines = [line for line in capfd.readouterr().err.splitlines() if not re.match(r"\[\d{4}-", line)]
        assert len(lines) == 1, lines
        return lines[0]

    return run


def formatted(node: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    assert kmirror.main(["format", "--config", str(node), "--cluster-id", CLUSTER_ID]) == 0
    capfd.readouterr()
    return node


def with_setting(node: Path, line: str) -> str:
    node.write_text(node.read_text() + line + "\n")
    return str(node)


@pytest.mark.parametrize("command", ["format", "start"])
@pytest.mark.parametrize(("name", "reason"), [("missing.properties", "No such file or directory"), (".", "Is a directory")])
def test_a_configuration_that_cannot_be_read_is_named(node: Path, last_line: Line, command: str, name: str, reason: str) -> None:
    more = ["--cluster-id", CLUSTER_ID] if command == "format" else []
    assert last_line(kmirror.main, command, "--config", name, *more) == f"kmirror {command}: cannot read {name}: {reason}"


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("node.id=one", "Not a number"),
        ("process.roles=broker,banana", "Invalid value banana for configuration process.roles"),
        ("listeners=PLAINTEXT:127.0.0.1:9092", "Unable to parse PLAINTEXT:127.0.0.1:9092"),
        ("controller.quorum.voters=1-127", "1-127 is not of the form id@host:port"),
        ("num.network.threads=-5", "num.network.threads: Value must be at least 1"),
    ],
)
def test_a_wrong_setting_is_named(node: Path, last_line: Line, setting: str, says: str) -> None:
    assert says in last_line(kmirror.main, "start", "--config", with_setting(node, setting))


def test_an_override_without_a_value_is_shown(node: Path, last_line: Line) -> None:
    assert "'nonsense' is not of the form property=value" in last_line(
        kmirror.main, "start", "--config", str(node), "--override", "nonsense"
    )


def test_formatting_where_a_file_is_in_the_way_names_the_file(node: Path, last_line: Line) -> None:
    Path("data").write_text("not a folder")
    assert last_line(kmirror.main, "format", "--config", str(node), "--cluster-id", CLUSTER_ID) == "kmirror format: data: File exists"
    assert "data/meta.properties: Not a directory" in last_line(kmirror.main, "start", "--config", str(node))


def test_formatting_twice_says_how_to_go_on(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(node, capfd)
    assert "--ignore-formatted" in last_line(kmirror.main, "format", "--config", str(node), "--cluster-id", CLUSTER_ID)


@pytest.mark.parametrize("feature", ["nonsense", "foo.version=1", "mirror.version=9", "mirror.version=x"])
def test_a_wrong_feature_is_shown(node: Path, last_line: Line, feature: str) -> None:
    shown = last_line(kmirror.main, "format", "--config", str(node), "--cluster-id", CLUSTER_ID, "--feature", feature)
    assert feature.partition("=")[0] in shown


def test_an_unformatted_data_dir_says_what_to_do(node: Path, last_line: Line) -> None:
    assert "kmirror format" in last_line(kmirror.main, "start", "--config", str(node))


@pytest.mark.parametrize(("name", "value", "says"), [("node.id", "7", "Stored node id 7"), ("version", "9", "version is 9")])
def test_a_data_dir_of_somebody_else_is_refused(
    node: Path, last_line: Line, capfd: pytest.CaptureFixture[str], name: str, value: str, says: str
) -> None:
    formatted(node, capfd)
    meta = Path("data/meta.properties")
    meta.write_text(re.sub(rf"(?m)^{re.escape(name)}=.*$", f"{name}={value}", meta.read_text()))
    assert says in last_line(kmirror.main, "start", "--config", str(node))


@pytest.mark.parametrize("name", ["bootstrap.checkpoint", "__cluster_metadata-0/quorum-state"])
def test_a_file_of_garbage_is_named(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str], name: str) -> None:
    formatted(node, capfd)
    path = Path("data", name)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"\xda\xff garbage" * 30)
    assert f"data/{name}" in last_line(kmirror.main, "start", "--config", str(node))


def test_a_folder_that_is_no_log_is_named(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(node, capfd)
    Path("data/junk").mkdir()
    assert "junk is not named <topic>-<partition>" in last_line(kmirror.main, "start", "--config", str(node))


def test_a_port_in_use_is_named(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(node, capfd)
    (found,) = re.findall(r"PLAINTEXT://127.0.0.1:(\d+)", node.read_text())
    with socket.create_server(("127.0.0.1", int(found))):
        assert f"cannot listen on 127.0.0.1 port {found}: Address already in use" in last_line(kmirror.main, "start", "--config", str(node))


def test_a_port_that_is_no_port_is_named(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(node, capfd)
    node.write_text(re.sub(r"PLAINTEXT://127.0.0.1:\d+", "PLAINTEXT://127.0.0.1:99999", node.read_text()))
    assert "port 99999" in last_line(kmirror.main, "start", "--config", str(node))


def test_a_data_dir_in_use_is_named(node: Path, last_line: Line, capfd: pytest.CaptureFixture[str]) -> None:
    formatted(node, capfd)
    lock = OsFileSystem().lock("data/.lock")
    try:
        assert "Failed to acquire lock on file .lock in data" in last_line(kmirror.main, "start", "--config", str(node))
    finally:
        lock.close()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--seeds", "5"], "A..B"),
        (["--seeds", "5..1"], "A..B"),
        (["--seed", "1", "--history", "nope"], "nope"),
        (["--seed", "1", "--without", "nope"], "nope"),
        (["--seed", "1", "--trace", "no/such/folder"], "--trace no/such/folder"),
    ],
)
def test_wrong_arguments_of_the_simulator_are_named(last_line: Line, arguments: list[str], says: str) -> None:
    assert says in last_line(kmirror.main, "sim", *arguments)


def test_an_output_folder_of_the_demonstration_that_cannot_be_is_refused_at_once(node: Path, last_line: Line) -> None:
    assert last_line(kmirror.main, "demo", "--output", str(node)) == f"kmirror demo: {node}: File exists"


def test_an_unknown_command_gets_the_list_of_commands(last_line: Line) -> None:
    assert "random-uuid, format, start, verify-logs, replay, spark-package, metrics, translate-offsets, demo, sim" in last_line(
        kmirror.main, "nonsense", code=2
    )


@pytest.mark.parametrize("server", ["nonsense", "127.0.0.1:99999", ","])
def test_a_bootstrap_server_that_is_no_address_is_shown(last_line: Line, server: str) -> None:
    assert "is not host:port" in last_line(mirrors.main, "--bootstrap-server", server, "--list")


def test_a_cluster_that_does_not_answer_is_named(last_line: Line) -> None:
    assert "cannot connect to 127.0.0.1:1" in last_line(mirrors.main, "--bootstrap-server", "127.0.0.1:1", "--list")
    assert "cannot connect to 127.0.0.1:1" in last_line(log_diff.main, "bootstrap:127.0.0.1:1", "bootstrap:127.0.0.1:1", code=2)
    assert "cannot connect to [::1]:1" in last_line(mirrors.main, "--bootstrap-server", "[::1]:1", "--list")


@pytest.mark.parametrize("option", ["--mirror-config", "--command-config"])
def test_a_property_file_of_kafka_mirrors_that_is_missing_is_named(tmp_path: Path, last_line: Line, option: str) -> None:
    missing = tmp_path / "missing.properties"
    more = ["--create", "--mirror", "dr"] if option == "--mirror-config" else ["--list"]
    assert f"cannot read {missing}" in last_line(mirrors.main, "--bootstrap-server", "127.0.0.1:1", *more, option, str(missing))


def test_a_log_that_is_missing_is_named(tmp_path: Path, last_line: Line) -> None:
    segment = tmp_path / "00000000000000000000.log"
    assert last_line(dump_log.main, "--files", str(segment)) == f"{segment}: No such file or directory"
    assert f"{tmp_path / 'a'} is not a directory" in last_line(log_diff.main, str(tmp_path / "a"), str(tmp_path / "b"), code=2)
