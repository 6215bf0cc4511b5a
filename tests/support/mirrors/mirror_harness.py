"""Helpers for tests that use a mirror from outside: admin calls, kafka-mirrors, producing, waiting
for states, and reading the logs on disk.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import random
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ConsumedPartition

from kmirror.admin.admin_client import AdminClient, NoBrokerError, parse_bootstrap_servers
from kmirror.admin.results import MirrorPartitionDescription, NewTopic
from kmirror.cli import mirrors
from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.common.coordinator_shard import CoordinatorRecord
from kmirror.embedded import EmbeddedCluster
from kmirror.mirror.coordination.mirror_records import LastMirrorEpochs, MirrorStateRecord, PartitionStateTombstone, read_record
from kmirror.network.client import NetworkClient
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from support.waiting import REACHED_S

T = TypeVar("T")
TIMESTAMP_MS = 1_771_239_071_191
FAST_MIRROR = {
    "mirror.metadata.refresh.interval.ms": "500",
    "mirror.truncation.backoff.ms": "300",
    "mirror.fetch.backoff.ms": "100",
    "mirror.topic.num.partitions": "3",
}
"""Broker properties with short intervals, so that tests wait less."""


def call(bootstrap_servers: str, operation: Callable[[AdminClient], Awaitable[T]], *, timeout_ms: int = 15_000) -> T:
    """Runs one operation with a new AdminClient."""

    async def main(runtime: Runtime) -> T:
        async with AdminClient(runtime, parse_bootstrap_servers(bootstrap_servers), timeout_ms=timeout_ms) as admin:
            return await operation(admin)

    return run(main)


def create_topic(bootstrap_servers: str, name: str, partitions: int = 1, *, replication_factor: int = 1, **configs: str) -> None:
    topic = NewTopic(name, partitions, replication_factor, {key.replace("_", "."): value for key, value in configs.items()})
    call(bootstrap_servers, lambda admin: admin.create_topics([topic])).all()


def produce(
    bootstrap_servers: str, topic: str, values: list[str], *, partition: int = 0, batch: int = 10, **settings: str
) -> list[KafkaError]:
    """Sends `values`, with repeating keys, in batches of `batch`.

    Returns the errors of the records that were refused.
    """
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "linger.ms": "50",
            "message.timeout.ms": "20000",
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: object) -> None:
        if error is not None:
            errors.append(error)

    for index, value in enumerate(values):
        producer.produce(topic, value=value, key=f"k{index % 7}", partition=partition, on_delivery=on_delivery)
        if (index + 1) % batch == 0:
            producer.flush()
    producer.flush()
    return errors


def numbered(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{index}" for index in range(count)]


def wait_for(what: str, condition: Callable[[], T | None], timeout_s: float = REACHED_S) -> T:
    """Returns the first truthy value of `condition`; broker errors while waiting count as "not
    yet".

    So does librdkafka's error that it got no answer: a metadata request that was lost with a killed
    broker is retried on that broker only.
    """
    deadline = time.monotonic() + timeout_s
    last: object = None
    while time.monotonic() < deadline:
        try:
            value = condition()
            if value:
                return value
        except (ApiException, NoBrokerError, KeyError) as error:
            last = error
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
                raise
            last = error
        time.sleep(0.1)
    raise AssertionError(f"waited {timeout_s} s for {what}; last error: {last}")


def with_a_restart(check: Callable[[float], object], restart: Callable[[], None], *, patience_s: float, timeout_s: float) -> None:
    """Runs `check` about the reference, and restarts the reference if it gets stuck, as its
    operators would have to do.
    """
    try:
        check(patience_s)
    except AssertionError:
        restart()
        check(timeout_s)


def partitions_of(bootstrap_servers: str, mirror: str) -> list[MirrorPartitionDescription]:
    return call(bootstrap_servers, lambda admin: admin.describe_mirrors([mirror]), timeout_ms=5_000)[mirror].partitions


def wait_state(bootstrap_servers: str, mirror: str, state: str, *, topic: str | None = None) -> list[MirrorPartitionDescription]:
    """Waits until every partition (of `topic`) is in `state`, and returns their descriptions."""

    def reached() -> list[MirrorPartitionDescription] | None:
        rows = [row for row in partitions_of(bootstrap_servers, mirror) if topic in (None, row.topic)]
        return rows if rows and all(row.state == state for row in rows) else None

    return wait_for(f"{state} in mirror {mirror}", reached)


def wait_caught_up(destination: str, source: str, mirror: str) -> None:
    """Waits until every partition is MIRRORING and ends at the source's last stable offset."""

    def reached() -> bool:
        rows = partitions_of(destination, mirror)
        if not rows or any(row.state != "MIRRORING" for row in rows):
            return False
        wanted = [TopicPartition(row.topic, row.partition) for row in rows]
        ends = call(source, lambda admin: admin.list_offsets(wanted, isolation_level=1))
        return all(row.destination_offset == ends[TopicPartition(row.topic, row.partition)] for row in rows)

    wait_for(f"mirror {mirror} to catch up", reached)


def add(destination: str, mirror: str, *topics: str) -> None:
    call(destination, lambda admin: admin.add_topics_to_mirror(mirror, topics)).all()


def remove(destination: str, mirror: str, *topics: str) -> None:
    call(destination, lambda admin: admin.remove_topics_from_mirror(mirror, topics)).all()


def create_mirror(destination: str, mirror: str, source: str) -> None:
    call(destination, lambda admin: admin.create_mirror(mirror, {"bootstrap.servers": source}))


def _log_files(folder: pathlib.Path) -> bytes:
    """Returns the content of all .log files of a folder.

    It starts again if a file vanishes meanwhile, since a cleaner replaces segments.
    """
    for _ in range(100):
        try:
            return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        except FileNotFoundError:
            continue
    raise AssertionError(f"the files of {folder} go as fast as they are listed")


def log_bytes(data_dir: pathlib.Path, topic_partition: str) -> bytes:
    """Returns the concatenated .log files of a partition, up to the last whole batch."""
    data = _log_files(data_dir / topic_partition)
    position = 0
    while position + 17 <= len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if size < 61 or data[position + 16] != 2 or position + size > len(data):
            break
        position += size
    return data[:position]


def state_logs(cluster: EmbeddedCluster, node: int = 0) -> list[list[MirrorStateRecord]]:
    """Returns the records of each partition of `__mirror_state` in one node's logs."""
    return [
        [
            read_record(CoordinatorRecord(bytes(record.key or b""), None if record.value is None else bytes(record.value)))
            for batch in iter_batches(log_bytes(cluster.log_dir(node), folder.name))
            if not batch.is_control
            for record in batch.records()
        ]
        for folder in sorted(cluster.log_dir(node).glob("__mirror_state-*"))
    ]


def newest_by_key(cluster: EmbeddedCluster, mirror: str, node: int = 0) -> list[MirrorStateRecord]:
    """Returns the last record of each type that a mirror has in each `__mirror_state` partition."""
    newest: dict[tuple[int, bool], MirrorStateRecord] = {}
    for number, log in enumerate(state_logs(cluster, node)):
        for record in log:
            if record.mirror_name == mirror:
                newest[number, isinstance(record, LastMirrorEpochs)] = record
    return list(newest.values())


def is_tombstoned(cluster: EmbeddedCluster, mirror: str, node: int = 0) -> bool:
    """Returns whether both keys of a mirror end in a tombstone, in every partition of
    `__mirror_state` that holds records of the mirror.
    """
    newest = newest_by_key(cluster, mirror, node)
    return bool(newest) and all(
        isinstance(last, PartitionStateTombstone) or (isinstance(last, LastMirrorEpochs) and last.epochs is None) for last in newest
    )


def assert_equal_logs(left: pathlib.Path, right: pathlib.Path, folders: Iterable[str], *, timeout_s: float = REACHED_S) -> None:
    """Waits until both sides' logs are equal, and asserts that they are not empty."""
    for folder in folders:
        wait_for(f"equal logs of {folder}", lambda folder=folder: log_bytes(left, folder) == log_bytes(right, folder), timeout_s)
        assert log_bytes(left, folder), f"{folder} is empty on both sides"


def quiet(settings: dict[str, Any]) -> dict[str, Any]:
    return {"log_level": 0} | settings


def produce_numbered(
    bootstrap_servers: str, topic: str, first: int, count: int, *, codec: str = "none", partitions: int = 1, **settings: Any
) -> None:
    """Produces records `first` to `first + count - 1`, numbered in key and value.

    Asserts that all of them are acknowledged.
    """
    errors: list[Any] = []
    producer = Producer(quiet({"bootstrap.servers": bootstrap_servers, "compression.type": codec, "linger.ms": 2, **settings}))
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=f"k{number % 50}".encode(),
            value=f"v{number}".encode() * 5,
            partition=number % partitions,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
        if number % 100 == 99:
            producer.flush(10)
    assert producer.flush(REACHED_S) == 0 and not errors, errors[:3]


def produce_when_taken(bootstrap_servers: str, topic: str, value: str, *, partition: int = 0) -> None:
    """Sends one record to a peer that may answer READ_ONLY_TOPIC although it reported STOPPED.

    The reference implementation does so, above all after a restart. Our brokers must not.
    """
    wait_for(f"{topic}-{partition} to take records", lambda: produce(bootstrap_servers, topic, [value], partition=partition) == [])


def produce_once_writable(bootstrap_servers: str, topic: str, first: int, count: int, *, codec: str = "none", partitions: int = 1) -> None:
    """Does the same as `produce_numbered`, on a peer as in `produce_when_taken`."""
    for partition in range(partitions):
        produce_when_taken(bootstrap_servers, topic, f"v{first + partition}", partition=partition)
    produce_numbered(bootstrap_servers, topic, first + partitions, count - partitions, codec=codec, partitions=partitions)


class Load:
    """An idempotent producer that writes numbered records to a topic's partitions in turn until
    `end`. The records in `acknowledged` must not be lost.
    """

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, *, prefix: str = "load") -> None:
        self._topic, self._partitions, self._prefix = topic, partitions, prefix
        settings = {"bootstrap.servers": bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(quiet(settings | {"compression.type": "lz4", "message.timeout.ms": 60_000}))
        self._ended = threading.Event()
        self.acknowledged: set[bytes] = set()
        self.errors: list[object] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            value = f"{self._prefix}-{number}".encode()
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._delivered)
            self._producer.poll(0.001)
            number += 1
        assert self._producer.flush(REACHED_S) == 0

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.add(message.value())
        else:
            self.errors.append(error)

    def end(self) -> set[bytes]:
        """Stops, waits for the outcome of every record, and returns the acknowledged ones."""
        self._ended.set()
        self._thread.join()
        return self.acknowledged


def produce_transactions(bootstrap_servers: str, topic: str) -> None:
    """Produces with three producers, whose transactions commit, abort and commit."""
    for index, commit in enumerate((True, False, True)):
        producer = Producer(quiet({"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-{index}"}))
        producer.init_transactions(30)
        for round_number in range(3):
            producer.begin_transaction()
            for number in range(10):
                producer.produce(topic, key=f"t{index}-{round_number}-{number}".encode(), value=b"x" * 50)
            producer.flush(10)
            (producer.commit_transaction if commit else producer.abort_transaction)(30)


def kafka_mirrors(bootstrap_servers: str, *arguments: str) -> str:
    """Runs `kafka-mirrors` against a cluster and returns its output."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = mirrors.main(["--bootstrap-server", bootstrap_servers, *arguments])
    assert code == 0, out.getvalue() + err.getvalue()
    return out.getvalue()


def create_mirror_by_tool(folder: pathlib.Path, destination: str, source: str, name: str) -> None:
    config = folder / f"{name}-{destination.rpartition(':')[2]}.properties"
    config.write_text(f"bootstrap.servers={source}\n")
    kafka_mirrors(destination, "--create", "--mirror", name, "--mirror-config", str(config))


def describe(bootstrap_servers: str, name: str) -> list[dict[str, Any]]:
    """Returns the rows of `--describe --json`."""
    rows: list[dict[str, Any]] = json.loads(kafka_mirrors(bootstrap_servers, "--describe", "--mirror", name, "--json"))
    return rows


def wait_states(
    bootstrap_servers: str, name: str, state: str, *, partitions: int, lag: int | None = None, timeout_s: float = REACHED_S
) -> None:
    """Waits until there are `partitions` rows, all in `state` (and with this lag)."""

    def reached() -> bool:
        rows = describe(bootstrap_servers, name)
        seen.clear()
        seen.extend(rows)
        return len(rows) == partitions and all(row["state"] == state and (lag is None or row["lag"] == lag) for row in rows)

    seen: list[dict[str, Any]] = []
    try:
        wait_for(f"{partitions} partitions of {name} in {state}", reached, timeout_s)
    except AssertionError as error:
        raise AssertionError(f"{error}: {seen}") from None


def send(bootstrap_servers: str, request: Any, *, version: int | None = None, client_id: str = "test") -> Any:
    """Sends one raw request to the first broker and returns the response."""
    host, port = parse_bootstrap_servers(bootstrap_servers)[0]

    async def main(runtime: Runtime) -> Any:
        client = NetworkClient(runtime, client_id)
        try:
            return await client.send(host, port, request, timeout_ms=10_000, version=version)
        finally:
            client.close()

    return run(main)


def rebuild_log(cluster: EmbeddedCluster, topic_partition: str, data: bytes) -> None:
    """Replaces a partition's log on a one-node cluster by `data`.

    The node is killed and started again, and recovers the log as after an unclean stop.
    """
    cluster.kill_node()
    rewrite_folder(cluster.log_dir(), topic_partition, data)
    cluster.start_node()


def rewrite_folder(data_dir: pathlib.Path, topic_partition: str, data: bytes) -> None:
    """Replaces a partition's files by one segment with `data`, named by its first offset.

    It removes everything that recovery makes anew. The node must not be running.
    """
    folder = data_dir / topic_partition
    for path in folder.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    (folder / f"{int.from_bytes(data[:8], 'big'):020d}.log").write_bytes(data)
    topic, _, partition = topic_partition.rpartition("-")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        checkpoint = data_dir / name
        if checkpoint.exists():
            rows = [row for row in checkpoint.read_text().splitlines()[2:] if not row.startswith(f"{topic} {partition} ")]
            checkpoint.write_text("\n".join(["0", str(len(rows)), *rows]) + "\n")
    (data_dir / ".kafka_cleanshutdown").unlink(missing_ok=True)


def data_batch(offset: int, *records: tuple[bytes | None, bytes | None], epoch: int = 0, **settings: Any) -> bytes:
    """Returns a batch of (key, value) records from `offset` on."""
    rows = [Record(offset + index, TIMESTAMP_MS + offset + index, key, value) for index, (key, value) in enumerate(records)]
    return bytes(build_batch(rows, base_offset=offset, partition_leader_epoch=epoch, **settings))


def marker_batch(offset: int, producer_id: int, control_type: ControlRecordType, *, epoch: int = 0) -> bytes:
    """Returns a producer's COMMIT or ABORT marker."""
    return bytes(
        build_end_transaction_marker(
            control_type,
            coordinator_epoch=0,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp=TIMESTAMP_MS + offset,
            base_offset=offset,
            partition_leader_epoch=epoch,
        )
    )


def transactional(producer_id: int, sequence: int = 0) -> dict[str, Any]:
    """Returns the settings of `data_batch` for a transactional batch of a producer."""
    return {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence, "is_transactional": True}


def kip_transactions() -> list[bytes]:
    """Returns the KIP's example log ("Exactly-Once Semantics"), offsets 0 to 5.

    Producer 4001 commits A and B, producer 4002 aborts X, and Z is in no transaction.
    """
    return [
        data_batch(0, (b"A", b"1"), **transactional(4001)),
        data_batch(1, (b"B", b"2"), **transactional(4001, 1)),
        data_batch(2, (b"X", b"9"), **transactional(4002)),
        marker_batch(3, 4001, ControlRecordType.COMMIT),
        marker_batch(4, 4002, ControlRecordType.ABORT),
        data_batch(5, (b"Z", b"10")),
    ]


def keys_read(bootstrap_servers: str, topic: str, *, isolation: str = "read_committed") -> list[bytes]:
    """Returns the keys that a consumer reads from the beginning to the end of partition 0."""
    consumer = Consumer(
        quiet({"bootstrap.servers": bootstrap_servers, "group.id": "g", "isolation.level": isolation, "enable.partition.eof": True})
    )
    consumer.assign([ConsumedPartition(topic, 0, 0)])
    keys: list[bytes] = []
    deadline = time.monotonic() + REACHED_S
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error() is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return keys
            keys.append(message.key())
    finally:
        consumer.close()
    raise AssertionError(f"{topic} was not read to its end; so far {keys}")


def random_transactions(chance: random.Random) -> list[bytes]:
    """Returns a random log of three producers' interleaved transactions and plain records.

    Every transaction ends in a marker.
    """
    log: list[bytes] = []
    open_producers: dict[int, int] = {}
    sequences = dict.fromkeys((4001, 4002, 4003), 0)
    for _ in range(24):
        producer = chance.choice((0, *sequences))
        offset = len(log)
        if producer == 0:
            log.append(data_batch(offset, (b"plain", f"{offset}".encode())))
        elif producer in open_producers and chance.random() < 0.4:
            del open_producers[producer]
            log.append(marker_batch(offset, producer, chance.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))))
        else:
            open_producers[producer] = offset
            log.append(data_batch(offset, (b"tx", f"{offset}".encode()), **transactional(producer, sequences[producer])))
            sequences[producer] += 1
    for producer in open_producers:
        log.append(marker_batch(len(log), producer, ControlRecordType.COMMIT))
    return log
