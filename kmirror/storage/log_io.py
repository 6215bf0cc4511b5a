"""How a log reports disk errors to its owner.

An OSError takes the log directory offline and becomes KAFKA_STORAGE_ERROR, as does every later use.
Corrupt bytes become CORRUPT_MESSAGE, with the file and position in the text; the directory stays
online.

The directory also stays online if a read or a flush finds no free descriptor
(`OUT_OF_DESCRIPTORS`): Kafka holds its files open and needs none here. The log is unchanged then,
so the only result is KAFKA_STORAGE_ERROR, which clients retry. The recovery point has not passed
what was not flushed, and the next flush includes it. While a log is being changed, such an error is
treated like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.common.ports import OUT_OF_DESCRIPTORS
from kmirror.storage.local_log import LocalLog
from kmirror.storage.segment_files import storage_error

log = logging.getLogger(__name__)


class LogIo:
    """Guards a log's use of its disk; owns whether the log is closed."""

    __slots__ = ("_local_log", "is_closed")

    def __init__(self, local_log: LocalLog) -> None:
        self.is_closed = False
        self._local_log = local_log

    def check_online(self) -> None:
        parent_dir = self._local_log.parent_dir
        if self._local_log.ports.log_dir_failures.has_offline_log_dir(parent_dir):
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"The log dir {parent_dir} is already offline due to a previous IO exception.")

    def error_of(self, message: str, error: OSError | CorruptFileError, *, leaves_log_alone: bool = False) -> ApiException:
        """Reports or logs `error` and returns what to raise.

        `leaves_log_alone`: it happened in a read or a flush.
        """
        if isinstance(error, OSError):
            if leaves_log_alone and error.errno in OUT_OF_DESCRIPTORS:
                log.error("%s: %s", message, error)
                return ApiException(Errors.KAFKA_STORAGE_ERROR, f"{message}: {error}")
            parent_dir = self._local_log.parent_dir
            return storage_error(parent_dir, self._local_log.ports, f"{message} in dir {parent_dir}", error)
        log.error("%s: %s", message, error)
        return ApiException(Errors.CORRUPT_MESSAGE, f"{message}: {error}")

    @contextmanager
    def guarded(self, message: str, *, leaves_log_alone: bool = False) -> Iterator[None]:
        self.check_online()
        try:
            yield
        except (OSError, CorruptFileError) as error:
            raise self.error_of(message, error, leaves_log_alone=leaves_log_alone) from error
