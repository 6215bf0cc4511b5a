"""`kmirror translate-offsets --config`: commits and offset syncs are read from clusters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from support.waiting import REACHED_S

from kmirror.cli.kmirror import main
from kmirror.common import topic_partition
from kmirror.embedded import EmbeddedCluster
from kmirror.mirrormaker.formats import OffsetSync

T0 = topic_partition.TopicPartition("t", 0)


@pytest.mark.parametrize("location", ["source", "target"])
def test_a_group_and_the_syncs_of_a_flow(location: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with EmbeddedCluster(config={"offsets.topic.num.partitions": "1"}) as cluster:
        servers = cluster.bootstrap_servers
        producer = Producer({"bootstrap.servers": servers})
        for number in range(30):
            producer.produce("t", str(number).encode(), partition=0)
        producer.produce("__left-out", b"x", partition=0)
        syncs = "mm2-offset-syncs.B.internal" if location == "source" else "mm2-offset-syncs.A.internal"
        producer.produce(syncs, key=b"torn", value=b"torn", partition=0)
        for sync in (OffsetSync(T0, 3, 12), OffsetSync(T0, 20, 17)):
            producer.produce(syncs, key=sync.record_key, value=sync.record_value, partition=0)
        assert producer.flush(REACHED_S) == 0
        consumer = Consumer({"bootstrap.servers": servers, "group.id": "app"})
        consumer.commit(offsets=[TopicPartition("t", 0, 19), TopicPartition("__left-out", 0, 1)], asynchronous=False)
        consumer.close()
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters=A,B\nA.bootstrap.servers={servers}\nB.bootstrap.servers={servers}\nA->B.enabled=true\n"
            f"A->B.offset-syncs.topic.location={location}\n"
        )
        flow = ["translate-offsets", "--config", str(file), "--source", "A", "--target", "B"]
        assert main([*flow, "--group", "app", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["translations"]
        assert (row["topicPartition"], row["upstreamOffset"], row["downstreamOffset"], row["readAgain"]) == ("t-0", 19, 13, 15)
        assert main([*flow, "--group", "nobody"]) == 1
        assert "group nobody has committed nothing in a replicated topic of A" in capsys.readouterr().err
        assert main(["translate-offsets", "--config", str(file), "--source", "A", "--target", "C", "--group", "app"]) == 1
        assert "'clusters' does not name C" in capsys.readouterr().err
        if location == "source":
            assert main(["translate-offsets", "--config", str(file), "--source", "B", "--target", "A", "--group", "app"]) == 1
            assert "there is no topic mm2-offset-syncs.A.internal" in capsys.readouterr().err
