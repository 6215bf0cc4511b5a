"""Pure decisions about cuts and epochs (C2, C3, C35, D4, D5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kmirror.common.sentinels import NO_EPOCH
from kmirror.mirror.logs.log_alignment import (
    AlignmentHeader,
    AlignmentPoint,
    Transaction,
    TransactionScan,
    alignment_point,
    headers,
    last_mirror_epoch_to_store,
    lso_fixpoint,
    minimum_epoch_to_bump_above,
    summarize,
)
from kmirror.record.control_record import build_mirror_pid_reset


def data(base: int, last: int | None = None, *, epoch: int = 0, producer: int = -1, transactional: bool = False) -> AlignmentHeader:
    end = base if last is None else last
    return AlignmentHeader(base, end, epoch, producer, transactional, False, None, end - base + 1, 100)


def marker(base: int, producer: int, *, epoch: int = 0) -> AlignmentHeader:
    return AlignmentHeader(base, base, epoch, producer, True, True, None, 1, 78)


def reset(base: int, source: str, *, epoch: int) -> AlignmentHeader:
    return AlignmentHeader(base, base, epoch, -1, False, True, source, 1, 98)


KIP_LOG = [
    data(0, producer=4001, transactional=True),
    data(1, producer=4001, transactional=True),
    data(2, producer=4002, transactional=True),
    marker(3, 4001),
    marker(4, 4002),
    data(5),
]


@pytest.mark.parametrize(("through", "expected"), [(1, 0), (3, 0), (4, 5), (5, 6)])
def test_s9_lso_fixpoint_of_the_kips_log(through: int, expected: int) -> None:
    scan = TransactionScan()
    for header in KIP_LOG[: through + 1]:
        scan.add(header)
    assert lso_fixpoint(scan.transactions(), through + 1) == expected


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=24))
def test_after_the_fixpoint_no_transaction_is_open(steps: list[tuple[int, bool]]) -> None:
    log = []
    for offset, (producer, ends) in enumerate(steps):
        log.append(marker(offset, producer) if ends else data(offset, producer=producer, transactional=True))
    scan = TransactionScan()
    for header in log:
        scan.add(header)
    cut = lso_fixpoint(scan.transactions(), len(log))
    again = TransactionScan()
    for header in log[:cut]:
        again.add(header)
    assert all(transaction.marker_offset is not None for transaction in again.transactions())
    if cut < len(log):
        assert any(t.first_offset == cut for t in scan.transactions())


def test_a_reset_ends_open_transactions() -> None:
    scan = TransactionScan()
    for header in (data(0, producer=7, transactional=True), reset(1, "A", epoch=3)):
        scan.add(header)
    assert scan.transactions() == [Transaction(7, 0, 1)]


def test_last_mirror_epoch_counts_batches_before_the_last_own_reset() -> None:
    log = [data(0, 9, epoch=1), reset(10, "A", epoch=2), data(11, epoch=2)]
    assert summarize(log, "A").last_mirror_epoch == 1
    assert summarize(log, "B").last_mirror_epoch == 2
    assert summarize([*log, reset(12, "B", epoch=4)], "A").last_mirror_epoch == 4


def test_last_mirror_epoch_of_an_empty_log_is_none() -> None:
    assert last_mirror_epoch_to_store(summarize([], "A"), stored_epoch=3, was_mirroring=True) == NO_EPOCH


def test_f6_own_epochs_are_not_stored_when_it_never_mirrored() -> None:
    summary = summarize([data(0, 9, epoch=5)], "A")
    assert last_mirror_epoch_to_store(summary, stored_epoch=-1, was_mirroring=False) == NO_EPOCH
    assert last_mirror_epoch_to_store(summary, stored_epoch=3, was_mirroring=False) == 3
    assert last_mirror_epoch_to_store(summary, stored_epoch=3, was_mirroring=True) == 5


def test_f15_bump_is_above_log_stored_epoch_and_source() -> None:
    summary = summarize([data(0, epoch=2)], "A")
    assert minimum_epoch_to_bump_above(summary, stored_epoch=5, highest_source_epoch=7) == 7
    assert minimum_epoch_to_bump_above(summary, stored_epoch=5, highest_source_epoch=-1) == 5
    assert minimum_epoch_to_bump_above(summary, stored_epoch=-1, highest_source_epoch=-1) == 2


@pytest.mark.parametrize(
    ("log", "stored", "leader_epoch", "expected"),
    [
        ([data(0, 4, epoch=1), reset(5, "A", epoch=2)], 1, 2, True),
        ([data(0, 4, epoch=1), reset(5, "A", epoch=2)], 0, 2, False),
        ([data(0, 4, epoch=1), reset(5, "A", epoch=2)], 1, 1, False),
        ([data(0, 4, epoch=1), reset(5, "B", epoch=2)], 1, 2, False),
        ([data(0, 4, epoch=1), reset(5, "A", epoch=2), data(6, epoch=2)], 1, 2, False),
        ([reset(0, "A", epoch=1)], -1, 1, True),
        ([], -1, 1, False),
    ],
)
def test_d4_step_0(log: list[AlignmentHeader], stored: int, leader_epoch: int, expected: bool) -> None:
    assert summarize(log, "A").ends_in_own_reset(stored_epoch=stored, leader_epoch=leader_epoch) is expected


@pytest.mark.parametrize(
    ("epoch", "above", "expected"),
    [
        (NO_EPOCH, None, AlignmentPoint(0, True)),
        (3, None, AlignmentPoint(100, False)),
        (3, 60, AlignmentPoint(60, False)),
        (0, 20, AlignmentPoint(20, True)),
    ],
)
def test_d5_step_2(epoch: int, above: int | None, expected: AlignmentPoint) -> None:
    assert alignment_point(epoch, above, has_batches=True, log_start_offset=20, log_end_offset=100) == expected


def test_c3_empty_log_is_not_cut_by_a_known_epoch() -> None:
    assert alignment_point(4, None, has_batches=False, log_start_offset=7, log_end_offset=7) == AlignmentPoint(7, False)


def test_reset_batch_is_recognised_by_its_source() -> None:
    batch = build_mirror_pid_reset("dc-east", timestamp=1_771_239_071_191, base_offset=10, partition_leader_epoch=2)
    (header,) = headers(batch)
    assert header == AlignmentHeader(10, 10, 2, -1, False, True, "dc-east", 1, len(batch))
