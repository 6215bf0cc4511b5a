"""Which partitions and offsets a read wants, with the option names of Spark's Kafka source.

    subscribe           topics, separated by commas
    subscribePattern    a regular expression of Java that is found anywhere in the topic's name.
                        Internal topics are left out, as consumers leave them out; with
                        kafkaCompatible=true under subscribe and assign, too.
    assign              {"topic": [partition ...]}
    startingOffsets     earliest (default), or {"topic": {"partition": offset}} with -2 for
                        earliest. In a stream also latest (its default) and -1.
    endingOffsets       latest (default), or offsets by partition with -1 for latest. An end is the
                        offset after the last record.
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
                        {"topic": {"partition": milliseconds}}
    startingTimestamp, endingTimestamp
                        milliseconds, for every partition. As to a broker, -1 is latest and -2 is
                        earliest.
    startingOffsetsByTimestampStrategy
                        what to do if a partition has no record at or after its starting timestamp.
                        error (default): the query fails. latest: a batch leaves the partition out,
                        and a stream begins at its end. (If no record is at or after an ending
                        timestamp, the end is always the log's end.)
    failOnDataLoss      true (default): the query fails if a starting offset lies before the start
                        of the log or behind its end, an ending offset behind its end, or if a
                        broker deletes records after they were planned and before they are read.
                        false: it goes on with the records that are there, and a warning is logged.
                        For a stream see `stream_reader`.

As in Spark's Kafka source, a timestamp for all partitions overrides timestamps by partition, and
those override offsets. Options by partition must name all partitions that are read, and no others;
two of them name the same ones. A start behind its end is refused. docs/SPARK.md has a table of all
options, beside what Spark's source does with each.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Final

from kmirror.common.errors import ConfigError, CorruptFileError, KmirrorError
from kmirror.common.java_patterns import compile_pattern
from kmirror.common.topic_partition import TopicPartition
from kmirror.spark.inputs import FoundPartition
from kmirror.verify.data_dir_logs import is_internal
from kmirror.verify.offset_lookup import log_end_offset, offset_for_time
from kmirror.verify.planner import MAX_OFFSET

OPTIONS: Final = (
    *("subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *("startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy", "failOnDataLoss"),
)
EARLIEST: Final = -2
LATEST: Final = -1
_MOST: Final = (1 << 63) - 1
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bound:
    """One end of the offsets: a timestamp for all partitions, or timestamps or offsets by
    partition; without any of these `default`, which is the log's own end."""

    option: str
    timestamp: int | None = None
    timestamps: Mapping[TopicPartition, int] | None = None
    offsets: Mapping[TopicPartition, int] | None = None
    default: int | None = None
    """EARLIEST or LATEST."""

    @property
    def named(self) -> Mapping[TopicPartition, int] | None:
        """The numbers by partition, if these are what counts."""
        return None if self.timestamp is not None else self.timestamps if self.timestamps is not None else self.offsets

    def of(self, name: TopicPartition) -> tuple[int | None, int | None]:
        """Returns (timestamp, offset) of a partition, each None if not given. KmirrorError if the
        option names partitions, but not this one."""
        if self.timestamp is not None:
            return _of_time(self.timestamp)
        for given, is_time in ((self.timestamps, True), (self.offsets, False)):
            if given is not None:
                if name not in given:
                    raise KmirrorError(
                        f"option {self.option} has no offset for {name}; if it names partitions, it must name all partitions that are read"
                    )
                return _of_time(given[name]) if is_time else (None, given[name])
        return None, self.default

    def named_offset(self, name: TopicPartition) -> int | None:
        """Returns the offset that the option has of the partition; None if its log decides."""
        found = (self.offsets or {}).get(name, EARLIEST) if self.timestamp is None and self.timestamps is None else EARLIEST
        return None if found < 0 else found


def _of_time(timestamp: int) -> tuple[int | None, int | None]:
    """Returns (timestamp, offset), one of them None: to a broker -1 and -2 are no times."""
    return (None, timestamp) if timestamp in (LATEST, EARLIEST) else (timestamp, None)


@dataclass(frozen=True)
class Selection:
    """The checked options."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    assigned: frozenset[TopicPartition] | None = None
    start: Bound = Bound("startingOffsets")
    end: Bound = Bound("endingOffsets")
    latest_if_no_record: bool = False
    fail_on_data_loss: bool = True
    no_internal: bool = False
    """Whether internal topics are left out even if they are asked for by name."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, for_stream: bool = False, no_internal: bool = False) -> Selection:
        """Parses options with lower-case names. KmirrorError, in one line, for an invalid one. Only
        a stream may begin at the latest offset, and it does so by default."""
        chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
        if len(chosen) > 1:
            raise KmirrorError(f"only one of the options subscribe, subscribePattern and assign can be given, not {' and '.join(chosen)}")
        topics = given.get("subscribe")
        pattern = given.get("subscribepattern", "").strip() if "subscribepattern" in given else None
        assigned = _assigned(given["assign"]) if "assign" in given else None
        names = None if topics is None else frozenset(one.strip() for one in topics.split(",") if one.strip())
        if frozenset() in (names, assigned) or pattern == "":
            raise KmirrorError(f"option {chosen[0]} selects nothing: {given[chosen[0].lower()]!r}; without it all partitions are read")
        if pattern is not None:
            _compiled(pattern)
        strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise KmirrorError(f"option startingOffsetsByTimestampStrategy is 'error' or 'latest', not '{strategy}'")
        loss = given.get("failondataloss", "true").lower()
        if loss not in ("true", "false"):
            raise KmirrorError(f"option failOnDataLoss is 'true' or 'false', not '{loss}'")
        made = cls(
            topics=names,
            pattern=pattern,
            assigned=assigned,
            start=_stream_start(given) if for_stream else _bound(given, "starting", {"earliest": EARLIEST}),
            end=_bound(given, "ending", {"latest": LATEST}),
            latest_if_no_record=strategy == "latest",
            fail_on_data_loss=loss == "true",
            no_internal=no_internal,
        )
        made._check_bounds()
        return made

    def _check_bounds(self) -> None:
        """KmirrorError for two bounds by partition of one kind that do not go together."""
        start, end = self.start.named, self.end.named
        if start is None or end is None or (self.start.timestamps is None) != (self.end.timestamps is None):
            return
        if start.keys() != end.keys():
            alone = _some([str(name) for name in sorted(start.keys() ^ end.keys())])
            raise KmirrorError(
                f"options {self.start.option} and {self.end.option} must name the same partitions; one of them alone has {alone}"
            )
        for name in sorted(start):
            if start[name] > end[name] and start[name] >= 0 and end[name] >= 0:
                raise KmirrorError(
                    f"{name} would begin at {start[name]} ({self.start.option}), behind its end {end[name]} ({self.end.option})"
                )

    def partitions(self, found: Sequence[FoundPartition]) -> list[FoundPartition]:
        """Returns the wanted partitions. KmirrorError for a topic or partition that was asked for
        by name and is missing."""
        names = {one.name for one in found}
        missing = [str(name) for name in sorted(self.assigned or ()) if name not in names]
        missing += sorted((self.topics or frozenset()) - {name.topic for name in names})
        if missing:
            raise KmirrorError(f"{', '.join(missing)} is not in the input; it has {_some(sorted({name.topic for name in names}))}")
        self._warn_of_internal()
        chosen = [one for one in found if self.wants(one.name)]
        self._check_named({one.name for one in chosen})
        return chosen

    def _warn_of_internal(self) -> None:
        asked = (self.topics or frozenset()) | {name.topic for name in self.assigned or ()}
        left_out = sorted(filter(is_internal, asked)) if self.no_internal else []
        if left_out:
            _LOG.warning("kafka-log: internal topics are not read, as by Spark's Kafka source: %s", ", ".join(left_out))

    def _check_named(self, chosen: Set[TopicPartition]) -> None:
        """KmirrorError for a number of a partition that is not read."""
        for bound in (self.start, self.end):
            others = sorted((bound.named or {}).keys() - chosen)
            if others:
                raise KmirrorError(f"option {bound.option} names {_some([str(name) for name in others])}, which is not read")

    def wants(self, name: TopicPartition) -> bool:
        if self.no_internal and (self.topics is not None or self.assigned is not None) and is_internal(name.topic):
            return False
        if self.assigned is not None:
            return name in self.assigned
        if self.pattern is not None:
            return _compiled(self.pattern).search(name.topic) is not None and not is_internal(name.topic)
        return self.topics is None or name.topic in self.topics

    def offsets(self, one: FoundPartition, log_start: Callable[[], int]) -> tuple[int, int]:
        """Returns the (first, last) offset wanted of a partition."""
        timestamp, low = self.start.of(one.name)
        if timestamp is not None:
            at = offset_for_time(one.files, one.listing, one.partition, timestamp, log_start=log_start())
            if at is None and not self.latest_if_no_record:
                raise KmirrorError(
                    f"{one.name} has no record at or after {timestamp}; with startingOffsetsByTimestampStrategy=latest it would be left out"
                )
            low = MAX_OFFSET if at is None else at
        if low == LATEST:
            found = _log_end(one)
            low = MAX_OFFSET if found is None else found
        if low is None or low == EARLIEST:
            low = log_start()
        elif low < log_start() and timestamp is None:
            self._lost(f"{one.name} begins at offset {log_start()}, after the starting offset {low}")
            low = log_start()
        last = self._last(one, log_start)
        self._check_start(one, low, last)
        return low, last

    def _lost(self, text: str) -> None:
        if self.fail_on_data_loss:
            raise KmirrorError(f"{text} (failOnDataLoss=true)")
        _LOG.warning("kafka-log: data loss: %s", text)

    def _check_start(self, one: FoundPartition, low: int, last: int) -> None:
        """KmirrorError for a start behind the end. Without an ending offset that is the log's."""
        if low == MAX_OFFSET:  # no record is so young: the partition is left out
            return
        if low > last + 1:
            self._lost(f"{one.name} would begin at offset {low}, behind its ending offset {last + 1}")
        elif last == MAX_OFFSET and self.start.named_offset(one.name) is not None:
            found = _log_end(one)
            if found is not None and low > found:
                self._lost(f"{one.name} ends at offset {found}, before the starting offset {low}")

    def _last(self, one: FoundPartition, log_start: Callable[[], int]) -> int:
        timestamp, end = self.end.of(one.name)
        if end is not None and end != LATEST:
            found = _log_end(one)
            if found is not None and end > found:
                self._lost(f"{one.name} ends at offset {found}, before the ending offset {end}")
        if end == EARLIEST:
            end = log_start()
        if timestamp is not None:
            end = offset_for_time(one.files, one.listing, one.partition, timestamp, log_start=log_start())
        return MAX_OFFSET if end is None or end == LATEST else end - 1


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return compile_pattern(pattern, config="subscribePattern")
    except ConfigError as error:
        reason = str(error).partition("not a regular expression: ")[2]
        raise KmirrorError(f"option subscribePattern: {pattern!r} is not a regular expression of Java: {reason}") from error


def _log_end(one: FoundPartition) -> int | None:
    """Returns where a log ends. None if its end is damaged, which is left to who reads it."""
    try:
        return log_end_offset(one.files, one.partition)
    except CorruptFileError:
        return None


def _stream_start(given: Mapping[str, str]) -> Bound:
    with_default = {**given, "startingoffsets": given.get("startingoffsets", "latest")}
    return _bound(with_default, "starting", {"latest": LATEST, "earliest": EARLIEST})


def _bound(given: Mapping[str, str], kind: str, words: Mapping[str, int]) -> Bound:
    """`words` are the words that the option may have, the default first, and the numbers that mean
    the same."""
    option, by_time, everywhere = f"{kind}Offsets", f"{kind}OffsetsByTimestamp", f"{kind}Timestamp"
    if everywhere.lower() in given:
        text = given[everywhere.lower()].strip()
        if not re.fullmatch(r"-?[0-9]+", text):
            raise KmirrorError(f"option {everywhere} must be a time in ms since 1970, not '{text}'")
        if int(text) < EARLIEST:
            raise KmirrorError(f"option {everywhere}: {text} is no time; below 0 there are -1 (latest) and -2 (earliest)")
        if int(text) > _MOST:
            raise KmirrorError(f"option {everywhere}: {text} does not fit 64 bits")
        return Bound(everywhere, timestamp=int(text))
    if by_time.lower() in given:
        times = _numbers(given[by_time.lower()], by_time)
        for name, time in times.items():
            if time < EARLIEST:
                raise KmirrorError(f"option {by_time}: {time} of {name} is no time; below 0 there are -1 (latest) and -2 (earliest)")
        return Bound(by_time, timestamps=times)
    default = next(iter(words))
    text = given.get(option.lower(), default).strip()
    if text.lower() in words:
        return Bound(option, default=words[text.lower()])
    if text.lower() in ("earliest", "latest"):
        raise KmirrorError(f"option {option} cannot be '{text}' in a batch query; '{default}' or offsets by partition can")
    offsets = _numbers(text, option)
    for name, offset in offsets.items():
        if offset < 0 and offset not in words.values():
            allowed = " and ".join(f"{number} ({word})" for word, number in words.items())
            raise KmirrorError(f"option {option}: offset {offset} of {name}; only {allowed} can be below 0 here")
    return Bound(option, offsets=offsets)


def _numbers(text: str, option: str) -> dict[TopicPartition, int]:
    try:
        given = json.loads(text)
        return {TopicPartition(topic, int(partition)): _whole(number) for topic, by in given.items() for partition, number in by.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise KmirrorError(f'option {option} is like {{"topic":{{"0":23,"1":-2}}}}, not {text}') from error


def _assigned(text: str) -> frozenset[TopicPartition]:
    try:
        return frozenset(TopicPartition(topic, _whole(number)) for topic, numbers in json.loads(text).items() for number in numbers)
    except (ValueError, AttributeError, TypeError) as error:
        raise KmirrorError(f'option assign is like {{"topic":[0,1]}}, not {text}') from error


def _whole(number: object) -> int:
    """Returns a JSON number that is whole and fits 64 bits; TypeError for 1.5, true and texts."""
    if type(number) is not int or abs(number) > _MOST:
        raise TypeError(number)
    return number


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
