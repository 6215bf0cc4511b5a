"""The README's example of Spark is run, over a data directory like the one that the examples before
it leave.
"""

from __future__ import annotations

import pathlib

import pytest
from confluent_kafka import Producer
from support.tools.readme_examples import examples, run_examples
from support.waiting import PROGRAM_S, REACHED_S

from kmirror import EmbeddedCluster


@pytest.mark.timeout(PROGRAM_S + 30)
def test_the_readmes_example_of_spark_runs(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(folder=tmp_path / "south") as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(1000):
            producer.produce("orders", value=f"order {number}")
        assert producer.flush(REACHED_S) == 0
        (tmp_path / "south-data").symlink_to(cluster.log_dir())
    run_examples([example for example in examples() if example.section == "Spark"], tmp_path)
