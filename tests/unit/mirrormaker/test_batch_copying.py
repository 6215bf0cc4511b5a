"""What becomes of a fetched batch, offsets that may be stored, and syncs for whole batches."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.clients.consumer.consumer_types import ConsumedBatch
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.batch_copying import Copying, TargetRules, copying, in_runs, joined, rewritten
from kmirror.mirrormaker.batch_offset_syncs import MOST_SYNCS_TOGETHER, BatchOffsetSyncWriter
from kmirror.mirrormaker.formats import OffsetSync
from kmirror.mirrormaker.offset_syncs import OffsetSyncWriter
from kmirror.mirrormaker.submitted_records import SubmittedRecords
from kmirror.record.builder import build_batch, empty_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record
from kmirror.record.record_batch import CONTROL_FLAG, LOG_APPEND_TIME_FLAG, RecordBatch, TimestampType

T1 = TopicPartition("t", 1)
T0 = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000
RULES = TargetRules()
LAST_OFFSET_DELTA_AT, RECORD_COUNT_AT = 23, 57


class Facts(NamedTuple):
    """The header of a batch, and the position that it is met at."""

    position: int = 10
    base_offset: int = 10
    last_offset_delta: int = 4
    record_count: int = 5
    size_in_bytes: int = 400
    attributes: int = CompressionType.LZ4
    base_timestamp: int = 1_000
    max_timestamp: int = 2_000
    magic: int = 2


FACTS = Facts()


@pytest.mark.parametrize(
    ("facts", "rules", "expected"),
    [
        (FACTS, RULES, Copying.PASS_ON),
        (FACTS, TargetRules(codec=CompressionType.LZ4), Copying.PASS_ON),
        (FACTS, TargetRules(codec=CompressionType.NONE), Copying.REWRITE),
        (FACTS, TargetRules(max_request_size=400), Copying.PASS_ON),
        (FACTS, TargetRules(max_request_size=399), Copying.REWRITE),
        (FACTS._replace(position=9), RULES, Copying.PASS_ON),
        (FACTS._replace(position=11), RULES, Copying.REWRITE),
        (FACTS._replace(position=14), RULES, Copying.REWRITE),
        (FACTS._replace(position=15), RULES, Copying.LEAVE_OUT),
        (FACTS._replace(record_count=4), RULES, Copying.REWRITE),
        (FACTS._replace(record_count=0), RULES, Copying.LEAVE_OUT),
        (FACTS._replace(attributes=CONTROL_FLAG), RULES, Copying.LEAVE_OUT),
        (FACTS._replace(attributes=CompressionType.LZ4 | LOG_APPEND_TIME_FLAG), RULES, Copying.REWRITE),
        (FACTS._replace(base_timestamp=-1, max_timestamp=-1), RULES, Copying.REWRITE),
        (FACTS._replace(base_timestamp=-1), RULES, Copying.REWRITE),
        (FACTS._replace(magic=1), RULES, Copying.REWRITE),
    ],
)
def test_a_batch_is_unpacked_only_for_a_reason(facts: Facts, rules: TargetRules, expected: Copying) -> None:
    assert copying(facts, facts.position, rules) is expected


RECORDS = st.lists(
    st.builds(
        lambda timestamp, key, value, headers: (timestamp, key, value, headers),
        st.integers(-1, NOW_MS) | st.integers(5_000, 5_003) | st.integers(5_000, 5_200),
        st.none() | st.binary(max_size=30),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=40,
)


@given(
    RECORDS,
    st.sampled_from(list(CompressionType)),
    st.randoms(use_true_random=False),
    st.sampled_from([600, 5_000, 1 << 20]),
    st.none() | st.sampled_from([CompressionType.NONE, CompressionType.LZ4]),
    st.booleans(),
    st.booleans(),
)
def test_new_batches_have_the_records_that_are_there(
    rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
    codec: CompressionType,
    chance: random.Random,
    max_request_size: int,
    forced: CompressionType | None,
    has_gaps: bool,
    has_append_time: bool,
) -> None:
    offset, records = 99, []
    for timestamp, key, value, headers in rows:
        offset += chance.choice([1, 1, 1, 2, 7]) if has_gaps else 1
        records.append(Record(offset, timestamp, key, value, headers))
    last_offset = offset + 3 if has_gaps else offset
    kind = TimestampType.LOG_APPEND_TIME if has_append_time else TimestampType.CREATE_TIME
    batch = RecordBatch(
        build_batch(records, base_offset=100, compression=codec, last_offset=last_offset, timestamp_type=kind, log_append_time=NOW_MS - 5)
    )
    if has_append_time:  # the records' own times stay in the payload
        records = [Record(record.offset, NOW_MS - 5, record.key, record.value, record.headers) for record in records]
    position = chance.choice([100, chance.randrange(100, offset + 1)])
    rules = TargetRules(max_request_size=max_request_size, codec=forced)
    made = rewritten(batch, position, rules, NOW_MS)
    expected = [record for record in records if record.offset >= position]
    upstream = [upstream for new in made for upstream in new.upstream_offsets]
    assert upstream == [record.offset for record in expected]
    found = []
    for new in made:
        assert len(new.data) <= max_request_size
        target = RecordBatch(new.data)
        target.ensure_valid()
        assert copying(target, 0, rules) is Copying.PASS_ON
        assert target.compression is (codec if forced is None else forced)
        assert [record.offset for record in target.records()] == list(range(target.record_count))
        found += [(record.timestamp, record.key, record.value, record.headers) for record in target.records()]
    assert [(t, k and bytes(k), v and bytes(v), h) for t, k, v, h in found] == [
        (NOW_MS if record.timestamp < 0 else record.timestamp, record.key, record.value, record.headers) for record in expected
    ]


def test_records_of_a_topic_with_log_append_time_keep_that_time() -> None:
    batch = RecordBatch(
        build_batch([Record(0, 5, b"k", b"v"), Record(1, 6, b"k", b"w")], timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time=99)
    )
    (new,) = rewritten(batch, 0, RULES, NOW_MS)
    target = RecordBatch(new.data)
    assert target.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp for record in target.records()] == [99, 99]


def test_a_record_without_a_time_between_others_gets_that_of_copying() -> None:
    batch = RecordBatch(build_batch([Record(0, 5, b"k", b"v"), Record(1, -1, b"k", b"w")], compression=CompressionType.LZ4))
    (new,) = rewritten(batch, 0, TargetRules(codec=CompressionType.NONE), NOW_MS)
    assert [record.timestamp for record in RecordBatch(new.data).records()] == [5, NOW_MS]


@pytest.mark.parametrize("kind", list(TimestampType))
@pytest.mark.parametrize("claimed", [2, 4])
def test_a_batch_with_another_number_of_records_than_it_claims_is_refused(kind: TimestampType, claimed: int) -> None:
    records = [Record(offset, 5, b"k", b"v") for offset in range(3)]
    data = build_batch(records, timestamp_type=kind, log_append_time=99)
    struct.pack_into(">i", data, LAST_OFFSET_DELTA_AT, claimed - 1)
    struct.pack_into(">i", data, RECORD_COUNT_AT, claimed)
    with pytest.raises(ApiException) as raised:
        rewritten(RecordBatch(data), 0, TargetRules(codec=CompressionType.LZ4), NOW_MS)
    assert raised.value.error is Errors.INVALID_RECORD


def test_a_record_that_is_too_large_by_itself_is_kafkas_error() -> None:
    batch = RecordBatch(build_batch([Record(0, 5, None, b"v"), Record(1, 6, None, b"w" * 2_000)]))
    with pytest.raises(ApiException, match=r"larger than 1000, which is the value of the max\.request\.size") as raised:
        rewritten(batch, 0, TargetRules(max_request_size=1_000), NOW_MS)
    assert raised.value.error is Errors.MESSAGE_TOO_LARGE


def test_a_batch_that_compaction_emptied_is_left_out() -> None:
    batch = RecordBatch(empty_batch(RecordBatch(build_batch([Record(3, 5, b"k", b"v")], base_offset=3))))
    assert copying(batch, 0, RULES) is Copying.LEAVE_OUT


def consumed(*batches: list[Record], position: int | None = None, codec: CompressionType = CompressionType.NONE) -> list[ConsumedBatch]:
    """As they come of one partition."""
    built = [RecordBatch(build_batch(records, base_offset=records[0].offset, compression=codec)) for records in batches]
    begin = built[0].base_offset if position is None else position
    return [ConsumedBatch(T0, batch, max(begin, batch.base_offset), batch.next_offset, 99, 99, 0, batch.is_control) for batch in built]


def records(begin: int, count: int, size: int = 10) -> list[Record]:
    return [Record(offset, NOW_MS + offset, b"k", b"%d" % offset * size, [("h", None)]) for offset in range(begin, begin + count)]


def test_tiny_batches_that_come_together_are_joined() -> None:
    """Each went in a request of its own, so that a slow target got hardly more of them than came in."""
    tiny = consumed(*(records(number, 1) for number in range(100)))
    assert list(in_runs(tiny, RULES)) == [(Copying.REWRITE, tiny)]
    assert list(in_runs(tiny[:1], RULES)) == [(Copying.PASS_ON, tiny[:1])], "one that comes alone is passed on"
    (new,) = joined(tiny, RULES, NOW_MS)
    made = RecordBatch(new.data)
    assert list(new.upstream_offsets) == list(range(100))
    expected = [(number, one.timestamp, one.key, one.value, one.headers) for number, one in enumerate(records(0, 100))]
    assert [(one.offset, one.timestamp, one.key, one.value, one.headers) for one in made.records()] == expected
    few = TargetRules(batch_size=3 * tiny[0].batch.size_in_bytes)
    assert [len(run) for _, run in in_runs(tiny[:8], few)] == [3, 3, 2]


def test_what_is_not_tiny_or_not_of_the_same_codec_stays_apart() -> None:
    first, large, many = consumed(records(0, 2), records(2, 3, size=1_000), records(5, 9))
    (other,) = consumed(records(14, 1), codec=CompressionType.LZ4)
    (last,) = consumed(records(15, 1))
    pass_on = Copying.PASS_ON
    assert list(in_runs([first, large, many, last], RULES)) == [(pass_on, [first]), (pass_on, [large, many]), (pass_on, [last])]
    assert list(in_runs([first, other, last], RULES)) == [(pass_on, [first]), (pass_on, [other]), (pass_on, [last])]
    assert list(in_runs([first, last], RULES)) == [(Copying.REWRITE, [first, last])]


def test_what_is_passed_on_goes_in_runs_of_a_size() -> None:
    batches = consumed(*(records(100 + 9 * number, 9) for number in range(7)))
    size = batches[0].batch.size_in_bytes
    few = TargetRules(run_bytes=3 * size + 40)
    assert [(what, len(run)) for what, run in in_runs(batches, few)] == [(Copying.PASS_ON, 3), (Copying.PASS_ON, 3), (Copying.PASS_ON, 1)]
    assert [run for _, run in in_runs(batches, few)] == [batches[:3], batches[3:6], batches[6:]]
    none = TargetRules(run_bytes=0)
    assert [len(run) for _, run in in_runs(batches, none)] == [1] * 7, "a batch that is too large goes alone"


def test_a_run_ends_before_what_is_not_passed_on() -> None:
    batches = consumed(*(records(9 * number, 9) for number in range(5)))
    batches[2] = batches[2]._replace(position=20)
    copied = batches[4]._replace(position=99)
    found = list(in_runs([*batches[:4], copied], RULES))
    assert found == [
        (Copying.PASS_ON, batches[:2]),
        (Copying.REWRITE, [batches[2]]),
        (Copying.PASS_ON, [batches[3]]),
        (Copying.LEAVE_OUT, [copied]),
    ]


def test_joined_batches_begin_at_the_position() -> None:
    run = consumed(records(0, 4), records(6, 2), position=2)
    (new,) = joined(run, TargetRules(codec=CompressionType.LZ4), NOW_MS)
    assert list(new.upstream_offsets) == [2, 3, 6, 7]
    assert RecordBatch(new.data).compression is CompressionType.LZ4


def test_an_offset_is_stored_when_everything_before_it_was_acknowledged() -> None:
    records = SubmittedRecords()
    first, second = records.submit(T0, (4, 9))
    (third,) = records.submit(T0, (14,))
    records.acknowledge(T0, [second])
    assert records.take_committable() == {}
    records.acknowledge(T0, [first])
    assert records.in_flight == 1
    taken = records.take_committable()
    assert taken == {T0: 9}
    records.acknowledge(T0, [third])
    records.give_back(taken)
    assert records.take_committable() == {T0: 14}
    records.give_back({T0: 14})
    assert records.take_committable() == {T0: 14}
    assert records.take_committable() == {}


def test_a_record_that_is_passed_over_counts_with_the_one_before_it() -> None:
    records = SubmittedRecords()
    records.pass_over(T0, 3)
    assert records.take_committable() == {T0: 3}, "nothing is on its way"
    first, second = records.submit(T0, [4]), records.submit(T0, [6])
    records.pass_over(T0, 7)
    records.pass_over(T1, 1)
    assert records.take_committable() == {T1: 1}
    records.acknowledge(T0, second)
    assert records.take_committable() == {}, "4 is on its way, and 7 comes behind it"
    records.acknowledge(T0, first)
    assert records.take_committable() == {T0: 7}


BATCHES = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2), st.integers(-5, 5), st.booleans()), min_size=1, max_size=12)


@given(BATCHES, st.integers(0, 30), st.booleans(), st.booleans())
def test_syncs_of_batches_are_those_of_their_records(
    batches: list[tuple[int, int, int, bool]], lag: int, acknowledge: bool, fails: bool
) -> None:
    by_batch, by_record = BatchOffsetSyncWriter(lag), OffsetSyncWriter(lag, max_outstanding=MOST_SYNCS_TOGETHER)
    in_flight: list[OffsetSync] = []
    upstream, downstream = 1_000, 500
    for count, gap, jump, commit in batches:
        upstream += gap
        downstream = max(0, downstream + (jump if jump in (-5, 5) else 0))
        fast = by_batch.batch_acknowledged(T0, upstream, downstream, count)
        slow = []
        for index in range(count):
            slow += by_record.record_acknowledged(T0, upstream + index, downstream + index)
        assert fast == slow
        in_flight += fast
        if commit:
            committed = by_batch.commit()
            assert committed == by_record.commit()
            in_flight += committed
        if acknowledge:
            for sync in in_flight:
                by_batch.sync_done(sync, failed=fails)
                by_record.sync_done(sync, failed=fails)
            in_flight.clear()
        assert (by_batch.pending, by_batch.delayed) == (by_record.pending, by_record.delayed)
        upstream, downstream = upstream + count, downstream + count
