"""How a log tells its owner that the disk is at fault. Part of `UnifiedLog`.

An OSError takes the log directory offline and becomes KAFKA_STORAGE_ERROR, and so does every later use. Bytes that are not
what they must be become CORRUPT_MESSAGE, with the file and position in the text; the directory stays online.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from kmirror.common.errors import ApiException, CorruptFileError, Errors
from kmirror.storage.local_log import LocalLog
from kmirror.storage.segment_files import storage_error

log = logging.getLogger(__name__)


class LogIo:
    """Base of `UnifiedLog`: guards everything that touches the disk."""

    local_log: LocalLog

    def _check_online(self) -> None:
        parent_dir = self.local_log.parent_dir
        if self.local_log.ports.log_dir_failures.has_offline_log_dir(parent_dir):
            raise ApiException(Errors.KAFKA_STORAGE_ERROR, f"The log dir {parent_dir} is already offline due to a previous IO exception.")

    def _disk_error(self, message: str, error: OSError | CorruptFileError) -> ApiException:
        """What to raise for `error`, once it is reported or logged."""
        if isinstance(error, OSError):
            parent_dir = self.local_log.parent_dir
            return storage_error(parent_dir, self.local_log.ports, f"{message} in dir {parent_dir}", error)
        log.error("%s: %s", message, error)
        return ApiException(Errors.CORRUPT_MESSAGE, f"{message}: {error}")

    @contextmanager
    def _io(self, message: str) -> Iterator[None]:
        self._check_online()
        try:
            yield
        except (OSError, CorruptFileError) as error:
            raise self._disk_error(message, error) from error
