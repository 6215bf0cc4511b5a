"""The topic of status, `mm2-status.<x>.internal`: what each connector and task does, and where
(Connect's `KafkaStatusBackingStore`).

    status-connector-<name>    {"state": "RUNNING", "trace": null, "worker_id": "A->B", "generation": 3}
    status-task-<name>-<n>     the same

The topic informs; nobody acts on it. So a status that cannot be written is logged, and written again
when it changes the next time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping

from kmirror.clients.kafka_producer import KafkaProducer, ProducerRecord
from kmirror.common.errors import KmirrorError
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.kept_running import State
from kmirror.runtime.api import Runtime

_log = logging.getLogger(__name__)


def status_key(of: str | ConnectorTaskId) -> bytes:
    """The key of a connector, by its name, or of a task."""
    return (f"status-task-{of}" if isinstance(of, ConnectorTaskId) else f"status-connector-{of}").encode()


def status_value(state: State, trace: str | None, worker_id: str, generation: int) -> bytes:
    row = {"state": state.value, "trace": trace, "worker_id": worker_id, "generation": generation}
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()


class StatusBackingStore:
    """Owns a producer. Writes what has changed since the last call."""

    def __init__(self, runtime: Runtime, topic: str, *, producer: Mapping[str, str], worker_id: str) -> None:
        self._topic = topic
        self._worker_id = worker_id
        self._producer = KafkaProducer(runtime, {"linger.ms": "0", **producer})
        self._written: dict[bytes, bytes] = {}

    async def put(self, statuses: Mapping[str | ConnectorTaskId, tuple[State, str | None]], generation: int) -> None:
        """`statuses` are of all connectors and tasks of this worker. Those that it had, and has no
        longer, are left to whoever runs them now.
        """
        rows = {status_key(of): status_value(state, trace, self._worker_id, generation) for of, (state, trace) in statuses.items()}
        changed = {key: value for key, value in rows.items() if self._written.get(key) != value}
        self._written = rows
        try:
            sent = [await self._producer.send(ProducerRecord(self._topic, value, key=key)) for key, value in changed.items()]
            for one in sent:
                await one
        except KmirrorError as error:
            self._written = {key: value for key, value in rows.items() if key not in changed}
            _log.warning("The status of %d connectors and tasks cannot be written to %s: %s", len(changed), self._topic, error)

    async def close(self) -> None:
        await self._producer.close(timeout_ms=0)
