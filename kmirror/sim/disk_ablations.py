"""Rules of disks that have no switch in the program. Each is taken out from here, for the time of
one run.

    disk_errors_are_no_bytes  an error of a full or failing disk during recovery proves nothing
                              against a segment
    read_errors_end_nothing   a block that recovery cannot read is not the end of the batches
    cut_reaches_future        what is cut off a log is also cut off the copy that is being moved,
                              and the copy is compared before it takes the log's place
    formatted_only            a log directory without meta.properties is refused
    appends_check_crc         a batch whose bytes do not match its CRC is appended nowhere
    disk_is_the_replicas      a disk that fails under a mirror's leader concerns that replica only:
                              nobody writes FAILED because of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kmirror.mirror.partition.mirror_partition import MirrorPartition
from kmirror.replica.log_dir_move import LogDirMove
from kmirror.sim.mirror_ablations import Replacement
from kmirror.storage import log_append, log_segment_recovery
from kmirror.storage.future_logs import FutureLogs
from kmirror.storage.log_loader import LogLoader
from kmirror.storage.log_segment_recovery import InvalidOffsetError
from kmirror.storage.meta_properties_ensemble import MetaPropertiesEnsemble


def _taken_for_corruption(recover_segment: Any) -> Any:
    def run(self: LogLoader, segment: Any, *arguments: Any) -> Any:
        try:
            return recover_segment(self, segment, *arguments)
        except OSError as error:
            raise InvalidOffsetError(str(error.filename), 0, str(error)) from error

    return run


def _end_of_batches(read_block: Any) -> Any:
    def read(*arguments: Any) -> Any:
        try:
            return read_block(*arguments)
        except OSError:
            return b""

    return read


def _nothing(original: Any) -> Any:
    return lambda *arguments: None


def _always(original: Any) -> Any:
    return lambda *arguments: True


def _with_empty_ones(verify: Any) -> Any:
    def run(self: MetaPropertiesEnsemble, files: Any, **named: Any) -> Any:
        self.empty.clear()
        return verify(self, files, **named)

    return run


class _Whatever(int):
    """A CRC that equals every other."""

    __hash__ = int.__hash__

    def __ne__(self, other: object) -> bool:
        return False


def _right_for_all(crc32c: Any) -> Any:
    return lambda data: _Whatever()


def _stored(storage_failed: Any) -> Any:
    def run(self: MirrorPartition, error: str) -> int:
        self._rejected = error
        return 0

    return run


DISK_REPLACEMENTS: Mapping[str, Sequence[Replacement]] = {
    "disk_errors_are_no_bytes": [(LogLoader, "_recover_segment", _taken_for_corruption)],
    "read_errors_end_nothing": [(log_segment_recovery, "read_block_with_batch", _end_of_batches)],
    "cut_reaches_future": [
        (FutureLogs, "cut", _nothing),
        (LogDirMove, "bring_into_range", _nothing),
        (LogDirMove, "compare_ends", _always),
    ],
    "formatted_only": [(MetaPropertiesEnsemble, "verify", _with_empty_ones)],
    "appends_check_crc": [(log_append, "crc32c", _right_for_all)],
    "disk_is_the_replicas": [(MirrorPartition, "_storage_failed", _stored)],
}
