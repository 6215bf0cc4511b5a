"""A connector's transformations, one after the other (Connect's `TransformationChain`), and the grammar of
their configs.

    transforms = route, quiet                       the aliases, in the order in which they work
    transforms.route.type = RegexRouter             a class of `plugins`
    transforms.route.regex = ...                    its configs
    transforms.quiet.type = Filter
    transforms.quiet.predicate = dead               only records of which this is true ...
    transforms.quiet.negate = true                  ... or false
    predicates = dead
    predicates.dead.type = RecordIsTombstone

A chain is a pure function of records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kmirror.common.config import ConfigDef, ConfigType, parse_value
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import (
    BYTES_SCHEMA,
    OPTIONAL_BYTES_SCHEMA,
    ConnectRecord,
    Header,
    JavaError,
)
from kmirror.mirrormaker.transforms.converters import BYTE_ARRAY_CLASS, HeaderConverter, header_converter, to_bytes
from kmirror.mirrormaker.transforms.headers import without_duplicates, without_duplicates_or_empty
from kmirror.mirrormaker.transforms.plugins import predicate_plugin, transformation_plugin
from kmirror.mirrormaker.transforms.predicates import Predicate
from kmirror.mirrormaker.transforms.routers import Transformation

TRANSFORMATION, HEADER_CONVERTER = "TRANSFORMATION", "HEADER_CONVERTER"
KEY_CONVERTER, VALUE_CONVERTER, KAFKA_PRODUCE = "KEY_CONVERTER", "VALUE_CONVERTER", "KAFKA_PRODUCE"
"""What can fail (Connect's `Stage`)."""


class Stage(NamedTuple):
    """A transformation, and which records it works on."""

    java_class: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self.predicate is not None and self.predicate(record) is self.negate:
            return record
        return self.transformation(record)


class Made(NamedTuple):
    """A record for the producer."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp: int


class Failed(NamedTuple):
    """A record that could not be made, and where it failed: the stage and its class."""

    stage: str
    java_class: str
    error: JavaError


class Chain:
    """All that becomes of a record between a task and its producer."""

    def __init__(self, stages: tuple[Stage, ...], converter: tuple[str, HeaderConverter]) -> None:
        self.stages = stages
        self._header_class, self._header_converter = converter

    def apply(self, record: ConnectRecord) -> Made | Failed | None:
        """Returns None for a record that is dropped."""
        for stage in self.stages:
            try:
                applied = stage.apply(record)
            except JavaError as error:
                return Failed(TRANSFORMATION, stage.java_class, error)
            if applied is None:
                return None
            record = applied
        step, java_class = HEADER_CONVERTER, self._header_class
        try:
            headers = [(header.key, self._header_converter(header)) for header in record.headers]
            step, java_class = KEY_CONVERTER, BYTE_ARRAY_CLASS
            key = to_bytes(record.key_schema, record.key)
            step = VALUE_CONVERTER
            value = to_bytes(record.value_schema, record.value)
        except JavaError as error:
            return Failed(step, java_class, error)
        return Made(record.topic, record.partition, key, value, headers, record.timestamp)


def source_record(
    topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp: int
) -> ConnectRecord:
    """A record as MirrorMaker's source task makes it."""
    made = tuple([Header(name, BYTES_SCHEMA if one is not None else OPTIONAL_BYTES_SCHEMA, one) for name, one in headers])
    return ConnectRecord(topic, partition, OPTIONAL_BYTES_SCHEMA, key, BYTES_SCHEMA, value, timestamp, made)


def make_chain(props: Mapping[str, str], worker_header_converter: str | None = None) -> Chain:
    """Of a connector's properties. ConfigError for what is wrong; `chain_config` says all that is."""
    converter = header_converter(props.get("header.converter"), worker_header_converter)
    return Chain(tuple(_stage(props, alias) for alias in aliases(props, "transforms")), converter)


def aliases(props: Mapping[str, str], kind: str) -> list[str]:
    """`kind` is `transforms` or `predicates`."""
    found: list[str] = parse_value(kind, props.get(kind, ""), ConfigType.LIST)
    return found


def own_props(props: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in props.items() if name.startswith(prefix)}


def _stage(props: Mapping[str, str], alias: str) -> Stage:
    prefix = f"transforms.{alias}."
    own = own_props(props, prefix)
    plugin = transformation_plugin(own.get("type", ""))
    if plugin is None:
        raise ConfigError(f"Invalid value {own.get('type')} for configuration {prefix}type: Not a Transformation")
    transformation = plugin.make(typed(plugin.definition, own))
    if "predicate" not in own:
        return Stage(plugin.java_class, transformation)
    negate = own.get("negate", "").lower() == "true"
    return Stage(plugin.java_class, transformation, _predicate(props, own["predicate"]), negate)


def typed(definition: ConfigDef, props: Mapping[str, str]) -> dict[str, Any]:
    """ConfigError for what is missing or wrong. Lists without duplicates lose them first, as in Kafka."""
    given: dict[str, Any] = dict(props)
    for key in definition:
        if key.name in given and key.validator in (without_duplicates, without_duplicates_or_empty):
            given[key.name] = list(dict.fromkeys(parse_value(key.name, given[key.name], key.type)))
    return definition.parse(given)


def _predicate(props: Mapping[str, str], alias: str) -> Predicate:
    prefix = f"predicates.{alias}."
    own = own_props(props, prefix)
    plugin = predicate_plugin(own.get("type", ""))
    if plugin is None:
        raise ConfigError(f"Invalid value {own.get('type')} for configuration {prefix}type: Not a Predicate")
    return plugin.make(plugin.definition.parse(own))
