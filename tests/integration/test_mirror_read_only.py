"""What clients may not do to mirrored topics, and what is hidden or refused around mirrors (B30,
A9, E2, UPG5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from confluent_kafka import KafkaError, Producer
from support.mirrors.mirror_harness import (
    FAST_MIRROR,
    add,
    call,
    create_mirror,
    create_topic,
    numbered,
    produce,
    quiet,
    remove,
    send,
    wait_caught_up,
    wait_for,
    wait_state,
)
from support.waiting import REACHED_S

from kmirror.admin.admin_client import AdminClient
from kmirror.admin.results import ConfigOperation, ConfigResourceType
from kmirror.common.errors import ApiException, Errors
from kmirror.embedded import EmbeddedCluster
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.messages import (
    delete_records,
    list_config_resources,
)

Clusters = tuple[EmbeddedCluster, EmbeddedCluster]


@pytest.fixture
def clusters() -> Iterator[Clusters]:
    with EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as a, EmbeddedCluster(mirroring=True, config=FAST_MIRROR) as b:
        create_topic(a.bootstrap_servers, "t")
        produce(a.bootstrap_servers, "t", numbered("a", 20))
        create_mirror(b.bootstrap_servers, "m", a.bootstrap_servers)
        add(b.bootstrap_servers, "m", "t")
        wait_caught_up(b.bootstrap_servers, a.bootstrap_servers, "m")
        yield a, b


def changes_refused(b: EmbeddedCluster) -> dict[str, int | None]:
    """The error codes of everything that changes a topic."""

    def code(operation) -> int | None:  # type: ignore[no-untyped-def]
        failed = call(b.bootstrap_servers, operation).failed
        return failed["t"].error if "t" in failed else None

    partition = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
    topics = [delete_records.DeleteRecordsTopic(name="t", partitions=[partition])]
    answer = send(b.bootstrap_servers, delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=10_000))
    errors = produce(b.bootstrap_servers, "t", ["mine"], message_timeout_ms="1000")
    grown = code(lambda admin: admin.create_partitions({"t": 2}))
    if grown is None:
        wait_for("the new partition to be stopped, too", lambda: len(wait_state(b.bootstrap_servers, "m", "STOPPED")) == 2)
    return {
        "produce": errors[0].code() if errors else None,
        "records": answer.topics[0].partitions[0].error_code or None,
        "partitions": grown,
        "topic": code(lambda admin: admin.delete_topics(["t"])),
    }


STOPPING = {
    "produce": KafkaError._MSG_TIMED_OUT,  # it tries again, as the partition will be writable soon
    "records": Errors.NOT_LEADER_OR_FOLLOWER,
    "partitions": Errors.NOT_LEADER_OR_FOLLOWER,
    "topic": Errors.NOT_LEADER_OR_FOLLOWER,
}


def test_a_removed_topic_cannot_be_deleted_or_grown_before_it_is_stopped(clusters: Clusters) -> None:
    """The controller knows only `m.removed`; the broker knows that the partition is still STOPPING."""
    _, b = clusters

    def no_bumps(server: KafkaServer) -> None:
        assert server.broker is not None

        async def refused(request: object) -> None:
            raise ApiException(Errors.REQUEST_TIMED_OUT, f"no answer to {type(request).__name__}")

        server.broker.mirror.bumper._controller = type("Silent", (), {"send": staticmethod(refused)})()

    b.call(no_bumps)
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPING")
    assert changes_refused(b) == STOPPING
    b.stop_node()
    b.start_node()
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    assert changes_refused(b) == dict.fromkeys(STOPPING)


def write_at_once(b: EmbeddedCluster, partition: int, cause: Callable[[], object]) -> list[KafkaError | None]:
    """Writes to a partition from the moment that `cause` has returned: how each record ended."""
    outcomes: list[KafkaError | None] = []
    producer = Producer(
        quiet(
            {
                "bootstrap.servers": b.bootstrap_servers,
                "linger.ms": 0,
                "topic.metadata.refresh.interval.ms": 100,
                "message.timeout.ms": 60_000,
            }
        )
    )
    cause()
    for number in range(200):
        producer.produce("t", f"{number}", partition=partition, on_delivery=lambda error, _: outcomes.append(error))
        producer.poll(0.005)
    assert producer.flush(REACHED_S) == 0
    return outcomes


def test_a_partition_added_to_a_failed_over_topic_refused_writes_for_good(clusters: Clusters) -> None:
    """It passes through STOPPING, and no producer tries again after READ_ONLY_TOPIC (C38)."""
    _, b = clusters
    remove(b.bootstrap_servers, "m", "t")
    wait_state(b.bootstrap_servers, "m", "STOPPED")
    for partition in (1, 2, 3):
        outcomes = write_at_once(b, partition, lambda count=partition + 1: call(b.bootstrap_servers, partial(grow, count)))
        assert outcomes == [None] * 200


async def grow(count: int, admin: AdminClient) -> None:
    (await admin.create_partitions({"t": count})).all()


def test_mirror_configs_are_checked_and_secrets_stay_hidden(clusters: Clusters) -> None:
    a, b = clusters
    address = b.bootstrap_servers
    bad = [
        {"no.such": "x"}, {"mirror.topic.properties.exclude": "("}, {"security.protocol": "SMOKE"}, {"source.cluster.id": "x"}, {"bootstrap.servers": ""},
        {"mirror.acl.include": "TOPIC;a;NOSUCH"},
    ]  # fmt: skip
    for configs in bad:
        with pytest.raises(ApiException) as caught:
            call(address, lambda admin, configs=configs: admin.create_mirror("n", {"bootstrap.servers": "127.0.0.1:1"} | configs))
        assert caught.value.error is Errors.INVALID_CONFIG, configs
    with pytest.raises(ApiException) as caught:
        call(address, lambda admin: admin.create_mirror("n", {}))
    assert caught.value.error is Errors.INVALID_CONFIG
    secrets = {"sasl.jaas.config": "secret", "ssl.key.password": "secret", "ssl.truststore.password": "secret"}
    call(address, lambda admin: admin.create_mirror("n", {"bootstrap.servers": "127.0.0.1:1"} | secrets))
    entries = {entry.name: entry for entry in call(address, lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "n"))}
    assert all(entries[name].value is None and entries[name].is_sensitive for name in secrets)
    shown = {entry.name for entry in call(address, lambda admin: admin.describe_configs(ConfigResourceType.MIRROR, "m"))}
    assert "source.cluster.id" not in shown and "bootstrap.servers" in shown
    change = [("no.such", ConfigOperation.SET, "x")]
    with pytest.raises(ApiException) as caught:
        call(address, lambda admin: admin.incremental_alter_configs(ConfigResourceType.MIRROR, "m", change))
    assert caught.value.error is Errors.INVALID_CONFIG
    listed = send(address, list_config_resources.ListConfigResourcesRequest(resource_types=[64]))
    assert sorted(row.resource_name for row in listed.config_resources) == ["m", "n"]
    assert a.cluster_id
