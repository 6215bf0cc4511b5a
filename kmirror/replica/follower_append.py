"""How a copy of a log (a follower's, or the future log of a move) appends the batches of the log
that it follows (Kafka's `Partition.appendRecordsToFollowerOrFutureReplica`).

A log may begin in the middle of a batch (DeleteRecords). A copy from there receives the whole
batch, which begins below the end of a copy that is still empty. Then the copy begins with that
batch, and its log start also lies in the middle of it.
"""

from __future__ import annotations

import logging
from typing import Final

from kmirror.common.ports import Buffer
from kmirror.storage.log_append import UnexpectedAppendOffsetError
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.unified_log import UnifiedLog

_log: Final = logging.getLogger(__name__)


def append_as_follower(log: UnifiedLog, records: Buffer, *, leader_epoch: int) -> LogAppendInfo:
    """`UnifiedLog.append_as_follower`, also for the batch in which the leader's log begins."""
    try:
        return log.append_as_follower(records, leader_epoch=leader_epoch)
    except UnexpectedAppendOffsetError as error:
        begin = log.log_start_offset
        if log.log_end_offset != begin or not error.first_offset < begin <= error.last_offset:
            raise
        _log.info("%s starts in the middle of the batch at offset %d", log.name, error.first_offset)
        log.truncate_fully_and_start_at(error.first_offset, log_start_offset=begin)
        return log.append_as_follower(records, leader_epoch=leader_epoch)
