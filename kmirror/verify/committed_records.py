"""Which records of a log count for its cleaner: those outside transactions and those of committed
ones, determined while the log is walked.

A cleaner leaves the records of an aborted transaction out of its map: they are removed, and they do
not replace older records with their key. A log that has such a record also has the marker after it,
because a cleaner keeps the marker while a batch of the transaction is left. That marker is the next
COMMIT or ABORT of the producer. Its epoch proves nothing, because with transactions version 2 it is
one higher than that of the batches. A MIRROR_PID_RESET before it ends the transaction, too: nothing
will abort these records any more, and readers and cleaners take them for committed.

Memory is proportional to the number of producers, plus the records of open transactions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from kmirror.record.columns import Int64s


_NEVER: Final = (1 << 63) - 1


class CommittedRecords:
    """Gets every batch of a log in order, and calls `on_committed` with the name and offset of each
    record that counts."""

    def __init__(self, on_committed: Callable[[bytes, int], None]) -> None:
        self._on_committed = on_committed
        self._open: dict[int, dict[bytes, list[int]]] = {}
        self._resets: list[int] = []
        """The offsets of MIRROR_PID_RESETs."""
        self._markers: dict[int, tuple[list[int], list[bool]]] = {}
        """Each producer's markers, as runs of equal ones: the last offset of each run, and whether
        it consists of ABORTs."""

    def add_record(self, batch: RecordBatch, name: bytes, offset: int) -> None:
        if batch.is_transactional:
            self._open.setdefault(batch.producer_id, {}).setdefault(name, []).append(offset)
        else:
            self._on_committed(name, offset)

    def add_control(self, batch: RecordBatch) -> None:
        record = next(batch.records(), None)
        kind = None if record is None else ControlRecordType.parse(record.key)
        if kind is ControlRecordType.MIRROR_PID_RESET:
            self._note_reset(batch.base_offset)
        if kind not in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
            return
        self._note_marker(batch, is_abort=kind is ControlRecordType.ABORT)
        for name, written in self._open.pop(batch.producer_id, {}).items():
            if kind is ControlRecordType.COMMIT:
                for offset in written:
                    self._on_committed(name, offset)

    def _note_reset(self, offset: int) -> None:
        self._resets.append(offset)
        for names in self._open.values():
            for name, written in names.items():
                for one in written:
                    self._on_committed(name, one)
        self._open.clear()

    def _note_marker(self, batch: RecordBatch, *, is_abort: bool) -> None:
        offsets, aborts = self._markers.setdefault(batch.producer_id, ([], []))
        if aborts and aborts[-1] is is_abort and not (self._resets and self._resets[-1] > offsets[-1]):
            offsets[-1] = batch.base_offset
        else:
            offsets.append(batch.base_offset)
            aborts.append(is_abort)

    def are_committed(self, producer_id: int, offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Returns for each offset whether the producer's next marker after it is a COMMIT."""
        return self._are_ended(producer_id, offsets, by_abort=False)

    def are_aborted(self, producer_id: int, offsets: Int64s) -> npt.NDArray[np.bool_]:
        """Returns for each offset whether the producer's next marker after it is an ABORT."""
        return self._are_ended(producer_id, offsets, by_abort=True)

    def _are_ended(self, producer_id: int, offsets: Int64s, *, by_abort: bool) -> npt.NDArray[np.bool_]:
        import numpy as np  # equal logs do not need it

        markers, aborts = self._markers.get(producer_id, ([], []))
        index = np.searchsorted(np.array(markers, dtype=np.int64), offsets, side="right")
        ended = np.array([*(abort is by_abort for abort in aborts), False])[index]
        if self._resets:
            resets = np.array([*self._resets, _NEVER], dtype=np.int64)
            reset = resets[np.searchsorted(resets[:-1], offsets, side="right")]
            ended = np.where(reset < np.array([*markers, _NEVER], dtype=np.int64)[index], not by_abort, ended)
        return ended

    def is_aborted(self, producer_id: int, offset: int) -> bool:
        """Whether the producer's next marker after `offset` is an ABORT."""
        offsets, aborts = self._markers.get(producer_id, ([], []))
        index = bisect_right(offsets, offset)
        if index == len(offsets) or not aborts[index]:
            return False
        reset = bisect_right(self._resets, offset)
        return reset == len(self._resets) or self._resets[reset] > offsets[index]
