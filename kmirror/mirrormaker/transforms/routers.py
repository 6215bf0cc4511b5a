r"""Transformations of a record's topic, and Filter.

    RegexRouter        regex, replacement                  `orders\.(.*)`, `$1`
    TimestampRouter    topic.format, timestamp.format      `${topic}-${timestamp}`, `yyyyMMdd`
    Filter             drops each record

A regex has to match the whole topic. What is replaced is then its first match in it (Java's
`replaceFirst`), which is not the whole topic where an earlier alternative matches less.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final

from kmirror.common.config import ConfigDef, ConfigType, Importance
from kmirror.common.java_patterns import compile_pattern
from kmirror.mirrormaker.transforms.connect_data import ConnectRecord, JavaError
from kmirror.mirrormaker.transforms.date_format import compile_format, format_date
from kmirror.mirrormaker.transforms.predicates import Values, regex

Transformation = Callable[[ConnectRecord], ConnectRecord | None]
"""None drops the record. JavaError for a record that it cannot work on."""
_HIGH = Importance.HIGH
_ILLEGAL: Final = "java.lang.IllegalArgumentException"
_NAME: Final = re.compile(r"[A-Za-z0-9]*")

REGEX_ROUTER_DEF = (
    ConfigDef()
    .define("regex", ConfigType.STRING, documentation="What a topic has to match.", validator=regex, importance=_HIGH)
    .define("replacement", ConfigType.STRING, documentation="What stands for the match.", importance=_HIGH)
)
TIMESTAMP_ROUTER_DEF = (
    ConfigDef()
    .define("topic.format", ConfigType.STRING, "${topic}-${timestamp}", "The new topic.", importance=_HIGH)
    .define("timestamp.format", ConfigType.STRING, "yyyyMMdd", "A pattern of SimpleDateFormat.", importance=_HIGH)
)
FILTER_DEF = ConfigDef()


def regex_router(values: Values) -> Transformation:
    pattern, replacement = compile_pattern(values["regex"], config="regex"), values["replacement"]
    routed = lru_cache(maxsize=1_000)(partial(_replaced_first, pattern, replacement))

    def apply(record: ConnectRecord) -> ConnectRecord:
        topic = routed(record.topic)
        return record if topic == record.topic else record.with_topic(topic)

    return apply


def _replaced_first(pattern: re.Pattern[str], replacement: str, topic: str) -> str:
    if pattern.fullmatch(topic) is None:
        return topic
    match = pattern.search(topic)
    if match is None:
        return topic
    return topic[: match.start()] + expanded(match, replacement) + topic[match.end() :]


def expanded(match: re.Match[str], replacement: str) -> str:
    r"""Java's `Matcher.appendReplacement`: `$1`, `${name}`, and `\` before what stands for itself."""
    result, position = "", 0
    while position < len(replacement):
        char = replacement[position]
        position += 1
        if char == "\\":
            if position == len(replacement):
                raise JavaError(_ILLEGAL, "character to be escaped is missing")
            result += replacement[position]
            position += 1
        elif char == "$":
            group, position = _group(match, replacement, position)
            result += match[group] or ""
        else:
            result += char
    return result


def _group(match: re.Match[str], replacement: str, position: int) -> tuple[int | str, int]:
    """What a `$` before `position` refers to, and where the text goes on."""
    if position == len(replacement):
        raise JavaError(_ILLEGAL, "Illegal group reference: group index is missing")
    if replacement[position] == "{":
        found = _NAME.match(replacement, position + 1)
        name = found[0] if found else ""
        end = position + 1 + len(name)
        if not name:
            raise JavaError(_ILLEGAL, "named capturing group is missing trailing '}'")
        if end == len(replacement) or replacement[end] != "}":
            raise JavaError(_ILLEGAL, "named capturing group is missing trailing '}'")
        if name[0].isdigit():
            raise JavaError(_ILLEGAL, f"capturing group name {{{name}}} starts with digit character")
        if name not in match.re.groupindex:
            raise JavaError(_ILLEGAL, f"No group with name {{{name}}}")
        return name, end + 1
    if not "0" <= replacement[position] <= "9":
        raise JavaError(_ILLEGAL, "Illegal group reference")
    number, position = int(replacement[position]), position + 1
    while position < len(replacement) and "0" <= replacement[position] <= "9":
        longer = number * 10 + int(replacement[position])
        if longer > match.re.groups:
            break
        number, position = longer, position + 1
    if number > match.re.groups:
        raise JavaError("java.lang.IndexOutOfBoundsException", f"No group {number}")
    return number, position


def timestamp_router(values: Values) -> Transformation:
    topic_format, pattern = values["topic.format"], values["timestamp.format"]

    def apply(record: ConnectRecord) -> ConnectRecord:
        formatted = format_date(compile_format(pattern), record.timestamp)
        topic = topic_format.replace("${topic}", record.topic).replace("${timestamp}", formatted)
        return record.with_topic(topic)

    return apply


def filter_all(_: Values) -> Transformation:
    return lambda record: None
