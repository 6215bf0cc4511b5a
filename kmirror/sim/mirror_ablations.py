"""Rules of mirroring that have no switch in the program. Each is taken out from here, for the time
of one run; the code of its rule stands last, in brackets (docs/RULES.md).

    pending_produces_fail    becoming a mirror fails the produces that wait, and so does a cut (F3)
    follower_verification    a follower compares its last batch with the leader's in each new leader
                             epoch (C36b, F5, F12)
    verified_at_any_level    it does so even after mirror.version was lowered to 0 (F5)
    holes_prove_nothing      batches that the other side's cleaner removed are no difference (C36b)
    mirror_leader_epoch      followers of a mirror take batches of epochs above the local one (C36)
    batch_boundary           a cut inside a batch takes the whole batch and leaves no gap (C35, F2)
    own_epochs_not_stored    a topic that was removed before it mirrored keeps its last mirror epoch
                             (step 4 of D4, F6)
    chain_epochs             batches of a source that is itself a mirror may have epochs above its
                             leader epoch (D3-12, F7)
    state_level              a STOPPED partition that is wanted is handled whenever it is found, not
                             only when it changes (D3-4, F8)
    state_flush              a state is on disk before anybody acts on it (D2, F9)
    paused_is_prepared       a paused topic without a state is prepared like any other (D3-1, F10)
    start_inside_batch       an empty log begins with the batch that the source's log start lies in
                             (D3-14, F11)
    deleted_source_pauses    a topic whose source is deleted is paused by name, so that nothing
                             starts again (B5, D3-22, F13)
    reset_is_last            stopping is done only if the reset is the log's last batch (step 0 of
                             D4, F14)
    bump_before_cut          the leader epoch is bumped before the tail is cut, since the tail's
                             epochs are forgotten with it (order of D4, F15)
    epoch_kept_on_entry      the epoch that STOPPING begins with is stored with its state (F15)
    start_over_at_source     a log that shares nothing with the source's begins again where the
                             source's begins (step 2 of D5, F16)
    epoch_entry_with_batch   a mirror's leader adds its epoch to the cache only with a batch (end of
                             D5, F17)
    lost_reset_again         a reset that is lost after STOPPED is written again (D3-29b, F18)
    leader_knows             a source's leader without a row counts only if it knows that it leads
                             (C6)
    epoch_of_batches         the last mirror epoch is that of a batch, not the bumped one (C5)
    lme_above_log            a last mirror epoch above all of the log cuts nothing (C3)
    offsets_while_mirrored   a group's offsets are written only for partitions that are in MIRRORING
                             at that moment (C18)
    share_groups_synced      the start offsets of share groups are synced (SYN15)
    markers_swallowed        a marker for a partition that has become a mirror is answered with
                             success and not appended (C41)
    mirrors_not_deleted      a mirror's topic is deleted only if its partitions are STOPPED (B30)
    deleted_is_forgotten     the states and last mirror epochs of a deleted topic are forgotten
                             (D3-34)
    states_by_birth_count    states are placed by the number of partitions that __mirror_state was
                             created with
    stopped_log_believed     a log with its own reset, followed by this cluster's records only, is
                             not stopped once more
    state_topic_not_grown    nobody can add partitions to __mirror_state
    refusal_is_no_verdict    a source that refuses to be read is asked again, and nothing is FAILED
                             because of it
    errors_of_one_partition  an error that a follower meets in one partition stays with that
                             partition, and its fetcher goes on
    batch_epochs_hidden      consumers are sent no batch with a leader epoch above the partition's
                             own (C19)
    offset_epochs_hidden     consumers are told no such epoch with an offset, committed or looked up
                             (C19)
    front_is_the_sources     only the source's log start moves the front of a mirror (FEA3)
    stopping_is_retried      producers try again what a partition refuses that is about to be
                             writable (C38)
    reset_in_recovery        a reset empties the producer state in recovery, too (C10)

One rule has no ablation: that a reset also forgets open transactions (C9). It shows only where a
transaction is open at the reset. STOPPING cuts to the fixpoint before it writes the reset (C2), so
no log that these clusters write has one, nor does a log that is mirrored from them along a chain.
The rule guards against sources that cut only once; tests/conformance has its test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kmirror.common.errors import Errors
from kmirror.controller import mirror_state_topic, replication_control_manager
from kmirror.coordinator.common.replica_log import ReplicaManagerLog
from kmirror.mirror import mirror_state_machine
from kmirror.mirror.coordination.mirror_coordinator import MirrorCoordinator
from kmirror.mirror.coordination.mirror_state_client import MirrorStateClient
from kmirror.mirror.fetch import fetcher_inquiries, mirror_fetcher
from kmirror.mirror.fetch.fetch_failures import REFUSED, FetchFailures
from kmirror.mirror.fetch.mirror_fetcher import MirrorFetcher
from kmirror.mirror.logs import log_comparison, log_verifier
from kmirror.mirror.logs.log_alignment import AlignmentPoint, LogSummary
from kmirror.mirror.logs.log_questions import LogAction, Verdict
from kmirror.mirror.mirror_state_machine import IGNORED, MirrorEvent, MirrorGuard, MirrorPartitionState, Row, WantedState
from kmirror.mirror.partition import preparing, stopping
from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.mirror.partition.stopping import Stopping
from kmirror.mirror.source import last_mirror_epoch
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.sync import writes_while_mirrored
from kmirror.mirror.sync.share_group_sync import ShareGroupSync
from kmirror.replica import log_verification
from kmirror.replica.abstract_fetcher import AbstractFetcher
from kmirror.replica.client_epochs import ClientEpochs
from kmirror.replica.partition import Partition, ReadOnlyReason
from kmirror.replica.replica_fetcher import ReplicaFetcher
from kmirror.server.apis import mirror_guard
from kmirror.server.apis.write_txn_markers import _Append
from kmirror.storage import producer_state_update
from kmirror.storage.log_retention import LogRetention
from kmirror.storage.log_truncation import LogTruncation

Replacement = tuple[Any, str, Callable[[Any], Any]]
STOPPED_FOR_EVER = (MirrorPartitionState.STOPPED, WantedState.RUN)


def _as_they_are(original: Any) -> Any:
    return staticmethod(lambda told, *arguments: told)


def _nothing(original: Any) -> Any:
    return lambda *arguments, **named: None


def _nothing_async(original: Any) -> Any:
    async def nothing(*arguments: Any, **named: Any) -> None:
        return None

    return nothing


def _no_failures_async(original: Any) -> Any:
    async def nothing(*arguments: Any) -> list[str]:
        return []

    return nothing


def _never(original: Any) -> Any:
    return lambda *arguments, **named: False


def _always(original: Any) -> Any:
    return lambda *arguments, **named: True


def _never_async(original: Any) -> Any:
    async def never(*arguments: Any, **named: Any) -> bool:
        return False

    return never


def _no_epoch(original: Any) -> Any:
    async def none(*arguments: Any) -> int:
        return -1

    return none


def from_the_end(first_fetch_offset: Any) -> Any:
    return lambda self, topic_partition, fetch_offset: fetch_offset


def _where_mirroring_is_on(first_fetch_offset: Any) -> Any:
    def ask(self: ReplicaFetcher, topic_partition: Any, fetch_offset: int) -> Any:
        if not self._partition(topic_partition).has_mirror_name and not self._replicas.is_mirroring_enabled:
            return fetch_offset
        return first_fetch_offset(self, topic_partition, fetch_offset)

    return ask


def _passed_over_differs(overlaps: Any) -> Any:
    def walk(ours: Any, theirs: Any) -> Any:
        ours, theirs = list(ours), list(theirs)
        for our, batch in zip(ours, theirs, strict=False):
            if our.base_offset != batch.base_offset:
                yield log_verification.Overlap(our, is_same=False)
                return
            found = next(overlaps(iter([our]), [batch]))
            yield found
            if not found.is_same:
                return

    return walk


def _hole_differs(probe: Any) -> Any:
    def ask(log: Any, header: Any, until: int) -> Any:
        found = yield from probe(log, header, until)
        if found is None or found.ours.base_offset != header.base_offset:
            return log_verification.Overlap(header, is_same=False)
        return found

    return ask


def _no_mirror_epoch(first_mirror_leader_epoch: Any) -> Any:
    return lambda self, topic_partition: -1


def _anywhere(truncate_to: Any) -> Any:
    return lambda self, target_offset, *, at_batch_boundary=False: truncate_to(self, target_offset)


def _by_epochs(diverged: Any) -> Any:
    return lambda log, epoch, end_offset, *, cleaned_until: log_verifier._cut_by_epochs(log, epoch, end_offset)


def _as_if_mirrored(last_mirror_epoch_to_store: Any) -> Any:
    def ask(summary: LogSummary, *, stored_epoch: int, was_mirroring: bool) -> Any:
        if was_mirroring:
            return last_mirror_epoch_to_store(summary, stored_epoch=stored_epoch, was_mirroring=True)
        return summary.largest_epoch

    return ask


def _of_leader(persist: Any) -> Any:
    async def run(self: Stopping, summary: LogSummary) -> None:
        await self._stored.store_last_mirror_epoch(self._led.partition.leader_epoch)

    return run


def _on_change_only(guard: Any) -> Any:
    first_seen: dict[MirrorPartition, WantedState] = {}

    async def ask(self: MirrorPartition, wanted: WantedState) -> Any:
        seen = first_seen.setdefault(self, wanted)
        if (self.status.state, wanted) == STOPPED_FOR_EVER and seen is WantedState.RUN:
            return MirrorGuard.SOURCE_TOPIC_OTHER
        return await guard(self, wanted)

    return ask


def _without_flush(configs: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in configs.items() if name != "flush.messages"}


def _without_paused_row(table: Any) -> Any:
    key = (MirrorPartitionState.UNKNOWN, MirrorEvent.PAUSE_WANTED)
    return {**table, key: (Row(IGNORED, *key, MirrorGuard.ALWAYS, (), None, ()),)}


def _where_asked(append: Any) -> Any:
    def run(self: MirrorFetcher, partition: Any, fetched: Any) -> Any:
        partition.last_epoch = max(partition.last_epoch, 0)
        return append(self, partition, fetched)

    return run


def _any_reset(ends_in_own_reset: Any) -> Any:
    return lambda self, *, stored_epoch, leader_epoch: self.largest_epoch_before_own_reset is not None


def _cut_first(stop: Any) -> Any:
    async def run(self: Stopping) -> None:
        if not await self.is_stopped_already():
            await self._truncate(await self._summarize())
        await stop(self)

    return run


def _at_local_start(verify_log: Any) -> Any:
    def inquiry(log: Any, *, cleaned_until: Any) -> Any:
        verdict: Verdict = yield from verify_log(log, cleaned_until=cleaned_until)
        if verdict.action is LogAction.START_OVER:
            return Verdict(LogAction.START_OVER, max(verdict.offset, log.log_start_offset), verdict.reason)
        return verdict

    return inquiry


def _cut_at_local_start(verify_before: Any) -> Any:
    def inquiry(log: Any, until: int, *, cleaned_until: Any) -> Any:
        verdict: Verdict = yield from verify_before(log, until, cleaned_until=cleaned_until)
        if verdict.action is LogAction.START_OVER:
            return Verdict(LogAction.CUT, max(verdict.offset, log.log_start_offset), verdict.reason)
        return verdict

    return inquiry


def _with_an_entry(make_leader: Any) -> Any:
    def run(self: Partition, registration: Any, log: Any) -> Any:
        has_mirror_name, self.has_mirror_name = self.has_mirror_name, False
        try:
            return make_leader(self, registration, log)
        finally:
            self.has_mirror_name = has_mirror_name

    return run


def _all_of_them(mirroring_partitions: Any) -> Any:
    async def ask(states: Any, image: Any, mirror_name: str, partitions: Any, failures: Any) -> Any:
        return partitions

    return ask


def _refused(mirror_answer: Any) -> Any:
    def ask(self: Any, topic_partition: Any) -> Any:
        return Errors.READ_ONLY_TOPIC if mirror_answer(self, topic_partition) is Errors.NONE else mirror_answer(self, topic_partition)

    return ask


def _undefined_is_zero(alignment_point: Any) -> Any:
    def ask(last_mirror_epoch: int, first_offset_above: int | None, **named: Any) -> Any:
        if first_offset_above is None:
            return AlignmentPoint(0, True)
        return alignment_point(last_mirror_epoch, first_offset_above, **named)

    return ask


def _of_now(partition_count: Any) -> Any:
    return lambda self, topic: len(topic.partitions)


def _of_all(on_failure: Any) -> Any:
    def run(self: AbstractFetcher, topic_partition: Any, state: Any, failure: Exception, *, is_moving: bool) -> None:
        raise RuntimeError(f"{topic_partition}: {failure}") from failure

    return run


def _refusals_fail(delay: Any) -> Any:
    def run(self: FetchFailures, partition: Any, reason: str) -> None:
        if reason == REFUSED:
            self.reject(partition, reason)
        else:
            delay(self, partition, reason)

    return run


def _read_only_topic(error: Any) -> Any:
    return property(lambda reason: Errors.READ_ONLY_TOPIC)


def _as_if_stopped(ways: Any) -> Any:
    async def ask(manager: Any, topics: Any) -> Any:
        return dict.fromkeys(await ways(manager, topics), mirror_guard._Way.OWN)

    return ask


MIRROR_REPLACEMENTS: Mapping[str, Sequence[Replacement]] = {
    "pending_produces_fail": [(Partition, "fail_pending_produces", _nothing)],
    "follower_verification": [(ReplicaFetcher, "first_fetch_offset", from_the_end)],
    "verified_at_any_level": [(ReplicaFetcher, "first_fetch_offset", _where_mirroring_is_on)],
    "holes_prove_nothing": [(log_verification, "overlaps", _passed_over_differs), (log_comparison, "_probe", _hole_differs)],
    "mirror_leader_epoch": [(ReplicaFetcher, "first_mirror_leader_epoch", _no_mirror_epoch)],
    "batch_boundary": [(LogTruncation, "truncate_to", _anywhere), (mirror_fetcher, "diverged", _by_epochs)],
    "own_epochs_not_stored": [(stopping, "last_mirror_epoch_to_store", _as_if_mirrored)],
    "chain_epochs": [(Mirror, "is_source_topic_mirrored", _never_async), (Mirror, "is_known_chain", _never)],
    "state_level": [(MirrorPartition, "_guard", _on_change_only)],
    "state_flush": [
        (ReplicaManagerLog, "flush_if_single_replica", _nothing_async),
        (mirror_state_topic, "MIRROR_STATE_TOPIC_CONFIGS", _without_flush),
    ],
    "paused_is_prepared": [(mirror_state_machine, "TABLE", _without_paused_row)],
    "start_inside_batch": [(MirrorFetcher, "_append", _where_asked)],
    "deleted_source_pauses": [(Mirror, "pause_name", _nothing_async)],
    "reset_is_last": [(LogSummary, "ends_in_own_reset", _any_reset)],
    "bump_before_cut": [(Stopping, "stop", _cut_first)],
    "epoch_kept_on_entry": [(Stopping, "last_mirror_epoch_on_entry", _no_epoch)],
    "start_over_at_source": [
        (fetcher_inquiries, "verify_log", _at_local_start),
        (preparing, "verify_before", _cut_at_local_start),
    ],
    "epoch_entry_with_batch": [(Partition, "make_leader", _with_an_entry)],
    "lost_reset_again": [(Stopping, "is_reset_lost", _never_async)],
    "leader_knows": [(last_mirror_epoch, "_knows", _always)],
    "epoch_of_batches": [(Stopping, "_persist_last_mirror_epoch", _of_leader)],
    "lme_above_log": [(preparing, "alignment_point", _undefined_is_zero)],
    "offsets_while_mirrored": [(writes_while_mirrored, "mirroring_partitions", _all_of_them)],
    "share_groups_synced": [(ShareGroupSync, "sync", _no_failures_async)],
    "markers_swallowed": [(_Append, "_mirror_answer", _refused)],
    "mirrors_not_deleted": [(mirror_guard, "_ways", _as_if_stopped)],
    "deleted_is_forgotten": [(MirrorStateClient, "remove_topics", _nothing_async)],
    "states_by_birth_count": [(MirrorCoordinator, "_partition_count", _of_now)],
    "stopped_log_believed": [(LogSummary, "is_written_since_own_reset", _never)],
    "state_topic_not_grown": [(replication_control_manager, "check_no_new_partitions", _nothing)],
    "refusal_is_no_verdict": [(FetchFailures, "delay", _refusals_fail)],
    "errors_of_one_partition": [(AbstractFetcher, "_on_failure", _of_all)],
    "batch_epochs_hidden": [(ClientEpochs, "records", _as_they_are)],
    "offset_epochs_hidden": [(ClientEpochs, "told", _as_they_are)],
    "front_is_the_sources": [(LogRetention, "_is_front_of_another", _never)],
    "stopping_is_retried": [(ReadOnlyReason, "error", _read_only_topic)],
    "reset_in_recovery": [(producer_state_update, "_is_pid_reset", _never)],
}
