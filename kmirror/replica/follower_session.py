"""A follower's fetch session as the leader handles it: only partitions that changed are looked at.

A broker follows thousands of partitions over one session, and most of them are idle.
`PartitionChanges` keeps the order in which partitions changed last (an append, a watermark, a role,
a cut); a `FollowerSession` holds the partitions that the next fetch has to look at: those that
changed since the last one, those that the request changes, and those that a look did not *settle*.
A look settles a partition if there is nothing left to report: the follower is in the ISR and has
everything, and there was no error. Every `FULL_LOOK_INTERVAL_MS` everything is looked at, which is
also how less urgent news arrives (a log start offset moved by retention).

Every fetch of its session covers a settled partition without a look at it, so its follower is
caught up each time. `Replica` therefore refers to the session and takes `last_fetch_ms` as the time
at which it was last caught up. The next look ends that; any change causes one before the follower's
next fetch. A request that forgets the partition (the follower cannot go on with it, or a throttle
holds it back) also ends it; otherwise a replica that is no longer fetched would stay in the ISR.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid

PartitionKey = tuple[Uuid | str, int]
"""The key of a session's partition: (topic id, or name if the request has no ids, number)."""

FULL_LOOK_INTERVAL_MS = 5_000


class PartitionChanges:
    """Owns the order in which partitions last changed, the latest change last."""

    def __init__(self) -> None:
        self.sequence = 0
        self._last: dict[PartitionKey, int] = {}

    def note(self, key: PartitionKey) -> None:
        self.sequence += 1
        self._last.pop(key, None)
        self._last[key] = self.sequence

    def forget(self, key: PartitionKey) -> None:
        """The partition is gone."""
        self._last.pop(key, None)

    def since(self, sequence: int) -> list[PartitionKey]:
        """The partitions that changed after `sequence`, oldest first; the cost depends only on
        their number.
        """
        found: list[PartitionKey] = []
        for key in reversed(self._last):
            if self._last[key] <= sequence:
                break
            found.append(key)
        found.reverse()
        return found


class FollowerSession:
    """Owns which partitions of one session have to be looked at; `last_fetch_ms` is when the
    follower's last fetch was read (monotonic).
    """

    __slots__ = ("_changes", "_forgotten", "_next_full_look_ms", "_seen", "last_fetch_ms", "to_look")

    def __init__(self, changes: PartitionChanges, keys: Iterable[PartitionKey]) -> None:
        self._changes = changes
        self._seen = changes.sequence
        self._next_full_look_ms = 0
        self.last_fetch_ms = 0
        self._forgotten: list[TopicIdPartition] = []
        self.to_look: dict[PartitionKey, None] = dict.fromkeys(keys)

    def collect(self, partitions: Container[PartitionKey], every_key: Iterable[PartitionKey], now_ms: int) -> list[PartitionKey]:
        """The partitions that this fetch looks at, those waiting longest first."""
        if now_ms >= self._next_full_look_ms:
            self._next_full_look_ms = now_ms + FULL_LOOK_INTERVAL_MS
            for key in every_key:
                self.to_look.setdefault(key)
        elif self._seen != self._changes.sequence:
            for key in self._changes.since(self._seen):
                if key in partitions:
                    self.to_look.setdefault(key)
        self._seen = self._changes.sequence
        return list(self.to_look)

    def settle(self, key: PartitionKey) -> None:
        self.to_look.pop(key, None)

    def forget(self, key: PartitionKey, topic: TopicIdPartition) -> None:
        """Notes that the follower no longer fetches the partition."""
        self.to_look.pop(key, None)
        self._forgotten.append(topic)

    def take_forgotten(self) -> list[TopicIdPartition]:
        """Returns what was forgotten since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def unsettle(self, key: PartitionKey) -> None:
        """Has the partition looked at, after those that already wait."""
        self.to_look.pop(key, None)
        self.to_look[key] = None
