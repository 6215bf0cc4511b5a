r"""What InsertHeader's `value.literal` is, and a value as text (Connect's `Values`).

    literal                            schema                    as text again
    null                               none                      (null)
    true                               BOOLEAN                   true
    5, 300, 1e3                        INT8, INT16, INT16        5, 300, 1000
    1.50, 0.5                          FLOAT32                   1.5, 0.5
    2024-01-31T10:00:00.000Z           INT64, a Timestamp        2024-01-31T10:00:00.000Z
    [1, 2]   {"a": 1}                  ARRAY, MAP                [1,2]   {"a":1}
    anything else                      STRING                    as it is

A list of numbers has the widest of their types. What begins as a list or map and does not end as one is a
text. A backslash before one of `"[]{},:` keeps it from being punctuation.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from decimal import Decimal
from typing import Final

from kmirror.common.config import java_double_text
from kmirror.mirrormaker.transforms.connect_data import (
    ARRAY,
    BOOLEAN,
    BYTES,
    DATE_NAME,
    DECIMAL_NAME,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    INT_BITS,
    INT_CLASSES,
    MAP,
    STRING_SCHEMA,
    TIME_NAME,
    TIMESTAMP_NAME,
    DataException,
    Date,
    Float32,
    Float64,
    Schema,
    Struct,
    Value,
)
from kmirror.mirrormaker.transforms.date_format import DAY_MS, compile_format, format_date, parse_date

_TIMESTAMP: Final = compile_format("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
_DATE: Final = compile_format("yyyy-MM-dd")
_TIME: Final = compile_format("HH:mm:ss.SSS'Z'")
_TEMPORAL: Final = {24: (Schema(INT64, name=TIMESTAMP_NAME, version=1), _TIMESTAMP), 10: (Schema(INT32, name=DATE_NAME, version=1), _DATE),
                    13: (Schema(INT32, name=TIME_NAME, version=1), _TIME)}  # fmt: skip
"""By the length of the text."""
_PUNCTUATION: Final = frozenset('"[]{},:')
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WIDTHS: Final = (INT8, INT16, INT32, INT64, FLOAT32, FLOAT64)
Literal = tuple[Schema | None, Value]
NULL: Final[Literal] = (None, None)


def parse_literal(text: str) -> Literal:
    """Returns what a literal is; a text that is nothing else is a STRING."""
    if not text:
        return STRING_SCHEMA, text
    parsed = _Parser(text).value(embedded=False)
    return NULL if parsed is None else parsed


class _Parser:
    """Tokens are punctuation, one character each, and what stands between."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def _token(self) -> str:
        start, escaped = self._position, False
        while self._position < len(self._text):
            char = self._text[self._position]
            if char in _PUNCTUATION and not escaped:
                if start == self._position:
                    self._position += 1
                break
            escaped = char == "\\" and not escaped
            self._position += 1
        return self._text[start : self._position]

    @property
    def _has_next(self) -> bool:
        return self._position < len(self._text)

    def _take(self, expected: str) -> bool:
        """Takes a token, blanks around it left out."""
        start = self._position
        token = self._token()
        while not token.strip() and self._has_next:
            token = self._token()
        if token.strip() == expected:
            return True
        self._position = start
        return False

    def _take_whole(self, expected: str, *, embedded: bool) -> bool:
        start = self._position
        if self._take(expected) and (embedded or not self._has_next):
            return True
        self._position = start
        return False

    def value(self, *, embedded: bool) -> Literal | None:
        """None for null, or for nothing."""
        if not self._has_next:
            return None
        if embedded and self._take('"'):
            return self._quoted()
        if self._take_whole("null", embedded=embedded):
            return None
        for word in ("true", "false"):
            if self._take_whole(word, embedded=embedded):
                return Schema(BOOLEAN), word == "true"
        start = self._position
        try:
            if self._take("["):
                return self._array()
            if self._take("{"):
                return self._map()
        except DataException:
            self._position = start
        self._skip_blank_before_text()
        token = self._token()
        return (STRING_SCHEMA, token) if not token.strip() else self._scalar(token.strip(), embedded=embedded)

    def _skip_blank_before_text(self) -> None:
        """A blank token before punctuation was looked past by the attempts above."""
        start = self._position
        token = self._token()
        while not token.strip() and self._has_next:
            start = self._position
            token = self._token()
        self._position = start

    def _scalar(self, token: str, *, embedded: bool) -> Literal:
        if token[0].isdigit():
            temporal = self._temporal_of_tokens(token)
            if temporal is not None:
                return temporal
        if token[0].isdigit() or token[0] in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataException("Failed to parse embedded value")
        return STRING_SCHEMA, self._text

    def _temporal_of_tokens(self, token: str) -> Literal | None:
        """A time has colons, so it is five tokens."""
        start = self._position
        rest = [self._token() for _ in range(4) if self._has_next]
        if len(rest) == 4:
            temporal = _temporal(token + "".join(rest))
            if temporal is not None:
                return temporal
        self._position = start
        return _temporal(token)

    def _quoted(self) -> Literal:
        content = ""
        while self._has_next and not self._take('"'):
            content += self._token()
        return _temporal(content) or (STRING_SCHEMA, content)

    def _array(self) -> Literal:
        schemas: list[Schema | None] = []
        values: list[Value] = []
        while self._has_next:
            if self._take("]"):
                common = _common(schemas)
                return Schema(ARRAY), values if common is None else [_aligned(common, one) for one in values]
            if self._take(","):
                raise DataException("an empty element")
            schema, value = self.value(embedded=True) or NULL
            schemas.append(schema)
            values.append(value)
            start = self._position
            if self._take("]"):
                self._position = start
            elif not self._take(","):
                raise DataException("no ',' between elements")
        raise DataException("no ']'")

    def _map(self) -> Literal:
        keys: list[Schema | None] = []
        values: list[Schema | None] = []
        found: dict[Value, Value] = {}
        while self._has_next:
            if self._take("}"):
                key_type, value_type = _common(keys), _common(values)
                return Schema(MAP), {
                    (_aligned(key_type, key) if key_type else key): (_aligned(value_type, value) if key_type and value_type else value)
                    for key, value in found.items()
                }
            if self._take(","):
                raise DataException("no entry before ','")
            key_schema, key = self.value(embedded=True) or NULL
            if key is None or isinstance(key, list | dict) or not self._take(":"):
                raise DataException("an entry without a key, or without ':'")
            value_schema, found[key] = self.value(embedded=True) or NULL
            self._take(",")
            keys.append(key_schema)
            values.append(value_schema)
        raise DataException("no '}'")


def java_decimal(text: str) -> Decimal | None:
    """As `new BigDecimal(text)`; None for what is no number."""
    return Decimal(text) if _NUMBER.fullmatch(text) is not None else None


def _number(token: str) -> Literal | None:
    decimal = java_decimal(token)
    if decimal is None:
        return None
    if abs(decimal) <= 10**19 and (abs(decimal) >= 1 or decimal == 0) and decimal == decimal.to_integral_value():
        integral = int(decimal)
        for name, bits in INT_BITS.items():
            if -(1 << (bits - 1)) <= integral < 1 << (bits - 1):
                return Schema(name), INT_CLASSES[name](integral)
    exponent = decimal.as_tuple().exponent
    scale = -exponent if isinstance(exponent, int) else 0
    if scale and float32(float(decimal)) is not None:
        return Schema(FLOAT32), Float32(float32(float(decimal)) or 0.0)
    if scale and abs(float(decimal)) != float("inf"):
        return Schema(FLOAT64), Float64(float(decimal))
    return Schema(BYTES, name=DECIMAL_NAME, version=1), decimal


def float32(value: float) -> float | None:
    """The nearest number of 32 bits; None if it is infinite."""
    try:
        found: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return None
    return found if abs(found) != float("inf") else None


def _temporal(text: str) -> Literal | None:
    text = text.replace("\\:", ":")
    schema, pieces = _TEMPORAL.get(len(text), (None, ()))
    milliseconds = None if schema is None else parse_date(pieces, text)
    return None if milliseconds is None else (schema, Date(milliseconds))


def _common(schemas: list[Schema | None]) -> str | None:
    """The widest of types of numbers, or the one type that all have; None if they have nothing in common."""
    common: Schema | None = None
    for schema in schemas:
        if schema is None:
            continue
        if common is None or (
            common.type in _WIDTHS and schema.type in _WIDTHS and _WIDTHS.index(schema.type) > _WIDTHS.index(common.type)
        ):
            common = schema
        elif common.type != schema.type and not (common.type in _WIDTHS and schema.type in _WIDTHS):
            return None
    return None if common is None or common.name is not None else common.type


def _aligned(type_: str, value: Value) -> Value:
    """DataException for null, which a type of a list or map does not take."""
    if value is None:
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if type_ in INT_CLASSES:
        return INT_CLASSES[type_](value)
    if type_ == FLOAT32:
        return Float32(float32(float(value)) or 0.0)
    return Float64(value) if type_ == FLOAT64 else value


def text_of(value: Value, *, embedded: bool = False) -> str:
    """As `Values.convertToString` has it; embedded texts are quoted."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        text = base64.b64encode(value).decode("ascii")
        return f'"{text}"' if embedded else text
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"' if embedded else value
    if isinstance(value, Date):
        ms = value.milliseconds
        return format_date(_TIME if ms < DAY_MS else _DATE if ms % DAY_MS == 0 else _TIMESTAMP, ms)
    if isinstance(value, Struct):
        pairs = zip(value.schema.fields, value.values, strict=True)
        return "{" + ",".join(f"{text_of(field.name, embedded=True)}:{text_of(one, embedded=True)}" for field, one in pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(text_of(one, embedded=True) for one in value) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{text_of(key, embedded=True)}:{text_of(one, embedded=True)}" for key, one in value.items()) + "}"
    return number_text(value)


def number_text(value: int | float | Decimal) -> str:
    """As Java's `toString`; floats as short as possible, as Java has them from 19 on."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Float32):
        shortest = next(one for one in (f"{value:.{digits}g}" for digits in range(1, 10)) if float32(float(one)) == float(value))
        return java_double_text(float(shortest))
    if isinstance(value, float):
        return java_double_text(float(value))
    return str(value) if isinstance(value, Decimal) else str(int(value))
