"""A destination for replays, in memory: one partition with its producers and transactions, by
Kafka's rules. The replaying process can be made to die at a chosen request.

`Destination` outlives its clients. A `Client` counts its requests and dies at request number
`dies_at`: before the destination has done anything, or after it if `answers_are_lost`. A dead
client does nothing more, and its progress files are no longer written (`DyingStore`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kmirror.admin.transactions import ProducerState, TransactionDescription
from kmirror.cli.log_diff_inputs import FolderInput
from kmirror.cli.replay_batches import control_type
from kmirror.cli.replay_client import ProduceAnswer, ProducerIdAndEpoch
from kmirror.cli.replay_pace import Schedule
from kmirror.cli.replay_partition import PartitionOutcome, PartitionReplay
from kmirror.cli.replay_plan import Selection, make_plan
from kmirror.cli.replay_source import RecordedPartition
from kmirror.cli.replay_state import VERSION, ReplayedPartition, StateFile
from kmirror.cli.replay_stop import Stop
from kmirror.common.errors import Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.runtime.api import Runtime
from kmirror.runtime.asyncio_runtime import run
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import SegmentReader

Row = tuple[int, bytes | None, bytes | None, tuple[Any, ...]]
AT_ONCE = Schedule(0, 0, None)


class Died(Exception):
    """The simulated process has died."""


def row(record: Record) -> Row:
    """Returns a record's timestamp, key, value and headers."""
    key, value = (None if part is None else bytes(part) for part in (record.key, record.value))
    return record.timestamp, key, value, tuple(record.headers)


@dataclass
class Producer:
    epoch: int
    last_sequence: int = -1
    recent: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Transaction:
    producer_id: int
    epoch: int
    state: str = "Empty"
    has_partition: bool = False


class Destination:
    def __init__(self, *, transactions_v2: bool) -> None:
        self.transactions_v2 = transactions_v2
        self.log: list[tuple[str, int, list[Row], bool]] = []
        """(kind, producer id, records, is transactional); the kind is data, commit or abort."""
        self.producers: dict[int, Producer] = {}
        self.transactions: dict[str, Transaction] = {}
        self.batches: list[bytes] = []
        self.largest_batch = 1 << 30
        self._next_id = 100

    def produce(self, batch: bytearray, transactional_id: str | None) -> Errors:
        read = RecordBatch(batch)
        read.ensure_valid()
        assert (read.base_offset, read.partition_leader_epoch, read.last_offset_delta + 1) == (0, -1, read.record_count)
        assert [record.offset for record in read.records()] == list(range(read.record_count))
        assert read.is_transactional is (transactional_id is not None) and not read.attributes & ~0x17
        if len(batch) > self.largest_batch:
            return Errors.MESSAGE_TOO_LARGE
        if transactional_id is not None:
            error = self._in_transaction(transactional_id, read)
            if error is not Errors.NONE:
                return error
        return self._append(read, batch)

    def _in_transaction(self, transactional_id: str, batch: RecordBatch) -> Errors:
        transaction = self.transactions[transactional_id]
        if (transaction.producer_id, transaction.epoch) != (batch.producer_id, batch.producer_epoch):
            return Errors.INVALID_PRODUCER_EPOCH
        if self.transactions_v2:
            transaction.state, transaction.has_partition = "Ongoing", True
        return Errors.NONE if transaction.has_partition else Errors.INVALID_TXN_STATE

    def _append(self, read: RecordBatch, batch: bytearray) -> Errors:
        known = self.producers.get(read.producer_id)
        first, last = read.base_sequence, read.base_sequence + read.record_count - 1
        if known is not None:
            if read.producer_epoch < known.epoch:
                return Errors.INVALID_PRODUCER_EPOCH
            if read.producer_epoch == known.epoch and (first, last) in known.recent:
                return Errors.DUPLICATE_SEQUENCE_NUMBER
            expected = known.last_sequence + 1 if read.producer_epoch == known.epoch else 0
            if first != expected:
                return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        recent = known.recent if known is not None and known.epoch == read.producer_epoch else []
        self.producers[read.producer_id] = Producer(read.producer_epoch, last, [*recent, (first, last)][-5:])
        self.log.append(("data", read.producer_id, [row(record) for record in read.records()], read.is_transactional))
        self.batches.append(bytes(batch))
        return Errors.NONE

    def init(self, transactional_id: str | None) -> ProducerIdAndEpoch:
        if transactional_id is None:
            self._next_id += 1
            return ProducerIdAndEpoch(self._next_id, 0)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            self._next_id += 1
            transaction = self.transactions[transactional_id] = Transaction(self._next_id, -1)
        elif transaction.state == "Ongoing":
            self._mark(transaction, committed=False)
        transaction.epoch += 1
        transaction.state = "Empty"
        return ProducerIdAndEpoch(transaction.producer_id, transaction.epoch)

    def end(self, transactional_id: str, producer: ProducerIdAndEpoch, *, committed: bool) -> ProducerIdAndEpoch:
        transaction = self.transactions[transactional_id]
        assert (transaction.producer_id, transaction.epoch) == (producer.producer_id, producer.epoch), "fenced"
        assert transaction.state == "Ongoing", f"the end of a transaction that is {transaction.state}"
        self._mark(transaction, committed=committed)
        if self.transactions_v2:
            transaction.epoch += 1
        return ProducerIdAndEpoch(transaction.producer_id, transaction.epoch)

    def time_out(self) -> None:
        """Aborts every open transaction and fences its producer, as a coordinator does."""
        for transaction in self.transactions.values():
            if transaction.state == "Ongoing":
                self._mark(transaction, committed=False)
                transaction.epoch += 1

    def _mark(self, transaction: Transaction, *, committed: bool) -> None:
        if transaction.has_partition:
            self.log.append(("commit" if committed else "abort", transaction.producer_id, [], True))
            if self.transactions_v2:
                self.producers[transaction.producer_id] = Producer(transaction.epoch + 1)
        transaction.has_partition = False
        transaction.state = "CompleteCommit" if committed else "CompleteAbort"

    # what consumers see
    def uncommitted(self) -> list[Row]:
        return [one for kind, _, records, _ in self.log for one in records if kind == "data"]

    def committed(self) -> list[Row]:
        outcomes: dict[int, str] = {}
        seen: list[list[Row]] = []
        for kind, producer_id, records, is_transactional in reversed(self.log):
            if kind != "data":
                outcomes[producer_id] = kind
            elif not is_transactional or outcomes.get(producer_id) == "commit":
                seen.append(records)
        return [one for records in reversed(seen) for one in records]

    def is_anything_open(self) -> bool:
        return any(one.state == "Ongoing" for one in self.transactions.values())


class Client:
    """The part of `ReplayClient` that a replay uses, on a `Destination`."""

    delivery_timeout_ms = 10_000

    def __init__(self, runtime: Runtime, destination: Destination, *, dies_at: int = -1, answers_are_lost: bool = False) -> None:
        self.runtime = runtime
        self.destination = destination
        self.asked = 0
        self.is_dead = False
        self.failing: dict[int, Errors] = {}
        """Errors that produce requests are answered with, by request number."""
        self._dies_at = dies_at
        self._answers_are_lost = answers_are_lost

    def _do(self, what: Any) -> Any:
        if self.is_dead:
            raise Died
        self.asked += 1
        if self.asked == self._dies_at:
            self.is_dead = True
            if self._answers_are_lost:
                what()
            raise Died
        return what()

    async def pause(self, failures: int) -> None:
        assert failures < 50, "a batch that is never written"

    async def produce(self, target: TopicPartition, batch: bytearray, transactional_id: str | None) -> ProduceAnswer:
        def append() -> ProduceAnswer:
            error = self.failing.get(self.asked)
            return ProduceAnswer(self.destination.produce(batch, transactional_id) if error is None else error)

        answer: ProduceAnswer = self._do(append)
        return answer

    async def init_producer_id(self, transactional_id: str | None) -> Any:
        return self._do(lambda: self.destination.init(transactional_id))

    async def add_partition(self, transactional_id: str, producer: ProducerIdAndEpoch, target: TopicPartition) -> None:
        def add() -> None:
            transaction = self.destination.transactions[transactional_id]
            transaction.state, transaction.has_partition = "Ongoing", True

        if not self.destination.transactions_v2:
            self._do(add)

    async def end_transaction(self, transactional_id: str, producer: ProducerIdAndEpoch, *, committed: bool) -> Any:
        return self._do(lambda: self.destination.end(transactional_id, producer, committed=committed))

    async def describe_producers(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        known = self.destination.producers.items()
        rows = [ProducerState(number, one.epoch, one.last_sequence, 0, None, None) for number, one in known]
        return dict.fromkeys(partitions, rows)

    async def describe_transactions(self, names: Iterable[str]) -> dict[str, TransactionDescription]:
        found = {name: self.destination.transactions[name] for name in names}
        return {name: TransactionDescription(1, one.state, one.producer_id, one.epoch, 0, None, []) for name, one in found.items()}


class DyingStore(StateFile):
    """A progress file that is no longer written once the client is dead."""

    def __init__(self, folder: Path, source: TopicPartition, client: Client) -> None:
        super().__init__(str(folder), source)
        self._client = client

    def write(self, state: ReplayedPartition) -> None:
        if not self._client.is_dead:
            super().write(state)


# -- recordings
# ---------------------------------------------------------------------------------------------------------------------


def recorded(data_dir: Path, *, drops_aborted: bool = False) -> RecordedPartition:
    """Returns the only partition of a data dir, as the replay's plan has it."""
    (partition,) = make_plan(FolderInput(str(data_dir)), str(data_dir), Selection(drops_aborted=drops_aborted)).partitions
    return partition


def views(partition: RecordedPartition) -> tuple[list[Row], list[Row]]:
    """Returns the records that read_uncommitted and read_committed consumers see of a recording.

    It reads record by record and takes no shortcut, because it is the oracle.
    """
    files = OsFileSystem()
    entries: list[tuple[int, bool, Row]] = []
    outcome: dict[int, bool] = {}
    open_entries: dict[int, list[int]] = {}
    for segment in partition.files.segments:
        with SegmentReader(files, segment.path()) as reader:
            for _, batch in reader.batches():
                if not batch.is_control:
                    for record in batch.records():
                        if record.offset >= partition.first_offset:
                            if batch.is_transactional:
                                open_entries.setdefault(batch.producer_id, []).append(len(entries))
                            entries.append((batch.producer_id, batch.is_transactional, row(record)))
                    continue
                kind = control_type(batch)
                if kind is ControlRecordType.MIRROR_PID_RESET:
                    open_entries.clear()
                for index in open_entries.pop(batch.producer_id, []):
                    outcome[index] = kind is ControlRecordType.COMMIT
    committed = [entry for index, (_, is_transactional, entry) in enumerate(entries) if not is_transactional or outcome.get(index, False)]
    return [entry for _, _, entry in entries], committed


def replay(
    partition: RecordedPartition,
    destination: Destination,
    state_folder: Path | None,
    *,
    dies_at: int = -1,
    answers_are_lost: bool = False,
    stops_at: int | None = None,
    stops_after_ms: float | None = None,
    failing: dict[int, Errors] | None = None,
    schedule: Schedule = AT_ONCE,
) -> PartitionOutcome | int:
    """Returns the outcome of a run, or the number of its requests if the client died.

    The run is stopped as by Ctrl-C after `stops_at` batches, or after `stops_after_ms`.
    """

    async def main(runtime: Runtime) -> PartitionOutcome | int:
        client = Client(runtime, destination, dies_at=dies_at, answers_are_lost=answers_are_lost)
        client.failing = failing or {}
        store = DyingStore(state_folder, partition.source, client) if state_folder is not None else None
        fresh = ReplayedPartition(
            VERSION,
            "cluster",
            "id",
            str(partition.source),
            str(partition.target),
            "r",
            partition.first_offset,
            [],
            [],
            source_topic_id=partition.topic_id,
        )
        state = (store.read(fresh) if store is not None else None) or fresh
        stop = Stop(runtime)
        written = 0

        def told(records: int, size: int, lag_ms: float) -> None:
            nonlocal written
            written += 1
            if written == stops_at:
                stop.set()

        part = PartitionReplay(
            client,  # type: ignore[arg-type]
            OsFileSystem(),
            partition,
            state,
            schedule=schedule,
            stop=stop,
            told=told,
            store=store,
            block_bytes=1 << 12,
            transactional_id_prefix="p",
        )
        if stops_after_ms is not None:
            runtime.call_later_ms(stops_after_ms, stop.set)
        try:
            return await part.run()
        except Died:
            return client.asked

    return run(main)
