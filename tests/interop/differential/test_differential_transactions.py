"""Each transactional request in each state of a transactional id, to Apache Kafka and to kmirror;
and the state that follows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from harness import Pair, Side
from steps import create_topic, produce, records
from support.waiting import REACHED_S

from kmirror.common.errors import Errors
from kmirror.record.builder import build_batch
from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kmirror.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from kmirror.wire.messages.describe_transactions import DescribeTransactionsRequest
from kmirror.wire.messages.end_txn import EndTxnRequest
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kmirror.wire.messages.find_coordinator import FindCoordinatorRequest
from kmirror.wire.messages.init_producer_id import InitProducerIdRequest
from kmirror.wire.messages.list_transactions import ListTransactionsRequest
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kmirror.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kmirror.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest

pytestmark = pytest.mark.interop

TOPIC = "in-transactions"
TIMEOUT_MS = 60_000
RETRIED = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR, Errors.CONCURRENT_TRANSACTIONS)
_made: list[str] = []


@pytest.fixture(autouse=True)
def topics(pair: Pair) -> None:
    """The topic, and both coordinators' topics."""
    if not _made:
        create_topic(pair, TOPIC, partitions=2)
        for side in pair.sides:
            until_done(side, lambda side=side: side.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["any"]), 6).coordinators[0])
            Producer(side, "first").init()
            until_done(side, lambda side=side: side.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 6).coordinators[0])
        _made.append(TOPIC)


def until_done(side: Side, ask: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + REACHED_S
    while (answer := ask()).error_code in RETRIED and time.monotonic() < deadline:
        time.sleep(0.02)
    assert answer.error_code == 0, (side.name, answer)
    return answer


class Producer:
    """One side's producer of a transactional id: what it was given."""

    def __init__(self, side: Side, name: str) -> None:
        self.side, self.name = side, name
        self.id, self.epoch = -1, -1

    def init(self, version: int = 5) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        answer = until_done(self.side, lambda: self.side.ask(request, version))
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.side.producer_ids[f"id of {self.name}"] = self.id

    def add(self, version: int) -> None:
        if version < 2:
            request = add_v3(self)
            answer = self.side.ask(request, 3)
            assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0, (self.side.name, answer)
        written = self.side.ask(batch(self), 12 if version == 2 else 11)
        assert written.responses[0].partition_responses[0].error_code == 0, (self.side.name, written)

    def end(self, version: int, *, commit: bool) -> None:
        answer = until_done(self.side, lambda: self.side.ask(end(self, commit), 5 if version == 2 else 4))
        if version == 2:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()

    def settle(self) -> None:
        """Wait until markers are written."""
        deadline = time.monotonic() + REACHED_S
        while time.monotonic() < deadline:
            found = self.side.ask(DescribeTransactionsRequest([self.name]), 0).transaction_states[0]
            if not found.transaction_state.startswith("Prepare"):
                return
            time.sleep(0.01)
        raise AssertionError(f"{self.side.name}: {self.name} stays prepared")


def batch(producer: Producer, *, id_step: int = 0, epoch_step: int = 0, sequence: int = 0) -> Any:
    data = build_batch(
        records(b"v"),
        producer_id=producer.id + id_step,
        producer_epoch=producer.epoch + epoch_step,
        base_sequence=sequence,
        is_transactional=True,
    )
    return produce(TOPIC, data, transactional_id=producer.name)


def add_v3(producer: Producer, *, id_step: int = 0, epoch_step: int = 0, partitions: tuple[int, ...] = (0,), topic: str = TOPIC) -> Any:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=producer.name,
        v3_and_below_producer_id=producer.id + id_step,
        v3_and_below_producer_epoch=producer.epoch + epoch_step,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
    )


def add_v5(producer: Producer, *, verify_only: bool, epoch_step: int = 0, id_step: int = 0) -> Any:
    transaction = AddPartitionsToTxnTransaction(
        producer.name, producer.id + id_step, producer.epoch + epoch_step, verify_only, [AddPartitionsToTxnTopic(TOPIC, [0, 1])]
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def end(producer: Producer, commit: bool, *, id_step: int = 0, epoch_step: int = 0) -> Any:
    return EndTxnRequest(producer.name, producer.id + id_step, producer.epoch + epoch_step, commit)


def init(producer: Producer, *, id_step: int | None = None, epoch_step: int = 0, timeout_ms: int = TIMEOUT_MS) -> Any:
    if id_step is None:
        return InitProducerIdRequest(producer.name, timeout_ms)
    return InitProducerIdRequest(producer.name, timeout_ms, producer.id + id_step, producer.epoch + epoch_step)


def offsets(producer: Producer, *, topic: str = TOPIC, epoch_step: int = 0, generation: int = -1, member: str = "") -> Any:
    partitions = [TxnOffsetCommitRequestPartition(0, 5), TxnOffsetCommitRequestPartition(9, 5)]
    return TxnOffsetCommitRequest(
        transactional_id=producer.name,
        group_id=f"group of {producer.name}",
        producer_id=producer.id,
        producer_epoch=producer.epoch + epoch_step,
        generation_id=generation,
        member_id=member,
        topics=[TxnOffsetCommitRequestTopic(topic, partitions)],
    )


def fresh(_: Producer, __: int) -> None:
    """The id is not known."""


def empty(producer: Producer, _: int) -> None:
    producer.init()


def ongoing(producer: Producer, version: int) -> None:
    producer.init()
    producer.add(version)


def complete_commit(producer: Producer, version: int) -> None:
    ongoing(producer, version)
    producer.end(version, commit=True)


def complete_abort(producer: Producer, version: int) -> None:
    ongoing(producer, version)
    producer.end(version, commit=False)


def bumped(producer: Producer, _: int) -> None:
    """Empty, and the producer said itself which epoch it had."""
    producer.init()
    answer = until_done(producer.side, lambda: producer.side.ask(init(producer, id_step=0), 4))
    producer.epoch = answer.producer_epoch


OTHER_COORDINATOR_EPOCH = 1_000


def marked_by_another_coordinator(producer: Producer, version: int) -> None:
    """Ongoing, and the partition has seen a coordinator of a higher epoch: it refuses the real
    one's marker.
    """
    ongoing(producer, version)
    topics = [WritableTxnMarkerTopic(TOPIC, [0])]
    marker = WritableTxnMarker(producer.id, producer.epoch, False, topics, OTHER_COORDINATOR_EPOCH, 0)
    answer = producer.side.ask(WriteTxnMarkersRequest([marker]), 1).markers[0].topics[0].partitions[0]
    assert answer.error_code == 0, (producer.side.name, answer)


def decided(producer: Producer, version: int, *, commit: bool) -> None:
    """The end is decided and answered, its markers are never written."""
    marked_by_another_coordinator(producer, version)
    answer = producer.side.ask(end(producer, commit), 5 if version == 2 else 4)
    assert answer.error_code == 0, (producer.side.name, answer)
    if version == 2:
        producer.id, producer.epoch = answer.producer_id, answer.producer_epoch


def prepare_commit(producer: Producer, version: int) -> None:
    decided(producer, version, commit=True)


def prepare_abort(producer: Producer, version: int) -> None:
    decided(producer, version, commit=False)


def fenced(producer: Producer, version: int) -> None:
    """A new instance asked for the id, so the open transaction is being aborted; `producer` is the
    old instance.
    """
    marked_by_another_coordinator(producer, version)
    answer = producer.side.ask(init(producer), 5)
    assert answer.error_code == Errors.CONCURRENT_TRANSACTIONS, (producer.side.name, answer)


STATES = [(fresh, 1), (empty, 1), (bumped, 1)]
STATES += [(state, client) for state in (ongoing, complete_commit, complete_abort) for client in (1, 2)]
"""With the version of the client that brought the id there."""
PREPARED = [(state, client) for state in (prepare_commit, prepare_abort, fenced) for client in (1, 2)]

REQUESTS: dict[str, tuple[Callable[[Producer], Any], tuple[int, ...]]] = {
    "init": (init, (0, 5)),
    "init, same epoch": (lambda producer: init(producer, id_step=0), (3, 4)),
    "init, epoch before": (lambda producer: init(producer, id_step=0, epoch_step=-1), (3, 4)),
    "init, epoch after": (lambda producer: init(producer, id_step=0, epoch_step=1), (3, 4)),
    "init, other id": (lambda producer: init(producer, id_step=500_000), (4,)),
    "init, timeout 0": (lambda producer: init(producer, timeout_ms=0), (4,)),
    "init, timeout too long": (lambda producer: init(producer, timeout_ms=900_001), (4,)),
    "add": (add_v3, (0, 1, 2, 3)),
    "add, two partitions": (lambda producer: add_v3(producer, partitions=(0, 1)), (3,)),
    "add, unknown partition": (lambda producer: add_v3(producer, partitions=(0, 7)), (3,)),
    "add, unknown topic": (lambda producer: add_v3(producer, topic="nowhere"), (3,)),
    "add, old epoch": (lambda producer: add_v3(producer, epoch_step=-1), (1, 2)),
    "add, new epoch": (lambda producer: add_v3(producer, epoch_step=1), (1, 2)),
    "add, other id": (lambda producer: add_v3(producer, id_step=500_000), (3,)),
    "add of a broker": (lambda producer: add_v5(producer, verify_only=False), (4, 5)),
    "verify": (lambda producer: add_v5(producer, verify_only=True), (4, 5)),
    "verify, old epoch": (lambda producer: add_v5(producer, verify_only=True, epoch_step=-1), (4,)),
    "verify, other id": (lambda producer: add_v5(producer, verify_only=True, id_step=500_000), (4,)),
    "commit": (lambda producer: end(producer, True), (0, 2, 4, 5)),
    "abort": (lambda producer: end(producer, False), (0, 2, 4, 5)),
    "commit, epoch before": (lambda producer: end(producer, True, epoch_step=-1), (1, 2, 4, 5)),
    "abort, epoch before": (lambda producer: end(producer, False, epoch_step=-1), (1, 2, 4, 5)),
    "commit, epoch after": (lambda producer: end(producer, True, epoch_step=1), (4, 5)),
    "abort, other id": (lambda producer: end(producer, False, id_step=500_000), (4, 5)),
    "produce": (lambda producer: batch(producer, sequence=1), (9, 11, 12)),
    "produce, epoch before": (lambda producer: batch(producer, epoch_step=-1), (11, 12)),
    "produce, epoch after": (lambda producer: batch(producer, epoch_step=1), (11, 12)),
    "offsets": (offsets, (0, 3, 4, 5)),
    "offsets, epoch before": (lambda producer: offsets(producer, epoch_step=-1), (3, 5)),
    "offsets, unknown topic": (lambda producer: offsets(producer, topic="nowhere"), (5,)),
    "offsets, of a member": (lambda producer: offsets(producer, generation=3, member="m"), (5,)),
    "add offsets": (lambda producer: AddOffsetsToTxnRequest(producer.name, producer.id, producer.epoch, "g"), (0, 4)),
    "add offsets, old epoch": (lambda producer: AddOffsetsToTxnRequest(producer.name, producer.id, producer.epoch - 1, "g"), (1, 2)),
}


def blank_offsets(answer: dict[str, Any]) -> None:
    """Both logs grow by the same batches, but markers come when they come; and partitions are in
    the order of a hash table.
    """
    for topic in answer.get("responses", ()):
        for partition in topic.get("partition_responses", ()):
            partition["base_offset"] = partition["base_offset"] >= 0
    transactions = [result["topic_results"] for result in answer.get("results_by_transaction", ())]
    if isinstance(answer.get("producer_id"), int):
        answer["producer_id"] = answer["producer_id"] >= 0  # of an id that was not known before
    for topics in (*transactions, answer.get("results_by_topic_v3_and_below", ())):
        for topic in topics:
            topic["results_by_partition"].sort(key=lambda result: result["partition_index"])


def blank_times(answer: dict[str, Any]) -> None:
    for state in answer["transaction_states"]:
        state["producer_id"] = state["producer_id"] if isinstance(state["producer_id"], str) else state["producer_id"] >= 0
        state["transaction_start_time_ms"] = state.get("transaction_start_time_ms", -1) > 0
        for topic in state["topics"]:
            topic["partitions"].sort()


@pytest.mark.parametrize(("state", "client"), STATES, ids=lambda value: getattr(value, "__name__", None))
def test_every_request_in_every_state(pair: Pair, state: Callable[[Producer, int], None], client: int) -> None:
    """The answer, then what DescribeTransactions says when markers are written, then a commit."""
    for what, (make, versions) in REQUESTS.items():
        for version in versions:
            name = f"{state.__name__} {client} {what} {version}"
            producers = {side.name: Producer(side, name) for side in pair.sides}
            for producer in producers.values():
                state(producer, client)
            note = f"{what} in {state.__name__} of v{client}"
            pair.same(lambda side, make=make, of=producers: make(of[side.name]), version, note=note, edit=blank_offsets)
            for producer in producers.values():
                producer.settle()
            pair.same(DescribeTransactionsRequest([name]), 0, note=f"after {note}", edit=blank_times)


@pytest.mark.parametrize(("state", "client"), PREPARED, ids=lambda value: getattr(value, "__name__", None))
def test_every_request_while_markers_are_written(pair: Pair, state: Callable[[Producer, int], None], client: int) -> None:
    """The producer of version 2 that ended its next transaction meanwhile was fenced.

    No request changes these states, so one id serves all.
    """
    name = f"{state.__name__} {client}"
    producers = {side.name: Producer(side, name) for side in pair.sides}
    for producer in producers.values():
        state(producer, client)
    for what, (make, versions) in REQUESTS.items():
        for version in versions:
            note = f"{what} in {state.__name__} of v{client}"
            pair.same(lambda side, make=make: make(producers[side.name]), version, note=note, edit=blank_offsets)
    pair.same(DescribeTransactionsRequest([name]), 0, note=f"after {name}", edit=blank_times)


@pytest.fixture(params=[1, 0])
def older_transactions(request: pytest.FixtureRequest, pair: Pair) -> Iterator[int]:
    """Both clusters with transaction.version at an older level."""

    def set_level(level: int) -> None:
        updates = [FeatureUpdateKey("transaction.version", level, False, 1 if level == 2 else 2)]
        for side in pair.sides:
            answer = side.ask(UpdateFeaturesRequest(feature_updates=updates), 1)
            assert answer.error_code == 0 and all(result.error_code == 0 for result in answer.results), (side.name, answer)
        time.sleep(0.5)  # until the brokers have it

    set_level(request.param)
    yield request.param
    set_level(2)


def test_every_request_where_transactions_are_older(pair: Pair, older_transactions: int) -> None:
    def ongoing_there(producer: Producer, version: int) -> None:
        ongoing(producer, version)

    ongoing_there.__name__ = f"ongoing at {older_transactions}"
    test_every_request_in_every_state(pair, ongoing_there, 1)


def test_markers_by_hand(pair: Pair) -> None:
    """WriteTxnMarkers: of a transaction that is open, of none, of an old epoch, of an old
    coordinator, of no partition.
    """
    producers = {side.name: Producer(side, "markers") for side in pair.sides}
    for producer in producers.values():
        complete_commit(producer, 2)
        producer.add(2)

    def marker(step: int, coordinator_epoch: int, transaction_version: int, topic: str = TOPIC) -> Callable[[Side], Any]:
        def make(side: Side) -> Any:
            producer = producers[side.name]
            partitions = [WritableTxnMarkerTopic(topic, [0, 1, 9])]
            entry = WritableTxnMarker(producer.id, producer.epoch + step, False, partitions, coordinator_epoch, transaction_version)
            return WriteTxnMarkersRequest([entry])

        return make

    for step in (-1, 0, 0, 1, 1, 0):
        for coordinator_epoch in (3, 2, 3):
            for version, transaction_version in ((1, 0), (2, 1), (2, 2)):
                note = f"epoch {step:+}, coordinator {coordinator_epoch}, transactions v{transaction_version}"
                pair.same(marker(step, coordinator_epoch, transaction_version), version, note=note)
    pair.same(marker(2, 3, 0, "nowhere"), 1, note="unknown topic")
    pair.same(WriteTxnMarkersRequest([]), 1, note="nothing")


def test_lists(pair: Pair) -> None:
    producers = [Producer(side, name) for side in pair.sides for name in ("list-a", "list-b")]
    for producer in producers:
        (ongoing if producer.name == "list-a" else empty)(producer, 2)

    def only_ours(answer: dict[str, Any]) -> None:
        mine = [entry for entry in answer["transaction_states"] if entry["transactional_id"].startswith("list-")]
        answer["transaction_states"] = sorted(mine, key=lambda entry: entry["transactional_id"])

    for filters in (
        {},
        {"state_filters": ["Ongoing"]},
        {"state_filters": ["Empty", "nonsense"]},
        {"state_filters": ["nonsense"]},
        {"producer_id_filters": [-5]},
    ):
        pair.every_version(ListTransactionsRequest(**filters), edit=only_ours, note=repr(filters))
    for duration_ms in (-1, 0, 3_600_000):
        pair.every_version(ListTransactionsRequest(duration_filter=duration_ms), 1, edit=only_ours, note=f"duration {duration_ms}")
    for pattern in ("list-a", "list", "list-.*", "", "(", "(?=x)", ".*a"):
        pair.same(ListTransactionsRequest(transactional_id_pattern=pattern), 2, edit=only_ours, note=f"pattern {pattern!r}")
    pair.same(DescribeTransactionsRequest(["list-a", "list-b", "nobody", ""]), 0, edit=blank_times)


def test_find_coordinator_of_transactions(pair: Pair) -> None:
    for version in range(1, 7):
        named = {"key": "any"} if version < 4 else {"coordinator_keys": ["any", "other"]}
        pair.same(FindCoordinatorRequest(key_type=1, **named), version)


def test_what_a_reader_of_transactions_sees(pair: Pair) -> None:
    """Markers, aborted transactions and the last stable offset are the same bytes and numbers on
    both sides.
    """
    create_topic(pair, "read-back")
    producers = {side.name: Producer(side, "read-back") for side in pair.sides}
    for side in pair.sides:
        producer = producers[side.name]
        producer.init()
        for number, commit in enumerate((True, False, True, None)):
            data = build_batch(
                records(b"%d" % number), producer_id=producer.id, producer_epoch=producer.epoch, base_sequence=0, is_transactional=True
            )
            answer = side.ask(produce("read-back", data, transactional_id="read-back"), 12)
            assert answer.responses[0].partition_responses[0].error_code == 0, (side.name, answer)
            if commit is not None:
                producer.end(2, commit=commit)

    def fetch(isolation: int) -> Callable[[Side], Any]:
        def make(side: Side) -> Any:
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic="read-back", topic_id=side.topic_id("read-back"), partitions=[partition])]
            return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=isolation, session_epoch=-1, topics=topics)

        return make

    def blank_records(answer: dict[str, Any]) -> None:
        for topic in answer["responses"]:
            for partition in topic["partitions"]:
                partition["records"] = len(partition["records"] or b"")

    for isolation in (0, 1):
        pair.same(fetch(isolation), 12, note=f"isolation {isolation}", edit=blank_records)
        pair.same(fetch(isolation), 17, note=f"isolation {isolation}", edit=blank_records)
    pair.same(DescribeProducersRequest([TopicRequest("read-back", [0])]), 0)
