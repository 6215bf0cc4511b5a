"""Scenarios of KIP-1279 on whole clusters, with the results that this project expects.

S11, S12, S15, S16 and S19 are in test_e14_synced_clusters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    data_batch,
    kafka_mirrors,
    keys_read,
    kip_transactions,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    rebuild_log,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.record.record_batch import iter_batches

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def start_mirror(a: EmbeddedCluster, b: EmbeddedCluster, *, mirror: str = "m", topic: str = "t") -> None:
    create_mirror(b.bootstrap_servers, mirror, a.bootstrap_servers)
    add(b.bootstrap_servers, mirror, topic)
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, mirror)


def same(a: EmbeddedCluster, b: EmbeddedCluster, topic_partition: str = "t-0") -> bool:
    left = log_bytes(a.log_dir(), topic_partition)
    return len(left) > 0 and left == log_bytes(b.log_dir(), topic_partition)


@pytest.mark.parametrize(("through", "cut", "keys"), [(1, 0, []), (3, 0, []), (4, 5, [b"A", b"B"]), (5, 6, [b"A", b"B", b"Z"])])
def test_s9_failover_of_the_kips_transactions(clusters: Clusters, through: int, cut: int, keys: list[bytes]) -> None:
    """The source dies when B has the log through offset 1, 3, 4 or 5."""
    a, b = clusters
    log = kip_transactions()
    create_topic(a.bootstrap_servers, "t")
    rebuild_log(a, "t-0", b"".join(log))
    start_mirror(a, b)
    assert log_bytes(b.log_dir(), "t-0") == b"".join(log)
    a.kill_node()
    rebuild_log(b, "t-0", b"".join(log[: through + 1]))
    (loss,) = json.loads(kafka_mirrors(b.bootstrap_servers, "--remove", "--mirror", "m", "--topic", "t", "--dry-run", "--json"))
    remove(b.bootstrap_servers, "m", "t")
    (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
    ours = log_bytes(b.log_dir(), "t-0")
    kept = b"".join(log[:cut])
    assert ours.startswith(kept) and [batch.base_offset for batch in iter_batches(ours[len(kept) :])] == [cut]
    assert (loss["cutOffset"], loss["logEndOffset"]) == (cut, through + 1)
    assert row.destination_offset == cut + 1 and row.last_mirror_epoch == (0 if cut else -1)
    assert call(b.bootstrap_servers, lambda admin: admin.list_offsets([TopicPartition("t", 0)], isolation_level=1)) == {
        TopicPartition("t", 0): cut + 1
    }
    assert produce(b.bootstrap_servers, "t", ["after"], enable_idempotence="true") == []
    assert keys_read(b.bootstrap_servers, "t") == [*keys, b"k0"]


def test_s10_compacted_gaps_stay_and_the_reset_follows_the_highest_mirrored_offset(clusters: Clusters) -> None:
    a, b = clusters
    offsets = [offset for offset in range(101) if not 30 <= offset <= 40 and not 60 <= offset <= 70]
    log = b"".join(data_batch(offset, (f"key-{offset}".encode(), b"v")) for offset in offsets)
    create_topic(a.bootstrap_servers, "t", cleanup_policy="compact")
    rebuild_log(a, "t-0", log)
    start_mirror(a, b)
    assert log_bytes(b.log_dir(), "t-0") == log
    a.kill_node()
    remove(b.bootstrap_servers, "m", "t")
    (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert row.destination_offset == 102
    assert produce(b.bootstrap_servers, "t", ["local"]) == []
    reset, local = list(iter_batches(log_bytes(b.log_dir(), "t-0")))[-2:]
    assert (reset.base_offset, reset.is_control, local.base_offset) == (101, True, 102)
    assert local.partition_leader_epoch == reset.partition_leader_epoch > 0


def test_s13_destination_restarts_where_the_source_begins_when_retention_passed_it(clusters: Clusters) -> None:
    """50 records are mirrored; then the source's log starts at 100, above the destination's end."""
    a, b = clusters
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", 50))
    start_mirror(a, b)
    b.kill_node()
    rebuild_log(a, "t-0", b"".join(data_batch(offset, (b"k", b"v")) for offset in range(100, 120)))
    b.start_node()
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert same(a, b)
    start = call(b.bootstrap_servers, lambda admin: admin.list_offsets([TopicPartition("t", 0)], timestamp=-2))
    assert start == {TopicPartition("t", 0): 100}


def test_s14_fan_out_and_fan_in_stop_on_their_own(clusters: Clusters) -> None:
    """B and C mirror A, and then C also mirrors another topic from B.

    Each stop writes its own reset.
    """
    a, b = clusters
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as c:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 30))
        create_topic(b.bootstrap_servers, "u")
        produce(b.bootstrap_servers, "u", numbered("b", 30))
        start_mirror(a, b)
        start_mirror(a, c)
        start_mirror(b, c, mirror="n", topic="u")
        assert same(a, b) and same(a, c) and same(b, c, "u-0")
        remove(c.bootstrap_servers, "m", "t")
        wait_state(c.bootstrap_servers, "m", "STOPPED")
        produce(a.bootstrap_servers, "t", numbered("a2", 10))
        produce(b.bootstrap_servers, "u", numbered("b2", 10))
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "n")
        assert same(a, b) and same(b, c, "u-0")
        assert partitions_of(c.bootstrap_servers, "m")[0].destination_offset == 31


def test_s14_a_chains_end_clears_its_producers_at_the_middles_reset(clusters: Clusters) -> None:
    """In the chain A -> B -> C, B fails over. Its reset reaches C as data and empties C's producer
    state.
    """
    a, b = clusters
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as c:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 30), enable_idempotence="true")
        start_mirror(a, b)
        start_mirror(b, c, mirror="n")
        assert producer_ids(c, "t") != []
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "n")
        assert same(b, c) and producer_ids(c, "t") == []
        remove(c.bootstrap_servers, "n", "t")
        (row,) = wait_state(c.bootstrap_servers, "n", "STOPPED")
        resets = [batch for batch in iter_batches(log_bytes(c.log_dir(), "t-0")) if batch.is_control]
        assert [batch.base_offset for batch in resets] == [30, 31] and row.last_mirror_epoch == resets[0].partition_leader_epoch
        assert resets[1].partition_leader_epoch > resets[0].partition_leader_epoch


def producer_ids(cluster: EmbeddedCluster, topic: str) -> list[int]:
    return cluster.call(
        lambda server: sorted(
            server.broker.replica_manager.get_partition(TopicPartition(topic, 0)).leader_log.producer_state_manager.active_producers
        )
    )


def start_mirror_of_empty_topic(a: EmbeddedCluster, b: EmbeddedCluster) -> None:
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "MIRRORING")


def test_other_segment_boundaries_at_the_destination_hold_the_same_bytes(clusters: Clusters) -> None:
    """If the mirror excludes segment.bytes from the sync, each side rolls segments on its own, and
    the bytes are still the same.
    """
    a, b = clusters
    create_topic(a.bootstrap_servers, "t", segment_bytes="1048576")
    exclude = {"bootstrap.servers": a.bootstrap_servers, "mirror.topic.properties.exclude": "segment\\.bytes"}
    call(b.bootstrap_servers, lambda admin: admin.create_mirror("m", exclude))
    for index in range(12):
        produce(a.bootstrap_servers, "t", ["x" * 100_000 for _ in range(3)] + [str(index)], batch=2)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert same(a, b)
    count = [len(list((cluster.log_dir() / "t-0").glob("*.log"))) for cluster in clusters]
    assert count[0] > 2 and count[1] == 1


def test_fea2b_the_local_cleaner_keeps_a_mirror_of_a_compacted_topic_from_growing() -> None:
    """The source's cleaner removes records that are mirrored already, so the destination's cleaner
    must do the same although the topic is read-only (FEA2b).
    """
    fast = {**FAST_MIRROR, "log.cleaner.backoff.ms": "200"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=fast) as b:
        configs = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}
        create_topic(a.bootstrap_servers, "t", **configs)
        start_mirror_of_empty_topic(a, b)
        for _ in range(6):
            produce(a.bootstrap_servers, "t", ["x" * 100_000 for _ in range(14)], batch=7)
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")

        def cleaned() -> bool:
            batches = list(iter_batches(log_bytes(b.log_dir(), "t-0")))
            return sum(batch.size_in_bytes for batch in batches) < 4_000_000 and batches[-1].last_offset == 83

        wait_for("the destination's cleaner", cleaned)
        assert produce(b.bootstrap_servers, "t", ["refused"]) != []
