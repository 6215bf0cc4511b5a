"""Rules of MirrorMaker that have no switch in the program. Each is taken out from here, for the
time of one run; the code of its rule stands last, in brackets (docs/RULES.md).

    offsets_after_acks       source offsets are stored only once the target has the records (MC12)
    dropped_after_acks       and so is that of a record that a filter drops (MC12)
    offsets_in_transaction   with exactly-once support they are a part of the records' transaction
    offsets_read_committed   and those of aborted transactions do not count where a task goes on
    former_lives_fenced      a task has its former lives' transactional id, which shuts them out, and
                             a worker that its group has given up stops its tasks
    translated_behind        an offset is translated by a sync at or before it (OS6)
    old_offsets_void         what was said of a log of the target that went back does not count any more (OS4)
    first_of_logs_kept       the pair of offsets with which a log of the target begins is not replaced while it waits (OS2)
    syncs_after_commit       an offset sync names records of committed transactions only
    cycles_seen              a topic is not copied to a cluster that it came from (CY1)
    losses_counted           what a task loses of its source is counted (`source_ledger`)
    flush_before_commit      the legacy MirrorMaker flushes its producer before it commits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kmirror.mirrormaker import cycles, task_configs
from kmirror.mirrormaker.checkpoints import CheckpointStore
from kmirror.mirrormaker.connect_offsets import OffsetStorage
from kmirror.mirrormaker.herder.worker import Worker
from kmirror.mirrormaker.internal_topics import InternalTopicReader
from kmirror.mirrormaker.legacy.consumer_wrapper import ConsumerWrapper
from kmirror.mirrormaker.offset_sync_store import OffsetSyncStore
from kmirror.mirrormaker.offset_syncs import PartitionState
from kmirror.mirrormaker.source_ledger import SourceLedger
from kmirror.mirrormaker.submitted_records import SubmittedRecords
from kmirror.mirrormaker.task_transactions import TaskTransactions
from kmirror.sim.mirror_ablations import Replacement


def _at_once(submit: Any) -> Any:
    def run(self: SubmittedRecords, partition: Any, last_offsets: Sequence[int]) -> Any:
        self._committable[partition] = last_offsets[-1]
        return submit(self, partition, last_offsets)

    return run


def _dropped_at_once(pass_over: Any) -> Any:
    def run(self: SubmittedRecords, partition: Any, offset: int) -> None:
        self._committable[partition] = offset

    return run


def _alone(write: Any) -> Any:
    async def run(self: OffsetStorage, connector: str, offsets: Any, transaction_of: Any = None) -> None:
        await write(self, connector, offsets)

    return run


def _of_all_transactions(start: Any) -> Any:
    async def run(self: InternalTopicReader) -> None:
        self._consumer = self._ends
        await start(self)

    return run


def _one_more_id(transactional_id: Any) -> Any:
    lives = iter(range(1_000_000))

    def run(group_id: str, connector: str, task: int) -> str:
        return f"{transactional_id(group_id, connector, task)}-life-{next(lives)}"

    return run


def _unheard(on_lost: Any) -> Any:
    async def run(self: Any) -> None:
        pass

    return run


def _by_the_newest(translate_downstream: Any) -> Any:
    def run(self: OffsetSyncStore, topic_partition: Any, upstream_offset: int) -> int | None:
        syncs = self._syncs.get(topic_partition)
        return syncs[0].downstream_offset if self.read_to_end and syncs else None

    return run


def _nothing_withdrawn(withdraw: Any) -> Any:
    return lambda self, partition, beyond: []


def _never_the_first(update: Any) -> Any:
    def run(self: PartitionState, upstream_offset: int, downstream_offset: int) -> bool:
        is_due: bool = update(self, upstream_offset, downstream_offset)
        self.was_first_of_log = False
        return is_due

    return run


def _before_commit(acknowledged: Any) -> Any:
    return lambda self, done: done()


def _unseen(is_cycle: Any) -> Any:
    return lambda policy, target, topic: False


def _unnoticed(look: Any) -> Any:
    def run(self: SourceLedger, *facts: Any) -> None:
        look(self, *facts)

    return run


def _without_flush(flush_and_commit: Any) -> Any:
    async def run(self: ConsumerWrapper) -> None:
        await self.commit_offsets()

    return run


FLOW_REPLACEMENTS: Mapping[str, Sequence[Replacement]] = {
    "offsets_after_acks": [(SubmittedRecords, "submit", _at_once)],
    "dropped_after_acks": [(SubmittedRecords, "pass_over", _dropped_at_once)],
    "offsets_in_transaction": [(OffsetStorage, "write", _alone)],
    "offsets_read_committed": [(InternalTopicReader, "start", _of_all_transactions)],
    "former_lives_fenced": [(task_configs, "transactional_id", _one_more_id), (Worker, "on_lost", _unheard)],
    "translated_behind": [(OffsetSyncStore, "translate_downstream", _by_the_newest)],
    "old_offsets_void": [(CheckpointStore, "withdraw", _nothing_withdrawn)],
    "first_of_logs_kept": [(PartitionState, "update", _never_the_first)],
    "syncs_after_commit": [(TaskTransactions, "acknowledged", _before_commit)],
    "cycles_seen": [(cycles, "is_cycle", _unseen)],
    "losses_counted": [(SourceLedger, "look", _unnoticed)],
    "flush_before_commit": [(ConsumerWrapper, "flush_and_commit", _without_flush)],
}
