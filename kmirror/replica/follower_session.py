"""A follower's fetch session, as the leader works on it: only partitions that something happened to
are looked at.

A broker follows thousands of partitions over one session, and most of them are idle.
`PartitionChanges` keeps the order in which partitions changed last (an append, a watermark, a role,
a cut); a `FollowerSession` holds the partitions that the next fetch has to look at: those that
changed since the last one, those that the request changes, and those that a look did not *settle*.
A look settles a partition when there is nothing left to say: the follower is in the ISR and has
everything, and there was no error. Every `FULL_LOOK_INTERVAL_MS` everything is looked at, which is
also how slow news travel (a log start offset moved by retention).

A settled partition is fetched by every fetch of its session without being looked at, so its
follower is caught up each time. `Replica` therefore refers to the session and takes `last_fetch_ms`
for the time at which it was caught up last. The next look, which any change brings about before the
follower's next fetch, ends that; so does the request that forgets the partition (the follower
cannot go on with it, or a throttle holds it back), or a replica that is fetched no more would stay
in the ISR.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid

PartitionKey = tuple[Uuid | str, int]
"""Of a session's partition: (topic id, or name where the request has no ids, number)."""

FULL_LOOK_INTERVAL_MS = 5_000


class PartitionChanges:
    """Which partitions changed, the last change last."""

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
        """What changed after `sequence`, oldest first; the cost is that of what it returns."""
        found: list[PartitionKey] = []
        for key in reversed(self._last):
            if self._last[key] <= sequence:
                break
            found.append(key)
        found.reverse()
        return found


class FollowerSession:
    """What has to be looked at; `last_fetch_ms` is when the follower's last fetch was read
    (monotonic)."""

    __slots__ = ("_changes", "_forgotten", "_next_full_look_ms", "_seen", "last_fetch_ms", "to_look")

    def __init__(self, changes: PartitionChanges, keys: Iterable[PartitionKey]) -> None:
        self._changes = changes
        self._seen = changes.sequence
        self._next_full_look_ms = 0
        self.last_fetch_ms = 0
        self._forgotten: list[TopicIdPartition] = []
        self.to_look: dict[PartitionKey, None] = dict.fromkeys(keys)

    def collect(self, partitions: Container[PartitionKey], every_key: Iterable[PartitionKey], now_ms: int) -> list[PartitionKey]:
        """What this fetch looks at, in the order in which it has waited."""
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
        """The follower fetches it no more."""
        self.to_look.pop(key, None)
        self._forgotten.append(topic)

    def take_forgotten(self) -> list[TopicIdPartition]:
        """What was forgotten since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def unsettle(self, key: PartitionKey) -> None:
        """Look at it, after those that wait already."""
        self.to_look.pop(key, None)
        self.to_look[key] = None
