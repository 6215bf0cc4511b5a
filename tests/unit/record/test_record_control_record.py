"""Control batches: the bytes that Kafka and KIP-1279 print."""

from __future__ import annotations

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.record.builder import build_batch
from kmirror.record.control_record import (
    ControlRecordType,
    EndTransactionMarker,
    build_end_transaction_marker,
    build_leader_change,
    build_mirror_pid_reset,
    build_snapshot_footer,
    build_snapshot_header,
)
from kmirror.record.record import Record
from kmirror.record.record_batch import RecordBatch
from kmirror.wire.messages.leader_change_message import LeaderChangeMessage, Voter

COMMIT = (
    "000000000000000300000042000000020207e104ce0030000000000000019c66135dd70000019c66135dd70000000000000fa10000ffffffff"
    "000000012000000008000000010c00000000000500"
)
PID_RESET = (
    "000000000000000a0000005600000002029fb04a120020000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff"
    "00000001480000000800000007340000176c427131326a595a52702d397746334d394d506f70670000"
)
STATE_0 = (
    "0000000000000000000000560000000002c594acc90000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff"
    "00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000000000"
)
STATE_1 = (
    "0000000000000001000000560000000002ec8e44a10000000000000000019c66135df30000019c66135df3ffffffffffffffffffffffffffff"
    "00000001480000001a000200096d792d6d6972726f72220000096d792d746f70696300000000010000"
)
EPOCHS = (
    "0000000000000002000000660000000002ad8e3ac50000000000000000019c66135dd70000019c66135dd7ffffffffffffffffffffffffffff"
    "00000001680000001a000100096d792d6d6972726f7242000002096d792d746f70696303000000000000000100000000010000000300000000"
)
TIMESTAMP = 1771239071191


def test_commit_marker_is_kafkas_78_bytes() -> None:
    batch = build_end_transaction_marker(
        ControlRecordType.COMMIT,
        coordinator_epoch=5,
        producer_id=4001,
        producer_epoch=0,
        timestamp=TIMESTAMP,
        base_offset=3,
        partition_leader_epoch=2,
    )
    assert batch.hex() == COMMIT
    assert len(batch) == 78
    record = next(RecordBatch(batch).records())
    assert EndTransactionMarker.deserialize(record) == (ControlRecordType.COMMIT, 5)


def test_mirror_pid_reset_is_the_kips_98_bytes() -> None:
    batch = build_mirror_pid_reset("lBq12jYZRp-9wF3M9MPopg", timestamp=TIMESTAMP, base_offset=10, partition_leader_epoch=2)
    assert batch.hex() == PID_RESET
    view = RecordBatch(batch)
    assert (view.is_control, view.is_transactional, view.producer_id, view.base_sequence) == (True, False, -1, -1)
    assert ControlRecordType.parse(next(view.records()).key) is ControlRecordType.MIRROR_PID_RESET


@pytest.mark.parametrize(
    ("expected", "offset", "timestamp", "key", "value"),
    [
        (STATE_0, 0, TIMESTAMP, "000200096d792d6d6972726f72", "0000096d792d746f706963000000000000"),
        (STATE_1, 1, 1771239071219, "000200096d792d6d6972726f72", "0000096d792d746f706963000000000100"),
        (EPOCHS, 2, TIMESTAMP, "000100096d792d6d6972726f72", "000002096d792d746f706963030000000000000001000000000100000003000000"),
    ],
)
def test_mirror_state_batches_have_the_crcs_that_the_kip_prints(expected: str, offset: int, timestamp: int, key: str, value: str) -> None:
    record = Record(offset, timestamp, bytes.fromhex(key), bytes.fromhex(value), [])
    assert build_batch([record], base_offset=offset, partition_leader_epoch=0).hex() == expected


def test_snapshot_and_leader_change_batches_round_trip() -> None:
    header = RecordBatch(build_snapshot_header(last_contained_log_timestamp=77, timestamp=5, kraft_version=1))
    kinds = [ControlRecordType.parse(record.key) for record in header.records()]
    assert kinds == [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.KRAFT_VERSION]
    assert next(header.records()).value == bytes.fromhex("0000000000000000004d00")
    footer = RecordBatch(build_snapshot_footer(timestamp=5, base_offset=9, partition_leader_epoch=3))
    assert (footer.base_offset, footer.partition_leader_epoch) == (9, 3)
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[Voter(voter_id=1)], granting_voters=[Voter(voter_id=1)])
    batch = RecordBatch(build_leader_change(change, timestamp=5, base_offset=0, partition_leader_epoch=1))
    assert next(batch.records()).value == bytes.fromhex("00000000000102000000010002000000010000")


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\1"])
def test_keys_that_are_no_control_record_are_invalid(key: bytes | None) -> None:
    with pytest.raises(ApiException) as raised:
        ControlRecordType.parse(key)
    assert raised.value.error is Errors.INVALID_RECORD


def test_a_type_of_the_future_is_unknown() -> None:
    assert ControlRecordType.parse(b"\0\0\0\x63") is ControlRecordType.UNKNOWN
