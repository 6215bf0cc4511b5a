"""STOPPING: make a mirrored partition writable (D4). The source is not contacted in any step.

    0 done already? the log's last batch is our reset, its conditions hold: only wait for the replicas
    1 remove the fetcher and wait until it no longer owns the partition
    2 bump the leader epoch above every epoch in the log, the stored last mirror epoch and every source epoch seen; await it
    3 truncate to the LSO fixpoint; followers follow
    4 last mirror epoch := largest epoch of the batches left (see `log_alignment`)
    5 persist it at the coordinator
    6 append MIRROR_PID_RESET in the new leader epoch: producers, ongoing and unreplicated transactions end on every replica
    7 STOPPED (the caller's transition)

The order makes it safe. The bump comes first, because a crash after the truncation would lose the
bump's minimum (F15). The reset comes after the awaited bump: otherwise it would share the old epoch
with the source's next batch. The epoch is persisted before the reset, because step 0 recognises a
finished run by the reset. Each step is idempotent, so an interrupted run is simply made again. A
leader remembers the reset that it wrote: step 0 recognises it only by the stored last mirror epoch,
and a partition that never mirrored has none. Waits are for the current ISR; min.insync.replicas
need not be met, because a failover must work with the replicas that are left.
"""

from __future__ import annotations

import logging
from typing import Protocol

from kmirror.common.ports import Clock
from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.fetch.source_progress import SourceProgress
from kmirror.mirror.logs.local_log import cut, summarize_log
from kmirror.mirror.logs.log_alignment import LogSummary, last_mirror_epoch_to_store, lso_fixpoint, minimum_epoch_to_bump_above
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.partition.led_partition import LedPartition
from kmirror.mirror.partition.replicas import behind, not_cut
from kmirror.record.control_record import build_mirror_pid_reset

_log = logging.getLogger(__name__)


class StoredEpoch(Protocol):
    """What the partition's coordinator has stored; `MirrorPartitionStatus` provides it."""

    @property
    def last_mirror_epoch(self) -> int: ...
    @property
    def has_mirrored(self) -> bool:
        """Whether the partition was MIRRORING since it was last PREPARING (F6)."""
        ...

    async def store_last_mirror_epoch(self, epoch: int) -> None: ...


class Stopping:
    """Stops one partition. It owns the position of the last MIRROR_PID_RESET that it appended."""

    __slots__ = ("_clock", "_led", "_progress", "_reset_written", "_safeguards", "_stored")

    def __init__(
        self, led: LedPartition, stored: StoredEpoch, progress: SourceProgress, clock: Clock, *, safeguards: MirrorSafeguards
    ) -> None:
        self._led = led
        self._stored = stored
        self._progress = progress
        self._clock = clock
        self._safeguards = safeguards
        self._reset_written: tuple[int, int] | None = None
        """The reset's offset, and the leader epoch in which it was appended."""

    async def stop(self) -> None:
        """Makes one attempt at steps 2 to 6 (D4).

        ApiException or NotYetError: try again later. No fetcher has the partition (step 1).
        """
        summary = await self._summarize()
        if self._is_complete(summary) or self._has_written_reset(summary):
            if self._led.is_bump_owed:  # a cut left the reset last: the replicas must look at their logs all the same (F1)
                await self._led.bump(self._led.partition.leader_epoch)
            await self._secure_reset()
            return
        await self._bump_above_everything(summary)
        if await self._truncate(summary):
            summary = await self._summarize()
        await self._persist_last_mirror_epoch(summary)
        await self._append_reset()

    async def last_mirror_epoch_on_entry(self) -> int:
        """What step 4 gives for the log as it is now, for a partition that has mirrored. It is also
        -1 while the log ends in our own reset (one that came back from a failback partner), so that
        step 0 never takes that for the reset of this run.
        """
        summary = await self._summarize()
        if summary.last_batch is None or summary.last_batch.reset_source == summary.source_cluster_id:
            return NO_EPOCH
        return summary.last_mirror_epoch

    async def is_stopped_already(self) -> bool:
        """Whether a partition without a stored state has been stopped already (D4 step 0).

        Records written since the reset are acknowledged, and stopping again would cut them at the
        first open transaction. So the partition counts as stopped even if the reset is no longer
        the last batch.
        """
        summary = await self._summarize()
        return self._is_complete(summary) or summary.is_written_since_own_reset(leader_epoch=self._led.partition.leader_epoch)

    def _is_complete(self, summary: LogSummary) -> bool:
        return summary.ends_in_own_reset(stored_epoch=self._stored.last_mirror_epoch, leader_epoch=self._led.partition.leader_epoch)

    def _has_written_reset(self, summary: LogSummary) -> bool:
        """Whether an earlier attempt under this leadership got as far as step 6."""
        last, written = summary.last_batch, self._reset_written
        return last is not None and last.reset_source is not None and (last.base_offset, self._led.partition.leader_epoch) == written

    async def is_reset_lost(self) -> bool:
        """Whether the reset was lost: a last mirror epoch is stored, and no batch has a higher
        epoch (D3-29b).
        """
        stored = self._stored.last_mirror_epoch
        return stored != NO_EPOCH and (await self._summarize()).largest_epoch <= stored

    async def bump_if_needed(self) -> None:
        """Bumps the leader epoch unless it is above every batch's, as new records need (D3-20b)."""
        largest = (await self._summarize()).largest_epoch
        if self._led.partition.leader_epoch <= largest:
            await self._led.bump(largest)

    async def _summarize(self) -> LogSummary:
        log = self._led.log
        source_cluster_id = self._led.mirror.source_cluster_id
        return await self._led.run_blocking(lambda: summarize_log(log, source_cluster_id))

    async def _bump_above_everything(self, summary: LogSummary) -> None:
        minimum = minimum_epoch_to_bump_above(
            summary, stored_epoch=self._stored.last_mirror_epoch, highest_source_epoch=self._progress.highest_source_epoch
        )
        if self._led.is_bump_owed:
            minimum = max(minimum, self._led.partition.leader_epoch)
        if self._led.partition.leader_epoch > minimum:
            return
        if self._safeguards.pid_reset_after_bump:
            await self._led.bump(minimum)
        else:
            self._led.bump_without_waiting(minimum)

    async def _truncate(self, summary: LogSummary) -> bool:
        """Cuts to the LSO fixpoint and waits for the replicas; returns whether anything was cut."""
        safeguards = self._safeguards
        partition = self._led.partition
        removed = 0
        if safeguards.lso_truncation:
            log = self._led.log
            if safeguards.lso_fixpoint:
                target = lso_fixpoint(summary.scan.transactions(), log.log_end_offset)
                if target < log.log_end_offset:
                    await self._tell_loss(target)
                removed = cut(partition, target)
            elif log.first_unstable_offset is not None:
                removed = cut(partition, log.first_unstable_offset)

        def problem() -> str | None:
            late = not_cut(partition, partition.leader_log.log_end_offset)
            return f"replicas {late} have not truncated to {partition.leader_log.log_end_offset} yet" if late else None

        await self._led.wait_until(problem)
        return removed > 0

    async def _tell_loss(self, target: int) -> None:
        """Logs what the cut will drop, before it is dropped; the dry run of a removal counts the
        same (C4).
        """
        log = self._led.log
        lost = await self._led.run_blocking(lambda: [header.record_count for header in log.batch_headers(target)])
        _log.warning(
            "mirror %s, %s: %d records in %d batches from offset %d on will be dropped: the ends of their transactions were not mirrored, "
            "or they lie between records of such transactions",
            self._led.id.mirror_name,
            self._led.id.topic_partition,
            sum(lost),
            len(lost),
            target,
        )

    async def _persist_last_mirror_epoch(self, summary: LogSummary) -> None:
        stored = self._stored
        epoch = last_mirror_epoch_to_store(summary, stored_epoch=stored.last_mirror_epoch, was_mirroring=stored.has_mirrored)
        if epoch != stored.last_mirror_epoch:
            await stored.store_last_mirror_epoch(epoch)

    async def _append_reset(self) -> None:
        batch = build_mirror_pid_reset(self._led.mirror.source_cluster_id, timestamp=self._clock.time_ms())
        self._reset_written = (self._led.append_as_coordinator(batch), self._led.partition.leader_epoch)
        await self._secure_reset()

    async def _secure_reset(self) -> None:
        await self._wait_replicated()
        log = self._led.log
        await self._led.run_blocking(lambda: log.flush(force_flush_active_segment=True))

    async def _wait_replicated(self) -> None:
        partition = self._led.partition
        end_offset = self._led.log.log_end_offset

        def problem() -> str | None:
            late = behind(partition, end_offset)
            return f"replicas {late} have not fetched up to {end_offset} yet" if late else None

        await self._led.wait_until(problem)
