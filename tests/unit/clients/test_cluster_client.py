"""`ClusterClient` against scripted brokers on the simulated network."""

from __future__ import annotations

import asyncio
import re

import pytest
from support.clients.scripted_cluster import PORT, ScriptedCluster, ScriptedTopic

from kmirror.clients.cluster_client import GROUP, TRANSACTION, ClusterClient, Node
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import run_together
from kmirror.wire.api_keys import ApiKeys

P0 = TopicPartition("t", 0)


@pytest.fixture
def cluster():
    cluster = ScriptedCluster(3)
    cluster.topics["t"] = ScriptedTopic({0: 1, 1: 2}, {0: 5, 1: 5}, Uuid(b"1" * 16))
    yield cluster
    cluster.close()


def client_of(cluster, *bootstrap, **settings):
    return ClusterClient(cluster.runtime, cluster.config(*bootstrap, **settings))


def metadata_count(cluster):
    return len(cluster.asked(ApiKeys.METADATA))


def test_a_leader_is_asked_for_once_and_then_known(cluster):
    client = client_of(cluster)
    assert cluster.run(client.leader(P0)) == (Node(1, "broker-1", PORT), 5)
    assert cluster.run(client.leader(TopicPartition("t", 1))).leader.id == 2
    assert metadata_count(cluster) == 1
    assert client.topic_name(client.topic_id("t")) == "t"


def test_all_that_wait_share_one_request(cluster):
    client = client_of(cluster)
    cluster.topics["u"] = ScriptedTopic({0: 2})
    asked = [client.leader(TopicPartition(topic, 0)) for topic in ("t", "u", "t", "u")]
    found = cluster.run(run_together(cluster.runtime, "ask", asked))
    assert [row.leader.id for row in found] == [1, 2, 1, 2]
    assert metadata_count(cluster) == 1


def test_a_forgotten_leader_is_asked_for_again_not_sooner_than_the_backoff(cluster):
    client = client_of(cluster, retry_backoff_ms=200)
    cluster.run(client.leader(P0))
    cluster.topics["t"].leaders[0], cluster.topics["t"].epochs[0] = 2, 6
    began = cluster.runtime.clock.monotonic_ms()
    client.forget_leader(P0)
    assert cluster.run(client.leader(P0)) == (Node(2, "broker-2", PORT), 6)
    assert cluster.runtime.clock.monotonic_ms() - began >= 150


def test_an_older_epoch_never_replaces_a_newer_one(cluster):
    client = client_of(cluster)
    cluster.run(client.leader(P0))
    newer = Node(2, "broker-2", PORT)
    assert client.hear_leader(P0, newer, 7)
    assert not client.hear_leader(P0, Node(0, "broker-0", PORT), 6)
    cluster.run(client.request_update(["t"]))
    assert cluster.run(client.leader(P0)) == (newer, 7)


def test_a_topic_that_was_made_anew_starts_with_its_own_epochs(cluster):
    client = client_of(cluster)
    cluster.run(client.leader(P0))
    old = client.topic_id("t")
    cluster.topics["t"] = ScriptedTopic({0: 2}, {0: 0}, Uuid(b"2" * 16))
    cluster.run(client.request_update(["t"]))
    assert cluster.run(client.leader(P0)) == (Node(2, "broker-2", PORT), 0)
    assert client.topic_name(old) is None


def test_an_unknown_topic_has_no_leader_and_a_forbidden_one_is_an_error(cluster):
    client = client_of(cluster)
    assert cluster.run(client.leader(TopicPartition("none", 0))) is None
    assert cluster.run(client.partitions_for("none")) == []
    cluster.topics["secret"] = ScriptedTopic({}, error=Errors.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(ApiException, match=r"Not authorized to access topics: \[secret\]"):
        cluster.run(client.leader(TopicPartition("secret", 0)))


def test_knowledge_that_is_old_is_refreshed_in_the_background(cluster):
    client = client_of(cluster, metadata_max_age_ms=1_000)
    cluster.run(client.leader(P0))
    cluster.topics["t"].leaders[0], cluster.topics["t"].epochs[0] = 2, 6
    cluster.run_ms(1_100)
    assert cluster.run(client.leader(P0)).leader.id == 1
    cluster.run_ms(500)
    assert cluster.run(client.leader(P0)).leader.id == 2
    assert metadata_count(cluster) == 2


def test_topics_by_pattern(cluster):
    client = client_of(cluster)
    cluster.topics["tt"] = ScriptedTopic({0: 0})
    assert cluster.run(client.topics()) == ["t", "tt"]
    assert cluster.run(client.topics(re.compile("t"))) == ["t"]


@pytest.mark.parametrize("highest", [0, 1, 3, 4, 6])
def test_a_coordinator_is_found_in_every_version_and_kept(cluster, highest):
    cluster.ranges[ApiKeys.FIND_COORDINATOR] = (0, highest)
    cluster.coordinator_of = lambda key: 2
    client = client_of(cluster)
    for _ in range(2):
        assert cluster.run(client.coordinator("g", GROUP)) == Node(2, "broker-2", PORT)
    assert len(cluster.asked(ApiKeys.FIND_COORDINATOR)) == 1
    client.forget_coordinator("g", GROUP)
    cluster.run(client.coordinator("g", GROUP))
    assert len(cluster.asked(ApiKeys.FIND_COORDINATOR)) == 2


def test_a_missing_coordinator_is_retried_until_the_time_is_up(cluster):
    cluster.coordinator_error = Errors.COORDINATOR_NOT_AVAILABLE
    client = client_of(cluster)

    async def asked():
        return await client.retry(lambda: client.coordinator("tx", TRANSACTION), 2_000)

    with pytest.raises(ApiException) as failure:
        cluster.run(asked())
    assert failure.value.error is Errors.COORDINATOR_NOT_AVAILABLE
    assert 4 <= len(cluster.asked(ApiKeys.FIND_COORDINATOR)) <= 10


def test_a_retry_never_outlasts_its_time(cluster):
    client = client_of(cluster)

    async def for_ever():
        await cluster.runtime.sleep_ms(1_000_000)

    with pytest.raises(ApiException) as failure:
        cluster.run(client.retry(for_ever, 300))
    assert failure.value.error is Errors.REQUEST_TIMED_OUT


def test_the_brokers_that_were_named_replace_the_bootstrap_servers(cluster):
    cluster.named = [1, 2]
    client = client_of(cluster, 0)
    cluster.run(client.leader(P0))
    cluster.run(client.request_update(["t"]))
    cluster.run(client.request_update(["t"]))
    assert [node_id for node_id, _ in cluster.asked(ApiKeys.METADATA)][0] == 0
    assert all(node_id in (1, 2) for node_id, _ in cluster.asked(ApiKeys.METADATA)[1:])


@pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
def test_when_no_named_broker_is_left_the_bootstrap_servers_are_asked_again(cluster, strategy):
    cluster.named = [1]
    client = client_of(cluster, 0, metadata_recovery_strategy=strategy)
    cluster.run(client.leader(P0))
    cluster.stop(1)
    cluster.named = [2]
    if strategy == "none":
        with pytest.raises(ApiException, match="no broker could be reached"):
            cluster.run(client.request_update(["t"]))
        return
    cluster.topics["t"].leaders[0], cluster.topics["t"].epochs[0] = 2, 1
    cluster.run(client.request_update(["t"]))
    assert cluster.run(client.leader(P0)) == (Node(2, "broker-2", PORT), 1)


def test_a_broker_may_ask_for_a_rebootstrap(cluster):
    cluster.named = [1]
    client = client_of(cluster, 0)
    cluster.run(client.leader(P0))
    asked = metadata_count(cluster)
    answers = {1: Errors.REBOOTSTRAP_REQUIRED, 0: Errors.NONE}

    def metadata(node_id, request):
        response = cluster.metadata_response(request)
        response.error_code = answers[node_id]
        return response

    cluster.handlers[ApiKeys.METADATA] = metadata
    cluster.run(client.request_update(["t"]))
    assert [node_id for node_id, _ in cluster.asked(ApiKeys.METADATA)[asked:]] == [1, 0]


def test_brokers_that_stay_unreachable_fail_the_wait_and_closing_ends_it(cluster):
    cluster.stop(0)
    client = client_of(cluster, 0)
    with pytest.raises(ApiException) as failure:
        cluster.run(client.leader(P0))
    assert failure.value.error is Errors.NETWORK_EXCEPTION
    waiting = cluster.runtime.spawn(client.leader(P0), name="waiting")
    cluster.run(client.close())
    with pytest.raises(ApiException, match="closed"):
        cluster.world.loop.run_until_complete(waiting)
    with pytest.raises(ApiException, match="closed"):
        cluster.run(client.leader(P0))


@pytest.mark.parametrize("turns", range(6))
def test_a_cancellation_is_not_lost_when_the_answer_comes_in_the_same_moment(cluster, turns):
    """`asyncio.wait_for` of Python 3.11 returns the answer and forgets the cancellation; a loop around it
    would never end.
    """
    client = client_of(cluster)
    answer = cluster.runtime.create_future()

    async def wait():
        return await answer

    async def asks_for_ever():
        while True:
            await client.retry(wait, 1_000)
            await cluster.runtime.sleep_ms(1)

    async def story():
        task = asyncio.ensure_future(asks_for_ever())
        await cluster.runtime.sleep_ms(10)
        answer.set_result(None)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await cluster.runtime.sleep_ms(100)
        return task.cancelled()

    assert cluster.run(story())


def test_a_topic_that_nobody_uses_any_more_is_not_asked_for(cluster):
    """A broker with auto.create.topics.enable makes what a producer asks for: a topic that was deleted
    came back with every refresh of the others.
    """
    cluster.topics["gone"] = ScriptedTopic({0: 0})
    client = client_of(cluster, metadata_max_age_ms=1_000)
    cluster.run(client.leader(P0))
    cluster.run(client.leader(TopicPartition("gone", 0)))
    for _ in range(400):
        cluster.run_ms(1_001)
        cluster.run(client.leader(P0))
    asked = [sorted(topic.name for topic in request.topics) for _, request in cluster.asked(ApiKeys.METADATA)]
    assert ["gone", "t"] in asked and asked[-50:] == [["t"]] * 50
    cluster.run(client.leader(TopicPartition("gone", 0)))
    cluster.run_ms(100)
    assert sorted(topic.name for topic in cluster.asked(ApiKeys.METADATA)[-1][1].topics) == ["gone", "t"]
