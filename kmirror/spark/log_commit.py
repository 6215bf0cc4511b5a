"""The commit of a write: the tasks' segments become the logs of a log.dir.

Every slow step happens in the staging folder. That folder lies in the log.dir, so a move is a
rename. It is named like a log that is being deleted, so readers skip it, and a broker removes one
that a killed driver left.

1. For each partition, the pieces of its tasks are put in order: by their offsets, or by task
   number. Batches without offsets of their own get them in place (8 bytes per batch, which the CRC
   does not cover). Batches without a leader epoch of their own get the latest epoch of the log
   that they are appended to, in the same way.
2. A piece's segments become the log's by renaming. A segment that fits after the previous one
   (`segment.bytes`) is appended to it instead, so many small tasks do not make many small segments.
3. `UnifiedLog` opens the new log as a broker does after a clean stop, and writes the files beside
   the segments: leader epochs, producer snapshots, `partition.metadata`.
4. Under the log.dir's lock, a journal is written, the clean-shutdown marker is removed, a
   micro-batch is noted (`written_batches`), folders and segments are moved into place, checkpoints are written, the marker is restored, and the journal
   is removed. An error in between undoes the moves. If the driver is killed in between, the next
   write to the log.dir undoes them (`commit_journal`). If a broker comes first, there is no marker,
   and it recovers the logs as after any crash.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.record.record_batch import LOG_OVERHEAD
from kmirror.runtime.system_ports import SystemRandom
from kmirror.spark.commit_journal import NEW, OLD, CommitJournal, settle
from kmirror.spark.existing_logs import CHECKPOINT_FILES, TEMPORARY_FILES, check_overwrite, check_save_mode, is_log_folder, partitions_in
from kmirror.spark.local_writes import PutOff, WritableLocalFiles, local_ports, locked_log_dir
from kmirror.spark.options import NAME
from kmirror.spark.staged_log import Piece, StagedSegment
from kmirror.spark.write_options import WriteOptions
from kmirror.spark.written_batches import BATCHES_FILE_NAME, has_batch, note_batch
from kmirror.storage import log_file_names
from kmirror.storage.clean_shutdown_file import CLEAN_SHUTDOWN_FILE_NAME, CleanShutdownFile
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.log_dirs import LOCK_FILE_NAME, LogDir
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.offset_checkpoint_file import (
    CLEANER_OFFSET_CHECKPOINT_FILE_NAME,
)
from kmirror.storage.partition_metadata_file import PartitionMetadataFile
from kmirror.storage.reader import read_offset_checkpoint, read_partition
from kmirror.storage.segment_scan import scan_batches
from kmirror.storage.unified_log import UnifiedLog
from kmirror.verify.offset_lookup import log_end_offset

STAGING_TOPIC: Final = "kmirror-write"
NO_BROKER_EPOCH: Final = -1
_SEGMENT_FILES: Final = (log_file_names.offset_index_file, log_file_names.time_index_file, log_file_names.log_file)
"""The `.log` is last: until it is there, its indexes mean nothing."""
_BASE_OFFSET: Final = struct.Struct(">q")
_EPOCH: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">i")


def staging_folder(path: str) -> str:
    """Returns a name for a new staging folder."""
    return f"{path}/{STAGING_TOPIC}-0.{SystemRandom().token_bytes(16).hex()}{log_file_names.DELETE_DIR_SUFFIX}"


@dataclass
class NewLog:
    """What is to be moved: a new folder for a partition, or segments to add to an existing one.
    `epochs`: (leader epoch, first offset)."""

    topic_partition: TopicPartition
    folder: str
    next_offset: int
    is_append: bool
    segments: list[int] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)


class LogCommit:
    """One commit. `staging` holds the pieces; nothing else may write to `path` meanwhile."""

    def __init__(self, options: WriteOptions, staging: str, *, overwrite: bool) -> None:
        self._options = options
        self._path = options.path
        self._staging = staging
        self._overwrite = overwrite
        self._files = WritableLocalFiles()
        self._put_off = PutOff()
        self._ports = local_ports(self._files, self._put_off)
        self._log_starts: dict[TopicPartition, int] = {}

    def run(self, pieces: Iterable[Piece]) -> None:
        """Commits the pieces. If that fails, the log.dir is as it was; KmirrorError or OSError."""
        before = self._files.list_dir(self._path)
        log_dir = locked_log_dir(self._files, self._path)
        try:
            settle(self._files, self._path, overwrite=self._overwrite)
            if has_batch(self._files, self._options):
                return
            self._log_starts = log_dir.log_start_offsets.read()
            existing = self._existing()
            by_name: dict[TopicPartition, list[Piece]] = {}
            for piece in pieces:
                by_name.setdefault(piece.topic_partition, []).append(piece)
            for name in self._promised(by_name):
                by_name.setdefault(name, [])
            self._check_partition_count(by_name, existing)
            ids = self._topic_ids(by_name, existing)
            logs = [self._put_together(name, by_name[name], name in existing, ids[name.topic]) for name in sorted(by_name)]
            self._move_in_place(logs, log_dir, ids)
        except BaseException:
            self._remove_new_files({name for name in self._files.list_dir(self._path) if name not in before})
            raise
        finally:
            log_dir.lock.close()

    def _remove_new_files(self, names: set[str]) -> None:
        """Removes what this commit has made beside the logs. `names` were not there before it had
        the lock, so another job may have made them: checkpoints with partitions are its."""
        for name in names & {LOCK_FILE_NAME, *CHECKPOINT_FILES, *TEMPORARY_FILES}:
            if name not in CHECKPOINT_FILES or not read_offset_checkpoint(self._files, self._path, name):
                self._files.remove(f"{self._path}/{name}")

    # what is there

    def _existing(self) -> set[TopicPartition]:
        """Returns the existing partitions that stay and can be appended to."""
        names = self._files.list_dir(self._path)
        found = partitions_in(self._files, self._path, names)
        check_save_mode(self._options, self._path, found)
        if self._overwrite:
            check_overwrite(self._files, self._path, names)
            return set()
        if found and CLEAN_SHUTDOWN_FILE_NAME not in names:
            raise KmirrorError(
                f"{NAME}: {self._path} has logs but no {CLEAN_SHUTDOWN_FILE_NAME}: it was not shut down cleanly, or copied without its hidden files; "
                "start and stop its broker once, then append"
            )
        return found

    def _promised(self, written: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns the partitions that `numPartitions` promises, including those that got no
        record."""
        count = self._options.partition_count or 0
        topics = {name.topic for name in written} | ({self._options.topic} if self._options.topic else set())
        return [TopicPartition(topic, number) for topic in topics for number in range(count)]

    def _check_partition_count(self, written: Iterable[TopicPartition], existing: Iterable[TopicPartition]) -> None:
        """KmirrorError if a written topic has more partitions than `numPartitions`: its keys belong
        elsewhere then."""
        count, topics = self._options.partition_count, {name.topic for name in written}
        for name in sorted(existing):
            if count is not None and name.topic in topics and name.partition >= count:
                raise KmirrorError(f"{NAME}: {self._path} has {name}, so topic {name.topic} has more than numPartitions={count} partitions")

    def _topic_ids(self, written: Iterable[TopicPartition], existing: Iterable[TopicPartition]) -> dict[str, Uuid]:
        """Returns each topic's id: the one it already has, the given one, or a new one.
        KmirrorError if two of those differ."""
        topics = sorted({name.topic for name in written})
        given = dict(self._options.topic_ids)
        if self._options.topic_id is not None:
            if len(topics) > 1:
                raise KmirrorError(f"{NAME}: option topicId is one id, and {len(topics)} topics are written; give JSON of ids by topic")
            given |= dict.fromkeys(topics, self._options.topic_id)
        for name in sorted(existing):
            file = PartitionMetadataFile(self._files, f"{self._path}/{name}")
            if name.topic in topics and file.exists():
                found = file.read()
                if given.setdefault(name.topic, found) != found:
                    raise KmirrorError(f"{NAME}: {self._path}/{name} has topic id {found}, not {given[name.topic]}")
        return {topic: given.get(topic) or Uuid.random(self._ports.random) for topic in topics}

    # in the staging folder

    def _put_together(self, name: TopicPartition, pieces: Sequence[Piece], is_append: bool, topic_id: Uuid) -> NewLog:
        end, latest_epoch = self._end_of_log(name) if is_append else (0, None)
        log = NewLog(name, f"{self._staging}/{NEW}/{name}", end, is_append)
        self._files.make_dirs(log.folder)
        last: LogSegment | None = None
        for piece in _in_order(name, pieces):
            shift = self._shift(log, piece)
            epoch = None if piece.epochs else latest_epoch or 0
            for found, first_offset in piece.epochs or ((epoch or 0, piece.first_offset),):
                _note_epoch(log, found, first_offset + shift, latest_epoch)
            for staged in piece.segments:
                path = log_file_names.log_file(piece.folder, staged.base_offset)
                if shift or epoch:
                    _rewrite(path, shift, epoch or None)
                base_offset, last_offset = staged.base_offset + shift, staged.last_offset + shift
                if last is not None and self._fits_behind(last, staged, last_offset):
                    self._append(last, path)
                    continue
                self._close(last)
                for file_name in _SEGMENT_FILES:
                    self._files.rename(file_name(piece.folder, staged.base_offset), file_name(log.folder, base_offset))
                log.segments.append(base_offset)
                last = self._open_segment(log.folder, base_offset)
            log.next_offset = piece.last_offset + shift + 1
        self._close(last)
        if not is_append:
            self._finish(log.folder, log, 0, topic_id)
            self._files.fsync_path(log.folder)
        return log

    def _end_of_log(self, name: TopicPartition) -> tuple[int, int | None]:
        """Returns (the end of the existing log, its latest leader epoch)."""
        folder = f"{self._path}/{name}"
        epochs = LeaderEpochCheckpointFile(self._files, folder, deferred=True).read()
        return log_end_offset(self._files, read_partition(self._files, folder)), epochs[-1].epoch if epochs else None

    def _shift(self, log: NewLog, piece: Piece) -> int:
        """Returns the number to add to the piece's offsets."""
        if not piece.has_offsets:
            return log.next_offset
        if piece.first_offset < log.next_offset:
            what = f"the log ends at {log.next_offset}" if not log.segments else f"another task has offsets up to {log.next_offset - 1}"
            raise KmirrorError(
                f"{NAME}: {log.topic_partition}: offset {piece.first_offset} cannot be written, {what}"
                + ("" if not log.segments else "; kmirror.spark.write_log sorts the records first")
            )
        return 0

    def _open_segment(self, folder: str, base_offset: int) -> LogSegment:
        ports, config = self._ports, self._options.log_config
        segment = LogSegment.open(folder, base_offset, config, files=ports.files, clock=ports.clock, random=ports.random)
        segment.resize_indexes_before_append(config.max_index_size)
        return segment

    def _fits_behind(self, last: LogSegment, staged: StagedSegment, last_offset: int) -> bool:
        return not last.should_roll(
            self._options.log_config,
            max_timestamp_in_messages=staged.max_timestamp,
            max_offset_in_messages=last_offset,
            messages_size=staged.size,
            now_ms=self._ports.clock.time_ms(),
        )

    def _append(self, last: LogSegment, path: str) -> None:
        """Appends the batches of one segment file to another segment."""
        file = self._files.open(path, write=False)
        try:
            for header, batch in scan_batches(file, 0, file.size()):
                last.append(header.last_offset, (header,), batch)
        finally:
            file.close()

    def _close(self, segment: LogSegment | None) -> None:
        if segment is not None:
            segment.on_become_inactive_segment()
            segment.flush()
            segment.close()

    def _finish(self, folder: str, new: NewLog, log_start_offset: int, topic_id: Uuid) -> None:
        """Writes the files beside the segments."""
        log = UnifiedLog.open(
            folder, self._options.log_config, self._ports, LogOpenOptions(log_start_offset=log_start_offset, topic_id=topic_id)
        )
        for epoch, first_offset in new.epochs:
            log.maybe_assign_epoch_start_offset(epoch, first_offset)
        log.flush(force_flush_active_segment=True)
        self._put_off.run()
        log.close()
        assert log.log_end_offset == new.next_offset, ("the log's end", log.log_end_offset, new.next_offset, folder)

    # in place

    def _move_in_place(self, logs: Sequence[NewLog], log_dir: LogDir, ids: dict[str, Uuid]) -> None:
        marker = CleanShutdownFile(self._files, self._path)
        broker_epoch = marker.read()
        journal = self._journal(logs)
        journal.write(self._files, self._path)
        try:
            marker.delete()
            note_batch(self._files, self._options, overwrite=self._overwrite)
            if self._overwrite:
                self._empty_checkpoints(log_dir)
            for source, destination in journal.moves:
                self._files.rename(f"{self._path}/{source}", f"{self._path}/{destination}")
            for log in logs:
                if log.is_append and log.segments:
                    folder, start = f"{self._path}/{log.topic_partition}", self._log_starts.get(log.topic_partition, 0)
                    self._files.fsync_path(folder)
                    self._finish(folder, log, start, ids[log.topic_partition.topic])
            self._files.fsync_path(self._path)
            self._write_checkpoints(logs, log_dir)
            marker.write(NO_BROKER_EPOCH if broker_epoch is None else broker_epoch)
            journal.remove(self._files, self._path)
        except BaseException:
            journal.undo(self._files, self._path)
            raise

    def _journal(self, logs: Sequence[NewLog]) -> CommitJournal:
        """Returns what is to be moved, and what is there now."""
        staging = os.path.basename(self._staging)
        journal = CommitJournal(staging)
        for name in (*CHECKPOINT_FILES, *TEMPORARY_FILES, BATCHES_FILE_NAME):
            journal.keep(self._files, self._path, name)
        if self._overwrite:
            self._files.make_dirs(f"{self._staging}/{OLD}")
            journal.moves += [(name, f"{staging}/{OLD}/{name}") for name in self._replaced()]
        for log in logs:
            name, source = str(log.topic_partition), f"{staging}/{NEW}/{log.topic_partition}"
            journal.expect_sizes(self._files, log.folder, name)
            if not log.is_append:
                journal.moves.append((source, name))
            elif log.segments:
                self._note_folder(journal, name, log.segments)
                journal.moves += [(one(source, base), one(name, base)) for base in log.segments for one in _SEGMENT_FILES]
            if log.segments:
                journal.arrivals[name] = [*log.segments, log.next_offset]
        journal.keep(self._files, self._path, CLEAN_SHUTDOWN_FILE_NAME)
        return journal

    def _replaced(self) -> list[str]:
        """Returns the folders that `overwrite` replaces. The staging folders of other jobs stay:
        they may be at work."""
        names = [name for name in self._files.list_dir(self._path) if is_log_folder(self._files, self._path, name)]
        return [name for name in names if not name.startswith(f"{STAGING_TOPIC}-0.")]

    def _note_folder(self, journal: CommitJournal, name: str, segments: Iterable[int]) -> None:
        """Notes a folder that gets segments. The log's active segment may be empty: the first new
        one then replaces its files."""
        journal.folders[name] = self._files.list_dir(f"{self._path}/{name}")
        journal.expect_sizes(self._files, f"{self._path}/{name}", name)
        empty = {os.path.basename(one(name, base)) for base in segments for one in _SEGMENT_FILES}
        for file_name in journal.folders[name]:
            if not _is_large(file_name) or file_name in empty:
                journal.keep(self._files, self._path, f"{name}/{file_name}")

    def _empty_checkpoints(self, log_dir: LogDir) -> None:
        for checkpoint in (log_dir.recovery_points, log_dir.log_start_offsets, log_dir.high_watermarks):
            checkpoint.write({})
        cleaned = f"{self._path}/{CLEANER_OFFSET_CHECKPOINT_FILE_NAME}"
        if self._files.exists(cleaned):
            self._files.remove(cleaned)

    def _write_checkpoints(self, logs: Sequence[NewLog], log_dir: LogDir) -> None:
        ends = {log.topic_partition: log.next_offset for log in logs}
        for checkpoint in (log_dir.recovery_points, log_dir.high_watermarks):
            checkpoint.write(checkpoint.read() | ends)
        begun_anew = {log.topic_partition for log in logs if not log.is_append}
        starts = log_dir.log_start_offsets.read()
        if begun_anew & set(starts):
            log_dir.log_start_offsets.write({name: offset for name, offset in starts.items() if name not in begun_anew})


def _is_large(name: str) -> bool:
    return log_file_names.is_log_file(name) or log_file_names.is_index_file(name)


def _in_order(name: TopicPartition, pieces: Sequence[Piece]) -> list[Piece]:
    if len({piece.has_offsets for piece in pieces}) > 1:
        raise KmirrorError(f"{NAME}: {name}: some records have a value in column offset and some have none")
    return sorted(pieces, key=lambda piece: piece.first_offset) if pieces and pieces[0].has_offsets else list(pieces)


def _note_epoch(log: NewLog, epoch: int, first_offset: int, latest: int | None) -> None:
    before = log.epochs[-1][0] if log.epochs else latest
    if before is not None and epoch < before:
        raise KmirrorError(f"{NAME}: {log.topic_partition}: leader epoch {epoch} at offset {first_offset}, after epoch {before}")
    if not log.epochs or epoch != before:
        log.epochs.append((epoch, first_offset))


def _rewrite(path: str, shift: int, epoch: int | None) -> None:
    """Adds `shift` to the base offset of every batch in a file, and sets its leader epoch."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        position, end = 0, len(data)
        while position < end:
            _BASE_OFFSET.pack_into(data, position, _BASE_OFFSET.unpack_from(data, position)[0] + shift)
            if epoch is not None:
                _EPOCH.pack_into(data, position + LOG_OVERHEAD, epoch)
            position += LOG_OVERHEAD + _LENGTH.unpack_from(data, position + 8)[0]
        data.flush()
        os.fsync(file.fileno())
