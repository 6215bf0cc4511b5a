"""What lasts is told when it begins, when it changes and when it ends; in between the log is silent.

A retry loop meets the same obstacle in every round, and a log that repeats it hides everything
else. The owner of the loop says in each round what is the matter (`tell`) or that nothing is
(`end`); this class decides what becomes a line:

    (nothing) ── tell ──> told: one line at the level of the condition
    told ── tell, same text ──> silent
    told ── tell, a text that it has not had yet ──> one line
    told ── end ──> one line at INFO, with how long it lasted

With `grace_ms` a condition that is over before the time is up has no line at all: what heals by
itself in a moment (a broker that starts beside its controller) worries nobody.

A condition that changes between texts that it has had already (two brokers of a source that refuse
in turn) stays silent, because its log would be endless again. TEXTS_KEPT bounds the memory of that.
Many conditions with one text share a line that names NAMES_TOLD of them: those told in one call
(`replace`), and those of `SharedConditions`, whatever the moment at which each is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

TEXTS_KEPT = 16
MOST_KEPT = 100_000
"""How many conditions one owner keeps: peers choose some of the keys (names of topics)."""
NAMES_TOLD = 5


class _Condition:
    """One condition: since when it lasts, what was said of it, and whether anything was."""

    __slots__ = ("is_told", "since_ms", "subject", "text", "texts")

    def __init__(self, subject: str, since_ms: int) -> None:
        self.subject = subject
        self.since_ms = since_ms
        self.text = ""
        self.texts: list[str] = []
        self.is_told = False


class LastingConditions:
    """Owns the conditions of one owner, by key, and writes their lines to `log`.

    `now_ms` is a monotonic clock.
    """

    def __init__(self, log: logging.Logger, now_ms: Callable[[], int], *, level: int = logging.WARNING, grace_ms: int = 0) -> None:
        self._log = log
        self._now_ms = now_ms
        self._level = level
        self._grace_ms = grace_ms
        self._conditions: dict[Hashable, _Condition] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._conditions

    def __len__(self) -> int:
        return len(self._conditions)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(list(self._conditions))

    def text(self, key: Hashable) -> str | None:
        """What is the matter with `key` now; None if nothing is."""
        condition = self._conditions.get(key)
        return None if condition is None else condition.text

    def texts(self) -> list[str]:
        """What is the matter now, each with its subject, in the order in which it began."""
        return [_joined(condition.subject, condition.text) for condition in self._conditions.values()]

    def since_ms(self, key: Hashable) -> int | None:
        """When the condition began, on the clock of this object; None if there is none."""
        condition = self._conditions.get(key)
        return None if condition is None else condition.since_ms

    def tell(self, key: Hashable, text: str, *, subject: str = "") -> None:
        """Says that a condition lasts; `subject` names what it is a condition of, in every line."""
        if self._is_new(key, text, subject):
            self._log.log(self._level, "%s", _joined(subject, text))

    def end(self, key: Hashable) -> None:
        """Says that nothing is the matter with `key` any more."""
        condition = self._conditions.pop(key, None)
        if condition is not None and condition.is_told:
            self._log.info("%s", _joined(condition.subject, self._ended(condition)))

    def forget(self, key: Hashable) -> None:
        """Drops a condition without a line: what it was a condition of is gone."""
        self._conditions.pop(key, None)

    def replace(self, keys: Iterable[Hashable], texts: Mapping[Any, str], *, subject: str = "") -> None:
        """Says of all `keys` at once what is the matter: those without a text have nothing.

        `str(key)` stands in the line. Keys that share a text share a line.
        """
        begun: dict[str, list[str]] = {}
        for key, text in texts.items():
            if self._is_new(key, text, subject):
                begun.setdefault(text, []).append(str(key))
        for text, names in begun.items():
            self._log.log(self._level, "%s", _joined(subject, f"{listed(names)}: {text}"))
        self._end_all([key for key in keys if key in self._conditions and key not in texts], subject)

    def _end_all(self, keys: list[Hashable], subject: str) -> None:
        over = [(str(key), self._conditions.pop(key)) for key in keys]
        ended: dict[str, list[str]] = {}
        for name, condition in over:
            if condition.is_told:
                ended.setdefault(condition.text, []).append(name)
        for text, names in ended.items():
            self._log.info("%s", _joined(subject, f"over for {listed(names)}: {text}"))

    def _is_new(self, key: Hashable, text: str, subject: str) -> bool:
        """Notes the condition; returns whether it has to be told now."""
        condition = self._conditions.get(key)
        if condition is None:
            condition = self._conditions[key] = _Condition(subject, self._now_ms())
            if len(self._conditions) > MOST_KEPT:
                del self._conditions[next(iter(self._conditions))]
        condition.text = text
        if self._now_ms() - condition.since_ms < self._grace_ms or text in condition.texts:
            return False
        condition.texts = [*condition.texts[1 - TEXTS_KEPT :], text]
        condition.is_told = True
        return True

    def _ended(self, condition: _Condition) -> str:
        return f"over after {seconds_text(self._now_ms() - condition.since_ms)}: {condition.text}"


class _Member:
    """One of many: what is the matter with it since when, and whether a line names it."""

    __slots__ = ("group", "is_told", "since_ms")

    def __init__(self, group: tuple[str, str], since_ms: int) -> None:
        self.group = group
        self.since_ms = since_ms
        self.is_told = False


class SharedConditions:
    """The conditions of many of a kind, as partitions are: those with one text share their lines.

    A line is due when one of them has lasted for `grace_ms`. It names all that have lasted for half of
    that, so that one incident is one line, however many it concerns. When the last of them is over,
    that is one line more.
    """

    def __init__(self, log: logging.Logger, now_ms: Callable[[], int], *, grace_ms: int, level: int = logging.WARNING) -> None:
        self._log = log
        self._now_ms = now_ms
        self._grace_ms = grace_ms
        self._level = level
        self._members: dict[Hashable, _Member] = {}
        self._told: dict[tuple[str, str], int] = {}
        """By subject and text: how many that a line has named are still so."""

    def __len__(self) -> int:
        return len(self._members)

    def tell(self, key: Hashable, text: str, *, subject: str) -> None:
        """Says what is the matter with `key`; `subject` stands before the names."""
        now_ms = self._now_ms()
        member = self._members.get(key)
        if member is None or member.group != (subject, text):
            self._leave(key, is_over=False)
            member = self._members[key] = _Member((subject, text), now_ms)
        if not member.is_told and now_ms - member.since_ms >= self._grace_ms:
            self._tell_group(member.group, now_ms)

    def end(self, key: Hashable) -> None:
        """Says that nothing is the matter with `key` any more."""
        if self._members:
            self._leave(key, is_over=True)

    def forget(self, key: Hashable) -> None:
        """Drops a condition without a line."""
        self._leave(key, is_over=False)

    def _tell_group(self, group: tuple[str, str], now_ms: int) -> None:
        names = []
        for key, member in self._members.items():
            if member.group == group and not member.is_told and now_ms - member.since_ms >= self._grace_ms // 2:
                member.is_told = True
                names.append(str(key))
        self._told[group] = self._told.get(group, 0) + len(names)
        subject, text = group
        self._log.log(self._level, "%s", _joined(subject, f"{listed(names)}: {text}"))

    def _leave(self, key: Hashable, *, is_over: bool) -> None:
        member = self._members.pop(key, None)
        if member is None or not member.is_told:
            return
        self._told[member.group] -= 1
        if self._told[member.group] == 0:
            del self._told[member.group]
            if is_over:
                subject, text = member.group
                self._log.info("%s", _joined(subject, f"over after {seconds_text(self._now_ms() - member.since_ms)}: {text}"))


def listed(names: list[str]) -> str:
    """`a, b and c`, and no more than NAMES_TOLD of them."""
    if len(names) <= NAMES_TOLD:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_TOLD])} and {len(names) - NAMES_TOLD} more"


def seconds_text(milliseconds: int) -> str:
    """A duration as people read it: `0.4 s`, `12 s`, `3 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds / 1_000:.1f} s"
    return f"{milliseconds // 1_000} s" if milliseconds < 120_000 else f"{milliseconds // 60_000} min"


def _joined(subject: str, text: str) -> str:
    return f"{subject}: {text}" if subject else text
