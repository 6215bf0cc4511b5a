"""`auto.offset.reset`: where to begin without a usable position (Kafka's
`AutoOffsetResetStrategy`).

none, earliest, latest (any case), or `by_duration:<ISO 8601 duration>` (KIP-1106): the first record
that is not older than that, counted from the moment of the reset; the end if there is none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from kmirror.common.config import invalid_value
from kmirror.common.errors import ConfigError
from kmirror.common.sentinels import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

_DURATION: Final = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?", re.IGNORECASE | re.ASCII
)
_HINT: Final = (
    "Invalid value `{}` for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the format "
    "'by_duration:<PnDTnHnMn.nS.>'."
)


@dataclass(frozen=True, slots=True)
class AutoOffsetResetStrategy:
    """One strategy; `duration_ms` only for by_duration."""

    name: str
    duration_ms: int = 0

    NONE: ClassVar[AutoOffsetResetStrategy]
    EARLIEST: ClassVar[AutoOffsetResetStrategy]
    LATEST: ClassVar[AutoOffsetResetStrategy]

    @classmethod
    def from_string(cls, text: str) -> AutoOffsetResetStrategy:
        """Parses a configuration value; ConfigError for any other text."""
        name = text.strip().lower()
        if name in ("none", "earliest", "latest"):
            return cls(name)
        if name.startswith("by_duration:"):
            duration_ms = parse_duration_ms(name.removeprefix("by_duration:"))
            if duration_ms is not None and duration_ms >= 0:
                return cls("by_duration", duration_ms)
        raise ConfigError(_HINT.format(text))

    def timestamp(self, now_ms: int) -> int:
        """What ListOffsets is asked for; `now_ms` is the wall clock."""
        if self.name == "earliest":
            return EARLIEST_TIMESTAMP
        return LATEST_TIMESTAMP if self.name == "latest" else now_ms - self.duration_ms


AutoOffsetResetStrategy.NONE = AutoOffsetResetStrategy("none")
AutoOffsetResetStrategy.EARLIEST = AutoOffsetResetStrategy("earliest")
AutoOffsetResetStrategy.LATEST = AutoOffsetResetStrategy("latest")


def parse_duration_ms(text: str) -> int | None:
    """Java's `Duration.parse`, in whole ms (rounded towards zero); None if it is not a duration."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    sign, days, clock, hours, minutes, seconds, fraction = match.groups()
    if (clock is None and days is None) or (clock is not None and hours is None and minutes is None and seconds is None):
        return None
    total_ms = ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60_000 + int(seconds or 0) * 1000
    if fraction:
        part_ms = int(fraction.ljust(9, "0")) // 1_000_000
        total_ms += -part_ms if (seconds or "").startswith("-") else part_ms
    return -total_ms if sign == "-" else total_ms


def check_auto_offset_reset(name: str, value: object) -> None:
    """The validator of the configuration."""
    try:
        AutoOffsetResetStrategy.from_string(str(value))
    except ConfigError as error:
        raise invalid_value(name, value, str(error)) from None
