"""Two one-node clusters: mirror, fail over, fail back, with kills in between; both logs end
byte-identical.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
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
    wait_state,
)

from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.embedded import EmbeddedCluster


@pytest.fixture
def clusters() -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        yield a, b


def mirrored(a: EmbeddedCluster, b: EmbeddedCluster, *, records: int = 40) -> None:
    """Topic t of A is mirrored by B and caught up."""
    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", records))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")


def same_logs(a: EmbeddedCluster, b: EmbeddedCluster, topic_partition: str = "t-0") -> bool:
    first, second = log_bytes(a.log_dir(), topic_partition), log_bytes(b.log_dir(), topic_partition)
    return len(first) > 0 and first == second


def test_the_whole_circle_ends_with_equal_logs(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    a, b = clusters
    mirrored(a, b)
    assert same_logs(a, b)
    errors = produce(b.bootstrap_servers, "t", ["refused"])
    assert [error.code() for error in errors] == [Errors.READ_ONLY_TOPIC]

    remove(b.bootstrap_servers, "m", "t")
    (row,) = wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert (row.destination_offset, row.last_mirror_epoch) == (41, 0)
    produce(a.bootstrap_servers, "t", numbered("lost", 25))
    assert produce(b.bootstrap_servers, "t", numbered("b", 30), enable_idempotence="true") == []

    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    add(a.bootstrap_servers, "m", "t")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
    assert same_logs(a, b)
    assert b"lost" not in log_bytes(a.log_dir(), "t-0")
    produce(b.bootstrap_servers, "t", numbered("more", 10))
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
    assert same_logs(a, b)


def test_pause_and_resume_go_on_where_they_stopped(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    a, b = clusters
    mirrored(a, b)
    call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"])).all()
    wait_state(b.bootstrap_servers, "m", "PAUSED")
    assert (
        call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"])).failed["t"].error
        is Errors.MIRROR_TOPIC_ALREADY_PAUSED
    )
    produce(a.bootstrap_servers, "t", numbered("p", 20))
    assert partitions_of(b.bootstrap_servers, "m")[0].destination_offset == 40
    call(b.bootstrap_servers, lambda admin: admin.resume_mirror_topics("m", ["t"])).all()
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert same_logs(a, b)


def test_a_state_topic_that_was_deleted_is_created_anew(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """The states that it held are then decided from the logs (C38).

    Once, a failover without the topic waited until somebody created a mirror. Deleting the topic
    takes two steps.
    """
    a, b = clusters
    mirrored(a, b)
    address = b.bootstrap_servers
    assert call(address, lambda admin: admin.delete_topics(["__mirror_state"])).failed["__mirror_state"].error is Errors.POLICY_VIOLATION
    allow = ("mirror.topic.deletion.enable", ConfigOperation.SET, "true")
    call(address, lambda admin: admin.incremental_alter_configs(ConfigResourceType.BROKER, "", [allow]))
    call(address, lambda admin: admin.delete_topics(["__mirror_state"])).all()
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert produce(b.bootstrap_servers, "t", numbered("b", 10)) == []


def test_requests_answer_what_d6_says(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    a, b = clusters
    mirrored(a, b)
    address = b.bootstrap_servers
    with pytest.raises(ApiException, match="already exists") as caught:
        create_mirror(address, "m", a.bootstrap_servers)
    assert caught.value.error is Errors.INVALID_MIRROR_NAME
    with pytest.raises(ApiException) as caught:
        create_mirror(address, "x.paused", a.bootstrap_servers)
    assert caught.value.error is Errors.INVALID_MIRROR_NAME
    with pytest.raises(ApiException) as caught:
        add(address, "nosuch", "t")
    assert caught.value.error is Errors.UNKNOWN_MIRROR
    with pytest.raises(ApiException) as caught:
        call(address, lambda admin: admin.delete_mirror("m"))
    assert caught.value.error is Errors.MIRROR_NOT_EMPTY
    assert call(address, lambda admin: admin.add_topics_to_mirror("m", ["t"])).failed["t"].error is Errors.TOPIC_ALREADY_IN_MIRROR
    assert call(address, lambda admin: admin.resume_mirror_topics("m", ["t"])).failed["t"].error is Errors.MIRROR_TOPIC_NOT_PAUSED
    assert call(address, lambda admin: admin.add_topics_to_mirror("m", ["u"])).failed["u"].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    remove(address, "m", "t")
    wait_state(address, "m", "STOPPED")
    assert call(address, lambda admin: admin.remove_topics_from_mirror("m", ["t"])).failed["t"].error is Errors.TOPIC_NOT_IN_MIRROR
    assert call(address, lambda admin: admin.pause_mirror_topics("m", ["t"])).failed["t"].error is Errors.MIRROR_TOPIC_BEING_REMOVED
    call(address, lambda admin: admin.delete_mirror("m"))
    assert call(address, lambda admin: admin.list_mirrors()) == []
    assert produce(address, "t", ["free"]) == []


def test_records_after_failover_in_the_same_epoch_do_not_survive_failback(clusters: tuple[EmbeddedCluster, EmbeddedCluster]) -> None:
    """Entry 1 of the reference deviations: one own record at the marker's offset, and a batch that
    the cut falls into.
    """
    a, b = clusters
    mirrored(a, b)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    produce(a.bootstrap_servers, "t", ["own"])
    produce(a.bootstrap_servers, "t", numbered("wide", 10))
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    add(a.bootstrap_servers, "m", "t")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
    assert same_logs(a, b)


STAGES = ("adding", "mirroring", "stopping", "failing back")


@pytest.mark.parametrize(("stage", "victim"), list(itertools.product(STAGES, (0, 1))))
def test_sigkill_at_any_stage_is_made_good(clusters: tuple[EmbeddedCluster, EmbeddedCluster], stage: str, victim: int) -> None:
    a, b = clusters

    def disaster(now: str) -> None:
        if now == stage:
            clusters[victim].kill_node()
            clusters[victim].start_node()

    create_topic(a.bootstrap_servers, "t")
    produce(a.bootstrap_servers, "t", numbered("a", 40))
    create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
    add(b.bootstrap_servers, "m", "t")
    disaster("adding")
    wait_state(b.bootstrap_servers, "m", "MIRRORING")
    produce(a.bootstrap_servers, "t", numbered("a2", 20))
    disaster("mirroring")
    wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
    assert same_logs(a, b)
    remove(b.bootstrap_servers, "m", "t")
    disaster("stopping")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert produce(b.bootstrap_servers, "t", numbered("b", 20)) == []
    produce(a.bootstrap_servers, "t", numbered("lost", 15))
    create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
    add(a.bootstrap_servers, "m", "t")
    disaster("failing back")
    wait_caught_up(a.bootstrap_servers, b.bootstrap_servers, "m")
    assert same_logs(a, b)
