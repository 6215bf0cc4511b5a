"""Two clusters of three brokers, many small topics on the first, a mirror on the second: what the
mirror benches share.

The source's brokers are processes of their own, so that what is measured in this one is the
destination's. Its collector is set as in a node's process.

The source is filled with one batch in every partition, over sockets. States are read off the
destination's brokers in the process, on their own loop: asking ten thousand rows over
DescribeMirrors ten times a second would be most of what is measured.
"""

from __future__ import annotations

import pathlib
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benches.scale import ask
from kmirror import EmbeddedCluster
from kmirror.common.ports import FileSlice
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.mirror_manager import MirrorManager
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime import collector
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.messages import add_topics_to_mirror, create_mirror, metadata, produce, remove_topics_from_mirror
from kmirror.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

MIRROR = "bench"
STATE_TOPIC_CONFIG = {"mirror.topic.num.partitions": "50", "mirror.topic.replication.factor": "3"}
TOPICS_PER_REQUEST = 50
RECORDS_A_BATCH = 10
STATE_TOPIC = "__mirror_state"
TIMEOUT_S = 300


class Shape(NamedTuple):
    """How many topics, of how many partitions, and their replicas at the destination."""

    topics: int
    partitions_per_topic: int
    replication_factor: int

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic

    @property
    def names(self) -> list[str]:
        return [f"topic-{number:04d}" for number in range(self.topics)]


@contextmanager
def two_clusters(folder: pathlib.Path, shape: Shape) -> Iterator[tuple[EmbeddedCluster, EmbeddedCluster]]:
    """Source and destination, the source with its topics and one batch in every partition."""
    config = STATE_TOPIC_CONFIG | {"default.replication.factor": str(shape.replication_factor)}
    with (
        EmbeddedCluster(3, processes=True, folder=folder / "source") as source,
        EmbeddedCluster(3, mirroring=True, folder=folder / "destination", config=config) as destination,
    ):
        collector.collect_rarely()
        collector.leave_alone_what_is_there()
        for first in range(0, shape.topics, TOPICS_PER_REQUEST):
            names = shape.names[first : first + TOPICS_PER_REQUEST]
            wanted = [CreatableTopic(name, shape.partitions_per_topic, 1) for name in names]
            answer = ask(source.nodes[0].port, CreateTopicsRequest(wanted, 60_000), 7)
            assert not any(topic.error_code for topic in answer.topics), answer.topics[0]
        fill(source, shape)
        yield source, destination


def fill(source: EmbeddedCluster, shape: Shape, *, only: list[str] | None = None) -> None:
    """One batch of ten records into every partition, each broker in one request a hundred topics."""
    now_ms = int(time.time() * 1000)
    batch = bytes(build_batch([Record(index, now_ms, b"key-%d" % index, b"value" * 10) for index in range(RECORDS_A_BATCH)]))
    filled = shape.names if only is None else only
    for first in range(0, len(filled), TOPICS_PER_REQUEST):
        names = filled[first : first + TOPICS_PER_REQUEST]
        for port, led in leaders(source, names).items():
            topics = [
                produce.TopicProduceData(
                    name=name, partition_data=[produce.PartitionProduceData(index=number, records=batch) for number in numbers]
                )
                for name, numbers in led.items()
            ]
            answer = ask(port, produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=topics), 9)
            failed = [row.error_code for topic in answer.responses for row in topic.partition_responses if row.error_code]
            assert not failed, failed


def leaders(cluster: EmbeddedCluster, names: list[str]) -> dict[int, dict[str, list[int]]]:
    """Port of a broker -> the partitions that it leads; waits until all have a leader."""
    wanted = [metadata.MetadataRequestTopic(name=name) for name in names]
    deadline = time.monotonic() + 60
    while True:
        answer = ask(cluster.nodes[0].port, metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
        ports = {broker.node_id: broker.port for broker in answer.brokers}
        found: dict[int, dict[str, list[int]]] = {}
        complete = True
        for topic in answer.topics:
            for partition in topic.partitions:
                port = ports.get(partition.leader_id)
                complete = complete and port is not None and not topic.error_code
                if port is not None:
                    found.setdefault(port, {}).setdefault(topic.name, []).append(partition.partition_index)
        if complete and found:
            return found
        assert time.monotonic() < deadline, "topics without leaders after a minute"
        time.sleep(0.05)


def create_and_add(source: EmbeddedCluster, destination: EmbeddedCluster, shape: Shape) -> None:
    """CreateMirror, then one AddTopicsToMirror for all topics; the broker creates them (B17)."""
    configs = [create_mirror.MirrorConfig(name="bootstrap.servers", value=source.bootstrap_servers)]
    answer = send(destination, create_mirror.CreateMirrorRequest(mirror_name=MIRROR, config=configs))
    assert not answer.error_code, answer
    topics = [add_topics_to_mirror.TopicData(topic_name=name) for name in shape.names]
    answer = send(destination, add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name=MIRROR, topics=topics))
    assert not answer.error_code, answer
    assert not any(topic.error_code for topic in answer.topics), next(topic for topic in answer.topics if topic.error_code)


def remove_all(destination: EmbeddedCluster, shape: Shape) -> None:
    """One RemoveTopicsFromMirror for all topics: the failover."""
    topics = [remove_topics_from_mirror.TopicData(topic_name=name) for name in shape.names]
    answer = send(destination, remove_topics_from_mirror.RemoveTopicsFromMirrorRequest(mirror_name=MIRROR, topics=topics))
    assert not answer.error_code, answer
    assert not any(topic.error_code for topic in answer.topics), next(topic for topic in answer.topics if topic.error_code)


def send(cluster: EmbeddedCluster, request: Any) -> Any:
    """One request to the first broker; it may take minutes."""
    api = ApiKeys(type(request).API_KEY)
    with socket.create_connection(("127.0.0.1", cluster.nodes[0].port), TIMEOUT_S) as connection:
        for part in encode_request(RequestHeader(api, 0, 1, "bench"), request):
            assert not isinstance(part, FileSlice)
            connection.sendall(part)
        stream = connection.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return read_response(api, 0, memoryview(stream.read(length)))[1]


def managers(cluster: EmbeddedCluster, look: Callable[[MirrorManager], Any]) -> list[Any]:
    """`look` at every broker's mirror, on the cluster's loop."""

    def on_server(server: KafkaServer) -> Any:
        assert server.broker is not None
        return look(server.broker.mirror)

    return [cluster.call(on_server, node) for node in range(len(cluster.nodes))]


def states(cluster: EmbeddedCluster) -> Counter[str]:
    """How many of the mirror's partitions are in which state."""
    counted: Counter[str] = Counter()
    for found in managers(cluster, lambda manager: Counter(driver.status.state.name for driver in manager.led_partitions(MIRROR))):
        counted.update(found)
    return counted


def wait_for_state(cluster: EmbeddedCluster, state: str, shape: Shape) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while (found := states(cluster))[state] != shape.partitions:
        assert time.monotonic() < deadline, f"after {TIMEOUT_S} s: {dict(found)}"
        time.sleep(0.05)


def wait_for_data(destination: EmbeddedCluster, shape: Shape, *, records: int = RECORDS_A_BATCH) -> None:
    """Until the first and the last topic's partitions have so many records (and whatever a stop
    adds).
    """
    wanted = [TopicPartition(name, number) for name in {shape.names[0], shape.names[-1]} for number in range(shape.partitions_per_topic)]

    def lacking(server: KafkaServer) -> list[TopicPartition]:
        assert server.broker is not None
        partitions = server.broker.replica_manager.partitions
        led = [key for key in wanted if key in partitions and partitions[key].is_leader]
        return [key for key in led if partitions[key].leader_log.log_end_offset < records]

    deadline = time.monotonic() + TIMEOUT_S
    while late := [key for node in range(len(destination.nodes)) for key in destination.call(lacking, node)]:
        assert time.monotonic() < deadline, f"the records did not arrive in {late}"
        time.sleep(0.05)


def control_writes(cluster: EmbeddedCluster) -> tuple[int, int]:
    """(records, batches) in all of `__mirror_state`, from its leaders' logs."""

    def on_server(server: KafkaServer) -> tuple[int, int]:
        assert server.broker is not None
        records = batches = 0
        for key, partition in server.broker.replica_manager.partitions.items():
            if key.topic == STATE_TOPIC and partition.is_leader:
                log = partition.leader_log
                records += log.log_end_offset
                batches += sum(1 for _ in log.batch_headers(0))
        return records, batches

    counted = [cluster.call(on_server, node) for node in range(len(cluster.nodes))]
    return sum(records for records, _ in counted), sum(batches for _, batches in counted)
