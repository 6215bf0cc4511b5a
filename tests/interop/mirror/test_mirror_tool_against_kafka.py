"""`kafka-mirrors` where the source is Apache Kafka, new and old: what the tool asks the source
itself is answered by all of them.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    create_mirror_by_tool,
    create_topic,
    kafka_mirrors,
    produce_numbered,
    produce_once_writable,
    produce_transactions,
    wait_caught_up,
)
from support.peers.peer_clusters import PeerCluster, kafka_cluster
from support.peers.peers import reference_kafka

from kmirror import EmbeddedCluster
from kmirror.cli import mirrors

pytestmark = pytest.mark.interop
ONE_REPLICA = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@pytest.fixture(params=["4.3.0", "2.8.2"])
def source(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[PeerCluster]:
    with kafka_cluster(tmp_path / "source", request.param, nodes=1, properties=ONE_REPLICA) as cluster:
        yield cluster


@pytest.fixture
def ours() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as cluster:
        yield cluster


def test_lag_verify_graceful_failover_and_dry_runs(tmp_path: pathlib.Path, source: PeerCluster, ours: EmbeddedCluster) -> None:
    create_topic(source.bootstrap_servers, "t", 2)
    produce_numbered(source.bootstrap_servers, "t", 0, 300, codec="lz4", partitions=2)
    produce_transactions(source.bootstrap_servers, "t")
    create_mirror_by_tool(tmp_path, ours.bootstrap_servers, source.bootstrap_servers, "m")
    of_m = (ours.bootstrap_servers, "--mirror", "m")
    kafka_mirrors(*of_m, "--add", "--topic", "t", "--wait")
    kafka_mirrors(*of_m, "--pause", "--topic", "t", "--wait")
    produce_numbered(source.bootstrap_servers, "t", 300, 20, partitions=2)
    rows = json.loads(kafka_mirrors(*of_m, "--describe", "--verbose", "--json"))
    assert all(row["sourceHighWatermark"] - row["destinationOffset"] >= 10 and row["timeLagMs"] > 0 for row in rows)
    kafka_mirrors(*of_m, "--resume", "--topic", "t", "--wait")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        assert mirrors.main(["--bootstrap-server", ours.bootstrap_servers, "--reverse", "--mirror", "m"]) == 1
    assert "the source has no cluster mirroring" in out.getvalue()
    result = json.loads(kafka_mirrors(*of_m, "--remove", "--topic", "t", "--wait", "--json"))
    assert [(row["state"], row["notMirrored"]) for row in result["partitions"]] == [("STOPPED", 0)] * 2
    verified = kafka_mirrors(*of_m, "--verify").splitlines()
    assert [line.split(",")[0] for line in verified] == ["t-0: equal", "t-1: equal"]
    ends = [row["logEndOffset"] for row in result["partitions"]]
    assert [line.split(",")[1] for line in verified] == [f" offsets 0 to {end - 2}" for end in ends], "all but the reset"
    losses = json.loads(kafka_mirrors(*of_m, "--add", "--topic", "t", "--dry-run", "--json"))
    assert [(row["cutOffset"], row["logEndOffset"]) for row in losses] == [(end - 1, end) for end in ends], "the reset goes, the copy stays"
    assert {row["reason"] for row in losses} == {"it was mirrored from there before: the records written here since then are dropped"}


def test_a_mirror_at_the_reference_build_is_reversed_to_us(tmp_path: pathlib.Path) -> None:
    """The tool needs nothing of a destination but the KIP's requests: it drains the reference's
    mirror, stops it, and mirrors back from it.
    """
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as ours, reference_kafka(tmp_path / "reference") as reference:
        create_topic(ours.bootstrap_servers, "t", 2)
        produce_numbered(ours.bootstrap_servers, "t", 0, 100, partitions=2)
        create_mirror_by_tool(tmp_path, reference.bootstrap_servers, ours.bootstrap_servers, "m")
        of_m = (reference.bootstrap_servers, "--mirror", "m")
        kafka_mirrors(*of_m, "--add", "--topic", "t", "--wait")
        assert kafka_mirrors(*of_m, "--reverse").splitlines()[-1] == "Reversed mirror m: [t]"
        produce_once_writable(reference.bootstrap_servers, "t", 100, 10, partitions=2)
        wait_caught_up(ours.bootstrap_servers, reference.bootstrap_servers, "m")
        verified = kafka_mirrors(ours.bootstrap_servers, "--mirror", "m", "--verify").splitlines()
        assert [line.split(",")[1] for line in verified] == [" offsets 0 to 55", " offsets 0 to 55"], "50 records, the reset, 5 records"
