"""Decisions about contradictions in the KIP's text (section B), as far as no other test of the
conformance suite shows them under their number.
"""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    create_mirror,
    create_topic,
    numbered,
    produce,
    send,
    wait_caught_up,
)
from support.mirrors.mirror_machine import MIRROR, MirrorMachine
from support.mirrors.scripted_source import batch

from kmirror import EmbeddedCluster
from kmirror.mirror.mirror_state_machine import VALID_TRANSITIONS, MirrorPartitionState
from kmirror.wire.api_keys import API_TABLE, ApiKeys
from kmirror.wire.messages import create_topics, fetch, metadata
from kmirror.wire.messages import describe_mirrors as describe
from kmirror.wire.mirror_dialect import MIRROR_API_KEYS, mirror_dialect
from kmirror.wire.primitives import Writer

S = MirrorPartitionState


def before(state: MirrorPartitionState) -> set[MirrorPartitionState]:
    """The states that may be followed by this one."""
    return {source for source, following in VALID_TRANSITIONS.items() if state in following}


def test_b2_what_preparing_follows_on() -> None:
    """MIRRORING by an unclean election here; never FAILED, which a removal leaves."""
    assert before(S.PREPARING) == {S.UNKNOWN, S.MIRRORING, S.STOPPED}


def test_b3_what_stopping_follows_on() -> None:
    assert before(S.STOPPING) == {S.UNKNOWN, S.PREPARING, S.MIRRORING, S.PAUSING, S.PAUSED, S.FAILED}


@pytest.mark.parametrize("state", ["PREPARING", "MIRRORING", "PAUSED"])
async def test_b3_a_removal_stops_from_each_state(tmp_path: Path, state: str) -> None:
    machine = MirrorMachine(str(tmp_path))
    machine.source.create("t")
    machine.at_source(batch(0, b"a"))
    if state == "PREPARING":
        machine.source.down.update(machine.source.addresses.values())
    machine.topic()
    await machine.reach("PREPARING" if state == "PREPARING" else "MIRRORING")
    if state == "PAUSED":
        machine.name(f"{MIRROR}.paused")
    await machine.reach(state)
    machine.name(f"{MIRROR}.paused.removed" if state == "PAUSED" else f"{MIRROR}.removed")
    await machine.reach("STOPPED")
    assert machine.states_written()[-2:] == ["STOPPING", "STOPPED"]
    await machine.close()


async def test_b4_failed_is_left_by_remove_and_begun_anew_by_add(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    damaged = bytearray(batch(1, b"b"))
    damaged[-1] ^= 1
    machine.source.create("t")
    machine.at_source(batch(0, b"a"), bytes(damaged))
    machine.topic()
    await machine.reach("FAILED", within_ms=90_000)
    await machine.advance(60_000, step_ms=1_000)
    assert machine.state() == "FAILED", "time alone mends nothing"
    machine.name(f"{MIRROR}.removed")
    await machine.reach("STOPPED")
    machine.source.log("t").batches[1:] = [batch(1, b"b")]
    machine.name(MIRROR)
    await machine.reach("MIRRORING")
    await machine.advance(600)
    assert machine.log().log_end_offset == 2
    written = machine.states_written()
    assert written[written.index("FAILED") :] == ["FAILED", "STOPPING", "STOPPED", "PREPARING", "MIRRORING"]
    await machine.close()


def test_b21_there_is_no_state_initializing() -> None:
    assert "INITIALIZING" not in S.__members__
    assert "INITIALIZING" not in mirror_dialect().state_names.values()


def test_b24_authorized_operations_are_asked_for_in_vain() -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as cluster:
        create_mirror(cluster.bootstrap_servers, "m", "127.0.0.1:1")
        answers = [
            send(cluster.bootstrap_servers, describe.DescribeMirrorsRequest(mirror_names=["m"], include_authorized_operations=asked))
            for asked in (False, True)
        ]
        assert answers[0] == answers[1] and answers[0].mirrors[0].error_code == 0


@pytest.mark.parametrize("codec", ["zstd", "uncompressed", "gzip"])
def test_b26_a_mirrored_batch_keeps_its_codec(codec: str) -> None:
    """compression.type of the topic, the same on both sides, is none of the codecs that producers
    used; and another one here.
    """
    with EmbeddedCluster(mirroring=True) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        for sent in ("none", "lz4", "snappy"):
            produce(a.bootstrap_servers, "t", numbered(sent, 20), compression_codec=sent)
        create_topic_like_the_source(a, b, codec)
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert_equal_logs(a.log_dir(), b.log_dir(), ["t-0"])


def create_topic_like_the_source(a: EmbeddedCluster, b: EmbeddedCluster, codec: str) -> None:
    """The topic at b has the id that it has at a, as the tool makes it, and a compression.type of
    its own.
    """
    asked = metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    topic_id = send(a.bootstrap_servers, asked).topics[0].topic_id
    wanted = create_topics.CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=[create_topics.CreatableTopicConfig(name="compression.type", value=codec)],
        mirror_info=create_topics.MirrorInfo(topic_id=topic_id),
    )
    answer = send(b.bootstrap_servers, create_topics.CreateTopicsRequest(topics=[wanted], timeout_ms=9_000), version=8)
    assert answer.topics[0].error_code == 0, answer


SLIPS = ("kafka.serverr", "kafka.server,mirror", "kafka.serve.mirror", "cclientId")


def test_b38_no_metric_has_one_of_the_kips_slips() -> None:
    with EmbeddedCluster(mirroring=True) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        names = set(b.metrics())
        assert not [name for name in names if any(slip in name for slip in SLIPS)]
        manager = "kafka.server.mirror:type=MirrorFetcherManager,name={},clientId=MirrorReplica"
        assert {manager.format(name) for name in ("MaxLag", "MinFetchRate")} <= names
        assert "kafka.server.mirror:type=MirrorMetadataManager,name=MetadataRefreshError" in names
        assert not [name for name in names if "name=MirrorReplica" in name or "name=aclSyncError" in name]


def test_b41_the_tool_is_kafka_mirrors() -> None:
    scripts = {script.name for script in importlib.metadata.entry_points(group="console_scripts") if script.value.startswith("kmirror.")}
    assert "kafka-mirrors" in scripts and "kafka-mirror" not in scripts


def test_b45_the_current_leader_epoch_is_asked_with() -> None:
    assert "current_leader_epoch" in fetch.FetchPartition.__struct_fields__
    assert "current_leader_epoch" not in fetch.PartitionData.__struct_fields__


@pytest.mark.parametrize(
    "api_key", [ApiKeys(key) for key in sorted(MIRROR_API_KEYS)], ids=[f"B50-{key}" for key in sorted(MIRROR_API_KEYS)]
)
def test_errors_are_told_from_version_0_on(api_key: ApiKeys) -> None:
    out = Writer()
    response = API_TABLE[api_key].response()
    response.error_code = 42
    response.write(out, 0)
    read, _ = type(response).read(memoryview(b"".join(bytes(part) for part in out.parts())), 0, 0)
    assert read.error_code == 42


async def test_b51_an_open_transaction_keeps_lag_above_0_and_nothing_more_is_fetched(tmp_path: Path) -> None:
    machine = MirrorMachine(str(tmp_path))
    await machine.mirroring(batch(0, b"decided"))
    machine.source.log("t").last_stable_offset = 1
    machine.at_source(batch(1, b"open"), batch(2, b"behind it"))
    await machine.advance(5_000)
    assert machine.log().log_end_offset == 1
    row = machine.mirror.describe(MIRROR)[0]
    assert (row.source_offset, row.destination_offset, row.lag) == (3, 1, 2)
    machine.source.log("t").last_stable_offset = 3
    machine.source.notify()
    await machine.advance(1_000)
    assert machine.log().log_end_offset == 3 and machine.mirror.describe(MIRROR)[0].lag == 0
    await machine.close()
