"""kafka-mirrors and a source whose listeners are secured.

The mirrors themselves: tests/conformance/test_e14_secured_sources.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.mirrors.mirror_harness import FAST_MIRROR, call, wait_state
from support.waiting import REACHED_S

from kmirror.cli.mirrors import main
from kmirror.common.addresses import parse_bootstrap_servers
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security
from kmirror.mirror.ports import MirrorConfig
from kmirror.mirror.source.channels import source_clients
from kmirror.network.client import AuthenticationError, DisconnectError
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.wire.messages.metadata import MetadataRequest

USERS = {"mirror": "mirror-secret"}
FEW_PARTITIONS = {"mirror.topic.num.partitions": "2"}


def test_kafka_mirrors_adds_topics_of_a_secured_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tool said that only PLAINTEXT is supported, though the broker mirrors from such a source."""
    with (
        EmbeddedCluster(mirroring=True, security=Security.sasl_plaintext(USERS), config=FAST_MIRROR) as source,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR | FEW_PARTITIONS) as destination,
    ):
        producer = Producer(source.client_properties("mirror"))
        producer.produce("t", b"a")
        assert producer.flush(REACHED_S) == 0
        configs = source.client_properties("mirror", style="java")
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))
        config_file = tmp_path / "source.properties"
        config_file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        arguments = ["--bootstrap-server", destination.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t.*"]
        assert main(arguments) == 1
        assert "give them with --mirror-config" in capsys.readouterr().err
        assert main([*arguments, "--mirror-config", str(config_file)]) == 0, capsys.readouterr().err
        wait_state(destination.bootstrap_servers, "m", "MIRRORING")


def file_provider(folder: Path) -> dict[str, str]:
    return {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder),
    }


def referring(configs: dict[str, str], reference: str) -> dict[str, str]:
    return configs | {"sasl.jaas.config": configs["sasl.jaas.config"].replace(USERS["mirror"], reference)}


def test_a_login_that_stands_in_a_file_is_stored_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The password of a source stood in clear in the destination's metadata."""
    secret = tmp_path / "secrets" / "east.properties"
    reference = f"${{file:{secret}:password}}"
    with (
        EmbeddedCluster(mirroring=True, security=Security.sasl_plaintext(USERS), config=FAST_MIRROR) as source,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR | FEW_PARTITIONS | file_provider(secret.parent)) as destination,
    ):
        producer = Producer(source.client_properties("mirror"))
        producer.produce("t", b"a")
        assert producer.flush(REACHED_S) == 0
        config_file = tmp_path / "source.properties"
        configs = referring(source.client_properties("mirror", style="java"), reference)
        config_file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        arguments = ["--bootstrap-server", destination.bootstrap_servers, "--mirror", "m", "--mirror-config", str(config_file)]
        assert main([*arguments, "--create"]) == 0
        assert f"{reference} cannot be resolved: cannot read {secret}" in capsys.readouterr().err
        secret.parent.mkdir()
        secret.write_text(f"password={USERS['mirror']}\n")
        assert main([*arguments, "--add", "--topic", "t"]) == 0, capsys.readouterr().err
        wait_state(destination.bootstrap_servers, "m", "MIRRORING")
        stored = b"".join(path.read_bytes() for path in destination.folder.rglob("*") if path.is_file())
        assert reference.encode() in stored and USERS["mirror"].encode() not in stored


def test_a_secret_is_read_again_for_each_connection(tmp_path: Path) -> None:
    """A password that was replaced at the source had to be replaced in every mirror's configs, too."""
    secret = tmp_path / "east.properties"
    reference = f"${{file:{secret}:password}}"
    with EmbeddedCluster(security=Security.sasl_plaintext(USERS)) as source:
        configs = referring(source.client_properties("mirror", style="java"), reference)
        host, port = parse_bootstrap_servers(source.bootstrap_servers)[0]

        async def connect(runtime: Runtime) -> None:
            make = source_clients(runtime, MirrorConfig(1, config_providers=file_provider(tmp_path)))
            client = make("m", configs)
            try:
                with pytest.raises(DisconnectError) as missing:
                    await client.send(host, port, MetadataRequest(), timeout_ms=10_000)
                assert f"{reference} cannot be resolved: cannot read {secret}" in str(missing.value)
                secret.write_text("password=of-last-year")
                with pytest.raises(AuthenticationError, match="the login at"):
                    await client.send(host, port, MetadataRequest(), timeout_ms=10_000)
                secret.write_text(f"password={USERS['mirror']}")
                assert (await client.send(host, port, MetadataRequest(), timeout_ms=10_000)).brokers
                secret.unlink()
                assert (await client.send(host, port, MetadataRequest(), timeout_ms=10_000)).brokers
                client.disconnect(host, port)
                with pytest.raises(DisconnectError) as gone:
                    await client.send(host, port, MetadataRequest(), timeout_ms=10_000)
                assert reference in str(gone.value) and not isinstance(gone.value, AuthenticationError)
            finally:
                client.close()

        run(connect)
