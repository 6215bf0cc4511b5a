"""A local log as its batch headers, read through a client and compared with the source's.

The comparison is the one that a broker makes (`mirror.log_verifier`). A client sees, on both sides,
only what lies below the high watermark, and does not know how far a cleaner has got here. So the
result is the broker's only for logs that nobody writes to or cleans meanwhile.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence

from kmirror.admin.admin_client import EARLIEST_TIMESTAMP, AdminClient
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.logs.log_alignment import AlignmentHeader
from kmirror.mirror.logs.log_questions import BatchAt, EarliestOffset, EndOfEpoch, Inquiry, Question, Verdict
from kmirror.mirror.source.source_end_point import EpochEnd, FetchedPartition
from kmirror.storage.batch_header import BatchHeader

UNKNOWN = -1


class MirrorLogView:
    """The view of a log that `mirror.log_comparison` needs.

    `headers` and `batches` are the same batches, in order.
    """

    def __init__(self, start_offset: int, end_offset: int, headers: Sequence[AlignmentHeader], batches: Sequence[BatchHeader]) -> None:
        self.log_start_offset = start_offset
        self.log_end_offset = end_offset
        self.headers = headers
        self._batches = batches
        self._bases = [batch.base_offset for batch in batches]
        self._lasts = [batch.last_offset for batch in batches]

    def batch_before(self, offset: int) -> BatchHeader | None:
        """Returns the last batch that begins before `offset`."""
        index = bisect.bisect_left(self._bases, offset)
        return self._batches[index - 1] if index else None

    def batch_containing(self, offset: int) -> BatchHeader | None:
        """Returns the first batch that ends at or after `offset`."""
        return next(self.batch_headers(offset), None)

    def batch_headers(self, start_offset: int = 0) -> Iterator[BatchHeader]:
        """Yields all batches that end at or after `start_offset`."""
        yield from self._batches[bisect.bisect_left(self._lasts, start_offset) :]


async def ask(source: AdminClient, topic_partition: TopicPartition, inquiry: Inquiry) -> Verdict:
    """Answer an inquiry's questions from the source; returns its verdict."""
    answer: object = None
    while True:
        try:
            question = inquiry.throw(answer) if isinstance(answer, Exception) else inquiry.send(answer)
        except StopIteration as ended:
            verdict: Verdict = ended.value
            return verdict
        answer = await _answer(source, topic_partition, question)


async def _answer(source: AdminClient, topic_partition: TopicPartition, question: Question) -> object:
    if isinstance(question, EarliestOffset):
        return (await source.list_offsets([topic_partition], timestamp=EARLIEST_TIMESTAMP))[topic_partition]
    if isinstance(question, EndOfEpoch):
        return EpochEnd(0, (await source.list_offsets([topic_partition]))[topic_partition])
    if not isinstance(question, BatchAt):
        return question.work()
    try:
        records = await source.fetch_records(topic_partition, question.offset, max_bytes=question.size)
    except ApiException as error:
        if error.error is not Errors.OFFSET_OUT_OF_RANGE:
            raise
        return FetchedPartition(error.error, UNKNOWN, UNKNOWN, b"", UNKNOWN, UNKNOWN)
    end = UNKNOWN if records else (await source.list_offsets([topic_partition]))[topic_partition]
    return FetchedPartition(Errors.NONE, end, UNKNOWN, records, UNKNOWN, UNKNOWN)
