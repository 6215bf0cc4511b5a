"""The batches of a log file on a simulated disk, which may be torn."""

from __future__ import annotations

from collections.abc import Iterator

from kmirror.common.errors import ApiException
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch, next_batch_size


def whole_batches(data: bytes) -> Iterator[tuple[int, RecordBatch]]:
    """Yields positions and batches, up to the first that is torn or makes no sense."""
    position = 0
    while True:
        try:
            size = next_batch_size(data, position)
        except ApiException:
            return
        if size is None or position + size > len(data):
            return
        yield position, RecordBatch(data[position : position + size])
        position += size


def decision_of(batch: RecordBatch) -> bool | None:
    """Whether a transaction is committed by the marker; None for what is no marker."""
    if not (batch.is_control and batch.is_transactional):
        return None
    return any(ControlRecordType.parse(record.key) is ControlRecordType.COMMIT for record in batch.records())
