"""The front of a mirror's log on real clusters whose brokers' defaults differ (FEA2b, FEA3): what the
source has, the destination has.

The destination's brokers keep next to nothing by their own defaults, look every 100 ms, and clean.
"""

from __future__ import annotations

import time
from functools import partial

import pytest
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    assert_equal_logs,
    call,
    create_mirror,
    create_topic,
    kafka_mirrors,
    numbered,
    produce,
    remove,
    wait_caught_up,
    wait_for,
    wait_state,
)

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.embedded import EmbeddedCluster
from kmirror.server.kafka_server import KafkaServer

T0 = TopicPartition("t", 0)
AT_ONCE = {
    **FAST_MIRROR,
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "log.roll.ms": "300",
}
HARSH = [
    {"log.retention.ms": "1"},
    {"log.retention.bytes": "1"},
    {"log.cleanup.policy": "compact", "log.cleaner.min.cleanable.ratio": "0.01"},
    {"log.cleanup.policy": "compact,delete", "log.cleaner.min.cleanable.ratio": "0.01", "log.retention.ms": "1"},
]


def mirror_without_configs(a: EmbeddedCluster, b: EmbeddedCluster) -> None:
    """A mirror whose topics have the destination's defaults for good."""
    configs = {"bootstrap.servers": a.bootstrap_servers, "mirror.topic.properties.exclude": ".*"}
    call(b.bootstrap_servers, lambda admin: admin.create_mirror("m", configs))


def front(cluster: EmbeddedCluster, node: int = 0) -> int:
    return cluster.call(lambda server: server.broker.replica_manager.get_partition(T0).local_log.log_start_offset, node)


def pass_rounds(cluster: EmbeddedCluster, nodes: int = 1) -> None:
    """Runs the retention and the cleaner of every node so often that the tasks' own runs do not
    matter.
    """

    def round_of(server: KafkaServer) -> None:
        assert server.broker is not None and server.broker.log_manager.cleaner is not None
        manager, cleaner = server.broker.log_manager, server.broker.log_manager.cleaner
        manager.tasks.cleanup_logs()
        while cleaner.clean_filthiest_log():
            pass

    for _ in range(3):
        for node in range(nodes):
            cluster.call(round_of, node)


@pytest.mark.parametrize("defaults", HARSH, ids=lambda defaults: ",".join(defaults.values()))
def test_fea3_defaults_of_the_destination_delete_nothing_of_a_mirror(defaults: dict[str, str]) -> None:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config={**AT_ONCE, **defaults}) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("old", 40))
        mirror_without_configs(a, b)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        time.sleep(0.4)  # log.roll.ms has passed, so that the first part can be cleaned
        produce(a.bootstrap_servers, "t", numbered("new", 10))
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        pass_rounds(b)
        assert front(b) == 0
        assert_equal_logs(a.log_dir(), b.log_dir(), ["t-0"])
        b.stop_node()
        b.start_node()
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        pass_rounds(b)
        assert_equal_logs(a.log_dir(), b.log_dir(), ["t-0"])
        call(a.bootstrap_servers, lambda admin: admin.delete_records({T0: 25}))
        wait_for("the source's log start", lambda: front(b) == 25)


def test_fea3_followers_and_new_leaders_keep_the_front_too() -> None:
    """The log of a mirror that was failed over is deleted by its leader, and then by the others."""
    harsh = {**AT_ONCE, "log.retention.ms": "1", "mirror.topic.replication.factor": "3", "default.replication.factor": "3"}
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(3, mirroring=True, config=harsh) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("old", 40))
        mirror_without_configs(a, b)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        for node in range(3):  # each is restarted, so that each was a follower, and the leader moved
            b.stop_node(node)
            b.start_node(node)
            wait_state(b.bootstrap_servers, "m", "MIRRORING")
            pass_rounds(b, 3)
            assert [front(b, each) for each in range(3)] == [0, 0, 0]
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        wait_for("the log starts of all replicas", lambda: {front(b, node) for node in range(3)} == {41})


UNSYNCED = {
    **AT_ONCE,
    "mirror.metadata.refresh.interval.ms": "3600000",
    "mirror.topic.replication.factor": "2",
    "default.replication.factor": "2",
}
COMPACT_AT_ONCE = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "min.compaction.lag.ms": "0", "retention.ms": "1"}


@pytest.mark.parametrize("source", [{"cleanup.policy": "delete"}, {"cleanup.policy": "compact", "min.compaction.lag.ms": "86400000"}])
def test_fea2b_overrides_of_a_moment_destroy_nothing_of_a_mirror(source: dict[str, str]) -> None:
    """An operator sets them on the mirror; the sync of configs would undo that within a cycle. The
    topic has one key ten times, for a cleaner to take nine.
    """
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(2, mirroring=True, config=UNSYNCED) as b:
        create_topic(a.bootstrap_servers, "t", segment_ms="300", **{name.replace(".", "_"): value for name, value in source.items()})
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        call(b.bootstrap_servers, partial(set_configs, [(name, ConfigOperation.SET, value) for name, value in COMPACT_AT_ONCE.items()]))
        for number in range(2):
            produce(a.bootstrap_servers, "t", numbered(str(number), 20))
            wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
            time.sleep(0.4)  # segment.ms has passed, so that the first part can be cleaned
        pass_rounds(b, 2)
        assert overrides(b)["cleanup.policy"] == "compact", "no sync was between"
        for node in range(2):
            assert_equal_logs(a.log_dir(), b.log_dir(node), ["t-0"])


@pytest.mark.parametrize("how", ["resume", "restart"])
def test_syn6_configs_that_changed_while_nothing_was_fetched_are_there_before_the_next_record(how: str) -> None:
    """A source that compacts no more, while the mirror was paused, or the destination was down."""
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=SLOW) as b:
        create_topic(a.bootstrap_servers, "t", cleanup_policy="compact", delete_retention_ms="7")
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        assert overrides(b) == {"cleanup.policy": "compact", "delete.retention.ms": "7"}
        if how == "resume":
            call(b.bootstrap_servers, lambda admin: admin.pause_mirror_topics("m", ["t"]))
            wait_state(b.bootstrap_servers, "m", "PAUSED")
        else:
            b.stop_node()
        changes = [("cleanup.policy", ConfigOperation.SET, "delete"), ("retention.ms", ConfigOperation.SET, "-1")]
        call(a.bootstrap_servers, partial(set_configs, changes))
        produce(a.bootstrap_servers, "t", ["new"])
        if how == "resume":
            call(b.bootstrap_servers, lambda admin: admin.resume_mirror_topics("m", ["t"]))
        else:
            b.start_node()
        wait_for("the new record", lambda: b.call(lambda server: server.broker.replica_manager.get_partition(T0).local_log.log_end_offset))
        assert overrides(b) == {"cleanup.policy": "delete", "delete.retention.ms": "7", "retention.ms": "-1"}


# --- configs in effect (C17, SYN6)

SLOW = {**FAST_MIRROR, "mirror.metadata.refresh.interval.ms": "3600000"}
"""No sync of configs while a test runs: what is there was there before the first record."""


def overrides(cluster: EmbeddedCluster, topic: str = "t") -> dict[str, str]:
    entries = call(cluster.bootstrap_servers, lambda admin: admin.describe_configs(ConfigResourceType.TOPIC, topic))
    return {entry.name: entry.value or "" for entry in entries if entry.source == 1 and not entry.name.startswith("mirror.")}


async def set_configs(changes: list[tuple[str, ConfigOperation, str | None]], admin: AdminClient) -> None:
    await admin.incremental_alter_configs(ConfigResourceType.TOPIC, "t", changes)


def test_syn6_a_mirror_that_is_failed_over_at_once_is_what_its_source_is() -> None:
    """The destination's defaults differ. The second time the topic is there, with configs of its own."""
    here = {**SLOW, "log.retention.hours": "1", "log.cleanup.policy": "compact", "message.max.bytes": "2000000"}
    there = {**FAST_MIRROR, "log.retention.ms": "-1"}
    expected = {"retention.ms": "-1", "cleanup.policy": "delete", "max.message.bytes": "1048588", "delete.retention.ms": "77"}
    with EmbeddedCluster(mirroring=True, config=there) as a, EmbeddedCluster(mirroring=True, config=here) as b:
        create_topic(a.bootstrap_servers, "t", delete_retention_ms="77")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        for _ in range(2):
            add(b.bootstrap_servers, "m", "t")
            wait_state(b.bootstrap_servers, "m", "MIRRORING")
            remove(b.bootstrap_servers, "m", "t")
            wait_state(b.bootstrap_servers, "m", "STOPPED")
            assert overrides(b) == expected
            own = {"retention.ms": "3600001", "cleanup.policy": "compact", "flush.ms": "5000"}
            changes = [(name, ConfigOperation.SET, value) for name, value in own.items()]
            call(b.bootstrap_servers, partial(set_configs, changes))


def test_syn6_a_failback_takes_the_configs_back_in_effect() -> None:
    """The old source's brokers keep an hour by now; the cluster that is failed back from keeps all."""
    there, here = ({**SLOW, "log.retention.hours": "1"}, {**SLOW, "log.retention.ms": "-1"})
    with EmbeddedCluster(mirroring=True, config=there) as a, EmbeddedCluster(mirroring=True, config=here) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        assert overrides(b) == {"retention.ms": "3600000"}
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        remove(b.bootstrap_servers, "m", "t")
        wait_state(b.bootstrap_servers, "m", "STOPPED")
        call(b.bootstrap_servers, partial(set_configs, [("retention.ms", ConfigOperation.DELETE, None)]))
        create_mirror(a.bootstrap_servers, "m", b.bootstrap_servers)
        add(a.bootstrap_servers, "m", "t")
        wait_state(a.bootstrap_servers, "m", "MIRRORING")
        assert overrides(a) == {"retention.ms": "-1"}


def test_c17_describe_shows_what_stands_for_the_sources_defaults() -> None:
    with (
        EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a,
        EmbeddedCluster(mirroring=True, config={**SLOW, "log.retention.hours": "1", "log.cleanup.policy": "compact"}) as b,
    ):
        create_topic(a.bootstrap_servers, "t", flush_ms="5000")
        create_topic(a.bootstrap_servers, "u", retention_ms="5", cleanup_policy="delete")
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t", "u")
        wait_state(b.bootstrap_servers, "m", "MIRRORING")
        told = kafka_mirrors(b.bootstrap_servers, "--describe", "--mirror", "m").splitlines()
        assert told[-2:] == [
            "Set here because the source's brokers have other defaults than this cluster's:",
            "  t: cleanup.policy=delete, retention.ms=604800000",
        ]
        change = [("mirror.source.defaults", ConfigOperation.SET, "flush.ms")]
        with pytest.raises(ApiException, match=r"mirror\.source\.defaults is internal"):
            call(b.bootstrap_servers, partial(set_configs, change))
