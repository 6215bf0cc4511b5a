"""The window of one partition: what is sent and not yet answered.

A producer may have five batches under way, which the broker keeps in order by their sequences. It
does not order batches of two producers, so the window never holds batches of two. The order within
a partition is thus always the recording's, whatever fails. The first batch of a producer's epoch
goes alone, because a broker that does not know the producer accepts any first sequence.

When a batch fails in a way that may pass, those behind it fail too (OUT_OF_ORDER_SEQUENCE_NUMBER).
The window waits for all answers. Then it sends the batches again one by one, with their old
sequences, by which the broker recognises those that it has.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from kmirror.cli.replay_batches import ReplayBatch
from kmirror.cli.replay_client import ProduceAnswer
from kmirror.cli.replay_state import LaneState
from kmirror.common.errors import Errors, KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.record.record import increment_sequence
from kmirror.runtime.api import Runtime

WINDOW: Final = 5
"""`max.in.flight.requests.per.connection` of an idempotent producer."""
FENCED: Final = (Errors.INVALID_PRODUCER_EPOCH, Errors.PRODUCER_FENCED, Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING)


class SendsBatches(Protocol):
    """The part of `ReplayClient` that the window needs."""

    runtime: Runtime
    delivery_timeout_ms: int

    async def produce(self, target: TopicPartition, batch: bytearray, transactional_id: str | None) -> ProduceAnswer: ...

    async def pause(self, failures: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Sent:
    batch: ReplayBatch
    lane: LaneState
    sequence: int
    answer: asyncio.Task[ProduceAnswer]


class Window:
    """Sends batches, and calls `on_written` in order for each one that the destination has."""

    def __init__(self, client: SendsBatches, target: TopicPartition, on_written: Callable[[LaneState, ReplayBatch], None]) -> None:
        self._client = client
        self._target = target
        self._on_written = on_written
        self._sent: deque[Sent] = deque()

    def __len__(self) -> int:
        return len(self._sent)

    async def send(self, lane: LaneState, batch: ReplayBatch) -> None:
        """Returns when there is room and the batch is on its way.

        KmirrorError for a batch that the destination refuses.
        """
        if self._sent and (self._sent[-1].lane is not lane or lane.sequence == 0):
            await self.drain()
        while len(self._sent) >= WINDOW:
            await self._settle()
        last = self._sent[-1] if self._sent else None
        sequence = lane.sequence if last is None else increment_sequence(last.sequence, last.batch.record_count)
        answer = self._client.runtime.spawn(self._produce(lane, batch, sequence), name=f"replay-{self._target}")
        self._sent.append(Sent(batch, lane, sequence, answer))

    async def drain(self) -> None:
        """Returns when all batches are answered."""
        while self._sent:
            await self._settle()

    async def cancel(self) -> None:
        """Cancel the requests under way and forget them."""
        for sent in self._sent:
            sent.answer.cancel()
        self._sent.clear()

    async def _settle(self) -> None:
        """Wait for the oldest batch; if it failed, send it and all behind it again."""
        answer = await self._sent[0].answer
        if answer.is_written:
            self._written(self._sent.popleft())
            return
        answers = [await sent.answer for sent in self._sent]
        for answer in answers:
            await self._again(self._sent[0], answer)
            self._written(self._sent.popleft())

    def _written(self, sent: Sent) -> None:
        sent.lane.sequence = increment_sequence(sent.sequence, sent.batch.record_count)
        self._on_written(sent.lane, sent.batch)

    async def _again(self, sent: Sent, answer: ProduceAnswer) -> None:
        """Send a batch again until it is written.

        A batch behind a failed one has a wrong sequence only because of that failure.
        """
        clock = self._client.runtime.clock
        deadline_ms = clock.monotonic_ms() + self._client.delivery_timeout_ms
        may_be_out_of_order = True
        failures = 0
        while not answer.is_written:
            may_pass = answer.error.retriable or (may_be_out_of_order and answer.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
            if not may_pass or clock.monotonic_ms() >= deadline_ms:
                raise refused(self._target, sent.batch, answer)
            may_be_out_of_order = answer.error is not Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
            await self._client.pause(failures)
            failures += 1
            answer = await self._produce(sent.lane, sent.batch, sent.sequence)

    async def _produce(self, lane: LaneState, batch: ReplayBatch, sequence: int) -> ProduceAnswer:
        return await self._client.produce(self._target, batch.encoded(lane.producer_id, lane.epoch, sequence), lane.transactional_id)


def refused(target: TopicPartition, batch: ReplayBatch, answer: ProduceAnswer) -> KmirrorError:
    """Returns an error of one line: which batch, what the destination says, and what helps."""
    where = f"{target}: the batch at offset {batch.offset} of the recording"
    if answer.error in (Errors.MESSAGE_TOO_LARGE, Errors.RECORD_LIST_TOO_LARGE):
        setting = "max.message.bytes" if answer.error is Errors.MESSAGE_TOO_LARGE else "segment.bytes"
        return KmirrorError(
            f"{where} has {batch.size} bytes, but {setting} of topic {target.topic} allows fewer; raise it at the destination"
        )
    if answer.error is Errors.TOPIC_AUTHORIZATION_FAILED:
        return KmirrorError(f"not authorized to write to topic {target.topic}")
    if answer.error in FENCED:
        return KmirrorError(
            f"{where}: the coordinator ended its transaction ({answer.error.name}): it was open for longer than "
            "--transaction-timeout-ms, or another replay has the same --state"
        )
    return KmirrorError(f"{where} was not written: {answer.error.name}: {answer.message or answer.error.message}")
