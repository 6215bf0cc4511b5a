"""A record is compared by the same values however many its batch has."""

from __future__ import annotations

import random
from unittest.mock import patch

import pytest

from kmirror.common.errors import ApiException
from kmirror.record.builder import build_batch, empty_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch, TimestampType, iter_batches
from kmirror.verify import compared_record
from kmirror.verify.compared_record import ComparedRecord, records_of


def both_ways(batch: RecordBatch) -> list[list[ComparedRecord] | str]:
    found: list[list[ComparedRecord] | str] = []
    for few in (0, 1 << 30):
        with patch.object(compared_record, "FEW_RECORDS", few):
            try:
                found.append(records_of(batch))
            except ApiException as error:
                found.append(error.message)
    return found


def random_batch(chance: random.Random) -> bytes:
    count = chance.randrange(1, 12)
    time = chance.choice((0, 1_750_000_000_000))

    def text(longest: int) -> bytes | None:
        return chance.choice((None, b"", bytes(chance.randrange(256) for _ in range(chance.randrange(longest)))))

    rows = [
        Record(50 + 2 * row, time + chance.choice((0, 1, -5, 1 << 40)), text(200), text(300), [("h", text(5))] * chance.choice((0, 0, 2)))
        for row in range(count)
    ]
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": (1 << 31) - 3, "is_transactional": chance.random() < 0.5}
    extra = producer if chance.random() < 0.5 else {}
    kind = chance.choice((TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME))
    codec = chance.choice((CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4))
    return bytes(build_batch(rows, base_offset=50, compression=codec, timestamp_type=kind, **extra))


@pytest.mark.parametrize("seed", range(40))
def test_one_by_one_and_as_columns(seed: int) -> None:
    chance = random.Random(seed)
    data = random_batch(chance)
    (batch,) = iter_batches(data)
    one, other = both_ways(batch)
    assert one == other and len(one) == batch.record_count
    damaged = bytearray(data)
    for _ in range(30):
        damaged[:] = data
        damaged[chance.randrange(57, len(data))] ^= 1 << chance.randrange(8)
        one, other = both_ways(RecordBatch(bytes(damaged), 0))
        assert isinstance(one, str) == isinstance(other, str) and (isinstance(one, str) or one == other)


def test_control_batches() -> None:
    marker = build_end_transaction_marker(
        ControlRecordType.ABORT, coordinator_epoch=3, producer_id=7, producer_epoch=1, timestamp=5, base_offset=9
    )
    for data in (marker, build_mirror_pid_reset("c" * 22, timestamp=5, base_offset=9)):
        (batch,) = iter_batches(bytes(data))
        one, other = both_ways(batch)
        assert one == other and len(one) == 1
        assert both_ways(next(iter_batches(bytes(empty_batch(batch))))) == [[], []]
