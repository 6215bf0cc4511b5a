"""The checked options of `kafka-log`; `data_source` says what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from kmirror.common.errors import KmirrorError
from kmirror.spark import selection
from kmirror.spark.columns import (
    BATCH_COLUMNS,
    CORRUPT_COLUMN,
    KAFKA_COLUMNS,
    MORE_BATCH_COLUMNS,
    MORE_RECORD_COLUMNS,
    RECORD_COLUMNS,
)
from kmirror.spark.selection import Selection
from kmirror.spark.trigger_delay import MAX_TRIGGER_DELAY_S, seconds_of
from kmirror.verify.planner import TASK_BYTES

NAME: Final = "kafka-log"
MARKED: Final = "kmirror.marked"
"""Set by our own `load()`: every query on the frame has a filter (`pushdown`)."""
_OWN: Final = ("path", "paths", "rows", "columns", "splitBytes", "mode", "kafkaCompatible", "includeHeaders", "isolation.level", "replica")
STREAM_OPTIONS: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "readUpTo")
"""A batch query accepts and ignores these, as Spark's Kafka source does."""
OPTIONS: Final = {name.lower(): name for name in (*_OWN, *STREAM_OPTIONS, *selection.OPTIONS)}
_COMMA: Final = re.compile(r",(?![^{}]*\})")
"""Between inputs: not in the braces of a glob."""
_KAFKA_PREFIX: Final = "kafka."
_OF_A_CONSUMER: Final = ("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix")
_OF_TASKS: Final = ("minPartitions", "maxRecordsPerPartition")
_IGNORED: Final = frozenset(name.lower() for name in (*_OF_A_CONSUMER, *_OF_TASKS))
"""Options of Spark's Kafka source that change no row."""
_REFUSED: Final = ("auto.offset.reset", "key.deserializer", "value.deserializer", "enable.auto.commit", "interceptor.classes")
"""Settings of a consumer that Spark's Kafka source refuses, because a row would depend on them."""
_ISOLATION: Final = "isolation.level"
_OF_A_TABLE: Final = frozenset(("provider", "owner", "location"))
"""What Spark adds to the options in CREATE TABLE."""


@dataclass(frozen=True)
class ReadOptions:
    """The checked options of one read."""

    locations: tuple[str, ...]
    rows: str
    columns: tuple[str, ...]
    split_bytes: int
    is_permissive: bool
    drops_damage: bool
    """Whether the rows that `is_permissive` makes of damage are left out."""
    is_kafka: bool
    is_committed: bool
    replica: str
    selection: Selection
    is_marked: bool
    max_offsets: int | None = None
    max_bytes: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = MAX_TRIGGER_DELAY_S
    to_log_end: bool = False

    @property
    def has_corrupt_column(self) -> bool:
        return self.is_permissive and not self.drops_damage

    @property
    def offset_column(self) -> str:
        return "offset" if self.rows == "record" else "base_offset"

    @property
    def _default_columns(self) -> tuple[str, ...]:
        return KAFKA_COLUMNS if self.is_kafka else RECORD_COLUMNS if self.rows == "record" else BATCH_COLUMNS

    @property
    def _known_columns(self) -> tuple[str, ...]:
        if self.is_kafka:
            more: tuple[str, ...] = ("headers",)
        else:
            more = MORE_RECORD_COLUMNS if self.rows == "record" else MORE_BATCH_COLUMNS
        return (*self._default_columns, *more, *([CORRUPT_COLUMN] if self.has_corrupt_column else []))

    @classmethod
    def parse(cls, options: Mapping[str, str], *, for_stream: bool = False) -> ReadOptions:
        """KmirrorError with one line for what is unknown, missing or not allowed. `for_stream` also
        accepts what only a stream may have."""
        given = {key.lower(): value for key, value in options.items()}
        is_marked = given.pop(MARKED, None) is not None
        is_kafka = _is_true(given, "kafkaCompatible")
        if is_kafka:
            given = _without_connection(given)
        if set(given) >= _OF_A_TABLE:
            raise KmirrorError(
                f"{NAME}: Spark's catalog does not pass a table's options on to a source in Python, so the table could not be read; "
                f"use CREATE TEMPORARY VIEW name USING `{NAME}` OPTIONS (path '/a/log/dir')"
            )
        unknown = sorted(set(given) - set(OPTIONS))
        if unknown:
            raise KmirrorError(f"{NAME}: there is no option {', '.join(unknown)}; the options are {', '.join(OPTIONS.values())}")
        rows = _one_of(given, "rows", "record", "batch")
        if is_kafka and rows == "batch":
            raise KmirrorError(f"{NAME}: kafkaCompatible=true can only be used with rows of records, not with rows=batch")
        split = given.get("splitbytes", str(TASK_BYTES))
        if not split.isdecimal() or int(split) < 1:
            raise KmirrorError(f"{NAME}: option splitBytes is a number of bytes, not '{split}'")
        mode = _one_of(given, "mode", "FAILFAST", "PERMISSIVE", "DROPMALFORMED")
        made = cls(
            locations=_locations(given),
            rows=rows,
            columns=(),
            split_bytes=int(split),
            is_permissive=mode != "FAILFAST",
            drops_damage=mode == "DROPMALFORMED",
            is_kafka=is_kafka,
            is_committed=_one_of(given, _ISOLATION, "read_uncommitted", "read_committed") == "read_committed",
            replica=_one_of(given, "replica", "longest", "first"),
            selection=_selection(given, for_stream=for_stream, is_kafka=is_kafka),
            is_marked=is_marked,
            **_limits(given),
            to_log_end=_one_of(given, "readUpTo", "highWatermark", "logEndOffset") == "logEndOffset",
        )
        with_headers = is_kafka and _is_true(given, "includeHeaders")
        names = [*made._default_columns, *(["headers"] if with_headers else [])]
        if "columns" in given:
            names = [name.strip() for name in given["columns"].split(",")]
        return made.with_columns([*names, CORRUPT_COLUMN] if made.has_corrupt_column else names)

    def with_columns(self, names: Sequence[str]) -> ReadOptions:
        """KmirrorError for an unknown column."""
        known = self._known_columns
        wrong = [name for name in names if name not in known]
        if wrong:
            raise KmirrorError(
                f"{NAME}: a {self.rows} has no column {', '.join(wrong) or 'without a name'}; the columns are {', '.join(known)}"
            )
        return replace(self, columns=tuple(dict.fromkeys(names)))


def _locations(given: Mapping[str, str]) -> tuple[str, ...]:
    """Returns `path`, then `paths`: JSON where Spark passes on `load([...])`, else as a user writes
    it."""
    found = [given["path"]] if given.get("path") else []
    several = given.get("paths", "").strip()
    found += _json_list(several) or [one.strip() for one in _COMMA.split(several) if one.strip()]
    if not found:
        raise KmirrorError(f'{NAME}: no path; use spark.read.format("{NAME}").load("/a/log/dir")')
    return tuple(found)


def _json_list(text: str) -> list[str]:
    """Returns the texts of a JSON array, nothing for other text: a glob may begin with `[` too."""
    try:
        given = json.loads(text)
    except ValueError:
        return []
    return [str(one) for one in given] if isinstance(given, list) else []


def _without_connection(given: dict[str, str]) -> dict[str, str]:
    """Drops the consumer's `kafka.` options, since there is no consumer, and others that change no
    row. kafka.isolation.level says what is read, so it counts."""
    for name in _REFUSED:
        if _KAFKA_PREFIX + name in given:
            raise KmirrorError(f"{NAME}: option {_KAFKA_PREFIX}{name} is not supported, as in Spark's Kafka source")
    for name in _OF_TASKS:
        _count(given, name)
    kept = {key: value for key, value in given.items() if not key.startswith(_KAFKA_PREFIX) and key not in _IGNORED}
    if _KAFKA_PREFIX + _ISOLATION in given:
        kept.setdefault(_ISOLATION, given[_KAFKA_PREFIX + _ISOLATION])
    return kept


def _selection(given: Mapping[str, str], *, for_stream: bool, is_kafka: bool) -> Selection:
    try:
        return Selection.parse(given, for_stream=for_stream, no_internal=is_kafka)
    except KmirrorError as error:
        raise KmirrorError(f"{NAME}: {error}") from error


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise KmirrorError(f"{NAME}: option {name} is a number from 1 on, not '{text}'")
    return int(text)


def _limits(given: Mapping[str, str]) -> dict[str, Any]:
    """Returns what a micro-batch may and has to have."""
    least, most = _count(given, "minOffsetsPerTrigger"), _count(given, "maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise KmirrorError(f"{NAME}: option minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})")
    delay_s = seconds_of(given["maxtriggerdelay"]) if "maxtriggerdelay" in given else MAX_TRIGGER_DELAY_S
    if delay_s is None:
        raise KmirrorError(f"{NAME}: option maxTriggerDelay is a time like 15m or 30s, not '{given['maxtriggerdelay']}'")
    return {"max_offsets": most, "max_bytes": _count(given, "maxBytesPerTrigger"), "min_offsets": least, "max_delay_s": delay_s}


def _is_true(given: Mapping[str, str], name: str) -> bool:
    return _one_of(given, name, "false", "true") == "true"


def _one_of(given: Mapping[str, str], name: str, *allowed: str) -> str:
    """Returns an option's value, compared without case; the first of `allowed` is the default."""
    value = given.get(name.lower(), allowed[0])
    for one in allowed:
        if value.lower() == one.lower():
            return one
    raise KmirrorError(f"{NAME}: option {name} is {' or '.join(repr(one) for one in allowed)}, not '{value}'")
