"""A scripted transaction coordinator: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
TxnOffsetCommit and EndTxn of one transactional id, in both versions of transactions.

`errors` gives the next errors of an API, in order; without one the request succeeds.
"""

from __future__ import annotations

from kmirror.common.errors import Errors
from kmirror.wire.api_keys import ApiKeys
from kmirror.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from kmirror.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from kmirror.wire.messages.end_txn import EndTxnResponse
from kmirror.wire.messages.init_producer_id import InitProducerIdResponse
from kmirror.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from support.clients.scripted_cluster import ScriptedCluster

PRODUCER_ID = 4000


class ScriptedTransactions:
    def __init__(self, cluster: ScriptedCluster, *, version: int) -> None:
        self.version = version
        self.epoch = -1
        self.calls: list[str] = []
        self.partitions: list[tuple[str, int]] = []
        self.offsets: list[tuple[str, str, int, int]] = []
        self.errors: dict[int, list[Errors]] = {}
        if version >= 2:
            cluster.features["transaction.version"] = 2
        for key, answer in {
            ApiKeys.INIT_PRODUCER_ID: self._init,
            ApiKeys.ADD_PARTITIONS_TO_TXN: self._add_partitions,
            ApiKeys.ADD_OFFSETS_TO_TXN: self._add_offsets,
            ApiKeys.TXN_OFFSET_COMMIT: self._commit_offsets,
            ApiKeys.END_TXN: self._end,
        }.items():
            cluster.handlers[key] = answer

    def fail(self, api_key: int, *errors: Errors) -> None:
        self.errors.setdefault(api_key, []).extend(errors)

    def _error(self, api_key: int) -> Errors:
        waiting = self.errors.get(api_key)
        return waiting.pop(0) if waiting else Errors.NONE

    def _init(self, node_id, request):
        error = self._error(ApiKeys.INIT_PRODUCER_ID)
        self.calls.append("init" if request.producer_id < 0 else "bump")
        if error:
            return InitProducerIdResponse(error_code=error)
        self.epoch += 1
        return InitProducerIdResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    def _add_partitions(self, node_id, request):
        error = self._error(ApiKeys.ADD_PARTITIONS_TO_TXN)
        self.calls.append("add")
        rows = []
        for topic in request.v3_and_below_topics:
            results = [AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=error) for one in topic.partitions]
            rows.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=results))
            if not error:
                self.partitions += [(topic.name, one) for one in topic.partitions]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)

    def _add_offsets(self, node_id, request):
        self.calls.append("add-offsets")
        return AddOffsetsToTxnResponse(error_code=self._error(ApiKeys.ADD_OFFSETS_TO_TXN))

    def _commit_offsets(self, node_id, request):
        error = self._error(ApiKeys.TXN_OFFSET_COMMIT)
        self.calls.append("offsets")
        topics = []
        for topic in request.topics:
            rows = [TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=error) for row in topic.partitions]
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=rows))
            if not error:
                self.offsets += [(request.group_id, topic.name, row.partition_index, row.committed_offset) for row in topic.partitions]
        return TxnOffsetCommitResponse(topics=topics)

    def _end(self, node_id, request):
        error = self._error(ApiKeys.END_TXN)
        self.calls.append("commit" if request.committed else "abort")
        if error:
            return EndTxnResponse(error_code=error)
        if request.producer_epoch != self.epoch:
            return EndTxnResponse(error_code=Errors.PRODUCER_FENCED)
        if self.version < 2:
            return EndTxnResponse()
        self.epoch += 1
        return EndTxnResponse(producer_id=PRODUCER_ID, producer_epoch=self.epoch)
