"""The files of one segment: a `.log` and its three indexes, which are created, named, moved and
removed together. The base of `LogSegment`.

The `.log` is a `LazyFile`. It stays readable through a rename, so slices that were handed out
before still work. The indexes are files that are open only during an operation.

`LogSegment` and the recovery of a segment both build on this file: recovery needs the files, but
not the state that appends keep.
"""

from __future__ import annotations

import logging

from kmirror.common.ports import File, FileSystem
from kmirror.storage import log_file_names
from kmirror.storage.fetch_data_info import AbortedTxn
from kmirror.storage.lazy_file import LazyFile
from kmirror.storage.log_config import LogConfig
from kmirror.storage.offset_index import OffsetIndex
from kmirror.storage.producer_state_entry import CompletedTxn
from kmirror.storage.time_index import TimeIndex
from kmirror.storage.transaction_index import TransactionIndex, TxnIndexSearchResult

log = logging.getLogger(__name__)


class LogSegmentFiles:
    """Owner of a segment's four files; the base of `LogSegment`.

    `suffix` is "", `.cleaned`, `.swap` or `.deleted`. `directory` has no slash at its end.
    """

    def __init__(self, directory: str, base_offset: int, config: LogConfig, *, files: FileSystem, suffix: str) -> None:
        self.base_offset = base_offset
        self.path = log_file_names.log_file(directory, base_offset, suffix)
        index_path = log_file_names.offset_index_file(directory, base_offset, suffix)
        time_index_path = log_file_names.time_index_file(directory, base_offset, suffix)
        txn_index_path = log_file_names.transaction_index_file(directory, base_offset, suffix)
        self.offset_index = OffsetIndex(files, index_path, base_offset=base_offset, max_index_size=config.max_index_size)
        self.time_index = TimeIndex(files, time_index_path, base_offset=base_offset, max_index_size=config.max_index_size)
        self.txn_index = TransactionIndex(files, txn_index_path, start_offset=base_offset)
        self._files = files
        self._suffix = suffix
        self._file = LazyFile(files, self.path, preallocated_size=config.segment_size if config.preallocate else 0)

    @property
    def file(self) -> File:
        return self._file

    @property
    def is_deferred(self) -> bool:
        """True while nothing of this segment is on disk."""
        return not self._file.exists

    def create_files(self) -> None:
        """Creates the files of a deferred segment."""
        if self.is_deferred:
            self._file.create()
            self.offset_index.ensure_created()
            self.time_index.ensure_created()

    def release_file(self) -> None:
        """Gives back the `.log`'s descriptor until the next use; nobody may still hold a slice of
        it.
        """
        self._file.release()

    def set_last_modified_ms(self, mtime_ms: int) -> None:
        for path in (self.path, self.offset_index.path, self.time_index.path):
            if self._files.exists(path):
                self._files.set_mtime_ms(path, mtime_ms)

    def close_handlers(self) -> None:
        """Closes the files; of the indexes, waiting entries are written, nothing is trimmed."""
        for close in (self.offset_index.close_handler, self.time_index.close_handler, self._file.close):
            try:
                close()
            except OSError as error:
                log.warning("Error while closing %s: %s", self.path, error)

    # indexes
    def update_txn_index(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        """Records an aborted transaction; committed ones are not indexed."""
        if completed.is_aborted:
            self.txn_index.append(AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset))

    def fetch_upper_bound_offset(self, position: int, fetch_size: int) -> int | None:
        return self.offset_index.fetch_upper_bound_offset(position, fetch_size)

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        return self.txn_index.collect_aborted_txns(fetch_offset, upper_bound_offset)

    def reset_indexes(self) -> None:
        """Empties the indexes, which are then rebuilt from the batches."""
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()

    def forget_indexes(self) -> None:
        """Removes the offset index after the disk failed during a rebuild. Without it the segment
        is recovered at the next start, even below the recovery point, where indexes are otherwise
        not checked.
        """
        try:
            self.offset_index.delete_if_exists()
        except OSError as error:
            log.warning("Cannot remove the incomplete segment %s: %s", self.offset_index.path, error)

    def sanity_problem(self, *, time_index_file_newly_created: bool) -> str | None:
        """Why this segment must be recovered when it is opened, or None (Kafka's `sanityCheck`)."""
        if not self.offset_index.exists():
            return f"Offset index file {self.offset_index.path} does not exist"
        if time_index_file_newly_created:
            self.time_index.resize(0)
        return self.txn_index.sanity_problem()

    # names
    @property
    def suffix(self) -> str:
        return self._suffix

    def has_suffix(self, suffix: str) -> bool:
        return self._suffix == suffix

    def change_file_suffixes(self, old_suffix: str, new_suffix: str) -> None:
        """Renames the four files.

        The `.log` stays open, so that slices handed out before remain readable.
        """
        assert self._suffix == old_suffix, ("segment has another suffix", self._suffix, old_suffix, self.path)
        path = log_file_names.replace_suffix(self.path, old_suffix, new_suffix)
        if not self.is_deferred:
            self._files.rename(self.path, path)
        self.path = self._file.path = path
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.rename_to(log_file_names.replace_suffix(index.path, old_suffix, new_suffix))
        self._suffix = new_suffix

    def update_parent_dir(self, directory: str) -> None:
        """Follows a renamed folder. `close_index_handlers` must have been called before."""
        self.path = self._file.path = f"{directory}/{self.path.rsplit('/', 1)[-1]}"
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.update_parent_dir(directory)

    def close_index_handlers(self) -> None:
        self.offset_index.close_handler()
        self.time_index.close_handler()

    def delete_if_exists(self) -> None:
        self._file.close()
        if self._files.exists(self.path):
            self._files.remove(self.path)
        for index in (self.offset_index, self.time_index, self.txn_index):
            index.delete_if_exists()
