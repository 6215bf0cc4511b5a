"""A connector's config in a file: `connect-standalone`'s arguments.

A file is, whatever its name, what it can be read as first: JSON of properties with text
(`{"name": ..., "connector.class": ...}`), JSON as POST /connectors takes it (`{"name": ..., "config": {...},
"initial_state": ...}`), a properties file.
"""

from __future__ import annotations

import json
from typing import Any

from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.rest.entities import INITIAL_STATES, CreateRequest
from kmirror.storage.java_properties import decode_properties


def parse_connector_file(path: str, data: bytes) -> CreateRequest:
    """ConfigError, in Connect's words, without a name or for two of them."""
    body = _json(data)
    if isinstance(body, dict) and not any(isinstance(value, dict | list) for value in body.values()):
        return _of_properties(path, {name: _text(value) for name, value in body.items()})
    if isinstance(body, dict) and isinstance(body.get("config"), dict):
        return _of_request(path, body)
    return _of_properties(path, decode_properties(path, data))


def _of_properties(path: str, config: dict[str, str]) -> CreateRequest:
    if "name" not in config:
        raise ConfigError(f"Connector configuration at '{path}' is missing the mandatory 'name' configuration")
    return CreateRequest(config["name"], dict(config), None)


def _of_request(path: str, body: dict[str, Any]) -> CreateRequest:
    name, config = _text(body.get("name", "")), {name: _text(value) for name, value in body["config"].items()}
    if config.setdefault("name", name) != name:
        raise ConfigError(f"Connector name configuration in 'config' doesn't match the one specified in 'name' at '{path}'")
    state = body.get("initial_state")
    if state is not None and str(state).upper() not in INITIAL_STATES:
        raise ConfigError(f"initial_state {state} at '{path}' is none of RUNNING, PAUSED and STOPPED")
    return CreateRequest(name, dict(config), None if state is None else INITIAL_STATES[str(state).upper()])


def _json(data: bytes) -> Any:
    try:
        return json.loads(data, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None


def _text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
