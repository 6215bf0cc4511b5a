"""Turns lines into records, with the properties and errors of Kafka's `LineMessageReader`.

    [headers <headers.delimiter>] [key <key.separator>] value            headers: name <headers.key.separator> value <headers.separator> ...

`parse.headers` and `parse.key` say which of these parts there are. A part that equals `null.marker`
is null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kmirror.common.errors import KmirrorError


@dataclass(frozen=True, slots=True)
class LineRecord:
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LineReader:
    """Parses lines and counts them."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._parse_key = _flag(properties, "parse.key")
        self._parse_headers = _flag(properties, "parse.headers")
        self._ignore_error = _flag(properties, "ignore.error")
        self._key_separator = properties.get("key.separator", "\t")
        self._headers_delimiter = properties.get("headers.delimiter", "\t")
        self._headers_separator = properties.get("headers.separator", ",")
        self._headers_key_separator = properties.get("headers.key.separator", ":")
        self._null_marker = properties.get("null.marker")
        self._line_number = 0
        self._check()

    def _check(self) -> None:
        separators = {
            "headers.delimiter": self._headers_delimiter,
            "headers.separator": self._headers_separator,
            "headers.key.separator": self._headers_key_separator,
        }
        names = list(separators)
        for first, second in ((0, 1), (0, 2), (1, 2)):
            if separators[names[first]] == separators[names[second]]:
                raise KmirrorError(f"{names[first]} and {names[second]} may not be equal")
        for name, text in {"key.separator": self._key_separator, **separators}.items():
            if text == self._null_marker:
                raise KmirrorError(f"null.marker and {name} may not be equal")

    def parse(self, line: str) -> LineRecord:
        """Parse one line, given without its end."""
        self._line_number += 1
        headers, rest = self._part(line, self._headers_delimiter, "headers delimiter", line) if self._parse_headers else (None, line)
        key, value = self._part(rest, self._key_separator, "key separator", line) if self._parse_key else (None, rest)
        pairs = [] if headers is None or headers == self._null_marker else self._header_pairs(headers)
        return LineRecord(self._bytes(key), self._bytes(value), pairs)

    def _part(self, text: str, separator: str, name: str, line: str) -> tuple[str | None, str]:
        part, found, rest = text.partition(separator)
        if found:
            return part, rest
        if not self._ignore_error:
            raise KmirrorError(f"No {name} found on line number {self._line_number}: '{line}'")
        return None, text

    def _header_pairs(self, text: str) -> list[tuple[str, bytes | None]]:
        pairs: list[tuple[str, bytes | None]] = []
        for pair in text.split(self._headers_separator):
            name, found, value = pair.partition(self._headers_key_separator)
            if not found:
                if not self._ignore_error:
                    raise KmirrorError(f"No header key separator found in pair '{pair}' on line number {self._line_number}")
                pairs.append((pair, None))
                continue
            if name == self._null_marker:
                raise KmirrorError(f"Header keys should not be equal to the null marker '{self._null_marker}' as they can't be null")
            pairs.append((name, self._bytes(value)))
        return pairs

    def _bytes(self, text: str | None) -> bytes | None:
        return None if text is None or text == self._null_marker else text.encode("utf-8", "surrogateescape")


def _flag(properties: Mapping[str, str], name: str) -> bool:
    return properties.get(name, "").strip().lower() == "true"
