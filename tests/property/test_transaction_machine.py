"""Transactions as a whole: producers, their coordinator's shard and real partition logs, against
what transactions promise.

Nothing here happens at once. A write takes its guard, asks the coordinator and is appended in three
steps that others come between; a marker reaches each partition when it likes, and an old one may
come again; the coordinator is replaced, partitions are reopened after a crash, transactions time
out, and producers that were replaced go on writing as if nothing had happened.

Checked after every step: the last stable offset never goes back, what a read_committed consumer was
shown stays as it is, and it is shown records of committed transactions only; the coordinator's
states move along Kafka's table. At the end, when everything that is under way has arrived: no
transaction hangs in a log, and each transaction is visible as a whole or not at all.

A marker of version 1 that comes again after its transaction is complete is left out: it would end
the producer's next transaction. That is the hole of version 1 (KIP-890), which epochs of version 2
close, so there it comes again at any time.

`KMIRROR_TRANSACTION_EXAMPLES=10000` makes the long run of it.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace
from support.coordinators.transaction_doubles import TIMEOUT_MS, ShardWorld
from support.logs.storage_doubles import StorageWorld

from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.coordinator.transaction.transaction_coordinator_shard import PendingCompletion
from kmirror.coordinator.transaction.transaction_metadata import TransactionMetadata
from kmirror.coordinator.transaction.transaction_state import TRANSITIONS, TransactionState
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.record.record_batch import iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.producer_append_info import ProducerAppendInfo
from kmirror.storage.producer_state_entry import VerificationGuard
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

NAMES = ("x", "y")
WEIGHTED_NAMES = ("x", "x", "x", "y")
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
ALL = 1 << 30
CONFIG = LogConfig(segment_size=3_000, index_interval=200, max_index_size=400, retention_ms=-1)
_ALLOWED = {(state, outcome) for (state, _), outcome in TRANSITIONS.items() if isinstance(outcome, TransactionState)} | {
    (TransactionState.ONGOING, TransactionState.PREPARE_ABORT)
}


@dataclass
class Producer:
    """One instance; several of one name follow each other, and the older ones do not know it."""

    name: str
    producer_id: int
    epoch: int
    transaction: int | None = None
    ending: bool | None = None
    is_dead: bool = False
    appended: dict[tuple[int, int, TopicPartition], int] = field(default_factory=dict)

    @property
    def id_and_epoch(self) -> tuple[int, int]:
        return self.producer_id, self.epoch


@dataclass
class Write:
    """A Produce request under way, with the producer's id and epoch of when it was sent."""

    producer: Producer
    id_and_epoch: tuple[int, int]
    transaction: int
    partition: TopicPartition
    guard: VerificationGuard | None = None
    is_verified: bool = False


class TransactionMachine(RuleBasedStateMachine):
    version = 2

    def __init__(self) -> None:
        super().__init__()
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="transactions-"))
        self.storage = StorageWorld()
        self.world = ShardWorld(transaction_version=self.version)
        self.world.clock = self.storage.clock
        self.world.restart()
        self.logs = {partition: self.open(partition, clean=True) for partition in PARTITIONS}
        self.producers: list[Producer] = []
        self.writes: list[Write] = []
        self.acked: dict[int, list[bytes]] = {}
        self.committed: set[int] = set()
        self.count = 0
        self.markers_done: dict[str, tuple[PendingCompletion, set[TopicPartition]]] = {}
        self.old_markers: list[tuple[PendingCompletion, TopicPartition]] = []
        self.shown: dict[TopicPartition, list[bytes]] = {partition: [] for partition in PARTITIONS}
        self.stable: dict[TopicPartition, int] = dict.fromkeys(PARTITIONS, 0)

    def open(self, partition: TopicPartition, *, clean: bool) -> UnifiedLog:
        log = UnifiedLog.open(
            str(self.root / f"{partition.topic}-{partition.partition}"),
            CONFIG,
            self.storage.ports,
            LogOpenOptions(
                last_shutdown_clean=clean, producer_state_config=ProducerStateManagerConfig(transaction_verification_enabled=True)
            ),
        )
        log.update_high_watermark(log.log_end_offset)
        return log

    # -- producers
    # ------------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(WEIGHTED_NAMES))
    def start_producer(self, name: str) -> None:
        result = self.world.init(name)
        assert result.error in (Errors.NONE, Errors.CONCURRENT_TRANSACTIONS)
        if result.error is Errors.NONE:
            self.producers.append(Producer(name, result.producer_id, result.producer_epoch))

    def living(self) -> list[Producer]:
        return [producer for producer in self.producers if not producer.is_dead]

    @precondition(lambda self: self.living())
    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS))
    def send(self, data: st.DataObject, partition: TopicPartition) -> None:
        self.send_by(data.draw(st.sampled_from(self.living())), partition)

    def send_by(self, producer: Producer, partition: TopicPartition) -> None:
        if producer.ending is not None:
            return
        if producer.transaction is None:
            self.count += 1
            producer.transaction = self.count
            self.acked[self.count] = []
        if self.version < 2 and self.world.add(producer.id_and_epoch, partition, name=producer.name, version=0) is not Errors.NONE:
            return
        self.writes.append(Write(producer, producer.id_and_epoch, producer.transaction, partition))

    @precondition(lambda self: self.living())
    @rule(data=st.data(), partition=st.sampled_from(PARTITIONS))
    def send_without_a_pause(self, data: st.DataObject, partition: TopicPartition) -> None:
        self.send(data, partition)
        if self.writes:
            self.finish(self.writes[-1])

    @precondition(lambda self: any(producer.transaction is None for producer in self.living()))
    @rule(data=st.data(), partitions=st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=2))
    def commit_a_whole_transaction(self, data: st.DataObject, partitions: list[TopicPartition]) -> None:
        self.commit_by(data.draw(st.sampled_from([each for each in self.living() if each.transaction is None])), partitions)

    def commit_by(self, producer: Producer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            self.send_by(producer, partition)
            if self.writes and self.writes[-1].producer is producer:
                self.finish(self.writes[-1])
        if not producer.is_dead and producer.transaction is not None:
            self.end_by(producer, commit=True, is_answer_lost=False)
            self.deliver_all_markers(producer.name)

    @precondition(lambda self: self.writes)
    @rule()
    def finish_all_writes(self) -> None:
        for write in list(self.writes):
            self.finish(write)

    @precondition(lambda self: self.writes)
    @rule(data=st.data())
    def go_on_with_a_write(self, data: st.DataObject) -> None:
        self.step(data.draw(st.sampled_from(self.writes)))

    def step(self, write: Write) -> None:
        log = self.logs[write.partition]
        producer_id, epoch = write.id_and_epoch
        if write.guard is None and not write.is_verified:
            try:
                write.guard = log.verification_guards.maybe_start(
                    producer_id, self.sequence(write), epoch, supports_epoch_bump=self.version == 2
                )
            except ApiException as error:
                assert error.error is Errors.INVALID_PRODUCER_EPOCH, error
                self.fail(write)
                return
            write.is_verified = write.guard is None
        elif not write.is_verified:
            self.ask_coordinator(write)
        elif write.guard is not None and not (
            log.verification_guards.is_current(producer_id, write.guard)
            or log.verification_guards.has_ongoing_transaction(producer_id, epoch)
        ):
            write.guard, write.is_verified = None, False
        else:
            self.append(write)

    def finish(self, write: Write) -> None:
        """To its end, unless the coordinator is busy with the end before."""
        for _ in range(6):
            if write in self.writes:
                self.step(write)

    def ask_coordinator(self, write: Write) -> None:
        name = write.producer.name
        if self.version == 2:
            error = self.world.add(write.id_and_epoch, write.partition, name=name)
        else:
            error = self.world.shard.verify_partitions(name, *write.id_and_epoch, [write.partition])[write.partition]
        write.is_verified = error is Errors.NONE
        if error not in (Errors.NONE, Errors.CONCURRENT_TRANSACTIONS):
            self.fail(write)
        elif error is Errors.CONCURRENT_TRANSACTIONS:
            write.guard = None

    def fail(self, write: Write) -> None:
        """The producer is told, and can only be replaced."""
        self.writes.remove(write)
        write.producer.is_dead = True

    def sequence(self, write: Write) -> int:
        return write.producer.appended.get((*write.id_and_epoch, write.partition), 0)

    def append(self, write: Write) -> None:
        sequence = self.sequence(write)
        value = b"%d/%d-%d" % (write.transaction, write.partition.partition, sequence)
        producer_id, epoch = write.id_and_epoch
        batch = build_batch(
            [Record(0, self.world.now_ms, None, value, [])],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        log = self.logs[write.partition]
        try:
            log.append_as_leader(batch, leader_epoch=0, verification_guard=write.guard)
        except ApiException as error:
            assert error.error in (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_EPOCH, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER), error
            self.fail(write)
            return
        self.writes.remove(write)
        write.producer.appended[*write.id_and_epoch, write.partition] = sequence + 1
        self.acked[write.transaction].append(value)

    @precondition(lambda self: any(producer.transaction is not None for producer in self.living()))
    @rule(data=st.data(), commit=st.booleans(), is_answer_lost=st.booleans())
    def end(self, data: st.DataObject, commit: bool, is_answer_lost: bool) -> None:
        """A producer commits when all its writes are acknowledged; it aborts at any time, or asks
        again what it did not hear.
        """
        self.end_by(
            data.draw(st.sampled_from([each for each in self.living() if each.transaction is not None])),
            commit=commit,
            is_answer_lost=is_answer_lost,
        )

    def end_by(self, producer: Producer, *, commit: bool, is_answer_lost: bool) -> None:
        under_way = [write for write in self.writes if write.producer is producer]
        assert producer.transaction is not None
        if producer.ending is not None:
            commit = producer.ending
        elif commit and (under_way or not self.acked[producer.transaction]):
            return
        is_first = producer.ending is None
        producer.ending = commit
        before = len(self.world.log)
        result = self.world.end(producer.id_and_epoch, commit=commit, name=producer.name, version=self.version)
        if result.error is Errors.NONE and commit and (is_first or len(self.world.log) > before):
            self.committed.add(producer.transaction)
        if result.error is Errors.CONCURRENT_TRANSACTIONS:
            return
        if result.error is not Errors.NONE:
            producer.is_dead = True
        elif not is_answer_lost:
            producer.transaction = producer.ending = None
            producer.producer_id, producer.epoch = result.producer_id, result.producer_epoch

    # -- the coordinator
    # --------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(WEIGHTED_NAMES))
    def deliver_all_markers(self, name: str) -> None:
        for partition in (*PARTITIONS, PARTITIONS[0]):
            self.deliver_marker(name, partition)

    @rule(name=st.sampled_from(WEIGHTED_NAMES), partition=st.sampled_from(PARTITIONS))
    def deliver_marker(self, name: str, partition: TopicPartition) -> None:
        pending = self.world.shard.pending_completion(name, self.world.now_ms)
        if pending is None:
            return
        known = self.markers_done.get(name)
        if known is None or (known[0].prepared, known[0].coordinator_epoch) != (pending.prepared, pending.coordinator_epoch):
            known = self.markers_done[name] = (pending, set())
        done = known[1]
        if partition in pending.prepared.partitions and partition not in done:
            self.write_marker(pending, partition)
            done.add(partition)
            self.old_markers.append((pending, partition))
        if set(pending.prepared.partitions) <= done:
            assert self.world.complete(name)
            del self.markers_done[name]

    def write_marker(self, pending: PendingCompletion, partition: TopicPartition) -> None:
        marker = build_end_transaction_marker(
            ControlRecordType.COMMIT if pending.is_commit else ControlRecordType.ABORT,
            coordinator_epoch=pending.coordinator_epoch,
            producer_id=pending.prepared.producer_id,
            producer_epoch=pending.prepared.producer_epoch,
            timestamp=self.world.now_ms,
        )
        self.logs[partition].append_as_leader(
            marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=pending.prepared.client_transaction_version
        )

    @precondition(lambda self: self.version == 2 and self.old_markers)
    @rule(data=st.data())
    def deliver_an_old_marker_again(self, data: st.DataObject) -> None:
        self.write_marker_again(*data.draw(st.sampled_from(self.old_markers)))

    def write_marker_again(self, pending: PendingCompletion, partition: TopicPartition) -> None:
        try:
            self.write_marker(pending, partition)
        except ApiException as error:
            assert error.error in (Errors.INVALID_PRODUCER_EPOCH, Errors.TRANSACTION_COORDINATOR_FENCED), error

    @rule()
    def replace_the_coordinator(self) -> None:
        self.world.restart()

    @rule()
    def let_transactions_time_out(self) -> None:
        self.world.clock.now_ms += TIMEOUT_MS + 1
        self.world.abort_timed_out()

    @rule(name=st.sampled_from(WEIGHTED_NAMES))
    def time_out_and_complete(self, name: str) -> None:
        self.let_transactions_time_out()
        self.deliver_all_markers(name)

    @rule(partition=st.sampled_from(PARTITIONS))
    def crash_a_partition(self, partition: TopicPartition) -> None:
        self.logs[partition].close_handlers()
        self.logs[partition] = self.open(partition, clean=False)

    # -- what must hold
    # -----------------------------------------------------------------------------------------------------------

    @invariant()
    def states_move_along_the_table(self) -> None:
        assert set(self.world.moves) <= _ALLOWED
        self.world.moves.clear()

    @invariant()
    def what_is_stable_stays(self) -> None:
        for partition, log in self.logs.items():
            log.update_high_watermark(log.log_end_offset)
            assert log.last_stable_offset >= self.stable[partition], f"{partition}: {log.last_stable_offset}, was {self.stable[partition]}"
            self.stable[partition] = log.last_stable_offset
            visible = visible_values(log)
            shown = self.shown[partition]
            assert visible[: len(shown)] == shown, f"{partition}: {visible}, was {shown}"
            self.shown[partition] = visible
            for value in visible:
                assert int(value.split(b"/")[0]) in self.committed, f"{partition} shows {value!r} of a transaction that did not commit"

    def teardown(self) -> None:
        try:
            self.everything_arrives()
            self.what_is_stable_stays()
            visible = {value for values in self.shown.values() for value in values}
            for partition, log in self.logs.items():
                assert log.last_stable_offset == log.log_end_offset, f"a transaction hangs in {partition}"
            for transaction, values in self.acked.items():
                expected = set(values) if transaction in self.committed else set()
                assert visible & set(values) == expected, f"transaction {transaction} is visible in part"
        finally:
            for log in self.logs.values():
                log.close_handlers()
            shutil.rmtree(self.root)

    def everything_arrives(self) -> None:
        for _ in range(4):
            for write in list(self.writes):
                self.finish(write)
            for name in NAMES:
                self.deliver_all_markers(name)
            self.let_transactions_time_out()
        self.writes.clear()


def visible_values(log: UnifiedLog) -> list[bytes]:
    """What a read_committed consumer is shown from the log's start on."""
    values: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        data = log.read(offset, ALL, FetchIsolation.TXN_COMMITTED, min_one_message=True)
        aborted = sorted(data.aborted_transactions or [], key=lambda each: each.first_offset)
        skipped: set[int] = set()
        for batch in iter_batches(data.records.to_bytes()):
            while aborted and aborted[0].first_offset <= batch.last_offset:
                skipped.add(aborted.pop(0).producer_id)
            if batch.is_control:
                if next(iter(batch.records())).key == ControlRecordType.ABORT.key:
                    skipped.discard(batch.producer_id)
            elif batch.producer_id not in skipped:
                values += [bytes(record.value) for record in batch.records() if record.value is not None]
            offset = batch.last_offset + 1
    return values


class TransactionMachineV1(TransactionMachine):
    version = 0


EXAMPLES = int(os.environ.get("KMIRROR_TRANSACTION_EXAMPLES", "25"))


@pytest.mark.parametrize("machine", [TransactionMachine, TransactionMachineV1])
def test_transactions_are_atomic(machine: type[TransactionMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None))


# -- histories that chance meets rarely
# ---------------------------------------------------------------------------------------


def started(version: int) -> tuple[TransactionMachine, Producer]:
    machine = (TransactionMachine if version == 2 else TransactionMachineV1)()
    machine.start_producer("x")
    return machine, machine.producers[0]


def check(machine: TransactionMachine) -> None:
    machine.states_move_along_the_table()
    machine.what_is_stable_stays()


def test_an_old_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    machine, producer = started(2)
    machine.commit_by(producer, [PARTITIONS[0]])
    machine.send_by(producer, PARTITIONS[0])
    machine.finish(machine.writes[-1])
    machine.write_marker_again(*machine.old_markers[0])
    check(machine)
    machine.teardown()


def test_a_marker_between_guard_and_append_lets_the_write_begin_again() -> None:
    """The next transaction of version 2 comes while the end of the one before is being written."""
    machine, producer = started(2)
    machine.send_by(producer, PARTITIONS[0])
    machine.finish(machine.writes[-1])
    machine.end_by(producer, commit=True, is_answer_lost=False)
    machine.send_by(producer, PARTITIONS[0])
    write = machine.writes[-1]
    machine.step(write)
    guard = write.guard
    machine.deliver_all_markers("x")
    machine.step(write)
    assert write.is_verified and write.guard is guard, "the coordinator agreed, but the marker took the guard"
    machine.finish(write)
    assert write not in machine.writes and not producer.is_dead
    machine.end_by(producer, commit=True, is_answer_lost=False)
    check(machine)
    machine.teardown()
    assert machine.shown[PARTITIONS[0]] == [b"1/0-0", b"2/0-0"]


@pytest.mark.parametrize("version", [0, 2])
def test_a_batch_that_comes_after_its_transaction_was_aborted_does_not_hang(version: int) -> None:
    machine, producer = started(version)
    machine.send_by(producer, PARTITIONS[1])
    machine.finish(machine.writes[-1])
    machine.send_by(producer, PARTITIONS[0])
    late = machine.writes[-1]
    machine.step(late)
    machine.time_out_and_complete("x")
    machine.finish(late)
    assert producer.is_dead and machine.logs[PARTITIONS[0]].log_end_offset == (1 if version < 2 else 0), "at most the marker"
    check(machine)
    machine.teardown()


@pytest.mark.parametrize("version", [0, 2])
def test_a_producer_whose_transaction_timed_out_does_not_commit_the_rest_of_it(version: int) -> None:
    machine, producer = started(version)
    machine.send_by(producer, PARTITIONS[0])
    machine.finish(machine.writes[-1])
    machine.time_out_and_complete("x")
    machine.send_by(producer, PARTITIONS[1])
    for write in list(machine.writes):
        machine.finish(write)
    if not producer.is_dead:
        machine.end_by(producer, commit=True, is_answer_lost=False)
    assert producer.is_dead and not machine.committed
    check(machine)
    machine.teardown()


def test_a_coordinator_that_was_replaced_does_not_end_a_later_transaction() -> None:
    """Version 1: the epoch stays the same, the coordinator's epoch tells."""
    machine, producer = started(0)
    machine.commit_by(producer, [PARTITIONS[0]])
    machine.replace_the_coordinator()
    machine.commit_by(producer, [PARTITIONS[0]])
    machine.send_by(producer, PARTITIONS[0])
    machine.finish(machine.writes[-1])
    machine.write_marker_again(*machine.old_markers[0])
    check(machine)
    machine.teardown()


# -- ablations: without a safeguard the checks must notice
# -----------------------------------------------------------------------


def without_strict_markers(patch: pytest.MonkeyPatch) -> None:
    strict = ProducerAppendInfo._check_marker_epoch
    patch.setattr(ProducerAppendInfo, "_check_marker_epoch", lambda info, epoch, offset, version: strict(info, epoch, offset, 0))


def without_coordinator_epochs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ProducerAppendInfo, "_check_coordinator_epoch", lambda info, coordinator_epoch, offset: None)


def without_fencing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        TransactionMetadata, "prepare_fence_producer_epoch", lambda metadata: replace(metadata, state=TransactionState.PREPARE_EPOCH_FENCE)
    )


def without_verification(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionMachine, "ask_coordinator", lambda machine, write: setattr(write, "is_verified", True))


@pytest.mark.parametrize(
    ("ablate", "history"),
    [
        (without_strict_markers, test_an_old_marker_of_version_2_does_not_end_the_next_transaction),
        (without_coordinator_epochs, test_a_coordinator_that_was_replaced_does_not_end_a_later_transaction),
        (without_fencing, lambda: test_a_producer_whose_transaction_timed_out_does_not_commit_the_rest_of_it(0)),
        (without_verification, lambda: test_a_batch_that_comes_after_its_transaction_was_aborted_does_not_hang(2)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_missing_safeguard_is_noticed(
    ablate: Callable[[pytest.MonkeyPatch], None], history: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    ablate(monkeypatch)
    with pytest.raises(AssertionError):
        history()
