"""The topic of status, `mm2-status.<x>.internal`: what each connector and task does, and where
(Connect's `KafkaStatusBackingStore`).

    status-connector-<name>                    {"state": "RUNNING", "trace": null, "worker_id": "A->B", "generation": 3}
    status-task-<name>-<n>                     the same
    status-topic-<topic>:connector-<name>      {"topic": {"name": topic, "connector": name, "task": 0, "discoverTimestamp": 1}}

The topic informs; nobody acts on it. So a status that cannot be written is logged, and written again
when it changes the next time. A record without a value removes what it says. It is read when somebody
asks, from where it was read last.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.connect_offsets import parse_json
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId, is_task_number
from kmirror.mirrormaker.herder.herder import WorkerStatus
from kmirror.mirrormaker.internal_topics import APPEARS_MS, InternalTopicReader
from kmirror.mirrormaker.state_times import State
from kmirror.runtime.api import Runtime

CONNECTOR_PREFIX: Final = "status-connector-"
TASK_PREFIX: Final = "status-task-"
TOPIC_PREFIX: Final = "status-topic-"
TOPIC_SEPARATOR: Final = ":connector-"
_log = logging.getLogger(__name__)


def status_key(of: str | ConnectorTaskId) -> bytes:
    """The key of a connector, by its name, or of a task."""
    return (f"{TASK_PREFIX}{of}" if isinstance(of, ConnectorTaskId) else f"{CONNECTOR_PREFIX}{of}").encode()


def status_value(state: State, trace: str | None, worker_id: str, generation: int) -> bytes:
    return _encoded({"state": state.value, "trace": trace, "worker_id": worker_id, "generation": generation})


def active_topic_key(topic: str, connector: str) -> bytes:
    return f"{TOPIC_PREFIX}{topic}{TOPIC_SEPARATOR}{connector}".encode()


def active_topic_value(topic: str, task: ConnectorTaskId, now_ms: int) -> bytes:
    return _encoded({"topic": {"name": topic, "connector": task.connector, "task": task.task, "discoverTimestamp": now_ms}})


def _encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


class StoredStatuses:
    """What the topic says. Pure."""

    def __init__(self) -> None:
        self.connectors: dict[str, WorkerStatus] = {}
        self.tasks: dict[ConnectorTaskId, WorkerStatus] = {}
        self._topics: dict[str, dict[str, None]] = {}

    def topics(self, connector: str) -> list[str]:
        """The topics that a connector has written to."""
        return list(self._topics.get(connector, ()))

    def handle_record(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode(errors="replace")
        if name.startswith(CONNECTOR_PREFIX):
            _put(self.connectors, name.removeprefix(CONNECTOR_PREFIX), _status(name, value))
        elif name.startswith(TASK_PREFIX):
            connector, _, number = name.removeprefix(TASK_PREFIX).rpartition("-")
            if connector and is_task_number(number):
                _put(self.tasks, ConnectorTaskId(connector, int(number)), _status(name, value))
        elif name.startswith(TOPIC_PREFIX) and TOPIC_SEPARATOR in name:
            topic, _, connector = name.removeprefix(TOPIC_PREFIX).partition(TOPIC_SEPARATOR)
            topics = self._topics.setdefault(connector, {})
            if value is None:
                topics.pop(topic, None)
            else:
                topics[topic] = None


def _put(statuses: dict[Any, WorkerStatus], of: Any, status: WorkerStatus | None) -> None:
    if status is None:
        statuses.pop(of, None)
    else:
        statuses[of] = status


def _status(key: str, value: bytes | None) -> WorkerStatus | None:
    if value is None:
        return None
    row = parse_json(value)
    try:
        return WorkerStatus(str(row["state"]), str(row["worker_id"]), row.get("trace"))
    except (TypeError, KeyError, AttributeError):
        _log.error("Ignoring the status of %s because it is in the wrong format: %r", key, value)
        return None


class StatusBackingStore:
    """Owns a producer, and consumers once somebody reads."""

    def __init__(self, runtime: Runtime, topic: str, *, producer: Mapping[str, str], consumer: Mapping[str, str], worker_id: str) -> None:
        self.stored = StoredStatuses()
        """As of the last `refresh`."""
        self._runtime = runtime
        self._topic = topic
        self._worker_id = worker_id
        self._producer = KafkaProducer(runtime, {"linger.ms": "0", **producer})
        self._consumer_props = consumer
        self._reader: InternalTopicReader | None = None
        self._reading = asyncio.Lock()
        self._written: dict[bytes, bytes] = {}

    async def put(self, statuses: Mapping[str | ConnectorTaskId, tuple[State, str | None]], generation: int) -> None:
        """Writes what has changed since the last call. `statuses` are of all connectors and tasks of this
        worker; those that it had, and has no longer, are left to whoever runs them now.
        """
        rows = {status_key(of): status_value(state, trace, self._worker_id, generation) for of, (state, trace) in statuses.items()}
        changed = {key: value for key, value in rows.items() if self._written.get(key) != value}
        self._written = rows
        if not await self._send(changed):
            self._written = {key: value for key, value in rows.items() if key not in changed}

    async def announce(self, statuses: Mapping[str | ConnectorTaskId, tuple[State, str | None]], generation: int) -> None:
        """Writes some statuses, whatever was written before."""
        rows = {status_key(of): status_value(state, trace, self._worker_id, generation) for of, (state, trace) in statuses.items()}
        self._written |= rows
        await self._send(rows)

    async def remove(self, of: Iterable[str | ConnectorTaskId]) -> None:
        await self._send(dict.fromkeys(map(status_key, of)))

    async def put_active_topic(self, topic: str, task: ConnectorTaskId) -> None:
        await self._send({active_topic_key(topic, task.connector): active_topic_value(topic, task, self._runtime.clock.time_ms())})

    async def remove_active_topics(self, connector: str) -> None:
        await self._send({active_topic_key(topic, connector): None for topic in self.stored.topics(connector)})

    async def refresh(self) -> None:
        """Reads the topic, which must exist, to its end."""
        async with self._reading:
            if self._reader is None:
                reader = InternalTopicReader(
                    self._runtime, self._consumer_props, self._topic, self.stored.handle_record, appears_ms=APPEARS_MS
                )
                try:
                    await reader.start()
                except BaseException:
                    await reader.close()
                    raise
                self._reader = reader
            else:
                await self._reader.read_to_end()

    async def _send(self, rows: Mapping[bytes, bytes | None]) -> bool:
        try:
            sent = [await self._producer.send(ProducerRecord(self._topic, value, key=key)) for key, value in rows.items()]
            for one in sent:
                await one
        except KmirrorError as error:
            _log.warning("The status of %d connectors and tasks cannot be written to %s: %s", len(rows), self._topic, error)
            return False
        return True

    async def close(self) -> None:
        try:
            await self._producer.close(timeout_ms=0)
        finally:
            if self._reader is not None:
                await self._reader.close()
