"""Makes a `producer_states.ProducersPartial`: the producers and transactions of one run of batches,
batch by batch.

Only batches of a producer and control batches are looked at one by one; numpy extracts their
columns first.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from kmirror.record.control_record import ControlRecordType
from kmirror.record.record import NO_SEQUENCE
from kmirror.record.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kmirror.storage.producer_state_entry import NUM_BATCHES_TO_RETAIN, BatchMetadata
from kmirror.verify.header_scan import ControlBatch, HeaderBlock
from kmirror.verify.replay.findings import MAX_EXAMPLES
from kmirror.verify.replay.producer_states import (
    MAX_SEQUENCE,
    ForgottenTransaction,
    Front,
    Head,
    Marker,
    OpenRun,
    ProducersPartial,
    ProducerState,
    SequenceJump,
    count_end,
    jump_of,
)

_Batch = tuple[int, int, int, int]
"""Base sequence, last offset, offset delta, timestamp."""


class _Producer:
    """What was seen of one producer since the last reset."""

    __slots__ = ("batches", "coordinator_epoch", "epoch_changed", "first_epoch", "last_epoch", "marked_ms", "timestamp")

    def __init__(self) -> None:
        self.first_epoch: int | None = None
        self.last_epoch: int | None = None
        self.epoch_changed = False
        self.batches: deque[_Batch] = deque(maxlen=NUM_BATCHES_TO_RETAIN)
        self.coordinator_epoch: int | None = None
        self.marked_ms: int | None = None
        self.timestamp: int | None = None

    def change_epoch(self, epoch: int) -> None:
        if self.first_epoch is None:
            self.first_epoch = epoch
        else:
            self.epoch_changed = True
            self.batches.clear()
        self.last_epoch = epoch

    def note_head(self, sequence: int, base: int, timestamp: int) -> Head | None:
        """Returns the head that a run's first data is, before it is added."""
        if self.epoch_changed:
            return None
        assert self.last_epoch is not None, "data without an epoch"
        return Head(self.last_epoch, sequence, base, timestamp)

    def state(self, open_run: OpenRun | None) -> ProducerState:
        batches = tuple(map(_metadata, self.batches))
        return ProducerState(
            first_epoch=self.first_epoch,
            last_epoch=self.last_epoch,
            epoch_changed=self.epoch_changed,
            batches=batches,
            coordinator_epoch=self.coordinator_epoch,
            marked_ms=self.marked_ms,
            timestamp=self.timestamp,
            open=open_run,
        )


def _metadata(batch: _Batch) -> BatchMetadata:
    sequence, last_offset, delta, timestamp = batch
    return BatchMetadata(NO_SEQUENCE if sequence < 0 else sequence + delta & MAX_SEQUENCE, last_offset, delta, timestamp)


class ProducerScan:
    """Takes in consecutive blocks; `finish` returns their partial."""

    def __init__(self) -> None:
        self._partial = ProducersPartial()
        self._producers: dict[int, _Producer] = {}
        self._open: dict[int, list[int]] = {}
        """Open transactions in the order of their first offsets, as the fields of an `OpenRun`."""
        self._jumps: list[SequenceJump] = []

    def add(self, block: HeaderBlock, start: int, stop: int) -> None:
        """Takes in the rows from `start` to `stop`."""
        headers = block.headers[start:stop]
        rows = np.flatnonzero((headers["producer_id"] >= 0) | (headers["attributes"] & CONTROL_FLAG != 0))
        if not len(rows):
            return
        chosen = headers[rows]
        controls = {control.row: control for control in block.controls if start <= control.row < stop} if block.controls else {}
        producers, opened = self._producers, self._open
        heads, has_reset = self._partial.heads, self._partial.first_reset is not None
        for row, base, attributes, delta, timestamp, producer_id, epoch, sequence in zip(
            (rows + start).tolist(),
            chosen["base_offset"].tolist(),
            chosen["attributes"].tolist(),
            chosen["last_offset_delta"].tolist(),
            chosen["max_timestamp"].tolist(),
            chosen["producer_id"].tolist(),
            chosen["producer_epoch"].tolist(),
            chosen["base_sequence"].tolist(),
        ):
            if attributes & CONTROL_FLAG:
                control = controls.get(row)
                if control is not None:
                    self._add_control(control, base, producer_id, epoch)
                    has_reset = self._partial.first_reset is not None
                continue
            producer = producers.get(producer_id)
            if producer is None:
                producer = producers[producer_id] = _Producer()
            if producer.last_epoch != epoch:
                producer.change_epoch(epoch)
            if producer_id not in heads and not has_reset:
                heads[producer_id] = producer.note_head(sequence, base, timestamp)
            if producer.batches:
                before = producer.batches[-1]
                if before[0] + before[2] + 1 & MAX_SEQUENCE != sequence:
                    self._note_jump(producer_id, Head(epoch, sequence, base, timestamp), before)
            producer.batches.append((sequence, base + delta, delta, timestamp))
            producer.timestamp = timestamp
            if attributes & TRANSACTIONAL_FLAG:
                run = opened.get(producer_id)
                if run is None:
                    opened[producer_id] = [base, timestamp, timestamp, 1, epoch]
                else:
                    run[2] = timestamp
                    run[3] += 1
                    run[4] = epoch

    def _note_jump(self, producer_id: int, head: Head, before: _Batch) -> None:
        jump = jump_of(producer_id, head, _metadata(before))
        if jump is not None and len(self._jumps) < MAX_EXAMPLES:
            self._jumps.append(jump)

    def _add_control(self, control: ControlBatch, offset: int, producer_id: int, epoch: int) -> None:
        if producer_id < 0:
            if control.control_type == ControlRecordType.MIRROR_PID_RESET:
                self._add_reset(offset)
            return
        producer = self._producers.get(producer_id)
        if producer is None:
            producer = self._producers[producer_id] = _Producer()
        if control.control_type not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            return  # emptied by the cleaner
        if producer.last_epoch != epoch:
            producer.change_epoch(epoch)
        producer.coordinator_epoch = control.coordinator_epoch
        producer.timestamp = producer.marked_ms = control.timestamp
        run = self._open.pop(producer_id, None)
        is_abort = control.control_type == ControlRecordType.ABORT
        last_stable_offset = next((other[0] for other in self._open.values()), offset + 1) if is_abort else -1
        marker = Marker(offset, is_abort, epoch, control.coordinator_epoch, control.timestamp, last_stable_offset)
        partial = self._partial
        head = None if run is None else OpenRun(*run)
        if partial.first_reset is not None or producer_id in partial.fronts:
            count_end(partial, partial.aborted, producer_id, head, marker)
        else:
            partial.fronts[producer_id] = Front(head, marker)

    def _add_reset(self, offset: int) -> None:
        partial = self._partial
        for producer_id, run in self._open.items():
            if partial.first_reset is None and producer_id not in partial.fronts:
                partial.fronts[producer_id] = Front(OpenRun(*run))
            else:
                partial.forgotten.append(ForgottenTransaction(producer_id, OpenRun(*run), offset))
        if partial.first_reset is None:
            partial.first_reset = offset
        partial.resets += (offset,)
        self._open.clear()
        self._producers.clear()

    def finish(self) -> ProducersPartial:
        """Returns the partial; nothing may be added afterwards."""
        partial = self._partial
        partial.jumps = tuple(self._jumps)
        for producer_id, producer in self._producers.items():
            run = self._open.get(producer_id)
            head = None if run is None else OpenRun(*run)
            partial.states[producer_id] = producer.state(head)
            if head is not None and partial.first_reset is None and producer_id not in partial.fronts:
                partial.fronts[producer_id] = Front(head)
        return partial
