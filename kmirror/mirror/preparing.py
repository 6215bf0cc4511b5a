"""PREPARING: align the local log with the source before the first fetch (D5, the KIP's LME truncation).

    1 ask the source for the last mirror epoch (`last_mirror_epoch`)
    2 the offset to cut at (`log_alignment.alignment_point`); what that leaves is compared, and what differs goes with it, for it is what an
      operator ordered. Where a cleaner dropped what the cut records replaced, only what is identical is left (`log_completeness`).
      Without a last mirror epoch the KIP drops everything and copies anew. Here what the source still has is kept, if that gives the same
      bytes (`_what_the_source_has`). The guard comes first where the partition was MIRRORING (an unclean election here, D3-31).
    3 before the cut, wait until the replicas that count have everything, so that none is stuck inside a cut batch
    4 cut; if anything was cut, bump the leader epoch and wait for it, before anything is appended (F1: otherwise a slow
      follower keeps its own batches beside the source's in one epoch); then wait until every such replica is cut too
    5 MIRRORING (the caller's transition); the first fetch verifies the last batch against the source (C36b)

Every wait is bounded by mirror.truncation.backoff.ms; then the whole attempt is made again, from the question on. Nothing
is lost by that: a cut that was made is found made, and a bump that is owed is remembered by the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kmirror.common.errors import KmirrorError
from kmirror.common.sentinels import NO_EPOCH, NO_LAST_MIRROR_EPOCH
from kmirror.mirror.last_mirror_epoch import NotYetError, RejectedError, decide_last_mirror_epoch
from kmirror.mirror.local_log import cut, cut_fully, first_offset_above, summarize_log
from kmirror.mirror.log_alignment import AlignmentPoint, alignment_point
from kmirror.mirror.log_completeness import has_holes
from kmirror.mirror.log_questions import Action, Inquiry, Verdict
from kmirror.mirror.log_verifier import complete_or_identical, identical_beginning, same_beginning, verify_before, verify_log
from kmirror.mirror.replicas import behind, not_cut, outside_isr
from kmirror.mirror.truncation_guard import is_guarded, readable_until, records_lost, refusal

if TYPE_CHECKING:
    from kmirror.mirror.mirror_partition import MirrorPartition

EVERYTHING = AlignmentPoint(0, True)


class ReplicasMissingError(KmirrorError):
    """Unclean-election support is on, and some replica is outside the ISR (D3-9, D3-10)."""

    def __init__(self, text: str, *, deadline_passed: bool) -> None:
        self.deadline_passed = deadline_passed
        super().__init__(text)


async def align(driver: MirrorPartition) -> None:
    """One attempt at D5. NotYetError: try again later. RejectedError: the partition fails."""
    services = driver.services
    mirror = driver.mirror
    mirror.check_not_suspended()
    answers = await mirror.survey(driver.id.topic, own_cluster_id=services.cluster_id)
    mirror.check_not_suspended()
    last_mirror_epoch = decide_last_mirror_epoch(
        answers,
        mirror_name=driver.id.mirror_name,
        topic_partition=driver.id.topic_partition,
        topic_id=driver.id.topic_id,
        own_cluster_id=services.cluster_id,
        safeguards=services.safeguards,
    )
    _check_replicas(driver)
    if driver.status.is_prepared_again:
        await _refuse_a_lost_source(driver)
    if services.safeguards.lme_truncation:
        await _cut(driver, await _alignment_point(driver, last_mirror_epoch))
    if driver.bump_pending and services.safeguards.bump_after_cut:
        await driver.bump(driver.partition.leader_epoch)
    await wait_for_replicas(driver)


async def wait_for_replicas(driver: MirrorPartition) -> None:
    """Until every replica that counts has a log end not beyond the leader's, and the ISR is large enough."""
    partition = driver.partition

    def ready() -> str | None:
        _check_replicas(driver)
        late = not_cut(partition, partition.leader_log.log_end_offset, all_replicas=driver.unclean_supported)
        if late:
            return f"replicas {late} have not truncated to {partition.leader_log.log_end_offset} yet"
        if len(partition.in_sync_replicas) < partition.effective_min_isr:
            return f"the ISR {sorted(partition.in_sync_replicas)} is below min.insync.replicas {partition.effective_min_isr}"
        return None

    await driver.wait_until(ready)


async def _alignment_point(driver: MirrorPartition, last_mirror_epoch: int) -> AlignmentPoint:
    log = driver.log
    if last_mirror_epoch == NO_LAST_MIRROR_EPOCH:
        return await _what_the_source_has(driver) or EVERYTHING
    above = await driver.services.runtime.run_blocking(lambda: first_offset_above(log, last_mirror_epoch))
    if above is not None and driver.cleaned_until() > above:
        return EVERYTHING  # our cleaner has dropped what the records from there on replaced
    point = alignment_point(
        last_mirror_epoch,
        above,
        has_batches=log.last_batch() is not None,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
    )
    if point.truncate_fully or log.batch_before(point.offset) is None or not driver.services.safeguards.first_fetch_verified:
        return point
    verdict = await _ask(driver, verify_before(log, point.offset, cleaned_until=driver.cleaned_until))
    return _point(await _ask(driver, complete_or_identical(log, verdict)))


async def _ask(driver: MirrorPartition, inquiry: Inquiry) -> Verdict:
    verdict = await driver.services.fetchers.inquire(driver, inquiry)
    if verdict is None:
        raise NotYetError("the source's topic is another one")
    return verdict


def _point(verdict: Verdict) -> AlignmentPoint:
    return AlignmentPoint(verdict.offset, False) if verdict.action is Action.CUT else EVERYTHING


async def _what_the_source_has(driver: MirrorPartition) -> AlignmentPoint | None:
    """Without a last mirror epoch: where to cut instead of dropping everything. None: nowhere. RejectedError: the source has lost what was mirrored.

    Of a log that grew from the source's one equal batch proves all before it. No other log, and none that a cleaner may have been in here or
    there: a value whose tombstone the source has dropped would stay. There only what is identical from the beginning on is kept."""
    services, log = driver.services, driver.log
    if log.last_batch() is None or not services.safeguards.kept_when_added_again:
        return None
    mirrored_until = await _mirrored_until(driver)
    if mirrored_until is not None:
        verdict = await _ask(driver, verify_before(log, mirrored_until, cleaned_until=driver.cleaned_until))
        await _refuse_loss(driver, verdict, until=min(mirrored_until, readable_until(driver.partition)))
        if not await _may_be_cleaned(driver):
            beginning = await _ask(driver, same_beginning(log))
            return _point(verdict if beginning.action is Action.KEEP else beginning)
    return _point(await _ask(driver, identical_beginning(log)))


async def _may_be_cleaned(driver: MirrorPartition) -> bool:
    """By a cleaner here, or by that of a leader that this replica was built from: then only the holes tell."""
    log = driver.log
    if log.config.compact or driver.cleaned_until():
        return True
    return await driver.services.runtime.run_blocking(lambda: has_holes(log, log.log_end_offset))


async def _mirrored_until(driver: MirrorPartition) -> int | None:
    """Where what was mirrored from this source before ends, if anything tells that it was: an own reset behind it, or a last mirror epoch that
    is stored here (D4; D3-31 stores it, too)."""
    log, source_cluster_id, stored = driver.log, driver.mirror.source_cluster_id, driver.status.last_mirror_epoch
    if not source_cluster_id:
        return None
    run_blocking = driver.services.runtime.run_blocking
    summary = await run_blocking(lambda: summarize_log(log, source_cluster_id))
    if summary.own_reset_offset is not None or stored == NO_EPOCH:
        return summary.own_reset_offset
    above = await run_blocking(lambda: first_offset_above(log, stored))
    return log.log_end_offset if above is None else above


async def _refuse_a_lost_source(driver: MirrorPartition) -> None:
    """Of a partition that was MIRRORING until now (D3-31): what is about to go is a copy, and nobody has ordered that. RejectedError: the source
    has lost it. A leader that takes over while it is PREPARING knows it by the last mirror epoch that is stored (`_mirrored_until`); known hole:
    not where the source has one, too."""
    if driver.log.last_batch() is None:
        return
    verdict = await _ask(driver, verify_log(driver.log, cleaned_until=driver.cleaned_until))
    await _refuse_loss(driver, verdict, until=readable_until(driver.partition))


async def _refuse_loss(driver: MirrorPartition, verdict: Verdict, *, until: int) -> None:
    """RejectedError where the guard does not let a verdict take what lies before `until`."""
    log, limit = driver.log, driver.max_truncation_records
    if not driver.services.safeguards.loss_refused or not is_guarded(verdict, limit):
        return
    lost = await driver.services.runtime.run_blocking(lambda: records_lost(log, verdict, until=until))
    reason = refusal(verdict, lost, limit)
    if reason is not None:
        raise RejectedError(reason)


async def _cut(driver: MirrorPartition, point: AlignmentPoint) -> None:
    partition = driver.partition
    log = driver.log
    if log.log_end_offset > point.offset and log.last_batch() is not None:
        all_replicas = driver.unclean_supported

        def caught_up() -> str | None:
            late = behind(partition, partition.leader_log.log_end_offset, all_replicas=all_replicas)
            return f"replicas {late} have not caught up to {partition.leader_log.log_end_offset} yet" if late else None

        await driver.wait_until(caught_up)
    if point.truncate_fully:
        is_fresh = log.last_batch() is None and log.log_end_offset == point.offset
        removed = 0 if is_fresh else cut_fully(partition, 0)
    else:
        removed = cut(partition, point.offset)
    if removed > 0:
        driver.note_cut()


def _check_replicas(driver: MirrorPartition) -> None:
    """With unclean-election support all replicas must be in sync; after 2 x replica.lag.time.max.ms they never will (B29)."""
    missing = outside_isr(driver.partition) if driver.unclean_supported else []
    now_ms = driver.services.runtime.clock.monotonic_ms()
    if not missing:
        driver.status.missing_since_ms = None
        return
    if driver.status.missing_since_ms is None:
        driver.status.missing_since_ms = now_ms
    limit_ms = 2 * driver.services.config.replica_lag_time_max_ms
    passed = now_ms - driver.status.missing_since_ms > limit_ms
    text = f"replicas {missing} are not in the ISR, and mirror.support.unclean.leader.election needs all"
    raise ReplicasMissingError(f"{text}; more than {limit_ms} ms have passed" if passed else text, deadline_passed=passed)
