"""Transformations of a struct's fields. A key or value of MirrorMaker is bytes, so most of these fail on it
with Connect's words; HoistField makes a struct of it first, and ExtractField takes bytes out again.

    HoistField$Value (field=x), ValueToKey (fields=x), ExtractField$Key (field=x), ExtractField$Value (field=x)
                                                    the value becomes the key
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from kmirror.common.config import ConfigDef, ConfigType, Importance, invalid_value, non_empty_string, valid_string
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import (
    INT32,
    INT64,
    INT_BITS,
    INT_CLASSES,
    MAP,
    NEW_STRUCT,
    STRING,
    STRUCT,
    TIMESTAMP_NAME,
    ConnectRecord,
    DataException,
    Date,
    Field,
    Float32,
    Float64,
    Int32,
    JavaError,
    Schema,
    Struct,
    Value,
    class_text,
    make_struct,
    require_struct,
    struct_schema,
    wrapped,
)
from kmirror.mirrormaker.transforms.conversions import narrowed
from kmirror.mirrormaker.transforms.field_paths import steps_of, value_at
from kmirror.mirrormaker.transforms.headers import with_default_config, without_duplicates, without_duplicates_or_empty
from kmirror.mirrormaker.transforms.literals import java_decimal
from kmirror.mirrormaker.transforms.predicates import Values
from kmirror.mirrormaker.transforms.routers import Transformation
from kmirror.mirrormaker.transforms.sides import KEY, Side

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_INSERTED = ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field")
_INSERTED_SCHEMAS = {
    "topic.field": Schema(STRING),
    "partition.field": Schema(INT32),
    "offset.field": Schema(INT64),
    "timestamp.field": Schema(INT64, name=TIMESTAMP_NAME, version=1),
    "static.field": Schema(STRING),
}


def _insert_field_def() -> ConfigDef:
    definition = ConfigDef()
    for name in _INSERTED:
        text = f"The field for the {name.partition('.')[0]}; ! behind it makes it required."
        definition.define(name, ConfigType.STRING, None, text, importance=_MEDIUM)
    return with_default_config(definition.define("static.value", ConfigType.STRING, None, "The static field's value.", importance=_MEDIUM))


def _renames(name: str, value: Any) -> None:
    renames_of(value)


def renames_of(pairs: Sequence[str]) -> dict[str, str]:
    """ConfigError for what is no pair with a colon."""
    found = {}
    for pair in pairs:
        # Java's split drops empty texts at the end.
        parts = pair.split(":")
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise invalid_value("renames", list(pairs), f"Invalid rename mapping: {pair}")
        found[parts[0]] = parts[1]
    return found


INSERT_FIELD_DEF = _insert_field_def()
REPLACE_FIELD_DEF = with_default_config(
    ConfigDef()
    .define("exclude", ConfigType.LIST, "", "Fields to leave out.", validator=without_duplicates_or_empty, importance=_MEDIUM)
    .define(
        "include",
        ConfigType.LIST,
        "",
        "The only fields to keep, if there are any.",
        validator=without_duplicates_or_empty,
        importance=_MEDIUM,
    )
    .define("renames", ConfigType.LIST, "", "Pairs old:new.", validator=_renames, importance=_MEDIUM)
)
MASK_FIELD_DEF = with_default_config(
    ConfigDef()
    .define(
        "fields",
        ConfigType.LIST,
        documentation="Fields to mask.",
        validator=without_duplicates,
        importance=_HIGH,
    )
    .define("replacement", ConfigType.STRING, None, "What stands for numbers and texts.", validator=non_empty_string, importance=_LOW)
)
VALUE_TO_KEY_DEF = with_default_config(
    ConfigDef().define(
        "fields",
        ConfigType.LIST,
        documentation="Fields of the value.",
        validator=without_duplicates,
        importance=_HIGH,
    )
)
HOIST_FIELD_DEF = ConfigDef().define("field", ConfigType.STRING, documentation="The one field of the struct.", importance=_MEDIUM)
EXTRACT_FIELD_DEF = with_default_config(
    ConfigDef().define("field", ConfigType.STRING, documentation="The field to keep.", importance=_MEDIUM)
).define(
    "field.syntax.version", ConfigType.STRING, "V1", "V2 has paths such as a.b.",
    validator=valid_string("V1", "V2", ignore_case=True), importance=_HIGH,
)  # fmt: skip
SET_SCHEMA_METADATA_DEF = with_default_config(
    ConfigDef()
    .define("schema.name", ConfigType.STRING, None, "The schema's name.", importance=_HIGH)
    .define("schema.version", ConfigType.INT, None, "The schema's version.", importance=_HIGH)
)
FLATTEN_DEF = ConfigDef().define("delimiter", ConfigType.STRING, ".", "What joins names of fields.", importance=_MEDIUM)


def insert_field(side: Side, values: Values) -> Transformation:
    specs = {name: _insertion(values[name]) for name in _INSERTED if values[name] is not None}
    static = values["static.value"]
    if not specs:
        raise ConfigError("No field insertion configured")
    if "static.field" in specs and static is None:
        raise invalid_value("static.value", None, f"No value specified for static field: {values['static.field']}")

    def apply(record: ConnectRecord) -> ConnectRecord:
        if side.value(record) is None:
            return record
        value = require_struct(side.value(record), "field insertion")
        added = [Field(name, replace(_INSERTED_SCHEMAS[kind], optional=optional)) for kind, (name, optional) in specs.items()]
        schema = struct_schema(value.schema, [*value.schema.fields, *added])
        if "offset.field" in specs:
            raise DataException("Only SinkRecord supported for [field insertion], found: org.apache.kafka.connect.source.SourceRecord")
        found: dict[str, Value] = {
            "topic.field": record.topic,
            "partition.field": Int32(record.partition),
            "timestamp.field": Date(record.timestamp),
            "static.field": static,
        }
        made = {field.name: one for field, one in zip(value.schema.fields, value.values, strict=True)}
        made |= {name: found[kind] for kind, (name, _) in specs.items()}
        return side.with_(record, schema, make_struct(schema, made))

    return apply


def _insertion(spec: str) -> tuple[str, bool]:
    """A field's name, and whether it is optional."""
    return (spec[:-1], spec[-1] == "?") if spec.endswith(("?", "!")) else (spec, True)


def replace_field(side: Side, values: Values) -> Transformation:
    exclude, include, renames = frozenset(values["exclude"]), frozenset(values["include"]), renames_of(values["renames"])
    reverse = {new: old for old, new in renames.items()}

    def apply(record: ConnectRecord) -> ConnectRecord:
        if side.value(record) is None:
            return record
        value = require_struct(side.value(record), "field replacement")
        kept = [field for field in value.schema.fields if field.name not in exclude and (not include or field.name in include)]
        schema = struct_schema(value.schema, [Field(renames.get(field.name, field.name), field.schema) for field in kept])
        made = {field.name: value.get(reverse.get(field.name, field.name)) for field in schema.fields}
        return side.with_(record, schema, make_struct(schema, made))

    return apply


def mask_field(side: Side, values: Values) -> Transformation:
    names, replacement = frozenset(values["fields"]), values["replacement"]

    def apply(record: ConnectRecord) -> ConnectRecord:
        value = require_struct(side.value(record), "mask fields")
        pairs = zip(value.schema.fields, value.values, strict=True)
        made = {field.name: _masked(one, replacement) if field.name in names else one for field, one in pairs}
        return side.with_(record, side.schema(record), make_struct(value.schema, made))

    return apply


def _masked(value: Value, replacement: str | None) -> Value:
    if value is None:
        return None
    if isinstance(value, bytes | Struct) or (replacement is not None and isinstance(value, bool | Date)):
        how = f"type {class_text(value)} with custom replacement." if replacement is not None else f"type: {class_text(value)}"
        raise DataException(f"Cannot mask value of {how}")
    if isinstance(value, str):
        return replacement or ""
    if replacement is None:
        return Date(0) if isinstance(value, Date) else False if isinstance(value, bool) else type(value)()
    number = java_decimal(replacement)
    if number is None:
        raise DataException(f"Unable to convert {replacement} (class java.lang.String) to a number")
    if isinstance(value, Float32):
        return Float32(narrowed(float(number)))
    if isinstance(value, Float64):
        return Float64(float(number))
    return type(value)(wrapped(_low_bits(number), next(bits for name, bits in INT_BITS.items() if INT_CLASSES[name] is type(value))))  # type: ignore[call-overload]


def _low_bits(number: Decimal) -> int:
    """The lowest 64 bits of what is before the point, as `BigDecimal.longValue`."""
    return 0 if number.adjusted() > 10_000 else wrapped(int(number), 64)


def value_to_key(values: Values) -> Transformation:
    names = values["fields"]

    def apply(record: ConnectRecord) -> ConnectRecord:
        value = require_struct(record.value, "copying fields from value to key")
        fields = []
        for name in names:
            field = value.schema.field(name)
            if field is None:
                raise DataException(f"Field does not exist: {name}")
            fields.append(field)
        schema = struct_schema(NEW_STRUCT, fields)
        return KEY.with_(record, schema, make_struct(schema, {name: value.get(name) for name in names}))

    return apply


def hoist_field(side: Side, values: Values) -> Transformation:
    name = values["field"]

    def apply(record: ConnectRecord) -> ConnectRecord:
        schema = struct_schema(NEW_STRUCT, [Field(name, side.schema(record))])
        return side.with_(record, schema, make_struct(schema, {name: side.value(record)}))

    return apply


def extract_field(side: Side, values: Values) -> Transformation:
    path = values["field"]
    steps = steps_of(path) if values["field.syntax.version"].upper() == "V2" else (path,)

    def apply(record: ConnectRecord) -> ConnectRecord:
        value = side.value(record)
        found = None if value is None else require_struct(value, "field extraction")
        schema: Schema = side.schema(record)
        if not steps:
            raise JavaError("java.lang.IllegalArgumentException", "fromIndex(0) > toIndex(-1)")
        for step in steps:
            field = schema.field(step)
            if field is None:
                raise JavaError("java.lang.IllegalArgumentException", f"Unknown field: {path}")
            schema = field.schema
        return side.with_(record, schema, None if found is None else value_at(found, steps))

    return apply


def set_schema_metadata(side: Side, values: Values) -> Transformation:
    name, version = values["schema.name"], values["schema.version"]
    if name is None and version is None:
        raise ConfigError("Neither schema name nor version configured")

    def apply(record: ConnectRecord) -> ConnectRecord:
        schema, value = side.schema(record), side.value(record)
        schema.field_list()  # Connect copies it, and so fails for bytes
        updated = replace(schema, name=schema.name if name is None else name, version=schema.version if version is None else version)
        if isinstance(value, Struct):
            value = make_struct(updated, {field.name: one for field, one in zip(value.schema.fields, value.values, strict=True)})
        return side.with_(record, updated, value)

    return apply


def flatten(side: Side, values: Values) -> Transformation:
    delimiter = values["delimiter"]

    def flat(schema: Schema, value: Struct | None, prefix: str, optional: bool, fields: list[Field], made: dict[str, Value]) -> None:
        for field in schema.fields:
            name = prefix + delimiter + field.name if prefix else field.name
            one = None if value is None else value.get(field.name)
            is_optional = optional or field.schema.optional
            if field.schema.type == STRUCT:
                flat(field.schema, one if isinstance(one, Struct) else None, name, is_optional, fields, made)
            elif field.schema.type == MAP:
                raise DataException(f"Flatten transformation does not support MAP for record with schemas (for field {name}).")
            else:
                fields.append(Field(name, replace(field.schema, optional=is_optional)))
                if value is not None:
                    made[name] = one

    def apply(record: ConnectRecord) -> ConnectRecord:
        if side.value(record) is None:
            return record
        value = require_struct(side.value(record), "flattening")
        fields: list[Field] = []
        made: dict[str, Value] = {}
        flat(side.schema(record), value, "", side.schema(record).optional, fields, made)
        schema = struct_schema(side.schema(record), fields)
        return side.with_(record, schema, make_struct(schema, made))

    return apply
