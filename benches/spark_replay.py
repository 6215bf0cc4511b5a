"""`kmirror verify-logs`: one large partition on Spark, on one and on two cores, and the keys of a
compacted log here.

Wall time is what more cores are for, so that is compared: the session's start, measured on a log of
a batch, is taken off both. The memory of reading keys is the peak of a process that does nothing
else; the log has every key twice, and its rows go through a scratch file.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from benches.harness import MB, Context, Row, in_turn, median, median_ratio, run_command
from benches.spark_diff import write_partition
from kmirror.common.crc32c import crc32c
from kmirror.record.builder import build_batch
from kmirror.record.record import Record
from kmirror.record.record_batch import ATTRIBUTES_POSITION, CRC_POSITION

BATCH_RECORDS = 1_000
KEY_BYTES = 8
KEYS_PROGRAM = """
import resource, sys, tempfile, time
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.reader import read_partition
from kmirror.verify.planner import Listing
from kmirror.verify.replay.compaction import KeyLog, KeyScope, count_keys
files = OsFileSystem()
partition = read_partition(files, sys.argv[1])
slices = list(Listing(partition.path, partition.path, [partition], True, {}).slices(files, partition))
began = time.process_time()
counts = count_keys(files, KeyLog(slices, int(sys.argv[2]), KeyScope(0, 0, 0, 0, 1 << 62, 0, ())), tempfile.TemporaryFile)
print(time.process_time() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, counts.keys, counts.superseded)
"""


def run(context: Context) -> Iterator[Row]:
    yield from _keys(context)
    yield from _cores(context)


def _keys(context: Context) -> Iterator[Row]:
    keys = context.choose(200_000, 50_000_000)
    folder = context.folder / "keys" / "t-0"
    write_keys(folder, keys)
    command = [sys.executable, "-c", KEYS_PROGRAM, str(folder), str(2 * keys)]
    root = pathlib.Path(__file__).resolve().parent.parent
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout.split()
    cpu, memory, found, superseded = float(said[0]), int(said[1]), int(said[2]), int(said[3])
    assert (found, superseded) == (keys, keys), f"{found} keys, {superseded} superseded"
    note = f"{keys:,} keys, each twice: {cpu:.1f} CPU-s"
    yield Row("spark_replay", "keys of a compacted log", 2 * keys / cpu, "records/CPU-s", "", None, note=note)
    yield Row("spark_replay", "memory of reading keys", memory / MB, "MB", "<= 400 MB", memory <= 400 * MB, note=note)


def _cores(context: Context) -> Iterator[Row]:
    large, tiny = context.folder / "large", context.folder / "tiny"
    size = write_partition(large / "t-0", context.choose(64, 1024) * MB)
    write_partition(tiny / "t-0", 1)
    alone, both, start = in_turn(
        context.choose(1, 3),
        lambda: on_spark(large, 1),
        lambda: on_spark(large, 2),
        lambda: on_spark(tiny, 2),
    )
    fixed = median(start)
    ratio = median_ratio([max(wall - fixed, 0.01) for wall in alone], [max(wall - fixed, 0.01) for wall in both])
    note = f"one partition of {size / MB:.0f} MB: {median(alone):.1f} s on local[1], {median(both):.1f} s on local[2], of that {fixed:.1f} s to start"
    yield Row(
        "spark_replay", "one partition on two cores", ratio, "x one core", ">= 1.6", None if context.quick else ratio >= 1.6, note=note
    )


def on_spark(folder: pathlib.Path, cores: int) -> float:
    """Seconds. The logs lack the files beside segments, so something is found."""
    tool = pathlib.Path(sys.executable).with_name("kmirror")
    return run_command([str(tool), "verify-logs", str(folder), "--master", f"local[{cores}]"], expected=(0, 1)).wall


def write_keys(folder: pathlib.Path, keys: int) -> None:
    """Every key once, then every key again, in batches of `BATCH_RECORDS`."""
    folder.mkdir(parents=True)
    template = build_batch(
        [Record(index, 1_750_000_000_000, b"k" * KEY_BYTES, b"v" * 20, []) for index in range(BATCH_RECORDS)], partition_leader_epoch=0
    )
    data = np.frombuffer(template, dtype=np.uint8).copy()
    at = np.array(list(_key_positions(bytes(template))))[:, None] + np.arange(KEY_BYTES)
    with (folder / f"{0:020d}.log").open("wb") as file:
        for first in range(0, 2 * keys, BATCH_RECORDS):
            names = (np.arange(first, first + BATCH_RECORDS, dtype=np.uint64) % keys)[:, None]
            data[at] = names.view(np.uint8).reshape(BATCH_RECORDS, KEY_BYTES)
            made = bytearray(data.tobytes())
            made[:8] = first.to_bytes(8, "big")
            made[CRC_POSITION : CRC_POSITION + 4] = crc32c(memoryview(made)[ATTRIBUTES_POSITION:]).to_bytes(4, "big")
            file.write(made)


def _key_positions(batch: bytes) -> Iterator[int]:
    position = batch.find(b"k" * KEY_BYTES)
    while position >= 0:
        yield position
        position = batch.find(b"k" * KEY_BYTES, position + KEY_BYTES)
