"""The inquiries of a mirror fetcher: whether a partition's log is the beginning of the source's,
and what is done when it is not.

An inquiry (`log_verifier`) asks questions and ends with a verdict. Questions of one kind go to the
source in one request for all partitions that have one (`answer_questions`). `FetcherInquiries`
begins inquiries, passes them their answers and carries out their verdicts.

A cut needs two things: a source that is asked by topic name must still have the topic with our id,
and the guard must not refuse the loss (`truncation_guard`). After a cut the partition is given back
to its target, which bumps the leader epoch before anything is appended (F1).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.fetch.fetch_failures import FetchFailures
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition
from kmirror.mirror.fetch.fetcher_partitions import FetcherPartitions
from kmirror.mirror.logs.local_log import cut, cut_fully
from kmirror.mirror.logs.log_questions import BatchAt, EarliestOffset, EndOfEpoch, LogAction, OnWorker, Question, Verdict
from kmirror.mirror.logs.log_verifier import unverified, verify_log
from kmirror.mirror.logs.truncation_guard import is_guarded, readable_until, records_lost, refusal
from kmirror.mirror.mirror_safeguards import MirrorSafeguards
from kmirror.mirror.source.source_cluster import SourceError
from kmirror.mirror.source.source_end_point import BatchQuestion, SourceEndPoint
from kmirror.mirror.source.source_fetch_session import FetchPosition
from kmirror.runtime.api import Runtime

BATCHES_SIZE_LIMIT_BYTES = 8 << 20
VERDICTS_WITHOUT_BACKOFF = 3
T = TypeVar("T")

_log = logging.getLogger(__name__)


class FetcherInquiries:
    """The inquiries of one fetcher; `name` is the fetcher's. The inquiries themselves belong to the
    partitions.
    """

    def __init__(
        self,
        runtime: Runtime,
        end_point: SourceEndPoint,
        partitions: FetcherPartitions,
        failures: FetchFailures,
        name: str,
        *,
        safeguards: MirrorSafeguards,
        backoff_ms: int,
    ) -> None:
        self._runtime = runtime
        self._end_point = end_point
        self._partitions = partitions
        self._failures = failures
        self._name = name
        self._safeguards = safeguards
        self._backoff_ms = backoff_ms

    def verify(self, partition: FetchedMirrorPartition) -> None:
        """Compares the partition's log with the source's before anything else is done with it."""
        log, cleaned_until = partition.log, partition.target.cleaned_until
        is_verified = self._safeguards.first_fetch_verified
        self._partitions.inquire(partition, verify_log(log, cleaned_until=cleaned_until) if is_verified else unverified())

    def verify_what_was_out_of_sight(self, partition: FetchedMirrorPartition) -> None:
        """Compares the partition's log again after a time without fetches. No answer of the source
        caused this inquiry, so its verdict does not count among those that delay the next fetch.
        """
        partition.verdicts = 0
        self.verify(partition)

    async def ask(self) -> None:
        """Asks one question of every inquiry that has one, and ends the inquiries that reach their
        verdict.
        """
        for partition in list(self._partitions.inquiring.values()):
            if partition.question is None and self._partitions.is_current(partition):
                with self._failures.of(partition):
                    await self._advance(partition, None)
        asking = [partition for partition in self._partitions.inquiring.values() if partition.question is not None]
        if not asking:
            return
        answers = await answer_questions(self._runtime, self._end_point, asking)
        for partition in asking:
            if self._partitions.is_current(partition):
                with self._failures.of(partition):
                    await self._advance(partition, answers[partition.topic_partition])

    async def _advance(self, partition: FetchedMirrorPartition, answer: object) -> None:
        """Passes an inquiry its answer (None: begins it), and carries out its verdict once it has
        one.
        """
        inquiry = partition.inquiry
        assert inquiry is not None, f"there is no open question about {partition.topic_partition}"
        try:
            partition.question = inquiry.throw(answer) if isinstance(answer, Exception) else inquiry.send(answer)
        except StopIteration as ended:
            partition.inquiry = partition.question = None
            await self._carry_out(partition, ended.value)

    async def _carry_out(self, partition: FetchedMirrorPartition, verdict: Verdict) -> None:
        log = partition.log
        if verdict.action is LogAction.WAIT:
            self._failures.delay(partition, verdict.reason)
            return
        is_cut = verdict.action is LogAction.START_OVER or (verdict.action is LogAction.CUT and verdict.offset < log.log_end_offset)
        if is_cut and not (await self._is_same_topic(partition) and await self._may_follow(partition, verdict)):
            return
        if not self._partitions.is_current(partition):
            return
        had_batches = log.last_batch() is not None
        removed = 0
        if verdict.action is LogAction.START_OVER:
            removed = cut_fully(partition.partition, verdict.offset)
        elif verdict.action is LogAction.CUT:
            removed = cut(partition.partition, verdict.offset)
        if removed > 0 and had_batches:
            self._after_cut(partition, verdict.reason)
            return
        epoch = log.latest_batch_epoch()
        partition.last_epoch = -1 if epoch is None or verdict.ignores_epochs else epoch
        partition.verdicts += 1
        if partition.verdicts > VERDICTS_WITHOUT_BACKOFF:
            self._failures.delay(partition, f"the source's answers contradict each other: {verdict.reason}")
        else:
            self._partitions.fetch_next(partition)

    async def _is_same_topic(self, partition: FetchedMirrorPartition) -> bool:
        """Checks, before a cut, that the source's topic still has our id: a source that is asked by
        name does not say that the topic was recreated under another id.
        """
        if not self._end_point.asks_by_name or not partition.topic_id:
            return True
        metadata = await partition.target.mirror.source_metadata(partition.topic_partition.topic)
        topic = metadata.topics.get(partition.topic_partition.topic)
        if topic is None or topic.error is not Errors.NONE:
            raise SourceError(f"source topic {partition.topic_partition.topic}: {'no answer' if topic is None else topic.error.name}")
        if topic.topic_id == partition.topic_id:
            return True
        self._failures.reject(
            partition, f"the source's topic has the id {topic.topic_id}, but the local topic has the id {partition.topic_id}"
        )
        return False

    async def _may_follow(self, partition: FetchedMirrorPartition, verdict: Verdict) -> bool:
        """Whether the cut is allowed. If not, the partition fails and keeps what the source has
        lost (`truncation_guard`).
        """
        limit = partition.target.max_truncation_records
        if not self._safeguards.loss_refused or not is_guarded(verdict, limit):
            return True
        log = partition.log
        until = readable_until(partition.partition)
        lost = await self._runtime.run_blocking(lambda: records_lost(log, verdict, until=until))
        reason = refusal(verdict, lost, limit)
        if reason is not None:
            self._failures.reject(partition, reason)
        return reason is None

    def _after_cut(self, partition: FetchedMirrorPartition, reason: str) -> None:
        """Gives the partition back to its target, since a leader bumps its epoch after a cut before
        it appends again: at once, unless the source makes it cut again and again.
        """
        _log.warning("mirror fetcher %s: %s was truncated: %s", self._name, partition.topic_partition, reason)
        partition.target.note_cut()
        is_repeated = partition.progress.note_cut(self._runtime.clock.monotonic_ms(), repeated_within_ms=2 * self._backoff_ms)
        self._failures.give_back(partition, f"cut again: {reason}" if is_repeated else None)


class Asking(Protocol):
    """A partition that has a question for the source."""

    topic_partition: TopicPartition
    topic_id: Uuid
    source_epoch: int
    question: Question | None


async def answer_questions(runtime: Runtime, end_point: SourceEndPoint, asking: Sequence[Asking]) -> dict[TopicPartition, object]:
    """Returns one answer for each partition, or the error that prevented it.

    Batches are requested up to 8 MiB at a time, since a source leaves out whatever is beyond that.
    """
    answers: dict[TopicPartition, object] = {}
    batches: dict[TopicPartition, BatchQuestion] = {}
    starts: dict[bool, dict[TopicPartition, int]] = {}
    ends: dict[TopicPartition, tuple[int, int]] = {}
    size = 0
    for partition in asking:
        question = partition.question
        if isinstance(question, EarliestOffset):
            starts.setdefault(question.local, {})[partition.topic_partition] = partition.source_epoch
        elif isinstance(question, EndOfEpoch):
            epoch = partition.source_epoch if question.leader_epoch is None else question.leader_epoch
            ends[partition.topic_partition] = (partition.source_epoch, epoch)
        elif isinstance(question, OnWorker):
            answers[partition.topic_partition] = await _on_worker(runtime, question)
        elif isinstance(question, BatchAt):
            if batches and size + question.size > BATCHES_SIZE_LIMIT_BYTES:
                await _collect_batches(end_point, batches, answers)
                batches, size = {}, 0
            position = FetchPosition(partition.topic_id, question.offset, partition.source_epoch, NO_EPOCH)
            batches[partition.topic_partition] = BatchQuestion(position, question.size)
            size += question.size
    if batches:
        await _collect_batches(end_point, batches, answers)
    for local, epochs in starts.items():
        try:
            _collect(answers, "ListOffsets", epochs, await end_point.earliest_offsets(epochs, local=local))
        except KmirrorError as error:
            answers.update(dict.fromkeys(epochs, error))
    if ends:
        try:
            _collect(answers, "OffsetForLeaderEpoch", ends, await end_point.epoch_ends(ends))
        except KmirrorError as error:
            answers.update(dict.fromkeys(ends, error))
    return answers


async def _on_worker(runtime: Runtime, question: OnWorker) -> object:
    try:
        return await runtime.run_blocking(question.work)
    except (KmirrorError, OSError) as error:
        return error


async def _collect_batches(
    end_point: SourceEndPoint, questions: Mapping[TopicPartition, BatchQuestion], answers: dict[TopicPartition, object]
) -> None:
    try:
        _collect(answers, "Fetch", questions, await end_point.fetch_batches(questions))
    except KmirrorError as error:
        answers.update(dict.fromkeys(questions, error))


def _collect(
    answers: dict[TopicPartition, object], api: str, asked: Mapping[TopicPartition, object], found: Mapping[TopicPartition, T | Errors]
) -> None:
    for topic_partition in asked:
        answer = found.get(topic_partition)
        if answer is None:
            answers[topic_partition] = SourceError(f"the response to {api} lacks {topic_partition}")
        elif isinstance(answer, Errors):
            answers[topic_partition] = SourceError(f"{api} of {topic_partition}: {answer.name}", answer)
        else:
            answers[topic_partition] = answer
