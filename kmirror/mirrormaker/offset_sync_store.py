"""How a checkpoint task translates a group's offset (Kafka's `OffsetSyncStore`).

The store keeps 64 syncs of each partition, dense near the end of the topic and sparse far behind
it. With `up[i]` the source's offset of entry i (OS3):

    A  entry 0 is the newest sync
    B  for i < j: up[i] <= up[j] + 2^j - 2^i, or both are the same sync     (not too old for its place)
    C  for neighbours that differ: up[i] >= up[i+1] + 2^max(i-2, 0)         (not too close together)
    D  entry 63 is the oldest sync that can be used

B and C of neighbours give them for all pairs, so a new sync costs one walk over the entries. The
distance that a translation may be behind grows with the distance to the end of the topic: at most
about half of it.

Translation takes the newest sync at or before the offset (OS6). An equal offset is the sync's
own. A greater one becomes the offset after the sync's: what lies between may be records or gaps, so
any greater answer could skip a record. An offset before all syncs is -1, which nobody emits.

When the source's offsets go back, the topic was made anew or is copied again, and all earlier syncs
are void (OS4). They are, too, when the target's offsets go back, because its topic was made anew or has
lost its end: what they point to there are other records by now. Kafka keeps them, and a group that moves
may then skip records. Before the syncs topic was read to its end nothing is translated; unless the
checkpoints of an earlier life were read, only the last sync counts, so that no checkpoint goes back
(OS5).
"""

from __future__ import annotations

from typing import Final

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync

SYNCS_PER_PARTITION: Final = 64
TOO_OLD: Final = -1
"""The answer for an offset before every sync."""


class OffsetSyncStore:
    """The syncs of all partitions of a flow. Not read to its end when made (`start`)."""

    def __init__(self) -> None:
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}
        self._initialization_must_read_to_end = True
        self.read_to_end = False

    def start(self, *, initialization_must_read_to_end: bool) -> None:
        """Reading begins. It must reach the end before older syncs are kept, unless the checkpoints
        that an earlier life emitted are known.
        """
        self._initialization_must_read_to_end = initialization_must_read_to_end

    def reached_end(self) -> None:
        """The syncs topic was read to the end that it had at the start."""
        self.read_to_end = True

    def handle_record(self, key: bytes | None, value: bytes | None) -> TopicPartition | None:
        """A record of the syncs topic was read; SchemaException for a torn one. Returns its partition if the
        target's offsets have gone back there.
        """
        sync = OffsetSync.deserialize_record(key, value)
        return sync.topic_partition if self.handle_sync(sync) else None

    def handle_sync(self, sync: OffsetSync) -> bool:
        """Returns whether the target's offsets have gone back."""
        syncs = self._syncs.get(sync.topic_partition)
        only_last = not self.read_to_end and self._initialization_must_read_to_end
        went_back = syncs is not None and _is_of_another_log(sync, syncs[0])
        if syncs is None or only_last or went_back or sync.upstream_offset < syncs[0].upstream_offset:
            self._syncs[sync.topic_partition] = [sync] * SYNCS_PER_PARTITION
        else:
            self._syncs[sync.topic_partition] = _with_newest(syncs, sync)
        return went_back

    def translate_downstream(self, topic_partition: TopicPartition, upstream_offset: int) -> int | None:
        """Returns the target's offset for a group's offset at the source.

        TOO_OLD (-1) for an offset before every sync, None if there is no sync or the topic is still
        being read (OS5, OS6).
        """
        if not self.read_to_end:
            return None
        sync = self.sync_for_offset(topic_partition, upstream_offset)
        if sync is None:
            return None
        if sync.upstream_offset > upstream_offset:
            return TOO_OLD
        return translated(sync, upstream_offset)

    def sync_for_offset(self, topic_partition: TopicPartition, upstream_offset: int) -> OffsetSync | None:
        """Returns the newest sync at or before an offset, else the oldest sync."""
        syncs = self._syncs.get(topic_partition)
        if syncs is None:
            return None
        return next((sync for sync in syncs if sync.upstream_offset <= upstream_offset), syncs[-1])

    def sync_for(self, topic_partition: TopicPartition, index: int) -> OffsetSync:
        """Returns an entry, 0 for the newest sync."""
        return self._syncs[topic_partition][index]

    def kept(self, topic_partition: TopicPartition) -> list[tuple[int, OffsetSync]]:
        """Returns the different syncs, newest first, each with its first index."""
        syncs = self._syncs.get(topic_partition, [])
        return [(index, sync) for index, sync in enumerate(syncs) if index == 0 or sync is not syncs[index - 1]]

    def topic_partitions(self) -> list[TopicPartition]:
        return list(self._syncs)


def translated(sync: OffsetSync, upstream_offset: int) -> int:
    """Returns the target's offset for one at or after `sync`: no further than one past it (OS6)."""
    return sync.downstream_offset + (0 if upstream_offset == sync.upstream_offset else 1)


def _is_of_another_log(sync: OffsetSync, before: OffsetSync) -> bool:
    """Whether the target's log went back between two syncs: one log has one record at an offset."""
    if sync.downstream_offset == before.downstream_offset:
        return sync.upstream_offset != before.upstream_offset
    return sync.downstream_offset < before.downstream_offset


def _with_newest(original: list[OffsetSync], newest: OffsetSync) -> list[OffsetSync]:
    """Returns the entries with one more sync.

    The walk goes from new to old. `replacement` is always a sync that fits the place at hand; an
    older one from the old entries takes over as soon as it fits, so that many different syncs
    stay. The walk ends at the first place that is still recent enough: all behind it are, too.
    """
    syncs = original.copy()
    syncs[0] = replacement = newest
    candidate = 0
    for current in range(1, SYNCS_PER_PARTITION):
        previous = current - 1
        while True:
            old = original[candidate]
            is_recent = _invariant_b(syncs[previous], old, previous, current)
            is_separated = _invariant_c(syncs[previous], old, previous)
            following = current + 1
            leaves_room = following >= SYNCS_PER_PARTITION or _invariant_c(old, syncs[following], current)
            is_repeated = candidate + 1 < SYNCS_PER_PARTITION and old is original[candidate + 1]
            fits = is_recent and is_separated and leaves_room
            if fits:
                replacement = old
            skips = is_repeated or not is_separated
            if fits or skips:
                candidate += 1
            if candidate >= current or not skips:
                break
        if _invariant_b(syncs[previous], syncs[current], previous, current):
            break
        syncs[current] = replacement
        assert _invariant_b(syncs[previous], replacement, previous, current), f"{replacement} is too old for entry {current}"
        assert _invariant_c(syncs[previous], replacement, previous), f"{replacement} is too close to entry {previous}"
    return syncs


def _invariant_b(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    return newer is older or newer.upstream_offset <= older.upstream_offset + (1 << j) - (1 << i)


def _invariant_c(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    return newer is older or newer.upstream_offset >= older.upstream_offset + (1 << max(i - 2, 0))
