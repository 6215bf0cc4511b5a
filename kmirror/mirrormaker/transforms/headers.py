"""Transformations of headers: InsertHeader, DropHeaders, HeaderFrom (of a struct's fields).

InsertHeader       header, value.literal        the literal is a text, number, time, list, ... (`literals`)
DropHeaders        headers
HeaderFrom$Value   fields, headers, operation   move or copy
"""

from __future__ import annotations

from typing import Any

from kmirror.common.config import ConfigDef, ConfigType, Importance, invalid_value, valid_list, valid_string
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import (
    ConnectRecord,
    Field,
    Header,
    JavaError,
    Value,
    make_struct,
    require_struct,
    struct_schema,
)
from kmirror.mirrormaker.transforms.literals import parse_literal
from kmirror.mirrormaker.transforms.predicates import Values
from kmirror.mirrormaker.transforms.routers import Transformation
from kmirror.mirrormaker.transforms.sides import Side

_HIGH, _MEDIUM = Importance.HIGH, Importance.MEDIUM


def not_null(name: str, value: Any) -> None:
    if value is None:
        raise invalid_value(name, None, "entry must be non null")


def non_empty_list(name: str, value: Any) -> None:
    if not value:
        raise invalid_value(name, value, "Empty list")


without_duplicates = valid_list(empty_allowed=False)
"""Of lists whose duplicates are an error of a config, and left out by a transformation that gets it all the
same."""
without_duplicates_or_empty = valid_list()


def with_default_config(definition: ConfigDef) -> ConfigDef:
    """Records of MirrorMaker have no schemas with defaults, so this one changes nothing."""
    return definition.define(
        "replace.null.with.default", ConfigType.BOOLEAN, "true", "Whether a default stands for null; there are no defaults here.",
        importance=_MEDIUM,
    )  # fmt: skip


INSERT_HEADER_DEF = (
    ConfigDef()
    .define("header", ConfigType.STRING, documentation="The header's name.", validator=not_null, importance=_HIGH)
    .define("value.literal", ConfigType.STRING, documentation="The header's value, as text.", validator=not_null, importance=_HIGH)
)
DROP_HEADERS_DEF = ConfigDef().define(
    "headers",
    ConfigType.LIST,
    documentation="Names of headers.",
    validator=without_duplicates,
    importance=_HIGH,
)
HEADER_FROM_DEF = with_default_config(
    ConfigDef()
    .define("fields", ConfigType.LIST, documentation="Names of fields.", validator=non_empty_list, importance=_HIGH)
    .define("headers", ConfigType.LIST, documentation="Names of headers, one for each field.", validator=non_empty_list, importance=_HIGH)
    .define("operation", ConfigType.STRING, documentation="move or copy.", validator=valid_string("move", "copy"), importance=_HIGH)
)


def insert_header(values: Values) -> Transformation:
    schema, value = parse_literal(values["value.literal"])
    header = Header(values["header"], schema, value)
    return lambda record: record.with_headers((*record.headers, header))


def drop_headers(values: Values) -> Transformation:
    names = frozenset(values["headers"])
    return lambda record: record.with_headers(tuple(header for header in record.headers if header.key not in names))


def header_from(side: Side, values: Values) -> Transformation:
    names, headers, operation = values["fields"], values["headers"], values["operation"]
    if len(names) != len(headers):
        raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")

    def apply(record: ConnectRecord) -> ConnectRecord:
        schema, value = side.schema(record), require_struct(side.value(record), f"header {operation}")
        updated = value
        if operation == "move":
            schema = struct_schema(schema, [field for field in value.schema.fields if field.name not in names])
            updated = make_struct(schema, {field.name: value.get(field.name) for field in schema.fields})
        added = [_header(value.schema.field(name), value, name, header) for name, header in zip(names, headers, strict=True)]
        return side.with_(record, schema, updated).with_headers((*record.headers, *added))

    return apply


def _header(field: Field | None, value: Any, name: str, header: str) -> Header:
    if field is None:
        raise JavaError(
            "java.lang.NullPointerException",
            'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
            '"org.apache.kafka.connect.data.Schema.field(String)" is null',
        )
    found: Value = value.get(name)
    return Header(header, field.schema, found)
