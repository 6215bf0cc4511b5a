"""Mirror requests under client quotas: throttle times besides those of the request quota (THR7).

The request quota itself is in test_e10_throttling.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.mirrors.mirror_harness import FAST_MIRROR, create_topic, send

from kmirror import EmbeddedCluster
from kmirror.metadata.image import ClientQuotaEntity
from kmirror.wire.messages import add_topics_to_mirror as add_topics
from kmirror.wire.messages import create_mirror as create

ENTITY = ClientQuotaEntity((("client-id", "small"),))


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    config = FAST_MIRROR | {"mirror.topic.num.partitions": "40", "controller.quota.window.num": "2"}
    with EmbeddedCluster(mirroring=True, config=config) as made:
        yield made


def created(cluster: EmbeddedCluster, name: str, client_id: str) -> tuple[int, int]:
    config = [create.MirrorConfig(name="bootstrap.servers", value="127.0.0.1:1")]
    answer = send(cluster.bootstrap_servers, create.CreateMirrorRequest(mirror_name=name, config=config), client_id=client_id)
    return answer.error_code, answer.throttle_time_ms


def test_thr7_the_state_topics_partitions_count_for_the_controller_mutation_quota(cluster: EmbeddedCluster) -> None:
    """The first mirror makes `__mirror_state`: its client is throttled, and not refused, for it
    knows no such error; later ones make nothing.
    """
    cluster.call(lambda server: server.quotas.update(ENTITY, "controller_mutation_rate", 1.0))
    error, throttle_time_ms = created(cluster, "first", "small")
    assert error == 0 and throttle_time_ms > 30_000
    assert created(cluster, "second", "other") == (0, 0)


def test_thr7_the_answer_about_topics_keeps_the_throttle_time(cluster: EmbeddedCluster) -> None:
    """The broker's own answers and the controller's are put together; the greater time is told."""
    assert created(cluster, "m", "other") == (0, 0)
    create_topic(cluster.bootstrap_servers, "t")
    cluster.call(lambda server: server.quotas.update(ENTITY, "request_percentage", 0.001))
    topics = [add_topics.TopicData(topic_name="t"), add_topics.TopicData(topic_name="gone")]
    answer = send(cluster.bootstrap_servers, add_topics.AddTopicsToMirrorRequest(mirror_name="m", topics=topics), client_id="small")
    assert [(row.name, row.error_code) for row in answer.topics] == [("t", 0), ("gone", 3)]
    assert answer.throttle_time_ms > 0
