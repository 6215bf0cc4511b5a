"""What a Java client remembers of leader epochs (Kafka's `Metadata.lastSeenLeaderEpochs`), and how
it comes to have no leader.

    metadata        an epoch below the largest that was seen of that topic id is dropped; any other is the newest metadata
    heard           an epoch from elsewhere (ListOffsets, OffsetFetch, a batch that is committed) that is larger is remembered, and new metadata
                    are needed; where nothing was seen before it is not
    no such topic   its id is forgotten, and the next metadata are believed whatever they say, also of the same id (a mirror's topic keeps the source's)
    the leader      that of the newest metadata, if their epoch is the largest that was seen, else none

So an epoch that no metadata will ever show leaves the partition without a leader for good. The
model is stricter than Java in one thing: a position there keeps its leader until it needs another
one, here the next request needs it.
"""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid


class EpochMemory:
    """Owns the epochs that one client remembers; the client keeps the leaders itself."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, tuple[Uuid, int]] = {}

    def takes(self, partition: TopicPartition, topic_id: Uuid, epoch: int) -> bool:
        """Returns whether metadata of that epoch are believed, and remembers the epoch if so."""
        seen = self._seen.get(partition)
        if seen is not None and seen[0] == topic_id and epoch < seen[1]:
            return False
        self._seen[partition] = topic_id, epoch
        return True

    def forgets(self, topic: str) -> None:
        """A broker said that there is no such topic."""
        self._seen = {partition: seen for partition, seen in self._seen.items() if partition.topic != topic}

    def hears(self, partition: TopicPartition, epoch: int) -> bool:
        """Returns whether an epoch from elsewhere than metadata (-1: none was given) requires new
        metadata.
        """
        seen = self._seen.get(partition)
        if seen is None or epoch <= seen[1]:
            return False
        self._seen[partition] = seen[0], epoch
        return True
