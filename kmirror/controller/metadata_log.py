"""The `__cluster_metadata` log of a one-voter quorum (Kafka's `KafkaMetadataLog` and the leader's
part of its Raft client).

The folder `__cluster_metadata-0` holds an ordinary partition log with topic id
AAAAAAAAAAAAAAAAAAAAAQ, `quorum-state`, and snapshots. Each time the log is loaded as after a crash,
so that every batch is checked. Each start of the leader begins a new epoch: `quorum-state` is
written and synced, then a LEADER_CHANGE batch begins the epoch; in the first epoch of a dynamic
quorum the same batch carries KRAFT_VERSION and KRAFT_VOTERS, taken from the 0-0 snapshot of
`kafka-storage format`.

A record is committed once it is flushed: with one voter the high watermark is the flushed log end.
Nothing above it is served to brokers, so a power loss can never take back what a broker has seen. A
start never cuts records that are known to be committed (`committed_offset`); it fails instead.

With snapshots the log's beginning can be deleted: when log and snapshots together exceed the
retention, the oldest snapshot is deleted and the log then starts at the oldest one that is left.
The newest snapshot always stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import Buffer, Clock, FileSlice, FileSystem
from kmirror.common.topic_partition import CLUSTER_METADATA_TOPIC_NAME
from kmirror.common.uuid import Uuid
from kmirror.controller.committed_offset import CommittedOffsetFile
from kmirror.controller.quorum_state import QUORUM_STATE_FILE_NAME, QuorumState, read_quorum_state
from kmirror.metadata.image import MetadataImage
from kmirror.metadata.record import ApiMessageAndVersion
from kmirror.metadata.snapshot import (
    CHECKPOINT_SUFFIX,
    Snapshot,
    SnapshotId,
    build_data_batch,
    decode_snapshot,
    encode_snapshot,
    voters_control_records,
)
from kmirror.record.append_origin import AppendOrigin
from kmirror.record.control_record import ControlRecordType, build_control_batch, control_value
from kmirror.record.record_batch import RecordBatch, iter_batches
from kmirror.storage.fetch_data_info import FetchIsolation
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import LogStartOffsetIncrementReason
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.ports import LogPorts
from kmirror.storage.unified_log import UnifiedLog
from kmirror.wire.messages.kraft_version_record import KRaftVersionRecord
from kmirror.wire.messages.leader_change_message import LeaderChangeMessage, Voter
from kmirror.wire.messages.voters_record import Voter as VoterRecord
from kmirror.wire.messages.voters_record import VotersRecord

METADATA_LOG_FOLDER = f"{CLUSTER_METADATA_TOPIC_NAME}-0"
MAX_BATCH_SIZE_BYTES = 8 * 1024 * 1024
_READ_BYTES = 8 * 1024 * 1024


class MetadataLogConfig(Struct, frozen=True):
    """Settings of the metadata log; sizes in bytes, times in ms."""

    node_id: int
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000


class SnapshotWriter:
    """Writes one snapshot. `write` uses nothing that others change meanwhile, so it may run on a
    worker."""

    def __init__(
        self,
        snapshot_id: SnapshotId,
        image: MetadataImage,
        files: FileSystem,
        clock: Clock,
        *,
        path: str,
        part_number: int,
        kraft_version: int,
        voters: VotersRecord | None,
    ) -> None:
        self.snapshot_id = snapshot_id
        self.last_contained_log_timestamp = image.provenance.last_contained_log_time_ms
        self._image = image
        self._files = files
        self._clock = clock
        self._path = path
        self._part_path = f"{path.removesuffix(CHECKPOINT_SUFFIX)}-{part_number}{CHECKPOINT_SUFFIX}.part"
        self._kraft_version = kraft_version
        self._voters = voters

    def write(self) -> int:
        """Stores the snapshot durably under its name; returns its size in bytes."""
        data = encode_snapshot(
            self._image.records(),
            self._clock,
            last_contained_log_timestamp=self.last_contained_log_timestamp,
            epoch=self.snapshot_id.epoch,
            kraft_version=self._kraft_version,
            voters=self._voters,
        )
        self._files.write_bytes(self._part_path, data)
        self._files.fsync_path(self._part_path)
        self._files.rename(self._part_path, self._path)
        self._files.fsync_path(self._path.rpartition("/")[0])
        return len(data)

    def drop_part(self) -> None:
        """Removes what a failed `write` has written, to free its space. Raises OSError if that
        fails too; then the next start removes it."""
        if self._files.exists(self._part_path):
            self._files.remove(self._part_path)


class MetadataLog:
    """Call `open`, replay `latest_snapshot` and `batches`, call `become_leader`, then `append` and
    `flush`; `close` at the end."""

    def __init__(self, log: UnifiedLog, ports: LogPorts, config: MetadataLogConfig) -> None:
        self._log = log
        self._ports = ports
        self._config = config
        self._quorum_state_path = f"{log.directory}/{QUORUM_STATE_FILE_NAME}"
        self.snapshots: list[SnapshotId] = []
        self._snapshot_times: dict[SnapshotId, int] = {}
        self.kraft_version = 0
        self.voters: VotersRecord | None = None
        self._voters_in_log = False
        self.leader_epoch = 0
        self.high_watermark = 0
        self._committed = CommittedOffsetFile(ports.files, log.directory)

    @classmethod
    def open(cls, metadata_log_dir: str, ports: LogPorts, config: MetadataLogConfig) -> MetadataLog:
        """Creates or loads the log in `metadata_log_dir`. Raises CorruptFileError if snapshots
        and log do not fit together, or if committed records cannot be read; then nothing has
        been cut."""
        folder = f"{metadata_log_dir}/{METADATA_LOG_FOLDER}"
        log = UnifiedLog.open(
            folder,
            LogConfig(
                segment_size=config.segment_bytes,
                segment_ms=config.segment_ms,
                max_message_size=MAX_BATCH_SIZE_BYTES,
                retention_ms=-1,
                delete=False,
            ),
            ports,
            LogOpenOptions(
                last_shutdown_clean=False, topic_id=Uuid.METADATA_TOPIC_ID, committed_offset=_offset_that_must_be_there(ports.files, folder)
            ),
        )
        metadata_log = cls(log, ports, config)
        metadata_log._load_snapshots()
        metadata_log._load_control_state()
        return metadata_log

    # ---- loading

    def _load_snapshots(self) -> None:
        files, log = self._ports.files, self._log
        for name in files.list_dir(log.directory):
            if name.endswith((f"{CHECKPOINT_SUFFIX}.part", f"{CHECKPOINT_SUFFIX}.deleted")):
                files.remove(f"{log.directory}/{name}")
                continue
            snapshot_id = SnapshotId.parse(name)
            if snapshot_id is not None:
                self.snapshots.append(snapshot_id)
        self.snapshots.sort()
        newest = self.snapshots[-1] if self.snapshots else None
        if newest is not None and (newest.epoch, newest.end_offset) > (log.latest_epoch or 0, log.log_end_offset):
            self.read_snapshot(newest)  # a broken snapshot must not cause the log to be cut
            log.truncate_fully_and_start_at(newest.end_offset)
        if log.log_start_offset > 0 and (newest is None or newest.end_offset < log.log_start_offset):
            raise CorruptFileError(
                log.directory, 0, f"the log starts at offset {log.log_start_offset}, and no snapshot covers the offsets before it"
            )

    def _load_control_state(self) -> None:
        """Loads kraft.version and voters from the snapshot and the log."""
        snapshot = self.latest_snapshot()
        if snapshot is not None:
            self.kraft_version, self.voters = snapshot.kraft_version, snapshot.voters
            self._voters_in_log = self.snapshots[-1].end_offset > 0
        for batch in self.batches():
            if batch.is_control:
                self._take_control_batch(batch)
        state = read_quorum_state(self._ports.files, self._quorum_state_path)
        self.leader_epoch = max(self._log.latest_epoch or 0, 0 if state is None else state.leader_epoch)
        self.high_watermark = self._log.log_end_offset
        self._log.update_high_watermark(self.high_watermark)

    def _take_control_batch(self, batch: RecordBatch) -> None:
        for record in batch.records():
            kind = ControlRecordType.parse(record.key)
            value = memoryview(record.value or b"")
            if kind is ControlRecordType.KRAFT_VERSION:
                self.kraft_version = KRaftVersionRecord.read(value, 0, 0)[0].kraft_version
            elif kind is ControlRecordType.KRAFT_VOTERS:
                self.voters, self._voters_in_log = VotersRecord.read(value, 0, 0)[0], True

    def latest_snapshot(self) -> Snapshot | None:
        """Returns the newest snapshot, decoded; None if there is none."""
        return self.read_snapshot(self.snapshots[-1]) if self.snapshots else None

    def read_snapshot(self, snapshot_id: SnapshotId) -> Snapshot:
        path = self.snapshot_path(snapshot_id)
        return decode_snapshot(self._ports.files.read_bytes(path), path)

    def snapshot_path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._log.directory}/{snapshot_id.file_name}"

    def batches(self) -> Iterator[RecordBatch]:
        """Yields all batches of the log that are not in the newest snapshot, in order."""
        offset = max(self._log.log_start_offset, self.snapshots[-1].end_offset if self.snapshots else 0)
        while offset < self._log.log_end_offset:
            begun_at = offset
            info = self._log.read(offset, _READ_BYTES, FetchIsolation.LOG_END, min_one_message=True)
            for batch in iter_batches(info.records.to_bytes()):
                if batch.last_offset >= offset:
                    if batch.base_offset > offset:
                        raise CorruptFileError(
                            self._log.directory, 0, f"offsets {offset} to {batch.base_offset - 1} are missing: a segment is not there"
                        )
                    yield batch
                    offset = batch.next_offset
            if offset == begun_at:
                raise CorruptFileError(
                    self._log.directory, 0, f"nothing could be read at offset {offset}, and the log ends at {self._log.log_end_offset}"
                )

    # ---- the leader

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def size(self) -> int:
        """The size of the log's segments in bytes."""
        return self._log.size

    @property
    def directory(self) -> str:
        return self._log.directory

    def become_leader(self) -> None:
        """Begins the next epoch: flushes the log as found (the epoch's start offset then says what
        is committed), persists the epoch, appends its LEADER_CHANGE batch and flushes."""
        self._log.flush(force_flush_active_segment=True)
        self.leader_epoch += 1
        node_id = self._config.node_id
        version = 1 if self.kraft_version >= 1 else 0
        QuorumState(node_id, self.leader_epoch, (node_id,), version).write(self._ports.files, self._quorum_state_path)
        voters = [Voter(voter_id=node_id)]
        message = LeaderChangeMessage(version=0, leader_id=node_id, voters=voters, granting_voters=voters)
        values: list[tuple[ControlRecordType, Buffer]] = [(ControlRecordType.LEADER_CHANGE, control_value(message))]
        if not self._voters_in_log:
            values += voters_control_records(self.kraft_version, self.voters)
            self._voters_in_log = self.kraft_version >= 1
        batch = build_control_batch(
            values, timestamp=self._ports.clock.time_ms(), base_offset=self.log_end_offset, partition_leader_epoch=self.leader_epoch
        )
        self._log.maybe_assign_epoch_start_offset(self.leader_epoch, self.log_end_offset)
        self._append(batch)
        self.flush()

    def upgrade_kraft_version(self, kraft_version: int, voter: VoterRecord) -> None:
        """Makes a static quorum a dynamic one: from now on the log itself names its voter
        (KIP-853)."""
        self.kraft_version = kraft_version
        self.voters = VotersRecord(version=0, voters=[voter])
        batch = build_control_batch(
            voters_control_records(kraft_version, self.voters),
            timestamp=self._ports.clock.time_ms(),
            base_offset=self.log_end_offset,
            partition_leader_epoch=self.leader_epoch,
        )
        self._append(batch)
        self._voters_in_log = True
        state = QuorumState(self._config.node_id, self.leader_epoch, (self._config.node_id,), 1)
        state.write(self._ports.files, self._quorum_state_path)

    def append(self, records: Sequence[ApiMessageAndVersion], *, time_ms: int) -> int:
        """Appends `records` as one batch in the current epoch; returns the offset of the last
        one."""
        assert records, "an empty batch cannot be appended"
        self._append(build_data_batch(records, base_offset=self.log_end_offset, leader_epoch=self.leader_epoch, time_ms=time_ms))
        return self.log_end_offset - 1

    def _append(self, batch: bytearray) -> None:
        self._log.append_as_leader(batch, leader_epoch=self.leader_epoch, origin=AppendOrigin.RAFT_LEADER)

    def flush(self) -> int:
        """Calls fsync (blocking), then moves the high watermark to the log end; returns the new
        high watermark."""
        self._log.flush(force_flush_active_segment=True)
        self.high_watermark = self._log.log_end_offset
        self._log.update_high_watermark(self.high_watermark)
        self._committed.note(self.high_watermark)
        return self.high_watermark

    def read_committed(self, start_offset: int, max_bytes: int) -> FileSlice:
        """Returns whole batches from the one that contains `start_offset` up to the high
        watermark."""
        return self._log.read(start_offset, max_bytes, FetchIsolation.HIGH_WATERMARK, min_one_message=True).records

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Returns (largest epoch <= `epoch`, its end offset); None if unknown."""
        found = self._log.end_offset_for_epoch(epoch)
        return None if found is None else (found.leader_epoch, found.offset)

    # ---- snapshots

    def snapshot_writer(self, image: MetadataImage) -> SnapshotWriter:
        """Returns a writer that stores a snapshot of `image` on a worker; call `add_snapshot` when
        it is done."""
        provenance = image.provenance
        snapshot_id = SnapshotId(provenance.last_contained_offset + 1, provenance.last_contained_epoch)
        assert snapshot_id.end_offset <= self.high_watermark, (snapshot_id, self.high_watermark)
        return SnapshotWriter(
            snapshot_id,
            image,
            self._ports.files,
            self._ports.clock,
            path=self.snapshot_path(snapshot_id),
            part_number=self._ports.random.randrange(1 << 62),
            kraft_version=self.kraft_version,
            voters=self.voters,
        )

    def add_snapshot(self, writer: SnapshotWriter) -> None:
        """Registers a stored snapshot: brokers may fetch it, and older records may be deleted."""
        if writer.snapshot_id not in self.snapshots:
            self.snapshots.append(writer.snapshot_id)
            self.snapshots.sort()
        self._snapshot_times[writer.snapshot_id] = writer.last_contained_log_timestamp

    def maybe_clean(self) -> int:
        """Deletes the oldest snapshots, and the log before the oldest remaining one, while size or
        age exceed the retention; returns how many."""
        removed = 0
        while len(self.snapshots) > 1 and (self._over_size() or self._over_age()):
            oldest = self.snapshots.pop(0)
            self._log.maybe_increment_log_start_offset(self.snapshots[0].end_offset, LogStartOffsetIncrementReason.SNAPSHOT_GENERATED)
            self._log.delete_old_segments()
            self._ports.files.remove(self.snapshot_path(oldest))
            self._snapshot_times.pop(oldest, None)
            removed += 1
        return removed

    def _over_size(self) -> bool:
        snapshots = sum(self._ports.files.size(self.snapshot_path(snapshot_id)) for snapshot_id in self.snapshots)
        return 0 <= self._config.retention_bytes < self._log.size + snapshots

    def _over_age(self) -> bool:
        """Whether the oldest snapshot is too old; its age counts from its last record's time."""
        if self._config.retention_ms < 0:
            return False
        oldest = self.snapshots[0]
        if oldest not in self._snapshot_times:
            self._snapshot_times[oldest] = self.read_snapshot(oldest).last_contained_log_timestamp
        return self._ports.clock.time_ms() - self._snapshot_times[oldest] > self._config.retention_ms

    def close(self) -> None:
        self._committed.close()
        self._log.close()

    def kill(self) -> None:
        """Closes the files as they are."""
        self._committed.close()
        self._log.close_handlers()


def _offset_that_must_be_there(files: FileSystem, folder: str) -> int:
    """Returns the offset up to which the log must be readable, as far as is known; 0 if a snapshot
    covers all of that."""
    if not files.is_dir(folder):
        return 0
    names = files.list_dir(folder)
    epochs = LeaderEpochCheckpointFile(files, folder, deferred=True).read()
    committed = max(CommittedOffsetFile(files, folder).read(), epochs[-1].start_offset if epochs else 0)
    snapshot_end = max((snapshot_id.end_offset for snapshot_id in map(SnapshotId.parse, names) if snapshot_id is not None), default=0)
    return committed if committed > snapshot_end else 0
