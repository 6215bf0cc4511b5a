"""When a source task records a pair of offsets in the offset-syncs topic (Kafka's
`OffsetSyncWriter`).

A pair says: this record has offset u at the source and d at the target. Between two pairs a group's
offset can only be translated to the last known d + 1, so a new pair is due as soon as that would be
too far back, or as soon as the distance of both offsets changes (OS1). All other pairs wait: the
newest one of each partition is sent at the next periodic commit, so that a quiet topic is not left
behind (OS2). A limited number of syncs is in flight; what is due beyond that waits in the order of the
partitions, each with its newest pair only.

One pair must not be lost: the first of a log of the target, which tells a checkpoint task that all
earlier syncs are void. The first pair of a task's life may be such a pair, too. So neither is replaced
by a newer pair while it waits, and one that failed is sent again at the next commit. Kafka replaces
and forgets them, and a group that moves may then skip records.

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

    __slots__ = (
        "_max_offset_lag",
        "last_sync_downstream_offset",
        "previous_downstream_offset",
        "previous_upstream_offset",
        "was_first_of_log",
    )

    def __init__(self, max_offset_lag: int) -> None:
        self._max_offset_lag = max_offset_lag
        self.previous_upstream_offset = _NONE
        self.previous_downstream_offset = _NONE
        self.last_sync_downstream_offset = _NONE
        self.was_first_of_log = False
        """Whether the target's log may begin with the last pair, or may have lost its end before it."""

    def update(self, upstream_offset: int, downstream_offset: int) -> bool:
        """Returns whether this record's pair is due at once (OS1)."""
        is_first = self.last_sync_downstream_offset == _NONE
        # An offset behind the last sync is translated to the offset after it: hence the 1.
        is_stale = downstream_offset - (self.last_sync_downstream_offset + 1) >= self._max_offset_lag
        upstream_skipped = upstream_offset - self.previous_upstream_offset != 1
        # Kafka compares with <. Two records at one offset are in two logs: the target's topic was made anew.
        downstream_went_back = downstream_offset <= self.previous_downstream_offset
        self.was_first_of_log = is_first or downstream_went_back
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
        self._first_of_logs = _FirstOfLogs()
        self.outstanding = 0
        """Syncs that were sent and not acknowledged."""

    @property
    def delayed(self) -> tuple[OffsetSync, ...]:
        """Pairs that wait for the next commit."""
        return tuple(self._delayed.values())

    @property
    def pending(self) -> tuple[OffsetSync, ...]:
        """Pairs that are due and wait for a place."""
        return (*self._first_of_logs.waiting, *self._pending.values())

    def record_acknowledged(self, topic_partition: TopicPartition, upstream_offset: int, downstream_offset: int) -> list[OffsetSync]:
        """The target has a record. `topic_partition` is the source's."""
        state = self._states.get(topic_partition)
        if state is None:
            state = self._states[topic_partition] = PartitionState(self._max_offset_lag)
        sync = OffsetSync(topic_partition, upstream_offset, downstream_offset)
        if state.update(upstream_offset, downstream_offset):
            self._delayed.pop(topic_partition, None)
            if state.was_first_of_log:
                self._pending.pop(topic_partition, None)
                self._first_of_logs.add(sync)
            else:
                self._pending[topic_partition] = sync
        else:
            self._delayed[topic_partition] = sync
        return self.send_pending()

    def commit(self) -> list[OffsetSync]:
        """The task's offsets are committed, which happens periodically."""
        self._first_of_logs.send_failed_again()
        self._pending.update(self._delayed)
        self._delayed.clear()
        return self.send_pending()

    def sync_done(self, sync: OffsetSync, *, failed: bool = False) -> None:
        """A sync was written, or failed."""
        assert self.outstanding > 0, "more syncs were acknowledged than sent"
        self.outstanding -= 1
        self._first_of_logs.done(sync, failed)

    def send_pending(self) -> list[OffsetSync]:
        """As many of the pairs that are due as have a place."""
        places = self._max_outstanding - self.outstanding
        sent = self._first_of_logs.take(places)
        if self._pending:
            sent += [self._pending.pop(topic_partition) for topic_partition in list(self._pending)[: places - len(sent)]]
        self.outstanding += len(sent)
        return sent


class _FirstOfLogs:
    """The pairs that must not be lost, in the order of each partition's log."""

    def __init__(self) -> None:
        self._waiting: dict[TopicPartition, list[OffsetSync]] = {}
        """Those that are due. A partition has more than one if its log lost its end again."""
        self._in_flight: set[OffsetSync] = set()
        self._failed: list[OffsetSync] = []

    @property
    def waiting(self) -> list[OffsetSync]:
        return [sync for syncs in self._waiting.values() for sync in syncs]

    def add(self, sync: OffsetSync) -> None:
        """What was in the log at this pair's offset and behind it is gone, and so are older pairs for it."""
        topic_partition, _, end = sync

        def stays(one: OffsetSync) -> bool:
            return one.topic_partition != topic_partition or one.downstream_offset < end

        self._waiting[topic_partition] = [*filter(stays, self._waiting.get(topic_partition, ())), sync]
        self._in_flight = set(filter(stays, self._in_flight))
        self._failed = list(filter(stays, self._failed))

    def take(self, places: int) -> list[OffsetSync]:
        """Returns at most `places` pairs, which are in flight from now on."""
        taken: list[OffsetSync] = []
        if not self._waiting:
            return taken
        while self._waiting and len(taken) < places:
            topic_partition, syncs = next(iter(self._waiting.items()))
            taken.append(syncs.pop(0))
            if not syncs:
                del self._waiting[topic_partition]
        self._in_flight.update(taken)
        return taken

    def done(self, sync: OffsetSync, failed: bool) -> None:
        """A sync, of whichever kind, was written or failed."""
        if sync in self._in_flight:
            self._in_flight.remove(sync)
            if failed:
                self._failed.append(sync)

    def send_failed_again(self) -> None:
        """They go before what waits: the pairs of a partition keep their order."""
        for sync in reversed(self._failed):
            self._waiting.setdefault(sync.topic_partition, []).insert(0, sync)
        self._failed.clear()
