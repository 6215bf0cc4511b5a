"""What committed offsets translate to, and why: the account behind `kmirror translate-offsets`.

A translation is behind the commit by what lies between the commit and the sync that it goes by.
`read_again` counts the source's offsets there, less the sync's own record: so many records are read
a second time after a move to the target, fewer where the source has gaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_sync_store import TOO_OLD, OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import OffsetSyncWriter

SIMULATED_PARTITION = TopicPartition("simulated", 0)


class Translation(NamedTuple):
    """One commit. `translated` is None without a sync, and -1 before all syncs; neither becomes a
    checkpoint. `read_again` is None then.
    """

    topic_partition: TopicPartition
    group: str
    upstream_offset: int
    translated: int | None
    read_again: int | None
    reason: str


def translation(store: OffsetSyncStore, partition: TopicPartition, group: str, upstream_offset: int) -> Translation:
    """Returns what a commit translates to, and why."""
    translated = store.translate_downstream(partition, upstream_offset)
    sync = store.sync_for_offset(partition, upstream_offset)
    if translated is None or sync is None:
        return Translation(partition, group, upstream_offset, None, None, "there is no offset sync of this partition")
    if translated == TOO_OLD:
        reason = f"it lies before the oldest sync, {sync.upstream_offset} -> {sync.downstream_offset}: no checkpoint is written"
        return Translation(partition, group, upstream_offset, TOO_OLD, None, reason)
    if sync.upstream_offset == upstream_offset:
        return Translation(partition, group, upstream_offset, translated, 0, "it is a sync's own offset")
    read_again = upstream_offset - sync.upstream_offset - 1
    newest = store.sync_for(partition, 0)
    if sync is newest:
        reason = (
            f"it lies behind the newest sync, {sync.upstream_offset} -> {sync.downstream_offset}: one past that, nothing later is known"
        )
    else:
        reason = f"the newest sync before it is {sync.upstream_offset} -> {sync.downstream_offset}: one past that, gaps are not known"
    return Translation(partition, group, upstream_offset, translated, read_again, reason)


def simulated_syncs(records: int, lag_max: int) -> Iterator[OffsetSync]:
    """Yields the syncs of a source task that copies offsets 0 to `records` - 1 without a gap, and
    commits once at the end.
    """
    writer = OffsetSyncWriter(lag_max)
    for offset in range(records):
        for sync in writer.record_acknowledged(SIMULATED_PARTITION, offset, offset):
            writer.sync_done(sync)
            yield sync
    yield from writer.commit()


def evenly_spaced_syncs(records: int, every: int) -> Iterator[OffsetSync]:
    """Yields a sync at each multiple of `every` up to `records`: the example of KIP-1292's page."""
    for offset in range(every, records + 1, every):
        yield OffsetSync(SIMULATED_PARTITION, offset, offset)


def store_of(syncs: Iterable[OffsetSync]) -> OffsetSyncStore:
    """Returns the store of a task that has read these syncs and translates."""
    store = OffsetSyncStore()
    store.reached_end()
    for sync in syncs:
        store.handle_sync(sync)
    return store
