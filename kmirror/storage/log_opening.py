"""Makes a log's parts from its folder: new, idle, or loaded (and recovered) by `LogLoader`."""

from __future__ import annotations

from typing import NamedTuple

from kmirror.common.topic_partition import TopicPartition
from kmirror.common.uuid import Uuid
from kmirror.storage.checkpoint_file import parent_dir
from kmirror.storage.idle_folder import idle_folder
from kmirror.storage.leader_epoch_checkpoint_file import LeaderEpochCheckpointFile
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.local_log import LocalLog
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_file_names import parse_topic_partition_name
from kmirror.storage.log_loader import LogLoader
from kmirror.storage.log_offset_metadata import LogOffsetMetadata
from kmirror.storage.log_open_options import LogOpenOptions
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.ports import LogPorts, guarded_ports
from kmirror.storage.producer_state_manager import ProducerStateManager


class OpenedLog(NamedTuple):
    """The parts of a new `UnifiedLog`.

    A deferred log has only its folder and perhaps its topic id.
    """

    local_log: LocalLog
    log_start_offset: int
    leader_epoch_cache: LeaderEpochFileCache
    producer_state_manager: ProducerStateManager
    topic_id: Uuid | None
    """The id that the owner gave."""
    noted_topic_id: Uuid | None = None
    """The id that was found in the folder of an idle log."""
    is_deferred: bool = False


def open_log_folder(
    directory: str,
    config: LogConfig,
    ports: LogPorts,
    options: LogOpenOptions,
) -> OpenedLog:
    """See `UnifiedLog.open`."""
    topic_partition = parse_topic_partition_name(directory)
    ports = guarded_ports(ports, parent_dir(directory), str(topic_partition))
    if options.defer_files and options.log_start_offset == 0:
        found = idle_folder(ports.files, directory)
        if found.is_idle:
            return _idle_log(directory, topic_partition, config, ports, options, noted_topic_id=found.topic_id)
    ports.files.make_dirs(directory)
    segments = LogSegments(topic_partition)
    cache = LeaderEpochFileCache(topic_partition, LeaderEpochCheckpointFile(ports.files, directory), ports.scheduler)
    manager = ProducerStateManager(
        topic_partition,
        directory,
        files=ports.files,
        clock=ports.clock,
        config=options.producer_state_config,
        max_transaction_timeout_ms=options.max_transaction_timeout_ms,
    )
    offsets = LogLoader(
        directory,
        topic_partition,
        config,
        ports,
        options,
        segments=segments,
        leader_epoch_cache=cache,
        producer_state_manager=manager,
    ).load()
    local_log = LocalLog(
        directory,
        topic_partition,
        config,
        ports,
        segments=segments,
        recovery_point=offsets.recovery_point,
        next_offset_metadata=offsets.next_offset_metadata,
    )
    return OpenedLog(local_log, offsets.log_start_offset, cache, manager, options.topic_id)


def _idle_log(
    directory: str,
    topic_partition: TopicPartition,
    config: LogConfig,
    ports: LogPorts,
    options: LogOpenOptions,
    *,
    noted_topic_id: Uuid | None,
) -> OpenedLog:
    """A log that nothing was ever appended to: nothing is loaded, and no file is created before the
    first append.
    """
    segments = LogSegments(topic_partition)
    cache = LeaderEpochFileCache(
        topic_partition, LeaderEpochCheckpointFile(ports.files, directory, deferred=True), ports.scheduler, deferred=True
    )
    manager = ProducerStateManager(
        topic_partition,
        directory,
        files=ports.files,
        clock=ports.clock,
        config=options.producer_state_config,
        max_transaction_timeout_ms=options.max_transaction_timeout_ms,
        has_snapshots=False,
    )
    local_log = LocalLog(
        directory, topic_partition, config, ports, segments=segments, recovery_point=0, next_offset_metadata=LogOffsetMetadata(0, 0, 0)
    )
    segments.add(local_log.folder.open_segment(0, deferred=True))
    return OpenedLog(local_log, 0, cache, manager, options.topic_id, noted_topic_id, is_deferred=True)
