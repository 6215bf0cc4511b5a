"""Whether a follower's log is the beginning of its leader's: C36b, wherever mirroring is enabled.

The batches of a mirror topic carry epochs of another cluster, so equal epochs do not mean equal batches: a follower that was away
while its leader cut the log and copied another history sees no divergence, and would join the ISR with batches of its own. What
tells is the last batch. So in a new leader epoch such a follower first fetches from the base offset of its last batch and compares
what comes with what it has; nothing is asked twice but that batch.

    equal to the end of our log     verified: what comes behind it is appended
    equal, then different           cut behind the last equal batch
    different, or not there         go back 1, 2, 4 … batches and compare from there; before the leader's log start: start over there
    equal as far as the answer goes compare on from there; different, or not there, then: cut there

An empty log whose end lies above the leader's log start begins there, or the records between would be skipped. An answer without
records from below the leader's high watermark says nothing: it had no room, or the leader is throttled, and is asked for again. No
answer at all, from a leader that has no news, may mean that its log ends there; then it is asked for its end (`AbstractFetcher`).
A batch that is damaged at the leader says nothing of ours, which may be the only good one: it is an error, and is asked for again.

Every topic is verified, because one that is in no mirror now may have been in one while this follower was away (F5). What the leader's
cleaner took away or rewrote in a compacted topic that has no `mirror.name` says nothing (`is_lenient`): there only a batch at the same
offset with another epoch or producer is a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog


class Verified(NamedTuple):
    """The log is good up to `keep_until`; of the answer, the records from `append_from` (a position) on follow it."""

    keep_until: int
    append_from: int | None = None


class StartOver(NamedTuple):
    """Nothing of the log is the leader's: empty it, to go on at `offset`."""

    offset: int


class CompareAt(NamedTuple):
    """Not known yet: fetch from `offset` and compare."""

    offset: int


def same_batch(ours: BatchHeader, theirs: RecordBatch, *, is_compacted: bool) -> bool:
    """Whether two headers are of one batch. CORRUPT_MESSAGE: they differ, and the other side's is damaged, which says nothing of ours."""
    is_same = (
        _same_origin(ours, theirs)
        and ours.last_offset == theirs.last_offset
        and ours.max_timestamp == theirs.max_timestamp
        and (is_compacted or ours.crc == theirs.crc)
    )
    if not is_same:
        theirs.ensure_valid()
    return is_same


def _same_origin(ours: BatchHeader, theirs: RecordBatch) -> bool:
    """What a cleaner leaves as it was."""
    return (
        ours.base_offset == theirs.base_offset
        and ours.partition_leader_epoch == theirs.partition_leader_epoch
        and ours.producer_id == theirs.producer_id
        and ours.producer_epoch == theirs.producer_epoch
        and ours.base_sequence == theirs.base_sequence
    )


EMPTY_ANSWERS_ASKED_AGAIN = 10


@dataclass(slots=True)
class _Progress:
    """How far one log's verification is: how many batches the next step back takes, up to where the logs are known to be equal, and
    how many answers in a row said nothing."""

    is_lenient: bool
    stride: int = 1
    equal_until: int | None = None
    empty_answers: int = 0


class LogVerification:
    """The partitions whose logs are not verified yet."""

    def __init__(self) -> None:
        self._pending: dict[TopicPartition, _Progress] = {}
        self.of_batches: dict[TopicPartition, None] = {}
        """Those whose logs are not empty: what the leader has there, or that its log ends before, has to be heard."""

    def begin(self, topic_partition: TopicPartition, log: UnifiedLog, *, is_lenient: bool = False) -> int:
        """From now on answers go to `check`; the offset to fetch from first."""
        self._pending[topic_partition] = _Progress(is_lenient)
        last = log.last_batch()
        if last is not None:
            self.of_batches[topic_partition] = None
        return log.log_end_offset if last is None else max(last.base_offset, log.log_start_offset)

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._pending

    def end(self, topic_partition: TopicPartition) -> None:
        self._pending.pop(topic_partition, None)
        self.of_batches.pop(topic_partition, None)

    def is_worth_asking_again(self, topic_partition: TopicPartition, *, is_throttled: bool) -> bool:
        """After an answer without records from an offset below the leader's high watermark: other partitions may have taken the room of
        the response, and a log must not be cut for that. Or the leader's cleaner took the batches, so this ends, but not while the
        topic is throttled, when most answers are like that. (Leniently nothing is cut.)"""
        progress = self._pending[topic_partition]
        if progress.is_lenient:
            return False
        if is_throttled:
            return True
        progress.empty_answers += 1
        return progress.empty_answers <= EMPTY_ANSWERS_ASKED_AGAIN

    def is_lenient(self, topic_partition: TopicPartition) -> bool:
        """How the verification under way was begun."""
        return self._pending[topic_partition].is_lenient

    def check(
        self, topic_partition: TopicPartition, log: UnifiedLog, *, fetch_offset: int, records: Buffer, leader_log_start_offset: int
    ) -> Verified | StartOver | CompareAt:
        """What an answer to a fetch from `fetch_offset` says about `log`. CORRUPT_MESSAGE: a batch that differs is damaged."""
        ours = log.batch_headers(fetch_offset)
        our: BatchHeader | None = next(ours, None)
        if our is None:
            return StartOver(leader_log_start_offset) if leader_log_start_offset < fetch_offset else Verified(fetch_offset, 0)
        progress = self._pending[topic_partition]
        if progress.is_lenient:
            return self._check_leniently(progress, log, our, records, leader_log_start_offset)
        equal_until, position = None, 0
        for batch in iter_batches(memoryview(records)):
            if our is None:
                return Verified(log.log_end_offset if equal_until is None else equal_until, position)
            if not same_batch(our, batch, is_compacted=log.config.compact):
                break
            equal_until, position, our = our.next_offset, position + batch.size_in_bytes, next(ours, None)
        else:
            if equal_until is not None and our is not None:
                progress.equal_until = equal_until
                return CompareAt(equal_until)
            if equal_until is not None:
                return Verified(equal_until, position)
        if equal_until is not None or progress.equal_until == fetch_offset:
            return Verified(fetch_offset if equal_until is None else equal_until)
        return self._step_back(progress, log, fetch_offset, leader_log_start_offset)

    def _check_leniently(
        self, progress: _Progress, log: UnifiedLog, our: BatchHeader, records: Buffer, leader_log_start_offset: int
    ) -> Verified | StartOver | CompareAt:
        """Only the batch at our own one's offset is looked at: equal, or not there any more, is good enough."""
        theirs = next(iter_batches(memoryview(records)), None)
        if theirs is None or theirs.base_offset != our.base_offset or _same_origin(our, theirs):
            return Verified(log.log_end_offset if progress.stride == 1 else our.next_offset)
        theirs.ensure_valid()
        return self._step_back(progress, log, our.base_offset, leader_log_start_offset)

    def _step_back(self, progress: _Progress, log: UnifiedLog, offset: int, leader_log_start_offset: int) -> StartOver | CompareAt:
        candidate: BatchHeader | None = None
        for _ in range(progress.stride):
            previous = log.batch_before(offset)
            if previous is None or previous.base_offset < leader_log_start_offset:
                break
            candidate, offset = previous, previous.base_offset
        if candidate is None:
            return StartOver(leader_log_start_offset)
        progress.stride *= 2
        return CompareAt(candidate.base_offset)
