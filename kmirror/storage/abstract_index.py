"""What the offset index and the time index share: sorted fixed-size entries in a preallocated file.

The file of the segment that is being written has `max_index_size` bytes, rounded down to whole
entries; the rest after the entries is zeros. It is trimmed to its entries when the segment is
rolled or closed. So the length of a file that was not closed says nothing about its entries (opened
again, it seems full, of zeros). Such segments are recovered first.

Entries live in memory (`_entries`) and are written to the file in runs: when enough of them wait,
before an fsync, when the file is trimmed, and when its handles are closed. If a killed process had
not written an entry, recovery rebuilds it. Every unclean start recovers the log above the recovery
point, and the recovery point moves only after a flush. The file is open only during an operation:
otherwise ten thousand partitions under write would hold twenty thousand descriptors, just to write
some entries every two megabytes. If a process has no descriptor left, not even a spare one
(`runtime.descriptors`), the entries of an append keep waiting, but a flush, a trim or a new segment
fails. An index is read from disk on first use, as in Kafka's `LazyIndex`. An index that was never
used is never touched, which is why opening and closing a log leaves odd-sized or damaged indexes of
old segments as they are.
"""

from __future__ import annotations

from typing import Final

from kmirror.common.ports import OUT_OF_DESCRIPTORS, Buffer, FileSystem
from kmirror.storage.brief_file import opened

PENDING_BYTES_LIMIT: Final = 4096


class AbstractIndex:
    """Sorted entries of `entry_size` bytes; subclasses say what they contain. Owns the index
    file.
    """

    entry_size: int
    reserved_entries = 0
    """Entries that are kept free when `is_full` is decided."""

    def __init__(self, files: FileSystem, path: str, *, base_offset: int, max_index_size: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.max_index_size = max_index_size
        self._files = files
        self._entries = bytearray()
        self._written_bytes = 0
        self._length = 0
        self._full_at_bytes = 0
        self._loaded = False
        self._is_synced = False

    # state
    @property
    def entries(self) -> int:
        """How many entries there are."""
        self._load()
        return len(self._entries) // self.entry_size

    @property
    def max_entries(self) -> int:
        self._load()
        return self._length // self.entry_size

    @property
    def length(self) -> int:
        """Bytes of the file, preallocated ones included."""
        self._load()
        return self._length

    @property
    def is_loaded(self) -> bool:
        return self._loaded

    @property
    def is_full(self) -> bool:
        if not self._loaded:
            self._load()
        return len(self._entries) >= self._full_at_bytes

    def exists(self) -> bool:
        return self._files.exists(self.path)

    # life
    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        try:
            self._read_or_create()
        except OSError:
            self._loaded = False  # otherwise it would count as empty, and be trimmed
            raise
        self._written_bytes = len(self._entries)
        self._on_entries_changed()

    def _read_or_create(self) -> None:
        if self._files.exists(self.path):
            data = self._files.read_bytes(self.path)
            self._set_length(len(data))
            self._entries = bytearray(data[: self._round_down(len(data))])
        else:
            self._set_length(self._round_down(self.max_index_size))
            with opened(self._files, self.path) as file:
                file.truncate(self._length)

    def _set_length(self, length: int) -> None:
        self._length = length
        self._full_at_bytes = self._round_down(length) - self.reserved_entries * self.entry_size

    def _round_down(self, size: int) -> int:
        return size - size % self.entry_size

    def _append_entries(self, entries: Buffer) -> None:
        self._entries += entries
        if len(self._entries) - self._written_bytes >= PENDING_BYTES_LIMIT:
            try:
                self.write_pending()
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise

    def write_pending(self) -> None:
        """Writes the entries that are only in memory.

        A flush does so on a worker (`flush_if_single_replica`) while the loop adds entries or cuts
        the log. So a copy is written, and it counts only if no entries were taken away meanwhile.
        """
        entries, start = self._entries, self._written_bytes
        if start < len(entries):
            pending = entries[start:]
            with opened(self._files, self.path) as file:
                file.pwrite(pending, start)
            self._is_synced = False
            if self._entries is entries:
                self._written_bytes = start + len(pending)
            if start + len(pending) > self._length:
                self._set_length(start + len(pending))

    def _truncate_to_entries(self, entries: int) -> None:
        assert entries <= self.entries, (entries, self.entries, self.path)
        self._entries = self._entries[: entries * self.entry_size]
        self._written_bytes = min(self._written_bytes, len(self._entries))
        self._on_entries_changed()

    def _on_entries_changed(self) -> None:
        """Recomputes what is remembered about the last entry."""

    def resize(self, new_size: int) -> bool:
        """Cuts or extends the file to `new_size`, rounded down to whole entries; False if it has
        that length already.
        """
        self._load()
        new_length = self._round_down(new_size)
        self.write_pending()
        if new_length == self._length:
            return False
        with opened(self._files, self.path) as file:
            file.truncate(new_length)
        self._is_synced = False
        self._set_length(new_length)
        if len(self._entries) > new_length:
            self._truncate_to_entries(self.max_entries)
        return True

    def reset(self) -> None:
        """Drops all entries and restores the preallocated size, before a segment is recovered.

        The file is not read: for a segment that was being written that would be the whole
        preallocated size, and reading it took most of a recovery.
        """
        if not self._loaded and self._files.exists(self.path):
            self._set_length(self._files.size(self.path))
            self._loaded = True
            self._on_entries_changed()
        self._load()
        self._truncate_to_entries(0)
        self.resize(self.max_index_size)

    def trim_to_valid_size(self) -> None:
        """Cuts the file after its last entry."""
        self.resize(len(self._entries) if self._loaded else self.entries * self.entry_size)

    def ensure_created(self) -> None:
        """Makes the (preallocated) file if it does not exist."""
        self._load()

    def flush(self) -> None:
        """Syncs the file if it was written since the last sync. This creates an index that was
        never used, as in Kafka.
        """
        self._load()
        self.write_pending()
        if not self._is_synced:
            with opened(self._files, self.path) as file:
                file.fsync()
            self._is_synced = True

    def close(self) -> None:
        """Trims the file; does nothing for an index that was never used."""
        if self._loaded:
            self.trim_to_valid_size()

    def close_handler(self) -> None:
        """Writes waiting entries without trimming the file (its directory is offline or about to be
        removed).
        """
        self.write_pending()

    def rename_to(self, path: str) -> None:
        """Moves the file if it exists. The index takes the new path in any case."""
        if path != self.path:
            if self._files.exists(self.path):
                self.write_pending()
                self._files.rename(self.path, path)
            self.path = path

    def update_parent_dir(self, directory: str) -> None:
        self.close_handler()
        self.path = f"{directory}/{self.path.rsplit('/', 1)[-1]}"

    def delete_if_exists(self) -> bool:
        if not self._files.exists(self.path):
            return False
        self._files.remove(self.path)
        return True

    def can_append_offset(self, offset: int) -> bool:
        """Whether `offset` fits into the 31 bits of an entry."""
        return 0 <= offset - self.base_offset <= 0x7FFFFFFF
