"""Rebuilding the producer state as of an offset: from the newest usable snapshot, then by replaying
the batches after it.

Snapshots are (re)written at the base of the last two segments and at the target, so that the next
start reads no more than needed. If a clean shutdown left no snapshot at all, there were no
producers: empty snapshots are written and nothing is read. Kafka also reads nothing if no producer
existed before a truncation. Here that would be wrong, because a MIRROR_PID_RESET forgets producers,
and cutting it off brings them back. The price is a walk over the headers after the snapshot.
"""

from __future__ import annotations

from kmirror.record.append_origin import AppendOrigin
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_update import ProducerStateUpdate


def rebuild_producer_state(
    manager: ProducerStateManager,
    segments: LogSegments,
    *,
    log_start_offset: int,
    last_offset: int,
    now_ms: int,
    reload_from_clean_shutdown: bool = False,
    sync_snapshots: bool = True,
) -> None:
    """Makes `manager` the state as of `last_offset` (exclusive), and writes the snapshots (Kafka's
    `rebuildProducerState`).
    """
    offsets_to_snapshot = _offsets_to_snapshot(segments, last_offset)
    if manager.latest_snapshot_offset is None and reload_from_clean_shutdown:
        for offset in offsets_to_snapshot:
            manager.update_map_end_offset(offset)
            manager.take_snapshot()
        return
    manager.truncate_and_reload(log_start_offset, last_offset, now_ms)
    if last_offset > manager.map_end_offset:
        _replay(manager, segments, log_start_offset, last_offset, offsets_to_snapshot, sync_snapshots=sync_snapshots)
    manager.update_map_end_offset(last_offset)
    manager.take_snapshot(sync=sync_snapshots)


def _offsets_to_snapshot(segments: LogSegments, last_offset: int) -> list[int]:
    last_two = segments.base_offsets[-2:]
    return [*last_two, last_offset]


def _replay(
    manager: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: int,
    last_offset: int,
    offsets_to_snapshot: list[int],
    *,
    sync_snapshots: bool,
) -> None:
    last_segment = segments.floor_segment(last_offset)
    for segment in segments.values_between(manager.map_end_offset, last_offset):
        start_offset = max(segment.base_offset, manager.map_end_offset, log_start_offset)
        manager.update_map_end_offset(start_offset)
        if segment.base_offset in offsets_to_snapshot:
            manager.take_snapshot(sync=sync_snapshots)
        end = segment.size
        if segment is last_segment:
            found = segment.translate_offset(last_offset)
            end = segment.size if found is None else found.position
        load_producers_from_segment(manager, segment, start_offset=start_offset, end_position=end)


def load_producers_from_segment(manager: ProducerStateManager, segment: LogSegment, *, start_offset: int, end_position: int) -> None:
    """Replays the batches from `start_offset` on that lie before `end_position`.

    The transaction index is not changed.
    """
    first = segment.translate_offset(start_offset)
    if first is None:
        return
    update = ProducerStateUpdate(manager, AppendOrigin.REPLICATION)
    for header in segment.batch_headers(first.position, end_position):
        if header.is_control:
            update.add(header, segment.file.pread(header.size_in_bytes, header.position), 0)
        elif header.has_producer_id:
            update.add(header, b"", 0)
    update.apply()
