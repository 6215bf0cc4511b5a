"""Random histories of one partition, written by kmirror's own storage, for tests that read its
folder afterwards.

A story appends what producers, coordinators and mirrors append. It also restarts, truncates,
deletes records and compacts. All choices come from a seeded `random`, so a seed always gives the
same history. Record timestamps are near the clock, so no producer expires unless the story waits.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Mapping
from types import MappingProxyType

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.builder import build_batch
from kmirror.record.compression import CompressionType
from kmirror.record.control_record import ControlRecordType, build_end_transaction_marker, build_mirror_pid_reset
from kmirror.record.record import Record
from kmirror.runtime.os_files import OsFileSystem
from kmirror.storage.log_cleaner import CleanerConfig
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_manager import LogManager
from kmirror.storage.log_manager_config import LogManagerConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.reader import PartitionFiles, SegmentReader, read_partition
from kmirror.storage.unified_log import UnifiedLog
from kmirror.verify.planner import Listing
from kmirror.verify.slices import LogSlice
from support.logs.storage_doubles import ManualScheduler, StorageWorld

FILES = OsFileSystem()
PARTITION = TopicPartition("t", 0)
PRODUCERS = (7, 1007, 23, 4001)
CODECS = (
    CompressionType.NONE,
    CompressionType.NONE,
    CompressionType.LZ4,
    CompressionType.GZIP,
    CompressionType.SNAPPY,
    CompressionType.ZSTD,
)
APPENDS = ("plain", "idempotent", "transactional", "transactional", "commit", "abort", "abort")


class Story:
    """The history of one log in one data dir.

    `others` names the steps that may come between appends: roll, epoch, reset, restart, crash,
    truncate, delete_records, retention, clean.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        seed: int,
        *,
        others: tuple[str, ...] = (),
        policy: str = "delete",
        world: StorageWorld | None = None,
        configs: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.others = others
        self.world = world or StorageWorld()
        self.config = LogConfig.from_props(
            {
                "cleanup.policy": policy,
                "internal.segment.bytes": str(self.random.choice((700, 1500, 6000))),
                "index.interval.bytes": str(self.random.choice((0, 100, 400))),
                "segment.index.bytes": "800",
                "min.cleanable.dirty.ratio": "0.0",
                "delete.retention.ms": "1000",
                "retention.bytes": "8000",
                **configs,
            }
        )
        self.leader_epoch = 0
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()
        self.bumps_epochs = {producer for producer in PRODUCERS if self.random.random() < 0.5}
        self.manager, self.log = self._start()

    def _start(self) -> tuple[LogManager, UnifiedLog]:
        manager = LogManager(
            LogManagerConfig((str(self.folder),), cleaner=CleanerConfig(dedupe_buffer_size=24 * 1000)),
            files=self.world.files,
            clock=self.world.clock,
            random=self.world.random,
            scheduler=self.world.scheduler,
            default_log_config=self.config,
            topic_config=lambda topic: {},
        )
        for step in manager.load_steps():
            step()
        log = manager.get_or_create_log(PARTITION, topic_id=Uuid(b"x" * 16), is_new=True)
        log.update_high_watermark(log.log_end_offset)
        return manager, log

    def tell(self, steps: int) -> None:
        for _ in range(steps):
            self.world.clock.now_ms += self.random.choice((1, 10, 100))
            if self.others and self.random.random() < 0.15:
                getattr(self, self.random.choice(self.others))()
            else:
                getattr(self, self.random.choice(APPENDS))()
            self.log.update_high_watermark(self.log.log_end_offset)

    # appends
    def _records(self) -> list[Record]:
        now = self.world.clock.now_ms
        keys = [b"k%d" % self.random.randrange(12) for _ in range(self.random.randrange(1, 5))]
        return [
            Record(
                index,
                now + self.random.randrange(-500, 500),
                key,
                self.random.choice((None, self.random.randbytes(self.random.randrange(60)))),
                [],
            )
            for index, key in enumerate(keys)
        ]

    def _append_data(self, producer: int, *, is_transactional: bool) -> None:
        records = self._records()
        sequence = self.sequences.get(producer, 0)
        data = build_batch(
            records,
            compression=self.random.choice(CODECS),
            producer_id=producer,
            producer_epoch=self.epochs.setdefault(producer, 0) if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            is_transactional=is_transactional,
        )
        self.log.append_as_leader(
            data, leader_epoch=self.leader_epoch, origin=AppendOrigin.REPLICATION if producer >= 0 else AppendOrigin.CLIENT
        )
        if producer >= 0:
            self.sequences[producer] = sequence + len(records)

    def plain(self) -> None:
        self._append_data(-1, is_transactional=False)

    def idempotent(self) -> None:
        idle = [producer for producer in PRODUCERS if producer not in self.open]
        if idle:
            self._append_data(self.random.choice(idle), is_transactional=False)

    def transactional(self) -> None:
        producer = self.random.choice(PRODUCERS)
        self.open.add(producer)
        self._append_data(producer, is_transactional=True)

    def commit(self) -> None:
        self._end(ControlRecordType.COMMIT)

    def abort(self) -> None:
        self._end(ControlRecordType.ABORT)

    def _end(self, kind: ControlRecordType) -> None:
        producer = self.random.choice(PRODUCERS)
        self.open.discard(producer)
        if producer in self.bumps_epochs:
            self.epochs[producer] = self.epochs.get(producer, 0) + 1
            self.sequences[producer] = 0
        data = build_end_transaction_marker(
            kind,
            producer_id=producer,
            producer_epoch=self.epochs.setdefault(producer, 0),
            coordinator_epoch=self.random.randrange(3),
            timestamp=self.world.clock.now_ms,
        )
        self.log.append_as_leader(bytearray(data), leader_epoch=self.leader_epoch, origin=AppendOrigin.REPLICATION)

    # other steps
    def reset(self) -> None:
        data = build_mirror_pid_reset("A" * 22, timestamp=self.world.clock.now_ms)
        self.log.append_as_leader(data, leader_epoch=self.leader_epoch, origin=AppendOrigin.COORDINATOR)
        self.open.clear()

    def epoch(self) -> None:
        self.leader_epoch += self.random.randrange(1, 3)
        if self.random.random() < 0.5:
            self.log.maybe_assign_epoch_start_offset(self.leader_epoch, self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll()

    def delete_records(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = start + self.random.randrange(max((end - start) // 2, 1))
        self.log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        self.log.delete_old_segments()

    def retention(self) -> None:
        self.log.delete_old_segments()

    def truncate(self) -> None:
        target = max(self.log.log_end_offset - self.random.randrange(12), self.log.log_start_offset)
        self.log.truncate_to(target, at_batch_boundary=True)
        self.leader_epoch += 1
        self.look()

    def clean(self) -> None:
        assert self.manager.cleaner is not None
        self.manager.cleaner.clean_filthiest_log()

    def wait(self) -> None:
        self.world.scheduler.advance(70_000)

    def restart(self) -> None:
        self.end()
        self.manager, self.log = self._start()
        self.look()

    def crash(self) -> None:
        self.manager.handle_log_dir_failure(str(self.folder), OSError(5, "crash"))
        self.world.scheduler = ManualScheduler(self.world.clock)  # a dead process flushes nothing
        self.manager, self.log = self._start()
        self.look()

    def restart_after_a_loss(self) -> None:
        """Opens a folder that lost some of its files, and shuts down."""
        self.manager, self.log = self._start()
        self.end()

    def look(self) -> None:
        """Reads the producers' transactions and sequences from the log, as after a truncation: no
        broker appends a batch that does not go on where the log has come to."""
        active = self.log.producer_state_manager.active_producers
        self.sequences = {producer: entry.last_sequence + 1 for producer, entry in active.items()}
        self.open = {producer for producer, entry in active.items() if entry.current_txn_first_offset is not None}

    def end(self) -> None:
        """Shuts down cleanly."""
        self.world.scheduler.run_due()
        self.manager.shutdown()


def the_partition(folder: pathlib.Path) -> PartitionFiles:
    """Returns the files of the partition that a story wrote in `folder`."""
    return read_partition(FILES, str(folder / str(PARTITION)))


def random_slices(chance: random.Random, partition: PartitionFiles, cuts: int) -> list[LogSlice]:
    """Returns the partition's segments, each cut at up to `cuts` random batch starts."""
    pieces = []
    for whole in Listing(partition.path, partition.path, [partition], True, {}).slices(FILES, partition):
        with SegmentReader(FILES, whole.path) as reader:
            positions = reader.headers()[0].tolist()
        at = sorted({0, whole.end, *(chance.choice(positions) for _ in range(chance.randrange(cuts + 1)) if positions)})
        pieces += [whole._replace(start=start, end=end) for start, end in zip(at, at[1:])] if len(at) > 1 else [whole]
    return pieces
