"""The checked options and columns for writing `kafka-log`; `log_writer` says what they mean."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from kmirror.common.errors import ConfigError, KmirrorError
from kmirror.common.uuid import Uuid
from kmirror.record.compression import CompressionType
from kmirror.spark.files import file_system_for
from kmirror.spark.options import NAME
from kmirror.spark.record_bytes import Codec
from kmirror.storage.log_config import LONG_MAX, LogConfig

IGNORE: Final = "ignore"
SAVE_MODE: Final = "kmirror.savemode"
"""Set by our own `save()` (`save_modes`): the mode `error` (also as `errorifexists` or `default`)
or `ignore`, which Spark does not pass on to a Python source.
"""
DEFAULT_BATCH_BYTES: Final = 256 << 10
OPTIONS: Final = (
    *("path", "topic", "numPartitions", "compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    *("batch.size", "segment.bytes", "segment.ms", "index.interval.bytes", "message.timestamp.type", "leaderEpoch", "topicId"),
    *("txnAppId", "txnVersion"),
)
_HEADERS: Final = ("array<struct<key:string,value:binary>>",)
_BYTES: Final = ("binary", "string")
_NUMBERS: Final = ("int", "bigint", "smallint", "tinyint")
WRITTEN: Final[dict[str, tuple[str, ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": ("string",),
    "partition": _NUMBERS,
    "headers": _HEADERS,
    "timestamp": ("timestamp", "bigint"),
    "timestamp_ms": ("bigint",),
    "timestamp_type": ("string",),
    "timestampType": ("int",),
    "offset": ("bigint", "int"),
    "leader_epoch": ("int", "bigint"),
    "is_control": ("boolean",),
    "is_transactional": ("boolean",),
    "_corrupt": ("string",),
}
"""The columns that are written, or that say whether a row can be written, and the types that each
may have."""
LEFT_OUT: Final = frozenset(
    ("base_offset", "last_offset", "producer_id", "producer_epoch", "sequence", "control_type", "compression", "crc", "position", "segment")
)
"""What the source says about the batch that a record came from: a written record is in a new
one."""
LEVELS: Final = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131072, 22)}
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class SparkField(Protocol):
    """The part of a `StructField` that is used here."""

    name: str

    @property
    def dataType(self) -> object: ...


def check_topic(name: str) -> None:
    """Raises KmirrorError unless `name` is a legal Kafka topic name."""
    if _TOPIC.fullmatch(name) is None or name in (".", ".."):
        raise KmirrorError(f"{NAME}: '{name}' is not a valid topic name: 1 to 249 ASCII letters, digits, '.', '_' and '-'")


class NamedBatch(NamedTuple):
    """A micro-batch: `txnAppId` and `txnVersion`."""

    name: str
    number: int


@dataclass(frozen=True)
class WriteOptions:
    """The checked options of one write. Sizes in bytes, times in ms."""

    path: str
    topic: str | None = None
    partition_count: int | None = None
    codec: Codec = Codec(CompressionType.NONE, None)
    batch_bytes: int = DEFAULT_BATCH_BYTES
    is_log_append_time: bool = False
    has_timestamp_type: bool = False
    leader_epoch: int | None = None
    topic_ids: Mapping[str, Uuid] = field(default_factory=dict)
    topic_id: Uuid | None = None
    save_mode: str = ""
    batch: NamedBatch | None = None
    log_config: LogConfig = field(default_factory=LogConfig)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """KmirrorError with one line for what is unknown, missing or not allowed."""
        given = {name.lower(): value for name, value in options.items()}
        save_mode = given.pop(SAVE_MODE, "")
        known = {name.lower() for name in OPTIONS}
        unknown = sorted(set(given) - known)
        if unknown:
            raise KmirrorError(f"{NAME}: writing has no option {', '.join(unknown)}; the options are {', '.join(OPTIONS)}")
        topic = given.get("topic")
        if topic is not None:
            check_topic(topic)
        topic_ids, topic_id = _topic_ids(given.get("topicid"))
        timestamp_type = given.get("message.timestamp.type")
        if timestamp_type not in (None, "CreateTime", "LogAppendTime"):
            raise KmirrorError(f"{NAME}: option message.timestamp.type is 'CreateTime' or 'LogAppendTime', not '{timestamp_type}'")
        return cls(
            path=_local_path(given),
            topic=topic,
            partition_count=_number(given, "numPartitions", None, 1, (1 << 31) - 1),
            codec=_codec(given),
            batch_bytes=_number(given, "batch.size", DEFAULT_BATCH_BYTES, 1, 1 << 30) or DEFAULT_BATCH_BYTES,
            is_log_append_time=timestamp_type == "LogAppendTime",
            has_timestamp_type=timestamp_type is not None,
            leader_epoch=_number(given, "leaderEpoch", None, 0, (1 << 31) - 1),
            topic_ids=topic_ids,
            topic_id=topic_id,
            save_mode=save_mode,
            batch=_batch(given),
            log_config=LogConfig(
                segment_size=_number(given, "segment.bytes", LogConfig().segment_size, 1, (1 << 31) - 1) or 0,
                segment_ms=_number(given, "segment.ms", LONG_MAX, 1, LONG_MAX) or 0,
                index_interval=_number(given, "index.interval.bytes", LogConfig().index_interval, 0, (1 << 31) - 1) or 0,
            ),
        )

    def check_columns(self, fields: Iterable[SparkField]) -> None:
        """KmirrorError for a column that cannot be written, has a wrong type, or is missing."""
        types = {one.name: one.dataType.simpleString() for one in fields}  # type: ignore[attr-defined]
        for name, found in types.items():
            if name in LEFT_OUT:
                continue
            if name not in WRITTEN:
                raise KmirrorError(f"{NAME}: a column '{name}' cannot be written; the columns are {', '.join(WRITTEN)}")
            if found not in WRITTEN[name]:
                raise KmirrorError(f"{NAME}: column {name} must be of type {' or '.join(WRITTEN[name])}, not {found}")
        if "value" not in types:
            raise KmirrorError(f"{NAME}: there is no column value; it is required, and null in it makes a tombstone")
        if "topic" not in types and self.topic is None:
            raise KmirrorError(f"{NAME}: no topic; give a column topic, or option topic")
        if "timestamp_type" in types and "timestampType" in types:
            raise KmirrorError(f"{NAME}: columns timestamp_type and timestampType have the same meaning; drop one of them")


def _local_path(given: Mapping[str, str]) -> str:
    if not given.get("path"):
        raise KmirrorError(f'{NAME}: no path; use df.write.format("{NAME}").save("/a/log/dir")')
    scheme = given["path"].partition("://")[0].lower() if "://" in given["path"] else "file"
    if scheme != "file":
        raise KmirrorError(
            f"{NAME}: {given['path']}: a log must be written to a disk that the driver and all executors have, because it is written in place; write it there, then copy it"
        )
    return os.path.abspath(file_system_for(given["path"])[1])


def _batch(given: Mapping[str, str]) -> NamedBatch | None:
    name, number = given.get("txnappid"), _number(given, "txnVersion", None, 0, LONG_MAX)
    if name is None and number is None:
        return None
    if not name or number is None:
        raise KmirrorError(f"{NAME}: options txnAppId (who writes) and txnVersion (the micro-batch's number) can only be given together")
    return NamedBatch(name, number)


def _codec(given: Mapping[str, str]) -> Codec:
    name = given.get("compression.type", "none")
    try:
        codec = CompressionType.for_name(name)
    except ConfigError as error:
        raise KmirrorError(f"{NAME}: option compression.type is none, gzip, snappy, lz4 or zstd, not '{name}'") from error
    level = None
    for one, (least, most) in LEVELS.items():
        found = _number(given, f"compression.{one}.level", None, least, most)
        if one == codec.text:
            level = found
    if codec is CompressionType.GZIP and level == 0:
        raise KmirrorError(f"{NAME}: option compression.gzip.level is -1 or a number from 1 to 9, not '0'")
    return Codec(codec, level)


def _topic_ids(given: str | None) -> tuple[dict[str, Uuid], Uuid | None]:
    """Returns (ids by topic, the id of the only written topic): `topicId` is an id, or JSON of ids
    by topic."""
    if given is None:
        return {}, None
    try:
        if given.lstrip().startswith("{"):
            return {str(topic): Uuid.from_string(text) for topic, text in json.loads(given).items()}, None
        return {}, Uuid.from_string(given)
    except (ValueError, TypeError) as error:
        raise KmirrorError(f"{NAME}: option topicId is a topic's id, or JSON of ids by topic, not '{given}'") from error


def _number(given: Mapping[str, str], name: str, default: int | None, least: int, most: int) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise KmirrorError(f"{NAME}: option {name} is a number from {least} to {most}, not '{text}'")
    return number
