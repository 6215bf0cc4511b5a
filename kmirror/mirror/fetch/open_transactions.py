"""Which producers keep transactions open at the source, for the reason that a partition shows.

The source's leader knows the producer of an undecided record and when it wrote last
(DescribeProducers); the transaction coordinators know its transactional id and when the transaction
began (ListTransactions, DescribeTransactions). Each is asked at most every ASK_AGAIN_MS, in a task
beside the fetcher, which never waits for it. What the source does not say, because it is too old or
our user may not see it, stays unknown, and the text says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirror.fetch.fetched_mirror_partition import FetchedMirrorPartition
from kmirror.mirror.source.mirror import Mirror
from kmirror.mirror.source.source_end_point import OpenProducer, SourceEndPoint
from kmirror.mirror.source.source_transactions import SourceTransaction, transactions_of
from kmirror.runtime.api import Runtime

ASK_AGAIN_MS = 30_000
PRODUCERS_NAMED = 3
NOT_ASKED = "by which producer the source has not said yet"


class OpenTransactions:
    """Owns what was found for the partitions of one fetcher, and the task that asks."""

    def __init__(self, runtime: Runtime, end_point: SourceEndPoint, name: str) -> None:
        self._runtime = runtime
        self._end_point = end_point
        self._name = name
        self._texts: dict[TopicPartition, str] = {}
        self._asked_ms: int | None = None
        self._asking: asyncio.Task[None] | None = None

    def ask_about(self, partitions: Mapping[TopicPartition, FetchedMirrorPartition]) -> None:
        """Begins to ask about these partitions, unless that was done a moment ago."""
        for gone in [name for name in self._texts if name not in partitions]:
            del self._texts[gone]
        now_ms = self._runtime.clock.monotonic_ms()
        is_new = any(name not in self._texts for name in partitions)
        pause_ms = ASK_AGAIN_MS // 6 if is_new else ASK_AGAIN_MS
        if not partitions or self._asking is not None or (self._asked_ms is not None and now_ms - self._asked_ms < pause_ms):
            return
        self._asked_ms = now_ms
        self._asking = self._runtime.spawn(self._ask(dict(partitions)), name=f"open-transactions-{self._name}")

    def was_asked(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._texts

    def text_of(self, topic_partition: TopicPartition) -> str:
        return self._texts.get(topic_partition, NOT_ASKED)

    def forget(self, topic_partition: TopicPartition) -> None:
        self._texts.pop(topic_partition, None)

    def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    async def _ask(self, partitions: dict[TopicPartition, FetchedMirrorPartition]) -> None:
        try:
            self._texts |= await self._found(partitions)
        except KmirrorError as error:
            self._texts |= dict.fromkeys(partitions, f"by which producer the source does not say: {error}")
        except Exception as error:  # noqa: BLE001 - reported: a reason that is not found must not end anything
            self._runtime.report_failure(f"[{self._name}] the open transactions of the source were not found", error)
        finally:
            self._asking = None

    async def _found(self, partitions: Mapping[TopicPartition, FetchedMirrorPartition]) -> dict[TopicPartition, str]:
        producers = await self._end_point.open_producers(partitions)
        mirror = next(iter(partitions.values())).target.mirror
        ids = sorted({producer.producer_id for found in producers.values() for producer in found})
        transactions = await _transactions(mirror, ids)
        return {name: _text(producers.get(name, []), transactions) for name in partitions}


async def _transactions(mirror: Mirror, producer_ids: list[int]) -> dict[int, SourceTransaction]:
    return await transactions_of(mirror.source, producer_ids) if producer_ids else {}


def _text(producers: list[OpenProducer], transactions: Mapping[int, SourceTransaction]) -> str:
    """Names the producers, the one that began first before the others."""
    if not producers:
        return "by which producer the source does not say"
    producers = sorted(producers, key=lambda producer: producer.start_offset)
    named = "; ".join(_producer_text(producer, transactions.get(producer.producer_id)) for producer in producers[:PRODUCERS_NAMED])
    more = len(producers) - PRODUCERS_NAMED
    return f"{named}; and {more} more" if more > 0 else named


def _producer_text(producer: OpenProducer, transaction: SourceTransaction | None) -> str:
    who = f"producer id {producer.producer_id}"
    if transaction is None:
        return f"of {who}, whose transactional id is not shown to us; its last record is of {_utc(producer.last_timestamp)}"
    begun = f"since {_utc(transaction.start_time_ms)}" if transaction.start_time_ms >= 0 else f"last record {_utc(producer.last_timestamp)}"
    return f"of {who}, transactional.id {transaction.transactional_id}, {begun}"


def _utc(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"timestamp {timestamp_ms}"
