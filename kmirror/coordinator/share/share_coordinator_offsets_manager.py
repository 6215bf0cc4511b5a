"""The offset up to which a partition of `__share_group_state` is superfluous (Kafka's
`ShareCoordinatorOffsetsManager`).

Each share partition needs its last snapshot and the records after it. So everything before the
lowest of these snapshots may be deleted. The tombstone of a share partition counts once, when it is
written; if it was the last one, the log up to it may be deleted.
"""

from __future__ import annotations

import heapq

from kmirror.coordinator.share.share_partition_key import SharePartitionKey

_SPARE_ENTRIES = 64


class ShareCoordinatorOffsetsManager:
    """The offsets of the last snapshots, and the lowest of them, from a heap whose outdated entries
    are dropped when they come up."""

    def __init__(self) -> None:
        self._offsets: dict[SharePartitionKey, int] = {}
        self._heap: list[tuple[int, SharePartitionKey]] = []
        self._lowest = 0

    def update(self, key: SharePartitionKey, offset: int, *, is_delete: bool) -> None:
        """Notes that a snapshot (or a tombstone) of `key` is at `offset`."""
        self._offsets[key] = offset
        heapq.heappush(self._heap, (offset, key))
        if len(self._heap) > 2 * len(self._offsets) + _SPARE_ENTRIES:
            self._heap = sorted((offset, key) for key, offset in self._offsets.items())
        while self._offsets.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        self._lowest = self._heap[0][0]
        if is_delete:
            del self._offsets[key]

    def last_redundant_offset(self) -> int | None:
        """Returns the offset before which no record is needed; None if all are."""
        return self._lowest if self._lowest > 0 else None
