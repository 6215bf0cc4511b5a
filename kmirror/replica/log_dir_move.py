"""The move of one partition to another log directory of its broker: how far it is, and what is
known of its future log.

*A future log is a beginning of the current one, batch for batch.* It was copied from it, and a cut
of the current log is made in the future one first, in the same step (`LogManager`). A restart may
find another one: a power loss brings back what was cut, or the cut of the current log was the last
thing that happened. So a future log that is found is compared before it is followed on, header by
header from its start, and cut where the two differ; in a new leader epoch, and right before the
change, the last batch is. Equal ends and equal epochs, which is what Kafka asks, say little in a
mirror: a failback cuts and copies other batches in equal epochs.

*What was synced stays so.* A broker may have told somebody that a record is on its disk, and a
partition with one replica has no other. So the future log is synced before it takes the current
one's place, as far as that one was. (Kafka renames it as it is.)
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
    """Where the move is; `alter_log_dirs` has the picture."""

    COPYING = 0
    ASSIGNING = 1
    ACCEPTED = 2


class LogDirMove:
    """`log` is the partition's current log everywhere, `future` the one that shall take its place.

    `original_directory`: what the controller is told again when the move is given up.
    """

    def __init__(self, topic: TopicIdPartition, original_directory: Uuid | None, future: UnifiedLog) -> None:
        self.topic = topic
        self.original_directory = original_directory
        self.stage = MoveStage.COPYING
        self._compare_from: int | None = None if future.is_empty else future.log_start_offset
        """Up to here the future log is known to be the current one's beginning; None when all of it
        is."""

        self._flush_task: asyncio.Task[None] | None = None

    # --- what the future log holds
    # ----------------------------------------------------------------------------------

    @property
    def is_unverified(self) -> bool:
        """Whether it is not known yet that the future log is a beginning of the current one."""
        return self._compare_from is not None

    def on_future_log_cut(self, end_offset: int) -> None:
        """The future log was cut with the current one: what was compared behind its new end counts
        no more."""
        if self._compare_from is not None:
            self._compare_from = min(self._compare_from, end_offset)

    def bring_into_range(self, log: UnifiedLog, future: UnifiedLog) -> None:
        """A future log that is found may end behind the current one, or begin elsewhere."""
        if future.log_end_offset > log.log_end_offset:
            future.truncate_to(log.log_end_offset, at_batch_boundary=True)
        if log.log_start_offset < future.log_start_offset or log.log_start_offset > future.log_end_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        future.maybe_update_high_watermark(min(log.high_watermark, future.log_end_offset))
        future.maybe_increment_log_start_offset(log.log_start_offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED)

    def compare_ends(self, log: UnifiedLog, future: UnifiedLog) -> bool:
        """Whether the future log's last batch is the current one's too. If not, all of it is
        compared."""
        last = future.last_batch()
        if last is None or (theirs := log.batch_containing(last.base_offset)) is not None and _is_equal(last, theirs):
            return True
        self._compare_from = future.log_start_offset
        return False

    def compare_some(self, log: UnifiedLog, future: UnifiedLog) -> None:
        """Go on comparing from where the logs are known to be equal; at a difference, cut the
        future log."""
        assert self._compare_from is not None, "compares a future log that is verified"
        begin = max(self._compare_from, log.log_start_offset)  # what lies before may be gone from the current log already
        theirs = log.batch_headers(begin)
        for number, ours in enumerate(future.batch_headers(begin)):
            if number == HEADERS_COMPARED_A_TURN:
                return
            if not _is_equal(ours, next(theirs, None)):
                _log.warning("The future log of %s is the current one's only up to offset %d", self.topic, ours.base_offset)
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
        """Whether the future log has on its disk what the current one has on its own.

        A worker syncs what was copied; what was appended meanwhile is little, and is synced at
        once: under steady load there would always be some.
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
    """Whether two headers are of the same bytes: the CRC has all that is not named here."""
    return theirs is not None and (ours.base_offset, ours.size_in_bytes, ours.partition_leader_epoch, ours.crc) == (
        theirs.base_offset,
        theirs.size_in_bytes,
        theirs.partition_leader_epoch,
        theirs.crc,
    )
