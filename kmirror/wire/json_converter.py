"""The JSON that Kafka's tools print for stored records (its generated `*JsonConverter` classes,
through Jackson).

Fields come in the schema's order, with names that begin in lower case. The version's untagged
fields are always there, tagged ones only if they differ from their default. Bytes are base64, ids
22 characters; there are no spaces. In text only quotes, backslashes and control characters are
escaped. `to_json` returns plain values, so a caller may replace bytes by a decoded message before
`dumps`.
"""

from __future__ import annotations

import base64
import re
from json.encoder import encode_basestring
from typing import Any, Final

from msgspec import Struct

from kmirror.wire.json_schemas import RECORDS

_CONTROL_ESCAPE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\u00([01][0-9a-f])")


def to_json(message: Any, version: int) -> dict[str, Any]:
    """Returns a stored record's message as dicts, lists and plain values."""
    return _struct(message, RECORDS[type(message).__name__][1], version)


def message_to_json(message: Any, version: int) -> dict[str, Any]:
    """Returns a request or response as Kafka's request log shows it: of record batches, only the
    size."""
    from kmirror.wire.message_json_schemas import MESSAGES

    return _struct(message, MESSAGES[type(message).__name__], version)


def _struct(message: Any, fields: tuple[Any, ...], version: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, attribute, lowest, highest, kind, is_array, is_tagged, default in fields:
        if not lowest <= version <= highest:
            continue
        value = getattr(message, attribute)
        if is_tagged and _is_default(value, default):
            continue
        if value is None:
            result[name] = None
        elif kind == "r":
            result[f"{name}SizeInBytes"] = len(value) if isinstance(value, (bytes, bytearray, memoryview)) else value.size
        elif is_array:
            result[name] = [_value(element, kind, version) for element in value]
        else:
            result[name] = _value(value, kind, version)
    return result


def _is_default(value: Any, default: Any) -> bool:
    if value is None or default != ():
        return bool(value == default)
    return not value or (isinstance(value, Struct) and value == type(value)())


def _value(value: Any, kind: Any, version: int) -> Any:
    if kind in ("v", "s", "f"):
        return value
    if kind == "u":
        return str(value)
    if kind == "b":
        return base64.b64encode(value).decode()
    return _struct(value, kind, version)


def dumps(value: Any) -> str:
    """Returns `value` as Jackson writes it: no spaces, non-ASCII characters unescaped, control
    characters in upper-case hex."""
    if isinstance(value, str):
        text = encode_basestring(value)
        return _CONTROL_ESCAPE.sub(lambda match: f"{match[1]}\\u00{match[2].upper()}", text) if "\\u00" in text else text
    if isinstance(value, dict):
        return "{" + ",".join([f"{dumps(name)}:{dumps(element)}" for name, element in value.items()]) + "}"
    if isinstance(value, list):
        return "[" + ",".join([dumps(element) for element in value]) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return java_double(value) if isinstance(value, float) else str(value)


def java_double(value: float) -> str:
    """`Double.toString`: decimal from 10^-3 up to 10^7, otherwise with an exponent, always with a
    decimal point."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or value != value or value in (float("inf"), float("-inf")):
        return {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(repr(float(value)), repr(float(value)))
    mantissa, _, exponent = f"{float(value)!r}".partition("e")
    if not exponent:
        digits = mantissa.lstrip("-").replace(".", "").strip("0") or "0"
        exponent = str(int(f"{value:e}".partition("e")[2]))
        mantissa = ("-" if value < 0 else "") + digits[0] + "." + (digits[1:] or "0")
    elif "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
