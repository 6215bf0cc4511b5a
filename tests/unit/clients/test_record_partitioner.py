"""Where records without a key go: how long a partition is kept."""

from __future__ import annotations

import pytest
from support.clients.scripted_cluster import ScriptedCluster, ScriptedTopic
from support.clients.scripted_logs import ScriptedLogs

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.clients.producer_batch import size_upper_bound

VALUE = b"v" * 80


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_partition_is_left_with_its_batches_full(codec: str) -> None:
    """It was left after half of batch.size, or behind a batch of one record that waited for linger.ms."""
    cluster = ScriptedCluster(1)
    cluster.topics["t"] = ScriptedTopic(dict.fromkeys(range(4), 0))
    logs = ScriptedLogs(cluster)

    async def story() -> list[int]:
        producer = KafkaProducer(cluster.runtime, cluster.props(0, batch_size=1_000, linger_ms=60_000, compression_type=codec))
        sent = [await producer.send(ProducerRecord("t", VALUE)) for _ in range(400)]
        await producer.flush()
        partitions = [(await one).partition for one in sent]
        await producer.close()
        return partitions

    partitions = cluster.run(story())
    assert set(partitions) == {0, 1, 2, 3}
    runs = [partitions[begin : begin + 20] for begin in range(0, 400, 20)]
    if codec == "none":
        assert [len(set(run)) for run in runs] == [1] * 20, "ten records fill a batch up to 941 bytes, so two batches are given"
        assert {batch.record_count for partition in range(4) for batch in logs.log("t", partition).batches} == {10}
    cluster.close()


@pytest.mark.parametrize(
    ("key", "value", "headers", "size"),
    [
        (None, None, [], 21 + 1 + 1 + 1),
        (b"k" * 63, b"v" * 64, [], 21 + 64 + 66 + 1),
        (b"", b"v" * 200_000, [], 21 + 1 + 200_003 + 1),
        (None, b"v" * 8_191, [("h", None), ("long", b"x" * 8_192)], 21 + 1 + 8_193 + 1 + 2 + 1 + 5 + 8_195),
    ],
)
def test_the_most_that_a_record_takes(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], size: int) -> None:
    assert size_upper_bound(key, value, headers) == size
