"""Every batch in every log that Apache Kafka 4.3 wrote: it parses, its CRC holds, and it is rebuilt
to the same bytes.
"""

from __future__ import annotations

import base64
import json
import pathlib
from collections.abc import Iterator

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir, read_recording

from kmirror.common.errors import ApiException
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch, empty_batch, rebuild_batch
from kmirror.record.columns import decode_columns
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import RecordBatch, TimestampType, iter_batches
from kmirror.record.validation import validate_and_assign_offsets


def log_files(case: str) -> list[pathlib.Path]:
    folder = golden_dir() / case
    return sorted(path for suffix in (".log", ".checkpoint") for path in folder.rglob(f"*{suffix}") if path.is_file())


def sound_batches(path: pathlib.Path) -> Iterator[RecordBatch]:
    """The batches up to the first damage (only the 11-* cases have any)."""
    try:
        for batch in iter_batches(path.read_bytes()):
            if not batch.is_valid():
                return
            yield batch
    except ApiException:
        return


@pytest.mark.parametrize("case", golden_cases())
def test_batches_parse_and_rebuild_to_the_same_bytes(case: str) -> None:
    for path in log_files(case):
        seen = 0
        for batch in sound_batches(path):
            seen += batch.size_in_bytes
            records = list(batch.records())
            assert len(records) == batch.record_count
            columns = decode_columns([batch])
            assert columns.offset.tolist() == [record.offset for record in records]
            assert columns.timestamp.tolist() == [record.timestamp for record in records]
            assert columns.sequence.tolist() == [record.sequence for record in records]
            assert [(columns.key(row), columns.value(row), columns.headers(row)) for row in range(len(columns))] == [
                (record.key, record.value, record.headers) for record in records
            ]
            if batch.record_count == 0:
                assert empty_batch(batch) == batch.memory
            elif not batch.is_compressed and batch.timestamp_type is TimestampType.CREATE_TIME:
                assert rebuild_batch(batch, records) == batch.memory
            elif records:
                again = RecordBatch(rebuild_batch(batch, records))
                assert list(again.records()) == records
        if not case.startswith("11-"):
            assert seen == path.stat().st_size, path


@pytest.mark.parametrize("case", golden_cases("13-"))
def test_broker_recompression_gives_kafkas_header_and_records(case: str) -> None:
    topic_config = json.loads(read_recording(golden_dir() / case, "produce.json"))["topic_config"]
    wanted = topic_config.get("compression.type", "producer")
    stored = [batch for path in log_files(case) if path.suffix == ".log" for batch in iter_batches(path.read_bytes())]
    produced = produced_batches(golden_dir() / case)
    assert len(produced) == len(stored)
    for sent, expected in zip(produced, stored):
        target = RecordBatch(sent).compression if wanted == "producer" else CompressionType.for_name(wanted)
        result = validate_and_assign_offsets(
            sent,
            offset=expected.base_offset,
            now_ms=expected.max_timestamp,
            source_compression=RecordBatch(sent).compression,
            target_compression=target,
            compact=False,
            timestamp_type=expected.timestamp_type,
            timestamp_before_max_ms=(1 << 63) - 1,
            timestamp_after_max_ms=(1 << 63) - 1,
            partition_leader_epoch=expected.partition_leader_epoch,
            origin=AppendOrigin.CLIENT,
        )
        got = RecordBatch(result.records)
        got.ensure_valid()
        names = [name for name in RecordBatch.__slots__ if name not in ("memory", "size_in_bytes", "crc")]
        assert {name: getattr(got, name) for name in names} == {name: getattr(expected, name) for name in names}
        assert got.body() == expected.body()
        assert result.next_offset == expected.last_offset + 1
        if target is CompressionType.NONE or target is RecordBatch(sent).compression:
            assert got.memory == expected.memory


def produced_batches(folder: pathlib.Path) -> list[bytearray]:
    """The batches in the Produce requests of a recording: found by their own header, since this
    room knows nothing of requests.
    """
    text = read_recording(folder, "wire_produce.jsonl")
    found = []
    for line in text.splitlines():
        frame = base64.b64decode(json.loads(line)["request"])
        for position in range(len(frame) - 61):
            if frame[position + 16] == 2 and frame[position : position + 8] == bytes(8):
                try:
                    batch = RecordBatch(frame, position)
                except ApiException:
                    continue
                if batch.is_valid():
                    found.append(bytearray(batch.memory))
                    break
    return found


@pytest.mark.parametrize("case", [case for case in golden_cases("01-plain") if case.endswith("-none")])
def test_building_from_scratch_needs_no_template(case: str) -> None:
    path = golden_dir() / case / "log" / "00000000000000000000.log"
    for batch in iter_batches(path.read_bytes()):
        built = build_batch(batch.records(), base_offset=batch.base_offset, partition_leader_epoch=batch.partition_leader_epoch)
        assert built == batch.memory
