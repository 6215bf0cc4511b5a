"""STOPPING: make a mirrored partition writable (D4). The source is not contacted in any step.

    0 done already? the log's last batch is our reset, its conditions hold: only wait for the replicas
    1 remove the fetcher and wait until it no longer owns the partition
    2 bump the leader epoch above every epoch in the log, the stored last mirror epoch and every source epoch seen; await it
    3 truncate to the LSO fixpoint; followers follow
    4 last mirror epoch := largest epoch of the batches left (see `log_alignment`)
    5 persist it at the coordinator
    6 append MIRROR_PID_RESET in the new leader epoch: producers, ongoing and unreplicated transactions end on every replica
    7 STOPPED (the caller's transition)

The order is what makes it safe. The bump comes first, because truncation would lose its minimum in a crash (F15). The reset
comes after the awaited bump: in the old epoch it would share it with the source's next batch (reference deviation 1). The
epoch is persisted before the reset, because the reset is what step 0 recognises a finished run by. Each step is idempotent,
so a run that was cut off anywhere is simply made again. A leader remembers the reset that it wrote: step 0 knows it by the stored last
mirror epoch alone, and there is none of a partition that never mirrored. Waits are for the current ISR; min.insync.replicas is not needed,
for a failover must work on what is left.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kmirror.common.errors import ApiException, Errors
from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.local_log import cut, summarize_log
from kmirror.mirror.log_alignment import LogSummary, last_mirror_epoch_to_store, lso_fixpoint, minimum_epoch_to_bump_above
from kmirror.mirror.mirror_coordinator_shard import CLEAR_LAST_MIRROR_EPOCH, StateWrite
from kmirror.mirror.mirror_state_machine import MirrorPartitionState
from kmirror.mirror.replicas import behind, not_cut
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.storage.log_append_info import AppendOrigin

_log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from kmirror.mirror.mirror_partition import MirrorPartition


async def stop(driver: MirrorPartition) -> None:
    """One attempt at D4 up to step 6. ApiException or NotYetError: try again later."""
    driver.services.fetchers.remove_partition(driver.id.topic_partition)
    summary = await _summarize(driver)
    if _is_complete(driver, summary) or _has_written_reset(driver, summary):
        if driver.bump_pending:  # a cut left the reset last: the replicas must look at their logs all the same (F1)
            await driver.bump(driver.partition.leader_epoch)
        await _secure_reset(driver)
        return
    await _bump_above_everything(driver, summary)
    if await _truncate(driver, summary):
        summary = await _summarize(driver)
    await _persist_last_mirror_epoch(driver, summary)
    await _append_reset(driver)


async def enter(driver: MirrorPartition, state: MirrorPartitionState = MirrorPartitionState.STOPPING) -> None:
    """Write STOPPING (D3-31: PREPARING) of a partition that has mirrored. The last mirror epoch goes with the state: whoever leads next knows from it that
    the partition has mirrored, which ReadMirrorStates does not tell (D4 step 4); also one that was stored when this leader began, for a
    removal of the topic that was here before may have reset it since. Step 5 stores it again when the cut makes it lower. Where the epochs'
    record has no room for it (C26) the state alone is written."""
    driver.services.fetchers.remove_partition(driver.id.topic_partition)
    write = StateWrite(driver.id.topic, driver.id.partition, state)
    epoch = await last_mirror_epoch_on_entry(driver)
    if epoch == NO_EPOCH:
        await driver.write_state(write)
        return
    try:
        await driver.write_state(write._replace(last_mirror_epoch=epoch))
        driver.status.last_mirror_epoch = epoch
    except ApiException as error:
        if error.error is not Errors.RECORD_LIST_TOO_LARGE:
            raise
        await driver.write_state(write)


async def last_mirror_epoch_on_entry(driver: MirrorPartition) -> int:
    """What step 4 gives for the log as it is now, of a partition that has mirrored; -1 also while the log ends in an own reset (one that
    came back from a failback partner), so that step 0 never takes such a one for its own."""
    summary = await _summarize(driver)
    if summary.last_batch is None or summary.last_batch.reset_source == summary.source_cluster_id:
        return NO_EPOCH
    return summary.last_mirror_epoch


async def is_stopped_already(driver: MirrorPartition) -> bool:
    """D4 step 0, of a partition whose state nobody knows. What was written since the reset is acknowledged: stopping again would cut it at
    the first open transaction. So it counts as stopped although the reset is not the last batch any more."""
    summary = await _summarize(driver)
    return _is_complete(driver, summary) or summary.is_written_since_own_reset(leader_epoch=driver.partition.leader_epoch)


def _is_complete(driver: MirrorPartition, summary: LogSummary) -> bool:
    return summary.ends_in_own_reset(stored_epoch=driver.status.last_mirror_epoch, leader_epoch=driver.partition.leader_epoch)


def _has_written_reset(driver: MirrorPartition, summary: LogSummary) -> bool:
    """Whether an earlier try under this leadership got as far as step 6."""
    last, written = summary.last_batch, driver.status.reset_written
    return last is not None and last.reset_source is not None and (last.base_offset, driver.partition.leader_epoch) == written


async def is_reset_lost(driver: MirrorPartition) -> bool:
    """D3-29b: a last mirror epoch is stored, and no batch has a higher epoch, not even the reset."""
    stored = driver.status.last_mirror_epoch
    return stored != NO_EPOCH and (await _summarize(driver)).largest_epoch <= stored


async def bump_if_needed(driver: MirrorPartition) -> None:
    """D3-20b: new records must get an epoch above every batch's."""
    largest = (await _summarize(driver)).largest_epoch
    if driver.partition.leader_epoch <= largest:
        await driver.bump(largest)


async def _summarize(driver: MirrorPartition) -> LogSummary:
    log = driver.log
    source_cluster_id = driver.mirror.source_cluster_id
    return await driver.services.runtime.run_blocking(lambda: summarize_log(log, source_cluster_id))


async def _bump_above_everything(driver: MirrorPartition, summary: LogSummary) -> None:
    minimum = minimum_epoch_to_bump_above(
        summary, stored_epoch=driver.status.last_mirror_epoch, highest_source_epoch=driver.progress.highest_source_epoch
    )
    if driver.bump_pending:
        minimum = max(minimum, driver.partition.leader_epoch)
    if driver.partition.leader_epoch > minimum:
        return
    if driver.services.safeguards.pid_reset_after_bump:
        await driver.bump(minimum)
    else:
        driver.services.scope.spawn(driver.request_bump(minimum), name=f"unawaited-bump-{driver.id.topic_partition}")


async def _truncate(driver: MirrorPartition, summary: LogSummary) -> bool:
    """Cut to the LSO fixpoint and wait for the replicas; whether anything was cut."""
    safeguards = driver.services.safeguards
    partition = driver.partition
    removed = 0
    if safeguards.lso_truncation:
        log = driver.log
        if safeguards.lso_fixpoint:
            target = lso_fixpoint(summary.scan.transactions(), log.log_end_offset)
            if target < log.log_end_offset:
                await _tell_loss(driver, target)
            removed = cut(partition, target)
        elif log.first_unstable_offset is not None:
            removed = cut(partition, log.first_unstable_offset)

    def problem() -> str | None:
        late = not_cut(partition, partition.leader_log.log_end_offset)
        return f"replicas {late} have not truncated to {partition.leader_log.log_end_offset} yet" if late else None

    await driver.wait_until(problem)
    return removed > 0


async def _tell_loss(driver: MirrorPartition, target: int) -> None:
    """What the cut will drop, said before it is dropped (C4); the dry run of a removal counts the same."""
    log = driver.log
    lost = await driver.services.runtime.run_blocking(lambda: [header.record_count for header in log.batch_headers(target)])
    _log.warning(
        "mirror %s, %s: %d records in %d batches from offset %d on will be dropped: they are in transactions whose end was not mirrored, "
        "or between such",
        driver.id.mirror_name,
        driver.id.topic_partition,
        sum(lost),
        len(lost),
        target,
    )


async def _persist_last_mirror_epoch(driver: MirrorPartition, summary: LogSummary) -> None:
    status = driver.status
    epoch = last_mirror_epoch_to_store(summary, stored_epoch=status.last_mirror_epoch, was_mirroring=status.has_mirrored)
    if epoch == status.last_mirror_epoch:
        return
    await driver.store_last_mirror_epoch(CLEAR_LAST_MIRROR_EPOCH if epoch == NO_EPOCH else epoch)
    status.last_mirror_epoch = epoch


async def _append_reset(driver: MirrorPartition) -> None:
    now_ms = driver.services.runtime.clock.time_ms()
    batch = build_mirror_pid_reset(driver.mirror.source_cluster_id, timestamp=now_ms)
    offset = driver.log.log_end_offset
    driver.partition.append_records_to_leader(batch, origin=AppendOrigin.COORDINATOR, required_acks=1)
    driver.status.reset_written = (offset, driver.partition.leader_epoch)
    driver.services.replica_manager.complete_delayed(driver.id.topic_partition)
    await _secure_reset(driver)


async def _secure_reset(driver: MirrorPartition) -> None:
    await _wait_replicated(driver)
    log = driver.log
    await driver.services.runtime.run_blocking(lambda: log.flush(force_flush_active_segment=True))


async def _wait_replicated(driver: MirrorPartition) -> None:
    partition = driver.partition
    end_offset = driver.log.log_end_offset

    def problem() -> str | None:
        late = behind(partition, end_offset)
        return f"replicas {late} have not fetched up to {end_offset} yet" if late else None

    await driver.wait_until(problem)
