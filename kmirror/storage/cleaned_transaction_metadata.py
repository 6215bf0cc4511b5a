"""Which transactional batches and markers the cleaner may drop (Kafka's
`CleanedTransactionMetadata`).

The cleaner walks a log in offset order. Data of an aborted transaction is always dropped. A marker
must stay while any data batch of its transaction is still in the log, because readers need it to
know the transaction's outcome. So a marker may be dropped only if this pass met no batch of its
transaction; even then it waits for its delete horizon. Aborted transactions are known from the
transaction indexes. Those whose data was met are written into the transaction index of the cleaned
segment.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import RecordBatch
from kmirror.storage.fetch_data_info import AbortedTxn


class CleanedTransactionMetadata:
    """Owner of the state of the open transactions at the point that the walk has reached."""

    def __init__(self) -> None:
        self._retained_aborted: list[AbortedTxn] = []
        self._ongoing_committed: set[int] = set()
        self._ongoing_aborted: dict[int, AbortedTxn] = {}
        self._aborted_with_data: set[int] = set()
        self._future_aborted: list[tuple[int, AbortedTxn]] = []

    def add_aborted_transactions(self, aborted_transactions: Iterable[AbortedTxn]) -> None:
        """Adds transactions that the walk will meet; adding one twice is harmless."""
        for aborted in aborted_transactions:
            heapq.heappush(self._future_aborted, (aborted.first_offset, aborted))

    def take_retained_aborted_transactions(self) -> list[AbortedTxn]:
        """Returns and forgets the aborted transactions whose data was seen, in the order of their
        markers.
        """
        retained, self._retained_aborted = self._retained_aborted, []
        return retained

    def on_batch_read(self, batch: RecordBatch) -> bool:
        """Notes a data batch; True if it belongs to an aborted transaction."""
        self._consume_aborted_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._ongoing_aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._ongoing_committed.add(batch.producer_id)
        return False

    def on_control_batch_read(self, batch: RecordBatch) -> bool:
        """Notes a control batch; True if it may be dropped.

        Types other than ABORT and COMMIT may never be dropped.
        """
        self._consume_aborted_up_to(batch.last_offset)
        record = next(batch.records(), None)
        if record is None:
            return True  # it was cleaned before and only its header was kept
        control_type = ControlRecordType.parse(record.key)
        if control_type is ControlRecordType.ABORT:
            return self._on_abort(batch.producer_id)
        if control_type is ControlRecordType.COMMIT:
            seen = batch.producer_id in self._ongoing_committed
            self._ongoing_committed.discard(batch.producer_id)
            return not seen
        return False

    def _on_abort(self, producer_id: int) -> bool:
        aborted = self._ongoing_aborted.pop(producer_id, None)
        if aborted is None or producer_id not in self._aborted_with_data:
            return True
        self._aborted_with_data.remove(producer_id)
        self._retained_aborted.append(aborted)
        return False

    def _consume_aborted_up_to(self, offset: int) -> None:
        while self._future_aborted and self._future_aborted[0][0] <= offset:
            _, aborted = heapq.heappop(self._future_aborted)
            self._ongoing_aborted.setdefault(aborted.producer_id, aborted)
