"""Whether a log's cleaner can have removed a record, told from keys alone: for folders without a cleaner-offset-checkpoint.

A cleaner leaves, below the offset to which it came, one record a key. So the first offset at which a log repeats a key bounds how far
its cleaner can have come; and what it removed below has a later committed record of the same key in one of the two logs, was a tombstone,
or belonged to an aborted transaction, whose ABORT is in the log that has the record. A topic that repeats its keys and was never compacted
has the bound near its start, so a batch that it lost is not taken for a compacted one.

Costs a pass over both logs and memory by distinct keys; only made when a log lacks a record in its middle. More than `MAX_KEYS` keys: no
evidence, and the difference is MISSING or EXTRA.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple, Protocol

from kmirror.common.errors import KmirrorError
from kmirror.verify.committed_records import CommittedRecords
from kmirror.verify.compared_log import ComparedLog

MAX_KEYS: Final = 5_000_000
MAX_KEY_BYTES: Final = 32
_NEVER: Final = (1 << 63) - 1


class LogKeys(NamedTuple):
    """Of one log: the last committed offset of each key, the first offset whose key was there before, and its transactions."""

    last_offset: dict[bytes, int]
    first_repeat: int
    transactions: CommittedRecords


class Evidence(Protocol):
    """Whether what a log lacks can have been removed by its cleaner."""

    @property
    def decides(self) -> bool:
        """Whether no other sign is to be believed."""
        ...

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Of a record that `log` has not; `transaction` is the producer id if it is transactional."""
        ...

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Of a control record that `log` has not."""
        ...


class KeyEvidence:
    """Both logs of a comparison; read when first asked."""

    decides = False

    def __init__(self, left: ComparedLog, right: ComparedLog) -> None:
        self._logs = (left, right)
        self._keys: tuple[LogKeys, LogKeys] | None = None
        self._is_read = False

    def may_lack(self, log: ComparedLog, offset: int, key: bytes | None, *, is_tombstone: bool, transaction: int | None) -> bool:
        """Whether the cleaner of `log` can have removed this record."""
        keys = self._read()
        if keys is None or key is None:
            return False
        ours, theirs = keys if log is self._logs[0] else reversed(keys)
        if offset >= ours.first_repeat:
            return False
        if is_tombstone or (transaction is not None and theirs.transactions.is_aborted(transaction, offset)):
            return True
        name = short_name(key)
        return any(one.last_offset.get(name, -1) > offset for one in keys)

    def may_lack_control(self, log: ComparedLog, offset: int, key: bytes, producer_id: int) -> bool:
        """Never: keys say nothing of it."""
        return False

    def _read(self) -> tuple[LogKeys, LogKeys] | None:
        if not self._is_read:
            self._is_read = True
            left, right = (None if log.is_live else _keys_of(log) for log in self._logs)
            self._keys = None if left is None or right is None else (left, right)
        return self._keys


def short_name(key: bytes) -> bytes:
    """What a key is remembered by: itself, or its hash."""
    return key if len(key) <= MAX_KEY_BYTES else hashlib.blake2b(key, digest_size=MAX_KEY_BYTES).digest() + b"h"


def _keys_of(log: ComparedLog) -> LogKeys | None:
    from kmirror.record.columns import decode_columns  # numpy, which equal logs need not

    last_offset: dict[bytes, int] = {}
    seen: set[bytes] = set()
    first_repeat = _NEVER

    def commit(name: bytes, offset: int) -> None:
        last_offset[name] = max(offset, last_offset.get(name, -1))

    transactions = CommittedRecords(commit)
    cursor = log.cursor(log.log_start_offset)
    try:
        while (located := cursor.peek()) is not None:
            cursor.advance()
            batch = located.batch
            if batch.is_control:
                transactions.add_control(batch)
            if batch.is_control or not batch.record_count:
                continue
            columns = decode_columns([batch])
            for row, offset in enumerate(columns.offset.tolist()):
                if (key := columns.key(row)) is None:
                    continue
                name = short_name(bytes(key))
                if name in seen:
                    first_repeat = min(first_repeat, offset)
                seen.add(name)
                transactions.add_record(batch, name, offset)
            if len(seen) > MAX_KEYS:
                return None
    except KmirrorError:
        return None  # the comparison itself comes to this place and says what is wrong with it
    finally:
        cursor.close()
    return LogKeys(last_offset, first_repeat, transactions)
