"""kafka-mirrors and a source whose listeners are secured. The mirrors themselves: tests/conformance/test_e14_secured_sources.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer
from mirror_harness import FAST_MIRROR, call, wait_state

from kmirror.cli.mirrors import main
from kmirror.embedded import EmbeddedCluster
from kmirror.embedded_security import Security

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
        assert producer.flush(20) == 0
        configs = source.client_properties("mirror", style="java")
        call(destination.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))
        config_file = tmp_path / "source.properties"
        config_file.write_text("".join(f"{name}={value}\n" for name, value in configs.items()))
        arguments = ["--bootstrap-server", destination.bootstrap_servers, "--add", "--mirror", "m", "--topic", "t.*"]
        assert main(arguments) == 1
        assert "give them with --mirror-config" in capsys.readouterr().err
        assert main([*arguments, "--mirror-config", str(config_file)]) == 0, capsys.readouterr().err
        wait_state(destination.bootstrap_servers, "m", "MIRRORING")
