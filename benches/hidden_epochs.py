"""What it costs to hide leader epochs from consumers of a mirror (`replica.client_epochs`), beside
sending the same log as it is.

One partition of a mirror whose batches have a leader epoch above its own is fetched from its
beginning, in turn as a consumer (read, patched, sent) and as one who keeps logs (sendfile): the
same bytes, in the same requests. CPU seconds are this process's, where the destination runs; who
fetches is a process of its own (`python -m benches.hidden_epochs PORT TAG`). The patch alone is
measured for small batches, too.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Iterator

from confluent_kafka import Producer

from benches import load
from benches.data import json_records
from benches.harness import MB, Context, Row, in_turn, median, median_ratio, run_command, wait_until
from benches.mirrored_clusters import MIRROR, send
from kmirror import EmbeddedCluster
from kmirror.record.builder import build_batch
from kmirror.record.leader_epochs import hide_leader_epochs_above
from kmirror.record.record import Record
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, encode_request, read_response
from kmirror.wire.log_reader_tag import log_reader_tag
from kmirror.wire.messages import add_topics_to_mirror, create_mirror, fetch

TOPIC = "t"
FETCH_VERSION = 12
FETCH_BYTES = 8 << 20
CASES = ((16_384, "batches of 16 KB"), (1_000_000, "batches of 1 MB"))
PATCHED = ((100, "100 B"), (16_000, "16 KB"))
AS_IT_IS, AS_A_CONSUMER = "log", "consumer"


def fetch_all(port: int, how: str) -> int:
    """Bytes of records from the beginning of the partition to its end."""
    tags = log_reader_tag(FETCH_VERSION) if how == AS_IT_IS else ()
    offset = total = 0
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        stream = connection.makefile("rb")
        while True:
            partition = fetch.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            topics = [fetch.FetchTopic(topic=TOPIC, partitions=[partition])]
            request = fetch.FetchRequest(max_wait_ms=0, max_bytes=FETCH_BYTES, topics=topics, session_epoch=-1, unknown_tagged_fields=tags)
            for part in encode_request(RequestHeader(ApiKeys.FETCH, FETCH_VERSION, 1, "bench"), request):
                connection.sendall(part)  # type: ignore[arg-type]
            (length,) = struct.unpack(">i", stream.read(4))
            (row,) = read_response(ApiKeys.FETCH, FETCH_VERSION, memoryview(stream.read(length)))[1].responses[0].partitions
            assert not row.error_code, row.error_code
            if not row.records:
                return total
            total += len(row.records)
            offset = _next_offset(memoryview(row.records))


def _next_offset(records: memoryview) -> int:
    position = offset = 0
    while position + 61 <= len(records):
        base, length, last_delta = *struct.unpack_from(">qi", records, position), *struct.unpack_from(">i", records, position + 23)
        if position + 12 + length > len(records):
            break
        offset, position = base + last_delta + 1, position + 12 + length
    return offset


def fill(source: EmbeddedCluster, records: int, batch_bytes: int) -> None:
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "log_level": 0, "linger.ms": 50, "batch.size": batch_bytes})
    values = json_records(1_000)
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, values[number % len(values)], partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0


def mirror(source: EmbeddedCluster, destination: EmbeddedCluster) -> None:
    configs = [create_mirror.MirrorConfig(name="bootstrap.servers", value=source.bootstrap_servers)]
    assert not send(destination, create_mirror.CreateMirrorRequest(mirror_name=MIRROR, config=configs)).error_code
    topics = [add_topics_to_mirror.TopicData(topic_name=TOPIC)]
    assert not send(destination, add_topics_to_mirror.AddTopicsToMirrorRequest(mirror_name=MIRROR, topics=topics)).error_code
    wait_until(lambda: _size(destination) == _size(source), "the mirror to have everything")


def _size(cluster: EmbeddedCluster) -> int:
    return sum(path.stat().st_size for path in (cluster.log_dir() / f"{TOPIC}-0").glob("*.log"))


def used_by_a_fetch(destination: EmbeddedCluster, how: str, size: int) -> float:
    """CPU seconds per GB."""
    began = time.process_time()
    run_command([sys.executable, "-m", "benches.hidden_epochs", str(destination.nodes[0].port), how])
    return (time.process_time() - began) / (size / 1e9)


def run(context: Context) -> Iterator[Row]:
    for batch_bytes, metric in CASES:
        with (
            EmbeddedCluster(mirroring=True, folder=context.folder / f"source-{batch_bytes}") as source,
            EmbeddedCluster(mirroring=True, folder=context.folder / f"destination-{batch_bytes}") as destination,
        ):
            load.create_topic(source.bootstrap_servers, TOPIC, 1)
            source.stop_node()
            source.start_node()
            fill(source, context.choose(10_000, 150_000), batch_bytes)
            mirror(source, destination)
            size = _size(destination)
            as_it_is, hidden = in_turn(
                context.choose(1, 7),
                lambda destination=destination, size=size: used_by_a_fetch(destination, AS_IT_IS, size),
                lambda destination=destination, size=size: used_by_a_fetch(destination, AS_A_CONSUMER, size),
            )
            ratio = median_ratio(hidden, as_it_is)
            note = f"{ratio:.2f} of sendfile's"
            yield Row(
                "hidden_epochs",
                f"fetch, {metric}",
                median(hidden),
                "CPU-s/GB",
                "<= 3 x sendfile",
                ratio <= 3,
                roofline=median(as_it_is),
                note=note,
            )
    for size, metric in PATCHED:
        yield _patch(context, size, metric)


def _patch(context: Context, value_bytes: int, metric: str) -> Row:
    one = bytes(build_batch([Record(0, 1, None, b"v" * value_bytes)], partition_leader_epoch=7))
    data = one * (context.choose(4, 32) * MB // len(one))

    def measure(leader_epoch: int) -> float:
        began = time.process_time()
        hide_leader_epochs_above(data, leader_epoch)
        return time.process_time() - began

    (used,) = in_turn(context.choose(1, 7), lambda: measure(6))
    per_batch_ns = 1e9 * median(used) / (len(data) // len(one))
    return Row(
        "hidden_epochs",
        f"patch, batches of {metric}",
        len(data) / MB / median(used),
        "MB/CPU-s",
        "reported",
        None,
        note=f"{per_batch_ns:.0f} ns a batch",
    )


if __name__ == "__main__":
    assert fetch_all(int(sys.argv[1]), sys.argv[2]) > 0
