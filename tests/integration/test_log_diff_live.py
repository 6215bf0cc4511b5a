"""`kafka-log-diff` against a running cluster: fetched as a consumer does, compared with the folder
and with itself.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.waiting import REACHED_S

from kmirror.cli.log_diff import main
from kmirror.embedded import EmbeddedCluster

confluent_kafka = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed (kmirror[clients])")


def produce(cluster: EmbeddedCluster, topic: str, first: int, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, "compression.type": "lz4"})
    for number in range(first, first + count):
        producer.produce(topic, key=b"k%d" % number, value=b"v" * 300)
    assert producer.flush(REACHED_S) == 0


def test_a_running_cluster_against_its_folder_a_copy_and_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedCluster() as cluster:
        live = f"bootstrap:{cluster.bootstrap_servers}"
        produce(cluster, "t", 0, 500)
        copy = tmp_path / "copy"
        shutil.copytree(cluster.log_dir(), copy)
        assert main([live, str(cluster.log_dir())]) == 0
        assert main([live, live, "--topics", "t"]) == 0
        produce(cluster, "t", 500, 100)
        capsys.readouterr()
        assert main([live, str(copy), "--json"]) == 1
        verdict = json.loads(capsys.readouterr().out)["partitions"][0]
        assert set(verdict["difference_counts"]) == {"missing"} and verdict["differences"][0]["first_offset"] == 500
        assert (verdict["left"]["log_end_offset"], verdict["right"]["log_end_offset"]) == (600, 500)
        assert main([live, str(copy), "--allow-lag"]) == 0
        assert main([live, str(copy), "--topics", "nothing"]) == 2
    assert main([live, str(copy)]) == 2
    assert "no broker could be reached" in capsys.readouterr().err
