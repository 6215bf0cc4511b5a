"""kafka-python's consumer without a group may never ask for its topic.

This shows it, step by step, and that its log tells.

`KafkaConsumer(topic)` wakes its I/O thread, which asks for metadata, before it names the topic. The
steps below are put in the order in which a busy machine may run them; nothing else of kafka-python
is changed. When a later version asks again, the first test fails, and `LOST_UPDATE` can go from
`foreign_runs`.
"""

from __future__ import annotations

import io
import logging
import pathlib
import sys
import threading
from collections.abc import Iterator

import pytest
from kafka import KafkaAdminClient, KafkaConsumer
from kafka.cluster import ClusterMetadata

from kmirror.embedded import EmbeddedCluster

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from foreign_runs import LOG_FORMAT, lost_update

TOPIC = "late"


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedCluster() as cluster:
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
        admin.create_topics({TOPIC: {"num_partitions": 2, "replication_factor": 1}})
        admin.close()
        yield cluster.bootstrap_servers


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What kafka-python says, as its suite is run."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter(LOG_FORMAT, "%H:%M:%S"))
    loggers = [logging.getLogger("kafka.cluster"), logging.getLogger("kafka.consumer")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield stream
    for logger in loggers:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


class Order:
    """The steps of a consumer's first metadata update, held until the step before them is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, topic_comes_before_the_answer: bool) -> None:
        self.answered = threading.Event()
        asked, named = threading.Event(), threading.Event()
        metadata_request, set_topics, update_metadata = (
            ClusterMetadata.metadata_request,
            ClusterMetadata.set_topics,
            ClusterMetadata.update_metadata,
        )

        def ask(cluster):
            request = metadata_request(cluster)
            asked.set()
            return request

        def name(cluster, topics):
            (asked if topic_comes_before_the_answer else self.answered).wait()
            future = set_topics(cluster, topics)
            named.set()
            return future

        def answer(cluster, metadata):
            if topic_comes_before_the_answer:
                named.wait()
            update_metadata(cluster, metadata)
            self.answered.set()

        monkeypatch.setattr(ClusterMetadata, "metadata_request", ask)
        monkeypatch.setattr(ClusterMetadata, "set_topics", name)
        monkeypatch.setattr(ClusterMetadata, "update_metadata", answer)


def consumer_of(bootstrap: str) -> KafkaConsumer:
    return KafkaConsumer(TOPIC, bootstrap_servers=bootstrap, api_version=(4, 3, 0), auto_offset_reset="earliest")


def update(consumer: KafkaConsumer) -> None:
    consumer._net.run(consumer._cluster.request_update)


def test_a_topic_named_between_the_request_and_its_answer_is_never_asked_for(monkeypatch, bootstrap, log):
    order = Order(monkeypatch, topic_comes_before_the_answer=True)
    with consumer_of(bootstrap) as consumer:
        order.answered.wait()
        assert not consumer._cluster.need_update, "it would ask again: LOST_UPDATE has no use any more"
        assert consumer.subscription() == {TOPIC} and consumer.assignment() == set()
        assert lost_update(log.getvalue())
        update(consumer)
        assert len(consumer.assignment()) == 2, "the broker tells of the topic as soon as it is asked"
        assert not lost_update(log.getvalue())


def test_a_topic_named_after_the_answer_is_asked_for(monkeypatch, bootstrap, log):
    Order(monkeypatch, topic_comes_before_the_answer=False)
    with consumer_of(bootstrap) as consumer:
        update(consumer)
        assert len(consumer.assignment()) == 2
        assert not lost_update(log.getvalue())
