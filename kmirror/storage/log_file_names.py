"""File and directory names of logs (Kafka's `LogFileUtils` and the name rules of `LocalLog`).

Segment files are 20 zero-padded decimal digits and a suffix. A directory is `<topic>-<partition>`.
While a log is being deleted or moved, or if it was found stray, the name is
`<topic>-<partition>.<32 hex digits>-delete` (`-future`, `-stray`).
"""

from __future__ import annotations

from typing import Final

from kmirror.common.errors import KmirrorError
from kmirror.common.ports import Random
from kmirror.common.topic_partition import TopicPartition

LOG_FILE_SUFFIX: Final = ".log"
INDEX_FILE_SUFFIX: Final = ".index"
TIME_INDEX_FILE_SUFFIX: Final = ".timeindex"
TXN_INDEX_FILE_SUFFIX: Final = ".txnindex"
PRODUCER_SNAPSHOT_FILE_SUFFIX: Final = ".snapshot"
DELETED_FILE_SUFFIX: Final = ".deleted"
CLEANED_FILE_SUFFIX: Final = ".cleaned"
SWAP_FILE_SUFFIX: Final = ".swap"
DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
MAX_DIR_NAME_LENGTH: Final = 255
MAX_PARTITION: Final = (1 << 31) - 1


def log_file(directory: str, offset: int, suffix: str = "") -> str:
    return f"{directory}/{offset:020d}{LOG_FILE_SUFFIX}{suffix}"


def offset_index_file(directory: str, offset: int, suffix: str = "") -> str:
    return f"{directory}/{offset:020d}{INDEX_FILE_SUFFIX}{suffix}"


def time_index_file(directory: str, offset: int, suffix: str = "") -> str:
    return f"{directory}/{offset:020d}{TIME_INDEX_FILE_SUFFIX}{suffix}"


def transaction_index_file(directory: str, offset: int, suffix: str = "") -> str:
    return f"{directory}/{offset:020d}{TXN_INDEX_FILE_SUFFIX}{suffix}"


def producer_snapshot_file(directory: str, offset: int) -> str:
    return f"{directory}/{offset:020d}{PRODUCER_SNAPSHOT_FILE_SUFFIX}"


def offset_from_file_name(name: str) -> int:
    """The number before the first dot of a segment file's name (path or bare); ValueError if there
    is none.
    """
    digits = name.rsplit("/", 1)[-1].partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{name!r} does not begin with an offset")
    return int(digits)


def is_log_file(name: str) -> bool:
    return name.endswith(LOG_FILE_SUFFIX)


def is_index_file(name: str) -> bool:
    return name.endswith((INDEX_FILE_SUFFIX, TIME_INDEX_FILE_SUFFIX, TXN_INDEX_FILE_SUFFIX))


def log_dir_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def log_delete_dir_name(topic_partition: TopicPartition, random: Random) -> str:
    return _suffixed_dir_name(topic_partition, DELETE_DIR_SUFFIX, random, capped=True)


def log_future_dir_name(topic_partition: TopicPartition, random: Random) -> str:
    """The name may be longer than a file system allows; the caller refuses to move such a log."""
    return _suffixed_dir_name(topic_partition, FUTURE_DIR_SUFFIX, random, capped=False)


def log_stray_dir_name(topic_partition: TopicPartition, random: Random) -> str:
    return _suffixed_dir_name(topic_partition, STRAY_DIR_SUFFIX, random, capped=True)


def _suffixed_dir_name(topic_partition: TopicPartition, suffix: str, random: Random, *, capped: bool) -> str:
    ending = f"-{topic_partition.partition}.{random.token_bytes(16).hex()}{suffix}"
    topic = topic_partition.topic
    return (topic[: MAX_DIR_NAME_LENGTH - len(ending)] if capped else topic) + ending


def parse_topic_partition_name(directory: str) -> TopicPartition:
    """The partition of a log directory (path or bare name), also of a `-delete`, `-future` or
    `-stray` one.
    """
    name = directory.rstrip("/").rsplit("/", 1)[-1]
    for suffix in (DELETE_DIR_SUFFIX, FUTURE_DIR_SUFFIX, STRAY_DIR_SUFFIX):
        if name.endswith(suffix):
            name_without_suffix = name.rpartition(".")[0]
            break
    else:
        name_without_suffix = name
    topic, dash, partition = name_without_suffix.rpartition("-")
    if not dash or not topic or not (partition.isascii() and partition.isdigit()) or int(partition) > MAX_PARTITION:
        raise KmirrorError(
            f"{directory} is not named <topic>-<partition> and is no log directory of Kafka; move it out of the log directory"
        )
    return TopicPartition(topic, int(partition))


def replace_suffix(path: str, old_suffix: str, new_suffix: str) -> str:
    assert path.endswith(old_suffix), ("path has another suffix", path, old_suffix)
    return path[: len(path) - len(old_suffix)] + new_suffix
