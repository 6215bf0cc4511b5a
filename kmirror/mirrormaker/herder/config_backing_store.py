"""The topic of configs, read and written (Connect's `KafkaConfigBackingStore`).

The group's leader alone writes what runs. With exactly-once support it writes in transactions of the
id `connect-cluster-<group.id>`, as Apache's does: a leader that was replaced and does not know it is
refused (PRODUCER_FENCED). Nobody waits for a transaction that a dead leader left open: the next leader
aborts it. Target states and levels of loggers may be written by every worker, and are never a part of a
transaction of the leader's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.herder.cluster_config_state import (
    ClusterConfigState,
    ConfigChanges,
    Record,
    connector_record,
    logger_record,
    removal_records,
    restart_record,
    session_key_record,
    target_state_record,
    task_count_record,
    task_records,
)
from kmirror.mirrormaker.herder.herder import RestartRequest, TargetState
from kmirror.mirrormaker.herder.session_keys import SessionKey
from kmirror.mirrormaker.internal_topics import APPEARS_MS, POLL_MS, InternalTopicReader
from kmirror.runtime.api import Runtime

LEADERS_ID_PREFIX: Final = "connect-cluster-"
FOLLOW_MS: Final = 100
"""So long who writes may have to wait for who follows."""
_log = logging.getLogger(__name__)


class ConfigBackingStore:
    """Owns consumers and producers. `transactional_id` None writes without transactions."""

    def __init__(
        self, runtime: Runtime, topic: str, *, consumer: Mapping[str, str], producer: Mapping[str, str], transactional_id: str | None
    ) -> None:
        self.state = ClusterConfigState()
        self._runtime = runtime
        self._topic = topic
        self._reader = InternalTopicReader(
            runtime, consumer, topic, self.state.handle_record, awaits_transactions=False, appears_ms=APPEARS_MS
        )
        self._producer_props = {"linger.ms": "0", **producer}
        self._transactional_id = transactional_id
        self._producer: KafkaProducer | None = None
        self._plain: KafkaProducer | None = None
        self._turn = asyncio.Lock()
        self._writing = asyncio.Lock()

    @property
    def offset(self) -> int:
        """The end of the topic, as far as it was read: the offset behind the last record."""
        return self._reader.next_offset

    async def start(self) -> None:
        """Reads the topic, which must exist, to its end. Nothing of it counts as a change.

        ConfigError for a topic of several partitions, as in Kafka: its records have no order.
        """
        async with self._turn:
            await self._reader.start()
        if self._reader.partition_count != 1:
            raise ConfigError(f"Topic {self._topic} must have one partition, and has {self._reader.partition_count}")
        self.take_changes()

    async def refresh(self) -> None:
        """Reads on, to the topic's end."""
        async with self._turn:
            await self._reader.read_to_end()

    async def follow(self) -> None:
        """Reads what comes within FOLLOW_MS."""
        async with self._turn:
            await self._reader.read(FOLLOW_MS)

    def take_changes(self) -> ConfigChanges:
        """Returns what has changed since the last call."""
        changes, self.state.changes = self.state.changes, ConfigChanges()
        return changes

    async def claim_write_privileges(self) -> None:
        """For a worker that has become the leader: shuts out the leader before it."""
        await self._close_producer()
        props = dict(self._producer_props)
        if self._transactional_id is not None:
            props |= {"transactional.id": self._transactional_id, "enable.idempotence": "true"}
        self._producer = KafkaProducer(self._runtime, props)
        if self._transactional_id is not None:
            await self._producer.init_transactions()

    # The leader

    async def put_connector_config(self, connector: str, properties: Mapping[str, str], target_state: TargetState | None = None) -> None:
        states = [] if target_state is None else [target_state_record(connector, target_state)]
        await self._write([*states, connector_record(connector, properties)])

    async def remove_connector_config(self, connector: str) -> None:
        await self._write(removal_records(connector))

    async def put_task_configs(self, connector: str, tasks: Sequence[Mapping[str, str]]) -> None:
        await self._write(task_records(connector, tasks))
        _log.info("Wrote the configurations of %d tasks of %s", len(tasks), connector)

    async def put_task_count_record(self, connector: str, count: int) -> None:
        await self._write([task_count_record(connector, count)])

    async def put_restart_request(self, request: RestartRequest) -> None:
        await self._write([restart_record(request)])

    async def put_session_key(self, key: SessionKey) -> None:
        await self._write([session_key_record(key)])

    # Every worker

    async def put_target_state(self, connector: str, state: TargetState) -> None:
        await self._write_plain(target_state_record(connector, state))

    async def put_logger_level(self, namespace: str, level: str) -> None:
        await self._write_plain(logger_record(namespace, level))

    async def _write_plain(self, record: Record) -> None:
        if self._plain is None:
            self._plain = KafkaProducer(self._runtime, self._producer_props)
        key, value = record
        sent = await self._plain.send(ProducerRecord(self._topic, value, key=key, partition=0))
        await self._read_past((await sent).offset)

    async def _write(self, records: list[Record]) -> None:
        """Returns when all are stored and read back."""
        async with self._writing:
            try:
                last_offset = await self._send(records)
            except BaseException:
                await self._close_producer()  # what was begun is aborted by the next one
                raise
        await self._read_past(last_offset)

    async def _read_past(self, last_offset: int) -> None:
        async with self._turn:
            await self._reader.read_to_end()  # notices a topic that was made anew
            while self.offset <= last_offset:  # markers of a transaction are written after its commit
                await self._reader.read(POLL_MS)

    async def _send(self, records: list[Record]) -> int:
        """Returns the offset of the last record."""
        if self._producer is None:
            await self.claim_write_privileges()
        producer = self._producer
        assert producer is not None, "it was made above"
        if self._transactional_id is not None:
            await producer.begin_transaction()
        sent = [await producer.send(ProducerRecord(self._topic, value, key=key, partition=0)) for key, value in records]
        offsets = [(await one).offset for one in sent]
        if self._transactional_id is not None:
            await producer.commit_transaction()
        return offsets[-1]

    async def _close_producer(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close(timeout_ms=0)

    async def close(self) -> None:
        try:
            await self._reader.close()
        finally:
            try:
                await self._close_producer()
            finally:
                if self._plain is not None:
                    await self._plain.close(timeout_ms=0)
