"""Which leader epochs a broker tells to clients: none above the partition's own.

A mirror's batches keep the epochs of the source (KIP-1279), and its own leader epoch is not raised
while it mirrors. So a log may have epochs above the one in the metadata. Java's clients take every
epoch that a broker tells them for one that metadata will show: they remember the largest and drop
metadata with a lower one from then on. Such a consumer has no leader any more as soon as it needs
one anew (a rebalance, a restart, a new leader), until a failover raises the local epoch
(MIRRORING.md, "Java consumers and leader epochs").

So each way by which an epoch reaches a client's metadata goes through here, and ends at -1, "not
known", where the epoch is above ours:

    Fetch         the epochs of batches, in a copy of what is sent; a log without such an epoch is sent by sendfile as ever
    ListOffsets   the epoch of the batch found
    OffsetFetch   the epoch that was committed, of a topic with a `mirror.name`; what is stored stays as it was committed

Replicas, mirrors' fetchers and tools that compare logs get the log as it is. OffsetForLeaderEpoch
tells the truth to everybody: its answer is never above the epoch that was asked for, which the
client had before.

A consumer's position in such batches has no epoch, so it is not validated when the leader changes:
below the local epoch truncation is detected as ever. A failover raises the local epoch above all of
the log, and then nothing is hidden any more.

The latest offset's epoch is the leader's in Kafka, whose leaders begin an epoch in the log when
they are elected. A mirror's do not (D5), so the leader's epoch says nothing about the log; the
answer is the log's latest epoch.
"""

from __future__ import annotations

from kmirror.common.ports import Buffer, FileSlice
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.leader_epochs import hide_leader_epochs_above
from kmirror.storage.unified_log import UnifiedLog


class ClientEpochs:
    """Static functions only; a class, so that the simulator can take each out. `leader_epoch` is
    the partition's own everywhere."""

    @staticmethod
    def told(epoch: int, leader_epoch: int) -> int:
        """What a client is told of an epoch."""
        return epoch if epoch <= leader_epoch else NO_PARTITION_LEADER_EPOCH

    @staticmethod
    def of_log_end(latest_epoch: int | None, leader_epoch: int) -> int:
        """What a consumer is told with the latest offset; `latest_epoch` is the log's, None when it
        has none."""
        return leader_epoch if latest_epoch is None else ClientEpochs.told(latest_epoch, leader_epoch)

    @staticmethod
    def records(records: FileSlice, log: UnifiedLog, leader_epoch: int) -> FileSlice | Buffer:
        """What a consumer is sent; read here only where the log has an epoch that is hidden.
        ApiException KAFKA_STORAGE_ERROR when that fails."""
        latest_epoch = log.latest_epoch
        if latest_epoch is None or latest_epoch <= leader_epoch:
            return records
        return hide_leader_epochs_above(log.read_bytes(records), leader_epoch)
