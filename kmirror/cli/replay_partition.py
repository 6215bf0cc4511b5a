"""Produces one partition of a recording into one partition of a cluster.

Order. Batches are sent in the order of their offsets, each at its time (`replay_pace`), in a window
(`replay_lanes`).

Transactions end as they ended. For each recorded producer with an open transaction there is a
transactional producer here (a lane); the recorded marker ends the transaction at its own time.
Lanes are reused, so there are as many as transactions were open at once in this partition. A
transaction over several partitions becomes one in each: partitions are replayed independently,
perhaps on other machines, and a partition's log does not say with which others a transaction was
written. So a consumer sees each partition as it was, and may see the partitions of one transaction
a moment apart. A transaction still open where the recording ends is aborted at the end; otherwise
it would block all read_committed consumers until it timed out. If the recording grows, the next run
sends such a transaction again as a whole (`ReplayedPartition.redo`). A mirror's PID reset
(KIP-1279) aborts open transactions. Markers whose transaction has no records here (a cleaner
removed them) are left out.

Resuming. The destination is asked what it has; see `replay_state`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final, Protocol

from kmirror.admin.transactions import ProducerState, TransactionDescription
from kmirror.cli.replay_batches import ReplayBatch, control_type, replay_batch
from kmirror.cli.replay_client import ProducerIdAndEpoch, ReplayClient
from kmirror.cli.replay_lanes import Window
from kmirror.cli.replay_pace import Schedule
from kmirror.cli.replay_source import RecordedPartition, aborted_transactions, blocks_from, check_end, check_front
from kmirror.cli.replay_state import LaneState, OpenTransaction, ReplayedPartition, StateFile
from kmirror.cli.replay_stop import Stop
from kmirror.common.errors import KmirrorError
from kmirror.common.ports import FileSystem
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import decrement_sequence, increment_sequence
from kmirror.record.record_batch import RecordBatch
from kmirror.verify.transaction_spans import TransactionSpans

WRITE_EVERY_MS: Final = 1_000
ENDED: Final = {"commit": ("PrepareCommit", "CompleteCommit"), "abort": ("PrepareAbort", "CompleteAbort")}
HALF_OF_SEQUENCES: Final = 1 << 30


class OnWritten(Protocol):
    """Is called for each batch that is written."""

    def __call__(self, records: int, size: int, lag_ms: float) -> None: ...


@dataclass(slots=True)
class PartitionOutcome:
    """What a run did to a partition."""

    source: str
    target: str
    next_offset: int
    records: int = 0
    records_again: int = 0
    """How many of them were sent before, in a transaction that was lost."""
    size: int = 0
    """Bytes of the batches that were sent."""
    committed: int = 0
    """Transactions of this partition: a recorded one counts in each partition that it wrote to."""
    aborted: int = 0
    left_open: list[int] = field(default_factory=list)
    """First offsets of transactions that were still open when the run ended.

    If it reached the end of the recording, they were aborted.
    """
    is_complete: bool = False


class PartitionReplay:
    """Replays one partition. Call `run` once."""

    def __init__(
        self,
        client: ReplayClient,
        files: FileSystem,
        partition: RecordedPartition,
        state: ReplayedPartition,
        *,
        schedule: Schedule,
        stop: Stop,
        told: OnWritten,
        store: StateFile | None,
        block_bytes: int,
        transactional_id_prefix: str,
    ) -> None:
        self._client = client
        self._files = files
        self._partition = partition
        self._target = partition.target
        self._state = state
        self._schedule = schedule
        self._stop = stop
        self._told = told
        self._store = store
        self._block_bytes = block_bytes
        self._prefix = transactional_id_prefix
        self._window = Window(client, partition.target, self._on_written)
        self._ahead: dict[int, int] = {}
        """Number of records that the destination has of a lane beyond the state, by lane index."""
        self._is_redoing = False
        self._read_to = -1
        """The offset behind the last batch that was dealt with."""
        self._written_ms = client.runtime.clock.monotonic_ms()
        self._aborted = TransactionSpans()
        self.outcome = PartitionOutcome(str(partition.source), str(partition.target), state.next_offset)

    async def run(self) -> PartitionOutcome:
        """Replay to the end of the recording, or until stopped.

        KmirrorError for what the destination refuses, CorruptFileError for damage.
        """
        try:
            if self._partition.drops_aborted:
                self._aborted = await self._client.runtime.run_blocking(lambda: aborted_transactions(self._files, self._partition))
            await self._find_again()
            await self._client.runtime.run_blocking(self._check_recording)
            async for batch in self._batches(self._state.next_offset):
                if self._stop.is_set or not await self._replay(batch):
                    break
                self._read_to = batch.next_offset
            await self._finish()
        finally:
            await self._window.cancel()
            self._save()
        return self.outcome

    def _check_recording(self) -> None:
        """KmirrorError if the recording is not what earlier runs have seen of it."""
        check_front(self._partition, self._state.next_offset)
        check_end(self._files, self._partition, self._state.next_offset)

    async def _replay(self, batch: RecordBatch) -> bool:
        """Returns False if the batch was not sent because the replay is to stop."""
        if batch.is_control:
            return await self._control(batch)
        is_aborted = self._aborted.of(batch) is not None
        if batch.is_transactional and not is_aborted:
            await self._redo(batch)
        outgoing = replay_batch(batch, first_offset=self._partition.first_offset) if self._partition.wants(batch) else None
        if outgoing is None or is_aborted:
            if not self._window:
                self._state.next_offset = batch.next_offset
            return True
        lane = await self._lane_of(outgoing)
        index = self._state.lanes.index(lane)
        if self._ahead.get(index, 0) > 0:
            await self._window.drain()
            self._skip(index, outgoing)
            return True
        wait_ms = self._schedule.wait_ms(batch.max_timestamp, self._client.runtime.clock.time_ms())
        if wait_ms > 0:
            await self._window.drain()
            if wait_ms > WRITE_EVERY_MS:
                self._save()
            if not await self._stop.sleep_ms(wait_ms):
                return False
        await self._window.send(lane, outgoing)
        return True

    def _skip(self, index: int, batch: ReplayBatch) -> None:
        """Skip a batch that the destination already has."""
        self._ahead[index] -= batch.record_count
        if self._ahead[index] < 0:
            raise KmirrorError(
                f"{self._target} has a part of the batch at offset {batch.offset} of {self._partition.source}: the recording changed "
                "since the replay was interrupted"
            )
        lane = self._state.lanes[index]
        lane.sequence = increment_sequence(lane.sequence, batch.record_count)
        self._state.next_offset = batch.next_offset

    # -- producers
    # ------------------------------------------------------------------------------------------------------------

    async def _lane_of(self, batch: ReplayBatch) -> LaneState:
        lanes = self._state.lanes
        if not batch.is_transactional:
            lane = next((one for one in lanes if one.transactional_id is None), None) or self._new_lane(None)
            await self._make_ready(lane)
            return lane
        own = next((one for one in lanes if one.source_producer_id == batch.producer_id), None)
        if own is not None:
            return own
        idle = next((one for one in lanes if one.transactional_id is not None and not one.is_open), None)
        lane = idle or self._new_lane(f"{self._prefix}-{self._state.replay_id}-{self._target}-{len(lanes)}")
        await self._window.drain()
        await self._make_ready(lane)
        assert lane.transactional_id is not None, f"a lane without an id for the transaction at {batch.offset}"
        await self._client.add_partition(lane.transactional_id, ProducerIdAndEpoch(lane.producer_id, lane.epoch), self._target)
        lane.source_producer_id, lane.first_offset = batch.producer_id, batch.offset
        return lane

    def _new_lane(self, transactional_id: str | None) -> LaneState:
        self._state.lanes.append(LaneState(transactional_id))
        return self._state.lanes[-1]

    async def _make_ready(self, lane: LaneState) -> None:
        if lane.producer_id < 0:
            await self._window.drain()
            producer = await self._client.init_producer_id(lane.transactional_id)
            lane.producer_id, lane.epoch, lane.sequence = producer.producer_id, producer.epoch, 0
            self._save()

    # -- ends of transactions
    # ---------------------------------------------------------------------------------------------------

    async def _control(self, batch: RecordBatch) -> bool:
        kind = control_type(batch)
        if kind is ControlRecordType.MIRROR_PID_RESET:
            ended = [lane for lane in self._state.lanes if lane.is_open]
        elif kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            ended = [lane for lane in self._state.lanes if lane.source_producer_id == batch.producer_id]
        else:
            ended = []
        if not ended and kind is ControlRecordType.COMMIT and await self._redo(batch):
            return await self._control(batch)
        self._state.redo = [one for one in self._state.redo if not self._gives_up(one, kind, batch)]
        if ended:
            await self._window.drain()
            wait_ms = self._schedule.wait_ms(batch.max_timestamp, self._client.runtime.clock.time_ms())
            if wait_ms > 0 and not await self._stop.sleep_ms(wait_ms):
                return False
        for lane in ended:
            await self._end(lane, committed=kind is ControlRecordType.COMMIT, offset=batch.base_offset)
        if not self._window:
            self._state.next_offset = batch.next_offset
        return True

    async def _end(self, lane: LaneState, *, committed: bool, offset: int) -> None:
        self._state.next_offset = offset
        lane.ending = "commit" if committed else "abort"
        self._save()
        await self._end_at_destination(lane, committed=committed)
        lane.close()
        self._save()

    async def _end_at_destination(self, lane: LaneState, *, committed: bool) -> None:
        assert lane.transactional_id is not None, f"the end of a transaction of {lane}"
        before = ProducerIdAndEpoch(lane.producer_id, lane.epoch)
        after = await self._client.end_transaction(lane.transactional_id, before, committed=committed)
        if after != before:
            lane.producer_id, lane.epoch, lane.sequence = after.producer_id, after.epoch, 0
        if committed:
            self.outcome.committed += 1
        else:
            self.outcome.aborted += 1

    async def _finish(self) -> None:
        """Abort the transactions that are still open.

        They stay open for the next run if the replay was stopped and its state is stored.
        """
        await self._window.drain()
        open_lanes = [lane for lane in self._state.lanes if lane.is_open]
        self.outcome.left_open = [lane.first_offset for lane in open_lanes]
        self.outcome.is_complete = not self._stop.is_set
        if self.outcome.is_complete:
            self._state.next_offset = max(self._state.next_offset, self._read_to)
        self.outcome.next_offset = self._state.next_offset
        if self._stop.is_set and self._store is not None:
            return
        for lane in open_lanes:
            assert lane.source_producer_id is not None, f"an open lane of nobody: {lane}"
            self._state.redo.append(OpenTransaction(lane.source_producer_id, lane.first_offset))
            self._save()
            await self._end_at_destination(lane, committed=False)
            lane.close()
        self._state.is_settled = True

    # -- resuming
    # -----------------------------------------------------------------------------------------------------------------

    async def _find_again(self) -> None:
        """Find out what the destination has beyond the state, and which transactions it lost."""
        state = self._state
        was_settled, state.is_settled = state.is_settled, False
        for lane in state.lanes:
            if any(one.producer_id == lane.source_producer_id and one.first_offset == lane.first_offset for one in state.redo):
                lane.close(forget=True)
        known = [lane for lane in state.lanes if lane.producer_id >= 0]
        if was_settled or not known:
            for lane in known:
                lane.close(forget=True)
            return
        producers = {row.producer_id: row for row in (await self._client.describe_producers([self._target]))[self._target]}
        names = [lane.transactional_id for lane in known if lane.transactional_id is not None]
        described = await self._client.describe_transactions(names)
        for lane in known:
            found = producers.get(lane.producer_id)
            if lane.transactional_id is None:
                self._find_plain(lane, found)
            else:
                transaction = described.get(lane.transactional_id)
                self._find_transaction(lane, found, transaction if isinstance(transaction, TransactionDescription) else None)
        self._save()  # the next InitProducerId destroys what the coordinator knew

    def _find_plain(self, lane: LaneState, found: ProducerState | None) -> None:
        if found is None and lane.sequence:
            raise KmirrorError(
                f"{self._target} has forgotten the producer of the interrupted replay (producer.id.expiration.ms), so it is not known whether "
                f"it has what {self._partition.source} has from offset {self._state.next_offset} on; begin again with another --state and topic"
            )
        self._note_ahead(lane, found)

    def _find_transaction(self, lane: LaneState, found: ProducerState | None, transaction: TransactionDescription | None) -> None:
        same = transaction is not None and (transaction.producer_id, transaction.producer_epoch) == (lane.producer_id, lane.epoch)
        if lane.ending is not None and transaction is not None and transaction.state in ENDED[lane.ending]:
            lane.close(forget=True)  # its marker is read again, and then ends nothing
        elif lane.is_open and not (same and transaction is not None and transaction.state == "Ongoing"):
            assert lane.source_producer_id is not None, f"an open lane of nobody: {lane}"
            self._state.redo.append(OpenTransaction(lane.source_producer_id, lane.first_offset))
            lane.close(forget=True)
        elif not same:
            lane.close(forget=True)
        else:
            lane.ending = None
            self._note_ahead(lane, found)

    def _note_ahead(self, lane: LaneState, found: ProducerState | None) -> None:
        if found is None or found.producer_epoch != lane.epoch:
            return
        ahead = decrement_sequence(increment_sequence(found.last_sequence, 1), lane.sequence)
        if ahead >= HALF_OF_SEQUENCES:
            raise KmirrorError(f"{self._target} has lost records that were written: the replay cannot go on where it was")
        self._ahead[self._state.lanes.index(lane)] = ahead

    def _gives_up(self, lost: OpenTransaction, kind: ControlRecordType, batch: RecordBatch) -> bool:
        """Whether a marker ends a lost transaction by an abort."""
        is_its = kind is ControlRecordType.ABORT and lost.producer_id == batch.producer_id
        return is_its or kind is ControlRecordType.MIRROR_PID_RESET

    async def _redo(self, batch: RecordBatch) -> bool:
        """Send the earlier batches of a lost transaction again.

        `batch` continues this transaction or commits it. Returns whether there was such a one.
        """
        lost = next((one for one in self._state.redo if one.producer_id == batch.producer_id), None)
        if lost is None:
            return False
        check_front(self._partition, lost.first_offset)
        await self._window.drain()
        self._is_redoing = True
        async for earlier in self._batches(lost.first_offset):
            if earlier.base_offset >= batch.base_offset:
                break
            is_of_it = earlier.producer_id == lost.producer_id and earlier.is_transactional and not earlier.is_control
            outgoing = (
                replay_batch(earlier, first_offset=self._partition.first_offset) if is_of_it and self._partition.wants(earlier) else None
            )
            if outgoing is not None:
                await self._window.send(await self._lane_of(outgoing), outgoing)
        await self._window.drain()
        self._is_redoing = False
        self._state.redo.remove(lost)
        self._save()
        return True

    # -- reading, counting and saving --------------------------------------------------------------

    async def _batches(self, offset: int) -> AsyncIterator[RecordBatch]:
        blocks = blocks_from(self._files, self._partition, offset, size=self._block_bytes)
        while (block := await self._client.runtime.run_blocking(lambda: next(blocks, None))) is not None:
            for batch in block:
                yield batch

    def _on_written(self, lane: LaneState, batch: ReplayBatch) -> None:
        clock = self._client.runtime.clock
        self.outcome.records += batch.record_count
        self.outcome.size += batch.size
        self._state.records += batch.record_count
        self._state.size += batch.size
        if self._is_redoing:
            self.outcome.records_again += batch.record_count
            self._told(batch.record_count, batch.size, 0.0)
            return
        self._state.next_offset = batch.next_offset
        self._told(batch.record_count, batch.size, self._schedule.lag_ms(batch.max_timestamp, clock.time_ms()))
        if clock.monotonic_ms() - self._written_ms >= WRITE_EVERY_MS:
            self._save()

    def _save(self) -> None:
        self._written_ms = self._client.runtime.clock.monotonic_ms()
        if self._store is not None:
            self._store.write(self._state)
