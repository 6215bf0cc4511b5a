"""Connect's data, as far as records of MirrorMaker can become it: schemas, structs, records, and the errors
of working on them.

A record of MirrorMaker has a key of schema OPTIONAL_BYTES and a value of schema BYTES (null all the same
for a tombstone), and every transformation hands schemas on. So a key or value always has a schema here,
what Connect calls schemaless (maps) cannot occur, and a schema never has a default.

    Connect         BYTES   STRING  BOOLEAN  INT8, INT16, INT32, INT64    FLOAT32, FLOAT64   logical   STRUCT
    a value here    bytes   str     bool     Int8, Int16, Int32, Int64    Float32, Float64   Date      Struct

Numbers have classes of their own, because Java's errors name the class of a value. Errors have the
text that Java's exception has, and its class as `java_class`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, NamedTuple

from kmirror.common.errors import KmirrorError

BYTES, STRING, BOOLEAN = "BYTES", "STRING", "BOOLEAN"
INT8, INT16, INT32, INT64 = "INT8", "INT16", "INT32", "INT64"
FLOAT32, FLOAT64 = "FLOAT32", "FLOAT64"
STRUCT, ARRAY, MAP = "STRUCT", "ARRAY", "MAP"
_LOGICAL: Final = "org.apache.kafka.connect.data."
DATE_NAME, TIME_NAME, TIMESTAMP_NAME = f"{_LOGICAL}Date", f"{_LOGICAL}Time", f"{_LOGICAL}Timestamp"
DECIMAL_NAME: Final = f"{_LOGICAL}Decimal"


class JavaError(KmirrorError):
    """What Java throws. The text is the exception's message."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class

    @property
    def described(self) -> str:
        """As `Throwable.toString`."""
        return f"{self.java_class}: {self}"


class DataException(JavaError):
    """Connect's word for a record that does not have what is asked of it."""

    def __init__(self, message: str) -> None:
        super().__init__("org.apache.kafka.connect.errors.DataException", message)


class Int8(int):
    """`java.lang.Byte`."""


class Int16(int):
    """`java.lang.Short`."""


class Int32(int):
    """`java.lang.Integer`."""


class Int64(int):
    """`java.lang.Long`."""


class Float32(float):
    """`java.lang.Float`."""


class Float64(float):
    """`java.lang.Double`."""


class Date(NamedTuple):
    """`java.util.Date`."""

    milliseconds: int


INT_CLASSES: Final[dict[str, type[Int8 | Int16 | Int32 | Int64]]] = {INT8: Int8, INT16: Int16, INT32: Int32, INT64: Int64}
INT_BITS: Final = {INT8: 8, INT16: 16, INT32: 32, INT64: 64}


@dataclass(frozen=True)
class Schema:
    """`fields` are those of a STRUCT, in order."""

    type: str
    optional: bool = False
    name: str | None = None
    version: int | None = None
    fields: tuple[Field, ...] = ()

    def field(self, name: str) -> Field | None:
        """DataException for a schema that is no STRUCT."""
        if self.type != STRUCT:
            raise DataException("Cannot look up fields on non-struct type")
        return next((one for one in self.fields if one.name == name), None)

    def field_list(self) -> tuple[Field, ...]:
        """DataException for a schema that is no STRUCT."""
        if self.type != STRUCT:
            raise DataException("Cannot list fields on non-struct type")
        return self.fields

    def __str__(self) -> str:
        return f"Schema{{{self.type}}}" if self.name is None else f"Schema{{{self.name}:{self.type}}}"


class Field(NamedTuple):
    name: str
    schema: Schema


@dataclass(frozen=True)
class Struct:
    """Values of a schema's fields, by name. `make_struct` checks them."""

    schema: Schema
    values: tuple[Value, ...]

    def get(self, name: str) -> Value:
        """DataException for a field that there is not."""
        for field, value in zip(self.schema.fields, self.values, strict=True):
            if field.name == name:
                return value
        raise DataException(f"{name} is not a valid field name")


Value = None | bytes | str | bool | int | float | Decimal | Date | Struct | list["Value"] | dict["Value", "Value"]
"""A bool is an int in Python, so it is looked at first wherever that matters."""

BYTES_SCHEMA, OPTIONAL_BYTES_SCHEMA = Schema(BYTES), Schema(BYTES, optional=True)
STRING_SCHEMA, OPTIONAL_STRING_SCHEMA = Schema(STRING), Schema(STRING, optional=True)


class Header(NamedTuple):
    """`schema` is None for a literal `null`."""

    key: str
    schema: Schema | None
    value: Value


@dataclass(frozen=True)
class ConnectRecord:
    """`timestamp` is ms, -1 for a record without one. Records are never changed: `with_` makes another."""

    topic: str
    partition: int
    key_schema: Schema
    key: Value
    value_schema: Schema
    value: Value
    timestamp: int
    headers: tuple[Header, ...] = ()

    def with_topic(self, topic: str) -> ConnectRecord:
        return replace(self, topic=topic)

    def with_headers(self, headers: tuple[Header, ...]) -> ConnectRecord:
        return replace(self, headers=headers)


_JAVA_CLASSES: Final[dict[type, str]] = {
    bytes: "[B", str: "java.lang.String", bool: "java.lang.Boolean", Int8: "java.lang.Byte", Int16: "java.lang.Short",
    Int32: "java.lang.Integer", Int64: "java.lang.Long", Float32: "java.lang.Float", Float64: "java.lang.Double",
    Decimal: "java.math.BigDecimal", Date: "java.util.Date", Struct: "org.apache.kafka.connect.data.Struct",
    list: "java.util.ArrayList", dict: "java.util.LinkedHashMap",
}  # fmt: skip
_CLASSES_OF: Final[dict[str, type]] = {
    BYTES: bytes, STRING: str, BOOLEAN: bool, **INT_CLASSES, FLOAT32: Float32, FLOAT64: Float64, STRUCT: Struct, ARRAY: list, MAP: dict,
}  # fmt: skip
_CLASSES_OF_LOGICAL: Final = {DATE_NAME: Date, TIME_NAME: Date, TIMESTAMP_NAME: Date, DECIMAL_NAME: Decimal}


def class_name(value: Value) -> str:
    """As `getClass().getName()`; `null` for None."""
    return "null" if value is None else _JAVA_CLASSES[type(value)]


def class_text(value: Value) -> str:
    """As a `Class` in a text: `class java.lang.String`."""
    return f"class {class_name(value)}"


def require_struct(value: Value, purpose: str) -> Struct:
    """DataException for anything but a struct."""
    if not isinstance(value, Struct):
        raise DataException(f"Only Struct objects supported for [{purpose}], found: {class_name(value)}")
    return value


def struct_schema(base: Schema, fields: list[Field], *, optional: bool = False) -> Schema:
    """A STRUCT with the name and version of another schema, not optional unless asked for. JavaError for a
    field without a name, or one that is there twice.
    """
    seen: set[str] = set()
    for field in fields:
        if not field.name:
            raise JavaError("org.apache.kafka.connect.errors.SchemaBuilderException", "fieldName cannot be null.")
        if field.name in seen:
            raise JavaError(
                "org.apache.kafka.connect.errors.SchemaBuilderException",
                f"Cannot create field because of field name duplication {field.name}",
            )
        seen.add(field.name)
    return Schema(STRUCT, optional, base.name, base.version, tuple(fields))


NEW_STRUCT: Final = Schema(STRUCT)
"""What a struct has that is made from nothing: neither name nor version."""


def make_struct(schema: Schema, values: dict[str, Value]) -> Struct:
    """DataException for a value that is not its field's, or for a field that there is not. Fields without a
    value are null, unchecked, as in Connect.
    """
    for name, value in values.items():
        field = next((one for one in schema.fields if one.name == name), None)
        if field is None:
            raise DataException(f"{name} is not a valid field name")
        validate_value(name, field.schema, value)
    return Struct(schema, tuple(values.get(field.name) for field in schema.fields))


def validate_value(name: str, schema: Schema, value: Value) -> None:
    """DataException for a value that is not the field's."""
    if value is None:
        if not schema.optional:
            raise DataException(f'Invalid value: null used for required field: "{name}", schema type: {schema.type}')
        return
    expected = _CLASSES_OF_LOGICAL.get(schema.name or "", _CLASSES_OF[schema.type])
    if type(value) is not expected:
        shown = "" if schema.name is None else f' "{schema.name}"'
        raise DataException(f'Invalid Java object for schema{shown} with type {schema.type}: {class_text(value)} for field: "{name}"')
    if isinstance(value, Struct):
        if value.schema != schema:
            raise DataException("Struct schemas do not match.")
        for field, one in zip(value.schema.fields, value.values, strict=True):
            validate_value(field.name, field.schema, one)


def wrapped(value: int, bits: int) -> int:
    """A number as Java's narrowing leaves it."""
    half = 1 << (bits - 1)
    return (value + half) % (1 << bits) - half
