"""The KIP's reference build as peer, in both directions, and its tool on our `__mirror_state`."""

from __future__ import annotations

import pathlib

import pytest
from mirror_scenarios import (
    FAST_MIRROR,
    add,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_state,
)
from peers import KafkaPeer, reference_kafka

from kmirror.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop


def mirrors(peer: KafkaPeer, *arguments: str) -> None:
    done = peer.tool("org.apache.kafka.tools.MirrorCommand", "--bootstrap-server", peer.bootstrap_servers, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr


def reference_mirrors(peer: KafkaPeer, mirror: str, source: str, topic: str) -> None:
    """Create the mirror at the reference and add the topic, with its own tool."""
    config = peer.folder / "mirror.properties"
    config.write_text(f"bootstrap.servers={source}\n")
    mirrors(peer, "--create", "--mirror", mirror, "--mirror-config", str(config))
    mirrors(peer, "--add", "--topic", topic, "--mirror", mirror)


def test_we_mirror_the_reference_and_it_fails_back_from_us(tmp_path: pathlib.Path) -> None:
    with reference_kafka(tmp_path / "reference") as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 40))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert log_bytes(b.log_dir(), "t-0") == log_bytes(a.data, "t-0")
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        produce(b.bootstrap_servers, "t", numbered("b", 30))
        reference_mirrors(a, "m", b.bootstrap_servers, "t")
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
        assert log_bytes(a.data, "t-0") == log_bytes(b.log_dir(), "t-0")


def test_the_reference_mirrors_us_and_we_fail_back_from_it(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, reference_kafka(tmp_path / "reference") as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 40))
        reference_mirrors(b, "m", a.bootstrap_servers, "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert log_bytes(b.data, "t-0") == log_bytes(a.log_dir(), "t-0")
        mirrors(b, "--remove", "--topic", "t", "--mirror", "m")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        produce(b.bootstrap_servers, "t", numbered("b", 30))
        create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
        add(a.bootstrap_servers, "m", "t")
        wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
        assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.data, "t-0")


def test_the_references_tool_reads_our_mirror_state(tmp_path: pathlib.Path) -> None:
    with EmbeddedCluster(mirroring=True, config={**FAST_MIRROR, "mirror.topic.num.partitions": "1"}) as b, EmbeddedCluster() as a:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 10))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        log = b.log_dir() / "__mirror_state-0" / "00000000000000000000.log"
        copy = tmp_path / "__mirror_state-0" / log.name
        copy.parent.mkdir()
        copy.write_bytes(log_bytes(b.log_dir(), "__mirror_state-0"))
        peer = reference_peer(tmp_path)
        done = peer.tool("kafka.tools.DumpLogSegments", "--mirror-state-decoder", "--files", str(copy))
        payloads = [line.split("payload: ", 1)[1] for line in done.stdout.splitlines() if "payload: " in line]
        assert payloads == [
            *(f'{{"version":"0","data":{{"topicName":"t","partition":0,"state":{state}}}}}' for state in (0, 1, 4)),
            '{"version":"0","data":{"topics":[{"name":"t","partitions":[{"partitionIndex":0,"lastMirrorEpoch":0}]}]}}',
            '{"version":"0","data":{"topicName":"t","partition":0,"state":5}}',
        ], done.stdout + done.stderr


def reference_peer(folder: pathlib.Path) -> KafkaPeer:
    from peers import reference_classpath

    return KafkaPeer(folder / "tool", reference_classpath(), mirroring=True)
