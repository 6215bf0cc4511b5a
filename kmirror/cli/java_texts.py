"""How Kafka's tools, which are Java programs, read numbers, lists, times and durations.

    java_split            `String.split`: empty words at the end are dropped
    java_int              `Integer.parseInt`, with its error
    parse_datetime_ms     `yyyy-MM-ddTHH:mm:ss.SSS` and a zone, not lenient; text after it counts not
    parse_duration_ms     `Duration.parse`
    before_ms             `Instant.now().minus(duration).toEpochMilli()`

One thing is not as there: `+0130` means one hour and a half. Kafka's tools read it as one hour.
"""

from __future__ import annotations

import re
from typing import Final

from kmirror.clients.consumer.auto_offset_reset_strategy import (
    parse_duration_ms as consumer_duration_ms,
)
from kmirror.common.errors import KmirrorError

LONG_END: Final = 1 << 63
MIN_INSTANT_S: Final = -31_557_014_167_219_200
MAX_INSTANT_S: Final = 31_556_889_864_403_199
MAX_YEAR: Final = 292_278_994
GREGORIAN_START: Final = (1582, 10, 15)
JULIAN_END: Final = (1582, 10, 4)
EPOCH_DAY: Final = 2_440_588
ZONE_MINUTES: Final = (-13 * 60, 14 * 60)
MONTH_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_CLOCK = r"{0}(\d+):{0}(\d+):{0}(\d+)\.{0}(\d+)".format(r"[ \t]*")
_DATETIME = re.compile(r"[ \t]*(\d+)-[ \t]*(\d+)-[ \t]*(\d+)T" + _CLOCK + r"[ \t]*", re.ASCII)
_ZONES = tuple(re.compile(text) for text in (r"Z|([-+])(\d\d):(\d\d)", r"([-+])(\d\d)(\d\d)", r"([-+])(\d\d)"))
_UNITS = (("days", "D", 86_400), ("hours", "H", 3_600), ("minutes", "M", 60), ("seconds", "S", 1))


def java_split(text: str, pattern: str) -> list[str]:
    """Returns the words between matches of `pattern`, without empty ones at the end."""
    words = re.split(pattern, text)
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def java_int(text: str) -> int:
    """Parses a whole number; KmirrorError with Java's words for anything else."""
    if not re.fullmatch(r"[-+]?\d+", text, re.ASCII) or not -(1 << 31) <= int(text) < 1 << 31:
        raise KmirrorError(f'For input string: "{text}"')
    return int(text)


def parse_datetime_ms(text: str) -> int:
    """Parses `YYYY-MM-DDThh:mm:ss.sss`, in UTC unless a zone (Z, +01, +0100, +01:00) follows."""
    words = java_split(text, "T")
    if len(words) < 2:
        raise KmirrorError("java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format")
    zoned = text if re.search("[-+Z]", words[1]) else text + "Z"
    match = _DATETIME.match(zoned)
    zone = None if match is None else _zone_minutes(zoned[match.end() :])
    if match is None or zone is None:
        raise _unparseable(zoned)
    year, month, day, hour, minute, second, ms = map(int, match.groups())
    if not _is_date(year, month, day) or hour > 23 or minute > 59 or second > 59 or ms > 999:
        raise _unparseable(zoned)
    minutes = (_epoch_day(year, month, day) * 24 + hour) * 60 + minute - zone
    result = (minutes * 60 + second) * 1000 + ms
    if result >= LONG_END:
        raise _unparseable(zoned)
    return result


def _unparseable(text: str) -> KmirrorError:
    return KmirrorError(f'java.text.ParseException: Unparseable date: "{text}"')


def _zone_minutes(text: str) -> int | None:
    """Returns the zone at the beginning of a text, in minutes east; None if there is none."""
    for pattern in _ZONES:
        match = pattern.match(text)
        if match is None:
            continue
        if match[0] == "Z":
            return 0
        hours, minutes = int(match[2]), int(match[3]) if len(match.groups()) > 2 else 0
        east = (hours * 60 + minutes) * (-1 if match[1] == "-" else 1)
        if hours < 24 and minutes < 60 and ZONE_MINUTES[0] <= east <= ZONE_MINUTES[1]:
            return east
    return None


def _is_julian(year: int, month: int, day: int) -> bool:
    return (year, month, day) < GREGORIAN_START


def _is_date(year: int, month: int, day: int) -> bool:
    if not 1 <= year <= MAX_YEAR or not 1 <= month <= 12:
        return False
    if JULIAN_END < (year, month, day) < GREGORIAN_START:
        return False
    is_leap = year % 4 == 0 and (_is_julian(year, month, 1) or year % 100 != 0 or year % 400 == 0)
    return 1 <= day <= MONTH_DAYS[month - 1] + (month == 2 and is_leap)


def _epoch_day(year: int, month: int, day: int) -> int:
    """Returns the day since 1970-01-01, by the Julian calendar before October 1582."""
    years = year + 4800 - (14 - month) // 12
    days = day + (153 * ((month + 9) % 12) + 2) // 5 + 365 * years + years // 4
    if _is_julian(year, month, day):
        return days - 32_083 - EPOCH_DAY
    return days - years // 100 + years // 400 - 32_045 - EPOCH_DAY


def parse_duration_ms(text: str) -> int:
    """Parses ISO 8601's `PnDTnHnMnS`; KmirrorError with Java's words for anything else."""
    result = consumer_duration_ms(text.upper())
    if result is None:
        raise KmirrorError("Text cannot be parsed to a Duration")
    days, _, clock = text.upper().partition("T")
    for unit, letter, seconds in _UNITS:
        number = re.search(rf"([-+]?\d+)(?:[.,]\d*)?{letter}", days if letter == "D" else clock)
        if number is not None and abs(int(number[1])) * seconds >= LONG_END:
            raise KmirrorError(f"Text cannot be parsed to a Duration: {unit}")
    if abs(result) // 1000 >= LONG_END:
        raise KmirrorError("Text cannot be parsed to a Duration: overflow")
    return result


def before_ms(now_ms: int, duration_ms: int) -> int:
    """Returns a duration before now; KmirrorError with Java's words for what no time can be."""
    result = now_ms - duration_ms
    if not MIN_INSTANT_S <= result // 1000 <= MAX_INSTANT_S:
        raise KmirrorError("Instant exceeds minimum or maximum instant")
    if not -LONG_END <= result < LONG_END:
        raise KmirrorError("long overflow")
    return result
