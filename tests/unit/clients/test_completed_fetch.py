"""What an application sees of a Fetch: transactions, positions, old formats, damage."""

from __future__ import annotations

import struct

import pytest
from support.logs.old_messages import message

from kmirror.clients.consumer.completed_fetch import CompletedFetch
from kmirror.common.errors import ApiException, Errors
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType, compress
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.messages.fetch import AbortedTransaction, PartitionData

T0 = TopicPartition("t", 0)


def plain(base_offset: int, count: int, *, producer: int = -1, codec: CompressionType = CompressionType.NONE) -> bytes:
    records = [Record(base_offset + index, 1000, None, f"v{base_offset + index}".encode(), []) for index in range(count)]
    if producer < 0:
        return bytes(build_batch(records, base_offset=base_offset, compression=codec, partition_leader_epoch=3))
    batch = build_batch(records, base_offset=base_offset, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    return bytes(batch)


def marker(offset: int, producer: int, kind: ControlRecordType) -> bytes:
    return bytes(
        build_end_transaction_marker(kind, producer_id=producer, producer_epoch=0, base_offset=offset, timestamp=1, coordinator_epoch=0)
    )


def fetched(
    data: bytes, offset: int = 0, *, committed: bool = True, aborted: tuple[tuple[int, int], ...] = (), crcs: bool = True
) -> CompletedFetch:
    entries = [AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in aborted]
    row = PartitionData(records=data, aborted_transactions=entries, high_watermark=100, log_start_offset=0, last_stable_offset=100)
    return CompletedFetch(T0, row, offset, read_committed=committed, check_crcs=crcs)


def offsets(completed: CompletedFetch, limit: int = 1000) -> list[int]:
    return [record.offset for record in completed.fetch_records(limit)]


COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
LOG = b"".join(
    (
        plain(0, 2),
        plain(2, 2, producer=7),
        plain(4, 1, producer=8),
        marker(5, 7, ABORT),
        plain(6, 1, producer=7),
        marker(7, 8, COMMIT),
        marker(8, 7, COMMIT),
        plain(9, 1, producer=7),
        marker(10, 7, ABORT),
    )
)
ABORTED = ((7, 2), (7, 9))


def test_aborted_records_are_not_seen() -> None:
    completed = fetched(LOG, aborted=ABORTED)
    assert offsets(completed) == [0, 1, 4, 6]
    assert completed.next_fetch_offset == 11, "the position goes behind what was not shown"
    assert completed.is_consumed


def test_read_uncommitted_sees_them_but_no_markers() -> None:
    assert offsets(fetched(LOG, aborted=ABORTED, committed=False)) == [0, 1, 2, 3, 4, 6, 9]


def test_batches_keep_markers_and_leave_out_what_was_aborted() -> None:
    completed = fetched(LOG, aborted=ABORTED)
    result = completed.fetch_batches(1 << 20)
    assert result is not None
    assert [(one.batch.base_offset, one.is_control) for one in result.batches] == [
        (0, False),
        (4, False),
        (5, True),
        (6, False),
        (7, True),
        (8, True),
        (10, True),
    ]
    assert (result.position, result.next_offset) == (0, 11)
    assert completed.fetch_batches(1 << 20) is None


def test_batches_are_views_of_the_answer() -> None:
    data = plain(0, 3, codec=CompressionType.GZIP)
    result = fetched(data).fetch_batches(1 << 20)
    assert result is not None
    assert result.batches[0].data.obj is data
    assert result.batches[0].data == data


def test_batches_come_in_portions_of_at_least_one() -> None:
    completed = fetched(plain(0, 2) + plain(2, 2) + plain(4, 2))
    assert [(result := completed.fetch_batches(1)) and result.next_offset for _ in range(4)] == [2, 4, 6, None]


def test_only_aborted_batches_move_the_position() -> None:
    result = fetched(plain(0, 2, producer=7) + plain(2, 1, producer=7), aborted=((7, 0),)).fetch_batches(1 << 20)
    assert result is not None
    assert (result.batches, result.next_offset) == ([], 3)


def test_records_below_the_position_are_skipped() -> None:
    completed = fetched(plain(0, 5), 3)
    assert offsets(completed) == [3, 4]
    result = fetched(plain(0, 5), 3).fetch_batches(1 << 20)
    assert result is not None
    assert (result.batches[0].position, result.batches[0].next_offset) == (3, 5)


def test_portions_of_records_go_on_where_they_ended() -> None:
    completed = fetched(plain(0, 3) + plain(3, 3))
    assert [offsets(completed, 2) for _ in range(4)] == [[0, 1], [2, 3], [4, 5], []]
    assert completed.next_fetch_offset == 6


def test_records_then_batches() -> None:
    completed = fetched(plain(0, 3) + plain(3, 3))
    assert offsets(completed, 2) == [0, 1]
    result = completed.fetch_batches(1 << 20)
    assert result is not None
    assert [(one.batch.base_offset, one.position) for one in result.batches] == [(0, 2), (3, 3)]


def test_a_batch_whose_last_records_were_compacted_away_does_not_stop_the_reader() -> None:
    batch = bytearray(build_batch([Record(0, 1, b"k", b"v", [])], base_offset=0))
    struct.pack_into(">i", batch, 23, 4)
    completed = fetched(bytes(batch), crcs=False)
    assert offsets(completed) == [0]
    assert offsets(completed) == []
    assert completed.next_fetch_offset == 5


def test_an_incomplete_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    completed = fetched(plain(0, 2) + plain(2, 2)[:-1])
    assert offsets(completed) == [0, 1]
    assert completed.next_fetch_offset == 2


@pytest.mark.parametrize("batches", [False, True])
def test_damage_is_told_after_what_is_sound_and_again_and_again(batches: bool) -> None:
    damaged = bytearray(plain(2, 2))
    damaged[-1] ^= 1
    completed = fetched(plain(0, 2) + bytes(damaged))
    if batches:
        result = completed.fetch_batches(1 << 20)
        assert result is not None
        assert result.next_offset == 2
    else:
        assert offsets(completed) == [0, 1]
    for _ in range(2):
        with pytest.raises(ApiException, match=r"Record batch for partition t-0 at offset 2 is invalid") as caught:
            completed.fetch_batches(1) if batches else completed.fetch_records(1)
        assert caught.value.error is Errors.CORRUPT_MESSAGE
    assert completed.next_fetch_offset == 2


def test_a_batch_that_does_not_fit_into_memory_now_is_not_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its iterator had ended with the error, and the next call took it for read."""
    completed = fetched(plain(0, 3, codec=CompressionType.GZIP))

    def body(self: RecordBatch) -> memoryview:
        raise MemoryError

    monkeypatch.setattr(RecordBatch, "body", body)
    with pytest.raises(MemoryError):
        completed.fetch_records(10)
    assert offsets(completed) == []
    assert (completed.next_fetch_offset, completed.is_consumed) == (0, True)


def test_check_crcs_off_shows_what_is_there() -> None:
    damaged = bytearray(plain(0, 1))
    damaged[-2] ^= 1
    assert offsets(fetched(bytes(damaged), crcs=False)) == [0]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_formats_are_read(magic: int, codec: int) -> None:
    inner = [message(index if magic else 4 + index, b"v%d" % index, magic=magic) for index in range(3)]
    if codec:
        data = message(6, bytes(compress(CompressionType(codec), b"".join(inner))), magic=magic, codec=codec)
    else:
        data = b"".join(message(4 + index, b"v%d" % index, magic=magic) for index in range(3))
    completed = fetched(data + plain(7, 1), 5)
    records = completed.fetch_records(10)
    assert [(record.offset, record.value, record.timestamp) for record in records] == [
        (5, b"v1", 55 if magic else -1),
        (6, b"v2", 55 if magic else -1),
        (7, b"v7", 1000),
    ]
    assert completed.next_fetch_offset == 8


def test_old_formats_have_no_batches() -> None:
    with pytest.raises(ApiException) as caught:
        fetched(message(0, b"v", magic=1)).fetch_batches(1 << 20)
    assert caught.value.error is Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_records_go_on_where_batches_end_because_the_format_is_old() -> None:
    """The error was kept: a copy that changed over to records got it again and again, for ever."""
    completed = fetched(plain(0, 2) + message(2, b"v2", magic=1) + message(3, b"v3", magic=1) + plain(4, 1))
    whole = completed.fetch_batches(1 << 20)
    assert whole is not None
    assert whole.next_offset == 2
    for _ in range(2):
        with pytest.raises(ApiException, match="t-0 has messages of format v1 at offset 2"):
            completed.fetch_batches(1 << 20)
    assert offsets(completed, 1) == [2]
    with pytest.raises(ApiException, match="t-0 has messages of format v1 at offset 3"):
        completed.fetch_batches(1 << 20)
    assert offsets(completed, 1) == [3]
    rest = completed.fetch_batches(1 << 20)
    assert rest is not None
    assert (rest.position, rest.next_offset) == (4, 5)


def test_a_damaged_old_message() -> None:
    data = bytearray(message(0, b"v", magic=1))
    data[-1] ^= 1
    with pytest.raises(ApiException, match="stored crc"):
        fetched(bytes(data)).fetch_records(1)


THREE = (plain(20, 3), plain(23, 3), plain(26, 3))
UNPROTECTED_BYTES = 12
"""The base offset and the length of a batch: its CRC does not cover them."""


def read_to_the_end(completed: CompletedFetch) -> tuple[list[int], bool]:
    """The offsets that an application sees, and whether it is told of damage."""
    seen: list[int] = []
    while not completed.is_consumed:
        try:
            seen += offsets(completed)
        except ApiException:
            return seen, True
    return seen, False


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("bit", range(8 * UNPROTECTED_BYTES))
def test_a_flipped_bit_that_no_crc_covers_lost_records_without_a_word(number: int, bit: int) -> None:
    damaged = bytearray(THREE[number])
    damaged[bit // 8] ^= 0x80 >> bit % 8
    batches = [bytes(damaged) if place == number else sound for place, sound in enumerate(THREE)]
    completed = fetched(b"".join(batches), 20)
    seen, is_told = read_to_the_end(completed)
    if is_told:
        return
    position = completed.next_fetch_offset
    missing = [offset for offset in range(20, min(position, 29)) if offset not in seen]
    if number == 2:
        shifted = sorted(set(seen) - set(range(20, 29)))
        assert not missing or shifted, "a last batch that lies too high looks like a cleaned log"
    else:
        assert missing == [], (number, bit, seen, position)


def test_a_first_batch_below_the_offset_that_was_asked_for_was_skipped() -> None:
    """A base offset that is too low made the reader take a whole batch for one that it had seen."""
    seen, is_told = read_to_the_end(fetched(plain(4, 3) + plain(23, 3), 20))
    assert (seen, is_told) == ([], True)


def test_a_batch_beyond_the_high_watermark_is_out_of_place() -> None:
    seen, is_told = read_to_the_end(fetched(plain(20, 3) + plain(98, 3), 20))
    assert (seen, is_told) == ([20, 21, 22], True)


def with_epoch(data: bytes, epoch: int) -> bytes:
    return data[:12] + epoch.to_bytes(4, "big", signed=True) + data[16:]


@pytest.mark.parametrize(("epochs", "seen"), [((3, 2, 3), [20, 21, 22]), ((3, 1 << 20, 3), list(range(20, 26))), ((-7, 3, 3), [])])
def test_a_leader_epoch_that_falls_is_out_of_place(epochs: tuple[int, ...], seen: list[int]) -> None:
    """No CRC covers it; it was the epoch of the position, and of what the application commits."""
    data = b"".join(with_epoch(one, epoch) for one, epoch in zip(THREE, epochs))
    assert read_to_the_end(fetched(data, 20)) == (seen, True)
    assert read_to_the_end(fetched(data, 20, crcs=False)) == (list(range(20, 29)), False)


@pytest.mark.parametrize("epochs", [(3, -1, 3), (-1, 0, 4)])
def test_batches_without_a_leader_epoch_may_lie_between(epochs: tuple[int, ...]) -> None:
    data = b"".join(with_epoch(one, epoch) for one, epoch in zip(THREE, epochs))
    assert read_to_the_end(fetched(data, 20)) == (list(range(20, 29)), False)
