"""What stands between consumer and producer (Kafka's `MirrorMakerMessageHandler`)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable
from typing import Protocol

from kmirror.clients.consumer.consumer_types import ConsumerRecord
from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import KmirrorError
from kmirror.record.record import NO_TIMESTAMP


class MessageHandlerError(KmirrorError):
    """A handler raised, or returned what cannot be produced. The text names the record."""

    def __init__(self, record: ConsumerRecord, reason: str) -> None:
        super().__init__(f"the message handler failed at {record.topic_partition}, offset {record.offset}: {reason}")


class MirrorMakerMessageHandler(Protocol):
    """Turns a record into those to produce: none to drop it, several to split it.

    `handle` must not block; it may be an `async def`. The records of one partition come in their
    order. All streams share one handler.
    """

    def handle(self, record: ConsumerRecord) -> Iterable[ProducerRecord] | Awaitable[Iterable[ProducerRecord]]: ...


class DefaultMirrorMakerMessageHandler:
    """The record as it is. The target's partition is chosen anew, by the key."""

    def handle(self, record: ConsumerRecord) -> list[ProducerRecord]:
        timestamp = None if record.timestamp == NO_TIMESTAMP else record.timestamp
        return [ProducerRecord(record.topic, record.value, key=record.key, headers=record.headers, timestamp=timestamp)]


async def handled(handler: MirrorMakerMessageHandler, record: ConsumerRecord) -> list[ProducerRecord]:
    """Returns what the handler makes of a record; MessageHandlerError for whatever goes wrong."""
    try:
        made = handler.handle(record)
        records = list(await made if inspect.isawaitable(made) else made)
    except Exception as error:
        raise MessageHandlerError(record, f"{type(error).__name__}: {error}") from error
    for one in records:
        if not isinstance(one, ProducerRecord):
            raise MessageHandlerError(record, f"it returned a {type(one).__name__} among its records, which is no ProducerRecord")
    return records
