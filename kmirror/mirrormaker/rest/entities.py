"""What resources answer, as JSON, and what they are sent (Connect's `rest.entities`).

Configs are objects of text; numbers and truth values in a request count as the text they are written
as. A request of another form is refused with 500, as by Connect, but in our words: Connect's texts name
its Java classes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kmirror.mirrormaker.connector_validation import CONNECT_VERSION
from kmirror.mirrormaker.herder.connect_protocol import ConnectorTaskId
from kmirror.mirrormaker.herder.herder import (
    BAD_REQUEST,
    INTERNAL_SERVER_ERROR,
    ConnectorInfo,
    ConnectorStateInfo,
    HerderError,
    SourceOffset,
    TargetState,
    TaskInfo,
    WorkerStatus,
)

INITIAL_STATES: Final = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
Config = dict[str, str | None]


class CreateRequest(NamedTuple):
    """The body of POST /connectors."""

    name: str
    config: Config
    initial_state: TargetState | None


# Answers


def connector_info(info: ConnectorInfo) -> dict[str, Any]:
    return {"name": info.name, "config": dict(info.config), "tasks": [task_id(task) for task in info.tasks], "type": info.type}


def task_id(task: ConnectorTaskId) -> dict[str, Any]:
    return {"connector": task.connector, "task": task.task}


def task_info(info: TaskInfo) -> dict[str, Any]:
    return {"id": task_id(info.id), "config": dict(info.config)}


def worker_status(status: WorkerStatus) -> dict[str, Any]:
    found = {"state": status.state, "worker_id": status.worker_id, "version": CONNECT_VERSION}
    return found if status.trace is None else {**found, "trace": status.trace}


def task_state(number: int, status: WorkerStatus) -> dict[str, Any]:
    return {"id": number, **worker_status(status)}


def connector_state(info: ConnectorStateInfo) -> dict[str, Any]:
    tasks = [task_state(number, status) for number, status in sorted(info.tasks.items())]
    return {"name": info.name, "connector": worker_status(info.connector), "tasks": tasks, "type": info.type}


def connector_offsets(offsets: Sequence[SourceOffset]) -> dict[str, Any]:
    return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in offsets]}


# Answers of other workers


def parse_connector_info(body: Any) -> ConnectorInfo:
    tasks = [ConnectorTaskId(task["connector"], task["task"]) for task in body["tasks"]]
    return ConnectorInfo(body["name"], body["config"], tasks, body["type"])


# Requests


def parse_config(body: Any) -> Config:
    """Returns the properties of a config; None is a `null`."""
    if not isinstance(body, dict):
        raise _unreadable("a config is an object of properties")
    return {name: _text(value, f"the property {name}") for name, value in body.items()}


def parse_create_request(body: Any) -> CreateRequest:
    fields = _fields(body, "a connector", ("name", "config", "initial_state"))
    state = _text(fields.get("initial_state"), "initial_state")
    if state is not None and state.upper() not in INITIAL_STATES:
        raise _unreadable(f"initial_state {state} is none of RUNNING, PAUSED and STOPPED")
    name = _text(fields.get("name"), "name") or ""
    config = parse_config(fields.get("config"))
    return CreateRequest(name.strip(), config, None if state is None else INITIAL_STATES[state.upper()])


def parse_offsets(body: Any) -> list[SourceOffset]:
    """The last entry of a partition counts. HerderError 400 without any."""
    entries = _fields(body, "a request for offsets", ("offsets",)).get("offsets")
    if entries is None or entries == []:
        raise HerderError(BAD_REQUEST, "Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(entries, list):
        raise _unreadable("offsets is a list")
    found: dict[str, SourceOffset] = {}
    for entry in entries:
        fields = _fields(entry, "an offset", ("partition", "offset"))
        partition, offset = fields.get("partition"), fields.get("offset")
        if not isinstance(partition, dict | None) or not isinstance(offset, dict | None):
            raise _unreadable("partitions and offsets are objects")
        found[json.dumps(partition, sort_keys=True)] = (partition, offset)  # type: ignore[assignment]
    return list(found.values())


def with_name(config: Config, name: str) -> Config:
    """Returns the config with the connector's name. HerderError 400 if it has another one."""
    included = config.get("name")
    if included is not None and included != name:
        raise HerderError(BAD_REQUEST, f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})")
    return {**config, "name": name}


def _fields(body: Any, what: str, known: Sequence[str]) -> Mapping[str, Any]:
    if not isinstance(body, dict):
        raise _unreadable(f"{what} is an object")
    for name in body:
        if name not in known:
            raise _unreadable(f'Unrecognized field "{name}" ({len(known)} known properties: {", ".join(known)})')
    return body


def _text(value: Any, what: str) -> str | None:
    if isinstance(value, list | dict):
        raise _unreadable(f"{what} is not text")
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _unreadable(message: str) -> HerderError:
    return HerderError(INTERNAL_SERVER_ERROR, f"Cannot read the request: {message}")
