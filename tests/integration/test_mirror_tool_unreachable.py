"""`kafka-mirrors` with sources that are not there, are not Kafka, do not let us in, are this
cluster, or have other topics than before.
"""

from __future__ import annotations

import json
import pathlib
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    call,
    create_topic,
    numbered,
    partitions_of,
    produce,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.cli import mirrors_source_check
from kmirror.cli.mirrors import main
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="wrong";'


class Tool:
    """kafka-mirrors at one cluster; configs of mirrors are files in `folder`."""

    def __init__(self, cluster: EmbeddedCluster, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster, self._folder, self._capsys = cluster, folder, capsys

    def __call__(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        assert main(["--bootstrap-server", self._cluster.bootstrap_servers, *arguments]) == code
        captured = self._capsys.readouterr()
        return captured.out.rstrip("\n"), captured.err.rstrip("\n")

    def config(self, action: str, mirror: str, *, code: int = 0, **settings: str) -> tuple[str, str]:
        path = self._folder / f"{mirror}.properties"
        path.write_text("".join(f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()))
        return self(f"--{action}", "--mirror", mirror, "--mirror-config", str(path), code=code)


@contextmanager
def not_kafka() -> Iterator[int]:
    """A port that answers everybody as a web server does."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(100)
                    client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_source_that_nobody_answers_for_is_told_at_once(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning, for the brokers may reach what this machine does not; a mirror of the cluster
    itself is refused.
    """
    secured = Security.sasl_plaintext(users={"alice": "alice-secret"}, mechanism="PLAIN")
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster,
        EmbeddedCluster(security=secured) as source,
        not_kafka() as web_port,
    ):
        tool = Tool(cluster, tmp_path, capsys)
        refused = f"127.0.0.1:{nobody()}"
        login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": JAAS}
        cases = {
            "unknown": ({"bootstrap_servers": "no.such.host.invalid:9092"}, "cannot connect to no.such.host.invalid:9092: "),
            "refused": ({"bootstrap_servers": refused}, f"cannot connect to {refused}: "),
            "web": ({"bootstrap_servers": f"127.0.0.1:{web_port}"}, f"127.0.0.1:{web_port} does not speak Kafka's protocol"),
            "password": ({"bootstrap_servers": source.bootstrap_servers, **login}, "Authentication failed"),
        }
        for name, (settings, why) in cases.items():
            out, err = tool.config("create", name, **settings)
            assert out == f"Created mirror {name}"
            assert err.startswith(f"Warning: the source of mirror {name} cannot be asked from here: ") and why in err, err
            assert err.endswith("; if the brokers cannot reach it either, nothing is mirrored") and "\n" not in err
        out, err = tool.config("create", "self", code=1, bootstrap_servers=cluster.bootstrap_servers)
        assert out == "" and err == (
            f"kafka-mirrors: bootstrap.servers={cluster.bootstrap_servers} leads to this cluster itself ({cluster.cluster_id}): "
            "a cluster does not mirror itself"
        )
        assert "self" not in tool("--list")[0]
        out, err = tool.config("alter", "web", bootstrap_servers=refused)
        assert out == "Altered mirror web" and f"cannot connect to {refused}" in err
        assert tool.config("alter", "web", code=1, bootstrap_servers=cluster.bootstrap_servers)[1].endswith(
            "a cluster does not mirror itself"
        )
        assert tool.config("alter", "web", mirror_groups_include="a.*") == ("Altered mirror web", "")


def test_a_source_whose_brokers_advertise_an_address_that_does_not_answer(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--create said nothing, and --add was silent for two minutes and then spoke of partitions that
    were not described.
    """
    monkeypatch.setattr(mirrors_source_check, "DEAD_BROKER_MS", 300)
    elsewhere = f"127.0.0.1:{nobody()}"
    advertised = {"advertised.listeners": f"PLAINTEXT://{elsewhere}"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster, EmbeddedCluster(config=advertised) as source:
        tool = Tool(cluster, tmp_path, capsys)
        out, err = tool.config("create", "m", bootstrap_servers=source.bootstrap_servers)
        problem = f"the source advertises {elsewhere} for its broker 1, which does not answer here: cannot connect to {elsewhere}"
        assert out == "Created mirror m" and problem in err and "advertised.listeners" in err
        assert problem in tool.config("alter", "m", bootstrap_servers=source.bootstrap_servers)[1]
        source.call(lambda server: server.broker.apis.auto_topic_creation.create_topics(["t"]))  # type: ignore[union-attr]
        wait_for("the topic", lambda: "t" in source.call(lambda server: server.broker.metadata_cache.image.topics.by_name))  # type: ignore[union-attr]
        out, err = tool("--add", "--mirror", "m", "--topic", "t", code=1)
        assert problem in err and "or add with --force" in err and "did not describe its partitions" not in err


def test_a_source_that_goes_away_and_comes_back_with_another_topic(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        tool = Tool(b, tmp_path, capsys)
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        assert tool.config("create", "m", bootstrap_servers=a.bootstrap_servers) == ("Created mirror m", "")
        tool("--add", "--mirror", "m", "--topic", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert len(tool("--describe")[0].splitlines()) == 2, "what moves has no notes"
        a.stop_node()
        wait_for("an unknown lag", lambda: partitions_of(b.bootstrap_servers, "m")[0].lag == -1 or None)
        header, row, empty, note, front = tool("--describe")[0].splitlines()
        assert front.startswith("m: the source was not looked at") and "onnection refused" in front
        assert row.split()[3:] == ["20", "20", "-", "MIRRORING"] and empty == ""
        assert re.fullmatch(r"m: t-0 MIRRORING: .+; lag 0, as of \d+ s ago", note), note
        (shown,) = json.loads(tool("--describe", "--json")[0])
        assert (shown["lag"], shown["lastKnownLag"], shown["state"]) == (-1, 0, "MIRRORING") and shown["lagAgeMs"] >= 0 and shown["reason"]
        verbose = tool("--describe", "--verbose")[0].splitlines()
        assert verbose[0].split()[-2:] == ["LAST-LAG", "LAG-AGE-MS"] and verbose[1].split()[-2] == "0"
        a.start_node()
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        call(a.bootstrap_servers, lambda admin: admin.delete_topics(["t"])).all()
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        assert tool("--describe")[0].splitlines()[-1] == (
            "m: t-0 STOPPED: the source's topic was deleted or replaced by another one; the local topic is writable; "
            "delete this one and add it again if the source has the topic, or remove it from the mirror"
        )
        out, err = tool("--resume", "--mirror", "m", "--topic", "t", code=1)
        assert out == "" and "the source has no topic t: it would not be mirrored" in err
        create_topic(a.bootstrap_servers, "t")
        out, err = tool("--resume", "--mirror", "m", "--topic", "t", code=1)
        assert out == "" and "the source has another topic t, with the id" in err
        tool("--remove", "--mirror", "m", "--topic", "t")
        out, err = tool("--add", "--mirror", "m", "--topic", "t", code=1)
        assert out == "" and err.endswith("to mirror what the source has now, delete the topic here and add it again")
        call(b.bootstrap_servers, lambda admin: admin.delete_topics(["t"])).all()
        wait_for("the deletion", lambda: "t" not in call(b.bootstrap_servers, lambda admin: admin.list_topics()) or None)
        assert tool("--add", "--mirror", "m", "--topic", "t")[0] == "Added 1 topic(s) to mirror m: [t]"
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
