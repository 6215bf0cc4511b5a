r"""Regular expressions in Java's syntax, as Python's.

Users of MirrorMaker and of Spark's Kafka source write Java's: flags anywhere (`(?i)`, for the rest of the group, later
alternatives too), `\Q...\E`, `\p{Alpha}`, classes inside classes and `&&`, `(?<name>...)`, `\h`.
`translate` returns what Python understands and matches the same; a construct that it does not know
is a ConfigError, never a guess.

Java's classes (`\d`, `\w`, case) are those of ASCII unless flags say otherwise, so the result is
compiled with `re.ASCII`. MirrorMaker matches names whole (`Matcher.matches`); Spark's
`subscribePattern` finds (`Matcher.find`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from kmirror.common.errors import ConfigError, KmirrorError

_LINE_ENDS: Final = r"\n\r\x85\u2028\u2029"
_LINE_BREAK: Final = rf"(?:\r\n|[\n\x0b\f{_LINE_ENDS}])"
_END: Final = rf"(?=(?:\r\n|[{_LINE_ENDS}])?\Z)"
_HORIZONTAL: Final = r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000"
_VERTICAL: Final = r"\n\x0b\f\r\x85\u2028\u2029"
_FLAGS: Final = re.compile(r"\(\?([A-Za-z]*)(?:-([A-Za-z]+))?([:)])")
_QUOTE: Final = re.compile(r"\\(?:Q(.*?)(?:\\E|\Z)|.)", re.DOTALL)
_QUANTIFIER: Final = re.compile(r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})[?+]?")
_GROUP_START: Final = re.compile(r"\((?:\?(?:[:=!>]|<[=!]|<([A-Za-z][A-Za-z0-9]*)>))?")
_PROPERTIES: Final = {
    "Lower": "a-z", "Upper": "A-Z", "ASCII": r"\x00-\x7f", "Alpha": "A-Za-z", "Digit": "0-9", "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": r" \t", "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9A-Fa-f", "Space": r" \t\n\x0b\f\r",
}  # fmt: skip
_CONTROL: Final = {"t": r"\t", "n": r"\n", "r": r"\r", "f": r"\f", "a": r"\x07", "e": r"\x1b"}
_SETS: Final = {"d": "0-9", "w": "A-Za-z0-9_", "s": r" \t\n\x0b\f\r", "h": _HORIZONTAL, "v": _VERTICAL}
_ANY: Final = r"[\s\S]"
_ASSERTIONS: Final = (r"\A", r"\Z", r"\b", r"\B")
"""Python repeats them only in a group."""


def compile_pattern_list(patterns: Sequence[str], *, config: str) -> re.Pattern[str] | None:
    """Returns one pattern for the entries, joined by `|` (`MirrorUtils.compilePatternList`), and
    None, which matches nothing, for no entry. ConfigError, naming `config`, for a bad one.
    """
    return compile_pattern("|".join(patterns), config=config) if patterns else None


def compile_pattern(pattern: str, *, config: str) -> re.Pattern[str]:
    try:
        return re.compile(translate(pattern), re.ASCII)
    except (re.error, _SyntaxError, RecursionError, OverflowError) as error:
        raise ConfigError(f"Invalid value {pattern} for configuration {config}: not a regular expression: {error}") from error


def translate(pattern: str) -> str:
    """Returns the same expression for Python's `re` with `re.ASCII`."""
    translator = _Translator(pattern)
    text = translator.alternatives(frozenset())
    if translator.position < len(translator.pattern):
        raise _SyntaxError(f"Unmatched closing ')' near index {translator.position}")
    return text


class _SyntaxError(KmirrorError):
    pass


class _Translator:
    def __init__(self, pattern: str) -> None:
        self.pattern = _unquoted(pattern)
        self.position = 0

    def alternatives(self, outer: frozenset[str]) -> str:
        """Translates up to the end of the group. Flags hold from where they stand to the group's
        end, over each `|`.
        """
        flags, done, current = outer, [], ""
        while self.position < len(self.pattern) and self.pattern[self.position] != ")":
            if self._take("|"):
                done.append(current)
                current = ""
                continue
            match = _FLAGS.match(self.pattern, self.position)
            if match is not None:
                self.position = match.end()
                inner = _with_flags(flags, match[1], match[2] or "")
                if match[3] == ")":
                    flags = inner
                    continue
                piece = f"(?:{_scoped(outer, inner, self.alternatives(inner))})"
                self._close()
            else:
                piece = _scoped(outer, flags, self._atom(flags))
            quantifier = self._quantifier()
            current += f"(?:{piece}){quantifier}" if quantifier and piece in _ASSERTIONS else piece + quantifier
        return "|".join([*done, current])

    def _quantifier(self) -> str:
        match = _QUANTIFIER.match(self.pattern, self.position)
        if match is None:
            return ""
        self.position = match.end()
        return match[0]

    def _atom(self, flags: frozenset[str]) -> str:
        start, char = self.position, self.pattern[self.position]
        if char == "(":
            return self._group(flags)
        self.position += 1
        match char:
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case ".":
                return _ANY if "s" in flags else f"[^{_LINE_ENDS}]"
            case "^":
                return r"(?m:^)" if "m" in flags else r"\A"
            case "$":
                return r"(?m:$)" if "m" in flags else _END
            case "*" | "+" | "?":
                raise _SyntaxError(f"Dangling meta character '{char}' near index {start}")
            case "{":
                raise _SyntaxError(f"Illegal repetition near index {start}")
        return re.escape(char)

    def _group(self, flags: frozenset[str]) -> str:
        match = _GROUP_START.match(self.pattern, self.position)
        assert match is not None, "an opening parenthesis begins a group"
        if match[0] == "(" and self.pattern.startswith("(?", self.position):
            raise _SyntaxError(f"Unknown inline modifier near index {self.position + 2}")
        self.position = match.end()
        inner = self.alternatives(flags)
        self._close()
        start = f"(?P<{match[1]}>" if match[1] else match[0]
        return f"{start}{inner})"

    def _close(self) -> None:
        if not self._take(")"):
            raise _SyntaxError(f"Unclosed group near index {self.position}")

    def _take(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.position):
            return False
        self.position += len(text)
        return True

    def _escape(self) -> str:
        """Translates what follows a backslash outside of a class."""
        simple = {"A": r"\A", "Z": _END, "z": r"\Z", "b": r"\b", "B": r"\B", "R": _LINE_BREAK}
        for name, text in simple.items():
            if self._take(name):
                return text
        match = re.compile(r"k<([A-Za-z][A-Za-z0-9]*)>").match(self.pattern, self.position)
        if match is not None:
            self.position = match.end()
            return f"(?P={match[1]})"
        match = re.compile(r"[1-9]").match(self.pattern, self.position)
        if match is not None:
            self.position = match.end()
            return rf"(?:\{match[0]})"
        text, is_set = self._escaped_set_or_char()
        return f"[{text}]" if is_set else text

    def _escaped_set_or_char(self) -> tuple[str, bool]:
        """Returns the inside of a class, or one character (escaped), and which of both it is."""
        if self.position >= len(self.pattern):
            raise _SyntaxError(f"Unexpected internal error near index {self.position}: \\ at the end")
        start, char = self.position, self.pattern[self.position]
        self.position += 1
        if char in _CONTROL:
            return _CONTROL[char], False
        if char.lower() in _SETS:
            return (_SETS[char] if char in _SETS else f"^{_SETS[char.lower()]}"), True
        if char in "pP":
            return ("^" if char == "P" else "") + self._property(start), True
        for layout, base in (
            (r"x\{([0-9A-Fa-f]+)\}", 16),
            (r"x([0-9A-Fa-f]{2})", 16),
            (r"u([0-9A-Fa-f]{4})", 16),
            (r"0([0-3]?[0-7]{1,2})", 8),
        ):
            match = re.compile(layout).match(self.pattern, start)
            if match is not None:
                self.position = match.end()
                return re.escape(chr(int(match[1], base))), False
        if char == "c" and self.position < len(self.pattern):
            self.position += 1
            return re.escape(chr(ord(self.pattern[self.position - 1]) ^ 64)), False
        if char.isascii() and char.isalnum():
            raise _SyntaxError(f"Illegal/unsupported escape sequence near index {start}")
        return re.escape(char), False

    def _property(self, start: int) -> str:
        match = re.compile(r"\{([^}]*)\}").match(self.pattern, self.position)
        if match is None or match[1] not in _PROPERTIES:
            raise _SyntaxError(f"Unknown character property near index {start}: there are {', '.join(_PROPERTIES)}")
        self.position = match.end()
        return _PROPERTIES[match[1]]

    def _class(self) -> str:
        """Translates a class, behind its `[`, into an expression for one character.

        `[a&&[^b]]` becomes `(?=a)(?=[^b])` and one character: Python has no intersections.
        """
        negated, simple, is_first = self._take("^"), "", True
        operands: list[str] = []
        nested: list[str] = []
        while True:
            if self.position >= len(self.pattern):
                raise _SyntaxError(f"Unclosed character class near index {len(self.pattern) - 1}")
            if self.pattern[self.position] == "]" and not is_first:
                self.position += 1
                break
            if self._take("&&"):
                if simple or nested:
                    operands.append(_union(simple, nested))
                simple, nested = "", []
                continue
            is_first = False
            if self._take("["):
                nested.append(self._class())
            else:
                text, is_negated_set = self._class_item()
                if is_negated_set:
                    nested.append(f"[{text}]")
                else:
                    simple += text
        if simple or nested:
            operands.append(_union(simple, nested))
        if not operands:
            raise _SyntaxError(f"Bad class syntax near index {self.position}")
        if len(operands) == 1:
            return f"(?:(?!{operands[0]}){_ANY})" if negated else operands[0]
        both = "".join(f"(?={operand})" for operand in operands)
        return f"(?:(?!{both}){_ANY})" if negated else f"(?:{both}{_ANY})"

    def _class_item(self) -> tuple[str, bool]:
        """Returns one character, range or set; True for a set that begins with `^`."""
        first, is_set = self._class_char()
        if is_set:
            return first, first.startswith("^")
        following = self.pattern[self.position : self.position + 2]
        if following[:1] != "-" or following[1:] in ("", "]", "["):
            return first, False
        self.position += 1
        last, is_set = self._class_char()
        if is_set:
            raise _SyntaxError(f"Illegal character range near index {self.position}")
        return f"{first}-{last}", False

    def _class_char(self) -> tuple[str, bool]:
        if self._take("\\"):
            return self._escaped_set_or_char()
        self.position += 1
        return re.escape(self.pattern[self.position - 1]), False


def _unquoted(pattern: str) -> str:
    r"""Escapes what stands between `\Q` and `\E`, one character after the other: as in Java, a quantifier behind
    it is that of its last character.
    """
    done, position = "", 0
    while (match := _QUOTE.search(pattern, position)) is not None:
        if match[1] is None:  # another escape
            done += pattern[position : match.end()]
        else:
            done += pattern[position : match.start()] + "".join(map(_literal, match[1]))
        position = match.end()
    return done + pattern[position:]


def _literal(char: str) -> str:
    """Returns an expression for just this character. A digit behind a backslash would be a group's number."""
    if char.isascii() and char.isdigit():
        return f"\\x{ord(char):02x}"
    return f"\\{char}" if char.isascii() and not char.isalpha() else char


def _union(simple: str, nested: Sequence[str]) -> str:
    parts = [*([f"[{simple}]"] if simple else []), *nested]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _with_flags(flags: frozenset[str], on: str, off: str) -> frozenset[str]:
    unknown = sorted(set(on + off) - set("ims"))
    if unknown:
        raise _SyntaxError(f"kmirror does not know the flag '{unknown[0]}'; it knows i, m and s")
    return (flags | set(on)) - set(off)


def _scoped(outer: frozenset[str], flags: frozenset[str], text: str) -> str:
    """Case is the only flag left for Python: `.`, `^` and `$` were translated with theirs."""
    if ("i" in flags) == ("i" in outer):
        return text
    return f"(?i:{text})" if "i" in flags else f"(?-i:{text})"
