"""The text format of `java.util.Properties`: `meta.properties`, and the configuration files of
servers and clients.

It has `key=value` lines in ISO-8859-1 with backslash escapes, `#` and `!` comments, and lines that
continue after a backslash at the end. This module writes only ASCII.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from kmirror.common.errors import CorruptFileError
from kmirror.common.java_hash_map import hash_map_order

_ESCAPED: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_UNIT: Final = re.compile(r"[0-9A-Fa-f]{4}")
_UNESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def encode_properties(properties: dict[str, str], *, time_ms: int) -> bytes:
    """`java.util.Properties.store` with an empty comment; the date is in UTC."""
    date = datetime.fromtimestamp(time_ms / 1000, UTC)
    weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[date.weekday()]
    month = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[date.month - 1]
    lines = ["#", f"#{weekday} {month} {date.day:02} {date.hour:02}:{date.minute:02}:{date.second:02} UTC {date.year}"]
    for key in hash_map_order(properties):
        lines.append(f"{escape(key).replace(' ', chr(92) + ' ')}={escape(properties[key])}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def escape(text: str, *, also: str = "=:#!") -> str:
    """A value as `store` writes it: one line of ASCII, which reads the same as ISO-8859-1 and as
    UTF-8. Characters in `also` are escaped although a value may hold them unescaped.
    """
    escaped = "".join(_ESCAPED.get(char) or (f"\\{char}" if char in also else char) for char in text)
    if escaped.startswith(" "):
        escaped = "\\" + escaped
    units = escaped.encode("utf-16-be")
    pairs = (units[index] << 8 | units[index + 1] for index in range(0, len(units), 2))
    return "".join(chr(unit) if 0x20 <= unit <= 0x7E else f"\\u{unit:04X}" for unit in pairs)


def decode_properties(path: str, data: bytes) -> dict[str, str]:
    """The keys and values of a Java properties file (ISO-8859-1, backslash escapes, continued
    lines). A later key wins.
    """
    properties: dict[str, str] = {}
    for position, line in _logical_lines(data.decode("latin-1")):
        key, value = _split_key(line)
        try:
            properties[_unescape(key)] = _unescape(value)
        except ValueError as error:
            raise CorruptFileError(path, position, f"malformed \\uxxxx in {line!r}") from error
    return properties


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """(position, line) without comments and blank lines, continued lines joined."""
    result: list[tuple[int, str]] = []
    position, pending, pending_position = 0, "", 0
    for raw in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        line = raw.lstrip(" \t\f")
        if not pending:
            pending_position = position
        position += len(raw) + 1
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        result.append((pending_position, pending + line))
        pending = ""
    if pending:
        result.append((pending_position, pending))
    return result


def _split_key(line: str) -> tuple[str, str]:
    index = 0
    while index < len(line) and line[index] not in " \t\f=:":
        index += 2 if line[index] == "\\" else 1
    rest = line[index:].lstrip(" \t\f")
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(" \t\f")
    return line[:index], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units: list[str] = []
    index = 0
    while index < len(text):
        char = text[index]
        if char != "\\":
            units.append(char)
            index += 1
        elif text[index + 1 : index + 2] == "u":
            digits = text[index + 2 : index + 6]
            if _UNIT.fullmatch(digits) is None:
                raise ValueError(digits)
            units.append(chr(int(digits, 16)))
            index += 6
        else:
            units.append(_UNESCAPED.get(text[index + 1 : index + 2], text[index + 1 : index + 2]))
            index += 2
    return "".join(units).encode("utf-16-be", "surrogatepass").decode("utf-16-be", "replace")
