"""What only one side has at its front, of any two logs: counted as a reader would count it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.mirrors.scripted_source import batch

from kmirror.common.topic_partition import TopicPartition
from kmirror.record.control_record import build_mirror_pid_reset
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.verify.fetched_log import FetchedLog
from kmirror.verify.front import front_range, scan_front

T0 = TopicPartition("t", 0)
SIZES = st.lists(st.integers(0, 4), min_size=1, max_size=12)
"""Records of each batch; 0 is a control batch."""


def log_of(sizes: list[int], gaps: list[int]) -> list[bytes]:
    """Returns batches, with holes of the given sizes between them, as a cleaner leaves them."""
    made, offset = [], 0
    for index, size in enumerate(sizes):
        offset += gaps[index % len(gaps)] if gaps else 0
        if size:
            made.append(batch(offset, *[b"v"] * size))
        else:
            reset = bytearray(build_mirror_pid_reset("x", timestamp=0))
            reset[:8] = offset.to_bytes(8, "big")
            made.append(bytes(reset))
        offset += size or 1
    return made


@given(SIZES, st.lists(st.integers(0, 2), max_size=4), st.data())
def test_the_records_of_a_front_are_those_that_a_reader_of_one_side_alone_finds(
    sizes: list[int], gaps: list[int], data: st.DataObject
) -> None:
    batches = log_of(sizes, gaps)
    end = RecordBatch(batches[-1]).next_offset
    left_start, right_start, mirrored_end = (data.draw(st.integers(0, end)) for _ in range(3))
    log = FetchedLog(
        "log",
        T0,
        lambda offset: b"".join(one for one in batches if RecordBatch(one).last_offset >= offset),
        log_start_offset=min(left_start, right_start),
        high_watermark=end,
    )
    records = {
        record.offset for data_batch in iter_batches(b"".join(batches)) if not data_batch.is_control for record in data_batch.records()
    }
    found = front_range(left_start, right_start, mirrored_end)
    readable = {offset for offset in records if min(left_start, right_start) <= offset < mirrored_end}
    alone = {offset for offset in readable if offset < max(left_start, right_start)}
    if found is None:
        assert not alone
        return
    assert found.only_in_left == (left_start < right_start)
    assert scan_front(log, found).record_count == len(alone)
