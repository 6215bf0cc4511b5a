"""What is read from a partition: fetches, offsets by timestamp, end offsets of leader epochs.

Four rules of fetching live here.

* A follower (and a consumer that sends `LastFetchedEpoch`) is compared before it is served: when
  the leader's end offset for that epoch lies below the fetch offset, or belongs to an older epoch,
  the answer is the diverging epoch and no data.
* An epoch above all of ours is a divergence too: (largest epoch, log end offset). Kafka answers
  OFFSET_OUT_OF_RANGE there; a mirror, whose source may have fallen back to older epochs, would then
  restart from nothing (C36b).
* A consumer that says who it is may read from a follower, up to the high watermark that the
  follower knows (KIP-392).
* Offsets are taken before the read, so that an append after it does not make a caught-up follower
  look late.
"""

from __future__ import annotations

from msgspec import Struct

from kmirror.common.errors import ApiException, Errors
from kmirror.common.ports import FileSlice
from kmirror.common.sentinels import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    NO_PARTITION_LEADER_EPOCH,
    READ_COMMITTED,
)
from kmirror.replica.client_epochs import ClientEpochs
from kmirror.replica.partition import Partition
from kmirror.replica.replica_types import (
    NO_MIRROR_LEADER_EPOCH,
    DivergingEpoch,
    EpochEndOffset,
    FetchParams,
    FetchPartition,
    FetchPartitionData,
    ListOffsetsResult,
)
from kmirror.storage.fetch_data_info import AbortedTxn, FetchIsolation
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.unified_log import UnifiedLog


class LogReadResult(Struct):
    """One partition's part of a fetch. `fetch_offset_metadata` is where the read began, for waiting
    by bytes."""

    error: Errors
    records: FileSlice | None = None
    fetch_offset_metadata: LogOffsetMetadata | None = None
    diverging_epoch: DivergingEpoch | None = None
    high_watermark: int = -1
    log_start_offset: int = -1
    log_end_offset: int = -1
    last_stable_offset: int = -1
    aborted_transactions: list[AbortedTxn] | None = None
    mirror_leader_epoch: int = -1
    preferred_read_replica: int = -1
    is_settled: bool = False

    @property
    def size_in_bytes(self) -> int:
        return 0 if self.records is None else self.records.size

    def to_partition_data(self) -> FetchPartitionData:
        return FetchPartitionData(
            error=self.error,
            high_watermark=self.high_watermark,
            log_start_offset=self.log_start_offset,
            records=self.records,
            diverging_epoch=self.diverging_epoch,
            last_stable_offset=self.last_stable_offset,
            aborted_transactions=self.aborted_transactions,
            mirror_leader_epoch=self.mirror_leader_epoch,
            preferred_read_replica=self.preferred_read_replica,
            is_settled=self.is_settled,
        )


def read_partition(
    partition: Partition, params: FetchParams, fetch: FetchPartition, *, max_bytes: int, min_one_message: bool
) -> LogReadResult:
    """Read up to `max_bytes` (one batch more when `min_one_message`). An error comes without any
    offsets, as in Kafka."""
    if max_bytes < 0:
        return LogReadResult(error=Errors.UNKNOWN_SERVER_ERROR)
    try:
        partition.check_current_leader_epoch(fetch.current_leader_epoch)
        log = partition.readable_log(fetch_only_leader=params.fetch_only_leader)
        if params.is_from_follower:
            partition.follower_replica_or_raise(params.replica_id, fetch.current_leader_epoch)
        return _read_log(partition, log, params, fetch, max_bytes=max_bytes, min_one_message=min_one_message)
    except ApiException as error:
        return LogReadResult(error=error.error)


def _read_log(
    partition: Partition, log: UnifiedLog, params: FetchParams, fetch: FetchPartition, *, max_bytes: int, min_one_message: bool
) -> LogReadResult:
    result = LogReadResult(
        error=Errors.NONE,
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        mirror_leader_epoch=_mirror_leader_epoch(log, fetch),
    )
    if fetch.last_fetched_epoch is not None:
        result.diverging_epoch = diverging_epoch(partition, log, fetch.fetch_offset, fetch.last_fetched_epoch)
        if result.diverging_epoch is not None:
            return result
    read = log.read(fetch.fetch_offset, max_bytes, params.isolation, min_one_message=min_one_message)
    result.fetch_offset_metadata = read.fetch_offset_metadata
    if not read.first_entry_incomplete:
        # Kafka drops what belongs to a batch that does not fit, the aborted transactions included.
        result.records = read.records
        result.aborted_transactions = read.aborted_transactions
    return result


def _mirror_leader_epoch(log: UnifiedLog, fetch: FetchPartition) -> int:
    """What a follower that asks is told: the latest epoch of our log, up to which it may append
    (KIP-1279, MLE).
    """
    return NO_MIRROR_LEADER_EPOCH if fetch.mirror_leader_epoch < 0 else log.latest_epoch or 0


def read_elsewhere(partition: Partition, fetch: FetchPartition, preferred_read_replica: int) -> LogReadResult:
    """The answer that sends a consumer to another replica: offsets, and no records."""
    try:
        partition.check_current_leader_epoch(fetch.current_leader_epoch)
        log = partition.local_log
    except ApiException as error:
        return LogReadResult(error=error.error)
    return LogReadResult(
        error=Errors.NONE,
        high_watermark=log.high_watermark,
        log_start_offset=log.log_start_offset,
        log_end_offset=log.log_end_offset,
        last_stable_offset=log.last_stable_offset,
        preferred_read_replica=preferred_read_replica,
    )


def diverging_epoch(partition: Partition, log: UnifiedLog, fetch_offset: int, last_fetched_epoch: int) -> DivergingEpoch | None:
    """Where the fetcher's log diverges from ours, or None; ApiException OFFSET_OUT_OF_RANGE if that
    is unknown.
    """
    end = _end_offset_for_epoch(partition, log, last_fetched_epoch)
    if end.leader_epoch < 0 or end.end_offset < 0:
        raise ApiException(
            Errors.OFFSET_OUT_OF_RANGE,
            f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request",
        )
    if fetch_offset < log.log_start_offset:
        raise ApiException(
            Errors.OFFSET_OUT_OF_RANGE,
            f"Received request for offset {fetch_offset} for partition {partition.topic_partition}, but we only have log segments "
            f"in the range {log.log_start_offset} to {log.log_end_offset}.",
        )
    if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
        return DivergingEpoch(end.leader_epoch, end.end_offset)
    return None


def _end_offset_for_epoch(partition: Partition, log: UnifiedLog, leader_epoch: int) -> EpochEndOffset:
    end = log.end_offset_for_epoch(leader_epoch)
    if end is not None and end.leader_epoch >= 0:
        return EpochEndOffset(Errors.NONE, end.leader_epoch, end.offset)
    latest_epoch = log.latest_epoch
    if latest_epoch is None:
        # No batch and no entry: everything up to the log end belongs, emptily, to the epoch that we
        # lead in.
        known = min(leader_epoch, partition.leader_epoch)
        return EpochEndOffset(Errors.NONE, known, log.log_end_offset)
    if leader_epoch > latest_epoch:
        return EpochEndOffset(Errors.NONE, latest_epoch, log.log_end_offset)
    return EpochEndOffset(Errors.NONE)


def fetchable_end_offset(log: UnifiedLog, isolation: FetchIsolation) -> LogOffsetMetadata:
    """The offset up to which a fetch of this isolation may read."""
    if isolation is FetchIsolation.LOG_END:
        return log.log_end_offset_metadata
    return log.high_watermark_metadata if isolation is FetchIsolation.HIGH_WATERMARK else log.last_stable_offset_metadata


def last_offset_for_leader_epoch(partition: Partition, *, current_leader_epoch: int | None, leader_epoch: int) -> EpochEndOffset:
    """End offset of the largest epoch that is not above `leader_epoch` (OffsetForLeaderEpoch)."""
    try:
        partition.check_current_leader_epoch(current_leader_epoch)
        log = partition.leader_log
        end = log.end_offset_for_epoch(leader_epoch)
    except ApiException as error:
        return EpochEndOffset(error.error)
    if end is not None:
        return EpochEndOffset(Errors.NONE, end.leader_epoch, end.offset)
    latest = log.latest_epoch
    if latest is None or not latest < leader_epoch <= partition.leader_epoch:
        return EpochEndOffset(Errors.NONE)
    # A leader of a mirror topic has no entry for its own epoch before it has appended in it: that
    # epoch begins, emptily, at the log end.
    return EpochEndOffset(Errors.NONE, leader_epoch if leader_epoch == partition.leader_epoch else latest, log.log_end_offset)


def fetch_offset_for_timestamp(
    partition: Partition, *, timestamp: int, isolation_level: int | None, current_leader_epoch: int | None, fetch_only_leader: bool = True
) -> ListOffsetsResult:
    """ListOffsets of one partition. `isolation_level` None: not a consumer, the log end is the
    latest offset."""
    try:
        partition.check_current_leader_epoch(current_leader_epoch)
        log = partition.readable_log(fetch_only_leader=fetch_only_leader)
        return _offset_for_timestamp(partition, log, timestamp, isolation_level)
    except ApiException as error:
        return ListOffsetsResult(error.error)


def _offset_for_timestamp(partition: Partition, log: UnifiedLog, timestamp: int, isolation_level: int | None) -> ListOffsetsResult:
    start = partition.leader_epoch_start_offset
    is_lagging = isolation_level is not None and start is not None and start > log.high_watermark
    last_fetchable_offset = {None: log.log_end_offset, READ_COMMITTED: log.last_stable_offset}.get(isolation_level, log.high_watermark)
    if timestamp == LATEST_TIMESTAMP:
        if is_lagging:
            return ListOffsetsResult(Errors.OFFSET_NOT_AVAILABLE)
        is_replica = isolation_level is None
        epoch = partition.leader_epoch if is_replica else ClientEpochs.of_log_end(log.latest_epoch, partition.leader_epoch)
        return ListOffsetsResult(Errors.NONE, offset=last_fetchable_offset, leader_epoch=epoch)
    found = log.offset_for_timestamp(timestamp)
    is_start = timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
    if found is None or (found.offset >= last_fetchable_offset and not is_start):
        return ListOffsetsResult(Errors.OFFSET_NOT_AVAILABLE if is_lagging else Errors.NONE)
    epoch = NO_PARTITION_LEADER_EPOCH if found.leader_epoch is None else found.leader_epoch
    if isolation_level is not None:
        epoch = ClientEpochs.told(epoch, partition.leader_epoch)
    return ListOffsetsResult(Errors.NONE, found.timestamp, found.offset, epoch)
