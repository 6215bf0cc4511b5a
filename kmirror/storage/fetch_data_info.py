"""What `UnifiedLog.read` takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kmirror.common.ports import FileSlice
from kmirror.storage.log_offset_metadata import LogOffsetMetadata


class FetchIsolation(Enum):
    """How far a read may go: followers read to the log end, consumers to the high watermark or the
    last stable offset.
    """

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "txn committed"


class AbortedTxn(NamedTuple):
    """An entry of a transaction index: the offsets of the transaction's first record and of its
    ABORT marker, and the last stable offset written with it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(slots=True)
class FetchDataInfo:
    """The result of a read: whole batches, of which the last may be cut. `records` is a slice of
    the file that has not been read yet.

    The first batch may begin below the requested offset. `aborted_transactions` is None unless the
    read was TXN_COMMITTED.
    """

    fetch_offset_metadata: LogOffsetMetadata
    records: FileSlice
    first_entry_incomplete: bool = False
    aborted_transactions: list[AbortedTxn] | None = None
