"""`ssl.principal.mapping.rules`: from a certificate's distinguished name to a principal's name (Kafka's `SslPrincipalMapper`).

Rules are tried in order, `RULE:pattern/replacement/[LU]` or DEFAULT (the name as it is); a pattern must match the whole name.
Patterns and replacements are Java's: `$1` is a group, `\\` escapes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kmirror.common.errors import ConfigError, KmirrorError

_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLITTER = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSER = re.compile(_RULE)
_REPLACEMENT = re.compile(r"\\(.)|\$(\d+)")


class NoMatchingRuleError(KmirrorError):
    """No rule applies to the name."""


class _Rule(NamedTuple):
    """One rule; a `pattern` of None is DEFAULT."""

    pattern: re.Pattern[str] | None
    replacement: str
    case: str

    def __str__(self) -> str:
        if self.pattern is None:
            return "DEFAULT"
        return f"RULE:{self.pattern.pattern}/{self.replacement}" + (f"/{self.case}" if self.case else "")

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        match = self.pattern.fullmatch(name)
        if match is None:
            return None
        result = expand_java_replacement(self.replacement, match)
        return {"L": str.lower, "U": str.upper}.get(self.case, str)(result)


class SslPrincipalMapper:
    """Applies the rules; ConfigError if one is malformed."""

    def __init__(self, rules: str) -> None:
        self._rules = [rule for text in _split(rules) if (rule := _parse(text)) is not None]

    def name_of(self, distinguished_name: str) -> str:
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        listed = ", ".join(str(rule) for rule in self._rules)
        raise NoMatchingRuleError(f"No rules apply to {distinguished_name}, rules [{listed}]")


def expand_java_replacement(replacement: str, match: re.Match[str]) -> str:
    """The text that Java's `Matcher.replaceAll` puts in place of one match. `$12` takes as many
    digits as make an existing group; the text stays if there is none.
    """

    def expand(part: re.Match[str]) -> str:
        if part[1] is not None:
            return part[1]
        digits = part[2]
        for end in range(len(digits), 0, -1):
            if int(digits[:end]) <= (match.re.groups or 0):
                return (match[int(digits[:end])] or "") + digits[end:]
        return part[0]

    return _REPLACEMENT.sub(expand, replacement)


def _split(rules: str) -> list[str]:
    texts = []
    position, text = 0, rules.strip()
    while position < len(text):
        match = _SPLITTER.match(text, position)
        if match is None or match.end() == position:
            raise ConfigError(f"Invalid rule: {text[position:]}")
        texts.append(match[1])
        position = match.end()
    return texts


def _parse(text: str) -> _Rule | None:
    """Parses one rule; None for an empty one, which is ignored."""
    match = _PARSER.match(text)
    if match is None:
        raise ConfigError(f"Invalid rule: {text}")
    if match.end() != len(text):
        raise ConfigError(f"Invalid rule: `{text}`, unmatched substring: `{text[match.end() :]}`")
    if match[1] is not None:
        return _Rule(None, "", "")
    if match[2] is None:
        return None
    try:
        return _Rule(re.compile(match[2]), match[3], match[4])
    except re.error as error:
        raise ConfigError(f"Invalid rule: {text}: {error}") from error
