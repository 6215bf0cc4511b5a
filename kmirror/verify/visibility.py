"""What a consumer with `isolation.level=read_committed` does not see of a partition on disk:
aborted transactions, and what is not decided yet.

A broker gives its consumers the entries of `.txnindex`, and nothing at or above the last stable
offset, which is the first offset of the oldest open transaction. The newest producer snapshot has
the transactions that were open at its offset, and the batches after it say what became of them. If
segments have no indexes (a copy of the `.log` files), everything is computed from headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.record.control_record import ControlRecordType
from kmirror.record.record_batch import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kmirror.storage.index_reader import read_transaction_index
from kmirror.storage.log_file_names import INDEX_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX, producer_snapshot_file
from kmirror.storage.producer_snapshot_file import read_producer_snapshot
from kmirror.storage.reader import PartitionFiles
from kmirror.verify.header_scan import HeaderBlock, read_headers
from kmirror.verify.planner import MAX_OFFSET, Listing


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    """The offset of the ABORT marker."""


class Undecided(NamedTuple):
    """A partition's transactions."""

    aborted: list[AbortedTransaction]
    last_stable_offset: int
    """MAX_OFFSET if no transaction is open."""


def read_undecided(files: FileSystem, listing: Listing, partition: PartitionFiles, *, end: int = MAX_OFFSET) -> Undecided:
    """Returns what is aborted and what is open below `end` (a high watermark: markers above it
    decide nothing yet). CorruptFileError if a file that a broker would read is damaged."""
    start, open_offsets = _newest_snapshot(files, partition, end)
    aborted: set[AbortedTransaction] = set()
    for segment in partition.segments:
        if TXN_INDEX_FILE_SUFFIX in segment.sizes:
            rows = read_transaction_index(files, segment.path(TXN_INDEX_FILE_SUFFIX))
            aborted |= {AbortedTransaction(int(row[1]), int(row[2]), int(row[3])) for row in rows.tolist() if row[3] < start}
    for piece in listing.slices(files, partition, low=start, high=end - 1):
        for block in read_headers(files, piece, check_crc=False):
            _follow(block, start, end, open_offsets, aborted)
            if int(block.headers["base_offset"][-1]) >= end:
                break
    return Undecided(sorted(aborted, key=lambda each: each.first_offset), min(open_offsets.values(), default=MAX_OFFSET))


def _newest_snapshot(files: FileSystem, partition: PartitionFiles, end: int) -> tuple[int, dict[int, int]]:
    """Returns (the offset, at most `end`, from which batches must be read; the first offsets of the
    transactions open there, by producer)."""
    has_indexes = all(INDEX_FILE_SUFFIX in segment.sizes for segment in partition.segments)
    for offset in reversed([one for one in partition.snapshots if one <= end] if has_indexes else []):
        path = producer_snapshot_file(partition.path, offset)
        try:
            entries = read_producer_snapshot(files, path)
        except CorruptFileError:
            continue  # an older snapshot, or the log itself, says the same
        return offset, {one.producer_id: one.current_txn_first_offset for one in entries if one.current_txn_first_offset is not None}
    return 0, {}


def _follow(block: HeaderBlock, start: int, end: int, open_offsets: dict[int, int], aborted: set[AbortedTransaction]) -> None:
    """Applies the batches of a block, from offset `start` on and below `end`, to the open
    transactions."""
    data = _rows_of_transactions(block, start, end, open_offsets)
    row, base_offset, producer_id, is_transactional = next(data)
    for control in block.controls:
        while row < control.row:
            _take(open_offsets, base_offset, producer_id, is_transactional=is_transactional)
            row, base_offset, producer_id, is_transactional = next(data)
        offset = int(block.headers["base_offset"][control.row])
        if not start <= offset < end:
            continue
        if control.control_type == ControlRecordType.MIRROR_PID_RESET:
            open_offsets.clear()
        elif control.control_type in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
            ended = int(block.headers["producer_id"][control.row])
            first = open_offsets.pop(ended, None)
            if first is not None and control.control_type == ControlRecordType.ABORT:
                aborted.add(AbortedTransaction(ended, first, offset))
    while row < len(block.headers):
        _take(open_offsets, base_offset, producer_id, is_transactional=is_transactional)
        row, base_offset, producer_id, is_transactional = next(data)


def _rows_of_transactions(
    block: HeaderBlock, start: int, end: int, open_offsets: Mapping[int, int]
) -> Iterator[tuple[int, int, int, bool]]:
    """Yields (row, base offset, producer id, whether it is transactional) of the data of all producers
    that have a transaction in the block or before it; then a row behind the block.
    """
    headers = block.headers
    kinds = headers["attributes"] & (TRANSACTIONAL_FLAG | CONTROL_FLAG)
    producers = np.union1d(headers["producer_id"][kinds == TRANSACTIONAL_FLAG], np.fromiter(open_offsets, np.int64, len(open_offsets)))
    if producers.size:
        is_data = (kinds & CONTROL_FLAG == 0) & np.isin(headers["producer_id"], producers)
        rows = np.flatnonzero(is_data & (headers["base_offset"] >= start) & (headers["base_offset"] < end))
        chosen = headers[rows]
        yield from zip(
            rows.tolist(), chosen["base_offset"].tolist(), chosen["producer_id"].tolist(), (kinds[rows] == TRANSACTIONAL_FLAG).tolist()
        )
    yield len(headers), -1, -1, False


def _take(open_offsets: dict[int, int], base_offset: int, producer_id: int, *, is_transactional: bool) -> None:
    """A write without a transaction ends one that is open: the broker that took it had lost it, because
    its records were below the log start offset (`storage.producer_append_info`).
    """
    if is_transactional:
        open_offsets.setdefault(producer_id, base_offset)
    else:
        open_offsets.pop(producer_id, None)
