"""Fed with what Apache Kafka 4.3.0 was fed, the log layer writes the folders that Kafka wrote, byte for byte."""

from __future__ import annotations

import pathlib

import pytest
from golden_vectors import golden_cases, golden_dir
from replay_driver import GoldenCase, ReplayDriver

from kmirror.record.record_batch import RecordBatch, iter_batches

EXACT = ("01-plain", "02-idempotent", "03-txn-java", "03-txn-librdkafka", "03-txn-rolled", "04-", "06-leader-epochs", "07-delete-records", "10-")
RECOMPRESSED = ("13-",)


def replay(name: str, work: pathlib.Path) -> tuple[GoldenCase, dict[str, bytes], ReplayDriver]:
    case = GoldenCase(golden_dir() / name, work)
    driver = ReplayDriver(case, work)
    folder = driver.run()
    return case, {path.name: path.read_bytes() for path in sorted(folder.iterdir())}, driver


def checkpoint_lines(files: dict[str, bytes]) -> list[bytes]:
    return sorted(files.pop("leader-epoch-checkpoint").split(b"\n"))


@pytest.mark.parametrize("name", golden_cases(*EXACT))
def test_the_folder_equals_kafkas(name: str, tmp_path: pathlib.Path) -> None:
    case, files, driver = replay(name, tmp_path)
    expected = case.files
    assert checkpoint_lines(files) == checkpoint_lines(expected)
    assert list(files) == list(expected)
    assert [name for name in files if files[name] != expected[name]] == []


@pytest.mark.parametrize("name", [name for name in golden_cases(*EXACT) if (golden_dir() / name / "log").is_dir()])
def test_produce_requests_get_the_offsets_that_kafka_answered(name: str, tmp_path: pathlib.Path) -> None:
    _, _, driver = replay(name, tmp_path)
    answered = [(produce.base_offset, info.first_offset) for produce, info in driver.results if produce.base_offset is not None]
    assert [kafkas for kafkas, _ in answered] == [ours for _, ours in answered]


@pytest.mark.parametrize("name", golden_cases(*RECOMPRESSED))
def test_recompressed_batches_hold_what_kafkas_hold(name: str, tmp_path: pathlib.Path) -> None:
    case, files, _ = replay(name, tmp_path)
    expected = case.files
    assert checkpoint_lines(files) == checkpoint_lines(expected)
    assert list(files) == list(expected)
    for file_name, data in files.items():
        if file_name.endswith(".log"):
            assert [content(batch) for batch in iter_batches(data)] == [content(batch) for batch in iter_batches(expected[file_name])]
        elif file_name.endswith(".snapshot"):
            assert data == expected[file_name]


def content(batch: RecordBatch) -> tuple[object, ...]:
    """Header fields less length and CRC, and the decompressed records."""
    header = bytes(batch.memory[:61])
    return header[:8] + header[12:17] + header[21:], bytes(batch.body())
