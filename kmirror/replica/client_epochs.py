"""Which leader epochs a broker tells to clients: none above the partition's own.

A mirror's batches keep the epochs of the source (KIP-1279), and its own leader epoch is not raised
while it mirrors. So a log may have epochs above the one in the metadata. Java clients assume that
every epoch a broker tells them will appear in metadata: they remember the largest and then drop
metadata with a lower one. As soon as such a consumer has to find its leader again (a rebalance, a
restart, a new leader), it has none until a failover raises the local epoch (MIRRORING.md, "Java
consumers and leader epochs").

So every path by which an epoch reaches a client's metadata goes through here, and an epoch above
ours is replaced by -1, "not known":

    Fetch         the epochs of batches, in a copy of what is sent; a log without such an epoch is sent by sendfile as ever
    ListOffsets   the epoch of the batch found
    OffsetFetch   the epoch that was committed, of a topic with a `mirror.name`; what is stored stays as it was committed

Replicas, mirror fetchers and tools that compare logs get the log as it is. OffsetForLeaderEpoch
hides nothing: its answer is never above the epoch that was asked for, which the client already had.

A consumer's position in such batches has no epoch, so it is not validated when the leader changes;
below the local epoch truncation is still detected. A failover raises the local epoch above every
epoch in the log, and then nothing is hidden any more.

In Kafka the epoch of the latest offset is the leader's, because a leader begins an epoch in the log
when it is elected. A mirror's leader does not (D5), so its epoch says nothing about the log; the
answer is the log's latest epoch.
"""

from __future__ import annotations

from kmirror.common.ports import Buffer, FileSlice
from kmirror.common.sentinels import NO_PARTITION_LEADER_EPOCH
from kmirror.record.leader_epochs import hide_leader_epochs_above
from kmirror.storage.unified_log import UnifiedLog


class ClientEpochs:
    """Static functions without state, in a class so that the simulator can replace each.
    `leader_epoch` is always the partition's own.
    """

    @staticmethod
    def told(epoch: int, leader_epoch: int) -> int:
        """The epoch that a client is told."""
        return epoch if epoch <= leader_epoch else NO_PARTITION_LEADER_EPOCH

    @staticmethod
    def of_log_end(latest_epoch: int | None, leader_epoch: int) -> int:
        """The epoch that a consumer is told with the latest offset; `latest_epoch` is the log's,
        None when it has none.
        """
        return leader_epoch if latest_epoch is None else ClientEpochs.told(latest_epoch, leader_epoch)

    @staticmethod
    def records(records: FileSlice, log: UnifiedLog, leader_epoch: int) -> FileSlice | Buffer:
        """The records that a consumer is sent; they are read here only if the log has an epoch to
        hide. ApiException KAFKA_STORAGE_ERROR if that fails.
        """
        latest_epoch = log.latest_epoch
        if latest_epoch is None or latest_epoch <= leader_epoch:
            return records
        return hide_leader_epochs_above(log.read_bytes(records), leader_epoch)
