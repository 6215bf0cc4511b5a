"""The recovery of a segment against the plain one: batch by batch, every one through the states, on
the same bytes.

Compared are the four files, the epochs, the producers and transactions, the snapshot, the warnings,
and the error where there is one. Blocks are small, so that batches lie across them.
"""

from __future__ import annotations

import logging
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.logs.storage_doubles import ManualClock, SeededRandom, StorageWorld

from kmirror.common.crc32c import crc32c
from kmirror.common.errors import ApiException, CorruptFileError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch, empty_batch
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.record.record_batch import ATTRIBUTES_POSITION, RecordBatch
from kmirror.sim.disk import SimDisk
from kmirror.storage import segment_scan
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segment_recovery import InvalidOffsetError, LogSegmentOffsetOverflowError
from kmirror.storage.producer_state_manager import ProducerStateManager
from kmirror.storage.producer_state_update import ProducerStateUpdate
from kmirror.storage.segment_scan import CorruptBatchError
from kmirror.storage.time_index import TimestampOffset

FOLDER = "/t-0"
NOW_MS = 1_750_000_000_000
BASE_OFFSET = 1000
PATH = f"{FOLDER}/{BASE_OFFSET:020d}"
PARTITION = TopicPartition("t", 0)
PRODUCERS = (-1, 1, 2, 17, 33, (1 << 40) + 1)
"""None, and some that share a bucket of Kafka's HashMap."""


class Step(NamedTuple):
    """A batch of the log to be; `gap` is added to the next free offset."""

    kind: str = "plain"
    producer_id: int = 1
    producer_epoch: int = 0
    leader_epoch: int = 0
    time_ms: int = 0
    records: int = 1
    value_size: int = 10
    gap: int = 0


def batch_of(step: Step, offset: int, sequence: int) -> bytearray:
    if step.kind == "reset":
        return build_mirror_pid_reset("source", timestamp=NOW_MS, base_offset=offset, partition_leader_epoch=step.leader_epoch)
    if step.kind in ("commit", "abort", "emptied"):
        marker = build_end_transaction_marker(
            ControlRecordType.ABORT if step.kind == "abort" else ControlRecordType.COMMIT,
            coordinator_epoch=step.records,
            producer_id=max(step.producer_id, 1),
            producer_epoch=step.producer_epoch,
            timestamp=NOW_MS + step.time_ms,
            base_offset=offset,
            partition_leader_epoch=step.leader_epoch,
        )
        return empty_batch(RecordBatch(marker)) if step.kind == "emptied" else marker
    records = [Record(offset + n, NOW_MS + step.time_ms, None, b"v" * step.value_size, []) for n in range(step.records)]
    return build_batch(
        records,
        base_offset=offset,
        producer_id=step.producer_id,
        producer_epoch=step.producer_epoch if step.producer_id >= 0 else -1,
        base_sequence=sequence if step.producer_id >= 0 else -1,
        is_transactional=step.kind == "transactional",
        partition_leader_epoch=step.leader_epoch,
    )


def log_of(steps: list[Step]) -> bytearray:
    data, offset = bytearray(), BASE_OFFSET
    for number, step in enumerate(steps):
        offset += step.gap
        data += batch_of(step, offset, 0x7FFFFFF0 + number & 0x7FFFFFFF)
        offset += step.records if step.kind in ("plain", "transactional") else 1
    return data


class World:
    """A folder with one segment of these bytes."""

    def __init__(self, data: bytes, index_interval: int) -> None:
        self.disk = SimDisk(ManualClock(NOW_MS), SeededRandom(), note=lambda text: None)
        self.disk.make_dirs(FOLDER)
        self.disk.write_bytes(f"{PATH}.log", data)
        world = StorageWorld(NOW_MS, files=self.disk)
        config = LogConfig(index_interval=index_interval, max_index_size=240)
        self.segment = LogSegment.open(FOLDER, BASE_OFFSET, config, files=self.disk, clock=world.clock, random=world.random)
        self.epochs = LeaderEpochFileCache(PARTITION, LeaderEpochCheckpointFile(self.disk, FOLDER), world.scheduler)
        self.producers = ProducerStateManager(PARTITION, FOLDER, files=self.disk, clock=world.clock)
        self.cuts: list[int] = []

    def recover(self) -> int:
        return self.segment.recover(self.producers, self.epochs, self.before_cut)

    def before_cut(self, end_offset: int) -> None:
        self.cuts.append(end_offset)

    def recover_plainly(self) -> int:
        """As one would write it who has time."""
        segment, interval = self.segment, self.segment._index_interval_bytes
        for index in (segment.offset_index, segment.time_index, segment.txn_index):
            index.reset()
        segment._max_timestamp_and_offset = None
        valid_bytes = last_entry = 0
        end_offset = BASE_OFFSET
        try:
            for header, batch in segment.batches():
                computed = crc32c(batch[ATTRIBUTES_POSITION:])
                if computed != header.crc:
                    raise CorruptBatchError(
                        segment.path, header.position, f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})"
                    )
                if not segment.offset_index.can_append_offset(header.last_offset):
                    raise LogSegmentOffsetOverflowError(
                        segment.path, header.position, offset=header.last_offset, base_offset=segment.base_offset
                    )
                if header.max_timestamp > segment.max_timestamp_so_far:
                    segment._max_timestamp_and_offset = TimestampOffset(header.max_timestamp, header.last_offset)
                if valid_bytes - last_entry > interval:
                    if segment.offset_index.entries and header.last_offset <= segment.offset_index.last_offset:
                        text = f"offset {header.last_offset} after {segment.offset_index.last_offset}"
                        raise InvalidOffsetError(segment.path, header.position, text)
                    segment.offset_index.append(header.last_offset, valid_bytes)
                    segment.time_index.maybe_append(*segment.max_timestamp_and_offset)
                    last_entry = valid_bytes
                valid_bytes, end_offset = header.end_position, header.next_offset
                latest = self.epochs.latest_epoch
                if header.partition_leader_epoch >= 0 and (latest is None or header.partition_leader_epoch > latest):
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
                update = ProducerStateUpdate(self.producers, AppendOrigin.REPLICATION)
                update.add(header, batch, 0)
                update.apply(segment.update_txn_index)
                self.producers.update_map_end_offset(header.next_offset)
        except CorruptBatchError as error:
            logging.getLogger("kmirror.storage.log_segment").warning("Found invalid messages in log segment: %s", error)
        if segment.size > valid_bytes:
            self.before_cut(end_offset)
        return segment._finish_recovery(valid_bytes)

    def outcome(self, recover, caplog: pytest.LogCaptureFixture) -> dict[str, object]:
        """All there is to see of it."""
        caplog.clear()
        try:
            result: object = recover()
        except (ApiException, CorruptFileError) as error:
            return {"error": (type(error), str(error)), "warnings": caplog.messages, "epochs": self.epochs.epoch_entries}
        snapshot = self.producers.take_snapshot()
        self.segment.flush()
        producers = self.producers
        return {
            "result": result,
            "cuts": self.cuts,
            "warnings": caplog.messages,
            "largest": self.segment.max_timestamp_and_offset,
            "epochs": self.epochs.epoch_entries,
            "producers": {producer_id: repr(entry) for producer_id, entry in producers.active_producers.items()},
            "ongoing": repr(producers.ongoing_transactions),
            "unreplicated": repr(producers.unreplicated_transactions),
            "oldest": producers._oldest_txn_last_timestamp,
            "end": producers.map_end_offset,
            "snapshot": snapshot,
            "files": {name: self.disk.read_bytes(f"{FOLDER}/{name}") for name in sorted(self.disk.list_dir(FOLDER))},
        }


def check(data: bytes, caplog: pytest.LogCaptureFixture, *, index_interval: int, block_bytes: int) -> dict[str, object]:
    """The outcome, which is that of the plain recovery."""
    caplog.set_level(logging.INFO)
    plain = World(data, index_interval)
    expected = plain.outcome(plain.recover_plainly, caplog)
    world = World(data, index_interval)
    with patch.object(segment_scan, "SCAN_BLOCK_BYTES", block_bytes):
        got = world.outcome(world.recover, caplog)
    assert got.keys() == expected.keys()
    assert [key for key in expected if got[key] != expected[key]] == []
    return expected


STEPS = st.builds(
    Step,
    kind=st.sampled_from(("plain",) * 6 + ("transactional",) * 4 + ("commit", "abort", "emptied", "reset")),
    producer_id=st.sampled_from(PRODUCERS),
    producer_epoch=st.sampled_from((0, 0, 0, 0, 1, 2)),
    leader_epoch=st.sampled_from((0, 0, 0, -1, 1, 5)),
    time_ms=st.sampled_from((0, 0, 5, 9, -7, -NOW_MS - 1)),
    records=st.integers(1, 3),
    value_size=st.sampled_from((0, 10, 300)),
    gap=st.sampled_from((0,) * 12 + (3, 1 << 31, -4, -2000)),
)
PLAIN = st.tuples(st.sampled_from(PRODUCERS[:4]), st.integers(-3, 3), st.integers(1, 2)).map(
    lambda drawn: Step(producer_id=drawn[0], time_ms=drawn[1], records=drawn[2])
)
DAMAGE = st.sampled_from(("none", "none", "cut", "flip", "zeros", "garbage"))


def damaged(data: bytearray, damage: str, place: int) -> bytes:
    place %= max(len(data), 1)
    match damage:
        case "cut":
            return bytes(data[:place])
        case "flip" if data:
            data[place] ^= 1 << place % 8
        case "zeros":
            return bytes(data[:place]) + bytes(100)
        case "garbage":
            return bytes(data) + bytes(range(place % 90))
    return bytes(data)


@pytest.mark.parametrize("steps_of", [st.lists(STEPS, max_size=25), st.lists(PLAIN, max_size=60)], ids=["mixed", "plain"])
def test_recovery_is_that_of_one_batch_after_the_other(steps_of, caplog):
    @settings(max_examples=80, deadline=None)
    @given(
        steps=steps_of,
        damage=DAMAGE,
        place=st.integers(0, 1 << 16),
        index_interval=st.sampled_from((0, 100, 1000)),
        block_bytes=st.sampled_from((61, 200, 1000, 1 << 20)),
    )
    @example(steps=[Step("transactional"), Step("transactional"), Step()], damage="none", place=0, index_interval=0, block_bytes=61)
    @example(steps=[Step(), Step(producer_epoch=1), Step(), Step()], damage="none", place=0, index_interval=0, block_bytes=1 << 20)
    def holds(steps: list[Step], damage: str, place: int, index_interval: int, block_bytes: int) -> None:
        check(damaged(log_of(steps), damage, place), caplog, index_interval=index_interval, block_bytes=block_bytes)

    holds()


TRANSACTION = [Step("transactional"), Step("transactional", time_ms=1), Step("transactional", time_ms=2), Step("abort")]


@pytest.mark.parametrize(
    ("steps", "key", "value"),
    [
        ([Step(records=2, time_ms=n) for n in range(8)], "end", BASE_OFFSET + 16),
        ([*TRANSACTION, *[Step() for _ in range(4)], *TRANSACTION], "ongoing", "[]"),
        ([Step(leader_epoch=4), Step(leader_epoch=2)], "warnings", []),
        ([Step(producer_epoch=3), Step(producer_epoch=3), Step()], "cuts", []),
        ([Step(gap=1 << 31)], "error", LogSegmentOffsetOverflowError),
        ([Step(), Step(), Step(gap=-1), Step()], "error", InvalidOffsetError),
        ([Step("transactional"), Step("transactional"), Step()], "ongoing", "[]"),
    ],
    ids=["plain", "transactions", "epochs", "old-epoch", "overflow", "descending", "outside-transaction"],
)
def test_the_logs_that_are_compared_are_what_they_are_meant_to_be(steps, key, value, caplog):
    outcome = check(log_of(steps), caplog, index_interval=0, block_bytes=1 << 20)
    found = outcome[key]
    assert (found[0] if key == "error" else found) == value


def test_an_epoch_that_came_and_went_within_one_run_left_the_batches_of_before(caplog):
    outcome = check(log_of([Step(), Step(producer_epoch=1), Step()]), caplog, index_interval=0, block_bytes=1 << 20)
    assert outcome["producers"][1].count("BatchMetadata(") == 1


def test_a_bad_crc_cuts_the_log_in_front_of_it(caplog):
    data = log_of([Step() for _ in range(5)])
    size = len(data) // 5
    data[3 * size + 70] ^= 1
    outcome = check(bytes(data), caplog, index_interval=0, block_bytes=1 << 20)
    assert outcome["result"] == 2 * size
    assert "Record is corrupt" in outcome["warnings"][0]
    assert outcome["cuts"] == [1003]
