"""Transformations that change types: Cast and TimestampConverter.

Both work on the whole key or value, or on fields of a struct. Bytes can only be cast to a string, which
ByteArrayConverter then refuses.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from kmirror.common.config import ConfigDef, ConfigType, Importance, invalid_value, valid_string
from kmirror.common.errors import ConfigError
from kmirror.mirrormaker.transforms.connect_data import (
    BOOLEAN,
    BYTES,
    DATE_NAME,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT_BITS,
    INT_CLASSES,
    STRING,
    TIME_NAME,
    TIMESTAMP_NAME,
    ConnectRecord,
    DataException,
    Date,
    Field,
    Float32,
    Float64,
    Int64,
    JavaError,
    Schema,
    Value,
    class_text,
    make_struct,
    require_struct,
    struct_schema,
    wrapped,
)
from kmirror.mirrormaker.transforms.date_format import DAY_MS, Piece, compile_format, format_date, parse_date
from kmirror.mirrormaker.transforms.headers import with_default_config
from kmirror.mirrormaker.transforms.literals import float32, text_of
from kmirror.mirrormaker.transforms.predicates import Values
from kmirror.mirrormaker.transforms.routers import Transformation
from kmirror.mirrormaker.transforms.sides import Side

_HIGH = Importance.HIGH
_OUTPUT: Final = (INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING)
_INPUT: Final = (*_OUTPUT, BYTES)
_ALL_TYPES: Final = (*_OUTPUT, BYTES, "ARRAY", "MAP", "STRUCT")
_FLOAT: Final = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)", re.ASCII)
_HEX_FLOAT: Final = re.compile(r"[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?")
_MISMATCH: Final = "class [B cannot be cast to class java.util.Date ([B and java.util.Date are in module java.base of loader 'bootstrap')"


def _spec(name: str, value: Any) -> None:
    if not value:
        raise ConfigError("Must specify at least one field to cast.")
    casts_of(value)


def casts_of(spec: Sequence[str]) -> dict[str | None, str]:
    """Returns types by field, None for the whole value. ConfigError for a wrong spec, in Kafka's words, which
    name the reason as the property of the error.
    """
    found: dict[str | None, str] = {}
    for one in spec:
        parts = one.split(":")
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) > 2:
            raise invalid_value("renames", list(spec), f"Invalid rename mapping: {one}")
        type_ = parts[-1].strip().upper() if parts else ""
        if type_ not in _ALL_TYPES:
            raise invalid_value(
                f"Invalid type found in casting spec: {parts[-1].strip() if parts else ''}",
                f"java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.{type_}",
            )
        if type_ not in _OUTPUT:
            raise ConfigError(f"Cast transformation does not support casting to {type_}; supported types are [{', '.join(_OUTPUT)}]")
        found[None if len(parts) == 1 else parts[0].strip()] = type_
    if None in found and len(spec) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in their spec"
        )
    return found


CAST_DEF = with_default_config(
    ConfigDef().define("spec", ConfigType.LIST, documentation="A type, or pairs field:type.", validator=_spec, importance=_HIGH)
)
_TYPES: Final = ("string", "unix", "Date", "Time", "Timestamp")
_PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
TIMESTAMP_CONVERTER_DEF = with_default_config(
    ConfigDef()
    .define("field", ConfigType.STRING, "", "The field, or nothing for the whole value.", importance=_HIGH)
    .define("target.type", ConfigType.STRING, documentation="What a time becomes.", validator=valid_string(*_TYPES), importance=_HIGH)
    .define("format", ConfigType.STRING, "", "A pattern of SimpleDateFormat, for texts.", importance=Importance.MEDIUM)
    .define(
        "unix.precision",
        ConfigType.STRING,
        "milliseconds",
        "The unit of numbers.",
        validator=valid_string(*_PRECISIONS),
        importance=Importance.LOW,
    )  # fmt: skip
)


def cast(side: Side, values: Values) -> Transformation:
    casts = casts_of(values["spec"])
    whole = casts.get(None)

    def apply(record: ConnectRecord) -> ConnectRecord:
        schema, value = side.schema(record), side.value(record)
        if value is None:
            return record
        if whole is not None:
            return side.with_(record, replace(schema, type=whole, fields=()), _cast(schema, value, whole))
        fields = [
            Field(field.name, Schema(casts[field.name], field.schema.optional)) if field.name in casts else field
            for field in schema.field_list()
        ]
        updated = struct_schema(schema, fields, optional=schema.optional)
        struct = require_struct(value, "cast types")
        made = {
            field.name: _cast(field.schema, one, casts[field.name]) if field.name in casts else one
            for field, one in zip(struct.schema.fields, struct.values, strict=True)
        }
        return side.with_(record, updated, make_struct(updated, made))

    return apply


def _cast(schema: Schema, value: Value, type_: str) -> Value:
    if value is None:
        return None
    if schema.type not in _INPUT:
        raise DataException(
            f"Cast transformation does not support casting from {schema.type}; supported types are [{', '.join(_INPUT_ORDER)}]"
        )
    if schema.name is not None and type_ != STRING:
        value = _encoded(schema.name, value)
    if type_ == STRING:
        return text_of(value)
    if not isinstance(value, str | int | float) or isinstance(value, Date):
        raise DataException(f"Unexpected type in Cast transformation: {class_text(value)}")
    try:
        return _to_number(value, type_)
    except ValueError as error:
        raise DataException(f"Value ({text_of(value)}) was out of range for requested data type") from error


_INPUT_ORDER: Final = (INT8, INT16, INT32, INT64, FLOAT32, FLOAT64, BOOLEAN, STRING, BYTES)


def _encoded(name: str, value: Value) -> Value:
    """A time as the number that it is on the wire. JavaError for what is called a time and is none."""
    if name not in (DATE_NAME, TIME_NAME, TIMESTAMP_NAME):
        return value
    if not isinstance(value, Date):
        raise JavaError("java.lang.ClassCastException", _MISMATCH)
    if name == DATE_NAME:
        if value.milliseconds % DAY_MS:
            raise DataException("Kafka Connect Date type should not have any time fields set to non-zero values.")
        return INT_CLASSES[INT32](value.milliseconds // DAY_MS)
    if name == TIME_NAME:
        if not 0 <= value.milliseconds <= DAY_MS:
            raise DataException("Kafka Connect Time type should not have any date fields set to non-zero values.")
        return INT_CLASSES[INT32](value.milliseconds)
    return Int64(value.milliseconds)


def _to_number(value: str | int | float, type_: str) -> Value:
    """ValueError for a text that is no number of the type."""
    if type_ == BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else bool(_integral(value, 64))
    if type_ in (FLOAT32, FLOAT64):
        number = _parsed_float(value) if isinstance(value, str) else float(value)
        return Float64(number) if type_ == FLOAT64 else Float32(narrowed(number))
    bits = INT_BITS[type_]
    if isinstance(value, str):
        if re.fullmatch(r"[+-]?\d+", value) is None or wrapped(int(value), bits) != int(value):
            raise ValueError
        return INT_CLASSES[type_](int(value))
    return INT_CLASSES[type_](wrapped(_integral(value, max(bits, 32)), bits))


def _integral(value: int | float, bits: int) -> int:
    """What is before the point, as Java casts it: floats that are too large become the largest number."""
    if not isinstance(value, float):
        return int(value)
    if math.isnan(value):
        return 0
    return max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, int(value) if math.isfinite(value) else int(math.copysign(1 << 70, value))))


def _parsed_float(text: str) -> float:
    if _HEX_FLOAT.fullmatch(text.strip()):
        return float.fromhex(text.strip().rstrip("fFdD"))
    match = _FLOAT.fullmatch(text.strip())
    if match is None:
        raise ValueError
    return float(text.strip().rstrip("fFdD") if match[2] else text.strip())


def narrowed(number: float) -> float:
    found = float32(number) if abs(number) != float("inf") and number == number else number
    return found if found is not None else float("inf") if number > 0 else float("-inf")


def timestamp_converter(side: Side, values: Values) -> Transformation:
    name, target, pattern, precision = values["field"], values["target.type"], values["format"], values["unix.precision"]
    if target == "string" and not pattern.strip():
        raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
    convert = _converter(target, pattern, precision)

    def apply(record: ConnectRecord) -> ConnectRecord:
        schema, value = side.schema(record), side.value(record)
        if not name:
            return side.with_(record, _time_schema(target, schema.optional), convert(value, _source_type(schema)))
        struct = None if value is None else require_struct(value, "converting timestamp formats")
        fields = [
            Field(field.name, _time_schema(target, field.schema.optional)) if field.name == name else field for field in schema.field_list()
        ]
        updated = struct_schema(schema, fields, optional=schema.optional)
        if struct is None:
            return side.with_(record, updated, None)
        made = {
            field.name: convert(one, _source_type(field.schema)) if field.name == name else one
            for field, one in zip(struct.schema.fields, struct.values, strict=True)
        }
        return side.with_(record, updated, make_struct(updated, made))

    return apply


def _time_schema(target: str, optional: bool) -> Schema:
    if target == "string":
        return Schema(STRING, optional)
    if target == "unix":
        return Schema(INT64, optional)
    names = {"Date": (INT32, DATE_NAME), "Time": (INT32, TIME_NAME), "Timestamp": (INT64, TIMESTAMP_NAME)}
    return Schema(names[target][0], optional, names[target][1], 1)


def _source_type(schema: Schema) -> str:
    """JavaError for a schema that has no times."""
    known = {TIMESTAMP_NAME: "Timestamp", DATE_NAME: "Date", TIME_NAME: "Time"}
    if schema.name in known:
        return known[schema.name]
    if schema.type == STRING:
        return "string"
    if schema.type == INT64:
        return "unix"
    message = f"Schema {schema} does not correspond to a known timestamp type format"
    raise JavaError("org.apache.kafka.connect.errors.ConnectException", message)


def _converter(target: str, pattern: str, precision: str) -> Callable[[Value, str], Value]:
    """ConfigError for a pattern that Java does not take."""
    try:
        pieces = compile_format(pattern) if pattern.strip() else None
    except JavaError as error:
        message = f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}"
        raise invalid_value(message, error.described) from error

    def convert(value: Value, source: str) -> Value:
        if value is None:
            return None
        milliseconds = _to_ms(value, source, pattern, pieces, precision)
        if target == "string":
            assert pieces is not None
            return format_date(pieces, milliseconds)
        if target == "unix":
            return Int64(_in_unit(milliseconds, precision))
        if target == "Date":
            return Date(milliseconds - milliseconds % DAY_MS)
        return Date(milliseconds % DAY_MS if target == "Time" else milliseconds)

    return convert


def _to_ms(value: Value, source: str, pattern: str, pieces: tuple[Piece, ...] | None, precision: str) -> int:
    if source == "string":
        if not isinstance(value, str):
            raise DataException(f"Expected string timestamp to be a String, but found {class_text(value)}")
        if pieces is None:
            raise JavaError(
                "java.lang.NullPointerException",
                'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null',
            )
        found = parse_date(pieces, value)
        if found is None:
            raise DataException(f"Could not parse timestamp: value ({value}) does not match pattern ({pattern})")
        return found
    if source == "unix":
        if not isinstance(value, Int64):
            raise DataException(f"Expected Unix timestamp to be a Long, but found {class_text(value)}")
        return _from_unit(int(value), precision)
    if not isinstance(value, Date):
        raise DataException(f"Expected {source} to be a java.util.Date, but found {class_text(value)}")
    return value.milliseconds


def _truncated(value: int, by: int) -> int:
    """Java's division."""
    return -(-value // by) if value < 0 else value // by


def _saturated(value: int) -> int:
    """As `TimeUnit` converts what is too large."""
    return max(-(2**63), min(2**63 - 1, value))


def _from_unit(value: int, precision: str) -> int:
    if precision == "seconds":
        return _saturated(value * 1000)
    return _truncated(value, {"microseconds": 1000, "nanoseconds": 1_000_000}.get(precision, 1))


def _in_unit(milliseconds: int, precision: str) -> int:
    if precision == "seconds":
        return _truncated(milliseconds, 1000)
    return _saturated(milliseconds * {"microseconds": 1000, "nanoseconds": 1_000_000}.get(precision, 1))
