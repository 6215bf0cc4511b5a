"""Transactional batches and markers at a scripted source, and a partition that is stopped there."""

from __future__ import annotations

from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from support.mirrors.mirror_machine import MIRROR, OWN_CLUSTER_ID, T0
from support.mirrors.scripted_source import batch

STOPPED_THERE = {MIRROR: (OWN_CLUSTER_ID, {T0: ("STOPPED", 1)})}


def transactional(offset: int, producer_id: int, *values: bytes, epoch: int = 0, sequence: int = 0) -> bytes:
    return batch(offset, *values, epoch=epoch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def marker(offset: int, producer_id: int, *, epoch: int = 0, commit: bool = True) -> bytes:
    return bytes(
        build_end_transaction_marker(
            ControlRecordType.COMMIT if commit else ControlRecordType.ABORT,
            coordinator_epoch=0, producer_id=producer_id, producer_epoch=0, timestamp=1_750_000_000_000, base_offset=offset,
            partition_leader_epoch=epoch,
        )
    )  # fmt: skip
