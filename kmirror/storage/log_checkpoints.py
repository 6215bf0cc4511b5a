"""The offset checkpoints of a broker's log directories: recovery points, log starts, high
watermarks.
"""

from __future__ import annotations

from collections.abc import Mapping

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.broker_logs import BrokerLogs
from kmirror.storage.log_dirs import LogDirs
from kmirror.storage.ports import LogPorts
from kmirror.storage.segment_files import storage_error


class LogCheckpoints:
    """Reads and writes the checkpoint files of the live directories; the logs own the offsets.

    A disk error takes the directory offline.
    """

    def __init__(self, dirs: LogDirs, logs: BrokerLogs, ports: LogPorts) -> None:
        self._dirs = dirs
        self._logs = logs
        self._ports = ports

    def write_recovery_points(self) -> None:
        for path in list(self._dirs.live):
            self.write_recovery_points_in(path)

    def write_log_start_offsets(self) -> None:
        for path in list(self._dirs.live):
            self.write_log_start_offsets_in(path)

    def write_in(self, path: str) -> None:
        """Writes recovery points and log starts, after logs were added to or removed from the
        directory.
        """
        self.write_recovery_points_in(path)
        self.write_log_start_offsets_in(path)

    def write_recovery_points_in(self, path: str) -> None:
        log_dir = self._dirs.live.get(path)
        if log_dir is None:
            return
        offsets = {log.topic_partition: log.recovery_point for log in self._logs.in_dir(path)}
        try:
            log_dir.recovery_points.write(offsets)
        except OSError as error:
            self._report(path, f"Disk error while writing recovery offsets checkpoint in directory {path}: {error}", error)

    def write_log_start_offsets_in(self, path: str) -> None:
        """Writes only the logs that begin inside their first segment. The start of the others is in
        the file names.
        """
        log_dir = self._dirs.live.get(path)
        if log_dir is None:
            return
        logs = {log.topic_partition: log for log in self._logs.in_dir(path)}
        offsets = {
            partition: log.log_start_offset for partition, log in logs.items() if log.log_start_offset > log.log_segments[0].base_offset
        }
        try:
            log_dir.log_start_offsets.write(offsets)
        except OSError as error:
            self._report(path, f"Disk error while writing log start offsets checkpoint in directory {path}: {error}", error)

    def read_high_watermarks(self, path: str) -> dict[TopicPartition, int]:
        """Reads replication-offset-checkpoint of a live dir.

        KAFKA_STORAGE_ERROR if it cannot be read or makes no sense; the dir is offline then.
        """
        log_dir = self._dirs.live.get(path)
        if log_dir is None:
            return {}
        try:
            return log_dir.high_watermarks.read()
        except OSError as error:
            raise storage_error(path, self._ports, f"Error while reading {log_dir.high_watermarks.path}", error) from error

    def write_high_watermarks(self, path: str, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Writes replication-offset-checkpoint; may run on a worker."""
        log_dir = self._dirs.live.get(path)
        if log_dir is not None:
            try:
                log_dir.high_watermarks.write(high_watermarks)
            except OSError as error:
                self._report(path, f"Error while writing {log_dir.high_watermarks.path}", error)

    def sync_renames_in(self, path: str) -> None:
        """Syncs a log dir once, after several of its logs were renamed. A sync for each would take
        seconds for a topic with a thousand partitions.
        """
        if path not in self._dirs.live:
            return
        try:
            self._ports.files.fsync_path(path)
        except OSError as error:
            self._report(path, f"Disk error while renaming deleted logs in directory {path}: {error}", error)

    def _report(self, path: str, message: str, error: OSError) -> None:
        self._ports.log_dir_failures.maybe_add_offline_log_dir(path, message, error)
