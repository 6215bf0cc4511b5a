"""Fed with what Apache Kafka 4.3.0 was fed, the log layer writes the folders that Kafka wrote, byte
for byte.
"""

from __future__ import annotations

import base64
import json
import pathlib

import pytest
from replay_driver import RECORDING_TIME_MS, GoldenCase, ReplayDriver
from support.logs.golden_vectors import COMMITTED, golden_cases, golden_dir, read_recording
from support.logs.storage_doubles import StorageWorld

from kmirror.record.append_origin import AppendOrigin
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.log_config import LogConfig
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.framing import read_request, read_request_header, read_response
from kmirror.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, PartitionData

EXACT = (
    "01-plain",
    "02-idempotent",
    "03-txn-java",
    "03-txn-librdkafka",
    "03-txn-rolled",
    "04-",
    "06-leader-epochs",
    "07-delete-records",
    "10-",
)
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


def golden_log(folder: pathlib.Path) -> tuple[list[RecordBatch], dict[str, bytes]]:
    batches = [batch for path in sorted(folder.glob("*.log")) for batch in iter_batches(path.read_bytes())]
    return batches, {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name != "partition.metadata"}


def open_new(work: pathlib.Path, name: str, topic_config: dict[str, str]) -> tuple[UnifiedLog, StorageWorld]:
    world = StorageWorld(RECORDING_TIME_MS)
    return UnifiedLog.open(str(work / name), LogConfig.from_props(topic_config), world.ports), world


def files_after_stop(log: UnifiedLog) -> dict[str, bytes]:
    log.flush(force_flush_active_segment=True)
    log.close()
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(log.directory).iterdir())}


COORDINATOR_LOGS = [
    f"{case}/logs/{folder.name}"
    for case in golden_cases("03-", "08-consumer-offsets")
    for folder in sorted((golden_dir() / case).glob("logs/*"))
]


@pytest.mark.parametrize("name", [name for name in COORDINATOR_LOGS if "after-expiry" not in name])
def test_coordinator_topics_fed_again_equal_kafkas(name: str, tmp_path: pathlib.Path) -> None:
    batches, expected = golden_log(golden_dir() / name)
    log, world = open_new(tmp_path, "topic-0", {"segment.bytes": "104857600"})
    for batch in batches:
        world.clock.now_ms = max(world.clock.now_ms, batch.max_timestamp)
        records = bytearray(batch.memory)
        records[0:8] = bytes(8)
        guard = log.verification_guards.maybe_start(batch.producer_id, batch.base_sequence, batch.producer_epoch)
        epoch = batch.partition_leader_epoch
        log.append_as_leader(records, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR, verification_guard=guard)
        log.update_high_watermark(log.log_end_offset)
    files = files_after_stop(log)
    assert checkpoint_lines(files) == checkpoint_lines(expected)
    assert list(files) == list(expected)
    assert [name for name in files if files[name] != expected[name]] == []


@pytest.mark.parametrize(
    "name", golden_cases("01-plain", "02-idempotent", "03-txn-java", "03-txn-librdkafka", "03-txn-rolled", "04-rolled", "10-")
)
def test_a_follower_fed_batch_by_batch_writes_the_leaders_folder(name: str, tmp_path: pathlib.Path) -> None:
    case = GoldenCase(golden_dir() / name, tmp_path)
    batches, expected = golden_log(case.log_dir)
    log, _ = open_new(tmp_path, "topic-0", case.topic_config)
    for batch in batches:
        log.append_as_follower(batch.memory, leader_epoch=batch.partition_leader_epoch)
        log.update_high_watermark(log.log_end_offset)
    files = files_after_stop(log)
    assert checkpoint_lines(files) == checkpoint_lines(expected)
    assert list(files) == list(expected)
    assert [name for name in files if files[name] != expected[name]] == []


@pytest.mark.parametrize("name", golden_cases("01-plain", "02-idempotent", "03-txn-java", "10-"))
def test_a_follower_fed_at_once_indexes_as_the_leader_did(name: str, tmp_path: pathlib.Path) -> None:
    case = GoldenCase(golden_dir() / name, tmp_path)
    for path in sorted(case.log_dir.glob("*.log")):
        log, _ = open_new(tmp_path, f"{path.stem}-0", {**case.topic_config, "segment.ms": str(1 << 62)})
        log.truncate_fully_and_start_at(int(path.stem))
        log.append_as_follower(path.read_bytes(), leader_epoch=(1 << 31) - 1)
        files = files_after_stop(log)
        for kind in ("log", "index", "timeindex"):
            assert files[f"{path.stem}.{kind}"] == (case.log_dir / f"{path.stem}.{kind}").read_bytes()


def recorded_fetches(folder: pathlib.Path) -> list[tuple[FetchPartition, PartitionData]]:
    lines = read_recording(folder, "wire_fetch_read_committed.jsonl", missing=b"").splitlines()
    found: list[tuple[FetchPartition, PartitionData]] = []
    for frame in map(json.loads, lines):
        if frame["api_key"] == FetchRequest.API_KEY and frame["response"] is not None:
            header, position = read_request_header(buffer := memoryview(base64.b64decode(frame["request"])))
            request = read_request(header, buffer, position)
            _, response = read_response(header.api_key, header.api_version, memoryview(base64.b64decode(frame["response"])))
            assert isinstance(request, FetchRequest) and isinstance(response, FetchResponse)
            if request.topics and response.responses:
                found.append((request.topics[0].partitions[0], response.responses[0].partitions[0]))
    return found


@pytest.mark.parametrize("name", golden_cases("03-txn-java", "03-txn-librdkafka", "03-txn-rolled"))
def test_committed_reads_get_what_kafka_answered(name: str, tmp_path: pathlib.Path) -> None:
    case = GoldenCase(golden_dir() / name, tmp_path)
    log = ReplayDriver(case, tmp_path).replay()
    fetches = recorded_fetches(case.folder)
    if not fetches:
        pytest.skip("no Fetch of this case was recorded")
    assert not COMMITTED or any(answer.aborted_transactions for _, answer in fetches)
    for asked, answer in fetches:
        info = log.read(asked.fetch_offset, asked.partition_max_bytes, FetchIsolation.TXN_COMMITTED, min_one_message=True)
        assert info.records.to_bytes() == bytes(answer.records or b"")  # type: ignore[arg-type]
        aborted = [(entry.producer_id, entry.first_offset) for entry in info.aborted_transactions or []]
        assert aborted == [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or []]
        assert (log.high_watermark, log.last_stable_offset) == (answer.high_watermark, answer.last_stable_offset)
