"""Batches of any kind, and `UnifiedLog`s in a temporary log dir."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from kmirror.common.errors import ApiException, Errors
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog
from support.logs.storage_doubles import StorageWorld

NOW = 1_750_000_000_000


def batch(count: int = 1, *, base_offset: int = 0, size: int = 10, timestamp: int = NOW, epoch: int = -1, **fields: Any) -> bytearray:
    records = [Record(base_offset + index, timestamp, b"k", bytes(size), [], -1) for index in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch, **fields)


def producer_batch(
    sequence: int, *, producer_id: int = 5, producer_epoch: int = 0, transactional: bool = False, count: int = 1
) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, is_transactional=transactional)


def marker(control_type: ControlRecordType, producer_id: int = 5, producer_epoch: int = 0) -> bytearray:
    return build_end_transaction_marker(
        control_type, coordinator_epoch=1, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=NOW
    )


class Logs:
    """Opens logs in a temporary log dir."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.world = StorageWorld(NOW)

    def open(
        self, *, verification: bool = False, clean: bool = True, recovery_point: int = 0, log_start_offset: int = 0, **config: Any
    ) -> UnifiedLog:
        return UnifiedLog.open(
            str(self.root / "topic-0"),
            LogConfig(**config),
            self.world.ports,
            LogOpenOptions(
                last_shutdown_clean=clean,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                producer_state_config=ProducerStateManagerConfig(transaction_verification_enabled=verification),
            ),
        )

    def names(self) -> list[str]:
        return sorted(path.name for path in (self.root / "topic-0").iterdir())


def produce(log: UnifiedLog, *batches: bytearray, epoch: int = 0, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    for records in batches:
        log.append_as_leader(records, leader_epoch=epoch, origin=origin)
    log.update_high_watermark(log.log_end_offset)


def error_of(log: UnifiedLog, records: bytearray, **options: Any) -> Errors:
    with pytest.raises(ApiException) as caught:
        log.append_as_leader(records, leader_epoch=0, **options)
    return caught.value.error
