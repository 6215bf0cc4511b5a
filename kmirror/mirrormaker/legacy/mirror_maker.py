"""The legacy MirrorMaker as a whole (Kafka's `kafka.tools.MirrorMaker`): streams, the producer that
they share, and their end.

    run ── shut_down ──> every stream flushes, commits and leaves; the producer closes    (clean)
    run ── a stream fails, or a failed send aborts ──> the same for the other streams    (not clean)

A stream that ends although nobody asked it to stops the whole tool. That includes a task that was
cancelled or returned by itself, so no stream can be missing unnoticed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kmirror.clients.consumer.kafka_consumer import KafkaConsumer
from kmirror.clients.kafka_producer import KafkaProducer
from kmirror.common.health import Health
from kmirror.common.metrics import MetricName, MetricsRegistry
from kmirror.mirrormaker.legacy.consumer_wrapper import Consumer, ConsumerWrapper
from kmirror.mirrormaker.legacy.mirror_maker_producer import MirrorMakerProducer, Producer
from kmirror.mirrormaker.legacy.mirror_maker_thread import MirrorMakerThread
from kmirror.mirrormaker.legacy.settings import MirrorMakerSettings, consumer_settings, producer_settings, with_client_id
from kmirror.mirrormaker.legacy.stall_watch import StallWatch
from kmirror.runtime.api import Runtime, TaskScope
from kmirror.runtime.supervision import Supervised

NUM_DROPPED_MESSAGES: Final = MetricName("kafka.tools", "MirrorMaker", "MirrorMaker-numDroppedMessages")
OWN_METRICS: Final = "kmirror"
NO_PARTITIONS: Final = "no stream has a partition: nothing of the source matches --include, or other members of the group have it all"
_log = logging.getLogger(__name__)


class MirrorMaker:
    """Everything is made here, so a wrong property is a ConfigError before anything runs."""

    def __init__(
        self,
        runtime: Runtime,
        settings: MirrorMakerSettings,
        *,
        new_consumer: Callable[[Runtime, Mapping[str, Any]], Consumer] = KafkaConsumer,
        new_producer: Callable[[Runtime, Mapping[str, Any]], Producer] = KafkaProducer,
    ) -> None:
        self._runtime = runtime
        self._scope = TaskScope(runtime, "mirror-maker")
        self._stopping = asyncio.Event()
        self._was_asked = False
        self._forced = False
        self.producer_properties = producer_settings(settings.producer_properties)
        self.consumer_properties = consumer_settings(settings.consumer_properties)
        consumers = [new_consumer(runtime, with_client_id(self.consumer_properties, number)) for number in range(settings.num_streams)]
        if settings.stops_at_topics_made_anew:
            for consumer in consumers:
                consumer.refuse_topics_made_anew()
        self.producer = MirrorMakerProducer(
            new_producer(runtime, self.producer_properties),
            self._scope,
            is_sync=settings.is_sync,
            on_send_failure=self._abort if settings.abort_on_send_failure else None,
        )
        self.threads = [
            MirrorMakerThread(
                runtime,
                ConsumerWrapper(
                    runtime,
                    f"mirrormaker-thread-{number}",
                    consumer,
                    settings.include,
                    settings.rebalance_listener,
                    flush=self.producer.flush,
                    may_commit=lambda: not self.producer.has_failed,
                ),
                self.producer,
                settings.message_handler,
                offset_commit_interval_ms=settings.offset_commit_interval_ms,
                on_failure=self._stopping.set,
            )
            for number, consumer in enumerate(consumers)
        ]
        self._stalls = StallWatch(runtime, self.threads, self.producer)
        self.metrics = MetricsRegistry(runtime.clock)
        self._register_metrics()

    def _register_metrics(self) -> None:
        gauge = self.metrics.gauge
        gauge(NUM_DROPPED_MESSAGES, lambda: self.producer.num_dropped_messages)
        gauge(MetricName(OWN_METRICS, "MirrorMaker", "NumConsumedMessages"), lambda: self.num_consumed_messages)
        gauge(MetricName(OWN_METRICS, "MirrorMaker", "NumAcknowledgedMessages"), lambda: self.producer.num_acknowledged_messages)
        gauge(MetricName(OWN_METRICS, "MirrorMaker", "NumLostMessages"), lambda: self.num_lost_messages)
        gauge(MetricName(OWN_METRICS, "MirrorMaker", "LastSuccessfulCommitTimeMs"), lambda: self.last_successful_commit_ms)

    @property
    def num_consumed_messages(self) -> int:
        return sum(thread.num_consumed_messages for thread in self.threads)

    @property
    def num_lost_messages(self) -> int:
        """Records of topics that were made anew, or deleted before they were read."""
        return sum(thread.wrapper.consumer.records_lost for thread in self.threads)

    @property
    def last_successful_commit_ms(self) -> int:
        """Of any stream, in ms since 1970; -1 before the first."""
        return max(thread.wrapper.last_successful_commit_ms for thread in self.threads)

    async def run(self) -> bool:
        """Mirrors until `shut_down`, `force_end` or a failure; returns whether the end was clean."""
        tasks = [self._scope.spawn(thread.run(), name=thread.name) for thread in self.threads]
        ended = [asyncio.Event() for _ in tasks]
        for thread, task, event in zip(self.threads, tasks, ended, strict=True):
            task.add_done_callback(partial(self._on_stream_ended, thread, event))
        self._scope.spawn(Supervised(self._runtime, self._stalls.run, name="stall-watch").run(), name="stall-watch")
        await self._stopping.wait()
        _log.info("Start clean shutdown.")
        for thread in self.threads:
            thread.shut_down()
        for event in ended:
            await event.wait()
        _log.info("Closing producer.")
        await (self.producer.close_now() if self.producer.has_failed or self._forced else self.producer.close())
        await self._scope.cancel()
        is_clean = not self._forced and not self.producer.has_failed and all(thread.failure is None for thread in self.threads)
        self._report(is_clean=is_clean)
        return is_clean

    def shut_down(self) -> None:
        """Begins a clean end."""
        self._was_asked = True
        self._stopping.set()

    async def force_end(self) -> None:
        """Ends at once: what is not acknowledged is dropped, and what is not committed will be read
        again. For a clean end that cannot come, because a cluster is away.
        """
        self._forced = True
        self._stopping.set()
        await self._scope.cancel()
        await self.producer.close_now()

    def health(self) -> Health:
        """Returns whether each stream has its place in the group, reads, and is rid of what it reads."""
        reasons = [reason for thread in self.threads for reason in [thread.not_ready()] if reason is not None]
        looked_at = [f"{thread.name}: {thread.wrapper.partition_count or 0} partitions" for thread in self.threads]
        others = ("other members of the group", "whether the records at the target are those of the source")
        warnings = [f"{self.num_lost_messages} records of the source are lost: the log says which"] if self.num_lost_messages else []
        warnings += [] if any(thread.wrapper.partition_count for thread in self.threads) else [NO_PARTITIONS]
        return Health(reasons + self._stalls.not_ready(), looked_at, others, warnings)

    def _abort(self) -> None:
        """A send failed, and failures abort: nothing more is sent or committed."""
        self._scope.spawn(self.producer.close_now(), name="close-producer")
        for thread in self.threads:
            thread.wrapper.consumer.wakeup()
        self._stopping.set()

    def _on_stream_ended(self, thread: MirrorMakerThread, ended: asyncio.Event, task: asyncio.Task[None]) -> None:
        ended.set()
        if self._was_asked or self._forced:
            return
        if task.cancelled():
            thread.failed(asyncio.InvalidStateError("its task was cancelled by somebody else"))
        elif not self._stopping.is_set():
            thread.failed(asyncio.InvalidStateError("it ended although nobody asked it to"))
        if thread.failure is not None or self.producer.has_failed:
            _log.critical("[%s] Mirror maker thread exited abnormally, stopping the whole mirror maker.", thread.name)

    def _report(self, *, is_clean: bool) -> None:
        _log.info(
            "%s: consumed %d messages, %d were acknowledged, %d dropped",
            "Kafka mirror maker shutdown successfully" if is_clean else "Kafka mirror maker stopped",
            self.num_consumed_messages,
            self.producer.num_acknowledged_messages,
            self.producer.num_dropped_messages,
        )
