"""Which partitions and offsets a read wants, with the option names of Spark's Kafka source.

    subscribe           topics, separated by commas
    subscribePattern    a regular expression that must match the whole topic name. Internal topics
                        are left out, as consumers leave them out.
    assign              {"topic": [partition ...]}
    startingOffsets     earliest (default), or {"topic": {"partition": offset}} with -2 for
                        earliest. In a stream also latest (its default) and -1.
    endingOffsets       latest (default), or offsets by partition with -1 for latest. An end is the
                        offset after the last record.
    startingOffsetsByTimestamp, endingOffsetsByTimestamp
                        {"topic": {"partition": milliseconds}}
    startingTimestamp, endingTimestamp
                        milliseconds, for every partition
    startingOffsetsByTimestampStrategy
                        what to do if a partition has no record at or after its starting timestamp.
                        error (default): the query fails. latest: a batch leaves the partition out,
                        and a stream begins at its end. (If no record is at or after an ending
                        timestamp, the end is always the log's end.)
    failOnDataLoss      true (default): the query fails if a starting offset lies before the start
                        of the log or an ending offset behind its end, or if a broker deletes records after they were planned and
                        before they are read. false: it goes on with the records that are there,
                        and the executor logs a warning. For a stream see `stream_reader`.

As in Spark's Kafka source, a timestamp for all partitions overrides timestamps by partition, and
those override offsets. Options by partition must name all partitions that are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kmirror.common.errors import CorruptFileError, KmirrorError
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

    def of(self, name: TopicPartition) -> tuple[int | None, int | None]:
        """Returns (timestamp, offset) of a partition, each None if not given. KmirrorError if the
        option names partitions, but not this one."""
        if self.timestamp is not None:
            return self.timestamp, None
        for given, is_time in ((self.timestamps, True), (self.offsets, False)):
            if given is not None:
                if name not in given:
                    raise KmirrorError(
                        f"option {self.option} has no offset for {name}; if it names partitions, it must name all partitions that are read"
                    )
                return (given[name], None) if is_time else (None, given[name])
        return None, self.default

    def names_offset(self, name: TopicPartition) -> bool:
        """Whether the option has an offset of the partition, which does not depend on its log."""
        return self.timestamp is None and self.timestamps is None and (self.offsets or {}).get(name, EARLIEST) >= 0


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

    @classmethod
    def parse(cls, given: Mapping[str, str], *, for_stream: bool = False) -> Selection:
        """Parses options with lower-case names. KmirrorError, in one line, for an invalid one. Only
        a stream may begin at the latest offset, and it does so by default."""
        chosen = [name for name in ("subscribe", "subscribePattern", "assign") if name.lower() in given]
        if len(chosen) > 1:
            raise KmirrorError(f"only one of the options subscribe, subscribePattern and assign can be given, not {' and '.join(chosen)}")
        topics = given.get("subscribe")
        pattern = given.get("subscribepattern")
        assigned = _assigned(given["assign"]) if "assign" in given else None
        names = None if topics is None else frozenset(one.strip() for one in topics.split(",") if one.strip())
        if frozenset() in (names, assigned) or pattern == "":
            raise KmirrorError(f"option {chosen[0]} selects nothing: {given[chosen[0].lower()]!r}; without it all partitions are read")
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise KmirrorError(f"option subscribePattern: {pattern!r} is not a regular expression: {error}") from error
        strategy = given.get("startingoffsetsbytimestampstrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise KmirrorError(f"option startingOffsetsByTimestampStrategy is 'error' or 'latest', not '{strategy}'")
        loss = given.get("failondataloss", "true").lower()
        if loss not in ("true", "false"):
            raise KmirrorError(f"option failOnDataLoss is 'true' or 'false', not '{loss}'")
        return cls(
            topics=names,
            pattern=pattern,
            assigned=assigned,
            start=_stream_start(given) if for_stream else _bound(given, "starting", {"earliest": EARLIEST}),
            end=_bound(given, "ending", {"latest": LATEST}),
            latest_if_no_record=strategy == "latest",
            fail_on_data_loss=loss == "true",
        )

    def partitions(self, found: Sequence[FoundPartition]) -> list[FoundPartition]:
        """Returns the wanted partitions. KmirrorError for a topic or partition that was asked for
        by name and is missing."""
        names = {one.name for one in found}
        missing = [str(name) for name in sorted(self.assigned or ()) if name not in names]
        missing += sorted((self.topics or frozenset()) - {name.topic for name in names})
        if missing:
            raise KmirrorError(f"{', '.join(missing)} is not in the input; it has {_some(sorted({name.topic for name in names}))}")
        return [one for one in found if self.wants(one.name)]

    def wants(self, name: TopicPartition) -> bool:
        if self.assigned is not None:
            return name in self.assigned
        if self.pattern is not None:
            return re.fullmatch(self.pattern, name.topic) is not None and not is_internal(name.topic)
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
        if low is None or low == EARLIEST:
            low = log_start()
        elif low < log_start() and timestamp is None:
            if self.fail_on_data_loss:
                raise KmirrorError(f"{one.name} begins at offset {log_start()}, after the starting offset {low} (failOnDataLoss=true)")
            low = log_start()
        return low, self._last(one, log_start)

    def _last(self, one: FoundPartition, log_start: Callable[[], int]) -> int:
        timestamp, end = self.end.of(one.name)
        if end is not None and end != LATEST and self.fail_on_data_loss:
            self._check_end(one, end)
        if timestamp is not None:
            end = offset_for_time(one.files, one.listing, one.partition, timestamp, log_start=log_start())
        return MAX_OFFSET if end is None or end == LATEST else end - 1

    def _check_end(self, one: FoundPartition, end: int) -> None:
        """KmirrorError if a log ends before the ending offset. Damage at its end is left to who
        reads it."""
        try:
            found = log_end_offset(one.files, one.partition)
        except CorruptFileError:
            return
        if end > found:
            raise KmirrorError(f"{one.name} ends at offset {found}, before the ending offset {end} (failOnDataLoss=true)")


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
        return Bound(everywhere, timestamp=int(text))
    if by_time.lower() in given:
        return Bound(by_time, timestamps=_numbers(given[by_time.lower()], by_time))
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
    """Returns a JSON number that is whole; TypeError for 1.5, true and texts."""
    if type(number) is not int:
        raise TypeError(number)
    return number


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
