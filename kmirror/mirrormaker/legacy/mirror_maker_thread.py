"""One stream: consume, handle, produce, and commit in its time (Kafka's `MirrorMakerThread`).

    mirroring ── shut_down, or a failed send that aborts ──> ending ──> ended
    mirroring ── anything raises ──> failed (told once, with the reason) ──> ending ──> ended

Ending is: flush, commit, leave the group. It commits what was handed to the producer, which after a
failure of the handler is everything before the record that it failed at. If the flush fails, nothing
is committed.

A poll returns up to max.poll.records, and a handler that is a plain function never waits. So a stream
lets others run every TURN_MS: without that, 100 ms for each record would be 50 s without a heartbeat,
the group would take the partitions away, and the same records would come again, for ever. (Java has
a thread for heartbeats.) Within one call of such a handler nothing else can run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kmirror.clients.consumer.consumer_types import ConsumerRecord, TopicMadeAnewError, WakeupException
from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition
from kmirror.mirrormaker.legacy.consumer_wrapper import ConsumerWrapper
from kmirror.mirrormaker.legacy.message_handler import DefaultMirrorMakerMessageHandler, MirrorMakerMessageHandler, handled
from kmirror.mirrormaker.legacy.mirror_maker_producer import MirrorMakerProducer
from kmirror.mirrormaker.recreated_topics import RECREATED_POLICY_CONFIG, STOP
from kmirror.runtime.api import Runtime

HOW_TO_GO_ON: Final = (
    "nothing of it is copied. The group keeps the former topic's offset: say where the new one is read (kafka-consumer-groups "
    "--reset-offsets) before the next start, which no longer knows the former id"
)
POLL_MS: Final = 1_000
"""As Kafka's: commit intervals above a second are kept although nothing arrives."""
TURN_MS: Final = 50
_log = logging.getLogger(__name__)


class MirrorMakerThread:
    """`run` returns when the stream has ended; it raises nothing but cancellation."""

    def __init__(
        self,
        runtime: Runtime,
        wrapper: ConsumerWrapper,
        producer: MirrorMakerProducer,
        handler: MirrorMakerMessageHandler,
        *,
        offset_commit_interval_ms: int,
        on_failure: Callable[[], None],
    ) -> None:
        self.name = wrapper.name
        self.num_consumed_messages = 0
        self.failure: Exception | None = None
        self.wrapper = wrapper
        self._runtime = runtime
        self._producer = producer
        self._handler = handler
        self._interval_ms = offset_commit_interval_ms
        self._on_failure = on_failure
        self._copy = handler.handle if isinstance(handler, DefaultMirrorMakerMessageHandler) else None
        self._last_commit_ms = self._due_ms = runtime.clock.monotonic_ms()
        self._shutting_down = False

    def shut_down(self) -> None:
        """Lets the stream end cleanly, soon."""
        if not self._shutting_down:
            self._shutting_down = True
            _log.info("[%s] shutting down", self.name)
            self.wrapper.consumer.wakeup()

    def not_ready(self) -> str | None:
        if self.failure is not None:
            return f"{self.name}: {self.failure}"
        if self.wrapper.partition_count is None:
            return f"{self.name}: it is not in its group, so what it should read is not known"
        return None

    async def run(self) -> None:
        _log.info("[%s] Starting mirror maker thread", self.name)
        try:
            self.wrapper.subscribe()
            while not self._is_ending:
                await self._mirror()
                await self._maybe_flush_and_commit_offsets()
        except Exception as error:  # noqa: BLE001 - whatever ends a stream ends the tool, and is told
            self.failed(error)
        await self._end()

    @property
    def _is_ending(self) -> bool:
        return self._shutting_down or self._producer.has_failed

    async def _mirror(self) -> None:
        """Mirrors what one poll returns."""
        try:
            records = await self.wrapper.consumer.poll(POLL_MS)
            clock = self._runtime.clock
            self._begin_turn()
            if self._copy is not None:
                self._producer.make_known({partition.topic for partition in records.partitions()})
            for partition in records.partitions():
                for record in records.records(partition):
                    if self._is_ending:
                        return
                    await self._mirror_record(partition, record)
                    if clock.monotonic_ms() >= self._due_ms:
                        await self._runtime.sleep_ms(0)
                        await self._maybe_flush_and_commit_offsets()
                        self._begin_turn()
        except WakeupException:
            pass
        except TopicMadeAnewError as error:
            raise KmirrorError(f"{error}, and {RECREATED_POLICY_CONFIG}={STOP}: {HOW_TO_GO_ON}") from error
        except KmirrorError as error:
            if not self._is_ending:
                raise
            _log.debug("[%s] failed while it ended: %s", self.name, error)

    async def _mirror_record(self, partition: TopicPartition, record: ConsumerRecord) -> None:
        self.num_consumed_messages += 1
        for made in self._copy(record) if self._copy is not None else await handled(self._handler, record):
            await self._producer.send(made)
        self.wrapper.mirrored(partition, record.offset)

    def _begin_turn(self) -> None:
        """Others have run: works out when they have to again, or when a commit is due before that."""
        turn_ends_ms = self._runtime.clock.monotonic_ms() + TURN_MS
        self._due_ms = min(turn_ends_ms, self._last_commit_ms + self._interval_ms + 1)

    async def _maybe_flush_and_commit_offsets(self) -> None:
        if self._runtime.clock.monotonic_ms() - self._last_commit_ms > self._interval_ms:
            await self.wrapper.flush_and_commit()
            self._last_commit_ms = self._runtime.clock.monotonic_ms()

    def failed(self, error: Exception) -> None:
        """Tells why the stream ends, once, in one line."""
        if self.failure is None:
            self.failure = error
            reason = str(error) if isinstance(error, KmirrorError) else f"{type(error).__name__}: {error}"
            _log.critical("[%s] Mirror maker thread failure due to %s", self.name, reason)
            _log.debug("the failure's origin", exc_info=error)
            self._on_failure()

    async def _end(self) -> None:
        try:
            _log.info("[%s] Flushing producer and committing consumer offsets.", self.name)
            await self.wrapper.flush_and_commit()
        except Exception as error:  # noqa: BLE001 - Kafka swallows it, too: what is not committed is read again
            _log.warning("[%s] The offsets of the last records were not committed: %s", self.name, error)
        try:
            await self.wrapper.consumer.close()
        except Exception as error:  # noqa: BLE001 - the group notices after session.timeout.ms
            _log.warning("[%s] The consumer did not close cleanly: %s", self.name, error)
        _log.info("[%s] Mirror maker thread stopped", self.name)
