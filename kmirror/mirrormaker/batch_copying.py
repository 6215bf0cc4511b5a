"""What becomes of a batch that was fetched from the source: the decision, and batches made anew.

The target gets, record for record, what Apache's MirrorMaker 2 writes: key, value, headers and
timestamp of each record, with offsets that have no gaps. If a batch has just that in itself, its
bytes are sent on behind a new header (PASS_ON). Otherwise it is unpacked, and its records are packed
anew (REWRITE), because

    it begins before the position             records below the position were copied before
    its offsets have gaps                     the log was compacted
    its times are the broker's                LogAppendTime: the records have no times of their own
    a record may have no time                 -1 becomes the time of copying, as in Kafka's producer
    the producer is told to use a codec       compression.type of the target's producer
    it is larger than max.request.size        it becomes several batches
    it is tiny and others came with it        a request takes one batch of a partition

Tiny batches (a producer without linger at the source writes them) are passed on one by one while
they come one by one. A backlog of them is joined (`in_runs`), up to batch.size: with one batch of a
partition a request and five requests in flight, a slow target would take hardly more of them than
come in, and what has piled up would never arrive.

Control batches, and batches that compaction has emptied, hold no records and are left out
(LEAVE_OUT). Batches of aborted transactions never get here with isolation.level=read_committed; with
read_uncommitted they are copied as any other.

A target topic with a compression.type of its own needs nothing here: its broker recompresses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol

from kmirror.clients.consumer.consumer_types import ConsumedBatch
from kmirror.clients.producer_config import ProducerConfig
from kmirror.common.errors import ApiException, Errors
from kmirror.record.builder import RecordBatchBuilder
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import COMPRESSION_MASK, CONTROL_FLAG, CURRENT_MAGIC, LOG_APPEND_TIME_FLAG, RecordBatch
from kmirror.record.renumbering import renumbered

TINY_BYTES: Final = 2_048
TINY_RECORDS: Final = 4
"""What is no larger costs more as a batch of its own than its records cost when they are packed anew."""


RUN_BYTES: Final = 1 << 20


class Copying(Enum):
    PASS_ON = 1
    REWRITE = 2
    LEAVE_OUT = 3


class TargetRules(NamedTuple):
    """What the target's producer is configured with. Sizes are bytes. `codec` is None unless
    compression.type is set; `run_bytes` is how much is given to the producer at a time.
    """

    max_request_size: int = 1_048_576
    codec: CompressionType | None = None
    level: int | None = None
    batch_size: int = 16_384
    run_bytes: int = RUN_BYTES


def target_rules(producer: ProducerConfig, *, has_codec: bool) -> TargetRules:
    """The rules of a target's producer; with `has_codec` its compression.type was set."""
    codec = producer.compression if has_codec else None
    level = producer.compression_level if has_codec else None
    return TargetRules(producer.max_request_size, codec, level, producer.batch_size, min(RUN_BYTES, producer.buffer_memory // 4))


class BatchFacts(Protocol):
    """What the decision depends on, all of it in the header of a `RecordBatch`. Times are ms."""

    @property
    def magic(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_in_bytes(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...


class NewBatch(NamedTuple):
    """A batch for the target, and the source's offset of each of its records."""

    data: bytearray
    upstream_offsets: Sequence[int]


Run = tuple[Copying, Sequence[ConsumedBatch]]
"""Neighbours with one fate."""


def copying(batch: BatchFacts, position: int, rules: TargetRules) -> Copying:
    """Decides; the module's docstring has the reasons. `position` is the next offset that the
    target has not.
    """
    attributes, base_offset, last_delta = batch.attributes, batch.base_offset, batch.last_offset_delta
    if attributes & CONTROL_FLAG or not batch.record_count or base_offset + last_delta < position:
        return Copying.LEAVE_OUT
    if (
        batch.magic != CURRENT_MAGIC
        or base_offset < position
        or last_delta + 1 != batch.record_count
        or attributes & LOG_APPEND_TIME_FLAG
        or batch.base_timestamp < 0
        or batch.max_timestamp < 0
        or (rules.codec is not None and rules.codec != attributes & COMPRESSION_MASK)
        or batch.size_in_bytes > rules.max_request_size
    ):
        return Copying.REWRITE
    return Copying.PASS_ON


def in_runs(batches: Sequence[ConsumedBatch], rules: TargetRules) -> Iterator[Run]:
    """Splits what came of one partition into runs with one fate: batches to pass on, up to
    `rules.run_bytes` together; several tiny batches of one codec, that are to be one batch at the
    target (REWRITE); any other batch alone.
    """
    run: list[ConsumedBatch] = []
    size = 0
    is_run_tiny = False
    came_alone = len(batches) == 1
    for consumed in batches:
        batch = consumed.batch
        what = copying(batch, consumed.position, rules)
        more = batch.size_in_bytes
        is_tiny = batch.record_count <= TINY_RECORDS and more <= TINY_BYTES and not came_alone and batch.magic == CURRENT_MAGIC
        if what is Copying.LEAVE_OUT or (what is Copying.REWRITE and not is_tiny):
            if run:
                yield _fate(run, is_run_tiny, rules), run
            yield what, [consumed]
            run, size = [], 0
            continue
        if run and (
            is_tiny is not is_run_tiny
            or size + more > (rules.batch_size if is_tiny else rules.run_bytes)
            or (is_tiny and batch.compression != run[0].batch.compression)
        ):
            yield _fate(run, is_run_tiny, rules), run
            run, size = [], 0
        is_run_tiny = is_tiny
        run.append(consumed)
        size += more
    if run:
        yield _fate(run, is_run_tiny, rules), run


def _fate(run: list[ConsumedBatch], is_tiny: bool, rules: TargetRules) -> Copying:
    if is_tiny and len(run) == 1:
        return copying(run[0].batch, run[0].position, rules)
    return Copying.REWRITE if is_tiny else Copying.PASS_ON


def joined(run: Sequence[ConsumedBatch], rules: TargetRules, now_ms: int) -> list[NewBatch]:
    """Packs the records of a run; errors as in `rewritten`."""
    codec = run[0].batch.compression if rules.codec is None else rules.codec
    records = [record for consumed in run for record in consumed.batch.records() if record.offset >= consumed.position]
    return packed(records, codec, rules, now_ms)


def rewritten(batch: RecordBatch, position: int, rules: TargetRules, now_ms: int) -> list[NewBatch]:
    """Unpacks a batch and packs its records from `position` on, as few batches as
    max.request.size allows.

    MESSAGE_TOO_LARGE for a record that is too large by itself; CORRUPT_MESSAGE for a batch that
    cannot be read.
    """
    codec = batch.compression if rules.codec is None else rules.codec
    new = renumbered(batch, position, codec, rules.level)
    if new is not None and not new.offsets:
        return []
    if new is not None and len(new.data) <= rules.max_request_size:
        return [NewBatch(new.data, new.offsets)]
    records = [record for record in batch.records() if record.offset >= position]
    return packed(records, codec, rules, now_ms)


def packed(records: Sequence[Record], codec: CompressionType, rules: TargetRules, now_ms: int) -> list[NewBatch]:
    """Packs records into batches with offsets from 0 on. A record without a time gets `now_ms`."""
    if not records:
        return []
    builder = RecordBatchBuilder(compression=codec, compression_level=rules.level)
    for index, record in enumerate(records):
        timestamp = now_ms if record.timestamp < 0 else record.timestamp
        builder.append(index, timestamp, record.key, record.value, record.headers)
    data = builder.build()
    if len(data) <= rules.max_request_size:
        return [NewBatch(data, [record.offset for record in records])]
    if len(records) == 1:
        raise ApiException(
            Errors.MESSAGE_TOO_LARGE,
            f"The message is {len(data)} bytes when serialized which is larger than {rules.max_request_size}, which is the value of the "
            "max.request.size configuration.",
        )
    middle = len(records) // 2
    return packed(records[:middle], codec, rules, now_ms) + packed(records[middle:], codec, rules, now_ms)
