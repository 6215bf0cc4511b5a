"""Answers to the inquiries of a fetcher's partitions: the questions of a kind go to the source in one request (`log_verifier`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.sentinels import NO_EPOCH
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.mirror.log_questions import BatchAt, EarliestOffset, EndOfEpoch, OnWorker, Question
from kmirror.mirror.source_cluster import SourceError
from kmirror.mirror.source_end_point import BatchQuestion, SourceEndPoint
from kmirror.mirror.source_fetch_session import FetchPosition
from kmirror.runtime.api import Runtime

BATCHES_SIZE_LIMIT_BYTES = 8 << 20
T = TypeVar("T")


class Asking(Protocol):
    """A partition with a question."""

    topic_partition: TopicPartition
    topic_id: Uuid
    source_epoch: int
    question: Question | None


async def ask_source(runtime: Runtime, end_point: SourceEndPoint, asking: Sequence[Asking]) -> dict[TopicPartition, object]:
    """One answer for each, or what kept it away in its place. Batches come up to 8 MiB a request, for a source leaves out what is beyond."""
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
            answers[topic_partition] = SourceError(f"the answer to {api} leaves {topic_partition} out")
        elif isinstance(answer, Errors):
            answers[topic_partition] = SourceError(f"{api} of {topic_partition}: {answer.name}", answer)
        else:
            answers[topic_partition] = answer
