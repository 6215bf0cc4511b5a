"""Subscriptions by pattern: which topics a regular expression in RE2's syntax matches (Kafka's
`TopicRegexResolver`).

RE2 is used because patterns come from clients: it matches in time linear in the topic's name,
whatever the pattern. A topic is selected if the pattern matches its whole name and the requesting
member may describe it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct

from kmirror.common.errors import ApiException, Errors

_KAFKAS_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "invalid named capture group": "invalid named capture",
}
"""RE2's messages, with the messages of Kafka's library for the same mistakes."""

DescribableTopics = Callable[[Iterable[str]], Iterable[str]]
"""Returns those of the given topics that a client may describe."""


class ResolvedRegularExpression(Struct, frozen=True):
    """The topics that a pattern matches (sorted), at an offset of the metadata log and a time in
    ms."""

    topics: tuple[str, ...] = ()
    version: int = -1
    timestamp_ms: int = -1


def throw_if_regular_expression_is_invalid(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION, with the mistake, for an invalid pattern."""
    reason = _reason_of_refusal(pattern)
    if reason is not None:
        raise ApiException(
            Errors.INVALID_REGULAR_EXPRESSION, f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {reason}."
        )


def resolve_regular_expressions(
    patterns: Iterable[str], topics: Iterable[str], describable: DescribableTopics, *, version: int, now_ms: int
) -> dict[str, ResolvedRegularExpression]:
    """Returns the topics of each pattern. One that does not compile (another program stored it)
    matches none."""
    names = list(topics)
    matched = {pattern: [name for name in names if _matches(pattern, name)] for pattern in patterns}
    allowed = set(describable(sorted({name for found in matched.values() for name in found})))
    return {
        pattern: ResolvedRegularExpression(tuple(sorted(allowed.intersection(found))), version, now_ms)
        for pattern, found in matched.items()
    }


def _matches(pattern: str, name: str) -> bool:
    return _reason_of_refusal(pattern) is None and _compile(pattern).fullmatch(name) is not None


@functools.lru_cache(maxsize=256)
def _reason_of_refusal(pattern: str) -> str | None:
    import re2

    try:
        _compile(pattern)
    except re2.error as error:
        reason: str = error.args[0].decode("utf-8", "replace").partition(":")[0]
        return _KAFKAS_WORDS.get(reason, reason)
    return None


@functools.lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)
