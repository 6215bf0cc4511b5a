"""Transactions on three brokers: librdkafka through deaths of coordinators and leaders; the tool;
timeouts; what v2 adds by itself.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.mirrors.mirror_harness import call
from support.waiting import REACHED_S

from kmirror import EmbeddedCluster
from kmirror.admin.reassignments import ElectionType
from kmirror.cli import transactions as tool
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.network.client import NetworkClient
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.server.kafka_server import KafkaServer
from kmirror.wire.messages import add_partitions_to_txn, end_txn, find_coordinator, init_producer_id, produce

CONFIG = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.partition.verification.enable": "true",
}
TIMEOUT_S = REACHED_S


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(brokers=3, config=CONFIG) as running:
        yield running


def create(cluster: EmbeddedCluster, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(TIMEOUT_S)


def producer(cluster: EmbeddedCluster, name: str, **settings: object) -> ck.Producer:
    made = ck.Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": name, "log_level": 0, **settings})
    made.init_transactions(TIMEOUT_S)
    return made


def read(cluster: EmbeddedCluster, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[str]:
    """All values up to the end (for read_committed: the last stable offset), sorted."""
    reader = ck.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    reader.assign([ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING) for partition in range(partitions)])
    values: list[str] = []
    ended: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    while len(ended) < partitions:
        assert time.monotonic() < deadline, f"no end of {topic} after {values}"
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value().decode())
        elif message is not None and message.error().code() == ck.KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    reader.close()
    return sorted(values)


def wait_until(cluster: EmbeddedCluster, topic: str, expected: list[str], partitions: int = 1) -> None:
    """Markers are written after EndTxn was answered."""
    deadline = time.monotonic() + TIMEOUT_S
    while (got := read(cluster, topic, partitions)) != expected:
        assert time.monotonic() < deadline, got


def index_of_leader(cluster: EmbeddedCluster, topic: str, partition: int) -> int:
    def look(server: KafkaServer) -> int:
        assert server.broker is not None
        registration = server.broker.metadata_cache.partition(TopicPartition(topic, partition))
        assert registration is not None
        return registration.leader - 1

    return cluster.call(look)


def id_coordinated_by_a_broker_that_may_die(cluster: EmbeddedCluster, prefix: str) -> tuple[str, int]:
    """The first node is the controller, too, and stays. On a busy machine it may lead all partitions of
    __transaction_state, because the other nodes were fenced: then preferred leaders are elected.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while (found := _id_coordinated_elsewhere(cluster, prefix)) is None:
        assert time.monotonic() < deadline, "the controller's node leads every partition of __transaction_state"
        call(cluster.bootstrap_servers, lambda admin: admin.elect_leaders(ElectionType.PREFERRED, None))
        time.sleep(0.1)
    return found


def _id_coordinated_elsewhere(cluster: EmbeddedCluster, prefix: str) -> tuple[str, int] | None:
    for number in range(50):
        name = f"{prefix}-{number}"

        def partition_of(server: KafkaServer, name: str = name) -> TopicPartition:
            assert server.broker is not None
            return server.broker.transactions.coordinator.partition_for(name)

        topic_partition = cluster.call(partition_of)
        node = index_of_leader(cluster, topic_partition.topic, topic_partition.partition)
        if node > 0:
            return name, node
    return None


@pytest.mark.parametrize("step", ["begun", "committing", "committed", "leader"])
def test_a_transaction_commits_whole_although_a_broker_dies(cluster: EmbeddedCluster, step: str) -> None:
    topic = f"dies-{step}"
    create(cluster, topic, 2)
    producer(cluster, "creates-the-topic")
    name, coordinator = id_coordinated_by_a_broker_that_may_die(cluster, step)
    victim = coordinator
    if step == "leader":
        victim = next((index_of_leader(cluster, topic, partition) for partition in (0, 1) if index_of_leader(cluster, topic, partition)), 1)
    sender = producer(cluster, name)
    sender.begin_transaction()
    sender.produce(topic, b"aborted", partition=0)
    sender.flush(TIMEOUT_S)
    sender.abort_transaction(TIMEOUT_S)
    try:
        sender.begin_transaction()
        if step == "begun":
            cluster.kill_node(victim)
        for number in range(10):
            sender.produce(topic, b"%d" % number, partition=number % 2)
        if step != "committing":
            assert sender.flush(TIMEOUT_S) == 0
        if step in ("committing", "leader"):
            cluster.kill_node(victim)
        sender.commit_transaction(TIMEOUT_S)
        if step == "committed":
            cluster.kill_node(victim)
        wait_until(cluster, topic, [str(number) for number in range(10)], 2)
        sender.begin_transaction()
        sender.produce(topic, b"next", partition=0)
        sender.commit_transaction(TIMEOUT_S)
        wait_until(cluster, topic, [*map(str, range(10)), "next"], 2)
    finally:
        cluster.start_node(victim)


def test_offsets_of_a_transaction_count_when_it_commits(cluster: EmbeddedCluster) -> None:
    create(cluster, "offsets")
    sender = producer(cluster, "offsets")
    group = ck.Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "in-transactions", "log_level": 0})
    metadata = group.consumer_group_metadata()
    where = ck.TopicPartition("offsets", 0)
    for offset, commit in ((5, True), (9, False)):
        sender.begin_transaction()
        sender.send_offsets_to_transaction([ck.TopicPartition("offsets", 0, offset)], metadata, TIMEOUT_S)
        if commit:
            sender.commit_transaction(TIMEOUT_S)
        else:
            sender.abort_transaction(TIMEOUT_S)
        (committed,) = group.committed([where], timeout=TIMEOUT_S)
        assert committed.offset == 5, "an answer waits for open transactions (require stable)"
    group.close()


def test_a_second_producer_fences_the_first(cluster: EmbeddedCluster) -> None:
    create(cluster, "fenced")
    first = producer(cluster, "fenced")
    first.begin_transaction()
    first.produce("fenced", b"of the first")
    first.flush(TIMEOUT_S)
    second = producer(cluster, "fenced")
    with pytest.raises(ck.KafkaException) as caught:
        first.commit_transaction(TIMEOUT_S)
    assert caught.value.args[0].fatal()
    second.begin_transaction()
    second.produce("fenced", b"of the second")
    second.commit_transaction(TIMEOUT_S)
    wait_until(cluster, "fenced", ["of the second"])
    assert read(cluster, "fenced", isolation="read_uncommitted") == ["of the first", "of the second"]


def test_a_transaction_that_takes_too_long_is_aborted(cluster: EmbeddedCluster) -> None:
    create(cluster, "slow")
    slow = producer(cluster, "slow", **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    slow.begin_transaction()
    slow.produce("slow", b"late")
    slow.flush(TIMEOUT_S)
    other = producer(cluster, "other")
    other.begin_transaction()
    other.produce("slow", b"in time")
    other.commit_transaction(TIMEOUT_S)
    wait_until(cluster, "slow", ["in time"])
    with pytest.raises(ck.KafkaException):
        slow.commit_transaction(TIMEOUT_S)


# -- requests by hand
# ---------------------------------------------------------------------------------------------------------


def ask(cluster: EmbeddedCluster, node: int, message: Any, version: int) -> Any:
    async def main(runtime: Runtime) -> Any:
        client = NetworkClient(runtime, "by-hand")
        try:
            return await client.send("127.0.0.1", cluster.nodes[node].port, message, timeout_ms=10_000, version=version)
        finally:
            client.close()

    return run(main)


def coordinator_of(cluster: EmbeddedCluster, name: str) -> int:
    request = find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
    (found,) = ask(cluster, 0, request, 6).coordinators
    assert found.error_code == 0
    return found.node_id - 1


def transactional_batch(producer_id: int, epoch: int, value: bytes = b"by hand") -> bytearray:
    records = [Record(0, 1_750_000_000_000, None, value, [])]
    return build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True)


def produce_by_hand(cluster: EmbeddedCluster, name: str, topic: str, batch: bytearray, version: int) -> Any:
    data = produce.PartitionProduceData(index=0, records=batch)
    request = produce.ProduceRequest(
        transactional_id=name, acks=-1, timeout_ms=5_000, topic_data=[produce.TopicProduceData(name=topic, partition_data=[data])]
    )
    response = ask(cluster, index_of_leader(cluster, topic, 0), request, version)
    return response.responses[0].partition_responses[0]


def test_produce_12_adds_its_partition_and_older_ones_are_refused(cluster: EmbeddedCluster) -> None:
    create(cluster, "implicit")
    producer(cluster, "makes-the-topic")
    node = coordinator_of(cluster, "implicit")
    given = ask(cluster, node, init_producer_id.InitProducerIdRequest(transactional_id="implicit", transaction_timeout_ms=60_000), 5)
    who = (given.producer_id, given.producer_epoch)
    for version, expected in ((10, Errors.INVALID_TXN_STATE), (11, Errors.TRANSACTION_ABORTABLE), (12, Errors.NONE)):
        answer = produce_by_hand(cluster, "implicit", "implicit", transactional_batch(*who), version)
        assert Errors.for_code(answer.error_code) is expected, version
    end = end_txn.EndTxnRequest(transactional_id="implicit", producer_id=who[0], producer_epoch=who[1], committed=True)
    ended = ask(cluster, node, end, 5)
    assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, who[0], who[1] + 1)
    wait_until(cluster, "implicit", ["by hand"])
    again = ask(cluster, node, end, 5)
    assert (again.error_code, again.producer_epoch) == (0, who[1] + 1), "the same end again is done already"
    zombie = produce_by_hand(cluster, "implicit", "implicit", transactional_batch(*who), 12)
    assert Errors.for_code(zombie.error_code) is Errors.INVALID_PRODUCER_EPOCH


def test_errors_that_old_versions_do_not_know(cluster: EmbeddedCluster) -> None:
    create(cluster, "old")
    producer(cluster, "old")
    node = coordinator_of(cluster, "old")
    fenced: dict[str, Any] = {"transactional_id": "old"}
    given = ask(cluster, node, init_producer_id.InitProducerIdRequest(transactional_id="old", transaction_timeout_ms=60_000), 5)
    fenced |= {"producer_id": given.producer_id, "producer_epoch": given.producer_epoch + 5}
    for version, expected in ((1, Errors.INVALID_PRODUCER_EPOCH), (2, Errors.PRODUCER_FENCED)):
        answer = ask(cluster, node, end_txn.EndTxnRequest(committed=True, **fenced), version)
        assert Errors.for_code(answer.error_code) is expected
    topics = [add_partitions_to_txn.AddPartitionsToTxnTopic(name="old", partitions=[0, 7])]
    request = add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="old",
        v3_and_below_producer_id=fenced["producer_id"],
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )
    response = ask(cluster, node, request, 3)
    (result,) = response.results_by_topic_v3_and_below
    assert [row.partition_error_code for row in result.results_by_partition] == [
        Errors.OPERATION_NOT_ATTEMPTED,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    too_long = init_producer_id.InitProducerIdRequest(transactional_id="old", transaction_timeout_ms=900_001)
    assert ask(cluster, node, too_long, 5).error_code == Errors.INVALID_TRANSACTION_TIMEOUT
    elsewhere = ask(cluster, (node + 1) % 3, end_txn.EndTxnRequest(committed=True, **fenced), 5)
    assert elsewhere.error_code == Errors.NOT_COORDINATOR


# -- the tool
# -------------------------------------------------------------------------------------------------------------------


def run_tool(capsys: pytest.CaptureFixture[str], cluster: EmbeddedCluster, *arguments: str, code: int = 0) -> str:
    capsys.readouterr()
    assert tool.main(["--bootstrap-server", cluster.bootstrap_servers, *arguments]) == code
    got = capsys.readouterr()
    return got.err if code else got.out


def table(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("\t")[:-1]] for line in text.splitlines()]


def test_the_tool_lists_describes_and_terminates(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    create(cluster, "tool")
    sender = producer(cluster, "tool-producer")
    sender.begin_transaction()
    sender.produce("tool", b"open")
    sender.flush(TIMEOUT_S)
    listed = table(run_tool(capsys, cluster, "list", "--transactional-id-pattern", "tool-.*"))
    assert listed[0] == ["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]
    (row,) = listed[1:]
    assert (row[0], row[3]) == ("tool-producer", "Ongoing")
    described = table(run_tool(capsys, cluster, "describe", "--transactional-id", "tool-producer"))[1]
    assert described[0] == row[1] and described[2] == row[2] and described[4] == "Ongoing" and described[8] == "tool-0"
    (found,) = json.loads(run_tool(capsys, cluster, "--json", "describe-producers", "--topic", "tool", "--partition", "0"))
    assert (str(found["ProducerId"]), found["CurrentTransactionStartOffset"], found["LastSequence"]) == (row[2], 0, 0)
    assert table(run_tool(capsys, cluster, "find-hanging", "--topic", "tool", "--max-transaction-timeout", "0"))[1:] == [], "it is known"
    assert run_tool(capsys, cluster, "forceTerminateTransaction", "--transactionalId", "tool-producer") == ""
    wait_until(cluster, "tool", [])
    assert table(run_tool(capsys, cluster, "describe", "--transactional-id", "tool-producer"))[1][4] in ("Empty", "CompleteAbort")
    with pytest.raises(ck.KafkaException):
        sender.commit_transaction(TIMEOUT_S)


def test_the_tool_finds_a_hanging_transaction_and_aborts_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Without verification a late batch of a producer that nobody knows opens a transaction that
    nobody ends.
    """
    with EmbeddedCluster(config=CONFIG | {"transaction.partition.verification.enable": "false"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("hangs", 1, 1)])["hangs"].result(TIMEOUT_S)
        sender = producer(cluster, "sends-behind-it")
        late = produce_by_hand(cluster, "nobody", "hangs", transactional_batch(4711, 3), 9)
        assert late.error_code == 0
        sender.begin_transaction()
        sender.produce("hangs", b"stuck behind it")
        sender.commit_transaction(TIMEOUT_S)
        assert read(cluster, "hangs") == []
        found = table(run_tool(capsys, cluster, "find-hanging", "--topic", "hangs", "--max-transaction-timeout", "0"))
        assert found[0] == list(tool.HANGING_HEADERS)
        (row,) = found[1:]
        assert row[:6] == ["hangs", "0", "4711", "3", "-1", "0"]
        assert table(run_tool(capsys, cluster, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "9999999"))[1:] == []
        nothing = run_tool(capsys, cluster, "abort", "--topic", "hangs", "--partition", "0", "--start-offset", "1", code=1)
        assert nothing == "Could not find any open transactions starting at offset 1 on partition hangs-0\n"
        assert run_tool(capsys, cluster, "abort", "--topic", "hangs", "--partition", "0", "--start-offset", "0") == ""
        wait_until(cluster, "hangs", ["stuck behind it"])
        assert table(run_tool(capsys, cluster, "find-hanging", "--topic", "hangs", "--max-transaction-timeout", "0"))[1:] == []


def test_the_tool_says_what_is_wrong(cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = run_tool(capsys, cluster, "describe", "--transactional-id", "nobody", code=1)
    assert unknown == (
        "Failed to describe transaction state of transactional-id `nobody`: DescribeTransactions request for transactionalId `nobody` "
        "failed because the ID could not be found. Enable debug logging for additional detail.\n"
    )
    assert "requires either --topic or --broker-id" in run_tool(capsys, cluster, "find-hanging", code=1)
    assert "either with --start-offset" in run_tool(capsys, cluster, "abort", "--topic", "t", "--partition", "0", code=1)
    assert run_tool(capsys, cluster, "abort", "--topic", "t", "--partition", "0", "--producer-id", "1", code=1) == (
        "Missing required argument --producer-epoch\n"
    )
    assert "error: too few arguments" in run_tool(capsys, cluster, code=1)
    pattern = run_tool(capsys, cluster, "list", "--transactional-id-pattern", "(", code=1)
    assert pattern.startswith("Failed to list transactions: The regular expression is not valid.")
    assert tool.main(["list"]) == 1 and "argument --bootstrap-server is required" in capsys.readouterr().err
    assert tool.main(["--version"]) == 0 and capsys.readouterr().out == "4.3.0\n"
