"""Reads and parses the JSON files that tools take, with Kafka's words for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from kmirror.common.errors import KmirrorError
from kmirror.common.topic_partition import TopicPartition


def read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise KmirrorError(f"Unable to read file {path}") from error


def parse_object(text: str, problem: str) -> dict[str, Any]:
    """Parse a JSON object; KmirrorError with `problem` for anything else."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise KmirrorError(problem) from error
    if not isinstance(value, dict):
        raise KmirrorError(problem)
    return value


def rows(value: Any, name: str) -> list[dict[str, Any]]:
    """Returns `value` if it is a list of objects; KmirrorError otherwise."""
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise KmirrorError(f"Expected a list of JSON objects in `{name}`")
    return value


def text_field(row: dict[str, Any], name: str) -> str:
    value = _field(row, name)
    if not isinstance(value, str):
        raise KmirrorError(f"Expected `String` value, received {json.dumps(value)}")
    return value


def int_field(row: dict[str, Any], name: str) -> int:
    value = _field(row, name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise KmirrorError(f"Expected `Integer` value, received {json.dumps(value)}")
    return value


def _field(row: dict[str, Any], name: str) -> Any:
    if name not in row:
        raise KmirrorError(f"No such field exists: `{name}`")
    return row[name]


def topic_partition(row: dict[str, Any]) -> TopicPartition:
    return TopicPartition(text_field(row, "topic"), int_field(row, "partition"))


def doubled(names: Iterable[Any]) -> list[Any]:
    """Returns what occurs more than once, in order."""
    seen: set[Any] = set()
    found = []
    for name in names:
        if name in seen and name not in found:
            found.append(name)
        seen.add(name)
    return found
