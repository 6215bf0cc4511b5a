"""The move of one partition to another log directory of its broker: how far it has got, and what is
known about its future log.

*A future log is a beginning of the current one, batch for batch.* It was copied from the current
one, and a cut of the current log is first made in the future one, in the same step (`LogManager`).
A restart may find a different state: a power loss may bring back what was cut, or the cut of the
current log was the last thing that happened. So a future log that is found at start is compared
header by header from its start, before the move continues, and cut where the two differ. In a new
leader epoch, and right before the change, only the last batch is compared. Equal ends and equal
epochs, which Kafka requires, prove little in a mirror: a failback cuts and copies other batches in
equal epochs.

*What was synced stays synced.* A broker may have acknowledged that a record is on its disk, and a
partition with one replica has no other copy. So before the future log takes the current one's
place, it is synced at least as far as the current one was. (Kafka renames it as it is.)
"""

from __future__ import annotations

import asyncio
import enum
import logging

from kmirror.common.errors import ApiException
from kmirror.common.topic_partition import TopicIdPartition
from kmirror.common.uuid import Uuid
from kmirror.runtime.api import Runtime
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.unified_log import UnifiedLog

HEADERS_COMPARED_A_TURN = 1000

_log = logging.getLogger(__name__)


class MoveStage(enum.Enum):
    """The stage of a move; see the diagram in `alter_log_dirs`."""

    COPYING = 0
    ASSIGNING = 1
    ACCEPTED = 2


class LogDirMove:
    """Owns one move's stage, how far its logs were compared, and its sync. `log` is always the
    partition's current log, `future` the one that is to take its place. `original_directory`: what
    the controller is told again if the move is given up.
    """

    def __init__(self, topic: TopicIdPartition, original_directory: Uuid | None, future: UnifiedLog) -> None:
        self.topic = topic
        self.original_directory = original_directory
        self.stage = MoveStage.COPYING
        self._compare_from: int | None = None if future.is_empty else future.log_start_offset
        """The future log is known to be the current one's beginning up to this offset; None if all
        of it is.
        """

        self._flush_task: asyncio.Task[None] | None = None

    # --- what the future log holds
    # ----------------------------------------------------------------------------------

    @property
    def is_unverified(self) -> bool:
        """Whether the future log is not yet known to be a beginning of the current one."""
        return self._compare_from is not None

    def on_future_log_cut(self, end_offset: int) -> None:
        """The future log was cut with the current one: a comparison beyond its new end no longer
        counts.
        """
        if self._compare_from is not None:
            self._compare_from = min(self._compare_from, end_offset)

    def bring_into_range(self, log: UnifiedLog, future: UnifiedLog) -> None:
        """Cuts or restarts a future log that ends after the current one, or begins elsewhere."""
        if future.log_end_offset > log.log_end_offset:
            future.truncate_to(log.log_end_offset, at_batch_boundary=True)
        if log.log_start_offset < future.log_start_offset or log.log_start_offset > future.log_end_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        future.maybe_update_high_watermark(min(log.high_watermark, future.log_end_offset))
        future.maybe_increment_log_start_offset(log.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)

    def compare_ends(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Whether the future log's last batch is also in the current one. If not, all of it is
        compared.
        """
        last = future.last_batch()
        if last is None or (theirs := log.batch_containing(last.base_offset)) is not None and _is_equal(last, theirs):
            return True
        self._compare_from = future.log_start_offset
        return False

    def compare_some(self, log: UnifiedLog, future: UnifiedLog) -> None:
        """Continues comparing from where the logs are known to be equal; cuts the future log at a
        difference.
        """
        assert self._compare_from is not None, "compares a future log that is verified"
        begin = max(self._compare_from, log.log_start_offset)  # what lies before may be gone from the current log already
        theirs = log.batch_headers(begin)
        for number, ours in enumerate(future.batch_headers(begin)):
            if number == HEADERS_COMPARED_A_TURN:
                return
            if not _is_equal(ours, next(theirs, None)):
                _log.warning("The future log of %s equals the current log only up to offset %d", self.topic, ours.base_offset)
                if ours.base_offset <= future.log_start_offset:
                    future.truncate_fully_and_start_at(log.log_start_offset)
                else:
                    future.truncate_to(ours.base_offset)
                break
            self._compare_from = ours.next_offset
        self._compare_from = None

    # --- what is on disk
    # --------------------------------------------------------------------------------------------

    def is_synced(self, log: UnifiedLog, future: UnifiedLog, runtime: Runtime) -> bool:
        """Whether the future log is synced at least as far as the current one.

        A worker syncs what was copied. What was appended meanwhile is little, and is synced on the
        spot, because under steady load there would always be some.
        """
        if future.recovery_point >= log.recovery_point:
            return True
        if self._flush_task is None:
            self._flush_task = runtime.spawn(_flush(future, runtime), name=f"flush-future-{future.topic_partition}")
        if not self._flush_task.done():
            return False
        future.flush()
        return True


async def _flush(future: UnifiedLog, runtime: Runtime) -> None:
    try:
        await runtime.run_blocking(future.flush)
    except ApiException as error:  # its directory goes offline, and with it the move
        _log.error("The future log %s cannot be synced: %s", future.directory, error.message)


def _is_equal(ours: BatchHeader, theirs: BatchHeader | None) -> bool:
    """Whether two headers belong to the same bytes: the CRC covers the fields that are not compared
    here.
    """
    return theirs is not None and (ours.base_offset, ours.size_in_bytes, ours.partition_leader_epoch, ours.crc) == (
        theirs.base_offset,
        theirs.size_in_bytes,
        theirs.partition_leader_epoch,
        theirs.crc,
    )
