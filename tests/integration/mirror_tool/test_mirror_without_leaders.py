"""`kafka-mirrors --describe` and `--verify` of partitions that have no leader at the destination:
they were not there, and all was well.
"""

from __future__ import annotations

import json

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, add, call, create_mirror, create_topic, numbered, produce, wait_caught_up, wait_for

from kmirror.admin.results import NewTopic
from kmirror.cli.mirrors import main
from kmirror.embedded import EmbeddedCluster


def test_partitions_without_a_leader_are_described_and_not_verified(capsys: pytest.CaptureFixture[str]) -> None:
    """Two topics of one replica: all of `u`, half of `t`, or both are on a broker that is away."""

    def tool(*arguments: str) -> tuple[int, str, str]:
        code = main(["--bootstrap-server", b.bootstrap_servers, "--mirror", "m", *arguments])
        return code, *capsys.readouterr()

    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(brokers=3, mirroring=True, config=FAST_MIRROR) as b:
        for name, assignments in (("t", {0: [1], 1: [3]}), ("u", {0: [3]})):
            create_topic(a.bootstrap_servers, name, len(assignments))
            produce(a.bootstrap_servers, name, numbered(name, 10))
            topic_id = call(a.bootstrap_servers, lambda admin, name=name: admin.describe_topics([name]))[name].topic_id
            topic = NewTopic(name, replicas_assignments=assignments, mirror_topic_id=topic_id)
            call(b.bootstrap_servers, lambda admin, topic=topic: admin.create_topics([topic])).all()
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t", "u")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert tool("--verify")[0] == 0
        b.stop_node(2)

        def leaderless() -> bool:
            image = b.call(lambda server: server.broker.metadata_cache.image)
            return not image.topics.partition("u", 0).has_leader and not image.topics.partition("t", 1).has_leader

        wait_for("broker 3 to be fenced", leaderless)
        code, out, err = tool("--describe", "--json")
        rows = {(row["topic"], row["partition"]): row for row in json.loads(out)}
        assert code == 0 and rows["t", 0]["reason"] is None
        assert rows["t", 1]["state"] == "UNKNOWN" and rows["t", 1]["lag"] == -1
        assert rows["t", 1]["reason"].startswith("no leader here: brokers [3] have it")
        assert "mirror m has 1 topic(s) that no broker describes; no partition of [u] has a leader here" in err
        assert "m: t-1 UNKNOWN: no leader here" in tool("--describe")[1]
        code, out, err = tool("--verify")
        assert code == 2 and "t-1: could not be compared: no leader here" in out and "[u]" in err
        assert tool("--verify", "--topic", "t")[0] == 2
        b.start_node(2)
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert tool("--verify")[0] == 0
