"""What the topic of configs says, `mm2-configs.<x>.internal`: connectors, their tasks, and whose
former tasks must still be shut out (Connect's `KafkaConfigBackingStore`, `ClusterConfigState`).

Records are JSON without schemas, in one partition, compacted:

    connector-<name>          {"properties": {...}}    what the connector is configured with; null deletes
    task-<name>-<n>           {"properties": {...}}    counts when a commit follows
    commit-<name>             {"tasks": n}             the tasks 0 to n-1 before it belong together
    tasks-fencing-<name>      {"task-count": n}        the tasks before those of the last commit are shut out
    target-state-<name>       {"state": "PAUSED", "state.v2": "STOPPED"}      what its users want
    restart-connector-<name>  {"include-tasks": true, "only-failed": false}   for workers that run then
    logger-cluster-<name>     {"level": "DEBUG"}       the same (KIP-976)
    session-key               {"key": base64, "algorithm": "HmacSHA256", "creation-timestamp": ms}     signs requests (KIP-507)

A commit without all its tasks, which compaction or a leader that died may leave, makes a connector
inconsistent: it has no tasks until its connector writes them anew. "state" is for workers before
KIP-875, which do not know STOPPED. Other keys are left alone.
"""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kmirror.mirrormaker.connect_offsets import parse_json
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId, is_task_number
from kmirror.mirrormaker.herder.herder import RestartRequest, TargetState
from kmirror.mirrormaker.herder.request_signatures import digest_of
from kmirror.mirrormaker.herder.session_keys import SessionKey

CONNECTOR_PREFIX: Final = "connector-"
TASK_PREFIX: Final = "task-"
COMMIT_TASKS_PREFIX: Final = "commit-"
TASK_COUNT_RECORD_PREFIX: Final = "tasks-fencing-"
TARGET_STATE_PREFIX: Final = "target-state-"
RESTART_PREFIX: Final = "restart-connector-"
LOGGER_PREFIX: Final = "logger-cluster-"
SESSION_KEY: Final = "session-key"
_log = logging.getLogger(__name__)

Record = tuple[bytes, bytes | None]
"""Key and value."""


def connector_record(connector: str, properties: Mapping[str, str]) -> Record:
    return _record(CONNECTOR_PREFIX + connector, {"properties": dict(properties)})


def removal_records(connector: str) -> list[Record]:
    """Returns what deletes a connector. Its tasks go with it."""
    return [((prefix + connector).encode(), None) for prefix in (CONNECTOR_PREFIX, TARGET_STATE_PREFIX)]


def task_records(connector: str, tasks: Sequence[Mapping[str, str]]) -> list[Record]:
    """Returns the configs of all tasks, and the commit behind them."""
    rows = [_record(f"{TASK_PREFIX}{connector}-{number}", {"properties": dict(props)}) for number, props in enumerate(tasks)]
    return [*rows, _record(COMMIT_TASKS_PREFIX + connector, {"tasks": len(tasks)})]


def task_count_record(connector: str, count: int) -> Record:
    return _record(TASK_COUNT_RECORD_PREFIX + connector, {"task-count": count})


def target_state_record(connector: str, state: TargetState) -> Record:
    """Workers that do not know STOPPED pause the connector."""
    old = TargetState.PAUSED if state is TargetState.STOPPED else state
    return _record(TARGET_STATE_PREFIX + connector, {"state": old.value, "state.v2": state.value})


def restart_record(request: RestartRequest) -> Record:
    return _record(RESTART_PREFIX + request.connector, {"include-tasks": request.include_tasks, "only-failed": request.only_failed})


def logger_record(namespace: str, level: str) -> Record:
    return _record(LOGGER_PREFIX + namespace, {"level": level})


def session_key_record(key: SessionKey) -> Record:
    return _record(SESSION_KEY, {"key": b64encode(key.key).decode(), "algorithm": key.algorithm, "creation-timestamp": key.created_ms})


def _record(key: str, value: Any) -> Record:
    return key.encode(), json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass
class ConfigChanges:
    """What records have changed: the names of connectors that are new, gone, configured otherwise, that
    have other tasks, or are wanted in another state; restarts, the widest one of each connector; and
    levels of loggers.
    """

    added_or_removed: set[str] = field(default_factory=set)
    connectors: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    target_states: set[str] = field(default_factory=set)
    restarts: dict[str, RestartRequest] = field(default_factory=dict)
    logger_levels: dict[str, str] = field(default_factory=dict)

    def restart(self, request: RestartRequest) -> None:
        """Of two requests the one that restarts more counts (`RestartRequest.compareTo`)."""
        known = self.restarts.get(request.connector)
        if known is None or _impact(request) > _impact(known):
            self.restarts[request.connector] = request


def _impact(request: RestartRequest) -> int:
    return 2 * (not request.only_failed) + request.include_tasks


class ClusterConfigState:
    """Pure; records come in the order of the topic."""

    def __init__(self) -> None:
        self.connectors: dict[str, dict[str, str]] = {}
        self.inconsistent: set[str] = set()
        self.changes = ConfigChanges()
        """Since somebody last put a new one there."""
        self.session_key: SessionKey | None = None
        self._counts: dict[str, int] = {}
        self._tasks: dict[ConnectorTaskId, dict[str, str]] = {}
        self._deferred: dict[str, dict[int, dict[str, str]]] = {}
        self._pending_fencing: set[str] = set()
        self._target_states: dict[str, TargetState] = {}

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Returns the tasks whose configs belong together; none if they are inconsistent."""
        if connector in self.inconsistent or connector not in self.connectors:
            return []
        return [ConnectorTaskId(connector, number) for number in range(self._counts.get(connector, 0))]

    def task_config(self, task: ConnectorTaskId) -> dict[str, str]:
        return self._tasks[task]

    def task_configs(self, connector: str) -> list[dict[str, str]] | None:
        """Returns the configs of all tasks, None if there is no consistent commit."""
        if connector in self.inconsistent or connector not in self._counts:
            return None
        return [self._tasks[task] for task in self.tasks(connector)]

    def pending_fencing(self, connector: str) -> bool:
        """Whether tasks were committed after former ones were last shut out (KIP-618)."""
        return connector in self._pending_fencing

    def target_state(self, connector: str) -> TargetState:
        return self._target_states.get(connector, TargetState.STARTED)

    def handle_record(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode(errors="replace")
        if name.startswith(TARGET_STATE_PREFIX):
            self._target_state(name.removeprefix(TARGET_STATE_PREFIX), name, value)
        elif name.startswith(CONNECTOR_PREFIX):
            self._connector(name.removeprefix(CONNECTOR_PREFIX), value)
        elif name.startswith(TASK_COUNT_RECORD_PREFIX):
            self._task_count(name.removeprefix(TASK_COUNT_RECORD_PREFIX), name, value)
        elif name.startswith(TASK_PREFIX):
            self._task(name.removeprefix(TASK_PREFIX), name, value)
        elif name.startswith(COMMIT_TASKS_PREFIX):
            self._commit(name.removeprefix(COMMIT_TASKS_PREFIX), name, value)
        elif name.startswith(RESTART_PREFIX):
            self._restart(name.removeprefix(RESTART_PREFIX), name, value)
        elif name == SESSION_KEY:
            self.session_key = _session_key(name, value) or self.session_key
        elif name.startswith(LOGGER_PREFIX):
            level = _parsed(name, value).get("level")
            if isinstance(level, str):
                self.changes.logger_levels[name.removeprefix(LOGGER_PREFIX)] = level

    def _connector(self, connector: str, value: bytes | None) -> None:
        if value is None:
            if connector in self.connectors:
                self.changes.added_or_removed.add(connector)
            self._remove(connector)
            return
        properties = _properties(CONNECTOR_PREFIX + connector, value)
        if properties is not None:
            changed = self.changes.connectors if connector in self.connectors else self.changes.added_or_removed
            changed.add(connector)
            self.connectors[connector] = properties

    def _remove(self, connector: str) -> None:
        self.connectors.pop(connector, None)
        self._counts.pop(connector, None)
        self._deferred.pop(connector, None)
        self.inconsistent.discard(connector)
        self._tasks = {task: props for task, props in self._tasks.items() if task.connector != connector}

    def _task(self, rest: str, key: str, value: bytes | None) -> None:
        connector, _, number = rest.rpartition("-")
        properties = _properties(key, value)
        if not connector or not is_task_number(number):
            _log.warning("Ignoring the record %r of the topic of configs, which names no task.", key)
        elif properties is not None:
            self._deferred.setdefault(connector, {})[int(number)] = properties

    def _commit(self, connector: str, key: str, value: bytes | None) -> None:
        if connector not in self.connectors:
            self._remove(connector)  # it was deleted, and compaction has removed the traces
            return
        count = _number(key, "tasks", value)
        if count is None:
            return
        deferred = self._deferred.pop(connector, {})
        if all(number in deferred for number in range(count)):
            self._tasks.update({ConnectorTaskId(connector, number): props for number, props in deferred.items()})
            self.inconsistent.discard(connector)
        else:
            self.inconsistent.add(connector)
        self._counts[connector] = count
        self._pending_fencing.add(connector)
        self.changes.tasks.add(connector)

    def _task_count(self, connector: str, key: str, value: bytes | None) -> None:
        if _number(key, "task-count", value) is not None:
            self._pending_fencing.discard(connector)

    def _target_state(self, connector: str, key: str, value: bytes | None) -> None:
        before = self.target_state(connector)
        if value is None:
            self._target_states.pop(connector, None)
        else:
            parsed = _parsed(key, value)
            state = parsed.get("state.v2") or parsed.get("state")
            try:
                self._target_states[connector] = TargetState(state)
            except ValueError:
                _log.error("Invalid target state for connector '%s': %s", connector, state)
        if self.target_state(connector) is not before:
            self.changes.target_states.add(connector)

    def _restart(self, connector: str, key: str, value: bytes | None) -> None:
        parsed = _parsed(key, value)
        if parsed:
            only_failed, include_tasks = parsed.get("only-failed") is True, parsed.get("include-tasks") is True
            self.changes.restart(RestartRequest(connector, only_failed=only_failed, include_tasks=include_tasks))


def _parsed(key: str, value: bytes | None) -> dict[str, Any]:
    parsed = parse_json(value)
    if isinstance(parsed, dict):
        return parsed
    _log.error("Ignoring the record %r of the topic of configs because it is in the wrong format: %r", key, value)
    return {}


def _properties(key: str, value: bytes | None) -> dict[str, str] | None:
    """Returns what a connector or task is configured with; None, with a line in the log, for
    anything else. A null value is left out, as if the property were not there.
    """
    parsed = _parsed(key, value)
    properties = parsed.get("properties")
    if isinstance(properties, dict):
        return {name: str(text) for name, text in properties.items() if text is not None}
    if parsed:
        _log.error("Invalid data for config of %s: 'properties' field should be a Map but is %r", key, properties)
    return None


def _number(key: str, name: str, value: bytes | None) -> int | None:
    parsed = _parsed(key, value)
    number = parsed.get(name)
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    if parsed:
        _log.error("Invalid data of %s: '%s' field should be a number but is %r", key, name, number)
    return None


def _session_key(name: str, value: bytes | None) -> SessionKey | None:
    parsed = _parsed(name, value)
    key, algorithm, created_ms = parsed.get("key"), parsed.get("algorithm"), parsed.get("creation-timestamp")
    try:
        if isinstance(key, str) and isinstance(algorithm, str) and isinstance(created_ms, int) and digest_of(algorithm) is not None:
            return SessionKey(b64decode(key, validate=True), algorithm, created_ms)
    except ValueError:
        pass
    if parsed:
        _log.error("Invalid data of %s: %r", name, sorted(parsed))
    return None
