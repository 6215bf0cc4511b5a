"""kafka-mirrors and the reference's MirrorCommand: the same arguments give the same messages,
output and exit code, except where the KIP says otherwise (header of --list; the order of topics;
errors of single topics, which the reference swallows; --help is 0).
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import re
from collections.abc import Callable, Sequence

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, create_topic, numbered, produce, wait_caught_up, wait_state
from support.peers.peers import java_tool, reference_classpath

from kmirror.cli import acls, configs, mirrors
from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop
OURS_ALONE = ", --describe, --reverse, --verify, --watch, or --from-mm2"
"""The end of the list of actions, which has those that are only ours."""
MIRROR_COMMAND = "org.apache.kafka.tools.MirrorCommand"


def theirs(*arguments: str) -> tuple[int, str, str]:
    done = java_tool(MIRROR_COMMAND, *arguments, classpath=reference_classpath())
    return done.returncode, done.stdout, done.stderr


def ours(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = mirrors.main(arguments)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize(
    "arguments",
    [
        "--bootstrap-server b:1",
        "--list --describe --bootstrap-server b:1",
        "--list",
        "--create --bootstrap-server b:1",
        "--create --bootstrap-server b:1 --mirror m",
        "--alter --bootstrap-server b:1 --mirror m",
        "--add --bootstrap-server b:1 --mirror m",
        "--resume --bootstrap-server b:1 --mirror m",
    ],
)
def test_wrong_arguments_have_the_references_message(arguments: str) -> None:
    code, out, err = theirs(*arguments.split())
    our_code, _, our_err = ours(*arguments.split())
    message = our_err.splitlines()[0].replace(OURS_ALONE, ", or --describe")
    assert code == our_code == 1
    assert message in out + err, (out + err)[:400]


def test_the_same_commands_print_the_same(tmp_path: pathlib.Path) -> None:
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as first,
        EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as second,
    ):
        create_topic(a.bootstrap_servers, "t", 2)
        produce(a.bootstrap_servers, "t", numbered("a", 30))
        config = tmp_path / "source.properties"
        config.write_text(f"bootstrap.servers={a.bootstrap_servers}\n")

        def both(*arguments: str) -> tuple[tuple[int, str], tuple[int, str]]:
            code, out, _ = theirs("--bootstrap-server", first.bootstrap_servers, *arguments)
            our_code, our_out, _ = ours("--bootstrap-server", second.bootstrap_servers, *arguments)
            return (code, out), (our_code, our_out)

        def same(*arguments: str) -> None:
            left, right = both(*arguments)
            assert left == right, arguments

        def wait(state: str) -> None:
            for cluster in (first, second):
                wait_state(cluster.bootstrap_servers, "m", state)

        same("--list")
        same("--describe")
        same("--create", "--mirror", "m", "--mirror-config", str(config))
        same("--add", "--mirror", "m", "--topic", "t")
        for cluster in (first, second):
            wait_caught_up(cluster.bootstrap_servers, a.bootstrap_servers, "m")
        same("--describe")
        (_, out), (_, our_out) = both("--describe", "--mirror", "m", "--json")
        printed = json.loads(out)
        ours_only = {"lastKnownLag", "lagAgeMs", "reason", "front", "frontProblem"}
        rows = json.loads(our_out)
        assert [{name: value for name, value in row.items() if name not in ours_only} for row in rows] == printed
        assert all(ours_only <= row.keys() and row["reason"] is None and row["lastKnownLag"] == row["lag"] for row in rows)
        (code, out), (our_code, our_out) = both("--list")
        assert code == our_code == 0
        table, *below = our_out.split("\n  ", 1)
        assert out.splitlines()[1:] == table.splitlines()[1:]
        assert below and below[0].startswith("m: 2 MIRRORING; largest lag 0, as of ")
        assert our_out.splitlines()[0].split() == ["MIRROR", "TOPICS", "CLUSTER-ID", "BOOTSTRAP-SERVER"]
        same("--pause", "--mirror", "m", "--topic", "t")
        wait("PAUSED")
        same("--resume", "--mirror", "m", "--topic", "t")
        wait("MIRRORING")
        same("--alter", "--mirror", "m", "--mirror-config", str(config))
        same("--remove", "--mirror", "m", "--topic", "t")
        wait("STOPPED")
        same("--delete", "--mirror", "m")


def test_kafka_configs_and_kafka_acls_of_mirrors_print_the_same(tmp_path: pathlib.Path) -> None:
    """The reference's tools and ours on one cluster: messages, exit codes, what is listed.

    (A set of ACLs has no order of its own.)
    """
    config = FAST_MIRROR | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }

    def run(main: Callable[[Sequence[str]], int], *arguments: str) -> tuple[int, list[str]]:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main(arguments)
        return code, sorted(line.strip() for line in out.getvalue().splitlines() if line.strip())

    def reference(main_class: str, *arguments: str) -> tuple[int, list[str]]:
        done = java_tool(main_class, *arguments, classpath=reference_classpath())
        return done.returncode, sorted(line.strip() for line in done.stdout.splitlines() if line.strip())

    with EmbeddedCluster(mirroring=True, config=config) as cluster:
        server = ["--bootstrap-server", cluster.bootstrap_servers]
        properties = tmp_path / "m.properties"
        properties.write_text("bootstrap.servers=127.0.0.1:1\nssl.key.password=secret\n")
        for name in ("m", "n"):
            assert ours(*server, "--create", "--mirror", name, "--mirror-config", str(properties))[0] == 0
        for arguments in (
            ["--alter", "--add-config", "mirror.groups.include=app-.*"],
            ["--describe"],
        ):
            theirs_of_m = reference("kafka.admin.ConfigCommand", *server, "--entity-type", "mirrors", "--entity-name", "m", *arguments)
            ours_of_n = run(configs.main, *server, "--entity-type", "mirrors", "--entity-name", "n", *arguments)
            assert theirs_of_m == (ours_of_n[0], [re.sub(r"\bmirror n\b", "mirror m", line) for line in ours_of_n[1]]), arguments
        grants = ["--operation", "Create", "--operation", "AlterConfigs", "--allow-principal", "User:u"]
        for arguments in (["--add", *grants], ["--list"]):
            theirs_of_m = reference("org.apache.kafka.tools.AclCommand", *server, "--cluster-mirror", "m", *arguments)
            ours_of_n = run(acls.main, *server, "--cluster-mirror", "n", *arguments)
            assert theirs_of_m == (ours_of_n[0], [line.replace("name=n,", "name=m,") for line in ours_of_n[1]]), arguments
