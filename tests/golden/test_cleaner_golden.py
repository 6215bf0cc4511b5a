"""Compaction as Kafka 4.3 did it: before -> after1 -> after2, every file byte for byte, `.deleted`
ones included.

Stage 1 loads `before/`, cleans at the recorded times and must give `after1/`. Stage 2 goes on from
`after1/`: what the recorded clients produced is appended at the recorded times, the cleaner runs in
between at the recorded times (several passes in some cases, with appends between two groups of one
pass), and the result must be `after2/`. Transaction markers are not in the client's requests; for
the transactional cases stage 2 starts from the originals that Kafka left behind as `.deleted`.

The clock of a pass is the one that its delete horizons tell, within the moments before its first
log line.
"""

from __future__ import annotations

import base64
import json
import pathlib
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from support.logs.golden_vectors import golden_cases, golden_dir, read_recording
from support.logs.storage_doubles import StorageWorld

from kmirror.common.topic_partition import TopicPartition
from kmirror.record.compression import CompressionType
from kmirror.record.record_batch import iter_batches
from kmirror.storage.log_cleaner import CleanerConfig, CleaningJob
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.offset_checkpoint_file import OffsetCheckpointFile
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.framing import RequestHeader, read_request, read_request_header, read_response
from kmirror.wire.messages.produce import ProduceRequest, ProduceResponse

CASES = golden_cases("05-")


class Event(NamedTuple):
    time_ms: int
    kind: str
    data: bytes


def read_text(path: pathlib.Path) -> str:
    return read_recording(path.parent, path.name).decode()


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def cleaner_events(folder: pathlib.Path, topic_partition: TopicPartition) -> Iterator[Event]:
    """The beginning of each pass, and of each group of segments in it."""
    for line in read_text(folder / "cleaner.log.txt").splitlines():
        found = re.match(r"\[([^\],]*),(\d+)\]", line)
        if found is None:
            continue
        time_ms = int(datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()) * 1000 + int(found[2])
        group = re.search(r"Cleaning LogSegment\(baseOffset=(\d+),.* into (\d+) with", line)
        dirty = re.search(r"in offset range (\[\d+, \d+\))", line)
        if f"Beginning cleaning of log {topic_partition} " in line:
            yield Event(time_ms, "begin", b"")
        elif dirty:
            yield Event(time_ms, "map", dirty[1].encode())
        elif group and group[1] == group[2]:
            yield Event(time_ms, "group", group[1].encode())


def produce_events(folder: pathlib.Path, topic_name: str, topic_id: bytes) -> Iterator[Event]:
    for line in read_text(folder / "wire_produce.jsonl").splitlines():
        pair = json.loads(line)
        if pair["api"] != "Produce":
            continue
        frame = memoryview(base64.b64decode(pair["request"]))
        header, position = read_request_header(frame, 0)
        request = read_request(header, frame, position)
        assert isinstance(request, ProduceRequest)
        for topic in request.topic_data:
            if topic.topic_id.raw == topic_id or topic.name == topic_name:
                for partition in topic.partition_data:
                    assert isinstance(partition.records, memoryview)
                    time_ms = log_append_time_ms(pair, header)
                    yield Event(time_ms if time_ms >= 0 else pair["t_request_ms"], "append", bytes(partition.records))


def log_append_time_ms(pair: dict[str, Any], header: RequestHeader) -> int:
    """What the broker answered; -1 unless the topic has LogAppendTime (or the batch was a
    duplicate).
    """
    _, response = read_response(ApiKeys.PRODUCE, header.api_version, memoryview(base64.b64decode(pair["response"])))
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].log_append_time_ms


def delete_horizons(files: dict[str, bytes]) -> set[int]:
    batches = (batch for name, data in files.items() if ".log" in name for batch in iter_batches(data))
    return {batch.delete_horizon_ms for batch in batches if batch.delete_horizon_ms is not None}


def compressions(files: dict[str, bytes]) -> set[CompressionType]:
    return {batch.compression for name, data in files.items() if ".log" in name for batch in iter_batches(data)}


def is_transactional(case: str) -> bool:
    folder = golden_dir() / case / "before"
    return any(batch.is_transactional for path in folder.glob("*.log") for batch in iter_batches(path.read_bytes()))


TRANSACTIONAL = [case for case in CASES if is_transactional(case)]


def comparable(data: bytes) -> list[object]:
    """A `.log` by batches: all of the header but length and CRC, and the records decompressed."""
    return [
        (bytes(batch.memory[:8]), bytes(batch.memory[12:17]), bytes(batch.memory[21:61]), bytes(batch.body()))
        for batch in iter_batches(data)
    ]


class Case:
    """One recorded case, and a data dir to run it in."""

    def __init__(self, name: str, data_dir: pathlib.Path) -> None:
        self.folder = golden_dir() / name
        produce = json.loads(read_text(self.folder / "produce.json"))
        self.topic_partition = TopicPartition(produce["topic"], 0)
        self.data_dir = data_dir
        self.log_config = LogConfig.from_props({**produce["topic_config"], "min.cleanable.dirty.ratio": "0.01"})
        self.events = sorted(cleaner_events(self.folder, self.topic_partition), key=lambda event: event.time_ms)
        self.horizons = delete_horizons(contents(self.folder / "after1")) | delete_horizons(contents(self.folder / "after2"))
        self.base_offsets = {int(path.name[:20]) for path in (self.folder / "after2").iterdir() if ".log" in path.name}
        self.is_recompressed = bool({CompressionType.SNAPPY, CompressionType.ZSTD} & compressions(contents(self.folder / "before")))
        """Kafka's libraries for these codecs compress to other bytes than ours, where the cleaner
        compresses anew.
        """
        self.world = StorageWorld()

    def install(self, files: dict[str, bytes], top: str) -> None:
        shutil.rmtree(self.data_dir, ignore_errors=True)
        partition_dir = self.data_dir / str(self.topic_partition)
        partition_dir.mkdir(parents=True)
        for name, data in files.items():
            (partition_dir / name).write_bytes(data)
        for path in (self.folder / top).iterdir():
            shutil.copy(path, self.data_dir)
            (self.data_dir / path.name).chmod(0o644)
        (self.data_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')

    def start(self, now_ms: int) -> tuple[LogManager, UnifiedLog]:
        self.world.clock.now_ms = now_ms
        manager = LogManager(
            LogManagerConfig((str(self.data_dir),), cleaner=CleanerConfig(dedupe_buffer_size=8_388_608)),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=self.log_config,
            topic_config=lambda topic: {},
        )
        for step in manager.load_steps():
            step()
        log = manager.get_log(self.topic_partition)
        assert log is not None
        return manager, log

    def become_leader(self, log: UnifiedLog, expected: dict[str, bytes]) -> int:
        """The leader epoch, which is the last one in the expected epoch file."""
        epoch = int(expected["leader-epoch-checkpoint"].decode().split("\n")[-2].split()[0])
        log.maybe_assign_epoch_start_offset(epoch, log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)
        self.world.scheduler.run_due()
        return epoch

    def pass_time_ms(self, logged_ms: int) -> int:
        """When the pass read the clock: just before it logged that it begins."""
        told = [horizon - self.log_config.delete_retention_ms for horizon in self.horizons]
        return max((time_ms for time_ms in told if logged_ms - 50 <= time_ms <= logged_ms), default=logged_ms)

    def run(self, manager: LogManager, log: UnifiedLog, epoch: int, appends: list[Event], cleaning: list[Event]) -> None:
        """Appends and cleaning in their recorded order."""
        cleaner = manager.cleaner
        assert cleaner is not None
        job: CleaningJob | None = None
        for number, event in enumerate(cleaning):
            until = cleaning[number + 1].data if event.kind == "begin" else None
            self.append_until(log, epoch, appends, event.time_ms, until)
            if event.kind == "begin":
                self.finish(job)
                self.world.clock.now_ms = self.pass_time_ms(event.time_ms)
                job = cleaner.next_job()
                assert job is not None
                assert job.advance()
            elif event.kind == "map":
                assert job is not None
                candidate = job.candidate
                assert f"[{candidate.first_dirty_offset}, {candidate.first_uncleanable_offset})" == event.data.decode()
                job.work()
            else:
                assert job is not None
                self.world.clock.now_ms = event.time_ms
                assert job.advance(), f"no group at {event.data.decode()}"
                job.work()
        self.finish(job)
        self.append_until(log, epoch, appends, appends[-1].time_ms if appends else 0, None)
        self.world.scheduler.run_due()

    def append_until(self, log: UnifiedLog, epoch: int, appends: list[Event], time_ms: int, dirty_range: bytes | None) -> None:
        """Append what came up to `time_ms`.

        Request times are those of the client's side: in front of a pass, whose end was the active
        segment's base, a batch that begins a later segment waits, and one that leads to that
        segment comes first.
        """
        end_offset = int(dirty_range.split(b",")[1].strip(b" )")) if dirty_range else None
        while appends:
            if end_offset is not None and log.log_end_offset in self.base_offsets and log.log_end_offset > end_offset:
                return
            is_early = end_offset is not None and log.active_segment.base_offset < end_offset
            if appends[0].time_ms > time_ms and not is_early:
                return
            self.world.clock.now_ms = appends[0].time_ms
            log.append_as_leader(bytearray(appends.pop(0).data), leader_epoch=epoch)
            log.update_high_watermark(log.log_end_offset)
            self.world.scheduler.run_due()

    @staticmethod
    def finish(job: CleaningJob | None) -> None:
        assert job is None or not job.advance(), "more groups than Kafka had"

    def stop_and_compare(self, manager: LogManager, expected: dict[str, bytes]) -> None:
        self.world.scheduler.advance(5_000)
        manager.shutdown()
        actual = contents(self.data_dir / str(self.topic_partition))
        assert list(actual) == list(expected)
        for name in actual:
            if actual[name] != expected[name]:
                assert self.is_recompressed and (".log" in name or "index" in name), name
                if "index" in name:  # its entries are so many bytes apart
                    log = re.sub(r"\.(time|txn)?index", ".log", name)
                    assert actual[log] != expected[log], f"{name} differs, its log does not"
                    assert ".txnindex" not in name, name
                else:
                    assert comparable(actual[name]) == comparable(expected[name]), name

    def assert_cleaner_checkpoint(self, top: str) -> None:
        actual = OffsetCheckpointFile(self.world.files, f"{self.data_dir}/cleaner-offset-checkpoint").read()
        expected = OffsetCheckpointFile(self.world.files, str(self.folder / top / "cleaner-offset-checkpoint")).read()
        assert actual[self.topic_partition] == expected[self.topic_partition]

    def split_events(self) -> tuple[list[Event], list[Event]]:
        """Of stage 1 and of stage 2: there were some 30 seconds between them."""
        start_ms = self.events[0].time_ms
        first = [event for event in self.events if event.time_ms < start_ms + 15_000]
        return first, [event for event in self.events if event.time_ms >= start_ms + 15_000]


@pytest.mark.parametrize("name", CASES)
def test_first_pass(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path / "data")
    case.install(contents(case.folder / "before"), "top.before")
    events, _ = case.split_events()
    expected = contents(case.folder / "after1")
    manager, log = case.start(events[0].time_ms - 1000)
    epoch = case.become_leader(log, expected)
    case.run(manager, log, epoch, [], events)
    case.stop_and_compare(manager, expected)
    case.assert_cleaner_checkpoint("top.after1")


@pytest.mark.parametrize("name", [case for case in CASES if case not in TRANSACTIONAL])
def test_appends_and_second_stage(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path / "data")
    case.install(contents(case.folder / "after1"), "top.after1")
    _, cleaning = case.split_events()
    expected = contents(case.folder / "after2")
    started_ms = case.events[0].time_ms + 15_000
    manager, log = case.start(started_ms)
    epoch = case.become_leader(log, expected)
    assert log.topic_id is not None
    appends = [event for event in produce_events(case.folder, case.topic_partition.topic, log.topic_id.raw) if event.time_ms > started_ms]
    case.run(manager, log, epoch, appends, cleaning)
    case.stop_and_compare(manager, expected)
    case.assert_cleaner_checkpoint("top.after2")


@pytest.mark.parametrize("name", TRANSACTIONAL)
def test_second_pass_over_transactions(name: str, tmp_path: pathlib.Path) -> None:
    case = Case(name, tmp_path / "data")
    expected = contents(case.folder / "after2")
    replaced = {file.removesuffix(".deleted") for file in expected if file.endswith(".deleted")}
    originals = {file: data for file, data in expected.items() if not file.endswith(".deleted") and file not in replaced}
    originals |= {file.removesuffix(".deleted"): data for file, data in expected.items() if file.endswith(".deleted")}
    stray = max(file for file in contents(case.folder / "after1") if file.endswith(".snapshot"))
    if stray.replace(".snapshot", ".log") not in expected:
        del expected[stray]  # of the shutdown between the stages; the additional restart here removes it, unless a segment begins there
    case.install(dict(sorted(originals.items())), "top.after1")
    _, events = case.split_events()
    manager, log = case.start(case.events[0].time_ms + 20_000)
    epoch = case.become_leader(log, expected)
    case.run(manager, log, epoch, [], events)
    case.stop_and_compare(manager, expected)
    case.assert_cleaner_checkpoint("top.after2")
