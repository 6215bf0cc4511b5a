"""Which part of a record a transformation works on: the classes with `$Key` and `$Value`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from kmirror.mirrormaker.transforms.connect_data import ConnectRecord, Schema, Value


class Side(NamedTuple):
    """`with_` returns a record with another schema and value on this side."""

    name: str
    schema: Callable[[ConnectRecord], Schema]
    value: Callable[[ConnectRecord], Value]
    with_: Callable[[ConnectRecord, Schema, Value], ConnectRecord]


KEY: Final = Side(
    "Key",
    lambda record: record.key_schema,
    lambda record: record.key,
    lambda record, schema, value: replace(record, key_schema=schema, key=value),
)
VALUE: Final = Side(
    "Value",
    lambda record: record.value_schema,
    lambda record: record.value,
    lambda record, schema, value: replace(record, value_schema=schema, value=value),
)
