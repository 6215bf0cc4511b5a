"""Feeds a `UnifiedLog` with what the recorded Kafka broker was fed, so that the folder it writes
can be compared.

Works on any folder of the layout in `tests/golden/README.md`. The steps of `produce.json` are gone
through in order; a `batch` step takes the next Produce request off the wire recording (and the
retries of a lost response after it). What no request brought, transaction markers, is taken from
the golden log itself and appended as a coordinator would. Where nothing was recorded on the wire,
the golden log's batches are fed again, with base offset 0 as a producer sends them.

The recording's clock is injected: a batch that the broker stamped (LogAppendTime, markers) is
appended at its stamp, any other at the time its request was seen. Leader epochs are read from the
golden log. A lone replica's high watermark is its log end. When the broker checked retention was
not recorded: it runs at the end where the golden folder shows that it ran. A restart as the last
step is the stop before the folder was copied.
"""

from __future__ import annotations

import base64
import json
import pathlib
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.logs.golden_vectors import read_recording
from support.logs.storage_doubles import StorageWorld

from kmirror.record.append_origin import AppendOrigin
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.log_append_info import LogAppendInfo
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.framing import read_request, read_request_header, read_response
from kmirror.wire.messages.produce import ProduceRequest, ProduceResponse

FILE_DELETE_WAIT_MS = 60_000
RECORDING_TIME_MS = 1_795_223_875_689


@dataclass
class RecordedProduce:
    """One Produce request that was not refused: the batch, when it came, and the answer's base
    offset (None if the answer was lost).
    """

    records: bytes
    time_ms: int
    base_offset: int | None


class GoldenCase:
    """What was recorded of one partition."""

    def __init__(self, folder: pathlib.Path, work: pathlib.Path) -> None:
        self.folder = folder
        self.log_dir = folder / "log"
        if not self.log_dir.is_dir():
            with tarfile.open(folder / "log.tar.gz") as tar:
                tar.extractall(work / "golden", filter="data")
            self.log_dir = work / "golden" / "log"
        recorded = json.loads(read_recording(folder, "produce.json"))
        self.topic: str = recorded["topic"]
        self.topic_config: dict[str, str] = recorded["topic_config"]
        self.steps: list[dict[str, Any]] = recorded["steps"]
        self.batches = {batch.base_offset: batch for batch in self._golden_batches()}
        self.produces = list(self._recorded_produces())

    @property
    def files(self) -> dict[str, bytes]:
        """The golden folder, without partition.metadata."""
        return {path.name: path.read_bytes() for path in sorted(self.log_dir.iterdir()) if path.name != "partition.metadata"}

    def _golden_batches(self) -> Iterator[RecordBatch]:
        for path in sorted(self.log_dir.glob("*.log*")):
            yield from iter_batches(path.read_bytes())

    def _recorded_produces(self) -> Iterator[RecordedProduce]:
        lines = read_recording(self.folder, "wire_produce.jsonl", missing=b"").splitlines()
        for line in lines:
            frame = json.loads(line)
            if frame["api_key"] == ProduceRequest.API_KEY:
                produce = _recorded_produce(frame)
                if produce is not None:
                    yield produce
        if not lines:
            for batch in self.batches.values():
                yield RecordedProduce(b"\0" * 8 + bytes(batch.memory[8:]), RECORDING_TIME_MS, batch.base_offset)

    @property
    def retention_ran(self) -> bool:
        """The first segment is gone or on its way."""
        return f"{0:020d}.log" not in self.files

    def leader_epoch_after(self, offset: int) -> int:
        """The epoch of the first batch from `offset` on, else the newest of the checkpoint."""
        later = [batch.partition_leader_epoch for base_offset, batch in sorted(self.batches.items()) if base_offset >= offset]
        if later:
            return later[0]
        return int(self.files["leader-epoch-checkpoint"].split(b"\n")[-2].split()[0])


def _recorded_produce(frame: dict[str, Any]) -> RecordedProduce | None:
    buffer = memoryview(base64.b64decode(frame["request"]))
    header, position = read_request_header(buffer)
    request = read_request(header, buffer, position)
    assert isinstance(request, ProduceRequest)
    (topic,) = request.topic_data
    (partition,) = topic.partition_data
    base_offset = None
    if frame["response"] is not None:
        _, response = read_response(header.api_key, header.api_version, memoryview(base64.b64decode(frame["response"])))
        assert isinstance(response, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code:
            return None
        base_offset = answer.base_offset
    return RecordedProduce(bytes(partition.records), frame["t_request_ms"], base_offset)  # type: ignore[arg-type]


class ReplayDriver:
    """Replays one case into `work`/<topic>-0; `results` holds each Produce request with what the
    log answered.
    """

    def __init__(self, case: GoldenCase, work: pathlib.Path) -> None:
        self.case = case
        self.directory = work / "data" / f"{case.topic}-0"
        self.world = StorageWorld(RECORDING_TIME_MS)
        self.config = LogConfig.from_props(case.topic_config)
        self.results: list[tuple[RecordedProduce, LogAppendInfo]] = []
        self._produces = iter(case.produces)
        self._log = self._open(clean=True, recovery_point=0)
        self._become_leader()

    def run(self) -> pathlib.Path:
        """Go through all steps, stop cleanly; the folder."""
        self.replay()
        self._stop()
        return self.directory

    def replay(self) -> UnifiedLog:
        """Go through all steps; the log as it was before the broker was stopped."""
        steps = self.case.steps[:-1] if self.case.steps[-1]["op"] == "restart" else self.case.steps
        for step in steps:
            match step["op"]:
                case "batch":
                    self._next_produce()
                case "restart":
                    self._append_markers()
                    self._restart(clean="unclean" not in step["how"])
                case "delete_records":
                    self._append_markers()
                    offset = step["before_offset"]
                    self._delete_records(self._log.high_watermark if offset == -1 else offset)
                case "commit" | "abort":
                    self._append_markers()
        for produce in self._produces:
            self._append_recorded(produce)
        self._append_markers()
        if self.case.retention_ran:
            self._run_retention()
        return self._log

    # steps
    def _next_produce(self) -> None:
        """The request of a batch step, behind the retries that repeat earlier ones."""
        for produce in self._produces:
            if not self._append_recorded(produce).is_duplicate:
                return

    def _append_recorded(self, produce: RecordedProduce) -> LogAppendInfo:
        while produce.base_offset is not None and self._log.log_end_offset < produce.base_offset:
            self._append_marker()
        self._move_clock(produce.time_ms)
        golden = self.case.batches.get(self._log.log_end_offset)
        if golden is not None and self.config.log_append_time:
            self.world.clock.now_ms = golden.max_timestamp
        batch = RecordBatch(produce.records)
        guard = None
        if batch.is_transactional:
            guard = self._log.verification_guards.maybe_start(batch.producer_id, batch.base_sequence, batch.producer_epoch)
        epoch = self.case.leader_epoch_after(self._log.log_end_offset)
        info = self._log.append_as_leader(bytearray(produce.records), leader_epoch=epoch, verification_guard=guard)
        self._replicated()
        self.results.append((produce, info))
        return info

    def _append_markers(self) -> None:
        while (batch := self.case.batches.get(self._log.log_end_offset)) is not None and batch.is_control:
            self._append_marker()

    def _append_marker(self) -> None:
        marker = self.case.batches[self._log.log_end_offset]
        assert marker.is_control, f"offset {marker.base_offset} of {self.case.folder.name} came with no recorded request"
        self._move_clock(marker.max_timestamp)
        records = bytearray(marker.memory)
        records[0:8] = bytes(8)
        self._log.append_as_leader(records, leader_epoch=marker.partition_leader_epoch, origin=AppendOrigin.COORDINATOR)
        self._replicated()

    def _delete_records(self, offset: int) -> None:
        self._log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)

    def _run_retention(self) -> None:
        """At the earliest time at which all that is gone had expired."""
        first_kept = min(int(name.removesuffix(".log")) for name in self.case.files if name.endswith(".log"))
        gone = [info.max_timestamp for _, info in self.results if info.last_offset < first_kept]
        if gone and self.config.retention_ms > 0:
            self._move_clock(max(gone) + self.config.retention_ms + 1)
        self._log.delete_old_segments()
        self.world.scheduler.advance(FILE_DELETE_WAIT_MS if self.config.file_delete_delay_ms < FILE_DELETE_WAIT_MS else 0)

    def _restart(self, *, clean: bool) -> None:
        recovery_point = self._stop() if clean else self._kill()
        self._log = self._open(clean=clean, recovery_point=recovery_point)
        self._become_leader()

    def _stop(self) -> int:
        self.world.scheduler.run_due()
        self._log.flush(force_flush_active_segment=True)
        self._log.close()
        self._checkpointed_recovery_point = self._log.recovery_point
        return self._checkpointed_recovery_point

    def _kill(self) -> int:
        self._log.close_handlers()
        return self._checkpointed_recovery_point

    def _open(self, *, clean: bool, recovery_point: int) -> UnifiedLog:
        log_start_offset = 0
        if recovery_point and self._log.log_start_offset > (self._log.segments.first_segment_base_offset or 0):
            log_start_offset = self._log.log_start_offset
        return UnifiedLog.open(
            str(self.directory),
            self.config,
            self.world.ports,
            LogOpenOptions(log_start_offset=log_start_offset, recovery_point=recovery_point, last_shutdown_clean=clean),
        )

    def _become_leader(self) -> None:
        self._log.maybe_assign_epoch_start_offset(self.case.leader_epoch_after(self._log.log_end_offset), self._log.log_end_offset)
        self._replicated()

    def _replicated(self) -> None:
        self._log.update_high_watermark(self._log.log_end_offset)
        self.world.scheduler.run_due()

    def _move_clock(self, time_ms: int) -> None:
        self.world.clock.now_ms = max(self.world.clock.now_ms, time_ms)
