"""Headers that a worker's file adds to answers: `response.http.headers.config`.

    set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", setDate Expires: 0

A rule is `action name: value`, quoted if it has a comma. `setDate` and `addDate` have milliseconds
from now for a value.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from email.utils import formatdate
from typing import Final

from kmirror.common.errors import ConfigError

ACTIONS: Final = ("set", "add", "setDate", "addDate")


@dataclass(frozen=True)
class HeaderRule:
    action: str
    name: str
    value: str

    def applied(self, headers: list[tuple[str, str]], now_ms: int) -> list[tuple[str, str]]:
        """Returns an answer's headers with this rule's."""
        value = formatdate((now_ms + int(self.value)) / 1000, usegmt=True) if self.action.endswith("date") else self.value
        if self.action.startswith("set"):
            headers = [header for header in headers if header[0].lower() != self.name.lower()]
        return [*headers, (self.name, value)]


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """ConfigError, in Connect's words, for a rule that is none."""
    if not text.strip():
        return ()
    (rules,) = csv.reader([text], skipinitialspace=True)
    return tuple(_rule(rule) for rule in rules)


def _rule(text: str) -> HeaderRule:
    action, _, header = text.strip().partition(" ")
    if not header.strip():
        raise ConfigError(f"Invalid format of header config '{text}'. Expected: '[action] [header name]:[header value]'")
    if action.lower() not in (known.lower() for known in ACTIONS):
        raise ConfigError(f"Invalid header config action: '{action}'. Expected one of [{', '.join(ACTIONS)}]")
    parts = header.strip().split(":")
    if len(parts) != 2 or not parts[1]:
        raise ConfigError(f"Invalid format of header name and header value pair '{header}'. Expected: '[header name]:[header value]'")
    name, value = parts[0].strip(), parts[1].strip()
    if not name or re.search(r"\s", name):
        raise ConfigError(f"Invalid header name '{name}'. The '[header name]' cannot contain whitespace")
    if action.lower().endswith("date") and not re.fullmatch(r"[+-]?[0-9]+", value):
        raise ConfigError(f"Invalid header config '{text}': the value of {action} is a number of milliseconds from now")
    return HeaderRule(action.lower(), name, value)
