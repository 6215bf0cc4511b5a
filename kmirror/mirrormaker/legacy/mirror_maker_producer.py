"""The producer that all streams share (Kafka's `MirrorMakerProducer` and its callback).

A send that fails for good is logged and counted. With --abort.on.send.failure the first one ends
everything: the producer drops what it has not sent, and no stream commits from then on, because an
offset behind the lost record would lose it for ever. Without it the record is skipped.

A send to a topic that the producer does not know waits until its broker has made it, a tenth of a second or so.
`make_known` asks for all topics of a poll together: streams of hundreds of new topics would wait for one
after the other.

Sends that are refused at once (a record above max.request.size) count as failed sends, as in Java,
where `send` reports them through the callback.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from kmirror.clients.kafka_producer import FutureRecordMetadata, ProducerRecord, RecordMetadata
from kmirror.clients.produce_result import Callback
from kmirror.common.errors import ApiException, KmirrorError
from kmirror.runtime.api import TaskScope

_log = logging.getLogger(__name__)


class Producer(Protocol):
    """What is needed of `KafkaProducer`."""

    async def send(self, record: ProducerRecord, callback: Callback | None = None) -> FutureRecordMetadata: ...

    async def flush(self) -> None: ...

    async def partitions_for(self, topic: str) -> Sequence[object]: ...

    def trouble(self) -> str | None: ...

    async def close(self, timeout_ms: int = ...) -> None: ...


class MirrorMakerProducer:
    """`on_send_failure` is called once, at the first failed send, if failures abort. `scope` ends what waits
    for topics.
    """

    def __init__(self, producer: Producer, scope: TaskScope, *, is_sync: bool, on_send_failure: Callable[[], None] | None) -> None:
        self.num_dropped_messages = 0
        self.num_acknowledged_messages = 0
        self.has_failed = False
        self._is_dropping = False
        self._producer = producer
        self._scope = scope
        self._known_topics: set[str] = set()
        self._is_sync = is_sync
        self._on_send_failure = on_send_failure

    def make_known(self, topics: set[str]) -> None:
        """Has the producer ask for topics that records are about to go to."""
        for topic in topics - self._known_topics:
            self._known_topics.add(topic)
            self._scope.spawn(self._ask_for(topic), name=f"asks-for-{topic}")

    async def _ask_for(self, topic: str) -> None:
        with suppress(KmirrorError):  # the send to it fails in the same way, and is told
            await self._producer.partitions_for(topic)

    async def send(self, record: ProducerRecord) -> None:
        """Returns once the record is accepted; with producer.type=sync once it is written, and
        then it raises what the send failed with.
        """
        if self._is_sync:
            await (await self._producer.send(record))
            self.num_acknowledged_messages += 1
            return
        try:
            await self._producer.send(record, partial(self._completed, record))
        except ApiException as error:
            self._completed(record, None, error)

    def _completed(self, record: ProducerRecord, metadata: RecordMetadata | None, error: Exception | None) -> None:
        if error is None:
            self.num_acknowledged_messages += 1
            return
        if self._is_dropping:
            return
        self.num_dropped_messages += 1
        _log.error(
            "Error when sending message to topic %s with key: %s, value: %s with error: %s",
            record.topic,
            _size(record.key),
            _size(record.value),
            error,
        )
        if self._on_send_failure is not None and not self.has_failed:
            self.has_failed = True
            _log.info("Closing producer due to send failure.")
            self._on_send_failure()

    async def flush(self) -> None:
        """Waits until all that was sent is done. After a failed send that aborts there is nothing
        to wait for, and nothing may be committed.
        """
        if not self.has_failed:
            await self._producer.flush()

    def trouble(self) -> str | None:
        """Why the first record that waits is not written yet; None if nothing went wrong with it."""
        return self._producer.trouble()

    async def close(self) -> None:
        await self._producer.close()

    async def close_now(self) -> None:
        """Drops what is not acknowledged. No offset behind it was committed or will be, so it is
        mirrored again at the next start, and does not count as lost.
        """
        self._is_dropping = True
        await self._producer.close(0)


def _size(data: object) -> str:
    return "null" if data is None else f"{len(data)} bytes"  # type: ignore[arg-type]
