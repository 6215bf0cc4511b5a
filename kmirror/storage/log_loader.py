"""Opening a partition's folder: leftovers of swaps, crash recovery, producer state, log start (Kafka's `LogLoader`)."""

from __future__ import annotations

from kmirror.common.topic_partition import TopicPartition
from kmirror.storage.leader_epoch_file_cache import LeaderEpochFileCache
from kmirror.storage.log_config import LogConfig
from kmirror.storage.log_offset_metadata import LoadedLogOffsets
from kmirror.storage.log_segments import LogSegments
from kmirror.storage.ports import LogPorts
from kmirror.storage.producer_state_manager import ProducerStateManager


class LogLoader:
    """SKELETON (signature is final). Used once by `UnifiedLog.open`, which makes the empty LogSegments, the epoch cache (from its file) and an
    empty ProducerStateManager, calls `load`, and then builds the log on what it filled them with. Imports nothing of unified_log."""

    def __init__(
        self,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        ports: LogPorts,
        *,
        segments: LogSegments,
        leader_epoch_cache: LeaderEpochFileCache,
        producer_state_manager: ProducerStateManager,
        had_clean_shutdown: bool,
        log_start_offset_checkpoint: int,
        recovery_point_checkpoint: int,
    ) -> None: ...

    def load(self) -> LoadedLogOffsets:
        """Fill `segments`, the epoch cache and the producer state from the folder; CorruptFileError where Kafka refuses to start."""
        ...
