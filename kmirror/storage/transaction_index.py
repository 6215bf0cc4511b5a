"""`.txnindex`: the aborted transactions whose ABORT marker lies in a segment.

An entry is 34 bytes: version i16 = 0, producer id i64, first offset i64, last offset i64 (of the
marker), last stable offset i64 when the marker was written. Last offsets strictly increase. The
file exists only once there is an entry. The last stable offset limits searches: transactions that
were still open then begin at or above it, so a reader of offsets below it need not look at later
entries. Like the other indexes, the file is open only during an operation.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from kmirror.common.errors import CorruptFileError
from kmirror.common.ports import FileSystem
from kmirror.storage.brief_file import opened
from kmirror.storage.fetch_data_info import AbortedTxn

_ENTRY: Final = struct.Struct(">hqqqq")
CURRENT_VERSION: Final = 0


class TxnIndexSearchResult(NamedTuple):
    """What one segment's index returned; `is_complete` means that later segments need not be
    searched.
    """

    aborted_transactions: list[AbortedTxn]
    is_complete: bool


class TransactionIndex:
    """The transaction index of one segment (Kafka's `TransactionIndex`).

    Entries are read from disk when first needed.
    """

    def __init__(self, files: FileSystem, path: str, *, start_offset: int) -> None:
        self.path = path
        self.start_offset = start_offset
        self._files = files
        self._entries: list[AbortedTxn] | None = None

    def _load(self) -> list[AbortedTxn]:
        if self._entries is None:
            self._entries = self._read() if self._files.exists(self.path) else []
        return self._entries

    def _read(self) -> list[AbortedTxn]:
        data = self._files.read_bytes(self.path)
        entries: list[AbortedTxn] = []
        for position in range(0, len(data) - _ENTRY.size + 1, _ENTRY.size):
            version, *fields = _ENTRY.unpack_from(data, position)
            if version > CURRENT_VERSION:
                raise CorruptFileError(
                    self.path, position, f"the entry of an aborted transaction has version {version}, but only {CURRENT_VERSION} is known"
                )
            entries.append(AbortedTxn._make(fields))
        return entries

    @property
    def last_offset(self) -> int | None:
        entries = self._load()
        return entries[-1].last_offset if entries else None

    def exists(self) -> bool:
        return self._files.exists(self.path)

    def append(self, aborted: AbortedTxn) -> None:
        entries = self._load()
        assert not entries or aborted.last_offset > entries[-1].last_offset, ("markers must follow each other", aborted, entries[-1])
        with opened(self._files, self.path) as file:
            file.pwrite(_ENTRY.pack(CURRENT_VERSION, *aborted), len(entries) * _ENTRY.size)
        entries.append(aborted)

    def all_aborted_txns(self) -> list[AbortedTxn]:
        return list(self._load())

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The aborted transactions that overlap [fetch_offset, upper_bound_offset)."""
        found: list[AbortedTxn] = []
        for aborted in self._load():
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return TxnIndexSearchResult(found, True)
        return TxnIndexSearchResult(found, False)

    def truncate_to(self, offset: int) -> None:
        """Drops the entries from the first one whose marker lies at or above `offset`."""
        entries = self._load()
        for slot, aborted in enumerate(entries):
            if aborted.last_offset >= offset:
                del entries[slot:]
                with opened(self._files, self.path) as file:
                    file.truncate(slot * _ENTRY.size)
                return

    def reset(self) -> None:
        """Drops all entries; an existing file stays, empty."""
        if self._files.exists(self.path):
            with opened(self._files, self.path) as file:
                file.truncate(0)
        self._entries = []

    def sanity_problem(self) -> str | None:
        """What is wrong with the entries, or None (Kafka's `sanityCheck`)."""
        try:
            entries = self._load()
        except CorruptFileError as error:
            return error.reason
        for aborted in entries:
            if aborted.last_offset < self.start_offset:
                return f"last offset of aborted transaction {aborted} is less than start offset {self.start_offset}"
        return None

    def flush(self) -> None:
        if self._files.exists(self.path):
            with opened(self._files, self.path) as file:
                file.fsync()

    def rename_to(self, path: str) -> None:
        if path != self.path:
            if self._files.exists(self.path):
                self._files.rename(self.path, path)
            self.path = path

    def update_parent_dir(self, directory: str) -> None:
        self.path = f"{directory}/{self.path.rsplit('/', 1)[-1]}"

    def delete_if_exists(self) -> bool:
        if not self._files.exists(self.path):
            return False
        self._files.remove(self.path)
        return True
