"""The history of each topic's `cleanup.policy` and `min.compaction.lag.ms`, as the metadata log has it.

A topic's life begins when it is created: one of the same name before it does not count. Its values
change with the topic's own configs and with the brokers' dynamic defaults. The defaults of a
`server.properties` are in no data dir: without an override a topic counts as deleting, and its lag
as 0. A snapshot says what was in effect when it was made, not what was before.

    pass of a cleaner    at some time within a span in which the policy has `compact`
    what it can read     records that were `min.compaction.lag.ms` old by then

So the end of each such span, less its lag, bounds the timestamps that a pass can have read. Without
a lag Kafka does not look at timestamps; then the end of a span still bounds when records were
appended, and a producer's clock can make them look younger: such a bound is not sure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kmirror.verify.cleaner_facts import ANY_TIME, POLICY_BEFORE_UNKNOWN, CleanerFacts
from kmirror.verify.replay.internal_records import AssignmentRow, TopicRow

POLICY: Final = "cleanup.policy"
LAG: Final = "min.compaction.lag.ms"
DEFAULTS: Final = {"log.cleanup.policy": POLICY, "log.cleaner.min.compaction.lag.ms": LAG}
"""The brokers' names of the two configs."""


class Span(NamedTuple):
    """A time in which a topic was compacted with one lag; `end_ms` is None if it still is."""

    end_ms: int | None
    lag_ms: int


class TopicCleaner(NamedTuple):
    """The cleaner of a topic over its life."""

    spans: tuple[Span, ...]
    begins_ms: int
    """When the history begins."""
    is_whole: bool
    """Whether that is when the topic was created."""
    alone: frozenset[int]
    """Partitions that only ever had one log."""

    @property
    def needs_time(self) -> bool:
        """Whether it matters when the logs were last seen."""
        return any(span.end_ms is None and span.lag_ms > 0 for span in self.spans)

    def facts(self, partition: int, seen_ms: int) -> CleanerFacts:
        """Returns what is known of a partition's log, which was seen at `seen_ms` at the latest."""
        is_compacted = True if self.spans else False if self.is_whole else None
        bounds = [_bound(span, seen_ms) for span in self.spans]
        if not self.is_whole:
            bounds.append(self.begins_ms)
        sure = self.is_whole and all(span.lag_ms > 0 or span.end_ms is None for span in self.spans)
        newest_ms = max(bounds, default=ANY_TIME) if is_compacted else ANY_TIME
        return CleanerFacts(is_compacted, newest_ms, sure, partition in self.alone, POLICY_BEFORE_UNKNOWN)


def _bound(span: Span, seen_ms: int) -> int:
    if span.end_ms is None and span.lag_ms <= 0:
        return ANY_TIME
    return (seen_ms if span.end_ms is None else span.end_ms) - max(span.lag_ms, 0)


@dataclass(slots=True)
class _Life:
    begins_ms: int
    is_whole: bool
    values: dict[str, str] = field(default_factory=dict)
    is_mirrored: bool = False
    spans: list[Span] = field(default_factory=list)
    current: tuple[bool, int] = (False, 0)
    """Whether it is compacted now, and its lag."""
    since_ms: int = -1


class _Lives:
    """The topics that exist, while the metadata log is gone through."""

    def __init__(self, whole_from: int) -> None:
        self._whole_from = whole_from
        self._defaults: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.topics: dict[str, _Life] = {}

    def take(self, number: int, row: TopicRow) -> None:
        if row.event == "removed":
            self.topics.pop(self.ids.pop(row.topic_id or "", ""), None)
        elif row.event in DEFAULTS:
            _set(self._defaults, DEFAULTS[row.event], row.value)
            for life in self.topics.values():
                self._settle(life, row.record_timestamp)
        elif row.name is not None:
            self._take(number, row, row.name)

    def _take(self, number: int, row: TopicRow, name: str) -> None:
        life = self.topics.setdefault(name, _Life(row.record_timestamp, number >= self._whole_from))
        if row.event == "created":
            self.ids[row.topic_id or ""] = name
        elif row.event == "mirror.name":
            life.is_mirrored |= bool(row.value)
        else:
            _set(life.values, row.event, row.value)
        self._settle(life, row.record_timestamp)

    def _settle(self, life: _Life, now_ms: int) -> None:
        """Ends the span under way if the values in effect have changed."""
        values = {**self._defaults, **life.values}
        now = "compact" in values.get(POLICY, ""), _lag(values.get(LAG, "0"))
        if now == life.current:
            return
        is_compacted, lag_ms = life.current
        if is_compacted and now_ms > life.since_ms:
            life.spans.append(Span(now_ms, lag_ms))
        life.current, life.since_ms = now, now_ms

    def spans(self, life: _Life) -> tuple[Span, ...]:
        is_compacted, lag_ms = life.current
        return (*life.spans, Span(None, lag_ms)) if is_compacted else tuple(life.spans)


def _set(values: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        values.pop(name, None)
    else:
        values[name] = value


def _lag(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def topic_cleaners(topics: Sequence[TopicRow], assignments: Sequence[AssignmentRow], whole_from: int) -> dict[str, TopicCleaner]:
    """Returns the cleaner of each topic that exists. The first `whole_from` rows of `topics` are a
    snapshot's."""
    lives = _Lives(whole_from)
    for number, row in enumerate(topics):
        lives.take(number, row)
    alone = _alone(assignments)
    return {
        name: TopicCleaner(
            lives.spans(life),
            life.begins_ms,
            life.is_whole,
            frozenset(number for id_, number in alone if lives.ids.get(id_) == name and life.is_whole and not life.is_mirrored),
        )
        for name, life in lives.topics.items()
    }


def _alone(assignments: Sequence[AssignmentRow]) -> list[tuple[str, int]]:
    """Returns (topic id, partition) of those that were on one broker, in one directory, ever since."""
    rows: dict[tuple[str, int], list[AssignmentRow]] = {}
    for row in assignments:
        rows.setdefault((row.topic_id, row.assigned_partition), []).append(row)
    return [key for key, of_one in rows.items() if len(of_one) == 1 and "," not in (of_one[0].replicas or ",")]
