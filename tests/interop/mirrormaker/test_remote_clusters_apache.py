"""Apache's `RemoteClusterUtils` and `MirrorClient` ask a cluster that our `connect-mirror-maker`
writes to, and our own utilities are asked the same (CU1 to CU7).
"""

from __future__ import annotations

import pathlib

import pytest
from support.mirrormaker.logs_compared import make_topics, produce, read
from support.mirrormaker.mirror_makers import commit, count_of, last_checkpoints, our_mirror_maker_2, properties, topics_of
from support.peers.peers import java_program

from kmirror import EmbeddedCluster
from kmirror.mirrormaker.remote_cluster_utils import MirrorClient, remote_consumer_offsets

pytestmark = pytest.mark.interop

PROGRAM = pathlib.Path(__file__).parent / "RemoteClusters.java"
BROKER = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
GROUPS = {"shop": {("orders", 0): 40, ("orders", 1): 100, ("orders", 2): 0}, "late": {("orders", 0): 99}}
CHECKPOINTS = "A.checkpoints.internal"


def java_set(names: list[str]) -> str:
    return f"[{', '.join(sorted(names))}]"


def our_answers(servers: str) -> list[str]:
    """What our utilities say, in the words of the Java program."""
    client, topics = MirrorClient(), sorted(topics_of(servers))
    lines = [
        f"hops {client.replication_hops(topics, 'A')}",
        f"hops-of-nobody {client.replication_hops(topics, 'nobody')}",
        f"heartbeats {java_set(client.heartbeat_topics(topics))}",
        f"checkpoints {java_set(client.checkpoint_topics(topics))}",
        f"upstreams {java_set(client.upstream_clusters(topics))}",
        f"remote-topics {java_set(client.remote_topics(topics))}",
        f"remote-topics-of {java_set(client.remote_topics(topics, 'A'))}",
    ]
    records = [(row.key, row.value) for _, row in read(servers, CHECKPOINTS)[0]]
    for group in (*GROUPS, "nobody"):
        offsets = remote_consumer_offsets(records, group)
        texts = sorted((str(partition), f"{found.offset}/{found.metadata}") for partition, found in offsets.items())
        lines.append(f"group {group} {{{', '.join(f'{name}={text}' for name, text in texts)}}}")
    return lines


def test_apaches_utilities_read_what_ours_wrote_and_translate_alike(tmp_path: pathlib.Path) -> None:
    settings = {"topics": "orders", "offset.lag.max": "0", "B->A.emit.heartbeats.enabled": "true"}
    with EmbeddedCluster(config=BROKER) as source, EmbeddedCluster(config=BROKER) as target:
        a, b = source.bootstrap_servers, target.bootstrap_servers
        make_topics(a, {"orders": 3})
        produce(a, "orders", 300, partitions=3)
        with our_mirror_maker_2(tmp_path, properties(("A", "B"), (a, b), settings)) as program:
            program.until("the records", lambda: count_of(b, "A.orders", 3) == 300)
            for group, offsets in GROUPS.items():
                commit(a, group, offsets)
            wanted = {("shop", "A.orders-0"), ("shop", "A.orders-1"), ("late", "A.orders-0")}
            program.until("the checkpoints", lambda: wanted <= last_checkpoints(b, CHECKPOINTS).keys())
            program.until("the source's heartbeats", lambda: "A.heartbeats" in topics_of(b))
            assert program.stop() in (0, 143)
        theirs = java_program(PROGRAM, b, "A", "nobody", *GROUPS, "nobody")
        assert theirs.returncode == 0, theirs.stderr[-3000:]
        ours = our_answers(b)
        assert theirs.stdout.splitlines() == ours
        assert "hops 1" in ours and "hops-of-nobody -1" in ours
        assert next(line for line in ours if line.startswith("group shop")).count("=") >= 2
