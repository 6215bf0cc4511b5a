"""What stands between consumer and producer (Kafka's `MirrorMakerMessageHandler`).

A handler is a user's code, and whatever it does wrong ends its stream with one line that names the
record. Two faults would do worse if they were let through:

    it raises SystemExit, say      the loop ends at once with its code, 0 perhaps: nobody flushes
    a record that cannot be sent   the producer has it among good records, and cannot send those
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Final, Protocol

from kmirror.clients.consumer.consumer_types import ConsumerRecord
from kmirror.clients.kafka_producer import ProducerRecord
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.legacy.user_code import UserCodeError, called
from kmirror.record.record import NO_TIMESTAMP

BYTES: Final = (bytes, bytearray, memoryview)
LARGEST_PARTITION: Final = 2**31 - 1
LARGEST_TIMESTAMP: Final = 2**63 - 1


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
        records = list(await called(handler.handle, record))
    except UserCodeError as error:
        raise MessageHandlerError(record, str(error)) from error
    except Exception as error:
        raise MessageHandlerError(record, f"{type(error).__name__}: {error}") from error
    for one in records:
        fault = _fault(one)
        if fault is not None:
            raise MessageHandlerError(record, f"it returned a {type(one).__name__} among its records, {fault}")
    return records


def _fault(record: object) -> str | None:
    """Why a record cannot be produced; Java's types and `ProducerRecord` allow no such record."""
    if not isinstance(record, ProducerRecord):
        return "which is no ProducerRecord"
    if not isinstance(record.topic, str):
        return f"whose topic is {record.topic!r}"
    for name, data in (("key", record.key), ("value", record.value)):
        if not _is_data(data):
            return f"whose {name} is a {type(data).__name__}: it must be bytes or None"
    if not _are_headers(record.headers):
        return "whose headers are not pairs of a str and bytes or None"
    return _number_fault("partition", record.partition, LARGEST_PARTITION) or _number_fault(
        "timestamp", record.timestamp, LARGEST_TIMESTAMP
    )


def _is_data(data: object) -> bool:
    return data is None or isinstance(data, BYTES)


def _are_headers(headers: Iterable[tuple[object, object]]) -> bool:
    try:
        return all(isinstance(name, str) and _is_data(value) for name, value in headers)
    except (TypeError, ValueError):  # not iterable, or something in it is no pair
        return False


def _number_fault(name: str, value: object, largest: int) -> str | None:
    if value is None or (isinstance(value, int) and 0 <= value <= largest):
        return None
    return f"whose {name} is {value!r}: it must be None or a number from 0 to {largest}"
