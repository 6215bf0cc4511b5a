"""PREPARING: align the local log with the source before the first fetch (D5, the KIP's LME
truncation).

    1 ask the source for the last mirror epoch (`last_mirror_epoch`)
    2 the offset to cut at (`log_alignment.alignment_point`); what that leaves is compared, and what differs goes with it, for it is what an
      operator ordered. Where a cleaner dropped what the cut records replaced, only what is identical is left (`log_completeness`).
      Without a last mirror epoch the KIP drops everything and copies anew. Here what the source still has is kept, if that gives the same
      bytes (`_what_the_source_has`). The guard comes first where the partition was MIRRORING (an unclean election here, D3-31).
    3 before the cut, wait until the replicas that count have everything, so that none is stuck inside a cut batch
    4 cut; if anything was cut, bump the leader epoch and wait for it, before anything is appended (F1: otherwise a slow
      follower keeps its own batches beside the source's in one epoch); then wait until every such replica is cut too
    5 MIRRORING (the caller's transition); the first fetch verifies the last batch against the source (C36b)

Every wait is bounded by mirror.truncation.backoff.ms; after that the whole attempt is made again,
from step 1 on. Nothing is lost: an earlier cut needs no second one, and a bump that is owed is
remembered (`LedPartition`).

`Preparing.align` changes no state. It returns the event for the table that the attempt resulted in
(`mirror_state_machine`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Clock
from kmirror.common.sentinels import NO_EPOCH, NO_LAST_MIRROR_EPOCH
from kmirror.mirror.logs.local_log import cut, cut_fully, first_offset_above, summarize_log
from kmirror.mirror.logs.log_alignment import AlignmentPoint, alignment_point
from kmirror.mirror.logs.log_completeness import has_holes
from kmirror.mirror.logs.log_questions import Inquiry, LogAction, Verdict
from kmirror.mirror.logs.log_verifier import (
    complete_or_identical,
    identical_beginning,
    same_beginning,
    source_begins,
    verify_before,
    verify_log,
)
from kmirror.mirror.logs.truncation_guard import (
    WITHOUT_LIMIT,
    front_refusal,
    is_guarded,
    readable_until,
    records_kept_here,
    records_lost,
    refusal,
)
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.mirror_state_machine import MirrorEvent, MirrorGuard
from kmirror.mirror.partition.led_partition import LedPartition
from kmirror.mirror.partition.replicas import behind, not_cut, outside_isr
from kmirror.mirror.source.last_mirror_epoch import RejectedError, decide_last_mirror_epoch

EVERYTHING = AlignmentPoint(0, True)
_E = MirrorEvent


class ReplicasMissingError(KmirrorError):
    """Unclean-election support is on, and some replica is outside the ISR (D3-9, D3-10)."""

    def __init__(self, text: str, *, deadline_passed: bool) -> None:
        self.deadline_passed = deadline_passed
        super().__init__(text)


class Outcome(NamedTuple):
    """The result of an attempt: the event for the table, the guard that selects its row, and the
    reason.
    """

    event: MirrorEvent
    guard: MirrorGuard = MirrorGuard.ALWAYS
    reason: str | None = None


class Preparing:
    """Aligns one partition. It owns the time since which replicas have been missing. `inquire` asks
    the source's leader; NotYetError if there is no usable answer.
    """

    __slots__ = ("_clock", "_cluster_id", "_inquire", "_led", "_missing_since_ms", "_replica_lag_time_max_ms", "_safeguards")

    def __init__(
        self,
        led: LedPartition,
        inquire: Callable[[Inquiry], Awaitable[Verdict]],
        clock: Clock,
        *,
        safeguards: MirrorSafeguards,
        cluster_id: str,
        replica_lag_time_max_ms: int,
    ) -> None:
        self._led = led
        self._inquire = inquire
        self._clock = clock
        self._safeguards = safeguards
        self._cluster_id = cluster_id
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self._missing_since_ms: int | None = None

    def begin(self) -> None:
        """The partition has entered PREPARING or MIRRORING: the deadline for missing replicas
        starts again.
        """
        self._missing_since_ms = None

    async def align(self, *, stored_epoch: int, is_prepared_again: bool) -> Outcome:
        """Makes one attempt to align (D5). Errors that are not events mean: try again later.

        `stored_epoch`: the last mirror epoch that is stored here. `is_prepared_again`: the
        partition was MIRRORING until now (D3-31).
        """
        try:
            await self._align(stored_epoch, is_prepared_again=is_prepared_again)
        except RejectedError as error:
            return Outcome(_E.SOURCE_REJECTED, reason=str(error))
        except ReplicasMissingError as error:
            guard = MirrorGuard.DEADLINE_PASSED if error.deadline_passed else MirrorGuard.DEADLINE_AHEAD
            return Outcome(_E.REPLICAS_MISSING, guard, str(error))
        return Outcome(_E.ALIGNED)

    async def _align(self, stored_epoch: int, *, is_prepared_again: bool) -> None:
        led, safeguards = self._led, self._safeguards
        mirror = led.mirror
        mirror.check_not_suspended()
        answers = await mirror.survey(led.id.topic, own_cluster_id=self._cluster_id)
        mirror.check_not_suspended()
        last_mirror_epoch = decide_last_mirror_epoch(
            answers,
            mirror_name=self._led.id.mirror_name,
            topic_partition=self._led.id.topic_partition,
            topic_id=self._led.id.topic_id,
            own_cluster_id=self._cluster_id,
            safeguards=safeguards,
        )
        self._check_replicas()
        if is_prepared_again:
            await self._refuse_a_lost_source()
        if safeguards.lme_truncation:
            point = await self._alignment_point(last_mirror_epoch, stored_epoch, is_added=not is_prepared_again)
            if not is_prepared_again:
                await self._refuse_a_lost_front(await self._same_until(point, last_mirror_epoch, stored_epoch))
            await self._cut(point)
        if led.is_bump_owed and safeguards.bump_after_cut:
            await led.bump(led.partition.leader_epoch)
        await self.wait_for_replicas()

    async def wait_for_replicas(self) -> None:
        """Waits until no replica that counts has a log end beyond the leader's, and the ISR is
        large enough.
        """
        partition = self._led.partition

        def ready() -> str | None:
            self._check_replicas()
            late = not_cut(partition, partition.leader_log.log_end_offset, all_replicas=self._led.unclean_supported)
            if late:
                return f"replicas {late} have not truncated to {partition.leader_log.log_end_offset} yet"
            if len(partition.in_sync_replicas) < partition.effective_min_isr:
                return f"the ISR {sorted(partition.in_sync_replicas)} is below min.insync.replicas {partition.effective_min_isr}"
            return None

        await self._led.wait_until(ready)

    async def _alignment_point(self, last_mirror_epoch: int, stored_epoch: int, *, is_added: bool) -> AlignmentPoint:
        log = self._led.log
        if last_mirror_epoch == NO_LAST_MIRROR_EPOCH:
            return await self._what_the_source_has(stored_epoch, is_added=is_added) or EVERYTHING
        above = await self._led.run_blocking(lambda: first_offset_above(log, last_mirror_epoch))
        if above is not None and self._led.cleaned_until() > above:
            return EVERYTHING  # our cleaner has dropped what the records from there on replaced
        point = alignment_point(
            last_mirror_epoch,
            above,
            has_batches=log.last_batch() is not None,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
        )
        if point.truncate_fully or log.batch_before(point.offset) is None or not self._safeguards.first_fetch_verified:
            return point
        verdict = await self._inquire(verify_before(log, point.offset, cleaned_until=self._led.cleaned_until))
        return _point(await self._inquire(complete_or_identical(log, verdict)))

    async def _what_the_source_has(self, stored_epoch: int, *, is_added: bool) -> AlignmentPoint | None:
        """Without a last mirror epoch: where to cut instead of dropping everything.

        None: drop everything. RejectedError: the source has lost what was mirrored.

        In a log that grew from the source's, one equal batch proves everything before it. That does
        not hold for any other log, nor for one that a cleaner may have worked on, here or at the
        source: a value whose tombstone the source has dropped would stay. Of such a log only what
        is identical from the beginning on is kept.
        """
        log = self._led.log
        if log.last_batch() is None or not self._safeguards.kept_when_added_again:
            return None
        mirrored_until = await self._mirrored_until(stored_epoch)
        if mirrored_until is not None:
            verdict = await self._inquire(verify_before(log, mirrored_until, cleaned_until=self._led.cleaned_until))
            await self._refuse_loss(verdict, until=min(mirrored_until, readable_until(self._led.partition)), is_added=is_added)
            if not await self._may_be_cleaned():
                beginning = await self._inquire(same_beginning(log))
                return _point(verdict if beginning.action is LogAction.KEEP else beginning)
        return _point(await self._inquire(identical_beginning(log)))

    async def _may_be_cleaned(self) -> bool:
        """Whether a cleaner may have worked on the log: ours, or that of a leader that this replica
        was built from, which only holes reveal.
        """
        log = self._led.log
        if log.config.compact or self._led.cleaned_until():
            return True
        return await self._led.run_blocking(lambda: has_holes(log, log.log_end_offset))

    async def _mirrored_until(self, stored_epoch: int) -> int | None:
        """The end of what was mirrored from this source before, if there is evidence of that: our
        own reset after it, or a last mirror epoch stored here (by D4, or by D3-31). None if there
        is none.
        """
        log, source_cluster_id = self._led.log, self._led.mirror.source_cluster_id
        if not source_cluster_id:
            return None
        run_blocking = self._led.run_blocking
        summary = await run_blocking(lambda: summarize_log(log, source_cluster_id))
        if summary.own_reset_offset is not None or stored_epoch == NO_EPOCH:
            return summary.own_reset_offset
        above = await run_blocking(lambda: first_offset_above(log, stored_epoch))
        return log.log_end_offset if above is None else above

    async def _refuse_a_lost_source(self) -> None:
        """Checks a partition that was MIRRORING until now (D3-31): the records about to be cut are
        a copy, and no operator ordered the cut. RejectedError: the source has lost them. A leader
        that takes over during PREPARING recognises the case by the stored last mirror epoch
        (`_mirrored_until`). Known hole: it does not if the source has a last mirror epoch too.
        """
        if self._led.log.last_batch() is None:
            return
        verdict = await self._inquire(verify_log(self._led.log, cleaned_until=self._led.cleaned_until))
        await self._refuse_loss(verdict, until=readable_until(self._led.partition), is_added=False)

    async def _refuse_loss(self, verdict: Verdict, *, until: int, is_added: bool) -> None:
        """RejectedError if the guard does not let a verdict remove what lies before `until`."""
        log, limit = self._led.log, self._led.max_truncation_records(is_added=is_added)
        if not self._safeguards.loss_refused or not is_guarded(verdict, limit):
            return
        lost = await self._led.run_blocking(lambda: records_lost(log, verdict, until=until))
        reason = refusal(verdict, lost, limit)
        if reason is not None:
            raise RejectedError(reason)

    async def _same_until(self, point: AlignmentPoint, last_mirror_epoch: int, stored_epoch: int) -> int:
        """Up to where our log is the source's by all that is known: what lies behind is given up by
        adding the topic.
        """
        if not point.truncate_fully:
            return point.offset
        if last_mirror_epoch == NO_LAST_MIRROR_EPOCH:
            return await self._mirrored_until(stored_epoch) or 0
        log = self._led.log
        above = await self._led.run_blocking(lambda: first_offset_above(log, last_mirror_epoch))
        return log.log_end_offset if above is None else above

    async def _refuse_a_lost_front(self, until: int) -> None:
        """RejectedError if the source begins so much later than our log that following it would
        remove more of what lies before `until` than the guard allows.
        """
        log, limit = self._led.log, self._led.max_truncation_records(is_added=True)
        until = min(until, readable_until(self._led.partition))
        if not self._safeguards.loss_refused or limit == WITHOUT_LIMIT or log.last_batch() is None or until <= log.log_start_offset:
            return
        source_start = (await self._inquire(source_begins())).offset
        now_ms = self._clock.time_ms()
        lost = await self._led.run_blocking(lambda: records_kept_here(log, until=min(until, source_start), now_ms=now_ms))
        reason = front_refusal(log.log_start_offset, source_start, lost, limit)
        if reason is not None:
            raise RejectedError(reason)

    async def _cut(self, point: AlignmentPoint) -> None:
        partition = self._led.partition
        log = self._led.log
        if log.log_end_offset > point.offset and log.last_batch() is not None:
            all_replicas = self._led.unclean_supported

            def caught_up() -> str | None:
                late = behind(partition, partition.leader_log.log_end_offset, all_replicas=all_replicas)
                return f"replicas {late} have not caught up to {partition.leader_log.log_end_offset} yet" if late else None

            await self._led.wait_until(caught_up)
        if point.truncate_fully:
            is_fresh = log.last_batch() is None and log.log_end_offset == point.offset
            removed = 0 if is_fresh else cut_fully(partition, 0)
        else:
            removed = cut(partition, point.offset)
        if removed > 0:
            self._led.note_cut()

    def _check_replicas(self) -> None:
        """With unclean-election support all replicas must be in sync; after 2 x
        replica.lag.time.max.ms they never will (B29).
        """
        missing = outside_isr(self._led.partition) if self._led.unclean_supported else []
        now_ms = self._clock.monotonic_ms()
        if not missing:
            self._missing_since_ms = None
            return
        if self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        limit_ms = 2 * self._replica_lag_time_max_ms
        passed = now_ms - self._missing_since_ms > limit_ms
        text = f"replicas {missing} are not in the ISR, but mirror.support.unclean.leader.election=true requires all of them"
        raise ReplicasMissingError(f"{text}; more than {limit_ms} ms have passed" if passed else text, deadline_passed=passed)


def _point(verdict: Verdict) -> AlignmentPoint:
    return AlignmentPoint(verdict.offset, False) if verdict.action is LogAction.CUT else EVERYTHING
