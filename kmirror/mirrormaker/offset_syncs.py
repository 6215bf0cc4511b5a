"""When a source task records a pair of offsets in the offset-syncs topic (Kafka's
`OffsetSyncWriter`).

A pair says: this record has offset u at the source and d at the target. Between two pairs a group's
offset can only be translated to the last known d + 1, so a new pair is due as soon as that would be
too far back, or as soon as the distance of both offsets changes (OS1). All other pairs wait: the
newest one of each partition is sent at the next periodic commit, so that a quiet topic is not left
behind (OS2). At most ten syncs are in flight; what is due beyond that waits in the order of the
partitions, each with its newest pair only.

`OffsetSyncWriter` takes events and returns what to send. It knows no client: whoever sends tells it
when a sync was acknowledged or failed. As in Kafka that frees a place but sends nothing; the next
record or commit does; `send_pending` is for whoever must not wait for those.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync

MAX_OUTSTANDING_OFFSET_SYNCS: Final = 10
OFFSET_LAG_MAX_DEFAULT: Final = 100
_NONE: Final = -1


class PartitionState:
    """What is known of one partition in the life of a task (Kafka's class of this name)."""

    __slots__ = ("_max_offset_lag", "last_sync_downstream_offset", "previous_downstream_offset", "previous_upstream_offset")

    def __init__(self, max_offset_lag: int) -> None:
        self._max_offset_lag = max_offset_lag
        self.previous_upstream_offset = _NONE
        self.previous_downstream_offset = _NONE
        self.last_sync_downstream_offset = _NONE

    def update(self, upstream_offset: int, downstream_offset: int) -> bool:
        """Returns whether this record's pair is due at once (OS1)."""
        is_first = self.last_sync_downstream_offset == _NONE
        # An offset behind the last sync is translated to the offset after it: hence the 1.
        is_stale = downstream_offset - (self.last_sync_downstream_offset + 1) >= self._max_offset_lag
        upstream_skipped = upstream_offset - self.previous_upstream_offset != 1
        downstream_went_back = downstream_offset < self.previous_downstream_offset
        is_due = is_first or is_stale or upstream_skipped or downstream_went_back
        if is_due:
            self.last_sync_downstream_offset = downstream_offset
        self.previous_upstream_offset = upstream_offset
        self.previous_downstream_offset = downstream_offset
        return is_due


class OffsetSyncWriter:
    """The syncs of one source task. Every method returns the syncs to send now, in their order."""

    def __init__(self, max_offset_lag: int = OFFSET_LAG_MAX_DEFAULT, *, max_outstanding: int = MAX_OUTSTANDING_OFFSET_SYNCS) -> None:
        self._max_offset_lag = max_offset_lag
        self._max_outstanding = max_outstanding
        self._states: dict[TopicPartition, PartitionState] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}
        self.outstanding = 0
        """Syncs that were sent and not acknowledged."""

    @property
    def delayed(self) -> tuple[OffsetSync, ...]:
        """Pairs that wait for the next commit."""
        return tuple(self._delayed.values())

    @property
    def pending(self) -> tuple[OffsetSync, ...]:
        """Pairs that are due and wait for a place."""
        return tuple(self._pending.values())

    def record_acknowledged(self, topic_partition: TopicPartition, upstream_offset: int, downstream_offset: int) -> list[OffsetSync]:
        """The target has a record. `topic_partition` is the source's."""
        state = self._states.get(topic_partition)
        if state is None:
            state = self._states[topic_partition] = PartitionState(self._max_offset_lag)
        sync = OffsetSync(topic_partition, upstream_offset, downstream_offset)
        if state.update(upstream_offset, downstream_offset):
            self._delayed.pop(topic_partition, None)
            self._pending[topic_partition] = sync
        else:
            self._delayed[topic_partition] = sync
        return self.send_pending()

    def commit(self) -> list[OffsetSync]:
        """The task's offsets are committed, which happens periodically."""
        self._pending.update(self._delayed)
        self._delayed.clear()
        return self.send_pending()

    def sync_acknowledged(self) -> None:
        """A sync was written, or failed: Kafka logs that and does not send it again."""
        assert self.outstanding > 0, "more syncs were acknowledged than sent"
        self.outstanding -= 1

    def send_pending(self) -> list[OffsetSync]:
        """As many of the pairs that are due as have a place."""
        if not self._pending:
            return []
        sent = []
        for topic_partition in list(self._pending)[: self._max_outstanding - self.outstanding]:
            sent.append(self._pending.pop(topic_partition))
        self.outstanding += len(sent)
        return sent
