"""A log.dir with topics of every kind, for what Spark reads: written by kmirror's own storage, the
same everywhere.

    python -m benches.spark_data FOLDER [--scale 1.0]

| topic | partitions | what | MB at scale 1 |
|---|---|---|---|
| huge | 1 | uncompressed, 1,000 random bytes a record | 2,000 |
| lz4, zstd, gzip, snappy | 4 each | JSON of some 600 bytes, half of it hexadecimal noise | 400 each |
| small | 4 | lz4, 100 random bytes a record | 250 |
| many | 200 | small again, one batch or two | 12 |
| compacted | 2 | lz4 JSON; most offsets are gone | 50 |
| txn | 4 | transactions of two producers, every fifth aborted | 60 |
| mirrored | 1 | idempotent producers, a MIRROR_PID_RESET now and then | 20 |

A batch is one of a few that were built once, with its own offset, times, producer and CRC. Times go
on by a millisecond an offset.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kmirror.common.crc32c import crc32c
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.producer_state_manager import ProducerStateManagerConfig
from kmirror.storage.unified_log import UnifiedLog

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests"))
from support.logs.storage_doubles import StorageWorld

MB: Final = 1_000_000
FIRST_MS: Final = 1_750_000_000_000
APPEND_BYTES: Final = 1 << 20
TEMPLATES: Final = 16
_TIMES_AND_PRODUCER: Final = struct.Struct(">qqqhi")
_TIMES_AT: Final = 27
TRANSACTIONAL_FLAG: Final = 0x10
CODECS: Final = ("lz4", "zstd", "gzip", "snappy")
_WORDS: Final = [
    word * 3
    for word in [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "zeta",
        "eta",
        "theta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "omicron",
        "pi",
        "rho",
        "sigma",
    ]
]


def json_value(chance: random.Random, number: int) -> bytes:
    fields = {
        "id": number,
        "user": chance.randrange(100_003),
        "items": [chance.choice(_WORDS) for _ in range(6)],
        "blob": chance.randbytes(150).hex(),
        "amount": chance.randrange(1000) / 7,
    }
    return json.dumps(fields).encode()


def templates(codec: CompressionType, records: int, value: Callable[[random.Random, int], bytes], *, every: int = 1) -> list[bytes]:
    """Batches at offset 0 that differ; of `every` offsets one has a record."""
    chance = random.Random(7)
    made = []
    for _ in range(TEMPLATES):
        kept = [
            Record(offset, FIRST_MS + offset, b"k%08d" % chance.randrange(100_000), value(chance, offset), [])
            for offset in range(0, records * every, every)
        ]
        made.append(bytes(build_batch(kept, compression=codec, partition_leader_epoch=0, last_offset=records * every - 1)))
    return made


def stamped(template: bytes, offset: int, *, producer: int = -1, sequence: int = -1, is_transactional: bool = False) -> bytearray:
    """A template as the batch at `offset`."""
    batch = bytearray(template)
    last = int.from_bytes(batch[23:27], "big")
    batch[:8] = offset.to_bytes(8, "big")
    epoch = 0 if producer >= 0 else -1
    _TIMES_AND_PRODUCER.pack_into(batch, _TIMES_AT, FIRST_MS + offset, FIRST_MS + offset + last, producer, epoch, sequence)
    if is_transactional:
        batch[22] |= TRANSACTIONAL_FLAG
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


class Partition:
    """A partition's folder, appended to as a follower does."""

    def __init__(self, folder: pathlib.Path, *, segment_bytes: int) -> None:
        folder.mkdir(parents=True)
        config = LogConfig.from_props({"segment.bytes": str(segment_bytes), "retention.ms": "-1"})
        ports = StorageWorld().ports
        self._log = UnifiedLog.open(
            str(folder),
            config,
            ports,
            LogOpenOptions(producer_state_config=ProducerStateManagerConfig(), log_start_offset=0, recovery_point=0),
        )
        self._held = bytearray()
        self.offset = 0
        self.size = 0

    def append(self, batch: bytearray) -> None:
        self.offset = int.from_bytes(batch[:8], "big") + int.from_bytes(batch[23:27], "big") + 1
        self._held += batch
        self.size += len(batch)
        if len(self._held) >= APPEND_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._held:
            self._log.append_as_follower(self._held, leader_epoch=0)
            self._held = bytearray()

    def close(self) -> None:
        self._flush()
        self._log.close()


def fill(folder: pathlib.Path, topic: str, partitions: int, size: float, made: Sequence[bytes], *, segment_bytes: int = 64 << 20) -> None:
    """Batches of `made` in turn until each partition has its share of `size` bytes."""
    for number in range(partitions):
        partition = Partition(folder / f"{topic}-{number}", segment_bytes=segment_bytes)
        row = number
        while partition.size < size / partitions:
            partition.append(stamped(made[row % len(made)], partition.offset))
            row += 1
        partition.close()


def fill_transactions(folder: pathlib.Path, size: float, made: Sequence[bytes], records: int) -> None:
    for number in range(4):
        partition = Partition(folder / f"txn-{number}", segment_bytes=4 << 20)
        sequences = {7: 0, 8: 0}
        transactions = {7: 0, 8: 0}
        while partition.size < size / 4:
            for step in range(3):
                for producer in sequences:
                    batch = stamped(made[step], partition.offset, producer=producer, sequence=sequences[producer], is_transactional=True)
                    partition.append(batch)
                    sequences[producer] += records
            for producer in sequences:
                transactions[producer] += 1
                kind = ControlRecordType.ABORT if transactions[producer] % 5 == 0 else ControlRecordType.COMMIT
                marker = build_end_transaction_marker(
                    kind,
                    producer_id=producer,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp=FIRST_MS + partition.offset,
                    base_offset=partition.offset,
                    partition_leader_epoch=0,
                )
                partition.append(bytearray(marker))
        partition.close()


def fill_mirrored(folder: pathlib.Path, size: float, made: Sequence[bytes], records: int) -> None:
    partition = Partition(folder / "mirrored-0", segment_bytes=4 << 20)
    while partition.size < size:
        for row in range(50):
            partition.append(stamped(made[row % len(made)], partition.offset, producer=3, sequence=row * records))
        reset = build_mirror_pid_reset(
            "A" * 22, timestamp=FIRST_MS + partition.offset, base_offset=partition.offset, partition_leader_epoch=0
        )
        partition.append(bytearray(reset))
    partition.close()


def write_data_dir(folder: pathlib.Path, *, scale: float, topics: Sequence[str] | None = None) -> dict[str, int]:
    """Bytes of log by topic; only `topics` if they are named."""
    for topic, fill_topic in _fillers(folder, scale):
        if topics is None or topic in topics:
            fill_topic()
    sizes: dict[str, int] = {}
    for path in folder.glob("*/*.log"):
        topic = path.parent.name.rpartition("-")[0]
        sizes[topic] = sizes.get(topic, 0) + path.stat().st_size
    return sizes


def _fillers(folder: pathlib.Path, scale: float) -> Iterator[tuple[str, Callable[[], None]]]:
    def noise(size: int) -> Callable[[random.Random, int], bytes]:
        return lambda chance, _: chance.randbytes(size)

    none, lz4 = CompressionType.NONE, CompressionType.LZ4
    total = scale * MB
    yield "huge", lambda: fill(folder, "huge", 1, 2_000 * total, templates(none, 200, noise(1000)), segment_bytes=1 << 30)
    for codec in CODECS:
        kind = CompressionType[codec.upper()]
        yield codec, lambda codec=codec, kind=kind: fill(folder, codec, 4, 400 * total, templates(kind, 300, json_value))
    yield "small", lambda: fill(folder, "small", 4, 250 * total, templates(lz4, 1500, noise(100)))
    yield "many", lambda: fill(folder, "many", 200, 12 * total, templates(lz4, 300, noise(100)))
    yield "compacted", lambda: fill(folder, "compacted", 2, 50 * total, templates(lz4, 60, json_value, every=9), segment_bytes=4 << 20)
    yield "txn", lambda: fill_transactions(folder, 60 * total, templates(lz4, 50, json_value), 50)
    yield "mirrored", lambda: fill_mirrored(folder, 20 * total, templates(none, 50, noise(300)), 50)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.spark_data", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path, help="where the log.dir is made; it must not be there")
    parser.add_argument("--scale", type=float, default=1.0, help="1 is 4 GB (default: %(default)s)")
    options = parser.parse_args(arguments)
    for topic, size in sorted(write_data_dir(options.folder, scale=options.scale).items()):
        print(f"{topic:10} {size / MB:8.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
