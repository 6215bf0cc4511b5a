"""Offset syncs for whole batches, the same as record by record.

Inside a batch that was sent on as it is, both offsets grow by one from record to record. So a record
is due only by its distance from the last sync, and where that is so can be computed. Two or three
records of a batch are looked at, and one more for each offset.lag.max records.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_syncs import OFFSET_LAG_MAX_DEFAULT, OffsetSyncWriter

MOST_SYNCS_TOGETHER: Final = 64
"""So many syncs may be in flight. Kafka has ten, each sent by itself; here those that become due
together leave as one batch."""


class BatchOffsetSyncWriter(OffsetSyncWriter):
    """An `OffsetSyncWriter` that is told of batches."""

    def __init__(self, max_offset_lag: int = OFFSET_LAG_MAX_DEFAULT) -> None:
        super().__init__(max_offset_lag, max_outstanding=MOST_SYNCS_TOGETHER)

    def batch_acknowledged(self, partition: TopicPartition, upstream_offset: int, downstream_offset: int, count: int) -> list[OffsetSync]:
        """The target has `count` records, whose offsets begin at these and have no gaps. Returns
        the syncs to send now.
        """
        syncs = self.record_acknowledged(partition, upstream_offset, downstream_offset)
        last = downstream_offset + count - 1
        current = downstream_offset
        while current < last:
            state = self._states[partition]
            due = state.last_sync_downstream_offset + 1 + self._max_offset_lag
            current = min(max(due, current + 1), last)
            state.previous_downstream_offset = current - 1
            state.previous_upstream_offset = upstream_offset + current - 1 - downstream_offset
            syncs += self.record_acknowledged(partition, upstream_offset + current - downstream_offset, current)
        return syncs
