"""Loops, chains and replaced sources: what a mirror refuses, and what it follows."""

from __future__ import annotations

from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    log_bytes,
    numbered,
    partitions_of,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.embedded import EmbeddedCluster


def test_c34_both_directions_added_truncates_neither_log() -> None:
    """B mirrors A, and then A is told to mirror B under another mirror name.

    A waits and keeps its log (C34, F4).
    """
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 30))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        create_mirror(a.bootstrap_servers, "back", b.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        before = log_bytes(a.log_dir(), "t-0")
        add(a.bootstrap_servers, "back", "t")
        wait_state(a.bootstrap_servers, "back", "PREPARING")
        remove(a.bootstrap_servers, "back", "t")
        wait_state(a.bootstrap_servers, "back", "STOPPED")
        assert log_bytes(a.log_dir(), "t-0").startswith(before)
        assert log_bytes(b.log_dir(), "t-0").startswith(before)


def test_s14_chain_of_three_stays_equal_over_an_epoch_change_and_a_failover_in_the_middle() -> None:
    """A -> B -> C: A restarts in a new epoch, B fails over, and C follows B (F7, S14)."""
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b,
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as c,
    ):
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 30))
        create_mirror(b.bootstrap_servers, "ab", a.bootstrap_servers)
        add(b.bootstrap_servers, "ab", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "ab")
        create_mirror(c.bootstrap_servers, "bc", b.bootstrap_servers)
        add(c.bootstrap_servers, "bc", "t")
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "bc")
        for round_number in range(3):
            a.kill_node()
            a.start_node()
            produce(a.bootstrap_servers, "t", numbered(f"round{round_number}", 10))
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "ab")
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "bc")
        assert log_bytes(a.log_dir(), "t-0") == log_bytes(b.log_dir(), "t-0") == log_bytes(c.log_dir(), "t-0")
        remove(b.bootstrap_servers, "ab", "t")
        wait_state(b.bootstrap_servers, "ab", "STOPPED")
        assert produce(b.bootstrap_servers, "t", numbered("b", 10)) == []
        wait_caught_up(c.bootstrap_servers, b.bootstrap_servers, "bc")
        assert log_bytes(b.log_dir(), "t-0") == log_bytes(c.log_dir(), "t-0")


def test_source_retention_moves_the_destinations_log_start() -> None:
    """The source deletes records while the destination is paused below them (S13)."""
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"])).all()
        wait_state(b.bootstrap_servers, "m", "PAUSED")
        produce(a.bootstrap_servers, "t", numbered("a2", 40))
        _delete_records(a, "t", 50)
        call(b.bootstrap_servers, lambda admin: admin.resume_mirror_topics("m", ["t"])).all()
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        produce(a.bootstrap_servers, "t", numbered("a3", 10))
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        assert wait_for("the end", lambda: partitions_of(b.bootstrap_servers, "m")[0].destination_offset == 70)
        assert log_bytes(a.log_dir(), "t-0").endswith(log_bytes(b.log_dir(), "t-0"))


def _delete_records(cluster: EmbeddedCluster, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(REACHED_S)


def test_c11_failover_while_preparing_towards_a_dead_source_is_quick_and_keeps_the_log() -> None:
    """Stopping does not contact the source (D4), and stores none of the destination's own epochs as
    last mirror epoch (F6).
    """
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(b.bootstrap_servers, "t")
        produce(b.bootstrap_servers, "t", numbered("own", 30))
        create_mirror(b.bootstrap_servers, "m", "127.0.0.1:1")
        add(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "PREPARING")
        before = log_bytes(b.log_dir(), "t-0")
        assert produce(b.bootstrap_servers, "t", ["refused"]) != []
        remove(b.bootstrap_servers, "m", "t")
        (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
        assert (row.destination_offset, row.last_mirror_epoch) == (31, -1)
        assert log_bytes(b.log_dir(), "t-0").startswith(before)
        assert produce(b.bootstrap_servers, "t", numbered("again", 5)) == []


def test_d5_topic_id_that_is_not_the_sources_fails_and_cuts_nothing() -> None:
    """A topic of the same name with another id becomes FAILED, and a removal makes it writable
    again (D5 step 1).
    """
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        for cluster in (a, b):
            create_topic(cluster.bootstrap_servers, "t")
            produce(cluster.bootstrap_servers, "t", numbered("x", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "FAILED")
        remove(b.bootstrap_servers, "m", "t")
        (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
        assert row.destination_offset == 21
