"""Whether a follower's log is the beginning of its leader's (C36b).

The batches of a mirror topic carry epochs of another cluster, so equal epochs do not mean equal
batches: a follower that was away while its leader cut the log and copied another history sees no
divergence, and would join the ISR with batches of its own. So in each leader epoch a follower first
fetches from the base offset of its last batch and compares what comes with what it has. Every topic
is verified, at every feature level: a topic that is in no mirror now may have been in one while
this follower was away (F5), even in a cluster that has lowered mirror.version since. The cost is
one more fetch of the last batch per partition and leader epoch.

*What a batch of the leader proves.* Two overlapping batches belong to one history if they agree in
everything that no cleaner changes (`same_batch`). Then everything before them also belongs to one
history, because a log grows in order. Otherwise nothing from there on does. Where the leader has no
batch, a cleaner has been at work, because offsets are otherwise contiguous. Such a hole proves
nothing about our batches in it.

    our last batch is equal              verified: what comes behind it is appended
    nothing of ours is different         verified: what lies in the leader's holes stays, tombstones above all
    a different one right behind an      cut behind the equal one
      equal one
    a different one behind a hole        start over: what we have in the hole may be the leader's history or not. Left there, it may be a
                                         key that nobody has; cut off, it may be the tombstone that the leader no longer has either
    a different one, no equal one        start over
    our own cleaner was behind the cut   start over: it dropped what the records replaced that go now

To find the equal one we go back 1, 2, 4 ... batches, and compare forward from there. The leader's
log start, and an answer that ends before our log, limit the comparison like any other border. An
empty log whose end lies above the leader's log start begins there; otherwise the records in between
would be skipped.

An answer without records, from below the leader's high watermark, proves nothing: the response had
no room, or the leader throttles us. We ask again, and finally take it as a hole up to the leader's
end. No answer at all, from a leader without news, may mean that its log ends there; then we ask for
its end (`AbstractFetcher`). A batch that is damaged at the leader says nothing about ours, which
may be the only good one: it is an error, and we ask again.

A known hole, which Kafka has too: we miss a tombstone after our log's end that the leader dropped
before we fetched it (delete.retention.ms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kmirror.common.ports import Buffer
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG, RecordBatch, iter_batches
from kmirror.storage.batch_header import BatchHeader
from kmirror.storage.unified_log import UnifiedLog

KIND_FLAGS = CONTROL_FLAG | TRANSACTIONAL_FLAG


class Verified(NamedTuple):
    """The log is good up to `keep_until`; the answer's records from `append_from` (a position) on
    follow it.
    """

    keep_until: int
    append_from: int | None = None


class StartOver(NamedTuple):
    """The log is not the leader's, or it is unknown how far it is: empty it, and go on at
    `offset`.
    """

    offset: int


class CompareAt(NamedTuple):
    """Not decided yet: fetch from `offset` and compare."""

    offset: int


def same_batch(ours: BatchHeader, theirs: RecordBatch) -> bool:
    """Whether two headers are of one batch, which cleaners may have rewritten on either side.

    A cleaner keeps offsets, epoch, producer and kind. It takes records out, which lowers the count
    and may lower the largest timestamp, and it notes when tombstones may go. Where it has done
    neither, the CRC decides, in compacted topics too. The topic's current policy does not matter:
    it may have been compacted before. CORRUPT_MESSAGE: they differ, and the other side's batch is
    damaged, which says nothing about ours.
    """
    is_equal = ours.crc == theirs.crc and ours.max_timestamp == theirs.max_timestamp
    is_same = _same_origin(ours, theirs) and (is_equal or _may_be_cleaned(ours, theirs))
    if not is_same:
        theirs.ensure_valid()
    return is_same


def _same_origin(ours: BatchHeader, theirs: RecordBatch) -> bool:
    """Whether everything that a cleaner never changes is equal."""
    return (
        ours.base_offset == theirs.base_offset
        and ours.last_offset == theirs.last_offset
        and ours.partition_leader_epoch == theirs.partition_leader_epoch
        and ours.producer_id == theirs.producer_id
        and ours.producer_epoch == theirs.producer_epoch
        and ours.base_sequence == theirs.base_sequence
        and ours.attributes & KIND_FLAGS == theirs.attributes & KIND_FLAGS
    )


def _may_be_cleaned(ours: BatchHeader, theirs: RecordBatch) -> bool:
    """Whether a cleaner can explain the difference between two batches of one origin."""
    our_missing = ours.last_offset_delta + 1 - ours.record_count
    their_missing = theirs.last_offset_delta + 1 - theirs.record_count
    if our_missing and their_missing:
        return True
    if our_missing:
        return ours.max_timestamp <= theirs.max_timestamp
    if their_missing:
        return theirs.max_timestamp <= ours.max_timestamp
    has_horizon = ours.has_delete_horizon or theirs.has_delete_horizon
    return has_horizon and ours.max_timestamp == theirs.max_timestamp


class Overlap(NamedTuple):
    """A batch of ours that overlaps one of theirs, and whether the two are the same."""

    ours: BatchHeader
    is_same: bool


def overlaps(ours: Iterator[BatchHeader], theirs: Iterable[RecordBatch]) -> Iterator[Overlap]:
    """Walks along two logs in offset order. Batches in a hole of the other side are skipped; the
    walk ends at the first pair that differs, or at the end of either side.
    """
    our = next(ours, None)
    for batch in theirs:
        while our is not None and our.last_offset < batch.base_offset:
            our = next(ours, None)
        if our is None:
            return
        if batch.last_offset < our.base_offset:
            continue
        is_same = same_batch(our, batch)
        yield Overlap(our, is_same)
        if not is_same:
            return
        our = next(ours, None)


EMPTY_ANSWERS_ASKED_AGAIN = 10


@dataclass(slots=True)
class _Progress:
    """How far the verification of one log has got."""

    cleaned_until: Callable[[], int]
    """The offset up to which our own cleaner has been through our log."""

    begin: int
    """The batch of ours at which the current pass forward began."""

    stride: int = 1
    """How many batches the next step back takes."""

    equal: BatchHeader | None = None
    """The last batch of ours that is known to be the leader's; once there is one, the comparison
    only goes forward.
    """

    has_difference: bool = False
    empty_answers: int = 0


class LogVerification:
    """Owns the progress of the partitions whose logs are not verified yet."""

    def __init__(self) -> None:
        self._pending: dict[TopicPartition, _Progress] = {}
        self.of_batches: dict[TopicPartition, None] = {}
        """Unverified partitions with batches: for these the leader has to say what it has there, or
        that its log ends before.
        """

    def begin(self, topic_partition: TopicPartition, log: UnifiedLog, *, cleaned_until: Callable[[], int] = lambda: 0) -> int:
        """Begins a verification: from now on answers go to `check`. Returns the offset to fetch
        from first. `cleaned_until`: how far our own cleaner has been.
        """
        last = log.last_batch()
        offset = log.log_end_offset if last is None else max(last.base_offset, log.log_start_offset)
        self._pending[topic_partition] = _Progress(cleaned_until, offset)
        if last is not None:
            self.of_batches[topic_partition] = None
        return offset

    def is_pending(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._pending

    def end(self, topic_partition: TopicPartition) -> None:
        self._pending.pop(topic_partition, None)
        self.of_batches.pop(topic_partition, None)

    def is_worth_asking_again(self, topic_partition: TopicPartition, *, is_throttled: bool) -> bool:
        """Whether to ask again after an answer without records from below the leader's high
        watermark: other partitions may have filled the response. The number of attempts is limited,
        because the leader's cleaner may have removed the batches; but not while the topic is
        throttled, when most answers are empty.
        """
        if is_throttled:
            return True
        progress = self._pending[topic_partition]
        progress.empty_answers += 1
        return progress.empty_answers <= EMPTY_ANSWERS_ASKED_AGAIN

    def check(
        self,
        topic_partition: TopicPartition,
        log: UnifiedLog,
        *,
        fetch_offset: int,
        records: Buffer,
        leader_log_start_offset: int,
        leader_has_more: bool = False,
    ) -> Verified | StartOver | CompareAt:
        """What an answer to a fetch from `fetch_offset` says about `log`. `leader_has_more`: the
        leader's log goes on after `fetch_offset`, whatever the answer has. CORRUPT_MESSAGE: a batch
        that differs is damaged.
        """
        last = log.last_batch()
        if last is None or last.last_offset < fetch_offset:
            return StartOver(leader_log_start_offset) if leader_log_start_offset < fetch_offset else Verified(fetch_offset, 0)
        progress = self._pending[topic_partition]
        theirs = list(iter_batches(memoryview(records)))
        end = theirs[-1].next_offset if theirs else fetch_offset
        different = None if theirs or leader_has_more else log.batch_containing(fetch_offset)
        for pair in overlaps(log.batch_headers(fetch_offset), theirs):
            if not pair.is_same:
                different = pair.ours
                break
            progress.equal = pair.ours
        if different is not None:
            return self._differs(progress, log, different, leader_log_start_offset)
        if theirs and end <= last.last_offset:
            return CompareAt(end)
        if progress.equal is None and not progress.has_difference:
            return self._step_back(progress, log, leader_log_start_offset) or self._all_there_is(last, theirs)
        return self._all_there_is(last, theirs)

    def _all_there_is(self, last: BatchHeader, theirs: list[RecordBatch]) -> Verified:
        """The verdict if nothing differs up to our end. A gap after our last batch, which our
        cleaner left, is fetched again.
        """
        position = 0
        for batch in theirs:
            if batch.base_offset >= last.next_offset:
                break
            position += batch.size_in_bytes
        return Verified(last.next_offset, position)

    def _differs(
        self, progress: _Progress, log: UnifiedLog, different: BatchHeader, leader_log_start_offset: int
    ) -> Verified | StartOver | CompareAt:
        equal = progress.equal
        if equal is None:
            progress.has_difference = True
            return self._step_back(progress, log, leader_log_start_offset) or StartOver(leader_log_start_offset)
        previous = log.batch_before(different.base_offset)
        is_next = previous is not None and previous.base_offset == equal.base_offset
        if not is_next or progress.cleaned_until() > equal.next_offset:
            return StartOver(leader_log_start_offset)
        return Verified(equal.next_offset)

    def _step_back(self, progress: _Progress, log: UnifiedLog, leader_log_start_offset: int) -> CompareAt | None:
        """Compares from an earlier batch on; None if there is none that the leader may have."""
        candidate: BatchHeader | None = None
        offset = progress.begin
        for _ in range(progress.stride):
            previous = log.batch_before(offset)
            if previous is None or previous.base_offset < leader_log_start_offset:
                break
            candidate, offset = previous, previous.base_offset
        if candidate is None:
            return None
        progress.stride *= 2
        progress.begin = max(candidate.base_offset, log.log_start_offset)
        return CompareAt(progress.begin)
