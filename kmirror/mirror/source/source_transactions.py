"""Which transactions the source's coordinators have open, by producer id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kmirror.mirror.source.source_cluster import SourceCluster, SourceError, SourceNode
from kmirror.network.client import UnsupportedVersionError
from kmirror.wire.messages import describe_transactions, list_transactions

UNKNOWN_TIME = -1


class SourceTransaction(NamedTuple):
    """A transaction as its coordinator knows it; `start_time_ms` is -1 where it does not say."""

    transactional_id: str
    start_time_ms: int


async def transactions_of(source: SourceCluster, producer_ids: Sequence[int]) -> dict[int, SourceTransaction]:
    """Returns the transactions of these producers, as far as the source's brokers show them to our
    user. A broker that does not answer, or does not know the request, is passed over.
    """
    found: dict[int, SourceTransaction] = {}
    for node in source.nodes():
        try:
            found |= await _of_coordinator(source, node, producer_ids)
        except (SourceError, UnsupportedVersionError):
            continue
    return found


async def _of_coordinator(source: SourceCluster, node: SourceNode, producer_ids: Sequence[int]) -> dict[int, SourceTransaction]:
    listed = await source.send(node, list_transactions.ListTransactionsRequest(producer_id_filters=list(producer_ids)))
    rows = {row.producer_id: row.transactional_id for row in listed.transaction_states if row.producer_id in producer_ids}
    if listed.error_code or not rows:
        return {}
    described = await source.send(node, describe_transactions.DescribeTransactionsRequest(transactional_ids=sorted(rows.values())))
    starts = {row.transactional_id: row.transaction_start_time_ms for row in described.transaction_states if not row.error_code}
    return {
        producer_id: SourceTransaction(transactional_id, starts.get(transactional_id, UNKNOWN_TIME))
        for producer_id, transactional_id in rows.items()
    }
