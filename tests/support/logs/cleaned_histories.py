"""Two logs with a common past that cleaners have gone through: random cases, and what a mirror or a
follower must have in the end.

The oracle is brute force: it knows both histories whole, before any cleaner. A history is a list of
batches in which every offset has a record. Two clusters hand out epochs independently, so the
epochs of the two branches may be equal; producer ids are not. The cleaner of the other side dropped
tombstones of the common past only: one that is dropped before it was ever fetched is missed by
every follower of Kafka's.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from kmirror.common.errors import Errors
from kmirror.mirror.logs.log_questions import BatchAt, EarliestOffset, EndOfEpoch, Inquiry, LogAction, Verdict
from kmirror.mirror.source.source_end_point import EpochEnd, FetchedPartition
from kmirror.record.builder import build_batch, empty_batch, rebuild_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.unified_log import UnifiedLog
from support.brokers.broker_doubles import NOW_MS, BrokerWorld

BEYOND_ALL = 1 << 30
KEYS = [b"a", b"b", b"c", b"d", b"e"]


class Branch(NamedTuple):
    """What one of the two sides writes."""

    name: bytes
    producer_id: int


COMMON, OURS, THEIRS = Branch(b"common", 1000), Branch(b"ours", 2000), Branch(b"theirs", 3000)


@dataclass
class Case:
    """`*_whole`: before any cleaner; `common_end`: where the logs part; `cleaned_until`: how far
    our cleaner has been.
    """

    seed: int
    ours_whole: list[bytes] = field(default_factory=list)
    theirs_whole: list[bytes] = field(default_factory=list)
    ours: list[bytes] = field(default_factory=list)
    theirs: list[bytes] = field(default_factory=list)
    common_end: int = 0
    cleaned_until: int = 0

    @property
    def has_parted(self) -> bool:
        return end_of(self.ours_whole) > self.common_end

    @property
    def is_provable(self) -> bool:
        """Whether a batch of ours that is not theirs meets one of theirs, or lies behind their end."""
        own = [RecordBatch(each) for each in self.ours if RecordBatch(each).base_offset >= self.common_end]
        theirs = [RecordBatch(each) for each in self.theirs]
        return any(each.base_offset >= end_of(self.theirs) or any(meets(each, other) for other in theirs) for each in own)


def meets(one: RecordBatch, other: RecordBatch) -> bool:
    return one.base_offset <= other.last_offset and other.base_offset <= one.last_offset


def end_of(batches: list[bytes]) -> int:
    return RecordBatch(batches[-1]).next_offset if batches else 0


def live(batches: list[bytes]) -> dict[bytes, bytes]:
    """What a reader of the whole log ends with."""
    found: dict[bytes, bytes] = {}
    for batch in batches:
        for record in RecordBatch(batch).records():
            key = bytes(record.key or b"")
            if record.value is None:
                found.pop(key, None)
            else:
                found[key] = bytes(record.value)
    return found


def split(data: bytes) -> list[bytes]:
    """The batches in a log's bytes."""
    return [bytes(batch.memory) for batch in iter_batches(data)]


def cleaned(batches: list[bytes], until: int, *, tombstones_before: int) -> list[bytes]:
    """What a cleaner leaves: below `until` the last record of each key, without tombstones below
    `tombstones_before`.
    """
    last = {
        bytes(record.key or b""): record.offset
        for batch in batches
        if RecordBatch(batch).last_offset < until
        for record in RecordBatch(batch).records()
    }
    left = []
    for batch in batches:
        header = RecordBatch(batch)
        if header.last_offset >= until:
            left.append(batch)
            continue
        records = list(header.records())
        kept = [
            record
            for record in records
            if last[bytes(record.key or b"")] == record.offset and (record.value is not None or record.offset >= tombstones_before)
        ]
        if len(kept) == len(records):
            left.append(batch)
        elif kept:
            left.append(bytes(rebuild_batch(header, kept)))
        elif header.last_offset + 1 == until:
            left.append(bytes(empty_batch(header)))
    return left


def write(chance: random.Random, branch: Branch, start: int, count: int, epoch: int) -> list[bytes]:
    batches, offset = [], start
    for _ in range(count):
        epoch += chance.random() < 0.2
        size = chance.randint(1, 3)
        records = [
            Record(
                offset + each,
                NOW_MS + offset + each,
                chance.choice(KEYS),
                None if chance.random() < 0.3 else b"%s %d" % (branch.name, offset + each),
            )
            for each in range(size)
        ]
        batches.append(
            bytes(
                build_batch(
                    records,
                    base_offset=offset,
                    partition_leader_epoch=epoch,
                    producer_id=branch.producer_id,
                    producer_epoch=0,
                    base_sequence=offset,
                )
            )
        )
        offset += size
    return batches


def case(seed: int) -> Case:
    """A third parted, most cleaned on their side, a third on ours."""
    chance = random.Random(seed)
    found = Case(seed)
    common = write(chance, COMMON, 0, chance.randint(1, 14), 0)
    start, epoch = end_of(common), RecordBatch(common[-1]).partition_leader_epoch
    found.common_end = start
    own = write(chance, OURS, start, chance.choice((0, 0, 1, 3, 8)), epoch)
    others = write(chance, THEIRS, start, chance.choice((0, 1, 3, 8, 12)), epoch)
    found.ours_whole, found.theirs_whole = common + own, common + others
    if not own and not others and chance.random() < 0.5:
        found.theirs_whole = found.theirs_whole[: len(common) // 2 + 1]
        found.common_end = end_of(found.theirs_whole)
    found.ours, found.theirs = found.ours_whole, found.theirs_whole
    if chance.random() < 0.8:
        until = RecordBatch(chance.choice(found.theirs_whole)).base_offset
        found.theirs = cleaned(found.theirs_whole, until, tombstones_before=min(found.common_end, until))
    if chance.random() < 0.35:
        found.cleaned_until = RecordBatch(chance.choice(found.ours_whole)).base_offset
        found.ours = cleaned(found.ours_whole, found.cleaned_until, tombstones_before=chance.choice((0, found.cleaned_until)))
    return found


def verdict_of(inquiry: Inquiry, theirs: list[bytes]) -> Verdict:
    """What an inquiry comes to at a source that has these batches, its log beginning at offset 0."""
    answer: object = None
    while True:
        try:
            question = inquiry.send(answer)
        except StopIteration as ended:
            assert isinstance(ended.value, Verdict)
            return ended.value
        if isinstance(question, EarliestOffset):
            answer = 0
        elif isinstance(question, BatchAt):
            rest = b"".join(each for each in theirs if RecordBatch(each).last_offset >= question.offset)
            error = Errors.NONE if question.offset <= end_of(theirs) else Errors.OFFSET_OUT_OF_RANGE
            answer = FetchedPartition(error, end_of(theirs), 0, rest, -1, -1)
        elif isinstance(question, EndOfEpoch):
            answer = EpochEnd(max([RecordBatch(each).partition_leader_epoch for each in theirs], default=-1), end_of(theirs))
        else:
            answer = question.work()


def carried_out(verdict: Verdict, ours: list[bytes], theirs: list[bytes]) -> list[bytes]:
    """The log in the end: what the verdict leaves of ours, and what is fetched behind it."""
    if verdict.action is LogAction.START_OVER:
        return theirs
    end = verdict.offset if verdict.action is LogAction.CUT else end_of(ours)
    kept = [each for each in ours if RecordBatch(each).base_offset < end]
    return kept + [each for each in theirs if RecordBatch(each).base_offset >= end]


def keyed(*rows: tuple[int, bytes, bytes | None], epoch: int = 1) -> bytes:
    """One batch of (offset, key, value)."""
    records = [Record(offset, NOW_MS + offset, key, value) for offset, key, value in rows]
    return bytes(build_batch(records, base_offset=rows[0][0], partition_leader_epoch=epoch))


def without_records(batch: bytes, *offsets: int) -> bytes:
    """What a cleaner leaves of a batch when it takes these records."""
    header = RecordBatch(batch)
    return bytes(rebuild_batch(header, [record for record in header.records() if record.offset not in offsets]))


def log_of(tmp_path: Path, batches: list[bytes]) -> UnifiedLog:
    world = BrokerWorld(str(tmp_path))
    world.create_topic("t", configs={"cleanup.policy": "compact"})
    log = world.partition("t").local_log
    for each in batches:
        log.append_as_follower(bytearray(each), leader_epoch=99)
    return log


def batches_of(log: UnifiedLog) -> list[bytes]:
    return split(log.read(log.log_start_offset, 1 << 24, FetchIsolation.LOG_END, min_one_message=True).records.to_bytes())
