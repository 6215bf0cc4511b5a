"""Operations on several segments that must survive a crash in the middle: asynchronous deletion,
replacement, splitting.

Replacement (cleaner, split): the new files are complete and synced as `.cleaned`; they become
`.swap` in descending order of base offset; the old segments become `.deleted`; the new ones get
their final names in ascending order; the folder is synced. At start-up, `.swap` files mean that the
swap must be completed, and `.cleaned` files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.storage import log_file_names
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import CLEANED_FILE_SUFFIX, DELETED_FILE_SUFFIX, SWAP_FILE_SUFFIX
from kmirror.storage.log_segment import LogSegment
from kmirror.storage.log_segments import LogSegments, size_in_bytes
from kmirror.storage.ports import LogPorts
from kmirror.storage.producer_state_manager import ProducerStateManager


class LogFolder(NamedTuple):
    """Where these operations work, and with which settings."""

    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    ports: LogPorts
    segments: LogSegments

    @property
    def parent_dir(self) -> str:
        return self.directory.rpartition("/")[0]

    def open_segment(self, base_offset: int, suffix: str = "", *, deferred: bool = False) -> LogSegment:
        """Opens or creates a segment; a `deferred` one that does not exist is created with its
        first append.
        """
        ports = self.ports
        return LogSegment.open(
            self.directory,
            base_offset,
            self.config,
            files=ports.files,
            clock=ports.clock,
            random=ports.random,
            suffix=suffix,
            deferred=deferred,
        )


class SplitSegmentResult(NamedTuple):
    """The segments that a split removed and made."""

    deleted_segments: list[LogSegment]
    new_segments: list[LogSegment]


def storage_error(folder_dir: str, ports: LogPorts, message: str, error: OSError) -> ApiException:
    """Reports the failed log directory and returns the error to raise."""
    ports.log_dir_failures.maybe_add_offline_log_dir(folder_dir, message, error)
    return ApiException(Errors.KAFKA_STORAGE_ERROR, f"{message}: {error}")


def run_later(folder: LogFolder, name: str, delay_ms: int, what: str, fn: Callable[[], None]) -> None:
    """Schedules `fn`; an I/O error in it takes the log directory offline."""

    def guarded() -> None:
        try:
            fn()
        except OSError as error:
            message = f"Error while {what} for {folder.topic_partition} in dir {folder.parent_dir}"
            folder.ports.log_dir_failures.maybe_add_offline_log_dir(folder.parent_dir, message, error)

    folder.ports.scheduler.schedule_once(name, guarded, delay_ms)


def delete_segment_files(files: FileSystem, directory: str, base_offset: int, suffix: str = "") -> None:
    """Removes a segment's files if they exist (Kafka's static `LogSegment.deleteIfExists`)."""
    for name in (
        log_file_names.offset_index_file,
        log_file_names.time_index_file,
        log_file_names.transaction_index_file,
        log_file_names.log_file,
    ):
        path = name(directory, base_offset, suffix)
        if files.exists(path):
            files.remove(path)


def delete_segments(folder: LogFolder, segments: Sequence[LogSegment], *, later: bool = True) -> None:
    """Renames segments to `.deleted` and removes them after file.delete.delay.ms, or at once. Until
    then the folder's `segments` know them: they move and are closed with the others.
    """
    for segment in segments:
        if not segment.has_suffix(DELETED_FILE_SUFFIX):
            segment.change_file_suffixes(segment.suffix, DELETED_FILE_SUFFIX)

    folder.segments.note_deleted(segments)

    def remove() -> None:
        for segment in segments:
            segment.delete_if_exists()
        folder.segments.forget_deleted(segments)

    if later:
        run_later(folder, "delete-file", folder.config.file_delete_delay_ms, "deleting segments", remove)
    else:
        remove()


def delete_producer_snapshots(
    folder: LogFolder, segments: Iterable[LogSegment], producer_state_manager: ProducerStateManager, *, later: bool = True
) -> None:
    """Renames the snapshots at the base offsets of `segments` to `.deleted` and removes them."""
    marked = [producer_state_manager.remove_and_mark_snapshot_for_deletion(segment.base_offset) for segment in segments]
    names = [path.rpartition("/")[2] for path in marked if path is not None]
    if not names:
        return
    files = folder.ports.files

    def remove() -> None:
        for name in names:
            path = f"{producer_state_manager.directory}/{name}"  # the folder may have been renamed
            if files.exists(path):
                files.remove(path)

    if later:
        run_later(folder, "delete-producer-snapshot", folder.config.file_delete_delay_ms, "deleting producer state snapshots", remove)
    else:
        remove()


def create_new_cleaned_segment(folder: LogFolder, base_offset: int) -> LogSegment:
    delete_segment_files(folder.ports.files, folder.directory, base_offset, CLEANED_FILE_SUFFIX)
    return folder.open_segment(base_offset, CLEANED_FILE_SUFFIX)


def replace_segments(
    folder: LogFolder,
    new_segments: Iterable[LogSegment],
    old_segments: Iterable[LogSegment],
    *,
    is_recovered_swap_file: bool = False,
) -> list[LogSegment]:
    """Replaces `old_segments` by `new_segments`. Returns the old ones whose base offset no new one
    has.
    """
    existing = folder.segments
    new = sorted(new_segments, key=lambda segment: segment.base_offset)
    old = sorted((segment for segment in old_segments if existing.contains(segment.base_offset)), key=lambda segment: segment.base_offset)
    for segment in reversed(new):
        if not is_recovered_swap_file:
            segment.change_file_suffixes(CLEANED_FILE_SUFFIX, SWAP_FILE_SUFFIX)
        existing.add(segment)
    new_bases = {segment.base_offset for segment in new}
    for segment in old:
        if segment.base_offset not in new_bases:
            existing.remove(segment.base_offset)
        delete_segments(folder, [segment])
    for segment in new:
        segment.change_file_suffixes(SWAP_FILE_SUFFIX, "")
    folder.ports.files.fsync_path(folder.directory)
    return [segment for segment in old if segment.base_offset not in new_bases]


def split_overflowed_segment(folder: LogFolder, segment: LogSegment) -> SplitSegmentResult:
    """Splits a segment whose offsets do not fit its indexes into several that do."""
    assert segment.has_overflow(), ("only a segment with overflow is split", segment)
    new_segments: list[LogSegment] = []
    try:
        for header, batch in segment.batches():
            current = new_segments[-1] if new_segments else None
            if current is None or not current.offset_index.can_append_offset(header.last_offset):
                current = create_new_cleaned_segment(folder, header.base_offset)
                new_segments.append(current)
            current.append(header.last_offset, (header,), batch)
        for split in new_segments:
            split.on_become_inactive_segment()
            split.flush()
            split.set_last_modified_ms(segment.last_modified_ms)
        assert size_in_bytes(new_segments) == segment.size, ("sizes after a split", size_in_bytes(new_segments), segment.size)
        deleted = replace_segments(folder, new_segments, [segment])
    except OSError:
        for split in new_segments:
            split.close_handlers()
            split.delete_if_exists()
        raise
    return SplitSegmentResult(deleted, new_segments)
