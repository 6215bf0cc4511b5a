"""The topic id of a log, its `partition.metadata`, and the files whose creation an idle log
postpones.

A log that nothing was ever appended to (`is_deferred`) has only its folder and
`partition.metadata`, which is not synced. The first append creates the other files and writes the
id safely.
"""

from __future__ import annotations

from kmirror.common.errors import ApiException, Errors
from kmirror.common.uuid import Uuid
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.partition_metadata_file import PartitionMetadataFile


class LogTopicId:
    """Owner of the topic id, its file, and whether the log has other files."""

    __slots__ = ("_leader_epoch_cache", "_local_log", "is_deferred", "partition_metadata_file", "value")

    def __init__(
        self,
        local_log: LocalLog,
        leader_epoch_cache: LeaderEpochFileCache,
        topic_id: Uuid | None,
        *,
        noted_topic_id: Uuid | None,
        is_deferred: bool,
    ) -> None:
        """`noted_topic_id` was found in the folder of an idle log.

        INCONSISTENT_TOPIC_ID if the folder has another id than `topic_id`.
        """
        self.value = topic_id
        self.is_deferred = is_deferred
        self.partition_metadata_file = PartitionMetadataFile(local_log.ports.files, local_log.directory)
        self._local_log = local_log
        self._leader_epoch_cache = leader_epoch_cache
        if noted_topic_id is not None:
            self._check(noted_topic_id, topic_id)
            self.value = noted_topic_id
            self.partition_metadata_file.record_noted(noted_topic_id)
        elif is_deferred:
            if topic_id is not None:
                self.partition_metadata_file.record(topic_id)
        elif self.partition_metadata_file.exists():
            file_topic_id = self.partition_metadata_file.read()
            self._check(file_topic_id, topic_id)
            self.value = file_topic_id
        elif topic_id is not None:
            self._record(topic_id)

    def assign(self, topic_id: Uuid) -> None:
        """Sets the topic id; INCONSISTENT_TOPIC_ID if the log has another one."""
        self._check(self.value, topic_id)
        if self.value is None:
            self.value = topic_id
            self._record(topic_id)

    def write(self) -> None:
        """Writes a waiting id: synced, or for an idle log not synced."""
        if self.is_deferred:
            self.partition_metadata_file.note()
        else:
            self.partition_metadata_file.maybe_flush()

    def make_files(self) -> None:
        """Creates what an idle log postponed: its leader epochs and the files of its first
        segment.
        """
        if self.is_deferred:
            self.is_deferred = False
            self.partition_metadata_file.maybe_flush()
            self._leader_epoch_cache.end_deferral()
            self._local_log.segments.active_segment.create_files()

    def follow_renamed_folder(self) -> None:
        self.partition_metadata_file = PartitionMetadataFile(self._local_log.ports.files, self._local_log.directory)
        if self.is_deferred and self.value is not None:
            self.partition_metadata_file.record_noted(self.value)

    def _check(self, known: Uuid | None, assigned: Uuid | None) -> None:
        if known is not None and assigned is not None and known != assigned:
            raise ApiException(
                Errors.INCONSISTENT_TOPIC_ID,
                f"Tried to assign topic ID {assigned} to log for topic partition {self._local_log.topic_partition},"
                f"but log already contained topic ID {known}",
            )

    def _record(self, topic_id: Uuid) -> None:
        self.partition_metadata_file.record(topic_id)
        if not self.is_deferred:
            self._local_log.ports.scheduler.schedule_once("flush-metadata-file", self.partition_metadata_file.maybe_flush, 0)
