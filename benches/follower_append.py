"""`UnifiedLog.append_as_follower` against the least it could do: a CRC of every batch and one
`os.pwrite` of what came.

A follower appends what one fetch brought it for a partition: up to replica.fetch.max.bytes (1 MiB),
or one batch when that is larger. So batches of 16 KB arrive 64 at a time on a busy partition, and
one at a time on an idle one: both are measured. The same bytes in the same writes on both sides, in
turn, each into a fresh file; CPU seconds of this process.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterator

from benches.data import batch, json_records
from benches.harness import MB, Context, Row, in_turn, median, median_ratio
from kmirror.common.crc32c import crc32c
from kmirror.record.compression import CompressionType
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.logs.storage_doubles import StorageWorld

CASES = (
    ("batches of 16 KB, fetched 1 MB at a time", 16, 64),
    ("batches of 16 KB, each an append", 16, 1),
    ("batches of 1 MB, each an append", 1_000, 1),
)
_CRC_COVERS_FROM = 21


def appends(records_per_batch: int, batches_per_append: int, total_bytes: int) -> list[bytearray]:
    """What is appended, one buffer an append, offsets rising."""
    values = json_records(records_per_batch * 4)
    templates = [
        batch(values[first : first + records_per_batch], compression=CompressionType.NONE)
        for first in range(0, len(values), records_per_batch)
    ]
    made: list[bytearray] = []
    offset = size = 0
    while size < total_bytes:
        parts = []
        for index in range(batches_per_append):
            part = bytearray(templates[index % len(templates)])
            part[:8] = offset.to_bytes(8, "big")
            offset += records_per_batch
            parts.append(part)
        made.append(bytearray().join(parts))
        size += len(made[-1])
    return made


def bare(folder: pathlib.Path, buffers: list[bytearray], batch_bytes: int) -> float:
    descriptor = os.open(folder / "bare", os.O_CREAT | os.O_TRUNC | os.O_RDWR)
    position = 0
    began = time.process_time()
    for buffer in buffers:
        view = memoryview(buffer)
        for start in range(0, len(view), batch_bytes):
            crc32c(view[start + _CRC_COVERS_FROM : start + batch_bytes])
        position += os.pwrite(descriptor, view, position)
    used = time.process_time() - began
    os.close(descriptor)
    os.remove(folder / "bare")
    return used


def ours(folder: pathlib.Path, buffers: list[bytearray]) -> float:
    log_dir = folder / "t-0"
    log_dir.mkdir()
    world = StorageWorld()
    log = UnifiedLog.open(
        str(log_dir),
        LogConfig(),
        world.ports,
        LogOpenOptions(producer_state_config=ProducerStateManagerConfig(), log_start_offset=0, recovery_point=0),
    )
    began = time.process_time()
    for buffer in buffers:
        log.append_as_follower(buffer, leader_epoch=0)
    used = time.process_time() - began
    log.close()
    shutil.rmtree(log_dir)
    return used


def run(context: Context) -> Iterator[Row]:
    for metric, records_per_batch, batches_per_append in CASES:
        buffers = appends(records_per_batch, batches_per_append, context.choose(32, 256) * MB)
        size = sum(map(len, buffers)) / MB
        batch_bytes = len(buffers[0]) // batches_per_append
        roofline, measured = in_turn(
            context.choose(3, 9),
            lambda buffers=buffers, batch_bytes=batch_bytes: bare(context.folder, buffers, batch_bytes),
            lambda buffers=buffers: ours(context.folder, buffers),
        )
        ratio = median_ratio(roofline, measured)
        note = f"{ratio:.2f} of the roofline; {1e6 * median(measured) / len(buffers):.1f} us an append, bare {1e6 * median(roofline) / len(buffers):.1f}"
        value, limit = size / median(measured), size / median(roofline)
        yield Row("follower_append", metric, value, "MB/CPU-s", ">= 0.7 of os.pwrite + CRC", ratio >= 0.7, roofline=limit, note=note)
