r"""Dates in patterns of Java's `SimpleDateFormat`, in UTC and English.

    yyyyMMdd HH:mm:ss.SSS     digits, padded to as many as letters (yy: the last two)
    MMM MMMM  EEE EEEE        names, short up to three letters
    a G  Z X XX XXX z         AM, AD, +0000, Z, Z, Z, UTC
    'text'  ''                literal text, an apostrophe

Weeks (w W Y) are those of the United States: they begin on Sunday, and the first has 1 January.
`parse` knows digits, names of months and literal text; it is lenient as Java's, so 2024-13-01 is 2025-01-01.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from kmirror.mirrormaker.transforms.connect_data import DataException, JavaError

DAY_MS: Final = 86_400_000
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_LETTERS: Final = frozenset("GyYMLwWDdFEuaHkKhmsSzZX")
_PARSED: Final = frozenset("yMLdHkKhmsS")


class Piece(NamedTuple):
    """`letter` is empty for literal text."""

    letter: str
    text: str


class Civil(NamedTuple):
    """A date of the Gregorian calendar; `days` are those since 1970-01-01."""

    year: int
    month: int
    day: int
    days: int


@lru_cache(maxsize=100)
def compile_format(pattern: str) -> tuple[Piece, ...]:
    """JavaError for a pattern that Java does not take."""
    pieces: list[Piece] = []
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "'":
            text, position = _quoted(pattern, position)
            pieces.append(Piece("", text))
        elif char.isascii() and char.isalpha():
            if char not in _LETTERS:
                raise JavaError("java.lang.IllegalArgumentException", f"Illegal pattern character '{char}'")
            end = position
            while end < len(pattern) and pattern[end] == char:
                end += 1
            if char == "X" and end - position > 3:
                raise JavaError("java.lang.IllegalArgumentException", f"invalid ISO 8601 format: length={end - position}")
            pieces.append(Piece(char, pattern[position:end]))
            position = end
        else:
            pieces.append(Piece("", char))
            position += 1
    return tuple(pieces)


def _quoted(pattern: str, position: int) -> tuple[str, int]:
    """What is quoted from `position` on, and where the pattern goes on."""
    if pattern.startswith("''", position):
        return "'", position + 2
    text, position = "", position + 1
    while True:
        end = pattern.find("'", position)
        if end < 0:
            raise JavaError("java.lang.IllegalArgumentException", "Unterminated quote")
        text += pattern[position:end]
        if not pattern.startswith("''", end):
            return text, end + 1
        text, position = text + "'", end + 2


def civil(days: int) -> Civil:
    """The date that is so many days after 1970-01-01."""
    shifted = days + 719_468
    era, day_of_era = divmod(shifted, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return Civil(year_of_era + era * 400 + (month <= 2), month, day_of_year - (153 * shifted_month + 2) // 5 + 1, days)


def days_from_civil(year: int, month: int, day: int) -> int:
    """Months and days may be beyond their ends."""
    carried, month0 = divmod(month - 1, 12)
    year, month = year + carried, month0 + 1
    shifted = year - (month <= 2)
    era, year_of_era = divmod(shifted, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468 + day - 1


def format_date(pieces: tuple[Piece, ...], milliseconds: int) -> str:
    days, time_ms = divmod(milliseconds, DAY_MS)
    date = civil(days)
    return "".join(piece.text if not piece.letter else _formatted(piece, date, time_ms) for piece in pieces)


def _formatted(piece: Piece, date: Civil, time_ms: int) -> str:
    letter, width = piece.letter, len(piece.text)
    hour = time_ms // 3_600_000
    weekday = (date.days + 4) % 7
    if letter in "yY":
        year = date.year if letter == "y" else _week_year(date, weekday)
        return f"{year % 100:02d}" if width == 2 else str(year).zfill(width)
    if letter in "ML" and width >= 3:
        name = _MONTHS[date.month - 1]
        return name if width > 3 else name[:3]
    if letter == "E":
        return _DAYS[weekday] if width > 3 else _DAYS[weekday][:3]
    words = {"G": "AD" if date.year > 0 else "BC", "a": "AM" if hour < 12 else "PM", "Z": "+0000", "X": "Z"}
    if letter in words:
        return words[letter]
    if letter == "z":
        return "UTC" if width < 4 else "Coordinated Universal Time"
    first_of_year = days_from_civil(date.year, 1, 1)
    numbers = {
        "M": date.month,
        "L": date.month,
        "d": date.day,
        "D": date.days - first_of_year + 1,
        "F": (date.day - 1) // 7 + 1,
        "u": weekday or 7,
        "W": (date.day - 1 + (weekday - date.day + 1) % 7) // 7 + 1,
        "w": _week_of_year(date, weekday, first_of_year),
        "H": hour,
        "k": hour or 24,
        "K": hour % 12,
        "h": hour % 12 or 12,
        "m": time_ms // 60_000 % 60,
        "s": time_ms // 1000 % 60,
        "S": time_ms % 1000,
    }
    return str(numbers[letter]).zfill(width)


def _week_year(date: Civil, weekday: int) -> int:
    """A week that reaches into the next year is that year's first."""
    return date.year + 1 if date.days - weekday + 6 >= days_from_civil(date.year + 1, 1, 1) else date.year


def _week_of_year(date: Civil, weekday: int, first_of_year: int) -> int:
    if _week_year(date, weekday) > date.year:
        return 1
    return (date.days - first_of_year + (first_of_year + 4) % 7) // 7 + 1


def parse_date(pieces: tuple[Piece, ...], text: str) -> int | None:
    """Returns ms for a text that begins as the pattern says, None for another. DataException for letters that
    are not parsed here.
    """
    fields = {"y": 1970, "M": 1, "d": 1}
    position = 0
    for number, piece in enumerate(pieces):
        if not piece.letter:
            if not text.startswith(piece.text, position):
                return None
            position += len(piece.text)
            continue
        letter = "M" if piece.letter == "L" else piece.letter
        if letter not in _PARSED:
            raise DataException(f"kmirror does not parse dates with the letter {letter} in their pattern")
        width = len(piece.text)
        is_followed = number + 1 < len(pieces) and pieces[number + 1].letter
        match = re.compile(rf"\d{{1,{width}}}" if is_followed else r"-?\d+").match(text, position)
        if match is None and letter == "M" and width >= 3:
            name = next((one for one in _MONTHS if text[position:].lower().startswith(one[:3].lower())), None)
            if name is None:
                return None
            position += len(name) if text[position:].lower().startswith(name.lower()) else 3
            fields["M"] = _MONTHS.index(name) + 1
            continue
        if match is None:
            return None
        fields[letter] = int(match[0])
        position = match.end()
    hour = fields.get("H", fields.get("k", 0) % 24 if "k" in fields else fields.get("h", fields.get("K", 0)) % 12)
    days = days_from_civil(fields["y"], fields["M"], fields["d"])
    return days * DAY_MS + ((hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)) * 1000 + fields.get("S", 0)
