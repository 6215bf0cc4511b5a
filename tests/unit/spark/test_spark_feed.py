"""`kmirror replay --engine spark`: one task a partition, and the same records as without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest
from support.logs.log_folders import batch, write_log
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.cli.kmirror import main


def test_each_partition_is_a_task_and_a_second_run_has_nothing_to_do(
    spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        write_log(tmp_path / "data" / f"t-{number}", *(batch(first, 5, text=f"p{number}") for first in range(0, 50, 5)))
    with EmbeddedCluster() as cluster:
        arguments = ["replay", str(tmp_path / "data"), "--to", cluster.bootstrap_servers, "--create-topics", "--engine", "spark"]
        arguments += ["--speed", "max", "--state", str(tmp_path / "state")]
        assert main(arguments) == 0
        assert "replayed 150 records" in capsys.readouterr().out
        assert main(arguments) == 0
        assert "replayed 0 records" in capsys.readouterr().out
        consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.assign([ck.TopicPartition("t", number, 0) for number in range(3)])
        found = sorted((one.partition(), one.offset(), one.value()) for one in consumer.consume(150, REACHED_S))
        consumer.close()
        assert found == [(number, offset, b"p%d-%d" % (number, offset)) for number in range(3) for offset in range(50)]
        damaged = tmp_path / "data" / "t-1" / "00000000000000000000.log"
        damaged.write_bytes(damaged.read_bytes()[:-1] + b"?")
        assert main([*arguments, "--rename", "t=again"]) == 1
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith("kmirror replay: ") and "belongs to another replay" in error
        assert main([*arguments[:-2], "--rename", "t=again"]) == 1
        assert "t-1/00000000000000000000.log: at byte" in capsys.readouterr().err.splitlines()[-1]
