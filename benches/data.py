"""The benches' records: 1,000 bytes of JSON each, which lz4 brings to a little over half.

Made once, the same everywhere.
"""

from __future__ import annotations

import json
import pathlib
import random

from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.record import Record

RECORD_BYTES = 1_000
_NOW_MS = 1_750_000_000_000
_TEXT_BYTES = 400


def json_records(count: int) -> list[bytes]:
    """`count` different values of RECORD_BYTES bytes."""
    chance = random.Random(1)
    records = []
    for number in range(count):
        fields = {
            "event_id": f"{chance.getrandbits(128):032x}",
            "event_type": chance.choice(("page_view", "purchase", "add_to_cart", "search_performed")),
            "customer": {"customer_id": chance.randrange(10**7), "country": chance.choice(("DE", "FR", "US", "JP")), "is_returning": True},
            "occurred_at": f"2026-11-{chance.randrange(1, 29):02d}T{chance.randrange(24):02d}:00:00.000Z",
            "session": {"session_id": f"{chance.getrandbits(64):016x}", "user_agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101"},
            "amount": chance.randrange(100_000) / 100,
            "sequence": number,
            "properties": {"experiment_group": "control", "referrer_url": "https://shop.example/catalogue/index.html"},
            "payload": chance.randbytes(_TEXT_BYTES // 2).hex(),
        }
        text = json.dumps(fields).encode()
        records.append(text[:-1] + b" " * (RECORD_BYTES - len(text)) + b"}")
    assert all(len(record) == RECORD_BYTES for record in records)
    return records


def batch(values: list[bytes], *, compression: CompressionType = CompressionType.LZ4) -> bytearray:
    """One batch with these values, at offset 0."""
    records = [Record(index, _NOW_MS + index, None, value, [], -1) for index, value in enumerate(values)]
    return build_batch(records, compression=compression, partition_leader_epoch=0)


def write_log(path: pathlib.Path, *, records: int, records_per_batch: int = 1_000) -> int:
    """An lz4 `.log` file: some different batches again and again at rising offsets; its size."""
    values = json_records(8 * records_per_batch)
    batches = [batch(values[first : first + records_per_batch]) for first in range(0, len(values), records_per_batch)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for index in range(max(1, records // records_per_batch)):
            each = batches[index % len(batches)]
            each[:8] = (index * records_per_batch).to_bytes(8, "big")
            file.write(each)
    return path.stat().st_size
