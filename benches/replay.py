"""Replay with CRCs of everything beside a CRC of the same bytes, read in blocks, in turn: MB of
log, and batches, a CPU second.

Large batches show what is added to reading; small ones what a batch costs: its header, its
producer, its transaction. The close (snapshots, indexes, checkpoints) is in it. Both are one thread
of this process, so CPU time is what is compared.
"""

from __future__ import annotations

import os
import pathlib
import time
from collections.abc import Callable, Iterator

import numpy as np

from benches.data import batch, json_records
from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from kmirror.common.crc32c import crc32c
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.index_reader import TRANSACTION_INDEX_DTYPE
from kmirror.verify.replay.folder import replay_folder

NAME = "00000000000000000000.log"
BLOCK_BYTES = 4 << 20
_TIME = 1_750_000_000_000


def run(context: Context) -> Iterator[Row]:
    for label, write, count, needed, unit in (
        ("batches of 200 KB", large, context.choose(100, 5_000), 500.0, "MB/CPU-s"),
        ("batches of 170 bytes", small, context.choose(20_000, 1_000_000), 100_000.0, "batches/CPU-s"),
        ("transactions of two batches and a marker", transactions, context.choose(20_000, 1_000_000), 100_000.0, "batches/CPU-s"),
    ):
        folder = context.folder / label.replace(" ", "-") / "t-0"
        folder.mkdir(parents=True)
        write(folder / NAME, count)
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        size = (folder / NAME).stat().st_size / MB
        bare, measured = in_turn(
            context.choose(1, 3),
            lambda folder=folder: cpu(lambda: bare_crc(folder / NAME)),
            lambda folder=folder: cpu(lambda: replay(folder)),
        )
        figure = (size if unit.startswith("MB") else count) / median(measured)
        note = f"{size:.0f} MB, {size / median(measured):.0f} MB/CPU-s, {count / median(measured):.0f} batches/CPU-s; {median_ratio(bare, measured):.2f} of the CRC alone"
        roofline = (size if unit.startswith("MB") else count) / median(bare)
        yield Row("replay", label, figure, unit, f">= {needed:g}", figure >= needed, "crc32c of the file", roofline, roofline, note)


def cpu(measure: Callable[[], None]) -> float:
    began = time.process_time()
    measure()
    return time.process_time() - began


def bare_crc(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    position = 0
    while block := os.pread(descriptor, BLOCK_BYTES, position):
        crc32c(block)
        position += len(block)
    os.close(descriptor)


def replay(folder: pathlib.Path) -> None:
    tables = replay_folder(OsFileSystem(), str(folder))
    assert not tables.findings, tables.findings[0]


# logs
def large(path: pathlib.Path, count: int) -> None:
    each = batch(json_records(200), compression=CompressionType.NONE)
    with path.open("wb") as file:
        for index in range(count):
            each[:8] = (index * 200).to_bytes(8, "big")
            file.write(each)


def small(path: pathlib.Path, count: int) -> None:
    each = build_batch([Record(0, _TIME, None, bytes(100), [])], partition_leader_epoch=0)
    with path.open("wb") as file:
        for index in range(count):
            each[:8] = index.to_bytes(8, "big")
            file.write(each)


def transactions(path: pathlib.Path, count: int) -> None:
    """Of 100 producers in turn; every tenth is aborted. `.txnindex` is written, too."""
    aborted = []
    with path.open("wb") as file:
        for index in range(count):
            producer, step = index // 3 % 100, index % 3
            if step < 2:
                part = build_batch(
                    [Record(0, _TIME, None, bytes(100), [])],
                    partition_leader_epoch=0,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=index // 300 * 2 + step,
                    is_transactional=True,
                )
            else:
                kind = ControlRecordType.ABORT if index // 3 % 10 == 0 else ControlRecordType.COMMIT
                part = build_end_transaction_marker(kind, coordinator_epoch=0, producer_id=producer, producer_epoch=0, timestamp=_TIME)
                part[12:16] = bytes(4)
                if kind is ControlRecordType.ABORT:
                    aborted.append((0, producer, index - 2, index, index + 1))
            part[:8] = index.to_bytes(8, "big")
            file.write(part)
    path.with_suffix(".txnindex").write_bytes(np.array(aborted, dtype=TRANSACTION_INDEX_DTYPE).tobytes())
