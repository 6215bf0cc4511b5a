"""`sasl.jaas.config`: `login.module.Class required name="value" ... ;` (Kafka's `JaasConfig` and
`JaasContext`).

The grammar is that of Java's StreamTokenizer, with its traps: a value that begins with a digit must
be quoted, and `/` begins a comment. There must be exactly one login module. Its class decides
nothing here (the SASL mechanism does), but Kafka's list of forbidden modules applies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from kmirror.common.errors import ConfigError

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/|/[^\n]*)
      | "(?P<double>(?:\\.|[^"\\\n])*)" | '(?P<single>(?:\\.|[^'\\\n])*)'
      | (?P<word>[A-Za-z_$\u00a0-\uffff][A-Za-z0-9_$.\-\u00a0-\uffff]*)
      | (?P<number>-?[0-9.]+)
      | (?P<char>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_CONTROL_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_DISALLOWED_PROPERTY: Final = "org.apache.kafka.disallowed.login.modules"
_DISALLOWED_MODULES = (
    "com.sun.security.auth.module.JndiLoginModule",
    "com.sun.security.auth.module.LdapLoginModule",
)
_END: Final = ""


class JaasConfigError(ConfigError):
    """A parse error with Kafka's text. The text may quote a word of the config, which can be a
    piece of a password if quotes were forgotten; `without_words` hides it.
    """

    def __init__(self, text: str, word: str | None) -> None:
        super().__init__(text.format(word))
        self._text = text
        self.without_words = text.format("[hidden]")

    def hidden(self) -> JaasConfigError:
        """The same error without the word."""
        return JaasConfigError(self._text, "[hidden]")


@dataclass(frozen=True, slots=True)
class JaasConfig:
    """One login module and its options."""

    login_module: str
    control_flag: str = "required"
    options: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:  # options hold passwords
        return f"JaasConfig({self.login_module}, [hidden])"

    @classmethod
    def parse(cls, text: str) -> JaasConfig:
        """Parses exactly one login module; ConfigError with Kafka's text otherwise."""
        entries = _parse_entries(text)
        if not entries:
            raise ConfigError("Login module not specified in JAAS config")
        if len(entries) != 1:
            raise ConfigError(f"JAAS config property contains {len(entries)} login modules, should be 1 module")
        module = entries[0].login_module.strip()
        if module in _DISALLOWED_MODULES:
            raise ConfigError(f"{module} is not allowed. Update System property '{_DISALLOWED_PROPERTY}' to allow {module}")
        return entries[0]


class _Token:
    """`kind` is the character for punctuation, "word" for a token with text, "number" for one that
    Java gives no text, and "" at the end.
    """

    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str | None = None) -> None:
        self.kind = kind
        self.text = text


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind, value = match.lastgroup, match[0]
        if kind in ("double", "single"):
            yield _Token("word", _ESCAPE.sub(_unescape, match[kind]))
        elif kind == "word":
            yield _Token("word", value)
        elif kind == "number":
            yield _Token("number")
        elif kind == "char":
            yield _Token(value)
    while True:
        yield _Token(_END)


def _unescape(match: re.Match[str]) -> str:
    text = match[1]
    return chr(int(text, 8)) if text[0] in "01234567" else _ESCAPED.get(text, text)


def _parse_entries(text: str) -> list[JaasConfig]:
    tokens = _tokens(text)
    entries = []
    while (token := next(tokens)).kind != _END:
        entries.append(_parse_entry(token.text or "", tokens))
    return entries


def _parse_entry(login_module: str, tokens: Iterator[_Token]) -> JaasConfig:
    flag = next(tokens)
    if flag.kind == _END:
        raise ConfigError("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise ConfigError("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _CONTROL_FLAGS:
        raise JaasConfigError("Invalid login module control flag '{}' in JAAS config", flag.text)
    options: dict[str, str] = {}
    while (token := next(tokens)).kind not in (_END, ";"):
        key = token.text
        value = next(tokens) if next(tokens).kind == "=" else None
        if value is None or value.text is None:
            raise JaasConfigError("Value not specified for key '{}' in JAAS config", key)
        options[key or "null"] = value.text
    if token.kind != ";":
        raise ConfigError("JAAS config entry not terminated by semi-colon")
    return JaasConfig(login_module, flag.text.lower(), options)
