"""What the mirror reads from the local log of a partition that it leads, and how it cuts that log.

Epochs are read from batch headers, never from the epoch cache (C5). Cuts are made at batch
boundaries (C35), fail the produces that are waiting (F3) and leave no empty entry of a local leader
epoch in the epoch cache (D5 step 4).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from kmirror.mirror.logs.log_alignment import AlignmentHeader, LogSummary, source_of_reset, summarize
from kmirror.record.record_batch import RecordBatch
from kmirror.replica.partition import Partition
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.unified_log import UnifiedLog

_log = logging.getLogger(__name__)


def batch_headers(log: UnifiedLog, start_offset: int) -> Iterator[AlignmentHeader]:
    """Headers from `start_offset` on; the content of resets is read too."""
    for header in log.batch_headers(start_offset):
        yield _header(log, header)


def summarize_log(log: UnifiedLog, source_cluster_id: str) -> LogSummary:
    """One pass over all headers. It takes long for a large log, so callers run it through
    `Runtime.run_blocking`.
    """
    return summarize(batch_headers(log, log.log_start_offset), source_cluster_id)


def first_offset_above(log: UnifiedLog, leader_epoch: int) -> int | None:
    """Base offset of the first batch whose epoch is above `leader_epoch`; None if there is none."""
    for header in log.batch_headers(log.log_start_offset):
        if header.partition_leader_epoch > leader_epoch:
            return header.base_offset
    return None


def cut(partition: Partition, offset: int) -> int:
    """Truncate the leader's log to `offset`, lowered to a batch's start. Returns the number of
    offsets removed.
    """
    log = partition.leader_log
    before = log.log_end_offset
    if offset < before:
        partition.fail_pending_produces()
        log.truncate_to(offset, at_batch_boundary=True)
        partition.on_leader_log_cut()
    log.leader_epoch_cache.truncate_from_end_async_flush(log.log_end_offset)
    removed = before - log.log_end_offset
    if removed > 0:
        _log.info(
            "%s: truncated from offset %d to %d; %d offsets were removed", partition.topic_partition, before, log.log_end_offset, removed
        )
    return removed


def cut_fully(partition: Partition, new_offset: int) -> int:
    """Drops everything and starts at `new_offset`. Returns the number of offsets removed."""
    log = partition.leader_log
    before, start = log.log_end_offset, log.log_start_offset
    partition.fail_pending_produces()
    log.truncate_fully_and_start_at(new_offset)
    partition.on_leader_log_cut()
    _log.info("%s: removed all offsets (%d to %d); the log now starts at offset %d", partition.topic_partition, start, before, new_offset)
    return before - start


def _header(log: UnifiedLog, header: BatchHeader) -> AlignmentHeader:
    reset_source = None
    if header.is_control and not header.is_transactional:
        reset_source = source_of_reset(_read_batch(log, header))
    return AlignmentHeader(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.producer_id,
        header.is_transactional,
        header.is_control,
        reset_source,
        header.record_count,
        header.size_in_bytes,
    )


def _read_batch(log: UnifiedLog, header: BatchHeader) -> RecordBatch:
    read = log.read(header.base_offset, header.size_in_bytes, FetchIsolation.LOG_END, min_one_message=True)
    return RecordBatch(read.records.to_bytes())
