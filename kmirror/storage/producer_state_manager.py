"""The producers and transactions of one partition (Kafka's `ProducerStateManager`).

There are three kinds of state. *Producers*: for each id the epoch, the last batches and the open
transaction. *Ongoing transactions*, by first offset: they hold back the last stable offset.
*Unreplicated transactions*: completed ones whose marker the high watermark has not passed; a reader
at the high watermark must still treat them as undecided.

The state is a function of the log. Snapshots of it lie beside the segments, so that a restart need
not read the whole log. A snapshot is named after the first offset that it does not include.

Idle producers expire when their removal is requested. Kafka judges them by the timestamps of their
records, and does so when it loads a snapshot, too. A backfill, a copy or a replay writes records
that are older than producer.id.expiration.ms from the start. Kafka forgets its producer at each
check and at each restart, and then a batch that is sent again is appended twice. Here a producer is
idle when both its records and its last append are old. A snapshot does not tell when its producers
were last heard of. So what Kafka forgets while or soon after it loads a snapshot is *remembered*
here for ten minutes: a batch that is sent again is recognised, and the producer is back with its
next batch. Snapshots are written without it, as Kafka's are.

A MIRROR_PID_RESET control record (KIP-1279) empties all three at its place in the log, because the
records before it came from another cluster's producers. It is applied wherever batches are: on
append, in recovery, in a rebuild.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import CorruptFileError
from kmirror.common.java_hash_map import DEFAULT_TABLE_SIZE, java_hash_map_order, java_long_hash
from kmirror.common.ports import Clock, FileSystem
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.append_origin import AppendOrigin
from kmirror.storage.log_file_names import (
    DELETED_FILE_SUFFIX,
    PRODUCER_SNAPSHOT_FILE_SUFFIX,
    offset_from_file_name,
    producer_snapshot_file,
)
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.producer_append_info import ProducerAppendInfo
from kmirror.storage.producer_snapshot_file import encode_producer_snapshot, read_producer_snapshot
from kmirror.storage.producer_state_entry import CompletedTxn, ProducerStateEntry, TxnMetadata, VerificationStateEntry

log = logging.getLogger(__name__)
LATE_TRANSACTION_BUFFER_MS: Final = 300_000
GRACE_AFTER_LOADING_MS: Final = 600_000
"""Longer than producers go on sending a batch again (delivery.timeout.ms is two minutes)."""


@dataclass(frozen=True, slots=True)
class ProducerStateManagerConfig:
    """The settings of producer state that may change while logs are open."""

    producer_id_expiration_ms: int = 86_400_000
    transaction_verification_enabled: bool = True


class ProducerStateManager:
    """Owner of a partition's producer state and its snapshots.

    `map_end_offset` is the first offset that the state does not include.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        *,
        files: FileSystem,
        clock: Clock,
        config: ProducerStateManagerConfig | None = None,
        max_transaction_timeout_ms: int = 900_000,
        has_snapshots: bool = True,
    ) -> None:
        """`has_snapshots` is false where the caller knows that the folder has none."""
        self.topic_partition = topic_partition
        self.config = config or ProducerStateManagerConfig()
        self.max_transaction_timeout_ms = max_transaction_timeout_ms
        self._directory = directory
        self._files = files
        self._clock = clock
        self._producers: dict[int, ProducerStateEntry] = {}
        self._table_size = DEFAULT_TABLE_SIZE
        self._verification_states: dict[int, VerificationStateEntry] = {}
        self._ongoing: dict[int, TxnMetadata] = {}
        self._unreplicated: dict[int, TxnMetadata] = {}
        self._oldest_txn_last_timestamp = -1
        self._snapshots = self._load_snapshots() if has_snapshots else {}
        self._last_map_offset = 0
        self._last_snapshot_offset = 0
        self._unsynced_snapshots: list[int] = []
        self._loaded_ms: int | None = None
        """When the state was last loaded from a snapshot."""
        self._remembered: dict[int, ProducerStateEntry] = {}
        """Producers that Kafka would have forgotten."""

    # state
    @property
    def active_producers(self) -> dict[int, ProducerStateEntry]:
        """As Kafka's; the cleaner keeps their last batches."""
        return self._producers

    @property
    def known_producers(self) -> dict[int, ProducerStateEntry]:
        """The active ones and those that are remembered."""
        return {**self._remembered, **self._producers} if self._remembered else self._producers

    @property
    def producer_id_count(self) -> int:
        return len(self._producers)

    @property
    def map_end_offset(self) -> int:
        return self._last_map_offset

    @property
    def is_empty(self) -> bool:
        return not self._producers and not self._unreplicated

    @property
    def ongoing_transactions(self) -> list[TxnMetadata]:
        """By first offset."""
        return list(self._ongoing.values())

    @property
    def unreplicated_transactions(self) -> list[TxnMetadata]:
        """By first offset."""
        return [self._unreplicated[offset] for offset in sorted(self._unreplicated)]

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id) or self._remembered.get(producer_id)

    @property
    def first_unstable_offset(self) -> LogOffsetMetadata | None:
        """First offset of the oldest transaction that is open or not replicated yet."""
        if not self._ongoing and not self._unreplicated:
            return None
        transactions = (*self._ongoing.values(), *self._unreplicated.values())
        return min((txn.first_offset for txn in transactions), key=lambda metadata: metadata.message_offset)

    @property
    def first_undecided_offset(self) -> int | None:
        """First offset of the oldest open transaction."""
        return min(self._ongoing) if self._ongoing else None

    def has_late_transaction(self, now_ms: int) -> bool:
        last = self._oldest_txn_last_timestamp
        return last > 0 and now_ms - last > self.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    # appends
    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        current = self.last_entry(producer_id) or ProducerStateEntry(producer_id)
        return ProducerAppendInfo(self.topic_partition, producer_id, current, origin, self._verification_states.get(producer_id))

    def prepare_update_after_reset(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        """As `prepare_update`, for a batch after a MIRROR_PID_RESET in the same append."""
        return ProducerAppendInfo(self.topic_partition, producer_id, ProducerStateEntry(producer_id), origin)

    def update(self, append_info: ProducerAppendInfo) -> None:
        assert append_info.producer_id >= 0, ("update without a producer id", append_info.producer_id, self.topic_partition)
        current = self.last_entry(append_info.producer_id)
        if current is None:
            current = append_info.updated_entry
        else:
            current.update(append_info.updated_entry)
        if append_info.producer_id not in self._producers:
            self._remembered.pop(append_info.producer_id, None)
            self._add_producer(current)
        current.last_append_ms = self._clock.time_ms()
        for transaction in append_info.started_transactions:
            self._add_ongoing(transaction)
        for first_offset in append_info.lost_transactions:
            self._ongoing.pop(first_offset, None)
        self._update_oldest_txn_timestamp()

    def update_all(self, append_infos: Iterable[ProducerAppendInfo]) -> None:
        """Applies several producers of one append, in the order in which Kafka's HashMap iterates
        over them.
        """
        by_id = {info.producer_id: info for info in append_infos}
        for producer_id in java_hash_map_order(by_id, java_long_hash) if len(by_id) > 1 else by_id:
            self.update(by_id[producer_id])

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset at the marker of `completed`: the first offset of the oldest other
        transaction, or the offset after the marker.

        Transactions that began after the marker (in the same follower append) do not count, so that
        the index entry does not depend on how the log was split into appends.
        """
        for first_offset in self._ongoing:
            if first_offset != completed.first_offset:
                return min(first_offset, completed.last_offset + 1)
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        transaction = self._ongoing.pop(completed.first_offset, None)
        assert transaction is not None, ("completed transaction was not started", completed, self.topic_partition, self._ongoing)
        transaction.last_offset = completed.last_offset
        self._unreplicated[completed.first_offset] = transaction
        self._update_oldest_txn_timestamp()

    def apply_pid_reset(self) -> None:
        """Applies a MIRROR_PID_RESET record: forgets all producers, ongoing and unreplicated
        transactions.
        """
        self._clear()

    def update_map_end_offset(self, offset: int) -> None:
        self._last_map_offset = offset

    def _add_producer(self, entry: ProducerStateEntry) -> None:
        self._producers[entry.producer_id] = entry
        if len(self._producers) > self._table_size * 3 // 4:
            self._table_size *= 2

    def _add_ongoing(self, transaction: TxnMetadata) -> None:
        first_offset = transaction.first_offset.message_offset
        in_order = not self._ongoing or first_offset > next(reversed(self._ongoing))
        self._ongoing[first_offset] = transaction
        if not in_order:
            self._ongoing = dict(sorted(self._ongoing.items()))

    def _update_oldest_txn_timestamp(self) -> None:
        oldest = next(iter(self._ongoing.values()), None)
        entry = self._producers.get(oldest.producer_id) if oldest else None
        self._oldest_txn_last_timestamp = entry.last_timestamp if entry else -1

    def _clear(self) -> None:
        self._producers.clear()
        self._remembered.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._update_oldest_txn_timestamp()

    # verification
    def maybe_create_verification_state_entry(
        self, producer_id: int, *, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> VerificationStateEntry:
        entry = self._verification_states.get(producer_id)
        if entry is None:
            entry = VerificationStateEntry(self._clock.time_ms(), sequence=sequence, epoch=epoch, supports_epoch_bump=supports_epoch_bump)
            self._verification_states[producer_id] = entry
        entry.maybe_update_lowest_sequence_and_epoch(sequence, epoch)
        return entry

    def verification_state_entry(self, producer_id: int) -> VerificationStateEntry | None:
        return self._verification_states.get(producer_id)

    def clear_verification_state_entry(self, producer_id: int) -> None:
        self._verification_states.pop(producer_id, None)

    # time, high watermark, log start
    def remove_expired_producers(self, now_ms: int) -> None:
        for producer_id in [producer_id for producer_id, entry in self._producers.items() if self._is_expired(now_ms, entry)]:
            self._forget(self._producers.pop(producer_id), now_ms)
        if not self._is_freshly_loaded(now_ms):
            self._remembered.clear()
        limit = now_ms - self.config.producer_id_expiration_ms
        for producer_id in [producer_id for producer_id, entry in self._verification_states.items() if entry.timestamp <= limit]:
            del self._verification_states[producer_id]

    def _forget(self, entry: ProducerStateEntry, now_ms: int) -> None:
        if self._is_freshly_loaded(now_ms):
            self._remembered[entry.producer_id] = entry

    def _is_freshly_loaded(self, now_ms: int) -> bool:
        grace_ms = min(GRACE_AFTER_LOADING_MS, self.config.producer_id_expiration_ms)
        return self._loaded_ms is not None and now_ms - self._loaded_ms < grace_ms

    def _is_expired(self, now_ms: int, entry: ProducerStateEntry) -> bool:
        last_ms = max(entry.last_timestamp, entry.last_append_ms)
        return entry.current_txn_first_offset is None and now_ms - last_ms >= self.config.producer_id_expiration_ms

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._remove_unreplicated_transactions(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        self._remove_unreplicated_transactions(log_start_offset)
        self._last_map_offset = max(self._last_map_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snapshot_offset = log_start_offset if latest is None else latest

    def _remove_unreplicated_transactions(self, offset: int) -> None:
        done = [first for first, txn in self._unreplicated.items() if txn.last_offset is not None and txn.last_offset < offset]
        for first in done:
            del self._unreplicated[first]

    # truncation and loading
    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._clear()
        for snapshot_offset in sorted(self._snapshots):
            self._remove_and_delete_snapshot(snapshot_offset)
        self._last_snapshot_offset = 0
        self._last_map_offset = offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Drops the snapshots outside (log start, log end]. Unless the state ends at
        `log_end_offset`, loads the newest snapshot that is left.
        """
        for offset in sorted(self._snapshots):
            if offset > log_end_offset or offset <= log_start_offset:
                self._remove_and_delete_snapshot(offset)
        if log_end_offset != self._last_map_offset:
            self._clear()
            self._load_from_snapshot(log_start_offset, now_ms)
        else:
            self.on_log_start_offset_incremented(log_start_offset)

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> None:
        while (offset := self.latest_snapshot_offset) is not None:
            path = self._snapshots[offset]
            try:
                entries = read_producer_snapshot(self._files, path)
            except CorruptFileError as error:
                log.warning("Failed to load producer snapshot: %s", error)
                self._remove_and_delete_snapshot(offset)
                continue
            self._loaded_ms = now_ms
            for entry in entries:
                if self._is_expired(now_ms, entry):
                    self._forget(entry, now_ms)
                else:
                    self.load_producer_entry(entry)
            self._last_snapshot_offset = self._last_map_offset = offset
            self._update_oldest_txn_timestamp()
            return
        self._last_snapshot_offset = self._last_map_offset = log_start_offset

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        self._add_producer(entry)
        if entry.current_txn_first_offset is not None:
            self._add_ongoing(TxnMetadata(entry.producer_id, LogOffsetMetadata(entry.current_txn_first_offset)))

    # snapshots
    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Writes a snapshot at the map's end, if that is beyond the last one; returns its path.

        Without `sync`, `sync_snapshots` should follow. A snapshot that a power loss tears is
        skipped, and the log is read from the one before it.
        """
        offset = self._last_map_offset
        if offset <= self._last_snapshot_offset:
            return None
        path = producer_snapshot_file(self._directory, offset)
        order = java_hash_map_order(self._producers, java_long_hash, table_size=self._table_size)
        self._files.write_bytes(path, encode_producer_snapshot(self._producers[producer_id] for producer_id in order))
        if sync:
            self._files.fsync_path(path)
        else:
            self._unsynced_snapshots.append(offset)
        self._snapshots[offset] = path
        self._last_snapshot_offset = offset
        return path

    def sync_snapshots(self) -> None:
        """Syncs the snapshots that were written without a sync."""
        while self._unsynced_snapshots:
            path = self._snapshots.get(self._unsynced_snapshots[-1])
            if path is not None and self._files.exists(path):
                self._files.fsync_path(path)
            self._unsynced_snapshots.pop()

    @property
    def latest_snapshot_offset(self) -> int | None:
        return max(self._snapshots, default=None)

    def remove_stray_snapshots(self, segment_base_offsets: Iterable[int]) -> None:
        """Deletes the snapshots that are not at a segment's base, except the newest one if it lies
        above the last base.
        """
        bases = sorted(segment_base_offsets)
        self._snapshots = self._load_snapshots()
        strays = [offset for offset in sorted(self._snapshots) if offset not in bases]
        for offset in strays[:-1]:
            self._remove_and_delete_snapshot(offset)
        if strays and bases and strays[-1] < bases[-1]:
            self._remove_and_delete_snapshot(strays[-1])

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Renames the snapshot at `offset` to `.deleted`. Returns the new path, for the caller to
        delete later; None if there is no snapshot.
        """
        path = self._snapshots.pop(offset, None)
        if path is None:
            return None
        try:
            self._files.rename(path, path + DELETED_FILE_SUFFIX)
        except FileNotFoundError:
            log.info("Producer state snapshot %s was already deleted", path)
            return None
        return path + DELETED_FILE_SUFFIX

    @property
    def directory(self) -> str:
        """The log's folder."""
        return self._directory

    def update_parent_dir(self, directory: str) -> None:
        self._directory = directory
        self._snapshots = {offset: producer_snapshot_file(directory, offset) for offset in self._snapshots}

    def _remove_and_delete_snapshot(self, offset: int) -> None:
        path = self._snapshots.pop(offset)
        if self._files.exists(path):
            self._files.remove(path)

    def _load_snapshots(self) -> dict[int, str]:
        return {offset: producer_snapshot_file(self._directory, offset) for offset in list_snapshot_offsets(self._files, self._directory)}


def list_snapshot_offsets(files: FileSystem, directory: str) -> list[int]:
    if not files.is_dir(directory):
        return []
    return [offset_from_file_name(name) for name in files.list_dir(directory) if name.endswith(PRODUCER_SNAPSHOT_FILE_SUFFIX)]
